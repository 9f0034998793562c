/* Handles by name, and actors: threads that carry out one job after the other. */

#include "scenario.h"

#include <stdlib.h>
#include <string.h>

struct table clients = {"client", {{0}}, 0}, locks = {"lock", {{0}}, 0};
struct table leases = {"lease", {{0}}, 0}, actors = {"actor", {{0}}, 0};

static struct handle *find(struct table *table, const char *name) {
    for (int i = 0; i < table->count; i++)
        if (!strcmp(table->handles[i].name, name)) return &table->handles[i];
    return NULL;
}

void *get(struct table *table, const char *name) {
    struct handle *handle = find(table, name);
    if (!handle) fail("there is no %s %s", table->what, name);
    return handle->value;
}

void keep(struct table *table, const char *name, void *value) {
    struct handle *handle = find(table, name);
    if (!handle && table->count == MAX_HANDLES) fail("too many handles");
    if (!handle) {
        handle = &table->handles[table->count++];
        handle->name = strdup(name);
    }
    handle->value = value;
}

static struct answer acquire(struct job *job) {
    quorlock_error_t *error = NULL;
    bool once = !strcmp(job->verb, "try");
    struct lock anew = {0}, *lock = job->lock;
    struct hold *hold = job->hold;
    int32_t code = QUORLOCK_OK;
    if (!lock->lock && !lock->locks && !lock->election) {
        code = make_anew(lock, &anew, &error);
        lock = &anew;
    }
    if (code != QUORLOCK_OK) return result(code, error, "ok");
    if (lock->election) {
        code = quorlock_election_campaign(lock->election, job->ms, job->cancel, &hold->one, &error);
    } else if (lock->locks) {
        code = once ? quorlock_try_lock_all(lock->locks, &hold->all, &error)
                    : quorlock_lock_all(lock->locks, job->ms, job->cancel, &hold->all, &error);
    } else {
        code = once ? quorlock_try_lock(lock->lock, &hold->one, &error)
                    : quorlock_lock(lock->lock, job->ms, job->cancel, &hold->one, &error);
    }
    unmake(&anew);
    if (code == QUORLOCK_CONTENDED && once) {
        quorlock_error_free(error);
        return said("none");
    }
    return result(code, error, "ok");
}

static struct answer perform(struct job *job) {
    quorlock_error_t *error = NULL;
    struct hold *hold = job->hold;
    quorlock_leases_t *all = hold ? hold->all : NULL;
    bool held = false;
    int32_t code;
    if (!strcmp(job->verb, "release")) {
        if (job->confirm == 0)
            code = all ? quorlock_unlock_all(all, &held, &error) : quorlock_unlock(hold->one, &held, &error);
        else
            code = all ? quorlock_unlock_all_with(all, job->confirm > 0, &held, &error)
                       : quorlock_unlock_with(hold->one, job->confirm > 0, &held, &error);
        return result(code, error, held ? "true" : "false");
    }
    if (!strcmp(job->verb, "unlock")) {
        code = quorlock_lock_release(job->lock->lock, &held, &error);
        return result(code, error, held ? "true" : "false");
    }
    if (!strcmp(job->verb, "extend")) {
        code = all ? quorlock_leases_extend(all, job->ms, &error) : quorlock_lease_extend(hold->one, job->ms, &error);
        return result(code, error, "ok");
    }
    if (!strcmp(job->verb, "ensure")) {
        code = all ? quorlock_leases_ensure(all, job->ms, &error) : quorlock_lease_ensure(hold->one, job->ms, &error);
        return result(code, error, "ok");
    }
    if (!strcmp(job->verb, "downgrade")) return result(quorlock_lease_downgrade(hold->one, &error), error, "ok");
    if (!strcmp(job->verb, "held"))
        return said((all ? quorlock_leases_is_held(all) : quorlock_lease_is_held(hold->one)) ? "true" : "false");
    if (!strcmp(job->verb, "remaining"))
        return said_number(all ? quorlock_leases_remaining_ms(all) : quorlock_lease_remaining_ms(hold->one));
    if (!strcmp(job->verb, "drop")) {
        quorlock_leases_free(all);
        quorlock_lease_free(hold->one);
        *hold = (struct hold){NULL, NULL};
        return said("ok");
    }
    return acquire(job);
}

static void *live(void *argument) {
    struct actor *actor = argument;
    pthread_mutex_lock(&actor->mutex);
    for (;;) {
        while (actor->state == IDLE || actor->state == DONE) pthread_cond_wait(&actor->changed, &actor->mutex);
        if (actor->state == ENDED) break;
        pthread_mutex_unlock(&actor->mutex);
        struct answer answer = perform(&actor->job);
        pthread_mutex_lock(&actor->mutex);
        actor->answer = answer;
        actor->state = DONE;
        pthread_cond_broadcast(&actor->changed);
    }
    pthread_mutex_unlock(&actor->mutex);
    return NULL;
}

void monotonic_cond(pthread_cond_t *condition) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

struct timespec after(int64_t ms) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    time.tv_sec += ms / 1000;
    time.tv_nsec += ms % 1000 * 1000000;
    if (time.tv_nsec >= 1000000000) {
        time.tv_sec++;
        time.tv_nsec -= 1000000000;
    }
    return time;
}

struct actor *actor_of(const char *name) {
    struct handle *found = find(&actors, name);
    if (found) return found->value;
    struct actor *actor = calloc(1, sizeof *actor);
    pthread_mutex_init(&actor->mutex, NULL);
    monotonic_cond(&actor->changed);
    pthread_create(&actor->thread, NULL, live, actor);
    keep(&actors, name, actor);
    return actor;
}

void start(struct actor *actor, struct job job) {
    pthread_mutex_lock(&actor->mutex);
    actor->job = job;
    actor->state = BUSY;
    pthread_cond_broadcast(&actor->changed);
    pthread_mutex_unlock(&actor->mutex);
}

struct answer finish(struct actor *actor, int64_t ms) {
    struct timespec end = after(ms);
    pthread_mutex_lock(&actor->mutex);
    while (actor->state == BUSY && pthread_cond_timedwait(&actor->changed, &actor->mutex, &end) == 0)
        ;
    struct answer answer = said("pending");
    if (actor->state == DONE) {
        answer = actor->answer;
        actor->state = IDLE;
        struct hold *hold = actor->job.hold;
        if (actor->job.made && (hold->one || hold->all)) keep(&leases, actor->job.made, hold);
        else if (actor->job.made) free(hold);
        free(actor->job.made);
        quorlock_cancel_free(actor->job.cancel);
        actor->job.made = NULL;
        actor->job.cancel = NULL;
    }
    pthread_mutex_unlock(&actor->mutex);
    return answer;
}

void end(struct actor *actor) {
    pthread_mutex_lock(&actor->mutex);
    actor->state = ENDED;
    pthread_cond_broadcast(&actor->changed);
    pthread_mutex_unlock(&actor->mutex);
    pthread_join(actor->thread, NULL);
    pthread_mutex_destroy(&actor->mutex);
    pthread_cond_destroy(&actor->changed);
    free(actor);
}
