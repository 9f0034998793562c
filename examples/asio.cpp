// Charges an order once, however many processes serve and however often a client asks: the line `7` over TCP, by coroutines of Asio.
//
// With Boost: #include <boost/asio.hpp>, and namespace asio = boost::asio.

#include <asio.hpp>
#include <asio/experimental/awaitable_operators.hpp>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <quorlock.hpp>

using namespace std::chrono_literals;
using namespace asio::experimental::awaitable_operators;
using asio::awaitable, asio::use_awaitable, asio::ip::tcp;
using won = quorlock::result<quorlock::lease>;

// Locks for the coroutines of one loop. No thread waits, however many of them do.
class locks {
public:
    explicit locks(asio::io_context &loop) : watched_(loop, queue_.descriptor()) { asio::co_spawn(loop, watch(), asio::detached); }
    ~locks() { watched_.release(); } // the descriptor is the queue's to close

    awaitable<won> acquire(std::string name) {
        return asio::async_initiate<const asio::use_awaitable_t<>, void(won)>(
            [this, name](auto handler) {
                // What cancels the coroutine ends the wait.
                auto slot = asio::get_associated_cancellation_slot(handler);
                auto told = [handler = std::move(handler)](won got) mutable {
                    auto executor = asio::get_associated_executor(handler);
                    asio::post(executor, [handler = std::move(handler), got = std::move(got)]() mutable { handler(std::move(got)); });
                };
                // The wait is shorter than clients wait for an answer.
                auto cancel = client_.lock(name, {.wait = 1s}).async_acquire(queue_, std::move(told));
                if (slot.is_connected()) slot.assign([cancel = std::move(cancel)](asio::cancellation_type) { cancel.cancel(); });
            },
            use_awaitable);
    }

private:
    awaitable<void> watch() {
        for (;;) {
            co_await watched_.async_wait(asio::posix::stream_descriptor::wait_read, use_awaitable);
            queue_.dispatch();
        }
    }

    quorlock::client client_; // one for the process
    quorlock::event_queue queue_;
    asio::posix::stream_descriptor watched_;
};

std::map<std::string, std::uint64_t> charged; // in place of a database: the fence of the hold that charged an order

awaitable<std::string> charge(std::string order, quorlock::lease lease) {
    auto found = charged.find(order);
    if (found == charged.end()) {
        std::cout << "charging order " << order << ", fence " << lease.fence() << std::endl;
        // The payment provider, with the order as its idempotency key.
        asio::steady_timer payment(co_await asio::this_coro::executor, 300ms);
        co_await payment.async_wait(use_awaitable);
        // UPDATE orders SET fence = $2 WHERE id = $1 AND fence <= $2
        found = charged.try_emplace(order, lease.fence()).first;
        if (found->second > lease.fence()) co_return "409 another request has the order\n";
        found->second = lease.fence();
    }
    co_return "200 fence " + std::to_string(found->second) + "\n";
}

// The text of an error names servers, so it is for the log, and clients are told their part of it.
awaitable<std::string> answer(std::string order, won got) {
    try {
        co_return co_await charge(order, std::move(got.value()));
    } catch (const quorlock::lock_timeout &) {
        co_return "409 another request has the order\n";
    } catch (const quorlock::error &error) {
        std::cerr << error.what() << std::endl;
        co_return "503 try again later\n";
    }
}

// Ends when the client hangs up, or says something before it has its answer.
awaitable<void> gone(tcp::socket &socket) {
    char said;
    std::error_code ignored;
    co_await socket.async_read_some(asio::buffer(&said, 1), asio::redirect_error(use_awaitable, ignored));
}

awaitable<void> serve(tcp::socket socket, locks &locks, std::weak_ptr<void> running) {
    for (std::string order;; order.clear()) {
        auto length = co_await asio::async_read_until(socket, asio::dynamic_buffer(order, 64), '\n', use_awaitable);
        order.resize(length - 1);
        auto at_work = running.lock();
        if (!at_work) co_return;
        auto waited = co_await (locks.acquire("order:" + order) || gone(socket));
        if (waited.index() == 1) co_return;
        // What has begun goes on when its client hangs up: a payment that stops half way would be made, and not written down.
        std::string text = co_await answer(order, std::get<0>(std::move(waited)));
        co_await asio::async_write(socket, asio::buffer(text), use_awaitable);
    }
}

awaitable<void> listen(tcp::acceptor &acceptor, locks &locks, std::weak_ptr<void> running) {
    for (;;) {
        tcp::socket socket = co_await acceptor.async_accept(use_awaitable);
        asio::co_spawn(acceptor.get_executor(), serve(std::move(socket), locks, running), asio::detached);
    }
}

int main() {
    asio::io_context loop;
    locks locks(loop);
    const char *port = std::getenv("PORT");
    tcp::acceptor acceptor(loop, {asio::ip::address_v4::loopback(), static_cast<unsigned short>(port ? std::atoi(port) : 3000)});
    std::cout << "tcp://127.0.0.1:" << acceptor.local_endpoint().port() << std::endl;
    // The loop ends when nobody has this any more: main has until SIGTERM, and each charge until it is over.
    std::shared_ptr<void> running(&loop, [](void *loop) { static_cast<asio::io_context *>(loop)->stop(); });
    asio::signal_set terminate(loop, SIGTERM);
    asio::co_spawn(loop, listen(acceptor, locks, running), asio::detached);
    terminate.async_wait([&](std::error_code, int) {
        acceptor.close();
        running.reset();
    });
    loop.run();
}
