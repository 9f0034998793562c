/* The floor of a binding with an event loop: the wire's floor (raw-native of rust/src/raw.rs), on an I/O thread as
 * Quorlock's own. It writes and reads and decides nothing: what it takes is what our requests and two hops between
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
#define TRAILER (-1)
#define FENCE_DIGITS 16
/* Steps that a node may owe: those of nodes behind the quorum, and one of each worker. A power of two. */
#define OWED (1 << 16)
/* A token, and behind the dot no label. */
#define VALUE "0123456789abcdef0123456789abcdef01234567."
#define DELETE "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
#define RECORD "1 0123456789abcdef0123456789abcdef 30000"
#define RECORD_KEY "lock:#raw:record"
#define QUARANTINE_KEY "lock:#raw:quarantine"

struct node {
  int fd;
  /* Values that the reply under way lacks, and whether the next line is the text of one. */
  int lacks, text;
  /* What the node owes: so many replies to a step of a worker, or with TRAILER those that end a write. */
  struct { int worker, replies; unsigned step; } owed[OWED];
  unsigned first, end;
  /* Votes that wait for their trailer, and whether what is to be written asks for some. */
  struct { int worker; unsigned step; } votes[MAX_WORKERS];
  int vote_count, asks;
  char *out;
  size_t length, room;
};

struct worker {
  char *requests[2];
  size_t lengths[2];
  int replies[2];
  /* Where the next fence stands in the request: a number of so many digits. */
  char *fence;
  unsigned step;
  int answers;
};

static struct node nodes[MAX_NODES];
static struct worker workers[MAX_WORKERS];
static int node_count, wake, bell;
/* Of our defaults a write that asks for votes ends with a look at the record. */
static char trailer[512];
static size_t trailer_length;
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

static void reach(struct node *node, int port, char hash[64]) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  char reply[256];
  int yes = 1;
  node->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(node->fd, (struct sockaddr *)&address, sizeof address)) die("connect");
  setsockopt(node->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  ask(node->fd, (const char *[]){"SCRIPT", "LOAD", DELETE}, 3, reply, sizeof reply);
  sscanf(reply, "$40\r\n%40s", hash);
  ask(node->fd, (const char *[]){"SET", RECORD_KEY, RECORD}, 3, reply, sizeof reply);
  node->lacks = 1;
}

/* The same bytes for each cycle, but for the fence: servers and client have one clock, so an end that is far enough
 * serves them all. */
static void prepare(struct worker *worker, int number, int plain, const char *hash) {
  char key[64], counter[64], end[32], fence[32], text[2048];
  struct timeval now;
  gettimeofday(&now, NULL);
  snprintf(end, sizeof end, "%lld", (now.tv_sec + 3600) * 1000LL);
  snprintf(fence, sizeof fence, "%0*lld", FENCE_DIGITS, now.tv_sec * 1000000LL);
  snprintf(key, sizeof key, "lock:{bench-%d}", number);
  snprintf(counter, sizeof counter, "lock:#f:{bench-%d}", number);
  const char *set_plain[] = {"SET", key, VALUE, "NX", "PX", "30000"};
  const char *set[] = {"SET", key, VALUE, "NX", "PXAT", end};
  const char *mark[] = {"ZADD", counter, "GT", "CH", fence, "f"};
  const char *release[] = {"EVALSHA", hash, "1", key, VALUE};
#define WORDS(words) (words), (int)(sizeof(words) / sizeof *(words))
  size_t length = plain ? command(text, WORDS(set_plain)) : command(text, WORDS(set));
  size_t before = length;
  if (!plain) length += command(text + length, WORDS(mark));
  for (int i = 0; i < 2; i++) {
    if (i == 1) length = command(text, WORDS(release));
    worker->lengths[i] = length;
    worker->replies[i] = i == 0 && !plain ? 2 : 1;
    worker->requests[i] = malloc(length + 1);
    memcpy(worker->requests[i], text, length);
    worker->requests[i][length] = 0;
  }
  if (!plain) worker->fence = strstr(worker->requests[0] + before, fence);
}

/* Each fence is larger than the one before. */
static void count_on(char *fence) {
  int at = FENCE_DIGITS - 1;
  while (fence[at] == '9') fence[at--] = '0';
  fence[at]++;
}

static void append(struct node *node, const char *text, size_t length, int worker, int count, unsigned step) {
  if (node->length + length > node->room) node->out = realloc(node->out, node->room = 2 * (node->room + length));
  memcpy(node->out + node->length, text, length);
  node->length += length;
  node->owed[node->end % OWED].worker = worker;
  node->owed[node->end % OWED].replies = count;
  node->owed[node->end++ % OWED].step = step;
  if (node->end - node->first == OWED) die("a node owes too much");
}

static void begin(int number) {
  struct worker *worker = &workers[number];
  int which = worker->step++ % 2;
  worker->answers = 0;
  if (which == 0 && worker->fence) count_on(worker->fence);
  for (struct node *node = nodes; node < nodes + node_count; node++) {
    append(node, worker->requests[which], worker->lengths[which], number, worker->replies[which], worker->step);
    node->asks |= which == 0 && worker->fence != NULL;
  }
}

static void flush(void) {
  for (struct node *node = nodes; node < nodes + node_count; node++) {
    if (node->asks) append(node, trailer, trailer_length, TRAILER, 2, 0);
    node->asks = 0;
    if (node->length && send(node->fd, node->out, node->length, MSG_NOSIGNAL) != (ssize_t)node->length) die("send");
    node->length = 0;
  }
}

/* Counts an answer to a step of a worker; whether the step is over with it. */
static int counts(int number, unsigned step) {
  return workers[number].step == step && ++workers[number].answers == quorum;
}

/* A node has sent a reply; which steps are over with it. A vote counts from its trailer on. */
static int answered(struct node *node, int *done) {
  unsigned at = node->first % OWED, step = node->owed[at].step;
  int worker = node->owed[at].worker, count = 0;
  if (--node->owed[at].replies) return 0;
  node->first++;
  if (worker != TRAILER && trailer_length && step % 2) {
    node->votes[node->vote_count].worker = worker;
    node->votes[node->vote_count++].step = step;
  } else if (worker != TRAILER) {
    if (counts(worker, step)) done[count++] = worker;
  } else {
    for (int i = 0; i < node->vote_count; i++)
      if (counts(node->votes[i].worker, node->votes[i].step)) done[count++] = node->votes[i].worker;
    node->vote_count = 0;
  }
  return count;
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
    else if (*at == '$' && at[1] == '-') node->lacks--;
    else if (*at == '$') node->text = 1;
    else if (*at == '-') die("an error for a reply");
    else node->lacks--;
    if (node->lacks == 0) {
      node->lacks = 1;
      count += answered(node, done + count);
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

static void start(const char *urls, int worker_count, int plain) {
  const char *look[] = {"MGET", RECORD_KEY, QUARANTINE_KEY}, *time[] = {"TIME"};
  char hash[64];
  pthread_t thread;
  for (const char *at = urls; (at = strstr(at, "127.0.0.1:")); node_count++)
    reach(&nodes[node_count], atoi(at += strlen("127.0.0.1:")), hash);
  quorum = node_count / 2 + 1;
  for (int i = 0; i < worker_count; i++) prepare(&workers[i], i, plain, hash);
  if (!plain) {
    trailer_length = command(trailer, look, 3);
    trailer_length += command(trailer + trailer_length, time, 1);
  }
  wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (pthread_create(&thread, NULL, drive, NULL)) die("pthread_create");
}

#ifndef NODE

static void ring_eventfd(void) {
  if (eventfd_write(bell, 1)) die("eventfd_write");
}

void hop_open(const char *urls, int plain) {
  alone = 1;
  ring = ring_eventfd;
  start(urls, 1, plain);
}

int hop_wake(void) { return wake; }
int hop_bell(void) { return bell; }

#else

#include <node_api.h>

static napi_threadsafe_function function;

static void ring_node(void) { napi_call_threadsafe_function(function, NULL, napi_tsfn_nonblocking); }

/* open(urls, workers, plain, ring) */
static napi_value open_nodes(napi_env env, napi_callback_info info) {
  napi_value given[4], name;
  size_t count = 4;
  char urls[1024];
  int32_t worker_count;
  bool plain;
  napi_get_cb_info(env, info, &count, given, NULL, NULL);
  napi_get_value_string_utf8(env, given[0], urls, sizeof urls, NULL);
  napi_get_value_int32(env, given[1], &worker_count);
  napi_get_value_bool(env, given[2], &plain);
  napi_create_string_utf8(env, "hop", NAPI_AUTO_LENGTH, &name);
  napi_create_threadsafe_function(env, given[3], NULL, name, 0, 1, NULL, NULL, NULL, NULL, &function);
  ring = ring_node;
  start(urls, worker_count, plain);
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
