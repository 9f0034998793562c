/* A program of somebody else, in C. */

#include <stdio.h>

#include <quorlock.h>

int main(void) {
    quorlock_client_t *client = NULL;
    quorlock_lock_t *lock = NULL;
    quorlock_lease_t *lease = NULL;
    quorlock_error_t *error = NULL;
    bool was_held = false;
    if (quorlock_abi_version() != QUORLOCK_ABI_VERSION) return 2;
    if (quorlock_client_new(NULL, &client, &error) == QUORLOCK_OK &&
        quorlock_lock_new(client, "orders:42", 9, NULL, &lock, &error) == QUORLOCK_OK &&
        quorlock_lock(lock, QUORLOCK_DEFAULT, NULL, &lease, &error) == QUORLOCK_OK) {
        quorlock_unlock(lease, &was_held, &error);
    }
    if (error) fprintf(stderr, "%s\n", quorlock_error_text(error));
    quorlock_error_free(error);
    quorlock_lease_free(lease);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
    if (was_held) printf("held with quorlock %s\n", quorlock_version());
    return !was_held;
}
