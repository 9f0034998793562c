#!/usr/bin/env python3
"""The options of Quorlock: reads core/options.toml, where each is defined once, and compares the lists of the languages with it.

    definition.py            tells each list that differs, and ends with `N passed, M failed`
    definition.py --write    writes what is made from it, by the modules make_*.py beside this one

What an option has there:

- `takes`: time, limit (a time, or none for no limit), flag, count, slots, fraction, text, word (one of `words`), name (text or bytes), urls, pem (the
  path of a file, or its text), nothing.
- `default`, `least`, `most`: as a person writes it; another option's name where that bounds it.
- `in`: the places where it may be given; what says how a client reaches its nodes is taken by `once`, too, as by a scope. `only` takes languages
  out of a place, and `why` says the reason. `not_in`: why it may not be given in a place, where that does not follow from other fields.
- `given_by`: the places that give it by themselves.
- `again`: what becomes of it where a lease is entered again that was won with another value: `compared` (a warning tells that the lease keeps its own),
  `of the call`, `not looked at`, or what else it makes of the lock.
- `excludes`: the options that it does not go with. `with`: the one without which it is refused.
- `of_the_set`: it is the same for all clients of a set. `variable`: of the environment.
- `without`: letters that a text may not have.
- `path_is_shown`: errors show the path that was given, for it is no key.
- `at`: what is otherwise in a place: the fields of that.
- `spelled`: where a language writes it otherwise. `by_position`: the places where it stands behind the name and not among the options.
- `unset`: its default follows others, so the core knows whether it was given. `parsed`: the type of the core to which its text is parsed.
- `text`, `more`: a sentence, and what else is to be said.
- `command`: of an option that is a flag there: `short`, its letter; `value`, the word for its value; `text`, what its help says in place of the
  sentence and the bounds; `excludes`, flags that it does not go with for the command's own sake.
- `call`: what may say otherwise for one call, beside an acquire.
- `page`: where more is told, below docs. `feature`: what its scenario `option-NAME` shows in every language, in tests/FEATURES.md.
"""

import ast
import importlib
import pathlib
import re
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEFINITION = ROOT / "core" / "options.toml"
LANGUAGES = ("rust", "python", "node", "c", "cpp")
PLACES = ("client", "lock", "acquire", "scope", "once", "election", "semaphore", "several", "rwlock", "command")
TAKES = ("time", "limit", "flag", "count", "slots", "fraction", "text", "word", "name", "urls", "pem", "nothing")
FIELDS = {"takes", "words", "default", "least", "most", "in", "only", "why", "again", "excludes", "of_the_set", "variable", "spelled", "by_position",
          "unset", "parsed", "text", "more", "command", "page", "feature", "with", "without", "path_is_shown", "at", "not_in", "given_by", "call"}


def read():
    return tomllib.loads(DEFINITION.read_text(encoding="utf-8"))


def spelled(name, option, language, place):
    """The option as that language writes it there."""
    own = option.get("spelled", {})
    name = own.get(f"{language}.{place}", own.get(language, name))
    if language == "command":
        return "--" + name.replace("_", "-") + "-file" * (option.get("takes") == "urls")
    return re.sub(r"_(.)", lambda found: found[1].upper(), name) if language == "node" else name


def wanted(options, language, place):
    """The options that may be given in that place of that language."""
    return {spelled(name, options[name], language, place) for name in wanted_names(options, language, place)}


def everywhere(place):
    """What each option takes that may be given in that place of every language."""
    return {name: option["takes"] for name, option in read().items() if place in option["in"] and place not in option.get("only", {})}


def wanted_names(options, language, place):
    return {name for name, option in options.items() if place in option["in"] and language in option.get("only", {}).get(place, LANGUAGES)}


# By how many milliseconds a unit of the definition is longer than one.
UNITS = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000}


def milliseconds(time):
    """A time of the definition, such as `10 s`; nothing where it is none."""
    found = re.fullmatch(r"(\d+) (ms|s|min|h)", str(time))
    return int(found[1]) * UNITS[found[2]] if found else None


def marked(word, language):
    """A word of code in a sentence."""
    return word if language in ("c", "cpp", "command") else f"`{word}`"


def error_kind(name, language):
    """A kind of error as the language calls it."""
    makes, kinds = importlib.import_module("make_vocabulary"), importlib.import_module("vocabulary").read()["errors"]
    own = {"rust": name, "page": name, "c": f"#QUORLOCK_{makes.upper(name)}"}
    return marked(own.get(language) or makes.error_class(name, kinds[name], language), language)


def shown(value, options, language, place):
    """A bound or a default as a sentence has it."""
    if value in options and language == "command" and "lock" in options[value]["in"]:
        # Not every command that speaks with nodes has the flags of a lock.
        return value.replace("_", " ")
    if "{" in str(value):
        return spoken(value, options, language, place)
    if value in options:
        return marked(spelled(value, options[value], language, place), language)
    if milliseconds(value) == 0:
        return "0"
    if milliseconds(value) is not None:
        value = value.replace(" min", "m").replace(" ", "") if language == "command" else value
        return f"{milliseconds(value):,} ms" if language in ("c", "cpp", "node") else value
    if isinstance(value, bool):
        return marked(str(value) if language == "python" else str(value).lower(), language)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:g}"
    if re.match(r"\d+ bytes$", value):
        return str(value)
    if language in ("c", "cpp", "command"):
        return f'"{value}"'
    return marked(value, language) if value else "empty"


def spoken(text, options, language, place):
    """A text of the definition in the words of that language."""
    def word(found):
        said = found[1]
        return error_kind(said, language) if re.fullmatch("[A-Z][A-Za-z]+", said) else shown(said, options, language, place)

    return re.sub(r"\{([^}]*)\}", word, text)


def at(option, place):
    """The option as it is in that place."""
    return {**option, **option.get("at", {}).get(place, {})}


def listed(words, last):
    return f" {last} ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)


# What says that a time has no limit.
NO_LIMIT = {"rust": "`None`", "python": "`None`", "node": "`null` or `Infinity`", "c": "#QUORLOCK_FOREVER", "cpp": "forever"}
# The bound of every language's integers, which nobody has to be told.
INTEGERS = 2**31 - 1


def excluded(name, options, language, place):
    """An option that another does not go with: where it is on by itself, that is it when it is off."""
    option = options.get(name, {})
    return marked(spelled(name, option, language, place), language) + " off" * (option.get("default") is True)


def about(name, options, language, place, default=True):
    """What is said of an option in that place: a sentence, and what follows it."""
    option = at(options[name], place)
    say = lambda value: shown(value, options, language, place)  # noqa: E731
    first, rest = spoken(option["text"], options, language, place), []
    if "more" in option:
        rest.append(spoken(option["more"], options, language, place))
    if option["takes"] == "limit" and language in NO_LIMIT:
        rest.append(f"No limit: {NO_LIMIT[language]}.")
    least, most = option.get("least"), option.get("most")
    if most == INTEGERS:
        least = most = None
    if least is not None and most is not None:
        rest.append(f"{say(least)} to {say(most)}.")
    elif least is not None or most is not None:
        rest.append(f"At {'most' if least is None else 'least'} {say(most if least is None else least)}.")
    if place != "client" and "excludes" in option:
        others = [excluded(one, options, language, place) for one in option["excludes"]]
        rest.append(f"{'Off, not' if option.get('default') is True else 'Not'} with {listed(others, 'nor')}.")
    if default and "default" in option:
        rest.append(f"Default: {say(option['default'])}.")
    return first, " ".join(rest)


def source(path):
    return (ROOT / path).read_text(encoding="utf-8")


def setters(text, of):
    """The public methods of a builder of Rust that are not hidden."""
    for found in re.finditer(rf"((?:^ *///.*\n|^ *#\[.*\n)+)^ *pub fn (\w+)(?:<[^(]*>)?\((?:mut )?self[^)]*\) -> {of} ", text, re.MULTILINE):
        if "doc(hidden)" not in found[1]:
            yield found[2]


def rust():
    of_locks = set(setters(source("core/src/config.rs"), r"\$Type"))
    yield "client", of_locks | set(setters(source("core/src/client/builder.rs"), "ClientBuilder"))
    # `once` is the way to give the period, and what follows from it.
    yield "lock", (of_locks | set(setters(source("core/src/lock.rs"), "Lock"))) - {"once"}


def c():
    header = source("include/quorlock.h")
    for place in ("client", "lock"):
        yield place, set(re.findall(rf"quorlock_{place}_options_set_(\w+)\(", header))


def cpp():
    header = source("include/quorlock.hpp")
    for place in ("client", "lock"):
        body = re.search(rf"^struct {place}_options \{{\n(.*?)^\}};", header, re.MULTILINE | re.DOTALL)[1]
        members = re.findall(r"^    std::optional<.*?> ((?:\w+\{\}(?:, )?)+);", body, re.MULTILINE)
        yield place, {name for line in members for name in re.findall(r"(\w+)\{\}", line)}


def parameters(path, owner, function, without=()):
    """The parameters of a method, by their names."""
    for found in ast.walk(ast.parse(source(path))):
        if isinstance(found, ast.ClassDef) and found.name == owner:
            for method in found.body:
                if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and method.name == function:
                    names = {one.arg for one in (*method.args.args, *method.args.kwonlyargs)}
                    return names - {"self", *without}
    sys.exit(f"{path} has no {owner}.{function}")


def python():
    package = "py/python/quorlock"
    for file in ("_lock", "_aio_lock"):
        # `blocking` and `timeout` are those of `threading.Lock`.
        yield "acquire", parameters(f"{package}/{file}.py", "Lock", "acquire", {"blocking", "timeout"})


LISTS = {"rust": rust, "c": c, "cpp": cpp, "python": python}


def serde(options):
    """Options as data have those of the builders, but for what a file cannot say."""
    text, field = source("core/src/options.rs"), r"^ +(?:#\[serde\(.*?\)\] )?(\w+): \w"
    both = re.search(r"macro_rules! options_with_those_of_locks \{.*?\n\}\n", text, re.DOTALL)[0]
    shared = set(re.findall(field, both, re.MULTILINE))
    for place, name in (("client", "ClientOptions"), ("lock", "LockOptions")):
        body = re.search(rf"{name} for \w+ \{{\n(.*?)\n    \}}", text, re.DOTALL)[1]
        has = shared | set(re.findall(field, body, re.MULTILINE))
        yield place, wanted(options, "rust", place) - {"owner", "on_current_runtime"}, has


# The modules that make something of it, each by a function `made(options)` which yields the path of a file, the name of a part of it or
# nothing for the whole, and the text.
MAKERS = ("make_rust", "make_c", "make_command", "make_node", "make_pages", "make_python")
BEGIN, END = re.compile(r"Made from core/(?:options|vocabulary)\.toml: (.*?)\.?(?: -->| \*/)?$"), "End of what is made"


def replaced(text, part, made):
    """The text of a file with that part made anew: what stands between a line that ends with `Made from core/FILE.toml: PART` and the next
    one that says `End of what is made`, indented as the former."""
    lines, out, found = text.splitlines(), [], False
    at = iter(lines)
    for line in at:
        out.append(line)
        begins = BEGIN.search(line)
        if not begins or begins[1] != part:
            continue
        found = True
        indent = line[: len(line) - len(line.lstrip())]
        out.extend((indent + one) if one else "" for one in made.splitlines())
        for line in at:
            if END in line:
                out.append(line)
                break
        else:
            sys.exit(f"{part}: its end is missing")
    if not found:
        sys.exit(f"nothing begins with: Made from core/options.toml or vocabulary.toml: {part}")
    return "\n".join(out) + "\n"


def made():
    """What is made from the definition: the texts of files, by their paths."""
    files, options = {}, read()
    for maker in MAKERS:
        for path, part, text in importlib.import_module(maker).made(options):
            files[path] = text if part is None else replaced(files.get(path) or source(path), part, text)
    return files


def reason(option, place, options):
    """Why an option may not be given in a place; nothing where that is not said."""
    if place in option.get("not_in", {}):
        return option["not_in"][place]
    if place in option.get("given_by", ()):
        return "It is given there already."
    if any(place == other or place in options.get(other, {}).get("given_by", ()) for other in option.get("excludes", ())):
        return "What it excludes is given there."
    if "client" in option["in"] and "lock" not in option["in"]:
        return "The client has it." if place != "command" else option.get("why")
    return "The lock has it, or what else makes one." if place == "acquire" else option.get("why")


def wrong(name, option, options):
    """What is wrong with a definition."""
    yield from (f"has no field {field}" for field in option.keys() - FIELDS)
    if option.get("takes") not in TAKES:
        yield f"takes {option.get('takes')}"
    if ("words" in option) != (option.get("takes") == "word"):
        yield "has words, or takes one: not both"
    if "command" in option and "command" not in option["in"] or set(option.get("command", {})) - {"short", "value", "text", "excludes"}:
        yield "says of the command what cannot be said"
    yield from (f"excludes {other}, which does not exclude it" for other in option.get("excludes", [])
                if other in options and name not in options[other].get("excludes", []))
    yield from (f"may not be given in {place}" for place in option.get("in", []) if place not in PLACES)
    if not option.get("in") or not option.get("text", "").endswith("."):
        yield "says no place, or no sentence"
    if "lock" in option.get("in", []) and "again" not in option:
        yield "does not say what becomes of it where a lease is entered again"
    yield from (f"does not say why it is not in {place}" for place in PLACES if place not in option["in"] and not reason(option, place, options))
    if ("only" in option) != ("why" in option):
        yield "takes languages out, and does not say why"
    yield from (f"excludes {other}, which there is not" for other in option.get("excludes", []) if other not in options and other != "once")
    elsewhere = option.get("at", {})
    yield from (f"is otherwise in {place}, where it may not be given" for place in elsewhere if place not in option.get("in", []))
    yield from (f"has no field {field} in {place}" for place, own in elsewhere.items() for field in own.keys() - FIELDS)
    said = " ".join(str(own.get(field, "")) for own in (option, *elsewhere.values()) for field in ("text", "more", "default"))
    for word in re.findall(r"\{([^}]*)\}", said):
        if word not in options and not re.fullmatch(r"\d+ (?:ms|s|min|h)|[A-Z]\w+", word):
            yield f"says {{{word}}}, which is no option, time or kind of error"


# What makes something, and what plays scenarios: neither may list options, or their lists would only have moved.
NAMELESS = ("tests/options/make_*.py", "tests/rust/src/bin/scenario/*.rs", "tests/c/scenario/*.c", "tests/c/scenario.c", "tests/cpp/scenario.cpp", "tests/cpp/scenario/*",
            "tests/python/scenario/*.py", "tests/node/scenario/*")


def named(options):
    """Options that stand by hand, as words in quotes, in what may not list them. One is no list: a word that a call has, too. What takes more than a
    value, or is said of one call, is handled by itself; and words of the definition are none."""
    others = {*TAKES, *FIELDS, *PLACES} | {name for name, option in options.items() if option["takes"] in ("urls", "name", "slots", "nothing")
                                           or "acquire" in option["in"] or "once" in option.get("by_position", ()) or "call" in option}
    words = {spelled(name, option, language, place) for name, option in options.items() for language in LANGUAGES for place in option["in"]
             if name not in others}
    for pattern in NAMELESS:
        for path in sorted(ROOT.glob(pattern)):
            text = path.read_text(encoding="utf-8")
            by_hand = re.sub(rf"Made from core/options\.toml: .*?{END}", "", text, flags=re.DOTALL)
            found = sorted(words & set(re.findall(r"""["'](\w+)["']""", by_hand)))
            if found[1:]:
                yield f"{path.relative_to(ROOT)} names {listed(found, 'and')}"


def main():
    if "--write" in sys.argv[1:]:
        for path, text in made().items():
            (ROOT / path).write_text(text, encoding="utf-8")
        return 0
    options, passed, failed = read(), 0, 0

    def tell(what, found):
        nonlocal passed, failed
        found = list(found)
        passed, failed = passed + (not found), failed + bool(found)
        print(*(f"FAIL {what}: {one}" for one in found), sep="\n", end="\n" if found else "")

    for name, option in options.items():
        tell(name, wrong(name, option, options))
    lists = [(language, place, wanted(options, language, place), has) for language, given in LISTS.items() for place, has in given()]
    lists += [("serde", *found) for found in serde(options)]
    for language, place, wants, has in lists:
        found = [f"{one} is not there" for one in sorted(wants - has)] + [f"{one} is not in core/options.toml" for one in sorted(has - wants)]
        tell(f"{language}, {place}", found)
    for path, text in made().items():
        tell(path, [] if (ROOT / path).exists() and source(path) == text else ["it is not what core/options.toml says: run definition.py --write"])
    tell("no list of options by hand", named(options))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    # The modules that make something import this one by its name.
    sys.modules["definition"] = sys.modules["__main__"]
    sys.exit(main())
