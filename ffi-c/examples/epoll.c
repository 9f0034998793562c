/* One thread, one epoll, and as many locks as there are words on the command line: each is acquired, held for a moment
 * and released, and no call waits.
 *
 *     cc epoll.c $(pkg-config --cflags --libs quorlock) -o epoll && ./epoll orders:1 orders:2 */

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include <quorlock.h>

static quorlock_queue_t *queue;
static int left, failed;

static void over(quorlock_error_t *error) {
    if (error) {
        fprintf(stderr, "%s\n", quorlock_error_text(error));
        failed = 1;
    }
    quorlock_error_free(error);
    left--;
}

static void on_unlocked(void *name, bool was_held, quorlock_error_t *error) {
    printf("%s: %s\n", (const char *)name, was_held ? "released" : "was lost");
    over(error);
}

static void on_locked(void *name, quorlock_lease_t *lease, quorlock_error_t *error) {
    if (error) {
        over(error);
        return;
    }
    printf("%s: held, fence %llu\n", (const char *)name, (unsigned long long)quorlock_lease_fence(lease));
    /* The work would go here, or on: the lease is renewed until it is released. */
    if (quorlock_unlock_start(lease, queue, name, on_unlocked, &error)) over(error);
    quorlock_lease_free(lease);
}

int main(int argc, char **argv) {
    quorlock_client_t *client = NULL;
    quorlock_error_t *error = NULL;
    int loop = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    if (loop < 0 || quorlock_client_new(NULL, &client, &error) || quorlock_queue_new(&queue, &error)) {
        fprintf(stderr, "%s\n", error ? quorlock_error_text(error) : "no epoll");
        return 1;
    }
    epoll_ctl(loop, EPOLL_CTL_ADD, quorlock_queue_fd(queue), &event);
    for (int at = 1; at < argc; at++) {
        quorlock_lock_t *lock = NULL;
        left++;
        if (quorlock_lock_new(client, argv[at], strlen(argv[at]), NULL, &lock, &error) ||
            quorlock_lock_start(lock, QUORLOCK_DEFAULT, NULL, queue, argv[at], on_locked, &error)) {
            over(error);
            error = NULL;
        }
        quorlock_lock_free(lock);
    }
    while (left)
        if (epoll_wait(loop, &event, 1, -1) == 1) quorlock_queue_dispatch(queue);
    epoll_ctl(loop, EPOLL_CTL_DEL, quorlock_queue_fd(queue), NULL);
    quorlock_queue_free(queue);
    quorlock_client_free(client);
    return failed;
}
