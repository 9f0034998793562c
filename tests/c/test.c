/* Tests of the C interface: test [NAME...]. Most use a node in this process; those that need servers use
 * QUORLOCK_NODES. The last line is `N passed, M failed`. The tests are in test_*.c. */

#include "test.h"

#include <errno.h>
#include <time.h>

const char *self;
int broken;

void nap(int ms) { nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL); }

bool comes(sem_t *semaphore) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 30;
    while (sem_timedwait(semaphore, &end))
        if (errno != EINTR) return false;
    return true;
}

bool same(const char *a, const char *b) { return a && b && !strcmp(a, b); }
bool has(const char *text, const char *part) { return text && strstr(text, part); }

bool fails(int32_t code, quorlock_error_t **error, int32_t kind) {
    bool good = code == kind && *error && quorlock_error_kind(*error) == kind;
    if (good) {
        const char *summary = quorlock_kind_summary(kind), *message = quorlock_error_message(*error);
        good = !strncmp(message, summary, strlen(summary)) && strlen(message) > strlen(summary);
    }
    if (!good)
        printf("     expected %s, got %s: %s\n", quorlock_kind_name(kind), quorlock_kind_name(code),
               *error ? quorlock_error_text(*error) : "no error object");
    quorlock_error_free(*error);
    *error = NULL;
    return good;
}

quorlock_error_t *error;

quorlock_client_t *client_of(const char *node) {
    quorlock_client_options_t *options = quorlock_client_options_new();
    quorlock_client_t *client = NULL;
    CHECK(quorlock_client_options_set_nodes(options, &node, 1) == QUORLOCK_OK);
    WORKS(quorlock_client_new(options, &client, &error));
    quorlock_client_options_free(options);
    return client;
}

quorlock_client_t *some_client(void) {
    static int number;
    char node[64];
    snprintf(node, sizeof node, "memory://c-%d-%d", (int)getpid(), number++);
    return client_of(node);
}

quorlock_client_t *patient_client(void) {
    quorlock_client_options_t *options = quorlock_client_options_new();
    quorlock_client_t *client = NULL;
    CHECK(quorlock_client_options_set_node_timeout(options, 2500) == QUORLOCK_OK);
    CHECK(quorlock_client_options_set_connect_timeout(options, 2500) == QUORLOCK_OK);
    WORKS(quorlock_client_new(options, &client, &error));
    quorlock_client_options_free(options);
    return client;
}

quorlock_client_t *client_of_new_set(const char *name, const char *set_name, int32_t guard) {
    char nodes[1024], name_space[64];
    const char *urls[8], *given = getenv("QUORLOCK_NODES");
    size_t count = 0;
    snprintf(nodes, sizeof nodes, "%s", given ? given : "");
    for (char *url = strtok(nodes, ","); url && count < 8; url = strtok(NULL, ",")) urls[count++] = url;
    int len = snprintf(name_space, sizeof name_space, "c-%s-%d:", name, (int)getpid());
    quorlock_client_options_t *options = quorlock_client_options_new();
    quorlock_client_options_set_nodes(options, urls, count);
    quorlock_client_options_set_namespace(options, name_space, (size_t)len);
    CHECK(quorlock_client_options_set_set_name(options, set_name, strlen(set_name)) == QUORLOCK_OK);
    /* Under valgrind we are slow, and not the nodes. */
    quorlock_client_options_set_node_timeout(options, 2500);
    CHECK(quorlock_client_options_set_restart_guard(options, guard) == QUORLOCK_OK);
    quorlock_client_t *client = NULL;
    WORKS(quorlock_client_new(options, &client, &error));
    quorlock_client_options_free(options);
    return client;
}

quorlock_lock_t *lock_of(quorlock_client_t *client, const quorlock_lock_options_t *options) {
    quorlock_lock_t *lock = NULL;
    WORKS(quorlock_lock_new(client, "orders:42", 9, options, &lock, &error));
    return lock;
}

quorlock_lock_t *lock_of_threads(quorlock_client_t *client, bool reentrant) {
    quorlock_lock_options_t *options = quorlock_lock_options_new();
    CHECK(quorlock_lock_options_set_owner_thread(options, true) == QUORLOCK_OK);
    CHECK(quorlock_lock_options_set_reentrant(options, reentrant) == QUORLOCK_OK);
    quorlock_lock_t *lock = lock_of(client, options);
    quorlock_lock_options_free(options);
    return lock;
}

quorlock_lock_t *lock_with_ttl(quorlock_client_t *client, int64_t ttl_ms, bool renew) {
    quorlock_lock_options_t *options = quorlock_lock_options_new();
    quorlock_lock_options_set_ttl(options, ttl_ms);
    quorlock_lock_options_set_renew(options, renew);
    quorlock_lock_t *lock = lock_of(client, options);
    quorlock_lock_options_free(options);
    return lock;
}

quorlock_lease_t *held(const quorlock_lock_t *lock) {
    quorlock_lease_t *lease = NULL;
    WORKS(quorlock_lock(lock, QUORLOCK_DEFAULT, NULL, &lease, &error));
    CHECK(quorlock_lease_is_held(lease));
    return lease;
}

static void *other_thread(void *argument) {
    struct other *other = argument;
    other->code = quorlock_lock(other->lock, other->wait_ms, other->cancel, &other->lease, NULL);
    return NULL;
}

void start_other(struct other *other) { pthread_create(&other->thread, NULL, other_thread, other); }

int32_t finish_other(struct other *other) {
    pthread_join(other->thread, NULL);
    return other->code;
}

uint64_t waiting(const quorlock_client_t *client) {
    quorlock_stats_t stats;
    WORKS(quorlock_client_stats(client, &stats, sizeof stats, &error));
    return stats.waiting;
}

bool comes_to_wait(const quorlock_client_t *client, uint64_t count) {
    for (int left = 6000; left && waiting(client) != count; left--) nap(5);
    return waiting(client) == count;
}

void seen_init(struct seen *seen) {
    memset(seen, 0, sizeof *seen);
    sem_init(&seen->called, 0, 0);
    sem_init(&seen->go_on, 0, 0);
    sem_init(&seen->over, 0, 0);
}

void on_lost(void *userdata, int32_t state) {
    struct seen *seen = userdata;
    seen->calls++;
    seen->state = state;
    seen->thread = pthread_self();
    sem_post(&seen->called);
    if (seen->wait) comes(&seen->go_on);
    if (seen->unset) quorlock_lease_set_lost_callback(seen->unset, NULL, NULL, NULL);
    quorlock_lease_free(seen->free);
    sem_post(&seen->over);
}

void on_log(void *userdata, int32_t level, const char *line) {
    struct seen *seen = userdata;
    seen->calls++;
    seen->state = level;
    snprintf(seen->line, sizeof seen->line, "%s", line);
    sem_post(&seen->called);
    if (seen->wait) comes(&seen->go_on);
    sem_post(&seen->over);
}

int main(int argc, char **argv) {
    self = argv[0];
#ifndef _WIN32
    if (argc == 2 && !strcmp(argv[1], "role:exits")) return role_exits();
    if (argc == 2 && !strcmp(argv[1], "role:frees-late")) return role_frees_late();
    if (argc == 3 && !strcmp(argv[1], "role:frees-at-the-end")) return role_frees_at_the_end(atoi(argv[2]));
    if (argc == 3 && !strcmp(argv[1], "role:releases-at-the-end")) return role_releases_at_the_end(atoi(argv[2]));
    if (argc == 2 && !strcmp(argv[1], "role:signals")) return role_signals();
    if (argc == 2 && !strcmp(argv[1], "role:forks")) return role_forks();
    if (argc == 2 && !strcmp(argv[1], "role:descriptors")) return role_descriptors();
    if (argc == 2 && !strcmp(argv[1], "role:environment")) return role_environment();
#endif
    const struct test *const files[] = {arguments_tests, leases_tests, line_tests, inspection_tests, probe_tests,
                                         several_tests, election_tests, callbacks_tests, async_tests,
#ifndef _WIN32
                                         freed_tests, fork_tests,
                                         /* The last test of these ends the library, and starts it again. */
                                         process_tests
#endif
    };
    int passed = 0, failed = 0;
    for (size_t file = 0; file < sizeof files / sizeof *files; file++) {
        for (const struct test *test = files[file]; test->name; test++) {
            bool asked = argc == 1;
            for (int word = 1; word < argc; word++) asked |= !strcmp(argv[word], test->name);
            if (!asked) continue;
            broken = 0;
            test->run();
            quorlock_error_free(error);
            error = NULL;
            printf("%s %s\n", broken ? "FAIL" : "ok  ", test->name);
            fflush(stdout);
            broken ? failed++ : passed++;
        }
    }
    /* For the leak checkers: nothing of ours runs on. */
    quorlock_shutdown();
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
