// Leases that are acquired and released by hand: their waits, their fences, their loss.

#include "test.hpp"

namespace {

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

void releasing_without_an_answer() {
    const quorlock::client client = some_client();
    quorlock::lease lease = client.lock("a").acquire();
    CHECK(lease.release(false) && lease.state() == lease_state::released && !lease.release(false));
    quorlock::leases leases = client.lock_all({"a", "b"}).acquire();
    CHECK(leases.release(false) && !leases.is_held() && !leases.release(true));
    quorlock::lock_options options;
    options.confirm = false;
    lease = client.lock("a", options).acquire();
    CHECK(lease.release());
    quorlock::mutex mutex(client, "a", options);
    { const std::lock_guard guard(mutex); }
    CHECK(elsewhere([&] { return mutex.try_lock() && (mutex.unlock(), true); }));
    quorlock::lock_options kept;
    kept.keep = 10ms;
    lease = client.lock("a", kept).acquire();
    THROWS(quorlock::invalid_argument, lease.release(false));
    CHECK(lease.is_held() && lease.release(true));
    kept.confirm = false;
    THROWS(quorlock::invalid_argument, client.lock("a", kept));
    THROWS(quorlock::invalid_argument, client.election("a", options));
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

#if defined(__cpp_lib_jthread)

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

}  // namespace

const test leases_tests[] = {
    TEST(waits_have_an_end), TEST(a_lease_by_hand), TEST(releasing_without_an_answer),
    TEST(losses_are_told), TEST(a_callback_that_blocks_loses_no_lease),
    TEST(fences_grow), TEST(a_lock_that_is_taken_away), TEST(a_label_of_a_lock), TEST(cancelling),
#if defined(__cpp_lib_jthread)
    TEST(stopped_waits_leave_nothing),
#endif
    TEST(a_line_of_threads),
#if defined(__cpp_lib_jthread)
    TEST(a_loss_stops_the_work), TEST(what_blocks_withholds_no_stop),
#endif
    {nullptr, nullptr},
};
