/* A worker of the proof of several locks at once, as tests/names/README.md says:
 * names-worker NODES HISTORY WORKER NAMES END WAIT together|unsorted. */

#include "worker.h"

#define HOLD 8000000
#define REST 4000000
#define MAX_NAMES 16
#define MOST 4

/* What is wanted together, and what has been got of it: in the one way leases, in the other each by itself. */
struct want {
    const char *names[MAX_NAMES];
    size_t count;
    char list[256];
    int64_t invoked;
    quorlock_lease_t *held[MOST];
    int64_t ends[MOST];
    size_t got;
};

static int history;
static const char *worker;
static int64_t wait_ms;

/* Two to four of them, in any order. */
static void draw(struct want *want, const char *const *names, size_t count) {
    *want = (struct want){.count = 2 + rand() % (MOST - 1)};
    memcpy(want->names, names, count * sizeof *names);
    for (size_t at = 0; at < want->count; at++) {
        size_t other = at + rand() % (count - at);
        const char *name = want->names[other];
        want->names[other] = want->names[at];
        want->names[at] = name;
        size_t len = strlen(want->list);
        snprintf(want->list + len, sizeof want->list - len, "%s%s", at ? "," : "", name);
    }
    want->invoked = monotonic();
    char line[512];
    snprintf(line, sizeof line, "want %s %s %" PRId64 "\n", worker, want->list, want->invoked);
    log_line(history, line);
}

static void take(const struct want *want, const char *name, size_t len, int64_t acquired, int64_t until, uint64_t fence) {
    char line[512];
    snprintf(line, sizeof line, "take %s %.*s %" PRId64 " %" PRId64 " %" PRId64 " %" PRIu64 "\n", worker, (int)len, name,
             want->invoked, acquired, until, fence);
    log_line(history, line);
}

static void give(const char *name, size_t len, int64_t at, int64_t until) {
    char line[512];
    snprintf(line, sizeof line, "give %s %.*s %" PRId64 " %" PRId64 "\n", worker, (int)len, name, at, until);
    log_line(history, line);
}

/* That a wait has failed is for the history to tell. */
static void failed(const struct want *want, quorlock_error_t **error) {
    char line[512];
    snprintf(line, sizeof line, "fail %s %s %" PRId64 " %" PRId64 " %" PRId64 " %s\n", worker, want->list, want->invoked,
             monotonic(), wait_ms, quorlock_kind_name(quorlock_error_kind(*error)));
    log_line(history, line);
    quorlock_error_free(*error);
    *error = NULL;
}

/* All by one call. */
static int32_t together(const quorlock_client_t *client, const struct want *want, quorlock_error_t **error) {
    size_t lens[MOST];
    for (size_t at = 0; at < want->count; at++) lens[at] = strlen(want->names[at]);
    quorlock_locks_t *locks = NULL;
    int32_t code = quorlock_locks_new(client, want->names, lens, want->count, NULL, &locks, error);
    if (code) return code;
    quorlock_leases_t *leases = NULL;
    if (quorlock_lock_all(locks, wait_ms, NULL, &leases, error)) {
        failed(want, error);
    } else {
        /* The clock is read before the leases are asked: the end may come out too early, never too late. */
        int64_t acquired = monotonic(), until = acquired + quorlock_leases_remaining_ms(leases) * INT64_C(1000000);
        size_t count = quorlock_leases_count(leases), len = 0;
        for (size_t at = 0; at < count; at++) {
            const char *name = quorlock_leases_name(leases, at, &len);
            take(want, name, len, acquired, until, quorlock_leases_fence(leases, at));
        }
        nap(rand() % HOLD);
        int64_t given = monotonic();
        for (size_t at = 0; at < count; at++) {
            const char *name = quorlock_leases_name(leases, at, &len);
            give(name, len, given, until);
        }
        bool held = false;
        code = quorlock_unlock_all(leases, &held, error);
        if (!code && !held) {
            fprintf(stderr, "a lease was lost before its release\n");
            exit(1);
        }
    }
    quorlock_leases_free(leases);
    quorlock_locks_free(locks);
    return code;
}

/* One after the other, in the order in which they are wanted: what goes wrong. */
static int32_t unsorted(const quorlock_client_t *client, struct want *want, quorlock_error_t **error) {
    int32_t code = QUORLOCK_OK;
    for (; want->got < want->count; want->got++) {
        const char *name = want->names[want->got];
        quorlock_lease_t **lease = &want->held[want->got];
        quorlock_lock_t *lock = NULL;
        if ((code = quorlock_lock_new(client, name, strlen(name), NULL, &lock, error))) return code;
        code = quorlock_lock(lock, wait_ms, NULL, lease, error);
        quorlock_lock_free(lock);
        if (code) break;
        int64_t acquired = monotonic(), until = acquired + quorlock_lease_remaining_ms(*lease) * INT64_C(1000000);
        want->ends[want->got] = until;
        take(want, name, strlen(name), acquired, until, quorlock_lease_fence(*lease));
    }
    if (code) failed(want, error);
    else nap(rand() % HOLD);
    code = QUORLOCK_OK;
    int64_t given = monotonic();
    for (size_t at = 0; at < want->got; at++) give(want->names[at], strlen(want->names[at]), given, want->ends[at]);
    for (size_t at = 0; at < want->got; at++) {
        bool held = false;
        if (!code) code = quorlock_unlock(want->held[at], &held, error);
        quorlock_lease_free(want->held[at]);
    }
    return code;
}

int main(int argc, char **argv) {
    if (argc != 8) {
        fprintf(stderr, "usage: names-worker NODES HISTORY WORKER NAMES END WAIT together|unsorted\n");
        return 2;
    }
    history = open(argv[2], O_WRONLY | O_APPEND);
    if (history < 0) die("history");
    worker = argv[3];
    wait_ms = atoll(argv[6]);
    int64_t end = atoll(argv[5]);
    quorlock_error_t *error = NULL;
    quorlock_client_options_t *options = quorlock_client_options_new();
    quorlock_client_options_set_label(options, worker, strlen(worker));
    quorlock_client_t *client = client_for(argv[1], options, &error);
    const char *names[MAX_NAMES];
    size_t count = 0;
    for (char *name = strtok(argv[4], ","); name && count < MAX_NAMES; name = strtok(NULL, ",")) names[count++] = name;
    bool at_once = !strcmp(argv[7], "together");
    int32_t code = client ? QUORLOCK_OK : QUORLOCK_INTERNAL;
    srand((unsigned)monotonic());
    while (!code && monotonic() < end) {
        struct want want;
        draw(&want, names, count);
        code = at_once ? together(client, &want, &error) : unsorted(client, &want, &error);
        nap(rand() % REST);
    }
    if (!code) code = quorlock_client_close(client, &error);
    if (code) fprintf(stderr, "%s\n", quorlock_error_text(error));
    quorlock_error_free(error);
    quorlock_client_free(client);
    return code ? 1 : 0;
}
