// A worker of the proof of several locks at once, as tests/names/README.md says:
// names-worker NODES HISTORY WORKER NAMES END WAIT together|unsorted.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <quorlock.hpp>
#include <random>
#include <sstream>
#include <system_error>

namespace {

using clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr int hold_us = 8000;
constexpr int rest_us = 4000;

std::minstd_rand random_bits(std::random_device{}());

std::int64_t now() { return std::chrono::duration_cast<nanoseconds>(clock::now().time_since_epoch()).count(); }

int below(int bound) { return std::uniform_int_distribution<int>(0, bound - 1)(random_bits); }

void nap_up_to(int micros) { std::this_thread::sleep_for(std::chrono::microseconds(below(micros))); }

std::vector<std::string> split(const std::string &text) {
    std::istringstream stream(text);
    std::vector<std::string> parts;
    for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
    return parts;
}

/// The history, all of whose lines are written as wholes.
class history {
public:
    history(const char *path, std::string worker) : worker_(std::move(worker)), file_(open(path, O_WRONLY | O_APPEND)) {
        if (file_ < 0) throw std::system_error(errno, std::generic_category(), path);
    }
    history(const history &) = delete;
    history &operator=(const history &) = delete;
    ~history() { close(file_); }

    template <typename... Words>
    void write(const char *kind, const Words &...words) const {
        std::ostringstream stream;
        stream << kind << " " << worker_;
        ((stream << " " << words), ...);
        const std::string line = stream.str() + "\n";
        if (::write(file_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) throw std::runtime_error("history");
    }

private:
    std::string worker_;
    int file_;
};

/// What is wanted together: two to four of the names, in any order.
struct want {
    explicit want(std::vector<std::string> all) : names(std::move(all)) {
        std::shuffle(names.begin(), names.end(), random_bits);
        names.resize(2 + static_cast<std::size_t>(below(3)));
        for (const std::string &name : names) list += (list.empty() ? "" : ",") + name;
        invoked = now();
    }

    std::vector<std::string> names;
    std::string list;
    std::int64_t invoked = 0;
};

class worker {
public:
    worker(const history &history, const quorlock::client &client, milliseconds wait)
        : history_(history), client_(client), wait_(wait) {}

    /// All by one call.
    void together(const want &want) const {
        std::optional<quorlock::leases> leases;
        try {
            leases = client_.lock_all(want.names).acquire(wait_);
        } catch (const quorlock::error &error) {
            return failed(want, error);
        }
        const std::int64_t acquired = now(), until = end_of(*leases, acquired);
        const auto fences = leases->fences();
        for (const auto &[name, fence] : fences) history_.write("take", name, want.invoked, acquired, until, fence);
        nap_up_to(hold_us);
        const std::int64_t given = now();
        for (const auto &one : fences) history_.write("give", one.first, given, until);
        if (!leases->release()) throw std::runtime_error("a lease was lost before its release");
    }

    /// One after the other, in the order in which they are wanted: what goes wrong.
    void unsorted(const want &want) const {
        std::vector<std::pair<quorlock::lease, std::int64_t>> held;
        try {
            for (const std::string &name : want.names) {
                quorlock::lease lease = client_.lock(name).acquire(wait_);
                const std::int64_t acquired = now(), until = end_of(lease, acquired);
                history_.write("take", name, want.invoked, acquired, until, lease.fence());
                held.emplace_back(std::move(lease), until);
            }
            nap_up_to(hold_us);
        } catch (const quorlock::error &error) {
            failed(want, error);
        }
        const std::int64_t given = now();
        for (std::size_t at = 0; at < held.size(); ++at) history_.write("give", want.names[at], given, held[at].second);
        for (const auto &one : held) one.first.release();
    }

private:
    void failed(const want &want, const quorlock::error &error) const {
        history_.write("fail", want.list, want.invoked, now(), wait_.count(), error.kind_name());
    }

    /// The clock was read before the leases are asked: the end may come out too early, never too late.
    template <typename Leases>
    static std::int64_t end_of(const Leases &leases, std::int64_t acquired) {
        return acquired + nanoseconds(leases.remaining()).count();
    }

    const history &history_;
    const quorlock::client &client_;
    milliseconds wait_;
};

void work(char **words) {
    const history history(words[2], words[3]);
    const std::vector<std::string> names = split(words[4]);
    const std::int64_t end = std::stoll(words[5]);
    quorlock::client_options options;
    options.nodes = split(words[1]);
    options.label = words[3];
    const quorlock::client client(options);
    const worker worker(history, client, milliseconds(std::stoll(words[6])));
    const bool at_once = words[7] == std::string("together");
    while (now() < end) {
        const want want(names);
        history.write("want", want.list, want.invoked);
        at_once ? worker.together(want) : worker.unsorted(want);
        nap_up_to(rest_us);
    }
    client.close();
}

}  // namespace

int main(int argc, char **argv) {
    if (argc != 8) {
        std::cerr << "usage: names-worker NODES HISTORY WORKER NAMES END WAIT together|unsorted\n";
        return 2;
    }
    try {
        work(argv);
    } catch (const std::exception &error) {
        std::cerr << error.what() << "\n";
        return 1;
    }
    return 0;
}
