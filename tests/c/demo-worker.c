/* A worker of the demo, as tests/demo/README.md says: demo-worker NODES LEDGER LOG SECONDS on|off. */

#include "worker.h"

/* What the lock is for: between the read and the write nobody else may write. */
static void add_one(int ledger) {
    char text[32] = {0};
    if (pread(ledger, text, 20, 0) != 20) die("ledger");
    int64_t balance = strtoll(text, NULL, 10);
    nap(1000000);
    snprintf(text, sizeof text, "%019" PRId64 "\n", balance + 1);
    if (pwrite(ledger, text, 20, 0) != 20) die("ledger");
}

int main(int argc, char **argv) {
    if (argc != 6) {
        fprintf(stderr, "usage: demo-worker NODES LEDGER LOG SECONDS on|off\n");
        return 2;
    }
    int ledger = open(argv[2], O_RDWR), log = open(argv[3], O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (ledger < 0 || log < 0) die("open");
    int64_t end = monotonic() + (int64_t)(atof(argv[4]) * 1e9);
    quorlock_client_t *client = NULL;
    quorlock_lock_t *lock = NULL;
    quorlock_error_t *error = NULL;
    const char *name = "demo:ledger";
    int status = 0;
    if (!strcmp(argv[5], "on")) {
        client = client_for(argv[1], NULL, &error);
        if (!client || quorlock_lock_new(client, name, strlen(name), NULL, &lock, &error)) goto failed;
    }
    srand((unsigned)monotonic());
    while (monotonic() < end) {
        char line[96];
        quorlock_lease_t *lease = NULL;
        int64_t asked = monotonic();
        if (lock && quorlock_lock(lock, QUORLOCK_DEFAULT, NULL, &lease, &error)) goto failed;
        int64_t entered = monotonic();
        char fence[24] = "";
        if (lease) snprintf(fence, sizeof fence, " %" PRIu64, quorlock_lease_fence(lease));
        snprintf(line, sizeof line, "enter %" PRId64 " %" PRId64 "%s\n", entered, entered - asked, fence);
        log_line(log, line);
        add_one(ledger);
        snprintf(line, sizeof line, "exit %" PRId64 "\n", monotonic());
        log_line(log, line);
        bool held = true;
        int32_t code = lease ? quorlock_unlock(lease, &held, &error) : QUORLOCK_OK;
        quorlock_lease_free(lease);
        if (code) goto failed;
        if (!held) {
            fprintf(stderr, "a lease was lost before its release\n");
            status = 1;
        }
        nap(rand() % 4000000);
    }
    if (client && quorlock_client_close(client, &error)) goto failed;
    goto done;
failed:
    fprintf(stderr, "%s\n", quorlock_error_text(error));
    status = 1;
done:
    quorlock_error_free(error);
    quorlock_lock_free(lock);
    quorlock_client_free(client);
    return status;
}
