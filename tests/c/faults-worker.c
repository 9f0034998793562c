/* A worker of the fault runs, in C, as tests/faults/README.md says. */

#include "worker.h"

#include <stdarg.h>
#include <sys/socket.h>
#include <sys/un.h>

#define MILLISECOND INT64_C(1000000)
#define SLICE (20 * MILLISECOND)
#define MAX_REST (4 * MILLISECOND)
#define MAX_LOCKS 64
/* How many are taken together at most, and the length of a line of the history or the resource. */
#define MAX_TOGETHER 4
#define LINE 2048

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
    static char answer[LINE];
    log_line(fileno(resource), question);
    if (!fgets(answer, sizeof answer, resource)) die("resource");
    return answer;
}

/* Short as a rule; now and then long enough to be renewed. */
static int64_t hold_time(void) {
    if (fraction() < 0.005) return (int64_t)((1 + fraction()) * millis("FAULTS_TTL") * MILLISECOND);
    return (int64_t)(fraction() * millis("FAULTS_HOLD") * MILLISECOND);
}

/* All that is taken at once, and what the history knows of each. */
struct hold {
    int count;
    struct {
        char name[128];
        const quorlock_lease_t *lease;
        int64_t acquired, until, read;
        uint64_t fence;
        bool shared, stale;
    } each[MAX_TOGETHER];
};

/* What a worker can do with a lock of its word: one of the two is there. */
struct choice {
    const char *word;
    quorlock_lock_t *lock;
    quorlock_locks_t *together;
    int64_t keep;
};

static void put(const char *kind, const char *format, ...) {
    char rest[LINE / 2], line[LINE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(rest, sizeof rest, format, arguments);
    va_end(arguments);
    snprintf(line, sizeof line, "%s %s %s\n", kind, setting("FAULTS_NAME"), rest);
    log_line(history, line);
}

static void failed(const char *word, int64_t invoked, int64_t wait, const char *prefix, quorlock_error_t **error) {
    put("fail", "%s %" PRId64 " %" PRId64 " %" PRId64 " %s%s", word, invoked, monotonic(), wait, prefix,
        quorlock_kind_name(quorlock_error_kind(*error)));
    quorlock_error_free(*error);
    *error = NULL;
}

/* The lock of a word, or the semaphore of NAME*SLOTS; of NAME& a lock to share, or not; of NAME%KEEP one that is kept for so many
 * ms. */
static int32_t made(const quorlock_client_t *client, const char *word, bool shared, quorlock_lock_t **lock,
                    quorlock_error_t **error) {
    if (shared) {
        quorlock_lock_options_t *options = quorlock_lock_options_new();
        quorlock_lock_options_set_shared(options, true);
        int32_t code = quorlock_lock_new(client, word, strcspn(word, "&"), options, lock, error);
        quorlock_lock_options_free(options);
        return code;
    }
    const char *keep = strchr(word, '%');
    if (keep) {
        quorlock_lock_options_t *options = quorlock_lock_options_new();
        quorlock_lock_options_set_keep(options, atoll(keep + 1));
        int32_t code = quorlock_lock_new(client, word, (size_t)(keep - word), options, lock, error);
        quorlock_lock_options_free(options);
        return code;
    }
    const char *slots = strchr(word, '*');
    if (!slots) return quorlock_lock_new(client, word, strcspn(word, "&"), NULL, lock, error);
    return quorlock_semaphore_new(client, word, (size_t)(slots - word), atoll(slots + 1), NULL, lock, error);
}

/* The locks of NAME+NAME. */
static int32_t made_together(const quorlock_client_t *client, const char *word, quorlock_locks_t **locks, quorlock_error_t **error) {
    const char *names[MAX_TOGETHER];
    size_t lens[MAX_TOGETHER], count = 0;
    for (const char *name = word; name && count < MAX_TOGETHER; count++) {
        names[count] = name;
        lens[count] = strcspn(name, "+");
        name = name[lens[count]] ? name + lens[count] + 1 : NULL;
    }
    return quorlock_locks_new(client, names, lens, count, NULL, locks, error);
}

/* What the history knows a lease of a word by: each slot is a lock of its own. */
static void held_as(char name[128], const char *word, const quorlock_lease_t *lease) {
    int32_t slot = quorlock_lease_slot(lease);
    int length = (int)strcspn(word, "*&%");
    if (slot < 0) snprintf(name, 128, "%.*s", length, word);
    else snprintf(name, 128, "%.*s.%" PRId32, length, word, slot);
}

static int64_t left_of(const quorlock_lease_t *lease, const quorlock_leases_t *leases) {
    return lease ? quorlock_lease_remaining_ms(lease) : quorlock_leases_remaining_ms(leases);
}

static void take(struct hold *hold, const char *name, const quorlock_lease_t *lease, const quorlock_leases_t *leases, uint64_t fence,
                 int64_t invoked) {
    int at = hold->count++;
    snprintf(hold->each[at].name, sizeof hold->each[at].name, "%s", name);
    hold->each[at].lease = lease;
    hold->each[at].fence = fence;
    hold->each[at].shared = lease && quorlock_lease_is_shared(lease);
    /* The clock is read before the lease is asked: the end may come out too early, never too late. */
    hold->each[at].acquired = monotonic();
    hold->each[at].until = hold->each[at].acquired + left_of(lease, leases) * MILLISECOND;
    put(hold->each[at].shared ? "share" : "take", "%s %" PRId64 " %" PRId64 " %" PRId64 " %" PRIu64, name, invoked,
        hold->each[at].acquired, hold->each[at].until, fence);
}

/* Up to where they are given back. */
static void keep_for_a_while(struct hold *hold, const quorlock_leases_t *leases) {
    char question[LINE];
    for (int i = 0; i < hold->count; i++) {
        const char *verb = hold->each[i].shared ? "look" : "read";
        snprintf(question, sizeof question, "%s %s %" PRIu64 "\n", verb, hold->each[i].name, hold->each[i].fence);
        const char *value = ask(question);
        hold->each[i].stale = !strncmp(value, "stale", 5);
        hold->each[i].read = atoll(value);
    }
    int64_t over = monotonic() + hold_time(), left;
    while ((left = over - monotonic()) > 0) {
        nap(left < SLICE ? left : SLICE);
        for (int i = 0; i < hold->count; i++) {
            int64_t seen = monotonic(), until = seen + left_of(hold->each[i].lease, leases) * MILLISECOND;
            if (until > seen && until > hold->each[i].until) hold->each[i].until = until;
        }
    }
    /* Held or not: a pause may come after any look, so it is the resource that must refuse. */
    for (int i = 0; i < hold->count; i++) {
        if (hold->each[i].stale || hold->each[i].shared) continue;
        snprintf(question, sizeof question, "write %s %" PRIu64 " %" PRId64 "\n", hold->each[i].name, hold->each[i].fence,
                 hold->each[i].read + 1);
        ask(question);
    }
    /* Written before: a worker that is killed while nodes have yet to answer has given the lock back. */
    for (int i = 0; i < hold->count; i++) put("give", "%s %" PRId64 " %" PRId64, hold->each[i].name, monotonic(), hold->each[i].until);
}

/* Whether the lease is another's to go on with; else it is held as before, or lost. */
static bool handed(const struct hold *hold) {
    char question[LINE], *text = NULL;
    put("hand", "%s %" PRId64, hold->each[0].name, monotonic());
    if (quorlock_lease_export(hold->each[0].lease, &text, NULL)) return false;
    snprintf(question, sizeof question, "hand %s %" PRIu64 " %s\n", hold->each[0].name, hold->each[0].fence, text);
    quorlock_text_free(text);
    ask(question);
    return true;
}

/* Goes on with a lease that a worker has exported, if one has. */
static int32_t go_on(const quorlock_client_t *client, quorlock_error_t **error) {
    char number[32], name[128], text[LINE];
    if (sscanf(ask("next - 0\n"), "%31s %127s %2047s", number, name, text) != 3) return 0;
    int64_t invoked = monotonic();
    quorlock_lease_t *lease = NULL;
    if (quorlock_client_adopt(client, text, strlen(text), &lease, error)) {
        failed(name, invoked, 0, "adopt:", error);
        return 0;
    }
    struct hold hold = {0};
    take(&hold, name, lease, NULL, quorlock_lease_fence(lease), invoked);
    put("adopted", "%s %s", name, number);
    keep_for_a_while(&hold, NULL);
    bool held = false;
    int32_t code = quorlock_unlock(lease, &held, error);
    quorlock_lease_free(lease);
    return code;
}

static int32_t one(const struct choice *choice, int64_t hand, quorlock_error_t **error) {
    quorlock_lease_t *lease = NULL;
    int64_t invoked = monotonic();
    if (quorlock_lock(choice->lock, choice->keep ? 0 : QUORLOCK_DEFAULT, NULL, &lease, error)) {
        failed(choice->word, invoked, choice->keep ? 0 : millis("FAULTS_WAIT"), "", error);
        return 0;
    }
    struct hold hold = {0};
    char name[128];
    held_as(name, choice->word, lease);
    take(&hold, name, lease, NULL, quorlock_lease_fence(lease), invoked);
    keep_for_a_while(&hold, NULL);
    int32_t code = 0;
    bool may_go = hand > 0 && !choice->keep && !strchr(choice->word, '&');
    if (!may_go || rand() % hand || !handed(&hold)) {
        bool held = false;
        code = quorlock_unlock(lease, &held, error);
        if (!code && held && choice->keep)
            put("keep", "%s %" PRId64 " %" PRId64, name, hold.each[0].acquired, invoked + choice->keep * MILLISECOND);
    }
    quorlock_lease_free(lease);
    return code;
}

static int32_t several(const struct choice *choice, quorlock_error_t **error) {
    quorlock_leases_t *leases = NULL;
    int64_t invoked = monotonic();
    char words[LINE];
    snprintf(words, sizeof words, "%s", choice->word);
    for (char *plus = words; (plus = strchr(plus, '+'));) *plus = ',';
    put("want", "%s %" PRId64, words, invoked);
    if (quorlock_lock_all(choice->together, QUORLOCK_DEFAULT, NULL, &leases, error)) {
        failed(choice->word, invoked, millis("FAULTS_WAIT"), "", error);
        return 0;
    }
    struct hold hold = {0};
    for (size_t i = 0; i < quorlock_leases_count(leases); i++) {
        size_t len = 0;
        char name[128];
        const char *its = quorlock_leases_name(leases, i, &len);
        snprintf(name, sizeof name, "%.*s", (int)len, its);
        take(&hold, name, NULL, leases, quorlock_leases_fence(leases, i), invoked);
    }
    keep_for_a_while(&hold, leases);
    bool held = false;
    int32_t code = quorlock_unlock_all(leases, &held, error);
    quorlock_leases_free(leases);
    return code;
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
    struct choice choices[MAX_LOCKS] = {{NULL, NULL, NULL, 0}};
    int count = 0;
    int64_t hand = atoll(setting("FAULTS_HAND"));
    quorlock_client_t *client = connected(&error);
    if (!client) goto failed;
    for (char *word = strtok(setting("FAULTS_LOCKS"), ","); word && count < MAX_LOCKS; word = strtok(NULL, ",")) {
        /* Three of four share what may be shared; of the others there are as many, so that each word is drawn as often. */
        for (int i = 0; i < 4 && count < MAX_LOCKS; i++) {
            struct choice *choice = &choices[count++];
            choice->word = word;
            choice->keep = strchr(word, '%') ? atoll(strchr(word, '%') + 1) : 0;
            if (strchr(word, '+') ? made_together(client, word, &choice->together, &error)
                                  : made(client, word, strchr(word, '&') && i < 3, &choice->lock, &error))
                goto failed;
        }
    }
    srand((unsigned)monotonic());
    while (monotonic() < end) {
        if (hand && go_on(client, &error)) goto failed;
        const struct choice *choice = &choices[rand() % count];
        if (choice->together ? several(choice, &error) : one(choice, hand, &error)) goto failed;
        nap((int64_t)(fraction() * MAX_REST));
    }
    if (quorlock_client_close(client, &error)) goto failed;
    status = 0;
failed:
    if (error) fprintf(stderr, "%s\n", quorlock_error_text(error));
    quorlock_error_free(error);
    for (int i = 0; i < count; i++) {
        quorlock_lock_free(choices[i].lock);
        quorlock_locks_free(choices[i].together);
    }
    quorlock_client_free(client);
    return status;
}
