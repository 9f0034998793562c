// The mutexes of C++: what guards and functions of the standard do with them, and readers beside a writer.

#include <shared_mutex>

#include "test.hpp"

namespace {

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

}  // namespace

const test mutexes_tests[] = {
    TEST(guards_of_the_standard), TEST(two_at_once), TEST(algorithms_of_the_standard), TEST(shared_and_alone),
    TEST(a_reader_is_told_of_its_own_hold), TEST(a_lost_mutex),
    {nullptr, nullptr},
};
