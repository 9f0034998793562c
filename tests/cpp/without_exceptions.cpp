// Two objects of one program: with exceptions, and without. That one has main(); with an argument it makes a mistake.

#include <cstdio>
#include <quorlock.hpp>

bool throws_here();

#if QUORLOCK_EXCEPTIONS

bool throws_here() {
    const quorlock::client client({"memory://with-exceptions"});
    try {
        static_cast<void>(client.lock(""));
    } catch (const quorlock::invalid_argument &) {
        return true;
    }
    return false;
}

#else

int main(int argc, char **) {
    quorlock::client_options options;
    options.nodes = {"http://h"};
    const quorlock::result<quorlock::client> none = quorlock::client::open(options);
    if (none.has_value() || none.error().code() != quorlock::errc::invalid_argument) return 1;
    options.nodes = {"memory://without-exceptions"};
    const quorlock::client client = quorlock::client::open(options).value();
    const auto named = [&](std::string_view name) {
        return quorlock::tried<quorlock::lock>([&](auto made, auto error) {
            return quorlock_lock_new(client.get(), name.data(), name.size(), nullptr, made, error);
        });
    };
    if (named("").has_value()) return 2;
    const quorlock::lock lock = named("a").value();
    const quorlock::lease lease = lock.acquire();
    const auto again = quorlock::tried<quorlock::lease>(
        [&](auto made, auto error) { return quorlock_lock(lock.get(), 10, nullptr, made, error); });
    if (again.has_value() || again.error().kind() != QUORLOCK_TIMEOUT || lock.try_acquire()) return 3;
    if (!quorlock::tried([&](auto error) { return quorlock_lease_ensure(lease.get(), 1, error); }).has_value()) return 4;
    const auto held = quorlock::tried<bool>([&](auto was, auto error) { return quorlock_unlock(lease.get(), was, error); });
    if (!held.has_value() || !held.value()) return 5;
    quorlock::mutex mutex(client, "a");
    {
        const std::lock_guard<quorlock::mutex> guard(mutex);
        if (!mutex.is_held()) return 6;
    }
    int led = 0;
    client.election("e").run([&](quorlock::term &) { ++led; });
    quorlock::event_queue queue;
    if (led != 1 || queue.dispatch() != 0 || !throws_here()) return 7;
    std::printf("1 passed, 0 failed\n");
    std::fflush(stdout);
    if (argc > 1) static_cast<void>(client.lock(""));
    return 0;
}

#endif
