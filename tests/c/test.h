/* A small frame for the tests of the C interface: checks, and what many of them do. */

#ifndef QUORLOCK_TEST_H
#define QUORLOCK_TEST_H

#define _POSIX_C_SOURCE 200809L

#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef _WIN32
/* It has no fork, and another name for poll. */
#include <winsock2.h>
#define poll WSAPoll
#else
#include <poll.h>
#include <sys/wait.h>
#endif

#include <quorlock.h>

/* The tests of a file, up to one without a name. */
struct test {
    const char *name;
    void (*run)(void);
};
#define TEST(name) {#name, name}
extern const struct test arguments_tests[], leases_tests[], line_tests[], inspection_tests[], probe_tests[], several_tests[],
    election_tests[], callbacks_tests[], async_tests[], freed_tests[], fork_tests[], process_tests[];

extern const char *self; /* path of this program */
extern int broken;       /* checks that did not hold in the test that runs */

#define CHECK(condition) \
    ((condition) ? (void)0 : (void)(broken++, printf("     %s:%d: %s\n", __FILE__, __LINE__, #condition)))

/* Whether a checker of memory watches this program. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WATCHED true
#endif
#endif
#ifndef WATCHED
#define WATCHED has(getenv("LD_PRELOAD"), "vgpreload")
#endif

extern quorlock_error_t *error; /* of the call just made */
#define FAILS(kind, call) CHECK(fails(call, &error, kind))
#define WORKS(call) CHECK((call) == QUORLOCK_OK && !error)

/* Whether a call has failed with this kind, and an error object that says so. Frees it. */
bool fails(int32_t code, quorlock_error_t **error, int32_t kind);

void nap(int ms);
/* Waits for a semaphore, but not for ever. */
bool comes(sem_t *semaphore);
bool same(const char *a, const char *b);
bool has(const char *text, const char *part);

quorlock_client_t *client_of(const char *node);
/* A client of a node in this process, which each test has for itself. */
quorlock_client_t *some_client(void);
/* A client of QUORLOCK_NODES that doubts no node because the machine, or a checker of memory, is slow. */
quorlock_client_t *patient_client(void);
/* A client of QUORLOCK_NODES with a namespace of its own, for which they are new. */
quorlock_client_t *client_of_new_set(const char *name, const char *set_name, int32_t guard);
quorlock_lock_t *lock_of(quorlock_client_t *client, const quorlock_lock_options_t *options);
/* The same, with each thread as an owner of its own. */
quorlock_lock_t *lock_of_threads(quorlock_client_t *client, bool reentrant);
quorlock_lock_t *lock_with_ttl(quorlock_client_t *client, int64_t ttl_ms, bool renew);
quorlock_lease_t *held(const quorlock_lock_t *lock);

/* What a thread has got from a call. */
struct other {
    const quorlock_lock_t *lock;
    int64_t wait_ms;
    const quorlock_cancel_t *cancel;
    int32_t code;
    quorlock_lease_t *lease;
    pthread_t thread;
};

void start_other(struct other *other);
int32_t finish_other(struct other *other);

uint64_t waiting(const quorlock_client_t *client);
/* Waits until so many wait in the line, but not for ever. */
bool comes_to_wait(const quorlock_client_t *client, uint64_t count);

/* What a callback has seen, and what it is to do. */
struct seen {
    sem_t called, go_on, over;
    int calls, state;
    bool wait;
    pthread_t thread;
    quorlock_lease_t *free;
    const quorlock_lease_t *unset;
    char line[512];
};

void seen_init(struct seen *seen);
void on_lost(void *userdata, int32_t state);
void on_log(void *userdata, int32_t level, const char *line);

/* Tests that a forked child runs too, and what this program does as another process. */
void the_error_object(void);
void a_hold(void);
void callbacks_may_free_their_lease(void);
int role_exits(void);
int role_frees_late(void);
int role_frees_at_the_end(int handles);
int role_releases_at_the_end(int handles);
int role_signals(void);
int role_forks(void);
int role_descriptors(void);
int role_environment(void);

#endif
