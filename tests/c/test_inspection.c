/* Tests of looking at a lock: who holds it, as the nodes say; and of taking it away. */

#include "test.h"

static quorlock_inspection_t *look(const quorlock_lock_t *lock) {
    quorlock_inspection_t *found = NULL;
    WORKS(quorlock_lock_inspect(lock, &found, &error));
    return found;
}

static void a_holder_and_what_each_node_has(void) {
    quorlock_client_t *client = some_client();
    quorlock_lock_t *lock = NULL;
    quorlock_lease_t *lease = NULL;
    bool locked = true;
    WORKS(quorlock_lock_new(client, "looked\0at", 9, NULL, &lock, &error));
    WORKS(quorlock_lock_is_locked(lock, &locked, &error));
    CHECK(!locked);
    quorlock_inspection_t *found = look(lock);
    quorlock_holder_t holder;
    CHECK(quorlock_inspection_verdict(found) == QUORLOCK_VERDICT_FREE && quorlock_inspection_fence(found) == 0);
    WORKS(quorlock_inspection_holder(found, &holder, sizeof holder, &error));
    CHECK(holder.votes == 0 && !holder.label);
    quorlock_inspection_free(found);

    WORKS(quorlock_lock(lock, 0, NULL, &lease, &error));
    WORKS(quorlock_lock_is_locked(lock, &locked, &error));
    CHECK(locked);
    found = look(lock);
    CHECK(quorlock_inspection_verdict(found) == QUORLOCK_VERDICT_HELD);
    CHECK(same(quorlock_verdict_name(quorlock_inspection_verdict(found)), "held"));
    CHECK(quorlock_inspection_fence(found) == quorlock_lease_fence(lease) && quorlock_inspection_queued(found) == 0);
    WORKS(quorlock_inspection_holder(found, &holder, sizeof holder, &error));
    CHECK(holder.votes == 1 && has(holder.label, ":") && holder.left_ms > 5000 && holder.left_ms < 10100);
    CHECK(quorlock_inspection_node_count(found) == 1);
    quorlock_node_view_t view;
    WORKS(quorlock_inspection_node(found, 0, &view, sizeof view, &error));
    CHECK(same(view.state, "held") && same(view.label, holder.label) && has(view.node, "memory://") && !view.error);
    CHECK(view.fence == quorlock_lease_fence(lease) && view.queued == 0 && view.quarantine_ms == 0);
    /* Of a caller that knows less of it: no more is written than there is room for. */
    struct { const char *label; uint64_t behind; } small = {NULL, 77};
    WORKS(quorlock_inspection_holder(found, (quorlock_holder_t *)&small, sizeof small.label, &error));
    CHECK(same(small.label, holder.label) && small.behind == 77);
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_inspection_node(found, 1, &view, sizeof view, &error));
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_inspection_node(found, 0, NULL, sizeof view, &error));
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_inspection_holder(found, NULL, sizeof holder, &error));
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_lock_inspect(lock, NULL, &error));
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_lock_is_locked(lock, NULL, &error));
    quorlock_inspection_free(found);
    WORKS(quorlock_unlock(lease, NULL, &error));
    quorlock_lease_free(lease);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

/* A lock with a label, for an owner by name; NULL where it is refused, and `error` says why. */
static quorlock_lock_t *labelled(quorlock_client_t *client, const char *label, const char *owner) {
    quorlock_lock_options_t *options = quorlock_lock_options_new();
    quorlock_lock_t *lock = NULL;
    CHECK(quorlock_lock_options_set_label(options, label, strlen(label)) == QUORLOCK_OK);
    CHECK(quorlock_lock_options_set_owner(options, owner, strlen(owner)) == QUORLOCK_OK);
    quorlock_error_free(error);
    error = NULL;
    if (quorlock_lock_new(client, "labelled", 8, options, &lock, &error)) lock = NULL;
    quorlock_lock_options_free(options);
    return lock;
}

static void a_label_of_a_lock(void) {
    quorlock_client_t *client = some_client();
    quorlock_lock_t *first = labelled(client, "first", "o"), *second = labelled(client, "second", "o");
    quorlock_lease_t *outer = NULL, *inner = NULL;
    WORKS(quorlock_lock(first, 0, NULL, &outer, &error));
    /* It enters the lease again, and leaves its label. */
    WORKS(quorlock_lock(second, 0, NULL, &inner, &error));
    quorlock_inspection_t *found = look(second);
    quorlock_holder_t holder;
    WORKS(quorlock_inspection_holder(found, &holder, sizeof holder, &error));
    CHECK(same(holder.label, "first"));
    quorlock_inspection_free(found);
    quorlock_lease_free(inner);
    WORKS(quorlock_unlock(outer, NULL, &error));
    quorlock_lease_free(outer);
    WORKS(quorlock_lock(second, 0, NULL, &outer, &error));
    found = look(first);
    WORKS(quorlock_inspection_holder(found, &holder, sizeof holder, &error));
    CHECK(same(holder.label, "second"));
    quorlock_inspection_free(found);
    quorlock_lease_free(outer);
    quorlock_lock_free(first);
    quorlock_lock_free(second);

    char longer[258] = {0};
    memset(longer, 'l', 257);
    const char *const bad[] = {longer, "redis://user:secret@host\n"};
    for (int i = 0; i < 2; i++) {
        CHECK(!labelled(client, bad[i], "o") && quorlock_error_kind(error) == QUORLOCK_INVALID_ARGUMENT);
        CHECK(has(quorlock_error_message(error), "label is") && !has(quorlock_error_message(error), "secret"));
    }
    quorlock_error_free(error);
    error = NULL;
    quorlock_client_free(client);
}

static void an_error_names_the_lock_and_its_holder(void) {
    quorlock_client_t *client = some_client();
    quorlock_lock_t *lock = NULL;
    quorlock_lease_t *lease = NULL, *none = NULL;
    WORKS(quorlock_lock_new(client, "looked\0at", 9, NULL, &lock, &error));
    WORKS(quorlock_lock(lock, 0, NULL, &lease, &error));
    quorlock_lock_options_t *options = quorlock_lock_options_new();
    CHECK(quorlock_lock_options_set_owner(options, "another", 7) == QUORLOCK_OK);
    quorlock_lock_t *other = NULL;
    WORKS(quorlock_lock_new(client, "looked\0at", 9, options, &other, &error));
    CHECK(quorlock_lock(other, 20, NULL, &none, &error) == QUORLOCK_TIMEOUT);
    size_t len = 0;
    const char *name = quorlock_error_lock_name(error, &len);
    CHECK(len == 9 && name && !memcmp(name, "looked\0at", 9));
    CHECK(!quorlock_error_lock_name(error, NULL));
    FAILS(QUORLOCK_TIMEOUT, QUORLOCK_TIMEOUT);
    quorlock_lock_options_free(options);
    quorlock_lock_free(other);
    quorlock_lease_free(lease);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

static void slots_of_a_semaphore(void) {
    quorlock_client_t *ours = client_of("memory://c-slots"), *theirs = client_of("memory://c-slots");
    quorlock_lock_t *looks = NULL, *takes = NULL, *lock = NULL;
    WORKS(quorlock_semaphore_new(ours, "api", 3, 2, NULL, &looks, &error));
    WORKS(quorlock_semaphore_new(theirs, "api", 3, 2, NULL, &takes, &error));
    WORKS(quorlock_lock_new(ours, "api", 3, NULL, &lock, &error));
    bool is_free = false;
    WORKS(quorlock_lock_wait_until_free(looks, QUORLOCK_FOREVER, &is_free, &error));
    CHECK(is_free);
    quorlock_lease_t *leases[] = {held(takes), held(takes)};
    quorlock_inspection_t *found = look(looks), *slot = NULL;
    CHECK(quorlock_inspection_verdict(found) == QUORLOCK_VERDICT_HELD && quorlock_inspection_slots_held(found) == 2);
    CHECK(quorlock_inspection_slot_count(found) == 2);
    for (size_t at = 0; at < 2; at++) {
        quorlock_holder_t holder;
        WORKS(quorlock_inspection_slot(found, (size_t)quorlock_lease_slot(leases[at]), &slot, &error));
        WORKS(quorlock_inspection_holder(slot, &holder, sizeof holder, &error));
        CHECK(holder.fence == quorlock_lease_fence(leases[at]) && holder.votes == 1);
        quorlock_inspection_free(slot);
    }
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_inspection_slot(found, 2, &slot, &error));
    quorlock_inspection_free(found);
    found = look(lock);
    CHECK(quorlock_inspection_verdict(found) == QUORLOCK_VERDICT_FREE && quorlock_inspection_slots_held(found) == 2);
    CHECK(quorlock_inspection_slot_count(found) == 0);
    quorlock_inspection_free(found);
    WORKS(quorlock_lock_wait_until_free(looks, 60, &is_free, &error));
    CHECK(!is_free);
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_lock_wait_until_free(looks, -7, &is_free, &error));
    /* One slot goes, then all. */
    uint64_t freed = 0, fence = quorlock_lease_fence(leases[0]);
    uint32_t number = (uint32_t)quorlock_lease_slot(leases[0]);
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_lock_force_release_slot(lock, 0, QUORLOCK_ANY_FENCE, NULL, NULL, &error));
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_lock_force_release_slot(looks, 2, QUORLOCK_ANY_FENCE, NULL, NULL, &error));
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_lock_force_release(looks, fence, NULL, NULL, &error));
    WORKS(quorlock_lock_force_release_slot(looks, number, fence, &freed, &found, &error));
    CHECK(freed == 1 && quorlock_inspection_verdict(found) == QUORLOCK_VERDICT_HELD);
    quorlock_inspection_free(found);
    WORKS(quorlock_lock_force_release(looks, QUORLOCK_ANY_FENCE, &freed, NULL, &error));
    CHECK(freed == 1);
    found = look(looks);
    CHECK(quorlock_inspection_slots_held(found) == 0 && quorlock_inspection_verdict(found) == QUORLOCK_VERDICT_FREE);
    quorlock_inspection_free(found);
    for (size_t at = 0; at < 2; at++) quorlock_lease_free(leases[at]);
    quorlock_lock_free(looks);
    quorlock_lock_free(takes);
    quorlock_lock_free(lock);
    quorlock_client_free(ours);
    quorlock_client_free(theirs);
}

static void a_lock_that_is_taken_away(void) {
    quorlock_client_t *ours = client_of("memory://c-forced"), *theirs = client_of("memory://c-forced");
    /* So that a renewal comes soon. */
    quorlock_lock_t *lock = lock_with_ttl(ours, 600, true), *operators = lock_of(theirs, NULL);
    uint64_t freed = 77;
    quorlock_inspection_t *found = NULL;
    WORKS(quorlock_lock_force_release(operators, QUORLOCK_ANY_FENCE, &freed, &found, &error));
    CHECK(freed == 0 && quorlock_inspection_verdict(found) == QUORLOCK_VERDICT_FREE);
    quorlock_inspection_free(found);

    quorlock_lease_t *lease = held(lock);
    struct seen seen;
    seen_init(&seen);
    WORKS(quorlock_lease_set_lost_callback(lease, &seen, on_lost, &error));
    WORKS(quorlock_lock_force_release(operators, quorlock_lease_fence(lease), &freed, &found, &error));
    quorlock_holder_t holder;
    WORKS(quorlock_inspection_holder(found, &holder, sizeof holder, &error));
    CHECK(freed == 1 && quorlock_inspection_verdict(found) == QUORLOCK_VERDICT_HELD && has(holder.label, ":"));
    quorlock_inspection_free(found);
    CHECK(comes(&seen.over) && seen.state == QUORLOCK_LEASE_FORCED);
    CHECK(quorlock_lease_state(lease) == QUORLOCK_LEASE_FORCED && !quorlock_lease_is_held(lease));
    FAILS(QUORLOCK_LOCK_LOST, quorlock_lease_extend(lease, QUORLOCK_DEFAULT, &error));
    quorlock_lease_free(lease);
    quorlock_lease_free(held(operators));
    quorlock_lock_free(lock);
    quorlock_lock_free(operators);
    quorlock_client_free(ours);
    quorlock_client_free(theirs);
}

/* Waits until somebody stands in the queue of the lock, but not forever. */
static bool comes_to_queue(const quorlock_lock_t *lock) {
    for (int left = 6000; left; left--) {
        quorlock_inspection_t *found = look(lock);
        uint32_t queued = quorlock_inspection_queued(found);
        quorlock_inspection_free(found);
        if (queued == 1) return true;
        nap(5);
    }
    return false;
}

static void only_a_fence_is_taken_away(void) {
    quorlock_client_t *ours = client_of("memory://c-fence-forced"), *theirs = client_of("memory://c-fence-forced");
    quorlock_lock_t *lock = lock_of(ours, NULL), *operators = lock_of(theirs, NULL);
    quorlock_lease_t *first = held(lock);
    uint64_t old = quorlock_lease_fence(first), freed = 77;
    WORKS(quorlock_unlock(first, NULL, &error));
    quorlock_lease_free(first);
    quorlock_lease_t *lease = held(lock);
    const uint64_t others[] = {old, quorlock_lease_fence(lease) + 1};
    for (size_t at = 0; at < 2; at++) {
        quorlock_inspection_t *found = NULL;
        CHECK(quorlock_lock_force_release(operators, others[at], &freed, &found, &error) == QUORLOCK_CONTENDED);
        CHECK(freed == 77 && !found && has(quorlock_error_holder(error), ":"));
        FAILS(QUORLOCK_CONTENDED, QUORLOCK_CONTENDED);
    }
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_lock_force_release(operators, UINT64_C(1) << 53, &freed, NULL, &error));
    /* A lease without fences has this one, and means nobody by it. */
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_lock_force_release(operators, 0, &freed, NULL, &error));
    WORKS(quorlock_lease_extend(lease, QUORLOCK_DEFAULT, &error));
    /* Whoever waits gets it. */
    struct other waiter = {.lock = operators, .wait_ms = QUORLOCK_FOREVER};
    start_other(&waiter);
    CHECK(comes_to_queue(lock));
    WORKS(quorlock_lock_force_release(lock, QUORLOCK_ANY_FENCE, NULL, NULL, &error));
    CHECK(finish_other(&waiter) == QUORLOCK_OK && quorlock_lease_fence(waiter.lease) > quorlock_lease_fence(lease));
    FAILS(QUORLOCK_LOCK_LOST, quorlock_lease_extend(lease, QUORLOCK_DEFAULT, &error));
    CHECK(quorlock_lease_is_held(waiter.lease));
    quorlock_lease_free(waiter.lease);
    quorlock_lease_free(lease);
    quorlock_lock_free(lock);
    quorlock_lock_free(operators);
    quorlock_client_free(ours);
    quorlock_client_free(theirs);
}

const struct test inspection_tests[] = {
    TEST(a_holder_and_what_each_node_has), TEST(a_label_of_a_lock), TEST(an_error_names_the_lock_and_its_holder), TEST(slots_of_a_semaphore), TEST(a_lock_that_is_taken_away),
    TEST(only_a_fence_is_taken_away), {NULL, NULL}};
