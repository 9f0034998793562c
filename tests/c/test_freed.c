/* Tests of handles that are freed while a call on them is under way, as the header allows: by another thread, and by a
 * callback. The call goes on. What it would touch of the freed memory is seen by the sanitizers and by valgrind. */

#include "test.h"

#ifndef _WIN32
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- a node that can be made to say nothing ---- */

enum { PAIRS = 16 };

/* Stands before a server, and withholds requests while it is told to. */
struct gate {
    int listener, orders[2], ends[PAIRS][2], pairs;
    uint16_t server;
    bool shut;
    sem_t obeyed, withheld; /* the second is posted once for each time that it is shut, at the first request */
    pthread_t thread;
};

static int connected(uint16_t port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int end = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(end, (struct sockaddr *)&at, sizeof at)) {
        close(end);
        return -1;
    }
    return end;
}

static void meet(struct gate *gate) {
    int client = accept(gate->listener, NULL, NULL), server = connected(gate->server);
    if (client < 0 || server < 0 || gate->pairs == PAIRS) {
        close(client);
        close(server);
        return;
    }
    gate->ends[gate->pairs][0] = client;
    gate->ends[gate->pairs++][1] = server;
}

/* Passes on what there is; closes both ends of a pair at the end of either. */
static void pass_on(int *pair, int from) {
    char bytes[16384];
    ssize_t got = recv(pair[from], bytes, sizeof bytes, 0);
    for (ssize_t sent = 0, more; got > 0 && sent < got; sent += more)
        if ((more = send(pair[!from], bytes + sent, (size_t)(got - sent), MSG_NOSIGNAL)) <= 0) got = 0;
    if (got > 0) return;
    close(pair[0]);
    close(pair[1]);
    pair[0] = pair[1] = -1;
}

static void *gate_thread(void *argument) {
    struct gate *gate = argument;
    bool told = false;
    for (;;) {
        struct pollfd watched[2 + 2 * PAIRS] = {{gate->orders[0], POLLIN, 0}, {gate->listener, POLLIN, 0}};
        int pairs = gate->pairs;
        for (int at = 0; at < pairs; at++) {
            /* Once it is known that a request waits there is nothing more to know. */
            watched[2 + 2 * at] = (struct pollfd){gate->shut && told ? -1 : gate->ends[at][0], POLLIN, 0};
            watched[3 + 2 * at] = (struct pollfd){gate->ends[at][1], POLLIN, 0};
        }
        poll(watched, (nfds_t)(2 + 2 * pairs), -1);
        if (watched[0].revents) {
            char order = 'q';
            if (read(gate->orders[0], &order, 1) != 1 || order == 'q') return NULL;
            gate->shut = order == 's';
            told = false;
            sem_post(&gate->obeyed);
            continue;
        }
        if (watched[1].revents) meet(gate);
        for (int at = 0; at < pairs; at++) {
            if (watched[3 + 2 * at].revents) pass_on(gate->ends[at], 1);
            if (!watched[2 + 2 * at].revents || gate->ends[at][0] < 0) continue;
            if (!gate->shut) {
                pass_on(gate->ends[at], 0);
            } else if (!told) {
                told = true;
                sem_post(&gate->withheld);
            }
        }
    }
}

static void order(struct gate *gate, char order) {
    CHECK(write(gate->orders[1], &order, 1) == 1);
    if (order != 'q') CHECK(comes(&gate->obeyed));
}

/* Before the first node of QUORLOCK_NODES; `url` becomes that of the gate. */
static void gate_init(struct gate *gate, char *url, size_t room) {
    memset(gate, 0, sizeof *gate);
    const char *nodes = getenv("QUORLOCK_NODES");
    snprintf(url, room, "%.*s", (int)strcspn(nodes ? nodes : "", ","), nodes ? nodes : "");
    char *port = strrchr(url, ':');
    CHECK(port && sscanf(port, ":%hu", &gate->server) == 1);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    gate->listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(!bind(gate->listener, (struct sockaddr *)&at, sizeof at) && !listen(gate->listener, PAIRS));
    CHECK(!getsockname(gate->listener, (struct sockaddr *)&at, &len) && !pipe(gate->orders));
    if (port) snprintf(port, room - (size_t)(port - url), ":%d", ntohs(at.sin_port));
    sem_init(&gate->obeyed, 0, 0);
    sem_init(&gate->withheld, 0, 0);
    pthread_create(&gate->thread, NULL, gate_thread, gate);
}

static void gate_end(struct gate *gate) {
    order(gate, 'q');
    pthread_join(gate->thread, NULL);
    for (int at = 0; at < gate->pairs; at++)
        if (gate->ends[at][0] >= 0) close(gate->ends[at][0]), close(gate->ends[at][1]);
    close(gate->listener);
    close(gate->orders[0]);
    close(gate->orders[1]);
}

/* ---- one of each handle, and a call on them ---- */

struct scene {
    struct gate gate;
    char node[256];
    quorlock_client_t *client;
    quorlock_lock_t *lock, *semaphore;
    quorlock_locks_t *locks;
    quorlock_lease_t *lease;
    quorlock_leases_t *leases;
    quorlock_election_t *election;
    quorlock_observer_t *observer;
    quorlock_cancel_t *cancel;
    char *text; /* an exported lease */
    int64_t left, left_of_all;
    /* The thread that calls. */
    const struct call *call;
    pthread_t thread;
    sem_t ready, go;
    volatile bool calling, over;
    char task[64];
    int32_t code;
};

struct call {
    const char *name;
    int32_t (*make)(struct scene *scene);
    /* Of a lease, that may be lost meanwhile; of leases. */
    bool of_lease, of_leases;
    int32_t (*before)(struct scene *scene); /* on the thread that calls */
};

static int32_t gives_lease(int32_t code, quorlock_lease_t *lease) {
    quorlock_lease_free(lease);
    return code;
}

static int32_t gives_leases(int32_t code, quorlock_leases_t *leases) {
    quorlock_leases_free(leases);
    return code;
}

static int32_t work_done(void *userdata, const quorlock_lease_t *term, char *why, size_t room) {
    (void)userdata, (void)term, (void)why, (void)room;
    return 0;
}

#define CALL(function, ...) \
    static int32_t make_##function(struct scene *scene) { __VA_ARGS__ }

CALL(init_set, return quorlock_client_init_set(scene->client, NULL);)
CALL(init_set_forced, return quorlock_client_init_set_forced(scene->client, NULL);)
CALL(adopt, quorlock_lease_t *lease = NULL;
     int32_t code = quorlock_client_adopt(scene->client, scene->text, strlen(scene->text), &lease, NULL);
     return gives_lease(code, lease);)
CALL(close, return quorlock_client_close(scene->client, NULL);)
CALL(probe, quorlock_probe_t *probe = NULL; int32_t code = quorlock_client_probe(scene->client, &probe, NULL);
     quorlock_probe_free(probe); return code;)
CALL(lock, quorlock_lease_t *lease = NULL;
     int32_t code = quorlock_lock(scene->lock, QUORLOCK_FOREVER, scene->cancel, &lease, NULL);
     return gives_lease(code, lease);)
CALL(try_lock, quorlock_lease_t *lease = NULL; int32_t code = quorlock_try_lock(scene->lock, &lease, NULL);
     return gives_lease(code, lease);)
CALL(lock_release, return quorlock_lock_release(scene->lock, NULL, NULL);)
CALL(inspect, quorlock_inspection_t *found = NULL; int32_t code = quorlock_lock_inspect(scene->lock, &found, NULL);
     quorlock_inspection_free(found); return code;)
CALL(is_locked, bool locked; return quorlock_lock_is_locked(scene->lock, &locked, NULL);)
CALL(force_release, return quorlock_lock_force_release(scene->lock, QUORLOCK_ANY_FENCE, NULL, NULL, NULL);)
CALL(force_release_slot, return quorlock_lock_force_release_slot(scene->semaphore, 0, QUORLOCK_ANY_FENCE, NULL, NULL, NULL);)
CALL(wait_until_free, bool is_free; return quorlock_lock_wait_until_free(scene->lock, QUORLOCK_FOREVER, &is_free, NULL);)
CALL(lock_all, quorlock_leases_t *leases = NULL;
     int32_t code = quorlock_lock_all(scene->locks, QUORLOCK_FOREVER, scene->cancel, &leases, NULL);
     return gives_leases(code, leases);)
CALL(try_lock_all, quorlock_leases_t *leases = NULL; int32_t code = quorlock_try_lock_all(scene->locks, &leases, NULL);
     return gives_leases(code, leases);)
CALL(unlock, return quorlock_unlock(scene->lease, NULL, NULL);)
CALL(unlock_with, return quorlock_unlock_with(scene->lease, true, NULL, NULL);)
CALL(extend, return quorlock_lease_extend(scene->lease, QUORLOCK_DEFAULT, NULL);)
CALL(ensure, return quorlock_lease_ensure(scene->lease, scene->left, NULL);)
CALL(downgrade, return quorlock_lease_downgrade(scene->lease, NULL);)
CALL(export, char *text = NULL; int32_t code = quorlock_lease_export(scene->lease, &text, NULL);
     quorlock_text_free(text); return code;)
CALL(unlock_all, return quorlock_unlock_all(scene->leases, NULL, NULL);)
CALL(unlock_all_with, return quorlock_unlock_all_with(scene->leases, true, NULL, NULL);)
CALL(extend_all, return quorlock_leases_extend(scene->leases, QUORLOCK_DEFAULT, NULL);)
CALL(ensure_all, return quorlock_leases_ensure(scene->leases, scene->left_of_all, NULL);)
CALL(campaign, quorlock_lease_t *term = NULL;
     int32_t code = quorlock_election_campaign(scene->election, QUORLOCK_DEFAULT, scene->cancel, &term, NULL);
     return gives_lease(code, term);)
CALL(run, return quorlock_election_run(scene->election, false, scene->cancel, NULL, work_done, NULL, NULL, NULL);)
CALL(resign, return quorlock_election_resign(scene->election, NULL, NULL);)
CALL(leader, quorlock_leadership_t *found = NULL; int32_t code = quorlock_election_leader(scene->election, &found, NULL);
     quorlock_leadership_free(found); return code;)
CALL(next, quorlock_leadership_t *found = NULL;
     int32_t code = quorlock_observer_next(scene->observer, scene->cancel, &found, NULL);
     quorlock_leadership_free(found); return code;)

/* The lock is released by the thread that has it. */
static int32_t has_the_lock(struct scene *scene) {
    quorlock_lease_free(scene->lease);
    scene->lease = NULL;
    return quorlock_lock(scene->lock, QUORLOCK_FOREVER, NULL, &scene->lease, NULL);
}

/* A term, which is the candidate's as long as its lease is there. */
static int32_t leads(struct scene *scene) {
    quorlock_lease_free(scene->lease);
    scene->lease = NULL;
    return quorlock_election_campaign(scene->election, QUORLOCK_DEFAULT, NULL, &scene->lease, NULL);
}

/* Every call that waits for nodes: run.py looks that none is missing. */
static const struct call calls[] = {
    {"client_init_set", make_init_set, 0, 0, NULL},
    {"client_init_set_forced", make_init_set_forced, 0, 0, NULL},
    {"client_adopt", make_adopt, 0, 0, NULL},
    {"client_close", make_close, 0, 0, NULL},
    {"client_probe", make_probe, 0, 0, NULL},
    {"lock", make_lock, 0, 0, NULL},
    {"try_lock", make_try_lock, 0, 0, NULL},
    {"lock_release", make_lock_release, 0, 0, has_the_lock},
    {"lock_inspect", make_inspect, 0, 0, NULL},
    {"lock_is_locked", make_is_locked, 0, 0, NULL},
    {"lock_force_release", make_force_release, 0, 0, NULL},
    {"lock_force_release_slot", make_force_release_slot, 0, 0, NULL},
    {"lock_wait_until_free", make_wait_until_free, 0, 0, NULL},
    {"lock_all", make_lock_all, 0, 0, NULL},
    {"try_lock_all", make_try_lock_all, 0, 0, NULL},
    {"unlock", make_unlock, 0, 0, NULL},
    {"unlock_with", make_unlock_with, 0, 0, NULL},
    {"lease_extend", make_extend, 1, 0, NULL},
    {"lease_ensure", make_ensure, 1, 0, NULL},
    {"lease_downgrade", make_downgrade, 1, 0, NULL},
    {"lease_export", make_export, 1, 0, NULL},
    {"unlock_all", make_unlock_all, 0, 0, NULL},
    {"unlock_all_with", make_unlock_all_with, 0, 0, NULL},
    {"leases_extend", make_extend_all, 0, 1, NULL},
    {"leases_ensure", make_ensure_all, 0, 1, NULL},
    {"election_campaign", make_campaign, 0, 0, leads},
    {"election_run", make_run, 0, 0, leads},
    {"election_resign", make_resign, 0, 0, leads},
    {"election_leader", make_leader, 0, 0, NULL},
    {"observer_next", make_next, 0, 0, NULL},
};

enum { LONG = 30000, SHORT = 2000 };

static void scene_init(struct scene *scene, const struct call *call, int64_t ttl_ms) {
    static int number;
    memset(scene, 0, sizeof *scene);
    scene->call = call;
    sem_init(&scene->ready, 0, 0);
    sem_init(&scene->go, 0, 0);
    gate_init(&scene->gate, scene->node, sizeof scene->node);
    char name_space[64];
    int len = snprintf(name_space, sizeof name_space, "c-freed-%d-%d:", (int)getpid(), number++);
    quorlock_client_options_t *options = quorlock_client_options_new();
    const char *node = scene->node;
    quorlock_client_options_set_nodes(options, &node, 1);
    quorlock_client_options_set_namespace(options, name_space, (size_t)len);
    quorlock_client_options_set_ttl(options, ttl_ms);
    quorlock_client_options_set_renew(options, false);
    /* As long as it takes to free what the call has. */
    quorlock_client_options_set_node_timeout(options, 20000);
    WORKS(quorlock_client_new(options, &scene->client, &error));
    quorlock_client_options_free(options);
    const char *names[] = {"b", "c"};
    const size_t lens[] = {1, 1};
    quorlock_lock_options_t *owned = quorlock_lock_options_new();
    quorlock_lock_options_set_owner_thread(owned, true);
    WORKS(quorlock_lock_new(scene->client, "a", 1, owned, &scene->lock, &error));
    quorlock_lock_options_free(owned);
    WORKS(quorlock_semaphore_new(scene->client, "s", 1, 2, NULL, &scene->semaphore, &error));
    WORKS(quorlock_locks_new(scene->client, names, lens, 2, NULL, &scene->locks, &error));
    WORKS(quorlock_election_new(scene->client, "e", 1, NULL, &scene->election, &error));
    WORKS(quorlock_election_observe(scene->election, QUORLOCK_DEFAULT, &scene->observer, &error));
    scene->cancel = quorlock_cancel_new();
    quorlock_lock_t *other = NULL;
    quorlock_lease_t *exported = NULL;
    WORKS(quorlock_lock_new(scene->client, "x", 1, NULL, &other, &error));
    WORKS(quorlock_lock(other, QUORLOCK_DEFAULT, NULL, &exported, &error));
    WORKS(quorlock_lease_export(exported, &scene->text, &error));
    quorlock_lease_free(exported);
    quorlock_lock_free(other);
    WORKS(quorlock_lock(scene->lock, QUORLOCK_DEFAULT, NULL, &scene->lease, &error));
    WORKS(quorlock_lock_all(scene->locks, QUORLOCK_DEFAULT, NULL, &scene->leases, &error));
    /* More than is left, and less than an extension gives. */
    scene->left = quorlock_lease_remaining_ms(scene->lease);
    scene->left_of_all = quorlock_leases_remaining_ms(scene->leases);
    for (int tries = 0; tries < 100 && quorlock_leases_remaining_ms(scene->leases) >= scene->left_of_all - 20; tries++) nap(5);
    scene->left -= 10;
    scene->left_of_all -= 10;
}

static void *scene_thread(void *argument) {
    struct scene *scene = argument;
    ssize_t len = readlink("/proc/thread-self", scene->task, sizeof scene->task - 1);
    scene->task[len > 0 ? len : 0] = 0;
    CHECK(!scene->call->before || scene->call->before(scene) == QUORLOCK_OK);
    sem_post(&scene->ready);
    comes(&scene->go);
    scene->calling = true;
    scene->code = scene->call->make(scene);
    scene->over = true;
    sem_post(&scene->gate.withheld);
    return NULL;
}

/* Waits until that thread stays asleep, as a call that waits does, but not for ever. */
static bool falls_asleep(const char *task) {
    char path[128], line[512];
    int asleep = 0;
    snprintf(path, sizeof path, "/proc/%s/stat", task);
    for (int left = 6000; left && asleep < 10; left--) {
        FILE *stat = fopen(path, "r");
        char *state = stat && fgets(line, sizeof line, stat) ? strrchr(line, ')') : NULL;
        asleep = state && state[2] == 'S' ? asleep + 1 : 0;
        if (stat) fclose(stat);
        nap(2);
    }
    return asleep == 10;
}

/* Begins the call; returns when its request is withheld, or it waits behind the lease that is held, or if it has returned. */
static void begin_call(struct scene *scene) {
    pthread_create(&scene->thread, NULL, scene_thread, scene);
    CHECK(comes(&scene->ready));
    order(&scene->gate, 's');
    sem_post(&scene->go);
    int left = 6000;
    while (left && sem_trywait(&scene->gate.withheld) && !waiting(scene->client)) nap(5), left--;
    CHECK(left);
    while (left && !scene->calling) nap(5), left--;
    CHECK(left && (scene->over || falls_asleep(scene->task)));
}

static void free_handles(struct scene *scene) {
    quorlock_lease_free(scene->lease);
    quorlock_leases_free(scene->leases);
    quorlock_observer_free(scene->observer);
    quorlock_election_free(scene->election);
    quorlock_locks_free(scene->locks);
    quorlock_lock_free(scene->lock);
    quorlock_lock_free(scene->semaphore);
    quorlock_cancel_free(scene->cancel);
    quorlock_client_free(scene->client);
}

static void end_call(struct scene *scene) {
    order(&scene->gate, 'o');
    pthread_join(scene->thread, NULL);
}

static void scene_end(struct scene *scene) {
    quorlock_text_free(scene->text);
    gate_end(&scene->gate);
}

static void calls_outlive_their_handles(void) {
    for (size_t at = 0; at < sizeof calls / sizeof *calls; at++) {
        struct scene scene;
        int before = broken;
        scene_init(&scene, &calls[at], LONG);
        begin_call(&scene);
        free_handles(&scene);
        end_call(&scene);
        /* A try may have come before what was freed is given back; an ensure may have waited for longer than it can give. */
        CHECK(scene.code == QUORLOCK_OK || (scene.code == QUORLOCK_CONTENDED && strstr(calls[at].name, "try_")) ||
              (scene.code == QUORLOCK_LOCK_LOST && strstr(calls[at].name, "ensure")));
        scene_end(&scene);
        if (broken != before) printf("     quorlock_%s: %s\n", calls[at].name, quorlock_kind_name(scene.code));
    }
}

static void free_leases(void *userdata, int32_t state) {
    struct seen *seen = userdata;
    CHECK(state == QUORLOCK_LEASE_EXPIRED);
    quorlock_leases_free((quorlock_leases_t *)(void *)seen->free);
    sem_post(&seen->over);
}

static void a_loss_callback_frees_what_is_being_used(void) {
    for (size_t at = 0; at < sizeof calls / sizeof *calls; at++) {
        if (!calls[at].of_lease && !calls[at].of_leases) continue;
        struct scene scene;
        struct seen seen;
        int before = broken;
        seen_init(&seen);
        scene_init(&scene, &calls[at], SHORT);
        /* A request is given up after a quarter of the ttl: so late the loss comes before that. */
        while (quorlock_lease_remaining_ms(scene.lease) > SHORT / 5 || quorlock_leases_remaining_ms(scene.leases) > SHORT / 5)
            nap(5);
        begin_call(&scene);
        if (calls[at].of_lease) {
            seen.free = scene.lease;
            WORKS(quorlock_lease_set_lost_callback(scene.lease, &seen, on_lost, &error));
            scene.lease = NULL;
        } else {
            seen.free = (quorlock_lease_t *)(void *)scene.leases;
            WORKS(quorlock_leases_set_lost_callback(scene.leases, &seen, free_leases, &error));
            scene.leases = NULL;
        }
        CHECK(comes(&seen.over));
        end_call(&scene);
        CHECK(scene.code == QUORLOCK_LOCK_LOST || scene.code == QUORLOCK_QUORUM_UNAVAILABLE);
        free_handles(&scene);
        scene_end(&scene);
        if (broken != before) printf("     quorlock_%s: %s\n", calls[at].name, quorlock_kind_name(scene.code));
    }
}

/* ---- callbacks that free what is being given another callback ---- */

struct setting {
    quorlock_lease_t *lease;
    quorlock_leases_t *leases;
    int which;
    struct seen first, second;
    sem_t begun;
    pthread_t thread;
    char task[64];
    int32_t code;
};

static void *set_another(void *argument) {
    struct setting *setting = argument;
    void *userdata = &setting->second;
    ssize_t len = readlink("/proc/thread-self", setting->task, sizeof setting->task - 1);
    setting->task[len > 0 ? len : 0] = 0;
    sem_post(&setting->begun);
    switch (setting->which) {
    case 0: setting->code = quorlock_lease_set_lost_callback(setting->lease, userdata, on_lost, NULL); break;
    case 1: setting->code = quorlock_lease_set_lost_callback_on(setting->lease, NULL, userdata, on_lost, NULL); break;
    case 2: setting->code = quorlock_lease_set_stop_callback(setting->lease, userdata, on_lost, NULL); break;
    case 3: setting->code = quorlock_leases_set_lost_callback(setting->leases, userdata, on_lost, NULL); break;
    case 4: setting->code = quorlock_leases_set_lost_callback_on(setting->leases, NULL, userdata, on_lost, NULL); break;
    default: setting->code = quorlock_leases_set_stop_callback(setting->leases, userdata, on_lost, NULL);
    }
    return NULL;
}

static void free_both(void *userdata, int32_t state) {
    struct setting *setting = userdata;
    CHECK(state == QUORLOCK_LEASE_EXPIRED);
    sem_post(&setting->first.called);
    CHECK(comes(&setting->first.go_on));
    quorlock_lease_free(setting->lease);
    quorlock_leases_free(setting->leases);
    sem_post(&setting->first.over);
}

static void a_callback_frees_what_is_given_another(void) {
    quorlock_client_t *client = some_client();
    quorlock_lock_t *lock = lock_with_ttl(client, 200, false);
    quorlock_lock_options_t *options = quorlock_lock_options_new();
    quorlock_lock_options_set_ttl(options, 200);
    quorlock_lock_options_set_renew(options, false);
    quorlock_locks_t *locks = NULL;
    const char *names[] = {"orders:1", "orders:2"};
    const size_t lens[] = {8, 8};
    WORKS(quorlock_locks_new(client, names, lens, 2, options, &locks, &error));
    for (int which = 0; which < 6; which++) {
        struct setting setting = {.which = which};
        seen_init(&setting.first);
        seen_init(&setting.second);
        sem_init(&setting.begun, 0, 0);
        if (which < 3) {
            setting.lease = held(lock);
            WORKS((which == 2 ? quorlock_lease_set_stop_callback : quorlock_lease_set_lost_callback)(
                setting.lease, &setting, free_both, &error));
        } else {
            WORKS(quorlock_lock_all(locks, QUORLOCK_DEFAULT, NULL, &setting.leases, &error));
            WORKS((which == 5 ? quorlock_leases_set_stop_callback : quorlock_leases_set_lost_callback)(
                setting.leases, &setting, free_both, &error));
        }
        CHECK(comes(&setting.first.called));
        /* It runs: who sets another waits for its end. */
        pthread_create(&setting.thread, NULL, set_another, &setting);
        CHECK(comes(&setting.begun) && falls_asleep(setting.task));
        sem_post(&setting.first.go_on);
        CHECK(comes(&setting.first.over));
        pthread_join(setting.thread, NULL);
        /* Told after those before it: then nothing more comes of a lease that is gone. */
        struct seen last;
        seen_init(&last);
        quorlock_lease_t *lease = held(lock);
        WORKS(quorlock_lease_set_lost_callback(lease, &last, on_lost, &error));
        CHECK(comes(&last.over) && setting.code == QUORLOCK_OK && setting.second.calls == 0);
        quorlock_lease_free(lease);
    }
    quorlock_locks_free(locks);
    quorlock_lock_options_free(options);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

/* The wait that a token ends is where it is freed: maybe before quorlock_cancel() returns. */
static void *waits_and_frees_its_token(void *argument) {
    struct other *other = argument;
    other->code = quorlock_lock(other->lock, QUORLOCK_FOREVER, other->cancel, &other->lease, NULL);
    quorlock_cancel_free((quorlock_cancel_t *)(void *)other->cancel);
    return NULL;
}

static void a_wait_frees_the_token_that_ends_it(void) {
    quorlock_client_t *client = some_client();
    quorlock_lock_t *lock = lock_of(client, NULL);
    quorlock_lease_t *lease = held(lock);
    for (int round = 0; round < 50; round++) {
        quorlock_cancel_t *cancel = quorlock_cancel_new();
        struct other other = {.lock = lock, .cancel = cancel};
        pthread_create(&other.thread, NULL, waits_and_frees_its_token, &other);
        CHECK(comes_to_wait(client, 1));
        quorlock_cancel(cancel);
        CHECK(finish_other(&other) == QUORLOCK_CANCELLED);
    }
    quorlock_lease_free(lease);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
}

const struct test freed_tests[] = {
    TEST(calls_outlive_their_handles), TEST(a_loss_callback_frees_what_is_being_used),
    TEST(a_callback_frees_what_is_given_another), TEST(a_wait_frees_the_token_that_ends_it), {NULL, NULL}};
#endif
