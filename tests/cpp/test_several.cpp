// Slots of a semaphore, and several locks at once.

#include "test.hpp"

namespace {

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

}  // namespace

const test several_tests[] = {
    TEST(a_lease_goes_on_in_another_client), TEST(slots_of_a_semaphore), TEST(slots_are_looked_at_and_taken_away),
    TEST(a_lost_slot_is_given_back_for_itself), TEST(several_at_once), TEST(the_loss_of_one_of_several),
    {nullptr, nullptr},
};
