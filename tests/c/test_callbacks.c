/* Tests of callbacks of losses, and the log. */

#include "test.h"

static void losses_are_told(void) {
    quorlock_client_t *client = some_client();
    quorlock_lock_t *lock = lock_with_ttl(client, 200, false);
    quorlock_lease_t *lease = held(lock);
    struct seen seen;
    seen_init(&seen);
    WORKS(quorlock_lease_set_lost_callback(lease, &seen, on_lost, &error));
    CHECK(comes(&seen.over) && seen.calls == 1 && seen.state == QUORLOCK_LEASE_EXPIRED);
    CHECK(!pthread_equal(seen.thread, pthread_self()));
    CHECK(quorlock_lease_state(lease) == QUORLOCK_LEASE_EXPIRED);
    quorlock_lease_free(lease);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

static void a_callback_that_blocks_loses_no_lease(void) {
    /* So long that a machine which stands still for a second costs nobody the lease. */
    enum { TTL = 2000 };
    quorlock_client_t *client = some_client();
    quorlock_lock_t *doomed = lock_with_ttl(client, 200, false), *lock = NULL;
    quorlock_lock_options_t *options = quorlock_lock_options_new();
    quorlock_lock_options_set_ttl(options, TTL);
    WORKS(quorlock_lock_new(client, "kept", 4, options, &lock, &error));
    quorlock_lock_options_free(options);
    quorlock_lease_t *lost = held(doomed), *kept = held(lock);
    struct seen seen;
    seen_init(&seen);
    seen.wait = true;
    WORKS(quorlock_lease_set_lost_callback(lost, &seen, on_lost, &error));
    CHECK(comes(&seen.called));
    /* The work that a callback should not do, but may. */
    nap(2 * TTL);
    CHECK(sem_trywait(&seen.over) != 0);
    CHECK(quorlock_lease_is_held(kept));
    quorlock_stats_t counts;
    WORKS(quorlock_client_stats(client, &counts, sizeof counts, &error));
    CHECK(counts.lost == 1 && counts.renewals >= 2);
    sem_post(&seen.go_on);
    CHECK(comes(&seen.over));
    quorlock_lease_free(lost);
    quorlock_lease_free(kept);
    quorlock_lock_free(doomed);
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

void callbacks_may_free_their_lease(void) {
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

/* Makes the library log a warning: most of a long max_hold is over. It has the last fifth for it, even under valgrind
 * and on a machine that stands still. */
static void warn(void) {
    quorlock_client_t *client = some_client();
    quorlock_lock_options_t *options = quorlock_lock_options_new();
    quorlock_lock_options_set_ttl(options, 2000);
    quorlock_lock_options_set_max_hold(options, 4000);
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
    /* A line of a test before this one may come first. */
    while (!has(seen.line, "max_hold")) {
        sem_post(&seen.go_on);
        if (!comes(&seen.called)) break;
    }
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

/* The parts of a line that tells of a loss. */
struct parts {
    sem_t told;
    char event[64], template[128], lock[64], reason[64], line[256];
    bool has_node;
};

static void on_line(void *userdata, int32_t level, const char *line) {
    struct parts *parts = userdata;
    if (!same(quorlock_log_event(), "lease_lost") || !same(quorlock_log_field("lock"), "parts")) return;
    CHECK(level == QUORLOCK_LOG_WARN && !quorlock_log_field(NULL));
    snprintf(parts->event, sizeof parts->event, "%s", quorlock_log_event());
    snprintf(parts->template, sizeof parts->template, "%s", quorlock_log_template());
    snprintf(parts->lock, sizeof parts->lock, "%s", quorlock_log_field("lock"));
    snprintf(parts->reason, sizeof parts->reason, "%s", quorlock_log_field("reason"));
    snprintf(parts->line, sizeof parts->line, "%s", line);
    parts->has_node = quorlock_log_field("node");
    sem_post(&parts->told);
}

static void a_line_has_its_parts_apart(void) {
    quorlock_client_t *client = some_client();
    quorlock_lock_options_t *options = quorlock_lock_options_new();
    quorlock_lock_options_set_ttl(options, 200);
    quorlock_lock_options_set_renew(options, false);
    quorlock_lock_t *lock = NULL;
    WORKS(quorlock_lock_new(client, "parts", 5, options, &lock, &error));
    quorlock_lock_options_free(options);
    struct parts parts = {.has_node = false};
    sem_init(&parts.told, 0, 0);
    quorlock_set_log_callback(&parts, on_line);
    quorlock_lease_t *lease = held(lock);
    CHECK(comes(&parts.told));
    quorlock_set_log_callback(NULL, NULL);
    CHECK(same(parts.event, "lease_lost") && same(parts.lock, "parts") && same(parts.reason, "expired") && !parts.has_node);
    CHECK(same(parts.template, "the lease of the lock `{lock}` is lost: {reason}"));
    CHECK(same(parts.line, "the lease of the lock `parts` is lost: expired"));
    /* Nowhere else. */
    CHECK(!quorlock_log_event() && !quorlock_log_template() && !quorlock_log_field("lock"));
    quorlock_lease_free(lease);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

static void what_blocks_withholds_no_loss(void) {
    quorlock_client_t *client = some_client();
    quorlock_lock_t *lock = lock_with_ttl(client, 200, false), *other = NULL;
    quorlock_lock_options_t *options = quorlock_lock_options_new();
    quorlock_lock_options_set_ttl(options, 200);
    quorlock_lock_options_set_renew(options, false);
    WORKS(quorlock_lock_new(client, "other", 5, options, &other, &error));
    quorlock_lock_options_free(options);
    struct seen log, blocks, stops, told;
    seen_init(&log);
    seen_init(&blocks);
    seen_init(&stops);
    seen_init(&told);
    log.wait = blocks.wait = true;
    /* The loss is a line of the log, which waits there. */
    quorlock_set_log_callback(&log, on_log);
    quorlock_lease_t *first = held(lock), *second = held(other);
    WORKS(quorlock_lease_set_lost_callback(first, &blocks, on_lost, &error));
    WORKS(quorlock_lease_set_stop_callback(first, &stops, on_lost, &error));
    WORKS(quorlock_lease_set_lost_callback(second, &told, on_lost, &error));
    CHECK(comes(&log.called) && comes(&blocks.called));
    CHECK(comes(&stops.over) && comes(&told.over) && told.state == QUORLOCK_LEASE_EXPIRED);
    CHECK(sem_trywait(&log.over) != 0 && sem_trywait(&blocks.over) != 0);
    sem_post(&blocks.go_on);
    log.wait = false;
    sem_post(&log.go_on);
    quorlock_set_log_callback(NULL, NULL);
    CHECK(comes(&blocks.over));
    quorlock_lease_free(first);
    quorlock_lease_free(second);
    quorlock_lock_free(lock);
    quorlock_lock_free(other);
    quorlock_client_free(client);
}

const struct test callbacks_tests[] = {
    TEST(losses_are_told), TEST(a_callback_that_blocks_loses_no_lease), TEST(callbacks_are_over_when_freed),
    TEST(callbacks_may_free_their_lease), TEST(callbacks_can_be_replaced), TEST(the_log),
    TEST(a_line_has_its_parts_apart),
    /* After that of the log, which is to hear no line of this one. */
    TEST(what_blocks_withholds_no_loss), {NULL, NULL}};
