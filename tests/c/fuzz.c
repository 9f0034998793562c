/* Random sequences of calls: fuzz SECONDS [SEED]. Three threads, each with handles of its own and some that all share,
 * on nodes in this process. What has to hold: codes and error objects agree, results are there exactly where a call
 * says so, and whatever the sanitizers see. */

#include "fuzz/fuzz.h"

void on_lost(void *userdata, int32_t state) {
    if (state > 0) ++*(uint64_t *)userdata;
}

static void options_call(struct fuzz *f) {
    quorlock_client_options_t *c = SOME(client_options);
    quorlock_lock_options_t *l = SOME(lock_options);
    size_t len;
    const char *text = some_text(f, &len);
    /* Made from core/options.toml: setters of options */
    switch (draw(f, 46)) {
    case 0: quorlock_client_options_set_ttl(c, some_ms(f)); break;
    case 1: quorlock_client_options_set_wait(c, some_wait(f)); break;
    case 2: quorlock_client_options_set_renew(c, draw(f, 2)); break;
    case 3: quorlock_client_options_set_max_hold(c, some_wait(f)); break;
    case 4: quorlock_client_options_set_raw(c, draw(f, 2)); break;
    case 5: quorlock_client_options_set_layout(c, (int32_t)(draw(f, 2) ? (int64_t)draw(f, 4) : some_ms(f))); break;
    case 6: quorlock_client_options_set_label(c, text, len); break;
    case 7: quorlock_client_options_set_fencing(c, draw(f, 2)); break;
    case 8: quorlock_client_options_set_max_waiters(c, some_ms(f)); break;
    case 9: quorlock_client_options_set_fair(c, draw(f, 2)); break;
    case 10: quorlock_client_options_set_keep(c, some_ms(f)); break;
    case 11: quorlock_client_options_set_reentrant(c, draw(f, 2)); break;
    case 12: quorlock_client_options_set_group(c, text, len); break;
    case 13: quorlock_client_options_set_max_ttl(c, some_ms(f)); break;
    case 14: quorlock_client_options_set_node_timeout(c, some_ms(f)); break;
    case 15: quorlock_client_options_set_connect_timeout(c, some_ms(f)); break;
    case 16: quorlock_client_options_set_drift(c, (double)draw(f, 100) / 90); break;
    case 17: quorlock_client_options_set_min_validity(c, (double)draw(f, 100) / 90); break;
    case 18: quorlock_client_options_set_namespace(c, text, len); break;
    case 19: quorlock_client_options_set_fence_ttl(c, some_ms(f)); break;
    case 20: quorlock_client_options_set_set_name(c, text, len); break;
    case 21: quorlock_client_options_set_restart_guard(c, (int32_t)(draw(f, 2) ? (int64_t)draw(f, 4) : some_ms(f))); break;
    case 22: quorlock_client_options_set_accept_eviction(c, draw(f, 2)); break;
    case 23: quorlock_client_options_set_wait_replicas(c, some_ms(f)); break;
    case 24: quorlock_client_options_set_ca(c, text, len); break;
    case 25: quorlock_client_options_set_cert(c, text, len); break;
    case 26: quorlock_client_options_set_key(c, text, len); break;
    case 27: quorlock_lock_options_set_ttl(l, some_ms(f)); break;
    case 28: quorlock_lock_options_set_wait(l, some_wait(f)); break;
    case 29: quorlock_lock_options_set_renew(l, draw(f, 2)); break;
    case 30: quorlock_lock_options_set_max_hold(l, some_wait(f)); break;
    case 31: quorlock_lock_options_set_raw(l, draw(f, 2)); break;
    case 32: quorlock_lock_options_set_layout(l, (int32_t)(draw(f, 2) ? (int64_t)draw(f, 4) : some_ms(f))); break;
    case 33: quorlock_lock_options_set_label(l, text, len); break;
    case 34: quorlock_lock_options_set_fencing(l, draw(f, 2)); break;
    case 35: quorlock_lock_options_set_max_waiters(l, some_ms(f)); break;
    case 36: quorlock_lock_options_set_fair(l, draw(f, 2)); break;
    case 37: quorlock_lock_options_set_keep(l, some_ms(f)); break;
    case 38: quorlock_lock_options_set_reentrant(l, draw(f, 2)); break;
    case 39: quorlock_lock_options_set_group(l, text, len); break;
    case 40: quorlock_lock_options_set_shared(l, draw(f, 2)); break;
    case 41: quorlock_lock_options_set_slots(l, some_ms(f)); break;
    case 42: quorlock_lock_options_set_owner(l, text, len); break;
    case 43: quorlock_lock_options_set_confirm(l, draw(f, 2)); break;
    case 44: quorlock_lock_options_set_owner_thread(l, draw(f, 2)); break;
    /* End of what is made. */
    default: quorlock_client_options_set_nodes(c, NULL, draw(f, 2)); break;
    }
}

static void making_call(struct fuzz *f) {
    static const char *const nodes[] = {"memory://f1", "memory://f2", "memory://f3"};
    quorlock_client_options_t **c = SLOT(client_options);
    quorlock_lock_options_t **l = SLOT(lock_options);
    quorlock_client_t **client = SLOT(clients), *made = NULL;
    quorlock_lock_t **lock = SLOT(locks), *made_lock = NULL;
    size_t len;
    const char *text = some_text(f, &len);
    switch (draw(f, 4)) {
    case 0:
        quorlock_client_options_free(*c);
        *c = quorlock_client_options_new();
        quorlock_client_options_set_nodes(*c, nodes, 1 + draw(f, 3));
        quorlock_client_options_set_ttl(*c, 60);
        quorlock_client_options_set_wait(*c, 20);
        break;
    case 1:
        quorlock_lock_options_free(*l);
        *l = quorlock_lock_options_new();
        break;
    case 2: {
        const quorlock_client_options_t *with = SOME(client_options);
        if (!with) break; /* a server that this machine may have */
        CODE(quorlock_client_new(with, &made, error));
        if ((f->last == QUORLOCK_OK) != (made != NULL)) broken(f, "quorlock_client_new");
        if (!made) break;
        quorlock_client_free(*client);
        *client = made;
        break;
    }
    default:
        if (draw(f, 4)) {
            CODE(quorlock_lock_new(draw(f, 2) ? shared_client : SOME(clients), text, len, SOME(lock_options), &made_lock,
                                   error));
        } else {
            CODE(quorlock_semaphore_new(draw(f, 2) ? shared_client : SOME(clients), text, len, 1 + draw(f, 3),
                                        SOME(lock_options), &made_lock, error));
        }
        if ((f->last == QUORLOCK_OK) != (made_lock != NULL)) broken(f, "quorlock_lock_new");
        if (!made_lock) break;
        quorlock_lock_free(*lock);
        *lock = made_lock;
    }
}

static void force_call(struct fuzz *f, const quorlock_lock_t *lock) {
    quorlock_inspection_t *found = NULL, **wanted = draw(f, 2) ? &found : NULL;
    uint64_t freed, *count = draw(f, 2) ? &freed : NULL;
    uint64_t fence = draw(f, 2) ? QUORLOCK_ANY_FENCE : draw(f, 2) ? quorlock_lease_fence(SOME(leases)) : (uint64_t)some_ms(f);
    bool free;
    switch (draw(f, 3)) {
        case 0: CODE(quorlock_lock_wait_until_free(lock, some_ms(f) % 20, draw(f, 2) ? &free : NULL, error)); return;
        case 1: CODE(quorlock_lock_force_release_slot(lock, draw(f, 4), fence, count, wanted, error)); break;
        default: CODE(quorlock_lock_force_release(lock, fence, count, wanted, error));
    }
    if ((f->last == QUORLOCK_OK && wanted) != (found != NULL)) broken(f, "an inspection");
    if (found && !quorlock_verdict_name(quorlock_inspection_verdict(found))) broken(f, "no such verdict");
    quorlock_inspection_free(found);
}

static void lock_call(struct fuzz *f) {
    const quorlock_lock_t *lock = draw(f, 3) ? SOME(locks) : shared_locks[draw(f, SHARED)];
    const quorlock_cancel_t *cancel = draw(f, 2) ? NULL : draw(f, 8) ? SOME(cancels) : shared_cancel;
    quorlock_lease_t **lease = SLOT(leases), *won = NULL;
    bool held, *was_held = draw(f, 2) ? &held : NULL;
    switch (draw(f, 5)) {
    case 0: CODE(quorlock_try_lock(lock, &won, error)); break;
    case 4:
        if (!draw(f, 4)) force_call(f, lock);
        return;
    case 1: CODE(quorlock_lock_release(lock, was_held, error)); return;
    default: CODE(quorlock_lock(lock, some_wait(f), cancel, &won, error)); break;
    }
    if ((f->last == QUORLOCK_OK) != (won != NULL)) broken(f, "a lease");
    if (!won) return;
    f->holds++;
    if (quorlock_lease_fence(won) >> 53) broken(f, "a fence that is no safe integer");
    if (quorlock_lease_slot(won) < -1 || quorlock_lease_slot(won) > 127) broken(f, "no such slot");
    quorlock_lease_free(*lease);
    *lease = won;
}

/* What a lease was exported as is adopted, now and then with a letter that is another, or twice. */
static void hand_on_call(struct fuzz *f, const quorlock_lease_t *lease) {
    char *text = NULL;
    CODE(quorlock_lease_export(lease, draw(f, 16) ? &text : NULL, error));
    if (f->last == QUORLOCK_OK && !text) broken(f, "an export without a text");
    if (text && f->last != QUORLOCK_OK) broken(f, "a text, and an error");
    if (text && quorlock_lease_is_held(lease)) broken(f, "held, and exported");
    size_t len, whole = text ? strlen(text) : 0;
    const char *other = some_text(f, &len);
    if (whole && !draw(f, 4)) text[draw(f, whole)] ^= 1;
    for (int times = 0; times < 2; times++) {
        quorlock_lease_t **place = SLOT(leases), *adopted = NULL;
        const quorlock_client_t *client = draw(f, 2) ? shared_client : SOME(clients);
        CODE(quorlock_client_adopt(client, text ? text : other, text ? whole : len, &adopted, error));
        if ((f->last == QUORLOCK_OK) != (adopted != NULL)) broken(f, "an adopted lease");
        if (!adopted) continue;
        f->adopted++;
        quorlock_lease_free(*place);
        *place = adopted;
    }
    quorlock_text_free(text);
}

static void lease_call(struct fuzz *f) {
    size_t at = draw(f, POOL);
    quorlock_lease_t *lease = draw(f, 16) ? f->leases[at] : NULL;
    bool held, *was_held = draw(f, 2) ? &held : NULL;
    int32_t state = quorlock_lease_state(lease);
    if (!quorlock_state_name(state)) broken(f, "no such state");
    f->losses += state > 0;
    if (quorlock_lease_fence(lease) >> 53) broken(f, "a fence of a lease that is over");
    switch (draw(f, 10)) {
    case 7: hand_on_call(f, lease); break;
    case 0: CODE(draw(f, 2) ? quorlock_unlock(lease, was_held, error) : quorlock_unlock_with(lease, draw(f, 2), was_held, error)); break;
    case 1: CODE(quorlock_lease_extend(lease, some_ms(f), error)); break;
    case 2: CODE(quorlock_lease_ensure(lease, some_ms(f), error)); break;
    case 3: CODE(quorlock_lease_set_lost_callback(lease, &f->told[at], on_lost, error)); break;
    case 4: CODE(quorlock_lease_set_lost_callback(lease, NULL, NULL, error)); break;
    case 6:
        CODE(quorlock_lease_downgrade(lease, error));
        if (f->last == QUORLOCK_OK && !quorlock_lease_is_shared(lease)) broken(f, "shared, and not");
        break;
    case 5:
        if (quorlock_lease_remaining_ms(lease) < 0) broken(f, "less than nothing remains");
        if (state != QUORLOCK_LEASE_HELD && quorlock_lease_is_held(lease)) broken(f, "held again");
        break;
    default:
        quorlock_lease_free(f->leases[at]);
        f->leases[at] = NULL;
    }
}

static void probe_call(struct fuzz *f) {
    quorlock_probe_t *probe = NULL;
    CODE(quorlock_client_probe(SOME(clients), &probe, error));
    if ((f->last == QUORLOCK_OK) != (probe != NULL)) broken(f, "a probe");
    if (!probe) return;
    if (!quorlock_health_name(quorlock_probe_health(probe))) broken(f, "no such health");
    size_t nodes = quorlock_probe_node_count(probe), findings = quorlock_probe_finding_count(probe);
    size_t at = draw(f, nodes + 2);
    quorlock_node_report_t node;
    CODE(quorlock_probe_node(probe, at, &node, draw(f, sizeof node + 1), error));
    if ((f->last == QUORLOCK_OK) != (at < nodes)) broken(f, "a node of a probe");
    quorlock_probe_difference(probe, at, draw(f, 2));
    at = draw(f, findings + 2);
    quorlock_finding_t finding;
    CODE(quorlock_probe_finding(probe, at, &finding, draw(f, sizeof finding + 1), error));
    if ((f->last == QUORLOCK_OK) != (at < findings)) broken(f, "a finding");
    quorlock_set_report_t set;
    CODE(quorlock_probe_set(probe, &set, draw(f, sizeof set + 1), error));
    quorlock_probe_free(probe);
}

static void several_call(struct fuzz *f) {
    size_t at = draw(f, POOL), count = draw(f, 5), lens[4];
    quorlock_leases_t *leases = draw(f, 16) ? f->together[at] : NULL, *won = NULL;
    const quorlock_locks_t *locks = SOME(several);
    quorlock_locks_t **place = SLOT(several), *made = NULL;
    const char *names[4];
    bool held, *was_held = draw(f, 2) ? &held : NULL;
    switch (draw(f, 10)) {
    case 0:
        for (size_t name = 0; name < 4; name++) names[name] = some_text(f, &lens[name]);
        CODE(quorlock_locks_new(draw(f, 2) ? shared_client : SOME(clients), draw(f, 16) ? names : NULL,
                                draw(f, 16) ? lens : NULL, count > 4 ? 4 : count, SOME(lock_options), &made, error));
        if ((f->last == QUORLOCK_OK) != (made != NULL)) broken(f, "quorlock_locks_new");
        if (!made) break;
        quorlock_locks_free(*place);
        *place = made;
        break;
    case 1:
        CODE(draw(f, 2) ? quorlock_unlock_all(leases, was_held, error) : quorlock_unlock_all_with(leases, draw(f, 2), was_held, error));
        break;
    case 2: CODE(quorlock_leases_extend(leases, some_ms(f), error)); break;
    case 3: CODE(quorlock_leases_ensure(leases, some_ms(f), error)); break;
    case 4:
        CODE(quorlock_leases_set_lost_callback(leases, &f->told_together[at], draw(f, 4) ? on_lost : NULL, error));
        break;
    case 5: {
        int32_t state = quorlock_leases_state(leases);
        if (!quorlock_state_name(state)) broken(f, "no such state of several");
        if (state != QUORLOCK_LEASE_HELD && quorlock_leases_is_held(leases)) broken(f, "all held again");
        size_t len = 0;
        if ((state > 0) != (quorlock_leases_lost_name(leases, &len) != NULL) && state != QUORLOCK_LEASE_HELD)
            broken(f, "a loss without a name");
        if (quorlock_leases_remaining_ms(leases) < 0) broken(f, "less than nothing remains of several");
        for (size_t one = 0; one < quorlock_leases_count(leases) + 1; one++) {
            const char *name = quorlock_leases_name(leases, one, &len);
            if (name && quorlock_leases_fence_of(leases, name, len) != quorlock_leases_fence(leases, one))
                broken(f, "two fences of one lock");
        }
        break;
    }
    case 6:
        quorlock_leases_free(f->together[at]);
        f->together[at] = NULL;
        break;
    default:
        if (draw(f, 3)) CODE(quorlock_lock_all(locks, some_wait(f), draw(f, 2) ? NULL : SOME(cancels), &won, error));
        else CODE(quorlock_try_lock_all(locks, &won, error));
        if ((f->last == QUORLOCK_OK) != (won != NULL)) broken(f, "leases");
        if (!won) break;
        f->holds++;
        quorlock_leases_free(f->together[at]);
        f->together[at] = won;
    }
}

static void other_call(struct fuzz *f) {
    quorlock_cancel_t **cancel = SLOT(cancels);
    quorlock_client_t **client = SLOT(clients);
    quorlock_lock_t **lock = SLOT(locks);
    quorlock_stats_t stats;
    switch (draw(f, 10)) {
    case 8: probe_call(f); break;
    case 0:
        quorlock_cancel_free(*cancel);
        *cancel = quorlock_cancel_new();
        break;
    case 1: quorlock_cancel(SOME(cancels)); break;
    case 2: CODE(quorlock_client_stats(SOME(clients), &stats, draw(f, sizeof stats + 9), error)); break;
    case 3:
        if (draw(f, 8)) break;
        CODE(quorlock_client_close(SOME(clients), error));
        break;
    case 4:
        quorlock_client_free(*client);
        *client = NULL;
        break;
    case 5:
        quorlock_lock_free(*lock);
        *lock = NULL;
        break;
    case 6:
        quorlock_kind_name((int32_t)some_ms(f));
        quorlock_kind_summary((int32_t)some_ms(f));
        quorlock_log_field("lock");
        break;
    case 7:
        if (draw(f, 2)) CODE(quorlock_client_init_set(SOME(clients), error));
        else CODE(quorlock_client_init_set_forced(SOME(clients), error));
        break;
    default: quorlock_error_free(NULL); break;
    }
}

static void *run(void *argument) {
    struct fuzz *f = argument;
    while ((f->calls & 63) || now_ms() < end_ms) {
        f->calls++;
        switch (draw(f, 11)) {
        case 10: election_call(f); break;
        case 8: several_call(f); break;
        case 9: started_call(f); break;
        case 0: options_call(f); break;
        case 1: making_call(f); break;
        case 2: other_call(f); break;
        case 3:
        case 4: lease_call(f); break;
        default: lock_call(f); break;
        }
    }
    for (int at = 0; at < POOL; at++) {
        quorlock_client_free(f->clients[at]);
        quorlock_lease_free(f->leases[at]);
        quorlock_leases_free(f->together[at]);
        quorlock_locks_free(f->several[at]);
        quorlock_election_free(f->elections[at]);
        quorlock_lock_free(f->locks[at]);
        quorlock_cancel_free(f->cancels[at]);
        quorlock_queue_free(f->queues[at]);
        quorlock_client_options_free(f->client_options[at]);
        quorlock_lock_options_free(f->lock_options[at]);
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: fuzz SECONDS [SEED]\n");
        return 2;
    }
    seed = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)time(NULL);
    end_ms = now_ms() + (int64_t)(atof(argv[1]) * 1000);
    quorlock_client_options_t *options = quorlock_client_options_new();
    const char *node = "memory://f1";
    quorlock_client_options_set_nodes(options, &node, 1);
    quorlock_client_options_set_ttl(options, 50);
    /* So that some leases are lost. */
    quorlock_client_options_set_renew(options, false);
    if (quorlock_client_new(options, &shared_client, NULL)) return 1;
    quorlock_client_options_free(options);
    const char *names[SHARED] = {"a", "b", "c", "d"};
    for (int at = 0; at < SHARED; at++)
        if (quorlock_lock_new(shared_client, names[at], 1, NULL, &shared_locks[at], NULL)) return 1;
    shared_cancel = quorlock_cancel_new();
    if (quorlock_queue_new(&shared_queue, NULL)) return 1;
    static struct fuzz threads[THREADS];
    pthread_t ids[THREADS];
    for (int at = 0; at < THREADS; at++) {
        threads[at].random = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)at;
        threads[at].number = at;
        pthread_create(&ids[at], NULL, run, &threads[at]);
    }
    uint64_t calls = 0, holds = 0, losses = 0, adopted = 0;
    for (int at = 0; at < THREADS; at++) {
        pthread_join(ids[at], NULL);
        calls += threads[at].calls;
        holds += threads[at].holds;
        losses += threads[at].losses;
        adopted += threads[at].adopted;
    }
    for (int at = 0; at < SHARED; at++) quorlock_lock_free(shared_locks[at]);
    quorlock_cancel_free(shared_cancel);
    quorlock_client_free(shared_client);
    quorlock_queue_free(shared_queue);
    /* Those without a queue end by themselves, and all of the others have by now. */
    for (int64_t last = now_ms() + 30000; atomic_load(&ended) != atomic_load(&started) && now_ms() < last;)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    quorlock_shutdown();
    uint64_t begun = atomic_load(&started), over = atomic_load(&ended), given = atomic_load(&arrived);
    printf("seed %" PRIu64 ": %" PRIu64 " calls, %" PRIu64 " holds, %" PRIu64 " losses seen, %" PRIu64 " adopted; %" PRIu64
           " calls started, %" PRIu64 " ended, %" PRIu64 " with a lease\n", seed, calls, holds, losses, adopted,
           begun, over, given);
    /* Below this the calls have not met anything. */
    return calls > 100 && holds > 10 && losses > 0 && adopted > 0 && given > 10 && begun == over ? 0 : 1;
}
