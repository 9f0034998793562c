/* What the parts of the fuzzer share: the handles of a thread, and what is drawn. */

#ifndef QUORLOCK_FUZZ_H
#define QUORLOCK_FUZZ_H

#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <quorlock.h>

enum { THREADS = 3, POOL = 8, SHARED = 4 };

extern uint64_t seed;
extern int64_t end_ms;
extern quorlock_client_t *shared_client;
extern quorlock_lock_t *shared_locks[SHARED];
extern quorlock_cancel_t *shared_cancel;
extern quorlock_queue_t *shared_queue;
/* Calls that were started, what has been told of them, and how many leases came of them. */
extern atomic_uint_fast64_t started, ended, arrived;

struct fuzz {
    uint64_t random, calls, holds, losses, adopted;
    int number;
    int32_t last; /* code of the last call */
    quorlock_client_t *clients[POOL];
    quorlock_client_options_t *client_options[POOL];
    quorlock_lock_options_t *lock_options[POOL];
    quorlock_lock_t *locks[POOL];
    quorlock_lease_t *leases[POOL];
    quorlock_locks_t *several[POOL];
    quorlock_leases_t *together[POOL];
    quorlock_election_t *elections[POOL];
    quorlock_cancel_t *cancels[POOL];
    quorlock_queue_t *queues[POOL];
    uint64_t told[POOL], told_together[POOL]; /* by loss callbacks, on the dispatcher thread or that of a queue */
    uint64_t stopped[POOL], stopped_together[POOL];
};

/* The monotonic clock. */
int64_t now_ms(void);
uint64_t draw(struct fuzz *f, uint64_t below);
void broken(struct fuzz *f, const char *what);
int64_t some_ms(struct fuzz *f);
int64_t some_wait(struct fuzz *f);
const char *some_text(struct fuzz *f, size_t *len);
void on_lost(void *userdata, int32_t state);

/* A slot of a pool; now and then that of nothing. */
#define SOME(pool) (draw(f, 16) ? f->pool[draw(f, POOL)] : NULL)
#define SLOT(pool) (&f->pool[draw(f, POOL)])

/* A call that returns a code, its error object wanted or not. */
#define CODE(call)                                                                                   \
    do {                                                                                             \
        quorlock_error_t *object = NULL, **error = draw(f, 4) ? &object : NULL;                          \
        int32_t code = (call);                                                                       \
        if (!quorlock_kind_name(code)) broken(f, "no such code: " #call);                            \
        if (code == QUORLOCK_INTERNAL) broken(f, object ? quorlock_error_text(object) : #call);          \
        if (object && quorlock_error_kind(object) != code) broken(f, "another kind: " #call);            \
        if (error && (code != QUORLOCK_OK) != (object != NULL)) broken(f, "no error object: " #call);  \
        for (size_t at = 0; at < quorlock_error_node_count(object); at++)                              \
            if (!quorlock_error_node_address(object, at) || !quorlock_error_node_message(object, at))    \
                broken(f, "a node without words: " #call);                                           \
        quorlock_error_free(object);                                                                   \
        f->last = code;                                                                                 \
    } while (0)

/* Calls that go on when they have returned, and elections. */
void started_call(struct fuzz *f);
void election_call(struct fuzz *f);

#endif
