/* The callbacks that programs give away, and what each of them judges. */

#include "handles.h"

/* What waits for no callback may be freed by any; a callback's own queue and lease, too. */
static void frees_something(struct told *told) {
    static const enum kind harmless[] = {CLIENT, LOCK, LOCKS, TOKEN, ELECTION};
    uint64_t random = told->chance;
    switch (below(&random, 6)) {
    case 0: free_one(harmless[below(&random, 5)], 0, NULL, &random); break;
    case 1:
        if (told->queue) free_one(QUEUE, 0, told->queue, &random);
        break;
    case 2:
        if (told->what == LOST && !free_one(LEASE, told->handle, NULL, &random))
            free_one(LEASES, told->handle, NULL, &random);
        break;
    case 3:
        if (told->queue) {
            struct call call = {.dispatches = told->queue};
            struct handle *queue = NULL;
            pthread_mutex_lock(&lock);
            for (int at = 0; at < ROOM; at++)
                if (pool[QUEUE][at].pointer && pool[QUEUE][at].ground == told->queue) queue = &pool[QUEUE][at];
            if (queue) call.used[call.count++] = queue, queue->users++;
            pthread_mutex_unlock(&lock);
            enters(&call);
            if (queue) quorlock_queue_dispatch(queue->pointer);
            leaves(&call);
        }
        break;
    /* So that others free what it is called by. */
    case 4: nanosleep(&(struct timespec){0, 1000000}, NULL); break;
    default: break;
    }
}

static void comes(struct told *told) {
    atomic_fetch_add(&told_now, 1);
    if (atomic_fetch_add(&told->calls, 1)) complain("told twice");
    if (atomic_load(&told->over)) complain("told when it was over");
    if (told->queue) {
        struct call *by = within(told->queue);
        if (!by) complain("told by another queue, or by none");
        if (atomic_load(&told->queue->gone) || (by && by->last)) complain("told by a queue that was freed");
    } else if (ours) {
        complain("told on a thread of the program's");
    }
    pthread_mutex_lock(&lock);
    for (struct call *call = innermost; call; call = call->outer) has_begun(call);
    pthread_mutex_unlock(&lock);
}

static void goes(struct told *told) {
    if (told->queue && atomic_load(&told->queue->gone)) complain("a queue was freed while a callback of it ran");
    atomic_fetch_sub(&told_now, 1);
}

static void call_is_over(struct told *told, quorlock_error_t *error) {
    if (error && quorlock_error_kind(error) == QUORLOCK_INTERNAL) complain(quorlock_error_text(error));
    quorlock_error_free(error);
    atomic_fetch_sub(&awaited, 1);
    goes(told);
}

void on_locked(void *userdata, quorlock_lease_t *lease, quorlock_error_t *error) {
    struct told *told = userdata;
    comes(told);
    if (!lease == !error) complain("neither a lease nor an error, or both");
    keep(LEASE, lease, told->client, told->short_lived);
    frees_something(told);
    call_is_over(told, error);
}

void on_all_locked(void *userdata, quorlock_leases_t *leases, quorlock_error_t *error) {
    struct told *told = userdata;
    comes(told);
    if (!leases == !error) complain("neither leases nor an error, or both");
    keep(LEASES, leases, told->client, false);
    frees_something(told);
    call_is_over(told, error);
}

void on_unlocked(void *userdata, bool was_held, quorlock_error_t *error) {
    struct told *told = userdata;
    comes(told);
    if (was_held && error) complain("held, and an error");
    frees_something(told);
    call_is_over(told, error);
}

void on_lost(void *userdata, int32_t state) {
    struct told *told = userdata;
    uint64_t outer = callback_of;
    callback_of = told->handle;
    comes(told);
    if (state < QUORLOCK_LEASE_EXPIRED || state > QUORLOCK_LEASE_FORCED) complain("lost for no reason");
    if (told->what == LOST) frees_something(told);
    callback_of = outer;
    goes(told);
}
