/* What is drawn for a call, and what each call has to say when it returns. */

#include "fuzz.h"

uint64_t seed;
int64_t end_ms;
quorlock_client_t *shared_client;
quorlock_lock_t *shared_locks[SHARED];
quorlock_cancel_t *shared_cancel;
quorlock_queue_t *shared_queue;
atomic_uint_fast64_t started, ended, arrived;

int64_t now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

uint64_t draw(struct fuzz *f, uint64_t below) {
    f->random ^= f->random << 13;
    f->random ^= f->random >> 7;
    f->random ^= f->random << 17;
    return (f->random >> 11) % below;
}

void broken(struct fuzz *f, const char *what) {
    printf("seed %" PRIu64 ", thread %d, call %" PRIu64 ": %s\n", seed, f->number, f->calls, what);
    fflush(stdout);
    abort();
}

/* Mostly times that make sense here, and then any. */
int64_t some_ms(struct fuzz *f) {
    static const int64_t odd[] = {-1, -2, -3, 0, 1, INT64_MAX, INT64_MIN, 1LL << 32, 315360000000LL, 315360000001LL};
    return draw(f, 4) ? (int64_t)draw(f, 60) : odd[draw(f, sizeof odd / sizeof *odd)];
}

/* Not forever, for this thread alone could end it. */
int64_t some_wait(struct fuzz *f) {
    int64_t ms = some_ms(f);
    return ms == QUORLOCK_FOREVER || ms == QUORLOCK_DEFAULT || ms > 1000 ? (int64_t)draw(f, 8) : ms;
}

const char *some_text(struct fuzz *f, size_t *len) {
    static const char *const texts[] = {"a", "b", "", "{a}b", "a{b", "\xff\xfe", "nothing/here.pem", "x\0y", "lock:"};
    static char longest[1100];
    switch (draw(f, 12)) {
    case 0: return *len = draw(f, 3), NULL;
    case 1:
        if (!*longest) memset(longest, 'n', sizeof longest);
        return *len = 1000 + draw(f, 100), longest;
    case 2: return *len = 3, "x\0y";
    default: break;
    }
    const char *text = texts[draw(f, sizeof texts / sizeof *texts)];
    *len = strlen(text);
    return text;
}
