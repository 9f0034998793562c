/* Calls that are started and told of later, and elections. */

#include "fuzz.h"

/* A call that was started. */
struct flight {
    char what;
    bool told;
};

static void lands(struct flight *flight, bool given, quorlock_error_t *failure) {
    int32_t code = quorlock_error_kind(failure);
    if (flight->told || given == (failure != NULL) || code == QUORLOCK_INTERNAL || (failure && !quorlock_kind_name(code))) {
        printf("seed %" PRIu64 ": a started call (%c) ended %s, %s\n", seed, flight->what, flight->told ? "twice" : "once",
               failure ? quorlock_error_text(failure) : "without an error");
        fflush(stdout);
        abort();
    }
    flight->told = true;
    quorlock_error_free(failure);
    free(flight);
    atomic_fetch_add(&ended, 1);
}

static void on_unlocked(void *userdata, bool was_held, quorlock_error_t *failure) {
    (void)was_held;
    lands(userdata, !failure, failure);
}

static void on_locked(void *userdata, quorlock_lease_t *lease, quorlock_error_t *failure) {
    atomic_fetch_add(&arrived, lease != NULL);
    lands(userdata, lease != NULL, failure);
    /* From a callback, too. */
    if (!lease) return;
    struct flight *flight = calloc(1, sizeof *flight);
    flight->what = 'c';
    atomic_fetch_add(&started, 1);
    if (quorlock_unlock_start(lease, NULL, flight, on_unlocked, NULL) != QUORLOCK_OK) {
        atomic_fetch_sub(&started, 1);
        free(flight);
    }
    quorlock_lease_free(lease);
}

static void on_all_locked(void *userdata, quorlock_leases_t *leases, quorlock_error_t *failure) {
    atomic_fetch_add(&arrived, leases != NULL);
    lands(userdata, leases != NULL, failure);
    quorlock_leases_free(leases);
}

static const quorlock_queue_t *some_queue(struct fuzz *f) {
    return draw(f, 3) ? SOME(queues) : draw(f, 2) ? shared_queue : NULL;
}

/* Calls that are started and whose callbacks come by a queue, or without one. */
void started_call(struct fuzz *f) {
    const quorlock_queue_t *queue = some_queue(f);
    const quorlock_cancel_t *cancel = draw(f, 2) ? NULL : SOME(cancels);
    const quorlock_lock_t *lock = draw(f, 3) ? SOME(locks) : shared_locks[draw(f, SHARED)];
    size_t at = draw(f, POOL);
    quorlock_queue_t **place = SLOT(queues), *made = NULL;
    int which = (int)draw(f, 10);
    struct flight *flight = NULL;
    if (which < 4) {
        flight = calloc(1, sizeof *flight);
        flight->what = "luLU"[which];
        /* Before the call, for its end may come first. */
        atomic_fetch_add(&started, 1);
    }
    bool wanted = draw(f, 32);
    switch (which) {
    case 0: CODE(quorlock_lock_start(lock, some_wait(f), cancel, queue, flight, wanted ? on_locked : NULL, error)); break;
    case 1: CODE(quorlock_unlock_start(SOME(leases), queue, flight, wanted ? on_unlocked : NULL, error)); break;
    case 2:
        CODE(quorlock_lock_all_start(SOME(several), some_wait(f), cancel, queue, flight, wanted ? on_all_locked : NULL, error));
        break;
    case 3: CODE(quorlock_unlock_all_start(SOME(together), queue, flight, wanted ? on_unlocked : NULL, error)); break;
    case 4:
        CODE(quorlock_lease_set_lost_callback_on(f->leases[at], queue, &f->told[at], draw(f, 4) ? on_lost : NULL, error));
        break;
    case 5:
        CODE(quorlock_leases_set_lost_callback_on(f->together[at], queue, &f->told_together[at], draw(f, 4) ? on_lost : NULL,
                                                  error));
        break;
    case 6:
        if (draw(f, 2)) CODE(quorlock_lease_set_stop_callback(f->leases[at], &f->stopped[at], on_lost, error));
        else CODE(quorlock_leases_set_stop_callback(f->together[at], &f->stopped_together[at], on_lost, error));
        break;
    case 7:
        if ((quorlock_queue_fd(queue) < 0) != !queue) broken(f, "a descriptor");
        quorlock_queue_dispatch(queue);
        break;
    case 8: quorlock_queue_dispatch(shared_queue); break;
    default:
        if (draw(f, 4)) break;
        CODE(quorlock_queue_new(draw(f, 16) ? &made : NULL, error));
        if ((f->last == QUORLOCK_OK) != (made != NULL)) broken(f, "a queue");
        quorlock_queue_free(*place);
        *place = made;
    }
    if (flight && f->last != QUORLOCK_OK) {
        /* Its callback is never called. */
        atomic_fetch_sub(&started, 1);
        free(flight);
    }
}

/* A run on a name that nobody else has, and its work. */
struct run {
    struct fuzz *f;
    quorlock_election_t *election;
    quorlock_cancel_t *cancel;
    int terms, stops;
};

static int32_t work(void *userdata, const quorlock_lease_t *term, char *why, size_t room) {
    struct run *run = userdata;
    struct fuzz *f = run->f;
    if (run->stops != run->terms++) broken(f, "work within work");
    if (quorlock_lease_fence(term) >> 53) broken(f, "a fence of a term");
    if (!draw(f, 4)) CODE(quorlock_election_resign(run->election, NULL, error));
    if (draw(f, 2) || run->terms == 3) {
        /* Neither a pause nor a campaign after this. */
        quorlock_cancel(run->cancel);
        return (int32_t)some_ms(f);
    }
    if (draw(f, 2)) memset(why, 'y', room);
    return 0;
}

static void on_stopped(void *userdata) { ++((struct run *)userdata)->stops; }

static void run_call(struct fuzz *f) {
    char name[16];
    snprintf(name, sizeof name, "run-%d", f->number);
    struct run run = {f, NULL, quorlock_cancel_new(), 0, 0};
    CODE(quorlock_election_new(shared_client, name, strlen(name), NULL, &run.election, error));
    bool again = draw(f, 2);
    CODE(quorlock_election_run(run.election, again, run.cancel, &run, draw(f, 16) ? work : NULL, NULL, on_stopped, error));
    if (run.stops != run.terms) broken(f, "work that has not stopped");
    quorlock_election_free(run.election);
    quorlock_cancel_free(run.cancel);
}

void election_call(struct fuzz *f) {
    size_t len;
    const char *text = some_text(f, &len);
    quorlock_election_t **place = SLOT(elections), *made = NULL;
    const quorlock_election_t *election = SOME(elections);
    quorlock_lease_t **lease = SLOT(leases), *term = NULL;
    quorlock_leadership_t *found = NULL;
    bool held, *was_held = draw(f, 2) ? &held : NULL;
    switch (draw(f, 6)) {
    case 0:
        CODE(quorlock_election_new(draw(f, 2) ? shared_client : SOME(clients), text, len, SOME(lock_options), &made, error));
        if ((f->last == QUORLOCK_OK) != (made != NULL)) broken(f, "quorlock_election_new");
        if (!made) return;
        quorlock_election_free(*place);
        *place = made;
        return;
    case 1: CODE(quorlock_election_resign(election, was_held, error)); return;
    case 2: CODE(quorlock_election_leader(election, &found, error)); break;
    case 3: {
        quorlock_observer_t *observer = NULL;
        CODE(quorlock_election_observe(election, some_ms(f), &observer, error));
        if ((f->last == QUORLOCK_OK) != (observer != NULL)) broken(f, "an observer");
        /* The first one comes at once. */
        CODE(quorlock_observer_next(observer, draw(f, 2) ? NULL : SOME(cancels), draw(f, 16) ? &found : NULL, error));
        quorlock_observer_free(observer);
        break;
    }
    case 4:
        if (!draw(f, 4)) run_call(f);
        return;
    default:
        CODE(quorlock_election_campaign(election, some_wait(f), draw(f, 2) ? NULL : SOME(cancels), &term, error));
        if ((f->last == QUORLOCK_OK) != (term != NULL)) broken(f, "a term");
        if (!term) return;
        f->holds++;
        quorlock_election_is_leader(election);
        quorlock_lease_free(*lease);
        *lease = term;
        return;
    }
    if ((f->last == QUORLOCK_OK) != (found != NULL)) broken(f, "a leadership");
    if (!found) return;
    quorlock_holder_t leader = {0};
    CODE(quorlock_leadership_leader(found, &leader, draw(f, sizeof leader + 9), error));
    if (leader.votes && !quorlock_leadership_is_known(found)) broken(f, "a leader that is not known");
    quorlock_leadership_free(found);
}
