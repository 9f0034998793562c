/* Programs that are drawn: threads that make, use and free handles of every kind, with callbacks on queues and on the
 * library's threads, over few names of a node in this process. Losses come by short ttls, by force and by closed clients.
 *
 *     handles [--programs N] [--from SEED]
 *
 * A handle is freed at any point that the header allows: while a call on it is under way, where that is known to have begun,
 * for it runs a callback or waits in a line; and by the callbacks themselves. What a call touches of freed memory is seen by
 * the sanitizers and by valgrind. Judged here:
 *
 * - a call that was started is told of once; a loss at most once;
 * - a callback comes by the queue that it was given, within a dispatch or the free of that queue, or on a thread of the
 *   library's; and none comes when its queue or its lease was freed, or when it was replaced;
 * - every call ends; at the end every lock is free, and the queues have left no descriptor.
 *
 * Ends with `N passed, M failed`; a program that failed is played again by its seed. */

#include "handles/handles.h"

#include <fcntl.h>

static void ended(int32_t code, quorlock_error_t **place) {
    quorlock_error_t *error = *place;
    *place = NULL;
    if ((code != 0) != (error != NULL) || (error && quorlock_error_kind(error) != code)) complain("a code without its error");
    if (code == QUORLOCK_INTERNAL) complain(quorlock_error_text(error));
    quorlock_error_free(error);
}

static quorlock_lock_options_t *options_of(int name) {
    quorlock_lock_options_t *options = quorlock_lock_options_new();
    if (name == 0) quorlock_lock_options_set_ttl(options, 30), quorlock_lock_options_set_renew(options, false);
    if (name == 2) quorlock_lock_options_set_owner(options, "me", 2);
    if (name == 3) quorlock_lock_options_set_shared(options, true);
    if (name == 4) quorlock_lock_options_set_slots(options, 2);
    return options;
}

static void make(uint64_t *random) {
    quorlock_error_t *error = NULL;
    struct call call = {0};
    void *pointer = NULL;
    int name = below(random, NAMES - 1);
    enum kind kind = (enum kind)below(random, LEASE);
    struct handle *client = kind == TOKEN || kind == QUEUE || kind == CLIENT ? NULL : use(&call, CLIENT, random);
    struct ground *ground = client ? client->ground : kind == TOKEN ? NULL : new_ground();
    quorlock_lock_options_t *options = options_of(name);
    const char *both[] = {names[0], names[1]}, *url = node;
    enters(&call);
    if (kind == TOKEN) pointer = quorlock_cancel_new();
    if (kind == QUEUE) ended(quorlock_queue_new((quorlock_queue_t **)&pointer, &error), &error);
    if (kind == CLIENT) {
        quorlock_client_options_t *of = quorlock_client_options_new();
        quorlock_client_options_set_nodes(of, &url, 1);
        ended(quorlock_client_new(of, (quorlock_client_t **)&pointer, &error), &error);
        quorlock_client_options_free(of);
    }
    if (client && kind == LOCK)
        ended(quorlock_lock_new(client->pointer, names[name], strlen(names[name]), options, (quorlock_lock_t **)&pointer, &error),
              &error);
    if (client && kind == LOCKS)
        ended(quorlock_locks_new(client->pointer, both, (size_t[]){strlen(both[0]), strlen(both[1])}, 2, NULL,
                                 (quorlock_locks_t **)&pointer, &error),
              &error);
    if (client && kind == ELECTION)
        ended(quorlock_election_new(client->pointer, "led", 3, NULL, (quorlock_election_t **)&pointer, &error), &error);
    leaves(&call);
    quorlock_lock_options_free(options);
    keep(kind, pointer, ground, kind == LOCK && name == 0);
}

/* Sets or replaces what is called at a loss. No two threads do so for one lease at one time: which was first is not known. */
static void set_callback(uint64_t *random) {
    quorlock_error_t *error = NULL;
    struct call call = {0};
    enum kind kind = below(random, 3) ? LEASE : LEASES;
    struct handle *lease = use(&call, kind, random);
    struct handle *queue = below(random, 3) ? use(&call, QUEUE, random) : NULL;
    bool stops = below(random, 3) == 0, none = below(random, 5) == 0;
    enters(&call);
    if (lease) {
        struct ground *by = queue && !stops ? queue->ground : NULL;
        const quorlock_queue_t *on = by ? queue->pointer : NULL;
        struct told *told = none ? NULL : tell_of(stops ? STOPPED : LOST, by, random);
        pthread_mutex_lock(&lock);
        bool alone = lease->users == 1;
        struct told *before = lease->told[stops];
        if (alone) {
            lease->told[stops] = told;
            if (told) told->handle = lease->number;
            /* Keeps the others away, who count as well. */
            lease->users++;
        }
        pthread_mutex_unlock(&lock);
        if (alone) {
            quorlock_lost_callback_t callback = none ? NULL : on_lost;
            ended(stops           ? kind == LEASE ? quorlock_lease_set_stop_callback(lease->pointer, told, callback, &error)
                                                  : quorlock_leases_set_stop_callback(lease->pointer, told, callback, &error)
                  : kind == LEASE ? quorlock_lease_set_lost_callback_on(lease->pointer, on, told, callback, &error)
                                  : quorlock_leases_set_lost_callback_on(lease->pointer, on, told, callback, &error),
                  &error);
            over(before);
            pthread_mutex_lock(&lock);
            lease->users--;
            pthread_mutex_unlock(&lock);
        }
    }
    leaves(&call);
}

/* Without an end only by a token: one that is freed leaves the wait to the end of the program, which frees all leases. */
static int64_t a_wait(uint64_t *random) {
    static const int64_t waits[] = {0, 1, 5, QUORLOCK_FOREVER};
    return waits[below(random, 4)];
}

static void acquire(uint64_t *random) {
    quorlock_error_t *error = NULL;
    struct call call = {0};
    struct handle *from = use(&call, LOCK, random);
    struct handle *token = below(random, 2) ? use(&call, TOKEN, random) : NULL;
    quorlock_lease_t *lease = NULL;
    int64_t wait = a_wait(random);
    if (from) {
        struct ground *client = call.acquires = from->ground;
        bool short_lived = from->short_lived;
        const quorlock_lock_t *asked = from->pointer;
        const quorlock_cancel_t *cancel = token ? token->pointer : NULL;
        enters(&call);
        ended(quorlock_lock(asked, wait, cancel, &lease, &error), &error);
        keep(LEASE, lease, client, short_lived);
    } else {
        enters(&call);
    }
    leaves(&call);
    if (lease) set_callback(random);
}

static void acquire_all(uint64_t *random) {
    if (seed % 2 == 0) return;
    quorlock_error_t *error = NULL;
    struct call call = {0};
    struct handle *from = use(&call, LOCKS, random);
    quorlock_leases_t *leases = NULL;
    enters(&call);
    if (from) {
        struct ground *client = from->ground;
        pthread_mutex_lock(&lock);
        client->unsure = true;
        pthread_mutex_unlock(&lock);
        ended(quorlock_lock_all(from->pointer, below(random, 5), NULL, &leases, &error), &error);
        keep(LEASES, leases, client, false);
    }
    leaves(&call);
}

static void start(uint64_t *random) {
    quorlock_error_t *error = NULL;
    struct call call = {0};
    static const enum kind kinds[] = {LOCK, LOCK, LOCKS, LEASE, LEASES};
    /* In every second program nothing is waited for but by a thread, so that it is known who waits. */
    int what = seed % 2 ? below(random, 5) : 3 + below(random, 2);
    struct handle *of = use(&call, kinds[what], random);
    struct handle *queue = below(random, 3) ? use(&call, QUEUE, random) : NULL;
    int64_t wait = a_wait(random);
    enters(&call);
    if (of) {
        static const int told_as[] = {LOCKED, LOCKED, ALL_LOCKED, UNLOCKED, UNLOCKED};
        struct told *told = tell_of(told_as[what], queue ? queue->ground : NULL, random);
        const quorlock_queue_t *by = queue ? queue->pointer : NULL;
        told->client = of->ground;
        told->short_lived = of->short_lived;
        atomic_fetch_add(&awaited, 1);
        pthread_mutex_lock(&lock);
        if (what < 3) of->ground->unsure = true;
        pthread_mutex_unlock(&lock);
        int32_t code = kinds[what] == LOCK    ? quorlock_lock_start(of->pointer, wait, NULL, by, told, on_locked, &error)
                       : kinds[what] == LOCKS ? quorlock_lock_all_start(of->pointer, wait, NULL, by, told, on_all_locked, &error)
                       : kinds[what] == LEASE ? quorlock_unlock_start(of->pointer, by, told, on_unlocked, &error)
                                              : quorlock_unlock_all_start(of->pointer, by, told, on_unlocked, &error);
        ended(code, &error);
        if (code) {
            over(told);
            atomic_fetch_sub(&awaited, 1);
        }
    }
    leaves(&call);
}

static void dispatch(uint64_t *random) {
    struct call call = {0};
    struct handle *queue = use(&call, QUEUE, random);
    if (queue) call.dispatches = queue->ground;
    enters(&call);
    if (queue) quorlock_queue_dispatch(queue->pointer);
    leaves(&call);
}

static void use_a_lease(uint64_t *random) {
    quorlock_error_t *error = NULL;
    struct call call = {0};
    struct handle *lease = use(&call, LEASE, random);
    char *text = NULL;
    enters(&call);
    if (lease) {
        switch (below(random, 7)) {
        case 0: ended(quorlock_lease_extend(lease->pointer, QUORLOCK_DEFAULT, &error), &error); break;
        case 1: ended(quorlock_lease_ensure(lease->pointer, 5, &error), &error); break;
        case 2: ended(quorlock_lease_downgrade(lease->pointer, &error), &error); break;
        case 3:
            if (lease->short_lived) ended(quorlock_lease_export(lease->pointer, &text, &error), &error);
            break;
        case 4: ended(quorlock_unlock(lease->pointer, NULL, &error), &error); break;
        default:
            if (quorlock_lease_is_held(lease->pointer) && quorlock_lease_fence(lease->pointer) == 0)
                complain("held without a fence");
            quorlock_lease_state(lease->pointer);
            quorlock_lease_remaining_ms(lease->pointer);
        }
    }
    leaves(&call);
    struct call adopts = {0};
    struct handle *client = text ? use(&adopts, CLIENT, random) : NULL;
    quorlock_lease_t *adopted = NULL;
    enters(&adopts);
    if (client) {
        ended(quorlock_client_adopt(client->pointer, text, strlen(text), &adopted, &error), &error);
        keep(LEASE, adopted, client->ground, true);
    }
    leaves(&adopts);
    quorlock_text_free(text);
}

static void use_leases(uint64_t *random) {
    quorlock_error_t *error = NULL;
    struct call call = {0};
    struct handle *leases = use(&call, LEASES, random);
    enters(&call);
    if (leases) {
        switch (below(random, 4)) {
        case 0: ended(quorlock_leases_extend(leases->pointer, QUORLOCK_DEFAULT, &error), &error); break;
        case 1: ended(quorlock_leases_ensure(leases->pointer, 5, &error), &error); break;
        case 2: ended(quorlock_unlock_all(leases->pointer, NULL, &error), &error); break;
        default: quorlock_leases_state(leases->pointer); quorlock_leases_is_held(leases->pointer);
        }
    }
    leaves(&call);
}

static void use_a_lock(uint64_t *random) {
    quorlock_error_t *error = NULL;
    struct call call = {0};
    struct handle *of = use(&call, LOCK, random);
    quorlock_inspection_t *found = NULL;
    bool locked;
    enters(&call);
    if (of) {
        switch (below(random, 4)) {
        case 0: ended(quorlock_lock_inspect(of->pointer, &found, &error), &error); break;
        case 1: ended(quorlock_lock_force_release(of->pointer, QUORLOCK_ANY_FENCE, NULL, &found, &error), &error); break;
        case 2: ended(quorlock_lock_is_locked(of->pointer, &locked, &error), &error); break;
        default: ended(quorlock_lock_release(of->pointer, NULL, &error), &error);
        }
    }
    quorlock_inspection_free(found);
    leaves(&call);
}

static void use_a_client(uint64_t *random) {
    quorlock_error_t *error = NULL;
    struct call call = {0};
    struct handle *client = use(&call, CLIENT, random);
    quorlock_probe_t *probe = NULL;
    enters(&call);
    if (client) {
        switch (below(random, 3)) {
        case 0: ended(quorlock_client_close(client->pointer, &error), &error); break;
        case 1: ended(quorlock_client_probe(client->pointer, &probe, &error), &error); break;
        default: ended(quorlock_client_init_set(client->pointer, &error), &error);
        }
    }
    quorlock_probe_free(probe);
    leaves(&call);
}

/* A run, and what the callbacks of it may do: the candidate and its token may be freed. */
static int32_t leads(void *userdata, const quorlock_lease_t *term, char *why, size_t room) {
    uint64_t *random = userdata;
    pthread_mutex_lock(&lock);
    for (struct call *call = innermost; call; call = call->outer) has_begun(call);
    pthread_mutex_unlock(&lock);
    if (quorlock_lease_is_held(term) && !quorlock_lease_fence(term)) complain("leads without a fence");
    if (below(random, 2)) free_one(ELECTION, 0, NULL, random);
    if (below(random, 2)) free_one(TOKEN, 0, NULL, random);
    if (below(random, 4) == 0) nanosleep(&(struct timespec){0, 2000000}, NULL);
    if (why && room) why[0] = 0;
    return 0;
}

static void term_is_over(void *userdata, int32_t state) {
    (void)userdata;
    if (state == QUORLOCK_LEASE_HELD) complain("a term is over and held");
}

static void elect(uint64_t *random) {
    quorlock_error_t *error = NULL;
    struct call call = {0};
    struct handle *election = use(&call, ELECTION, random);
    struct handle *token = below(random, 2) ? use(&call, TOKEN, random) : NULL;
    quorlock_lease_t *term = NULL;
    quorlock_leadership_t *leadership = NULL;
    quorlock_observer_t *observer = NULL;
    int what = below(random, 5);
    if (election && what < 2) call.acquires = election->ground;
    enters(&call);
    if (election) {
        const quorlock_election_t *of = election->pointer;
        const quorlock_cancel_t *cancel = token ? token->pointer : NULL;
        struct ground *client = election->ground;
        switch (what) {
        case 0:
            ended(quorlock_election_campaign(of, a_wait(random), cancel, &term, &error), &error);
            keep(LEASE, term, client, false);
            break;
        case 1: ended(quorlock_election_run(of, false, cancel, random, leads, term_is_over, NULL, &error), &error); break;
        case 2: ended(quorlock_election_resign(of, NULL, &error), &error); break;
        case 3: ended(quorlock_election_leader(of, &leadership, &error), &error); break;
        default:
            ended(quorlock_election_observe(of, 1, &observer, &error), &error);
            if (observer) ended(quorlock_observer_next(observer, cancel, &leadership, &error), &error);
        }
    }
    leaves(&call);
    quorlock_leadership_free(leadership);
    quorlock_observer_free(observer);
}

static void cancel(uint64_t *random) {
    struct call call = {0};
    struct handle *token = use(&call, TOKEN, random);
    enters(&call);
    if (token) quorlock_cancel(token->pointer);
    leaves(&call);
}

static void free_any(uint64_t *random) { free_one((enum kind)below(random, KINDS), 0, NULL, random); }

/* A client is closed, and what it held is lost at once: of those with a callback on one queue that tells all in one go. */
static void lose(uint64_t *random) {
    quorlock_error_t *error = NULL;
    struct call call = {0};
    struct handle *client = use(&call, CLIENT, random);
    struct handle *queue = use(&call, QUEUE, random);
    if (queue) call.dispatches = queue->ground;
    enters(&call);
    if (client) ended(quorlock_client_close(client->pointer, &error), &error);
    if (queue && poll(&(struct pollfd){quorlock_queue_fd(queue->pointer), POLLIN, 0}, 1, 2) > 0) {
        nanosleep(&(struct timespec){0, 300000}, NULL);
        quorlock_queue_dispatch(queue->pointer);
    }
    leaves(&call);
}

static void cancel_or_lose(uint64_t *random) { (below(random, 4) ? cancel : lose)(random); }

static void statement(uint64_t *random) {
    static void (*const statements[])(uint64_t *) = {
        make,         make,     make,        make,       make,       acquire,         acquire, acquire,        acquire_all, start,    start,
        set_callback, dispatch, use_a_lease, use_leases, use_a_lock, cancel_or_lose,  elect,   look_who_waits, free_any,    free_any, use_a_client};
    atomic_fetch_add(&steps, 1);
    statements[below(random, sizeof statements / sizeof *statements)](random);
}

static void *thread(void *argument) {
    uint64_t random = *(uint64_t *)argument;
    ours = true;
    for (int left = STATEMENTS; left && !atomic_load(&wrong); left--) statement(&random);
    atomic_fetch_sub(&running, 1);
    return NULL;
}

/* Frees what is there; whether nothing was. */
static bool is_empty(uint64_t *random) {
    bool empty = true;
    for (int kind = KINDS; kind--;)
        for (int left = ROOM; left--;) {
            if (kind == TOKEN) cancel(random);
            if (kind == QUEUE) dispatch(random);
            if (free_one((enum kind)kind, 0, NULL, random)) empty = false;
        }
    return empty;
}

/* Each name can be had by another client. */
static void all_is_free(void) {
    const char *url = node;
    quorlock_client_options_t *of = quorlock_client_options_new();
    quorlock_client_t *client = NULL;
    quorlock_client_options_set_nodes(of, &url, 1);
    if (quorlock_client_new(of, &client, NULL)) complain("no client at the end");
    for (int name = 0; name < NAMES && client; name++) {
        quorlock_lock_options_t *options = options_of(name == 4 ? 4 : 1);
        quorlock_lock_t *last = NULL;
        quorlock_lease_t *lease = NULL;
        quorlock_error_t *error = NULL;
        if (quorlock_lock_new(client, names[name], strlen(names[name]), options, &last, NULL) ||
            quorlock_lock(last, 15000, NULL, &lease, &error))
            complain(error ? quorlock_error_text(error) : "no lock at the end");
        quorlock_error_free(error);
        quorlock_lease_free(lease);
        quorlock_lock_free(last);
        quorlock_lock_options_free(options);
    }
    quorlock_client_close(client, NULL);
    quorlock_client_free(client);
    quorlock_client_options_free(of);
}

static int descriptors(void) {
    int open = 0;
    for (int at = 0; at < 1024; at++) open += fcntl(at, F_GETFD) != -1;
    return open;
}

static bool play(void) {
    pthread_t threads[THREADS];
    uint64_t seeds[THREADS], random = seed;
    snprintf(node, sizeof node, "memory://handles-%" PRIu64, seed);
    atomic_store(&wrong, false);
    alarm(SECONDS_PER_PROGRAM);
    int before = descriptors();
    for (int left = 4; left; left--) make(&random);
    atomic_store(&running, THREADS);
    for (int at = 0; at < THREADS; at++) {
        seeds[at] = draw(&random);
        pthread_create(&threads[at], NULL, thread, &seeds[at]);
    }
    /* Where they only wait for each other, what they wait for is freed here. */
    for (int last = -1, still = 0; atomic_load(&running); still = last == atomic_load(&steps) ? still + 1 : 0) {
        last = atomic_load(&steps);
        nanosleep(&(struct timespec){0, 500000}, NULL);
        if (still > 20) is_empty(&random);
    }
    for (int at = 0; at < THREADS; at++) pthread_join(threads[at], NULL);
    if (below(&random, 2)) {
        for (int left = 2 * ROOM; left--;) set_callback(&random);
        for (int left = ROOM; left--;) lose(&random);
    }
    while (!is_empty(&random) || atomic_load(&awaited) || atomic_load(&told_now))
        nanosleep(&(struct timespec){0, 200000}, NULL);
    all_is_free();
    if (descriptors() > before) complain("descriptors are left");
    for (struct told *told = all_told, *next; told; told = next) {
        next = told->next;
        if (told->what <= UNLOCKED && !atomic_load(&told->over) && atomic_load(&told->calls) != 1)
            complain("a call was not told of");
        free(told);
    }
    for (struct ground *ground = grounds, *next; ground; ground = next) next = ground->next, free(ground);
    all_told = NULL;
    grounds = NULL;
    return !atomic_load(&wrong);
}

int main(int argc, char **argv) {
    long programs = 100, passed = 0, failed = 0;
    for (int at = 1; at + 1 < argc; at += 2) {
        if (!strcmp(argv[at], "--programs")) programs = atol(argv[at + 1]);
        if (!strcmp(argv[at], "--from")) seed = strtoull(argv[at + 1], NULL, 10);
    }
    ours = true;
    signal(SIGALRM, hangs);
    /* What the library opens once is open then. */
    snprintf(node, sizeof node, "memory://handles");
    all_is_free();
    for (; programs--; seed++) play() ? passed++ : failed++;
    alarm(0);
    /* For the leak checkers: nothing of ours runs on. */
    quorlock_shutdown();
    printf("%" PRIu64 " handles were freed under calls\n%ld passed, %ld failed\n", freed_under_calls, passed, failed);
    return failed != 0;
}
