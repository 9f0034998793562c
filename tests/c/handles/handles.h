/* What the parts of these programs share: handles, callbacks that were given away, and calls under way. */

#ifndef QUORLOCK_HANDLES_H
#define QUORLOCK_HANDLES_H

#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <quorlock.h>

enum kind { CLIENT, LOCK, LOCKS, TOKEN, QUEUE, ELECTION, LEASE, LEASES, KINDS };
enum { ROOM = 5, THREADS = 3, STATEMENTS = 40, NAMES = 6, SECONDS_PER_PROGRAM = 300 };
extern const char *const names[NAMES];

struct told;

/* A queue or a client, for as long as the program lasts. */
struct ground {
    struct ground *next;
    atomic_bool gone;
    int acquiring; /* calls that acquire by this client and have not ended */
    bool unsure;   /* what waits in its lines is more than those */
};

struct handle {
    void *pointer;
    struct ground *ground; /* of a queue itself; else of the client */
    int users;             /* calls under way that may not have begun */
    bool under;            /* a call that has begun may be under way */
    bool short_lived;
    struct told *told[2]; /* at its loss, and for what stops the work */
    uint64_t number;
};

/* A callback that was given to the library. */
struct told {
    struct told *next;
    enum { LOCKED, ALL_LOCKED, UNLOCKED, LOST, STOPPED } what;
    struct ground *queue, *client;
    atomic_int calls;
    atomic_bool over;
    uint64_t handle; /* of the lease whose loss it is */
    bool short_lived;
    uint64_t chance;
};

/* A call that this thread is in. */
struct call {
    struct call *outer, *next;
    struct handle *used[3];
    int count;
    bool begun;
    bool last; /* the queue that it dispatches was freed by a callback of it */
    struct ground *acquires, *dispatches;
};

extern pthread_mutex_t lock;
extern struct handle pool[KINDS][ROOM];
extern struct ground *grounds;
extern struct told *all_told;
extern struct call *acquiring;
extern uint64_t numbers, seed, freed_under_calls;
extern atomic_int awaited, running, told_now, steps;
extern atomic_bool wrong;
extern char node[64];
extern _Thread_local struct call *innermost;
extern _Thread_local uint64_t callback_of; /* the lease whose loss is told on this thread */
extern _Thread_local bool ours;

/* pool.c */
void complain(const char *what);
void hangs(int signal);
uint64_t draw(uint64_t *state);
int below(uint64_t *state, int limit);
struct ground *new_ground(void);
void keep(enum kind kind, void *pointer, struct ground *ground, bool short_lived);
struct handle *use(struct call *call, enum kind kind, uint64_t *random);
void has_begun(struct call *call);
void enters(struct call *call);
void leaves(struct call *call);
void look_who_waits(uint64_t *random);
struct told *tell_of(int what, struct ground *queue, uint64_t *random);
void over(struct told *told);
struct call *within(const struct ground *queue);
bool free_one(enum kind kind, uint64_t number, const struct ground *ground, uint64_t *random);

/* callbacks.c */
void on_locked(void *userdata, quorlock_lease_t *lease, quorlock_error_t *error);
void on_all_locked(void *userdata, quorlock_leases_t *leases, quorlock_error_t *error);
void on_unlocked(void *userdata, bool was_held, quorlock_error_t *error);
void on_lost(void *userdata, int32_t state);

#endif
