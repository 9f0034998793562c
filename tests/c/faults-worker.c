/* A worker of the fault runs, in C, as tests/faults/README.md says. */

#include "worker.h"

#include <sys/socket.h>
#include <sys/un.h>

#define MILLISECOND INT64_C(1000000)
#define SLICE (20 * MILLISECOND)
#define MAX_REST (4 * MILLISECOND)
#define MAX_LOCKS 16

static int history;
static FILE *resource;

static char *setting(const char *name) {
    char *value = getenv(name);
    if (!value) {
        fprintf(stderr, "%s is not set\n", name);
        exit(2);
    }
    return value;
}

static int64_t millis(const char *name) { return atoll(setting(name)); }

static double fraction(void) { return rand() / (RAND_MAX + 1.0); }

static void connect_resource(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", setting("FAULTS_RESOURCE"));
    int connection = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connection < 0 || connect(connection, (struct sockaddr *)&address, sizeof address)) die("resource");
    if (!(resource = fdopen(connection, "r"))) die("resource");
}

/* Asks the resource; its answer stays until the next question. */
static const char *ask(const char *question) {
    static char answer[64];
    log_line(fileno(resource), question);
    if (!fgets(answer, sizeof answer, resource)) die("resource");
    return answer;
}

/* Short as a rule; now and then long enough to be renewed. */
static int64_t hold_time(void) {
    if (fraction() < 0.005) return (int64_t)((1 + fraction()) * millis("FAULTS_TTL") * MILLISECOND);
    return (int64_t)(fraction() * millis("FAULTS_HOLD") * MILLISECOND);
}

/* The lock of a word, or the semaphore of NAME*SLOTS; of NAME& a lock to share, or not. */
static int32_t made(const quorlock_client_t *client, const char *word, bool shared, quorlock_lock_t **lock,
                    quorlock_error_t **error) {
    if (shared) {
        quorlock_lock_options_t *options = quorlock_lock_options_new();
        quorlock_lock_options_set_shared(options, true);
        int32_t code = quorlock_lock_new(client, word, strcspn(word, "&"), options, lock, error);
        quorlock_lock_options_free(options);
        return code;
    }
    const char *slots = strchr(word, '*');
    if (!slots) return quorlock_lock_new(client, word, strcspn(word, "&"), NULL, lock, error);
    return quorlock_semaphore_new(client, word, (size_t)(slots - word), atoll(slots + 1), NULL, lock, error);
}

static int32_t hold(const char *word, const quorlock_lease_t *lease, int64_t invoked, quorlock_error_t **error) {
    const char *who = setting("FAULTS_NAME");
    char line[512], question[512], name[128];
    /* Each slot is a lock of its own to the history. */
    int32_t slot = quorlock_lease_slot(lease);
    bool shared = quorlock_lease_is_shared(lease);
    int length = (int)strcspn(word, "*&");
    if (slot < 0) snprintf(name, sizeof name, "%.*s", length, word);
    else snprintf(name, sizeof name, "%.*s.%" PRId32, length, word, slot);
    uint64_t fence = quorlock_lease_fence(lease);
    /* The clock is read before the lease is asked: the end may come out too early, never too late. */
    int64_t acquired = monotonic(), until = acquired + quorlock_lease_remaining_ms(lease) * MILLISECOND;
    snprintf(line, sizeof line, "%s %s %s %" PRId64 " %" PRId64 " %" PRId64 " %" PRIu64 "\n", shared ? "share" : "take",
             who, name, invoked, acquired, until, fence);
    log_line(history, line);
    snprintf(question, sizeof question, "%s %s %" PRIu64 "\n", shared ? "look" : "read", name, fence);
    const char *value = ask(question);
    bool stale = !strncmp(value, "stale", 5);
    int64_t read = atoll(value), over = monotonic() + hold_time(), left;
    while ((left = over - monotonic()) > 0) {
        nap(left < SLICE ? left : SLICE);
        int64_t seen = monotonic(), remaining = quorlock_lease_remaining_ms(lease);
        if (remaining > 0 && seen + remaining * MILLISECOND > until) until = seen + remaining * MILLISECOND;
    }
    /* Held or not: a pause may come after any look, so it is the resource that must refuse. */
    if (!stale && !shared) {
        snprintf(question, sizeof question, "write %s %" PRIu64 " %" PRId64 "\n", name, fence, read + 1);
        ask(question);
    }
    /* Written before: a worker that is killed while nodes have yet to answer has given the lock back. */
    snprintf(line, sizeof line, "give %s %s %" PRId64 " %" PRId64 "\n", who, name, monotonic(), until);
    log_line(history, line);
    bool held = false;
    return quorlock_unlock(lease, &held, error);
}

static quorlock_client_t *connected(quorlock_error_t **error) {
    quorlock_client_options_t *options = quorlock_client_options_new();
    const char *name = setting("FAULTS_NAME");
    quorlock_client_options_set_label(options, name, strlen(name));
    quorlock_client_options_set_ttl(options, millis("FAULTS_TTL"));
    quorlock_client_options_set_wait(options, millis("FAULTS_WAIT"));
    quorlock_client_options_set_max_ttl(options, millis("FAULTS_MAX_TTL"));
    quorlock_client_options_set_node_timeout(options, millis("FAULTS_NODE_TIMEOUT"));
    quorlock_client_options_set_wait_replicas(options, atoi(setting("FAULTS_WAIT_REPLICAS")));
    return client_for(setting("QUORLOCK_NODES"), options, error);
}

int main(void) {
    history = open(setting("FAULTS_HISTORY"), O_WRONLY | O_APPEND);
    if (history < 0) die("history");
    connect_resource();
    int64_t end = atoll(setting("FAULTS_END"));
    int status = 1;
    quorlock_error_t *error = NULL;
    quorlock_lock_t *locks[MAX_LOCKS] = {NULL};
    const char *names[MAX_LOCKS];
    int count = 0;
    quorlock_client_t *client = connected(&error);
    if (!client) goto failed;
    for (char *name = strtok(setting("FAULTS_LOCKS"), ","); name && count < MAX_LOCKS; name = strtok(NULL, ",")) {
        /* Three of four share what may be shared. */
        int times = strchr(name, '&') ? 4 : 1;
        for (int i = 0; i < times && count < MAX_LOCKS; i++) {
            names[count] = name;
            if (made(client, name, i < times - 1, &locks[count], &error)) goto failed;
            count++;
        }
    }
    srand((unsigned)monotonic());
    while (monotonic() < end) {
        int chosen = rand() % count;
        quorlock_lease_t *lease = NULL;
        int64_t invoked = monotonic();
        if (quorlock_lock(locks[chosen], QUORLOCK_DEFAULT, NULL, &lease, &error)) {
            char line[512];
            snprintf(line, sizeof line, "fail %s %s %" PRId64 " %" PRId64 " %s %s\n", setting("FAULTS_NAME"), names[chosen],
                     invoked, monotonic(), setting("FAULTS_WAIT"), quorlock_kind_name(quorlock_error_kind(error)));
            log_line(history, line);
            quorlock_error_free(error);
            error = NULL;
        } else {
            int32_t code = hold(names[chosen], lease, invoked, &error);
            quorlock_lease_free(lease);
            if (code) goto failed;
        }
        nap((int64_t)(fraction() * MAX_REST));
    }
    if (quorlock_client_close(client, &error)) goto failed;
    status = 0;
failed:
    if (error) fprintf(stderr, "%s\n", quorlock_error_text(error));
    quorlock_error_free(error);
    for (int i = 0; i < count; i++) quorlock_lock_free(locks[i]);
    quorlock_client_free(client);
    return status;
}
