// A program of somebody else, in C++.

#include <iostream>
#include <mutex>
#include <quorlock.hpp>

int main() try {
    const quorlock::client client;
    quorlock::mutex orders(client, "orders:42"), stock(client, "stock:42");
    const std::scoped_lock both(orders, stock);
    orders.ensure(std::chrono::seconds(1));
    if (!orders.is_held() || !stock.is_held()) return 1;
    std::cout << "held with quorlock " << quorlock_version() << std::endl;
} catch (const quorlock::error &error) {
    std::cerr << error.kind_name() << ": " << error.what() << std::endl;
    return 1;
}
