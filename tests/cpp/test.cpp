// Runs the tests of the C++ interface: test [NAME]. Most use nodes in this process; those that need servers use
// QUORLOCK_NODES. The last line is `N passed, M failed`.

#include <shared_mutex>

#include "test.hpp"

int broken;
const char *self;

// What a process does that a test of test_ends.cpp starts.
int exits();
int late();

namespace {

// What the standard asks of a TimedLockable type.
template <typename Mutex, typename = void>
constexpr bool timed_lockable = false;
template <typename Mutex>
constexpr bool timed_lockable<
    Mutex, std::void_t<decltype(std::declval<Mutex &>().lock()), decltype(std::declval<Mutex &>().unlock()),
                       std::enable_if_t<std::is_same_v<bool, decltype(std::declval<Mutex &>().try_lock())>>,
                       std::enable_if_t<std::is_same_v<bool, decltype(std::declval<Mutex &>().try_lock_for(1s))>>,
                       std::enable_if_t<std::is_same_v<bool, decltype(std::declval<Mutex &>().try_lock_until(
                                                                 std::chrono::system_clock::now()))>>>> = true;
static_assert(timed_lockable<quorlock::mutex> && timed_lockable<quorlock::multi_mutex>);
static_assert(timed_lockable<quorlock::shared_mutex>);
static_assert(std::is_same_v<bool, decltype(std::declval<quorlock::shared_mutex &>().try_lock_shared())>);
static_assert(noexcept(std::declval<quorlock::shared_mutex &>().unlock_shared()));
static_assert(noexcept(std::declval<quorlock::mutex &>().unlock()));
static_assert(noexcept(std::declval<quorlock::multi_mutex &>().unlock()));
static_assert(!std::is_copy_constructible_v<quorlock::multi_mutex> && !std::is_move_constructible_v<quorlock::multi_mutex>);
static_assert(!std::is_copy_constructible_v<quorlock::mutex> && !std::is_move_constructible_v<quorlock::mutex>);
static_assert(moves_only<quorlock::client> && moves_only<quorlock::lock> && moves_only<quorlock::lease>);
static_assert(moves_only<quorlock::election> && moves_only<quorlock::observer>);
static_assert(moves_only<quorlock::cancel_token> && moves_only<quorlock::locks> && moves_only<quorlock::leases>);
static_assert(std::is_nothrow_copy_constructible_v<quorlock::error>);
static_assert(std::is_nothrow_move_constructible_v<quorlock::error> && std::is_nothrow_move_assignable_v<quorlock::error>);
static_assert(std::is_nothrow_move_constructible_v<quorlock::lock_lost> && std::is_copy_assignable_v<quorlock::lock_lost>);

const test *const files[] = {mutexes_tests, owners_tests, several_tests, leases_tests, values_tests,
                             elections_tests, clients_tests, loops_tests, ends_tests};

}  // namespace

int main(int argc, char **argv) {
    self = argv[0];
    if (argc == 2 && !std::strcmp(argv[1], "role:late")) return late();
    if (argc == 2 && !std::strcmp(argv[1], "role:exits")) return exits();
    int passed = 0, failed = 0;
    for (const test *of_file : files) {
        for (const test *each = of_file; each->name; ++each) {
            if (argc > 1 && std::strcmp(argv[1], each->name)) continue;
            broken = 0;
            try {
                each->run();
            } catch (const std::exception &error) {
                broken++;
                std::printf("     %s\n", error.what());
            }
            std::printf("%s %s\n", broken ? "FAIL" : "ok  ", each->name);
            std::fflush(stdout);
            broken ? failed++ : passed++;
        }
    }
    // For the leak checkers: nothing of ours runs on.
    quorlock::shutdown();
    std::printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
