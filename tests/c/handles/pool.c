/* The handles of a program: which there are, which are in use, and which may be freed. */

#include "handles.h"

const char *const names[NAMES] = {"short", "renewed", "owned", "shared", "slots", "led"};

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
struct handle pool[KINDS][ROOM];
struct ground *grounds;
struct told *all_told;
struct call *acquiring;
uint64_t numbers, seed, freed_under_calls;
atomic_int awaited, running, told_now, steps;
atomic_bool wrong;
char node[64];
_Thread_local struct call *innermost;
_Thread_local uint64_t callback_of;
_Thread_local bool ours;

void complain(const char *what) {
    if (!atomic_exchange(&wrong, true)) printf("%" PRIu64 ": %s\n", seed, what);
    fflush(stdout);
}

void hangs(int signal) {
    char text[64];
    int len = snprintf(text, sizeof text, "a call of program %" PRIu64 " does not end\n", seed);
    (void)signal;
    if (write(1, text, (size_t)len) == len) abort();
}

uint64_t draw(uint64_t *state) {
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

int below(uint64_t *state, int limit) { return (int)(draw(state) % (uint64_t)limit); }

static void *made(size_t size) {
    void *made = calloc(1, size);
    if (!made) abort();
    return made;
}

struct ground *new_ground(void) {
    struct ground *ground = made(sizeof *ground);
    pthread_mutex_lock(&lock);
    ground->next = grounds;
    grounds = ground;
    pthread_mutex_unlock(&lock);
    return ground;
}

static void free_now(enum kind kind, struct handle gone);

void keep(enum kind kind, void *pointer, struct ground *ground, bool short_lived) {
    struct handle kept = {.pointer = pointer, .ground = ground, .short_lived = short_lived};
    if (!pointer) return;
    pthread_mutex_lock(&lock);
    kept.number = ++numbers;
    for (int at = 0; at < ROOM && kept.pointer; at++)
        if (!pool[kind][at].pointer) {
            pool[kind][at] = kept;
            kept.pointer = NULL;
        }
    pthread_mutex_unlock(&lock);
    if (kept.pointer) free_now(kind, kept);
}

/* A handle of that kind, which is not freed before the call ends or is known to have begun. */
struct handle *use(struct call *call, enum kind kind, uint64_t *random) {
    pthread_mutex_lock(&lock);
    struct handle *found = NULL;
    for (int at = below(random, ROOM), left = ROOM; left && !found; left--, at = (at + 1) % ROOM)
        if (pool[kind][at].pointer) found = &pool[kind][at];
    if (found) {
        found->users++;
        call->used[call->count++] = found;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

/* With the lock held. What the call uses may be freed from here on. */
void has_begun(struct call *call) {
    if (call->begun) return;
    call->begun = true;
    for (int at = 0; at < call->count; at++) {
        call->used[at]->users--;
        call->used[at]->under = true;
    }
}

void enters(struct call *call) {
    call->outer = innermost;
    innermost = call;
    if (!call->acquires) return;
    pthread_mutex_lock(&lock);
    call->acquires->acquiring++;
    call->next = acquiring;
    acquiring = call;
    pthread_mutex_unlock(&lock);
}

void leaves(struct call *call) {
    innermost = call->outer;
    pthread_mutex_lock(&lock);
    if (!call->begun)
        for (int at = 0; at < call->count; at++) call->used[at]->users--;
    if (call->acquires) {
        call->acquires->acquiring--;
        for (struct call **at = &acquiring; *at; at = &(*at)->next)
            if (*at == call) {
                *at = call->next;
                break;
            }
    }
    pthread_mutex_unlock(&lock);
}

/* Each call that waits has begun where as many wait as there are. */
void look_who_waits(uint64_t *random) {
    pthread_mutex_lock(&lock);
    struct handle *client = &pool[CLIENT][below(random, ROOM)];
    quorlock_stats_t stats = {0};
    if (client->pointer && !client->ground->unsure && client->ground->acquiring &&
        !quorlock_client_stats(client->pointer, &stats, sizeof stats, NULL) &&
        stats.waiting == (uint64_t)client->ground->acquiring)
        for (struct call *call = acquiring; call; call = call->next)
            if (call->acquires == client->ground) has_begun(call);
    pthread_mutex_unlock(&lock);
}

/* What is told of that place, and where it is told from here on. */
struct told *tell_of(int what, struct ground *queue, uint64_t *random) {
    struct told *told = made(sizeof *told);
    *told = (struct told){.what = what, .queue = queue, .chance = draw(random)};
    pthread_mutex_lock(&lock);
    told->next = all_told;
    all_told = told;
    pthread_mutex_unlock(&lock);
    return told;
}

void over(struct told *told) {
    if (told) atomic_store(&told->over, true);
}

/* The dispatch or free of that queue that this thread is in. */
struct call *within(const struct ground *queue) {
    struct call *call = innermost;
    while (call && call->dispatches != queue) call = call->outer;
    return call;
}

static void free_now(enum kind kind, struct handle gone) {
    struct call call = {.dispatches = kind == QUEUE ? gone.ground : NULL};
    struct call *inside = kind == QUEUE ? within(gone.ground) : NULL;
    enters(&call);
    switch (kind) {
    case CLIENT: quorlock_client_free(gone.pointer); break;
    case LOCK: quorlock_lock_free(gone.pointer); break;
    case LOCKS: quorlock_locks_free(gone.pointer); break;
    case TOKEN: quorlock_cancel_free(gone.pointer); break;
    case QUEUE: quorlock_queue_free(gone.pointer); break;
    case ELECTION: quorlock_election_free(gone.pointer); break;
    case LEASE: quorlock_lease_free(gone.pointer); break;
    default: quorlock_leases_free(gone.pointer); break;
    }
    leaves(&call);
    if (callback_of != gone.number)
        for (int at = 0; at < 2; at++) over(gone.told[at]);
    /* Within its own callback another thread's is not waited for; on this thread that is the last one. */
    if (kind == QUEUE && !inside) atomic_store(&gone.ground->gone, true);
    for (; inside; inside = inside->outer)
        if (inside->dispatches == gone.ground) inside->last = true;
}

/* Frees a handle that no call may be about to use; by its number, or any. */
bool free_one(enum kind kind, uint64_t number, const struct ground *ground, uint64_t *random) {
    struct handle gone = {0};
    pthread_mutex_lock(&lock);
    for (int at = below(random, ROOM), left = ROOM; left && !gone.pointer; left--, at = (at + 1) % ROOM) {
        struct handle *found = &pool[kind][at];
        if (!found->pointer || found->users || (number && found->number != number) || (ground && found->ground != ground))
            continue;
        freed_under_calls += found->under;
        gone = *found;
        *found = (struct handle){0};
    }
    pthread_mutex_unlock(&lock);
    if (gone.pointer) free_now(kind, gone);
    return gone.pointer != NULL;
}
