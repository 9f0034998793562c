/* What the workers in C share: those of the demo and of the fault runs. */

#define _POSIX_C_SOURCE 200809L

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <quorlock.h>

static inline int64_t monotonic(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static inline void nap(int64_t nanoseconds) {
    nanosleep(&(struct timespec){nanoseconds / 1000000000, nanoseconds % 1000000000}, NULL);
}

_Noreturn static inline void die(const char *what) {
    perror(what);
    exit(1);
}

static inline void log_line(int file, const char *line) {
    size_t len = strlen(line);
    if (write(file, line, len) != (ssize_t)len) die("log");
}

/* A client of these nodes, and of options if there are any. */
static inline quorlock_client_t *client_for(char *nodes, quorlock_client_options_t *options, quorlock_error_t **error) {
    const char *urls[32];
    size_t count = 0;
    for (char *url = strtok(nodes, ","); url && count < 32; url = strtok(NULL, ",")) urls[count++] = url;
    if (!options) options = quorlock_client_options_new();
    quorlock_client_options_set_nodes(options, urls, count);
    quorlock_client_t *client = NULL;
    if (quorlock_client_new(options, &client, error)) client = NULL;
    quorlock_client_options_free(options);
    return client;
}
