// Elections: terms, the work that a leader runs, and observers.

#include <condition_variable>

#include "test.hpp"

namespace {

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

}  // namespace

const test elections_tests[] = {
    TEST(the_next_candidate_leads_when_one_resigns), TEST(a_loss_ends_the_work_before_it_begins_again),
    TEST(work_that_throws_campaigns_again), TEST(nobody_enters_a_term_again), TEST(observers_see_each_leader),
#if defined(__cpp_lib_jthread)
    TEST(a_stop_token_ends_the_work),
#endif
    {nullptr, nullptr},
};
