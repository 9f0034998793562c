/* Tests of several locks at once: all of them, or none. */

#include "test.h"

static quorlock_locks_t *locks_of(const quorlock_client_t *client, size_t count, const char *const *names) {
    size_t lens[16];
    for (size_t at = 0; at < count; at++) lens[at] = strlen(names[at]);
    quorlock_locks_t *locks = NULL;
    WORKS(quorlock_locks_new(client, names, lens, count, NULL, &locks, &error));
    return locks;
}

static quorlock_lock_t *lock_named(const quorlock_client_t *client, const char *name) {
    quorlock_lock_t *lock = NULL;
    WORKS(quorlock_lock_new(client, name, strlen(name), NULL, &lock, &error));
    return lock;
}

/* Whether the leases tell of that name at this place. */
static bool named(const quorlock_leases_t *leases, size_t at, const char *name) {
    size_t len = 77;
    const char *told = quorlock_leases_name(leases, at, &len);
    return told && len == strlen(name) && !memcmp(told, name, len);
}

static bool error_names(const char *name) {
    size_t len = 0;
    const char *told = quorlock_error_lock_name(error, &len);
    return told && len == strlen(name) && !memcmp(told, name, len);
}

static void all_at_once(void) {
    quorlock_client_t *client = client_of("memory://c-all"), *rival = client_of("memory://c-all");
    const char *const names[] = {"c", "a", "b", "a"};
    quorlock_locks_t *locks = locks_of(client, 4, names);
    quorlock_leases_t *leases = NULL;
    WORKS(quorlock_lock_all(locks, QUORLOCK_DEFAULT, NULL, &leases, &error));
    CHECK(quorlock_leases_is_held(leases) && quorlock_leases_state(leases) == QUORLOCK_LEASE_HELD);
    CHECK(quorlock_leases_count(leases) == 3);
    const char *const order[] = {"a", "b", "c"};
    quorlock_lock_t *theirs[3];
    for (size_t at = 0; at < 3; at++) {
        CHECK(named(leases, at, order[at]) && quorlock_leases_fence(leases, at) > 0);
        CHECK(quorlock_leases_fence_of(leases, order[at], 1) == quorlock_leases_fence(leases, at));
        theirs[at] = lock_named(rival, order[at]);
        quorlock_lease_t *none = NULL;
        FAILS(QUORLOCK_CONTENDED, quorlock_try_lock(theirs[at], &none, &error));
    }
    size_t len = 77;
    CHECK(!quorlock_leases_name(leases, 3, &len) && len == 0 && quorlock_leases_fence(leases, 3) == 0);
    CHECK(quorlock_leases_fence_of(leases, "d", 1) == 0);
    CHECK(!quorlock_leases_lost_name(leases, &len) && len == 0);
    CHECK(quorlock_leases_remaining_ms(leases) > 5000 && quorlock_leases_remaining_ms(leases) <= 10000);
    WORKS(quorlock_leases_extend(leases, 20000, &error));
    CHECK(quorlock_leases_remaining_ms(leases) > 15000);
    WORKS(quorlock_leases_ensure(leases, 5000, &error));
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_leases_extend(leases, -5, &error));
    /* They have no owner, so the thread does not enter them again. */
    quorlock_leases_t *again = NULL;
    FAILS(QUORLOCK_CONTENDED, quorlock_try_lock_all(locks, &again, &error));
    bool was_held = false;
    WORKS(quorlock_unlock_all(leases, &was_held, &error));
    CHECK(was_held);
    quorlock_leases_free(leases);
    quorlock_locks_free(locks);
    /* An owner who holds them does, and the last release frees them. */
    quorlock_lock_options_t *options = quorlock_lock_options_new();
    CHECK(quorlock_lock_options_set_owner_thread(options, true) == QUORLOCK_OK);
    const size_t lens[] = {1, 1, 1, 1};
    WORKS(quorlock_locks_new(client, names, lens, 4, options, &locks, &error));
    quorlock_lock_options_free(options);
    WORKS(quorlock_lock_all(locks, QUORLOCK_DEFAULT, NULL, &leases, &error));
    WORKS(quorlock_try_lock_all(locks, &again, &error));
    CHECK(quorlock_leases_fence(again, 0) == quorlock_leases_fence(leases, 0));
    WORKS(quorlock_unlock_all_with(again, false, &was_held, &error));
    CHECK(was_held && quorlock_leases_is_held(leases));
    quorlock_leases_free(again);
    WORKS(quorlock_unlock_all(leases, &was_held, &error));
    CHECK(was_held && !quorlock_leases_is_held(leases) && quorlock_leases_remaining_ms(leases) == 0);
    CHECK(quorlock_leases_state(leases) == QUORLOCK_LEASE_RELEASED);
    WORKS(quorlock_unlock_all(leases, &was_held, &error));
    CHECK(!was_held);
    for (size_t at = 0; at < 3; at++) {
        quorlock_lease_free(held(theirs[at]));
        quorlock_lock_free(theirs[at]);
    }
    quorlock_leases_free(leases);
    quorlock_locks_free(locks);
    quorlock_client_free(client);
    quorlock_client_free(rival);
}

/* What a thread has got from a call for several. */
struct wants {
    const quorlock_locks_t *locks;
    const quorlock_cancel_t *cancel;
    int32_t code;
    quorlock_leases_t *leases;
    pthread_t thread;
};

static void *want(void *argument) {
    struct wants *wants = argument;
    wants->code = quorlock_lock_all(wants->locks, QUORLOCK_FOREVER, wants->cancel, &wants->leases, NULL);
    return NULL;
}

static quorlock_lock_t *anothers_lock(const quorlock_client_t *client, const char *name) {
    quorlock_lock_options_t *options = quorlock_lock_options_new();
    CHECK(quorlock_lock_options_set_owner(options, "another", 7) == QUORLOCK_OK);
    quorlock_lock_t *lock = NULL;
    WORKS(quorlock_lock_new(client, name, strlen(name), options, &lock, &error));
    quorlock_lock_options_free(options);
    return lock;
}

static void all_or_none(void) {
    quorlock_client_t *client = some_client();
    const char *const names[] = {"a", "b", "c"};
    quorlock_lock_t *anothers[3];
    for (size_t at = 0; at < 3; at++) anothers[at] = anothers_lock(client, names[at]);
    quorlock_lease_t *taken = held(anothers[1]), *lease = NULL;
    quorlock_locks_t *locks = locks_of(client, 3, names);
    quorlock_leases_t *leases = NULL;
    CHECK(quorlock_try_lock_all(locks, &leases, &error) == QUORLOCK_CONTENDED && !leases && error_names("b"));
    FAILS(QUORLOCK_CONTENDED, QUORLOCK_CONTENDED);
    CHECK(quorlock_lock_all(locks, 30, NULL, &leases, &error) == QUORLOCK_TIMEOUT && !leases && error_names("b"));
    FAILS(QUORLOCK_TIMEOUT, QUORLOCK_TIMEOUT);
    /* Whoever waits for one holds what comes before it, and leaves what is behind it to others. */
    for (int cancelled = 1; cancelled >= 0; cancelled--) {
        quorlock_cancel_t *cancel = quorlock_cancel_new();
        struct wants wants = {.locks = locks, .cancel = cancel};
        pthread_create(&wants.thread, NULL, want, &wants);
        CHECK(comes_to_wait(client, 1));
        FAILS(QUORLOCK_CONTENDED, quorlock_try_lock(anothers[0], &lease, &error));
        quorlock_lease_free(held(anothers[2]));
        if (cancelled) quorlock_cancel(cancel);
        else quorlock_lease_free(taken);
        pthread_join(wants.thread, NULL);
        CHECK(wants.code == (cancelled ? QUORLOCK_CANCELLED : QUORLOCK_OK));
        CHECK(cancelled ? !wants.leases : quorlock_leases_is_held(wants.leases));
        /* Freed, they are released. */
        quorlock_leases_free(wants.leases);
        quorlock_lease_free(held(anothers[0]));
        quorlock_cancel_free(cancel);
    }
    for (size_t at = 0; at < 3; at++) {
        quorlock_lease_free(held(anothers[at]));
        quorlock_lock_free(anothers[at]);
    }
    quorlock_locks_free(locks);
    quorlock_client_free(client);
}

static void the_loss_of_one_is_told_with_its_name(void) {
    quorlock_client_t *ours = client_of("memory://c-loss-of-one"), *theirs = client_of("memory://c-loss-of-one");
    const char *const names[] = {"a", "b"};
    quorlock_locks_t *locks = locks_of(ours, 2, names);
    quorlock_lock_t *operators[] = {lock_named(theirs, "a"), lock_named(theirs, "b")};
    quorlock_leases_t *leases = NULL;
    WORKS(quorlock_lock_all(locks, 0, NULL, &leases, &error));
    struct seen replaced, seen;
    seen_init(&replaced);
    seen_init(&seen);
    WORKS(quorlock_leases_set_lost_callback(leases, &replaced, on_lost, &error));
    quorlock_queue_t *queue = NULL;
    WORKS(quorlock_queue_new(&queue, &error));
    WORKS(quorlock_leases_set_lost_callback_on(leases, queue, &seen, on_lost, &error));
    WORKS(quorlock_lock_force_release(operators[1], QUORLOCK_ANY_FENCE, NULL, NULL, &error));
    /* The extension is what finds it out. */
    CHECK(quorlock_leases_extend(leases, QUORLOCK_DEFAULT, &error) == QUORLOCK_LOCK_LOST && error_names("b"));
    FAILS(QUORLOCK_LOCK_LOST, QUORLOCK_LOCK_LOST);
    CHECK(quorlock_leases_state(leases) == QUORLOCK_LEASE_FORCED);
    CHECK(!quorlock_leases_is_held(leases) && quorlock_leases_remaining_ms(leases) == 0);
    size_t len = 0;
    const char *name = quorlock_leases_lost_name(leases, &len);
    CHECK(len == 1 && name && *name == 'b');
    struct pollfd readable = {.fd = quorlock_queue_fd(queue), .events = POLLIN};
    CHECK(poll(&readable, 1, 30000) == 1 && quorlock_queue_dispatch(queue) == 1);
    CHECK(seen.calls == 1 && seen.state == QUORLOCK_LEASE_FORCED && pthread_equal(seen.thread, pthread_self()));
    /* The other stays held until they are released. */
    quorlock_lease_t *none = NULL;
    FAILS(QUORLOCK_CONTENDED, quorlock_try_lock(operators[0], &none, &error));
    /* Set after the loss, a callback comes soon. */
    struct seen late;
    seen_init(&late);
    WORKS(quorlock_leases_set_lost_callback(leases, &late, on_lost, &error));
    CHECK(comes(&late.over) && late.state == QUORLOCK_LEASE_FORCED && seen.calls == 1 && replaced.calls == 0);
    bool was_held = true;
    WORKS(quorlock_unlock_all(leases, &was_held, &error));
    CHECK(!was_held && quorlock_leases_state(leases) == QUORLOCK_LEASE_FORCED);
    for (size_t at = 0; at < 2; at++) {
        quorlock_lease_free(held(operators[at]));
        quorlock_lock_free(operators[at]);
    }
    quorlock_leases_free(leases);
    quorlock_queue_free(queue);
    quorlock_locks_free(locks);
    quorlock_client_free(ours);
    quorlock_client_free(theirs);
}

static void what_cannot_be_held_together(void) {
    quorlock_client_t *client = some_client();
    static const char text[] = "abcdefghijklmnopq{";
    const char *names[18];
    size_t lens[18];
    for (size_t at = 0; at < 18; at++) names[at] = text + at, lens[at] = 1;
    quorlock_locks_t *locks = NULL;
    CHECK(quorlock_locks_new(client, names, lens, 17, NULL, &locks, &error) == QUORLOCK_INVALID_ARGUMENT);
    CHECK(has(quorlock_error_message(error), "17"));
    FAILS(QUORLOCK_INVALID_ARGUMENT, QUORLOCK_INVALID_ARGUMENT);
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_locks_new(client, names, lens, 0, NULL, &locks, &error));
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_locks_new(client, names + 16, lens, 2, NULL, &locks, &error));
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_locks_new(client, NULL, lens, 2, NULL, &locks, &error));
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_locks_new(client, names, NULL, 2, NULL, &locks, &error));
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_locks_new(client, names, lens, SIZE_MAX, NULL, &locks, &error));
    names[1] = NULL;
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_locks_new(client, names, lens, 2, NULL, &locks, &error));
    lens[1] = 0;
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_locks_new(client, names, lens, 2, NULL, &locks, &error));
    CHECK(!locks);
    names[1] = "a\0b", lens[1] = 3;
    WORKS(quorlock_locks_new(client, names, lens, 2, NULL, &locks, &error));
    quorlock_leases_t *leases = NULL;
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_lock_all(locks, -7, NULL, &leases, &error));
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_lock_all(locks, 0, NULL, NULL, &error));
    WORKS(quorlock_lock_all(locks, 0, NULL, &leases, &error));
    CHECK(quorlock_leases_count(leases) == 2 && quorlock_leases_fence_of(leases, "a\0b", 3) > 0);
    quorlock_leases_free(leases);
    quorlock_locks_free(locks);
    quorlock_client_free(client);
}

#ifndef _WIN32
static void a_forked_child_holds_none_of_them(void) {
    quorlock_client_t *client = some_client();
    const char *const names[] = {"a", "b"};
    quorlock_locks_t *locks = locks_of(client, 2, names);
    quorlock_leases_t *leases = NULL, *none = NULL;
    WORKS(quorlock_lock_all(locks, 0, NULL, &leases, &error));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        broken = 0;
        size_t len = 0;
        CHECK(quorlock_leases_state(leases) == QUORLOCK_LEASE_NONE && !quorlock_leases_is_held(leases));
        CHECK(quorlock_leases_count(leases) == 0 && !quorlock_leases_name(leases, 0, &len));
        FAILS(QUORLOCK_FORKED, quorlock_lock_all(locks, 0, NULL, &none, &error));
        FAILS(QUORLOCK_FORKED, quorlock_leases_extend(leases, QUORLOCK_DEFAULT, &error));
        FAILS(QUORLOCK_FORKED, quorlock_unlock_all(leases, NULL, &error));
        quorlock_leases_free(leases);
        quorlock_locks_free(locks);
        fflush(stdout);
        /* Not an exit: a leak checker would count what the parent's threads hold, which are not here. */
        execlp(broken ? "false" : "true", "true", (char *)NULL);
        _exit(1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    bool was_held = false;
    WORKS(quorlock_unlock_all(leases, &was_held, &error));
    CHECK(was_held);
    quorlock_leases_free(leases);
    quorlock_locks_free(locks);
    quorlock_client_free(client);
}
#endif

const struct test several_tests[] = {
    TEST(all_at_once), TEST(all_or_none), TEST(the_loss_of_one_is_told_with_its_name), TEST(what_cannot_be_held_together),
#ifndef _WIN32
    TEST(a_forked_child_holds_none_of_them),
#endif
    {NULL, NULL}};
