// Runs one scenario file (tests/scenarios/README.md) against real servers.

#include <sys/wait.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <future>
#include <iostream>
#include <iterator>
#include <map>
#include <sstream>
#include <variant>

#include "scenario/scenario.hpp"

using namespace std::string_literals;

namespace {

// ---- actors: threads that carry out one job after the other ----

class actor {
public:
    using job = std::packaged_task<answer()>;

    actor() : thread_([this] { live(); }) {}
    ~actor() {
        post(job());
        thread_.join();
    }

    void start(std::function<answer()> work) {
        job made(std::move(work));
        pending_ = made.get_future();
        post(std::move(made));
    }

    /// The answer of what was started; `pending` after so long.
    answer finish(milliseconds most) {
        if (pending_.wait_for(most) != std::future_status::ready) return {"pending", {}};
        return pending_.get();
    }

    answer perform(std::function<answer()> work) {
        start(std::move(work));
        return pending_.get();
    }

    std::shared_ptr<quorlock::cancel_token> cancel;

private:
    void post(job made) {
        const std::lock_guard<std::mutex> guard(mutex_);
        job_ = std::move(made);
        posted_ = true;
        changed_.notify_one();
    }

    void live() {
        for (;;) {
            std::unique_lock<std::mutex> guard(mutex_);
            changed_.wait(guard, [this] { return posted_; });
            job work = std::move(job_);
            posted_ = false;
            guard.unlock();
            if (!work.valid()) return;
            work();
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    job job_;
    bool posted_ = false;
    std::future<answer> pending_;
    std::thread thread_;
};

/// A lease, or leases that were won together.
using held = std::variant<quorlock::lease, quorlock::leases>;

/// A lock, or several that are taken together, or a candidate; made anew where it is used if making it has failed: for its error.
struct lock {
    using asked = std::variant<quorlock::lock, quorlock::locks, quorlock::election>;

    const quorlock::client *client;
    std::vector<std::string> names;
    enum { one, several, election } kind;
    quorlock::lock_options options;
    std::optional<asked> made;

    asked make() const {
        if (kind == several) return client->lock_all(names, options);
        if (kind == election) return client->election(names.at(0), options);
        return client->lock(names.at(0), options);
    }

    /// Calls `use` with the lock or the locks.
    template <typename Use>
    auto use(Use &&use) const {
        if (made) return std::visit(use, *made);
        const asked anew = make();
        return std::visit(use, anew);
    }

    /// Calls `use` with the lock, for what there is of one alone.
    template <typename Use>
    auto use_one(Use &&use) const {
        if (made) return use(std::get<quorlock::lock>(*made));
        return use(client->lock(names.at(0), options));
    }
};

struct line {
    words said;
    options given;
    std::string actor = "main", expected = "ok";
    bool started = false;
};

class runner {
public:
    ~runner() {
        for (const auto &name : order_) clients_.at(name).close();
        actors_.clear();
        leases_.clear();
        locks_.clear();
        clients_.clear();
        // For the leak checkers: nothing of ours runs on.
        quorlock::shutdown();
    }

    void run(const std::string &text) {
        line line = parsed(text);
        const std::string &verb = line.said[0];
        if (verb == "client") judge(client(line), line);
        else if (verb == "lock" || verb == "locks" || verb == "election") make_lock(line);
        else if (verb == "leader") judge(leader(line), line);
        else if (verb == "resign") judge(answer_of([&] { return said(candidate(line).resign()); }), line);
        else if (verb == "lost") judge(lost(line), line);
        else if (verb == "fence") judge({std::to_string(fence(line)), {}}, line);
        else if (verb == "newer") judge(said(fence(line) > fence(line, 2)), line);
        else if (verb == "same-slot") judge(said(slot(line, 1) == slot(line, 2)), line);
        else if (verb == "fence-of") {
            const std::uint64_t fence = std::get<quorlock::leases>(held_of(line)).fence(unescaped(line.said[2]));
            judge({std::to_string(fence), {}}, line);
        } else if (verb == "lost-name") {
            judge({std::get<quorlock::leases>(held_of(line)).lost_name().value_or("none"), {}}, line);
        }
        else if (verb == "force") judge(force(line), line);
        else if (verb == "export") {
            judge(answer_of([&] {
                const std::string text = std::get<quorlock::lease>(held_of(line.said[1])).export_text();
                std::ofstream(line.said[2]) << text;
                return answer{"ok", {}};
            }), line);
        } else if (verb == "adopt") {
            judge(answer_of([&] {
                std::ifstream in(line.said[3]);
                const std::string text{std::istreambuf_iterator<char>(in), {}};
                return keep(line.said[1], known(clients_, line, 2).adopt(text)), answer{"ok", {}};
            }), line);
        }
        else if (verb == "init") {
            judge(answer_of([&] { return known(clients_, line).init_set(), answer{"ok", {}}; }), line);
        } else if (verb == "stats") judge(stats(line), line);
        else if (verb == "metric") judge(metric(line.said[1]), line);
        else if (verb == "close") {
            judge(answer_of([&] { return known(clients_, line).close(), answer{"ok", {}}; }), line);
        } else if (verb == "message") message(line);
        else if (verb == "inspect") judge(inspect(line), line);
        else if (verb == "error") {
            const std::string &told = line.said[1] == "name" ? last_error().lock_name() : last_error().holder();
            judge({told.empty() ? "none" : told, {}}, line);
        } else if (verb == "causes") judge({std::to_string(last_error().nodes().size()), {}}, line);
        else if (verb == "finish") judge(of(line.said[1]).finish(millis(line.said[2])), line);
        else if (verb == "cancel") of(line.said[1]).cancel->cancel();
        else if (verb == "stage") stage(line);
        else by_actor(line);
    }

private:
    /// The value of a sample in the text of metrics.
    static answer metric(const std::string &sample) {
        std::istringstream text(quorlock::metrics_text());
        for (std::string said; std::getline(text, said);)
            if (said.rfind(sample + " ", 0) == 0) return {said.substr(sample.size() + 1), {}};
        return {"none", {}};
    }

    /// What the nodes have of a lock: one thing of it.
    answer inspect(const line &line) {
        const std::string &what = line.said[2];
        return answer_of([&] {
            return known(locks_, line)->use_one([&](const quorlock::lock &lock) {
                if (what == "locked") return said(lock.is_locked());
                const quorlock::inspection found = lock.inspect();
                if (what == "queued") return answer{std::to_string(found.queued), {}};
                if (what == "verdict") return answer{to_string(found.verdict), {}};
                const bool named = found.holder && !found.holder->label.empty();
                return answer{named ? found.holder->label : "none", {}};
            });
        });
    }

    const quorlock::election &candidate(const line &line) {
        const auto &made = known(locks_, line)->made;
        if (!made) throw failure{"there is no election"};
        return std::get<quorlock::election>(*made);
    }

    /// The label of who leads.
    answer leader(const line &line) {
        return answer_of([&] {
            const std::optional<quorlock::holder> found = candidate(line).leader();
            return answer{found && !found->label.empty() ? found->label : "none", {}};
        });
    }

    /// Takes a lock away from whoever holds it, or from one fence.
    answer force(line &line) {
        std::optional<std::uint64_t> only;
        take(line.given, "fence", [&](auto &v) {
            const auto given = number(v);
            only = given ? static_cast<std::uint64_t>(*given) : fence(v);
        });
        none_left(line.given);
        return answer_of([&] {
            const quorlock::lock lock = known(clients_, line).lock(unescaped(line.said[2]));
            return answer{std::to_string(lock.force_release(only).freed), {}};
        });
    }

    static line parsed(const std::string &text) {
        // Verbs and the number of their words.
        static const std::map<std::string, std::size_t> verbs = {
            {"client", 1}, {"lock", 3},  {"acquire", 2}, {"try", 2},     {"release", 1}, {"unlock", 1}, {"drop", 1},
            {"extend", 1}, {"ensure", 2}, {"downgrade", 1}, {"held", 1},   {"remaining", 1}, {"lost", 2},  {"stats", 3},  {"close", 1},  {"metric", 1},
            {"message", 2}, {"causes", 0}, {"finish", 2}, {"cancel", 1}, {"stage", 0},   {"fence", 1},  {"newer", 2}, {"same-slot", 2},
            {"init", 1},    {"inspect", 2}, {"error", 1}, {"locks", 3},  {"fence-of", 2}, {"lost-name", 1},
            {"force", 2},   {"election", 3}, {"leader", 1}, {"resign", 1}, {"export", 2}, {"adopt", 3}};
        line found;
        std::istringstream stream(text);
        for (std::string word; stream >> word;) found.said.push_back(word);
        words &said = found.said;
        if (said.size() > 2 && (said[0] == "in" || said[0] == "start")) {
            found.started = said[0] == "start";
            found.actor = said[1];
            said.erase(said.begin(), said.begin() + 2);
        }
        if (said.size() > 2 && said[said.size() - 2] == "->") {
            found.expected = said.back();
            said.resize(said.size() - 2);
        }
        const auto verb = verbs.find(said[0]);
        if (verb == verbs.end()) throw failure{"expected a verb, got " + said[0]};
        if (said.size() <= verb->second) throw failure{"expected more words after " + said[0]};
        if (said[0] == "stage") return found;
        for (std::size_t at = verb->second + 1; at < said.size(); ++at) {
            const auto equals = said[at].find('=');
            if (equals == std::string::npos) throw failure{"expected an option"};
            found.given[said[at].substr(0, equals)] = said[at].substr(equals + 1);
        }
        said.resize(verb->second + 1);
        return found;
    }

    template <typename Value>
    static Value &known(std::map<std::string, Value> &table, const std::string &name) {
        const auto found = table.find(name);
        if (found == table.end()) throw failure{"there is no " + name};
        return found->second;
    }

    template <typename Value>
    static Value &known(std::map<std::string, Value> &table, const line &line, std::size_t at = 1) {
        return known(table, line.said[at]);
    }

    actor &of(const std::string &name) { return actors_.try_emplace(name).first->second; }

    const quorlock::error &last_error() const {
        if (!last_error_) throw failure{"no error yet"};
        return *last_error_;
    }

    void judge(const answer &got, const line &line) {
        if (got.error) last_error_ = got.error;
        if (!holds(got.text, line.expected))
            throw failure{"expected " + line.expected + ", got " + got.text + (got.error ? ": "s + got.error->what() : "")};
    }

    answer client(line &line) {
        quorlock::client_options made;
        set(made, line.given);
        none_left(line.given);
        return answer_of([&] {
            clients_.emplace(line.said[1], quorlock::client(made));
            order_.push_back(line.said[1]);
            return answer{"ok", {}};
        });
    }

    void make_lock(line &line) {
        const auto kind = line.said[0] == "locks" ? lock::several : line.said[0] == "election" ? lock::election : lock::one;
        lock made = {&known(clients_, line, 2), {}, kind, {}, {}};
        std::istringstream stream(line.said[3]);
        for (std::string name; std::getline(stream, name, kind == lock::several ? ',' : '\n');) made.names.push_back(unescaped(name));
        set(made.options, line.given);
        none_left(line.given);
        // An actor is a thread.
        if (kind != lock::election) made.options.owner_thread = true;
        answer_of([&] { return made.made = made.make(), answer{}; });
        locks_.insert_or_assign(line.said[1], std::make_shared<lock>(std::move(made)));
    }

    answer lost(const line &line) {
        return std::visit([&](auto &lease) { return lost(lease, millis(line.said[2])); }, held_of(line));
    }

    template <typename Lease>
    static answer lost(Lease &lease, milliseconds most) {
        // Lost before: the callback would come in its own time.
        if (const auto state = lease.state(); static_cast<int>(state) > 0) return {quorlock::to_string(state), {}};
        std::promise<quorlock::lease_state> told;
        auto future = told.get_future();
        lease.on_lost([&](quorlock::lease_state state) { told.set_value(state); });
        const bool was = future.wait_for(most) == std::future_status::ready;
        // Over when this returns, so that `told` may go.
        lease.on_lost(nullptr);
        return {was ? quorlock::to_string(future.get()) : "none", {}};
    }

    answer stats(const line &line) {
        const quorlock::client &client = known(clients_, line);
        for (milliseconds left = millis(line.said[3]);; left -= milliseconds(10)) {
            const quorlock_stats_t s = client.stats();
            std::map<std::string, std::uint64_t> fields = {
                // Made from core/vocabulary.toml: counts.
                {"acquired", s.acquired},
                {"reentered", s.reentered},
                {"attempts_lost", s.attempts_lost},
                {"timeouts_awaited", s.timeouts_awaited},
                {"released", s.released},
                {"lost", s.lost},
                {"renewals", s.renewals},
                {"repairs", s.repairs},
                {"releases_pending", s.releases_pending},
                {"clock_steps", s.clock_steps},
                {"write_backs", s.write_backs},
                {"releases_dropped", s.releases_dropped},
                {"connects", s.connects},
                {"waiting", s.waiting},
                {"passed_on", s.passed_on},
                {"queued", s.queued},
                {"ahead", s.ahead},
                {"stray_messages", s.stray_messages},
                // End of what is made.
            };
            const std::string value = std::to_string(known(fields, line, 2));
            if (left <= milliseconds::zero() || holds(value, line.expected)) return {value, {}};
            std::this_thread::sleep_for(milliseconds(10));
        }
    }

    void message(const line &line) const {
        const std::string text = lower(last_error().what());
        const bool has = text.find(lower(unescaped(line.said[2]))) != std::string::npos;
        if (line.said[1] != "has" && line.said[1] != "lacks") throw failure{"expected has or lacks"};
        if (has != (line.said[1] == "has")) throw failure{"expected ok, got " + text};
    }

    static void stage(const line &line) {
        const char *command = std::getenv("QUORLOCK_STAGE");
        std::string text = command ? command : "false";
        for (std::size_t at = 1; at < line.said.size(); ++at) text += " " + line.said[at];
        std::cout.flush();
        FILE *pipe = popen((text + " 2>&1").c_str(), "r");
        if (!pipe) throw failure{"no shell"};
        std::string output;
        char buffer[4096];
        while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, pipe)) output.append(buffer, got);
        const int status = pclose(pipe);
        if (status == -1 || !WIFEXITED(status) || WEXITSTATUS(status)) throw failure{"expected ok, got " + output};
    }

    void by_actor(line &line) {
        actor &actor = of(line.actor);
        std::function<answer()> work = job(line, actor);
        none_left(line.given);
        if (line.started) return actor.start(std::move(work));
        judge(actor.perform(std::move(work)), line);
    }

    std::function<answer()> job(line &line, actor &actor) {
        const std::string verb = line.said[0], name = line.said[1];
        const auto work = [](auto call) -> std::function<answer()> {
            return [call] { return answer_of(call); };
        };
        if (verb == "acquire") {
            auto cancel = actor.cancel = std::make_shared<quorlock::cancel_token>();
            std::optional<milliseconds> wait;
            take(line.given, "wait", [&](auto &v) { wait = limit(v); });
            return work([this, name, lock = known(locks_, line, 2), wait, cancel] {
                lock->use([&](const auto &l) {
                    if constexpr (std::is_same_v<decltype(l), const quorlock::election &>)
                        keep(name, wait ? l.campaign(*wait, *cancel) : l.campaign(*cancel));
                    else
                        keep(name, wait ? l.acquire(*wait, *cancel) : l.acquire(*cancel));
                });
                return answer{"ok", {}};
            });
        }
        if (verb == "try")
            return work([this, name, lock = known(locks_, line, 2)] {
                return lock->use([&](const auto &l) {
                    if constexpr (std::is_same_v<decltype(l), const quorlock::election &>) {
                        return answer{"there is no try of an election", {}};
                    } else {
                        auto won = l.try_acquire();
                        if (!won) return answer{"none", {}};
                        keep(name, std::move(*won));
                        return answer{"ok", {}};
                    }
                });
            });
        if (verb == "unlock")
            return work([lock = known(locks_, line)] {
                return said(lock->use_one([](const quorlock::lock &l) { return l.release(); }));
            });
        if (verb == "drop")
            return work([this, name] {
                const std::lock_guard<std::mutex> guard(keeping_);
                leases_.erase(name);
                return answer{"ok", {}};
            });
        const held &lease = held_of(line);
        const auto with = [work, &lease](auto call) {
            return work([&lease, call] { return std::visit(call, lease); });
        };
        if (verb == "release") {
            std::optional<bool> confirm;
            take(line.given, "confirm", [&](auto &v) { confirm = on(v); });
            return with([confirm](const auto &l) { return said(confirm ? l.release(*confirm) : l.release()); });
        }
        if (verb == "held") return with([](const auto &l) { return said(l.is_held()); });
        if (verb == "remaining") return with([](const auto &l) { return answer{std::to_string(l.remaining().count()), {}}; });
        if (verb == "downgrade")
            return work([&lease] { return std::get<quorlock::lease>(lease).downgrade(), answer{"ok", {}}; });
        if (verb == "ensure")
            return with([min = millis(line.said[2])](const auto &l) { return l.ensure(min), answer{"ok", {}}; });
        std::optional<milliseconds> ttl;
        take(line.given, "ttl", [&](auto &v) { ttl = millis(v); });
        return with([ttl](const auto &l) {
            ttl ? l.extend(*ttl) : l.extend();
            return answer{"ok", {}};
        });
    }

    /// Leases are made by actors, which may do so at once.
    void keep(const std::string &name, held won) {
        const std::lock_guard<std::mutex> guard(keeping_);
        leases_.insert_or_assign(name, std::move(won));
    }

    held &held_of(const std::string &name) {
        const std::lock_guard<std::mutex> guard(keeping_);
        return known(leases_, name);
    }

    held &held_of(const line &line, std::size_t at = 1) { return held_of(line.said[at]); }

    std::uint64_t fence(const std::string &name) { return std::get<quorlock::lease>(held_of(name)).fence(); }

    std::int32_t slot(const line &line, std::size_t at) { return std::get<quorlock::lease>(held_of(line.said[at])).slot(); }

    std::uint64_t fence(const line &line, std::size_t at = 1) { return fence(line.said[at]); }

    std::map<std::string, quorlock::client> clients_;
    words order_;
    std::map<std::string, std::shared_ptr<lock>> locks_;
    std::mutex keeping_;
    std::map<std::string, held> leases_;
    std::map<std::string, actor> actors_;
    std::optional<quorlock::error> last_error_;
};

}  // namespace

int main() {
    const char *path = std::getenv("QUORLOCK_SCENARIO");
    std::ifstream file(path ? path : "");
    if (!file) {
        std::cout << "QUORLOCK_SCENARIO names no file\n";
        return 2;
    }
    runner runner;
    bool shape_seen = false;
    int at = 0;
    for (std::string text; std::getline(file, text);) {
        ++at;
        const auto first = text.find_first_not_of(" \t\r");
        if (first == std::string::npos || text[first] == '#') continue;
        if (!shape_seen) {
            shape_seen = true;
            continue;
        }
        try {
            runner.run(text);
        } catch (const failure &failure) {
            std::cout << "line " << at << ": " << failure.text << std::endl;
            return 1;
        } catch (const std::exception &error) {
            std::cout << "line " << at << ": no error of Quorlock: " << error.what() << std::endl;
            return 1;
        }
    }
    return 0;
}
