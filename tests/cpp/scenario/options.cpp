// The options that a line gives to a client or a lock.

#include <sstream>

#include "scenario.hpp"

void none_left(const options &given) {
    if (!given.empty()) throw failure{"expected no option " + given.begin()->first};
}

void set(quorlock::client_options &made, options &given) {
    take(given, "nodes", [&](auto &v) {
        std::istringstream stream(v);
        made.nodes.emplace();
        for (std::string url; std::getline(stream, url, ',');) made.nodes->push_back(url);
    });
    // Made from core/options.toml: options of a client.
    take(given, "ttl", [&](auto &v) { made.ttl = millis(v); });
    take(given, "wait", [&](auto &v) { made.wait = limit(v); });
    take(given, "renew", [&](auto &v) { made.renew = on(v); });
    take(given, "max_hold", [&](auto &v) { made.max_hold = limit(v); });
    take(given, "raw", [&](auto &v) { made.raw = on(v); });
    take(given, "max_ttl", [&](auto &v) { made.max_ttl = millis(v); });
    take(given, "node_timeout", [&](auto &v) { made.node_timeout = millis(v); });
    take(given, "connect_timeout", [&](auto &v) { made.connect_timeout = millis(v); });
    take(given, "drift", [&](auto &v) { made.drift = std::stod(v); });
    take(given, "min_validity", [&](auto &v) { made.min_validity = std::stod(v); });
    take(given, "namespace", [&](auto &v) { made.name_space = unescaped(v); });
    take(given, "label", [&](auto &v) { made.label = unescaped(v); });
    take(given, "ca", [&](auto &v) { made.ca = unescaped(v); });
    take(given, "cert", [&](auto &v) { made.cert = unescaped(v); });
    take(given, "key", [&](auto &v) { made.key = unescaped(v); });
    take(given, "fencing", [&](auto &v) { made.fencing = on(v); });
    take(given, "fence_ttl", [&](auto &v) { made.fence_ttl = millis(v); });
    take(given, "set_name", [&](auto &v) { made.set_name = unescaped(v); });
    take(given, "restart_guard", [&](auto &v) { made.restart_guard = restart_guard_of(v); });
    take(given, "accept_eviction", [&](auto &v) { made.accept_eviction = on(v); });
    take(given, "wait_replicas", [&](auto &v) { made.wait_replicas = count(v); });
    take(given, "max_waiters", [&](auto &v) { made.max_waiters = count(v); });
    take(given, "fair", [&](auto &v) { made.fair = on(v); });
    take(given, "reentrant", [&](auto &v) { made.reentrant = on(v); });
    take(given, "keep", [&](auto &v) { made.keep = millis(v); });
    take(given, "group", [&](auto &v) { made.group = unescaped(v); });
    take(given, "layout", [&](auto &v) { made.layout = layout_of(v); });
    // End of what is made.
}

void set(quorlock::lock_options &made, options &given) {
    // Made from core/options.toml: options of a lock.
    take(given, "ttl", [&](auto &v) { made.ttl = millis(v); });
    take(given, "wait", [&](auto &v) { made.wait = limit(v); });
    take(given, "renew", [&](auto &v) { made.renew = on(v); });
    take(given, "max_hold", [&](auto &v) { made.max_hold = limit(v); });
    take(given, "raw", [&](auto &v) { made.raw = on(v); });
    take(given, "owner", [&](auto &v) { made.owner = unescaped(v); });
    take(given, "fencing", [&](auto &v) { made.fencing = on(v); });
    take(given, "max_waiters", [&](auto &v) { made.max_waiters = count(v); });
    take(given, "fair", [&](auto &v) { made.fair = on(v); });
    take(given, "reentrant", [&](auto &v) { made.reentrant = on(v); });
    take(given, "keep", [&](auto &v) { made.keep = millis(v); });
    take(given, "group", [&](auto &v) { made.group = unescaped(v); });
    take(given, "shared", [&](auto &v) { made.shared = on(v); });
    take(given, "slots", [&](auto &v) { made.slots = count(v); });
    take(given, "layout", [&](auto &v) { made.layout = layout_of(v); });
    take(given, "label", [&](auto &v) { made.label = unescaped(v); });
    take(given, "confirm", [&](auto &v) { made.confirm = on(v); });
    // End of what is made.
}
