/* What the parts of the scenario runner share. */

#ifndef SCENARIO_H
#define SCENARIO_H

#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <quorlock.h>

enum { MAX_WORDS = 24, MAX_HANDLES = 64, MAX_NAMES = 32 };

/* ---- words.c: the words of a line, and what it answers ---- */

struct line {
    char *words[MAX_WORDS + 1];
    int count;
    char *actor, *expected;
    bool started;
};

struct answer {
    char text[64];
    quorlock_error_t *error;
};

extern int line_number;
/* The last error that a line answered with; owned. */
extern quorlock_error_t *last_error;

/* Says what does not hold, closes everything and ends the run. */
_Noreturn void fail(const char *format, ...);

struct answer said(const char *text);
struct answer said_number(long long number);
/* What a call has answered: `good` if it returned 0, else the name of its kind. */
struct answer result(int32_t code, quorlock_error_t *error, const char *good);
bool holds(const char *answer, const char *expected);
/* Ends the run if the answer is not what the line expects. Takes the error over. */
void judge(struct answer answer, const char *expected);

int64_t millis(const char *text);
/* As millis(), or `none`. */
int64_t limit(const char *text);
int64_t count_of(const char *text);
bool on(const char *text);
int32_t restart_guard_of(const char *text);
int32_t layout_of(const char *text);
double fraction(const char *text);
/* `%XX` is one byte, `%` alone the empty text. Returns the number of bytes; they are in place. */
size_t unescape(char *text);
/* The name of the next option of a line; its value goes to `value`. */
char *option(struct line *line, int *at, char **value);

/* ---- actors.c: handles by name, and threads that carry out one job after the other ---- */

struct handle {
    char *name;
    void *value;
};

struct table {
    const char *what;
    struct handle handles[MAX_HANDLES];
    int count;
};

extern struct table clients, locks, leases, actors;

void *get(struct table *table, const char *name);
void keep(struct table *table, const char *name, void *value);

/* A lock, or several that are taken together, or a candidate. */
struct lock {
    enum { ONE, SEVERAL, ELECTION } kind;
    quorlock_lock_t *lock; /* NULL if making it failed: then it is made anew where it is used */
    quorlock_locks_t *locks; /* likewise, of several */
    quorlock_election_t *election; /* likewise */
    quorlock_client_t *client;
    quorlock_lock_options_t *options;
    char *text;
    const char *names[MAX_NAMES];
    size_t lens[MAX_NAMES], count;
};

/* A lease, or leases that were won together: the other is NULL, and both are when they have been freed. */
struct hold {
    quorlock_lease_t *one;
    quorlock_leases_t *all;
};

struct job {
    const char *verb;
    struct lock *lock;
    struct hold *hold;
    int64_t ms;
    int confirm; /* of a release: above 0 where the call says on, below where it says off */
    char *made; /* name of the lease that it makes; owned */
    quorlock_cancel_t *cancel;
};

struct actor {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    enum { IDLE, BUSY, DONE, ENDED } state;
    struct job job;
    struct answer answer;
};

/* The actor of a name, made when it is first named. */
struct actor *actor_of(const char *name);
void start(struct actor *actor, struct job job);
/* Waits for the answer, `pending` after `ms`. */
struct answer finish(struct actor *actor, int64_t ms);
/* Ends an actor that has nothing to do, and frees it. */
void end(struct actor *actor);

/* A condition for times of after(). */
void monotonic_cond(pthread_cond_t *condition);
struct timespec after(int64_t ms);

/* ---- options.c: clients and locks with the options of their lines ---- */

struct answer make_client(struct line *line);
/* One lock or several, or a candidate, as the verb says. */
void make_lock(struct line *line);
/* Makes what is asked for, into `made`; and frees what was made so. */
int32_t make_anew(const struct lock *asked, struct lock *made, quorlock_error_t **error);
void unmake(struct lock *made);

/* ---- scenario.c ---- */

/* Closes the clients in the order of their making, which ends all waits, and leaves nothing behind. */
void close_all(void);

#endif
