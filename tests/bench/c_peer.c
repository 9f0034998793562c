/* The C driver: `c_peer [--gate] [--shared] [--hold] PEER WORKERS SECONDS`, nodes from QUORLOCK_NODES. The one peer is
 * c:quorlock. Prints one line of JSON. See README.md. */

#define _GNU_SOURCE
#include <pthread.h>
#include <quorlock.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TTL_MS = 30000, HELD_TTL_MS = 10000, WARM_CYCLES = 200, INSIDE_US = 1000 };

/* plain: without fences and restart guard; the peer's name ends in `+plain`. */
static bool gated, shared, plain;
static quorlock_client_t *client;
static pthread_barrier_t warm, go;
static int64_t end_ns;
static atomic_int inside;
static atomic_long violations, failures;

typedef struct {
    int number;
    size_t count, room;
    int64_t *times;
} worker_t;

static int64_t clock_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t now(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

static void wait_line(void)
{
    int c;
    do {
        c = getchar();
    } while (c != EOF && c != '\n');
}

static void gate(const char *word)
{
    if (gated) {
        if (word)
            puts(word);
        fflush(stdout);
        wait_line();
    }
}

static void must(int32_t code, quorlock_error_t *error)
{
    if (code != QUORLOCK_OK) {
        fprintf(stderr, "%s\n", error ? quorlock_error_text(error) : "failed without an error");
        exit(1);
    }
}

static void open_client(int64_t ttl_ms)
{
    quorlock_error_t *error = NULL;
    quorlock_client_options_t *options = quorlock_client_options_new();
    quorlock_client_options_set_ttl(options, ttl_ms);
    if (plain) {
        quorlock_client_options_set_fencing(options, false);
        quorlock_client_options_set_restart_guard(options, QUORLOCK_RESTART_GUARD_OFF);
    }
    int32_t code = quorlock_client_new(options, &client, &error);
    must(code, error);
    quorlock_client_options_free(options);
}

static quorlock_lock_t *make_lock(int number)
{
    char name[32];
    quorlock_lock_t *lock = NULL;
    quorlock_error_t *error = NULL;
    int length = shared ? snprintf(name, sizeof name, "bench") : snprintf(name, sizeof name, "bench-%d", number);
    int32_t code = quorlock_lock_new(client, name, (size_t)length, NULL, &lock, &error);
    must(code, error);
    return lock;
}

/* Acquires and releases once; whether both held. */
static bool cycle(const quorlock_lock_t *lock)
{
    quorlock_lease_t *lease = NULL;
    if (quorlock_lock(lock, QUORLOCK_DEFAULT, NULL, &lease, NULL) != QUORLOCK_OK)
        return false;
    if (shared) {
        /* Without a stay two holders could hardly meet. */
        if (atomic_fetch_add(&inside, 1) != 0)
            atomic_fetch_add(&violations, 1);
        usleep(INSIDE_US);
        atomic_fetch_sub(&inside, 1);
    }
    bool held = false;
    int32_t code = quorlock_unlock(lease, &held, NULL);
    quorlock_lease_free(lease);
    return code == QUORLOCK_OK && held;
}

static void cycles(worker_t *worker, const quorlock_lock_t *lock)
{
    for (int64_t begun = now(); begun < end_ns; begun = now()) {
        if (!cycle(lock))
            atomic_fetch_add(&failures, 1);
        if (worker->count == worker->room) {
            worker->room = worker->room ? worker->room * 2 : 1 << 14;
            worker->times = realloc(worker->times, worker->room * sizeof *worker->times);
            if (!worker->times)
                abort();
        }
        worker->times[worker->count++] = now() - begun;
    }
}

static void warm_up(const quorlock_lock_t *lock, int workers)
{
    int count = shared || WARM_CYCLES / workers < 2 ? 2 : WARM_CYCLES / workers;
    while (count-- > 0)
        cycle(lock);
}

static int thread_count;

static void *thread_main(void *argument)
{
    worker_t *worker = argument;
    quorlock_lock_t *lock = make_lock(worker->number);
    warm_up(lock, thread_count);
    pthread_barrier_wait(&warm);
    pthread_barrier_wait(&go);
    cycles(worker, lock);
    quorlock_lock_free(lock);
    return NULL;
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void tell(const char *peer, worker_t *workers, int count, int64_t wall, int64_t cpu)
{
    size_t total = 0, at = 0;
    for (int i = 0; i < count; i++)
        total += workers[i].count;
    int64_t *times = calloc(total + 1, sizeof *times);
    if (!times)
        abort();
    for (int i = 0; i < count; i++) {
        if (workers[i].count)
            memcpy(times + at, workers[i].times, workers[i].count * sizeof *times);
        at += workers[i].count;
    }
    qsort(times, total, sizeof *times, by_size);
    size_t last = total ? total - 1 : 0;
    printf("{\"peer\": \"%s\", \"cycles\": %zu, \"seconds\": %.3f, \"cycles_per_s\": %.0f, \"p50_us\": %.2f, "
           "\"p99_us\": %.2f, \"max_us\": %.2f, \"cpu_us\": %.2f, \"failures\": %ld, \"violations\": %ld}\n",
           peer, total, (double)wall / 1e9, (double)total / ((double)wall / 1e9), (double)times[last / 2] / 1e3,
           (double)times[(size_t)((double)last * 0.99)] / 1e3, (double)times[last] / 1e3,
           (double)cpu / 1e3 / (double)(total ? total : 1), atomic_load(&failures), atomic_load(&violations));
    fflush(stdout);
    free(times);
}

static void run(const char *peer, int count, double seconds)
{
    open_client(TTL_MS);
    worker_t *workers = calloc((size_t)count, sizeof *workers);
    pthread_t *threads = calloc((size_t)count, sizeof *threads);
    if (!workers || !threads)
        abort();
    thread_count = count;
    pthread_barrier_init(&warm, NULL, (unsigned)count + 1);
    pthread_barrier_init(&go, NULL, (unsigned)count + 1);
    quorlock_lock_t *lock = NULL;
    if (count == 1) {
        /* One worker is the main thread itself, as a user would have it. */
        lock = make_lock(0);
        warm_up(lock, 1);
    } else {
        for (int i = 0; i < count; i++) {
            workers[i].number = i;
            if (pthread_create(&threads[i], NULL, thread_main, &workers[i]))
                abort();
        }
        pthread_barrier_wait(&warm);
    }
    gate("ready");
    int64_t wall = now(), cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    end_ns = wall + (int64_t)(seconds * 1e9);
    if (lock) {
        cycles(&workers[0], lock);
    } else {
        pthread_barrier_wait(&go);
        for (int i = 0; i < count; i++)
            pthread_join(threads[i], NULL);
    }
    wall = now() - wall;
    cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    tell(peer, workers, count, wall, cpu);
    gate(NULL);
    for (int i = 0; i < count; i++)
        free(workers[i].times);
    free(workers);
    free(threads);
    quorlock_lock_free(lock);
}

static long status(const char *field)
{
    char line[256];
    long value = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, field, strlen(field)))
            value = strtol(line + strlen(field), NULL, 10);
    if (file)
        fclose(file);
    return value;
}

static void hold(const char *peer, int count, double seconds)
{
    long memory = status("VmRSS:"), threads = status("Threads:");
    int64_t begun = now();
    open_client(HELD_TTL_MS);
    quorlock_lock_t **locks = calloc((size_t)count, sizeof *locks);
    quorlock_lease_t **leases = calloc((size_t)count, sizeof *leases);
    if (!locks || !leases)
        abort();
    for (int i = 0; i < count; i++) {
        quorlock_error_t *error = NULL;
        locks[i] = make_lock(i);
        int32_t code = quorlock_lock(locks[i], QUORLOCK_DEFAULT, NULL, &leases[i], &error);
        must(code, error);
    }
    double acquired = (double)(now() - begun) / 1e9;
    gate("ready");
    int64_t wall = now(), cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    usleep((useconds_t)(seconds * 1e6));
    cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    wall = now() - wall;
    int lost = 0;
    for (int i = 0; i < count; i++)
        lost += !quorlock_lease_is_held(leases[i]);
    printf("{\"peer\": \"%s\", \"locks\": %d, \"lost\": %d, \"acquired_s\": %.2f, \"cpu_percent\": %.2f, "
           "\"rss_kib\": %ld, \"rss_before_kib\": %ld, \"threads\": %ld, \"threads_before\": %ld}\n",
           peer, count, lost, acquired, 100.0 * (double)cpu / (double)wall, status("VmRSS:"), memory,
           status("Threads:"), threads);
    fflush(stdout);
    gate(NULL);
    quorlock_client_close(client, NULL);
    for (int i = 0; i < count; i++) {
        quorlock_lease_free(leases[i]);
        quorlock_lock_free(locks[i]);
    }
    free(leases);
    free(locks);
}

int main(int argc, char **argv)
{
    char *rest[3];
    int given = 0;
    bool holding = false;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--gate"))
            gated = true;
        else if (!strcmp(argv[i], "--shared"))
            shared = true;
        else if (!strcmp(argv[i], "--hold"))
            holding = true;
        else if (given < 3)
            rest[given++] = argv[i];
    }
    if (given != 3 || atoi(rest[1]) < 1) {
        fprintf(stderr, "usage: c_peer [--gate] [--shared] [--hold] PEER WORKERS SECONDS\n");
        return 2;
    }
    plain = strstr(rest[0], "+plain") != NULL;
    (holding ? hold : run)(rest[0], atoi(rest[1]), atof(rest[2]));
    quorlock_client_free(client);
    return 0;
}
