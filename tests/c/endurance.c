/* Cycles of a lock in C, as many as it is told: see tests/endurance.py.
 *
 *     endurance-c NAMES */

#include <stdio.h>
#include <stdlib.h>

#include <quorlock.h>

static quorlock_error_t *error = NULL;

static void works(int32_t code) {
    if (code == QUORLOCK_OK) return;
    fprintf(stderr, "%s\n", quorlock_error_text(error));
    exit(1);
}

static void cycle(const quorlock_client_t *client, int number, bool leak) {
    quorlock_lock_t *lock = NULL;
    quorlock_lease_t *lease = NULL;
    char name[32];
    int length = snprintf(name, sizeof name, "endures:%d", number);
    works(quorlock_lock_new(client, name, (size_t)length, NULL, &lock, &error));
    works(quorlock_lock(lock, QUORLOCK_DEFAULT, NULL, &lease, &error));
    works(quorlock_unlock(lease, NULL, &error));
    if (!leak) quorlock_lease_free(lease);
    quorlock_lock_free(lock);
}

int main(int count, char **words) {
    quorlock_client_t *client = NULL;
    int names = count == 2 ? atoi(words[1]) : 0, number = 0, cycles;
    const char *leak = getenv("QUORLOCK_LEAK");
    if (names < 1) return 2;
    works(quorlock_client_new(NULL, &client, &error));
    while (scanf("%d", &cycles) == 1) {
        for (; cycles > 0; cycles--) cycle(client, number++ % names, leak && *leak);
        puts("done");
        fflush(stdout);
    }
    quorlock_client_free(client);
    return 0;
}
