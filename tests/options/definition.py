#!/usr/bin/env python3
"""The options of Quorlock: reads core/options.toml, where each is defined once, and compares the lists of the languages with it.

    definition.py            tells each list that differs, and ends with `N passed, M failed`
    definition.py --write    writes what is made from it: options.json, by which tests in Node know what each option takes and where it may be
                             given, and the types of Python's options

What an option has there:

- `takes`: time, limit (a time, or none for no limit), flag, count, slots, fraction, text, word (one of `words`), name (text or bytes), urls, pem (the
  path of a file, or its text), nothing.
- `default`, `least`, `most`: as a person writes it; another option's name where that bounds it.
- `in`: the places where it may be given. `only` takes languages out of a place, and `why` says the reason.
- `again`: what becomes of it where a lease is entered again that was won with another value: `compared` (a warning tells that the lease keeps its own),
  `of the call`, `not looked at`, or what else it makes of the lock.
- `excludes`: the options that it does not go with. `of_the_set`: it is the same for all clients of a set. `variable`: of the environment.
- `spelled`: where a language writes it otherwise.
- `text`, `more`: a sentence, and what else is to be said.
"""

import ast
import json
import pathlib
import re
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEFINITION = ROOT / "core" / "options.toml"
LANGUAGES = ("rust", "python", "node", "c", "cpp")
PLACES = ("client", "lock", "acquire", "scope", "once", "election", "semaphore", "several", "rwlock", "command")
TAKES = ("time", "limit", "flag", "count", "slots", "fraction", "text", "word", "name", "urls", "pem", "nothing")
FIELDS = {"takes", "words", "default", "least", "most", "in", "only", "why", "again", "excludes", "of_the_set", "variable", "spelled", "text", "more"}


def read():
    return tomllib.loads(DEFINITION.read_text(encoding="utf-8"))


def spelled(name, option, language, place):
    """The option as that language writes it there."""
    own = option.get("spelled", {})
    name = own.get(f"{language}.{place}", own.get(language, name))
    return re.sub(r"_(.)", lambda found: found[1].upper(), name) if language == "node" else name


def wanted(options, language, place):
    """The options that may be given in that place of that language."""
    return {spelled(name, options[name], language, place) for name in wanted_names(options, language, place)}


def everywhere(place):
    """What each option takes that may be given in that place of every language."""
    return {name: option["takes"] for name, option in read().items() if place in option["in"] and place not in option.get("only", {})}


def for_node():
    """options.json."""
    options = {name: {"takes": option["takes"], "in": [place for place in option["in"] if place not in option.get("only", {})]}
               for name, option in read().items()}
    return json.dumps(options, indent=2) + "\n"


# What a checker of types sees of an option in Python, by what it takes. A word has its own.
PYTHON = {"time": "Seconds", "limit": "float | None", "flag": "bool", "count": "int", "slots": "int", "fraction": "float", "text": "str",
          "name": "Name | None", "urls": "str | Iterable[str] | None", "pem": "str | os.PathLike[str] | None"}

def python_type(name, option):
    if option["takes"] != "word":
        return PYTHON[option["takes"]]
    # What is on or off may be said by a flag, too.
    return f"Literal[{', '.join(map(json.dumps, option['words']))}]" + (" | bool" if {"on", "off"} <= set(option["words"]) else "")


def for_python():
    """The options of the callables that take them by `**`."""
    options = read()
    text = '"""The options of what takes them by `**`, for checkers of types. Made from core/options.toml by tests/options/definition.py."""\n\n'
    text += "import os\nfrom collections.abc import Callable, Iterable\nfrom typing import TYPE_CHECKING, Any, Literal, TypedDict\n\n"
    text += "from ._options import Name, Seconds\n\nif TYPE_CHECKING:\n    from . import aio, sync\n"

    def block(name, base, fields):
        body = "".join(f"    {field}: {kind}\n" for field, kind in fields) or "    pass\n"
        return f"\n\nclass {name}({base}, total=False):\n{body}"

    def of(place):
        return [(spelled(name, option, "python", place), python_type(name, option)) for name, option in options.items()
                if name in wanted_names(options, "python", place)]

    text += block("SemaphoreOptions", "TypedDict", [one for one in of("semaphore") if one[0] != "slots"])
    text += block("RWLockOptions", "TypedDict", of("rwlock"))
    text += block("SeveralOptions", "TypedDict", of("several"))
    where = [one for one in of("scope") if one[0] not in dict(of("lock"))]
    text += block("WhereOptions", "TypedDict", [("client", '"sync.Client | aio.Client | None"'), *where])
    text += block("ScopeOptions", "WhereOptions", [
        ("key", "Name | Iterable[Name] | Callable[..., Name | Iterable[Name]] | None"), *(one for one in of("scope") if one not in where)])
    text += block("ScopeOfSlotsOptions", "WhereOptions", [one for one in of("semaphore") if one[0] != "slots"])
    text += block("OnceOptions", "WhereOptions", [
        ("key", "Name | Callable[..., Name] | None"), *(one for one in of("once") if one[0] != "every")])
    return text.replace(", Any, ", ", ")


def wanted_names(options, language, place):
    return {name for name, option in options.items() if place in option["in"] and language in option.get("only", {}).get(place, LANGUAGES)}


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
    yield "client", parameters(f"{package}/_client.py", "ClientBase", "__init__")
    # What says where the name or the client comes from is no option.
    yield "scope", parameters(f"{package}/_redlock.py", "_Redlock", "__init__", {"name", "client", "key"})
    for file in ("sync", "aio"):
        yield "lock", parameters(f"{package}/{file}.py", "Client", "lock", {"name"})
        yield "election", parameters(f"{package}/{file}.py", "Client", "election", {"name"})
        # `blocking` and `timeout` are those of `threading.Lock`.
        yield "acquire", parameters(f"{package}/{file}.py", "Lock", "acquire", {"blocking", "timeout"})


def node():
    text = source("node/src/options.ts")

    def interface(name):
        found = re.search(rf"^export interface {name}(?: extends Omit<(\w+), ([^>]*)>)? \{{(\}}|\n.*?^\}})", text, re.MULTILINE | re.DOTALL)
        own = set(re.findall(r"^  (\w+)\?:", found[3], re.MULTILINE))
        return own | (interface(found[1]) - set(re.findall(r"\w+", found[2])) if found[1] else set())

    def table(name):
        body = re.search(rf"const {name}: Record<string, Convert> = \{{(.*?)\}};", text, re.DOTALL)[1]
        return set(re.findall(r"(\w+):", body))

    yield "client", interface("ClientOptions")
    yield "client", table("OF_CLIENT") | table("OF_LOCK")
    yield "lock", interface("LockOptions")
    yield "lock", table("OF_LOCK") | table("OF_ONE_LOCK")
    yield "election", interface("ElectionOptions")
    yield "acquire", interface("AcquireOptions") - {"signal"}


LISTS = {"rust": rust, "c": c, "cpp": cpp, "python": python, "node": node}


def serde(options):
    """Options as data have those of the builders, but for what a file cannot say."""
    text, field = source("core/src/options.rs"), r"^ +(?:#\[serde\(.*?\)\] )?(\w+): \w"
    both = re.search(r"macro_rules! options_with_those_of_locks \{.*?\n\}\n", text, re.DOTALL)[0]
    shared = set(re.findall(field, both, re.MULTILINE))
    for place, name in (("client", "ClientOptions"), ("lock", "LockOptions")):
        body = re.search(rf"{name} for \w+ \{{\n(.*?)\n    \}}", text, re.DOTALL)[1]
        has = shared | set(re.findall(field, body, re.MULTILINE))
        yield place, wanted(options, "rust", place) - {"owner", "on_current_runtime"}, has


def made():
    """What is made from the definition, by its path."""
    return {"tests/options/options.json": for_node(), "py/python/quorlock/_typed.py": for_python()}


def wrong(name, option, options):
    """What is wrong with a definition."""
    yield from (f"has no field {field}" for field in option.keys() - FIELDS)
    if option.get("takes") not in TAKES:
        yield f"takes {option.get('takes')}"
    if ("words" in option) != (option.get("takes") == "word"):
        yield "has words, or takes one: not both"
    yield from (f"may not be given in {place}" for place in option.get("in", []) if place not in PLACES)
    if not option.get("in") or not option.get("text", "").endswith("."):
        yield "says no place, or no sentence"
    if "lock" in option.get("in", []) and "again" not in option:
        yield "does not say what becomes of it where a lease is entered again"
    if ("only" in option) != ("why" in option):
        yield "takes languages out, and does not say why"
    yield from (f"excludes {other}, which there is not" for other in option.get("excludes", []) if other not in options and other != "once")
    said = " ".join((option.get("text", ""), option.get("more", "")))
    for word in re.findall(r"\{([^}]*)\}", said):
        if word not in options and not re.fullmatch(r"\d+ (?:ms|s|min|h)|[A-Z]\w+", word):
            yield f"says {{{word}}}, which is no option, time or kind of error"


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
    variables = {option["variable"] for option in options.values() if "variable" in option}
    for path in ("core/cli/src/args.rs", "docs/reference/command.md"):
        tell(path, (f"{one} is not there" for one in sorted(variables) if one not in source(path)))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
