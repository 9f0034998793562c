/* How far apart two processors are: prints the time, in ns, that a line of cache takes from the first to the second and back. Prints
   nothing where the process has one processor alone. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

enum { TRIPS = 200000 };

static _Alignas(128) atomic_uint line;
static int processors[2];

static void pin(int which)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processors[which], &one);
    pthread_setaffinity_np(pthread_self(), sizeof one, &one);
}

static void answer(unsigned number)
{
    while (atomic_load_explicit(&line, memory_order_acquire) != number)
        ;
    atomic_store_explicit(&line, number + 1, memory_order_release);
}

static void *second(void *unused)
{
    pin(1);
    for (unsigned trip = 0; trip < TRIPS; trip++)
        answer(2 * trip + 1);
    return unused;
}

int main(void)
{
    cpu_set_t ours;
    int found = 0;
    sched_getaffinity(0, sizeof ours, &ours);
    for (int number = 0; number < CPU_SETSIZE && found < 2; number++)
        if (CPU_ISSET(number, &ours))
            processors[found++] = number;
    if (found < 2)
        return 0;
    pin(0);
    pthread_t other;
    if (pthread_create(&other, NULL, second, NULL) != 0)
        return 1;
    struct timespec begun, ended;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (unsigned trip = 0; trip < TRIPS; trip++)
        answer(2 * trip);
    pthread_join(other, NULL);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    double ns = (double)(ended.tv_sec - begun.tv_sec) * 1e9 + (double)(ended.tv_nsec - begun.tv_nsec);
    printf("%.0f\n", ns / TRIPS);
    return 0;
}
