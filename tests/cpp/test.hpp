// What the tests of the C++ interface share: checks, and nodes and clients of their own.

#ifndef QUORLOCK_TEST_HPP
#define QUORLOCK_TEST_HPP

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <future>
#include <quorlock.hpp>

using namespace std::chrono_literals;
using quorlock::lease_state;

// The tests of a file, up to one without a name.
struct test {
    const char *name;
    void (*run)();
};
#define TEST(name) {#name, name}
extern const test mutexes_tests[], owners_tests[], several_tests[], leases_tests[], values_tests[],
    elections_tests[], clients_tests[], loops_tests[], ends_tests[];

extern int broken;        // checks that did not hold in the test that runs
extern const char *self;  // the path of this program

inline bool begins_with_its_summary(const quorlock::error &error) {
    const std::size_t size = std::strlen(error.summary());
    return size && !std::strncmp(error.what(), error.summary(), size) && error.message().size() > size;
}
inline bool begins_with_its_summary(const std::exception &error) { return *error.what(); }

#define CHECK(condition) \
    ((condition) ? void() : void((broken++, std::printf("     %s:%d: %s\n", __FILE__, __LINE__, #condition))))
#define THROWS(type, call)                                                        \
    do {                                                                          \
        bool thrown = false;                                                      \
        try {                                                                     \
            static_cast<void>(call);                                              \
        } catch (const type &error) {                                             \
            thrown = begins_with_its_summary(error) && typeid(error) == typeid(type); \
        } catch (const std::exception &error) {                                   \
            std::printf("     %s\n", error.what());                               \
        }                                                                         \
        CHECK(thrown && #call);                                                   \
    } while (0)

inline std::string node() {
    static std::atomic<int> number{0};
    return "memory://cpp-" + std::to_string(getpid()) + "-" + std::to_string(number++);
}

inline quorlock::client some_client() { return quorlock::client({node()}); }

inline quorlock::lock_options short_lived() {
    quorlock::lock_options options;
    options.ttl = 200ms;
    options.renew = false;
    return options;
}

template <typename Call>
auto elsewhere(Call &&call) {
    return std::async(std::launch::async, std::forward<Call>(call)).get();
}

// Whether handles of this type move and do not copy.
template <typename Handle>
constexpr bool moves_only = std::is_nothrow_move_constructible_v<Handle> && std::is_nothrow_move_assignable_v<Handle> &&
                            !std::is_copy_constructible_v<Handle> && !std::is_copy_assignable_v<Handle>;

inline bool comes_to_wait(const quorlock::client &client, std::uint64_t count) {
    for (int left = 6000; left && client.stats().waiting != count; --left) std::this_thread::sleep_for(5ms);
    return client.stats().waiting == count;
}

// Whether a client with these options is refused with a message that has `part`.
inline bool refused(const quorlock::client_options &options, const char *part) {
    try {
        const quorlock::client client(options);
    } catch (const quorlock::invalid_argument &error) {
        return error.message().find(part) != std::string::npos;
    }
    return false;
}

#if defined(__cpp_lib_jthread)
// Waits on a token without polling it.
inline bool comes_to_stop(const std::stop_token &token) {
    std::promise<void> stopped;
    const std::stop_callback told(token, [&] { stopped.set_value(); });
    return stopped.get_future().wait_for(30s) == std::future_status::ready;
}
#endif

#endif
