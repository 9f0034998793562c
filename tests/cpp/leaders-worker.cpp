// A candidate of the runs with leaders, as tests/leaders/README.md says.

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <quorlock.hpp>
#include <sstream>
#include <system_error>
#include <thread>

namespace {

using milliseconds = std::chrono::milliseconds;

/// CLOCK_MONOTONIC.
std::int64_t now() {
    return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::int64_t nanoseconds(milliseconds time) { return std::chrono::nanoseconds(time).count(); }

std::string setting(const std::string &name) {
    const char *found = std::getenv(name.c_str());
    if (!found) throw std::runtime_error(name + " is not set");
    return found;
}

milliseconds millis(const std::string &name) { return milliseconds(std::stoll(setting("LEADERS_" + name))); }

class worker {
public:
    void lead() {
        quorlock::client_options options;
        std::istringstream stream(setting("QUORLOCK_NODES"));
        std::vector<std::string> &nodes = options.nodes.emplace();
        for (std::string url; std::getline(stream, url, ',');) nodes.push_back(url);
        options.label = name_;
        options.ttl = millis("TTL");
        const quorlock::client client(options);
        quorlock::run_options run;
        run.again = true;
        run.on_lost = [&](quorlock::lease_state state) { note("lost", " " + std::to_string(static_cast<int>(state))); };
        run.on_stopped = [&] { note("stopped", ""); };
        client.election(setting("LEADERS_ELECTION")).run([&](quorlock::term &term) { work(term); }, run);
    }

private:
    void write(const std::string &line) const {
        if (::write(history_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
            throw std::system_error(errno, std::generic_category(), "the history");
        }
    }

    void note(const std::string &kind, const std::string &rest) const {
        write(kind + " " + name_ + " " + std::to_string(fence_) + rest + " " + std::to_string(now()) + "\n");
    }

    /// Looks at the term and writes how it is. Returns whether to go on.
    bool look(const char *kind, const quorlock::term &term, std::int64_t end) const {
        // The clock is read before the term is asked: what it says is true of then, too.
        const std::int64_t at = now();
        const bool careless = careless_.count() > 0, held = careless || term.is_held();
        const std::int64_t until = at + nanoseconds(term.remaining());
        std::ostringstream line;
        line << kind << ' ' << name_ << ' ' << term.fence() << ' ' << held << ' ' << at << ' ' << until << '\n';
        write(line.str());
        return careless ? at < end : held;
    }

    void work(const quorlock::term &term) {
        const std::int64_t end = now() + nanoseconds(careless_);
        fence_ = term.fence();
        look("begin", term, end);
        while (look("step", term, end)) std::this_thread::sleep_for(step_);
        note("ended", "");
    }

    const std::string name_ = setting("LEADERS_NAME");
    const int history_ = open(setting("LEADERS_HISTORY").c_str(), O_WRONLY | O_APPEND);
    const milliseconds step_ = millis("STEP");
    /// How long the work goes on without a look at its term; zero: it looks.
    const milliseconds careless_ = millis("CARELESS");
    /// Of the term that the work is of; the loss is told on another thread.
    std::atomic<std::uint64_t> fence_{0};
};

}  // namespace

int main() {
    try {
        worker().lead();
    } catch (const std::exception &error) {
        std::cerr << error.what() << "\n";
        return 1;
    }
    return 0;
}
