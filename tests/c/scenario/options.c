/* Clients and locks with the options of their lines. */

#include "scenario.h"

#include <stdlib.h>
#include <string.h>

/* Sets the option of a client; whether there is one of that name. */
static bool set_of_client(quorlock_client_options_t *options, const char *name, char *value) {
    if (!strcmp(name, "nodes")) {
        const char *urls[64];
        size_t count = 0;
        for (char *url = strtok(value, ","); url && count < 64; url = strtok(NULL, ",")) urls[count++] = url;
        return quorlock_client_options_set_nodes(options, urls, count), true;
    }
    // Made from core/options.toml: options of a client.
    if (!strcmp(name, "ttl")) return quorlock_client_options_set_ttl(options, millis(value)), true;
    if (!strcmp(name, "wait")) return quorlock_client_options_set_wait(options, limit(value)), true;
    if (!strcmp(name, "renew")) return quorlock_client_options_set_renew(options, on(value)), true;
    if (!strcmp(name, "max_hold")) return quorlock_client_options_set_max_hold(options, limit(value)), true;
    if (!strcmp(name, "raw")) return quorlock_client_options_set_raw(options, on(value)), true;
    if (!strcmp(name, "layout")) return quorlock_client_options_set_layout(options, layout_of(value)), true;
    if (!strcmp(name, "label")) return quorlock_client_options_set_label(options, value, unescape(value)), true;
    if (!strcmp(name, "fencing")) return quorlock_client_options_set_fencing(options, on(value)), true;
    if (!strcmp(name, "max_waiters")) return quorlock_client_options_set_max_waiters(options, count_of(value)), true;
    if (!strcmp(name, "fair")) return quorlock_client_options_set_fair(options, on(value)), true;
    if (!strcmp(name, "keep")) return quorlock_client_options_set_keep(options, millis(value)), true;
    if (!strcmp(name, "reentrant")) return quorlock_client_options_set_reentrant(options, on(value)), true;
    if (!strcmp(name, "group")) return quorlock_client_options_set_group(options, value, unescape(value)), true;
    if (!strcmp(name, "max_ttl")) return quorlock_client_options_set_max_ttl(options, millis(value)), true;
    if (!strcmp(name, "node_timeout")) return quorlock_client_options_set_node_timeout(options, millis(value)), true;
    if (!strcmp(name, "connect_timeout")) return quorlock_client_options_set_connect_timeout(options, millis(value)), true;
    if (!strcmp(name, "drift")) return quorlock_client_options_set_drift(options, fraction(value)), true;
    if (!strcmp(name, "min_validity")) return quorlock_client_options_set_min_validity(options, fraction(value)), true;
    if (!strcmp(name, "namespace")) return quorlock_client_options_set_namespace(options, value, unescape(value)), true;
    if (!strcmp(name, "fence_ttl")) return quorlock_client_options_set_fence_ttl(options, millis(value)), true;
    if (!strcmp(name, "set_name")) return quorlock_client_options_set_set_name(options, value, unescape(value)), true;
    if (!strcmp(name, "restart_guard")) return quorlock_client_options_set_restart_guard(options, restart_guard_of(value)), true;
    if (!strcmp(name, "accept_eviction")) return quorlock_client_options_set_accept_eviction(options, on(value)), true;
    if (!strcmp(name, "wait_replicas")) return quorlock_client_options_set_wait_replicas(options, count_of(value)), true;
    if (!strcmp(name, "ca")) return quorlock_client_options_set_ca(options, value, unescape(value)), true;
    if (!strcmp(name, "cert")) return quorlock_client_options_set_cert(options, value, unescape(value)), true;
    if (!strcmp(name, "key")) return quorlock_client_options_set_key(options, value, unescape(value)), true;
    // End of what is made.
    return false;
}

/* The same of a lock. */
static bool set_of_lock(quorlock_lock_options_t *options, const char *name, char *value) {
    // Made from core/options.toml: options of a lock.
    if (!strcmp(name, "ttl")) return quorlock_lock_options_set_ttl(options, millis(value)), true;
    if (!strcmp(name, "wait")) return quorlock_lock_options_set_wait(options, limit(value)), true;
    if (!strcmp(name, "renew")) return quorlock_lock_options_set_renew(options, on(value)), true;
    if (!strcmp(name, "max_hold")) return quorlock_lock_options_set_max_hold(options, limit(value)), true;
    if (!strcmp(name, "raw")) return quorlock_lock_options_set_raw(options, on(value)), true;
    if (!strcmp(name, "layout")) return quorlock_lock_options_set_layout(options, layout_of(value)), true;
    if (!strcmp(name, "label")) return quorlock_lock_options_set_label(options, value, unescape(value)), true;
    if (!strcmp(name, "fencing")) return quorlock_lock_options_set_fencing(options, on(value)), true;
    if (!strcmp(name, "max_waiters")) return quorlock_lock_options_set_max_waiters(options, count_of(value)), true;
    if (!strcmp(name, "fair")) return quorlock_lock_options_set_fair(options, on(value)), true;
    if (!strcmp(name, "keep")) return quorlock_lock_options_set_keep(options, millis(value)), true;
    if (!strcmp(name, "reentrant")) return quorlock_lock_options_set_reentrant(options, on(value)), true;
    if (!strcmp(name, "group")) return quorlock_lock_options_set_group(options, value, unescape(value)), true;
    if (!strcmp(name, "shared")) return quorlock_lock_options_set_shared(options, on(value)), true;
    if (!strcmp(name, "slots")) return quorlock_lock_options_set_slots(options, count_of(value)), true;
    if (!strcmp(name, "owner")) return quorlock_lock_options_set_owner(options, value, unescape(value)), true;
    if (!strcmp(name, "confirm")) return quorlock_lock_options_set_confirm(options, on(value)), true;
    // End of what is made.
    return false;
}

struct answer make_client(struct line *line) {
    quorlock_client_options_t *options = quorlock_client_options_new();
    for (int at = 2; at < line->count;) {
        char *value, *name = option(line, &at, &value);
        if (!set_of_client(options, name, value)) fail("expected no option %s", name);
    }
    quorlock_client_t *client = NULL;
    quorlock_error_t *error = NULL;
    int32_t code = quorlock_client_new(options, &client, &error);
    quorlock_client_options_free(options);
    if (code == QUORLOCK_OK) keep(&clients, line->words[1], client);
    return result(code, error, "ok");
}

int32_t make_anew(const struct lock *asked, struct lock *made, quorlock_error_t **error) {
    switch (asked->kind) {
    case SEVERAL:
        return quorlock_locks_new(asked->client, asked->names, asked->lens, asked->count, asked->options, &made->locks, error);
    case ELECTION:
        return quorlock_election_new(asked->client, asked->names[0], asked->lens[0], asked->options, &made->election, error);
    default: return quorlock_lock_new(asked->client, asked->names[0], asked->lens[0], asked->options, &made->lock, error);
    }
}

void unmake(struct lock *made) {
    quorlock_lock_free(made->lock);
    quorlock_locks_free(made->locks);
    quorlock_election_free(made->election);
}

void make_lock(struct line *line) {
    struct lock *lock = calloc(1, sizeof *lock);
    lock->client = get(&clients, line->words[2]);
    lock->options = quorlock_lock_options_new();
    lock->kind = !strcmp(line->words[0], "locks") ? SEVERAL : !strcmp(line->words[0], "election") ? ELECTION : ONE;
    lock->text = strdup(line->words[3]);
    const char *ends = lock->kind == SEVERAL ? "," : "";
    for (char *name = strtok(lock->text, ends); name; name = strtok(NULL, ends)) {
        if (lock->count == MAX_NAMES) fail("too many names");
        lock->names[lock->count++] = name;
    }
    /* Now, for it changes the text that is divided. */
    for (size_t at = 0; at < lock->count; at++) lock->lens[at] = unescape((char *)lock->names[at]);
    for (int at = 4; at < line->count;) {
        char *value, *name = option(line, &at, &value);
        if (!set_of_lock(lock->options, name, value)) fail("expected no option %s", name);
    }
    /* An actor is a thread. */
    if (lock->kind != ELECTION) quorlock_lock_options_set_owner_thread(lock->options, true);
    quorlock_error_t *error = NULL;
    make_anew(lock, lock, &error);
    quorlock_error_free(error);
    keep(&locks, line->words[1], lock);
}
