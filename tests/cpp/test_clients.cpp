// Clients: their options, the probe and the declaration of a set, the log.

#include "test.hpp"

namespace {

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

}  // namespace

const test clients_tests[] = {
    TEST(a_set_is_probed), TEST(a_set_is_declared), TEST(the_guard_of_restarts), TEST(mistakes_in_options),
    TEST(the_log), TEST(all_options),
    {nullptr, nullptr},
};
