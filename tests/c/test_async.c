/* Tests of calls that are started, and of the queue that tells an event loop of their end. */

#include "test.h"

#ifdef _WIN32
#include <tlhelp32.h>
#else
#include <dirent.h>
#include <fcntl.h>
#endif

/* What has come of one call. */
struct came {
    sem_t over;
    int calls;
    int32_t code;
    bool was_held;
    quorlock_lease_t *lease;
    quorlock_leases_t *leases;
    pthread_t thread;
    quorlock_queue_t *free; /* what the callback is to free */
};

static void came_init(struct came *came) {
    memset(came, 0, sizeof *came);
    sem_init(&came->over, 0, 0);
}

static void on_locked(void *userdata, quorlock_lease_t *lease, quorlock_error_t *failure) {
    struct came *came = userdata;
    CHECK(!lease != !failure);
    came->calls++;
    came->lease = lease;
    came->code = quorlock_error_kind(failure);
    came->thread = pthread_self();
    quorlock_error_free(failure);
    quorlock_queue_free(came->free);
    sem_post(&came->over);
}

static void on_all_locked(void *userdata, quorlock_leases_t *leases, quorlock_error_t *failure) {
    struct came *came = userdata;
    CHECK(!leases != !failure);
    came->calls++;
    came->leases = leases;
    came->code = quorlock_error_kind(failure);
    came->thread = pthread_self();
    quorlock_error_free(failure);
    sem_post(&came->over);
}

static void on_unlocked(void *userdata, bool was_held, quorlock_error_t *failure) {
    struct came *came = userdata;
    came->calls++;
    came->was_held = was_held;
    came->code = quorlock_error_kind(failure);
    came->thread = pthread_self();
    quorlock_error_free(failure);
    sem_post(&came->over);
}

static quorlock_queue_t *some_queue(void) {
    quorlock_queue_t *queue = NULL;
    WORKS(quorlock_queue_new(&queue, &error));
    return queue;
}

static bool readable(const quorlock_queue_t *queue, int ms) {
    struct pollfd watched = {quorlock_queue_fd(queue), POLLIN, 0};
    return poll(&watched, 1, ms) == 1;
}

/* Dispatches until so many callbacks have been called, but not forever. */
static bool dispatches(const quorlock_queue_t *queue, size_t count) {
    while (count) {
        if (!readable(queue, 30000)) return false;
        size_t told = quorlock_queue_dispatch(queue);
        if (told > count) return false;
        count -= told;
    }
    return true;
}

static void started_on(const quorlock_lock_t *lock, int64_t wait_ms, const quorlock_queue_t *queue, struct came *came) {
    came_init(came);
    WORKS(quorlock_lock_start(lock, wait_ms, NULL, queue, came, on_locked, &error));
}

static void a_loop_hears_by_its_queue(void) {
    quorlock_client_t *client = some_client();
    quorlock_lock_t *lock = lock_of(client, NULL);
    quorlock_queue_t *queue = some_queue();
    struct came first, second, released;
    CHECK(!readable(queue, 0) && quorlock_queue_dispatch(queue) == 0);
    started_on(lock, QUORLOCK_DEFAULT, queue, &first);
    CHECK(readable(queue, 30000));
    /* Nothing is called before it is dispatched. */
    CHECK(first.calls == 0);
    CHECK(dispatches(queue, 1) && first.calls == 1 && first.code == QUORLOCK_OK);
    CHECK(pthread_equal(first.thread, pthread_self()) && quorlock_lease_is_held(first.lease));
    CHECK(!readable(queue, 0));
    /* Nobody owns it: not entered again, nor released by the lock. */
    started_on(lock, 0, queue, &second);
    CHECK(dispatches(queue, 1) && second.calls == 1 && second.code == QUORLOCK_CONTENDED && !second.lease);
    FAILS(QUORLOCK_NOT_OWNER, quorlock_lock_release(lock, NULL, &error));
    came_init(&released);
    WORKS(quorlock_unlock_start(first.lease, queue, &released, on_unlocked, &error));
    /* Over at once, whenever the nodes answer. */
    CHECK(quorlock_lease_state(first.lease) == QUORLOCK_LEASE_RELEASED && released.calls == 0);
    /* Freed at once: the release goes on. */
    quorlock_lease_free(first.lease);
    CHECK(dispatches(queue, 1) && released.calls == 1 && released.was_held && released.code == QUORLOCK_OK);
    quorlock_lease_free(held(lock));
    quorlock_queue_free(queue);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

static void a_callback_without_a_queue(void) {
    quorlock_client_t *client = some_client();
    quorlock_lock_t *lock = lock_of(client, NULL);
    struct came locked, released;
    started_on(lock, QUORLOCK_DEFAULT, NULL, &locked);
    /* Freed at once: the call goes on. */
    quorlock_lock_free(lock);
    CHECK(comes(&locked.over) && locked.calls == 1 && locked.lease);
    CHECK(!pthread_equal(locked.thread, pthread_self()));
    came_init(&released);
    WORKS(quorlock_unlock_start(locked.lease, NULL, &released, on_unlocked, &error));
    CHECK(comes(&released.over) && released.was_held && released.calls == 1);
    came_init(&released);
    WORKS(quorlock_unlock_start(locked.lease, NULL, &released, on_unlocked, &error));
    CHECK(comes(&released.over) && !released.was_held && released.code == QUORLOCK_OK);
    quorlock_lease_free(locked.lease);
    quorlock_client_free(client);
}

static int threads(void) {
    int count = 0;
#ifdef _WIN32
    HANDLE tasks = CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0);
    THREADENTRY32 task = {.dwSize = sizeof task};
    for (BOOL more = Thread32First(tasks, &task); more; more = Thread32Next(tasks, &task))
        count += task.th32OwnerProcessID == GetCurrentProcessId();
    CloseHandle(tasks);
#else
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks && (task = readdir(tasks));) count += task->d_name[0] != '.';
    closedir(tasks);
#endif
    return count;
}

static void a_thousand_wait_without_a_thread(void) {
    enum { MANY = 1000 };
    static struct came each[MANY];
    quorlock_client_t *client = some_client();
    quorlock_lock_t *lock = lock_of(client, NULL);
    quorlock_queue_t *queue = some_queue();
    quorlock_lease_t *lease = held(lock);
    struct came told;
    /* So that the library's own threads run. */
    started_on(lock, 0, NULL, &told);
    CHECK(comes(&told.over));
    int before = threads();
    for (int at = 0; at < MANY; at++) started_on(lock, QUORLOCK_FOREVER, queue, &each[at]);
    CHECK(comes_to_wait(client, MANY));
    CHECK(threads() == before);
    quorlock_lease_free(lease);
    /* Each in its turn, given up by the one before it. */
    for (int at = 0; at < MANY && !broken; at++) {
        CHECK(dispatches(queue, 1) && each[at].calls == 1 && quorlock_lease_is_held(each[at].lease));
        quorlock_lease_free(each[at].lease);
    }
    CHECK(threads() == before);
    quorlock_queue_free(queue);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

static void cancelled_or_closed_each_ends_once(void) {
    quorlock_client_t *client = some_client();
    quorlock_lock_t *lock = lock_of(client, NULL);
    quorlock_queue_t *queue = some_queue();
    quorlock_lease_t *lease = held(lock);
    quorlock_cancel_t *cancel = quorlock_cancel_new();
    struct came cancelled, closed, alone;
    came_init(&cancelled);
    WORKS(quorlock_lock_start(lock, QUORLOCK_FOREVER, cancel, queue, &cancelled, on_locked, &error));
    started_on(lock, QUORLOCK_FOREVER, queue, &closed);
    started_on(lock, QUORLOCK_FOREVER, NULL, &alone);
    CHECK(comes_to_wait(client, 3));
    quorlock_cancel(cancel);
    CHECK(dispatches(queue, 1) && cancelled.code == QUORLOCK_CANCELLED && closed.calls == 0);
    WORKS(quorlock_client_close(client, &error));
    CHECK(dispatches(queue, 1) && closed.code == QUORLOCK_CLOSED);
    CHECK(comes(&alone.over) && alone.code == QUORLOCK_CLOSED);
    quorlock_queue_free(queue);
    CHECK(cancelled.calls == 1 && closed.calls == 1 && alone.calls == 1);
    quorlock_cancel_free(cancel);
    quorlock_lease_free(lease);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

static void what_nobody_takes_is_given_back(void) {
    quorlock_client_t *client = some_client();
    quorlock_lock_t *lock = lock_of(client, NULL);
    quorlock_queue_t *queue = some_queue();
    struct came won, waits;
    started_on(lock, QUORLOCK_DEFAULT, queue, &won);
    CHECK(readable(queue, 30000));
    started_on(lock, QUORLOCK_FOREVER, queue, &waits);
    quorlock_queue_free(queue);
    CHECK(won.calls == 1 && won.code == QUORLOCK_CANCELLED && !won.lease);
    CHECK(waits.calls == 1 && waits.code == QUORLOCK_CANCELLED && !waits.lease);
    CHECK(pthread_equal(won.thread, pthread_self()));
    /* Free again. */
    quorlock_lease_free(held(lock));
    /* A callback frees the queue that it came by. */
    queue = some_queue();
    started_on(lock, QUORLOCK_DEFAULT, queue, &won);
    won.free = queue;
    CHECK(dispatches(queue, 1) && won.calls == 1 && won.lease);
    quorlock_lease_free(won.lease);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

static void a_lease_that_is_lost_before_it_is_taken(void) {
    quorlock_client_t *client = some_client();
    quorlock_lock_t *lock = lock_with_ttl(client, 100, false);
    quorlock_queue_t *queue = some_queue();
    struct came late;
    started_on(lock, QUORLOCK_DEFAULT, queue, &late);
    CHECK(readable(queue, 30000));
    /* The loop is busy for longer than the ttl. */
    nap(150);
    CHECK(dispatches(queue, 1) && late.code == QUORLOCK_LOCK_LOST && !late.lease);
    quorlock_queue_free(queue);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

static void losses_come_by_the_queue(void) {
    quorlock_client_t *client = some_client();
    quorlock_lock_t *lock = lock_with_ttl(client, 200, false);
    quorlock_queue_t *queue = some_queue();
    quorlock_lease_t *lease = held(lock);
    struct seen seen;
    seen_init(&seen);
    WORKS(quorlock_lease_set_lost_callback_on(lease, queue, &seen, on_lost, &error));
    CHECK(dispatches(queue, 1) && seen.calls == 1 && seen.state == QUORLOCK_LEASE_EXPIRED);
    CHECK(pthread_equal(seen.thread, pthread_self()));
    /* Freed with its loss in the queue: never told. */
    WORKS(quorlock_lease_set_lost_callback_on(lease, queue, &seen, on_lost, &error));
    CHECK(readable(queue, 30000));
    quorlock_lease_free(lease);
    CHECK(quorlock_queue_dispatch(queue) == 0 && seen.calls == 1);
    quorlock_queue_free(queue);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

/* Losses of one queue, and what the callback of the first of them does. */
struct losses {
    quorlock_queue_t *queue;
    sem_t inside, go_on;
    bool frees, waits;
    int calls, running;
};

static void on_one_of_the_losses(void *userdata, int32_t state) {
    struct losses *losses = userdata;
    CHECK(state == QUORLOCK_LEASE_EXPIRED);
    losses->running++;
    if (losses->calls++ == 0) {
        if (losses->frees) quorlock_queue_free(losses->queue);
        sem_post(&losses->inside);
        if (losses->waits) CHECK(comes(&losses->go_on));
    }
    losses->running--;
}

enum { LOSSES = 3 };

/* That many losses stand in the queue when this returns, and none of them has been told. */
static void lost_by_a_queue(quorlock_client_t *client, struct losses *losses, quorlock_lease_t **leases) {
    static const char *const names[LOSSES] = {"orders:1", "orders:2", "orders:3"};
    quorlock_lock_options_t *options = quorlock_lock_options_new();
    quorlock_lock_options_set_ttl(options, 200);
    quorlock_lock_options_set_renew(options, false);
    losses->queue = some_queue();
    sem_init(&losses->inside, 0, 0);
    sem_init(&losses->go_on, 0, 0);
    for (int at = 0; at < LOSSES; at++) {
        struct seen arrived;
        quorlock_lock_t *lock = NULL;
        WORKS(quorlock_lock_new(client, names[at], strlen(names[at]), options, &lock, &error));
        WORKS(quorlock_lock(lock, QUORLOCK_DEFAULT, NULL, &leases[at], &error));
        WORKS(quorlock_lease_set_lost_callback_on(leases[at], losses->queue, losses, on_one_of_the_losses, &error));
        /* Comes after the other, on one thread: then that one is in the queue. */
        seen_init(&arrived);
        WORKS(quorlock_lease_set_stop_callback(leases[at], &arrived, on_lost, &error));
        CHECK(comes(&arrived.over));
        quorlock_lock_free(lock);
    }
    quorlock_lock_options_free(options);
}

static void freed_by_a_callback_a_queue_tells_no_more(void) {
    quorlock_client_t *client = some_client();
    struct losses losses = {.frees = true};
    quorlock_lease_t *leases[LOSSES] = {0};
    lost_by_a_queue(client, &losses, leases);
    CHECK(quorlock_queue_dispatch(losses.queue) == 1 && losses.calls == 1);
    /* What was won, and came behind it: its callback tells so in the free, and no other comes. */
    struct came freed, behind[2];
    quorlock_lock_t *lock = lock_of(client, NULL);
    quorlock_queue_t *queue = some_queue();
    started_on(lock, QUORLOCK_DEFAULT, queue, &freed);
    CHECK(readable(queue, 30000));
    freed.free = queue;
    for (int at = 0; at < 2; at++) started_on(lock, 0, queue, &behind[at]);
    CHECK(quorlock_queue_dispatch(queue) == 1 && freed.calls == 1 && freed.lease);
    for (int at = 0; at < 2; at++) CHECK(behind[at].calls == 1 && behind[at].code == QUORLOCK_CANCELLED);
    quorlock_lease_free(freed.lease);
    quorlock_lock_free(lock);
    for (int at = 0; at < LOSSES; at++) quorlock_lease_free(leases[at]);
    quorlock_client_free(client);
}

static void *dispatch_once(void *queue) {
    quorlock_queue_dispatch(queue);
    return NULL;
}

static void *free_queue(void *argument) {
    struct losses *losses = argument;
    quorlock_queue_free(losses->queue);
    /* Where the free has returned no callback runs. */
    CHECK(losses->running == 0);
    sem_post(&losses->inside);
    return NULL;
}

static void freed_by_another_thread_a_queue_has_told_all(void) {
    quorlock_client_t *client = some_client();
    struct losses losses = {.waits = true};
    quorlock_lease_t *leases[LOSSES] = {0};
    pthread_t dispatching, freeing;
    lost_by_a_queue(client, &losses, leases);
    pthread_create(&dispatching, NULL, dispatch_once, losses.queue);
    CHECK(comes(&losses.inside));
    pthread_create(&freeing, NULL, free_queue, &losses);
    nap(100);
    /* A callback runs, and waits for us: the free must wait for it. */
    CHECK(sem_trywait(&losses.inside) != 0);
    sem_post(&losses.go_on);
    CHECK(comes(&losses.inside));
    pthread_join(freeing, NULL);
    pthread_join(dispatching, NULL);
    CHECK(losses.calls == 1);
    for (int at = 0; at < LOSSES; at++) quorlock_lease_free(leases[at]);
    quorlock_client_free(client);
}

/* A loss that stands in one queue is not told there once its callback belongs to another. */
static void a_loss_is_told_by_the_queue_that_was_set_last(void) {
    quorlock_client_t *client = some_client();
    struct losses losses = {0};
    quorlock_lease_t *leases[LOSSES] = {0};
    quorlock_queue_t *other = some_queue();
    struct seen seen[LOSSES];
    lost_by_a_queue(client, &losses, leases);
    for (int at = 0; at < LOSSES; at++) seen_init(&seen[at]);
    WORKS(quorlock_lease_set_lost_callback_on(leases[0], other, &seen[0], on_lost, &error));
    WORKS(quorlock_lease_set_lost_callback(leases[1], &seen[1], on_lost, &error));
    WORKS(quorlock_lease_set_lost_callback_on(leases[2], losses.queue, &seen[2], on_lost, &error));
    /* The one by a thread of the library's comes without any queue. */
    CHECK(comes(&seen[1].over) && !pthread_equal(seen[1].thread, pthread_self()));
    CHECK(dispatches(losses.queue, 1) && seen[2].calls == 1 && seen[0].calls == 0 && losses.calls == 0);
    CHECK(dispatches(other, 1) && seen[0].calls == 1 && seen[0].state == QUORLOCK_LEASE_EXPIRED);
    CHECK(quorlock_queue_dispatch(losses.queue) == 0);
    for (int at = 0; at < LOSSES; at++) {
        quorlock_lease_free(leases[at]);
        CHECK(seen[at].calls == 1);
    }
    quorlock_queue_free(losses.queue);
    quorlock_queue_free(other);
    quorlock_client_free(client);
}

#ifndef _WIN32
static int descriptors(void) {
    int open = 0;
    for (int at = 0; at < 1024; at++) open += fcntl(at, F_GETFD) != -1;
    return open;
}

/* The leases and the calls that knew a queue live on, and have no descriptor of it. */
static void a_freed_queue_keeps_no_descriptor(void) {
    enum { QUEUES = 10 };
    quorlock_client_t *client = some_client();
    quorlock_lease_t *leases[QUEUES];
    struct came came[QUEUES];
    struct seen seen;
    seen_init(&seen);
    /* What the library opens once is open then. */
    quorlock_lock_t *first = lock_of(client, NULL);
    quorlock_lease_free(held(first));
    quorlock_lock_free(first);
    int before = descriptors();
    for (int at = 0; at < QUEUES; at++) {
        char name[32];
        quorlock_lock_t *lock = NULL;
        quorlock_queue_t *queue = some_queue();
        snprintf(name, sizeof name, "orders:%d", at);
        WORKS(quorlock_lock_new(client, name, strlen(name), NULL, &lock, &error));
        leases[at] = held(lock);
        WORKS(quorlock_lease_set_lost_callback_on(leases[at], queue, &seen, on_lost, &error));
        started_on(lock, QUORLOCK_FOREVER, queue, &came[at]);
        quorlock_queue_free(queue);
        CHECK(came[at].calls == 1 && came[at].code == QUORLOCK_CANCELLED);
        quorlock_lock_free(lock);
    }
    /* A thread of the library's may be about to ring for the last one. */
    for (int left = 6000; left && descriptors() > before; left--) nap(5);
    CHECK(descriptors() <= before);
    for (int at = 0; at < QUEUES; at++) quorlock_lease_free(leases[at]);
    CHECK(seen.calls == 0);
    quorlock_client_free(client);
}
#endif

static quorlock_locks_t *pair_of(quorlock_client_t *client, const quorlock_lock_options_t *options) {
    const char *names[] = {"orders:42", "orders:41"};
    size_t lens[] = {9, 9};
    quorlock_locks_t *locks = NULL;
    WORKS(quorlock_locks_new(client, names, lens, 2, options, &locks, &error));
    return locks;
}

static void all_started(const quorlock_locks_t *locks, int64_t wait_ms, const quorlock_cancel_t *cancel,
                        const quorlock_queue_t *queue, struct came *came) {
    came_init(came);
    WORKS(quorlock_lock_all_start(locks, wait_ms, cancel, queue, came, on_all_locked, &error));
}

static void several_are_waited_for_without_a_thread(void) {
    quorlock_client_t *client = some_client();
    quorlock_lock_t *lock = lock_of(client, NULL);
    quorlock_locks_t *locks = pair_of(client, NULL);
    quorlock_queue_t *queue = some_queue();
    quorlock_cancel_t *cancel = quorlock_cancel_new();
    quorlock_lease_t *lease = held(lock);
    struct came won, refused, cancelled, left, released;
    all_started(locks, 0, NULL, queue, &refused);
    CHECK(dispatches(queue, 1) && refused.code == QUORLOCK_CONTENDED && !refused.leases);
    all_started(locks, QUORLOCK_FOREVER, cancel, queue, &cancelled);
    CHECK(comes_to_wait(client, 1));
    quorlock_cancel(cancel);
    CHECK(dispatches(queue, 1) && cancelled.code == QUORLOCK_CANCELLED && !cancelled.leases && cancelled.calls == 1);
    all_started(locks, QUORLOCK_FOREVER, NULL, queue, &won);
    CHECK(comes_to_wait(client, 1));
    CHECK(won.calls == 0);
    quorlock_lease_free(lease);
    CHECK(dispatches(queue, 1) && won.code == QUORLOCK_OK && won.calls == 1 && pthread_equal(won.thread, pthread_self()));
    CHECK(quorlock_leases_count(won.leases) == 2 && quorlock_leases_is_held(won.leases));
    /* Nobody owns them: not entered again. */
    all_started(locks, 0, NULL, NULL, &refused);
    CHECK(comes(&refused.over) && refused.code == QUORLOCK_CONTENDED);
    came_init(&released);
    WORKS(quorlock_unlock_all_start(won.leases, queue, &released, on_unlocked, &error));
    CHECK(!quorlock_leases_is_held(won.leases) && released.calls == 0);
    /* Freed at once: the release goes on. */
    quorlock_leases_free(won.leases);
    CHECK(dispatches(queue, 1) && released.was_held && released.code == QUORLOCK_OK && released.calls == 1);
    /* Won, and taken by nobody: both are given back. */
    all_started(locks, QUORLOCK_DEFAULT, NULL, queue, &left);
    CHECK(readable(queue, 30000));
    quorlock_queue_free(queue);
    CHECK(left.calls == 1 && left.code == QUORLOCK_CANCELLED && !left.leases);
    quorlock_leases_t *leases = NULL;
    WORKS(quorlock_lock_all(locks, QUORLOCK_DEFAULT, NULL, &leases, &error));
    CHECK(quorlock_leases_is_held(leases));
    came_init(&released);
    WORKS(quorlock_unlock_all(leases, NULL, &error));
    WORKS(quorlock_unlock_all_start(leases, NULL, &released, on_unlocked, &error));
    CHECK(comes(&released.over) && !released.was_held && released.code == QUORLOCK_OK);
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_lock_all_start(locks, -7, NULL, NULL, &won, on_all_locked, &error));
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_lock_all_start(locks, 0, NULL, NULL, &won, NULL, &error));
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_unlock_all_start(leases, NULL, &won, NULL, &error));
    CHECK(won.calls == 1);
    quorlock_leases_free(leases);
    quorlock_cancel_free(cancel);
    quorlock_locks_free(locks);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

/* The stop callback comes at once, on the library's thread, whatever the loop of the other does. */
static void a_loss_stops_the_work_and_is_told(void) {
    quorlock_client_t *client = some_client();
    quorlock_lock_t *lock = lock_with_ttl(client, 200, false);
    quorlock_queue_t *queue = some_queue();
    quorlock_lease_t *lease = held(lock);
    struct seen told, stopped, late;
    seen_init(&told);
    seen_init(&stopped);
    seen_init(&late);
    WORKS(quorlock_lease_set_stop_callback(lease, &stopped, on_lost, &error));
    WORKS(quorlock_lease_set_lost_callback_on(lease, queue, &told, on_lost, &error));
    CHECK(comes(&stopped.over) && stopped.calls == 1 && stopped.state == QUORLOCK_LEASE_EXPIRED);
    CHECK(!pthread_equal(stopped.thread, pthread_self()) && told.calls == 0);
    CHECK(dispatches(queue, 1) && told.calls == 1 && told.state == QUORLOCK_LEASE_EXPIRED);
    /* Set after the loss: soon. Taken back: never. */
    WORKS(quorlock_lease_set_stop_callback(lease, &late, on_lost, &error));
    CHECK(comes(&late.over) && late.calls == 1);
    WORKS(quorlock_lease_set_stop_callback(lease, NULL, NULL, &error));
    quorlock_lease_free(lease);
    quorlock_lock_free(lock);
    /* Of several, the first loss. */
    quorlock_lock_options_t *options = quorlock_lock_options_new();
    quorlock_lock_options_set_ttl(options, 200);
    quorlock_lock_options_set_renew(options, false);
    quorlock_locks_t *locks = pair_of(client, options);
    quorlock_leases_t *leases = NULL;
    WORKS(quorlock_lock_all(locks, QUORLOCK_DEFAULT, NULL, &leases, &error));
    seen_init(&told);
    seen_init(&stopped);
    WORKS(quorlock_leases_set_stop_callback(leases, &stopped, on_lost, &error));
    WORKS(quorlock_leases_set_lost_callback_on(leases, queue, &told, on_lost, &error));
    CHECK(comes(&stopped.over) && stopped.state == QUORLOCK_LEASE_EXPIRED);
    CHECK(dispatches(queue, 1) && told.state == QUORLOCK_LEASE_EXPIRED);
    quorlock_leases_free(leases);
    CHECK(stopped.calls == 1 && told.calls == 1);
    quorlock_locks_free(locks);
    quorlock_lock_options_free(options);
    quorlock_queue_free(queue);
    quorlock_client_free(client);
}

const struct test async_tests[] = {
    TEST(a_loop_hears_by_its_queue), TEST(a_callback_without_a_queue), TEST(a_thousand_wait_without_a_thread),
    TEST(cancelled_or_closed_each_ends_once), TEST(what_nobody_takes_is_given_back),
    TEST(a_lease_that_is_lost_before_it_is_taken), TEST(losses_come_by_the_queue),
    TEST(freed_by_a_callback_a_queue_tells_no_more), TEST(freed_by_another_thread_a_queue_has_told_all),
    TEST(a_loss_is_told_by_the_queue_that_was_set_last),
#ifndef _WIN32
    TEST(a_freed_queue_keeps_no_descriptor),
#endif
    TEST(several_are_waited_for_without_a_thread), TEST(a_loss_stops_the_work_and_is_told), {NULL, NULL}};
