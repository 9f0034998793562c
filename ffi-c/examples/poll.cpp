// One thread, one poll(), and as many locks as there are words on the command line: all are waited for at once, each is held
// for the work and released, and no call waits.
//
//     c++ -std=c++17 poll.cpp $(pkg-config --cflags --libs quorlock) -o poll && ./poll orders:1 orders:2

#include <poll.h>

#include <iostream>
#include <quorlock.hpp>

int main(int argc, char **argv) try {
    const quorlock::client client;
    const quorlock::event_queue queue;
    int left = argc - 1, failed = 0;
    for (int at = 1; at < argc; ++at) {
        const std::string name = argv[at];
        client.lock(name).async_acquire(queue, [&, name](quorlock::result<quorlock::lease> won) {
            if (!won.has_value()) {
                std::cerr << name << ": " << won.error().what() << std::endl;
                ++failed, --left;
                return;
            }
            const quorlock::lease &lease = won.value();
            std::cout << name << ": held, fence " << lease.fence() << std::endl;
            // The work would go here, or on: a lease that is kept is renewed, and on_lost(queue, …) tells of its loss.
            lease.async_release(queue, [&, name](quorlock::result<bool> was_held) {
                std::cout << name << (was_held.value() ? ": released" : ": was lost") << std::endl;
                --left;
            });
        });
    }
    pollfd watched{queue.descriptor(), POLLIN, 0};
    while (left > 0)
        if (poll(&watched, 1, -1) == 1) queue.dispatch();
    return failed ? 1 : 0;
} catch (const std::exception &error) {
    std::cerr << error.what() << std::endl;
    return 1;
}
