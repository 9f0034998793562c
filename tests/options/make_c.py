"""What is made from core/options.toml for C and C++, and for their runners of scenarios: see definition.py."""

import re
import textwrap

from definition import about, source, spelled, wanted_names

# How C gives an option, by what it takes: the parameters, and the value that they are.
PARAMETERS = {"time": "{name}_ms: i64", "limit": "{name}_ms: i64", "flag": "{name}: bool", "count": "{name}: i64", "slots": "{name}: i64",
              "fraction": "{name}: f64", "word": "{name}: i32", "text": "text: *const c_char, len: usize", "pem": "text: *const c_char, len: usize"}
VALUES = {"time": '|| handle::millis({name}_ms, "{name}")', "limit": '|| handle::limit({name}_ms, "{name}")', "flag": "|| Ok({name})",
          "count": '|| handle::count({name}, {least}..={most}, "{name}")', "slots": "|| {name}_of({name})",
          "fraction": "|| Ok({name})", "word": "|| {name}_of({name})", "text": '|| Ok(handle::text(text, len, "{name}")?.to_owned())',
          "pem": '|| Ok(handle::text(text, len, "{name}")?.to_owned())'}
# What C++ has in the place of it, and how it hands that to C.
MEMBERS = {"time": "milliseconds", "limit": "milliseconds", "flag": "bool", "count": "std::int64_t", "slots": "std::int64_t", "fraction": "double",
           "text": "std::string", "pem": "std::string", "name": "std::string", "urls": "std::vector<std::string>"}
HANDED = {"time": "detail::ms(*{it})", "limit": "detail::ms(*{it})", "text": "{it}->data(), {it}->size()", "name": "{it}->data(), {it}->size()",
          "pem": "{it}->data(), {it}->size()", "word": "static_cast<std::int32_t>(*{it})"}
# What a runner of scenarios makes of the word in a line.
OF_C = {"time": "millis(value)", "limit": "limit(value)", "flag": "on(value)", "count": "count_of(value)", "slots": "count_of(value)",
        "fraction": "fraction(value)", "word": "{name}_of(value)"}
OF_CPP = {"time": "millis(v)", "limit": "limit(v)", "flag": "on(v)", "count": "count(v)", "slots": "count(v)", "fraction": "std::stod(v)",
          "word": "{name}_of(v)"}


def of(options, language, place):
    for name, option in options.items():
        if name in wanted_names(options, language, place):
            yield name, option


def setters(options, place):
    """Those that are alike: what takes a list, and who owns a lease, is said in a way of its own."""
    return [(name, option) for name, option in of(options, "c", place)
            if option["takes"] in PARAMETERS and name in wanted_names(options, "rust", place)]


def said(name, options, language, place):
    """What is said of an option; a client's that its locks have, too, refers to those."""
    first, rest = about(name, options, language, place)
    if place == "client" and name in wanted_names(options, language, "lock"):
        there = f"quorlock_lock_options_set_{name}()" if language == "c" else "lock_options"
        default = re.search(r"Default: .*", rest)
        return f"See {there}.{' ' + default[0] if default and language == 'c' else ''}"
    return f"{first} {rest}".strip()


def filled(text, width, begin, more):
    return "".join(f"{line}\n" for line in textwrap.wrap(text, width, initial_indent=begin, subsequent_indent=more, break_long_words=False,
                                                         break_on_hyphens=False))


def setter(name, option, options, place):
    handle, target = f"quorlock_{place}_options_t", {"client": "ClientBuilder", "lock": "Lock"}[place]
    fill = {"name": name, "least": option.get("least"), "most": f"{option['most']:_}" if isinstance(option.get("most"), int) else None}
    parameters = f"options: *mut {handle}, {PARAMETERS[option['takes']].format(**fill)}"
    called = f'pub extern "C" fn quorlock_{place}_options_set_{name}'
    line = f"{called}({parameters}) -> i32 {{"
    if len(line) > 120:
        line = f"{called}(\n    {parameters},\n) -> i32 {{"
    take, before = f"{target}::{name}", ""
    if option["takes"] == "slots":
        before = (f"pub(crate) fn {name}_of({name}: i64) -> Result<u32, Error> {{\n"
                  f'    Ok(handle::count({name}, {fill["least"]}..={fill["most"]}, "{name}")? as u32)\n}}\n\n')
    return (before + filled(said(name, options, "c", place).replace("`", ""), 96, "/// ", "/// ")
            + f"#[unsafe(no_mangle)]\n{line}\n    set(options, {VALUES[option['takes']].format(**fill)}, {take})\n}}\n")


def symbols(options):
    """What the library exports: its setters of options are made."""
    others = [line for line in source("ffi-c/symbols.txt").splitlines() if "_options_set_" not in line]
    made = [f"quorlock_{place}_options_set_{name}" for place in ("client", "lock") for name, _ in of(options, "c", place)]
    return "".join(f"{line}\n" for line in sorted(others + made))


def in_place(options, place):
    """The members of a struct in C++: what is there keeps its place, for who initialises it by position or in that order; what is new comes last."""
    header = source("include/quorlock.hpp")
    body = re.search(rf"^struct {place}_options \{{\n(.*?)^\}};", header, re.MULTILINE | re.DOTALL)[1]
    order = [name for line in re.findall(r"^    std::optional<.*?> ((?:\w+\{\}(?:, )?)+);", body, re.MULTILINE) for name in re.findall(r"(\w+)\{\}", line)]
    members = [(spelled(name, option, "cpp", place), name, option) for name, option in of(options, "cpp", place)]
    return sorted(members, key=lambda member: order.index(member[0]) if member[0] in order else len(order))


def member(called, name, option, options, place):
    kind = f"quorlock::{name}" if option["takes"] == "word" else MEMBERS[option["takes"]]
    text = filled("/** " + said(name, options, "cpp", place).replace("`", "") + " */", 128, "", " * ")
    return f"{text}std::optional<{kind}> {called}{{}};\n"


def handed(called, name, option, place):
    it = f"options.{called}"
    value = HANDED.get(option["takes"], "*{it}").format(it=it)
    line = f"if ({it}) quorlock_{place}_options_set_{name}(o, {value});"
    return f"{line}\n" if len(line) <= 120 else line.replace(") quorlock", ")\n    quorlock", 1) + "\n"


def given_c(name, option, place):
    call = f"quorlock_{place}_options_set_{name}"
    value = OF_C.get(option["takes"])
    arguments = value.format(name=name) if value else "value, unescape(value)"
    return f'if (!strcmp(name, "{name}")) return {call}(options, {arguments}), true;\n'


def given_cpp(called, name, option):
    value = OF_CPP.get(option["takes"], "unescaped(v)").format(name=name)
    return f'take(given, "{name}", [&](auto &v) {{ made.{called} = {value}; }});\n'


DRAWN = {"time": "some_ms(f)", "limit": "some_wait(f)", "flag": "draw(f, 2)", "count": "some_ms(f)", "slots": "some_ms(f)",
         "fraction": "(double)draw(f, 100) / 90", "word": "(int32_t)(draw(f, 2) ? (int64_t)draw(f, 4) : some_ms(f))"}
ONE = {"flag": "true", "text": "NULL, 0", "pem": "NULL, 0", "name": "NULL, 0"}


def all_setters(options):
    """Each setter of C but those of lists: whose it is, its name, and the option."""
    return [(place, name, option) for place in ("client", "lock") for name, option in of(options, "c", place) if option["takes"] != "urls"]


def drawn(options):
    calls = [f"quorlock_{place}_options_set_{name}({place[0]}, {DRAWN.get(option['takes'], 'text, len')})" for place, name, option in all_setters(options)]
    cases = "".join(f"case {number}: {call}; break;\n" for number, call in enumerate(calls))
    return f"switch (draw(f, {len(calls) + 1})) {{\n{cases}"


def made(options):
    yield "tests/c/fuzz.c", "setters of options", drawn(options)
    yield "tests/c/test_arguments.c", "setters without options", "".join(
        f"CHECK(quorlock_{place}_options_set_{name}(NULL, {ONE.get(option['takes'], '1')}) == 1);\n" for place, name, option in all_setters(options))
    for place in ("client", "lock"):
        yield f"ffi-c/src/{place}_options.rs", f"setters of a {place}", "\n".join(
            setter(name, option, options, place) for name, option in setters(options, place))
        yield "include/quorlock.hpp", f"options of a {place}", "".join(
            member(*one, options, place) for one in in_place(options, place))
        yield "include/quorlock.hpp", f"what a {place} is given", "".join(
            handed(called, name, option, place) for called, name, option in in_place(options, place) if option["takes"] != "urls")
        yield "tests/c/scenario/options.c", f"options of a {place}", "".join(
            given_c(name, option, place) for name, option in of(options, "c", place)
            if option["takes"] in (*OF_C, "text", "pem", "name") and name in wanted_names(options, "rust", place))
        yield "tests/cpp/scenario/options.cpp", f"options of a {place}", "".join(
            given_cpp(*one) for one in in_place(options, place)
            if one[2]["takes"] != "urls" and one[1] in wanted_names(options, "rust", place))
    yield "ffi-c/symbols.txt", None, symbols(options)
