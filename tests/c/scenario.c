/* Runs one scenario file (tests/scenarios/README.md) against real servers: goes through its lines, and does what the main
 * thread does. */

#include "scenario/scenario.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { MAX_LINE = 8192 + 2, MAX_TEXT = 65536 };

/* ---- verbs of the main thread ---- */

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

static void tell_loss(const struct hold *hold, struct loss *loss, quorlock_lost_callback_t callback) {
    if (hold->all) quorlock_leases_set_lost_callback(hold->all, loss, callback, NULL);
    else quorlock_lease_set_lost_callback(hold->one, loss, callback, NULL);
}

static struct answer await_loss(struct line *line) {
    const struct hold *hold = get(&leases, line->words[1]);
    struct timespec end = after(millis(line->words[2]));
    struct loss loss = {.state = QUORLOCK_LEASE_HELD};
    /* Lost before: the callback would come in its own time. */
    int32_t state = hold->all ? quorlock_leases_state(hold->all) : quorlock_lease_state(hold->one);
    if (state > 0) return said(quorlock_state_name(state));
    pthread_mutex_init(&loss.mutex, NULL);
    monotonic_cond(&loss.told);
    tell_loss(hold, &loss, on_lost);
    pthread_mutex_lock(&loss.mutex);
    while (loss.state == QUORLOCK_LEASE_HELD && pthread_cond_timedwait(&loss.told, &loss.mutex, &end) == 0)
        ;
    pthread_mutex_unlock(&loss.mutex);
    /* Over when this returns, so that `loss` may go. */
    tell_loss(hold, NULL, NULL);
    pthread_mutex_destroy(&loss.mutex);
    pthread_cond_destroy(&loss.told);
    return said(loss.state == QUORLOCK_LEASE_HELD ? "none" : quorlock_state_name(loss.state));
}

/* The lock that was lost, of several. */
static struct answer lost_name(const struct hold *hold) {
    size_t len = 0;
    const char *name = quorlock_leases_lost_name(hold->all, &len);
    char text[64];
    snprintf(text, sizeof text, "%.*s", (int)len, name ? name : "");
    return said(name ? text : "none");
}

static int32_t slot(const char *name) {
    const struct hold *hold = get(&leases, name);
    return quorlock_lease_slot(hold->one);
}

static uint64_t fence(const char *name) {
    const struct hold *hold = get(&leases, name);
    return quorlock_lease_fence(hold->one);
}

/* Takes a lock away from whoever holds it, or from one fence. */
static struct answer force(struct line *line) {
    uint64_t only = QUORLOCK_ANY_FENCE, freed = 0;
    for (int at = 3; at < line->count;) {
        char *value, *name = option(line, &at, &value);
        if (strcmp(name, "fence")) fail("expected no option %s", name);
        only = isdigit((unsigned char)*value) ? (uint64_t)count_of(value) : fence(value);
    }
    quorlock_lock_t *lock = NULL;
    quorlock_error_t *error = NULL;
    size_t len = unescape(line->words[2]);
    int32_t code = quorlock_lock_new(get(&clients, line->words[1]), line->words[2], len, NULL, &lock, &error);
    if (code == QUORLOCK_OK) code = quorlock_lock_force_release(lock, only, &freed, NULL, &error);
    quorlock_lock_free(lock);
    struct answer answer = said_number((long long)freed);
    return code == QUORLOCK_OK ? answer : result(code, error, "ok");
}

static struct answer look_at_stats(struct line *line, const char *expected) {
    quorlock_client_t *client = get(&clients, line->words[1]);
    for (int64_t left = millis(line->words[3]); ; left -= 10) {
        quorlock_stats_t stats;
        if (quorlock_client_stats(client, &stats, sizeof stats, NULL)) fail("no stats");
        const struct { const char *name; uint64_t value; } fields[] = {
            // Made from core/vocabulary.toml: counts.
            {"acquired", stats.acquired},
            {"reentered", stats.reentered},
            {"attempts_lost", stats.attempts_lost},
            {"timeouts_awaited", stats.timeouts_awaited},
            {"released", stats.released},
            {"lost", stats.lost},
            {"renewals", stats.renewals},
            {"repairs", stats.repairs},
            {"releases_pending", stats.releases_pending},
            {"clock_steps", stats.clock_steps},
            {"write_backs", stats.write_backs},
            {"releases_dropped", stats.releases_dropped},
            {"connects", stats.connects},
            {"waiting", stats.waiting},
            {"passed_on", stats.passed_on},
            {"queued", stats.queued},
            {"ahead", stats.ahead},
            {"stray_messages", stats.stray_messages},
            // End of what is made.
        };
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
    {"client", 1, false}, {"lock", 3, false}, {"locks", 3, false}, {"acquire", 2, true}, {"try", 2, true}, {"release", 1, true},
    {"unlock", 1, true}, {"drop", 1, true}, {"extend", 1, true}, {"ensure", 2, true}, {"downgrade", 1, true}, {"held", 1, true},
    {"remaining", 1, true}, {"fence", 1, false}, {"newer", 2, false}, {"same-slot", 2, false}, {"fence-of", 2, false}, {"lost-name", 1, false}, {"init", 1, false}, {"lost", 2, false},
    {"force", 2, false}, {"election", 3, false}, {"leader", 1, false}, {"resign", 1, false}, {"export", 2, false},
    {"adopt", 3, false},
    {"stats", 3, false}, {"close", 1, false}, {"message", 2, false},
    {"inspect", 2, false}, {"error", 1, false}, {"causes", 0, false}, {"metric", 1, false}, {"finish", 2, false}, {"cancel", 1, false}, {"stage", 0, false}};

static void run_by_actor(struct line *line) {
    const char *verb = line->words[0], *handle = line->words[1];
    struct job job = {.verb = verb, .ms = QUORLOCK_DEFAULT};
    bool acquires = !strcmp(verb, "acquire") || !strcmp(verb, "try");
    if (acquires) {
        job.lock = get(&locks, line->words[2]);
        job.hold = calloc(1, sizeof *job.hold);
        job.made = strdup(handle);
    } else if (!strcmp(verb, "unlock")) {
        job.lock = get(&locks, handle);
    } else {
        job.hold = get(&leases, handle);
    }
    if (!strcmp(verb, "acquire")) job.cancel = quorlock_cancel_new();
    if (!strcmp(verb, "ensure")) job.ms = millis(line->words[2]);
    for (int at = acquires || !strcmp(verb, "ensure") ? 3 : 2; at < line->count;) {
        char *value, *name = option(line, &at, &value);
        if (!strcmp(verb, "acquire") && !strcmp(name, "wait")) job.ms = limit(value);
        else if (!strcmp(verb, "extend") && !strcmp(name, "ttl")) job.ms = millis(value);
        else if (!strcmp(verb, "release") && !strcmp(name, "confirm")) job.confirm = on(value) ? 1 : -1;
        else fail("expected no option %s", name);
    }
    /* Known by a constant: the line's words are gone when the actor reads it. */
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (!strcmp(verbs[i].name, verb)) job.verb = verbs[i].name;
    struct actor *actor = actor_of(line->actor);
    start(actor, job);
    if (!line->started) judge(finish(actor, 600000), line->expected);
}

/* What the nodes have of a lock: one thing of it. */
/* The value of a sample in the text of metrics. */
static struct answer metric(const char *sample) {
    char *text = quorlock_metrics_text();
    struct answer told = said("none");
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        const size_t len = strlen(sample);
        if (!strncmp(line, sample, len) && line[len] == ' ') told = said_number(atoll(line + len));
    }
    quorlock_text_free(text);
    return told;
}

static struct answer inspect(struct lock *lock, const char *what) {
    quorlock_error_t *error = NULL;
    if (!strcmp(what, "locked")) {
        bool locked = false;
        int32_t code = quorlock_lock_is_locked(lock->lock, &locked, &error);
        return result(code, error, locked ? "true" : "false");
    }
    quorlock_inspection_t *found = NULL;
    int32_t code = quorlock_lock_inspect(lock->lock, &found, &error);
    if (code != QUORLOCK_OK) return result(code, error, "ok");
    quorlock_holder_t holder = {0};
    struct answer told;
    if (!strcmp(what, "queued")) {
        told = said_number((long long)quorlock_inspection_queued(found));
    } else if (!strcmp(what, "verdict")) {
        told = said(quorlock_verdict_name(quorlock_inspection_verdict(found)));
    } else {
        code = quorlock_inspection_holder(found, &holder, sizeof holder, &error);
        told = result(code, error, holder.label ? holder.label : "none");
    }
    quorlock_inspection_free(found);
    return told;
}

/* The label of who leads. */
static struct answer leader(const struct lock *candidate) {
    quorlock_error_t *error = NULL;
    quorlock_leadership_t *found = NULL;
    int32_t code = quorlock_election_leader(candidate->election, &found, &error);
    if (code != QUORLOCK_OK) return result(code, error, "ok");
    quorlock_holder_t leads = {0};
    code = quorlock_leadership_leader(found, &leads, sizeof leads, &error);
    struct answer told = result(code, error, leads.label ? leads.label : "none");
    quorlock_leadership_free(found);
    return told;
}

static struct answer export_to(const struct hold *hold, const char *file) {
    quorlock_error_t *error = NULL;
    char *text = NULL;
    int32_t code = quorlock_lease_export(hold->one, &text, &error);
    FILE *out = text ? fopen(file, "w") : NULL;
    if (text && (!out || fputs(text, out) < 0 || fclose(out))) fail("cannot write the text");
    quorlock_text_free(text);
    return result(code, error, "ok");
}

static struct answer adopt(struct line *line) {
    char text[8192];
    FILE *in = fopen(line->words[3], "r");
    if (!in) fail("cannot read the text");
    size_t len = fread(text, 1, sizeof text, in);
    fclose(in);
    quorlock_error_t *error = NULL;
    struct hold *hold = calloc(1, sizeof *hold);
    int32_t code = quorlock_client_adopt(get(&clients, line->words[2]), text, len, &hold->one, &error);
    if (code == QUORLOCK_OK) keep(&leases, line->words[1], hold);
    else free(hold);
    return result(code, error, "ok");
}

static void run(struct line *line) {
    const char *verb = line->words[0];
    if (!strcmp(verb, "client")) {
        judge(make_client(line), line->expected);
    } else if (!strcmp(verb, "lock") || !strcmp(verb, "locks") || !strcmp(verb, "election")) {
        make_lock(line);
    } else if (!strcmp(verb, "lost")) {
        judge(await_loss(line), line->expected);
    } else if (!strcmp(verb, "fence")) {
        judge(said_number((long long)fence(line->words[1])), line->expected);
    } else if (!strcmp(verb, "newer")) {
        judge(said(fence(line->words[1]) > fence(line->words[2]) ? "true" : "false"), line->expected);
    } else if (!strcmp(verb, "same-slot")) {
        judge(said(slot(line->words[1]) == slot(line->words[2]) ? "true" : "false"), line->expected);
    } else if (!strcmp(verb, "fence-of")) {
        const struct hold *hold = get(&leases, line->words[1]);
        size_t len = unescape(line->words[2]);
        judge(said_number((long long)quorlock_leases_fence_of(hold->all, line->words[2], len)), line->expected);
    } else if (!strcmp(verb, "lost-name")) {
        judge(lost_name(get(&leases, line->words[1])), line->expected);
    } else if (!strcmp(verb, "leader")) {
        judge(leader(get(&locks, line->words[1])), line->expected);
    } else if (!strcmp(verb, "resign")) {
        const struct lock *candidate = get(&locks, line->words[1]);
        quorlock_error_t *error = NULL;
        bool held = false;
        int32_t code = quorlock_election_resign(candidate->election, &held, &error);
        judge(result(code, error, held ? "true" : "false"), line->expected);
    } else if (!strcmp(verb, "export")) {
        judge(export_to(get(&leases, line->words[1]), line->words[2]), line->expected);
    } else if (!strcmp(verb, "adopt")) {
        judge(adopt(line), line->expected);
    } else if (!strcmp(verb, "force")) {
        judge(force(line), line->expected);
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
    } else if (!strcmp(verb, "inspect")) {
        judge(inspect(get(&locks, line->words[1]), line->words[2]), line->expected);
    } else if (!strcmp(verb, "error")) {
        size_t len = 0;
        const char *name = quorlock_error_lock_name(last_error, &len), *holder = quorlock_error_holder(last_error);
        char text[1025];
        snprintf(text, sizeof text, "%.*s", (int)len, name ? name : "");
        const char *told = strcmp(line->words[1], "name") ? holder : name ? text : NULL;
        judge(said(told ? told : "none"), line->expected);
    } else if (!strcmp(verb, "metric")) {
        judge(metric(line->words[1]), line->expected);
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

void close_all(void) {
    for (int i = 0; i < clients.count; i++) quorlock_client_close(clients.handles[i].value, NULL);
    for (int i = 0; i < actors.count; i++) {
        struct actor *actor = actors.handles[i].value;
        struct answer answer = finish(actor, 10000);
        quorlock_error_free(answer.error);
        end(actor);
    }
    for (int i = 0; i < leases.count; i++) {
        struct hold *hold = leases.handles[i].value;
        quorlock_lease_free(hold->one);
        quorlock_leases_free(hold->all);
        free(hold);
    }
    for (int i = 0; i < locks.count; i++) {
        struct lock *lock = locks.handles[i].value;
        unmake(lock);
        quorlock_lock_options_free(lock->options);
        free(lock->text);
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
