// The values that the words of a scenario stand for.

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "scenario.hpp"

std::optional<long long> number(const std::string &text) {
    char *end;
    const long long value = std::strtoll(text.c_str(), &end, 10);
    if (text.empty() || *end) return std::nullopt;
    return value;
}

bool holds(const std::string &got, const std::string &expected) {
    const std::string sign = expected.substr(0, 2);
    if (sign == ">=" || sign == "<=") {
        const auto limit = number(expected.substr(2)), value = number(got);
        return limit && value && (sign == ">=" ? *value >= *limit : *value <= *limit);
    }
    return got == expected;
}

milliseconds millis(const std::string &text) {
    const auto value = number(text);
    if (!value || *value < 0) throw failure{"expected milliseconds, got " + text};
    return milliseconds(*value);
}

std::int64_t count(const std::string &text) {
    const auto value = number(text);
    if (!value) throw failure{"expected a number, got " + text};
    return *value;
}

milliseconds limit(const std::string &text) { return text == "none" ? quorlock::forever : millis(text); }

bool on(const std::string &text) {
    if (text != "on" && text != "off") throw failure{"expected on or off, got " + text};
    return text == "on";
}

quorlock::layout layout_of(const std::string &text) {
    if (text == "plain") return quorlock::layout::plain;
    return text == "redisson" ? quorlock::layout::redisson : static_cast<quorlock::layout>(-1);
}

quorlock::restart_guard restart_guard_of(const std::string &text) {
    if (text == "auto") return quorlock::restart_guard::automatic;
    if (text == "on") return quorlock::restart_guard::on;
    return text == "off" ? quorlock::restart_guard::off : static_cast<quorlock::restart_guard>(-1);
}

std::string unescaped(const std::string &text) {
    std::string found;
    if (text == "%") return found;
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (text[at] == '%' && at + 2 < text.size() && std::isxdigit(static_cast<unsigned char>(text[at + 1])) &&
            std::isxdigit(static_cast<unsigned char>(text[at + 2]))) {
            found += static_cast<char>(std::stoi(text.substr(at + 1, 2), nullptr, 16));
            at += 2;
        } else {
            found += text[at];
        }
    }
    return found;
}

std::string lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
    return text;
}
