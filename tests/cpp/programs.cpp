// Programs that are drawn: threads with guards of every kind, leases that are handed on, threads that end, over few names and
// shared objects. Whatever is entered is counted in and out by hand, and judged:
//
// - never are more inside of a lock than may be, nor is a thread let in again by what refuses it, or refused by what lets it in;
// - a thread that is inside holds what it has entered, and leaving ends that and nothing else;
// - at the end nothing is held.
//
//     programs [--programs N] [--from SEED]
//
// They run on the node of QUORLOCK_NODES, else on nodes within the process. A lease that is lost, as where a client is closed in
// the middle, excuses its holder and no other. Ends with `N passed, M failed`; a program that failed is played again by its seed.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <quorlock.hpp>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

namespace {

/** Splitmix64. */
class chance {
public:
    explicit chance(std::uint64_t seed) : state_(seed) {}
    std::uint64_t next() {
        std::uint64_t z = (state_ += UINT64_C(0x9e3779b97f4a7c15));
        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        return z ^ (z >> 31);
    }
    std::size_t below(std::size_t limit) { return static_cast<std::size_t>(next() % limit); }
    bool once_in(std::size_t times) { return below(times) == 0; }

private:
    std::uint64_t state_;
};

constexpr std::size_t NAMES = 2, CLIENTS = 2, SLOTS = 2;

enum class mode { alone, shared, slot };

/** A hold that is inside. */
struct entry {
    std::size_t client;
    mode how;
    /** The thread that owns it; 0 of what is acquired by hand, which has no owner. */
    std::uint64_t thread;
};

/** What is inside of each lock, counted by hand. */
class judge {
public:
    using inside = std::list<entry>::iterator;

    /** Why it must not be; empty if it may. */
    std::string enter(std::size_t place, const entry &come, const std::array<std::atomic<bool>, CLIENTS> &excused, inside &at) {
        const std::lock_guard guard(lock_);
        std::size_t slots = 0;
        for (const entry &here : places_[place]) {
            if (excused[here.client] || excused[come.client]) continue;
            slots += here.how == mode::slot;
            const bool beside = here.how == come.how && come.how != mode::alone;
            const bool itself = come.thread && here.thread == come.thread && here.client == come.client;
            if (!beside && !itself) return "two are inside that exclude each other";
        }
        if (come.how == mode::slot && slots >= SLOTS) return "more have slots than there are";
        at = places_[place].insert(places_[place].end(), come);
        return {};
    }

    void leave(std::size_t place, inside at) {
        const std::lock_guard guard(lock_);
        places_[place].erase(at);
    }

private:
    std::mutex lock_;
    /* One for each name, and the semaphore. */
    std::array<std::list<entry>, NAMES + 1> places_;
};

/** A machine that stands still for a while is no fault of what is looked at. */
static quorlock::client_options patient(const std::string &node) {
    quorlock::client_options options;
    options.nodes = std::vector<std::string>{node};
    options.node_timeout = std::chrono::seconds(10);
    options.ttl = std::chrono::seconds(60);
    return options;
}

/** The objects of one client, shared by all threads. */
struct objects {
    quorlock::client client;
    std::vector<std::unique_ptr<quorlock::mutex>> plain, twin;
    std::vector<std::unique_ptr<quorlock::recursive_mutex>> recursive;
    std::vector<std::unique_ptr<quorlock::shared_mutex>> shared;
    std::unique_ptr<quorlock::multi_mutex> both;
    std::vector<quorlock::lock> by_hand;
    std::unique_ptr<quorlock::semaphore> slots;

    objects(const std::string &node, const std::vector<std::string> &names) : client(patient(node)) {
        for (std::size_t at = 0; at < NAMES; ++at) {
            plain.push_back(std::make_unique<quorlock::mutex>(client, names[at]));
            twin.push_back(std::make_unique<quorlock::mutex>(client, names[at]));
            recursive.push_back(std::make_unique<quorlock::recursive_mutex>(client, names[at]));
            shared.push_back(std::make_unique<quorlock::shared_mutex>(client, names[at]));
            by_hand.push_back(client.lock(names[at]));
        }
        both = std::make_unique<quorlock::multi_mutex>(client, std::vector<std::string>{names[0], names[1]});
        slots = std::make_unique<quorlock::semaphore>(client, names[NAMES], static_cast<std::int64_t>(SLOTS));
    }
};

/** A lease by hand that is on its way from one thread to another, and what counts it. */
struct parcel {
    quorlock::lease lease;
    std::size_t client, place;
    judge::inside inside;
};

class program;

/** What a thread has, for itself. */
struct self {
    program &of;
    chance random;
    std::uint64_t number = quorlock_thread_number();
    /** Which locks of which client it owns: how often it entered. */
    std::array<std::array<int, NAMES>, CLIENTS> owns{};
    /** Which of them it shares. */
    std::array<std::array<bool, NAMES>, CLIENTS> shares{};
    /** Whether what it owns is held, for each scope that is open. */
    std::vector<std::function<bool()>> held;
    int depth = 0;
    int slots = 0;

    self(program &of, std::uint64_t seed) : of(of), random(seed) {}
};

class program {
public:
    program(const std::string &node, std::uint64_t seed) : seed_(seed), random_(seed) {
        for (std::size_t at = 0; at <= NAMES; ++at) names_.push_back("p" + std::to_string(seed) + "-" + std::to_string(at));
        for (auto &each : objects_) each = std::make_unique<objects>(node, names_);
        rival_ = std::make_unique<quorlock::client>(patient(node));
    }

    std::string run() {
        const std::size_t threads = 1 + random_.below(3);
        std::vector<std::thread> running;
        for (std::size_t at = 0; at < threads; ++at)
            running.emplace_back([this, seed = random_.next()] { thread(seed); });
        for (std::thread &each : running) each.join();
        {
            const std::lock_guard guard(parcels_lock_);
            for (parcel &left : parcels_) taken_in(left);
            parcels_.clear();
        }
        ended();
        return wrong_;
    }

private:
    void thread(std::uint64_t seed) {
        self me(*this, seed);
        statements(me);
        check(me.slots == 0, "a slot is left");
    }

    void statements(self &me) {
        ++me.depth;
        for (std::size_t left = 1 + me.random.below(3); left && !failed(); --left) statement(me);
        --me.depth;
    }

    void statement(self &me) {
        const std::size_t client = me.random.below(CLIENTS), place = me.random.below(NAMES);
        if (me.depth > 4) return;
        switch (me.random.below(13)) {
        case 0:
        case 1: return alone(me, client, place, *objects_[client]->plain[place], false);
        case 2: return alone(me, client, place, *objects_[client]->twin[place], false);
        case 3:
        case 4: return alone(me, client, place, *objects_[client]->recursive[place], true);
        case 5: return alone(me, client, place, *objects_[client]->shared[place], false);
        case 6: return sharing(me, client, place);
        case 7: return all(me, client);
        case 8: return slot(me, client);
        case 9: return hand(me, client, place);
        case 10: return other_thread(me);
        case 11: return ends_with_it(me, client, place);
        default:
            if (me.random.once_in(8)) return close(me, client);
            return take_parcel(me);
        }
    }

    /** Tries to enter, in a way that is drawn. What it throws is thrown. */
    template <typename Mutex>
    bool enter(self &me, Mutex &mutex) {
        switch (me.random.below(3)) {
        case 0: return mutex.try_lock();
        case 1: return mutex.try_lock_for(std::chrono::milliseconds(me.random.below(3)));
        default: return mutex.try_lock_until(std::chrono::steady_clock::now() + 1ms);
        }
    }

    /** Whether a call let it in, where the thread has `owned` of the lock and may or may not enter again. */
    template <typename Enter>
    bool let_in(self &, std::size_t client, bool owned, bool recursive, Enter &&enter) {
        try {
            const bool in = enter();
            if (gone_[client]) return in;
            if (owned && !recursive) check(false, in ? "let in again by a mutex" : "a thread waited for itself");
            if (owned && recursive) check(in, "not let in again");
            return in;
        } catch (const quorlock::would_deadlock &) {
            check(owned && !recursive, "refused for nothing");
        } catch (const quorlock::client_closed &) {
            check(gone_[client], "closed by nobody");
        } catch (const quorlock::lock_lost &) {
            check(gone_[client], "lost by nobody");
        } catch (const quorlock::error &error) {
            check(gone_[client], error.what());
        }
        return false;
    }

    /** The body of a scope: counted, looked at, and left by returning or by throwing. */
    void body(self &me, std::size_t client, const std::vector<std::size_t> &places, mode how, std::uint64_t thread,
              const std::function<bool()> &held) {
        std::vector<judge::inside> inside;
        for (const std::size_t place : places) {
            judge::inside at;
            const std::string why = judge_.enter(place, {client, how, thread}, gone_, at);
            check(why.empty(), why.c_str());
            if (why.empty()) inside.push_back(at);
            if (thread && place < NAMES) ++me.owns[client][place];
        }
        check(held() || gone_[client], "inside of what is not held");
        me.held.push_back([this, held, client] { return held() || gone_[client]; });
        statements(me);
        me.held.pop_back();
        for (std::size_t at = 0; at < inside.size(); ++at) judge_.leave(places[at], inside[at]);
        for (const std::size_t place : places)
            if (thread && place < NAMES) --me.owns[client][place];
    }

    /** What is still open of a thread has to be held when an inner scope was left. */
    void still_held(self &me) {
        for (const auto &held : me.held) check(held(), "left together with an inner scope");
    }

    template <typename Mutex>
    void alone(self &me, std::size_t client, std::size_t place, Mutex &mutex, bool recursive) {
        const bool owned = me.owns[client][place] > 0;
        /* A reader is not let in alone, by no mutex. */
        recursive = recursive && !me.shares[client][place];
        std::unique_lock<Mutex> guard(mutex, std::defer_lock);
        if (!let_in(me, client, owned, recursive, [&] { return enter(me, guard); })) return still_held(me);
        try {
            body(me, client, {place}, mode::alone, me.number, [&] { return mutex.is_held(); });
            if (me.random.once_in(4)) throw me.depth;
            if (me.random.once_in(4)) {
                /* By a guard that it was moved to. */
                std::unique_lock<Mutex> moved(std::move(guard));
                moved.unlock();
            }
        } catch (int) {
        }
        if (guard.owns_lock()) guard.unlock();
        if (!owned) check(!mutex.is_held(), "held beyond its scope");
        still_held(me);
    }

    void sharing(self &me, std::size_t client, std::size_t place) {
        quorlock::shared_mutex &mutex = *objects_[client]->shared[place];
        const bool owned = me.owns[client][place] > 0;
        if (!let_in(me, client, owned, false, [&] { return mutex.try_lock_shared_for(1ms); })) return still_held(me);
        const std::shared_lock guard(mutex, std::adopt_lock);
        me.shares[client][place] = true;
        body(me, client, {place}, mode::shared, me.number, [&] { return mutex.is_held() && mutex.is_held_shared(); });
        me.shares[client][place] = false;
    }

    void all(self &me, std::size_t client) {
        quorlock::multi_mutex &mutex = *objects_[client]->both;
        const bool owned = me.owns[client][0] > 0 || me.owns[client][1] > 0;
        if (!let_in(me, client, owned, false, [&] { return enter(me, mutex); })) return still_held(me);
        {
            const std::scoped_lock guard(std::adopt_lock, mutex);
            body(me, client, {0, 1}, mode::alone, me.number, [&] { return mutex.is_held(); });
        }
        check(!mutex.is_held(), "held beyond its scope");
        still_held(me);
    }

    void slot(self &me, std::size_t client) {
        quorlock::semaphore &slots = *objects_[client]->slots;
        if (me.random.once_in(2)) {
            if (!let_in(me, client, false, false, [&] { return slots.try_acquire_for(1ms); })) return;
            ++me.slots;
            body(me, client, {NAMES}, mode::slot, 0, [&] { return slots.held() > 0; });
            slots.release();
            --me.slots;
        } else {
            std::optional<quorlock::lease> held;
            if (!let_in(me, client, false, false, [&] { return held = hand_slot(client), held.has_value(); })) return;
            body(me, client, {NAMES}, mode::slot, 0, [&] { return held->is_held(); });
        }
        still_held(me);
    }

    std::optional<quorlock::lease> hand_slot(std::size_t client) {
        return objects_[client]->client.lock(names_[NAMES], of_slots()).try_acquire();
    }

    static quorlock::lock_options of_slots() {
        quorlock::lock_options options;
        options.slots = SLOTS;
        return options;
    }

    /** By hand: in a scope, or handed on. */
    void hand(self &me, std::size_t client, std::size_t place) {
        std::optional<quorlock::lease> held;
        const quorlock::lock &lock = objects_[client]->by_hand[place];
        if (!let_in(me, client, false, false, [&] { return held = lock.try_acquire(), held.has_value(); })) return;
        if (me.random.once_in(2)) {
            body(me, client, {place}, mode::alone, 0, [&] { return held->is_held(); });
            return still_held(me);
        }
        parcel sent{std::move(*held), client, place, {}};
        const std::string why = judge_.enter(place, {client, mode::alone, 0}, gone_, sent.inside);
        check(why.empty(), why.c_str());
        if (!why.empty()) return;
        const std::lock_guard guard(parcels_lock_);
        parcels_.push_back(std::move(sent));
    }

    void taken_in(parcel &got) {
        check(got.lease.is_held() || gone_[got.client], "lost with its thread");
        judge_.leave(got.place, got.inside);
        const bool was_held = got.lease.release();
        check(was_held || gone_[got.client], "released by somebody else");
    }

    void take_parcel(self &me) {
        std::optional<parcel> got;
        {
            const std::lock_guard guard(parcels_lock_);
            if (parcels_.empty()) return;
            got = std::move(parcels_.back());
            parcels_.pop_back();
        }
        taken_in(*got);
        still_held(me);
    }

    /** Another thread, which owns nothing of what this one does, and is gone afterwards. */
    void other_thread(self &me) {
        std::async(std::launch::async, [this, seed = me.random.next(), depth = me.depth] {
            self other(*this, seed);
            other.depth = depth;
            statements(other);
        }).get();
        still_held(me);
    }

    /** A thread ends and has not unlocked: no other thread, whatever its id, is taken for it, until the mutex is gone. */
    void ends_with_it(self &me, std::size_t client, std::size_t place) {
        auto mutex = std::make_unique<quorlock::mutex>(objects_[client]->client, names_[place]);
        std::optional<judge::inside> inside;
        std::thread([&] {
            self other(*this, me.random.next());
            if (!let_in(other, client, false, false, [&] { return mutex->try_lock(); })) return;
            judge::inside at;
            const std::string why = judge_.enter(place, {client, mode::alone, other.number}, gone_, at);
            check(why.empty(), why.c_str());
            if (why.empty()) inside = at;
        }).join();
        for (int more = 0; inside && more < 2; ++more) {
            std::thread([&] {
                check(!mutex->is_held(), "a stranger is taken for a thread that has ended");
                mutex->unlock();
                const bool free = rival_->lock(names_[place]).try_acquire().has_value();
                /* Looked at last: the client may be closed meanwhile. */
                check(!free || gone_[client], "a stranger has unlocked");
            }).join();
        }
        if (inside) judge_.leave(place, *inside);
        mutex.reset();
        still_held(me);
    }

    void close(self &, std::size_t client) {
        gone_[client] = true;
        objects_[client]->client.close();
    }

    void ended() {
        if (failed()) return;
        for (auto &each : objects_) check(each->slots->held() == 0, "a slot is left");
        try {
            for (const std::string &name : {names_[0], names_[1]}) check(rival_->lock(name).acquire(5s).is_held(), "not held");
            const quorlock::lock slots = rival_->lock(names_[NAMES], of_slots());
            const quorlock::lease one = slots.acquire(5s), other = slots.acquire(5s);
            check(one.is_held() && other.is_held(), "not held");
        } catch (const quorlock::lock_busy &) {
            check(false, "a key is left");
        }
    }

    void check(bool holds, const char *why) {
        /* A machine that stands still loses leases: then nothing is known of this program. */
        if (holds || lost_any()) return;
        const std::lock_guard guard(wrong_lock_);
        if (wrong_.empty()) wrong_ = why;
    }

    bool lost_any() const {
        return std::any_of(objects_.begin(), objects_.end(), [&](const auto &each) {
            const std::size_t at = static_cast<std::size_t>(&each - objects_.data());
            return !gone_[at] && each->client.stats().lost > 0;
        });
    }

    bool failed() {
        const std::lock_guard guard(wrong_lock_);
        return !wrong_.empty();
    }

    std::uint64_t seed_;
    chance random_;
    std::vector<std::string> names_;
    std::array<std::unique_ptr<objects>, CLIENTS> objects_;
    std::unique_ptr<quorlock::client> rival_;
    judge judge_;
    std::array<std::atomic<bool>, CLIENTS> gone_{};
    std::mutex parcels_lock_, wrong_lock_;
    std::vector<parcel> parcels_;
    std::string wrong_;
};

}  // namespace

int main(int argc, char **argv) {
    std::uint64_t programs = 1000, from = 0;
    for (int at = 1; at < argc; ++at) {
        const std::string word = argv[at];
        const char *value = at + 1 < argc ? argv[at + 1] : "";
        if (word == "--programs") programs = std::strtoull(value, nullptr, 10), ++at;
        else if (word == "--from") from = std::strtoull(value, nullptr, 10), ++at;
        else return std::fprintf(stderr, "programs [--programs N] [--from SEED]\n"), 2;
    }
    /* What was found stands there, whatever comes of the rest. */
    std::setvbuf(stdout, nullptr, _IONBF, 0);
    const char *const node = std::getenv("QUORLOCK_NODES");
    std::atomic<std::uint64_t> next{from}, failed{0};
    const auto play = [&] {
        for (std::uint64_t seed; failed < 10 && (seed = next++) < from + programs;) {
            const std::string where = node ? node : "memory://programs-" + std::to_string(seed);
            const std::string wrong = program(where, seed).run();
            if (wrong.empty()) continue;
            std::printf("FAIL seed %llu: %s\n", static_cast<unsigned long long>(seed), wrong.c_str());
            ++failed;
        }
    };
    /* Most of a program's time is waiting. */
    std::vector<std::thread> players;
    for (int at = 0; at < 8; ++at) players.emplace_back(play);
    for (std::thread &each : players) each.join();
    std::printf("%llu passed, %llu failed\n", static_cast<unsigned long long>(programs - failed.load()),
                static_cast<unsigned long long>(failed.load()));
    return failed != 0;
}
