/* A wall clock that a test sets while the server runs, for LD_PRELOAD. Only what reads the wall clock is replaced:
 * CLOCK_MONOTONIC stays. libfaketime does not serve: with it, a server with jemalloc does not start.
 *
 * The file named by QUORLOCK_CLOCK holds the numbers of `struct setting`; clock.py writes them. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)

/* Odd `version`: being written. Shown time = t + offset + (t - since) * rate / 1e9, in nanoseconds; or `still`, if that
 * is not 0: time stands. */
struct setting {
    int64_t version, offset, rate, since, still;
};

static const struct setting *setting;

__attribute__((constructor)) static void open_setting(void) {
    const char *path = getenv("QUORLOCK_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *map = mmap(NULL, sizeof *setting, PROT_READ, MAP_SHARED, file, 0);
    if (map != MAP_FAILED) setting = map;
    close(file);
}

static int64_t shown(void) {
    struct timespec real;
    /* The system call itself: whatever the library offers may be one of the functions below. */
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &real);
    int64_t now = real.tv_sec * SECOND + real.tv_nsec, before, offset, rate, since, still;
    if (!setting) return now;
    do {
        before = __atomic_load_n(&setting->version, __ATOMIC_ACQUIRE);
        offset = __atomic_load_n(&setting->offset, __ATOMIC_ACQUIRE);
        rate = __atomic_load_n(&setting->rate, __ATOMIC_ACQUIRE);
        since = __atomic_load_n(&setting->since, __ATOMIC_ACQUIRE);
        still = __atomic_load_n(&setting->still, __ATOMIC_ACQUIRE);
    } while (before % 2 || before != __atomic_load_n(&setting->version, __ATOMIC_ACQUIRE));
    return still ? still : now + offset + (int64_t)((double)(now - since) * (double)rate / 1e9);
}

int gettimeofday(struct timeval *restrict to, void *restrict zone) {
    int64_t now = shown();
    (void)zone;
    *to = (struct timeval){now / SECOND, now % SECOND / 1000};
    return 0;
}

time_t time(time_t *to) {
    time_t now = shown() / SECOND;
    if (to) *to = now;
    return now;
}

int clock_gettime(clockid_t clock, struct timespec *to) {
    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE) return (int)syscall(SYS_clock_gettime, clock, to);
    int64_t now = shown();
    *to = (struct timespec){now / SECOND, now % SECOND};
    return 0;
}
