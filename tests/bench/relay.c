// A TCP relay that makes round trips as long as those of a network, and holds no bandwidth back.
//
//     relay ONE_WAY_NS PORT...     for each port of this machine another one, printed in a line, that leads there
//
// What comes from either side goes on to the other ONE_WAY_NS later, in its order, however much there is of it; a round trip through the
// relay is twice as long. The delay is the same for all that comes, so a single queue has it in the order in which it is due. A connection
// itself is made without delay. When its standard input ends the relay prints how late it was itself, and ends:
//
//     {"chunks": 1200, "late_p50_us": 3.1, "late_p99_us": 11.0, "late_max_us": 40.2, "stalls": 0}
//
// A *stall* is a side that took no more bytes, so that the relay waited for it: there is none unless a peer does not read.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST_FILES = 8192, MOST_READ = 1 << 16, BUCKETS = 100000, BUCKET_NS = 100 };

// What is to be done to a file: bytes to be written, or none for the end of what comes.
struct chunk {
    struct chunk *next;
    int64_t due;
    int to;
    // Which connection had that number when the chunk came: numbers are used again.
    uint64_t connection;
    size_t length;
    char bytes[];
};

// A file of a connection, by its number, or a listener.
static struct {
    int port;  // Of a listener: where it leads.
    int peer;  // Of a side of a connection: the other side.
    uint64_t connection;
    int open_ways;  // Directions of the connection that have not ended, counted at both sides.
} files[MOST_FILES];

static struct chunk *first, **last = &first;
static uint32_t late_by[BUCKETS];
static int64_t late_max;
static uint64_t chunks, stalls, connections;
static int64_t delay;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static struct sockaddr_in here(int port) {
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static void watch(int poller, int file) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = file};
    if (epoll_ctl(poller, EPOLL_CTL_ADD, file, &event)) fail("epoll_ctl");
}

static void at_once(int file) {
    int yes = 1;
    setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

static void accepts(int poller, int listener) {
    int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (client < 0) return;
    int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = here(files[listener].port);
    if (server < 0 || client >= MOST_FILES || server >= MOST_FILES || connect(server, (struct sockaddr *)&to, sizeof to)) {
        close(client);
        if (server >= 0) close(server);
        return;
    }
    connections++;
    for (int i = 0; i < 2; i++) {
        int file = i ? server : client;
        files[file].peer = i ? client : server;
        files[file].connection = connections;
        files[file].open_ways = 2;
        at_once(file);
        watch(poller, file);
    }
}

// Reads what has come, to be written when its time has come.
static void takes(int poller, int from) {
    static char bytes[MOST_READ];
    ssize_t length = recv(from, bytes, sizeof bytes, MSG_DONTWAIT);
    if (length < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (length <= 0) {
        length = 0;
        epoll_ctl(poller, EPOLL_CTL_DEL, from, NULL);
    }
    struct chunk *chunk = malloc(sizeof *chunk + length);
    if (!chunk) fail("malloc");
    *chunk = (struct chunk){.due = now() + delay, .to = files[from].peer, .connection = files[from].connection, .length = length};
    memcpy(chunk->bytes, bytes, length);
    *last = chunk;
    last = &chunk->next;
}

static void closes(int file) {
    int peer = files[file].peer;
    files[file].connection = files[peer].connection = 0;
    close(file);
    close(peer);
}

static void gives(struct chunk *chunk) {
    if (files[chunk->to].connection != chunk->connection) return;
    if (!chunk->length) {
        shutdown(chunk->to, SHUT_WR);
        int peer = files[chunk->to].peer;
        files[chunk->to].open_ways = --files[peer].open_ways;
        if (!files[peer].open_ways) closes(peer);
        return;
    }
    for (size_t sent = 0; sent < chunk->length;) {
        ssize_t more = send(chunk->to, chunk->bytes + sent, chunk->length - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (more >= 0) {
            sent += more;
        } else if (errno == EAGAIN) {
            stalls++;
            poll(&(struct pollfd){.fd = chunk->to, .events = POLLOUT}, 1, 1000);
        } else if (errno != EINTR) {
            // The other side is gone, and what it sent has been read or will be.
            return;
        }
    }
}

static void notes(int64_t late) {
    chunks++;
    late_max = late > late_max ? late : late_max;
    int64_t bucket = late / BUCKET_NS;
    late_by[bucket < BUCKETS ? bucket : BUCKETS - 1]++;
}

static double late_us(double part) {
    uint64_t count = 0;
    for (int bucket = 0; bucket < BUCKETS; bucket++) {
        count += late_by[bucket];
        if (count >= part * chunks) return bucket * (BUCKET_NS / 1000.0);
    }
    return 0;
}

int main(int count, char **words) {
    if (count < 3) {
        fprintf(stderr, "usage: relay ONE_WAY_NS PORT...\n");
        return 2;
    }
    delay = atoll(words[1]);
    // The kernel may otherwise wake us 50 microseconds late, to wake several at once.
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    int poller = epoll_create1(EPOLL_CLOEXEC);
    if (poller < 0) fail("epoll_create1");
    watch(poller, STDIN_FILENO);
    for (int i = 2; i < count; i++) {
        int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct sockaddr_in any = here(0);
        socklen_t size = sizeof any;
        if (listener < 0 || bind(listener, (struct sockaddr *)&any, size) || listen(listener, 4096)) fail("listen");
        getsockname(listener, (struct sockaddr *)&any, &size);
        files[listener].port = atoi(words[i]);
        watch(poller, listener);
        printf("%d%c", ntohs(any.sin_port), i + 1 < count ? ' ' : '\n');
    }
    fflush(stdout);
    for (;;) {
        struct epoll_event events[256];
        struct timespec left = {0}, *until = NULL;
        if (first) {
            int64_t rest = first->due - now();
            if (rest > 0) left = (struct timespec){rest / 1000000000, rest % 1000000000};
            until = &left;
        }
        int ready = epoll_pwait2(poller, events, 256, until, NULL);
        if (ready < 0 && errno != EINTR) fail("epoll_pwait2");
        for (int i = 0; i < ready; i++) {
            int file = events[i].data.fd;
            if (file == STDIN_FILENO) {
                printf("{\"chunks\": %llu, \"late_p50_us\": %.1f, \"late_p99_us\": %.1f, \"late_max_us\": %.1f, \"stalls\": %llu}\n",
                       (unsigned long long)chunks, late_us(0.5), late_us(0.99), late_max / 1e3, (unsigned long long)stalls);
                return 0;
            }
            if (files[file].port) accepts(poller, file);
            else if (files[file].connection) takes(poller, file);
        }
        while (first) {
            int64_t late = now() - first->due;
            if (late < 0) break;
            struct chunk *chunk = first;
            if (!(first = chunk->next)) last = &first;
            if (chunk->length) notes(late);
            gives(chunk);
            free(chunk);
        }
    }
}
