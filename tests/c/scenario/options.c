/* Clients and locks with the options of their lines. A new option goes here. */

#include "scenario.h"

#include <stdlib.h>
#include <string.h>

struct answer make_client(struct line *line) {
    quorlock_client_options_t *options = quorlock_client_options_new();
    for (int at = 2; at < line->count;) {
        char *value, *name = option(line, &at, &value);
        if (!strcmp(name, "nodes")) {
            const char *urls[64];
            size_t count = 0;
            for (char *url = strtok(value, ","); url && count < 64; url = strtok(NULL, ",")) urls[count++] = url;
            quorlock_client_options_set_nodes(options, urls, count);
        } else if (!strcmp(name, "ttl")) {
            quorlock_client_options_set_ttl(options, millis(value));
        } else if (!strcmp(name, "wait")) {
            quorlock_client_options_set_wait(options, limit(value));
        } else if (!strcmp(name, "renew")) {
            quorlock_client_options_set_renew(options, on(value));
        } else if (!strcmp(name, "max_hold")) {
            quorlock_client_options_set_max_hold(options, limit(value));
        } else if (!strcmp(name, "max_ttl")) {
            quorlock_client_options_set_max_ttl(options, millis(value));
        } else if (!strcmp(name, "node_timeout")) {
            quorlock_client_options_set_node_timeout(options, millis(value));
        } else if (!strcmp(name, "connect_timeout")) {
            quorlock_client_options_set_connect_timeout(options, millis(value));
        } else if (!strcmp(name, "drift")) {
            quorlock_client_options_set_drift(options, fraction(value));
        } else if (!strcmp(name, "min_validity")) {
            quorlock_client_options_set_min_validity(options, fraction(value));
        } else if (!strcmp(name, "raw")) {
            quorlock_client_options_set_raw(options, on(value));
        } else if (!strcmp(name, "fencing")) {
            quorlock_client_options_set_fencing(options, on(value));
        } else if (!strcmp(name, "fence_ttl")) {
            quorlock_client_options_set_fence_ttl(options, millis(value));
        } else if (!strcmp(name, "max_waiters")) {
            quorlock_client_options_set_max_waiters(options, count_of(value));
        } else if (!strcmp(name, "fair")) {
            quorlock_client_options_set_fair(options, on(value));
        } else if (!strcmp(name, "keep")) {
            quorlock_client_options_set_keep(options, millis(value));
        } else if (!strcmp(name, "layout")) {
            quorlock_client_options_set_layout(options, layout(value));
        } else if (!strcmp(name, "restart_guard")) {
            quorlock_client_options_set_restart_guard(options, guard(value));
        } else if (!strcmp(name, "accept_eviction")) {
            quorlock_client_options_set_accept_eviction(options, on(value));
        } else if (!strcmp(name, "wait_replicas")) {
            quorlock_client_options_set_wait_replicas(options, count_of(value));
        } else {
            size_t len = unescape(value);
            if (!strcmp(name, "namespace")) quorlock_client_options_set_namespace(options, value, len);
            else if (!strcmp(name, "set_name")) quorlock_client_options_set_set_name(options, value, len);
            else if (!strcmp(name, "group")) quorlock_client_options_set_group(options, value, len);
            else if (!strcmp(name, "label")) quorlock_client_options_set_label(options, value, len);
            else if (!strcmp(name, "ca")) quorlock_client_options_set_ca(options, value, len);
            else if (!strcmp(name, "cert")) quorlock_client_options_set_cert(options, value, len);
            else if (!strcmp(name, "key")) quorlock_client_options_set_key(options, value, len);
            else fail("expected no option %s", name);
        }
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
        if (!strcmp(name, "ttl")) quorlock_lock_options_set_ttl(lock->options, millis(value));
        else if (!strcmp(name, "wait")) quorlock_lock_options_set_wait(lock->options, limit(value));
        else if (!strcmp(name, "renew")) quorlock_lock_options_set_renew(lock->options, on(value));
        else if (!strcmp(name, "max_hold")) quorlock_lock_options_set_max_hold(lock->options, limit(value));
        else if (!strcmp(name, "raw")) quorlock_lock_options_set_raw(lock->options, on(value));
        else if (!strcmp(name, "fencing")) quorlock_lock_options_set_fencing(lock->options, on(value));
        else if (!strcmp(name, "max_waiters")) quorlock_lock_options_set_max_waiters(lock->options, count_of(value));
        else if (!strcmp(name, "fair")) quorlock_lock_options_set_fair(lock->options, on(value));
        else if (!strcmp(name, "shared")) quorlock_lock_options_set_shared(lock->options, on(value));
        else if (!strcmp(name, "slots")) quorlock_lock_options_set_slots(lock->options, count_of(value));
        else if (!strcmp(name, "keep")) quorlock_lock_options_set_keep(lock->options, millis(value));
        else if (!strcmp(name, "layout")) quorlock_lock_options_set_layout(lock->options, layout(value));
        else if (!strcmp(name, "group")) quorlock_lock_options_set_group(lock->options, value, unescape(value));
        else if (!strcmp(name, "label")) quorlock_lock_options_set_label(lock->options, value, unescape(value));
        else if (!strcmp(name, "owner")) quorlock_lock_options_set_owner(lock->options, value, unescape(value));
        else fail("expected no option %s", name);
    }
    /* An actor is a thread. */
    if (lock->kind != ELECTION) quorlock_lock_options_set_owner_thread(lock->options, true);
    quorlock_error_t *error = NULL;
    make_anew(lock, lock, &error);
    quorlock_error_free(error);
    keep(&locks, line->words[1], lock);
}
