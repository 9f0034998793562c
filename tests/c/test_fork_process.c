/* Tests of forks: what a child may do with what it has inherited, and with what it makes itself. */

#include "test.h"

#include <signal.h>

struct inherited {
    quorlock_client_t *client;
    quorlock_lock_t *lock;
    quorlock_lease_t *lease;
    quorlock_cancel_t *cancel;
    struct seen *seen;
};

/* What a forked child may do with what it has inherited: nothing, and it is told so. */
static void in_the_child(struct inherited *from) {
    quorlock_lease_t *lease = NULL;
    quorlock_lock_t *lock = NULL;
    quorlock_stats_t seen;
    FAILS(QUORLOCK_FORKED, quorlock_lock(from->lock, 0, NULL, &lease, &error));
    FAILS(QUORLOCK_FORKED, quorlock_try_lock(from->lock, &lease, &error));
    FAILS(QUORLOCK_FORKED, quorlock_lock_release(from->lock, NULL, &error));
    FAILS(QUORLOCK_FORKED, quorlock_client_init_set(from->client, &error));
    FAILS(QUORLOCK_FORKED, quorlock_client_init_set_forced(from->client, &error));
    CHECK(quorlock_lease_fence(from->lease) == 0);
    FAILS(QUORLOCK_FORKED, quorlock_unlock(from->lease, NULL, &error));
    bool was_held = true;
    WORKS(quorlock_unlock_with(from->lease, false, &was_held, &error));
    CHECK(!was_held);
    FAILS(QUORLOCK_FORKED, quorlock_lease_extend(from->lease, QUORLOCK_DEFAULT, &error));
    FAILS(QUORLOCK_FORKED, quorlock_lease_ensure(from->lease, 10, &error));
    FAILS(QUORLOCK_FORKED, quorlock_lease_set_lost_callback(from->lease, NULL, NULL, &error));
    FAILS(QUORLOCK_FORKED, quorlock_lock_new(from->client, "a", 1, NULL, &lock, &error));
    FAILS(QUORLOCK_FORKED, quorlock_client_close(from->client, &error));
    FAILS(QUORLOCK_FORKED, quorlock_client_stats(from->client, &seen, sizeof seen, &error));
    CHECK(!quorlock_lease_is_held(from->lease) && quorlock_lease_remaining_ms(from->lease) == 0);
    CHECK(quorlock_lease_state(from->lease) == QUORLOCK_LEASE_NONE);
    quorlock_cancel(from->cancel);
    quorlock_cancel_free(from->cancel);
    quorlock_lease_free(from->lease);
    quorlock_lock_free(from->lock);
    quorlock_client_free(from->client);
    /* A client of its own works, and so does the rest. */
    quorlock_set_log_callback(from->seen, on_log);
    the_error_object();
    a_hold();
    callbacks_may_free_their_lease();
    quorlock_shutdown();
}

static void a_forked_child(void) {
    struct seen seen;
    seen_init(&seen);
    quorlock_client_t *client = some_client();
    quorlock_lock_t *lock = lock_of(client, NULL);
    struct inherited from = {client, lock, held(lock), quorlock_cancel_new(), &seen};
    quorlock_lock_options_t *options = quorlock_lock_options_new();
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        broken = 0;
        in_the_child(&from);
        /* Plain memory is the child's as much as the parent's. */
        quorlock_lock_options_free(options);
        fflush(stdout);
        /* Not an exit: a leak checker would count what the parent's threads hold, which are not here. */
        execlp(broken ? "false" : "true", "true", (char *)NULL);
        _exit(1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(quorlock_lease_is_held(from.lease));
    bool was_held = false;
    WORKS(quorlock_unlock(from.lease, &was_held, &error));
    CHECK(was_held);
    quorlock_lock_options_free(options);
    quorlock_cancel_free(from.cancel);
    quorlock_lease_free(from.lease);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

/* What the child may hear of a call of its parent's: nothing. */
static void on_locked(void *userdata, quorlock_lease_t *lease, quorlock_error_t *failure) {
    struct seen *seen = userdata;
    seen->calls++;
    seen->state = quorlock_error_kind(failure);
    quorlock_error_free(failure);
    quorlock_lease_free(lease);
    sem_post(&seen->over);
}

static void on_unlocked(void *userdata, bool was_held, quorlock_error_t *failure) {
    on_locked(userdata, NULL, failure);
    ((struct seen *)userdata)->wait = was_held;
}

static bool readable(const quorlock_queue_t *queue, int ms) {
    struct pollfd watched = {quorlock_queue_fd(queue), POLLIN, 0};
    return poll(&watched, 1, ms) == 1;
}

/* A lock that the process itself may use, with a queue that is its parent's. */
static void loop_of_the_parent(const quorlock_lock_t *own, const quorlock_lock_t *waited, const quorlock_lease_t *lease,
                               const quorlock_cancel_t *cancel, quorlock_queue_t *queue, struct seen *parents) {
    struct seen seen;
    seen_init(&seen);
    CHECK(quorlock_queue_fd(queue) == -1 && quorlock_queue_dispatch(queue) == 0);
    CHECK(quorlock_lock_start(own, 0, NULL, queue, &seen, on_locked, &error) == QUORLOCK_FORKED);
    CHECK(has(quorlock_error_message(error), "the queue was used before the process was forked: make a new queue"));
    quorlock_error_free(error);
    error = NULL;
    CHECK(quorlock_lock_start(own, 0, cancel, NULL, &seen, on_locked, &error) == QUORLOCK_FORKED);
    CHECK(has(quorlock_error_message(error), "make a new token in the child"));
    quorlock_error_free(error);
    error = NULL;
    FAILS(QUORLOCK_FORKED, quorlock_lock_start(waited, 0, NULL, NULL, &seen, on_locked, &error));
    FAILS(QUORLOCK_FORKED, quorlock_unlock_start(lease, NULL, &seen, on_unlocked, &error));
    FAILS(QUORLOCK_FORKED, quorlock_lease_set_stop_callback(lease, &seen, on_lost, &error));
    quorlock_lease_t *ours = held(own);
    FAILS(QUORLOCK_FORKED, quorlock_unlock_start(ours, queue, &seen, on_unlocked, &error));
    FAILS(QUORLOCK_FORKED, quorlock_lease_set_lost_callback_on(ours, queue, &seen, on_lost, &error));
    CHECK(quorlock_lease_is_held(ours));
    /* Neither tells of the parent's call, nor takes it away from the parent. */
    quorlock_queue_free(queue);
    CHECK(parents->calls == 0 && seen.calls == 0);
    /* A queue of its own works. */
    quorlock_queue_t *queue_of_ours = NULL;
    WORKS(quorlock_queue_new(&queue_of_ours, &error));
    WORKS(quorlock_unlock_start(ours, queue_of_ours, &seen, on_unlocked, &error));
    CHECK(readable(queue_of_ours, 30000) && quorlock_queue_dispatch(queue_of_ours) == 1);
    CHECK(seen.calls == 1 && seen.wait && seen.state == QUORLOCK_OK);
    quorlock_queue_free(queue_of_ours);
    quorlock_lease_free(ours);
    quorlock_shutdown();
}

/* A fork while a call is under way that a queue is to tell of. */
static void a_forked_child_and_its_parents_queue(void) {
    quorlock_client_t *client = some_client(), *unused = some_client();
    quorlock_lock_t *lock = lock_of(client, NULL), *own = lock_of(unused, NULL);
    quorlock_lease_t *lease = held(lock);
    quorlock_queue_t *queue = NULL;
    quorlock_cancel_t *cancel = quorlock_cancel_new();
    struct seen seen;
    seen_init(&seen);
    WORKS(quorlock_queue_new(&queue, &error));
    WORKS(quorlock_lock_start(lock, QUORLOCK_FOREVER, cancel, queue, &seen, on_locked, &error));
    CHECK(comes_to_wait(client, 1));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        broken = 0;
        loop_of_the_parent(own, lock, lease, cancel, queue, &seen);
        fflush(stdout);
        execlp(broken ? "false" : "true", "true", (char *)NULL);
        _exit(1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    /* The parent's call waits as it did, and its loop hears of it. */
    CHECK(seen.calls == 0 && waiting(client) == 1 && !readable(queue, 0));
    WORKS(quorlock_unlock(lease, NULL, &error));
    CHECK(readable(queue, 30000) && quorlock_queue_dispatch(queue) == 1 && seen.calls == 1 && seen.state == QUORLOCK_OK);
    quorlock_queue_free(queue);
    quorlock_cancel_free(cancel);
    quorlock_lease_free(lease);
    quorlock_lock_free(own);
    quorlock_lock_free(lock);
    quorlock_client_free(unused);
    quorlock_client_free(client);
}

/* A client that nobody has used before the fork, and its lock: as of a server that makes them and then forks its workers. */
static void a_forked_child_starts_what_was_not_used(void) {
    quorlock_client_t *client = patient_client();
    quorlock_lock_t *lock = lock_of(client, NULL);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        broken = 0;
        quorlock_lease_t *lease = NULL;
        bool was_held = false;
        WORKS(quorlock_lock(lock, 5000, NULL, &lease, &error));
        CHECK(quorlock_lease_is_held(lease));
        WORKS(quorlock_unlock(lease, &was_held, &error));
        CHECK(was_held);
        quorlock_lease_free(lease);
        WORKS(quorlock_client_close(client, &error));
        quorlock_lock_free(lock);
        quorlock_client_free(client);
        quorlock_shutdown();
        fflush(stdout);
        execlp(broken ? "false" : "true", "true", (char *)NULL);
        _exit(1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    /* What the child has done with its copy is nothing to the parent's. */
    quorlock_lease_t *lease = NULL;
    WORKS(quorlock_lock(lock, 5000, NULL, &lease, &error));
    WORKS(quorlock_unlock(lease, NULL, &error));
    quorlock_lease_free(lease);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

/* All that a program uses of the library for the first time: log, names, a client of QUORLOCK_NODES and one of this process, a lock
 * that is had, and one that is held by another, alone and shared. */
static int uses_it_all(const char *own) {
    struct seen seen;
    seen_init(&seen);
    quorlock_set_log_callback(&seen, on_log);
    if (!quorlock_kind_name(QUORLOCK_CLOSED) || !quorlock_state_name(QUORLOCK_LEASE_HELD) ||
        !quorlock_health_name(QUORLOCK_HEALTH_WORKS) || !quorlock_verdict_name(QUORLOCK_VERDICT_HELD))
        return 1;
    quorlock_client_t *client = patient_client(), *other = patient_client(), *here = client_of("memory://forks");
    quorlock_lock_options_t *options = quorlock_lock_options_new();
    quorlock_lock_options_set_shared(options, true);
    quorlock_client_t *clients[] = {client, here};
    for (int at = 0; at < 2; at++) {
        quorlock_lock_t *lock = NULL, *again = NULL, *shared = NULL;
        quorlock_lease_t *lease = NULL, *none = NULL;
        WORKS(quorlock_lock_new(clients[at], own, strlen(own), NULL, &lock, &error));
        WORKS(quorlock_lock_new(at ? here : other, own, strlen(own), NULL, &again, &error));
        WORKS(quorlock_lock_new(at ? here : other, own, strlen(own), options, &shared, &error));
        if (broken) return 2;
        if (quorlock_lock(lock, 10000, NULL, &lease, &error)) {
            printf("     %s\n", quorlock_error_text(error));
            return 3;
        }
        /* Held by another, or not yet connected to: it comes back. */
        CHECK(quorlock_lock(again, 50, NULL, &none, NULL) != QUORLOCK_OK);
        CHECK(quorlock_lock(shared, 50, NULL, &none, NULL) != QUORLOCK_OK);
        WORKS(quorlock_unlock(lease, NULL, &error));
        quorlock_lease_free(lease);
        quorlock_lock_free(lock);
        quorlock_lock_free(again);
        quorlock_lock_free(shared);
    }
    quorlock_lock_options_free(options);
    quorlock_client_free(here);
    quorlock_client_free(other);
    quorlock_client_free(client);
    return broken ? 4 : 0;
}

static void *first_use(void *own) { return (void *)(intptr_t)uses_it_all(own); }

int role_forks(void) {
    enum { CHILDREN = 16 };
    pid_t children[CHILDREN];
    pthread_t thread;
    srand((unsigned)getpid());
    fflush(stdout);
    pthread_create(&thread, NULL, first_use, "of the parent");
    for (int at = 0; at < CHILDREN; at++) {
        nanosleep(&(struct timespec){0, rand() % 500 * 1000L}, NULL);
        if ((children[at] = fork()) == 0) {
            char own[32];
            snprintf(own, sizeof own, "of %d", (int)getpid());
            alarm(30);
            broken = 0;
            error = NULL;
            int failed = uses_it_all(own);
            fflush(stdout);
            _exit(failed);
        }
    }
    void *failed = NULL;
    pthread_join(thread, &failed);
    CHECK(!failed);
    for (int at = 0; at < CHILDREN; at++) {
        int status = -1;
        waitpid(children[at], &status, 0);
        if (status) printf("     child %d: %s %d\n", at, WIFSIGNALED(status) ? "signal" : "status",
                           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        CHECK(status == 0);
    }
    fflush(stdout);
    return broken ? 1 : 0;
}

/* Forks at any instant, beside a thread that uses everything for the first time: no child finds anything half made. A sanitizer has an
 * allocator of its own, which a fork copies locked, and under valgrind a child takes as long as one that hangs. */
static void forks_at_any_instant(void) {
    if (WATCHED) return;
    char command[512];
    snprintf(command, sizeof command, "'%s' role:forks", self);
    for (int left = 4; left && !broken; left--) CHECK(system(command) == 0);
}

const struct test fork_tests[] = {
    TEST(a_forked_child), TEST(a_forked_child_and_its_parents_queue), TEST(a_forked_child_starts_what_was_not_used),
    TEST(forks_at_any_instant), {NULL, NULL}};
