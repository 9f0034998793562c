// The end of a process that still has clients, locks and leases.

#include <cstdlib>

#include "test.hpp"

namespace {

// Destroyed after main has returned, when the thread's own storage is gone.
std::optional<quorlock::client> late_client;

std::optional<quorlock::mutex> late_mutex;

struct unlock_late {
    ~unlock_late() {
        if (late_mutex) late_mutex->unlock();
        if (!late_client) return;
        late_client->close();
        std::puts("closed late");
    }
} unlock_late;

void destructors_after_main() {
    const std::string command = "'" + std::string(self) + "' role:late";
    CHECK(std::system(command.c_str()) == 0);
}

// Held by a process that has exited without a word: its exit releases it. Volatile, for a compiler may leave out what nobody
// reads any more, and a checker of leaks then finds nobody who holds it.
quorlock::lease *volatile never_destroyed;

void exiting_releases() {
    const std::string command = "'" + std::string(self) + "' role:exits";
    CHECK(std::system(command.c_str()) == 0);
    const quorlock::client client;
    CHECK(client.lock("cpp-exits").try_acquire().has_value());
}

}  // namespace

int exits() {
    const quorlock::client client;
    never_destroyed = new quorlock::lease(client.lock("cpp-exits").acquire());
    return !never_destroyed->is_held();
}

int late() {
    late_client.emplace(some_client());
    late_mutex.emplace(*late_client, "a");
    late_mutex->lock();
    return 0;
}

const test ends_tests[] = {
    TEST(destructors_after_main), TEST(exiting_releases),
    {nullptr, nullptr},
};
