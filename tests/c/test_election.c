/* Tests of elections: candidates, the work of a leader, and who looks on. */

#include "test.h"

static quorlock_election_t *election_with_ttl(quorlock_client_t *client, int64_t ttl_ms) {
    quorlock_lock_options_t *options = quorlock_lock_options_new();
    quorlock_lock_options_set_ttl(options, ttl_ms);
    quorlock_election_t *election = NULL;
    WORKS(quorlock_election_new(client, "orders:42", 9, options, &election, &error));
    quorlock_lock_options_free(options);
    return election;
}

static quorlock_election_t *election_of(quorlock_client_t *client) { return election_with_ttl(client, 10000); }

static quorlock_lease_t *led(const quorlock_election_t *election) {
    quorlock_lease_t *term = NULL;
    WORKS(quorlock_election_campaign(election, QUORLOCK_DEFAULT, NULL, &term, &error));
    CHECK(quorlock_lease_is_held(term) && quorlock_election_is_leader(election));
    return term;
}

/* How many votes who leads has, and with which fence. */
static uint64_t leader_of(const quorlock_election_t *election, uint64_t *fence) {
    quorlock_leadership_t *found = NULL;
    quorlock_holder_t leader = {0};
    WORKS(quorlock_election_leader(election, &found, &error));
    CHECK(quorlock_leadership_is_known(found));
    WORKS(quorlock_leadership_leader(found, &leader, sizeof leader, &error));
    CHECK(!leader.votes == !leader.label && !leader.votes == !leader.fence);
    if (fence) *fence = leader.fence;
    quorlock_leadership_free(found);
    return leader.votes;
}

/* A candidate that runs on a thread of its own, and what its work does and has seen. */
struct candidate {
    const quorlock_election_t *election;
    bool again;
    const quorlock_cancel_t *cancel;
    int32_t answer;   /* of its work */
    bool ends_at_loss; /* else when it is let go on */
    pthread_t thread, of_work, of_loss;
    sem_t leads, told, go_on, stopped;
    int terms, inside, losses, stops;
    int32_t state, code;
    uint64_t fence;
};

static int32_t work(void *userdata, const quorlock_lease_t *term, char *why, size_t room) {
    struct candidate *candidate = userdata;
    CHECK(++candidate->inside == 1 && quorlock_lease_is_held(term));
    CHECK(quorlock_lease_fence(term) > candidate->fence);
    candidate->fence = quorlock_lease_fence(term);
    candidate->of_work = pthread_self();
    candidate->terms++;
    sem_post(&candidate->leads);
    CHECK(comes(&candidate->go_on));
    if (candidate->answer < 0) snprintf(why, room, "out of paper");
    candidate->inside--;
    return candidate->answer;
}

static void lost(void *userdata, int32_t state) {
    struct candidate *candidate = userdata;
    candidate->losses++;
    candidate->state = state;
    candidate->of_loss = pthread_self();
    sem_post(&candidate->told);
    if (candidate->ends_at_loss) sem_post(&candidate->go_on);
}

static void stopped(void *userdata) {
    struct candidate *candidate = userdata;
    CHECK(candidate->inside == 0 && pthread_equal(candidate->of_work, pthread_self()));
    candidate->stops++;
    sem_post(&candidate->stopped);
}

static void *candidate_thread(void *argument) {
    struct candidate *candidate = argument;
    candidate->code = quorlock_election_run(candidate->election, candidate->again, candidate->cancel, candidate, work, lost,
                                            stopped, NULL);
    return NULL;
}

static void start_candidate(struct candidate *candidate, const quorlock_election_t *election) {
    sem_t *all[] = {&candidate->leads, &candidate->told, &candidate->go_on, &candidate->stopped};
    for (size_t at = 0; at < sizeof all / sizeof *all; at++) sem_init(all[at], 0, 0);
    candidate->election = election;
    pthread_create(&candidate->thread, NULL, candidate_thread, candidate);
}

static int32_t finish_candidate(struct candidate *candidate) {
    pthread_join(candidate->thread, NULL);
    return candidate->code;
}

/* Waits until a call of the client stands in a queue, but not forever. */
static bool comes_to_queue(const quorlock_client_t *client) {
    for (int left = 6000; left; left--) {
        quorlock_stats_t stats;
        WORKS(quorlock_client_stats(client, &stats, sizeof stats, &error));
        if (stats.queued) return true;
        nap(5);
    }
    return false;
}

static void the_next_candidate_leads_when_one_resigns(void) {
    quorlock_client_t *ours = client_of("memory://c-resigns"), *theirs = client_of("memory://c-resigns");
    quorlock_election_t *elections[] = {election_of(ours), election_of(theirs)};
    struct candidate first = {.ends_at_loss = true}, second = {.ends_at_loss = true};
    bool was_held = true;
    WORKS(quorlock_election_resign(elections[0], &was_held, &error));
    CHECK(!was_held && leader_of(elections[1], NULL) == 0);
    start_candidate(&first, elections[0]);
    CHECK(comes(&first.leads));
    uint64_t fence = 0;
    CHECK(quorlock_election_is_leader(elections[0]) && leader_of(elections[1], &fence) == 1);
    CHECK(fence == first.fence);
    start_candidate(&second, elections[1]);
    /* It goes behind the other, and leads again after that. */
    CHECK(comes_to_queue(theirs));
    CHECK(!quorlock_election_is_leader(elections[1]));
    WORKS(quorlock_election_resign(elections[0], &was_held, &error));
    CHECK(was_held);
    /* Its work was told so on this thread. */
    CHECK(first.losses == 1 && first.state == QUORLOCK_LEASE_RELEASED && pthread_equal(first.of_loss, pthread_self()));
    CHECK(comes(&second.leads) && second.fence > first.fence && comes(&first.stopped));
    first.answer = second.answer = 0;
    sem_post(&second.go_on);
    CHECK(finish_candidate(&second) == QUORLOCK_OK && second.terms == 1 && second.losses == 0 && second.stops == 1);
    CHECK(comes(&first.leads) && first.terms == 2 && first.fence > second.fence);
    sem_post(&first.go_on);
    CHECK(finish_candidate(&first) == QUORLOCK_OK && first.losses == 1 && first.stops == 2);
    CHECK(leader_of(elections[0], NULL) == 0);
    WORKS(quorlock_election_resign(elections[0], &was_held, &error));
    CHECK(!was_held);
    quorlock_election_free(elections[0]);
    quorlock_election_free(elections[1]);
    quorlock_client_free(ours);
    quorlock_client_free(theirs);
}

static void a_loss_is_told_and_work_ends_before_it_begins_again(void) {
    quorlock_client_t *ours = client_of("memory://c-led"), *theirs = client_of("memory://c-led");
    /* So that a renewal comes soon. */
    quorlock_election_t *election = election_with_ttl(ours, 600), *others = election_of(theirs);
    quorlock_lock_t *operators = lock_of(theirs, NULL);
    struct candidate candidate = {.answer = 0};
    start_candidate(&candidate, election);
    CHECK(comes(&candidate.leads));
    WORKS(quorlock_lock_force_release(operators, QUORLOCK_ANY_FENCE, NULL, NULL, &error));
    CHECK(comes(&candidate.told) && candidate.losses == 1 && candidate.state == QUORLOCK_LEASE_FORCED);
    CHECK(!pthread_equal(candidate.of_loss, candidate.of_work) && !quorlock_election_is_leader(election));
    /* Another leads meanwhile, and not this one, which works on. */
    quorlock_lease_t *term = led(others);
    CHECK(quorlock_lease_fence(term) > candidate.fence && candidate.terms == 1 && candidate.stops == 0);
    bool was_held = true;
    WORKS(quorlock_election_resign(election, &was_held, &error));
    CHECK(!was_held);
    quorlock_lease_free(term);
    sem_post(&candidate.go_on);
    /* Though it returned 0. */
    CHECK(comes(&candidate.stopped) && comes(&candidate.leads) && candidate.terms == 2);
    sem_post(&candidate.go_on);
    CHECK(finish_candidate(&candidate) == QUORLOCK_OK && candidate.losses == 1 && candidate.stops == 2);
    quorlock_lock_free(operators);
    quorlock_election_free(election);
    quorlock_election_free(others);
    quorlock_client_free(ours);
    quorlock_client_free(theirs);
}

/* Waits for a line with this part, and keeps it until go_on: lines of tests before this one may come first. */
static bool logs(struct seen *log, const char *part) {
    while (comes(&log->called)) {
        if (has(log->line, part)) return true;
        sem_post(&log->go_on);
    }
    return false;
}

static void work_that_fails_campaigns_again(void) {
    quorlock_client_t *client = some_client();
    quorlock_election_t *election = election_of(client);
    struct seen logged;
    seen_init(&logged);
    logged.wait = true;
    quorlock_set_log_callback(&logged, on_log);
    struct candidate candidate = {.answer = -1};
    start_candidate(&candidate, election);
    CHECK(comes(&candidate.leads));
    sem_post(&candidate.go_on);
    CHECK(logs(&logged, "campaigns again in ") && logged.state == QUORLOCK_LOG_WARN);
    CHECK(has(logged.line, "orders:42") && has(logged.line, ": out of paper"));
    sem_post(&logged.go_on);
    CHECK(candidate.stops == 1 && candidate.losses == 0 && leader_of(election, NULL) == 0);
    /* One whose term is over does not pause. */
    candidate.answer = 7;
    CHECK(comes(&candidate.leads));
    WORKS(quorlock_election_resign(election, NULL, &error));
    sem_post(&candidate.go_on);
    CHECK(logs(&logged, "whose term is over: it returned 7") && logged.state == QUORLOCK_LOG_INFO);
    logged.wait = false;
    sem_post(&logged.go_on);
    candidate.answer = 0;
    CHECK(comes(&candidate.leads));
    sem_post(&candidate.go_on);
    CHECK(finish_candidate(&candidate) == QUORLOCK_OK && candidate.terms == 3 && candidate.stops == 3);
    quorlock_set_log_callback(NULL, NULL);
    quorlock_election_free(election);
    quorlock_client_free(client);
}

static void what_blocks_withholds_no_end_of_a_term(void) {
    quorlock_client_t *ours = client_of("memory://c-blocked"), *theirs = client_of("memory://c-blocked");
    quorlock_election_t *election = election_with_ttl(ours, 600);
    quorlock_lock_options_t *options = quorlock_lock_options_new();
    quorlock_lock_options_set_ttl(options, 200);
    quorlock_lock_options_set_renew(options, false);
    quorlock_lock_t *brief = NULL, *taken = NULL;
    WORKS(quorlock_lock_new(ours, "brief", 5, options, &brief, &error));
    WORKS(quorlock_lock_new(theirs, "orders:42", 9, NULL, &taken, &error));
    quorlock_lock_options_free(options);
    struct seen log, blocks;
    seen_init(&log);
    seen_init(&blocks);
    log.wait = blocks.wait = true;
    struct candidate candidate = {.ends_at_loss = true};
    start_candidate(&candidate, election);
    CHECK(comes(&candidate.leads));
    quorlock_set_log_callback(&log, on_log);
    quorlock_lease_t *lease = held(brief);
    WORKS(quorlock_lease_set_lost_callback(lease, &blocks, on_lost, &error));
    CHECK(comes(&log.called) && comes(&blocks.called));
    /* The work is told to stop, and stops, while the line and the callback still block. */
    WORKS(quorlock_lock_force_release(taken, QUORLOCK_ANY_FENCE, NULL, NULL, &error));
    CHECK(comes(&candidate.told) && comes(&candidate.stopped));
    CHECK(sem_trywait(&log.over) != 0 && sem_trywait(&blocks.over) != 0);
    log.wait = false;
    sem_post(&blocks.go_on);
    sem_post(&log.go_on);
    quorlock_set_log_callback(NULL, NULL);
    /* The next term. */
    CHECK(comes(&candidate.leads));
    sem_post(&candidate.go_on);
    CHECK(finish_candidate(&candidate) == QUORLOCK_OK && candidate.losses == 1 && comes(&blocks.over));
    quorlock_lease_free(lease);
    quorlock_lock_free(brief);
    quorlock_lock_free(taken);
    quorlock_election_free(election);
    quorlock_client_free(ours);
    quorlock_client_free(theirs);
}

static void a_run_is_cancelled(void) {
    quorlock_client_t *ours = client_of("memory://c-run"), *theirs = client_of("memory://c-run");
    quorlock_election_t *election = election_of(ours), *others = election_of(theirs);
    /* While it campaigns. */
    quorlock_lease_t *term = led(others);
    quorlock_cancel_t *cancels[] = {quorlock_cancel_new(), quorlock_cancel_new(), quorlock_cancel_new()};
    struct candidate waits = {.cancel = cancels[0]};
    start_candidate(&waits, election);
    CHECK(comes_to_queue(ours));
    quorlock_cancel(cancels[0]);
    CHECK(finish_candidate(&waits) == QUORLOCK_CANCELLED && waits.terms == 0);
    quorlock_lease_free(term);
    /* While it pauses: its work has failed. */
    struct candidate pauses = {.cancel = cancels[1], .answer = -1};
    start_candidate(&pauses, election);
    CHECK(comes(&pauses.leads));
    sem_post(&pauses.go_on);
    CHECK(comes(&pauses.stopped));
    quorlock_cancel(cancels[1]);
    CHECK(finish_candidate(&pauses) == QUORLOCK_CANCELLED && pauses.terms == 1);
    /* While it works: that ends by itself, and is not begun again. The token may be freed meanwhile. */
    struct candidate works = {.cancel = cancels[2], .again = true};
    struct timespec begun, since;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    start_candidate(&works, election);
    CHECK(comes(&works.leads));
    sem_post(&works.go_on);
    CHECK(comes(&works.leads) && works.terms == 2);
    /* Not as often as nodes answer. */
    clock_gettime(CLOCK_MONOTONIC, &since);
    CHECK((since.tv_sec - begun.tv_sec) * 1000 + (since.tv_nsec - begun.tv_nsec) / 1000000 >= 99);
    quorlock_cancel(cancels[2]);
    quorlock_cancel_free(cancels[2]);
    sem_post(&works.go_on);
    CHECK(finish_candidate(&works) == QUORLOCK_CANCELLED && works.terms == 2 && works.stops == 2 && works.losses == 0);
    CHECK(leader_of(others, NULL) == 0);
    /* The client is closed: its term is lost, and there is no other. */
    struct candidate closed = {.ends_at_loss = true};
    start_candidate(&closed, election);
    CHECK(comes(&closed.leads));
    WORKS(quorlock_client_close(ours, &error));
    CHECK(finish_candidate(&closed) == QUORLOCK_CLOSED && closed.state == QUORLOCK_LEASE_CLOSED && closed.stops == 1);
    quorlock_cancel_free(cancels[0]);
    quorlock_cancel_free(cancels[1]);
    quorlock_election_free(election);
    quorlock_election_free(others);
    quorlock_client_free(ours);
    quorlock_client_free(theirs);
}

static void nobody_enters_a_term_again(void) {
    quorlock_client_t *client = some_client();
    quorlock_election_t *election = election_of(client), *unmade = NULL;
    quorlock_lease_t *term = led(election), *none = NULL;
    FAILS(QUORLOCK_CONTENDED, quorlock_election_campaign(election, 0, NULL, &none, &error));
    FAILS(QUORLOCK_TIMEOUT, quorlock_election_campaign(election, 20, NULL, &none, &error));
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_election_campaign(election, -7, NULL, &none, &error));
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_election_campaign(election, 0, NULL, NULL, &error));
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_election_run(election, false, NULL, NULL, NULL, lost, stopped, &error));
    /* Nor does the thread that has it, by a lock. */
    quorlock_lock_t *lock = lock_of(client, NULL);
    FAILS(QUORLOCK_CONTENDED, quorlock_try_lock(lock, &none, &error));
    CHECK(quorlock_lease_is_held(term) && !none);
    quorlock_lease_free(term);
    CHECK(!quorlock_election_is_leader(election));
    quorlock_lock_options_t *options = quorlock_lock_options_new();
    quorlock_lock_options_set_owner(options, "me", 2);
    CHECK(quorlock_election_new(client, "a", 1, options, &unmade, &error) == QUORLOCK_INVALID_ARGUMENT && !unmade);
    CHECK(has(quorlock_error_message(error), "owner"));
    FAILS(QUORLOCK_INVALID_ARGUMENT, QUORLOCK_INVALID_ARGUMENT);
    quorlock_lock_options_free(options);
    /* Nor do several lead: what many hold is no election. */
    for (int many = 0; many < 2; many++) {
        options = quorlock_lock_options_new();
        CHECK((many ? quorlock_lock_options_set_slots(options, 2) : quorlock_lock_options_set_shared(options, true)) ==
              QUORLOCK_OK);
        CHECK(quorlock_election_new(client, "a", 1, options, &unmade, &error) == QUORLOCK_INVALID_ARGUMENT && !unmade);
        CHECK(has(quorlock_error_message(error), many ? "leave slots out" : "leave shared out"));
        FAILS(QUORLOCK_INVALID_ARGUMENT, QUORLOCK_INVALID_ARGUMENT);
        quorlock_lock_options_free(options);
    }
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_election_new(client, "a{b", 3, NULL, &unmade, &error));
    quorlock_lock_free(lock);
    quorlock_election_free(election);
    quorlock_client_free(client);
}

/* The next change: how many votes who leads has, and the fence; -1 where it is not known. */
static int next_leader(const quorlock_observer_t *observer, uint64_t *fence) {
    quorlock_leadership_t *now = NULL;
    quorlock_holder_t leader = {0};
    WORKS(quorlock_observer_next(observer, NULL, &now, &error));
    WORKS(quorlock_leadership_leader(now, &leader, sizeof leader, &error));
    int votes = quorlock_leadership_is_known(now) ? (int)leader.votes : -1;
    if (fence) *fence = leader.fence;
    quorlock_leadership_free(now);
    return votes;
}

static void observers_see_each_leader(void) {
    quorlock_client_t *client = some_client();
    quorlock_election_t *election = election_of(client);
    quorlock_observer_t *observer = NULL, *never = NULL;
    WORKS(quorlock_election_observe(election, 10, &observer, &error));
    uint64_t fence = 77;
    CHECK(next_leader(observer, &fence) == 0 && fence == 0);
    quorlock_lease_t *term = led(election);
    CHECK(next_leader(observer, &fence) == 1 && fence == quorlock_lease_fence(term));
    /* Nothing changes, and the wait is ended. */
    quorlock_cancel_t *cancel = quorlock_cancel_new();
    quorlock_leadership_t *now = NULL;
    quorlock_cancel(cancel);
    FAILS(QUORLOCK_CANCELLED, quorlock_observer_next(observer, cancel, &now, &error));
    quorlock_cancel_free(cancel);
    WORKS(quorlock_unlock(term, NULL, &error));
    quorlock_lease_free(term);
    CHECK(next_leader(observer, NULL) == 0);
    WORKS(quorlock_election_observe(election, 0, &never, &error));
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_observer_next(never, NULL, &now, &error));
    quorlock_observer_free(never);
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_election_observe(election, -5, &never, &error));
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_observer_next(observer, NULL, NULL, &error));
    WORKS(quorlock_client_close(client, &error));
    FAILS(QUORLOCK_CLOSED, quorlock_observer_next(observer, NULL, &now, &error));
    CHECK(!now);
    quorlock_observer_free(observer);
    quorlock_election_free(election);
    quorlock_client_free(client);
    /* Two of three nodes are nowhere. */
    const char *nodes[] = {"memory://c-observed", "redis://127.0.0.1:1", "redis://127.0.0.1:2"};
    quorlock_client_options_t *options = quorlock_client_options_new();
    quorlock_client_options_set_nodes(options, nodes, 3);
    WORKS(quorlock_client_new(options, &client, &error));
    quorlock_client_options_free(options);
    election = election_of(client);
    WORKS(quorlock_election_observe(election, QUORLOCK_DEFAULT, &observer, &error));
    CHECK(next_leader(observer, NULL) == -1);
    FAILS(QUORLOCK_QUORUM_UNAVAILABLE, quorlock_election_leader(election, &now, &error));
    quorlock_observer_free(observer);
    quorlock_election_free(election);
    quorlock_client_free(client);
}

#ifndef _WIN32
/* Work in which the process forks; the child comes back as the parent does, and is told that it leads nothing. */
struct forks {
    pid_t child;
    int stops;
};

static int32_t work_that_forks(void *userdata, const quorlock_lease_t *term, char *why, size_t room) {
    struct forks *forks = userdata;
    fflush(stdout);
    forks->child = fork();
    (void)why;
    (void)room;
    if (forks->child == 0) CHECK(!quorlock_lease_is_held(term) && quorlock_lease_fence(term) == 0);
    return 0;
}

static void stops(void *userdata) { ++((struct forks *)userdata)->stops; }

static void a_child_that_is_forked_within_the_work_leads_nothing(void) {
    quorlock_client_t *client = some_client(), *unused = some_client();
    quorlock_election_t *election = election_of(client), *anew = election_of(unused);
    struct forks forks = {0, 0};
    int32_t code = quorlock_election_run(election, false, NULL, &forks, work_that_forks, NULL, stops, &error);
    if (forks.child == 0) {
        broken = 0;
        FAILS(QUORLOCK_FORKED, code);
        CHECK(forks.stops == 0 && !quorlock_election_is_leader(election));
        FAILS(QUORLOCK_FORKED, quorlock_election_resign(election, NULL, &error));
        quorlock_election_free(election);
        /* One that was not used before is the child's, too. */
        quorlock_lease_free(led(anew));
        quorlock_election_free(anew);
        quorlock_client_free(unused);
        fflush(stdout);
        /* Not an exit: a leak checker would count what the parent's threads hold, which are not here. */
        execlp(broken ? "false" : "true", "true", (char *)NULL);
        _exit(1);
    }
    CHECK(code == QUORLOCK_OK && forks.stops == 1 && leader_of(election, NULL) == 0);
    int status = -1;
    waitpid(forks.child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    quorlock_election_free(election);
    quorlock_election_free(anew);
    quorlock_client_free(client);
    quorlock_client_free(unused);
}
#endif

const struct test election_tests[] = {
    TEST(the_next_candidate_leads_when_one_resigns), TEST(a_loss_is_told_and_work_ends_before_it_begins_again),
    TEST(work_that_fails_campaigns_again), TEST(what_blocks_withholds_no_end_of_a_term), TEST(a_run_is_cancelled), TEST(nobody_enters_a_term_again),
    TEST(observers_see_each_leader),
#ifndef _WIN32
    TEST(a_child_that_is_forked_within_the_work_leads_nothing),
#endif
    {NULL, NULL}};
