/* Tests of the C interface: test [-v] [NAME...]. Most use a node in this process; those that need servers use
 * QUORLOCK_NODES. The last line is `N passed, M failed`. */

#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <quorlock.h>

/* ---- a small frame ---- */

static const char *self;
static int broken; /* checks that did not hold in the test that runs */

#define CHECK(condition) \
    ((condition) ? (void)0 : (void)(broken++, printf("     %s:%d: %s\n", __FILE__, __LINE__, #condition)))

static void nap(int ms) { nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL); }

/* Waits for a semaphore, but not for ever. */
static bool comes(sem_t *semaphore) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 30;
    while (sem_timedwait(semaphore, &end))
        if (errno != EINTR) return false;
    return true;
}

static bool same(const char *a, const char *b) { return a && b && !strcmp(a, b); }
static bool has(const char *text, const char *part) { return text && strstr(text, part); }

/* Whether a call has failed with this kind, and an error object that says so. Frees it. */
static bool fails(int32_t code, quorlock_error_t **error, int32_t kind) {
    bool good = code == kind && *error && quorlock_error_kind(*error) == kind && *quorlock_error_message(*error);
    if (!good)
        printf("     expected %s, got %s: %s\n", quorlock_kind_name(kind), quorlock_kind_name(code),
               *error ? quorlock_error_text(*error) : "no error object");
    quorlock_error_free(*error);
    *error = NULL;
    return good;
}

static quorlock_error_t *error; /* of the call just made */
#define FAILS(kind, call) CHECK(fails(call, &error, kind))
#define WORKS(call) CHECK((call) == QUORLOCK_OK && !error)

static quorlock_client_t *client_of(const char *node) {
    quorlock_client_options_t *options = quorlock_client_options_new();
    quorlock_client_t *client = NULL;
    CHECK(quorlock_client_options_set_nodes(options, &node, 1) == QUORLOCK_OK);
    WORKS(quorlock_client_new(options, &client, &error));
    quorlock_client_options_free(options);
    return client;
}

/* A client of a node in this process, which each test has for itself. */
static quorlock_client_t *some_client(void) {
    static int number;
    char node[64];
    snprintf(node, sizeof node, "memory://c-%d-%d", (int)getpid(), number++);
    return client_of(node);
}

static quorlock_lock_t *lock_of(quorlock_client_t *client, const quorlock_lock_options_t *options) {
    quorlock_lock_t *lock = NULL;
    WORKS(quorlock_lock_new(client, "orders:42", 9, options, &lock, &error));
    return lock;
}

static quorlock_lock_t *lock_with_ttl(quorlock_client_t *client, int64_t ttl_ms, bool renew) {
    quorlock_lock_options_t *options = quorlock_lock_options_new();
    quorlock_lock_options_set_ttl(options, ttl_ms);
    quorlock_lock_options_set_renew(options, renew);
    quorlock_lock_t *lock = lock_of(client, options);
    quorlock_lock_options_free(options);
    return lock;
}

static quorlock_lease_t *held(const quorlock_lock_t *lock) {
    quorlock_lease_t *lease = NULL;
    WORKS(quorlock_lock(lock, QUORLOCK_DEFAULT, NULL, &lease, &error));
    CHECK(quorlock_lease_is_held(lease));
    return lease;
}

/* What a thread has got from a call. */
struct other {
    const quorlock_lock_t *lock;
    int64_t wait_ms;
    const quorlock_cancel_t *cancel;
    int32_t code;
    quorlock_lease_t *lease;
    pthread_t thread;
};

static void *other_thread(void *argument) {
    struct other *other = argument;
    other->code = quorlock_lock(other->lock, other->wait_ms, other->cancel, &other->lease, NULL);
    return NULL;
}

static void start_other(struct other *other) { pthread_create(&other->thread, NULL, other_thread, other); }

static int32_t finish_other(struct other *other) {
    pthread_join(other->thread, NULL);
    return other->code;
}

/* ---- what a callback has seen ---- */

struct seen {
    sem_t called, go_on, over;
    int calls, state;
    bool wait;
    pthread_t thread;
    quorlock_lease_t *free;
    const quorlock_lease_t *unset;
    char line[512];
};

static void seen_init(struct seen *seen) {
    memset(seen, 0, sizeof *seen);
    sem_init(&seen->called, 0, 0);
    sem_init(&seen->go_on, 0, 0);
    sem_init(&seen->over, 0, 0);
}

static void on_lost(void *userdata, int32_t state) {
    struct seen *seen = userdata;
    seen->calls++;
    seen->state = state;
    seen->thread = pthread_self();
    sem_post(&seen->called);
    if (seen->wait) comes(&seen->go_on);
    if (seen->unset) quorlock_lease_set_lost_callback(seen->unset, NULL, NULL, NULL);
    quorlock_lease_free(seen->free);
    sem_post(&seen->over);
}

static void on_log(void *userdata, int32_t level, const char *line) {
    struct seen *seen = userdata;
    seen->calls++;
    seen->state = level;
    snprintf(seen->line, sizeof seen->line, "%s", line);
    sem_post(&seen->called);
    if (seen->wait) comes(&seen->go_on);
    sem_post(&seen->over);
}

/* ---- tests ---- */

static void versions(void) {
    CHECK(quorlock_abi_version() == QUORLOCK_ABI_VERSION);
    CHECK(same(quorlock_version(), QUORLOCK_VERSION));
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", QUORLOCK_VERSION_MAJOR, QUORLOCK_VERSION_MINOR, QUORLOCK_VERSION_PATCH);
    CHECK(same(text, QUORLOCK_VERSION));
}

static void names_of_kinds(void) {
    static const struct { int32_t number; const char *name; } kinds[] = {
        {QUORLOCK_OK, "Ok"}, {QUORLOCK_INVALID_ARGUMENT, "InvalidArgument"}, {QUORLOCK_CONTENDED, "Contended"},
        {QUORLOCK_TIMEOUT, "Timeout"}, {QUORLOCK_QUORUM_UNAVAILABLE, "QuorumUnavailable"},
        {QUORLOCK_LOCK_LOST, "LockLost"}, {QUORLOCK_NOT_OWNER, "NotOwner"},
        {QUORLOCK_TOO_MANY_WAITERS, "TooManyWaiters"}, {QUORLOCK_MISCONFIGURED, "Misconfigured"},
        {QUORLOCK_CANCELLED, "Cancelled"}, {QUORLOCK_CLOSED, "Closed"}, {QUORLOCK_FORKED, "Forked"},
        {QUORLOCK_INTERNAL, "Internal"}};
    int32_t count = sizeof kinds / sizeof *kinds;
    for (int32_t at = 0; at < count; at++) {
        CHECK(kinds[at].number == at);
        CHECK(same(quorlock_kind_name(at), kinds[at].name));
    }
    CHECK(!quorlock_kind_name(count));
    CHECK(!quorlock_kind_name(-1));
    CHECK(same(quorlock_state_name(QUORLOCK_LEASE_NONE), "none"));
    CHECK(same(quorlock_state_name(QUORLOCK_LEASE_RELEASED), "released"));
    CHECK(same(quorlock_state_name(QUORLOCK_LEASE_HELD), "held"));
    CHECK(same(quorlock_state_name(QUORLOCK_LEASE_OWNER_GONE), "owner_gone"));
    CHECK(!quorlock_state_name(99));
}

static void null_everywhere(void) {
    FAILS(1, quorlock_client_new(NULL, NULL, &error));
    FAILS(1, quorlock_client_close(NULL, &error));
    FAILS(1, quorlock_client_stats(NULL, NULL, 0, &error));
    quorlock_lock_t *lock = NULL;
    FAILS(1, quorlock_lock_new(NULL, NULL, 0, NULL, NULL, &error));
    FAILS(1, quorlock_lock_new(NULL, "a", 1, NULL, &lock, &error));
    FAILS(1, quorlock_lock(NULL, 0, NULL, NULL, &error));
    FAILS(1, quorlock_try_lock(NULL, NULL, &error));
    FAILS(1, quorlock_lock_release(NULL, NULL, &error));
    FAILS(1, quorlock_unlock(NULL, NULL, &error));
    FAILS(1, quorlock_lease_extend(NULL, 0, &error));
    FAILS(1, quorlock_lease_ensure(NULL, 0, &error));
    FAILS(1, quorlock_lease_set_lost_callback(NULL, NULL, NULL, &error));
    FAILS(QUORLOCK_INTERNAL, quorlock_test_panic(&error));
    /* And where no error object is wanted. */
    CHECK(quorlock_client_new(NULL, NULL, NULL) == 1 && quorlock_client_close(NULL, NULL) == 1);
    CHECK(quorlock_client_stats(NULL, NULL, 0, NULL) == 1 && quorlock_lock_new(NULL, NULL, 0, NULL, NULL, NULL) == 1);
    CHECK(quorlock_lock(NULL, 0, NULL, NULL, NULL) == 1 && quorlock_try_lock(NULL, NULL, NULL) == 1);
    CHECK(quorlock_lock_release(NULL, NULL, NULL) == 1 && quorlock_unlock(NULL, NULL, NULL) == 1);
    CHECK(quorlock_lease_extend(NULL, 0, NULL) == 1 && quorlock_lease_ensure(NULL, 0, NULL) == 1);
    CHECK(quorlock_lease_set_lost_callback(NULL, NULL, NULL, NULL) == 1 && quorlock_test_panic(NULL) == 12);
    CHECK(quorlock_lease_state(NULL) == QUORLOCK_LEASE_NONE && !quorlock_lease_is_held(NULL));
    CHECK(quorlock_lease_remaining_ms(NULL) == 0);
    CHECK(quorlock_error_kind(NULL) == 0 && quorlock_error_node_count(NULL) == 0);
    CHECK(!quorlock_error_message(NULL) && !quorlock_error_text(NULL));
    CHECK(!quorlock_error_node_address(NULL, 0) && !quorlock_error_node_message(NULL, 0));
    CHECK(quorlock_client_options_set_nodes(NULL, NULL, 0) == 1 && quorlock_client_options_set_ttl(NULL, 1) == 1);
    CHECK(quorlock_client_options_set_wait(NULL, 1) == 1 && quorlock_client_options_set_renew(NULL, true) == 1);
    CHECK(quorlock_client_options_set_max_hold(NULL, 1) == 1 && quorlock_client_options_set_raw(NULL, true) == 1);
    CHECK(quorlock_client_options_set_max_ttl(NULL, 1) == 1 && quorlock_client_options_set_drift(NULL, 1) == 1);
    CHECK(quorlock_client_options_set_node_timeout(NULL, 1) == 1);
    CHECK(quorlock_client_options_set_min_validity(NULL, 1) == 1);
    CHECK(quorlock_client_options_set_namespace(NULL, NULL, 0) == 1);
    CHECK(quorlock_client_options_set_label(NULL, NULL, 0) == 1 && quorlock_client_options_set_ca(NULL, NULL, 0) == 1);
    CHECK(quorlock_client_options_set_cert(NULL, NULL, 0) == 1 && quorlock_client_options_set_key(NULL, NULL, 0) == 1);
    CHECK(quorlock_lock_options_set_ttl(NULL, 1) == 1 && quorlock_lock_options_set_wait(NULL, 1) == 1);
    CHECK(quorlock_lock_options_set_renew(NULL, true) == 1 && quorlock_lock_options_set_max_hold(NULL, 1) == 1);
    CHECK(quorlock_lock_options_set_raw(NULL, true) == 1 && quorlock_lock_options_set_owner(NULL, NULL, 0) == 1);
    quorlock_error_free(NULL);
    quorlock_client_options_free(NULL);
    quorlock_client_free(NULL);
    quorlock_lock_options_free(NULL);
    quorlock_cancel(NULL);
    quorlock_cancel_free(NULL);
    quorlock_lock_free(NULL);
    quorlock_lease_free(NULL);
    quorlock_set_log_callback(NULL, NULL);
    /* NULL where something is needed beside what is there. */
    quorlock_client_t *client = some_client();
    lock = lock_of(client, NULL);
    quorlock_lease_t *lease = NULL;
    quorlock_lock_t *unnamed = NULL;
    FAILS(1, quorlock_lock_new(client, NULL, 3, NULL, &unnamed, &error));
    FAILS(1, quorlock_lock_new(client, NULL, 0, NULL, &unnamed, &error));
    FAILS(1, quorlock_lock_new(client, "a", SIZE_MAX, NULL, &unnamed, &error));
    FAILS(1, quorlock_lock(lock, 0, NULL, NULL, &error));
    FAILS(1, quorlock_client_stats(client, NULL, 8, &error));
    CHECK(!unnamed && !lease);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

static void the_error_object(void) {
    quorlock_client_t *client = client_of("memory://c-error");
    quorlock_lock_t *lock = lock_of(client, NULL);
    quorlock_lease_t *lease = held(lock);
    struct other other = {.lock = lock};
    start_other(&other);
    CHECK(finish_other(&other) == QUORLOCK_CONTENDED);
    quorlock_client_t *rival = client_of("memory://c-error");
    quorlock_lock_t *same_lock = lock_of(rival, NULL);
    quorlock_lease_t *none = NULL;
    CHECK(quorlock_try_lock(same_lock, &none, &error) == QUORLOCK_CONTENDED && !none);
    CHECK(quorlock_error_kind(error) == QUORLOCK_CONTENDED);
    CHECK(has(quorlock_error_message(error), "orders:42"));
    CHECK(quorlock_error_node_count(error) == 1);
    CHECK(has(quorlock_error_node_address(error, 0), "c-error"));
    CHECK(has(quorlock_error_node_message(error, 0), "held by another"));
    CHECK(has(quorlock_error_text(error), quorlock_error_message(error)));
    CHECK(has(quorlock_error_text(error), quorlock_error_node_message(error, 0)));
    CHECK(!quorlock_error_node_address(error, 1) && !quorlock_error_node_message(error, SIZE_MAX));
    FAILS(QUORLOCK_CONTENDED, QUORLOCK_CONTENDED);
    FAILS(QUORLOCK_TIMEOUT, quorlock_lock(same_lock, 30, NULL, &none, &error));
    quorlock_lease_free(lease);
    quorlock_lock_free(lock);
    quorlock_lock_free(same_lock);
    quorlock_client_free(rival);
    quorlock_client_free(client);
}

/* Whether a client with these options is refused, with a message that has `part`. Frees the options. */
static bool refused(quorlock_client_options_t *options, const char *part) {
    quorlock_client_t *client = NULL;
    int32_t code = quorlock_client_new(options, &client, &error);
    bool good = !client && has(quorlock_error_message(error), part);
    if (!good) printf("     expected %s in: %s\n", part, quorlock_error_text(error));
    quorlock_client_options_free(options);
    return fails(code, &error, QUORLOCK_INVALID_ARGUMENT) && good;
}

static void mistakes_in_options(void) {
    quorlock_client_options_t *options = quorlock_client_options_new();
    CHECK(quorlock_client_options_set_ttl(options, -5) == QUORLOCK_INVALID_ARGUMENT);
    CHECK(quorlock_client_options_set_label(options, "\xff", 1) == QUORLOCK_INVALID_ARGUMENT);
    CHECK(refused(options, "ttl is -5 ms"));
    options = quorlock_client_options_new();
    const char *nodes[] = {"redis://h", NULL};
    CHECK(quorlock_client_options_set_nodes(options, nodes, 2) == QUORLOCK_INVALID_ARGUMENT);
    CHECK(refused(options, "nodes[1] is NULL"));
    options = quorlock_client_options_new();
    CHECK(quorlock_client_options_set_nodes(options, NULL, 0) == QUORLOCK_OK);
    CHECK(refused(options, "empty"));
    options = quorlock_client_options_new();
    CHECK(quorlock_client_options_set_nodes(options, NULL, 1) == QUORLOCK_INVALID_ARGUMENT);
    CHECK(refused(options, "nodes is NULL"));
    options = quorlock_client_options_new();
    CHECK(quorlock_client_options_set_drift(options, NAN) == QUORLOCK_OK);
    CHECK(refused(options, "drift"));
    options = quorlock_client_options_new();
    CHECK(quorlock_client_options_set_wait(options, -3) == QUORLOCK_INVALID_ARGUMENT);
    CHECK(refused(options, "wait"));
    options = quorlock_client_options_new();
    CHECK(quorlock_client_options_set_max_ttl(options, INT64_MAX) == QUORLOCK_OK);
    CHECK(refused(options, "max_ttl"));

    quorlock_client_t *client = some_client();
    quorlock_lock_options_t *of_lock = quorlock_lock_options_new();
    quorlock_lock_t *lock = NULL;
    CHECK(quorlock_lock_options_set_ttl(of_lock, INT64_MIN) == QUORLOCK_INVALID_ARGUMENT);
    FAILS(1, quorlock_lock_new(client, "a", 1, of_lock, &lock, &error));
    quorlock_lock_options_free(of_lock);
    of_lock = quorlock_lock_options_new();
    CHECK(quorlock_lock_options_set_ttl(of_lock, 5) == QUORLOCK_OK);
    FAILS(1, quorlock_lock_new(client, "a", 1, of_lock, &lock, &error));
    quorlock_lock_options_free(of_lock);
    FAILS(1, quorlock_lock_new(client, "a{b", 3, NULL, &lock, &error));
    CHECK(!lock);
    lock = lock_of(client, NULL);
    quorlock_lease_t *lease = NULL;
    FAILS(1, quorlock_lock(lock, -7, NULL, &lease, &error));
    FAILS(1, quorlock_lock(lock, INT64_MAX, NULL, &lease, &error));
    lease = held(lock);
    FAILS(1, quorlock_lease_extend(lease, -1, &error));
    FAILS(1, quorlock_lease_extend(lease, INT64_MAX, &error));
    FAILS(1, quorlock_lease_ensure(lease, -1, &error));
    FAILS(1, quorlock_lease_ensure(lease, INT64_MAX, &error));
    quorlock_lease_free(lease);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

static void a_hold(void) {
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

static void owners(void) {
    quorlock_client_t *client = some_client();
    quorlock_lock_t *lock = lock_of(client, NULL);
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
    quorlock_lock_t *lock = lock_with_ttl(client, 400, true);
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

static void a_loss_is_final(void) {
    quorlock_client_t *client = some_client();
    quorlock_lock_t *lock = lock_with_ttl(client, 200, false);
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

static void too_few_nodes(void) {
    quorlock_client_t *client = client_of("redis://127.0.0.1:1");
    quorlock_lock_t *lock = lock_of(client, NULL);
    quorlock_lease_t *lease = NULL;
    CHECK(quorlock_try_lock(lock, &lease, &error) == QUORLOCK_QUORUM_UNAVAILABLE);
    CHECK(same(quorlock_error_node_address(error, 0), "127.0.0.1:1"));
    FAILS(4, QUORLOCK_QUORUM_UNAVAILABLE);
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
    nap(30);
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
    nap(30);
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
    nap(30);
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

static void *free_lease(void *argument) {
    struct seen *seen = argument;
    quorlock_lease_free(seen->free);
    sem_post(&seen->called);
    return NULL;
}

static void callbacks_are_over_when_freed(void) {
    quorlock_client_t *client = some_client();
    quorlock_lock_t *lock = lock_with_ttl(client, 100, false);
    quorlock_lease_t *lease = held(lock);
    struct seen seen, freeing;
    seen_init(&seen);
    seen_init(&freeing);
    seen.wait = true;
    WORKS(quorlock_lease_set_lost_callback(lease, &seen, on_lost, &error));
    CHECK(comes(&seen.called));
    /* It runs, and waits for us: the free must wait for it. */
    freeing.free = lease;
    pthread_t thread;
    pthread_create(&thread, NULL, free_lease, &freeing);
    nap(100);
    CHECK(sem_trywait(&freeing.called) != 0);
    sem_post(&seen.go_on);
    CHECK(comes(&freeing.called) && sem_trywait(&seen.over) == 0);
    pthread_join(thread, NULL);
    /* Freed before the loss: never called. */
    lease = held(lock);
    seen_init(&seen);
    WORKS(quorlock_lease_set_lost_callback(lease, &seen, on_lost, &error));
    quorlock_lease_free(lease);
    WORKS(quorlock_client_close(client, &error));
    nap(30);
    CHECK(seen.calls == 0);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

static void callbacks_may_free_their_lease(void) {
    quorlock_client_t *client = some_client();
    quorlock_lock_t *lock = lock_with_ttl(client, 100, false);
    struct seen seen;
    seen_init(&seen);
    seen.free = held(lock);
    WORKS(quorlock_lease_set_lost_callback(seen.free, &seen, on_lost, &error));
    CHECK(comes(&seen.over) && seen.state == QUORLOCK_LEASE_EXPIRED);
    quorlock_lease_t *lease = held(lock);
    seen_init(&seen);
    seen.unset = lease;
    WORKS(quorlock_lease_set_lost_callback(lease, &seen, on_lost, &error));
    CHECK(comes(&seen.over) && seen.calls == 1);
    quorlock_lease_free(lease);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

static void callbacks_can_be_replaced(void) {
    quorlock_client_t *client = some_client();
    quorlock_lock_t *lock = lock_with_ttl(client, 200, false);
    quorlock_lease_t *lease = held(lock);
    struct seen first, second, third;
    seen_init(&first);
    seen_init(&second);
    seen_init(&third);
    WORKS(quorlock_lease_set_lost_callback(lease, &first, on_lost, &error));
    WORKS(quorlock_lease_set_lost_callback(lease, NULL, NULL, &error));
    WORKS(quorlock_lease_set_lost_callback(lease, &second, on_lost, &error));
    CHECK(comes(&second.over) && first.calls == 0 && second.calls == 1);
    /* After the loss it is told soon, as often as it is asked. */
    WORKS(quorlock_lease_set_lost_callback(lease, &third, on_lost, &error));
    CHECK(comes(&third.over) && third.state == QUORLOCK_LEASE_EXPIRED && second.calls == 1);
    WORKS(quorlock_lease_set_lost_callback(lease, &third, on_lost, &error));
    CHECK(comes(&third.over) && third.calls == 2);
    quorlock_lease_free(lease);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

/* Makes the library log a warning: most of a long max_hold is over. */
static void warn(void) {
    quorlock_client_t *client = some_client();
    quorlock_lock_options_t *options = quorlock_lock_options_new();
    quorlock_lock_options_set_ttl(options, 200);
    quorlock_lock_options_set_max_hold(options, 250);
    quorlock_lock_t *lock = lock_of(client, options);
    quorlock_lease_t *lease = held(lock);
    while (quorlock_lease_is_held(lease)) nap(5);
    CHECK(quorlock_lease_state(lease) == QUORLOCK_LEASE_MAX_HOLD);
    quorlock_lease_free(lease);
    quorlock_lock_options_free(options);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

static void *unset_log(void *argument) {
    quorlock_set_log_callback(NULL, NULL);
    sem_post(argument);
    return NULL;
}

static void the_log(void) {
    struct seen seen;
    seen_init(&seen);
    seen.wait = true;
    quorlock_set_log_callback(&seen, on_log);
    warn();
    CHECK(comes(&seen.called));
    CHECK(seen.state == QUORLOCK_LOG_WARN && has(seen.line, "max_hold"));
    /* Over when it is unset: the line above still runs. */
    sem_t unset;
    sem_init(&unset, 0, 0);
    pthread_t thread;
    pthread_create(&thread, NULL, unset_log, &unset);
    nap(50);
    CHECK(sem_trywait(&unset) != 0);
    sem_post(&seen.go_on);
    CHECK(comes(&unset) && comes(&seen.over));
    pthread_join(thread, NULL);
    int calls = seen.calls;
    warn();
    CHECK(seen.calls == calls);
}

static void stats(void) {
    quorlock_client_t *client = some_client();
    quorlock_lock_t *lock = lock_of(client, NULL);
    quorlock_lease_free(held(lock));
    quorlock_lease_free(held(lock));
    quorlock_stats_t stats;
    memset(&stats, 0xff, sizeof stats);
    WORKS(quorlock_client_stats(client, &stats, sizeof stats, &error));
    CHECK(stats.acquired == 2 && stats.released == 2 && stats.lost == 0);
    /* A program built with an earlier, shorter struct. */
    memset(&stats, 0xff, sizeof stats);
    WORKS(quorlock_client_stats(client, &stats, offsetof(quorlock_stats_t, reentered), &error));
    CHECK(stats.acquired == 2 && stats.reentered == UINT64_MAX);
    /* And with a later, longer one. */
    struct { quorlock_stats_t stats; uint64_t more; } later = {.more = 7};
    WORKS(quorlock_client_stats(client, &later.stats, sizeof later, &error));
    CHECK(later.stats.acquired == 2 && later.more == 7);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

static void a_panic_is_an_error(void) {
    CHECK(quorlock_test_panic(&error) == QUORLOCK_INTERNAL);
    CHECK(has(quorlock_error_message(error), "panic") && has(quorlock_error_message(error), "a test"));
    FAILS(QUORLOCK_INTERNAL, QUORLOCK_INTERNAL);
}

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
    FAILS(QUORLOCK_FORKED, quorlock_unlock(from->lease, NULL, &error));
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

/* A lease of another process that has exited without a word: released by its exit. */
static void exiting_releases(void) {
    CHECK(getenv("QUORLOCK_NODES"));
    if (broken) return;
    char command[512];
    snprintf(command, sizeof command, "'%s' role:exits", self);
    CHECK(system(command) == 0);
    quorlock_client_t *client = NULL;
    WORKS(quorlock_client_new(NULL, &client, &error));
    quorlock_lock_t *lock = lock_of(client, NULL);
    quorlock_lease_t *lease = NULL;
    WORKS(quorlock_try_lock(lock, &lease, &error));
    quorlock_lease_free(lease);
    quorlock_lock_free(lock);
    /* Freed at once, and not closed: the release goes out all the same. */
    quorlock_client_free(client);
    WORKS(quorlock_client_new(NULL, &client, &error));
    lock = lock_of(client, NULL);
    WORKS(quorlock_lock(lock, 2000, NULL, &lease, &error));
    WORKS(quorlock_unlock(lease, NULL, &error));
    quorlock_lease_free(lease);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

/* For the exit: what is freed after main has returned. */
static quorlock_client_t *late_client;
static quorlock_lease_t *late_lease;
static quorlock_lock_t *late_lock;

static void free_late(void) {
    bool was_held = false;
    WORKS(quorlock_unlock(late_lease, &was_held, &error));
    CHECK(was_held);
    quorlock_lease_free(late_lease);
    quorlock_lock_free(late_lock);
    WORKS(quorlock_client_close(late_client, &error));
    quorlock_client_free(late_client);
    fflush(stdout);
    if (broken) _exit(1);
}

static int role_exits(void) {
    /* Never freed: the exit has to do. */
    if (quorlock_client_new(NULL, &late_client, NULL)) return 1;
    if (quorlock_lock_new(late_client, "orders:42", 9, NULL, &late_lock, NULL)) return 1;
    return quorlock_lock(late_lock, 0, NULL, &late_lease, NULL);
}

static int role_frees_late(void) {
    late_client = some_client();
    /* After the library's own, so before it when the process exits; and the thread's storage has gone by then. */
    atexit(free_late);
    late_lock = lock_of(late_client, NULL);
    late_lease = held(late_lock);
    return broken;
}

static void freeing_after_main(void) {
    char command[512];
    snprintf(command, sizeof command, "'%s' role:frees-late", self);
    CHECK(system(command) == 0);
}

static void on_lost_shutdown(void *userdata, int32_t state) {
    (void)state;
    quorlock_shutdown();
    sem_post(userdata);
}

static void shutting_down(void) {
    quorlock_shutdown();
    quorlock_shutdown();
    quorlock_client_t *client = some_client();
    quorlock_lock_t *lock = lock_of(client, NULL);
    quorlock_lease_t *lease = held(lock), *none = NULL;
    struct seen seen;
    seen_init(&seen);
    WORKS(quorlock_lease_set_lost_callback(lease, &seen, on_lost, &error));
    quorlock_shutdown();
    /* Its callbacks came before it returned. */
    CHECK(seen.calls == 1 && seen.state == QUORLOCK_LEASE_CLOSED);
    FAILS(QUORLOCK_CLOSED, quorlock_lock(lock, 0, NULL, &none, &error));
    quorlock_lease_free(lease);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
    /* What is made later works again; and a callback may end it all. */
    client = some_client();
    lock = lock_with_ttl(client, 100, false);
    lease = held(lock);
    sem_t over;
    sem_init(&over, 0, 0);
    WORKS(quorlock_lease_set_lost_callback(lease, &over, on_lost_shutdown, &error));
    CHECK(comes(&over));
    quorlock_lease_free(lease);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

static const struct { const char *name; void (*run)(void); } tests[] = {
#define TEST(name) {#name, name}
    TEST(versions), TEST(names_of_kinds), TEST(null_everywhere), TEST(the_error_object), TEST(mistakes_in_options),
    TEST(a_hold), TEST(freeing_releases), TEST(owners), TEST(an_owner_that_ends), TEST(a_loss_is_final),
    TEST(too_few_nodes), TEST(cancelling), TEST(closing), TEST(callbacks_are_over_when_freed),
    TEST(callbacks_may_free_their_lease), TEST(callbacks_can_be_replaced), TEST(the_log), TEST(stats),
    TEST(a_panic_is_an_error), TEST(a_forked_child), TEST(exiting_releases), TEST(freeing_after_main),
    TEST(shutting_down)};

int main(int argc, char **argv) {
    self = argv[0];
    if (argc == 2 && !strcmp(argv[1], "role:exits")) return role_exits();
    if (argc == 2 && !strcmp(argv[1], "role:frees-late")) return role_frees_late();
    int passed = 0, failed = 0;
    for (size_t at = 0; at < sizeof tests / sizeof *tests; at++) {
        bool asked = argc == 1;
        for (int word = 1; word < argc; word++) asked |= !strcmp(argv[word], tests[at].name);
        if (!asked) continue;
        broken = 0;
        tests[at].run();
        quorlock_error_free(error);
        error = NULL;
        printf("%s %s\n", broken ? "FAIL" : "ok  ", tests[at].name);
        fflush(stdout);
        broken ? failed++ : passed++;
    }
    /* For the leak checkers: nothing of ours runs on. */
    quorlock_shutdown();
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
