// Which call is refused, or let in again, because its own thread holds the lock.

#include <shared_mutex>

#include "test.hpp"

namespace {

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

}  // namespace

const test owners_tests[] = {
    TEST(threads_are_owners), TEST(a_mutex_refuses_its_own_thread),
    TEST(a_mutex_of_another_owner_refuses_its_own_thread), TEST(what_is_acquired_by_hand_has_no_owner),
    TEST(a_thread_is_not_taken_for_one_that_has_ended),
    {nullptr, nullptr},
};
