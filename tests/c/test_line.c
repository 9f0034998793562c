/* Tests of the line in which threads wait for a lock of their client. */

#include "test.h"

static uint64_t attempts_lost(const quorlock_client_t *client) {
    quorlock_stats_t stats;
    WORKS(quorlock_client_stats(client, &stats, sizeof stats, &error));
    return stats.attempts_lost;
}

static void a_line_is_first_come_first_served(void) {
    quorlock_client_t *client = some_client();
    quorlock_lock_t *lock = lock_of(client, NULL);
    quorlock_lease_t *lease = held(lock);
    enum { MANY = 4 };
    struct other others[MANY];
    for (int i = 0; i < MANY; i++) {
        others[i] = (struct other){.lock = lock, .wait_ms = QUORLOCK_FOREVER};
        start_other(&others[i]);
        CHECK(comes_to_wait(client, (uint64_t)i + 1));
    }
    uint64_t fence = quorlock_lease_fence(lease);
    quorlock_lease_free(lease);
    for (int i = 0; i < MANY; i++) {
        /* Were it another's turn, this would never end. */
        CHECK(finish_other(&others[i]) == QUORLOCK_OK);
        CHECK(waiting(client) == (uint64_t)(MANY - 1 - i));
        CHECK(quorlock_lease_fence(others[i].lease) > fence);
        fence = quorlock_lease_fence(others[i].lease);
        quorlock_lease_free(others[i].lease);
    }
    CHECK(attempts_lost(client) == 0);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

static void leaving_the_line(void) {
    quorlock_client_t *client = some_client();
    quorlock_lock_t *lock = lock_of(client, NULL);
    quorlock_lease_t *lease = held(lock);
    quorlock_cancel_t *cancel = quorlock_cancel_new();
    struct other first = {.lock = lock, .wait_ms = QUORLOCK_FOREVER}, last = first;
    struct other cancelled = {.lock = lock, .wait_ms = QUORLOCK_FOREVER, .cancel = cancel};
    struct other timed = {.lock = lock, .wait_ms = 50};
    start_other(&first);
    CHECK(comes_to_wait(client, 1));
    start_other(&cancelled);
    CHECK(comes_to_wait(client, 2));
    start_other(&timed);
    CHECK(finish_other(&timed) == QUORLOCK_TIMEOUT && !timed.lease);
    CHECK(waiting(client) == 2);
    start_other(&last);
    CHECK(comes_to_wait(client, 3));
    quorlock_cancel(cancel);
    CHECK(finish_other(&cancelled) == QUORLOCK_CANCELLED && !cancelled.lease);
    CHECK(waiting(client) == 2);
    quorlock_lease_free(lease);
    CHECK(finish_other(&first) == QUORLOCK_OK && waiting(client) == 1);
    quorlock_lease_free(first.lease);
    CHECK(finish_other(&last) == QUORLOCK_OK && waiting(client) == 0);
    quorlock_lease_free(last.lease);
    quorlock_cancel_free(cancel);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

static void a_line_is_bounded(void) {
    const char *node = "memory://c-bounded";
    quorlock_client_options_t *options = quorlock_client_options_new();
    quorlock_client_options_set_nodes(options, &node, 1);
    CHECK(quorlock_client_options_set_max_waiters(options, 1) == QUORLOCK_OK);
    quorlock_client_t *client = NULL;
    WORKS(quorlock_client_new(options, &client, &error));
    quorlock_lock_t *lock = lock_of(client, NULL);
    quorlock_lock_options_t *of_lock = quorlock_lock_options_new();
    quorlock_lock_options_set_owner(of_lock, "stranger", 8);
    quorlock_lock_t *stranger = lock_of(client, of_lock);
    CHECK(quorlock_lock_options_set_max_waiters(of_lock, 2) == QUORLOCK_OK);
    quorlock_lock_t *wider = lock_of(client, of_lock);
    quorlock_lease_t *lease = held(lock), *none = NULL;
    /* A wait that ends, so that one who is not refused is found out. */
    const int64_t bounded = 5000;
    struct other first = {.lock = lock, .wait_ms = QUORLOCK_FOREVER}, second = {.lock = wider, .wait_ms = QUORLOCK_FOREVER};
    start_other(&first);
    CHECK(comes_to_wait(client, 1));
    CHECK(quorlock_lock(stranger, bounded, NULL, &none, &error) == QUORLOCK_TOO_MANY_WAITERS);
    CHECK(has(quorlock_error_message(error), "max_waiters") && quorlock_error_node_count(error) == 0);
    FAILS(QUORLOCK_TOO_MANY_WAITERS, QUORLOCK_TOO_MANY_WAITERS);
    /* What does not wait takes no place. */
    FAILS(QUORLOCK_CONTENDED, quorlock_try_lock(stranger, &none, &error));
    /* That of a lock goes before that of its client. */
    start_other(&second);
    CHECK(comes_to_wait(client, 2));
    FAILS(QUORLOCK_TOO_MANY_WAITERS, quorlock_lock(wider, bounded, NULL, &none, &error));
    quorlock_lease_free(lease);
    CHECK(finish_other(&first) == QUORLOCK_OK);
    quorlock_lease_free(first.lease);
    CHECK(finish_other(&second) == QUORLOCK_OK && !none);
    quorlock_lease_free(second.lease);
    /* Out of range. */
    quorlock_lock_t *unmade = NULL;
    CHECK(quorlock_lock_options_set_max_waiters(of_lock, INT32_MAX) == QUORLOCK_OK);
    CHECK(quorlock_lock_options_set_max_waiters(of_lock, (int64_t)INT32_MAX + 1) == QUORLOCK_INVALID_ARGUMENT);
    CHECK(quorlock_lock_new(client, "a", 1, of_lock, &unmade, &error) == QUORLOCK_INVALID_ARGUMENT && !unmade);
    CHECK(has(quorlock_error_message(error), "max_waiters is 2147483648: give 0 to 2147483647"));
    FAILS(QUORLOCK_INVALID_ARGUMENT, QUORLOCK_INVALID_ARGUMENT);
    CHECK(quorlock_client_options_set_max_waiters(options, -1) == QUORLOCK_INVALID_ARGUMENT);
    quorlock_client_t *unmade_client = NULL;
    CHECK(quorlock_client_new(options, &unmade_client, &error) == QUORLOCK_INVALID_ARGUMENT && !unmade_client);
    CHECK(has(quorlock_error_message(error), "max_waiters is -1"));
    FAILS(QUORLOCK_INVALID_ARGUMENT, QUORLOCK_INVALID_ARGUMENT);
    quorlock_lock_options_free(of_lock);
    quorlock_client_options_free(options);
    quorlock_lock_free(wider);
    quorlock_lock_free(stranger);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

/* A call that waits, and may be stopped: of one lock or slot, or of several. */
struct stopped {
    const quorlock_lock_t *lock;
    const quorlock_locks_t *locks;
    const quorlock_cancel_t *cancel;
    sem_t begins;
    quorlock_lease_t *lease;
    quorlock_leases_t *leases;
    int32_t code;
};

static void *waits_until_stopped(void *argument) {
    struct stopped *call = argument;
    sem_post(&call->begins);
    call->code = call->lock ? quorlock_lock(call->lock, QUORLOCK_FOREVER, call->cancel, &call->lease, NULL)
                            : quorlock_lock_all(call->locks, QUORLOCK_FOREVER, call->cancel, &call->leases, NULL);
    return NULL;
}

enum { MOMENTS = 5, ROUNDS = 40 };

/* Stops a call before it waits, while it does, and beside what would end its wait: it has what it was given, or nobody has. `ours`
 * and `theirs` are locks of the two clients, of which the other holds what is waited for; `next` has to have it soon. */
static void stopped(struct stopped call, int moment, const quorlock_client_t *client, const quorlock_lock_t *ours,
                    const quorlock_lock_t *theirs, const quorlock_lock_t *next) {
    quorlock_cancel_t *cancel = quorlock_cancel_new();
    /* Of this client it is passed on without a request, and of the other it comes over the node. */
    quorlock_lease_t *holds[2] = {held(moment % 2 ? ours : theirs), NULL};
    if (quorlock_lease_slot(holds[0]) >= 0) holds[1] = held(theirs);
    call.cancel = cancel;
    sem_init(&call.begins, 0, 0);
    if (moment == 0) quorlock_cancel(cancel);
    pthread_t thread;
    pthread_create(&thread, NULL, waits_until_stopped, &call);
    CHECK(comes(&call.begins));
    if (moment == 1 && !holds[1]) CHECK(comes_to_wait(client, 1));
    if (moment == 4) quorlock_cancel(cancel);
    quorlock_lease_free(holds[0]);
    quorlock_lease_free(holds[1]);
    if (moment != 4) quorlock_cancel(cancel);
    pthread_join(thread, NULL);
    CHECK(call.code == QUORLOCK_OK ? !call.lease != !call.leases : call.code == QUORLOCK_CANCELLED && !call.lease && !call.leases);
    CHECK(moment != 0 || call.code == QUORLOCK_CANCELLED);
    CHECK(!call.lease || quorlock_lease_is_held(call.lease));
    CHECK(!call.leases || quorlock_leases_is_held(call.leases));
    quorlock_lease_free(call.lease);
    quorlock_leases_free(call.leases);
    /* Long before any ttl is over: of slots each one. */
    quorlock_lease_t *all[2] = {held(next), NULL};
    if (quorlock_lease_slot(all[0]) >= 0) all[1] = held(next);
    quorlock_lease_free(all[0]);
    quorlock_lease_free(all[1]);
    quorlock_cancel_free(cancel);
}

static void what_a_stopped_wait_was_given_is_given_back(void) {
    const char *node = "memory://c-stopped", *const names[] = {"orders:42", "orders:41"};
    const size_t lens[] = {9, 9};
    quorlock_client_options_t *options = quorlock_client_options_new();
    quorlock_client_options_set_nodes(options, &node, 1);
    CHECK(quorlock_client_options_set_ttl(options, 60000) == QUORLOCK_OK);
    quorlock_client_t *client = NULL, *rival = NULL;
    WORKS(quorlock_client_new(options, &client, &error));
    WORKS(quorlock_client_new(options, &rival, &error));
    quorlock_client_options_free(options);
    quorlock_lock_options_t *slots = quorlock_lock_options_new(), *plain = quorlock_lock_options_new();
    CHECK(quorlock_lock_options_set_slots(slots, 2) == QUORLOCK_OK);
    CHECK(quorlock_lock_options_set_fencing(plain, false) == QUORLOCK_OK);
    quorlock_lock_t *one = lock_of(client, plain), *slot = lock_of(client, slots);
    quorlock_lock_t *theirs = lock_of(rival, plain), *their_slot = lock_of(rival, slots);
    quorlock_locks_t *both = NULL;
    WORKS(quorlock_locks_new(client, names, lens, 2, plain, &both, &error));
    for (int round = 0; round < ROUNDS && !broken; round++) {
        for (int moment = 0; moment < MOMENTS; moment++) {
            stopped((struct stopped){.lock = one}, moment, client, one, theirs, theirs);
            stopped((struct stopped){.lock = slot}, moment, client, slot, their_slot, their_slot);
            stopped((struct stopped){.locks = both}, moment, client, one, theirs, theirs);
        }
    }
    quorlock_locks_free(both);
    quorlock_lock_free(their_slot);
    quorlock_lock_free(theirs);
    quorlock_lock_free(slot);
    quorlock_lock_free(one);
    quorlock_lock_options_free(plain);
    quorlock_lock_options_free(slots);
    quorlock_client_free(rival);
    quorlock_client_free(client);
}

const struct test line_tests[] = {TEST(a_line_is_first_come_first_served), TEST(leaving_the_line), TEST(a_line_is_bounded),
                                  TEST(what_a_stopped_wait_was_given_is_given_back), {NULL, NULL}};
