// Counts up what is in a file while it holds the lock: count URL NAME FILE TIMES.
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <quorlock.hpp>

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    quorlock::client_options options;
    options.nodes = {{argv[1]}};
    options.layout = quorlock::layout::redisson;
    options.wait = std::chrono::minutes(1);
    const quorlock::client client(options);
    quorlock::mutex mutex(client, argv[2]);
    for (int i = 0; i < std::atoi(argv[4]); ++i) {
        const std::lock_guard<quorlock::mutex> guard(mutex);
        long count = 0;
        std::ifstream(argv[3]) >> count;
        std::ofstream(argv[3]) << count + 1 << "\n";
    }
}
