/* Charges an order once, however many processes serve and however often a client asks: the line `7` over TCP.
 *
 * One thread, one epoll: it serves others while clients wait for their locks. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <quorlock.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define ORDERS 100

struct caller {
    int fd;
    unsigned order;
    quorlock_cancel_t *cancel; /* while it waits for its lock */
};

static int loop, under_way;
static quorlock_client_t *client;
static quorlock_queue_t *queue;
static uint64_t charged[ORDERS]; /* in place of a database: the fence of the hold that charged an order */

static void watch(int fd, void *what) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = what};
    if (fd < 0 || epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event)) {
        perror("epoll_ctl");
        exit(1);
    }
}

/* Only in a turn of the loop that has nothing more to tell of it: `hung_up`, or the end of its wait. */
static void close_caller(struct caller *caller) {
    close(caller->fd);
    quorlock_cancel_free(caller->cancel);
    free(caller);
}

/* The text of an error names servers, so it is for the log, and clients are told their part of it. */
static void answer(struct caller *caller, const char *text) { (void)!send(caller->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT); }

static void on_released(void *unused, bool was_held, quorlock_error_t *error) {
    (void)unused, (void)was_held; /* the charge is written down, and its fence keeps it right */
    quorlock_error_free(error);
    under_way--;
}

/* What is done under the lock. A payment takes a while, and would be waited for in the loop as the lock is. */
static void charge(struct caller *caller, quorlock_lease_t *lease) {
    uint64_t fence = quorlock_lease_fence(lease);
    char text[64];
    if (!charged[caller->order]) {
        printf("charging order %u, fence %llu\n", caller->order, (unsigned long long)fence);
        charged[caller->order] = fence; /* UPDATE orders SET fence = $2 WHERE id = $1 AND fence <= $2 */
    }
    snprintf(text, sizeof text, "200 fence %llu\n", (unsigned long long)charged[caller->order]);
    answer(caller, text);
}

static void on_locked(void *userdata, quorlock_lease_t *lease, quorlock_error_t *error) {
    struct caller *caller = userdata;
    if (lease) {
        charge(caller, lease);
        if (quorlock_unlock_start(lease, queue, NULL, on_released, NULL)) under_way--;
        quorlock_lease_free(lease);
    } else {
        int32_t kind = quorlock_error_kind(error);
        if (kind == QUORLOCK_CANCELLED) printf("order %u: its client has hung up\n", caller->order);
        else if (kind == QUORLOCK_TIMEOUT) answer(caller, "409 another request has the order\n");
        else {
            fprintf(stderr, "%s\n", quorlock_error_text(error));
            answer(caller, "503 try again later\n");
        }
        quorlock_error_free(error);
        under_way--;
    }
    close_caller(caller);
}

/* One request of each connection: a line that comes in one piece, and then nothing but the end. */
static void on_caller(struct caller *caller) {
    char line[16], name[32];
    ssize_t length = recv(caller->fd, line, sizeof line - 1, MSG_DONTWAIT);
    if (caller->cancel) {
        /* It has hung up: the wait ends, and on_locked() is told so. */
        quorlock_cancel(caller->cancel);
        epoll_ctl(loop, EPOLL_CTL_DEL, caller->fd, NULL);
        return;
    }
    line[length > 0 ? length : 0] = 0;
    caller->order = (unsigned)strtoul(line, NULL, 10);
    if (length <= 0 || caller->order >= ORDERS) {
        close_caller(caller);
        return;
    }
    quorlock_lock_t *lock = NULL;
    int size = snprintf(name, sizeof name, "order:%u", caller->order);
    caller->cancel = quorlock_cancel_new();
    /* The wait is shorter than clients wait for an answer. */
    if (quorlock_lock_new(client, name, (size_t)size, NULL, &lock, NULL) ||
        quorlock_lock_start(lock, 1000, caller->cancel, queue, caller, on_locked, NULL)) {
        answer(caller, "500 the charge failed\n");
        close_caller(caller);
    } else under_way++;
    quorlock_lock_free(lock);
}

int main(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    quorlock_error_t *error = NULL;
    sigset_t terminate;
    /* Before any thread of the library's is there. */
    sigemptyset(&terminate);
    sigaddset(&terminate, SIGTERM);
    sigprocmask(SIG_BLOCK, &terminate, NULL);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (quorlock_client_new(NULL, &client, &error) || quorlock_queue_new(&queue, &error)) {
        fprintf(stderr, "%s\n", quorlock_error_text(error));
        return 1;
    }
    const char *port = getenv("PORT");
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), signals = signalfd(-1, &terminate, SFD_CLOEXEC);
    address.sin_port = htons((uint16_t)atoi(port ? port : "3000"));
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 64) ||
        getsockname(listener, (struct sockaddr *)&address, &size)) {
        perror("bind");
        return 1;
    }
    printf("tcp://127.0.0.1:%u\n", ntohs(address.sin_port));
    loop = epoll_create1(EPOLL_CLOEXEC);
    watch(listener, &listener);
    watch(signals, &signals);
    watch(quorlock_queue_fd(queue), &queue);
    /* After SIGTERM until the charges that are under way are over. */
    for (bool ends = false; !ends || under_way;) {
        struct epoll_event event;
        if (epoll_wait(loop, &event, 1, -1) != 1) continue;
        if (event.data.ptr == &queue) quorlock_queue_dispatch(queue);
        else if (event.data.ptr == &signals) {
            ends = true;
            close(signals);
            close(listener);
        } else if (event.data.ptr == &listener) {
            struct caller *caller = calloc(1, sizeof *caller);
            caller->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
            watch(caller->fd, caller);
        } else on_caller(event.data.ptr);
    }
    quorlock_queue_free(queue);
    quorlock_client_free(client);
    return 0;
}
