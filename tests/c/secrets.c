/* Wrong arguments of the C API that are drawn, with a marker where a secret stands: secrets [--draws N] [--from SEED]
 * [--broken]. In place of any text of any option, name and call. No error, line of the log nor metric has the marker, or six
 * characters of it. Ends with `N passed, M failed`; a draw is played again by its seed. With --broken each draw also shows its
 * marker: all have to fail. */

#define _POSIX_C_SOURCE 200809L

#include <ctype.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <quorlock.h>

enum { MARKER = 16, PIECE = 6, TEXT = 1 << 14, TOLD = 1 << 20, SHOWN_AT_MOST = 400 };

static const char *const EVERYWHERE[] = {
    "redis://u:%@127.0.0.1:1", "redis://:%@127.0.0.1:1/2", "rediss://u:%@127.0.0.1:1", "valkey://%@127.0.0.1:1",
    "redis://u:%/x@h", "redis://u:x#%@h:1", "redis://u:%@h:99999", "REDIS://U:%@[::1]:1", "redis:/u:%@h",
    "redis+unix:///nowhere/s?password=%", "redis+sentinel://u:%@127.0.0.1:1/m",
    "redis+sentinel://127.0.0.1:1/m?sentinel_password=%", "redis+cluster://u:%@127.0.0.1:1;[::1]:1", "http://u:%@h",
    "amqp://u:x%@h/y", "-----BEGIN PRIVATE KEY-----\n%\n-----END PRIVATE KEY-----\n",
    "-----BEGIN EC PRIVATE KEY-----%-----END EC PRIVATE KEY-----", "-----BEGIN CERTIFICATE-----\n%",
};
static const char *const IN_ITS_PLACE[] = {
    "%", "%==", "/%/%", "/tmp/%", "./%", "/etc/%/key.pem", "u:%@h:6379", "%://h", "redis://h/%", "redis://h?%",
    "redis://h:%", "redis+sentinel://h;k:%/m", "{\"password\": \"%\"}", "%\xff",
};
#define LENGTH(list) (sizeof(list) / sizeof *(list))

static uint64_t state;
static char marker[MARKER + 1];
static char told[TOLD];
static size_t told_length;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* Splitmix64. */
static uint64_t draw(uint64_t below) {
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % below;
}

static void tell(const char *text) {
    pthread_mutex_lock(&mutex);
    size_t length = text ? strlen(text) : 0;
    if (length && told_length + length + 2 < TOLD) {
        memcpy(told + told_length, text, length);
        told_length += length;
        told[told_length++] = '\n';
        told[told_length] = '\0';
    }
    pthread_mutex_unlock(&mutex);
}

static void on_log(void *userdata, int32_t level, const char *message) {
    (void)userdata, (void)level;
    tell(message), tell(quorlock_log_event()), tell(quorlock_log_template());
    tell(quorlock_log_field("lock")), tell(quorlock_log_field("node")), tell(quorlock_log_field("reason"));
}

static void add(char *to, const char *text) {
    size_t length = strlen(to), more = strlen(text);
    if (length + more < TEXT) memcpy(to + length, text, more + 1);
}

/* A form with the marker in the place of each %. */
static void filled(char *to, const char *form) {
    static char one[TEXT];
    *one = *to = '\0';
    for (char letter[2] = {0}; *form; form++) {
        *letter = *form;
        add(one, *form == '%' ? marker : letter);
    }
    uint64_t times = 1, way = draw(8);
    if (way == 0) times = 30;
    if (way == 1) add(to, " ");
    while (times--) add(to, one);
    if (way == 1) add(to, "\n");
    if (way == 2) add(to, ","), add(to, one);
}

static const char *secret(void) {
    static char text[TEXT];
    filled(text, EVERYWHERE[draw(LENGTH(EVERYWHERE))]);
    return text;
}

static const char *given(void) {
    static char text[TEXT];
    if (draw(2)) filled(text, IN_ITS_PLACE[draw(LENGTH(IN_ITS_PLACE))]);
    else return secret();
    return text;
}

/* What everybody sees: a secret, or what is refused. */
static const char *shared(const char *refused) {
    static char text[TEXT];
    *text = '\0';
    if (draw(2)) return secret();
    add(text, refused);
    for (int i = 0; i < 70; i++) add(text, marker);
    return text;
}

static void refused(quorlock_error_t *error) {
    tell(quorlock_error_text(error)), tell(quorlock_error_message(error)), tell(quorlock_error_holder(error));
    for (size_t at = 0; at < quorlock_error_node_count(error); at++)
        tell(quorlock_error_node_address(error, at)), tell(quorlock_error_node_message(error, at));
    quorlock_error_free(error);
}

static void option(quorlock_client_options_t *o) {
    const char *text = given();
    const char *nodes[] = {"memory://a", text};
    switch (draw(9)) {
    case 0: quorlock_client_options_set_nodes(o, nodes + 1, 1); break;
    case 1: quorlock_client_options_set_nodes(o, nodes, 2); break;
    case 2: text = secret(), quorlock_client_options_set_ca(o, text, strlen(text)); break;
    case 3: quorlock_client_options_set_cert(o, text, strlen(text)), quorlock_client_options_set_key(o, "/x", 2); break;
    case 4: quorlock_client_options_set_cert(o, "/x", 2), quorlock_client_options_set_key(o, text, strlen(text)); break;
    case 5: text = shared("{"), quorlock_client_options_set_namespace(o, text, strlen(text)); break;
    case 6: text = shared(" "), quorlock_client_options_set_set_name(o, text, strlen(text)); break;
    case 7: text = shared("\n"), quorlock_client_options_set_label(o, text, strlen(text)); break;
    default: text = shared("\n"), quorlock_client_options_set_group(o, text, strlen(text)); break;
    }
}

static void of_lock(quorlock_lock_options_t *o) {
    const char *text = shared("\n");
    switch (draw(4)) {
    case 0: quorlock_lock_options_set_label(o, text, strlen(text)); break;
    case 1: quorlock_lock_options_set_group(o, text, strlen(text)); break;
    case 2: text = secret(), quorlock_lock_options_set_owner(o, text, strlen(text)); break;
    default: break;
    }
}

static void locks(const quorlock_client_t *client, const char *name, size_t length) {
    quorlock_error_t *error = NULL;
    quorlock_lock_options_t *options = quorlock_lock_options_new();
    of_lock(options);
    quorlock_lock_t *lock = NULL;
    if (quorlock_lock_new(client, name, length, options, &lock, &error) == QUORLOCK_OK) {
        quorlock_lease_t *lease = NULL;
        if (quorlock_lock(lock, 0, NULL, &lease, &error) == QUORLOCK_OK) quorlock_lease_free(lease);
        else refused(error);
        quorlock_lock_free(lock);
    } else refused(error);
    error = NULL;
    quorlock_election_t *election = NULL;
    if (quorlock_election_new(client, name, length, NULL, &election, &error) == QUORLOCK_OK) quorlock_election_free(election);
    else refused(error);
    error = NULL;
    quorlock_locks_t *several = NULL;
    const char *names[] = {name, "b"};
    size_t lengths[] = {length, 1};
    if (quorlock_locks_new(client, names, lengths, 2, NULL, &several, &error) == QUORLOCK_OK) quorlock_locks_free(several);
    else refused(error);
    error = NULL;
    const char *text = given();
    quorlock_lease_t *lease = NULL;
    if (quorlock_client_adopt(client, text, strlen(text), &lease, &error) == QUORLOCK_OK) quorlock_lease_free(lease);
    else refused(error);
    quorlock_lock_options_free(options);
}

static void drawn(uint64_t seed) {
    static const char LETTERS[] = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789";
    state = seed;
    for (int i = 0; i < MARKER; i++) marker[i] = LETTERS[draw(sizeof LETTERS - 1)];
    quorlock_error_t *error = NULL;
    quorlock_client_t *client = NULL;
    quorlock_client_options_t *options = quorlock_client_options_new();
    char node[128];
    bool reaches = draw(16) == 0;
    snprintf(node, sizeof node, reaches ? "redis://u:%s@127.0.0.1:1" : "memory://secrets-of-c", marker);
    const char *nodes[] = {node};
    quorlock_client_options_set_nodes(options, nodes, 1);
    quorlock_client_options_set_node_timeout(options, 20), quorlock_client_options_set_connect_timeout(options, 20);
    if (draw(2) && !reaches) option(options);
    if (quorlock_client_new(options, &client, &error) == QUORLOCK_OK) {
        static char name[TEXT];
        *name = '\0';
        add(name, shared("}{"));
        locks(client, reaches ? "a" : name, reaches ? 1 : strlen(name));
        quorlock_client_free(client);
    } else refused(error);
    quorlock_client_options_free(options);
    if (draw(200) == 0) {
        char *metrics = quorlock_metrics_text();
        tell(metrics);
        quorlock_text_free(metrics);
    }
}

static const char *leaked(void) {
    for (char *at = told; *at; at++) *at = (char)tolower((unsigned char)*at);
    for (int i = 0; i + PIECE <= MARKER; i++) {
        char piece[PIECE + 1] = {0};
        for (int j = 0; j < PIECE; j++) piece[j] = (char)tolower((unsigned char)marker[i + j]);
        char *found = strstr(told, piece);
        if (!found) continue;
        while (found > told && found[-1] != '\n') found--;
        found[strcspn(found, "\n")] = '\0';
        return found;
    }
    return NULL;
}

int main(int count, char **words) {
    uint64_t draws = 10000, from = 0, failed = 0;
    bool broken = false;
    for (int i = 1; i < count; i++) {
        if (!strcmp(words[i], "--broken")) broken = true;
        else if (!strcmp(words[i], "--draws") && i + 1 < count) draws = strtoull(words[++i], NULL, 10);
        else if (!strcmp(words[i], "--from") && i + 1 < count) from = strtoull(words[++i], NULL, 10);
        else return fprintf(stderr, "secrets [--draws N] [--from SEED] [--broken]\n"), 2;
    }
    quorlock_set_log_callback(NULL, on_log);
    printf("draws %" PRIu64 " to %" PRIu64 "\n", from, from + draws);
    for (uint64_t seed = from; seed < from + draws; seed++) {
        drawn(seed);
        if (broken) tell(marker + 3);
        pthread_mutex_lock(&mutex);
        const char *found = leaked();
        if (found && failed++ < 10) printf("FAIL seed %" PRIu64 ": %.*s\n", seed, SHOWN_AT_MOST, found);
        told_length = 0, *told = '\0';
        pthread_mutex_unlock(&mutex);
    }
    printf("%" PRIu64 " passed, %" PRIu64 " failed\n", draws - failed, failed);
    return failed > 0;
}
