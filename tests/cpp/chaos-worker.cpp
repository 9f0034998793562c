// A worker of the chaos runs, in C++ over C, as tests/chaos/README.md says.

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iostream>
#include <map>
#include <quorlock.hpp>
#include <random>
#include <sstream>
#include <system_error>
#include <thread>

namespace {

using std::chrono::milliseconds;
using words = std::vector<std::string>;

constexpr milliseconds slice(20), max_rest(4);
/// The end of what needs no lock is later than that of any run.
constexpr std::chrono::hours unlocked_for(1);

/// CLOCK_MONOTONIC.
std::int64_t now() { return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::int64_t nanoseconds(milliseconds time) { return std::chrono::nanoseconds(time).count(); }

void nap(std::int64_t time) { std::this_thread::sleep_for(std::chrono::nanoseconds(time)); }

std::string setting(const std::string &name) {
    const char *found = std::getenv(("CHAOS_" + name).c_str());
    if (!found) throw std::runtime_error(name + " is not set");
    return found;
}

std::int64_t number(const std::string &name) { return std::stoll(setting(name)); }

milliseconds millis(const std::string &name) { return milliseconds(number(name)); }

words split(const std::string &text, char at) {
    std::istringstream stream(text);
    words parts;
    for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
    return parts;
}

std::string joined(const words &names) {
    std::string text;
    for (const std::string &name : names) text += (text.empty() ? "" : ",") + name;
    return text;
}

std::mt19937 random_bits(std::random_device{}());

std::int64_t below(std::int64_t bound) { return std::uniform_int_distribution<std::int64_t>(0, bound - 1)(random_bits); }

std::int64_t up_to(milliseconds most) { return below(nanoseconds(most) + 1); }

/// Writes these words to a file as one line, by one write.
template <typename... Words>
void write_line(int file, const Words &...line) {
    std::ostringstream stream;
    ((stream << line << ' '), ...);
    std::string text = stream.str();
    text.back() = '\n';
    if (::write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
        throw std::system_error(errno, std::generic_category(), "write");
    }
}

/// What the history knows of one lease, of one of several, or of what needs none.
struct hold {
    std::string name;
    std::function<milliseconds()> left;
    std::int64_t invoked, acquired, until;
    std::uint64_t fence;
    bool shared = false;
    std::string value{};

    void look(std::int64_t at) {
        // The clock was read before the lease is asked: the end may come out too early, never too late.
        const milliseconds more = left();
        if (more.count() > 0) until = std::max(until, at + nanoseconds(more));
    }
};

class worker {
public:
    worker() {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        const std::string path = setting("RESOURCE");
        path.copy(address.sun_path, sizeof address.sun_path - 1);
        if (history_ < 0 || connect(resource_, reinterpret_cast<sockaddr *>(&address), sizeof address)) {
            throw std::system_error(errno, std::generic_category(), path);
        }
    }

    void work() {
        std::vector<words> works;
        for (const std::string &text : split(setting("WORK"), ' ')) works.push_back(split(text, ':'));
        for (const std::int64_t end = number("END"); now() < end; nap(up_to(max_rest))) {
            if (hand_ > 0) adopt();
            const words &drawn = works[static_cast<std::size_t>(below(static_cast<std::int64_t>(works.size())))];
            (this->*workloads.at(drawn.front()))(words(drawn.begin() + 1, drawn.end()));
        }
        client_.close();
    }

private:
    using workload = void (worker::*)(const words &);
    static const std::map<std::string, workload> workloads;

    template <typename... Words>
    void write(const char *kind, const Words &...line) const {
        write_line(history_, kind, name_, line...);
    }

    /// The answer of what the locks protect.
    template <typename... Words>
    std::string ask(const Words &...line) {
        write_line(resource_, line...);
        std::string answer;
        for (char next = 0; next != '\n'; answer += next) {
            if (read(resource_, &next, 1) != 1) throw std::runtime_error("the resource is gone");
        }
        answer.pop_back();
        return answer;
    }

    void failed(const std::string &names, std::int64_t invoked, const quorlock::error &error, milliseconds wait,
                const std::string &prefix = "") const {
        write("fail", names, invoked, now(), wait.count(), prefix + error.kind_name());
    }

    hold taken(std::string name, std::function<milliseconds()> left, std::int64_t invoked, std::int64_t acquired, std::uint64_t fence,
               bool shared = false) const {
        hold made{std::move(name), std::move(left), invoked, acquired, acquired, fence, shared};
        made.look(acquired);
        write(shared ? "share" : "take", made.name, invoked, acquired, made.until, fence);
        return made;
    }

    hold taken(const std::string &name, const quorlock::lease &lease, std::int64_t invoked) const {
        const std::string slot = lease.slot() < 0 ? "" : "." + std::to_string(lease.slot());
        return taken(name + slot, [&lease] { return lease.remaining(); }, invoked, now(), lease.fence(), lease.is_shared());
    }

    /// Reads what the locks protect, holds them for a while, and writes it.
    void inside(std::vector<hold> &holds) {
        for (hold &held : holds) held.value = ask(held.shared ? "look" : "read", held.name, held.fence);
        const bool is_long = long_ > 0 && below(long_) == 0;
        const std::int64_t over = now() + (is_long ? nanoseconds(ttl_) + up_to(ttl_) : up_to(hold_));
        for (std::int64_t left = over - now(); left > 0; left = over - now()) {
            nap(std::min(left, nanoseconds(slice)));
            for (hold &held : holds) held.look(now());
        }
        // Held or not: a pause may come after any look, so it is the resource that must refuse.
        for (const hold &held : holds) {
            if (held.value != "stale" && !held.shared) ask("write", held.name, held.fence, std::stoll(held.value) + 1);
        }
    }

    void give(const std::vector<hold> &holds) const {
        // Written before the release: a worker that is killed while nodes have yet to answer has given the lock back.
        const std::int64_t at = now();
        for (const hold &held : holds) write("give", held.name, at, held.until);
    }

    template <typename Lease>
    bool released(const Lease &lease) const {
        const bool held = lease.release();
        if (steady_ && !held) throw std::runtime_error("a lease was lost before its release");
        return held;
    }

    /// What an acquire gives; nothing if it fails, which the history then says.
    template <typename Lock>
    auto won(const Lock &lock, const std::string &names, std::int64_t invoked, milliseconds wait) const
        -> std::optional<decltype(lock.acquire())> {
        try {
            return lock.acquire(wait);
        } catch (const quorlock::error &error) {
            failed(names, invoked, error, wait);
            return std::nullopt;
        }
    }

    /// One lease of a lock. Returns its hold if the release says that it was held until then.
    std::optional<hold> one(const std::string &name, const quorlock::lock_options &options, milliseconds wait, std::int64_t hand) {
        const quorlock::lock lock = client_.lock(name, options);
        const std::int64_t invoked = now();
        const std::optional<quorlock::lease> lease = won(lock, name, invoked, wait);
        if (!lease) return std::nullopt;
        std::vector<hold> holds{taken(name, *lease, invoked)};
        inside(holds);
        give(holds);
        if (hand > 0 && below(hand) == 0 && handed(holds.front(), *lease)) return std::nullopt;
        return released(*lease) ? std::optional<hold>(holds.front()) : std::nullopt;
    }

    /// Whether the lease is another worker's to go on with; else it is held as before, or lost.
    bool handed(const hold &held, const quorlock::lease &lease) {
        write("hand", held.name, now());
        std::string text;
        try {
            text = lease.export_text();
        } catch (const quorlock::error &) {
            return false;
        }
        ask("hand", held.name, held.fence, text);
        return true;
    }

    /// Goes on with a lease that a worker has exported, if one has.
    void adopt() {
        const words told = split(ask("next - 0"), ' ');
        if (told.size() != 3) return;
        const std::int64_t invoked = now();
        try {
            const quorlock::lease lease = client_.adopt(told[2]);
            // The name is that of the history, with its slot.
            std::vector<hold> holds{taken(told[1], [&] { return lease.remaining(); }, invoked, now(), lease.fence())};
            write("adopted", told[1], told[0]);
            inside(holds);
            give(holds);
            lease.release();
        } catch (const quorlock::error &error) {
            failed(told[1], invoked, error, milliseconds(0), "adopt:");
        }
    }

    /// Two to four of them, in any order.
    static words some_of(words names) {
        std::shuffle(names.begin(), names.end(), random_bits);
        names.resize(static_cast<std::size_t>(2 + below(std::min<std::int64_t>(4, static_cast<std::int64_t>(names.size())) - 1)));
        return names;
    }

    // ---- the workloads, each by its name ----

    void lock(const words &given) { one(given[0], {}, wait_, hand_); }

    void shared(const words &given) {
        quorlock::lock_options options;
        options.shared = below(4) > 0;
        one(given[0], options, wait_, 0);
    }

    void slots(const words &given) {
        quorlock::lock_options options;
        options.slots = std::stoi(given[1]);
        one(given[0], options, wait_, hand_);
    }

    void keep(const words &given) {
        quorlock::lock_options options;
        options.keep = milliseconds(std::stoll(given[1]));
        const std::optional<hold> held = one(given[0], options, milliseconds(0), 0);
        if (held) write("keep", given[0], held->acquired, held->invoked + nanoseconds(*options.keep));
    }

    void several(const words &given) {
        const words some = some_of(given);
        const std::int64_t invoked = now();
        write("want", joined(some), invoked);
        const std::optional<quorlock::leases> leases = won(client_.lock_all(some), joined(some), invoked, wait_);
        if (!leases) return;
        const std::int64_t acquired = now();
        std::vector<hold> holds;
        for (const auto &[name, fence] : leases->fences()) {
            holds.push_back(taken(name, [&] { return leases->remaining(); }, invoked, acquired, fence));
        }
        inside(holds);
        give(holds);
        released(*leases);
    }

    /// One by one, in the order in which they are wanted, which goes wrong.
    void unsorted(const words &given) {
        const words some = some_of(given);
        const std::int64_t invoked = now();
        write("want", joined(some), invoked);
        std::vector<std::optional<quorlock::lease>> leases;
        leases.reserve(some.size());
        std::vector<hold> holds;
        for (const std::string &name : some) {
            leases.push_back(won(client_.lock(name), joined(some), invoked, wait_));
            if (!leases.back()) break;
            holds.push_back(taken(name, *leases.back(), invoked));
        }
        if (holds.size() == some.size()) inside(holds);
        give(holds);
        for (const auto &lease : leases) {
            if (lease) lease->release();
        }
    }

    /// Without the lock, which goes wrong.
    void unlocked(const words &given) {
        const std::int64_t at = now();
        std::vector<hold> holds{taken(given[0], [] { return unlocked_for; }, at, at, 0)};
        inside(holds);
        give(holds);
    }

    /// Runs for it until the process is killed.
    void election(const words &given) {
        // Of the term that is last; the loss is told on another thread.
        std::atomic<std::uint64_t> fence{0};
        quorlock::run_options run;
        run.again = true;
        run.on_lost = [&](quorlock::lease_state state) { write("lost", fence.load(), static_cast<int>(state), now()); };
        run.on_stopped = [&] { write("stopped", fence.load(), now()); };
        client_.election(given[0]).run(
            [&](quorlock::term &term) {
                fence = term.fence();
                const std::int64_t over = now() + nanoseconds(careless_);
                look("leads", term, over);
                while (look("acts", term, over)) std::this_thread::sleep_for(step_);
                write("ended", term.fence(), now());
            },
            run);
    }

    /// Looks at the term and writes how it is. Returns whether to go on.
    bool look(const char *kind, const quorlock::term &term, std::int64_t over) const {
        // The clock is read before the term is asked: what it says is true of then, too.
        const std::int64_t at = now();
        const bool careless = careless_.count() > 0, held = careless || term.is_held();
        write(kind, term.fence(), held, at, at + nanoseconds(term.remaining()));
        return careless ? at < over : held;
    }

    static quorlock::client_options options() {
        quorlock::client_options found;
        found.label = setting("NAME");
        found.ttl = millis("TTL");
        found.wait = millis("WAIT");
        return found;
    }

    const std::string name_ = setting("NAME");
    const int history_ = open(setting("HISTORY").c_str(), O_WRONLY | O_APPEND), resource_ = socket(AF_UNIX, SOCK_STREAM, 0);
    const milliseconds ttl_ = millis("TTL"), wait_ = millis("WAIT"), hold_ = millis("HOLD"), step_ = millis("STEP"),
                       careless_ = millis("CARELESS");
    const std::int64_t hand_ = number("HAND"), long_ = number("LONG");
    const bool steady_ = number("STEADY") != 0;
    const quorlock::client client_{options()};
};

const std::map<std::string, worker::workload> worker::workloads{
    {"lock", &worker::lock},         {"shared", &worker::shared},     {"slots", &worker::slots},       {"keep", &worker::keep},
    {"several", &worker::several},   {"unsorted", &worker::unsorted}, {"unlocked", &worker::unlocked}, {"election", &worker::election},
};

}  // namespace

int main() {
    try {
        worker().work();
    } catch (const std::exception &error) {
        std::cerr << error.what() << "\n";
        return 1;
    }
    return 0;
}
