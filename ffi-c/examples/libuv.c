/* Jobs on one libuv loop, each under a lock of its own: all locks are waited for at once, and no call waits. A job takes as
 * long as is said behind its name, in milliseconds; one that takes longer than the lease may be held is told of the loss.
 *
 *     cc libuv.c $(pkg-config --cflags --libs quorlock libuv) -o jobs && ./jobs orders:1=50 orders:2=200 orders:3=5000 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <quorlock.h>
#include <uv.h>

struct job {
    char *name;
    uint64_t ms;
    quorlock_lease_t *lease;
    uv_timer_t work; /* stands for what the job does */
};

static quorlock_queue_t *queue;
static uv_poll_t news;
static int left, failed;

/* libuv says that the descriptor can be read: the callbacks of Quorlock run from here, on the thread of the loop. */
static void on_news(uv_poll_t *handle, int status, int events) {
    (void)handle, (void)status, (void)events;
    quorlock_queue_dispatch(queue);
}

static void over(struct job *job, quorlock_error_t *error) {
    if (error) {
        fprintf(stderr, "%s: %s\n", job->name, quorlock_error_text(error));
        failed = 1;
    }
    quorlock_error_free(error);
    uv_close((uv_handle_t *)&job->work, NULL);
    /* The loop ends when nothing is left in it. */
    if (!--left) uv_close((uv_handle_t *)&news, NULL);
}

static void on_unlocked(void *data, bool was_held, quorlock_error_t *error) {
    struct job *job = data;
    printf("%s: %s\n", job->name, was_held ? "released" : "was lost");
    over(job, error);
}

static void on_lost(void *data, int32_t state) {
    struct job *job = data;
    printf("%s: lost, %s\n", job->name, quorlock_state_name(state));
    /* Somebody else may hold the lock by now: the work has to stop. */
    uv_timer_stop(&job->work);
    quorlock_lease_free(job->lease);
    over(job, NULL);
}

static void on_work_done(uv_timer_t *work) {
    struct job *job = work->data;
    quorlock_error_t *error = NULL;
    if (quorlock_unlock_start(job->lease, queue, job, on_unlocked, &error)) over(job, error);
    /* The release goes on; the loss callback comes no more. */
    quorlock_lease_free(job->lease);
}

static void on_locked(void *data, quorlock_lease_t *lease, quorlock_error_t *error) {
    struct job *job = data;
    if (error) {
        over(job, error);
        return;
    }
    printf("%s: held, fence %llu\n", job->name, (unsigned long long)quorlock_lease_fence(lease));
    job->lease = lease;
    if (quorlock_lease_set_lost_callback_on(lease, queue, job, on_lost, &error)) {
        quorlock_lease_free(lease);
        over(job, error);
        return;
    }
    uv_timer_start(&job->work, on_work_done, job->ms, 0);
}

int main(int argc, char **argv) {
    uv_loop_t *loop = uv_default_loop();
    quorlock_client_t *client = NULL;
    quorlock_client_options_t *options = quorlock_client_options_new();
    quorlock_error_t *error = NULL;
    quorlock_client_options_set_ttl(options, 1000);
    quorlock_client_options_set_max_hold(options, 1000);
    if (quorlock_client_new(options, &client, &error) || quorlock_queue_new(&queue, &error)) {
        fprintf(stderr, "%s\n", quorlock_error_text(error));
        return 1;
    }
    quorlock_client_options_free(options);
    uv_poll_init(loop, &news, quorlock_queue_fd(queue));
    uv_poll_start(&news, UV_READABLE, on_news);
    struct job *jobs = calloc((size_t)argc, sizeof *jobs);
    left = argc - 1;
    if (!left) uv_close((uv_handle_t *)&news, NULL);
    for (int at = 0; at < argc - 1; at++) {
        struct job *job = &jobs[at];
        quorlock_lock_t *lock = NULL;
        char *ms = strchr(job->name = argv[at + 1], '=');
        if (ms) *ms++ = 0;
        job->ms = ms ? strtoull(ms, NULL, 10) : 0;
        uv_timer_init(loop, &job->work);
        job->work.data = job;
        if (quorlock_lock_new(client, job->name, strlen(job->name), NULL, &lock, &error) ||
            quorlock_lock_start(lock, QUORLOCK_DEFAULT, NULL, queue, job, on_locked, &error)) {
            over(job, error);
            error = NULL;
        }
        quorlock_lock_free(lock);
    }
    uv_run(loop, UV_RUN_DEFAULT);
    uv_loop_close(loop);
    quorlock_queue_free(queue);
    quorlock_client_free(client);
    free(jobs);
    return failed;
}
