/**
 * @file quorlock.hpp
 * Quorlock: a distributed lock over independent Redis or Valkey masters, for C++17.
 *
 *     quorlock::client client({"redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"});
 *     quorlock::mutex orders(client, "orders:42");
 *     {
 *         std::scoped_lock hold(orders);
 *         orders.ensure(2s);  // throws quorlock::lock_lost where that cannot be had
 *         charge();           // takes 2 s at most
 *     }
 *
 * or by hand: `quorlock::lease lease = client.lock("orders:42").acquire();`. Several locks at once, all or none, are a
 * quorlock::multi_mutex; one of several processes leads by a quorlock::election.
 *
 * Everything here is inline over quorlock.h and has no binary interface of its own. Handles can be moved,
 * not copied; an object that was moved from may be destroyed or assigned to. Const member functions may be called
 * by all threads at once. Failures throw quorlock::error, by kind. Callbacks run on threads of the
 * library's own, also at the same time, and must not throw; those of a quorlock::event_queue, by which an event loop waits for many locks
 * without a thread for each, run where that is dispatched, and may. The work of a leader runs on the thread that calls,
 * and may throw too.
 *
 * With C++20 the waits take a std::stop_token, and lease::stop_token() is stopped when the lock is lost.
 *
 * Where exceptions are off (-fno-exceptions) what would throw says why on stderr and ends the program by abort(). Each call of
 * quorlock.h has a form that returns its error: quorlock::tried() and client::open().
 */

#ifndef QUORLOCK_HPP
#define QUORLOCK_HPP

/* Visual C++ says so in a macro of its own. */
#if __cplusplus < 201703L && !(defined(_MSVC_LANG) && _MSVC_LANG >= 201703L)
#error "quorlock.hpp needs C++17 or newer: compile with -std=c++17, or use quorlock.h"
#endif

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iosfwd>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#if __cplusplus > 201703L
#include <version>
#if defined(__cpp_lib_jthread)
#include <stop_token>
#endif
#if defined(__cpp_lib_format)
#include <format>
#endif
#endif

/* Visual C++ says so in a macro of its own. */
#if defined(__cpp_exceptions) || defined(_CPPUNWIND)
#define QUORLOCK_EXCEPTIONS 1
#else
#define QUORLOCK_EXCEPTIONS 0
#endif

#include "quorlock.h"

namespace quorlock {
#if !QUORLOCK_EXCEPTIONS
/* Objects with and without exceptions may be in one program, where functions of one name are one. */
inline namespace without_exceptions {
#endif

using std::chrono::milliseconds;

/** As a wait: without end. As max_hold: no cap. */
inline constexpr milliseconds forever = milliseconds::max();

/** A time of any unit of std::chrono, such as 2s or 1.5s: a part of a millisecond counts as a whole one, and more than ten years
 * as without end. One below zero is refused by what takes it. */
class timespan {
public:
    template <typename Rep, typename Period>
    timespan(const std::chrono::duration<Rep, Period> &time) : time_(milliseconds::min()) {
        using seconds = std::chrono::duration<double>;
        /* Compared before it is converted, which a time of the largest units may not bear; and what is no number stays refused. */
        if (seconds(time) > seconds(milliseconds::max() / 2))
            time_ = forever;
        else if (time > time.zero())
            time_ = std::chrono::ceil<milliseconds>(time);
        else if (time == time.zero())
            time_ = milliseconds::zero();
    }

    milliseconds get() const noexcept { return time_; }

private:
    milliseconds time_;
};

/* ---- errors ---- */

/** The kinds of errors, for std::error_code: see error::code(). */
enum class errc : int {
    // Made from core/vocabulary.toml: kinds.
    invalid_argument = QUORLOCK_INVALID_ARGUMENT,
    contended = QUORLOCK_CONTENDED,
    timeout = QUORLOCK_TIMEOUT,
    quorum_unavailable = QUORLOCK_QUORUM_UNAVAILABLE,
    lock_lost = QUORLOCK_LOCK_LOST,
    not_owner = QUORLOCK_NOT_OWNER,
    too_many_waiters = QUORLOCK_TOO_MANY_WAITERS,
    misconfigured = QUORLOCK_MISCONFIGURED,
    cancelled = QUORLOCK_CANCELLED,
    closed = QUORLOCK_CLOSED,
    forked = QUORLOCK_FORKED,
    internal = QUORLOCK_INTERNAL,
    would_deadlock = QUORLOCK_WOULD_DEADLOCK,
    // End of what is made.
};

/** The kind as a word, such as "Timeout". */
inline const char *to_string(errc kind) noexcept {
    const char *name = quorlock_kind_name(static_cast<std::int32_t>(kind));
    return name ? name : "unknown";
}

/** The category of std::error_code whose values are the kinds. Those that the standard library's own locks fail with are
 * equal to its conditions: std::errc::resource_deadlock_would_occur, operation_not_permitted, timed_out,
 * device_or_resource_busy, operation_canceled, invalid_argument. */
inline const std::error_category &category() noexcept {
    class kinds final : public std::error_category {
    public:
        const char *name() const noexcept override { return "quorlock"; }

        std::string message(int kind) const override {
            const char *what = quorlock_kind_summary(kind);
            return what ? what : "an error of another version of Quorlock";
        }

        std::error_condition default_error_condition(int kind) const noexcept override {
            switch (kind) {
                case QUORLOCK_INVALID_ARGUMENT: return std::errc::invalid_argument;
                case QUORLOCK_CONTENDED: return std::errc::device_or_resource_busy;
                case QUORLOCK_TIMEOUT: return std::errc::timed_out;
                case QUORLOCK_NOT_OWNER: return std::errc::operation_not_permitted;
                case QUORLOCK_CANCELLED: return std::errc::operation_canceled;
                case QUORLOCK_WOULD_DEADLOCK: return std::errc::resource_deadlock_would_occur;
                default: return {kind, *this};
            }
        }
    };
    /* Never destroyed: an error may be looked at until the process is gone. */
    static const kinds &made = *new kinds;
    return made;
}

inline std::error_code make_error_code(errc kind) noexcept { return {static_cast<int>(kind), category()}; }

/** What one node answered in the call that failed. */
struct node_error {
    std::string address;
    std::string message;
};

/** Base of all that is thrown. what() is the message and what each node answered. */
class error : public std::exception {
public:
    error(std::int32_t kind, std::string message, std::string text, std::vector<node_error> nodes, std::string lock_name = {},
          std::string holder = {})
        : told_(std::make_shared<const told>(told{kind, led(kind, std::move(message)), led(kind, std::move(text)),
                                                  std::move(nodes), std::move(lock_name), std::move(holder)})) {}

    /* No moves: an error that was moved from says what it did before, as an error that was copied. */
    error(const error &) noexcept = default;
    error &operator=(const error &) noexcept = default;
    ~error() override = default;

    const char *what() const noexcept override { return told_->text.c_str(); }

    /** The kind's number, such as QUORLOCK_TIMEOUT. */
    std::int32_t kind() const noexcept { return told_->kind; }

    /** The kind's name, such as "Timeout". */
    const char *kind_name() const noexcept {
        const char *name = quorlock_kind_name(kind());
        return name ? name : "";
    }

    /** The kind as a code: error.code() == quorlock::errc::timeout. */
    std::error_code code() const noexcept { return {static_cast<int>(kind()), category()}; }

    /** What the kind means in one sentence, without its full stop: what the message of every error of it begins with, and errors
     * can be grouped by. */
    const char *summary() const noexcept {
        const char *told = quorlock_kind_summary(kind());
        return told ? told : "";
    }

    /** The message without the nodes' answers. */
    const std::string &message() const noexcept { return told_->message; }

    /** What each node answered, in the order of the node list; empty where they played no part. */
    const std::vector<node_error> &nodes() const noexcept { return told_->nodes; }

    /** The name of the lock that it is about; empty where it is about none. */
    const std::string &lock_name() const noexcept { return told_->lock_name; }

    /** The label of the lock's holder, where a node has given it; empty else. A wait that ends (lock_timeout) nearly always
     * has it; a try (lock_contended) is mostly refused by a command that does not tell: ask lock::holder(). */
    const std::string &holder() const noexcept { return told_->holder; }

private:
    /* A text behind the sentence of its kind, unless it begins with that by itself. */
    static std::string led(std::int32_t kind, std::string text) {
        const char *summary = quorlock_kind_summary(kind);
        return !summary || text.rfind(summary, 0) == 0 ? std::move(text) : std::string(summary) + ": " + text;
    }

    struct told {
        std::int32_t kind;
        std::string message, text;
        std::vector<node_error> nodes;
        std::string lock_name, holder;
    };
    /* Shared, so that copying an exception cannot throw. */
    std::shared_ptr<const told> told_;
};

/** Others hold the lock: the base of lock_contended and lock_timeout. */
class lock_busy : public error {
public:
    using error::error;
    explicit lock_busy(const error &same) noexcept : error(same) {}
};

namespace detail {

/** From what the errors of a kind derive. */
template <std::int32_t Kind>
using base_of = std::conditional_t<Kind == QUORLOCK_CONTENDED || Kind == QUORLOCK_TIMEOUT, lock_busy, error>;

}  // namespace detail

/** The errors of one kind. */
template <std::int32_t Kind>
class error_of : public detail::base_of<Kind> {
    using base = detail::base_of<Kind>;

public:
    using base::base;
    explicit error_of(const error &same) noexcept : base(same) {}
};

// Made from core/vocabulary.toml: errors by their kinds.
using invalid_argument = error_of<QUORLOCK_INVALID_ARGUMENT>;
using lock_contended = error_of<QUORLOCK_CONTENDED>;
using lock_timeout = error_of<QUORLOCK_TIMEOUT>;
using quorum_unavailable = error_of<QUORLOCK_QUORUM_UNAVAILABLE>;
using lock_lost = error_of<QUORLOCK_LOCK_LOST>;
using not_owner = error_of<QUORLOCK_NOT_OWNER>;
using too_many_waiters = error_of<QUORLOCK_TOO_MANY_WAITERS>;
using misconfigured = error_of<QUORLOCK_MISCONFIGURED>;
using cancelled = error_of<QUORLOCK_CANCELLED>;
using client_closed = error_of<QUORLOCK_CLOSED>;
using forked_process = error_of<QUORLOCK_FORKED>;
using internal_error = error_of<QUORLOCK_INTERNAL>;
using would_deadlock = error_of<QUORLOCK_WOULD_DEADLOCK>;
// End of what is made.

namespace detail {

/** Frees a handle of C by its own function. */
struct freed {
    void operator()(quorlock_error_t *handle) const noexcept { quorlock_error_free(handle); }
    void operator()(quorlock_cancel_t *handle) const noexcept { quorlock_cancel_free(handle); }
    void operator()(quorlock_client_t *handle) const noexcept { quorlock_client_free(handle); }
    void operator()(quorlock_client_options_t *handle) const noexcept { quorlock_client_options_free(handle); }
    void operator()(quorlock_inspection_t *handle) const noexcept { quorlock_inspection_free(handle); }
    void operator()(quorlock_probe_t *handle) const noexcept { quorlock_probe_free(handle); }
    void operator()(quorlock_lock_t *handle) const noexcept { quorlock_lock_free(handle); }
    void operator()(quorlock_lock_options_t *handle) const noexcept { quorlock_lock_options_free(handle); }
    void operator()(quorlock_lease_t *handle) const noexcept { quorlock_lease_free(handle); }
    void operator()(quorlock_locks_t *handle) const noexcept { quorlock_locks_free(handle); }
    void operator()(quorlock_leases_t *handle) const noexcept { quorlock_leases_free(handle); }
    void operator()(quorlock_election_t *handle) const noexcept { quorlock_election_free(handle); }
    void operator()(quorlock_leadership_t *handle) const noexcept { quorlock_leadership_free(handle); }
    void operator()(quorlock_observer_t *handle) const noexcept { quorlock_observer_free(handle); }
    void operator()(quorlock_queue_t *handle) const noexcept { quorlock_queue_free(handle); }
};

template <typename Handle>
using owned = std::unique_ptr<Handle, freed>;

/** The error of a call, which is freed. */
inline error taken(std::int32_t code, quorlock_error_t *raw) {
    const owned<quorlock_error_t> handle(raw);
    const auto text = [](const char *c) { return std::string(c ? c : ""); };
    std::vector<node_error> nodes;
    for (std::size_t at = 0; at < quorlock_error_node_count(raw); ++at)
        nodes.push_back({text(quorlock_error_node_address(raw, at)), text(quorlock_error_node_message(raw, at))});
    std::size_t len = 0;
    const char *name = quorlock_error_lock_name(raw, &len);
    std::string lock_name(name ? name : "", len);
    std::string message = text(quorlock_error_message(raw)), whole = text(quorlock_error_text(raw));
    /* An object of this header that has no handle was moved from. */
    constexpr std::string_view null = " is NULL";
    if (code == QUORLOCK_INVALID_ARGUMENT && message.size() > null.size() &&
        message.compare(message.size() - null.size(), null.size(), null) == 0) {
        message.resize(message.size() - null.size());
        /* Its name stands behind the sentence of the kind. */
        const std::size_t colon = message.rfind(": ");
        const std::string object = colon == std::string::npos ? message : message.substr(colon + 2);
        whole = message = "the " + object + " was moved from: use the one that it was moved to";
    }
    return error(code, std::move(message), std::move(whole), std::move(nodes), std::move(lock_name),
                 text(quorlock_error_holder(raw)));
}

/** Throws an error as the type of its kind; where exceptions are off, ends the program. */
[[noreturn]] inline void throw_by_kind(const error &why) {
#if !QUORLOCK_EXCEPTIONS
    std::fprintf(stderr, "quorlock: %s: %s\nThis program is compiled without exceptions: it ends here. "
                 "quorlock::tried() returns the error of a call.\n", why.kind_name(), why.what());
    std::abort();
#else
#define QUORLOCK_RAISE(kind) \
    case kind: throw error_of<kind>(why)
    switch (why.kind()) {
        // Made from core/vocabulary.toml: kinds that are thrown.
        QUORLOCK_RAISE(QUORLOCK_INVALID_ARGUMENT);
        QUORLOCK_RAISE(QUORLOCK_CONTENDED);
        QUORLOCK_RAISE(QUORLOCK_TIMEOUT);
        QUORLOCK_RAISE(QUORLOCK_QUORUM_UNAVAILABLE);
        QUORLOCK_RAISE(QUORLOCK_LOCK_LOST);
        QUORLOCK_RAISE(QUORLOCK_NOT_OWNER);
        QUORLOCK_RAISE(QUORLOCK_TOO_MANY_WAITERS);
        QUORLOCK_RAISE(QUORLOCK_MISCONFIGURED);
        QUORLOCK_RAISE(QUORLOCK_CANCELLED);
        QUORLOCK_RAISE(QUORLOCK_CLOSED);
        QUORLOCK_RAISE(QUORLOCK_FORKED);
        QUORLOCK_RAISE(QUORLOCK_INTERNAL);
        QUORLOCK_RAISE(QUORLOCK_WOULD_DEADLOCK);
        // End of what is made.
    }
#undef QUORLOCK_RAISE
    /* A kind that is newer than this header. */
    throw why;
#endif
}

/** Throws an error that this header finds by itself. */
[[noreturn]] inline void refuse(std::int32_t kind, const char *why, std::string lock_name = {}) {
    throw_by_kind(error(kind, why, why, {}, std::move(lock_name)));
}

/** Throws the error of a call, by its kind. */
[[noreturn]] inline void raise(std::int32_t code, quorlock_error_t *raw) { throw_by_kind(taken(code, raw)); }

/** Runs `call(&error)` and throws what it says. */
template <typename Call>
void checked(Call &&call) {
    quorlock_error_t *raw = nullptr;
    if (const std::int32_t code = call(&raw); code != QUORLOCK_OK) raise(code, raw);
}

/** A time for C; one below zero is refused there, and never mistaken for a constant. */
inline std::int64_t ms(timespan given) noexcept {
    const milliseconds time = given.get();
    if (time == forever) return QUORLOCK_FOREVER;
    return time.count() < 0 ? std::numeric_limits<std::int64_t>::min() : time.count();
}

/** The wait of a call of the standard's names: not below zero, and without end beyond ten years, the longest time there is. */
inline milliseconds wait_of(timespan wait) noexcept {
    return wait.get() > std::chrono::hours(24 * 3650) ? forever : std::max(wait.get(), milliseconds::zero());
}

/** A function that C calls back. Shared, because it may replace or free itself while it runs. */
template <typename... Arguments>
struct callback : std::enable_shared_from_this<callback<Arguments...>> {
    explicit callback(std::function<void(Arguments...)> f) : function(std::move(f)) {}

    static void run(void *userdata, Arguments... arguments) noexcept {
        const auto self = static_cast<callback *>(userdata)->shared_from_this();
        self->function(arguments...);
    }

    std::function<void(Arguments...)> function;
};

using loss_callback = callback<std::int32_t>;
using log_callback = callback<std::int32_t, const char *>;

inline void on_lost(void *userdata, std::int32_t state) { loss_callback::run(userdata, state); }
inline void on_log(void *userdata, std::int32_t level, const char *line) { log_callback::run(userdata, level, line); }

}  // namespace detail

/* ---- options ---- */

/** Whether a node that may have lost its memory gives no vote until every vote that it may have given is over; the same for
 * all clients of a set. */
enum class restart_guard : std::int32_t {
    /** On for sets of three nodes and more. */
    automatic = QUORLOCK_RESTART_GUARD_AUTO,
    /** A wholly new set waits, too. */
    on = QUORLOCK_RESTART_GUARD_ON,
    /** A restart without data may give a lock to a second holder. */
    off = QUORLOCK_RESTART_GUARD_OFF,
};

/** How a lock is stored on the nodes, and so which other libraries it excludes. */
enum class layout : std::int32_t {
    /** Quorlock's own. */
    plain = QUORLOCK_LAYOUT_PLAIN,
    /** That of Redisson's RLock: one lock with Java programs. The key is the name then, a named owner is one in all processes
     * and in Java, and waiters are not queued on the nodes. Not with shared, slots, nor keep. */
    redisson = QUORLOCK_LAYOUT_REDISSON,
};

/** Options of a lock. What is not set is as its client has it. */
struct lock_options {
    // Made from core/options.toml: options of a lock.
    /** Auto-release time on the nodes: how long the lock outlives a crashed holder. A part of a millisecond is rounded up. Less
     * than 10,000 ms by default where max_ttl or max_hold is less. 10 ms to max_ttl. Default: 10,000 ms. */
    std::optional<milliseconds> ttl{};
    /** How long an acquire waits: zero tries once, no limit waits forever. At the end answers that are under way are awaited where
     * they decide, at most for another node_timeout. No limit: forever. Default: 10,000 ms. */
    std::optional<milliseconds> wait{};
    /** Whether the lease is renewed until it is released. Without, it ends after the ttl, unless extended. Default: true. */
    std::optional<bool> renew{};
    /** The longest life of a lease, renewed or not. By default the ttl, where that is longer than 3,600,000 ms. No limit: forever.
     * At least ttl. Default: 3,600,000 ms. */
    std::optional<milliseconds> max_hold{};
    /** Whether the key on the nodes is the name itself, so that other Redlock libraries and Quorlock exclude each other. Not with
     * shared nor slots. Default: false. */
    std::optional<bool> raw{};
    /** The owner of leases, by a name that is valid within the client: it enters its lease again. An acquire that gives the same
     * name, in any thread but with the same client, enters the lock again. What is acquired by hand without an owner is bound to no
     * thread, and a second acquire waits for it as for a stranger's. */
    std::optional<std::string> owner{};
    /** Whether leases have a fence. Without, one key less is written on each node. Default: true. */
    std::optional<bool> fencing{};
    /** How many calls of the client may wait for the lock in a line, behind the one that asks the nodes or holds it; one more gets
     * too_many_waiters at once. With 0 no call waits behind another. Default: 10,000. */
    std::optional<std::int64_t> max_waiters{};
    /** Whether every release goes over the nodes, where the waiters of all clients queue in their order. Without, a lease may be
     * passed on to the next in line of this client, up to 16 times in a row. Default: false. */
    std::optional<bool> fair{};
    /** Whether an acquire by the owner of a lease enters that lease again, at once. Without, an owner by name waits as any other
     * does, for its own lease too; an owner that is the calling thread would wait in vain, and gets would_deadlock at once.
     * Default: true. */
    std::optional<bool> reentrant{};
    /** For how long the lock stays taken after it was won, also when it is released before: so that a job which every host starts
     * at about the same time runs once. Counted on this client's clock, and kept by the nodes that the release reaches; a lease
     * that is lost, or whose process dies, leaves the lock to its ttl. At most max_ttl. Not with layout, shared nor confirm off.
     * Default: 0. */
    std::optional<milliseconds> keep{};
    /** The lock's group in metrics, which never name locks: a word for all of a kind, such as orders. The process keeps 64 groups;
     * those that come later are counted as other. At most 64 bytes. Default: "". */
    std::optional<std::string> group{};
    /** Whether the lease is one of many that share the lock: readers, which a lease that is not shared keeps out, and which keep
     * that out. A reader that asks while a writer waits is served after that writer. The fence of a shared lease is above that of
     * each lease before it that was not shared, and below that of each such lease after it; among readers it says nothing. An owner
     * that shares the lock and asks for it alone gets would_deadlock at once. Not with raw, layout, keep, slots nor
     * accept_eviction. Default: false. */
    std::optional<bool> shared{};
    /** Makes it a semaphore of this many slots: no more of them are held at once. Every client of the semaphore asks for as many
     * slots: the largest number in use is the limit. A lock of that name is another matter. 1 to 128. Not with raw, shared, layout
     * nor once. */
    std::optional<std::int64_t> slots{};
    /** How the lock is stored on the nodes: as Quorlock's own, or as one lock with Redisson's RLock of that name. In Redisson's
     * layout the key is the name, a named owner is one in all processes and in Java, and waiters are not queued on the nodes. Both
     * wake each other, and their fences are of one order with those of RFencedLock. Such a lease is not exported. Not with shared,
     * slots nor keep. Default: "plain". */
    std::optional<quorlock::layout> layout{};
    /** Whether each thread that acquires the lock is an owner of its own, as of a mutex. For a lock that the thread which has it
     * gives back. When the thread ends its lease is renewed no more. It counts for nothing where owner names one, and for a
     * semaphore. Default: false. */
    std::optional<bool> owner_thread{};
    /** Text that is stored with the token of a lease, which names the holder. Without control characters; empty for none. An
     * acquire that enters a lease again leaves that lease's label as it is. What is raw, or in Redisson's layout, has no label. At
     * most 256 bytes. Default: "host:pid". */
    std::optional<std::string> label{};
    /** Whether a release waits until a quorum of the nodes has carried it out. Without, it returns at once, and says whether the
     * lease was valid here until then; the nodes hear of it all the same. A call of release may say otherwise. Off, not with keep.
     * Default: true. */
    std::optional<bool> confirm{};
    // End of what is made.
};

/** Options of a client; those that locks have too are the defaults of its locks. See quorlock.h for the values
 * where nothing is set. */
struct client_options {
    // Made from core/options.toml: options of a client.
    /** The nodes of the set, by their URLs: a list, or one text with commas. Each is redis://[user:password@]host[:port][/db],
     * rediss:// for TLS, valkey:// and valkeys:// likewise, redis+unix:///path?db=1&user=u&password=p,
     * redis+sentinel://host:26379;host;host/master for a master with replicas that sentinels know by that name,
     * redis+cluster://host:6379;host for a Redis Cluster, or memory://name for a node in this process. Default:
     * "redis://127.0.0.1:6379". */
    std::optional<std::vector<std::string>> nodes{};
    /** See lock_options. */
    std::optional<milliseconds> ttl{};
    /** See lock_options. */
    std::optional<milliseconds> wait{};
    /** See lock_options. */
    std::optional<bool> renew{};
    /** See lock_options. */
    std::optional<milliseconds> max_hold{};
    /** See lock_options. */
    std::optional<bool> raw{};
    /** The longest ttl of any lock of the set, and so how long a node that may have lost its memory gives no vote. 10 ms to
     * 86,400,000 ms. Default: 60,000 ms. */
    std::optional<milliseconds> max_ttl{};
    /** Time for one request to one node: connect, queue, write and reply; at most a quarter of a lock's ttl. A hung node costs no
     * latency, for rounds end at the quorum. 1 ms to 60,000 ms. Default: 250 ms. */
    std::optional<milliseconds> node_timeout{};
    /** Time for a connection to a node to be made: name, TCP, TLS, and what the node is asked before it may vote. Calls that ask
     * once wait for the first connections as long, until a quorum of nodes is connected. 1 ms to 60,000 ms. Default: 2,000 ms. */
    std::optional<milliseconds> connect_timeout{};
    /** Bound on the difference of clock rates, as a fraction: validity is the ttl less this part of it and 2 ms. 0.001 to 0.5.
     * Default: 0.01. */
    std::optional<double> drift{};
    /** The fraction of the ttl that must be left when a lease is won. 0 to 0.9. Default: 0.1. */
    std::optional<double> min_validity{};
    /** Prefix of every key. It has at least one byte, and no braces. At most 256 bytes. Default: "lock:". */
    std::optional<std::string> name_space{};
    /** See lock_options. */
    std::optional<std::string> label{};
    /** Certificates that vouch for rediss:// nodes, in place of the system's: the path of a PEM file, or its text. */
    std::optional<std::string> ca{};
    /** The client's certificate: the path of a PEM file, or its text. Goes with key. */
    std::optional<std::string> cert{};
    /** The key of the client's certificate: the path of a PEM file, or its text. */
    std::optional<std::string> key{};
    /** See lock_options. */
    std::optional<bool> fencing{};
    /** How long a lock's counter of fences lives after its last use; at least twice max_ttl. After that the order of fences rests
     * on the nodes' clocks. By default twice max_ttl, where that is longer than 600,000 ms. Default: 600,000 ms. */
    std::optional<milliseconds> fence_ttl{};
    /** The name of the set that the nodes form: 1 to 64 printable ASCII characters without blanks. Nodes of another set are
     * refused. Default: "default". */
    std::optional<std::string> set_name{};
    /** Whether a node that may have lost its memory gives no vote until every vote that it may have given is over, which is after
     * max_ttl. auto is on for three nodes and more, and where a node fails over to another server. With on a wholly new set waits,
     * too; with off a node that restarts without its data may give a lock to a second holder. Default: "auto". */
    std::optional<quorlock::restart_guard> restart_guard{};
    /** Whether servers are accepted that drop keys when they are full: with them a lock may vanish under its holder. Without, such
     * a server is refused with misconfigured. Default: false. */
    std::optional<bool> accept_eviction{};
    /** How many replicas of a node must have a vote before it counts. With as many as the node has, a master that is cut off from
     * them gives no votes, and a failover loses none. A replica that hangs holds up every request to its master for half of
     * node_timeout, and the votes that it misses do not count. 0 to 16. Default: 0. */
    std::optional<std::int64_t> wait_replicas{};
    /** See lock_options. */
    std::optional<std::int64_t> max_waiters{};
    /** See lock_options. */
    std::optional<bool> fair{};
    /** See lock_options. */
    std::optional<bool> reentrant{};
    /** See lock_options. */
    std::optional<milliseconds> keep{};
    /** See lock_options. */
    std::optional<std::string> group{};
    /** See lock_options. */
    std::optional<quorlock::layout> layout{};
    // End of what is made.
};

namespace detail {

/** The options of a lock for C. */
inline owned<quorlock_lock_options_t> made(const lock_options &options) {
    owned<quorlock_lock_options_t> made(quorlock_lock_options_new());
    quorlock_lock_options_t *o = made.get();
    // Made from core/options.toml: what a lock is given.
    if (options.ttl) quorlock_lock_options_set_ttl(o, detail::ms(*options.ttl));
    if (options.wait) quorlock_lock_options_set_wait(o, detail::ms(*options.wait));
    if (options.renew) quorlock_lock_options_set_renew(o, *options.renew);
    if (options.max_hold) quorlock_lock_options_set_max_hold(o, detail::ms(*options.max_hold));
    if (options.raw) quorlock_lock_options_set_raw(o, *options.raw);
    if (options.owner) quorlock_lock_options_set_owner(o, options.owner->data(), options.owner->size());
    if (options.fencing) quorlock_lock_options_set_fencing(o, *options.fencing);
    if (options.max_waiters) quorlock_lock_options_set_max_waiters(o, *options.max_waiters);
    if (options.fair) quorlock_lock_options_set_fair(o, *options.fair);
    if (options.reentrant) quorlock_lock_options_set_reentrant(o, *options.reentrant);
    if (options.keep) quorlock_lock_options_set_keep(o, detail::ms(*options.keep));
    if (options.group) quorlock_lock_options_set_group(o, options.group->data(), options.group->size());
    if (options.shared) quorlock_lock_options_set_shared(o, *options.shared);
    if (options.slots) quorlock_lock_options_set_slots(o, *options.slots);
    if (options.layout) quorlock_lock_options_set_layout(o, static_cast<std::int32_t>(*options.layout));
    if (options.owner_thread) quorlock_lock_options_set_owner_thread(o, *options.owner_thread);
    if (options.label) quorlock_lock_options_set_label(o, options.label->data(), options.label->size());
    if (options.confirm) quorlock_lock_options_set_confirm(o, *options.confirm);
    // End of what is made.
    return made;
}

}  // namespace detail

/* ---- handles ---- */

/** The state of a lease. Above 0: why it was lost. */
enum class lease_state : std::int32_t {
    held = QUORLOCK_LEASE_HELD,
    // Made from core/vocabulary.toml: reasons.
    expired = QUORLOCK_LEASE_EXPIRED,
    refused = QUORLOCK_LEASE_REFUSED,
    max_hold = QUORLOCK_LEASE_MAX_HOLD,
    owner_gone = QUORLOCK_LEASE_OWNER_GONE,
    closed = QUORLOCK_LEASE_CLOSED,
    forced = QUORLOCK_LEASE_FORCED,
    // End of what is made.
    released = QUORLOCK_LEASE_RELEASED,
    none = QUORLOCK_LEASE_NONE,
};

/** The state as a word, such as "expired". */
inline const char *to_string(lease_state state) noexcept {
    const char *name = quorlock_state_name(static_cast<std::int32_t>(state));
    return name ? name : "unknown";
}

namespace detail {

/** A function of a user's as C calls it; none for an empty one. */
inline std::shared_ptr<loss_callback> loss_callback_of(std::function<void(lease_state)> function) {
    if (!function) return nullptr;
    return std::make_shared<loss_callback>(
        [told = std::move(function)](std::int32_t state) { told(static_cast<lease_state>(state)); });
}

}  // namespace detail

/** Ends waits from another thread. */
class cancel_token {
public:
    cancel_token() : handle_(quorlock_cancel_new()) {}

    /** Ends every wait that was given the token, and those that will be: they throw quorlock::cancelled. */
    void cancel() const noexcept { quorlock_cancel(handle_.get()); }

    const quorlock_cancel_t *get() const noexcept { return handle_.get(); }

private:
    detail::owned<quorlock_cancel_t> handle_;
};

/* ---- waiting without a thread ---- */

/** What has come of a call that was started: a value, or the error that says why there is none. */
template <typename T>
class [[nodiscard]] result {
public:
    explicit result(T value) : came_(std::in_place_index<0>, std::move(value)) {}
    explicit result(quorlock::error why) : came_(std::in_place_index<1>, std::move(why)) {}

    bool has_value() const noexcept { return came_.index() == 0; }

    /** The value; throws the error, by its kind, where there is none. */
    T &value() & {
        check();
        return *std::get_if<0>(&came_);
    }
    const T &value() const & {
        check();
        return *std::get_if<0>(&came_);
    }
    T &&value() && {
        check();
        return std::move(*std::get_if<0>(&came_));
    }

    /** Why there is no value; throws std::bad_variant_access where there is one. */
    const quorlock::error &error() const { return std::get<1>(came_); }

private:
    void check() const {
        if (const quorlock::error *why = std::get_if<1>(&came_)) detail::throw_by_kind(*why);
    }

    std::variant<T, quorlock::error> came_;
};

/**
 * Calls a function of quorlock.h, and returns what it gives, or its error: for code that wants no exception, above all where they
 * are off.
 *
 *     auto won = quorlock::tried<quorlock::lease>([&](auto made, auto error) {
 *         return quorlock_lock(orders.get(), 1000, nullptr, made, error);  // orders is a quorlock::lock
 *     });
 *     if (!won.has_value()) std::puts(won.error().what());
 *
 * `T` is a class of this header that owns a handle, or bool or the like for a call that gives that. For a call that gives nothing
 * it is left out, and so is `made`.
 */
template <typename T = void, typename Call>
[[nodiscard]] auto tried(Call &&call) {
    quorlock_error_t *error = nullptr;
    if constexpr (std::is_void_v<T>) {
        const std::int32_t code = call(&error);
        return code == QUORLOCK_OK ? result<std::monostate>(std::monostate()) : result<std::monostate>(detail::taken(code, error));
    } else if constexpr (std::is_class_v<T>) {
        std::remove_const_t<std::remove_pointer_t<decltype(std::declval<const T &>().get())>> *made = nullptr;
        const std::int32_t code = call(&made, &error);
        return code == QUORLOCK_OK ? result<T>(T(made)) : result<T>(detail::taken(code, error));
    } else {
        T given{};
        const std::int32_t code = call(&given, &error);
        return code == QUORLOCK_OK ? result<T>(given) : result<T>(detail::taken(code, error));
    }
}

namespace detail {

/** Acquires by `call(&handle, &error)`; nothing where others have it. */
template <typename T, typename Call>
std::optional<T> unless_busy(Call &&call) {
    result<T> came = tried<T>(std::forward<Call>(call));
    if (came.has_value()) return std::move(came).value();
    const std::int32_t kind = came.error().kind();
    if (kind != QUORLOCK_CONTENDED && kind != QUORLOCK_TIMEOUT) throw_by_kind(came.error());
    return std::nullopt;
}

/** What callbacks have thrown, until the thread that dispatches them can throw it. No exception crosses C. */
class thrown {
public:
    template <typename Run>
    void keep(Run &&run) noexcept {
#if !QUORLOCK_EXCEPTIONS
        run();
#else
        try {
            run();
        } catch (...) {
            const std::lock_guard<std::mutex> guard(inside_);
            if (!first_) first_ = std::current_exception();
        }
#endif
    }

    std::exception_ptr take() noexcept {
        const std::lock_guard<std::mutex> guard(inside_);
        return std::exchange(first_, nullptr);
    }

private:
    std::mutex inside_;
    std::exception_ptr first_;
};

}  // namespace detail

/**
 * Where an event loop hears what has come of calls that were started, and of losses: a descriptor for poll, epoll, libuv or
 * any other, and dispatch(), which runs the callbacks. However many locks are waited for, no thread waits for them.
 *
 *     quorlock::event_queue queue;
 *     client.lock("orders:42").async_acquire(queue, [](quorlock::result<quorlock::lease> won) {
 *         if (won.has_value()) work(std::move(won).value());
 *     });
 *     for (pollfd watched{queue.descriptor(), POLLIN, 0}; poll(&watched, 1, -1) >= 0;) queue.dispatch();
 *
 * Destroyed, it calls each callback that was not called so far, on the thread that destroys it: the error is
 * quorlock::cancelled, and what was acquired is given back. What a callback throws then is dropped. Losses come no more.
 * The destructor waits for a callback that another thread runs, so do not hold what that waits for; in a callback of the queue
 * it waits for none. After it none is called any more.
 */
class event_queue {
public:
    /** Throws internal_error if the process may open no more descriptors. */
    event_queue() : thrown_(std::make_shared<detail::thrown>()) {
        quorlock_queue_t *handle = nullptr;
        detail::checked([&](auto error) { return quorlock_queue_new(&handle, error); });
        handle_.reset(handle);
    }

    explicit event_queue(quorlock_queue_t *handle) : thrown_(std::make_shared<detail::thrown>()), handle_(handle) {}

    /** What to watch: it can be read while there is something to dispatch. Do not read, write or close it, and take it out of
     * the loop before the queue is destroyed. -1 in a forked child. */
    int descriptor() const noexcept { return quorlock_queue_fd(get()); }

    /** Runs the callbacks of all that is done, on this thread, and returns how many they were. Never waits. If callbacks have
     * thrown, throws what the first of them has, when all have been run; what others have thrown is dropped. A callback may
     * dispatch, too, and may destroy the queue: it is then the last one. */
    std::size_t dispatch() const {
        /* A share of its own, for a callback may destroy the queue. */
        const std::shared_ptr<detail::thrown> thrown = thrown_;
        const std::size_t told = quorlock_queue_dispatch(get());
        if (const std::exception_ptr first = thrown ? thrown->take() : nullptr) std::rethrow_exception(first);
        return told;
    }

    const quorlock_queue_t *get() const noexcept { return handle_.get(); }

    /** For this header: where what callbacks throw is kept. Throws invalid_argument for a queue that was moved from. */
    const std::shared_ptr<detail::thrown> &thrown() const {
        if (!handle_) detail::refuse(QUORLOCK_INVALID_ARGUMENT, "the queue was moved from: use the one that it was moved to");
        return thrown_;
    }

private:
    std::shared_ptr<detail::thrown> thrown_;
    detail::owned<quorlock_queue_t> handle_;
};

namespace detail {

/** A call under way, and whom to tell: C calls back once, and then it is gone. */
template <typename Value, typename Function>
struct started {
    Function function;
    std::shared_ptr<detail::thrown> thrown;

    template <typename Given>
    static void told(void *userdata, Given given, quorlock_error_t *error) noexcept {
        const std::unique_ptr<started> self(static_cast<started *>(userdata));
        self->thrown->keep([&] {
            if (error)
                self->function(result<Value>(taken(quorlock_error_kind(error), error)));
            else
                self->function(result<Value>(Value(given)));
        });
    }
};

/** Starts a call by `start(userdata, callback, &error)`, which is given back to `function`; throws if it did not begin. */
template <typename Value, typename Given, typename Function, typename Start>
void begin(const event_queue &queue, Function &&function, Start &&start) {
    using call = started<Value, std::decay_t<Function>>;
    static_assert(std::is_invocable_v<std::decay_t<Function> &, result<Value>>,
                  "the callback takes a quorlock::result of a lease, of leases, or of bool for a release");
    std::unique_ptr<call> made(new call{std::forward<Function>(function), queue.thrown()});
    checked([&](auto error) { return start(made.get(), &call::template told<Given>, error); });
    /* It is C's since, and may be gone already. */
    static_cast<void>(made.release());
}

/** A function of a user's that a queue calls. */
inline std::function<void(lease_state)> kept_in(const event_queue &queue, std::function<void(lease_state)> function) {
    if (!function) return nullptr;
    return [told = std::move(function), thrown = queue.thrown()](lease_state state) {
        thrown->keep([&] { told(state); });
    };
}

#if defined(__cpp_lib_jthread)
/** Acquires by `acquire(cancel)`, with a token of ours that is used when `stop` is stopped. */
template <typename Acquire>
auto unless_stopped(const std::stop_token &stop, Acquire &&acquire) {
    const cancel_token cancel;
    const std::stop_callback ends(stop, [&cancel]() noexcept { cancel.cancel(); });
    return acquire(cancel);
}

/** What is stopped at a loss. */
struct stopped_at_loss final : loss_callback {
    stopped_at_loss() : loss_callback([this](std::int32_t) { source.request_stop(); }) {}
    std::stop_source source;
};
#endif

}  // namespace detail

namespace detail {

/** The calls of quorlock.h on one lock and its lease, by the names that those on several have, too. */
struct one {
    using lock_handle = quorlock_lock_t;
    using lease_handle = quorlock_lease_t;

    template <typename... A> static std::int32_t acquire(A... a) noexcept { return quorlock_lock(a...); }
    template <typename... A> static std::int32_t start(A... a) noexcept { return quorlock_lock_start(a...); }
    template <typename... A> static std::int32_t release(A... a) noexcept { return quorlock_unlock(a...); }
    template <typename... A> static std::int32_t release_with(A... a) noexcept { return quorlock_unlock_with(a...); }
    template <typename... A> static std::int32_t start_release(A... a) noexcept { return quorlock_unlock_start(a...); }
    template <typename... A> static std::int32_t extend(A... a) noexcept { return quorlock_lease_extend(a...); }
    template <typename... A> static std::int32_t ensure(A... a) noexcept { return quorlock_lease_ensure(a...); }
    template <typename... A> static std::int32_t on_lost(A... a) noexcept { return quorlock_lease_set_lost_callback_on(a...); }
    template <typename... A> static std::int32_t on_stop(A... a) noexcept { return quorlock_lease_set_stop_callback(a...); }
    static std::int32_t state(const lease_handle *held) noexcept { return quorlock_lease_state(held); }
    static bool is_held(const lease_handle *held) noexcept { return quorlock_lease_is_held(held); }
    static std::int64_t remaining_ms(const lease_handle *held) noexcept { return quorlock_lease_remaining_ms(held); }
};

/** The calls on several locks and their leases. */
struct several {
    using lock_handle = quorlock_locks_t;
    using lease_handle = quorlock_leases_t;

    template <typename... A> static std::int32_t acquire(A... a) noexcept { return quorlock_lock_all(a...); }
    template <typename... A> static std::int32_t start(A... a) noexcept { return quorlock_lock_all_start(a...); }
    template <typename... A> static std::int32_t release(A... a) noexcept { return quorlock_unlock_all(a...); }
    template <typename... A> static std::int32_t release_with(A... a) noexcept { return quorlock_unlock_all_with(a...); }
    template <typename... A> static std::int32_t start_release(A... a) noexcept { return quorlock_unlock_all_start(a...); }
    template <typename... A> static std::int32_t extend(A... a) noexcept { return quorlock_leases_extend(a...); }
    template <typename... A> static std::int32_t ensure(A... a) noexcept { return quorlock_leases_ensure(a...); }
    template <typename... A> static std::int32_t on_lost(A... a) noexcept { return quorlock_leases_set_lost_callback_on(a...); }
    template <typename... A> static std::int32_t on_stop(A... a) noexcept { return quorlock_leases_set_stop_callback(a...); }
    static std::int32_t state(const lease_handle *held) noexcept { return quorlock_leases_state(held); }
    static bool is_held(const lease_handle *held) noexcept { return quorlock_leases_is_held(held); }
    static std::int64_t remaining_ms(const lease_handle *held) noexcept { return quorlock_leases_remaining_ms(held); }
};

}  // namespace detail

/** What a lease and leases that were acquired together have in common: "it" is the one, or all of the others. */
template <typename Calls>
class basic_lease {
    using raw = typename Calls::lease_handle;

public:
    /* For this header: the calls of quorlock.h on it. */
    using calls = Calls;

    explicit basic_lease(raw *made) noexcept : handle_(made) {}
    basic_lease(basic_lease &&) noexcept = default;
    basic_lease &operator=(basic_lease &&other) noexcept {
        /* The old lease first: then its callback is over and may go. */
        handle_ = std::move(other.handle_);
        lost_ = std::move(other.lost_);
        stop_ = std::move(other.stop_);
        return *this;
    }
    ~basic_lease() = default;

    /** Releases, and returns whether the lock was still held, or every one of several; false at the second call. Of a lock with
     * keep true means that a quorum of nodes keeps it taken. False with a warning in the log: too few do, or nodes refuse the
     * release for a missing permission. Never throws for a loss. */
    bool release() const {
        bool held = false;
        detail::checked([&](auto error) { return Calls::release(get(), &held, error); });
        return held;
    }

    /** The same, whatever lock_options::confirm says. With false it waits for no answer of the nodes, and returns whether it was valid
     * here until now: for a lock of which nothing is decided by the answer. What is sent is waited for by client::close() and the end
     * of the process. Then it throws invalid_argument of a lock with keep, which stays held, and nothing else. */
    bool release(bool confirm) const {
        bool held = false;
        detail::checked([&](auto error) { return Calls::release_with(get(), confirm, &held, error); });
        return held;
    }

    /** `held`, also of several if all are; else why it was lost, or the first of several that was. */
    lease_state state() const noexcept { return static_cast<lease_state>(Calls::state(get())); }

    /** Whether it is valid now, and each of several. Exact at every call. */
    bool is_held() const noexcept { return Calls::is_held(get()); }

    /** Validity left before the next renewal, the least of several; zero when it is over, or one of several is. */
    milliseconds remaining() const noexcept { return milliseconds(Calls::remaining_ms(get())); }

    /** Lengthens it to its ttl from now; never shortens it. Of several it throws what the first throws that could not be
     * lengthened; the others may have been. */
    void extend() const {
        detail::checked([&](auto error) { return Calls::extend(get(), QUORLOCK_DEFAULT, error); });
    }

    /** Lengthens it to `ttl` from now; never shortens it. */
    void extend(timespan ttl) const {
        detail::checked([&](auto error) { return Calls::extend(get(), detail::ms(ttl), error); });
    }

    /** Makes sure that so much validity is left, of each of several, extending it if it is not. */
    void ensure(timespan min) const {
        detail::checked([&](auto error) { return Calls::ensure(get(), detail::ms(min), error); });
    }

    /** Has `function` called once when it is lost, or the first of several, or soon if that was lost before; an empty one is for
     * none. When this returns, a function set before is over. It may destroy the lease. */
    void on_lost(std::function<void(lease_state)> function) {
        hear(nullptr, detail::loss_callback_of(std::move(function)));
    }

    /** As on_lost(), but it is called by the queue, and may throw there: see event_queue. One call of either kind
     * replaces the one before. */
    void on_lost(const event_queue &queue, std::function<void(lease_state)> function) {
        hear(queue.get(), detail::loss_callback_of(detail::kept_in(queue, std::move(function))));
    }

    /** Releases without waiting for it; the lease is over at once. `function` is called by the queue, with whether the lock was
     * still held, or every one of several: at the latest after node_timeout. The lease may be destroyed meanwhile. */
    template <typename Function>
    void async_release(const event_queue &queue, Function &&function) const {
        detail::begin<bool, bool>(queue, std::forward<Function>(function), [&](auto call, auto told, auto error) {
            return Calls::start_release(get(), queue.get(), call, told, error);
        });
    }

#if defined(__cpp_lib_jthread)
    /** A token that is stopped when the lock is lost, or the first of several, for work that takes one, and for waits that make no
     * sense without it. What waits on it is called on a thread of the library's for callbacks. It is not stopped by a release: the
     * code that releases knows that the work is over. The same token at every call; beside on_lost(). */
    std::stop_token stop_token() {
        if (!stop_) {
            auto made = std::make_shared<detail::stopped_at_loss>();
            detail::checked([&](auto error) { return Calls::on_stop(get(), made.get(), detail::on_lost, error); });
            /* Not only soon: a caller that gets it after the loss sees it stopped. Nothing waits on it yet that this could call. */
            if (static_cast<std::int32_t>(state()) > 0) made->source.request_stop();
            stop_ = std::move(made);
        }
        return static_cast<detail::stopped_at_loss &>(*stop_).source.get_token();
    }
#endif

    const raw *get() const noexcept { return handle_.get(); }

private:
    void hear(const quorlock_queue_t *queue, std::shared_ptr<detail::loss_callback> made) {
        detail::checked([&](auto error) {
            return Calls::on_lost(get(), queue, made.get(), made ? detail::on_lost : nullptr, error);
        });
        lost_ = std::move(made);
    }

    /* In this order: the handle goes first. The second is there for every standard, so that all have the same layout. */
    std::shared_ptr<detail::loss_callback> lost_, stop_;
    detail::owned<raw> handle_;
};

/** A hold on a lock. Destroyed, it is released in the background: a lease that the program does not keep protects nothing.
 * All that basic_lease has, and more. */
class [[nodiscard]] lease : public basic_lease<detail::one> {
public:
    explicit lease(quorlock_lease_t *handle) noexcept : basic_lease(handle) {}

    /** The fencing token: grows with every hold of the same lock, below 2^53, and stays the same in every re-entry.
     * 0 without fences. The resource that the lock protects refuses what comes with a smaller one than it has seen. */
    std::uint64_t fence() const noexcept { return quorlock_lease_fence(get()); }

    /** Which slot of a semaphore it has, counted from 0; -1 of a lock. No two leases that are held at one time have the same.
     * The fence grows with every hold of one slot; between slots it says nothing. */
    std::int32_t slot() const noexcept { return quorlock_lease_slot(get()); }

    /** Whether others may share the lock with it: it was asked for so, or has been downgraded. */
    bool is_shared() const noexcept { return quorlock_lease_is_shared(get()); }

    /** Shares it from now on with others that ask to share the lock, and calls those that wait for that. It keeps its fence.
     * Where it throws quorum_unavailable it is shared and held all the same. */
    void downgrade() const {
        detail::checked([&](auto error) { return quorlock_lease_downgrade(get(), error); });
    }

    /** Ends it here without releasing the lock; the text is for client::adopt() of one other client of the same nodes, in
     * another process, in another language, on another host. It is lengthened to its full ttl first, and is not renewed from then
     * on: adopt it within the ttl, or for as long as it was extended beyond that, else the lock is free. The text is a secret:
     * a program that has it can take the lock. */
    [[nodiscard]] std::string export_text() const {
        char *text = nullptr;
        detail::checked([&](auto error) { return quorlock_lease_export(get(), &text, error); });
        const std::unique_ptr<char, void (*)(char *)> owned(text, quorlock_text_free);
        return text;
    }
};

/** Holds on several locks that were acquired together. They are held while each of them is: the loss of one is the loss of
 * all, and the work that needs them has to stop. Those that are not lost stay held until they are released. Destroyed, they are
 * released in the background. All that basic_lease has, and more. */
class [[nodiscard]] leases : public basic_lease<detail::several> {
public:
    explicit leases(quorlock_leases_t *handle) noexcept : basic_lease(handle) {}

    /** The lock whose lease was lost, the first of them in their order; nothing where none was. */
    std::optional<std::string> lost_name() const {
        std::size_t len = 0;
        const char *name = quorlock_leases_lost_name(get(), &len);
        return name ? std::optional<std::string>(std::in_place, name, len) : std::nullopt;
    }

    /** The fencing token of the lease on the lock of that name: see lease::fence(). 0 also where no such lock is among them. */
    std::uint64_t fence(std::string_view name) const noexcept {
        return quorlock_leases_fence_of(get(), name.data(), name.size());
    }

    /** The names of the locks, each with its fencing token, in the order in which they were taken. */
    std::vector<std::pair<std::string, std::uint64_t>> fences() const {
        std::vector<std::pair<std::string, std::uint64_t>> found;
        for (std::size_t at = 0; at < quorlock_leases_count(get()); ++at) {
            std::size_t len = 0;
            const char *name = quorlock_leases_name(get(), at, &len);
            found.emplace_back(std::string(name ? name : "", len), quorlock_leases_fence(get(), at));
        }
        return found;
    }
};

/** What follows from the nodes' answers: who holds a lock. */
enum class verdict : std::int32_t {
    /** A quorum has the vote of one holder. */
    held = QUORLOCK_VERDICT_HELD,
    /** A quorum keeps it taken for a lease that was released: see lock_options::keep. */
    kept = QUORLOCK_VERDICT_KEPT,
    /** A quorum has no vote for any holder. */
    free = QUORLOCK_VERDICT_FREE,
    /** A quorum has answered and does not agree. */
    split = QUORLOCK_VERDICT_SPLIT,
    /** Fewer than a quorum have answered. */
    unknown = QUORLOCK_VERDICT_UNKNOWN,
};

/** The verdict as a word, such as "held". */
inline const char *to_string(verdict found) noexcept {
    const char *name = quorlock_verdict_name(static_cast<std::int32_t>(found));
    return name ? name : "unknown";
}

/** Who holds a lock, or keeps it. */
struct holder {
    /** The label of its client; empty where it has none, or is a client of another library. */
    std::string label;
    /** How many nodes have its vote. */
    std::uint64_t votes = 0;
    /** How much longer a quorum of these votes lasts, unless they are renewed. Nothing: they have no end. */
    std::optional<milliseconds> left;
    /** When it asked for the lock, by the nodes' clocks. */
    std::optional<std::chrono::system_clock::time_point> since;
    /** The fence of its hold, also where others have asked for the lock in vain since; 0 for none. Of a lease that was passed on
     * within its client, or won where nodes had counted differently far, from its next renewal on. Of readers, and of a holder that
     * is known to no node by its fence, the largest that a node has counted, which is never less than the holder's. */
    std::uint64_t fence = 0;
};

/** What one node has of a lock. */
struct node_view {
    /** The node, as in errors. */
    std::string node;
    /** What stands there: "held", "shared" (by readers), "kept", "free", "reserved" (free, and kept for a waiter that was called),
     * "foreign" (of another library, or of none), "unknown". */
    std::string state;
    /** The label of the holder that has the vote. */
    std::string label;
    /** Why it did not say; empty where it did. */
    std::string error;
    /** How much longer that lasts. */
    std::optional<milliseconds> left;
    /** The last fence that the node has counted, for the client that asked last; 0 for none. */
    std::uint64_t fence = 0;
    /** How many wait in its queue. */
    std::uint64_t queued = 0;
    /** How much longer it gives no vote, for it may have lost its memory. */
    milliseconds quarantine{0};
};

/** What the nodes have of a lock. It tells how it was: a program that wants to act on a lock has to acquire it. */
struct inspection {
    quorlock::verdict verdict = quorlock::verdict::unknown;
    std::optional<quorlock::holder> holder;
    /** The largest fence that a node has counted, for the holder, or for a client that asked in vain since: the holder's own is its
     * fence. 0 for none. */
    std::uint64_t fence = 0;
    /** How many wait in the queue of the lock: one for each client that waits. */
    std::uint32_t queued = 0;
    /** What each node has, in the order of the node list. */
    std::vector<node_view> nodes;
    /** How many slots are held, of the semaphore that was looked at. Of a lock that is free: of a semaphore that has its name, which
     * is another matter, and may be what was meant. */
    std::uint32_t slots_held = 0;
    /** Each slot of a semaphore, in the order of their numbers; none of a lock. A semaphore is free where a slot of it is, and has
     * no holder of its own. */
    std::vector<inspection> slots;
};

namespace detail {

/** Copies what C tells of a holder; nothing where there is none. */
inline std::optional<holder> holder_of(const quorlock_holder_t &who) {
    if (who.votes == 0) return std::nullopt;
    holder made{who.label ? who.label : "", who.votes, std::nullopt, std::nullopt, who.fence};
    if (who.left_ms >= 0) made.left = milliseconds(who.left_ms);
    if (who.since_ms != 0) made.since = std::chrono::system_clock::time_point(milliseconds(who.since_ms));
    return made;
}

/** Copies what C tells of a lock. */
inline inspection inspection_of(const owned<quorlock_inspection_t> &owned) {
    const quorlock_inspection_t *handle = owned.get();
    const auto text = [](const char *given) { return given ? std::string(given) : std::string(); };
    const auto time = [](std::int64_t ms) { return ms < 0 ? std::nullopt : std::optional(milliseconds(ms)); };
    inspection found;
    found.verdict = static_cast<quorlock::verdict>(quorlock_inspection_verdict(handle));
    found.fence = quorlock_inspection_fence(handle);
    found.queued = quorlock_inspection_queued(handle);
    quorlock_holder_t who = {};
    checked([&](auto error) { return quorlock_inspection_holder(handle, &who, sizeof who, error); });
    found.holder = holder_of(who);
    for (std::size_t i = 0; i < quorlock_inspection_node_count(handle); ++i) {
        quorlock_node_view_t view = {};
        checked([&](auto error) { return quorlock_inspection_node(handle, i, &view, sizeof view, error); });
        found.nodes.push_back({text(view.node), text(view.state), text(view.label), text(view.error), time(view.left_ms),
                               view.fence, view.queued, milliseconds(view.quarantine_ms)});
    }
    found.slots_held = quorlock_inspection_slots_held(handle);
    for (std::size_t i = 0; i < quorlock_inspection_slot_count(handle); ++i) {
        quorlock_inspection_t *one = nullptr;
        checked([&](auto error) { return quorlock_inspection_slot(handle, i, &one, error); });
        found.slots.push_back(inspection_of(detail::owned<quorlock_inspection_t>(one)));
    }
    return found;
}

}  // namespace detail

/** What a forced release has met and done: see lock::force_release(). */
struct forced {
    /** How the lock stood before. */
    inspection found;
    /** How many votes were taken away; 0 where nothing was there any more. */
    std::uint64_t freed = 0;
};

/** What a lock and several locks have in common: "it" is the one, or all of the others, or none of them. */
template <typename Calls, typename Lease>
class basic_lock {
    using raw = typename Calls::lock_handle;

public:
    explicit basic_lock(raw *made) noexcept : handle_(made) {}

    /** Acquires it, waiting as long as the options say, for several together. Those of one client that wait for it get it in the
     * order in which they came. */
    [[nodiscard]] Lease acquire() const { return acquire(QUORLOCK_DEFAULT, nullptr); }
    [[nodiscard]] Lease acquire(const cancel_token &cancel) const { return acquire(QUORLOCK_DEFAULT, cancel.get()); }

    /** Acquires it, waiting so long: zero tries once, `forever` is without end. */
    [[nodiscard]] Lease acquire(timespan wait) const { return acquire(detail::ms(wait), nullptr); }
    [[nodiscard]] Lease acquire(timespan wait, const cancel_token &cancel) const {
        return acquire(detail::ms(wait), cancel.get());
    }

#if defined(__cpp_lib_jthread)
    /** Acquires it; throws quorlock::cancelled when `stop` is stopped. */
    [[nodiscard]] Lease acquire(const std::stop_token &stop) const {
        return detail::unless_stopped(stop, [&](const cancel_token &cancel) { return acquire(cancel); });
    }
    [[nodiscard]] Lease acquire(timespan wait, const std::stop_token &stop) const {
        return detail::unless_stopped(stop, [&](const cancel_token &cancel) { return acquire(wait, cancel); });
    }
#endif

    /** Starts to acquire it, waiting as long as the options say, and returns at once: no thread waits meanwhile, however many
     * calls are under way. `function` is called once, by the queue, with the lease or with the error for which there is none.
     * It need not be copyable. The lock and the client may be destroyed meanwhile; closing the client ends the wait.
     *
     * The token that is returned ends this wait; destroyed, it does nothing. What was won before comes all the same.
     *
     * The lease has no owner, unless the options name one: the lock is not entered again, and release() of the lock does not
     * find the lease. It may be released on any thread. */
    template <typename Function>
    cancel_token async_acquire(const event_queue &queue, Function &&function) const {
        return start(QUORLOCK_DEFAULT, queue, std::forward<Function>(function));
    }
    template <typename Function>
    cancel_token async_acquire(const event_queue &queue, timespan wait, Function &&function) const {
        return start(detail::ms(wait), queue, std::forward<Function>(function));
    }

    /** Acquires it if it is free; nothing if another holds it, or one of several. */
    [[nodiscard]] std::optional<Lease> try_acquire() const { return try_acquire(std::int64_t{0}, nullptr); }

    /** As acquire(), but nothing where others had it all the time. */
    [[nodiscard]] std::optional<Lease> try_acquire(timespan wait) const { return try_acquire(detail::ms(wait), nullptr); }
    [[nodiscard]] std::optional<Lease> try_acquire(timespan wait, const cancel_token &cancel) const {
        return try_acquire(detail::ms(wait), cancel.get());
    }

    const raw *get() const noexcept { return handle_.get(); }

private:
    template <typename Function>
    cancel_token start(std::int64_t wait_ms, const event_queue &queue, Function &&function) const {
        cancel_token cancel;
        const auto begins = [&](auto call, auto told, auto error) {
            return Calls::start(get(), wait_ms, cancel.get(), queue.get(), call, told, error);
        };
        detail::begin<Lease, typename Calls::lease_handle *>(queue, std::forward<Function>(function), begins);
        return cancel;
    }

    std::optional<Lease> try_acquire(std::int64_t wait_ms, const quorlock_cancel_t *cancel) const {
        return detail::unless_busy<Lease>(
            [&](auto made, auto error) { return Calls::acquire(get(), wait_ms, cancel, made, error); });
    }

    Lease acquire(std::int64_t wait_ms, const quorlock_cancel_t *cancel) const {
        typename Calls::lease_handle *made = nullptr;
        detail::checked([&](auto error) { return Calls::acquire(get(), wait_ms, cancel, &made, error); });
        return Lease(made);
    }

    detail::owned<raw> handle_;
};

/** A name with options; holds nothing. All that basic_lock has, and more. */
class lock : public basic_lock<detail::one, lease> {
public:
    explicit lock(quorlock_lock_t *handle) noexcept : basic_lock(handle) {}

    /** Releases by lock: gives back the newest lease of the owner that its options give. Returns whether the lock was still
     * held. Throws not_owner where there is none: release the lease then. */
    bool release() const {
        bool held = false;
        detail::checked([&](auto error) { return quorlock_lock_release(get(), &held, error); });
        return held;
    }

    /** Whether any client holds the lock, or keeps it, or is about to: by one request to each node. Throws quorum_unavailable
     * if too few nodes answered. */
    [[nodiscard]] bool is_locked() const {
        bool locked = false;
        detail::checked([&](auto error) { return quorlock_lock_is_locked(get(), &locked, error); });
        return locked;
    }

    /** Reports who holds the lock, without acquiring it. That nodes do not answer is no error, but part of the result. */
    [[nodiscard]] inspection inspect() const {
        quorlock_inspection_t *handle = nullptr;
        detail::checked([&](auto error) { return quorlock_lock_inspect(get(), &handle, error); });
        return detail::inspection_of(detail::owned<quorlock_inspection_t>(handle));
    }

    /** Takes the lock away from its holder, or from what keeps it, for an operator: deletes the vote on all nodes, whatever
     * client or library put it there, and calls the next waiter. A lock without a holder is no error.
     *
     * The holder learns it at its next renewal, at most about a third of its ttl later, or when it extends: its lease is lost,
     * lease_state::forced, or lease_state::refused where another has taken the lock meanwhile. A lease that is not renewed
     * learns nothing before its end. Until then two may work, and their fences tell them apart.
     *
     * `fence` is that of the lease that is to go, or what inspect() tells of the holder: then only from the hold that has it, so
     * that a holder that has got the lock since is never hit. Without, any holder goes. 0, which a lease without fences has, is
     * refused. Of a semaphore all slots go, without a fence.
     *
     * Throws lock_contended if the lock is held, and not by `fence` for certain, and nothing is changed; quorum_unavailable if
     * too few nodes answer: some may have done it then, and calling again completes it; misconfigured where the lock's key is
     * no string. */
    forced force_release(std::optional<std::uint64_t> fence = std::nullopt) const {
        quorlock_inspection_t *handle = nullptr;
        forced done;
        detail::checked(
            [&](auto error) {
                return quorlock_lock_force_release(get(), fence.value_or(QUORLOCK_ANY_FENCE), &done.freed, &handle, error);
            });
        done.found = detail::inspection_of(detail::owned<quorlock_inspection_t>(handle));
        return done;
    }

    /** Takes one slot of a semaphore, counted from 0, away from its holder, as force_release() does a lock. Throws as that, and
     * invalid_argument where it is no semaphore, or has no such slot. */
    forced force_release_slot(std::uint32_t slot, std::optional<std::uint64_t> fence = std::nullopt) const {
        quorlock_inspection_t *handle = nullptr;
        forced done;
        const std::uint64_t whose = fence.value_or(QUORLOCK_ANY_FENCE);
        detail::checked([&](auto error) { return quorlock_lock_force_release_slot(get(), slot, whose, &done.freed, &handle, error); });
        done.found = detail::inspection_of(detail::owned<quorlock_inspection_t>(handle));
        return done;
    }

    /** Waits until the lock is free, or a slot of a semaphore is, and takes nothing: whether it was so before so long. Another may
     * have it a moment later: to have it, acquire it. It is looked at again and again, every 50 to 500 ms. Throws as
     * is_locked(). */
    bool wait_until_free(timespan wait = forever) const {
        bool free = false;
        detail::checked([&](auto error) { return quorlock_lock_wait_until_free(get(), detail::ms(wait), &free, error); });
        return free;
    }
};

/** Several names with the same options, to be held together; holds nothing. Callers that ask for the same names in any order do not
 * wait for each other in a ring. While it waits it holds those that come before the one it waits for, in an order that is the same in
 * all programs, and the others are free to all callers. What is thrown names the lock that could not be had: error::lock_name().
 * All that basic_lock has. */
class locks : public basic_lock<detail::several, leases> {
public:
    explicit locks(quorlock_locks_t *handle) noexcept : basic_lock(handle) {}
};

/** Who leads, as far as the nodes say. It tells how it was. */
struct leadership {
    /** Nothing where no candidate leads, or it is not known. */
    std::optional<holder> leader;
    /** Whether the nodes said it: false where too few have answered. */
    bool known = false;
};

/** Follows who leads: see election::observe(). */
class observer {
public:
    explicit observer(quorlock_observer_t *handle) noexcept : handle_(handle) {}

    /** How it is, at the first call; after that the next change, whenever that comes. A term that was shorter than the time
     * between two looks may be left out. Where too few nodes answer it says so, and never names who led before. */
    [[nodiscard]] leadership next() const { return next_of(nullptr); }

    /** The same. A token that is used ends the wait; a change that was not returned is returned by the next call. */
    [[nodiscard]] leadership next(const cancel_token &cancel) const { return next_of(cancel.get()); }

    const quorlock_observer_t *get() const noexcept { return handle_.get(); }

private:
    leadership next_of(const quorlock_cancel_t *cancel) const {
        quorlock_leadership_t *raw = nullptr;
        detail::checked([&](auto error) { return quorlock_observer_next(get(), cancel, &raw, error); });
        const detail::owned<quorlock_leadership_t> handle(raw);
        quorlock_holder_t who = {};
        detail::checked([&](auto error) { return quorlock_leadership_leader(raw, &who, sizeof who, error); });
        return {detail::holder_of(who), quorlock_leadership_is_known(raw)};
    }

    detail::owned<quorlock_observer_t> handle_;
};

/** A term of a leader, as it is lent to the work of election::run(). */
class term {
public:
    /* Both stay good until the work has returned; `stop` is a std::stop_source of C++20, or null. */
    term(const quorlock_lease_t *handle, const void *stop) noexcept : handle_(handle), stop_(stop) {}
    term(const term &) = delete;
    term &operator=(const term &) = delete;

    /** Whether this candidate leads now. Exact at every call: ask before each step that only a leader may do. */
    bool is_held() const noexcept { return quorlock_lease_is_held(get()); }

    lease_state state() const noexcept { return static_cast<lease_state>(quorlock_lease_state(get())); }

    /** Validity left before the next renewal; zero when the term is over. */
    milliseconds remaining() const noexcept { return milliseconds(quorlock_lease_remaining_ms(get())); }

    /** Larger than that of every term before: give it to what you write to, and let that refuse a smaller one. */
    std::uint64_t fence() const noexcept { return quorlock_lease_fence(get()); }

    /** Makes sure that so much validity is left, right before a step that takes so long. */
    void ensure(timespan min) const {
        detail::checked([&](auto error) { return quorlock_lease_ensure(get(), detail::ms(min), error); });
    }

#if defined(__cpp_lib_jthread)
    /** Is stopped as soon as the term is lost or given up, or the run is to end. */
    std::stop_token stop_token() const noexcept {
        return stop_ ? static_cast<const std::stop_source *>(stop_)->get_token() : std::stop_token();
    }
#endif

    const quorlock_lease_t *get() const noexcept { return handle_; }

private:
    const quorlock_lease_t *handle_;
    [[maybe_unused]] const void *stop_;
};

/** What election::run() does beside the work. */
struct run_options {
    /** Whether it campaigns again after work that ended well. */
    bool again = false;
    /** Called when a term is lost before its work has returned: on a thread of callbacks, so that it can tell the work to
     * stop now. Not after resign(). */
    std::function<void(lease_state)> on_lost{};
    /** Called on the thread of the work when that has returned or thrown, whatever ended it: from here on this candidate does
     * nothing of the term any more. Neither of the two may throw: the program would end. */
    std::function<void()> on_stopped{};
};

namespace detail {

/** What the calls of one run share, without a way to stop the work. */
struct unstoppable_run {
    const run_options &options;
    std::function<void(term &)> work;

    const void *begin() noexcept { return nullptr; }
    void stop() noexcept {}
    void end() noexcept {}
};

#if defined(__cpp_lib_jthread)
/** The same with a stop token for each term. */
struct stoppable_run {
    const run_options &options;
    std::function<void(term &)> work;
    std::mutex inside{};
    /* Of the term that there is, or the next. */
    std::stop_source source{};
    bool asked = false;

    const void *begin() noexcept { return &source; }

    /** The term is over. */
    void stop() noexcept {
        std::unique_lock<std::mutex> guard(inside);
        std::stop_source now = source;
        guard.unlock();
        /* This runs functions of the user's. */
        now.request_stop();
    }

    /** Nothing is done of the term any more. */
    void end() {
        const std::lock_guard<std::mutex> guard(inside);
        source = std::stop_source();
        if (asked) source.request_stop();
    }

    /** The run is to end. */
    void ask() noexcept {
        {
            const std::lock_guard<std::mutex> guard(inside);
            asked = true;
        }
        stop();
    }
};
#endif

/* What differs by standard is named by its type in each function that uses it, for objects of both may be in one program, where
 * functions of one name are one. */
#if defined(__cpp_lib_jthread)
using run_state = stoppable_run;
#else
using run_state = unstoppable_run;
#endif

/** How C calls a run. */
template <typename Run>
struct run_calls {
    static std::int32_t work(void *userdata, const quorlock_lease_t *held, char *why, std::size_t room) noexcept {
        Run &run = *static_cast<Run *>(userdata);
        term now(held, run.begin());
#if !QUORLOCK_EXCEPTIONS
        static_cast<void>(why);
        static_cast<void>(room);
        run.work(now);
        return 0;
#else
        try {
            run.work(now);
            return 0;
        } catch (const std::exception &failed) {
            std::snprintf(why, room, "%s", failed.what());
        } catch (...) {
            std::snprintf(why, room, "it threw what is no std::exception");
        }
        return 1;
#endif
    }

    static void lost(void *userdata, std::int32_t state) noexcept {
        Run &run = *static_cast<Run *>(userdata);
        run.stop();
        if (state > 0 && run.options.on_lost) run.options.on_lost(static_cast<lease_state>(state));
    }

    static void stopped(void *userdata) noexcept {
        Run &run = *static_cast<Run *>(userdata);
        run.end();
        if (run.options.on_stopped) run.options.on_stopped();
    }
};

/** Calls the work with what it wants of the term. */
template <typename State, typename Work>
decltype(auto) work_on(Work &work, term &now) {
#if defined(__cpp_lib_jthread)
    if constexpr (std::is_invocable_v<Work &, term &, std::stop_token>) {
        return work(now, now.stop_token());
    } else
#endif
        return work(now);
}

}  // namespace detail

/**
 * One candidate of an election: one of several processes does the work, and another takes over when it no longer can.
 *
 *     quorlock::election election = client.election("scheduler");
 *     election.run([](quorlock::term &term) { schedule_jobs(term); });
 *
 * The candidate that holds the lock of its name leads. A term has no owner: a candidate that leads already and campaigns once more, be it on
 * the same thread, waits for its own term to end. The fence of a term grows from term to term.
 */
class election {
public:
    explicit election(quorlock_election_t *handle) noexcept : handle_(handle) {}

    /** Waits until this candidate leads, and returns its term, for programs that loop by themselves: release it to resign, and
     * stop when it is lost. Waits without end, unless the options say otherwise. */
    [[nodiscard]] lease campaign() const { return campaign(QUORLOCK_DEFAULT, nullptr); }
    [[nodiscard]] lease campaign(const cancel_token &cancel) const { return campaign(QUORLOCK_DEFAULT, cancel.get()); }

    /** The same, waiting so long: zero tries once, `forever` is without end. */
    [[nodiscard]] lease campaign(timespan wait) const { return campaign(detail::ms(wait), nullptr); }
    [[nodiscard]] lease campaign(timespan wait, const cancel_token &cancel) const {
        return campaign(detail::ms(wait), cancel.get());
    }

    /**
     * Campaigns, and calls `work(term)` when this candidate leads; again and again, until `work` has returned while it led.
     * Returns what that did; with `again` it campaigns again, 100 ms after it called `work` at the earliest.
     *
     * `work` runs on the calling thread, where nothing can stop it when the term is lost: it has to look at term::is_held(), or
     * be stopped by `on_lost`. With C++20 term::stop_token() is stopped at once when the term is lost or given up; `work` may
     * take that as a second argument. It is not begun again before it has returned.
     *
     * After a term that was lost or given up it campaigns again, however `work` ended. If `work` throws while it leads, this
     * resigns, tells the log what(), pauses and campaigns again: at first for 0.5 to 1 s, so that another candidate may do
     * better, and for twice as long each time up to 30 s. A term of more than 30 s makes the next pause short again.
     *
     * Throws what ends it for good: misconfigured, invalid_argument, too_many_waiters, client_closed, forked_process. The wait
     * of the options does not count here.
     */
    template <typename Work, typename State = detail::run_state>
    auto run(Work &&work, const run_options &options = {}) const {
        State state{options, {}};
        return run_as(state, work, nullptr);
    }

    /** The same. A token that is used ends the campaign, or the pause after work that has failed: then this throws
     * cancelled. It does not end the work. */
    template <typename Work, typename State = detail::run_state>
    auto run(Work &&work, const cancel_token &cancel, const run_options &options = {}) const {
        State state{options, {}};
        return run_as(state, work, cancel.get());
    }

#if defined(__cpp_lib_jthread)
    /** The same, until `stop`, such as that of a std::jthread: it ends the campaign or the pause, with cancelled, and stops
     * the stop token of the term, so that the work ends. What `work` returns then is returned. */
    template <typename Work>
    auto run(Work &&work, std::stop_token stop, const run_options &options = {}) const {
        detail::stoppable_run state{options, {}};
        const cancel_token cancel;
        const std::stop_callback told(std::move(stop), [&]() noexcept {
            cancel.cancel();
            state.ask();
        });
        return run_as(state, work, cancel.get());
    }
#endif

    /** Whether this candidate leads now. Exact at every call. */
    bool is_leader() const noexcept { return quorlock_election_is_leader(get()); }

    /** Gives up the term that this candidate has, so that the next one is called; it may campaign again. Returns whether it
     * still led; false where it has no term. The term ends at once, also where run() has it: with C++20 its stop token is
     * stopped, and the run campaigns again when the work has returned. */
    bool resign() const {
        bool held = false;
        detail::checked([&](auto error) { return quorlock_election_resign(get(), &held, error); });
        return held;
    }

    /** Who leads, as a quorum of the nodes has it; nothing where no candidate does. One request to each node. It tells how it was.
     * Throws quorum_unavailable where too few nodes answered to know. */
    [[nodiscard]] std::optional<holder> leader() const {
        quorlock_leadership_t *raw = nullptr;
        detail::checked([&](auto error) { return quorlock_election_leader(get(), &raw, error); });
        const detail::owned<quorlock_leadership_t> handle(raw);
        quorlock_holder_t who = {};
        detail::checked([&](auto error) { return quorlock_leadership_leader(raw, &who, sizeof who, error); });
        return detail::holder_of(who);
    }

    /** Follows who leads: observer::next() gives how it is, and then each change. It looks as often as `every` says. */
    [[nodiscard]] observer observe(timespan every = std::chrono::seconds(1)) const {
        quorlock_observer_t *handle = nullptr;
        detail::checked([&](auto error) { return quorlock_election_observe(get(), detail::ms(every), &handle, error); });
        return observer(handle);
    }

    const quorlock_election_t *get() const noexcept { return handle_.get(); }

private:
    lease campaign(std::int64_t wait_ms, const quorlock_cancel_t *cancel) const {
        quorlock_lease_t *handle = nullptr;
        detail::checked([&](auto error) { return quorlock_election_campaign(get(), wait_ms, cancel, &handle, error); });
        return lease(handle);
    }

    template <typename Run, typename Work>
    auto run_as(Run &state, Work &work, const quorlock_cancel_t *cancel) const {
        using result = std::decay_t<decltype(detail::work_on<Run>(work, std::declval<term &>()))>;
        using calls = detail::run_calls<Run>;
        const auto lead = [&] {
            detail::checked([&](auto error) {
                return quorlock_election_run(get(), state.options.again, cancel, &state, calls::work, calls::lost,
                                             calls::stopped, error);
            });
        };
        if constexpr (std::is_void_v<result>) {
            state.work = [&](term &now) { detail::work_on<Run>(work, now); };
            lead();
        } else {
            std::optional<result> done;
            state.work = [&](term &now) { done.emplace(detail::work_on<Run>(work, now)); };
            lead();
            return std::move(*done);
        }
    }

    detail::owned<quorlock_election_t> handle_;
};

/** Whether locks can be won. */
enum class health : std::int32_t {
    /** A quorum votes, and there is nothing to fix. */
    works = QUORLOCK_HEALTH_WORKS,
    /** A quorum votes, but something needs to be fixed or waited for. */
    works_but = QUORLOCK_HEALTH_WORKS_BUT,
    /** Fewer nodes than a quorum would vote: no lock can be won now. */
    cannot = QUORLOCK_HEALTH_CANNOT,
};

/** The health as a word, such as "works_but". */
inline const char *to_string(health found) noexcept {
    const char *name = quorlock_health_name(static_cast<std::int32_t>(found));
    return name ? name : "unknown";
}

/** One thing that a probe has found. `docs/operations/doctor.md` lists all that there are. */
struct finding {
    /** Which one it is, such as "QD01": the same forever. */
    std::string id;
    /** "error": it costs a vote, or breaks what is promised. "warning": to be fixed, or waited for. "note": worth knowing. */
    std::string severity;
    /** What is wrong, without secrets. */
    std::string what;
    /** What to do about it. */
    std::string remedy;
};

/** The state of one node. What is not known of a node that cannot be used is empty, or nothing. */
struct node_report {
    using microseconds = std::chrono::microseconds;
    /** The node, as in errors; never with credentials. */
    std::string node;
    /** Whether it has answered. */
    bool answers = false;
    /** Whether it would give a vote now. */
    bool votes = false;
    /** The shortest of a few round trips, and the one in the middle of them. */
    std::optional<std::pair<microseconds, microseconds>> round_trip;
    /** What it is: "redis", "valkey", or "memory" for a node within the process; and the version of that. */
    std::string server, version;
    /** "master" or "replica". */
    std::string role;
    /** How long it has run. */
    std::optional<milliseconds> uptime;
    /** How far its clock is ahead of the one in the middle of the set's, negative where it is behind; and by how much that may
     * be wrong. */
    std::optional<microseconds> clock, clock_error;
    /** Its eviction policy. */
    std::string eviction;
    /** How much memory it uses, and how much it may use, in bytes; nothing also where it has no limit. */
    std::optional<std::int64_t> memory_used, memory_limit;
    /** Its record: "expected", "none", "other", or "unknown" where it was not read. A node within the process needs none:
     * "expected". */
    std::string record;
    /** What of its record is not as this client expects it, field by field. */
    std::vector<std::string> differences;
    /** How much longer it gives no vote, for it may have lost its memory. */
    milliseconds quarantine{0};
    /** How votes are given back there: "delifeq", "delex", or "script"; empty where that was not tried. */
    std::string release;
    /** What is to be said of it, the gravest first. */
    std::vector<finding> findings;
};

/** The state of a client's set. */
struct probe {
    /** The name of the set. */
    std::string set_name;
    /** How many nodes must vote for a lock. */
    std::uint64_t quorum = 0;
    /** The longest ttl of its locks, as this client has it. */
    milliseconds max_ttl{0};
    /** Whether this client guards restarts. */
    bool guard = false;
    /** How many nodes would give a vote now. */
    std::uint64_t votes = 0;
    /** What follows from all of that. */
    quorlock::health health = quorlock::health::cannot;
    /** What is to be said of the set as a whole. */
    std::vector<finding> findings;
    /** The nodes, in the order of the node list. */
    std::vector<node_report> nodes;
};

namespace detail {

/** Copies what C tells of a set. */
inline probe probe_of(const owned<quorlock_probe_t> &owned) {
    using std::chrono::microseconds;
    const quorlock_probe_t *handle = owned.get();
    const auto text = [](const char *given) { return given ? std::string(given) : std::string(); };
    const auto bytes = [](std::int64_t given) { return given < 0 ? std::nullopt : std::optional(given); };
    quorlock_set_report_t set = {};
    checked([&](auto error) { return quorlock_probe_set(handle, &set, sizeof set, error); });
    probe found;
    found.set_name = text(set.set_name);
    found.quorum = set.quorum;
    found.max_ttl = milliseconds(set.max_ttl_ms);
    found.guard = set.guard;
    found.votes = set.votes;
    found.health = static_cast<quorlock::health>(quorlock_probe_health(handle));
    for (std::size_t i = 0; i < quorlock_probe_node_count(handle); ++i) {
        quorlock_node_report_t report = {};
        checked([&](auto error) { return quorlock_probe_node(handle, i, &report, sizeof report, error); });
        node_report node;
        node.node = text(report.node);
        node.answers = report.answers;
        node.votes = report.votes;
        if (report.round_trip_least_us >= 0)
            node.round_trip.emplace(microseconds(report.round_trip_least_us), microseconds(report.round_trip_middle_us));
        node.server = text(report.server);
        node.version = text(report.version);
        node.role = text(report.role);
        if (report.uptime_ms >= 0) node.uptime = milliseconds(report.uptime_ms);
        if (report.clock_error_us >= 0) {
            node.clock = microseconds(report.clock_us);
            node.clock_error = microseconds(report.clock_error_us);
        }
        node.eviction = text(report.eviction);
        node.memory_used = bytes(report.memory_used);
        node.memory_limit = bytes(report.memory_limit);
        node.record = text(report.record);
        for (std::size_t at = 0; at < report.difference_count; ++at)
            node.differences.push_back(text(quorlock_probe_difference(handle, i, at)));
        node.quarantine = milliseconds(report.quarantine_ms);
        node.release = text(report.release);
        found.nodes.push_back(std::move(node));
    }
    for (std::size_t i = 0; i < quorlock_probe_finding_count(handle); ++i) {
        quorlock_finding_t one = {};
        checked([&](auto error) { return quorlock_probe_finding(handle, i, &one, sizeof one, error); });
        std::vector<finding> &of =
            one.node_index < 0 ? found.findings : found.nodes.at(static_cast<std::size_t>(one.node_index)).findings;
        of.push_back({text(one.id), text(one.severity), text(one.what), text(one.remedy)});
    }
    return found;
}

}  // namespace detail

/** A set of nodes, and what runs for it. Locks and leases may outlive it. */
class client {
public:
    explicit client(const client_options &options = {}) : client(open(options).value()) {}

    explicit client(quorlock_client_t *handle) noexcept : handle_(handle) {}

    /** The same, but returns the error for which there is no client. */
    [[nodiscard]] static result<client> open(const client_options &options) {
        const detail::owned<quorlock_client_options_t> made(quorlock_client_options_new());
        quorlock_client_options_t *o = made.get();
        if (options.nodes) {
            std::vector<const char *> urls;
            for (const std::string &url : *options.nodes) urls.push_back(url.c_str());
            quorlock_client_options_set_nodes(o, urls.data(), urls.size());
        }
        // Made from core/options.toml: what a client is given.
        if (options.ttl) quorlock_client_options_set_ttl(o, detail::ms(*options.ttl));
        if (options.wait) quorlock_client_options_set_wait(o, detail::ms(*options.wait));
        if (options.renew) quorlock_client_options_set_renew(o, *options.renew);
        if (options.max_hold) quorlock_client_options_set_max_hold(o, detail::ms(*options.max_hold));
        if (options.raw) quorlock_client_options_set_raw(o, *options.raw);
        if (options.max_ttl) quorlock_client_options_set_max_ttl(o, detail::ms(*options.max_ttl));
        if (options.node_timeout) quorlock_client_options_set_node_timeout(o, detail::ms(*options.node_timeout));
        if (options.connect_timeout) quorlock_client_options_set_connect_timeout(o, detail::ms(*options.connect_timeout));
        if (options.drift) quorlock_client_options_set_drift(o, *options.drift);
        if (options.min_validity) quorlock_client_options_set_min_validity(o, *options.min_validity);
        if (options.name_space)
            quorlock_client_options_set_namespace(o, options.name_space->data(), options.name_space->size());
        if (options.label) quorlock_client_options_set_label(o, options.label->data(), options.label->size());
        if (options.ca) quorlock_client_options_set_ca(o, options.ca->data(), options.ca->size());
        if (options.cert) quorlock_client_options_set_cert(o, options.cert->data(), options.cert->size());
        if (options.key) quorlock_client_options_set_key(o, options.key->data(), options.key->size());
        if (options.fencing) quorlock_client_options_set_fencing(o, *options.fencing);
        if (options.fence_ttl) quorlock_client_options_set_fence_ttl(o, detail::ms(*options.fence_ttl));
        if (options.set_name) quorlock_client_options_set_set_name(o, options.set_name->data(), options.set_name->size());
        if (options.restart_guard)
            quorlock_client_options_set_restart_guard(o, static_cast<std::int32_t>(*options.restart_guard));
        if (options.accept_eviction) quorlock_client_options_set_accept_eviction(o, *options.accept_eviction);
        if (options.wait_replicas) quorlock_client_options_set_wait_replicas(o, *options.wait_replicas);
        if (options.max_waiters) quorlock_client_options_set_max_waiters(o, *options.max_waiters);
        if (options.fair) quorlock_client_options_set_fair(o, *options.fair);
        if (options.reentrant) quorlock_client_options_set_reentrant(o, *options.reentrant);
        if (options.keep) quorlock_client_options_set_keep(o, detail::ms(*options.keep));
        if (options.group) quorlock_client_options_set_group(o, options.group->data(), options.group->size());
        if (options.layout) quorlock_client_options_set_layout(o, static_cast<std::int32_t>(*options.layout));
        // End of what is made.
        return tried<client>([&](auto handle, auto error) { return quorlock_client_new(o, handle, error); });
    }

    /** A client for these nodes, with default options. */
    explicit client(std::vector<std::string> nodes) : client(with_nodes(std::move(nodes))) {}

    /** Goes on with a lease that another client has exported by lease::export_text(), as long as that has not ended: with
     * what was left of its max_hold, the same ttl, or that if it is less, and a larger fence. Of two that adopt one lease one wins at
     * most. Throws lock_lost if it has ended or another has adopted it, invalid_argument for a text that is damaged, or of another
     * set, namespace or version. */
    [[nodiscard]] lease adopt(std::string_view text) const {
        quorlock_lease_t *handle = nullptr;
        detail::checked([&](auto error) { return quorlock_client_adopt(get(), text.data(), text.size(), &handle, error); });
        return lease(handle);
    }

    /** A lock by its name, any 1 to 1,024 bytes. */
    [[nodiscard]] quorlock::lock lock(std::string_view name, const lock_options &options = {}) const {
        const detail::owned<quorlock_lock_options_t> made = detail::made(options);
        quorlock_lock_t *handle = nullptr;
        detail::checked(
            [&](auto error) { return quorlock_lock_new(get(), name.data(), name.size(), made.get(), &handle, error); });
        return quorlock::lock(handle);
    }

    /** Several locks by their names, to be held together: 1 to 16 that differ, in any order; a name that is given twice is held
     * once. */
    [[nodiscard]] locks lock_all(const std::vector<std::string> &names, const lock_options &options = {}) const {
        const detail::owned<quorlock_lock_options_t> made = detail::made(options);
        std::vector<const char *> texts;
        std::vector<std::size_t> lens;
        for (const std::string &name : names) {
            texts.push_back(name.data());
            lens.push_back(name.size());
        }
        quorlock_locks_t *handle = nullptr;
        detail::checked([&](auto error) {
            return quorlock_locks_new(get(), texts.data(), lens.data(), names.size(), made.get(), &handle, error);
        });
        return locks(handle);
    }

    /** A candidate of the election of that name, which is that of a lock. What the options do not set is as an election wants
     * it: a wait and a term without an end, renewed, each release over the nodes. An owner is refused, for a term has none; so are
     * shared and slots, for one leads, and a release without confirm. */
    [[nodiscard]] quorlock::election election(std::string_view name, const lock_options &options = {}) const {
        const detail::owned<quorlock_lock_options_t> made = detail::made(options);
        quorlock_election_t *handle = nullptr;
        detail::checked(
            [&](auto error) { return quorlock_election_new(get(), name.data(), name.size(), made.get(), &handle, error); });
        return quorlock::election(handle);
    }

    /** Declares the set: founds it, where no node has a record, by writing its record to all nodes. A wholly new set
     * (servers that have run for longer than max_ttl and never stored anything) votes at once. Where the servers are only
     * too young, the call waits until they have run for max_ttl. Servers that may have lost something give no vote for
     * max_ttl first: the call does not wait for that. The log says for how long either is. Where all nodes have this set's
     * record already nothing is changed and no quarantine is lifted; so it is safe to run at every deploy. Throws
     * misconfigured, naming the nodes, if one has a record of another set or cannot be a node, quorum_unavailable if one
     * does not answer: nothing is written then. */
    void init_set() const {
        detail::checked([&](auto error) { return quorlock_client_init_set(get(), error); });
    }

    /** As init_set(), but lifts the quarantine of the set's nodes, or founds the set without one: two may then hold a lock
     * that was held within the last max_ttl. Only where you know that no lock is held. */
    void init_set_forced() const {
        detail::checked([&](auto error) { return quorlock_client_init_set_forced(get(), error); });
    }

    /** Checks the state of the set: which nodes answer, which would vote, and what needs to be fixed, each with an id, what
     * is wrong, and what to do. Nothing is admitted, founded or locked by it. It takes at most
     * connect_timeout and eight times node_timeout. That nodes do not answer, or cannot be used, is no error, but part of
     * the result: `docs/operations/doctor.md` lists what may be found. */
    [[nodiscard]] quorlock::probe probe() const {
        quorlock_probe_t *handle = nullptr;
        detail::checked([&](auto error) { return quorlock_client_probe(get(), &handle, error); });
        return detail::probe_of(detail::owned<quorlock_probe_t>(handle));
    }

    /** Counts since it was made. */
    quorlock_stats_t stats() const {
        quorlock_stats_t stats = {};
        detail::checked([&](auto error) { return quorlock_client_stats(get(), &stats, sizeof stats, error); });
        return stats;
    }

    /** Releases every lease, then stops what runs for it. Waits of other threads throw client_closed. */
    void close() const {
        detail::checked([&](auto error) { return quorlock_client_close(get(), error); });
    }

    const quorlock_client_t *get() const noexcept { return handle_.get(); }

private:
    static client_options with_nodes(std::vector<std::string> nodes) {
        client_options options;
        options.nodes = std::move(nodes);
        return options;
    }

    detail::owned<quorlock_client_t> handle_;
};

namespace detail {

/** Whether the threads that acquire with these options of a mutex are the owners, each its own. */
inline bool is_of_threads(const lock_options &options) noexcept {
    return !options.owner && !options.slots && options.owner_thread.value_or(true);
}

/** The options of a mutex: each thread is an owner of its own, unless an owner is named, and enters again or is refused. */
inline lock_options of_threads(lock_options options, bool recursive) {
    if (options.reentrant && *options.reentrant != recursive) {
        const char *const why = recursive ? "reentrant is false, and a recursive_mutex is entered again: use mutex"
                                          : "reentrant is true, and a mutex is not entered again: use recursive_mutex";
        refuse(QUORLOCK_INVALID_ARGUMENT, why);
    }
    options.reentrant = recursive;
    if (!options.owner_thread) options.owner_thread = true;
    if (recursive && !options.owner && !is_of_threads(options)) {
        const char *const why = options.slots ? "a slot has no owner that could enter it again: use mutex, or give slots no number"
                                              : "owner_thread is false, and a recursive_mutex is entered again by its owner: name one";
        refuse(QUORLOCK_INVALID_ARGUMENT, why);
    }
    return options;
}

/** What all mutexes share: TimedLockable, with the hold of each thread kept here. */
template <typename Lock, typename Lease>
class basic_mutex {
public:
    basic_mutex(const basic_mutex &) = delete;
    basic_mutex &operator=(const basic_mutex &) = delete;

    /** Waits without end; threads get it in the order in which they came. Throws what makes waiting pointless:
     * misconfigured, too_many_waiters, client_closed; would_deadlock if the thread has it and may not enter it again; lock_lost
     * if the thread had it, lost it, and has not unlocked it. */
    void lock() { keep(asked().acquire(forever)); }

    /** False only if another holds it; throws where that could not be found out, and as lock(). */
    [[nodiscard]] bool try_lock() { return kept(asked().try_acquire()); }

    /** False only if others held it all the time; throws where that could not be found out. */
    template <typename Rep, typename Period>
    [[nodiscard]] bool try_lock_for(const std::chrono::duration<Rep, Period> &wait) {
        const milliseconds at_most = wait_of(wait);
        return at_most == milliseconds::zero() ? try_lock() : kept(asked().try_acquire(at_most));
    }

    template <typename Clock, typename Duration>
    [[nodiscard]] bool try_lock_until(const std::chrono::time_point<Clock, Duration> &end) {
        const auto now = Clock::now();
        /* Compared first: the difference to a moment long past may not be representable. */
        return end <= now ? try_lock() : try_lock_for(end - now);
    }

#if defined(__cpp_lib_jthread)
    /** Waits without end, but until `stop` is stopped: throws quorlock::cancelled then. */
    void lock(const std::stop_token &stop) { keep(asked().acquire(forever, stop)); }

    /** False only if others held it all the time; throws quorlock::cancelled when `stop` is stopped before. */
    template <typename Rep, typename Period>
    [[nodiscard]] bool try_lock_for(const std::chrono::duration<Rep, Period> &wait, const std::stop_token &stop) {
        return unless_stopped(stop, [&](const cancel_token &cancel) {
            return kept(asked().try_acquire(wait_of(wait), cancel));
        });
    }

    template <typename Clock, typename Duration>
    [[nodiscard]] bool try_lock_until(const std::chrono::time_point<Clock, Duration> &end, const std::stop_token &stop) {
        const auto now = Clock::now();
        return end <= now ? try_lock_for(milliseconds::zero(), stop) : try_lock_for(end - now, stop);
    }

    /** A token that is stopped when the calling thread's hold is lost: see lease::stop_token(). A token that is never stopped if it
     * holds nothing. */
    std::stop_token stop_token() {
        const std::lock_guard<std::mutex> guard(inside_);
        const auto found = of_this_thread();
        return found == held_.rend() ? std::stop_token() : found->lease.stop_token();
    }
#endif

    /** Gives back what the calling thread holds, lost or not. Does nothing if it holds nothing. */
    void unlock() noexcept {
        std::optional<Lease> gone;
        {
            const std::lock_guard<std::mutex> guard(inside_);
            const auto found = of_this_thread();
            if (found == held_.rend()) return;
            gone.emplace(std::move(found->lease));
            held_.erase(std::next(found).base());
        }
        /* Waits for a quorum's answer, at most for node_timeout, or not at all: see lock_options::confirm. What is not released then
         * is in the background. */
        Lease::calls::release(gone->get(), nullptr, nullptr);
    }

    /** Whether the calling thread holds it, validly, now. */
    bool is_held() const noexcept {
        return of_hold([](const Lease &lease) { return lease.is_held(); }, false);
    }

    /** What is left of the calling thread's hold before the next renewal. */
    milliseconds remaining() const noexcept {
        return of_hold([](const Lease &lease) { return lease.remaining(); }, milliseconds::zero());
    }

    /** Makes sure that the calling thread holds it for so long. */
    void ensure(timespan min) const {
        const auto held = handle();
        if (!held) refuse(QUORLOCK_NOT_OWNER, "this thread does not hold the mutex");
        checked([&](auto error) { return Lease::calls::ensure(held, ms(min), error); });
    }

    /** Has `function` called whenever a hold that begins from now on is lost; one call for each time it was locked. */
    void on_lost(std::function<void(lease_state)> function) {
        const std::lock_guard<std::mutex> guard(inside_);
        lost_ = std::move(function);
    }

protected:
    basic_mutex(Lock lock, std::string_view name, const lock_options &options, bool recursive)
        : lock_(std::move(lock)), name_(name), looks_(!recursive && !is_of_threads(options)) {}

    /** The other mode of the same lock: a thread that has it in either is refused in both. */
    void set_other_mode(const basic_mutex &other) noexcept { other_mode_ = &other; }

    /** Whether the calling thread has a hold, lost or not, that it has not given back. */
    bool holds() const noexcept {
        return of_hold([](const Lease &) { return true; }, false);
    }

    /** What `ask` says of the calling thread's hold; `none` where it holds nothing. */
    template <typename Ask, typename Told>
    Told of_hold(Ask &&ask, Told none) const {
        const std::lock_guard<std::mutex> guard(inside_);
        const auto found = of_this_thread();
        return found == held_.rend() ? none : ask(found->lease);
    }

private:
    struct hold {
        std::uint64_t thread;
        Lease lease;
    };

    /** The lock, unless the calling thread has it and may not enter it again. Of threads the core knows that by itself. Of another
     * owner it does not: that may have more threads, one of which could release the lease. Not so a hold of this mutex, which its
     * own thread alone unlocks. */
    const Lock &asked() const {
        if (looks_) {
            refuse_holder();
            if (other_mode_) other_mode_->refuse_holder();
        }
        return lock_;
    }

    void refuse_holder() const {
        const auto held = handle();
        if (!held) return;
        /* Of a lost hold it throws the loss. */
        if (!is_held()) checked([&](auto error) { return Lease::calls::ensure(held, 1, error); });
        const char *const why =
            "the calling thread holds this mutex and would wait for itself: unlock it first, or use recursive_mutex";
        refuse(QUORLOCK_WOULD_DEADLOCK, why, name_);
    }

    /** The calling thread's hold; nothing where it has none. The pointer stays good: only this thread unlocks what it holds. */
    auto handle() const noexcept -> decltype(std::declval<const Lease &>().get()) {
        const std::lock_guard<std::mutex> guard(inside_);
        const auto found = of_this_thread();
        return found == held_.rend() ? nullptr : found->lease.get();
    }

    void keep(Lease won) {
        std::function<void(lease_state)> lost;
        {
            const std::lock_guard<std::mutex> guard(inside_);
            lost = lost_;
        }
        /* Not under the lock: the callback of what is lost already is called at once, and may come back here. */
        if (lost) won.on_lost(std::move(lost));
        const std::lock_guard<std::mutex> guard(inside_);
        held_.push_back({quorlock_thread_number(), std::move(won)});
    }

    bool kept(std::optional<Lease> won) {
        if (won) keep(std::move(*won));
        return won.has_value();
    }

    /** The newest hold of the calling thread. */
    typename std::vector<hold>::const_reverse_iterator of_this_thread() const noexcept {
        return std::find_if(held_.rbegin(), held_.rend(),
                            [here = quorlock_thread_number()](const hold &h) { return h.thread == here; });
    }
    typename std::vector<hold>::reverse_iterator of_this_thread() noexcept {
        return std::find_if(held_.rbegin(), held_.rend(),
                            [here = quorlock_thread_number()](const hold &h) { return h.thread == here; });
    }

    const Lock lock_;
    const std::string name_;
    const bool looks_;
    const basic_mutex *other_mode_ = nullptr;
    mutable std::mutex inside_;
    std::function<void(lease_state)> lost_;
    std::vector<hold> held_;
};

}  // namespace detail

/**
 * A lock as the standard library wants one: TimedLockable, for std::unique_lock, std::lock_guard and
 * std::scoped_lock.
 *
 * Each thread is an owner of its own: only the thread that locked it may unlock it. So a std::unique_lock or std::shared_lock that
 * has it must end on the thread where it was locked: on another one it gives back nothing, and the lock stays held. A thread that has it and locks it again
 * would wait for itself, and throws would_deadlock at once, by try_lock() too, and by another mutex of the same client and name.
 * For threads that do that there is recursive_mutex. Unlike that of one process, this mutex can be lost while it is held:
 * look at is_held() or call ensure() before a step that must not overlap. Where a thread ends and has not unlocked it, the
 * lease is renewed no more.
 *
 * Options that name an owner, or say no to owner_thread, or ask for slots, change whose the lease is, but not that: each hold of the
 * mutex is of the thread that locked it. Only this mutex knows of it then, and no other of the same client and name: a thread that
 * has one and locks the other waits for itself.
 */
class mutex : public detail::basic_mutex<quorlock::lock, lease> {
public:
    mutex(const client &client, std::string_view name, const lock_options &options = {})
        : mutex(client, name, options, false) {}

    /** The fencing token of the calling thread's hold: see lease::fence(). 0 if it holds nothing. */
    std::uint64_t fence() const noexcept {
        return of_hold([](const lease &held) { return held.fence(); }, std::uint64_t{0});
    }

protected:
    mutex(const client &client, std::string_view name, const lock_options &options, bool recursive)
        : basic_mutex(client.lock(name, detail::of_threads(options, recursive)), name, options, recursive) {}

    static void are_modes(mutex &one, mutex &other) noexcept {
        one.set_other_mode(other);
        other.set_other_mode(one);
    }
};

/**
 * A mutex that a thread which has it may lock again, and then has to unlock as often, as std::recursive_timed_mutex. All of the
 * thread's holds are one lease, of the client and the name. As mutex in all else.
 */
class recursive_mutex : public mutex {
public:
    recursive_mutex(const client &client, std::string_view name, const lock_options &options = {})
        : mutex(client, name, options, true) {}
};

/**
 * A lock in two modes, as std::shared_timed_mutex: many share it, or one thread has it alone. SharedTimedLockable, for
 * std::shared_lock beside what mutex is for.
 *
 *     quorlock::shared_mutex prices(client, "prices");
 *     { const std::shared_lock reading(prices); … }
 *     { const std::unique_lock writing(prices); … }
 *
 * is_held(), remaining(), ensure(), fence() and stop_token() tell of the hold that the calling thread has, in whichever mode.
 *
 * Readers that come while a writer waits for it are served after that writer. A thread that has it, in either mode, and locks it
 * again, in either mode, throws would_deadlock, as of mutex. The fence of a thread that shares it is above those of
 * all that had it alone before, and below those of all that will.
 */
class shared_mutex : public mutex {
public:
    shared_mutex(const client &client, std::string_view name, const lock_options &options = {})
        : mutex(client, name, with_mode(options, false)), readers_(client, name, with_mode(options, true)) {
        are_modes(*this, readers_);
    }

    /** As lock(), to share it. */
    void lock_shared() { readers_.lock(); }

    /** As try_lock(), to share it. */
    [[nodiscard]] bool try_lock_shared() { return readers_.try_lock(); }

    /** As try_lock_for(), to share it. */
    template <typename Rep, typename Period>
    [[nodiscard]] bool try_lock_shared_for(const std::chrono::duration<Rep, Period> &wait) {
        return readers_.try_lock_for(wait);
    }

    template <typename Clock, typename Duration>
    [[nodiscard]] bool try_lock_shared_until(const std::chrono::time_point<Clock, Duration> &end) {
        return readers_.try_lock_until(end);
    }

    /** Gives back what the calling thread shares, lost or not. Does nothing if it shares nothing. */
    void unlock_shared() noexcept { readers_.unlock(); }

    /** Whether the calling thread shares it, validly, now. */
    bool is_held_shared() const noexcept { return readers_.is_held(); }

    /** Whether the calling thread holds it, alone or shared, validly, now. */
    bool is_held() const noexcept { return mine().is_held(); }

    /** What is left of the calling thread's hold, alone or shared, before the next renewal. */
    milliseconds remaining() const noexcept { return mine().remaining(); }

    /** Makes sure that the calling thread holds it, alone or shared, for so long. */
    void ensure(timespan min) const { mine().ensure(min); }

    /** The fencing token of the calling thread's hold, alone or shared. 0 if it holds nothing. */
    std::uint64_t fence() const noexcept { return mine().fence(); }

#if defined(__cpp_lib_jthread)
    /** As lock(stop), to share it. */
    void lock_shared(const std::stop_token &stop) { readers_.lock(stop); }

    /** As try_lock_for(wait, stop), to share it. */
    template <typename Rep, typename Period>
    [[nodiscard]] bool try_lock_shared_for(const std::chrono::duration<Rep, Period> &wait, const std::stop_token &stop) {
        return readers_.try_lock_for(wait, stop);
    }

    template <typename Clock, typename Duration>
    [[nodiscard]] bool try_lock_shared_until(const std::chrono::time_point<Clock, Duration> &end, const std::stop_token &stop) {
        return readers_.try_lock_until(end, stop);
    }

    /** A token that is stopped when the calling thread's hold, alone or shared, is lost: see mutex::stop_token(). */
    std::stop_token stop_token() { return holds() ? mutex::stop_token() : readers_.stop_token(); }
#endif

    /** Has `function` called whenever a hold of either mode that begins from now on is lost. */
    void on_lost(const std::function<void(lease_state)> &function) {
        mutex::on_lost(function);
        readers_.on_lost(function);
    }

private:
    /** In which mode the calling thread holds it: alone, where it has it in both. */
    const mutex &mine() const noexcept { return holds() ? *this : readers_; }

    static lock_options with_mode(lock_options options, bool shared) {
        options.shared = shared;
        return options;
    }

    mutex readers_;
};

/**
 * At most `slots` of it are held at once, by whatever program: a semaphore with the words of std::counting_semaphore.
 *
 *     quorlock::semaphore api(client, "api", 5);
 *     api.acquire(); … api.release();
 *
 *     const quorlock::lease slot = api.hold();    // to the end of the scope, and slot.slot() tells which one
 *
 * 1 to 128 slots. All that use it have to ask for as many: the largest number in use is the limit. What is acquired and not
 * released goes with the object. May be used by many threads at once; any of them may release, what it has acquired itself
 * before what others have. A thread that gives back what another has acquired should have none of its own.
 *
 * A slot that is lost is free for others from then on, but counts here as acquired until a release() has stood for it, which
 * gives back nothing: so each acquire is followed by one release, also after a loss.
 */
class semaphore {
public:
    semaphore(const client &client, std::string_view name, std::int64_t slots, const lock_options &options = {})
        : lock_(client.lock(name, with_slots(options, slots))) {}
    semaphore(const semaphore &) = delete;
    semaphore &operator=(const semaphore &) = delete;

    /** Waits without end for a slot, and has it. Throws what makes waiting pointless, as mutex::lock(). */
    void acquire() { keep(lock_.acquire(forever)); }

    /** Has a slot if one is free. */
    [[nodiscard]] bool try_acquire() { return kept(lock_.try_acquire()); }

    /** As acquire(), for so long at most; false if none was free all the time. */
    template <typename Rep, typename Period>
    [[nodiscard]] bool try_acquire_for(const std::chrono::duration<Rep, Period> &wait) {
        const milliseconds at_most = detail::wait_of(wait);
        return at_most == milliseconds::zero() ? try_acquire() : kept(lock_.try_acquire(at_most));
    }

    template <typename Clock, typename Duration>
    [[nodiscard]] bool try_acquire_until(const std::chrono::time_point<Clock, Duration> &end) {
        const auto now = Clock::now();
        return end <= now ? try_acquire() : try_acquire_for(end - now);
    }

    /** Gives back one slot: of those that the calling thread has acquired here the newest that is held, and where all of them are
     * lost one of these, which does nothing to others. A thread that has acquired none gives back a slot of other threads: a
     * lost one if there is one, else the newest. Does nothing if there is none. */
    void release() noexcept {
        std::optional<lease> gone;
        {
            const std::lock_guard<std::mutex> guard(inside_);
            const auto next = next_to_go();
            if (next == slots_.end()) return;
            gone.emplace(std::move(next->held));
            slots_.erase(next);
        }
        /* Waits for a quorum's answer, at most for node_timeout, or not at all: see lock_options::confirm. What is not released then
         * is in the background. */
        detail::one::release(gone->get(), nullptr, nullptr);
    }

    /** Waits for a slot, as long as the options say, and has it as long as the lease is there, which tells the rest. */
    [[nodiscard]] lease hold() const { return lock_.acquire(); }

    /** What each slot has: see lock::inspect(). */
    [[nodiscard]] inspection inspect() const { return lock_.inspect(); }

    /** Takes all slots away from their holders: see lock::force_release(). */
    forced force_release() const { return lock_.force_release(); }

    /** Takes that slot away: see lock::force_release_slot(). */
    forced force_release_slot(std::uint32_t slot, std::optional<std::uint64_t> fence = std::nullopt) const {
        return lock_.force_release_slot(slot, fence);
    }

    /** Waits until a slot is free, and takes none: see lock::wait_until_free(). */
    bool wait_until_free(timespan wait = forever) const { return lock_.wait_until_free(wait); }

    /** How many slots this object has, validly, now. */
    std::size_t held() const {
        const std::lock_guard<std::mutex> guard(inside_);
        const auto valid = [](const slot &one) { return one.held.is_held(); };
        return static_cast<std::size_t>(std::count_if(slots_.begin(), slots_.end(), valid));
    }

private:
    struct slot {
        std::uint64_t thread;
        lease held;
    };

    static lock_options with_slots(lock_options options, std::int64_t slots) {
        options.slots = slots;
        return options;
    }

    void keep(lease won) {
        const std::lock_guard<std::mutex> guard(inside_);
        slots_.push_back({quorlock_thread_number(), std::move(won)});
    }

    bool kept(std::optional<lease> won) {
        if (won) keep(std::move(*won));
        return won.has_value();
    }

    /** The slot that release() gives back. */
    std::vector<slot>::iterator next_to_go() noexcept {
        const auto here = quorlock_thread_number();
        const auto mine = [&](const slot &one) { return one.thread == here; };
        const bool any_mine = std::any_of(slots_.begin(), slots_.end(), mine);
        auto held = slots_.end(), lost = slots_.end();
        for (auto at = slots_.begin(); at != slots_.end(); ++at) {
            if (any_mine && !mine(*at)) continue;
            (at->held.is_held() ? held : lost) = at;
        }
        const auto first = any_mine ? held : lost;
        return first != slots_.end() ? first : any_mine ? lost : held;
    }

    quorlock::lock lock_;
    mutable std::mutex inside_;
    /* In the order in which they were acquired. */
    std::vector<slot> slots_;
};

/**
 * Several locks as one mutex: all of them are held, or none. As std::scoped_lock has it for several mutexes, callers that ask
 * for the same names in any order, also in other programs, never wait for each other in a ring; and it takes one round trip.
 *
 *     quorlock::multi_mutex accounts(client, {"account:1", "account:2"});
 *     const std::scoped_lock hold(accounts);
 *     transfer(accounts.fence("account:1"), accounts.fence("account:2"));
 *
 * As mutex in all else: a thread that has one of the names, by whatever mutex of the client, throws would_deadlock. The loss of one
 * lock is the loss of all.
 */
class multi_mutex : public detail::basic_mutex<locks, leases> {
public:
    multi_mutex(const client &client, const std::vector<std::string> &names, const lock_options &options = {})
        : basic_mutex(client.lock_all(names, detail::of_threads(options, false)), names.empty() ? "" : names.front(), options, false) {}

    /** The fencing token of the calling thread's hold on the lock of that name. 0 if it holds nothing, or has no such lock. */
    std::uint64_t fence(std::string_view name) const noexcept {
        return of_hold([&](const leases &held) { return held.fence(name); }, std::uint64_t{0});
    }

    /** The lock that the calling thread has lost, of those that it holds here; nothing where it has lost none. */
    std::optional<std::string> lost_name() const {
        return of_hold([](const leases &held) { return held.lost_name(); }, std::optional<std::string>());
    }
};

/* ---- the process ---- */

enum class log_level : std::int32_t { warn = QUORLOCK_LOG_WARN, info = QUORLOCK_LOG_INFO };

/** Sends the log of the whole process to `function`; an empty one is for nowhere, as at first. When this returns,
 * one set before is over. For one thread at a time. */
inline void set_log(std::function<void(log_level, std::string_view)> function) {
    /* Never destroyed: lines may come until the process is gone. */
    static auto &current = *new std::shared_ptr<detail::log_callback>();
    std::shared_ptr<detail::log_callback> made;
    if (function)
        made = std::make_shared<detail::log_callback>(
            [told = std::move(function)](std::int32_t level, const char *line) {
                told(static_cast<log_level>(level), line);
            });
    quorlock_set_log_callback(made.get(), made ? detail::on_log : nullptr);
    current = std::move(made);
}

/** Of the line that the calling thread is in the function of set_log() with: what kind of thing it tells of, in one word, such as
 * "lease_lost"; its text with the names of its fields in braces, the same for all lines of its kind; and one of those fields, such
 * as "lock", "node" and "reason", nothing where it has none of that name. Empty elsewhere. */
inline std::string log_event() {
    const char *told = quorlock_log_event();
    return told ? told : "";
}
inline std::string log_template() {
    const char *told = quorlock_log_template();
    return told ? told : "";
}
inline std::optional<std::string> log_field(const char *name) {
    const char *told = quorlock_log_field(name);
    return told ? std::optional<std::string>(told) : std::nullopt;
}

/** What all clients of this process have measured, as the text that Prometheus reads: serve it as
 * `text/plain; version=0.0.4`. What a client has counted stays in it when the client is closed and gone. In a forked child it
 * begins anew. `docs/operations/metrics.md` explains every name in it. */
inline std::string metrics_text() {
    const std::unique_ptr<char, void (*)(char *)> made(quorlock_metrics_text(), quorlock_text_free);
    if (!made) detail::refuse(QUORLOCK_INTERNAL, "the metrics could not be made");
    return made.get();
}

/** Closes every client, ends the library's threads and waits for their end. No other call may be under way. */
inline void shutdown() noexcept { quorlock_shutdown(); }

/* ---- as text ---- */

/** The level as a word: "warn" or "info". */
inline const char *to_string(log_level level) noexcept { return level == log_level::warn ? "warn" : "info"; }

/** Writes the word of a state, verdict, health, level or kind. */
template <typename Traits, typename Named, std::enable_if_t<std::is_enum_v<Named>, int> = 0,
          typename = decltype(to_string(std::declval<Named>()))>
std::basic_ostream<char, Traits> &operator<<(std::basic_ostream<char, Traits> &out, Named named) {
    return out << to_string(named);
}

/** Writes the kind of an error and what() says. */
template <typename Traits>
std::basic_ostream<char, Traits> &operator<<(std::basic_ostream<char, Traits> &out, const error &why) {
    return out << why.kind_name() << ": " << why.what();
}

/** Writes a node and what it answered. */
template <typename Traits>
std::basic_ostream<char, Traits> &operator<<(std::basic_ostream<char, Traits> &out, const node_error &why) {
    return out << why.address << ": " << why.message;
}

#if !QUORLOCK_EXCEPTIONS
}  // namespace without_exceptions
#endif
}  // namespace quorlock

template <>
struct std::is_error_code_enum<quorlock::errc> : std::true_type {};

#if defined(__cpp_lib_format)
/** As by operator<<: "{}" and the formats of texts. */
template <typename Named>
    requires std::is_enum_v<Named> && requires(Named named) { quorlock::to_string(named); }
struct std::formatter<Named, char> : std::formatter<std::string_view, char> {
    template <typename Context>
    auto format(Named named, Context &context) const {
        return std::formatter<std::string_view, char>::format(quorlock::to_string(named), context);
    }
};

template <typename Error>
    requires std::is_base_of_v<quorlock::error, Error>
struct std::formatter<Error, char> : std::formatter<std::string_view, char> {
    template <typename Context>
    auto format(const quorlock::error &why, Context &context) const {
        const std::string text = std::string(why.kind_name()) + ": " + why.what();
        return std::formatter<std::string_view, char>::format(text, context);
    }
};

template <>
struct std::formatter<quorlock::node_error, char> : std::formatter<std::string_view, char> {
    template <typename Context>
    auto format(const quorlock::node_error &why, Context &context) const {
        return std::formatter<std::string_view, char>::format(why.address + ": " + why.message, context);
    }
};
#endif

#endif
