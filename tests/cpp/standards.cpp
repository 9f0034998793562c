// One program of two objects: of C++17, and of C++20, whose terms have a stop token. Both run the same work, so a function that
// both have made would be one for both.

#include <cstdio>
#include <quorlock.hpp>

void lead_as_17(const quorlock::election &election, void (*work)(quorlock::term &));

#if __cplusplus < 202002L

void lead_as_17(const quorlock::election &election, void (*work)(quorlock::term &)) { election.run(work); }

#else

#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>

namespace {

const quorlock::election *leader;
bool stopped;

/** Is resigned while it leads. */
void lead(quorlock::term &term) {
    std::mutex lock;
    std::condition_variable_any told;
    const std::stop_token stop = term.stop_token();
    if (!term.is_held() || !stop.stop_possible()) return;
    std::jthread resigns([] { leader->resign(); });
    std::unique_lock guard(lock);
    stopped = !told.wait_for(guard, stop, std::chrono::seconds(30), [] { return false; }) && stop.stop_requested();
}

/** Once a term has ended by itself or by a resignation, the next is not begun. */
void lead_once(quorlock::term &term) {
    static bool led;
    if (!led) lead(term);
    led = true;
}

void do_nothing(quorlock::term &) {}

}  // namespace

int main() {
    quorlock::client client({"memory://standards"});
    const quorlock::election election = client.election("standards");
    leader = &election;
    void (*work)(quorlock::term &) = lead_once;
    lead_as_17(election, do_nothing);
    election.run(work);
    std::puts(stopped ? "1 passed, 0 failed" : "0 passed, 1 failed");
}

#endif
