/* Runs one scenario file (tests/scenarios/README.md) against real servers. */

#define _POSIX_C_SOURCE 200809L

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include <quorlock.h>

enum { MAX_LINE = 8192 + 2, MAX_WORDS = 24, MAX_HANDLES = 64, MAX_TEXT = 65536 };

/* ---- the answer of a line, and how it ends the run ---- */

struct answer {
    char text[64];
    quorlock_error_t *error;
};

static int line_number;
/* The last error that a line answered with; owned. */
static quorlock_error_t *last_error;

static void close_all(void);

static void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    printf("line %d: ", line_number);
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
    close_all();
    exit(1);
}

static struct answer said(const char *text) {
    struct answer answer = {"", NULL};
    snprintf(answer.text, sizeof answer.text, "%s", text);
    return answer;
}

static struct answer said_number(long long number) {
    struct answer answer = {"", NULL};
    snprintf(answer.text, sizeof answer.text, "%lld", number);
    return answer;
}

/* What a call has answered: `good` if it returned 0, else the name of its kind. */
static struct answer result(int32_t code, quorlock_error_t *error, const char *good) {
    struct answer answer = said(code == QUORLOCK_OK ? good : quorlock_kind_name(code));
    answer.error = error;
    return answer;
}

static bool number(const char *text, long long *value) {
    char *end;
    errno = 0;
    *value = strtoll(text, &end, 10);
    return *text && !*end && !errno;
}

static bool holds(const char *answer, const char *expected) {
    long long got, limit;
    if ((!strncmp(expected, ">=", 2) || !strncmp(expected, "<=", 2)) && number(expected + 2, &limit))
        return number(answer, &got) && (*expected == '>' ? got >= limit : got <= limit);
    return !strcmp(answer, expected);
}

static void judge(struct answer answer, const char *expected) {
    if (answer.error) {
        quorlock_error_free(last_error);
        last_error = answer.error;
    }
    if (!holds(answer.text, expected))
        fail("expected %s, got %s%s%s", expected, answer.text, answer.error ? ": " : "",
             answer.error ? quorlock_error_text(answer.error) : "");
}

/* ---- words ---- */

static int64_t millis(const char *text) {
    long long value = 0;
    if (!number(text, &value) || value < 0) fail("expected milliseconds, got %s", text);
    return value;
}

static int64_t count_of(const char *text) {
    long long value = 0;
    if (!number(text, &value)) fail("expected a number, got %s", text);
    return value;
}

static int64_t limit(const char *text) { return strcmp(text, "none") ? millis(text) : QUORLOCK_FOREVER; }

static bool on(const char *text) {
    if (strcmp(text, "on") && strcmp(text, "off")) fail("expected on or off, got %s", text);
    return !strcmp(text, "on");
}

/* Another word is a number that is no guard: for the library to refuse. */
static int32_t guard(const char *text) {
    if (!strcmp(text, "auto")) return QUORLOCK_RESTART_GUARD_AUTO;
    if (!strcmp(text, "on")) return QUORLOCK_RESTART_GUARD_ON;
    return strcmp(text, "off") ? -1 : QUORLOCK_RESTART_GUARD_OFF;
}

static double fraction(const char *text) {
    char *end;
    double value = strtod(text, &end);
    if (!*text || *end) fail("expected a fraction, got %s", text);
    return value;
}

/* `%XX` is one byte, `%` alone the empty text. Returns the bytes, in place. */
static size_t unescape(char *text) {
    if (!strcmp(text, "%")) return *text = 0;
    char *to = text;
    for (char *from = text; *from; to++) {
        char hex[3] = {0};
        if (*from == '%' && isxdigit((unsigned char)from[1]) && isxdigit((unsigned char)from[2])) {
            memcpy(hex, from + 1, 2);
            *to = (char)strtol(hex, NULL, 16);
            from += 3;
        } else {
            *to = *from++;
        }
    }
    *to = 0;
    return (size_t)(to - text);
}

struct line {
    char *words[MAX_WORDS + 1];
    int count;
    char *actor, *expected;
    bool started;
};

static char *option(struct line *line, int *at, char **value) {
    char *word = line->words[(*at)++];
    char *equals = strchr(word, '=');
    if (!equals) fail("expected an option");
    *equals = 0;
    *value = equals + 1;
    return word;
}

/* ---- handles ---- */

struct lock {
    quorlock_lock_t *lock; /* NULL if making it failed: then it is made anew where it is used */
    quorlock_client_t *client;
    quorlock_lock_options_t *options;
    char *name;
    size_t len;
};

struct handle {
    char *name;
    void *value;
};

struct table {
    const char *what;
    struct handle handles[MAX_HANDLES];
    int count;
};

static struct table clients = {"client", {{0}}, 0}, locks = {"lock", {{0}}, 0};
static struct table leases = {"lease", {{0}}, 0}, actors = {"actor", {{0}}, 0};

static struct handle *find(struct table *table, const char *name) {
    for (int i = 0; i < table->count; i++)
        if (!strcmp(table->handles[i].name, name)) return &table->handles[i];
    return NULL;
}

static void *get(struct table *table, const char *name) {
    struct handle *handle = find(table, name);
    if (!handle) fail("there is no %s %s", table->what, name);
    return handle->value;
}

static void keep(struct table *table, const char *name, void *value) {
    struct handle *handle = find(table, name);
    if (!handle && table->count == MAX_HANDLES) fail("too many handles");
    if (!handle) {
        handle = &table->handles[table->count++];
        handle->name = strdup(name);
    }
    handle->value = value;
}

/* ---- actors: threads that carry out one job after the other ---- */

struct job {
    const char *verb;
    struct lock *lock;
    quorlock_lease_t *lease;
    int64_t ms;
    char *made; /* name of the lease that it makes; owned */
    quorlock_cancel_t *cancel;
};

struct actor {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    enum { IDLE, BUSY, DONE, ENDED } state;
    struct job job;
    struct answer answer;
};

static struct answer acquire(struct job *job) {
    quorlock_error_t *error = NULL;
    quorlock_lock_t *lock = job->lock->lock, *anew = NULL;
    int32_t code = QUORLOCK_OK;
    if (!lock) {
        code = quorlock_lock_new(job->lock->client, job->lock->name, job->lock->len, job->lock->options, &anew, &error);
        lock = anew;
    }
    if (code == QUORLOCK_OK)
        code = !strcmp(job->verb, "try") ? quorlock_try_lock(lock, &job->lease, &error)
                                         : quorlock_lock(lock, job->ms, job->cancel, &job->lease, &error);
    quorlock_lock_free(anew);
    if (code == QUORLOCK_CONTENDED && !strcmp(job->verb, "try")) {
        quorlock_error_free(error);
        return said("none");
    }
    return result(code, error, "ok");
}

static struct answer perform(struct job *job) {
    quorlock_error_t *error = NULL;
    bool held = false;
    int32_t code;
    if (!strcmp(job->verb, "release")) {
        code = quorlock_unlock(job->lease, &held, &error);
        return result(code, error, held ? "true" : "false");
    }
    if (!strcmp(job->verb, "unlock")) {
        code = quorlock_lock_release(job->lock->lock, &held, &error);
        return result(code, error, held ? "true" : "false");
    }
    if (!strcmp(job->verb, "extend")) {
        code = quorlock_lease_extend(job->lease, job->ms, &error);
        return result(code, error, "ok");
    }
    if (!strcmp(job->verb, "ensure")) {
        code = quorlock_lease_ensure(job->lease, job->ms, &error);
        return result(code, error, "ok");
    }
    if (!strcmp(job->verb, "held")) return said(quorlock_lease_is_held(job->lease) ? "true" : "false");
    if (!strcmp(job->verb, "remaining")) return said_number(quorlock_lease_remaining_ms(job->lease));
    if (!strcmp(job->verb, "drop")) {
        quorlock_lease_free(job->lease);
        return said("ok");
    }
    return acquire(job);
}

static void *live(void *argument) {
    struct actor *actor = argument;
    pthread_mutex_lock(&actor->mutex);
    for (;;) {
        while (actor->state == IDLE || actor->state == DONE) pthread_cond_wait(&actor->changed, &actor->mutex);
        if (actor->state == ENDED) break;
        pthread_mutex_unlock(&actor->mutex);
        struct answer answer = perform(&actor->job);
        pthread_mutex_lock(&actor->mutex);
        actor->answer = answer;
        actor->state = DONE;
        pthread_cond_broadcast(&actor->changed);
    }
    pthread_mutex_unlock(&actor->mutex);
    return NULL;
}

static void monotonic_cond(pthread_cond_t *condition) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

static struct timespec after(int64_t ms) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    time.tv_sec += ms / 1000;
    time.tv_nsec += ms % 1000 * 1000000;
    if (time.tv_nsec >= 1000000000) {
        time.tv_sec++;
        time.tv_nsec -= 1000000000;
    }
    return time;
}

static struct actor *actor_of(const char *name) {
    struct handle *found = find(&actors, name);
    if (found) return found->value;
    struct actor *actor = calloc(1, sizeof *actor);
    pthread_mutex_init(&actor->mutex, NULL);
    monotonic_cond(&actor->changed);
    pthread_create(&actor->thread, NULL, live, actor);
    keep(&actors, name, actor);
    return actor;
}

static void start(struct actor *actor, struct job job) {
    pthread_mutex_lock(&actor->mutex);
    actor->job = job;
    actor->state = BUSY;
    pthread_cond_broadcast(&actor->changed);
    pthread_mutex_unlock(&actor->mutex);
}

/* Waits for the answer, `pending` after `ms`. */
static struct answer finish(struct actor *actor, int64_t ms) {
    struct timespec end = after(ms);
    pthread_mutex_lock(&actor->mutex);
    while (actor->state == BUSY && pthread_cond_timedwait(&actor->changed, &actor->mutex, &end) == 0)
        ;
    struct answer answer = said("pending");
    if (actor->state == DONE) {
        answer = actor->answer;
        actor->state = IDLE;
        if (actor->job.made && actor->job.lease) keep(&leases, actor->job.made, actor->job.lease);
        free(actor->job.made);
        quorlock_cancel_free(actor->job.cancel);
        actor->job.made = NULL;
        actor->job.cancel = NULL;
    }
    pthread_mutex_unlock(&actor->mutex);
    return answer;
}

/* ---- verbs of the main thread ---- */

static struct answer make_client(struct line *line) {
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
        } else if (!strcmp(name, "restart_guard")) {
            quorlock_client_options_set_restart_guard(options, guard(value));
        } else if (!strcmp(name, "accept_eviction")) {
            quorlock_client_options_set_accept_eviction(options, on(value));
        } else {
            size_t len = unescape(value);
            if (!strcmp(name, "namespace")) quorlock_client_options_set_namespace(options, value, len);
            else if (!strcmp(name, "set_name")) quorlock_client_options_set_set_name(options, value, len);
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

static void make_lock(struct line *line) {
    struct lock *lock = calloc(1, sizeof *lock);
    lock->client = get(&clients, line->words[2]);
    lock->options = quorlock_lock_options_new();
    lock->name = strdup(line->words[3]);
    lock->len = unescape(lock->name);
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
        else if (!strcmp(name, "owner")) quorlock_lock_options_set_owner(lock->options, value, unescape(value));
        else fail("expected no option %s", name);
    }
    quorlock_error_t *error = NULL;
    if (quorlock_lock_new(lock->client, lock->name, lock->len, lock->options, &lock->lock, &error))
        quorlock_error_free(error);
    keep(&locks, line->words[1], lock);
}

struct loss {
    pthread_mutex_t mutex;
    pthread_cond_t told;
    int32_t state;
};

static void on_lost(void *userdata, int32_t state) {
    struct loss *loss = userdata;
    pthread_mutex_lock(&loss->mutex);
    loss->state = state;
    pthread_cond_signal(&loss->told);
    pthread_mutex_unlock(&loss->mutex);
}

static struct answer await_loss(struct line *line) {
    quorlock_lease_t *lease = get(&leases, line->words[1]);
    struct timespec end = after(millis(line->words[2]));
    struct loss loss = {.state = QUORLOCK_LEASE_HELD};
    /* Lost before: the callback would come in its own time. */
    if (quorlock_lease_state(lease) > 0) return said(quorlock_state_name(quorlock_lease_state(lease)));
    pthread_mutex_init(&loss.mutex, NULL);
    monotonic_cond(&loss.told);
    quorlock_lease_set_lost_callback(lease, &loss, on_lost, NULL);
    pthread_mutex_lock(&loss.mutex);
    while (loss.state == QUORLOCK_LEASE_HELD && pthread_cond_timedwait(&loss.told, &loss.mutex, &end) == 0)
        ;
    pthread_mutex_unlock(&loss.mutex);
    /* Over when this returns, so that `loss` may go. */
    quorlock_lease_set_lost_callback(lease, NULL, NULL, NULL);
    pthread_mutex_destroy(&loss.mutex);
    pthread_cond_destroy(&loss.told);
    return said(loss.state == QUORLOCK_LEASE_HELD ? "none" : quorlock_state_name(loss.state));
}

static struct answer look_at_stats(struct line *line, const char *expected) {
    quorlock_client_t *client = get(&clients, line->words[1]);
    for (int64_t left = millis(line->words[3]); ; left -= 10) {
        quorlock_stats_t stats;
        if (quorlock_client_stats(client, &stats, sizeof stats, NULL)) fail("no stats");
        const struct { const char *name; uint64_t value; } fields[] = {
            {"acquired", stats.acquired}, {"reentered", stats.reentered}, {"attempts_lost", stats.attempts_lost},
            {"timeouts_awaited", stats.timeouts_awaited}, {"released", stats.released}, {"lost", stats.lost},
            {"renewals", stats.renewals}, {"repairs", stats.repairs}, {"releases_pending", stats.releases_pending},
            {"clock_steps", stats.clock_steps}, {"write_backs", stats.write_backs},
            {"releases_dropped", stats.releases_dropped}, {"connects", stats.connects},
            {"waiting", stats.waiting}, {"passed_on", stats.passed_on}, {"queued", stats.queued},
            {"ahead", stats.ahead}, {"stray_messages", stats.stray_messages}};
        size_t at = 0, count = sizeof fields / sizeof *fields;
        while (at < count && strcmp(fields[at].name, line->words[2])) at++;
        if (at == count) fail("expected a counter, got %s", line->words[2]);
        struct answer answer = said_number((long long)fields[at].value);
        if (left <= 0 || holds(answer.text, expected)) return answer;
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    }
}

static char *lower(const char *text) {
    char *copy = strdup(text);
    for (char *at = copy; *at; at++) *at = (char)tolower((unsigned char)*at);
    return copy;
}

static void check_message(struct line *line) {
    if (!last_error) fail("no error yet");
    unescape(line->words[2]);
    char *text = lower(quorlock_error_text(last_error)), *part = lower(line->words[2]);
    bool has = strstr(text, part), wanted = !strcmp(line->words[1], "has");
    if (!wanted && strcmp(line->words[1], "lacks")) fail("expected has or lacks, got %s", line->words[1]);
    if (has != wanted) fail("expected %s, got %s", line->expected, text);
    free(text);
    free(part);
}

static void tell_stage(struct line *line) {
    static char text[MAX_TEXT];
    size_t len = (size_t)snprintf(text, sizeof text, "%s", getenv("QUORLOCK_STAGE"));
    for (int at = 1; at < line->count; at++)
        len += (size_t)snprintf(text + len, sizeof text - len, " %s", line->words[at]);
    snprintf(text + len, sizeof text - len, " 2>&1");
    fflush(stdout);
    FILE *stage = popen(text, "r");
    if (!stage) fail("no shell");
    len = fread(text, 1, sizeof text - 1, stage);
    text[len] = 0;
    int status = pclose(stage);
    if (status == -1 || !WIFEXITED(status) || WEXITSTATUS(status)) fail("expected ok, got %s", text);
}

/* ---- lines ---- */

/* Verbs with the number of their words; those that actors carry out are marked. */
static const struct { const char *name; int words; bool by_actor; } verbs[] = {
    {"client", 1, false}, {"lock", 3, false}, {"acquire", 2, true}, {"try", 2, true}, {"release", 1, true},
    {"unlock", 1, true}, {"drop", 1, true}, {"extend", 1, true}, {"ensure", 2, true}, {"held", 1, true},
    {"remaining", 1, true}, {"fence", 1, false}, {"newer", 2, false}, {"init", 1, false}, {"lost", 2, false},
    {"stats", 3, false}, {"close", 1, false}, {"message", 2, false},
    {"causes", 0, false}, {"finish", 2, false}, {"cancel", 1, false}, {"stage", 0, false}};

static void run_by_actor(struct line *line) {
    const char *verb = line->words[0], *handle = line->words[1];
    struct job job = {.verb = verb, .ms = QUORLOCK_DEFAULT};
    bool acquires = !strcmp(verb, "acquire") || !strcmp(verb, "try");
    if (acquires) {
        job.lock = get(&locks, line->words[2]);
        job.made = strdup(handle);
    } else if (!strcmp(verb, "unlock")) {
        job.lock = get(&locks, handle);
    } else {
        job.lease = get(&leases, handle);
    }
    if (!strcmp(verb, "acquire")) job.cancel = quorlock_cancel_new();
    if (!strcmp(verb, "ensure")) job.ms = millis(line->words[2]);
    for (int at = acquires || !strcmp(verb, "ensure") ? 3 : 2; at < line->count;) {
        char *value, *name = option(line, &at, &value);
        if (!strcmp(verb, "acquire") && !strcmp(name, "wait")) job.ms = limit(value);
        else if (!strcmp(verb, "extend") && !strcmp(name, "ttl")) job.ms = millis(value);
        else fail("expected no option %s", name);
    }
    /* Known by a constant: the line's words are gone when the actor reads it. */
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (!strcmp(verbs[i].name, verb)) job.verb = verbs[i].name;
    struct actor *actor = actor_of(line->actor);
    start(actor, job);
    if (!line->started) judge(finish(actor, 600000), line->expected);
    if (!strcmp(verb, "drop")) keep(&leases, handle, NULL);
}

static void run(struct line *line) {
    const char *verb = line->words[0];
    if (!strcmp(verb, "client")) {
        judge(make_client(line), line->expected);
    } else if (!strcmp(verb, "lock")) {
        make_lock(line);
    } else if (!strcmp(verb, "lost")) {
        judge(await_loss(line), line->expected);
    } else if (!strcmp(verb, "fence")) {
        judge(said_number((long long)quorlock_lease_fence(get(&leases, line->words[1]))), line->expected);
    } else if (!strcmp(verb, "newer")) {
        uint64_t one = quorlock_lease_fence(get(&leases, line->words[1]));
        judge(said(one > quorlock_lease_fence(get(&leases, line->words[2])) ? "true" : "false"), line->expected);
    } else if (!strcmp(verb, "init")) {
        quorlock_error_t *error = NULL;
        int32_t code = quorlock_client_init_set(get(&clients, line->words[1]), &error);
        judge(result(code, error, "ok"), line->expected);
    } else if (!strcmp(verb, "stats")) {
        judge(look_at_stats(line, line->expected), line->expected);
    } else if (!strcmp(verb, "close")) {
        quorlock_error_t *error = NULL;
        int32_t code = quorlock_client_close(get(&clients, line->words[1]), &error);
        judge(result(code, error, "ok"), line->expected);
    } else if (!strcmp(verb, "message")) {
        check_message(line);
    } else if (!strcmp(verb, "causes")) {
        judge(said_number((long long)quorlock_error_node_count(last_error)), line->expected);
    } else if (!strcmp(verb, "finish")) {
        judge(finish(actor_of(line->words[1]), millis(line->words[2])), line->expected);
    } else if (!strcmp(verb, "cancel")) {
        quorlock_cancel(actor_of(line->words[1])->job.cancel);
    } else if (!strcmp(verb, "stage")) {
        tell_stage(line);
    } else {
        run_by_actor(line);
    }
}

static void run_line(char *text) {
    struct line line = {.actor = "main", .expected = "ok"};
    for (char *word = strtok(text, " \t\r\n"); word; word = strtok(NULL, " \t\r\n")) {
        if (line.count == MAX_WORDS) fail("expected at most %d words", MAX_WORDS);
        line.words[line.count++] = word;
    }
    if (line.count > 2 && (!strcmp(line.words[0], "in") || !strcmp(line.words[0], "start"))) {
        line.started = !strcmp(line.words[0], "start");
        line.actor = line.words[1];
        line.count -= 2;
        memmove(line.words, line.words + 2, sizeof *line.words * (size_t)line.count);
    }
    if (line.count > 2 && !strcmp(line.words[line.count - 2], "->")) {
        line.expected = line.words[line.count - 1];
        line.count -= 2;
    }
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        if (strcmp(verbs[i].name, line.words[0])) continue;
        if (line.count <= verbs[i].words) fail("expected %d words after %s", verbs[i].words, verbs[i].name);
        if (line.started && !verbs[i].by_actor) fail("expected no actor for %s", verbs[i].name);
        run(&line);
        return;
    }
    fail("expected a verb, got %s", line.words[0]);
}

/* Closes the clients in the order of their making, which ends all waits, and leaves nothing behind. */
static void close_all(void) {
    for (int i = 0; i < clients.count; i++) quorlock_client_close(clients.handles[i].value, NULL);
    for (int i = 0; i < actors.count; i++) {
        struct actor *actor = actors.handles[i].value;
        struct answer answer = finish(actor, 10000);
        quorlock_error_free(answer.error);
        pthread_mutex_lock(&actor->mutex);
        actor->state = ENDED;
        pthread_cond_broadcast(&actor->changed);
        pthread_mutex_unlock(&actor->mutex);
        pthread_join(actor->thread, NULL);
        pthread_mutex_destroy(&actor->mutex);
        pthread_cond_destroy(&actor->changed);
        free(actor);
    }
    for (int i = 0; i < leases.count; i++) quorlock_lease_free(leases.handles[i].value);
    for (int i = 0; i < locks.count; i++) {
        struct lock *lock = locks.handles[i].value;
        quorlock_lock_free(lock->lock);
        quorlock_lock_options_free(lock->options);
        free(lock->name);
        free(lock);
    }
    for (int i = 0; i < clients.count; i++) quorlock_client_free(clients.handles[i].value);
    struct table *tables[] = {&clients, &locks, &leases, &actors};
    for (size_t at = 0; at < sizeof tables / sizeof *tables; at++)
        for (int i = 0; i < tables[at]->count; i++) free(tables[at]->handles[i].name);
    quorlock_error_free(last_error);
    /* For the leak checkers: nothing of ours runs on. */
    quorlock_shutdown();
}

int main(void) {
    const char *path = getenv("QUORLOCK_SCENARIO");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file) {
        printf("QUORLOCK_SCENARIO names no file\n");
        return 2;
    }
    static char text[MAX_LINE];
    bool shape_seen = false;
    while (fgets(text, sizeof text, file)) {
        line_number++;
        char *first = text + strspn(text, " \t\r\n");
        if (!*first || *first == '#') continue;
        if (shape_seen) run_line(text);
        shape_seen = true;
    }
    fclose(file);
    close_all();
    return 0;
}
