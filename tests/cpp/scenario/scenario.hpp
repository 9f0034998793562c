// What the parts of the runner of scenarios share: answers, the values that words stand for, and options.

#ifndef QUORLOCK_SCENARIO_HPP
#define QUORLOCK_SCENARIO_HPP

#include <map>
#include <optional>
#include <quorlock.hpp>
#include <string>
#include <vector>

using quorlock::milliseconds;

/// A line that does not hold.
struct failure {
    std::string text;
};

/// What a line has answered; an error, if it was one.
struct answer {
    std::string text;
    std::optional<quorlock::error> error;
};

inline answer said(bool yes) { return {yes ? "true" : "false", {}}; }

template <typename Call>
answer answer_of(Call &&call) {
    try {
        return call();
    } catch (const quorlock::error &error) {
        return {error.kind_name(), error};
    }
}

std::optional<long long> number(const std::string &text);
bool holds(const std::string &got, const std::string &expected);
milliseconds millis(const std::string &text);
std::int64_t count(const std::string &text);
milliseconds limit(const std::string &text);
bool on(const std::string &text);
// Another word is a number that is no layout: for the library to refuse.
quorlock::layout layout_of(const std::string &text);
// Another word is a number that is no guard: for the library to refuse.
quorlock::restart_guard restart_guard_of(const std::string &text);
// `%XX` is one byte, `%` alone the empty text.
std::string unescaped(const std::string &text);
std::string lower(std::string text);

using words = std::vector<std::string>;
using options = std::map<std::string, std::string>;

/// Takes the option out, if it is there.
template <typename Use>
void take(options &given, const char *name, Use &&use) {
    const auto found = given.find(name);
    if (found == given.end()) return;
    use(found->second);
    given.erase(found);
}

// Options that are left when all known ones are taken out are a mistake of the line.
void none_left(const options &given);
void set(quorlock::client_options &made, options &given);
void set(quorlock::lock_options &made, options &given);

#endif
