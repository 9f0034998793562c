// Tests of the C++ interface: test [NAME...]. Most use nodes in this process; those that need servers use
// QUORLOCK_NODES. The last line is `N passed, M failed`.

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <future>
#include <quorlock.hpp>
#include <shared_mutex>
#include <sstream>

using namespace std::chrono_literals;
using quorlock::lease_state;

namespace {

int broken;
const char *self;

bool begins_with_its_summary(const quorlock::error &error) {
    const std::size_t size = std::strlen(error.summary());
    return size && !std::strncmp(error.what(), error.summary(), size) && error.message().size() > size;
}
bool begins_with_its_summary(const std::exception &error) { return *error.what(); }

#define CHECK(condition) \
    ((condition) ? void() : void((broken++, std::printf("     %s:%d: %s\n", __FILE__, __LINE__, #condition))))
#define THROWS(type, call)                                                        \
    do {                                                                          \
        bool thrown = false;                                                      \
        try {                                                                     \
            static_cast<void>(call);                                              \
        } catch (const type &error) {                                             \
            thrown = begins_with_its_summary(error) && typeid(error) == typeid(type); \
        } catch (const std::exception &error) {                                   \
            std::printf("     %s\n", error.what());                               \
        }                                                                         \
        CHECK(thrown && #call);                                                   \
    } while (0)

std::string node() {
    static std::atomic<int> number{0};
    return "memory://cpp-" + std::to_string(getpid()) + "-" + std::to_string(number++);
}

quorlock::client some_client() { return quorlock::client({node()}); }

quorlock::lock_options short_lived() {
    quorlock::lock_options options;
    options.ttl = 200ms;
    options.renew = false;
    return options;
}

template <typename Call>
auto elsewhere(Call &&call) {
    return std::async(std::launch::async, std::forward<Call>(call)).get();
}

// What the standard asks of a TimedLockable type, and that handles move and do not copy.
template <typename Mutex, typename = void>
constexpr bool timed_lockable = false;
template <typename Mutex>
constexpr bool timed_lockable<
    Mutex, std::void_t<decltype(std::declval<Mutex &>().lock()), decltype(std::declval<Mutex &>().unlock()),
                       std::enable_if_t<std::is_same_v<bool, decltype(std::declval<Mutex &>().try_lock())>>,
                       std::enable_if_t<std::is_same_v<bool, decltype(std::declval<Mutex &>().try_lock_for(1s))>>,
                       std::enable_if_t<std::is_same_v<bool, decltype(std::declval<Mutex &>().try_lock_until(
                                                                 std::chrono::system_clock::now()))>>>> = true;
static_assert(timed_lockable<quorlock::mutex> && timed_lockable<quorlock::multi_mutex>);
static_assert(timed_lockable<quorlock::shared_mutex>);
static_assert(std::is_same_v<bool, decltype(std::declval<quorlock::shared_mutex &>().try_lock_shared())>);
static_assert(noexcept(std::declval<quorlock::shared_mutex &>().unlock_shared()));
static_assert(noexcept(std::declval<quorlock::mutex &>().unlock()));
static_assert(noexcept(std::declval<quorlock::multi_mutex &>().unlock()));
static_assert(!std::is_copy_constructible_v<quorlock::multi_mutex> && !std::is_move_constructible_v<quorlock::multi_mutex>);
static_assert(!std::is_copy_constructible_v<quorlock::mutex> && !std::is_move_constructible_v<quorlock::mutex>);
template <typename Handle>
constexpr bool moves_only = std::is_nothrow_move_constructible_v<Handle> && std::is_nothrow_move_assignable_v<Handle> &&
                            !std::is_copy_constructible_v<Handle> && !std::is_copy_assignable_v<Handle>;
static_assert(moves_only<quorlock::client> && moves_only<quorlock::lock> && moves_only<quorlock::lease>);
static_assert(moves_only<quorlock::election> && moves_only<quorlock::observer>);
static_assert(moves_only<quorlock::cancel_token> && moves_only<quorlock::locks> && moves_only<quorlock::leases>);
static_assert(std::is_nothrow_copy_constructible_v<quorlock::error>);
static_assert(std::is_nothrow_move_constructible_v<quorlock::error> && std::is_nothrow_move_assignable_v<quorlock::error>);
static_assert(std::is_nothrow_move_constructible_v<quorlock::lock_lost> && std::is_copy_assignable_v<quorlock::lock_lost>);

void guards_of_the_standard() {
    const quorlock::client client = some_client();
    quorlock::mutex mutex(client, "a");
    {
        const std::lock_guard guard(mutex);
        CHECK(mutex.is_held() && mutex.remaining() > 5s);
        CHECK(!elsewhere([&] { return mutex.try_lock(); }));
    }
    CHECK(!mutex.is_held());
    std::unique_lock unique(mutex);
    CHECK(mutex.is_held());
    unique.unlock();
    CHECK(elsewhere([&] { return std::unique_lock(mutex, std::try_to_lock).owns_lock(); }));
    CHECK(unique.try_lock_for(1h));
    unique.unlock();
    CHECK(unique.try_lock_until(std::chrono::system_clock::now() + 100ms));
    const std::unique_lock moved = std::move(unique);
    CHECK(mutex.is_held() && moved.owns_lock());
}

void two_at_once() {
    const quorlock::client client = some_client();
    quorlock::mutex a(client, "a"), b(client, "b");
    int shared = 0;
    const auto work = [&](quorlock::mutex &first, quorlock::mutex &second) {
        for (int round = 0; round < 20; ++round) {
            const std::scoped_lock both(first, second);
            const int before = shared;
            std::this_thread::yield();
            shared = before + 1;
        }
    };
    std::thread one(work, std::ref(a), std::ref(b)), other(work, std::ref(b), std::ref(a));
    one.join();
    other.join();
    CHECK(shared == 40);
    CHECK(!a.is_held() && !b.is_held());
    std::mutex local;
    const std::scoped_lock mixed(a, local, b);
    CHECK(a.is_held() && b.is_held());
}

// The functions of the standard for several mutexes, which the guards of it use.
void algorithms_of_the_standard() {
    const std::string at = node();
    const quorlock::client ours({at}), theirs({at});
    quorlock::mutex a(ours, "a"), b(ours, "b"), c(ours, "c");
    quorlock::lock taken = theirs.lock("b");
    std::optional<quorlock::lease> holds = taken.acquire();
    CHECK(std::try_lock(a, b, c) == 1);
    CHECK(!a.is_held() && !b.is_held() && !c.is_held());
    CHECK(theirs.lock("a").try_acquire());
    // It gets them all when the other goes.
    std::thread waits([&] {
        std::lock(a, b, c);
        CHECK(a.is_held() && b.is_held() && c.is_held());
        a.unlock();
        b.unlock();
        c.unlock();
    });
    holds.reset();
    waits.join();
    CHECK(std::try_lock(a, b, c) == -1);
    CHECK(a.is_held() && b.is_held() && c.is_held());
    for (quorlock::mutex *each : {&a, &b, &c}) each->unlock();
    // Several of Quorlock's own beside one of the process.
    quorlock::multi_mutex both(ours, {"b", "a"});
    std::mutex local;
    CHECK(std::try_lock(local, both, c) == -1);
    CHECK(both.is_held() && c.is_held());
    local.unlock();
    both.unlock();
    c.unlock();
}

void a_lease_goes_on_in_another_client() {
    const std::string at = node();
    const quorlock::client ours({at}), theirs({at});
    const quorlock::lease first = ours.lock("a").acquire();
    const std::string text = first.export_text();
    CHECK(!first.is_held() && !first.release() && !ours.lock("a").try_acquire());
    THROWS(quorlock::not_owner, std::ignore = first.export_text());
    const quorlock::lease second = theirs.adopt(text);
    CHECK(second.is_held() && second.fence() > first.fence());
    THROWS(quorlock::lock_lost, std::ignore = ours.adopt(text));
    THROWS(quorlock::invalid_argument, std::ignore = ours.adopt(text.substr(1)));
    CHECK(second.release() && ours.lock("a").try_acquire());
}

void slots_are_looked_at_and_taken_away() {
    const std::string at = node();
    const quorlock::client ours({at}), theirs({at});
    quorlock::semaphore looks(ours, "api", 2), takes(theirs, "api", 2);
    CHECK(looks.wait_until_free());
    const quorlock::lease first = takes.hold();
    const quorlock::lease second = takes.hold();
    const quorlock::inspection found = looks.inspect();
    CHECK(found.verdict == quorlock::verdict::held && found.slots_held == 2 && found.slots.size() == 2 && !found.holder);
    const auto slot = static_cast<std::uint32_t>(first.slot());
    CHECK(found.slots[slot].holder && found.slots[slot].holder->fence == first.fence());
    const quorlock::inspection lock = ours.lock("api").inspect();
    CHECK(lock.verdict == quorlock::verdict::free && lock.slots_held == 2 && lock.slots.empty());
    CHECK(!looks.wait_until_free(std::chrono::milliseconds(60)));
    THROWS(quorlock::lock_contended, looks.force_release_slot(slot, second.fence()));
    THROWS(quorlock::invalid_argument, looks.force_release_slot(2));
    CHECK(looks.force_release_slot(slot, first.fence()).freed == 1);
    CHECK(looks.wait_until_free(std::chrono::seconds(20)) && second.is_held());
    CHECK(looks.force_release().freed == 1 && looks.inspect().slots_held == 0);
}

void slots_of_a_semaphore() {
    const std::string at = node();
    const quorlock::client ours({at}), theirs({at});
    quorlock::semaphore one(ours, "api", 2), other(theirs, "api", 2);
    one.acquire();
    CHECK(one.held() == 1 && one.try_acquire() && one.held() == 2);
    CHECK(!other.try_acquire() && !other.try_acquire_for(1ms));
    CHECK(!other.try_acquire_until(std::chrono::steady_clock::now()));
    // Any thread may give one back.
    elsewhere([&] { return one.release(), true; });
    CHECK(one.held() == 1 && other.try_acquire_for(1s) && other.held() == 1);
    other.release();
    other.release();
    {
        const quorlock::lease held = other.hold();
        CHECK(held.slot() >= 0 && held.slot() < 2 && held.fence() > 0);
        CHECK(ours.lock("api").acquire().slot() == -1);
        THROWS(quorlock::invalid_argument, held.downgrade());
    }
    // One that waits has the slot that is given back.
    CHECK(one.try_acquire());
    std::atomic<bool> has{false};
    std::thread waits([&] {
        other.acquire();
        has = true;
    });
    CHECK(!has);
    one.release();
    waits.join();
    CHECK(has && other.held() == 1);
    THROWS(quorlock::invalid_argument, quorlock::semaphore(ours, "api", 0));
    THROWS(quorlock::invalid_argument, quorlock::semaphore(ours, "api", 129));
}

// One object, and a slot that is lost: its thread gives back that one, and none of a thread that has lost nothing.
void a_lost_slot_is_given_back_for_itself() {
    const std::string at = node();
    const quorlock::client client({at}), others({at});
    quorlock::semaphore other(others, "api", 2);
    quorlock::lock_options options = short_lived();
    options.ttl = 1s;
    quorlock::semaphore one(client, "api", 2, options);
    using clock = std::chrono::steady_clock;
    clock::time_point good;
    // Acquires two, so that the first is lost half a second before the other.
    const auto acquires_later = [&] {
        std::this_thread::sleep_for(500ms);
        good = clock::now() + 900ms;
        one.acquire();
    };
    const auto loses_one = [&] {
        while (one.held() == 2) std::this_thread::sleep_for(5ms);
    };
    // A machine that has stood still meanwhile has cost that one, too.
    const auto has_the_other = [&] { return one.held() == 1 || clock::now() > good; };
    // The newest is not the loser's.
    one.acquire();
    std::promise<void> has, done;
    std::thread holds([&] {
        acquires_later();
        has.set_value();
        done.get_future().wait();
        // What is left is its own.
        one.release();
        CHECK(one.held() == 0);
    });
    has.get_future().wait();
    loses_one();
    one.release();
    CHECK(has_the_other());
    done.set_value();
    holds.join();
    // Both of one thread: the newest that is held goes, and the lost one takes no other's place.
    one.acquire();
    acquires_later();
    loses_one();
    one.release();
    CHECK(one.held() == 0);
    std::promise<void> taken, end;
    std::thread owns([&] {
        one.acquire();
        taken.set_value();
        end.get_future().wait();
        one.release();
    });
    taken.get_future().wait();
    good = clock::now() + 900ms;
    one.release();
    CHECK(has_the_other());
    end.set_value();
    owns.join();
    CHECK(one.held() == 0);
    // Of those of others, where a thread has none of its own, the lost one goes first.
    one.acquire();
    acquires_later();
    loses_one();
    elsewhere([&] { return one.release(), true; });
    CHECK(has_the_other());
    one.release();
    CHECK(one.held() == 0);
    // Nothing is left here: both can be had.
    CHECK(other.try_acquire_for(10s) && other.try_acquire_for(10s));
    one.release();
    CHECK(other.held() == 2);
}

void a_reader_is_told_of_its_own_hold() {
    const std::string at = node();
    const quorlock::client client({at}), others({at});
    quorlock::shared_mutex one(client, "a", short_lived()), other(others, "a");
    std::promise<quorlock::lease_state> lost;
    one.on_lost([&](quorlock::lease_state state) { lost.set_value(state); });
    one.lock_shared();
#if defined(__cpp_lib_jthread)
    const std::stop_token stop = one.stop_token();
    CHECK(stop.stop_possible() && one.stop_token() == stop);
    CHECK(!elsewhere([&] { return one.stop_token().stop_possible(); }));
#endif
    while (one.is_held()) std::this_thread::sleep_for(5ms);
    CHECK(!one.is_held_shared() && one.remaining() == 0ms);
    THROWS(quorlock::lock_lost, one.ensure(10ms));
    std::future<quorlock::lease_state> told = lost.get_future();
    CHECK(told.wait_for(30s) == std::future_status::ready && told.get() == quorlock::lease_state::expired);
    one.on_lost({});
#if defined(__cpp_lib_jthread)
    for (int left = 6000; left && !stop.stop_requested(); --left) std::this_thread::sleep_for(5ms);
    CHECK(stop.stop_requested());
    one.unlock_shared();
    // The waits of readers end as those of writers do.
    CHECK(other.try_lock_for(5s));
    std::stop_source ends;
    ends.request_stop();
    THROWS(quorlock::cancelled, one.lock_shared(ends.get_token()));
    THROWS(quorlock::cancelled, one.try_lock_shared_for(1h, ends.get_token()));
    THROWS(quorlock::cancelled, one.try_lock_shared_until(std::chrono::system_clock::now() + 1h, ends.get_token()));
    CHECK(!one.try_lock_shared_for(1ms, std::stop_token()));
    // A writer's own.
    CHECK(other.stop_token().stop_possible());
    other.unlock();
#else
    one.unlock_shared();
#endif
    CHECK(!one.is_held());
    THROWS(quorlock::not_owner, one.ensure(10ms));
}

void shared_and_alone() {
    const std::string at = node();
    const quorlock::client ours({at}), theirs({at});
    quorlock::shared_mutex one(ours, "a"), other(theirs, "a");
    {
        const std::shared_lock reading(one);
        const std::shared_lock beside(other, 1s);
        CHECK(beside.owns_lock() && one.is_held_shared() && one.is_held() && one.fence() > 0);
        // Of the calling thread's own hold, in whichever mode.
        CHECK(one.remaining() > 1s && elsewhere([&] { return !one.is_held() && one.remaining() == 0ms && !one.fence(); }));
        one.ensure(1s);
        elsewhere([&] { THROWS(quorlock::not_owner, one.ensure(1s)); });
        CHECK(!elsewhere([&] { return other.try_lock(); }));
        CHECK(elsewhere([&] {
            const bool got = one.try_lock_shared();
            if (got) one.unlock_shared();
            return got;
        }));
        THROWS(quorlock::would_deadlock, one.lock());
        THROWS(quorlock::would_deadlock, one.try_lock_shared());
        // What it does not hold alone it does not give back.
        one.unlock();
        CHECK(one.is_held_shared());
    }
    const std::uint64_t shared = [&] {
        const std::shared_lock reading(one);
        return one.fence();
    }();
    {
        const std::unique_lock writing(one);
        CHECK(one.fence() > shared && !one.is_held_shared() && one.is_held() && one.remaining() > 1s);
        one.ensure(1s);
        THROWS(quorlock::would_deadlock, one.lock_shared());
        one.unlock_shared();
        CHECK(one.is_held());
        CHECK(!other.try_lock_shared() && !other.try_lock_shared_for(1ms));
        CHECK(!other.try_lock_shared_until(std::chrono::steady_clock::now()));
    }
    // A reader waits until then, by each of the calls that wait.
    const std::vector<std::function<bool()>> reads{
        [&] { return other.lock_shared(), true; },
        [&] { return other.try_lock_shared_for(30s); },
        [&] { return other.try_lock_shared_until(std::chrono::steady_clock::now() + 30s); },
#if defined(__cpp_lib_jthread)
        [&] { return other.lock_shared(std::stop_token()), true; },
        [&] { return other.try_lock_shared_for(30s, std::stop_token()); },
        [&] { return other.try_lock_shared_until(std::chrono::steady_clock::now() + 30s, std::stop_token()); },
#endif
    };
    for (const auto &read : reads) {
        std::unique_lock writing(one);
        auto reads_then = std::async(std::launch::async, [&] {
            const bool got = read() && other.is_held_shared() && other.remaining() > 1s;
            other.unlock_shared();
            return got;
        });
        CHECK(reads_then.wait_for(50ms) == std::future_status::timeout);
        writing.unlock();
        CHECK(reads_then.get());
    }
    // A lease that is shared from one moment on.
    quorlock::lock_options share;
    share.shared = true;
    quorlock::lease lease = ours.lock("a").acquire();
    CHECK(!lease.is_shared() && !theirs.lock("a", share).try_acquire());
    lease.downgrade();
    const auto reader = theirs.lock("a", share).try_acquire();
    CHECK(lease.is_shared() && lease.is_held() && reader && reader->fence() > lease.fence());
    lease.release();
    THROWS(quorlock::not_owner, lease.downgrade());
    // What is lost is told in either mode.
    std::atomic<int> told{0};
    other.on_lost([&](lease_state) { told++; });
    other.lock_shared();
    theirs.close();
    while (!told) std::this_thread::yield();
    other.unlock_shared();
    std::promise<lease_state> alone;
    one.on_lost([&](lease_state state) { alone.set_value(state); });
    one.lock();
    ours.close();
    CHECK(alone.get_future().wait_for(30s) == std::future_status::ready);
    one.unlock();
}

void several_at_once() {
    const std::string at = node();
    const quorlock::client ours({at}), theirs({at});
    quorlock::multi_mutex both(ours, {"b", "a", "b"}), turned(theirs, {"a", "b"});
    {
        const std::scoped_lock hold(both);
        CHECK(both.is_held() && both.remaining() > 5s && both.fence("a") > 0 && both.fence("b") > 0);
        CHECK(both.fence("c") == 0 && !both.lost_name());
        both.ensure(5s);
        CHECK(!turned.try_lock() && !turned.try_lock_for(20ms));
        CHECK(elsewhere([&] { return !both.is_held() && both.fence("a") == 0; }));
        THROWS(quorlock::not_owner, elsewhere([&] { both.ensure(1s); }));
        // The thread that holds it would wait for itself, also for one of the names.
        quorlock::mutex one_of_them(ours, "b");
        THROWS(quorlock::would_deadlock, both.lock());
        THROWS(quorlock::would_deadlock, one_of_them.try_lock());
        CHECK(both.is_held());
    }
    CHECK(!both.is_held());
    int shared = 0;
    const auto work = [&](quorlock::multi_mutex &mutex) {
        for (int round = 0; round < 20; ++round) {
            const std::lock_guard hold(mutex);
            const int before = shared;
            std::this_thread::yield();
            shared = before + 1;
        }
    };
    std::thread one(work, std::ref(both)), other(work, std::ref(turned));
    one.join();
    other.join();
    CHECK(shared == 40);
    // By hand.
    const quorlock::locks locks = ours.lock_all({"b", "a"});
    std::optional<quorlock::leases> leases = locks.try_acquire();
    CHECK(leases && leases->is_held() && leases->state() == lease_state::held && !leases->lost_name());
    const auto fences = leases->fences();
    CHECK(fences.size() == 2 && fences[0].first == "a" && fences[1].first == "b");
    CHECK(fences[0].second == leases->fence("a") && fences[1].second == leases->fence("b") && fences[0].second > 0);
    leases->extend(20s);
    CHECK(leases->remaining() > 15s);
    const quorlock::locks rivals = theirs.lock_all({"c", "b"});
    CHECK(!rivals.try_acquire());
    try {
        static_cast<void>(rivals.acquire(20ms));
        CHECK(false);
    } catch (const quorlock::lock_timeout &error) {
        CHECK(error.lock_name() == "b");
    }
    const quorlock::cancel_token cancel;
    cancel.cancel();
    THROWS(quorlock::cancelled, rivals.acquire(cancel));
    CHECK(leases->release() && !leases->release() && leases->state() == lease_state::released);
    CHECK(rivals.acquire(30s).is_held());
    THROWS(quorlock::invalid_argument, ours.lock_all({}));
    THROWS(quorlock::invalid_argument, ours.lock_all({"a", ""}));
}

void the_loss_of_one_of_several() {
    const std::string at = node();
    const quorlock::client ours({at}), theirs({at});
    quorlock::leases leases = ours.lock_all({"a", "b"}).acquire();
    std::promise<lease_state> told;
    leases.on_lost([&](lease_state state) { told.set_value(state); });
    theirs.lock("b").force_release();
    THROWS(quorlock::lock_lost, leases.extend());
    CHECK(told.get_future().get() == lease_state::forced && leases.state() == lease_state::forced);
    CHECK(leases.lost_name() == "b" && !leases.is_held() && leases.remaining() == 0ms);
    // The other is held until they are released.
    CHECK(!theirs.lock("a").try_acquire());
    CHECK(!leases.release());
    CHECK(theirs.lock("a").acquire(30s).is_held());
    // As a mutex.
    quorlock::lock_options brief;
    brief.ttl = 600ms;
    quorlock::multi_mutex both(ours, {"a", "b"}, brief);
    std::promise<lease_state> heard;
    both.on_lost([&](lease_state state) { heard.set_value(state); });
    both.lock();
    theirs.lock("a").force_release(both.fence("a"));
    CHECK(heard.get_future().get() == lease_state::forced && both.lost_name() == "a" && !both.is_held());
    THROWS(quorlock::lock_lost, both.ensure(1ms));
    both.unlock();
    CHECK(!both.lost_name());
}

void threads_are_owners() {
    const quorlock::client client = some_client();
    quorlock::recursive_mutex mutex(client, "a"), same(client, "a");
    mutex.lock();
    same.lock();
    same.unlock();
    mutex.lock();
    elsewhere([&] {
        CHECK(!mutex.try_lock() && !mutex.is_held());
        mutex.unlock();  // holds nothing: nothing happens
        THROWS(quorlock::not_owner, mutex.ensure(1s));
        return 0;
    });
    mutex.unlock();
    CHECK(mutex.is_held());
    mutex.ensure(1s);
    mutex.unlock();
    CHECK(!mutex.is_held());
    mutex.unlock();
    CHECK(client.stats().acquired == 1 && client.stats().reentered == 2);
}

void a_mutex_refuses_its_own_thread() {
    const quorlock::client client = some_client();
    quorlock::mutex mutex(client, "a"), same(client, "a");
    quorlock::recursive_mutex recursive(client, "a");
    mutex.lock();
    for (quorlock::mutex *each : {&mutex, &same}) {
        THROWS(quorlock::would_deadlock, each->lock());
        THROWS(quorlock::would_deadlock, each->try_lock());
        THROWS(quorlock::would_deadlock, each->try_lock_for(1h));
        THROWS(quorlock::would_deadlock, each->try_lock_until(std::chrono::steady_clock::now()));
    }
    THROWS(quorlock::would_deadlock, std::scoped_lock(same, mutex));
    CHECK(mutex.is_held() && !same.is_held());
    elsewhere([&] {
        CHECK(!mutex.try_lock() && !same.try_lock());
        return 0;
    });
    // One that lets its thread in may follow, and is no way around it.
    recursive.lock();
    THROWS(quorlock::would_deadlock, mutex.lock());
    mutex.unlock();
    THROWS(quorlock::would_deadlock, mutex.lock());
    recursive.unlock();
    CHECK(mutex.try_lock());
    mutex.unlock();
    // What is asked for has to be what the type says.
    quorlock::lock_options options;
    options.reentrant = true;
    THROWS(quorlock::invalid_argument, quorlock::mutex(client, "a", options));
    THROWS(quorlock::invalid_argument, quorlock::shared_mutex(client, "a", options));
    THROWS(quorlock::invalid_argument, quorlock::multi_mutex(client, {"a"}, options));
    options.reentrant = false;
    THROWS(quorlock::invalid_argument, quorlock::recursive_mutex(client, "a", options));
}

// Where the threads are not the owners the core cannot know that one of them would wait for itself, but the mutex does.
void a_mutex_of_another_owner_refuses_its_own_thread() {
    quorlock::lock_options named, unowned, slots;
    named.owner = "me";
    unowned.owner_thread = false;
    slots.slots = 2;
    const auto soon = [] { return std::chrono::steady_clock::now() + 20ms; };
    const auto refuses = [&](auto &mutex) {
        /* Those with an end first: where it is not refused, that is said. */
        THROWS(quorlock::would_deadlock, mutex.try_lock());
        THROWS(quorlock::would_deadlock, mutex.try_lock_for(0s));
        THROWS(quorlock::would_deadlock, mutex.try_lock_for(20ms));
        THROWS(quorlock::would_deadlock, mutex.try_lock_until(soon()));
        if (broken) return;
        THROWS(quorlock::would_deadlock, mutex.lock());
#if defined(__cpp_lib_jthread)
        const std::stop_token never;
        THROWS(quorlock::would_deadlock, mutex.lock(never));
        THROWS(quorlock::would_deadlock, mutex.try_lock_for(0s, never));
        THROWS(quorlock::would_deadlock, mutex.try_lock_for(20ms, never));
        THROWS(quorlock::would_deadlock, mutex.try_lock_until(soon(), never));
#endif
        CHECK(mutex.is_held());
    };
    for (const quorlock::lock_options &options : {named, unowned, slots}) {
        const quorlock::client client = some_client();
        quorlock::mutex mutex(client, "a", options);
        mutex.lock();
        refuses(mutex);
        try {
            static_cast<void>(mutex.try_lock());
        } catch (const quorlock::would_deadlock &error) {
            CHECK(error.lock_name() == "a");
        }
        /* Another thread is none that waits for itself: only this one unlocks. */
        CHECK(elsewhere([&] {
            const bool got = mutex.try_lock();
            if (got) mutex.unlock();
            return got;
        }) == options.slots.has_value());
        mutex.unlock();
        CHECK(mutex.try_lock());
        mutex.unlock();
    }
    for (const quorlock::lock_options &options : {named, unowned}) {
        const quorlock::client client = some_client();
        quorlock::multi_mutex both(client, {"a", "b"}, options);
        both.lock();
        refuses(both);
        both.unlock();
        quorlock::shared_mutex shared(client, "a", options);
        const auto refuses_readers = [&] {
            THROWS(quorlock::would_deadlock, shared.try_lock_shared());
            THROWS(quorlock::would_deadlock, shared.try_lock_shared_for(20ms));
            THROWS(quorlock::would_deadlock, shared.try_lock_shared_until(soon()));
            if (broken) return;
            THROWS(quorlock::would_deadlock, shared.lock_shared());
#if defined(__cpp_lib_jthread)
            THROWS(quorlock::would_deadlock, shared.lock_shared(std::stop_token()));
            THROWS(quorlock::would_deadlock, shared.try_lock_shared_for(20ms, std::stop_token()));
            THROWS(quorlock::would_deadlock, shared.try_lock_shared_until(soon(), std::stop_token()));
#endif
        };
        shared.lock();
        refuses(shared);
        refuses_readers();
        shared.unlock();
        shared.lock_shared();
        refuses(shared);
        refuses_readers();
        /* Another thread reads beside it. */
        CHECK(elsewhere([&] {
            const std::shared_lock reading(shared, 1s);
            return reading.owns_lock();
        }));
        shared.unlock_shared();
        CHECK(shared.try_lock());
        shared.unlock();
    }
    /* What is lost says so, as that of a thread does. */
    quorlock::lock_options brief = short_lived();
    brief.owner = "me";
    const quorlock::client client = some_client();
    quorlock::mutex lost(client, "a", brief);
    lost.lock();
    while (lost.is_held()) std::this_thread::sleep_for(5ms);
    THROWS(quorlock::lock_lost, lost.try_lock());
    lost.unlock();
    CHECK(lost.try_lock());
    /* By name an owner enters a recursive one again; without an owner nobody would. */
    quorlock::recursive_mutex recursive(client, "b", named);
    recursive.lock();
    CHECK(recursive.try_lock());
    recursive.unlock();
    recursive.unlock();
    THROWS(quorlock::invalid_argument, quorlock::recursive_mutex(client, "b", unowned));
    THROWS(quorlock::invalid_argument, quorlock::recursive_mutex(client, "b", slots));
}

// A lease that was acquired by hand has no owner: any thread may use it, and its own waits for it as any other.
void what_is_acquired_by_hand_has_no_owner() {
    const quorlock::client client = some_client();
    const quorlock::lock lock = client.lock("a");
    std::optional<quorlock::lease> lease = elsewhere([&] { return lock.try_acquire(); });
    CHECK(lease && lease->is_held());
    // The thread is gone, and another may have its system's id.
    elsewhere([&] {
        lease->extend(10s);
        CHECK(!lock.try_acquire());
        THROWS(quorlock::lock_timeout, lock.acquire(20ms));
        try {
            static_cast<void>(lock.acquire(0ms));
            CHECK(false);
        } catch (const quorlock::lock_busy &error) {
            CHECK(error.kind() == QUORLOCK_CONTENDED);
        }
        return 0;
    });
    CHECK(lease->is_held() && lease->release());
    lease = lock.acquire();
    CHECK(!lock.try_acquire());
    THROWS(quorlock::not_owner, lock.release());
    quorlock::mutex mutex(client, "a");
    CHECK(!mutex.try_lock());
    lease.reset();
    CHECK(mutex.try_lock());
    mutex.unlock();
}

// The system gives the id of a thread that has ended to another one.
void a_thread_is_not_taken_for_one_that_has_ended() {
    const quorlock::client client = some_client();
    quorlock::mutex mutex(client, "a");
    std::thread::id first, second;
    std::thread([&] {
        mutex.lock();
        first = std::this_thread::get_id();
    }).join();
    for (int tries = 0; first != second && tries < 100; ++tries) {
        std::thread([&] {
            second = std::this_thread::get_id();
            CHECK(!mutex.is_held());
            THROWS(quorlock::not_owner, mutex.ensure(1s));
            mutex.unlock();
        }).join();
    }
    CHECK(first == second);
    CHECK(!client.lock("a").try_acquire());
}

void waits_have_an_end() {
    const quorlock::client client = some_client();
    quorlock::mutex mutex(client, "a");
    const std::lock_guard guard(mutex);
    elsewhere([&] {
        CHECK(!mutex.try_lock_for(0s) && !mutex.try_lock_for(-5h) && !mutex.try_lock_for(100us));
        const auto begun = std::chrono::steady_clock::now();
        CHECK(!mutex.try_lock_for(60ms));
        CHECK(std::chrono::steady_clock::now() - begun >= 60ms);
        CHECK(!mutex.try_lock_until(std::chrono::steady_clock::now() + 30ms));
        CHECK(!mutex.try_lock_until(std::chrono::system_clock::time_point::min()));
        return 0;
    });
    CHECK(quorlock::detail::wait_of(std::chrono::hours::max()) == quorlock::forever);
    CHECK(quorlock::detail::wait_of(1ns) == 1ms && quorlock::detail::wait_of(2.5s) == 2500ms);
    CHECK(quorlock::detail::wait_of(std::chrono::hours::min()) == 0ms);
    CHECK(quorlock::detail::wait_of(std::chrono::duration<double, std::ratio<31557600>>(-1e300)) == 0ms);
}

template <typename Call>
std::string words_of(Call &&call) {
    try {
        call();
    } catch (const quorlock::error &error) {
        // Behind the sentence of its kind.
        const std::string all = error.what(), lead = error.summary() + std::string(": ");
        return all.rfind(lead, 0) == 0 ? all.substr(lead.size()) : all;
    }
    return "";
}

void times_have_any_unit() {
    const quorlock::client client = some_client();
    const quorlock::lock lock = client.lock("a");
    const quorlock::lease lease = lock.acquire(1.5s);
    lease.extend(20.5s);
    lease.ensure(std::chrono::duration<double, std::milli>(0.5));
    lease.ensure(1us);
    CHECK(lease.remaining() > 15s && !lock.try_acquire(0.5ms) && !lock.try_acquire(100us));
    CHECK(client.election("e").campaign(1.5s).is_held());
    // What is no time is refused, in words without numbers of the machine.
    CHECK(words_of([&] { lease.extend(-1s); }) == "ttl is below 0: give 0 or more");
    CHECK(words_of([&] { lease.extend(std::chrono::hours::min()); }) == "ttl is below 0: give 0 or more");
    CHECK(words_of([&] { lease.ensure(std::chrono::duration<double>(0.0 / 0.0)); }) == "ensure is below 0: give 0 or more");
    CHECK(words_of([&] { lease.extend(quorlock::forever); }) == "ttl is without end: give a time");
}

template <typename Value>
std::string shown(const Value &value) {
    std::ostringstream text;
    text << value;
#if defined(__cpp_lib_format)
    CHECK(std::format("{}", value) == text.str() && std::format("{:>60}", value).size() >= 60);
#endif
    return text.str();
}

void texts_and_codes() {
    CHECK(shown(lease_state::owner_gone) == "owner_gone" && shown(quorlock::verdict::held) == "held");
    CHECK(shown(quorlock::health::works_but) == "works_but" && shown(quorlock::log_level::warn) == "warn");
    CHECK(shown(quorlock::errc::quorum_unavailable) == "QuorumUnavailable");
    CHECK(shown(quorlock::node_error{"h:1", "refused"}) == "h:1: refused");
    const quorlock::lock_timeout late(QUORLOCK_TIMEOUT, "late", "late (h:1: refused)", {});
    CHECK(shown(late) == std::string("Timeout: ") + late.what());
    const std::error_code code = late.code();
    CHECK(code == quorlock::errc::timeout && code != quorlock::errc::contended && code == std::errc::timed_out);
    CHECK(code.category() == quorlock::category() && code.category().name() == std::string("quorlock"));
    CHECK(std::system_error(quorlock::errc::would_deadlock).code() == std::errc::resource_deadlock_would_occur);
    // Every kind has a value, and a sentence of its own.
    for (std::int32_t kind = 1; quorlock_kind_name(kind); ++kind) {
        const std::string message = quorlock::category().message(kind);
        CHECK(message == quorlock_kind_summary(kind) && message.back() != '.');
        CHECK(shown(static_cast<quorlock::errc>(kind)) == quorlock_kind_name(kind));
    }
    CHECK(!quorlock::category().message(1000).empty());
}

void errors_that_are_returned() {
    const auto none = quorlock::client::open([] {
        quorlock::client_options options;
        options.nodes = std::vector<std::string>{};
        return options;
    }());
    CHECK(!none.has_value() && none.error().code() == quorlock::errc::invalid_argument);
    const quorlock::client client = some_client();
    const quorlock::lock lock = client.lock("a");
    const auto acquire = [&](auto made, auto error) { return quorlock_lock(lock.get(), 0, nullptr, made, error); };
    const auto won = quorlock::tried<quorlock::lease>(acquire);
    CHECK(won.has_value() && won.value().is_held());
    const auto refused = quorlock::tried<quorlock::lease>(acquire);
    CHECK(!refused.has_value() && refused.error().code() == quorlock::errc::contended);
    CHECK(refused.error().lock_name() == "a");
    const auto ensures = [&](auto error) { return quorlock_lease_ensure(won.value().get(), 1, error); };
    CHECK(quorlock::tried(ensures).has_value());
    const auto unlocks = [&](auto was, auto error) { return quorlock_unlock(won.value().get(), was, error); };
    CHECK(quorlock::tried<bool>(unlocks).value() && !quorlock::tried<bool>(unlocks).value());
    CHECK(!quorlock::tried(ensures).has_value());
}

#if __cplusplus > 201703L
// Without a warning of those that are not named.
void options_by_their_names() {
    const quorlock::client client({.nodes = std::vector<std::string>{node()}, .ttl = 5s});
    CHECK(client.lock("a", {.wait = 1s, .label = "me"}).acquire().is_held());
}
#endif

void only_contention_is_false() {
    const quorlock::client nobody({"redis://127.0.0.1:1"});
    quorlock::mutex unreachable(nobody, "a");
    THROWS(quorlock::quorum_unavailable, unreachable.try_lock());
    THROWS(quorlock::quorum_unavailable, unreachable.try_lock_for(20ms));
    THROWS(quorlock::quorum_unavailable, std::unique_lock(unreachable, 20ms));
    const quorlock::client client = some_client();
    quorlock::mutex mutex(client, "a");
    client.close();
    THROWS(quorlock::client_closed, mutex.lock());
    THROWS(quorlock::client_closed, mutex.try_lock());
    mutex.unlock();
}

void a_lost_mutex() {
    const quorlock::client client = some_client();
    quorlock::mutex mutex(client, "a", short_lived());
    std::promise<lease_state> told;
    mutex.on_lost([&](lease_state state) { told.set_value(state); });
    mutex.lock();
    auto future = told.get_future();
    CHECK(future.wait_for(10s) == std::future_status::ready && future.get() == lease_state::expired);
    CHECK(!mutex.is_held() && mutex.remaining() == 0ms);
    THROWS(quorlock::lock_lost, mutex.ensure(10ms));
    THROWS(quorlock::lock_lost, mutex.lock());
    mutex.unlock();
    mutex.on_lost(nullptr);
    /* The node may hold what was lost for a moment longer than its holder counted on it. */
    CHECK(mutex.try_lock_for(5s));
}

void kinds_and_details() {
    const std::string shared = node();
    const quorlock::client client({shared}), rival({shared});
    const quorlock::lease held = client.lock("orders:42").acquire();
    const quorlock::lock lock = rival.lock("orders:42");
    THROWS(quorlock::lock_contended, lock.acquire(0ms));
    THROWS(quorlock::lock_timeout, lock.acquire(20ms));
    THROWS(quorlock::invalid_argument, lock.acquire(-1ms));
    THROWS(quorlock::invalid_argument, lock.acquire(-2ms));
    THROWS(quorlock::invalid_argument, rival.lock(""));
    THROWS(quorlock::invalid_argument, quorlock::client(std::vector<std::string>{}));
    THROWS(quorlock::invalid_argument, quorlock::client({"http://h"}));
    THROWS(quorlock::not_owner, lock.release());
    CHECK(!lock.try_acquire());
    // Every kind has its type, and one that this header does not know is still an error.
    const auto thrown = [](std::int32_t kind) {
        try {
            quorlock::detail::raise(kind, nullptr);
        } catch (const quorlock::error &error) {
            CHECK(error.kind() == kind);
            return typeid(error) != typeid(quorlock::error);
        }
    };
    for (std::int32_t kind = 1; quorlock_kind_name(kind); ++kind) CHECK(thrown(kind));
    CHECK(!thrown(1000));
}

// What was moved from is asked by mistake: that is an error, or tells that there is nothing, and never a crash.
void moved_from() {
    const quorlock::client ours = some_client();
    // An error tells what it did: a handler may well have moved it before it is logged.
    try {
        static_cast<void>(ours.lock(""));
    } catch (quorlock::invalid_argument &caught) {
        const std::string what = caught.what();
        quorlock::error kept = std::move(static_cast<quorlock::error &>(caught));
        quorlock::invalid_argument again = std::move(caught);
        const quorlock::error assigned = std::exchange(kept, std::move(again));
        for (const quorlock::error *one : std::initializer_list<const quorlock::error *>{&caught, &kept, &again, &assigned})
            CHECK(one->what() == what && one->kind() == QUORLOCK_INVALID_ARGUMENT && !one->message().empty() &&
                  one->nodes().empty() && one->lock_name().empty() && one->holder().empty() && *one->kind_name());
    }
    quorlock::result<int> failed(quorlock::error(QUORLOCK_TIMEOUT, "late", "late", {}));
    const quorlock::result<int> moved_result = std::move(failed);
    CHECK(!failed.has_value() && failed.error().what() == failed.error().summary() + std::string(": late"));
    THROWS(quorlock::lock_timeout, failed.value());
    THROWS(quorlock::lock_timeout, moved_result.value());
    const auto gone = [](auto &handle) {
        static_cast<void>(std::decay_t<decltype(handle)>(std::move(handle)));
        CHECK(!handle.get());
    };
    quorlock::lease lease = ours.lock("a").acquire();
    gone(lease);
    CHECK(lease.state() == lease_state::none && !lease.is_held() && lease.remaining() == 0ms && lease.fence() == 0);
    CHECK(lease.slot() == -1 && !lease.is_shared());
    THROWS(quorlock::invalid_argument, lease.release());
    THROWS(quorlock::invalid_argument, lease.extend());
    THROWS(quorlock::invalid_argument, lease.ensure(1s));
    THROWS(quorlock::invalid_argument, lease.downgrade());
    THROWS(quorlock::invalid_argument, lease.export_text());
    THROWS(quorlock::invalid_argument, lease.on_lost([](lease_state) {}));
    CHECK(words_of([&] { lease.extend(); }) == "the lease was moved from: use the one that it was moved to");
    quorlock::leases leases = ours.lock_all({"a", "b"}).acquire();
    gone(leases);
    CHECK(leases.state() == lease_state::none && !leases.is_held() && leases.remaining() == 0ms);
    CHECK(leases.fence("a") == 0 && leases.fences().empty() && !leases.lost_name());
    THROWS(quorlock::invalid_argument, leases.release());
    THROWS(quorlock::invalid_argument, leases.extend());
    THROWS(quorlock::invalid_argument, leases.ensure(1s));
    THROWS(quorlock::invalid_argument, leases.on_lost([](lease_state) {}));
    quorlock::lock lock = ours.lock("a");
    gone(lock);
    THROWS(quorlock::invalid_argument, lock.acquire());
    THROWS(quorlock::invalid_argument, lock.try_acquire());
    THROWS(quorlock::invalid_argument, lock.release());
    THROWS(quorlock::invalid_argument, lock.is_locked());
    THROWS(quorlock::invalid_argument, lock.inspect());
    THROWS(quorlock::invalid_argument, lock.force_release());
    quorlock::locks locks = ours.lock_all({"a", "b"});
    gone(locks);
    THROWS(quorlock::invalid_argument, locks.acquire());
    THROWS(quorlock::invalid_argument, locks.try_acquire());
    quorlock::election election = ours.election("e");
    quorlock::observer observer = election.observe();
    gone(election);
    gone(observer);
    CHECK(!election.is_leader());
    THROWS(quorlock::invalid_argument, election.campaign());
    THROWS(quorlock::invalid_argument, election.run([](quorlock::term &) {}));
    THROWS(quorlock::invalid_argument, election.resign());
    THROWS(quorlock::invalid_argument, election.leader());
    THROWS(quorlock::invalid_argument, election.observe());
    THROWS(quorlock::invalid_argument, observer.next());
    quorlock::event_queue queue;
    gone(queue);
    CHECK(queue.descriptor() == -1 && queue.dispatch() == 0);
    THROWS(quorlock::invalid_argument, ours.lock("a").async_acquire(queue, [](quorlock::result<quorlock::lease>) {}));
    quorlock::cancel_token cancel;
    gone(cancel);
    cancel.cancel();
    quorlock::client client = some_client();
    gone(client);
    THROWS(quorlock::invalid_argument, client.lock("a"));
    THROWS(quorlock::invalid_argument, client.lock_all({"a"}));
    THROWS(quorlock::invalid_argument, client.election("e"));
    THROWS(quorlock::invalid_argument, client.adopt(""));
    THROWS(quorlock::invalid_argument, client.probe());
    THROWS(quorlock::invalid_argument, client.stats());
    THROWS(quorlock::invalid_argument, client.init_set());
    THROWS(quorlock::invalid_argument, client.close());
}

void what_each_node_said() {
    const std::string shared = node();
    const quorlock::client client({shared}), rival({shared});
    const quorlock::lease held = client.lock("orders:42").acquire();
    const quorlock::lock lock = rival.lock("orders:42");
    bool refused = false;
    try {
        const quorlock::lease none = lock.acquire(0ms);
    } catch (const quorlock::error &error) {
        const quorlock::error copy = error;
        refused = true;
        CHECK(copy.kind() == QUORLOCK_CONTENDED && copy.kind_name() == std::string("Contended"));
        CHECK(copy.nodes().size() == 1 && std::strstr(copy.nodes()[0].message.c_str(), "held by another"));
        CHECK(shared.find(copy.nodes()[0].address) != std::string::npos && !copy.nodes()[0].address.empty());
        CHECK(std::strstr(copy.what(), copy.message().c_str()) && std::strstr(copy.what(), "orders:42"));
        CHECK(copy.message().find("held by another") != std::string::npos);
    }
    CHECK(refused);
}

void a_panic_is_an_error() {
    const auto panic = [] { quorlock::detail::checked([](auto e) { return quorlock_test_panic(e); }); };
    THROWS(quorlock::internal_error, panic());
    try {
        panic();
    } catch (const quorlock::error &error) {
        CHECK(error.kind() == QUORLOCK_INTERNAL && error.message().find("a test") != std::string::npos);
    }
    // And everything goes on.
    CHECK(some_client().lock("a").acquire().release());
}

void a_lease_by_hand() {
    const quorlock::client client = some_client();
    const quorlock::lock lock = client.lock("a");
    quorlock::lease lease = lock.acquire();
    CHECK(lease.is_held() && lease.state() == lease_state::held && lease.remaining() > 5s);
    lease.extend(30s);
    CHECK(lease.remaining() > 20s);
    lease.extend();
    lease.ensure(5s);
    quorlock::lease moved = std::move(lease);
    CHECK(!lease.is_held() && lease.state() == lease_state::none && moved.is_held());
    THROWS(quorlock::invalid_argument, lease.extend());
    CHECK(moved.release() && !moved.release() && moved.state() == lease_state::released);
    quorlock::lock_options owned;
    owned.owner_thread = true;
    const quorlock::lock mine = client.lock("a", owned);
    moved = mine.acquire(1s);
    CHECK(moved.is_held() && mine.acquire().fence() == moved.fence());
    CHECK(mine.release() && !moved.is_held());
    { const auto released_at_its_end = lock.try_acquire(); }
    CHECK(elsewhere([&] { return lock.try_acquire().has_value(); }));
}

void fences_grow() {
    const std::string shared = node();
    const quorlock::client client({shared}), rival({shared});
    quorlock::mutex mutex(client, "a");
    CHECK(mutex.fence() == 0);
    std::uint64_t last = 0;
    for (int round = 0; round < 3; ++round) {
        const std::uint64_t other = rival.lock("a").acquire().fence();
        const std::scoped_lock hold(mutex);
        CHECK(last < other && other < mutex.fence());
        last = mutex.fence();
        CHECK(elsewhere([&] { return mutex.fence(); }) == 0);
    }
    const quorlock::lock lock = client.lock("a");
    const quorlock::lease first = lock.acquire();
    CHECK(last < first.fence() && first.fence() < std::uint64_t{1} << 53);
    // Without.
    quorlock::lock_options options;
    options.fencing = false;
    CHECK(client.lock("b", options).acquire().fence() == 0);
    quorlock::client_options of_client;
    of_client.nodes = std::vector<std::string>{shared};
    of_client.fencing = false;
    const quorlock::client unfenced(of_client);
    CHECK(unfenced.lock("c").acquire().fence() == 0);
    options.fencing = true;
    CHECK(unfenced.lock("c", options).acquire().fence() > 0);
}

// The stage's nodes in a namespace of its own, for which they are new: QUORLOCK_NODES says where they are.
quorlock::client client_of_new_set(const char *name, std::optional<quorlock::restart_guard> guard,
                                   const char *set_name = "default") {
    quorlock::client_options options;
    options.name_space = "cpp-" + std::string(name) + "-" + std::to_string(getpid()) + ":";
    options.set_name = set_name;
    options.restart_guard = guard;
    options.node_timeout = 2500ms;  // under valgrind we are slow, and not the nodes
    return quorlock::client(options);
}

void a_lock_that_is_taken_away() {
    const std::string at = node();
    const quorlock::client ours({at}), theirs({at});
    quorlock::lock_options brief;
    brief.ttl = 600ms;
    const quorlock::lock lock = ours.lock("a", brief), operators = theirs.lock("a");
    const quorlock::forced nobody = operators.force_release();
    CHECK(nobody.freed == 0 && nobody.found.verdict == quorlock::verdict::free && !nobody.found.holder);
    quorlock::lease lease = lock.acquire();
    std::promise<lease_state> told;
    lease.on_lost([&](lease_state state) { told.set_value(state); });
    THROWS(quorlock::lock_contended, operators.force_release(lease.fence() + 1));
    THROWS(quorlock::invalid_argument, operators.force_release(std::uint64_t{1} << 53));
    // A lease without fences has this one, and means nobody by it.
    THROWS(quorlock::invalid_argument, operators.force_release(0));
    CHECK(lease.is_held());
    const quorlock::forced done = operators.force_release(lease.fence());
    CHECK(done.freed == 1 && done.found.verdict == quorlock::verdict::held && done.found.holder);
    CHECK(done.found.nodes.size() == 1 && done.found.nodes[0].state == "held");
    CHECK(told.get_future().get() == lease_state::forced && lease.state() == lease_state::forced);
    CHECK(operators.inspect().verdict == quorlock::verdict::free);
    CHECK(operators.try_acquire());
}

void a_label_of_a_lock() {
    const quorlock::client client = some_client();
    quorlock::lock_options options;
    options.owner = "o";
    options.label = "first";
    const quorlock::lock first = client.lock("a", options);
    options.label = "second";
    const quorlock::lock second = client.lock("a", options);
    {
        const quorlock::lease outer = first.acquire(), inner = second.acquire();
        // It has entered the lease again, and left its label.
        CHECK(second.inspect().holder->label == "first");
    }
    const quorlock::lease lease = second.acquire();
    CHECK(first.inspect().holder->label == "second");
    for (const std::string &bad : {std::string(257, 'l'), std::string("redis://user:secret@host\n")}) {
        options.label = bad;
        try {
            (void)client.lock("b", options);
            CHECK(!"refused");
        } catch (const quorlock::invalid_argument &error) {
            const std::string message = error.what();
            CHECK(message.find("label is") != std::string::npos && message.find("secret") == std::string::npos);
        }
    }
}

// Waits until a call of the client stands in a queue, but not forever.
bool comes_to_queue(const quorlock::client &client) {
    for (int left = 6000; left && client.stats().queued == 0; --left) std::this_thread::sleep_for(5ms);
    return client.stats().queued == 1;
}

void the_next_candidate_leads_when_one_resigns() {
    const std::string at = node();
    const quorlock::client ours({at}), theirs({at});
    const quorlock::election first = ours.election("a"), second = theirs.election("a");
    CHECK(!first.leader() && !first.resign() && !first.is_leader());
    std::promise<std::uint64_t> leads;
    std::promise<void> ends;
    int terms = 0, losses = 0, stops = 0;
    quorlock::run_options options;
    options.on_lost = [&](lease_state) { ++losses; };
    options.on_stopped = [&] { ++stops; };
    auto run = std::async(std::launch::async, [&] {
        return first.run(
            [&](quorlock::term &term) -> const std::string & {
                static const std::string done = "done";
                CHECK(term.is_held() && term.state() == lease_state::held && term.remaining() > 0ms);
                term.ensure(1ms);
                if (++terms == 1) {
                    leads.set_value(term.fence());
                    ends.get_future().wait();
                    CHECK(term.state() == lease_state::released);
                }
                return done;
            },
            options);
    });
    const std::uint64_t fence = leads.get_future().get();
    CHECK(first.is_leader() && !second.is_leader());
    const std::optional<quorlock::holder> leader = second.leader();
    CHECK(leader && leader->fence == fence && leader->votes == 1 && leader->left && leader->label.find(':') != std::string::npos);
    CHECK(theirs.lock("a").inspect().holder->fence == fence);
    auto waits = std::async(std::launch::async, [&] { return second.campaign(); });
    CHECK(comes_to_queue(theirs) && !second.is_leader());
    CHECK(first.resign() && !first.is_leader());
    const quorlock::lease term = waits.get();
    CHECK(second.is_leader() && term.fence() > fence && terms == 1 && stops == 0);
    ends.set_value();
    // It campaigns again, behind the other.
    CHECK(comes_to_queue(ours) && stops == 1);
    CHECK(second.resign() && !second.resign() && !term.is_held());
    CHECK(run.get() == "done");
    // What is given up is not lost.
    CHECK(terms == 2 && stops == 2 && losses == 0);
}

void a_loss_ends_the_work_before_it_begins_again() {
    const std::string at = node();
    const quorlock::client ours({at}), theirs({at});
    quorlock::lock_options brief;
    brief.ttl = 600ms;
    const quorlock::election election = ours.election("a", brief);
    std::promise<void> leads;
    std::promise<lease_state> told;
    std::promise<void> ends;
    std::vector<std::string> order;
    quorlock::run_options options;
    options.on_lost = [&](lease_state state) { told.set_value(state); };
    options.on_stopped = [&] { order.push_back("stopped"); };
    int terms = 0;
    auto run = std::async(std::launch::async, [&] {
        election.run(
            [&](const quorlock::term &term) {
                order.push_back("begun");
                if (++terms == 2) return;
                leads.set_value();
                ends.get_future().wait();
                CHECK(term.state() == lease_state::forced);
                // It is no failure, for it ended because of the loss: there is no pause.
                throw std::runtime_error("it is lost");
            },
            options);
    });
    leads.get_future().wait();
    theirs.lock("a").force_release();
    CHECK(told.get_future().get() == lease_state::forced && !election.is_leader());
    // Another leads meanwhile, and not this one, which works on.
    quorlock::lease term = theirs.election("a").campaign();
    CHECK(term.is_held() && terms == 1 && order.size() == 1);
    term.release();
    ends.set_value();
    run.get();
    CHECK((order == std::vector<std::string>{"begun", "stopped", "begun", "stopped"}));
}

void work_that_throws_campaigns_again() {
    const quorlock::client client = some_client();
    const quorlock::election election = client.election("a");
    std::vector<std::string> lines;
    std::promise<void> logged;
    quorlock::set_log([&](quorlock::log_level level, std::string_view line) {
        // Losses of tests before this one may come first.
        if (quorlock::log_event() != "leader_failed") return;
        CHECK(level == quorlock::log_level::warn);
        lines.emplace_back(line);
        if (lines.size() == 2) logged.set_value();
    });
    int terms = 0;
    const std::unique_ptr<int> done = election.run([&](quorlock::term &) {
        CHECK(election.is_leader());
        if (++terms == 1) throw std::runtime_error("out of paper");
        if (terms == 2) throw 7;
        return std::make_unique<int>(terms);
    });
    CHECK(*done == 3 && !election.is_leader());
    logged.get_future().wait();
    quorlock::set_log(nullptr);
    CHECK(lines.at(0).find("out of paper") != std::string::npos && lines.at(1).find("no std::exception") != std::string::npos);
    // With `again` it ends by no work that ends well.
    terms = 0;
    const quorlock::cancel_token cancel;
    quorlock::run_options again;
    again.again = true;
    THROWS(quorlock::cancelled, election.run(
                                    [&](quorlock::term &) {
                                        if (++terms == 3) cancel.cancel();
                                    },
                                    cancel, again));
    CHECK(terms == 3 && !election.leader());
    // A pause ends with the client, and then there is no campaign.
    THROWS(quorlock::client_closed, election.run([&](quorlock::term &) { client.close(); }));
}

void nobody_enters_a_term_again() {
    const quorlock::client client = some_client();
    const quorlock::election election = client.election("a");
    const quorlock::lease term = election.campaign();
    THROWS(quorlock::lock_contended, election.campaign(0ms));
    THROWS(quorlock::lock_timeout, election.campaign(20ms));
    quorlock::mutex mutex(client, "a");
    CHECK(!mutex.try_lock() && term.is_held());
    const quorlock::cancel_token cancel;
    cancel.cancel();
    THROWS(quorlock::cancelled, election.campaign(cancel));
    THROWS(quorlock::cancelled, election.campaign(1h, cancel));
    THROWS(quorlock::cancelled, election.run([](quorlock::term &) {}, cancel));
    CHECK(term.is_held());
    quorlock::lock_options named;
    named.owner = "me";
    THROWS(quorlock::invalid_argument, client.election("a", named));
    // Nor do several lead: what many hold is no election.
    quorlock::lock_options shared, slots;
    shared.shared = true;
    slots.slots = 2;
    THROWS(quorlock::invalid_argument, client.election("a", shared));
    THROWS(quorlock::invalid_argument, client.election("a", slots));
}

void observers_see_each_leader() {
    const std::string at = node();
    const quorlock::client ours({at}), theirs({at});
    const quorlock::observer observer = theirs.election("a").observe(10ms);
    quorlock::leadership now = observer.next();
    CHECK(now.known && !now.leader);
    const quorlock::election election = ours.election("a");
    quorlock::lease term = election.campaign();
    now = observer.next();
    CHECK(now.known && now.leader && now.leader->fence == term.fence() && now.leader->votes == 1);
    const quorlock::cancel_token cancel;
    cancel.cancel();
    THROWS(quorlock::cancelled, observer.next(cancel));
    term.release();
    now = observer.next();
    CHECK(now.known && !now.leader);
    THROWS(quorlock::invalid_argument, election.observe(0ms).next());
    const quorlock::client few({at, "redis://127.0.0.1:1", "redis://127.0.0.1:2"});
    now = few.election("a").observe().next();
    CHECK(!now.known && !now.leader);
    THROWS(quorlock::quorum_unavailable, few.election("a").leader());
}

#if defined(__cpp_lib_jthread)
// The work waits for its stop token alone.
void a_stop_token_ends_the_work() {
    const std::string at = node();
    const quorlock::client ours({at}), theirs({at});
    quorlock::lock_options brief;
    brief.ttl = 600ms;
    const quorlock::election election = ours.election("a", brief);
    std::mutex mutex;
    std::condition_variable_any changed;
    int terms = 0;
    const auto work = [&](quorlock::term &term, std::stop_token stop) {
        std::unique_lock guard(mutex);
        CHECK(term.stop_token() == stop && !stop.stop_requested());
        ++terms;
        changed.notify_all();
        changed.wait(guard, stop, [] { return false; });
        return terms;
    };
    const auto leads = [&](int term) {
        std::unique_lock guard(mutex);
        return changed.wait_for(guard, 30s, [&] { return terms == term; });
    };
    std::promise<int> done;
    std::jthread runs([&](std::stop_token stop) { done.set_value(election.run(work, stop)); });
    // Lost, given up, and told to end.
    CHECK(leads(1));
    theirs.lock("a").force_release();
    CHECK(leads(2) && election.resign());
    CHECK(leads(3) && election.is_leader());
    runs.request_stop();
    CHECK(done.get_future().get() == 3 && !election.is_leader());
    // While it campaigns.
    const quorlock::lease term = theirs.election("a").campaign();
    std::stop_source source;
    auto waits = std::async(std::launch::async, [&] { return election.run(work, source.get_token()); });
    CHECK(comes_to_queue(ours));
    source.request_stop();
    THROWS(quorlock::cancelled, waits.get());
    THROWS(quorlock::cancelled, election.run([](quorlock::term &) {}, source.get_token()));
    CHECK(terms == 3);
}
#endif

void a_set_is_probed() {
    const quorlock::client client({node(), "redis://127.0.0.1:1", node(), node()});
    const quorlock::probe found = client.probe();
    CHECK(found.health == quorlock::health::works_but && quorlock::to_string(found.health) == std::string("works_but"));
    CHECK(found.votes == 3 && found.quorum == 3 && found.set_name == "default" && found.max_ttl == 60s);
    CHECK(found.findings.size() == 1 && found.findings[0].id == "QD15" && found.findings[0].severity == "note");
    CHECK(found.nodes.size() == 4 && found.nodes[0].votes && found.nodes[0].server == "memory");
    CHECK(found.nodes[0].findings.empty() && !found.nodes[0].clock && !found.nodes[0].round_trip);
    const quorlock::node_report &dead = found.nodes[1];
    CHECK(!dead.answers && !dead.votes && dead.node == "127.0.0.1:1" && dead.server.empty() && dead.record == "unknown");
    CHECK(dead.findings.size() == 1 && dead.findings[0].id == "QD01" && dead.findings[0].severity == "error");
    CHECK(!dead.findings[0].what.empty() && !dead.findings[0].remedy.empty());
    // On servers there is more to tell.
    const quorlock::probe servers = quorlock::client().probe();
    CHECK(servers.nodes.size() == 3 && servers.findings.empty());
    for (const quorlock::node_report &one : servers.nodes) {
        CHECK(one.answers && one.role == "master" && !one.version.empty() && one.uptime && one.clock_error);
        CHECK(one.round_trip && one.round_trip->first > 0us && one.round_trip->first <= one.round_trip->second);
        CHECK(one.memory_used && *one.memory_used > 0 && !one.memory_limit && one.eviction == "noeviction");
    }
    client.close();
    THROWS(quorlock::client_closed, client.probe());
}

void a_set_is_declared() {
    const quorlock::client client = client_of_new_set("set", {});
    client.init_set();
    // As at every deploy: nothing is changed. The servers have stored something before, so they do not vote yet.
    client.init_set();
    THROWS(quorlock::quorum_unavailable, client.lock("a").try_acquire());
    client.init_set_forced();
    CHECK(client.lock("a").try_acquire().has_value());
    client.init_set();
    CHECK(client.lock("a").try_acquire().has_value());
    const quorlock::client other = client_of_new_set("set", {}, "other");
    THROWS(quorlock::misconfigured, other.init_set_forced());
    THROWS(quorlock::misconfigured, other.init_set());
    try {
        other.init_set();
    } catch (const quorlock::error &error) {
        CHECK(error.nodes().size() == 3);
        for (const quorlock::node_error &each : error.nodes()) CHECK(each.message.find("record") != std::string::npos);
    }
    client.close();
    THROWS(quorlock::client_closed, client.init_set());
    THROWS(quorlock::client_closed, client.init_set_forced());
}

void the_guard_of_restarts() {
    using quorlock::restart_guard;
    THROWS(quorlock::quorum_unavailable, client_of_new_set("auto", restart_guard::automatic).lock("a").try_acquire());
    THROWS(quorlock::quorum_unavailable, client_of_new_set("on", restart_guard::on).lock("a").try_acquire());
    CHECK(client_of_new_set("off", restart_guard::off).lock("a").try_acquire().has_value());
}

// Whether a client with these options is refused with a message that has `part`.
bool refused(const quorlock::client_options &options, const char *part) {
    try {
        const quorlock::client client(options);
    } catch (const quorlock::invalid_argument &error) {
        return error.message().find(part) != std::string::npos;
    }
    return false;
}

void mistakes_in_options() {
    quorlock::client_options options;
    options.nodes = std::vector<std::string>{node()};
    options.fence_ttl = 119999ms;
    CHECK(refused(options, "fence_ttl is 119.999s"));
    options.fence_ttl = 120s;
    options.set_name = "two words";
    CHECK(refused(options, "set_name is text of 9 characters"));
    options.set_name = "mine";
    options.restart_guard = static_cast<quorlock::restart_guard>(3);
    CHECK(refused(options, "restart_guard is 3"));
    options.restart_guard = quorlock::restart_guard::off;
    options.accept_eviction = true;
    CHECK(quorlock::client(options).lock("a").try_acquire().has_value());
}

void losses_are_told() {
    const quorlock::client client = some_client();
    const quorlock::lock lock = client.lock("a", short_lived());
    std::promise<lease_state> told;
    std::optional<quorlock::lease> lease = lock.acquire();
    // Destroyed by its own callback, together with the function that runs.
    lease->on_lost([&, kept = std::string(100, 'x')](lease_state state) {
        lease.reset();
        CHECK(kept.size() == 100);
        told.set_value(state);
    });
    CHECK(told.get_future().get() == lease_state::expired);
    CHECK(!lease);
    // Over when the lease is gone, or has been moved to.
    std::atomic<int> calls{0};
    {
        quorlock::lease first = lock.acquire();
        first.on_lost([&](lease_state) { ++calls; });
        quorlock::lease moved = std::move(first);
        moved = client.lock("b").acquire();
    }
    std::this_thread::sleep_for(300ms);
    CHECK(calls == 0);
    CHECK(quorlock::to_string(lease_state::owner_gone) == std::string("owner_gone"));
}

void a_callback_that_blocks_loses_no_lease() {
    quorlock::client_options options;
    options.nodes = std::vector<std::string>{node()};
    // So long that a machine which stands still for a second costs nobody the lease.
    options.ttl = 2s;
    const quorlock::client client(options);
    quorlock::lease doomed = client.lock("doomed", short_lived()).acquire();
    const quorlock::lease kept = client.lock("kept").acquire();
    std::promise<void> called, go_on;
    doomed.on_lost([&](lease_state) {
        called.set_value();
        go_on.get_future().wait();
    });
    CHECK(called.get_future().wait_for(30s) == std::future_status::ready);
    // The work that a callback should not do, but may.
    std::this_thread::sleep_for(4s);
    CHECK(kept.is_held());
    CHECK(client.stats().lost == 1 && client.stats().renewals >= 2);
    go_on.set_value();
}

#if defined(__cpp_lib_jthread)
void what_blocks_withholds_no_stop() {
    const std::string at = node();
    const quorlock::client client({at}), theirs({at});
    quorlock::lock_options renewed;
    renewed.ttl = 600ms;
    const quorlock::election election = client.election("term", renewed);
    std::promise<void> called, go_on, logs, leads, stopped, deposed;
    const std::shared_future<void> goes_on = go_on.get_future().share();
    const auto comes = [](std::promise<void> &told) {
        return told.get_future().wait_for(30s) == std::future_status::ready;
    };
    int terms = 0;
    auto runs = std::async(std::launch::async, [&] {
        election.run([&](quorlock::term &, std::stop_token stop) {
            if (++terms > 1) return;
            const std::stop_callback told(stop, [&] { deposed.set_value(); });
            leads.set_value();
            // In vain: nothing but the stop ends it.
            while (!stop.stop_requested()) std::this_thread::sleep_for(5ms);
        });
    });
    CHECK(comes(leads));
    // As one that writes to a full pipe.
    std::atomic<bool> logged{false};
    quorlock::set_log([&](quorlock::log_level, std::string_view) {
        if (!logged.exchange(true)) logs.set_value();
        goes_on.wait();
    });
    quorlock::lease blocks = client.lock("blocks", short_lived()).acquire();
    blocks.on_lost([&](lease_state) {
        called.set_value();
        goes_on.wait();
    });
    CHECK(comes(called) && comes(logs));
    quorlock::lease other = client.lock("other", short_lived()).acquire();
    const std::stop_callback stops(other.stop_token(), [&] { stopped.set_value(); });
    CHECK(comes(stopped));
    theirs.lock("term").force_release();
    CHECK(comes(deposed));
    go_on.set_value();
    runs.get();
    quorlock::set_log(nullptr);
}
#endif

bool comes_to_wait(const quorlock::client &client, std::uint64_t count) {
    for (int left = 6000; left && client.stats().waiting != count; --left) std::this_thread::sleep_for(5ms);
    return client.stats().waiting == count;
}

void cancelling() {
    const quorlock::client client = some_client();
    const quorlock::lock lock = client.lock("a");
    const quorlock::lease held = lock.acquire();
    const quorlock::cancel_token token;
    auto wait = std::async(std::launch::async, [&] { return lock.acquire(quorlock::forever, token); });
    CHECK(wait.wait_for(50ms) == std::future_status::timeout);
    token.cancel();
    THROWS(quorlock::cancelled, wait.get());
    THROWS(quorlock::cancelled, lock.acquire(token));
}

#if defined(__cpp_lib_jthread)
// What is stopped beside what would end its wait has what it was given, or nobody has.
void stopped_waits_leave_nothing() {
    quorlock::client_options options;
    options.nodes = std::vector<std::string>{node()};
    options.ttl = 60s;
    const quorlock::client client(options), rival(options);
    for (int round = 0; round < 60; round++) {
        std::stop_source stop;
        std::optional<quorlock::lease> held = (round % 2 ? client : rival).lock("a").acquire();
        auto wait = std::async(std::launch::async, [&]() -> bool {
            const auto got = [&](const auto &lease) { return lease.is_held(); };
            try {
                return round % 3 ? got(client.lock("a").acquire(stop.get_token())) : got(client.lock_all({"b", "a"}).acquire(stop.get_token()));
            } catch (const quorlock::cancelled &) {
                return true;
            }
        });
        if (round % 4 == 1) CHECK(comes_to_wait(client, 1));
        if (round % 5 == 0) stop.request_stop();
        held.reset();
        stop.request_stop();
        CHECK(wait.get());
        CHECK(rival.lock("a").acquire().is_held() && rival.lock("b").acquire().is_held());
    }
}
#endif

void a_line_of_threads() {
    quorlock::client_options options;
    options.nodes = std::vector<std::string>{node()};
    options.max_waiters = 3;
    const quorlock::client client(options);
    quorlock::mutex mutex(client, "a");
    const quorlock::lock lock = client.lock("a");
    std::vector<int> order;
    const auto hold = [&](int number) {
        const std::lock_guard guard(mutex);
        order.push_back(number);
    };
    const quorlock::cancel_token token;
    {
        std::unique_lock held(mutex);
        auto first = std::async(std::launch::async, hold, 1);
        CHECK(comes_to_wait(client, 1));
        // Its wait ends while the first still waits, who keeps the place.
        CHECK(!elsewhere([&] { return mutex.try_lock_for(60ms); }));
        CHECK(client.stats().waiting == 1);
        auto cancelled = std::async(std::launch::async, [&] { return lock.acquire(quorlock::forever, token); });
        CHECK(comes_to_wait(client, 2));
        auto last = std::async(std::launch::async, hold, 2);
        CHECK(comes_to_wait(client, 3));
        elsewhere([&] {
            // A wait that ends, so that one who is not refused is found out.
            THROWS(quorlock::too_many_waiters, lock.acquire(5s));
            THROWS(quorlock::too_many_waiters, mutex.try_lock_for(5s));
            CHECK(!mutex.try_lock());  // takes no place
            return 0;
        });
        token.cancel();
        THROWS(quorlock::cancelled, cancelled.get());
        CHECK(client.stats().waiting == 2);
        held.unlock();
        first.get();
        last.get();
    }
    CHECK((order == std::vector<int>{1, 2}));
    CHECK(client.stats().waiting == 0 && client.stats().attempts_lost == 1);
    options.max_waiters = -1;
    CHECK(refused(options, "max_waiters is -1"));
    quorlock::lock_options of_lock;
    of_lock.max_waiters = 0;
    const quorlock::lease lease = client.lock("a", of_lock).acquire();
    THROWS(quorlock::too_many_waiters, elsewhere([&] { return client.lock("a", of_lock).acquire(); }));
    of_lock.max_waiters = std::int64_t{1} << 31;
    THROWS(quorlock::invalid_argument, client.lock("a", of_lock));
}

void the_log() {
    std::promise<std::string> told;
    // Lines of tests before this one may come first.
    quorlock::set_log([&](quorlock::log_level level, std::string_view line) {
        if (quorlock::log_event() != "max_hold_near") return;
        CHECK(level == quorlock::log_level::warn && quorlock::log_field("lock") == "a" && !quorlock::log_field("node"));
        CHECK(quorlock::log_template().find("`{lock}`") != std::string::npos);
        told.set_value(std::string(line));
    });
    const quorlock::client client = some_client();
    quorlock::lock_options options;
    // The warning has the last fifth of it, even under valgrind and on a machine that stands still.
    options.ttl = 2s;
    options.max_hold = 4s;
    const quorlock::lease lease = client.lock("a", options).acquire();
    CHECK(told.get_future().get().find("max_hold") != std::string::npos);
    quorlock::set_log(nullptr);
}

void all_options() {
    quorlock::client_options options;
    options.nodes = std::vector<std::string>{node()};
    options.ttl = 5s;
    options.wait = quorlock::forever;
    options.renew = true;
    options.max_hold = quorlock::forever;
    options.raw = false;
    options.max_ttl = 20s;
    options.node_timeout = 100ms;
    options.drift = 0.02;
    options.min_validity = 0.2;
    options.name_space = "mine:";
    options.label = "";
    options.fencing = true;
    options.fence_ttl = 40s;
    options.set_name = "mine";
    options.restart_guard = quorlock::restart_guard::on;
    options.accept_eviction = true;
    options.wait_replicas = 0;
    options.max_waiters = 7;
    options.fair = true;
    options.reentrant = false;
    options.keep = 10ms;
    options.group = "stock";
    const quorlock::client client(options);
    quorlock::lock_options of_lock = {1s, 0ms, true, 10s, true, "me", false, 7, true, false, 20ms, "orders", false, {}, {}, {}, "web-1"};
    CHECK(client.lock(std::string_view("\xff\0", 2), of_lock).acquire().remaining() < 1s);
    CHECK(quorlock::metrics_text().find("group=\"orders\",outcome=\"released\"") != std::string::npos);
    options.min_validity = 2;
    THROWS(quorlock::invalid_argument, quorlock::client{options});
    of_lock.ttl = 30s;
    THROWS(quorlock::invalid_argument, client.lock("a", of_lock));
}

// ---- waiting without a thread ----

static_assert(moves_only<quorlock::event_queue>);
static_assert(std::is_nothrow_move_constructible_v<quorlock::result<quorlock::lease>>);
static_assert(!std::is_copy_constructible_v<quorlock::result<quorlock::lease>>);

bool readable(const quorlock::event_queue &queue, int ms) {
    pollfd watched{queue.descriptor(), POLLIN, 0};
    return poll(&watched, 1, ms) == 1;
}

// Dispatches until so many callbacks have been called, but not forever.
bool dispatches(const quorlock::event_queue &queue, std::size_t count) {
    while (count) {
        if (!readable(queue, 30000)) return false;
        const std::size_t told = queue.dispatch();
        if (told > count) return false;
        count -= told;
    }
    return true;
}

void a_loop_waits_for_locks() {
    const quorlock::client client = some_client();
    const quorlock::event_queue queue;
    CHECK(queue.descriptor() >= 0 && !readable(queue, 0) && queue.dispatch() == 0);
    std::vector<quorlock::lease> held;
    const auto here = std::this_thread::get_id();
    const auto keep = [&](quorlock::result<quorlock::lease> won) {
        CHECK(won.has_value() && won.value().is_held() && std::this_thread::get_id() == here);
        held.push_back(std::move(won).value());
    };
    // Several at once; the locks may go at once.
    for (const char *name : {"a", "b", "c"}) client.lock(name).async_acquire(queue, keep);
    CHECK(held.empty());
    CHECK(dispatches(queue, 3) && held.size() == 3 && !readable(queue, 0));
    // Nobody owns them: neither entered again, nor released by the lock.
    const quorlock::lock lock = client.lock("a");
    std::optional<std::int32_t> refused;
    lock.async_acquire(queue, 0ms, [&](const quorlock::result<quorlock::lease> &none) {
        CHECK(!none.has_value() && none.error().lock_name() == "a");
        THROWS(quorlock::lock_contended, none.value());
        refused = none.error().kind();
    });
    CHECK(dispatches(queue, 1) && refused == QUORLOCK_CONTENDED);
    THROWS(quorlock::not_owner, lock.release());
    THROWS(quorlock::invalid_argument, lock.async_acquire(queue, -1ms, keep));
    // A callback need not be copyable, and may start what comes next.
    std::promise<bool> released;
    auto future = released.get_future();
    held.front().async_release(queue, [&, released = std::move(released)](quorlock::result<bool> was_held) mutable {
        CHECK(was_held.value());
        lock.async_acquire(queue, keep);
        released.set_value(true);
    });
    CHECK(!held.front().is_held());
    held.erase(held.begin());
    CHECK(dispatches(queue, 2) && future.get() && held.size() == 3 && held.back().is_held());
    // A second release was not held; a lease that is gone cannot be released.
    CHECK(held.back().release());
    bool again = true;
    held.back().async_release(queue, [&](quorlock::result<bool> was_held) { again = was_held.value(); });
    CHECK(dispatches(queue, 1) && !again);
    const quorlock::lease moved = std::move(held.back());
    THROWS(quorlock::invalid_argument, held.back().async_release(queue, [](const quorlock::result<bool> &) {}));
}

void a_thousand_waits_of_one_thread() {
    constexpr std::size_t many = 1000;
    const quorlock::client client = some_client();
    const quorlock::lock lock = client.lock("a");
    const quorlock::event_queue queue;
    quorlock::lease first = lock.acquire();
    std::vector<std::size_t> order;
    std::optional<quorlock::lease> held;
    for (std::size_t number = 0; number < many; ++number)
        lock.async_acquire(queue, quorlock::forever, [&, number](quorlock::result<quorlock::lease> won) {
            order.push_back(number);
            held = std::move(won).value();
        });
    CHECK(comes_to_wait(client, many));
    CHECK(first.release());
    while (order.size() < many && dispatches(queue, 1)) held.reset();
    CHECK(order.size() == many && std::is_sorted(order.begin(), order.end()));
}

void a_wait_of_a_loop_is_cancelled() {
    const quorlock::client client = some_client();
    const quorlock::lock lock = client.lock("a");
    std::optional<quorlock::event_queue> queue(std::in_place);
    quorlock::lease held = lock.acquire();
    std::vector<std::int32_t> ends;
    const auto end = [&](const quorlock::result<quorlock::lease> &none) { ends.push_back(none.error().kind()); };
    const quorlock::cancel_token token = lock.async_acquire(*queue, quorlock::forever, end);
    // Its token is dropped: it goes on.
    lock.async_acquire(*queue, quorlock::forever, end);
    CHECK(comes_to_wait(client, 2));
    token.cancel();
    CHECK(dispatches(*queue, 1) && ends == std::vector<std::int32_t>{QUORLOCK_CANCELLED} && client.stats().waiting == 1);
    client.close();
    CHECK(dispatches(*queue, 1) && ends.back() == QUORLOCK_CLOSED);
    // A queue that goes tells all that it has not told, and nothing is kept.
    const quorlock::client next = some_client();
    const quorlock::lock other = next.lock("a");
    other.async_acquire(*queue, end);
    CHECK(readable(*queue, 30000));
    other.async_acquire(*queue, quorlock::forever, end);
    other.async_acquire(*queue, quorlock::forever, [](quorlock::result<quorlock::lease> none) { throw std::move(none); });
    queue.reset();
    CHECK((ends == std::vector<std::int32_t>{QUORLOCK_CANCELLED, QUORLOCK_CLOSED, QUORLOCK_CANCELLED, QUORLOCK_CANCELLED}));
    CHECK(other.acquire(30s).is_held());
    quorlock::event_queue from;
    const quorlock::event_queue to = std::move(from);
    CHECK(from.descriptor() == -1 && from.dispatch() == 0 && to.descriptor() >= 0);
    THROWS(quorlock::invalid_argument, other.async_acquire(from, end));
    THROWS(quorlock::invalid_argument, other.acquire().on_lost(from, [](lease_state) {}));
}

void callbacks_of_a_loop_may_throw() {
    const quorlock::client client = some_client();
    std::optional<quorlock::event_queue> queue(std::in_place);
    int told = 0;
    for (const char *name : {"a", "b", "c"})
        client.lock(name).async_acquire(*queue, [&](quorlock::result<quorlock::lease> won) {
            const quorlock::lease lease = std::move(won).value();
            ++told;
            throw std::runtime_error("the work");
        });
    int thrown = 0;
    while (told < 3 && readable(*queue, 30000)) {
        const int before = told;
        try {
            queue->dispatch();
        } catch (const std::runtime_error &error) {
            CHECK(error.what() == std::string("the work") && told > before);
            ++thrown;
        }
    }
    // All have been called, and their leases have gone with them.
    CHECK(told == 3 && thrown >= 1 && queue->dispatch() == 0);
    for (const char *name : {"a", "b", "c"}) CHECK(client.lock(name).acquire(30s).is_held());
    // So may a loss. And what is not looked at is thrown by value(), as by acquire().
    quorlock::lease lease = client.lock("d", short_lived()).acquire();
    lease.on_lost(*queue, [](lease_state state) { throw state; });
    CHECK(readable(*queue, 30000));
    lease_state why = lease_state::held;
    try {
        queue->dispatch();
    } catch (lease_state state) {
        why = state;
    }
    CHECK(why == lease_state::expired && lease.state() == why);
    const quorlock::lease held = client.lock("e").acquire();
    client.lock("e").async_acquire(*queue, 0ms, [](quorlock::result<quorlock::lease> won) { won.value().extend(); });
    CHECK(readable(*queue, 30000));
    THROWS(quorlock::lock_contended, queue->dispatch());
    // A callback destroys the queue that it came by.
    client.lock("f").async_acquire(*queue, [&](const quorlock::result<quorlock::lease> &won) {
        CHECK(won.has_value());
        queue.reset();
        throw std::runtime_error("no queue any more");
    });
    CHECK(readable(*queue, 30000));
    THROWS(std::runtime_error, queue->dispatch());
    CHECK(!queue);
}

void losses_reach_a_loop() {
    const quorlock::client client = some_client();
    const quorlock::lock lock = client.lock("a", short_lived());
    std::optional<quorlock::event_queue> queue(std::in_place);
    std::optional<quorlock::lease> lease;
    std::vector<lease_state> told;
    const auto here = std::this_thread::get_id();
    lock.async_acquire(*queue, [&](quorlock::result<quorlock::lease> won) {
        lease = std::move(won).value();
        // It destroys its own lease.
        lease->on_lost(*queue, [&](lease_state state) {
            CHECK(std::this_thread::get_id() == here);
            lease.reset();
            told.push_back(state);
        });
    });
    CHECK(dispatches(*queue, 2) && told == std::vector<lease_state>{lease_state::expired} && !lease);
    // Taken back, or gone with its lease: it comes no more, also where the loss has come.
    lease = lock.acquire(30s);
    lease->on_lost(*queue, [&](lease_state state) { told.push_back(state); });
    CHECK(readable(*queue, 30000));
    lease->on_lost(*queue, nullptr);
    CHECK(queue->dispatch() == 0);
    lease->on_lost(*queue, [&](lease_state state) { told.push_back(state); });
    CHECK(readable(*queue, 30000));
    lease.reset();
    CHECK(queue->dispatch() == 0 && told.size() == 1);
    // A queue that goes first tells nothing, and the lease goes on.
    lease = client.lock("b").acquire();
    lease->on_lost(*queue, [&](lease_state state) { told.push_back(state); });
    queue.reset();
    CHECK(lease->is_held() && lease->release() && told.size() == 1);
}

// The callback of the first loss destroys the queue: those of the other two, which it may have worked with, come no more.
void losses_end_with_their_loop() {
    const quorlock::client client = some_client();
    std::optional<quorlock::event_queue> queue(std::in_place);
    auto told = std::make_unique<int>(0);
    int calls = 0;
    std::vector<quorlock::lease> leases;
    for (const char *name : {"a", "b", "c"}) {
        quorlock::lease &lease = leases.emplace_back(client.lock(name, short_lived()).acquire());
        lease.on_lost(*queue, [&](lease_state) {
            ++calls;
            ++*told;
            queue.reset();
            told.reset();
        });
    }
    while (std::any_of(leases.begin(), leases.end(), [](const auto &lease) { return lease.is_held(); }))
        std::this_thread::sleep_for(5ms);
    // Told after those, on the thread that tells the queue of them.
    quorlock::lease other = client.lock("d", short_lived()).acquire();
    std::promise<void> last;
    other.on_lost([&](lease_state) { last.set_value(); });
    last.get_future().get();
    CHECK(queue->dispatch() == 1 && calls == 1 && !queue && !told);
}

void a_loop_waits_for_several_at_once() {
    const std::string at = node();
    const quorlock::client ours({at}), theirs({at});
    const quorlock::event_queue queue;
    quorlock::lock_options brief;
    brief.ttl = 600ms;
    std::optional<quorlock::lease> held = ours.lock("b").acquire();
    std::optional<quorlock::leases> leases;
    const quorlock::locks locks = ours.lock_all({"b", "a"}, brief);
    std::vector<std::string> names;
    const auto none = [&](const quorlock::result<quorlock::leases> &won) {
        names.push_back(std::string(won.error().kind_name()) + " " + won.error().lock_name());
    };
    locks.async_acquire(queue, 0ms, none);
    CHECK(dispatches(queue, 1) && names == std::vector<std::string>{"Contended b"});
    locks.async_acquire(queue, quorlock::forever, none).cancel();
    CHECK(dispatches(queue, 1) && names.back() == "Cancelled ");
    locks.async_acquire(queue, quorlock::forever, [&](quorlock::result<quorlock::leases> won) {
        leases = std::move(won).value();
    });
    CHECK(comes_to_wait(ours, 1));
    held.reset();
    CHECK(dispatches(queue, 1) && leases && leases->is_held() && leases->fences().size() == 2);
    std::optional<lease_state> lost;
    leases->on_lost(queue, [&](lease_state state) { lost = state; });
    theirs.lock("a").force_release();
    CHECK(dispatches(queue, 1) && lost == lease_state::forced && leases->lost_name() == "a");
    bool was_held = true;
    leases->async_release(queue, [&](quorlock::result<bool> all) { was_held = all.value(); });
    CHECK(dispatches(queue, 1) && !was_held);
    CHECK(theirs.lock("b").acquire(30s).is_held());
}

#if defined(__cpp_lib_jthread)

void a_stop_token_ends_a_wait() {
    const quorlock::client client = some_client();
    const quorlock::lock lock = client.lock("a");
    const quorlock::locks locks = client.lock_all({"a", "b"});
    quorlock::mutex mutex(client, "a");
    quorlock::multi_mutex both(client, {"a", "b"});
    std::optional<quorlock::lease> held = lock.acquire();
    const auto ends = [&](auto wait) {
        std::promise<bool> told;
        std::jthread thread([&](const std::stop_token &stop) {
            try {
                wait(stop);
                told.set_value(false);
            } catch (const quorlock::cancelled &) {
                told.set_value(true);
            } catch (...) {
                told.set_exception(std::current_exception());
            }
        });
        CHECK(comes_to_wait(client, 1));
        thread.request_stop();
        return told.get_future().get() && comes_to_wait(client, 0);
    };
    const auto dropped = [](auto &&won) { static_cast<void>(won); };
    CHECK(ends([&](const std::stop_token &stop) { dropped(lock.acquire(quorlock::forever, stop)); }));
    CHECK(ends([&](const std::stop_token &stop) { dropped(lock.acquire(stop)); }));
    CHECK(ends([&](const std::stop_token &stop) { dropped(locks.acquire(stop)); }));
    CHECK(ends([&](const std::stop_token &stop) { dropped(locks.acquire(1h, stop)); }));
    CHECK(ends([&](const std::stop_token &stop) { mutex.lock(stop); }));
    CHECK(ends([&](const std::stop_token &stop) { dropped(mutex.try_lock_for(1h, stop)); }));
    CHECK(ends([&](const std::stop_token &stop) { dropped(both.try_lock_for(1h, stop)); }));
    CHECK(ends([&](const std::stop_token &stop) {
        dropped(both.try_lock_until(std::chrono::system_clock::now() + 1h, stop));
    }));
    // Stopped before, and never; a wait has an end of its own.
    std::stop_source stopped;
    stopped.request_stop();
    THROWS(quorlock::cancelled, lock.acquire(stopped.get_token()));
    THROWS(quorlock::cancelled, mutex.lock(stopped.get_token()));
    elsewhere([&] {
        const std::stop_source never;
        THROWS(quorlock::lock_timeout, lock.acquire(20ms, never.get_token()));
        CHECK(!mutex.try_lock_for(20ms, never.get_token()) && !mutex.try_lock_for(0ms, std::stop_token()));
        CHECK(!mutex.try_lock_until(std::chrono::steady_clock::now() - 1h, std::stop_token()));
        return 0;
    });
    held.reset();
    elsewhere([&] {
        mutex.lock(std::stop_token());
        CHECK(mutex.is_held());
        mutex.unlock();
        CHECK(mutex.try_lock_until(std::chrono::steady_clock::now() + 1h, std::stop_token()));
        mutex.unlock();
        return 0;
    });
    CHECK(lock.acquire(std::stop_source().get_token()).is_held());
}

// Waits on a token without polling it.
bool comes_to_stop(const std::stop_token &token) {
    std::promise<void> stopped;
    const std::stop_callback told(token, [&] { stopped.set_value(); });
    return stopped.get_future().wait_for(30s) == std::future_status::ready;
}

void a_loss_stops_the_work() {
    const std::string at = node();
    const quorlock::client client({at}), others({at});
    quorlock::lease lease = client.lock("a", short_lived()).acquire();
    std::promise<lease_state> told;
    lease.on_lost([&](lease_state state) { told.set_value(state); });
    const std::stop_token token = lease.stop_token();
    CHECK(token.stop_possible() && !token.stop_requested() && lease.stop_token() == token);
    // It goes with the lease.
    quorlock::lease moved = std::move(lease);
    CHECK(moved.stop_token() == token);
    CHECK(comes_to_stop(token) && moved.state() == lease_state::expired);
    // Beside the callback; and one that comes late sees it at once.
    CHECK(told.get_future().get() == lease_state::expired);
    quorlock::lease late = client.lock("b", short_lived()).acquire();
    std::promise<void> over;
    late.on_lost([&](lease_state) { over.set_value(); });
    over.get_future().wait();
    CHECK(late.stop_token().stop_requested());
    // A wait that makes no sense without the lease ends with it.
    const quorlock::lease busy = others.lock("c").acquire();
    quorlock::lease outer = client.lock("d", short_lived()).acquire();
    THROWS(quorlock::cancelled, client.lock("c").acquire(quorlock::forever, outer.stop_token()));
    CHECK(outer.state() == lease_state::expired);
    // A release stops nothing.
    quorlock::lease released = client.lock("e").acquire();
    const std::stop_token kept = released.stop_token();
    CHECK(released.release() && !kept.stop_requested() && !released.stop_token().stop_requested());
    THROWS(quorlock::invalid_argument, lease.stop_token());
    // Of several, and as mutexes.
    quorlock::lock_options brief;
    brief.ttl = 600ms;
    quorlock::leases leases = client.lock_all({"f", "g"}, brief).acquire();
    const std::stop_token of_both = leases.stop_token();
    others.lock("g").force_release();
    CHECK(comes_to_stop(of_both) && leases.lost_name() == "g");
    quorlock::mutex mutex(client, "h", short_lived());
    CHECK(!mutex.stop_token().stop_possible());
    const std::unique_lock hold(mutex);
    const std::stop_token of_mutex = mutex.stop_token();
    // What waits on it may ask the mutex.
    std::promise<bool> seen;
    const std::stop_callback asks(of_mutex, [&] { seen.set_value(mutex.is_held()); });
    CHECK(!seen.get_future().get() && !mutex.is_held() && mutex.stop_token() == of_mutex);
    CHECK(!elsewhere([&] { return mutex.stop_token().stop_possible(); }));
}

#endif

// Destroyed after main has returned, when the thread's own storage is gone.
std::optional<quorlock::client> late_client;
std::optional<quorlock::mutex> late_mutex;
struct unlock_late {
    ~unlock_late() {
        if (late_mutex) late_mutex->unlock();
        if (!late_client) return;
        late_client->close();
        std::puts("closed late");
    }
} unlock_late;

void destructors_after_main() {
    const std::string command = "'" + std::string(self) + "' role:late";
    CHECK(std::system(command.c_str()) == 0);
}

// Held by a process that has exited without a word: its exit releases it. Volatile, for a compiler may leave out what nobody
// reads any more, and a checker of leaks then finds nobody who holds it.
quorlock::lease *volatile never_destroyed;

void exiting_releases() {
    const std::string command = "'" + std::string(self) + "' role:exits";
    CHECK(std::system(command.c_str()) == 0);
    const quorlock::client client;
    CHECK(client.lock("cpp-exits").try_acquire().has_value());
}

int exits() {
    const quorlock::client client;
    never_destroyed = new quorlock::lease(client.lock("cpp-exits").acquire());
    return !never_destroyed->is_held();
}

int late() {
    late_client.emplace(some_client());
    late_mutex.emplace(*late_client, "a");
    late_mutex->lock();
    return 0;
}

const std::pair<const char *, void (*)()> tests[] = {
#define TEST(name) {#name, name}
    TEST(guards_of_the_standard), TEST(two_at_once), TEST(algorithms_of_the_standard),
    TEST(shared_and_alone), TEST(a_reader_is_told_of_its_own_hold),
    TEST(a_lease_goes_on_in_another_client),
    TEST(slots_of_a_semaphore), TEST(slots_are_looked_at_and_taken_away), TEST(a_lost_slot_is_given_back_for_itself),
    TEST(several_at_once), TEST(the_loss_of_one_of_several), TEST(threads_are_owners), TEST(a_mutex_refuses_its_own_thread),
    TEST(a_mutex_of_another_owner_refuses_its_own_thread),
    TEST(what_is_acquired_by_hand_has_no_owner), TEST(a_thread_is_not_taken_for_one_that_has_ended),
    TEST(waits_have_an_end), TEST(times_have_any_unit), TEST(texts_and_codes), TEST(errors_that_are_returned),
#if __cplusplus > 201703L
    TEST(options_by_their_names),
#endif
    TEST(only_contention_is_false), TEST(a_lost_mutex), TEST(kinds_and_details), TEST(moved_from),
    TEST(what_each_node_said), TEST(a_panic_is_an_error), TEST(a_lease_by_hand), TEST(losses_are_told),
    TEST(fences_grow), TEST(a_lock_that_is_taken_away), TEST(a_label_of_a_lock),
    TEST(the_next_candidate_leads_when_one_resigns), TEST(a_loss_ends_the_work_before_it_begins_again),
    TEST(work_that_throws_campaigns_again), TEST(nobody_enters_a_term_again), TEST(observers_see_each_leader),
#if defined(__cpp_lib_jthread)
    TEST(a_stop_token_ends_the_work),
#endif
    TEST(a_set_is_probed), TEST(a_set_is_declared), TEST(the_guard_of_restarts), TEST(mistakes_in_options),
    TEST(a_callback_that_blocks_loses_no_lease), TEST(cancelling), TEST(a_line_of_threads), TEST(the_log), TEST(all_options),
    TEST(a_loop_waits_for_locks), TEST(a_thousand_waits_of_one_thread), TEST(a_wait_of_a_loop_is_cancelled),
    TEST(callbacks_of_a_loop_may_throw), TEST(losses_reach_a_loop), TEST(losses_end_with_their_loop),
    TEST(a_loop_waits_for_several_at_once),
#if defined(__cpp_lib_jthread)
    TEST(a_stop_token_ends_a_wait), TEST(stopped_waits_leave_nothing), TEST(a_loss_stops_the_work), TEST(what_blocks_withholds_no_stop),
#endif
    TEST(exiting_releases), TEST(destructors_after_main)};

}  // namespace

int main(int argc, char **argv) {
    self = argv[0];
    if (argc == 2 && !std::strcmp(argv[1], "role:late")) return late();
    if (argc == 2 && !std::strcmp(argv[1], "role:exits")) return exits();
    int passed = 0, failed = 0;
    for (const auto &[name, run] : tests) {
        if (argc > 1 && std::strcmp(argv[1], name)) continue;
        broken = 0;
        try {
            run();
        } catch (const std::exception &error) {
            broken++;
            std::printf("     %s\n", error.what());
        }
        std::printf("%s %s\n", broken ? "FAIL" : "ok  ", name);
        std::fflush(stdout);
        broken ? failed++ : passed++;
    }
    // For the leak checkers: nothing of ours runs on.
    quorlock::shutdown();
    std::printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
