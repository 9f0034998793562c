// Waits that take no thread, which an event loop is told the end of.

#include <poll.h>

#include "test.hpp"

namespace {

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

#endif

}  // namespace

const test loops_tests[] = {
    TEST(a_loop_waits_for_locks), TEST(a_thousand_waits_of_one_thread), TEST(a_wait_of_a_loop_is_cancelled),
    TEST(callbacks_of_a_loop_may_throw), TEST(losses_reach_a_loop), TEST(losses_end_with_their_loop),
    TEST(a_loop_waits_for_several_at_once),
#if defined(__cpp_lib_jthread)
    TEST(a_stop_token_ends_a_wait),
#endif
    {nullptr, nullptr},
};
