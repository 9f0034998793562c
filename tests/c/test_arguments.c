/* Tests of what a caller may pass, and what it gets for it. */

#include "test.h"

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
        {QUORLOCK_INTERNAL, "Internal"},
        {QUORLOCK_WOULD_DEADLOCK, "WouldDeadlock"}};
    int32_t count = sizeof kinds / sizeof *kinds;
    for (int32_t at = 0; at < count; at++) {
        CHECK(kinds[at].number == at);
        CHECK(same(quorlock_kind_name(at), kinds[at].name));
        const char *summary = quorlock_kind_summary(at);
        CHECK(at == 0 ? !summary : summary && *summary && summary[strlen(summary) - 1] != '.');
    }
    CHECK(!quorlock_kind_name(count));
    CHECK(!quorlock_kind_name(-1));
    CHECK(same(quorlock_kind_summary(QUORLOCK_CONTENDED), "The lock is held by another"));
    CHECK(!quorlock_kind_summary(QUORLOCK_OK) && !quorlock_kind_summary(count) && !quorlock_kind_summary(-1));
    static const struct { int32_t number; const char *name; } states[] = {
        {QUORLOCK_LEASE_NONE, "none"}, {QUORLOCK_LEASE_RELEASED, "released"}, {QUORLOCK_LEASE_HELD, "held"},
        {QUORLOCK_LEASE_EXPIRED, "expired"}, {QUORLOCK_LEASE_REFUSED, "refused"}, {QUORLOCK_LEASE_MAX_HOLD, "max_hold"},
        {QUORLOCK_LEASE_OWNER_GONE, "owner_gone"}, {QUORLOCK_LEASE_CLOSED, "closed"},
        {QUORLOCK_LEASE_FORCED, "forced"}};
    count = sizeof states / sizeof *states;
    for (int32_t at = 0; at < count; at++) {
        CHECK(states[at].number == at - 2);
        CHECK(same(quorlock_state_name(states[at].number), states[at].name));
    }
    CHECK(!quorlock_state_name(count - 2));
    CHECK(!quorlock_state_name(-3));
}

static void null_everywhere(void) {
    FAILS(1, quorlock_client_new(NULL, NULL, &error));
    FAILS(1, quorlock_client_init_set(NULL, &error));
    FAILS(1, quorlock_client_init_set_forced(NULL, &error));
    FAILS(1, quorlock_client_close(NULL, &error));
    FAILS(1, quorlock_client_stats(NULL, NULL, 0, &error));
    quorlock_lock_t *lock = NULL;
    FAILS(1, quorlock_lock_new(NULL, NULL, 0, NULL, NULL, &error));
    FAILS(1, quorlock_lock_new(NULL, "a", 1, NULL, &lock, &error));
    FAILS(1, quorlock_lock(NULL, 0, NULL, NULL, &error));
    FAILS(1, quorlock_try_lock(NULL, NULL, &error));
    FAILS(1, quorlock_lock_release(NULL, NULL, &error));
    bool locked = true;
    FAILS(1, quorlock_lock_is_locked(NULL, NULL, &error));
    FAILS(1, quorlock_lock_is_locked(NULL, &locked, &error));
    FAILS(1, quorlock_lock_inspect(NULL, NULL, &error));
    FAILS(1, quorlock_lock_force_release(NULL, 0, NULL, NULL, &error));
    FAILS(1, quorlock_lock_force_release_slot(NULL, 0, 0, NULL, NULL, &error));
    FAILS(1, quorlock_lock_wait_until_free(NULL, 0, NULL, &error));
    FAILS(1, quorlock_lock_wait_until_free(NULL, 0, &locked, &error));
    FAILS(1, quorlock_inspection_slot(NULL, 0, NULL, &error));
    FAILS(1, quorlock_inspection_holder(NULL, NULL, 0, &error));
    FAILS(1, quorlock_client_probe(NULL, NULL, &error));
    FAILS(1, quorlock_probe_set(NULL, NULL, 0, &error));
    FAILS(1, quorlock_probe_node(NULL, 0, NULL, 0, &error));
    FAILS(1, quorlock_probe_finding(NULL, 0, NULL, 0, &error));
    FAILS(1, quorlock_inspection_node(NULL, 0, NULL, 0, &error));
    FAILS(1, quorlock_unlock(NULL, NULL, &error));
    FAILS(1, quorlock_unlock_with(NULL, false, NULL, &error));
    FAILS(1, quorlock_unlock_all_with(NULL, true, NULL, &error));
    FAILS(1, quorlock_lease_extend(NULL, 0, &error));
    FAILS(1, quorlock_lease_ensure(NULL, 0, &error));
    FAILS(1, quorlock_lease_downgrade(NULL, &error));
    char *text = NULL;
    FAILS(1, quorlock_lease_export(NULL, NULL, &error));
    FAILS(1, quorlock_lease_export(NULL, &text, &error));
    FAILS(1, quorlock_client_adopt(NULL, NULL, 0, NULL, &error));
    quorlock_lease_t *adopted = NULL;
    FAILS(1, quorlock_client_adopt(NULL, "x", 1, &adopted, &error));
    CHECK(!text && !adopted);
    FAILS(1, quorlock_lease_set_lost_callback(NULL, NULL, NULL, &error));
    FAILS(1, quorlock_lease_set_lost_callback_on(NULL, NULL, NULL, NULL, &error));
    quorlock_locks_t *locks = NULL;
    size_t len = 0;
    FAILS(1, quorlock_locks_new(NULL, NULL, NULL, 0, NULL, NULL, &error));
    FAILS(1, quorlock_locks_new(NULL, NULL, NULL, 0, NULL, &locks, &error));
    FAILS(1, quorlock_lock_all(NULL, 0, NULL, NULL, &error));
    FAILS(1, quorlock_try_lock_all(NULL, NULL, &error));
    FAILS(1, quorlock_unlock_all(NULL, NULL, &error));
    FAILS(1, quorlock_leases_extend(NULL, 0, &error));
    FAILS(1, quorlock_leases_ensure(NULL, 0, &error));
    FAILS(1, quorlock_leases_set_lost_callback(NULL, NULL, NULL, &error));
    FAILS(1, quorlock_leases_set_lost_callback_on(NULL, NULL, NULL, NULL, &error));
    FAILS(1, quorlock_election_new(NULL, NULL, 0, NULL, NULL, &error));
    FAILS(1, quorlock_election_campaign(NULL, 0, NULL, NULL, &error));
    FAILS(1, quorlock_election_run(NULL, false, NULL, NULL, NULL, NULL, NULL, &error));
    FAILS(1, quorlock_election_resign(NULL, NULL, &error));
    FAILS(1, quorlock_election_leader(NULL, NULL, &error));
    FAILS(1, quorlock_election_observe(NULL, 1, NULL, &error));
    FAILS(1, quorlock_observer_next(NULL, NULL, NULL, &error));
    FAILS(1, quorlock_leadership_leader(NULL, NULL, 0, &error));
    FAILS(1, quorlock_queue_new(NULL, &error));
    FAILS(1, quorlock_lock_start(NULL, 0, NULL, NULL, NULL, NULL, &error));
    FAILS(1, quorlock_unlock_start(NULL, NULL, NULL, NULL, &error));
    FAILS(1, quorlock_lock_all_start(NULL, 0, NULL, NULL, NULL, NULL, &error));
    FAILS(1, quorlock_unlock_all_start(NULL, NULL, NULL, NULL, &error));
    FAILS(1, quorlock_lease_set_stop_callback(NULL, NULL, NULL, &error));
    FAILS(1, quorlock_leases_set_stop_callback(NULL, NULL, NULL, &error));
    FAILS(QUORLOCK_INTERNAL, quorlock_test_panic(&error));
    /* And where no error object is wanted. */
    CHECK(quorlock_client_new(NULL, NULL, NULL) == 1 && quorlock_client_close(NULL, NULL) == 1);
    CHECK(quorlock_client_stats(NULL, NULL, 0, NULL) == 1 && quorlock_lock_new(NULL, NULL, 0, NULL, NULL, NULL) == 1);
    CHECK(quorlock_lock(NULL, 0, NULL, NULL, NULL) == 1 && quorlock_try_lock(NULL, NULL, NULL) == 1);
    CHECK(quorlock_lock_release(NULL, NULL, NULL) == 1 && quorlock_unlock(NULL, NULL, NULL) == 1);
    CHECK(quorlock_lock_is_locked(NULL, NULL, NULL) == 1 && quorlock_lock_inspect(NULL, NULL, NULL) == 1);
    CHECK(quorlock_inspection_holder(NULL, NULL, 0, NULL) == 1 && quorlock_inspection_node(NULL, 0, NULL, 0, NULL) == 1);
    CHECK(quorlock_lock_force_release(NULL, 0, NULL, NULL, NULL) == 1);
    CHECK(quorlock_lock_force_release_slot(NULL, 0, 0, NULL, NULL, NULL) == 1);
    CHECK(quorlock_lock_wait_until_free(NULL, 0, NULL, NULL) == 1 && quorlock_inspection_slot(NULL, 0, NULL, NULL) == 1);
    CHECK(quorlock_inspection_slots_held(NULL) == 0 && quorlock_inspection_slot_count(NULL) == 0);
    CHECK(quorlock_client_probe(NULL, NULL, NULL) == 1 && quorlock_probe_set(NULL, NULL, 0, NULL) == 1);
    CHECK(quorlock_probe_node(NULL, 0, NULL, 0, NULL) == 1 && quorlock_probe_finding(NULL, 0, NULL, 0, NULL) == 1);
    CHECK(quorlock_probe_health(NULL) == 0 && !quorlock_health_name(0) && !quorlock_probe_difference(NULL, 0, 0));
    CHECK(quorlock_probe_node_count(NULL) == 0 && quorlock_probe_finding_count(NULL) == 0);
    CHECK(quorlock_inspection_verdict(NULL) == 0 && quorlock_inspection_fence(NULL) == 0);
    CHECK(quorlock_inspection_queued(NULL) == 0 && quorlock_inspection_node_count(NULL) == 0);
    CHECK(!quorlock_verdict_name(0) && !quorlock_verdict_name(QUORLOCK_VERDICT_UNKNOWN + 1));
    CHECK(!quorlock_error_holder(NULL) && !quorlock_error_lock_name(NULL, NULL));
    CHECK(quorlock_unlock_with(NULL, true, NULL, NULL) == 1 && quorlock_unlock_all_with(NULL, false, NULL, NULL) == 1);
    CHECK(quorlock_lease_extend(NULL, 0, NULL) == 1 && quorlock_lease_ensure(NULL, 0, NULL) == 1);
    CHECK(quorlock_lease_set_lost_callback(NULL, NULL, NULL, NULL) == 1 && quorlock_test_panic(NULL) == 12);
    CHECK(quorlock_lease_state(NULL) == QUORLOCK_LEASE_NONE && !quorlock_lease_is_held(NULL));
    CHECK(quorlock_locks_new(NULL, NULL, NULL, 0, NULL, NULL, NULL) == 1 && quorlock_unlock_all(NULL, NULL, NULL) == 1);
    CHECK(quorlock_lock_all(NULL, 0, NULL, NULL, NULL) == 1 && quorlock_try_lock_all(NULL, NULL, NULL) == 1);
    CHECK(quorlock_leases_state(NULL) == QUORLOCK_LEASE_NONE && !quorlock_leases_is_held(NULL));
    CHECK(quorlock_leases_remaining_ms(NULL) == 0 && quorlock_leases_count(NULL) == 0);
    CHECK(quorlock_leases_fence(NULL, 0) == 0 && quorlock_leases_fence_of(NULL, NULL, 0) == 0);
    CHECK(!quorlock_leases_name(NULL, 0, &len) && !quorlock_leases_name(NULL, 0, NULL));
    CHECK(!quorlock_leases_lost_name(NULL, &len) && !quorlock_leases_lost_name(NULL, NULL));
    CHECK(quorlock_election_new(NULL, NULL, 0, NULL, NULL, NULL) == 1 && !quorlock_election_is_leader(NULL));
    CHECK(quorlock_election_campaign(NULL, 0, NULL, NULL, NULL) == 1 && quorlock_election_resign(NULL, NULL, NULL) == 1);
    CHECK(quorlock_election_run(NULL, false, NULL, NULL, NULL, NULL, NULL, NULL) == 1);
    CHECK(quorlock_election_leader(NULL, NULL, NULL) == 1 && quorlock_election_observe(NULL, 1, NULL, NULL) == 1);
    CHECK(quorlock_observer_next(NULL, NULL, NULL, NULL) == 1 && quorlock_leadership_leader(NULL, NULL, 0, NULL) == 1);
    CHECK(!quorlock_leadership_is_known(NULL));
    CHECK(quorlock_client_init_set(NULL, NULL) == 1 && quorlock_client_init_set_forced(NULL, NULL) == 1);
    CHECK(quorlock_lease_remaining_ms(NULL) == 0 && quorlock_lease_fence(NULL) == 0);
    CHECK(quorlock_error_kind(NULL) == 0 && quorlock_error_node_count(NULL) == 0);
    CHECK(!quorlock_error_message(NULL) && !quorlock_error_text(NULL));
    CHECK(!quorlock_error_node_address(NULL, 0) && !quorlock_error_node_message(NULL, 0));
    CHECK(quorlock_client_options_set_nodes(NULL, NULL, 0) == 1);
    /* Made from core/options.toml: setters without options */
    CHECK(quorlock_client_options_set_ttl(NULL, 1) == 1);
    CHECK(quorlock_client_options_set_wait(NULL, 1) == 1);
    CHECK(quorlock_client_options_set_renew(NULL, true) == 1);
    CHECK(quorlock_client_options_set_max_hold(NULL, 1) == 1);
    CHECK(quorlock_client_options_set_raw(NULL, true) == 1);
    CHECK(quorlock_client_options_set_layout(NULL, 1) == 1);
    CHECK(quorlock_client_options_set_label(NULL, NULL, 0) == 1);
    CHECK(quorlock_client_options_set_fencing(NULL, true) == 1);
    CHECK(quorlock_client_options_set_max_waiters(NULL, 1) == 1);
    CHECK(quorlock_client_options_set_fair(NULL, true) == 1);
    CHECK(quorlock_client_options_set_keep(NULL, 1) == 1);
    CHECK(quorlock_client_options_set_reentrant(NULL, true) == 1);
    CHECK(quorlock_client_options_set_group(NULL, NULL, 0) == 1);
    CHECK(quorlock_client_options_set_max_ttl(NULL, 1) == 1);
    CHECK(quorlock_client_options_set_node_timeout(NULL, 1) == 1);
    CHECK(quorlock_client_options_set_connect_timeout(NULL, 1) == 1);
    CHECK(quorlock_client_options_set_drift(NULL, 1) == 1);
    CHECK(quorlock_client_options_set_min_validity(NULL, 1) == 1);
    CHECK(quorlock_client_options_set_namespace(NULL, NULL, 0) == 1);
    CHECK(quorlock_client_options_set_fence_ttl(NULL, 1) == 1);
    CHECK(quorlock_client_options_set_set_name(NULL, NULL, 0) == 1);
    CHECK(quorlock_client_options_set_restart_guard(NULL, 1) == 1);
    CHECK(quorlock_client_options_set_accept_eviction(NULL, true) == 1);
    CHECK(quorlock_client_options_set_wait_replicas(NULL, 1) == 1);
    CHECK(quorlock_client_options_set_ca(NULL, NULL, 0) == 1);
    CHECK(quorlock_client_options_set_cert(NULL, NULL, 0) == 1);
    CHECK(quorlock_client_options_set_key(NULL, NULL, 0) == 1);
    CHECK(quorlock_lock_options_set_ttl(NULL, 1) == 1);
    CHECK(quorlock_lock_options_set_wait(NULL, 1) == 1);
    CHECK(quorlock_lock_options_set_renew(NULL, true) == 1);
    CHECK(quorlock_lock_options_set_max_hold(NULL, 1) == 1);
    CHECK(quorlock_lock_options_set_raw(NULL, true) == 1);
    CHECK(quorlock_lock_options_set_layout(NULL, 1) == 1);
    CHECK(quorlock_lock_options_set_label(NULL, NULL, 0) == 1);
    CHECK(quorlock_lock_options_set_fencing(NULL, true) == 1);
    CHECK(quorlock_lock_options_set_max_waiters(NULL, 1) == 1);
    CHECK(quorlock_lock_options_set_fair(NULL, true) == 1);
    CHECK(quorlock_lock_options_set_keep(NULL, 1) == 1);
    CHECK(quorlock_lock_options_set_reentrant(NULL, true) == 1);
    CHECK(quorlock_lock_options_set_group(NULL, NULL, 0) == 1);
    CHECK(quorlock_lock_options_set_shared(NULL, true) == 1);
    CHECK(quorlock_lock_options_set_slots(NULL, 1) == 1);
    CHECK(quorlock_lock_options_set_owner(NULL, NULL, 0) == 1);
    CHECK(quorlock_lock_options_set_confirm(NULL, true) == 1);
    CHECK(quorlock_lock_options_set_owner_thread(NULL, true) == 1);
    /* End of what is made. */
    CHECK(quorlock_lease_slot(NULL) == -1);
    CHECK(quorlock_semaphore_new(NULL, "a", 1, 2, NULL, NULL, NULL) == 1);
    CHECK(!quorlock_lease_is_shared(NULL) && quorlock_lease_downgrade(NULL, NULL) == 1);
    CHECK(quorlock_thread_number() > 0 && quorlock_thread_number() == quorlock_thread_number());
    quorlock_text_free(NULL);
    char *metrics = quorlock_metrics_text();
    CHECK(has(metrics, "quorlock_held "));
    quorlock_text_free(metrics);
    CHECK(quorlock_queue_fd(NULL) == -1 && quorlock_queue_dispatch(NULL) == 0 && quorlock_queue_new(NULL, NULL) == 1);
    quorlock_queue_free(NULL);
    quorlock_error_free(NULL);
    quorlock_inspection_free(NULL);
    quorlock_probe_free(NULL);
    quorlock_client_options_free(NULL);
    quorlock_client_free(NULL);
    quorlock_lock_options_free(NULL);
    quorlock_cancel(NULL);
    quorlock_cancel_free(NULL);
    quorlock_lock_free(NULL);
    quorlock_lease_free(NULL);
    quorlock_locks_free(NULL);
    quorlock_leases_free(NULL);
    quorlock_election_free(NULL);
    quorlock_leadership_free(NULL);
    quorlock_observer_free(NULL);
    quorlock_set_log_callback(NULL, NULL);
    CHECK(!quorlock_log_event() && !quorlock_log_template() && !quorlock_log_field(NULL));
    /* NULL where something is needed beside what is there. */
    quorlock_client_t *client = some_client();
    lock = lock_of(client, NULL);
    quorlock_lease_t *lease = NULL;
    quorlock_lock_t *unnamed = NULL;
    FAILS(1, quorlock_lock_new(client, NULL, 3, NULL, &unnamed, &error));
    FAILS(1, quorlock_lock_new(client, NULL, 0, NULL, &unnamed, &error));
    FAILS(1, quorlock_lock_new(client, "a", SIZE_MAX, NULL, &unnamed, &error));
    FAILS(1, quorlock_lock(lock, 0, NULL, NULL, &error));
    FAILS(1, quorlock_lock_start(lock, 0, NULL, NULL, NULL, NULL, &error));
    FAILS(1, quorlock_client_stats(client, NULL, 8, &error));
    CHECK(!unnamed && !lease);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

void the_error_object(void) {
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
    /* What is set rightly since is no mistake any more; what was not is. */
    options = quorlock_client_options_new();
    quorlock_client_options_set_ttl(options, -5);
    quorlock_client_options_set_wait(options, -3);
    quorlock_client_options_set_ttl(options, -6);
    CHECK(quorlock_client_options_set_wait(options, 5) == QUORLOCK_OK);
    CHECK(refused(options, "ttl is -6 ms"));
    options = quorlock_client_options_new();
    quorlock_client_options_set_ttl(options, -5);
    CHECK(quorlock_client_options_set_ttl(options, 5000) == QUORLOCK_OK);
    quorlock_client_t *made = NULL;
    WORKS(quorlock_client_new(options, &made, &error));
    quorlock_client_options_free(options);
    quorlock_lock_options_t *right = quorlock_lock_options_new();
    quorlock_lock_options_set_keep(right, -1);
    quorlock_lock_options_set_owner(right, NULL, 3);
    CHECK(quorlock_lock_options_set_keep(right, 0) == QUORLOCK_OK);
    CHECK(quorlock_lock_options_set_owner(right, "me", 2) == QUORLOCK_OK);
    quorlock_lock_free(lock_of(made, right));
    quorlock_lock_options_free(right);
    quorlock_client_free(made);
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
    options = quorlock_client_options_new();
    CHECK(quorlock_client_options_set_fence_ttl(options, -7) == QUORLOCK_INVALID_ARGUMENT);
    CHECK(refused(options, "fence_ttl is -7 ms"));
    options = quorlock_client_options_new();
    CHECK(quorlock_client_options_set_fence_ttl(options, 119999) == QUORLOCK_OK);
    CHECK(refused(options, "fence_ttl is 119.999s"));
    options = quorlock_client_options_new();
    CHECK(quorlock_client_options_set_set_name(options, "two words", 9) == QUORLOCK_OK);
    CHECK(refused(options, "set_name is text of 9 characters"));
    options = quorlock_client_options_new();
    CHECK(quorlock_client_options_set_set_name(options, "\xff", 1) == QUORLOCK_INVALID_ARGUMENT);
    CHECK(refused(options, "set_name is not UTF-8"));
    for (int32_t guard = -1; guard <= 3; guard++) {
        bool known = guard >= QUORLOCK_RESTART_GUARD_AUTO && guard <= QUORLOCK_RESTART_GUARD_OFF;
        options = quorlock_client_options_new();
        int32_t code = quorlock_client_options_set_restart_guard(options, guard);
        CHECK(code == (known ? QUORLOCK_OK : QUORLOCK_INVALID_ARGUMENT));
        char message[32];
        snprintf(message, sizeof message, "restart_guard is %d:", guard);
        if (known) quorlock_client_options_free(options);
        else CHECK(refused(options, message));
    }

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

/* The nodes know no such user. That is for a person to mend: told at once, however long the wait. */
static void a_wrong_password(void) {
    const char *nodes = getenv("QUORLOCK_NODES"), *address = nodes ? strstr(nodes, "://") : NULL;
    CHECK(address);
    if (!address) return;
    char url[256];
    snprintf(url, sizeof url, "redis://nobody:hunter2@%.*s", (int)strcspn(address + 3, ","), address + 3);
    quorlock_client_t *client = client_of(url);
    quorlock_lock_t *lock = lock_of(client, NULL);
    quorlock_lease_t *lease = NULL;
    CHECK(quorlock_lock(lock, QUORLOCK_FOREVER, NULL, &lease, &error) == QUORLOCK_MISCONFIGURED && !lease);
    CHECK(quorlock_error_node_count(error) == 1 && has(quorlock_error_node_message(error, 0), "WRONGPASS"));
    CHECK(quorlock_error_text(error) && !strstr(quorlock_error_text(error), "hunter2"));
    FAILS(QUORLOCK_MISCONFIGURED, QUORLOCK_MISCONFIGURED);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

static int32_t try_and_release(quorlock_client_t *client) {
    quorlock_lock_t *lock = lock_of(client, NULL);
    quorlock_lease_t *lease = NULL;
    int32_t code = quorlock_try_lock(lock, &lease, &error);
    quorlock_lease_free(lease);
    quorlock_lock_free(lock);
    return code;
}

static void a_set_is_declared(void) {
    quorlock_client_t *client = client_of_new_set("set", "default", QUORLOCK_RESTART_GUARD_AUTO);
    WORKS(quorlock_client_init_set(client, &error));
    /* As at every deploy: nothing is changed. The servers have stored something before, so they do not vote yet. */
    WORKS(quorlock_client_init_set(client, &error));
    FAILS(QUORLOCK_QUORUM_UNAVAILABLE, try_and_release(client));
    WORKS(quorlock_client_init_set_forced(client, &error));
    WORKS(try_and_release(client));
    WORKS(quorlock_client_init_set(client, &error));
    WORKS(try_and_release(client));
    quorlock_stats_t stats;
    WORKS(quorlock_client_stats(client, &stats, sizeof stats, &error));
    CHECK(stats.acquired == 2 && stats.connects >= 2 && !stats.clock_steps && !stats.releases_dropped);
    quorlock_client_t *other = client_of_new_set("set", "other", QUORLOCK_RESTART_GUARD_AUTO);
    FAILS(QUORLOCK_MISCONFIGURED, quorlock_client_init_set_forced(other, &error));
    CHECK(quorlock_client_init_set(other, &error) == QUORLOCK_MISCONFIGURED);
    CHECK(quorlock_error_node_count(error) == 3);
    for (size_t at = 0; at < 3; at++) {
        CHECK(has(getenv("QUORLOCK_NODES"), quorlock_error_node_address(error, at)));
        CHECK(has(quorlock_error_node_message(error, at), "record"));
    }
    FAILS(QUORLOCK_MISCONFIGURED, QUORLOCK_MISCONFIGURED);
    quorlock_client_free(other);
    WORKS(quorlock_client_close(client, &error));
    FAILS(QUORLOCK_CLOSED, quorlock_client_init_set(client, &error));
    FAILS(QUORLOCK_CLOSED, quorlock_client_init_set_forced(client, &error));
    quorlock_client_free(client);
}

/* Three nodes that are not declared may be ones that have lost their memory. */
static void the_guard_of_restarts(void) {
    static const int32_t guards[] = {QUORLOCK_RESTART_GUARD_AUTO, QUORLOCK_RESTART_GUARD_ON};
    for (size_t at = 0; at < 2; at++) {
        quorlock_client_t *client = client_of_new_set(at ? "on" : "auto", "default", guards[at]);
        CHECK(try_and_release(client) == QUORLOCK_QUORUM_UNAVAILABLE);
        CHECK(has(quorlock_error_text(error), "quarantine"));
        FAILS(QUORLOCK_QUORUM_UNAVAILABLE, QUORLOCK_QUORUM_UNAVAILABLE);
        quorlock_client_free(client);
    }
    quorlock_client_t *client = client_of_new_set("off", "default", QUORLOCK_RESTART_GUARD_OFF);
    WORKS(try_and_release(client));
    quorlock_client_free(client);
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
    CHECK(stats.queued == 0 && stats.ahead == 0 && stats.stray_messages == 0);
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

const struct test arguments_tests[] = {
    TEST(versions), TEST(names_of_kinds), TEST(null_everywhere), TEST(the_error_object), TEST(mistakes_in_options),
    TEST(too_few_nodes), TEST(a_wrong_password), TEST(a_set_is_declared), TEST(the_guard_of_restarts), TEST(stats),
    TEST(a_panic_is_an_error), {NULL, NULL}};
