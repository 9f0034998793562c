/* The floor of a binding with an event loop: the wire's floor (raw-scripts of rust/src/raw.rs), on an I/O thread as
 * Quorlock's own. It writes and reads and decides nothing: what it takes is what our scripts and two hops between
 * threads take. Built twice, with NODE as an addon of Node; asyncio calls it by ctypes, and in a cycle not at all.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define MAX_NODES 5
#define MAX_WORKERS 64
/* Steps that a node may owe: those of nodes behind the quorum, and one of each worker. A power of two. */
#define OWED (1 << 16)
#define TOKEN "0123456789abcdef0123456789abcdef01234567"
#define WAITER "1 lock:#in:0123456789abcdef0123456789abcdef"
#define RECORD "1 0123456789abcdef0123456789abcdef 30000"
#define RECORD_KEY "lock:#raw:record"
#define QUARANTINE_KEY "lock:#raw:quarantine"

struct node {
  int fd;
  /* Values that the reply under way lacks, and whether the next line is the text of one. */
  int lacks, text;
  struct { int worker; unsigned step; } owed[OWED];
  unsigned first, end;
  char *out;
  size_t length, room;
};

struct worker {
  char *requests[2];
  size_t lengths[2];
  unsigned step;
  int answers;
};

static struct node nodes[MAX_NODES];
static struct worker workers[MAX_WORKERS];
static int node_count, wake, bell;
/* The only worker's next step is wanted whenever `wake` is written to, and `bell` tells that it is over. */
static int alone;
/* With an answer from so many a step is over. */
static int quorum;
static void (*ring)(void);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Under the lock: workers whose next step is wanted, and those whose step is over. */
static int wanted[MAX_WORKERS], wanted_count, over[MAX_WORKERS], over_count;

static void die(const char *what) {
  perror(what);
  exit(1);
}

static size_t command(char *to, const char *const *words, int count) {
  char *at = to + sprintf(to, "*%d\r\n", count);
  for (int i = 0; i < count; i++) at += sprintf(at, "$%zu\r\n%s\r\n", strlen(words[i]), words[i]);
  return at - to;
}

/* Sends a command and reads its reply, which has one line or, if it is long, two. */
static void ask(int fd, const char *const *words, int count, char *reply, size_t room) {
  size_t length = 64;
  for (int i = 0; i < count; i++) length += strlen(words[i]) + 32;
  char *text = malloc(length);
  length = command(text, words, count);
  if (send(fd, text, length, 0) != (ssize_t)length) die("send");
  ssize_t got = recv(fd, reply, room - 1, 0);
  if (got <= 0 || reply[0] == '-') die("reply");
  reply[got] = 0;
  free(text);
}

static char *script(const char *folder, const char *name) {
  char *text = NULL, path[4096];
  size_t length = 0;
  FILE *all = open_memstream(&text, &length);
  const char *parts[] = {"line", name};
  for (int i = 0; i < 2; i++) {
    snprintf(path, sizeof path, "%s/%s.lua", folder, parts[i]);
    FILE *part = fopen(path, "r");
    if (!part) die(path);
    for (int c; (c = fgetc(part)) != EOF;) fputc(c, all);
    fclose(part);
  }
  fclose(all);
  return text;
}

static void reach(struct node *node, int port, const char *folder, char hashes[2][64]) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  const char *names[] = {"acquire", "release"};
  char reply[256];
  int yes = 1;
  node->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(node->fd, (struct sockaddr *)&address, sizeof address)) die("connect");
  setsockopt(node->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  for (int i = 0; i < 2; i++) {
    char *text = script(folder, names[i]);
    ask(node->fd, (const char *[]){"SCRIPT", "LOAD", text}, 3, reply, sizeof reply);
    sscanf(reply, "$40\r\n%40s", hashes[i]);
    free(text);
  }
  ask(node->fd, (const char *[]){"SET", RECORD_KEY, RECORD}, 3, reply, sizeof reply);
  node->lacks = 1;
}

/* The same bytes for each cycle: servers and client have one clock, so a time that is far enough serves them all. */
static void prepare(struct worker *worker, int number, int plain, char hashes[2][64]) {
  char key[64], queue[64], reservation[64], counter[64], late[32], fence[32], text[2048];
  struct timeval now;
  gettimeofday(&now, NULL);
  snprintf(late, sizeof late, "%lld", (now.tv_sec + 3600) * 1000000LL);
  snprintf(fence, sizeof fence, "%lld", now.tv_sec * 1000000LL);
  snprintf(key, sizeof key, "lock:{bench-%d}", number);
  snprintf(queue, sizeof queue, "lock:#q:{bench-%d}", number);
  snprintf(reservation, sizeof reservation, "lock:#r:{bench-%d}", number);
  snprintf(counter, sizeof counter, "lock:#f:{bench-%d}", number);
  const char *plain_acquire[] = {"EVALSHA", hashes[0], "3", key, queue, reservation, TOKEN, "30000", "200 7200 10000", WAITER};
  const char *plain_release[] = {"EVALSHA", hashes[1], "3", key, queue, reservation, TOKEN, "", "200"};
  const char *acquire[] = {"EVALSHA", hashes[0], "6", key, queue, reservation, counter, RECORD_KEY, QUARANTINE_KEY,
                           TOKEN, "30000", "200 7200 10000", WAITER, RECORD, late, fence, "600000"};
  const char *release[] = {"EVALSHA", hashes[1], "5", key, queue, reservation, RECORD_KEY, QUARANTINE_KEY,
                           TOKEN, "", "200", RECORD};
#define WORDS(words) (words), (int)(sizeof(words) / sizeof *(words))
  for (int i = 0; i < 2; i++) {
    worker->lengths[i] = i == 0 ? (plain ? command(text, WORDS(plain_acquire)) : command(text, WORDS(acquire)))
                                : (plain ? command(text, WORDS(plain_release)) : command(text, WORDS(release)));
    worker->requests[i] = malloc(worker->lengths[i]);
    memcpy(worker->requests[i], text, worker->lengths[i]);
  }
}

static void begin(int number) {
  struct worker *worker = &workers[number];
  int which = worker->step++ % 2;
  worker->answers = 0;
  for (struct node *node = nodes; node < nodes + node_count; node++) {
    if (node->length + worker->lengths[which] > node->room)
      node->out = realloc(node->out, node->room = 2 * (node->room + worker->lengths[which]));
    memcpy(node->out + node->length, worker->requests[which], worker->lengths[which]);
    node->length += worker->lengths[which];
    node->owed[node->end % OWED].worker = number;
    node->owed[node->end++ % OWED].step = worker->step;
    if (node->end - node->first == OWED) die("a node owes too much");
  }
}

static void flush(void) {
  for (struct node *node = nodes; node < nodes + node_count; node++) {
    if (node->length && send(node->fd, node->out, node->length, MSG_NOSIGNAL) != (ssize_t)node->length) die("send");
    node->length = 0;
  }
}

/* A node has answered what it owed longest; whether a step is over with it. */
static int answered(struct node *node, int *number) {
  unsigned step = node->owed[node->first % OWED].step;
  *number = node->owed[node->first++ % OWED].worker;
  return workers[*number].step == step && ++workers[*number].answers == quorum;
}

/* Reads what there is. Replies are lines: `*` announces more values, `$` a line with the text of one. */
static int replies(struct node *node, int *done) {
  static char data[1 << 16];
  int count = 0;
  ssize_t got = recv(node->fd, data, sizeof data, MSG_DONTWAIT);
  if (got <= 0 && errno != EAGAIN) die("recv");
  for (char *at = data; got > 0 && at < data + got;) {
    char *line_end = memchr(at, '\n', data + got - at);
    if (!line_end) die("half a line");
    if (node->text) node->text = 0, node->lacks--;
    else if (*at == '*') node->lacks += atoi(at + 1) - 1;
    else if (*at == '$') node->text = 1;
    else if (*at == '-') die("an error for a reply");
    else node->lacks--;
    if (node->lacks == 0) {
      node->lacks = 1;
      count += answered(node, &done[count]);
    }
    at = line_end + 1;
  }
  return count;
}

__attribute__((noreturn)) static void *drive(void *unused) {
  int poll = epoll_create1(EPOLL_CLOEXEC), done[MAX_WORKERS];
  struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u32 = MAX_NODES}, events[MAX_NODES + 1];
  (void)unused;
  epoll_ctl(poll, EPOLL_CTL_ADD, wake, &event);
  for (int i = 0; i < node_count; i++) {
    event.data.u32 = i;
    epoll_ctl(poll, EPOLL_CTL_ADD, nodes[i].fd, &event);
  }
  for (;;) {
    int count = epoll_wait(poll, events, MAX_NODES + 1, -1), finished = 0, first = 0;
    for (int i = 0; i < count; i++) {
      if (events[i].data.u32 < MAX_NODES) {
        finished += replies(&nodes[events[i].data.u32], done + finished);
        continue;
      }
      pthread_mutex_lock(&lock);
      if (alone) wanted[wanted_count++] = 0;
      for (int k = 0; k < wanted_count; k++) begin(wanted[k]);
      wanted_count = 0;
      pthread_mutex_unlock(&lock);
      flush();
    }
    if (!finished) continue;
    pthread_mutex_lock(&lock);
    first = over_count == 0;
    if (!alone) {
      memcpy(over + over_count, done, finished * sizeof *done);
      over_count += finished;
    }
    pthread_mutex_unlock(&lock);
    if (first) ring();
  }
}

static void start(const char *urls, const char *folder, int worker_count, int plain) {
  char hashes[2][64];
  pthread_t thread;
  for (const char *at = urls; (at = strstr(at, "127.0.0.1:")); node_count++)
    reach(&nodes[node_count], atoi(at += strlen("127.0.0.1:")), folder, hashes);
  quorum = node_count / 2 + 1;
  for (int i = 0; i < worker_count; i++) prepare(&workers[i], i, plain, hashes);
  wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (pthread_create(&thread, NULL, drive, NULL)) die("pthread_create");
}

#ifndef NODE

static void ring_eventfd(void) {
  if (eventfd_write(bell, 1)) die("eventfd_write");
}

void hop_open(const char *urls, const char *folder, int plain) {
  alone = 1;
  ring = ring_eventfd;
  start(urls, folder, 1, plain);
}

int hop_wake(void) { return wake; }
int hop_bell(void) { return bell; }

#else

#include <node_api.h>

static napi_threadsafe_function function;

static void ring_node(void) { napi_call_threadsafe_function(function, NULL, napi_tsfn_nonblocking); }

/* open(urls, folder, workers, plain, ring) */
static napi_value open_nodes(napi_env env, napi_callback_info info) {
  napi_value given[5], name;
  size_t count = 5;
  char urls[1024], folder[1024];
  int32_t worker_count;
  bool plain;
  napi_get_cb_info(env, info, &count, given, NULL, NULL);
  napi_get_value_string_utf8(env, given[0], urls, sizeof urls, NULL);
  napi_get_value_string_utf8(env, given[1], folder, sizeof folder, NULL);
  napi_get_value_int32(env, given[2], &worker_count);
  napi_get_value_bool(env, given[3], &plain);
  napi_create_string_utf8(env, "hop", NAPI_AUTO_LENGTH, &name);
  napi_create_threadsafe_function(env, given[4], NULL, name, 0, 1, NULL, NULL, NULL, NULL, &function);
  ring = ring_node;
  start(urls, folder, worker_count, plain);
  return NULL;
}

/* go(numbers): the next steps of these workers. */
static napi_value go(napi_env env, napi_callback_info info) {
  napi_value numbers, number;
  size_t one = 1;
  uint32_t count;
  napi_get_cb_info(env, info, &one, &numbers, NULL, NULL);
  napi_get_array_length(env, numbers, &count);
  pthread_mutex_lock(&lock);
  for (uint32_t i = 0; i < count; i++) {
    napi_get_element(env, numbers, i, &number);
    napi_get_value_int32(env, number, &wanted[wanted_count++]);
  }
  pthread_mutex_unlock(&lock);
  if (eventfd_write(wake, 1)) die("eventfd_write");
  return NULL;
}

/* take(): the workers whose step is over. */
static napi_value take(napi_env env, napi_callback_info info) {
  napi_value numbers, number;
  int taken[MAX_WORKERS], count;
  (void)info;
  pthread_mutex_lock(&lock);
  count = over_count;
  memcpy(taken, over, count * sizeof *over);
  over_count = 0;
  pthread_mutex_unlock(&lock);
  napi_create_array_with_length(env, count, &numbers);
  for (int i = 0; i < count; i++) {
    napi_create_int32(env, taken[i], &number);
    napi_set_element(env, numbers, i, number);
  }
  return numbers;
}

NAPI_MODULE_INIT() {
  napi_property_descriptor functions[] = {{"open", 0, open_nodes, 0, 0, 0, napi_default, 0},
                                          {"go", 0, go, 0, 0, 0, napi_default, 0},
                                          {"take", 0, take, 0, 0, 0, napi_default, 0}};
  napi_define_properties(env, exports, 3, functions);
  return exports;
}

#endif
