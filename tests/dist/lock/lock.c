/* One lock, of the servers that QUORLOCK_NODES names. */

#include <inttypes.h>
#include <stdio.h>

#include <quorlock.h>

int main(void) {
    quorlock_client_t *client = NULL;
    quorlock_lock_t *lock = NULL;
    quorlock_lease_t *lease = NULL;
    quorlock_error_t *error = NULL;
    int held = quorlock_client_new(NULL, &client, &error) == QUORLOCK_OK &&
               quorlock_lock_new(client, "dist", 4, NULL, &lock, &error) == QUORLOCK_OK &&
               quorlock_lock(lock, QUORLOCK_DEFAULT, NULL, &lease, &error) == QUORLOCK_OK;
    if (held) printf("held with fence %" PRIu64 "\n", quorlock_lease_fence(lease));
    if (held && quorlock_unlock(lease, NULL, &error) != QUORLOCK_OK) held = 0;
    if (error) fprintf(stderr, "%s\n", quorlock_error_text(error));
    quorlock_error_free(error);
    quorlock_lease_free(lease);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
    return held ? 0 : 1;
}
