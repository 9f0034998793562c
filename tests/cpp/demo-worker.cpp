// A worker of the demo, as tests/demo/README.md says: demo-worker NODES LEDGER LOG SECONDS on|off.

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <quorlock.hpp>
#include <random>
#include <sstream>
#include <system_error>

namespace {

using clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

std::int64_t nanoseconds(clock::duration time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}

int opened(const char *path, int flags) {
    const int file = open(path, flags, 0600);
    if (file < 0) throw std::system_error(errno, std::generic_category(), path);
    return file;
}

void log_line(int file, const std::string &line) {
    if (write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size())) throw std::runtime_error("log");
}

/// What the lock is for: between the read and the write nobody else may write.
void add_one(int ledger) {
    char text[32] = {};
    if (pread(ledger, text, 20, 0) != 20) throw std::runtime_error("ledger");
    const long long balance = std::stoll(text);
    std::this_thread::sleep_for(1ms);
    std::snprintf(text, sizeof text, "%019lld\n", balance + 1);
    if (pwrite(ledger, text, 20, 0) != 20) throw std::runtime_error("ledger");
}

std::vector<std::string> split(const std::string &nodes) {
    std::istringstream stream(nodes);
    std::vector<std::string> urls;
    for (std::string url; std::getline(stream, url, ',');) urls.push_back(url);
    return urls;
}

/// With the fence of its lease, if it has one.
void one_round(int ledger, int log, clock::time_point asked, const std::string &fence) {
    const auto entered = clock::now();
    log_line(log, "enter " + std::to_string(nanoseconds(entered.time_since_epoch())) + " " +
                      std::to_string(nanoseconds(entered - asked)) + fence + "\n");
    add_one(ledger);
    log_line(log, "exit " + std::to_string(nanoseconds(clock::now().time_since_epoch())) + "\n");
}

int work(char **words) {
    const int ledger = opened(words[2], O_RDWR), log = opened(words[3], O_WRONLY | O_CREAT | O_APPEND);
    const auto end = clock::now() + std::chrono::duration_cast<clock::duration>(
                                        std::chrono::duration<double>(std::stod(words[4])));
    std::minstd_rand random(static_cast<unsigned>(nanoseconds(clock::now().time_since_epoch())));
    std::optional<quorlock::client> client;
    std::optional<quorlock::mutex> mutex;
    if (words[5] == std::string("on")) {
        client.emplace(split(words[1]));
        mutex.emplace(*client, "demo:ledger");
    }
    int status = 0;
    while (clock::now() < end) {
        const auto asked = clock::now();
        if (mutex) {
            const std::unique_lock hold(*mutex, 10s);
            if (!hold) throw std::runtime_error("the lock was not to be had");
            one_round(ledger, log, asked, " " + std::to_string(mutex->fence()));
            if (!mutex->is_held()) {
                std::cerr << "a lease was lost before its release\n";
                status = 1;
            }
        } else {
            one_round(ledger, log, asked, "");
        }
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 4000));
    }
    if (client) client->close();
    return status;
}

}  // namespace

int main(int argc, char **argv) {
    if (argc != 6) {
        std::cerr << "usage: demo-worker NODES LEDGER LOG SECONDS on|off\n";
        return 2;
    }
    try {
        return work(argv);
    } catch (const std::exception &error) {
        std::cerr << error.what() << "\n";
        return 1;
    }
}
