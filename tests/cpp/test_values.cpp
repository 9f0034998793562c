// Values of the interface: times, texts, codes, errors, and objects that were moved from.

#include <sstream>
#include <cstdlib>

#include "test.hpp"

namespace {

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

}  // namespace

const test values_tests[] = {
    TEST(times_have_any_unit), TEST(texts_and_codes), TEST(errors_that_are_returned),
#if __cplusplus > 201703L
    TEST(options_by_their_names),
#endif
    TEST(only_contention_is_false), TEST(kinds_and_details), TEST(moved_from), TEST(what_each_node_said),
    TEST(a_panic_is_an_error),
    {nullptr, nullptr},
};
