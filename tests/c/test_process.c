/* Tests of forks, exits and the end of the library. */

#include "test.h"

#include <dirent.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>

struct inherited {
    quorlock_client_t *client;
    quorlock_lock_t *lock;
    quorlock_lease_t *lease;
    quorlock_cancel_t *cancel;
    struct seen *seen;
};

/* What a forked child may do with what it has inherited: nothing, and it is told so. */
static void in_the_child(struct inherited *from) {
    quorlock_lease_t *lease = NULL;
    quorlock_lock_t *lock = NULL;
    quorlock_stats_t seen;
    FAILS(QUORLOCK_FORKED, quorlock_lock(from->lock, 0, NULL, &lease, &error));
    FAILS(QUORLOCK_FORKED, quorlock_try_lock(from->lock, &lease, &error));
    FAILS(QUORLOCK_FORKED, quorlock_lock_release(from->lock, NULL, &error));
    FAILS(QUORLOCK_FORKED, quorlock_client_init_set(from->client, &error));
    FAILS(QUORLOCK_FORKED, quorlock_client_init_set_forced(from->client, &error));
    CHECK(quorlock_lease_fence(from->lease) == 0);
    FAILS(QUORLOCK_FORKED, quorlock_unlock(from->lease, NULL, &error));
    FAILS(QUORLOCK_FORKED, quorlock_lease_extend(from->lease, QUORLOCK_DEFAULT, &error));
    FAILS(QUORLOCK_FORKED, quorlock_lease_ensure(from->lease, 10, &error));
    FAILS(QUORLOCK_FORKED, quorlock_lease_set_lost_callback(from->lease, NULL, NULL, &error));
    FAILS(QUORLOCK_FORKED, quorlock_lock_new(from->client, "a", 1, NULL, &lock, &error));
    FAILS(QUORLOCK_FORKED, quorlock_client_close(from->client, &error));
    FAILS(QUORLOCK_FORKED, quorlock_client_stats(from->client, &seen, sizeof seen, &error));
    CHECK(!quorlock_lease_is_held(from->lease) && quorlock_lease_remaining_ms(from->lease) == 0);
    CHECK(quorlock_lease_state(from->lease) == QUORLOCK_LEASE_NONE);
    quorlock_cancel(from->cancel);
    quorlock_cancel_free(from->cancel);
    quorlock_lease_free(from->lease);
    quorlock_lock_free(from->lock);
    quorlock_client_free(from->client);
    /* A client of its own works, and so does the rest. */
    quorlock_set_log_callback(from->seen, on_log);
    the_error_object();
    a_hold();
    callbacks_may_free_their_lease();
    quorlock_shutdown();
}

static void a_forked_child(void) {
    struct seen seen;
    seen_init(&seen);
    quorlock_client_t *client = some_client();
    quorlock_lock_t *lock = lock_of(client, NULL);
    struct inherited from = {client, lock, held(lock), quorlock_cancel_new(), &seen};
    quorlock_lock_options_t *options = quorlock_lock_options_new();
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        broken = 0;
        in_the_child(&from);
        /* Plain memory is the child's as much as the parent's. */
        quorlock_lock_options_free(options);
        fflush(stdout);
        /* Not an exit: a leak checker would count what the parent's threads hold, which are not here. */
        execlp(broken ? "false" : "true", "true", (char *)NULL);
        _exit(1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(quorlock_lease_is_held(from.lease));
    bool was_held = false;
    WORKS(quorlock_unlock(from.lease, &was_held, &error));
    CHECK(was_held);
    quorlock_lock_options_free(options);
    quorlock_cancel_free(from.cancel);
    quorlock_lease_free(from.lease);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

/* What the child may hear of a call of its parent's: nothing. */
static void on_locked(void *userdata, quorlock_lease_t *lease, quorlock_error_t *failure) {
    struct seen *seen = userdata;
    seen->calls++;
    seen->state = quorlock_error_kind(failure);
    quorlock_error_free(failure);
    quorlock_lease_free(lease);
    sem_post(&seen->over);
}

static void on_unlocked(void *userdata, bool was_held, quorlock_error_t *failure) {
    on_locked(userdata, NULL, failure);
    ((struct seen *)userdata)->wait = was_held;
}

static bool readable(const quorlock_queue_t *queue, int ms) {
    struct pollfd watched = {quorlock_queue_fd(queue), POLLIN, 0};
    return poll(&watched, 1, ms) == 1;
}

/* A lock that the process itself may use, with a queue that is its parent's. */
static void loop_of_the_parent(const quorlock_lock_t *own, const quorlock_lock_t *waited, const quorlock_lease_t *lease,
                               const quorlock_cancel_t *cancel, quorlock_queue_t *queue, struct seen *parents) {
    struct seen seen;
    seen_init(&seen);
    CHECK(quorlock_queue_fd(queue) == -1 && quorlock_queue_dispatch(queue) == 0);
    CHECK(quorlock_lock_start(own, 0, NULL, queue, &seen, on_locked, &error) == QUORLOCK_FORKED);
    CHECK(has(quorlock_error_message(error), "the queue was used before the process was forked: make a new queue"));
    quorlock_error_free(error);
    error = NULL;
    CHECK(quorlock_lock_start(own, 0, cancel, NULL, &seen, on_locked, &error) == QUORLOCK_FORKED);
    CHECK(has(quorlock_error_message(error), "make a new token in the child"));
    quorlock_error_free(error);
    error = NULL;
    FAILS(QUORLOCK_FORKED, quorlock_lock_start(waited, 0, NULL, NULL, &seen, on_locked, &error));
    FAILS(QUORLOCK_FORKED, quorlock_unlock_start(lease, NULL, &seen, on_unlocked, &error));
    FAILS(QUORLOCK_FORKED, quorlock_lease_set_stop_callback(lease, &seen, on_lost, &error));
    quorlock_lease_t *ours = held(own);
    FAILS(QUORLOCK_FORKED, quorlock_unlock_start(ours, queue, &seen, on_unlocked, &error));
    FAILS(QUORLOCK_FORKED, quorlock_lease_set_lost_callback_on(ours, queue, &seen, on_lost, &error));
    CHECK(quorlock_lease_is_held(ours));
    /* Neither tells of the parent's call, nor takes it away from the parent. */
    quorlock_queue_free(queue);
    CHECK(parents->calls == 0 && seen.calls == 0);
    /* A queue of its own works. */
    quorlock_queue_t *queue_of_ours = NULL;
    WORKS(quorlock_queue_new(&queue_of_ours, &error));
    WORKS(quorlock_unlock_start(ours, queue_of_ours, &seen, on_unlocked, &error));
    CHECK(readable(queue_of_ours, 30000) && quorlock_queue_dispatch(queue_of_ours) == 1);
    CHECK(seen.calls == 1 && seen.wait && seen.state == QUORLOCK_OK);
    quorlock_queue_free(queue_of_ours);
    quorlock_lease_free(ours);
    quorlock_shutdown();
}

/* A fork while a call is under way that a queue is to tell of. */
static void a_forked_child_and_its_parents_queue(void) {
    quorlock_client_t *client = some_client(), *unused = some_client();
    quorlock_lock_t *lock = lock_of(client, NULL), *own = lock_of(unused, NULL);
    quorlock_lease_t *lease = held(lock);
    quorlock_queue_t *queue = NULL;
    quorlock_cancel_t *cancel = quorlock_cancel_new();
    struct seen seen;
    seen_init(&seen);
    WORKS(quorlock_queue_new(&queue, &error));
    WORKS(quorlock_lock_start(lock, QUORLOCK_FOREVER, cancel, queue, &seen, on_locked, &error));
    CHECK(comes_to_wait(client, 1));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        broken = 0;
        loop_of_the_parent(own, lock, lease, cancel, queue, &seen);
        fflush(stdout);
        execlp(broken ? "false" : "true", "true", (char *)NULL);
        _exit(1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    /* The parent's call waits as it did, and its loop hears of it. */
    CHECK(seen.calls == 0 && waiting(client) == 1 && !readable(queue, 0));
    WORKS(quorlock_unlock(lease, NULL, &error));
    CHECK(readable(queue, 30000) && quorlock_queue_dispatch(queue) == 1 && seen.calls == 1 && seen.state == QUORLOCK_OK);
    quorlock_queue_free(queue);
    quorlock_cancel_free(cancel);
    quorlock_lease_free(lease);
    quorlock_lock_free(own);
    quorlock_lock_free(lock);
    quorlock_client_free(unused);
    quorlock_client_free(client);
}

/* A client that nobody has used before the fork, and its lock: as of a server that makes them and then forks its workers. */
static void a_forked_child_starts_what_was_not_used(void) {
    quorlock_client_t *client = patient_client();
    quorlock_lock_t *lock = lock_of(client, NULL);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        broken = 0;
        quorlock_lease_t *lease = NULL;
        bool was_held = false;
        WORKS(quorlock_lock(lock, 5000, NULL, &lease, &error));
        CHECK(quorlock_lease_is_held(lease));
        WORKS(quorlock_unlock(lease, &was_held, &error));
        CHECK(was_held);
        quorlock_lease_free(lease);
        WORKS(quorlock_client_close(client, &error));
        quorlock_lock_free(lock);
        quorlock_client_free(client);
        quorlock_shutdown();
        fflush(stdout);
        execlp(broken ? "false" : "true", "true", (char *)NULL);
        _exit(1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    /* What the child has done with its copy is nothing to the parent's. */
    quorlock_lease_t *lease = NULL;
    WORKS(quorlock_lock(lock, 5000, NULL, &lease, &error));
    WORKS(quorlock_unlock(lease, NULL, &error));
    quorlock_lease_free(lease);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

/* All that a program uses of the library for the first time: log, names, a client of QUORLOCK_NODES and one of this process, a lock
 * that is had, and one that is held by another, alone and shared. */
static int uses_it_all(const char *own) {
    struct seen seen;
    seen_init(&seen);
    quorlock_set_log_callback(&seen, on_log);
    if (!quorlock_kind_name(QUORLOCK_CLOSED) || !quorlock_state_name(QUORLOCK_LEASE_HELD) ||
        !quorlock_health_name(QUORLOCK_HEALTH_WORKS) || !quorlock_verdict_name(QUORLOCK_VERDICT_HELD))
        return 1;
    quorlock_client_t *client = patient_client(), *other = patient_client(), *here = client_of("memory://forks");
    quorlock_lock_options_t *options = quorlock_lock_options_new();
    quorlock_lock_options_set_shared(options, true);
    quorlock_client_t *clients[] = {client, here};
    for (int at = 0; at < 2; at++) {
        quorlock_lock_t *lock = NULL, *again = NULL, *shared = NULL;
        quorlock_lease_t *lease = NULL, *none = NULL;
        WORKS(quorlock_lock_new(clients[at], own, strlen(own), NULL, &lock, &error));
        WORKS(quorlock_lock_new(at ? here : other, own, strlen(own), NULL, &again, &error));
        WORKS(quorlock_lock_new(at ? here : other, own, strlen(own), options, &shared, &error));
        if (broken) return 2;
        if (quorlock_lock(lock, 10000, NULL, &lease, &error)) {
            printf("     %s\n", quorlock_error_text(error));
            return 3;
        }
        /* Held by another, or not yet connected to: it comes back. */
        CHECK(quorlock_lock(again, 50, NULL, &none, NULL) != QUORLOCK_OK);
        CHECK(quorlock_lock(shared, 50, NULL, &none, NULL) != QUORLOCK_OK);
        WORKS(quorlock_unlock(lease, NULL, &error));
        quorlock_lease_free(lease);
        quorlock_lock_free(lock);
        quorlock_lock_free(again);
        quorlock_lock_free(shared);
    }
    quorlock_lock_options_free(options);
    quorlock_client_free(here);
    quorlock_client_free(other);
    quorlock_client_free(client);
    return broken ? 4 : 0;
}

static void *first_use(void *own) { return (void *)(intptr_t)uses_it_all(own); }

int role_forks(void) {
    enum { CHILDREN = 16 };
    pid_t children[CHILDREN];
    pthread_t thread;
    srand((unsigned)getpid());
    fflush(stdout);
    pthread_create(&thread, NULL, first_use, "of the parent");
    for (int at = 0; at < CHILDREN; at++) {
        nanosleep(&(struct timespec){0, rand() % 500 * 1000L}, NULL);
        if ((children[at] = fork()) == 0) {
            char own[32];
            snprintf(own, sizeof own, "of %d", (int)getpid());
            alarm(30);
            broken = 0;
            error = NULL;
            int failed = uses_it_all(own);
            fflush(stdout);
            _exit(failed);
        }
    }
    void *failed = NULL;
    pthread_join(thread, &failed);
    CHECK(!failed);
    for (int at = 0; at < CHILDREN; at++) {
        int status = -1;
        waitpid(children[at], &status, 0);
        if (status) printf("     child %d: %s %d\n", at, WIFSIGNALED(status) ? "signal" : "status",
                           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        CHECK(status == 0);
    }
    fflush(stdout);
    return broken ? 1 : 0;
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WATCHED true
#endif
#endif
#ifndef WATCHED
#define WATCHED has(getenv("LD_PRELOAD"), "vgpreload")
#endif

/* Forks at any instant, beside a thread that uses everything for the first time: no child finds anything half made. A sanitizer has an
 * allocator of its own, which a fork copies locked, and under valgrind a child takes as long as one that hangs. */
static void forks_at_any_instant(void) {
    if (WATCHED) return;
    char command[512];
    snprintf(command, sizeof command, "'%s' role:forks", self);
    for (int left = 4; left && !broken; left--) CHECK(system(command) == 0);
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

/* Frees so many of its handles right before it ends, the lease first. */
int role_frees_at_the_end(int handles) {
    sends_late = true;
    late_client = patient_client();
    late_lock = lock_of(late_client, NULL);
    if (quorlock_lock(late_lock, 5000, NULL, &late_lease, NULL)) return 1;
    if (handles > 0) quorlock_lease_free(late_lease);
    if (handles > 1) quorlock_lock_free(late_lock);
    if (handles > 2) quorlock_client_free(late_client);
    return 0;
}

static void what_is_freed_at_the_end_is_released(void) {
    for (int round = 0; round < 12 && !broken; round++) {
        char command[512];
        snprintf(command, sizeof command, "'%s' role:frees-at-the-end %d", self, round % 4);
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
    TEST(a_forked_child), TEST(a_forked_child_and_its_parents_queue), TEST(a_forked_child_starts_what_was_not_used),
    TEST(forks_at_any_instant), TEST(descriptors_closed_by_the_program), TEST(exiting_releases), TEST(what_is_freed_at_the_end_is_released), TEST(freeing_after_main), TEST(signals_are_the_programs), TEST(what_a_callback_starts_can_be_ended), TEST(cancelled_threads_leave_calls_whole), TEST(an_environment_that_is_no_text),
    TEST(shutting_down), {NULL, NULL}};
