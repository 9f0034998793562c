/**
 * @file quorlock.h
 * Quorlock: a distributed lock over independent Redis or Valkey masters, for C.
 *
 *     quorlock_client_t *client = NULL;
 *     quorlock_lock_t *lock = NULL;
 *     quorlock_lease_t *lease = NULL;
 *     quorlock_error_t *error = NULL;
 *     if (quorlock_client_new(NULL, &client, &error) == QUORLOCK_OK &&
 *         quorlock_lock_new(client, "orders:42", 9, NULL, &lock, &error) == QUORLOCK_OK &&
 *         quorlock_lock(lock, QUORLOCK_DEFAULT, NULL, &lease, &error) == QUORLOCK_OK) {
 *         work();
 *         quorlock_unlock(lease, NULL, &error);
 *     }
 *     if (error) fprintf(stderr, "%s\n", quorlock_error_text(error));
 *     quorlock_error_free(error);
 *     quorlock_lease_free(lease);
 *     quorlock_lock_free(lock);
 *     quorlock_client_free(client);
 *
 * Conventions, for all of it:
 *
 * - Handles are opaque. Each type has its own `_free`, which takes NULL too; a
 *   handle is freed once. A call that waits, or runs callbacks, may be under way in
 *   another thread then, or around the callback that frees: it goes on without the
 *   handle. No other call may. Only a `_free` frees.
 * - What is taken as a pointer to const may be used by all threads at once. Builders
 *   of options are for one thread at a time.
 * - Functions that can fail return a code, #QUORLOCK_OK or the kind of the error,
 *   whose numbers never change. Their last parameter, if not NULL, then receives an
 *   error object for the caller to free. It is written on failure only; other
 *   results are written on success only. Start all of them with NULL.
 * - Inputs come before outputs. Data is followed by its length and need not end with
 *   NUL; it is copied. NULL with length 0 is empty.
 * - A NULL where none is allowed is #QUORLOCK_INVALID_ARGUMENT, not a crash.
 * - Times are whole milliseconds. #QUORLOCK_FOREVER is a time without end,
 *   #QUORLOCK_DEFAULT what the options say.
 * - Callbacks get their userdata first, and may call anything of this header. They run
 *   on one thread of the library's own; those of what was started with a
 *   quorlock_queue_t run on the thread that dispatches or frees that queue; the work of a
 *   leader runs on the thread that called quorlock_election_run().
 * - In a forked child, what the parent has used fails with #QUORLOCK_FORKED; its `_free`
 *   does nothing, and the child holds no lease. Make a new client there, or use one
 *   that nobody had used before the fork.
 * - No panic crosses this boundary: #QUORLOCK_INTERNAL. The library is never unloaded.
 *
 * Of the process that it lives in:
 *
 * - A thread that calls needs 128 KiB of stack, and one of less than 64 KiB may end the
 *   process. Callbacks on the library's threads have 2 MiB.
 * - Where memory cannot be had the process is aborted, as it is by any library in Rust.
 * - From a signal handler nothing here may be called. Write to a pipe, or post a
 *   semaphore, and let a thread call quorlock_cancel().
 * - pthread_cancel() of a thread in a call acts when that is over: use a token.
 * - exit() and a return from main release what is held. After _exit(), abort() and a
 *   signal that kills, the nodes free it when the ttl is over.
 * - Of libraries in Rust that are linked statically a program can have one: their
 *   symbols clash. Link this one shared beside another, or both.
 *
 * Made from the comments in ffi-c/src by cbindgen 0.29.4: do not change it by hand.
 */


#ifndef QUORLOCK_H
#define QUORLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QUORLOCK_VERSION "0.1.0"
#define QUORLOCK_VERSION_MAJOR 0
#define QUORLOCK_VERSION_MINOR 1
#define QUORLOCK_VERSION_PATCH 0

/** The result of the call must be looked at. */
#if defined(__GNUC__)
#define QUORLOCK_MUST_USE __attribute__((warn_unused_result))
#else
#define QUORLOCK_MUST_USE
#endif

/**
 * Number of the binary interface that this header describes: the number in the
 * name of the shared library, `libquorlock.so.0`.
 */
#define QUORLOCK_ABI_VERSION 0

/**
 * The call has done what it says.
 */
#define QUORLOCK_OK 0

/**
 * An argument or option is not valid. Fix the call.
 */
#define QUORLOCK_INVALID_ARGUMENT 1

/**
 * The lock is held by another, and the call was told not to wait.
 */
#define QUORLOCK_CONTENDED 2

/**
 * The wait is over and the lock is still held by another.
 */
#define QUORLOCK_TIMEOUT 3

/**
 * Too few nodes answered for a decision. Look at the nodes.
 */
#define QUORLOCK_QUORUM_UNAVAILABLE 4

/**
 * The lease is held no longer. Stop the protected work.
 */
#define QUORLOCK_LOCK_LOST 5

/**
 * Release or extension by an owner that holds nothing.
 */
#define QUORLOCK_NOT_OWNER 6

/**
 * As many calls of this client wait for the lock as max_waiters allows. Shed load.
 */
#define QUORLOCK_TOO_MANY_WAITERS 7

/**
 * Nodes or credentials are set up wrong. Never retried: fix the settings.
 */
#define QUORLOCK_MISCONFIGURED 8

/**
 * The wait was cancelled by quorlock_cancel().
 */
#define QUORLOCK_CANCELLED 9

/**
 * The client is closed. Make a new one.
 */
#define QUORLOCK_CLOSED 10

/**
 * The handle was used before this process was forked. Make a client here.
 */
#define QUORLOCK_FORKED 11

/**
 * A bug in Quorlock, or a panic caught at its boundary. Report it.
 */
#define QUORLOCK_INTERNAL 12

/**
 * An owner that shares a lock wants it for itself: two that did would wait for each
 * other without end. Release the shared lease first, and look again at what it
 * protected.
 */
#define QUORLOCK_WOULD_DEADLOCK 13

/**
 * The guard is on for sets of three nodes and more.
 */
#define QUORLOCK_RESTART_GUARD_AUTO 0

/**
 * The guard is on, and a wholly new set waits, too.
 */
#define QUORLOCK_RESTART_GUARD_ON 1

/**
 * There is none: a restart without data may give a lock to a second holder.
 */
#define QUORLOCK_RESTART_GUARD_OFF 2

/**
 * A lock is stored as Quorlock stores it.
 */
#define QUORLOCK_LAYOUT_PLAIN 0

/**
 * A lock is stored as Redisson stores its RLock, and is one with that.
 */
#define QUORLOCK_LAYOUT_REDISSON 1

/**
 * A time without end, or no limit.
 */
#define QUORLOCK_FOREVER -1

/**
 * A time as the options say.
 */
#define QUORLOCK_DEFAULT -2

/**
 * It is valid.
 */
#define QUORLOCK_LEASE_HELD 0

/**
 * Lost: its validity ended before it was renewed: not renewed at all, or too few nodes
 * could be reached.
 */
#define QUORLOCK_LEASE_EXPIRED 1

/**
 * Lost: nodes answered that the lock is another's: deleted, or lost in a restart, and
 * taken since.
 */
#define QUORLOCK_LEASE_REFUSED 2

/**
 * Lost: it reached max_hold.
 */
#define QUORLOCK_LEASE_MAX_HOLD 3

/**
 * Lost: the thread that owned it ended without releasing it.
 */
#define QUORLOCK_LEASE_OWNER_GONE 4

/**
 * Lost: its client was closed.
 */
#define QUORLOCK_LEASE_CLOSED 5

/**
 * Lost: an operator took the lock away by force.
 */
#define QUORLOCK_LEASE_FORCED 6

/**
 * It was released.
 */
#define QUORLOCK_LEASE_RELEASED -1

/**
 * There is none: NULL, or a lease of the process that this one was forked from.
 */
#define QUORLOCK_LEASE_NONE -2

/**
 * A quorum has the vote of one holder.
 */
#define QUORLOCK_VERDICT_HELD 1

/**
 * A quorum keeps it taken for a lease that was released: see
 * quorlock_lock_options_set_keep().
 */
#define QUORLOCK_VERDICT_KEPT 2

/**
 * A quorum has no vote for any holder.
 */
#define QUORLOCK_VERDICT_FREE 3

/**
 * A quorum has answered and does not agree: a client is about to win it, or to give
 * it up, or has lost nodes.
 */
#define QUORLOCK_VERDICT_SPLIT 4

/**
 * Fewer than a quorum have answered, but for nodes that may have lost what they had.
 */
#define QUORLOCK_VERDICT_UNKNOWN 5

/**
 * As the fence of quorlock_lock_force_release(): that of any holder.
 */
#define QUORLOCK_ANY_FENCE UINT64_MAX

/**
 * A quorum votes, and there is nothing to fix.
 */
#define QUORLOCK_HEALTH_WORKS 1

/**
 * A quorum votes, but something needs to be fixed or waited for.
 */
#define QUORLOCK_HEALTH_WORKS_BUT 2

/**
 * Fewer nodes than a quorum would vote: no lock can be won now.
 */
#define QUORLOCK_HEALTH_CANNOT 3

/**
 * Something is wrong that the library can bear: look at it.
 */
#define QUORLOCK_LOG_WARN 2

/**
 * Something worth knowing.
 */
#define QUORLOCK_LOG_INFO 3

/**
 * A token that ends waits from another thread. One token may be given to many
 * calls; once used it stays so.
 */
typedef struct quorlock_cancel_t quorlock_cancel_t;

/**
 * Options of a client; those that locks have too are the defaults of its
 * locks. For one thread at a time.
 *
 * A setter returns #QUORLOCK_INVALID_ARGUMENT for what can be seen to be
 * wrong at once. That may be ignored: quorlock_client_new() reports the first
 * mistake, with a message, unless the option has been set rightly since.
 */
typedef struct quorlock_client_options_t quorlock_client_options_t;

/**
 * A set of nodes, and what runs for it: connections, renewal of leases.
 * Connects when first needed. May be used by all threads at once.
 */
typedef struct quorlock_client_t quorlock_client_t;

/**
 * One candidate of an election. The candidate that holds the lock of its name leads, for a
 * term; the fence of a term grows from term to term. A term has no owner: it is not entered again,
 * and does not end with a thread. May be used by all threads at once, for one term at a
 * time.
 */
typedef struct quorlock_election_t quorlock_election_t;

/**
 * What went wrong in a call: a kind, a message that says what to do, and what
 * each node answered. Made by calls that fail; free it with
 * quorlock_error_free(). Its texts are UTF-8, end with NUL, hold no passwords
 * and no tokens, and live as long as it does.
 */
typedef struct quorlock_error_t quorlock_error_t;

/**
 * What the nodes have of a lock, and what follows from that. It tells how it was:
 * a program that wants to act on a lock has to acquire it. Free it with
 * quorlock_inspection_free(). Its texts are UTF-8, end with NUL, and live as long
 * as it does.
 */
typedef struct quorlock_inspection_t quorlock_inspection_t;

/**
 * Who leads, as far as the nodes say. It tells how it was. Free it with
 * quorlock_leadership_free().
 */
typedef struct quorlock_leadership_t quorlock_leadership_t;

/**
 * A hold on a lock. Valid until released or lost; renewed in the background,
 * unless its lock says otherwise. May be used by all threads at once.
 */
typedef struct quorlock_lease_t quorlock_lease_t;

/**
 * Holds on several locks that were acquired together. They are held while each of them
 * is. The loss of one is the loss of all: the work that needs them has to stop. Those that
 * are not lost stay held until they are released, so that no other client comes in while it
 * stops. May be used by all threads at once.
 */
typedef struct quorlock_leases_t quorlock_leases_t;

/**
 * Options of a lock. What is not set is as its client has it. For one thread
 * at a time; mistakes are reported as those of quorlock_client_options_t, by
 * quorlock_lock_new().
 */
typedef struct quorlock_lock_options_t quorlock_lock_options_t;

/**
 * A name with options; holds nothing. May be used by all threads at once.
 */
typedef struct quorlock_lock_t quorlock_lock_t;

/**
 * Several names with the same options, to be held together; holds nothing. May be used by
 * all threads at once, as quorlock_lock_t.
 */
typedef struct quorlock_locks_t quorlock_locks_t;

/**
 * Follows who leads. Free it with quorlock_observer_free().
 */
typedef struct quorlock_observer_t quorlock_observer_t;

/**
 * The state of a set. It tells how it was. Free it with quorlock_probe_free().
 * Its texts are UTF-8, end with NUL, have no secrets, and live as long as it does.
 */
typedef struct quorlock_probe_t quorlock_probe_t;

/**
 * Where an event loop hears what has come of calls that were started: a descriptor that
 * can be read while something is there, for poll, epoll, libuv or any other, and
 * quorlock_queue_dispatch(), which then runs the callbacks. May be used by all threads at
 * once. Free it with quorlock_queue_free().
 */
typedef struct quorlock_queue_t quorlock_queue_t;

/**
 * Counts of a client since it was made.
 */
typedef struct quorlock_stats_t {
  /**
   * Leases won.
   */
  uint64_t acquired;
  /**
   * Acquisitions that were re-entries.
   */
  uint64_t reentered;
  /**
   * Attempts that did not win, each undone.
   */
  uint64_t attempts_lost;
  /**
   * Rounds that a node's timeout decided: no quorum had answered before.
   */
  uint64_t timeouts_awaited;
  /**
   * Leases released while held.
   */
  uint64_t released;
  /**
   * Leases lost.
   */
  uint64_t lost;
  /**
   * Votes renewed.
   */
  uint64_t renewals;
  /**
   * Votes that were missing and have been stored anew.
   */
  uint64_t repairs;
  /**
   * Releases that nodes have not acknowledged yet. Falls too.
   */
  uint64_t releases_pending;
  /**
   * Steps seen of nodes' clocks.
   */
  uint64_t clock_steps;
  /**
   * Fences written back to a node because the votes disagreed.
   */
  uint64_t write_backs;
  /**
   * Releases given up because too many waited for a node; their keys end by themselves.
   */
  uint64_t releases_dropped;
  /**
   * Connections made to nodes.
   */
  uint64_t connects;
  /**
   * Calls that wait in a line now, behind the one that asks the nodes or holds the lock.
   * Falls too.
   */
  uint64_t waiting;
  /**
   * Leases that were released and went to the next in line of this client without a
   * request.
   */
  uint64_t passed_on;
  /**
   * Calls that stand in the queue of a node now, among those of all clients: at most one
   * for each lock. Falls too.
   */
  uint64_t queued;
  /**
   * Waiters of other clients before the last of those, as far as the node has said.
   * Falls too.
   */
  uint64_t ahead;
  /**
   * Messages that named no waiter, or that no node sends: late, or forged.
   */
  uint64_t stray_messages;
} quorlock_stats_t;

/**
 * Called once when a lease is lost, on a thread of Quorlock's own for such
 * calls, where it may block: that holds up no renewal and no callback of another
 * lease, unless 64 of them block at one time. Callbacks may run at the same time,
 * on different threads: what they share needs a lock of yours. `state` is one of
 * #QUORLOCK_LEASE_EXPIRED to #QUORLOCK_LEASE_FORCED. It must not throw. It may
 * free the lease. It runs under the signal mask of the thread that set it, and so do
 * programs that it starts. To free another lease waits for a callback of that which runs:
 * so hold no lock then that the other callback takes.
 */
typedef void (*quorlock_lost_callback_t)(void *userdata, int32_t state);

/**
 * Called once with what has come of quorlock_lock_start(): either `lease`, or `error` for
 * why there is none; the other is NULL. Both are the caller's, to free. It must not throw.
 */
typedef void (*quorlock_locked_callback_t)(void *userdata,
                                           struct quorlock_lease_t *lease,
                                           struct quorlock_error_t *error);

/**
 * Called once with what has come of quorlock_unlock_start(), or of
 * quorlock_unlock_all_start(): whether the lock was still held, or every one of them; and
 * NULL, or an error, which is the caller's to free. It must not throw.
 */
typedef void (*quorlock_unlocked_callback_t)(void *userdata,
                                             bool was_held,
                                             struct quorlock_error_t *error);

/**
 * Called once with what has come of quorlock_lock_all_start(): as
 * #quorlock_locked_callback_t.
 */
typedef void (*quorlock_all_locked_callback_t)(void *userdata,
                                               struct quorlock_leases_t *leases,
                                               struct quorlock_error_t *error);

/**
 * Who holds a lock, or keeps it.
 */
typedef struct quorlock_holder_t {
  /**
   * The label of its client. NULL where it has none, or is a client of another
   * library.
   */
  const char *label;
  /**
   * How many nodes have its vote; 0: it has no holder.
   */
  uint64_t votes;
  /**
   * For how many more milliseconds a quorum of these votes lasts, unless they are
   * renewed; -1: they have no end.
   */
  int64_t left_ms;
  /**
   * When it asked for the lock, by the nodes' clocks, in milliseconds since the
   * epoch; 0 where that is not known.
   */
  int64_t since_ms;
  /**
   * The fence of its hold, also where others have asked for the lock in vain since; 0 for
   * none. Of a lease that was passed on within its client, or won where nodes had counted
   * differently far, from its next renewal on. Of readers, and of a holder that is known to
   * no node by its fence, the largest that a node has counted, which is never less than the
   * holder's.
   */
  uint64_t fence;
} quorlock_holder_t;

/**
 * What one node has of a lock.
 */
typedef struct quorlock_node_view_t {
  /**
   * The node, as in errors.
   */
  const char *node;
  /**
   * What stands there, as a word: "held", "shared" (by readers), "kept", "free",
   * "reserved" (free, and kept for a waiter that was called), "foreign" (of another
   * library, or of none), "unknown".
   */
  const char *state;
  /**
   * The label of the holder that has the vote. NULL for none.
   */
  const char *label;
  /**
   * Why it did not say. NULL where it did.
   */
  const char *error;
  /**
   * For how many more milliseconds that lasts; -1: without an end, or not known.
   */
  int64_t left_ms;
  /**
   * The last fence that the node has counted, for the client that asked last; 0 for none.
   */
  uint64_t fence;
  /**
   * How many wait in its queue.
   */
  uint64_t queued;
  /**
   * For how many more milliseconds it gives no vote, for it may have lost its memory.
   */
  int64_t quarantine_ms;
} quorlock_node_view_t;

/**
 * The work of a leader: called by quorlock_election_run(), on its thread, when the
 * candidate leads. `term` is lent until it returns: look at quorlock_lease_is_held() before
 * each step that only a leader may do, and give quorlock_lease_fence() to what you write
 * to. Do not free it.
 *
 * Returns 0 when the work is done; any other number says that it failed. It may then have
 * written a text to `why`, for the log: at most `room` bytes, with the NUL at the end. It
 * must not throw.
 */
typedef int32_t (*quorlock_work_callback_t)(void *userdata,
                                            const struct quorlock_lease_t *term,
                                            char *why,
                                            size_t room);

/**
 * Called by quorlock_election_run(), on its thread, when the work of a term has returned,
 * whatever ended it: from here on the candidate does nothing of that term. It must not
 * throw.
 */
typedef void (*quorlock_stopped_callback_t)(void *userdata);

/**
 * What a set is, as this client has it, and how many of its nodes would vote.
 */
typedef struct quorlock_set_report_t {
  /**
   * Its name.
   */
  const char *set_name;
  /**
   * How many nodes must vote for a lock.
   */
  uint64_t quorum;
  /**
   * How many nodes would give a vote now.
   */
  uint64_t votes;
  /**
   * The longest ttl of its locks.
   */
  int64_t max_ttl_ms;
  /**
   * Whether this client guards restarts.
   */
  bool guard;
} quorlock_set_report_t;

/**
 * The state of one node. What is not known of a node that cannot be used is NULL, or
 * -1 where no other meaning is named.
 */
typedef struct quorlock_node_report_t {
  /**
   * The node, as in errors; never with credentials.
   */
  const char *node;
  /**
   * What it is: "redis", "valkey", or "memory" for a node within the process.
   */
  const char *server;
  /**
   * The version of that.
   */
  const char *version;
  /**
   * "master" or "replica".
   */
  const char *role;
  /**
   * Its eviction policy.
   */
  const char *eviction;
  /**
   * Its record: "expected", "none", "other", or "unknown" where it was not read. A node
   * within the process needs none: "expected".
   */
  const char *record;
  /**
   * How votes are given back there: "delifeq", "delex", or "script". NULL where that was
   * not tried.
   */
  const char *release;
  /**
   * The shortest of a few round trips, in microseconds.
   */
  int64_t round_trip_least_us;
  /**
   * The one in the middle of them.
   */
  int64_t round_trip_middle_us;
  /**
   * For how long it has run.
   */
  int64_t uptime_ms;
  /**
   * By how many microseconds its clock is ahead of the one in the middle of the set's;
   * negative: it is behind. 0 where clock_error_us is -1.
   */
  int64_t clock_us;
  /**
   * By how many microseconds that may be wrong; -1: it is not known.
   */
  int64_t clock_error_us;
  /**
   * How much memory it uses, in bytes.
   */
  int64_t memory_used;
  /**
   * How much it may use, in bytes; -1 also where it has no limit.
   */
  int64_t memory_limit;
  /**
   * For how many more milliseconds it gives no vote, for it may have lost its memory.
   */
  int64_t quarantine_ms;
  /**
   * How many fields of its record are not as this client expects them: see
   * quorlock_probe_difference().
   */
  uint64_t difference_count;
  /**
   * Whether it has answered.
   */
  bool answers;
  /**
   * Whether it would give a vote now.
   */
  bool votes;
} quorlock_node_report_t;

/**
 * One thing that a probe has found. `docs/operations/doctor.md` lists all that there are.
 */
typedef struct quorlock_finding_t {
  /**
   * Which one it is, such as "QD01": the same forever.
   */
  const char *id;
  /**
   * "error": it costs a vote, or breaks what is promised. "warning": to be fixed, or
   * waited for. "note": worth knowing.
   */
  const char *severity;
  /**
   * What is wrong, in words.
   */
  const char *what;
  /**
   * What to do about it.
   */
  const char *remedy;
  /**
   * The node that it is about. NULL: the set as a whole.
   */
  const char *node;
  /**
   * The place of that node in the node list, from 0. -1: the set as a whole.
   */
  int64_t node_index;
} quorlock_finding_t;

/**
 * Called with each line of the log, on a thread of Quorlock's own for such
 * calls. A callback that blocks holds up other lines, and no loss; beyond 1024 lines that
 * wait the oldest are dropped. `message` ends with NUL and is gone when the callback returns. It
 * holds no passwords and no tokens. While it runs, quorlock_log_event(), quorlock_log_template() and
 * quorlock_log_field() tell what the line consists of. It must not throw.
 */
typedef void (*quorlock_log_callback_t)(void *userdata, int32_t level, const char *message);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Number of the binary interface of the library that is loaded. A program
 * whose #QUORLOCK_ABI_VERSION differs must not go on.
 */
uint32_t quorlock_abi_version(void);

/**
 * Version of the library that is loaded, such as "0.1.0". Compare
 * #QUORLOCK_VERSION.
 */
const char *quorlock_version(void);

/**
 * The name of a code, such as "QuorumUnavailable"; "Ok" for 0 and NULL for a
 * number that is no code. The text lives as long as the library.
 */
const char *quorlock_kind_name(int32_t kind);

/**
 * What a code means in one sentence, without its full stop: what the message of every error of it
 * begins with, and errors can be grouped by, for the rest names locks and holders. NULL for 0 and
 * for a number that is no code. The text lives as long as the library.
 */
const char *quorlock_kind_summary(int32_t kind);

/**
 * Its kind: the code that the call has returned. 0 for NULL.
 */
int32_t quorlock_error_kind(const struct quorlock_error_t *error);

/**
 * Its message, without the nodes' answers: quorlock_kind_summary() of its kind, and what it is about.
 * NULL for NULL.
 */
const char *quorlock_error_message(const struct quorlock_error_t *error);

/**
 * All of it in one line, for a log: message and every node's answer. NULL for
 * NULL.
 */
const char *quorlock_error_text(const struct quorlock_error_t *error);

/**
 * How many nodes it tells of: all of the client, or none where the nodes
 * played no part.
 */
size_t quorlock_error_node_count(const struct quorlock_error_t *error);

/**
 * Address of a node, `index` counting from 0 in the order of the node list:
 * host:port or the path of a socket. NULL for an index beyond the last.
 */
const char *quorlock_error_node_address(const struct quorlock_error_t *error, size_t index);

/**
 * What that node answered, or why it could not be asked. NULL for an index
 * beyond the last.
 */
const char *quorlock_error_node_message(const struct quorlock_error_t *error, size_t index);

/**
 * The name of the lock that it is about: `len` bytes, without a NUL behind them. NULL,
 * and 0 bytes, where it is about none.
 */
const char *quorlock_error_lock_name(const struct quorlock_error_t *error, size_t *len);

/**
 * The label of the lock's holder, where a node has given it; NULL else. A wait that ends
 * (#QUORLOCK_TIMEOUT) nearly always has it; a try (#QUORLOCK_CONTENDED) is mostly refused by
 * a command that does not give it: ask quorlock_lock_inspect().
 */
const char *quorlock_error_holder(const struct quorlock_error_t *error);

/**
 * Frees an error. NULL is allowed.
 */
void quorlock_error_free(struct quorlock_error_t *error);

/**
 * New options, all at their defaults. Free them with
 * quorlock_client_options_free().
 */
QUORLOCK_MUST_USE struct quorlock_client_options_t *quorlock_client_options_new(void);

/**
 * Frees options. NULL is allowed.
 */
void quorlock_client_options_free(struct quorlock_client_options_t *options);

/**
 * The nodes: `count` URLs, each ending with NUL, such as
 * redis://[user:password@]host[:port][/db], rediss://… for TLS,
 * redis+unix:///path?db=1&user=u&password=p,
 * redis+sentinel://host:26379;host;host/master for a master with replicas that
 * sentinels know by that name, redis+cluster://host:6379;host for a Redis Cluster,
 * or memory://name for a node in this process. Not set, they are those of the environment variable
 * QUORLOCK_NODES, split at commas and blanks, and UTF-8; without it
 * redis://127.0.0.1:6379.
 */
int32_t quorlock_client_options_set_nodes(struct quorlock_client_options_t *options,
                                          const char *const *nodes,
                                          size_t count);

/**
 * See quorlock_lock_options_set_ttl(). Default: 10,000 ms.
 */
int32_t quorlock_client_options_set_ttl(struct quorlock_client_options_t *options, int64_t ttl_ms);

/**
 * See quorlock_lock_options_set_wait(). Default: 10,000 ms.
 */
int32_t quorlock_client_options_set_wait(struct quorlock_client_options_t *options,
                                         int64_t wait_ms);

/**
 * See quorlock_lock_options_set_renew(). Default: true.
 */
int32_t quorlock_client_options_set_renew(struct quorlock_client_options_t *options, bool renew);

/**
 * See quorlock_lock_options_set_max_hold(). Default: 3,600,000 ms.
 */
int32_t quorlock_client_options_set_max_hold(struct quorlock_client_options_t *options,
                                             int64_t max_hold_ms);

/**
 * See quorlock_lock_options_set_raw(). Default: false.
 */
int32_t quorlock_client_options_set_raw(struct quorlock_client_options_t *options, bool raw);

/**
 * See quorlock_lock_options_set_layout(). Default: "plain".
 */
int32_t quorlock_client_options_set_layout(struct quorlock_client_options_t *options,
                                           int32_t layout);

/**
 * See quorlock_lock_options_set_label(). Default: "host:pid".
 */
int32_t quorlock_client_options_set_label(struct quorlock_client_options_t *options,
                                          const char *text,
                                          size_t len);

/**
 * See quorlock_lock_options_set_fencing(). Default: true.
 */
int32_t quorlock_client_options_set_fencing(struct quorlock_client_options_t *options,
                                            bool fencing);

/**
 * See quorlock_lock_options_set_max_waiters(). Default: 10,000.
 */
int32_t quorlock_client_options_set_max_waiters(struct quorlock_client_options_t *options,
                                                int64_t max_waiters);

/**
 * See quorlock_lock_options_set_fair(). Default: false.
 */
int32_t quorlock_client_options_set_fair(struct quorlock_client_options_t *options, bool fair);

/**
 * See quorlock_lock_options_set_keep(). Default: 0.
 */
int32_t quorlock_client_options_set_keep(struct quorlock_client_options_t *options,
                                         int64_t keep_ms);

/**
 * See quorlock_lock_options_set_reentrant(). Default: true.
 */
int32_t quorlock_client_options_set_reentrant(struct quorlock_client_options_t *options,
                                              bool reentrant);

/**
 * See quorlock_lock_options_set_group(). Default: "".
 */
int32_t quorlock_client_options_set_group(struct quorlock_client_options_t *options,
                                          const char *text,
                                          size_t len);

/**
 * The longest ttl of any lock of the set, and so how long a node that may have lost its memory
 * gives no vote. 10 ms to 86,400,000 ms. Default: 60,000 ms.
 */
int32_t quorlock_client_options_set_max_ttl(struct quorlock_client_options_t *options,
                                            int64_t max_ttl_ms);

/**
 * Time for one request to one node: connect, queue, write and reply; at most a quarter of a
 * lock's ttl. A hung node costs no latency, for rounds end at the quorum. 1 ms to 60,000 ms.
 * Default: 250 ms.
 */
int32_t quorlock_client_options_set_node_timeout(struct quorlock_client_options_t *options,
                                                 int64_t node_timeout_ms);

/**
 * Time for a connection to a node to be made: name, TCP, TLS, and what the node is asked
 * before it may vote. Calls that ask once wait for the first connections as long, until a
 * quorum of nodes is connected. 1 ms to 60,000 ms. Default: 2,000 ms.
 */
int32_t quorlock_client_options_set_connect_timeout(struct quorlock_client_options_t *options,
                                                    int64_t connect_timeout_ms);

/**
 * Bound on the difference of clock rates, as a fraction: validity is the ttl less this part of
 * it and 2 ms. 0.001 to 0.5. Default: 0.01.
 */
int32_t quorlock_client_options_set_drift(struct quorlock_client_options_t *options, double drift);

/**
 * The fraction of the ttl that must be left when a lease is won. 0 to 0.9. Default: 0.1.
 */
int32_t quorlock_client_options_set_min_validity(struct quorlock_client_options_t *options,
                                                 double min_validity);

/**
 * Prefix of every key. It has at least one byte, and no braces. At most 256 bytes. Default:
 * "lock:".
 */
int32_t quorlock_client_options_set_namespace(struct quorlock_client_options_t *options,
                                              const char *text,
                                              size_t len);

/**
 * How long a lock's counter of fences lives after its last use; at least twice max_ttl. After
 * that the order of fences rests on the nodes' clocks. By default twice max_ttl, where that is
 * longer than 600,000 ms. Default: 600,000 ms.
 */
int32_t quorlock_client_options_set_fence_ttl(struct quorlock_client_options_t *options,
                                              int64_t fence_ttl_ms);

/**
 * The name of the set that the nodes form: 1 to 64 printable ASCII characters without blanks.
 * Nodes of another set are refused. Default: "default".
 */
int32_t quorlock_client_options_set_set_name(struct quorlock_client_options_t *options,
                                             const char *text,
                                             size_t len);

/**
 * Whether a node that may have lost its memory gives no vote until every vote that it may have
 * given is over, which is after max_ttl. auto is on for three nodes and more, and where a node
 * fails over to another server. With on a wholly new set waits, too; with off a node that
 * restarts without its data may give a lock to a second holder. Default: "auto".
 */
int32_t quorlock_client_options_set_restart_guard(struct quorlock_client_options_t *options,
                                                  int32_t restart_guard);

/**
 * Whether servers are accepted that drop keys when they are full: with them a lock may vanish
 * under its holder. Without, such a server is refused with #QUORLOCK_MISCONFIGURED. Default:
 * false.
 */
int32_t quorlock_client_options_set_accept_eviction(struct quorlock_client_options_t *options,
                                                    bool accept_eviction);

/**
 * How many replicas of a node must have a vote before it counts. With as many as the node has,
 * a master that is cut off from them gives no votes, and a failover loses none. A replica that
 * hangs holds up every request to its master for half of node_timeout, and the votes that it
 * misses do not count. 0 to 16. Default: 0.
 */
int32_t quorlock_client_options_set_wait_replicas(struct quorlock_client_options_t *options,
                                                  int64_t wait_replicas);

/**
 * Certificates that vouch for rediss:// nodes, in place of the system's: the path of a PEM
 * file, or its text.
 */
int32_t quorlock_client_options_set_ca(struct quorlock_client_options_t *options,
                                       const char *text,
                                       size_t len);

/**
 * The client's certificate: the path of a PEM file, or its text. Goes with key.
 */
int32_t quorlock_client_options_set_cert(struct quorlock_client_options_t *options,
                                         const char *text,
                                         size_t len);

/**
 * The key of the client's certificate: the path of a PEM file, or its text.
 */
int32_t quorlock_client_options_set_key(struct quorlock_client_options_t *options,
                                        const char *text,
                                        size_t len);

/**
 * Makes a client. `options` may be NULL for defaults, and freed afterwards.
 * Nothing is connected yet, so nothing about the nodes is known.
 *
 * Fails with #QUORLOCK_INVALID_ARGUMENT, naming the option, its value and what
 * to give.
 */
QUORLOCK_MUST_USE
int32_t quorlock_client_new(const struct quorlock_client_options_t *options,
                            struct quorlock_client_t **client,
                            struct quorlock_error_t **error);

/**
 * Declares the set: founds it, where no node has a record, by writing its record
 * to all nodes. A wholly new set (servers that have run for longer than max_ttl
 * and never stored anything) votes at once. Where the servers are only too young,
 * the call waits until they have run for max_ttl, and the set votes when it
 * returns. Servers that may have lost something give no vote for max_ttl first:
 * the call does not wait for that. The log says for how long either is. Where all
 * nodes have this set's record already nothing is changed and no quarantine is
 * lifted; so it is safe to run at every deploy. memory:// nodes need none of it.
 *
 * Fails with #QUORLOCK_MISCONFIGURED, naming the nodes, if one has a record of
 * another set or cannot be a node; #QUORLOCK_QUORUM_UNAVAILABLE, naming which do
 * not answer: nothing is written then. #QUORLOCK_CLOSED, #QUORLOCK_FORKED.
 */
QUORLOCK_MUST_USE
int32_t quorlock_client_init_set(const struct quorlock_client_t *client,
                                 struct quorlock_error_t **error);

/**
 * As quorlock_client_init_set(), but lifts the quarantine of the set's nodes, or
 * founds the set without one: two may then hold a lock that was held within the
 * last max_ttl. Only where you know that no lock is held.
 */
QUORLOCK_MUST_USE
int32_t quorlock_client_init_set_forced(const struct quorlock_client_t *client,
                                        struct quorlock_error_t **error);

/**
 * Goes on with a lease that another client has exported, see quorlock_lease_export(), as
 * long as that has not ended: with what was left of its max_hold, the same ttl, or that if it
 * is less, and a larger fence. Of two that adopt one lease one wins at most. Its lock does not acquire it
 * once more. Nodes that do not answer are waited for as long as the client's wait,
 * at most for the ttl. The lease is to be freed with quorlock_lease_free().
 *
 * Fails with #QUORLOCK_LOCK_LOST if the lease has ended or another has adopted it;
 * #QUORLOCK_QUORUM_UNAVAILABLE if too few nodes answered; #QUORLOCK_INVALID_ARGUMENT for a
 * text that is damaged, or of another set, namespace or version.
 */
QUORLOCK_MUST_USE
int32_t quorlock_client_adopt(const struct quorlock_client_t *client,
                              const char *text,
                              size_t text_len,
                              struct quorlock_lease_t **lease,
                              struct quorlock_error_t **error);

/**
 * Releases every lease, then stops what runs for the client. Leases still held
 * are lost with the reason #QUORLOCK_LEASE_CLOSED; waits of other threads end
 * with #QUORLOCK_CLOSED. Returns when the releases are acknowledged, at the
 * latest after the node timeout. A second call does nothing.
 */
int32_t quorlock_client_close(const struct quorlock_client_t *client,
                              struct quorlock_error_t **error);

/**
 * Frees a client. NULL is allowed. Its locks and leases stay usable: what runs
 * for the client ends with the last of them, or by quorlock_client_close().
 */
void quorlock_client_free(struct quorlock_client_t *client);

/**
 * What has happened so far. `size` is sizeof(quorlock_stats_t): a later version
 * has more counts at the end, and fills in as many as there is room for.
 */
int32_t quorlock_client_stats(const struct quorlock_client_t *client,
                              struct quorlock_stats_t *stats,
                              size_t size,
                              struct quorlock_error_t **error);

/**
 * New options, none of them set. Free them with quorlock_lock_options_free().
 */
QUORLOCK_MUST_USE struct quorlock_lock_options_t *quorlock_lock_options_new(void);

/**
 * Frees options. NULL is allowed.
 */
void quorlock_lock_options_free(struct quorlock_lock_options_t *options);

/**
 * Auto-release time on the nodes: how long the lock outlives a crashed holder. A part of a
 * millisecond is rounded up. Less than 10,000 ms by default where max_ttl or max_hold is less.
 * 10 ms to max_ttl. Default: 10,000 ms.
 */
int32_t quorlock_lock_options_set_ttl(struct quorlock_lock_options_t *options, int64_t ttl_ms);

/**
 * How long an acquire waits: zero tries once, no limit waits forever. At the end answers that
 * are under way are awaited where they decide, at most for another node_timeout. No limit:
 * #QUORLOCK_FOREVER. Default: 10,000 ms.
 */
int32_t quorlock_lock_options_set_wait(struct quorlock_lock_options_t *options, int64_t wait_ms);

/**
 * Whether the lease is renewed until it is released. Without, it ends after the ttl, unless
 * extended. Default: true.
 */
int32_t quorlock_lock_options_set_renew(struct quorlock_lock_options_t *options, bool renew);

/**
 * The longest life of a lease, renewed or not. By default the ttl, where that is longer than
 * 3,600,000 ms. No limit: #QUORLOCK_FOREVER. At least ttl. Default: 3,600,000 ms.
 */
int32_t quorlock_lock_options_set_max_hold(struct quorlock_lock_options_t *options,
                                           int64_t max_hold_ms);

/**
 * Whether the key on the nodes is the name itself, so that other Redlock libraries and
 * Quorlock exclude each other. Not with shared nor slots. Default: false.
 */
int32_t quorlock_lock_options_set_raw(struct quorlock_lock_options_t *options, bool raw);

/**
 * How the lock is stored on the nodes: as Quorlock's own, or as one lock with Redisson's RLock
 * of that name. In Redisson's layout the key is the name, a named owner is one in all
 * processes and in Java, and waiters are not queued on the nodes. Both wake each other, and
 * their fences are of one order with those of RFencedLock. Such a lease is not exported. Not
 * with shared, slots nor keep. Default: "plain".
 */
int32_t quorlock_lock_options_set_layout(struct quorlock_lock_options_t *options, int32_t layout);

/**
 * Text that is stored with the token of a lease, which names the holder. Without control
 * characters; empty for none. An acquire that enters a lease again leaves that lease's label
 * as it is. What is raw, or in Redisson's layout, has no label. At most 256 bytes. Default:
 * "host:pid".
 */
int32_t quorlock_lock_options_set_label(struct quorlock_lock_options_t *options,
                                        const char *text,
                                        size_t len);

/**
 * Whether leases have a fence. Without, one key less is written on each node. Default: true.
 */
int32_t quorlock_lock_options_set_fencing(struct quorlock_lock_options_t *options, bool fencing);

/**
 * How many calls of the client may wait for the lock in a line, behind the one that asks the
 * nodes or holds it; one more gets #QUORLOCK_TOO_MANY_WAITERS at once. With 0 no call waits
 * behind another. Default: 10,000.
 */
int32_t quorlock_lock_options_set_max_waiters(struct quorlock_lock_options_t *options,
                                              int64_t max_waiters);

/**
 * Whether every release goes over the nodes, where the waiters of all clients queue in their
 * order. Without, a lease may be passed on to the next in line of this client, up to 16 times
 * in a row. Default: false.
 */
int32_t quorlock_lock_options_set_fair(struct quorlock_lock_options_t *options, bool fair);

/**
 * For how long the lock stays taken after it was won, also when it is released before: so that
 * a job which every host starts at about the same time runs once. Counted on this client's
 * clock, and kept by the nodes that the release reaches; a lease that is lost, or whose
 * process dies, leaves the lock to its ttl. At most max_ttl. Not with layout, shared nor
 * confirm off. Default: 0.
 */
int32_t quorlock_lock_options_set_keep(struct quorlock_lock_options_t *options, int64_t keep_ms);

/**
 * Whether an acquire by the owner of a lease enters that lease again, at once. Without, an
 * owner by name waits as any other does, for its own lease too; an owner that is the calling
 * thread would wait in vain, and gets #QUORLOCK_WOULD_DEADLOCK at once. Default: true.
 */
int32_t quorlock_lock_options_set_reentrant(struct quorlock_lock_options_t *options,
                                            bool reentrant);

/**
 * The lock's group in metrics, which never name locks: a word for all of a kind, such as
 * orders. The process keeps 64 groups; those that come later are counted as other. At most 64
 * bytes. Default: "".
 */
int32_t quorlock_lock_options_set_group(struct quorlock_lock_options_t *options,
                                        const char *text,
                                        size_t len);

/**
 * Whether the lease is one of many that share the lock: readers, which a lease that is not
 * shared keeps out, and which keep that out. A reader that asks while a writer waits is served
 * after that writer. The fence of a shared lease is above that of each lease before it that
 * was not shared, and below that of each such lease after it; among readers it says nothing.
 * An owner that shares the lock and asks for it alone gets #QUORLOCK_WOULD_DEADLOCK at once.
 * Not with raw, layout, keep, slots nor accept_eviction. Default: false.
 */
int32_t quorlock_lock_options_set_shared(struct quorlock_lock_options_t *options, bool shared);

/**
 * Makes it a semaphore of this many slots: no more of them are held at once. Every client of
 * the semaphore asks for as many slots: the largest number in use is the limit. A lock of that
 * name is another matter. 1 to 128. Not with raw, shared, layout nor once.
 */
int32_t quorlock_lock_options_set_slots(struct quorlock_lock_options_t *options, int64_t slots);

/**
 * Whether a release waits until a quorum of the nodes has carried it out. Without, it returns
 * at once, and says whether the lease was valid here until then; the nodes hear of it all the
 * same. A call of release may say otherwise. Off, not with keep. Default: true.
 */
int32_t quorlock_lock_options_set_confirm(struct quorlock_lock_options_t *options, bool confirm);

/**
 * Names the owner: an acquire that gives the same name, in any thread but with the same
 * client, enters the lock again. Not set, a lease has no owner, but for
 * quorlock_lock_options_set_owner_thread().
 */
int32_t quorlock_lock_options_set_owner(struct quorlock_lock_options_t *options,
                                        const char *name,
                                        size_t len);

/**
 * Whether each thread that calls quorlock_lock() or quorlock_lock_all() is an owner of its
 * own, as of a mutex: for a lock that the thread which has it gives back. When the thread
 * ends its lease is renewed no more. Counts for nothing where an owner is named, for a
 * semaphore, and for a call that is started. False.
 */
int32_t quorlock_lock_options_set_owner_thread(struct quorlock_lock_options_t *options,
                                               bool owner_thread);

/**
 * A new token. Free it with quorlock_cancel_free().
 */
QUORLOCK_MUST_USE struct quorlock_cancel_t *quorlock_cancel_new(void);

/**
 * Ends every wait that was given the token, and those that will be: they return
 * #QUORLOCK_CANCELLED, and no key stays behind. For any thread, but not for a
 * signal handler. NULL is allowed.
 */
void quorlock_cancel(const struct quorlock_cancel_t *cancel);

/**
 * Frees a token. NULL is allowed. Calls under way that were given it go on, and
 * cannot be cancelled any more.
 */
void quorlock_cancel_free(struct quorlock_cancel_t *cancel);

/**
 * Makes a lock. `name` is any 1 to 1,024 bytes; a name with a hash tag of its
 * own ("buy_{7}") is used as it is, any other braces are refused. `options` may
 * be NULL for the client's, and freed afterwards.
 *
 * Fails with #QUORLOCK_INVALID_ARGUMENT, naming the value and what to give.
 */
QUORLOCK_MUST_USE
int32_t quorlock_lock_new(const struct quorlock_client_t *client,
                          const char *name,
                          size_t name_len,
                          const struct quorlock_lock_options_t *options,
                          struct quorlock_lock_t **lock,
                          struct quorlock_error_t **error);

/**
 * Makes a semaphore: at most `slots` of it are held at once, 1 to 128. It is a lock
 * whose options say quorlock_lock_options_set_slots(), and is acquired, released and freed
 * as such; quorlock_lease_slot() tells which slot a lease has. Fails as
 * quorlock_lock_new().
 */
QUORLOCK_MUST_USE
int32_t quorlock_semaphore_new(const struct quorlock_client_t *client,
                               const char *name,
                               size_t name_len,
                               int64_t slots,
                               const struct quorlock_lock_options_t *options,
                               struct quorlock_lock_t **lock,
                               struct quorlock_error_t **error);

/**
 * Frees a lock. NULL is allowed. Its leases stay.
 */
void quorlock_lock_free(struct quorlock_lock_t *lock);

/**
 * Acquires the lock, waiting at most `wait_ms`: 0 tries once, #QUORLOCK_DEFAULT
 * waits as the options say, #QUORLOCK_FOREVER without end. `cancel` may be NULL.
 *
 * The lease has no owner, unless the options of the lock give one. It is bound to no
 * thread: any thread may use, release and free it, and a second call waits for it as for
 * a stranger's, the thread that has it too. Where the thread that acquired it has ended
 * and the lease is still held, the log warns once.
 *
 * A lock that the owner holds already is entered again, without any request, but
 * for quorlock_lock_options_set_reentrant(): another lease on the same hold, and the last one to go frees the lock.
 *
 * Those of one client that wait for a lock get it in the order in which they
 * came; a wait of 0 asks the nodes past that line.
 *
 * Fails with #QUORLOCK_TIMEOUT if it was held by others all the time,
 * #QUORLOCK_CONTENDED likewise with a wait of 0; #QUORLOCK_QUORUM_UNAVAILABLE if
 * too few nodes answered; #QUORLOCK_MISCONFIGURED at once if credentials or
 * addresses leave no quorum; #QUORLOCK_TOO_MANY_WAITERS at once if as many of
 * the client wait already as its options allow; #QUORLOCK_WOULD_DEADLOCK at once if
 * the owner is the calling thread, has the lock, and may not enter it again;
 * #QUORLOCK_LOCK_LOST when entering again what was lost, or if the lease is lost by the time the thread
 * goes on; #QUORLOCK_CANCELLED, #QUORLOCK_CLOSED, #QUORLOCK_FORKED,
 * #QUORLOCK_INVALID_ARGUMENT. No key stays behind.
 */
QUORLOCK_MUST_USE
int32_t quorlock_lock(const struct quorlock_lock_t *lock,
                      int64_t wait_ms,
                      const struct quorlock_cancel_t *cancel,
                      struct quorlock_lease_t **lease,
                      struct quorlock_error_t **error);

/**
 * Acquires the lock if it is free: quorlock_lock() with a wait of 0.
 * #QUORLOCK_CONTENDED says that another holds it, and nothing else.
 */
QUORLOCK_MUST_USE
int32_t quorlock_try_lock(const struct quorlock_lock_t *lock,
                          struct quorlock_lease_t **lease,
                          struct quorlock_error_t **error);

/**
 * Releases by lock: gives back the newest lease of the owner that the lock's options
 * give. That lease is to be freed all the same. `was_held` may be NULL; see quorlock_unlock().
 *
 * Fails with #QUORLOCK_NOT_OWNER if the owner holds nothing, or there is none: release
 * the lease then, by quorlock_unlock().
 */
int32_t quorlock_lock_release(const struct quorlock_lock_t *lock,
                              bool *was_held,
                              struct quorlock_error_t **error);

/**
 * Releases a lease; the last one of its owner frees the lock. Frees no memory.
 * `was_held` may be NULL and tells whether the lock was still held; a second
 * call says false. Of a lock with keep true means that a quorum of nodes keeps it
 * taken. False with a warning in the log: too few do, or nodes refuse the release
 * for a missing permission. The lease ends at once, before the first byte is sent; the
 * call returns when a quorum of nodes has carried the release out, at most
 * after the node timeout. Never fails for a loss.
 */
int32_t quorlock_unlock(const struct quorlock_lease_t *lease,
                        bool *was_held,
                        struct quorlock_error_t **error);

/**
 * As quorlock_unlock(), whatever the options of the lock say of quorlock_lock_options_set_confirm().
 * Without `confirm` it waits for no answer of the nodes, and `was_held` tells whether the lease
 * was valid here until now: for a lock of which nothing is decided by the answer. What is sent is
 * waited for by quorlock_client_close() and the end of the process, as of any release. Nothing
 * reports that nodes refuse it.
 *
 * Without `confirm` it fails with #QUORLOCK_INVALID_ARGUMENT of a lock with keep, whose lease
 * stays held, and for nothing else: in a forked child it says false.
 */
int32_t quorlock_unlock_with(const struct quorlock_lease_t *lease,
                             bool confirm,
                             bool *was_held,
                             struct quorlock_error_t **error);

/**
 * Frees a lease, and releases it in the background if that was not done. NULL
 * is allowed. When it returns, the loss callback is over and will not be called
 * any more; called by that callback itself, this does not wait for it. A call on the
 * lease that another thread has under way goes on, and the lease is released after it.
 */
void quorlock_lease_free(struct quorlock_lease_t *lease);

/**
 * The state of a lease: #QUORLOCK_LEASE_HELD, why it was lost (a number
 * above 0), or #QUORLOCK_LEASE_RELEASED, #QUORLOCK_LEASE_NONE.
 */
int32_t quorlock_lease_state(const struct quorlock_lease_t *lease);

/**
 * The name of a state: "held", "released", "none", or why a lease was lost, such
 * as "owner_gone"; NULL for a number that is no state. The text lives as long as
 * the library.
 */
const char *quorlock_state_name(int32_t state);

/**
 * Whether the lease is valid now. Exact at every call. False for NULL.
 */
bool quorlock_lease_is_held(const struct quorlock_lease_t *lease);

/**
 * Validity left before the next renewal, rounded down; 0 when the lease is over.
 */
int64_t quorlock_lease_remaining_ms(const struct quorlock_lease_t *lease);

/**
 * The fencing token: grows with every hold of the same lock, is above 0 and below
 * 2^53, and the same in every re-entry, also after the lease has ended. 0 if the
 * lock has none; for NULL, too, and in a forked child. Give it to the resource
 * that the lock protects, which then refuses what comes with a smaller one: so
 * work that outlives its lease does no harm.
 */
uint64_t quorlock_lease_fence(const struct quorlock_lease_t *lease);

/**
 * Lengthens the lease to `ttl_ms` from now, to its own ttl with
 * #QUORLOCK_DEFAULT; never shortens it.
 *
 * Fails with #QUORLOCK_LOCK_LOST; #QUORLOCK_QUORUM_UNAVAILABLE if too few nodes
 * answered: it is then valid as long as it was; #QUORLOCK_NOT_OWNER after a
 * release; #QUORLOCK_INVALID_ARGUMENT above max_ttl.
 */
QUORLOCK_MUST_USE
int32_t quorlock_lease_extend(const struct quorlock_lease_t *lease,
                              int64_t ttl_ms,
                              struct quorlock_error_t **error);

/**
 * Which slot of a semaphore the lease has, counted from 0; -1 of a lock. No two leases that
 * are held at one time have the same. The fence grows with every hold of one slot; between
 * slots it says nothing.
 */
int32_t quorlock_lease_slot(const struct quorlock_lease_t *lease);

/**
 * Whether others may share the lock with the lease: it was asked for so, see
 * quorlock_lock_options_set_shared(), or has been downgraded.
 */
bool quorlock_lease_is_shared(const struct quorlock_lease_t *lease);

/**
 * Shares the lease from now on with others that ask to share the lock, and calls those
 * that wait for that. It keeps its fence. Waits until a quorum of the nodes lets them in.
 *
 * Fails with #QUORLOCK_LOCK_LOST; #QUORLOCK_NOT_OWNER after a release;
 * #QUORLOCK_QUORUM_UNAVAILABLE if too few nodes answered: it is shared and held all the
 * same; #QUORLOCK_INVALID_ARGUMENT of a raw lock, which stays as it is.
 */
QUORLOCK_MUST_USE
int32_t quorlock_lease_downgrade(const struct quorlock_lease_t *lease,
                                 struct quorlock_error_t **error);

/**
 * Ends the lease here without releasing the lock, and makes a text with which one other
 * client of the same nodes goes on: by quorlock_client_adopt() or its like, in another
 * process, in another language, on another host. Free the text with quorlock_text_free().
 *
 * The lease is lengthened to its full ttl first. Then it is over here, and is not renewed:
 * adopt it within the ttl, or for as long as it was extended beyond that, else the lock is
 * free. Until then a loss could not be noticed, so leave alone what the lock protects. The text
 * is a secret: a program that has it can take the lock.
 *
 * Fails with #QUORLOCK_LOCK_LOST; #QUORLOCK_NOT_OWNER after a release;
 * #QUORLOCK_QUORUM_UNAVAILABLE if too few nodes answered to lengthen it: then it is held here
 * as before, as it is after #QUORLOCK_INVALID_ARGUMENT, where it was acquired more than once by
 * its owner, is shared, or its lock is kept.
 */
QUORLOCK_MUST_USE
int32_t quorlock_lease_export(const struct quorlock_lease_t *lease,
                              char **text,
                              struct quorlock_error_t **error);

/**
 * Makes sure that at least `min_ms` of validity is left, extending the lease if
 * it is not. Call it right before a step that takes so long. Fails as
 * quorlock_lease_extend().
 */
QUORLOCK_MUST_USE
int32_t quorlock_lease_ensure(const struct quorlock_lease_t *lease,
                              int64_t min_ms,
                              struct quorlock_error_t **error);

/**
 * Has `callback` called when the lease is lost, or soon if it was lost before;
 * NULL for no callback. When it returns, a callback set before is over and will
 * not be called any more; called by that callback itself, this does not wait
 * for it.
 */
int32_t quorlock_lease_set_lost_callback(const struct quorlock_lease_t *lease,
                                         void *userdata,
                                         quorlock_lost_callback_t callback,
                                         struct quorlock_error_t **error);

/**
 * As quorlock_lease_set_lost_callback(), but the callback is called by
 * quorlock_queue_dispatch() of `queue`; NULL for a thread of the library's. It is over, and
 * comes no more, when the queue or the lease is freed, also where the loss is in the queue
 * already.
 */
int32_t quorlock_lease_set_lost_callback_on(const struct quorlock_lease_t *lease,
                                            const struct quorlock_queue_t *queue,
                                            void *userdata,
                                            quorlock_lost_callback_t callback,
                                            struct quorlock_error_t **error);

/**
 * Has `callback` called at the loss as well, beside that of
 * quorlock_lease_set_lost_callback(): both are called. For what stops the work itself, as
 * std::stop_token does, while the other is left to the code that uses the lease. Always on a thread
 * of the library's for callbacks; neither waits for the other. In all else as that.
 */
int32_t quorlock_lease_set_stop_callback(const struct quorlock_lease_t *lease,
                                         void *userdata,
                                         quorlock_lost_callback_t callback,
                                         struct quorlock_error_t **error);

/**
 * Makes a queue. Fails with #QUORLOCK_INTERNAL if the process may open no more descriptors.
 */
QUORLOCK_MUST_USE
int32_t quorlock_queue_new(struct quorlock_queue_t **queue,
                           struct quorlock_error_t **error);

/**
 * The descriptor to watch, on Windows the socket: it can be read while there is something
 * to dispatch. Do not read it, write it or close it; take it out of the loop before the
 * queue is freed. -1 for NULL, and in a forked child.
 */
int32_t quorlock_queue_fd(const struct quorlock_queue_t *queue);

/**
 * Runs the callbacks of all that is done, on the calling thread, and returns how many they
 * were: 0 if there was nothing, for NULL, and in a forked child. Never waits. A callback
 * may call anything of this header, also this, and may free the queue: then this calls no
 * further callback, and returns.
 */
size_t quorlock_queue_dispatch(const struct quorlock_queue_t *queue);

/**
 * Frees a queue. NULL is allowed. Each call that was started with it and whose callback has
 * not been called is given up: the callback is called on this thread, before this returns, with
 * #QUORLOCK_CANCELLED. An acquire among them is undone, or its lease given back; a release
 * goes on. Losses that were to come by it come no more. Locks, leases and clients may
 * be freed before or after.
 *
 * When it returns, no callback of the queue runs, and none will: it waits for a callback that
 * another thread runs. So do not hold what such a callback waits for. Called by a callback of the queue
 * it waits for none, and that one is the last on its thread.
 */
void quorlock_queue_free(struct quorlock_queue_t *queue);

/**
 * Starts to acquire the lock and returns at once; `wait_ms` and `cancel` as of
 * quorlock_lock(). No thread waits meanwhile, however many calls are under way.
 *
 * When #QUORLOCK_OK was returned, `callback` is called exactly once: by
 * quorlock_queue_dispatch() or quorlock_queue_free() of `queue`; with NULL for `queue` on
 * a thread for loss callbacks, where it may block as a quorlock_lost_callback_t may,
 * and run at the same time as other callbacks. On another code it is never called. Its error is of one of
 * the kinds of quorlock_lock(); closing the client ends it with #QUORLOCK_CLOSED, a token
 * that is used before the lock was won with #QUORLOCK_CANCELLED. A lease that was lost
 * before its callback came is #QUORLOCK_LOCK_LOST, and not given.
 *
 * The lease has no owner, unless the options of the lock name one: the lock is not entered
 * again, and quorlock_lock_release() does not find the lease. Release it by
 * quorlock_unlock_start(), quorlock_unlock() or quorlock_lease_free(), on any thread. Lock,
 * client and token may be freed at once. quorlock_shutdown() is for when no such call is
 * under way.
 *
 * Fails with #QUORLOCK_INVALID_ARGUMENT, #QUORLOCK_FORKED.
 */
QUORLOCK_MUST_USE
int32_t quorlock_lock_start(const struct quorlock_lock_t *lock,
                            int64_t wait_ms,
                            const struct quorlock_cancel_t *cancel,
                            const struct quorlock_queue_t *queue,
                            void *userdata,
                            quorlock_locked_callback_t callback,
                            struct quorlock_error_t **error);

/**
 * Starts to release a lease and returns at once. The lease ends before that, as by
 * quorlock_unlock(). Frees no memory; the lease may be freed at once. `callback` and `queue` as of
 * quorlock_lock_start(): the callback comes when a quorum of nodes has carried the release
 * out, at the latest after the node timeout. It cannot be cancelled, and never fails for a
 * loss.
 *
 * Fails with #QUORLOCK_INVALID_ARGUMENT, #QUORLOCK_FORKED.
 */
QUORLOCK_MUST_USE
int32_t quorlock_unlock_start(const struct quorlock_lease_t *lease,
                              const struct quorlock_queue_t *queue,
                              void *userdata,
                              quorlock_unlocked_callback_t callback,
                              struct quorlock_error_t **error);

/**
 * Starts to acquire all of the locks, or none, and returns at once: quorlock_lock_all(), as
 * quorlock_lock_start(). The leases have no owner either, unless the options of the locks
 * name one. Locks, client and token may be freed at once.
 *
 * Fails with #QUORLOCK_INVALID_ARGUMENT, #QUORLOCK_FORKED.
 */
QUORLOCK_MUST_USE
int32_t quorlock_lock_all_start(const struct quorlock_locks_t *locks,
                                int64_t wait_ms,
                                const struct quorlock_cancel_t *cancel,
                                const struct quorlock_queue_t *queue,
                                void *userdata,
                                quorlock_all_locked_callback_t callback,
                                struct quorlock_error_t **error);

/**
 * Starts to release all of the leases and returns at once: quorlock_unlock_all(), as
 * quorlock_unlock_start().
 *
 * Fails with #QUORLOCK_INVALID_ARGUMENT, #QUORLOCK_FORKED.
 */
QUORLOCK_MUST_USE
int32_t quorlock_unlock_all_start(const struct quorlock_leases_t *leases,
                                  const struct quorlock_queue_t *queue,
                                  void *userdata,
                                  quorlock_unlocked_callback_t callback,
                                  struct quorlock_error_t **error);

/**
 * Makes several locks, for quorlock_lock_all(): `count` names, each as of
 * quorlock_lock_new(), with `lens[i]` bytes at `names[i]`. In any order: they are taken in
 * an order that is the same in all programs. 1 to 16 that differ; a name that is given twice is
 * held once. `options` may be NULL for the client's, and freed afterwards.
 *
 * Fails with #QUORLOCK_INVALID_ARGUMENT, naming the value and what to give.
 */
QUORLOCK_MUST_USE
int32_t quorlock_locks_new(const struct quorlock_client_t *client,
                           const char *const *names,
                           const size_t *lens,
                           size_t count,
                           const struct quorlock_lock_options_t *options,
                           struct quorlock_locks_t **locks,
                           struct quorlock_error_t **error);

/**
 * Frees locks. NULL is allowed. Their leases stay.
 */
void quorlock_locks_free(struct quorlock_locks_t *locks);

/**
 * Acquires all of the locks, or none, waiting at most `wait_ms` for all of them together;
 * `wait_ms` and `cancel` as of quorlock_lock(). Calls that ask for the same names in any
 * order, in whatever language, do not wait for each other in a ring. While it waits it
 * holds those that come before the one it waits for, and the others are free to all callers.
 *
 * A lock that the owner holds already is entered again. A caller that holds a lock of another
 * call, and waits here, can be in a ring with a caller that does the same the other way round:
 * the ring ends with the wait, and a warning in the log names both.
 *
 * Fails as quorlock_lock(), of the first lock that could not be had, which the error
 * names: see quorlock_error_lock_name(). Nothing is held then, and no key stays behind.
 */
QUORLOCK_MUST_USE
int32_t quorlock_lock_all(const struct quorlock_locks_t *locks,
                          int64_t wait_ms,
                          const struct quorlock_cancel_t *cancel,
                          struct quorlock_leases_t **leases,
                          struct quorlock_error_t **error);

/**
 * Acquires all of the locks if they are free: quorlock_lock_all() with a wait of 0.
 * #QUORLOCK_CONTENDED says that another holds one of them, and nothing else.
 */
QUORLOCK_MUST_USE
int32_t quorlock_try_lock_all(const struct quorlock_locks_t *locks,
                              struct quorlock_leases_t **leases,
                              struct quorlock_error_t **error);

/**
 * Releases all of the leases, at the same time; as quorlock_unlock(). `was_held` may be
 * NULL and tells whether every one was still held; a second call says false.
 */
int32_t quorlock_unlock_all(const struct quorlock_leases_t *leases,
                            bool *was_held,
                            struct quorlock_error_t **error);

/**
 * As quorlock_unlock_with() for all of the leases, at the same time: `was_held` tells whether every
 * one was held. Where one of the locks has keep all stay held.
 */
int32_t quorlock_unlock_all_with(const struct quorlock_leases_t *leases,
                                 bool confirm,
                                 bool *was_held,
                                 struct quorlock_error_t **error);

/**
 * Frees leases, and releases them in the background if that was not done. NULL is
 * allowed; as quorlock_lease_free().
 */
void quorlock_leases_free(struct quorlock_leases_t *leases);

/**
 * The state of the leases: #QUORLOCK_LEASE_HELD if all are, why the first of them
 * that was lost was lost, or #QUORLOCK_LEASE_RELEASED, #QUORLOCK_LEASE_NONE.
 */
int32_t quorlock_leases_state(const struct quorlock_leases_t *leases);

/**
 * The name of the lock whose lease was lost, the first of them in their order: `len`
 * bytes, without a NUL behind them. They live as long as the leases. NULL, and 0 bytes,
 * where none was lost.
 */
const char *quorlock_leases_lost_name(const struct quorlock_leases_t *leases, size_t *len);

/**
 * Whether all of the leases are valid now. Exact at every call. False for NULL.
 */
bool quorlock_leases_is_held(const struct quorlock_leases_t *leases);

/**
 * The least validity that any of them has left before the next renewal, rounded down; 0
 * when one of them is over.
 */
int64_t quorlock_leases_remaining_ms(const struct quorlock_leases_t *leases);

/**
 * How many they are: one for each name. 0 for NULL.
 */
size_t quorlock_leases_count(const struct quorlock_leases_t *leases);

/**
 * The name of a lock that is held, `index` counting from 0 in the order in which they were
 * taken: `len` bytes, as of quorlock_leases_lost_name(). NULL, and 0 bytes, for an index
 * beyond the last.
 */
const char *quorlock_leases_name(const struct quorlock_leases_t *leases, size_t index, size_t *len);

/**
 * The fencing token of that lease: as quorlock_lease_fence(). Each lock has its own; 0
 * also for an index beyond the last.
 */
uint64_t quorlock_leases_fence(const struct quorlock_leases_t *leases, size_t index);

/**
 * The fencing token of the lease on the lock of that name, as it was given: as
 * quorlock_lease_fence(). 0 also where no such lock is among them.
 */
uint64_t quorlock_leases_fence_of(const struct quorlock_leases_t *leases,
                                  const char *name,
                                  size_t name_len);

/**
 * Lengthens all of the leases, at the same time: as quorlock_lease_extend().
 *
 * Fails with what the first lock fails whose lease could not be lengthened; the others may
 * have been.
 */
QUORLOCK_MUST_USE
int32_t quorlock_leases_extend(const struct quorlock_leases_t *leases,
                               int64_t ttl_ms,
                               struct quorlock_error_t **error);

/**
 * Makes sure that each of the leases has at least `min_ms` of validity left: as
 * quorlock_lease_ensure(). Fails as quorlock_leases_extend().
 */
QUORLOCK_MUST_USE
int32_t quorlock_leases_ensure(const struct quorlock_leases_t *leases,
                               int64_t min_ms,
                               struct quorlock_error_t **error);

/**
 * Has `callback` called once, when the first of the leases is lost, or soon if one was
 * lost before: as quorlock_lease_set_lost_callback(). quorlock_leases_lost_name() tells
 * which lock's it is.
 */
int32_t quorlock_leases_set_lost_callback(const struct quorlock_leases_t *leases,
                                          void *userdata,
                                          quorlock_lost_callback_t callback,
                                          struct quorlock_error_t **error);

/**
 * As quorlock_leases_set_lost_callback(), but the callback is called by
 * quorlock_queue_dispatch() of `queue`: as quorlock_lease_set_lost_callback_on().
 */
int32_t quorlock_leases_set_lost_callback_on(const struct quorlock_leases_t *leases,
                                             const struct quorlock_queue_t *queue,
                                             void *userdata,
                                             quorlock_lost_callback_t callback,
                                             struct quorlock_error_t **error);

/**
 * Has `callback` called at the first loss as well, beside that of
 * quorlock_leases_set_lost_callback(): as quorlock_lease_set_stop_callback().
 */
int32_t quorlock_leases_set_stop_callback(const struct quorlock_leases_t *leases,
                                          void *userdata,
                                          quorlock_lost_callback_t callback,
                                          struct quorlock_error_t **error);

/**
 * Reports who holds a lock, without acquiring it: one request to each node, at most
 * the node timeout, which waits for the first connections as the connect timeout says.
 * That nodes do not answer is no error, but part of the result.
 *
 * Fails with #QUORLOCK_CLOSED, #QUORLOCK_FORKED, #QUORLOCK_INVALID_ARGUMENT.
 */
QUORLOCK_MUST_USE
int32_t quorlock_lock_inspect(const struct quorlock_lock_t *lock,
                              struct quorlock_inspection_t **inspection,
                              struct quorlock_error_t **error);

/**
 * Whether any client holds the lock, or keeps it, or is about to; not whether this
 * process does.
 *
 * Fails as quorlock_lock_inspect(), and with #QUORLOCK_QUORUM_UNAVAILABLE where too
 * few nodes answered.
 */
QUORLOCK_MUST_USE
int32_t quorlock_lock_is_locked(const struct quorlock_lock_t *lock,
                                bool *locked,
                                struct quorlock_error_t **error);

/**
 * Takes the lock away from its holder, or from what keeps it, for an operator: deletes the
 * vote on all nodes, whatever client or library put it there, and calls the next waiter.
 * Two requests to each node, each at most the node timeout; where so many nodes do not
 * answer, or had no vote, that a request of the holder's which is under way might restore
 * a quorum, a third after twice that. A lock without a holder is no error. `freed`, if not
 * NULL, receives how many votes were taken away, 0 where nothing was there any more;
 * `found`, if not NULL, how the lock stood before, to be freed with
 * quorlock_inspection_free().
 *
 * The holder learns it at its next renewal, at most about a third of its ttl later, or
 * when it extends: its lease is lost, #QUORLOCK_LEASE_FORCED, or
 * #QUORLOCK_LEASE_REFUSED where another has taken the lock meanwhile. A lease that is not
 * renewed learns nothing before its end. Until then two may work, and their fences tell
 * them apart.
 *
 * `fence` is #QUORLOCK_ANY_FENCE for any holder, else that of the lease that is to go, or
 * what quorlock_inspection_holder() tells: then only from the hold that has it, so that
 * a holder that has got the lock since is never hit. 0, which a lease without fences has, is
 * refused. Of a semaphore all slots are taken away, and `fence` has to be
 * #QUORLOCK_ANY_FENCE.
 *
 * Fails with #QUORLOCK_CONTENDED if the lock is held, and not by `fence` for certain, and
 * nothing is changed; #QUORLOCK_QUORUM_UNAVAILABLE if too few nodes answer: some may have
 * done it then, and calling again completes it; #QUORLOCK_MISCONFIGURED where the lock's
 * key is no string; #QUORLOCK_CLOSED, #QUORLOCK_FORKED, #QUORLOCK_INVALID_ARGUMENT.
 */
QUORLOCK_MUST_USE
int32_t quorlock_lock_force_release(const struct quorlock_lock_t *lock,
                                    uint64_t fence,
                                    uint64_t *freed,
                                    struct quorlock_inspection_t **found,
                                    struct quorlock_error_t **error);

/**
 * Takes one slot of a semaphore, counted from 0, away from its holder, as
 * quorlock_lock_force_release() does a lock.
 *
 * Fails as that, and with #QUORLOCK_INVALID_ARGUMENT where it is no semaphore, or has no
 * such slot.
 */
QUORLOCK_MUST_USE
int32_t quorlock_lock_force_release_slot(const struct quorlock_lock_t *lock,
                                         uint32_t slot,
                                         uint64_t fence,
                                         uint64_t *freed,
                                         struct quorlock_inspection_t **found,
                                         struct quorlock_error_t **error);

/**
 * Waits until the lock is free, or a slot of a semaphore is, and takes nothing: `free`
 * receives whether it was so before so many milliseconds were over, or #QUORLOCK_FOREVER.
 * Another may have it a moment later: to have it, acquire it. It is looked at again
 * and again, every 50 to 500 ms.
 *
 * Fails as quorlock_lock_is_locked().
 */
QUORLOCK_MUST_USE
int32_t quorlock_lock_wait_until_free(const struct quorlock_lock_t *lock,
                                      int64_t wait_ms,
                                      bool *free,
                                      struct quorlock_error_t **error);

/**
 * What follows from the answers: #QUORLOCK_VERDICT_HELD and so on. 0 for NULL.
 */
int32_t quorlock_inspection_verdict(const struct quorlock_inspection_t *inspection);

/**
 * A verdict as a word, such as "held". NULL for any other number. The text lives as
 * long as the library.
 */
const char *quorlock_verdict_name(int32_t verdict);

/**
 * Who holds the lock, or keeps it. `size` is sizeof(quorlock_holder_t): a later
 * version has more at the end, and fills in as much as there is room for.
 */
int32_t quorlock_inspection_holder(const struct quorlock_inspection_t *inspection,
                                   struct quorlock_holder_t *holder,
                                   size_t size,
                                   struct quorlock_error_t **error);

/**
 * The largest fence that a node has counted, for the holder, or for a client that asked in
 * vain since: the holder's own is its `fence`. 0 for none.
 */
uint64_t quorlock_inspection_fence(const struct quorlock_inspection_t *inspection);

/**
 * How many wait in the queue of the lock: one for each client that waits.
 */
uint32_t quorlock_inspection_queued(const struct quorlock_inspection_t *inspection);

/**
 * How many nodes the client has.
 */
size_t quorlock_inspection_node_count(const struct quorlock_inspection_t *inspection);

/**
 * What one node has, `index` counting from 0 in the order of the node list. `size` is
 * sizeof(quorlock_node_view_t), as above.
 *
 * Fails with #QUORLOCK_INVALID_ARGUMENT for an index beyond the last.
 */
int32_t quorlock_inspection_node(const struct quorlock_inspection_t *inspection,
                                 size_t index,
                                 struct quorlock_node_view_t *view,
                                 size_t size,
                                 struct quorlock_error_t **error);

/**
 * How many slots are held, of the semaphore that was looked at. Of a lock that is free: of a
 * semaphore that has its name, which is another matter, and may be what was meant.
 */
uint32_t quorlock_inspection_slots_held(const struct quorlock_inspection_t *inspection);

/**
 * How many slots the semaphore has that was looked at; 0 of a lock. A semaphore is free
 * where a slot of it is, and has no holder of its own.
 */
size_t quorlock_inspection_slot_count(const struct quorlock_inspection_t *inspection);

/**
 * The slot of that number, counted from 0, as an inspection of its own, to be freed with
 * quorlock_inspection_free().
 *
 * Fails with #QUORLOCK_INVALID_ARGUMENT for a number beyond the last.
 */
QUORLOCK_MUST_USE
int32_t quorlock_inspection_slot(const struct quorlock_inspection_t *inspection,
                                 size_t slot,
                                 struct quorlock_inspection_t **found,
                                 struct quorlock_error_t **error);

/**
 * Frees an inspection. NULL is allowed.
 */
void quorlock_inspection_free(struct quorlock_inspection_t *inspection);

/**
 * Makes a candidate of the election of that name, which is as of quorlock_lock_new().
 * `options` may be NULL, and freed afterwards. What they do not set is as an election
 * wants it: a wait and a term without an end, renewed, each release over the nodes; else
 * as the client has it. An owner is refused, for a term has none; so are shared and slots,
 * for one leads, and a release without confirm.
 *
 * Fails with #QUORLOCK_INVALID_ARGUMENT, naming the value and what to give.
 */
QUORLOCK_MUST_USE
int32_t quorlock_election_new(const struct quorlock_client_t *client,
                              const char *name,
                              size_t name_len,
                              const struct quorlock_lock_options_t *options,
                              struct quorlock_election_t **election,
                              struct quorlock_error_t **error);

/**
 * Frees a candidate. NULL is allowed. Its term stays, and so does a run.
 */
void quorlock_election_free(struct quorlock_election_t *election);

/**
 * Waits until the candidate leads, and gives its term, for programs that loop by themselves: a
 * lease like any other. quorlock_unlock() of it resigns; stop when it is lost. `wait_ms` and
 * `cancel` as of quorlock_lock(); #QUORLOCK_DEFAULT waits without end, unless the options
 * say otherwise. A candidate that leads already and campaigns once more waits for its own
 * term to end.
 *
 * Fails as quorlock_lock().
 */
QUORLOCK_MUST_USE
int32_t quorlock_election_campaign(const struct quorlock_election_t *election,
                                   int64_t wait_ms,
                                   const struct quorlock_cancel_t *cancel,
                                   struct quorlock_lease_t **term,
                                   struct quorlock_error_t **error);

/**
 * Campaigns, and calls `work` when the candidate leads; again and again, until `work` has
 * returned 0 while it led. Returns #QUORLOCK_OK then; with `again` it campaigns again,
 * 100 ms after it called `work` at the earliest.
 *
 * `work` runs on the calling thread, where nothing can stop it when the term is lost: it
 * has to look, or `lost` has to stop it. It is not begun again before it has returned.
 *
 * - `lost`, if not NULL, is called once when the term is over before `work` has returned,
 *   with what quorlock_lease_state() says: the reason of its loss, or
 *   #QUORLOCK_LEASE_RELEASED after quorlock_election_resign(). It is called on a thread
 *   for loss callbacks, or on the thread that resigns, so that it can have `work` stop
 *   now; but for a loss that is seen only when `work` has returned, on the calling thread.
 * - `stopped`, if not NULL, is called when `work` has returned, and after `lost`. Then the
 *   term is given up.
 *
 * After a term that was lost or given up it campaigns again, whatever `work` returned. If
 * `work` failed while it led, this resigns, tells the log, pauses and campaigns again: at
 * first for 0.5 to 1 s, so that another candidate may do better, and for twice as long each
 * time up to 30 s. A term of more than 30 s makes the next pause short again. The wait of
 * the options does not count here.
 *
 * `cancel` may be NULL. Used, it ends the campaign or the pause, with
 * #QUORLOCK_CANCELLED; it does not end `work`, after which this returns as above.
 *
 * Fails with what ends it for good: #QUORLOCK_CANCELLED, #QUORLOCK_MISCONFIGURED,
 * #QUORLOCK_INVALID_ARGUMENT, #QUORLOCK_TOO_MANY_WAITERS, #QUORLOCK_CLOSED,
 * #QUORLOCK_FORKED, this also where a child that was forked within `work` comes back here.
 */
QUORLOCK_MUST_USE
int32_t quorlock_election_run(const struct quorlock_election_t *election,
                              bool again,
                              const struct quorlock_cancel_t *cancel,
                              void *userdata,
                              quorlock_work_callback_t work,
                              quorlock_lost_callback_t lost,
                              quorlock_stopped_callback_t stopped,
                              struct quorlock_error_t **error);

/**
 * Whether the candidate leads now. Exact at every call. False for NULL.
 */
bool quorlock_election_is_leader(const struct quorlock_election_t *election);

/**
 * Gives up the term that the candidate has, so that the next one is called; it may campaign
 * again. `was_held` may be NULL and tells whether it still led; false where it has no term.
 * The term ends at once, also where quorlock_election_run() has it: its `lost`
 * callback is called, and the run campaigns again when it has returned. Returns as
 * quorlock_unlock().
 */
int32_t quorlock_election_resign(const struct quorlock_election_t *election,
                                 bool *was_held,
                                 struct quorlock_error_t **error);

/**
 * Reports who leads, as a quorum of the nodes has it: one request to each node, at most the
 * node timeout, which waits for the first connections as the connect timeout says. Free the
 * result with quorlock_leadership_free().
 *
 * Fails with #QUORLOCK_QUORUM_UNAVAILABLE where too few nodes answered to know;
 * #QUORLOCK_CLOSED, #QUORLOCK_FORKED, #QUORLOCK_INVALID_ARGUMENT.
 */
QUORLOCK_MUST_USE
int32_t quorlock_election_leader(const struct quorlock_election_t *election,
                                 struct quorlock_leadership_t **leadership,
                                 struct quorlock_error_t **error);

/**
 * Whether the nodes said who leads, or that no candidate does: false where too few answered.
 */
bool quorlock_leadership_is_known(const struct quorlock_leadership_t *leadership);

/**
 * Who leads; with 0 votes where no candidate does, or it is not known. `size` is
 * sizeof(quorlock_holder_t), as of quorlock_inspection_holder(). The label lives as long as
 * the leadership.
 */
int32_t quorlock_leadership_leader(const struct quorlock_leadership_t *leadership,
                                   struct quorlock_holder_t *leader,
                                   size_t size,
                                   struct quorlock_error_t **error);

/**
 * Frees a leadership. NULL is allowed.
 */
void quorlock_leadership_free(struct quorlock_leadership_t *leadership);

/**
 * Makes an observer, which follows who leads by a look each `every_ms`; each second with
 * #QUORLOCK_DEFAULT. Nothing is asked yet. The candidate may be freed.
 */
QUORLOCK_MUST_USE
int32_t quorlock_election_observe(const struct quorlock_election_t *election,
                                  int64_t every_ms,
                                  struct quorlock_observer_t **observer,
                                  struct quorlock_error_t **error);

/**
 * How it is, at the first call; after that the next change, whenever that comes. A term that
 * was shorter than the time between two looks may be left out. Where too few nodes answer
 * it says so, and never names who led before. `cancel` may be NULL; used, it ends the wait,
 * and a change that was not returned is returned by the next call.
 *
 * Fails with #QUORLOCK_INVALID_ARGUMENT, also for an `every_ms` of 0; #QUORLOCK_CANCELLED,
 * #QUORLOCK_CLOSED, #QUORLOCK_FORKED. That nodes do not answer is no error.
 */
QUORLOCK_MUST_USE
int32_t quorlock_observer_next(const struct quorlock_observer_t *observer,
                               const struct quorlock_cancel_t *cancel,
                               struct quorlock_leadership_t **leadership,
                               struct quorlock_error_t **error);

/**
 * Frees an observer. NULL is allowed.
 */
void quorlock_observer_free(struct quorlock_observer_t *observer);

/**
 * Checks the state of the set: which nodes answer, which would vote, and what
 * needs to be fixed, each with an id, what is wrong, and what to do. Made for monitors and for
 * people; `docs/operations/doctor.md` lists what may be found.
 *
 * Over a connection of its own to each node it asks what a client asks when it connects,
 * and for the time. Nothing is admitted, founded or locked by it, and a server that is
 * new is still new afterwards. It takes at most the time to connect and eight times the node timeout. That nodes
 * do not answer, or cannot be used, is no error, but part of the result.
 *
 * Fails with #QUORLOCK_CLOSED, #QUORLOCK_FORKED, #QUORLOCK_INVALID_ARGUMENT.
 */
QUORLOCK_MUST_USE
int32_t quorlock_client_probe(const struct quorlock_client_t *client,
                              struct quorlock_probe_t **probe,
                              struct quorlock_error_t **error);

/**
 * Whether locks can be won: #QUORLOCK_HEALTH_WORKS and so on. 0 for NULL.
 */
int32_t quorlock_probe_health(const struct quorlock_probe_t *probe);

/**
 * A health as a word: "works", "works_but", "cannot". NULL for any other number. The text
 * lives as long as the library.
 */
const char *quorlock_health_name(int32_t health);

/**
 * What the set is, and how many of its nodes would vote. `size` is
 * sizeof(quorlock_set_report_t): a later version has more at the end, and fills in as much
 * as there is room for.
 */
int32_t quorlock_probe_set(const struct quorlock_probe_t *probe,
                           struct quorlock_set_report_t *set,
                           size_t size,
                           struct quorlock_error_t **error);

/**
 * How many nodes the client has.
 */
size_t quorlock_probe_node_count(const struct quorlock_probe_t *probe);

/**
 * The state of one node, `index` counting from 0 in the order of the node list.
 * `size` is sizeof(quorlock_node_report_t), as above.
 *
 * Fails with #QUORLOCK_INVALID_ARGUMENT for an index beyond the last.
 */
int32_t quorlock_probe_node(const struct quorlock_probe_t *probe,
                            size_t index,
                            struct quorlock_node_report_t *report,
                            size_t size,
                            struct quorlock_error_t **error);

/**
 * What of a node's record is not as this client expects it: one field, `index` counting
 * from 0. NULL for an index beyond the last, of nodes or of fields.
 */
const char *quorlock_probe_difference(const struct quorlock_probe_t *probe,
                                      size_t node,
                                      size_t index);

/**
 * How many findings there are, of the set and of all nodes.
 */
size_t quorlock_probe_finding_count(const struct quorlock_probe_t *probe);

/**
 * One finding, `index` counting from 0: those of the set first, then those of each node,
 * the gravest of it first. `size` is sizeof(quorlock_finding_t), as above.
 *
 * Fails with #QUORLOCK_INVALID_ARGUMENT for an index beyond the last.
 */
int32_t quorlock_probe_finding(const struct quorlock_probe_t *probe,
                               size_t index,
                               struct quorlock_finding_t *finding,
                               size_t size,
                               struct quorlock_error_t **error);

/**
 * Frees a probe. NULL is allowed.
 */
void quorlock_probe_free(struct quorlock_probe_t *probe);

/**
 * What all clients of this process have measured, as the text that Prometheus
 * reads, ending with NUL: serve it as text/plain; version=0.0.4. What a client has
 * counted stays in it when the client is closed and freed. In a forked child it
 * begins anew. docs/operations/metrics.md explains every name in it. Free it with
 * quorlock_text_free(); NULL where the library has a bug, which the log tells.
 */
QUORLOCK_MUST_USE char *quorlock_metrics_text(void);

/**
 * Frees a text. NULL is allowed.
 */
void quorlock_text_free(char *text);

/**
 * Of the line whose log callback runs on the calling thread: what kind of thing it tells of, in
 * one word, such as "lease_lost" or "node_unreached". It is gone when the callback returns. NULL
 * elsewhere.
 */
const char *quorlock_log_event(void);

/**
 * As quorlock_log_event(): its text with the names of its fields in braces, the same for all lines
 * of its kind, so that a log can group them: "the lease of the lock `{lock}` is lost: {reason}".
 */
const char *quorlock_log_template(void);

/**
 * As quorlock_log_event(): what stands in the place of that name. "lock" is the name of a lock,
 * "node" a node as in errors, "reason" why. NULL where the line has no such field, too.
 */
const char *quorlock_log_field(const char *name);

/**
 * Sends the log of the whole process to `callback`; NULL for nowhere, as at
 * first. When it returns, a callback set before is over and will not be called
 * any more; called by that callback itself, this does not wait for it.
 */
void quorlock_set_log_callback(void *userdata, quorlock_log_callback_t callback);

/**
 * Closes every client of the process, ends Quorlock's threads and waits for
 * their end. Callbacks of losses come before it returns. For a program that
 * wants to end without anything left running; a program that just exits has its
 * leases released too. No other call may be under way. Handles are to be freed
 * all the same, before or after; a client made later starts the threads again,
 * and finds memory:// nodes empty.
 */
void quorlock_shutdown(void);

/**
 * Panics inside and reports it as every call would: #QUORLOCK_INTERNAL. For
 * tests of this library and of what is built upon it.
 */
int32_t quorlock_test_panic(struct quorlock_error_t **error);

/**
 * The calling thread's number, which no other thread of the process ever has: the system's
 * ids are used again. 0 while the thread's own storage is being torn down.
 */
uint64_t quorlock_thread_number(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* QUORLOCK_H */
