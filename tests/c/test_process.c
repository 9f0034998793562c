/* Tests of exits, signals and the end of the library. */

#include "test.h"

#include <dirent.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>

/* What is told of a call that was started. */
static void on_locked(void *userdata, quorlock_lease_t *lease, quorlock_error_t *failure) {
    struct seen *seen = userdata;
    seen->calls++;
    seen->state = quorlock_error_kind(failure);
    quorlock_error_free(failure);
    quorlock_lease_free(lease);
    sem_post(&seen->over);
}

/* A program that closes every descriptor that it finds, as a daemon does that does not fork, and opens files of its own under the
 * numbers: while it holds a lock, a thread waits for it, and so does a call that was started. */
int role_descriptors(void) {
    enum { FILES = 40 };
    int files[FILES];
    char path[] = "/tmp/quorlock-fds-XXXXXX", text[FILES + 1];
    struct seen started;
    seen_init(&started);
    alarm(60);
    quorlock_client_t *client = patient_client(), *other = patient_client();
    /* One of its own, for nothing releases it: the nodes keep it for its ttl. */
    quorlock_lock_t *lock = NULL, *wanted = NULL, *next = NULL;
    WORKS(quorlock_lock_new(client, "descriptors", 11, NULL, &lock, &error));
    WORKS(quorlock_lock_new(other, "descriptors", 11, NULL, &wanted, &error));
    quorlock_lease_t *lease = held(lock), *won = NULL;
    struct other waits = {.lock = wanted, .wait_ms = 2000};
    start_other(&waits);
    WORKS(quorlock_lock_start(wanted, 2000, NULL, NULL, &started, on_locked, &error));
    CHECK(comes_to_wait(other, 1));
    for (int fd = 3; fd < 256; fd++) close(fd);
    files[0] = mkstemp(path);
    for (int at = 1; at < FILES; at++) files[at] = dup(files[0]);
    CHECK(finish_other(&waits) != QUORLOCK_OK);
    CHECK(comes(&started.over) && started.calls == 1 && started.state != QUORLOCK_OK);
    for (int left = 3000; left && quorlock_lease_is_held(lease); left--) nap(10);
    CHECK(!quorlock_lease_is_held(lease));
    CHECK(quorlock_lock(wanted, 1000, NULL, &won, &error) != QUORLOCK_OK);
    quorlock_error_free(error);
    error = NULL;
    quorlock_client_t *new_one = patient_client();
    WORKS(quorlock_lock_new(new_one, "next", 4, NULL, &next, &error));
    WORKS(quorlock_lock(next, 10000, NULL, &won, &error));
    WORKS(quorlock_unlock(won, NULL, &error));
    for (int at = 0; at < FILES; at++) CHECK(write(files[at], "x", 1) == 1);
    CHECK(pread(files[0], text, sizeof text, 0) == FILES && text[0] == 'x');
    unlink(path);
    fflush(stdout);
    return broken ? 1 : 0;
}

static void descriptors_closed_by_the_program(void) {
    if (WATCHED) return;
    char command[512];
    snprintf(command, sizeof command, "'%s' role:descriptors", self);
    CHECK(system(command) == 0);
}

/* A lease of another process that has exited without a word: released by its exit. */
static void exiting_releases(void) {
    CHECK(getenv("QUORLOCK_NODES"));
    if (broken) return;
    char command[512];
    snprintf(command, sizeof command, "'%s' role:exits", self);
    CHECK(system(command) == 0);
    quorlock_client_t *client = patient_client();
    quorlock_lock_t *lock = lock_of(client, NULL);
    quorlock_lease_t *lease = NULL;
    WORKS(quorlock_try_lock(lock, &lease, &error));
    quorlock_lease_free(lease);
    quorlock_lock_free(lock);
    /* Freed at once, and not closed: the release goes out all the same. */
    quorlock_client_free(client);
    client = patient_client();
    lock = lock_of(client, NULL);
    WORKS(quorlock_lock(lock, 5000, NULL, &lease, &error));
    WORKS(quorlock_unlock(lease, NULL, &error));
    quorlock_lease_free(lease);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

/* Each send of the library's threads is late, as on a machine with other work. In the place of the C library's, for all of this
 * program. */
static volatile bool sends_late;

ssize_t send(int fd, const void *bytes, size_t count, int flags) {
    char name[16] = "";
    if (sends_late && !prctl(PR_GET_NAME, name) && has(name, "quorlock")) nap(5);
    return sendto(fd, bytes, count, flags, NULL, 0);
}

/* For the exit: what is not freed, or after main has returned. */
static quorlock_client_t *late_client;
static quorlock_lease_t *late_lease;
static quorlock_lock_t *late_lock;

static bool holds_at_the_end(void) {
    sends_late = true;
    late_client = patient_client();
    late_lock = lock_of(late_client, NULL);
    return quorlock_lock(late_lock, 5000, NULL, &late_lease, NULL) == QUORLOCK_OK;
}

/* Frees so many of its handles right before it ends, the lease first. */
static int frees_at_the_end(int handles) {
    if (handles > 0) quorlock_lease_free(late_lease);
    if (handles > 1) quorlock_lock_free(late_lock);
    if (handles > 2) quorlock_client_free(late_client);
    return 0;
}

int role_frees_at_the_end(int handles) {
    return holds_at_the_end() ? frees_at_the_end(handles) : 1;
}

/* The same of what it has released, and waits for no answer. */
int role_releases_at_the_end(int handles) {
    bool was_held = false;
    if (!holds_at_the_end() || quorlock_unlock_with(late_lease, false, &was_held, NULL) || !was_held) return 1;
    return frees_at_the_end(handles);
}

static void ends_and_leaves_nothing(const char *role) {
    for (int round = 0; round < 12 && !broken; round++) {
        char command[512];
        snprintf(command, sizeof command, "'%s' role:%s %d", self, role, round % 4);
        CHECK(system(command) == 0);
        quorlock_client_t *client = patient_client();
        quorlock_lock_t *lock = lock_of(client, NULL);
        quorlock_lease_t *lease = NULL;
        WORKS(quorlock_try_lock(lock, &lease, &error));
        WORKS(quorlock_unlock(lease, NULL, &error));
        quorlock_lease_free(lease);
        quorlock_lock_free(lock);
        quorlock_client_free(client);
    }
}

static void what_is_freed_at_the_end_is_released(void) {
    ends_and_leaves_nothing("frees-at-the-end");
}

static void what_waits_for_no_answer_at_the_end_is_released(void) {
    ends_and_leaves_nothing("releases-at-the-end");
}

static void free_late(void) {
    bool was_held = false;
    WORKS(quorlock_unlock(late_lease, &was_held, &error));
    CHECK(was_held);
    quorlock_lease_free(late_lease);
    quorlock_lock_free(late_lock);
    WORKS(quorlock_client_close(late_client, &error));
    quorlock_client_free(late_client);
    fflush(stdout);
    if (broken) _exit(1);
}

int role_exits(void) {
    /* Never freed: the exit has to do. */
    late_client = patient_client();
    if (quorlock_lock_new(late_client, "orders:42", 9, NULL, &late_lock, NULL)) return 1;
    return quorlock_lock(late_lock, 0, NULL, &late_lease, NULL);
}

int role_frees_late(void) {
    late_client = some_client();
    /* After the library's own, so before it when the process exits; and the thread's storage has gone by then. */
    atexit(free_late);
    late_lock = lock_of(late_client, NULL);
    late_lease = held(late_lock);
    return broken;
}

static void freeing_after_main(void) {
    char command[512];
    snprintf(command, sizeof command, "'%s' role:frees-late", self);
    CHECK(system(command) == 0);
}

/* How many threads of this process are the library's of that name; -1 if one of them would take a signal. */
static int deaf(const char *name) {
    int found = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks && found >= 0 && (task = readdir(tasks));) {
        char path[512], line[256] = "";
        unsigned long long blocked = 0;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        FILE *status = fopen(path, "r");
        bool ours = status && fgets(line, sizeof line, status) && has(line, name);
        while (ours && fgets(line, sizeof line, status))
            if (sscanf(line, "SigBlk: %llx", &blocked) == 1) break;
        if (status) fclose(status);
        if (!ours) continue;
        found++;
        const int signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGCHLD, SIGPIPE};
        for (size_t at = 0; at < sizeof signals / sizeof *signals; at++)
            if (!(blocked >> (signals[at] - 1) & 1)) found = -1;
    }
    if (tasks) closedir(tasks);
    return found;
}

/* Once the callback that has just told of its end has returned, and its thread has its own mask again. */
static bool comes_to_be_deaf(const char *name) {
    for (int left = 6000; left && deaf(name) < 1; left--) nap(5);
    return deaf(name) > 0;
}

/* What a callback starts, and has run. */
static pid_t started;

static void on_lost_start(void *userdata, int32_t state) {
    (void)state;
    started = fork();
    if (started == 0) {
        execlp("sleep", "sleep", "60", (char *)NULL);
        _exit(1);
    }
    sem_post(userdata);
}

static void on_unlocked_start(void *userdata, bool was_held, quorlock_error_t *failure) {
    (void)was_held;
    quorlock_error_free(failure);
    on_lost_start(userdata, 0);
}

static void can_be_ended(void) {
    int status = 0;
    kill(started, SIGTERM);
    /* One that has it blocked sleeps to its end. */
    CHECK(waitpid(started, &status, 0) == started && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

/* Not under valgrind, which loses a signal that comes while the child has yet to become another program. */
static void what_a_callback_starts_can_be_ended(void) {
    if (WATCHED) return;
    quorlock_client_t *client = some_client();
    quorlock_lock_t *lock = lock_with_ttl(client, 200, false);
    quorlock_lease_t *lease = held(lock);
    sem_t over;
    sem_init(&over, 0, 0);
    WORKS(quorlock_lease_set_lost_callback(lease, &over, on_lost_start, &error));
    CHECK(comes(&over));
    can_be_ended();
    quorlock_lease_free(lease);
    lease = held(lock);
    WORKS(quorlock_unlock_start(lease, NULL, &over, on_unlocked_start, &error));
    CHECK(comes(&over));
    can_be_ended();
    quorlock_lease_free(lease);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

/* A program that takes SIGTERM in its own time, and blocks it only when it has a lock already. */
int role_signals(void) {
    /* By name, so that a thread looks it up, which ends with that. */
    char nodes[1024] = "";
    const char *from = getenv("QUORLOCK_NODES"), *address;
    if (!from) return 1;
    while ((address = strstr(from, "127.0.0.1"))) {
        snprintf(nodes + strlen(nodes), sizeof nodes - strlen(nodes), "%.*slocalhost", (int)(address - from), from);
        from = address + strlen("127.0.0.1");
    }
    snprintf(nodes + strlen(nodes), sizeof nodes - strlen(nodes), "%s", from);
    setenv("QUORLOCK_NODES", nodes, 1);
    struct seen log, lost;
    seen_init(&log);
    seen_init(&lost);
    log.wait = true;
    quorlock_set_log_callback(&log, on_log);
    quorlock_client_t *client = patient_client(), *other = some_client();
    quorlock_lock_t *lock = lock_of(client, NULL), *brief = lock_with_ttl(other, 200, false);
    quorlock_lease_t *lease = held(lock), *doomed = held(brief);
    WORKS(quorlock_lease_set_lost_callback(doomed, &lost, on_lost, &error));
    CHECK(comes(&log.called) && comes(&lost.over));
    sigset_t set, before;
    pthread_sigmask(SIG_BLOCK, NULL, &before);
    CHECK(sigismember(&before, SIGTERM) == 0);
    if (access("/proc/self/task", R_OK) == 0)
        CHECK(deaf("quorlock-io") == 1 && deaf("quorlock-dns") >= 0 && comes_to_be_deaf("quorlock-events") && deaf("quorlock-log") == 1);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    /* Not taken by a thread of the library's, where it would end the process. */
    kill(getpid(), SIGTERM);
    int taken = 0;
    CHECK(sigwait(&set, &taken) == 0 && taken == SIGTERM);
    CHECK(quorlock_lease_is_held(lease));
    bool was_held = false;
    WORKS(quorlock_unlock(lease, &was_held, &error));
    CHECK(was_held);
    log.wait = false;
    sem_post(&log.go_on);
    quorlock_set_log_callback(NULL, NULL);
    quorlock_lease_free(lease);
    quorlock_lease_free(doomed);
    quorlock_lock_free(lock);
    quorlock_lock_free(brief);
    quorlock_client_free(client);
    quorlock_client_free(other);
    quorlock_shutdown();
    fflush(stdout);
    return broken;
}

static void signals_are_the_programs(void) {
    char command[512];
    snprintf(command, sizeof command, "'%s' role:signals", self);
    CHECK(system(command) == 0);
}

static void *waits_long(void *lock) {
    quorlock_lease_t *lease = NULL;
    int32_t code = quorlock_lock(lock, 400, NULL, &lease, NULL);
    quorlock_lease_free(lease);
    return (void *)(intptr_t)code;
}

/* A thread that is cancelled within a call goes when that is over: none of the library's frames is unwound. */
static void cancelled_threads_leave_calls_whole(void) {
    CHECK(getenv("QUORLOCK_NODES"));
    if (broken) return;
    quorlock_client_t *client = patient_client();
    quorlock_lock_t *lock = lock_of(client, NULL);
    quorlock_lease_t *lease = held(lock);
    for (int delay = 0; delay < 40; delay += 4) {
        pthread_t thread;
        void *result = NULL;
        pthread_create(&thread, NULL, waits_long, lock);
        nap(delay);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        CHECK(result == PTHREAD_CANCELED || result == (void *)(intptr_t)QUORLOCK_TIMEOUT);
    }
    bool was_held = false;
    WORKS(quorlock_unlock(lease, &was_held, &error));
    CHECK(was_held);
    quorlock_lease_free(lease);
    /* It is as usable as before. */
    lease = held(lock);
    WORKS(quorlock_unlock(lease, NULL, &error));
    quorlock_lease_free(lease);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

/* QUORLOCK_NODES is no text: no other nodes are asked in its place. */
int role_environment(void) {
    quorlock_client_t *client = NULL;
    int32_t code = quorlock_client_new(NULL, &client, &error);
    CHECK(code == QUORLOCK_INVALID_ARGUMENT && !client);
    CHECK(has(quorlock_error_text(error), "QUORLOCK_NODES is not UTF-8") && !has(quorlock_error_text(error), "secret"));
    quorlock_error_free(error);
    return broken;
}

static void an_environment_that_is_no_text(void) {
    char command[512];
    snprintf(command, sizeof command, "QUORLOCK_NODES=$(printf 'redis://u:secret\\377@127.0.0.1') '%s' role:environment", self);
    CHECK(system(command) == 0);
}

static void on_lost_shutdown(void *userdata, int32_t state) {
    (void)state;
    quorlock_shutdown();
    sem_post(userdata);
}

static void shutting_down(void) {
    quorlock_shutdown();
    quorlock_shutdown();
    quorlock_client_t *client = some_client();
    quorlock_lock_t *lock = lock_of(client, NULL);
    quorlock_lease_t *lease = held(lock), *none = NULL;
    struct seen seen;
    seen_init(&seen);
    WORKS(quorlock_lease_set_lost_callback(lease, &seen, on_lost, &error));
    quorlock_shutdown();
    /* Its callbacks came before it returned. */
    CHECK(seen.calls == 1 && seen.state == QUORLOCK_LEASE_CLOSED);
    FAILS(QUORLOCK_CLOSED, quorlock_lock(lock, 0, NULL, &none, &error));
    quorlock_lease_free(lease);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
    /* What is made later works again; and a callback may end it all. */
    client = some_client();
    lock = lock_with_ttl(client, 100, false);
    lease = held(lock);
    sem_t over;
    sem_init(&over, 0, 0);
    WORKS(quorlock_lease_set_lost_callback(lease, &over, on_lost_shutdown, &error));
    CHECK(comes(&over));
    quorlock_lease_free(lease);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

const struct test process_tests[] = {
    TEST(descriptors_closed_by_the_program), TEST(exiting_releases), TEST(what_is_freed_at_the_end_is_released),
    TEST(what_waits_for_no_answer_at_the_end_is_released),
    TEST(freeing_after_main), TEST(signals_are_the_programs), TEST(what_a_callback_starts_can_be_ended),
    TEST(cancelled_threads_leave_calls_whole), TEST(an_environment_that_is_no_text), TEST(shutting_down),
    {NULL, NULL}};
