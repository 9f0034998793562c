/* Tests of holding a lock, and ceasing to. */

#include "test.h"

void a_hold(void) {
    quorlock_client_t *client = some_client();
    quorlock_lock_t *lock = lock_of(client, NULL);
    quorlock_lease_t *lease = held(lock);
    CHECK(quorlock_lease_state(lease) == QUORLOCK_LEASE_HELD);
    int64_t left = quorlock_lease_remaining_ms(lease);
    CHECK(left > 5000 && left < 10000);
    WORKS(quorlock_lease_extend(lease, 30000, &error));
    CHECK(quorlock_lease_remaining_ms(lease) > 25000);
    WORKS(quorlock_lease_extend(lease, QUORLOCK_DEFAULT, &error));
    WORKS(quorlock_lease_ensure(lease, 5000, &error));
    bool was_held = false;
    WORKS(quorlock_unlock(lease, &was_held, &error));
    CHECK(was_held && !quorlock_lease_is_held(lease) && quorlock_lease_remaining_ms(lease) == 0);
    CHECK(quorlock_lease_state(lease) == QUORLOCK_LEASE_RELEASED);
    WORKS(quorlock_unlock(lease, &was_held, &error));
    CHECK(!was_held);
    FAILS(QUORLOCK_NOT_OWNER, quorlock_lease_extend(lease, QUORLOCK_DEFAULT, &error));
    quorlock_lease_free(lease);
    /* The lock goes before its lease, and so does the client. */
    lease = held(lock);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
    WORKS(quorlock_lease_extend(lease, QUORLOCK_DEFAULT, &error));
    quorlock_lease_free(lease);
}

static uint64_t fence_of(const quorlock_lock_t *lock) {
    quorlock_lease_t *lease = held(lock);
    uint64_t fence = quorlock_lease_fence(lease);
    quorlock_lease_free(lease);
    return fence;
}

static void fences_grow(void) {
    quorlock_client_t *client = client_of("memory://c-fences"), *rival = client_of("memory://c-fences");
    quorlock_lock_t *lock = lock_of(client, NULL), *other = lock_of(rival, NULL);
    uint64_t last = 0;
    for (int round = 0; round < 6; round++) {
        uint64_t fence = fence_of(round % 2 ? other : lock);
        CHECK(fence > last && fence < UINT64_C(1) << 53);
        last = fence;
    }
    /* It is that of the hold: the same in a re-entry, and when the hold is over. */
    quorlock_lock_t *reentrant = lock_of_threads(client, true);
    quorlock_lease_t *first = held(reentrant), *second = held(reentrant);
    quorlock_lock_free(reentrant);
    last = quorlock_lease_fence(first);
    CHECK(last && quorlock_lease_fence(second) == last);
    WORKS(quorlock_unlock(second, NULL, &error));
    WORKS(quorlock_unlock(first, NULL, &error));
    CHECK(quorlock_lease_fence(first) == last && quorlock_lease_fence(second) == last);
    quorlock_lease_free(first);
    quorlock_lease_free(second);
    quorlock_lock_free(lock);
    quorlock_lock_free(other);
    quorlock_client_free(client);
    quorlock_client_free(rival);
}

/* A lease goes on in another client, once, with a larger fence. */
static void handed_on(void) {
    quorlock_client_t *client = client_of("memory://c-handed-on"), *rival = client_of("memory://c-handed-on");
    quorlock_lock_t *lock = lock_of_threads(client, true);
    quorlock_lease_t *first = held(lock), *again = held(lock), *second = NULL;
    char *text = NULL;
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_lease_export(first, &text, &error));
    CHECK(!text && quorlock_lease_is_held(first));
    quorlock_lease_free(again);
    WORKS(quorlock_lease_export(first, &text, &error));
    CHECK(text && quorlock_lease_state(first) == QUORLOCK_LEASE_RELEASED);
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_client_adopt(rival, text, strlen(text) - 1, &second, &error));
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_client_adopt(rival, "\xff", 1, &second, &error));
    CHECK(!second);
    WORKS(quorlock_client_adopt(rival, text, strlen(text), &second, &error));
    CHECK(quorlock_lease_is_held(second) && quorlock_lease_fence(second) > quorlock_lease_fence(first));
    quorlock_lease_t *third = NULL;
    FAILS(QUORLOCK_LOCK_LOST, quorlock_client_adopt(client, text, strlen(text), &third, &error));
    quorlock_text_free(text);
    bool was_held = true;
    WORKS(quorlock_unlock(first, &was_held, &error));
    CHECK(!was_held && quorlock_lease_is_held(second));
    WORKS(quorlock_unlock(second, &was_held, &error));
    CHECK(was_held);
    quorlock_lease_free(first);
    quorlock_lease_free(second);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
    quorlock_client_free(rival);
}

static void without_fences(void) {
    const char *node = "memory://c-unfenced";
    quorlock_client_options_t *options = quorlock_client_options_new();
    quorlock_client_options_set_nodes(options, &node, 1);
    CHECK(quorlock_client_options_set_fencing(options, false) == QUORLOCK_OK);
    quorlock_client_t *client = NULL;
    WORKS(quorlock_client_new(options, &client, &error));
    quorlock_client_options_free(options);
    quorlock_lock_t *lock = lock_of(client, NULL);
    CHECK(fence_of(lock) == 0);
    quorlock_lock_free(lock);
    /* The client's is the default; the lock's own goes first. */
    quorlock_lock_options_t *of_lock = quorlock_lock_options_new();
    CHECK(quorlock_lock_options_set_fencing(of_lock, true) == QUORLOCK_OK);
    lock = lock_of(client, of_lock);
    CHECK(fence_of(lock) > 0);
    quorlock_lock_free(lock);
    CHECK(quorlock_lock_options_set_fencing(of_lock, false) == QUORLOCK_OK);
    quorlock_client_t *fenced = some_client();
    lock = lock_of(fenced, of_lock);
    CHECK(fence_of(lock) == 0);
    quorlock_lock_options_free(of_lock);
    quorlock_lock_free(lock);
    quorlock_client_free(fenced);
    quorlock_client_free(client);
}

static void freeing_releases(void) {
    quorlock_client_t *client = client_of("memory://c-freeing"), *rival = client_of("memory://c-freeing");
    quorlock_lock_t *lock = lock_of(client, NULL), *other = lock_of(rival, NULL);
    quorlock_lease_free(held(lock));
    quorlock_lease_free(held(other));
    quorlock_lock_free(lock);
    quorlock_lock_free(other);
    quorlock_client_free(client);
    quorlock_client_free(rival);
}

static void not_reentrant(void) {
    quorlock_client_t *client = some_client();
    quorlock_lock_t *plain = lock_of_threads(client, false), *lock = lock_of_threads(client, true);
    quorlock_lease_t *first = held(plain), *second = NULL;
    FAILS(QUORLOCK_WOULD_DEADLOCK, quorlock_try_lock(plain, &second, &error));
    struct other other = {.lock = plain};
    start_other(&other);
    CHECK(finish_other(&other) == QUORLOCK_CONTENDED && !other.lease);
    /* Each asks for itself. */
    second = held(lock);
    WORKS(quorlock_unlock(second, NULL, &error));
    bool was_held = false;
    WORKS(quorlock_lock_release(plain, &was_held, &error));
    CHECK(was_held);
    quorlock_lease_free(held(plain));
    quorlock_lease_free(first);
    quorlock_lease_free(second);
    quorlock_lock_free(plain);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

static void a_thread_would_wait_for_itself(void) {
    quorlock_client_t *client = some_client();
    quorlock_lock_t *lock = lock_of_threads(client, false), *same = lock_of_threads(client, false);
    quorlock_lease_t *lease = held(lock), *none = NULL;
    FAILS(QUORLOCK_WOULD_DEADLOCK, quorlock_lock(lock, QUORLOCK_FOREVER, NULL, &none, &error));
    /* It goes by the client and the name, and not by the handle. */
    FAILS(QUORLOCK_WOULD_DEADLOCK, quorlock_lock(same, QUORLOCK_DEFAULT, NULL, &none, &error));
    CHECK(!none && quorlock_lease_is_held(lease));
    quorlock_lease_free(lease);
    quorlock_lease_free(held(same));
    quorlock_lock_free(lock);
    quorlock_lock_free(same);
    quorlock_client_free(client);
}

static void owners(void) {
    quorlock_client_t *client = some_client();
    quorlock_lock_t *lock = lock_of_threads(client, true);
    FAILS(QUORLOCK_NOT_OWNER, quorlock_lock_release(lock, NULL, &error));
    quorlock_lease_t *first = held(lock), *second = held(lock);
    /* Another thread is another owner, with the very same handle. */
    struct other other = {.lock = lock};
    start_other(&other);
    CHECK(finish_other(&other) == QUORLOCK_CONTENDED && !other.lease);
    bool was_held = false;
    WORKS(quorlock_lock_release(lock, &was_held, &error));
    CHECK(was_held && quorlock_lease_is_held(first) && !quorlock_lease_is_held(second));
    quorlock_lease_free(second);
    CHECK(quorlock_lease_is_held(first));
    WORKS(quorlock_lock_release(lock, NULL, &error));
    CHECK(!quorlock_lease_is_held(first));
    quorlock_lease_free(first);
    quorlock_lock_free(lock);
    /* A named owner is the same in every thread. */
    quorlock_lock_options_t *options = quorlock_lock_options_new();
    CHECK(quorlock_lock_options_set_owner(options, "\xff\0x", 3) == QUORLOCK_OK);
    lock = lock_of(client, options);
    quorlock_lock_options_free(options);
    first = held(lock);
    other = (struct other){.lock = lock};
    start_other(&other);
    CHECK(finish_other(&other) == QUORLOCK_OK && quorlock_lease_is_held(other.lease));
    quorlock_lease_free(first);
    CHECK(quorlock_lease_is_held(other.lease));
    quorlock_lease_free(other.lease);
    FAILS(QUORLOCK_NOT_OWNER, quorlock_lock_release(lock, NULL, &error));
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

static void an_owner_that_ends(void) {
    quorlock_client_t *client = some_client();
    quorlock_lock_options_t *options = quorlock_lock_options_new();
    quorlock_lock_options_set_ttl(options, 2000);
    quorlock_lock_options_set_owner_thread(options, true);
    quorlock_lock_t *lock = lock_of(client, options);
    quorlock_lock_options_free(options);
    struct other other = {.lock = lock, .wait_ms = QUORLOCK_DEFAULT};
    start_other(&other);
    CHECK(finish_other(&other) == QUORLOCK_OK);
    struct seen seen;
    seen_init(&seen);
    WORKS(quorlock_lease_set_lost_callback(other.lease, &seen, on_lost, &error));
    CHECK(comes(&seen.over) && seen.state == QUORLOCK_LEASE_OWNER_GONE);
    CHECK(quorlock_lease_state(other.lease) == QUORLOCK_LEASE_OWNER_GONE);
    quorlock_lease_free(other.lease);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

/* What is acquired by hand is bound to no thread: it is renewed for longer than its ttl when that which acquired it has ended, and
 * the log says so. */
static void by_hand(void) {
    quorlock_client_t *client = some_client();
    quorlock_lock_t *lock = lock_with_ttl(client, 600, true);
    struct seen log;
    seen_init(&log);
    quorlock_set_log_callback(&log, on_log);
    struct other other = {.lock = lock, .wait_ms = QUORLOCK_DEFAULT};
    start_other(&other);
    CHECK(finish_other(&other) == QUORLOCK_OK);
    CHECK(comes(&log.over));
    quorlock_set_log_callback(NULL, NULL);
    CHECK(log.state == QUORLOCK_LOG_WARN && strstr(log.line, "the thread that acquired the lock"));
    /* Once renewed after that, it has not ended with the thread. */
    quorlock_stats_t before, now;
    WORKS(quorlock_client_stats(client, &before, sizeof before, &error));
    do {
        nap(5);
        WORKS(quorlock_client_stats(client, &now, sizeof now, &error));
    } while (now.renewals == before.renewals && quorlock_lease_is_held(other.lease));
    CHECK(quorlock_lease_is_held(other.lease));
    quorlock_lease_t *none = NULL;
    FAILS(QUORLOCK_CONTENDED, quorlock_try_lock(lock, &none, &error));
    FAILS(QUORLOCK_NOT_OWNER, quorlock_lock_release(lock, NULL, &error));
    quorlock_lease_free(other.lease);
    /* No more for the thread that has it. */
    quorlock_lease_t *lease = held(lock);
    FAILS(QUORLOCK_CONTENDED, quorlock_try_lock(lock, &none, &error));
    FAILS(QUORLOCK_TIMEOUT, quorlock_lock(lock, 20, NULL, &none, &error));
    FAILS(QUORLOCK_NOT_OWNER, quorlock_lock_release(lock, NULL, &error));
    CHECK(quorlock_lease_is_held(lease));
    quorlock_lease_free(lease);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

static void a_loss_is_final(void) {
    quorlock_client_t *client = some_client();
    quorlock_lock_options_t *options = quorlock_lock_options_new();
    quorlock_lock_options_set_ttl(options, 200);
    quorlock_lock_options_set_renew(options, false);
    quorlock_lock_options_set_owner_thread(options, true);
    quorlock_lock_t *lock = lock_of(client, options);
    quorlock_lock_options_free(options);
    quorlock_lease_t *lease = held(lock);
    while (quorlock_lease_is_held(lease)) nap(5);
    CHECK(quorlock_lease_state(lease) == QUORLOCK_LEASE_EXPIRED);
    FAILS(QUORLOCK_LOCK_LOST, quorlock_lease_extend(lease, QUORLOCK_DEFAULT, &error));
    FAILS(QUORLOCK_LOCK_LOST, quorlock_lease_ensure(lease, 50, &error));
    quorlock_lease_t *again = NULL;
    FAILS(QUORLOCK_LOCK_LOST, quorlock_lock(lock, 0, NULL, &again, &error));
    bool was_held = true;
    WORKS(quorlock_unlock(lease, &was_held, &error));
    CHECK(!was_held && quorlock_lease_state(lease) == QUORLOCK_LEASE_EXPIRED);
    quorlock_lease_free(lease);
    quorlock_lease_free(held(lock));
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

static void cancelling(void) {
    quorlock_client_t *client = some_client();
    quorlock_lock_t *lock = lock_of(client, NULL);
    quorlock_lease_t *lease = held(lock), *none = NULL;
    quorlock_cancel_t *cancel = quorlock_cancel_new();
    struct other first = {.lock = lock, .wait_ms = QUORLOCK_FOREVER, .cancel = cancel}, second = first;
    start_other(&first);
    start_other(&second);
    CHECK(comes_to_wait(client, 2));
    quorlock_cancel(cancel);
    quorlock_cancel(cancel);
    CHECK(finish_other(&first) == QUORLOCK_CANCELLED && finish_other(&second) == QUORLOCK_CANCELLED);
    CHECK(!first.lease && !second.lease);
    /* It stays so, and ends a call before anything is sent, even one that could re-enter. */
    FAILS(QUORLOCK_CANCELLED, quorlock_lock(lock, 0, cancel, &none, &error));
    quorlock_cancel_free(cancel);
    /* Freed while it is waited with: the wait goes on, and ends with the lock. */
    cancel = quorlock_cancel_new();
    struct other third = {.lock = lock, .wait_ms = QUORLOCK_FOREVER, .cancel = cancel};
    start_other(&third);
    /* Before that it is not the call's yet. */
    CHECK(comes_to_wait(client, 1));
    quorlock_cancel_free(cancel);
    nap(30);
    quorlock_lease_free(lease);
    CHECK(finish_other(&third) == QUORLOCK_OK);
    quorlock_lease_free(third.lease);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

static void closing(void) {
    quorlock_client_t *client = some_client();
    quorlock_lock_t *lock = lock_of(client, NULL);
    quorlock_lease_t *lease = held(lock), *none = NULL;
    struct other other = {.lock = lock, .wait_ms = QUORLOCK_FOREVER};
    start_other(&other);
    CHECK(comes_to_wait(client, 1));
    struct seen seen;
    seen_init(&seen);
    WORKS(quorlock_lease_set_lost_callback(lease, &seen, on_lost, &error));
    WORKS(quorlock_client_close(client, &error));
    CHECK(finish_other(&other) == QUORLOCK_CLOSED);
    CHECK(comes(&seen.over) && seen.state == QUORLOCK_LEASE_CLOSED && seen.calls == 1);
    CHECK(!pthread_equal(seen.thread, pthread_self()));
    CHECK(quorlock_lease_state(lease) == QUORLOCK_LEASE_CLOSED);
    WORKS(quorlock_client_close(client, &error));
    FAILS(QUORLOCK_CLOSED, quorlock_lock(lock, 0, NULL, &none, &error));
    FAILS(QUORLOCK_CLOSED, quorlock_lease_extend(lease, QUORLOCK_DEFAULT, &error));
    quorlock_lease_free(lease);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

static void releasing_without_an_answer(void) {
    quorlock_client_t *client = some_client();
    quorlock_lock_t *lock = lock_of(client, NULL);
    quorlock_lease_t *lease = held(lock);
    bool was_held = false;
    WORKS(quorlock_unlock_with(lease, false, &was_held, &error));
    CHECK(was_held && quorlock_lease_state(lease) == QUORLOCK_LEASE_RELEASED);
    WORKS(quorlock_unlock_with(lease, false, &was_held, &error));
    CHECK(!was_held);
    WORKS(quorlock_unlock_with(lease, true, NULL, &error));
    quorlock_lease_free(lease);
    quorlock_lock_free(lock);
    /* Where its lock says so, too; and the answer may be asked for all the same. */
    quorlock_lock_options_t *options = quorlock_lock_options_new();
    CHECK(quorlock_lock_options_set_confirm(options, false) == QUORLOCK_OK);
    lock = lock_of(client, options);
    quorlock_lock_options_free(options);
    lease = held(lock);
    WORKS(quorlock_unlock(lease, &was_held, &error));
    CHECK(was_held);
    quorlock_lease_free(lease);
    lease = held(lock);
    WORKS(quorlock_unlock_with(lease, true, &was_held, &error));
    CHECK(was_held);
    quorlock_lease_free(lease);
    quorlock_lock_free(lock);
    /* What is to stay taken needs it: the lease is held on. */
    options = quorlock_lock_options_new();
    CHECK(quorlock_lock_options_set_keep(options, 10) == QUORLOCK_OK);
    lock = lock_of(client, options);
    quorlock_lock_options_free(options);
    lease = held(lock);
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_unlock_with(lease, false, &was_held, &error));
    CHECK(quorlock_lease_is_held(lease));
    WORKS(quorlock_unlock_with(lease, true, NULL, &error));
    quorlock_lease_free(lease);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

const struct test leases_tests[] = {
    TEST(a_hold), TEST(fences_grow), TEST(handed_on), TEST(without_fences), TEST(freeing_releases),
    TEST(releasing_without_an_answer), TEST(owners),
    TEST(not_reentrant), TEST(a_thread_would_wait_for_itself), TEST(an_owner_that_ends), TEST(by_hand),
    TEST(a_loss_is_final), TEST(cancelling), TEST(closing), {NULL, NULL}};
