"""What is made from core/options.toml for Python: see definition.py."""

import json
import textwrap

from definition import about, milliseconds, spelled, wanted_names

PACKAGE = "py/python/quorlock"
NATIVE = "py/src/options.rs"
# What a checker of types sees of an option in Python, by what it takes. A word has its own.
PYTHON = {"time": "Seconds", "limit": "Seconds | None", "flag": "bool", "count": "int", "slots": "int", "fraction": "float", "text": "str",
          "name": "Name | None", "urls": "str | Iterable[str] | None", "pem": "str | os.PathLike[str] | None"}
# What Python itself makes of a value before the native module gets it, and by what that reads it, where that has another name.
CONVERTED = {"name": "octets", "urls": "urls", "pem": "pem"}
READ = {"time": "seconds", "name": "owner"}


def python_type(option):
    if option["takes"] != "word":
        return PYTHON[option["takes"]]
    # What is on or off may be said by a flag, too.
    return f"Literal[{', '.join(map(json.dumps, option['words']))}]" + (" | bool" if {"on", "off"} <= set(option["words"]) else "")


def by_name(options, place, beside=()):
    """The options that may be given by name in that place and in none of those beside it, as they are spelled there."""
    return {spelled(name, option, "python", place): option for name, option in options.items()
            if name in wanted_names(options, "python", place) and place not in option.get("by_position", ())
            and not any(name in wanted_names(options, "python", other) for other in beside)}


def of_client(options):
    """Those that say where a lock is, among those of a scope."""
    return by_name(options, "scope", ["lock"])


def behind_nodes(options):
    """Those of a client, whose nodes come first and without a name."""
    return {name: option for name, option in by_name(options, "client").items() if option["takes"] != "urls"}


def parameters(found):
    def parameter(option):
        kind = python_type(option)
        # Where `None` means nothing it is as if the option was not given.
        may_be_none = option["takes"] in CONVERTED
        return f"{kind} = None" if may_be_none else f"{kind} | Unset = UNSET"

    return "".join(f"{name}: {parameter(option)},\n" for name, option in found.items())


def passed(found):
    return "".join(f"{name}={name},\n" for name in found)


def explained(options, place, names):
    """What a docstring says of each option."""
    lines = []
    for name, option in options.items():
        if name in names:
            said = " ".join(part for part in about(name, options, "python", place) if part)
            lines += textwrap.wrap(f"- `{spelled(name, option, 'python', place)}`: {said}", 124, subsequent_indent="  ",
                                   break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines) + "\n"


def docstring(head, said, tail):
    return f'"""{head}\n\n{said}\n{tail}\n"""\n'


OF_A_LOCK = ("A lock by its name: 1 to 1,024 bytes. Options not given are the client's; times are in seconds, or a `timedelta`.",
             "Raises `InvalidArgumentError` for a name or option that is not valid.")
OF_A_CLIENT = ("""A set of nodes and the options for its locks.

Connects when first needed and again when connections break. One client serves all threads of a process.

A node's URL is `redis://[user:password@]host[:port][/db]`, `rediss://…`, `redis+unix:///path`,
`redis+sentinel://host:26379;host;host/master` for a master with replicas that sentinels know by that name,
`redis+cluster://host:6379;host` for a Redis Cluster, or `memory://name` for a node in this process. An option that is not given is
read from the environment, where that has it. Those of `lock` are the defaults of its locks. Times are in seconds, or a `timedelta`.""",
               "Raises `InvalidArgumentError`, naming the option, its value and what to give. As a context manager it closes itself.")


def of_locks(options):
    names = wanted_names(options, "python", "lock")
    return docstring(OF_A_LOCK[0], explained(options, "lock", names), OF_A_LOCK[1])


def of_clients(options):
    names = wanted_names(options, "python", "client") - wanted_names(options, "python", "lock")
    return docstring(OF_A_CLIENT[0], explained(options, "client", names), OF_A_CLIENT[1])


def typed(options):
    """The options of what is called in two ways, by one name or by several."""
    text = '"""The options of `redlock` and `once`, for checkers of types. Made from core/options.toml by tests/options/definition.py."""\n\n'
    text += "import os\nfrom collections.abc import Callable, Iterable\nfrom typing import TYPE_CHECKING, Literal, TypedDict\n\n"
    text += "from ._options import Name, Seconds\n\nif TYPE_CHECKING:\n    from . import aio, sync\n"

    def block(name, base, fields, **others):
        kinds = {**others, **{field: python_type(option) for field, option in fields.items()}}
        return f"\n\nclass {name}({base}, total=False):\n" + "".join(f"    {field}: {kind}\n" for field, kind in kinds.items())

    scope, once = by_name(options, "scope", ()), by_name(options, "once")
    both = {name: option for name, option in scope.items() if name in once}
    text += block("OfBoth", "TypedDict", {**of_client(options), **both}, client='"sync.Client | aio.Client | None"')
    text += block("ScopeOptions", "OfBoth", {name: option for name, option in scope.items() if name not in both and name not in of_client(options)},
                  key="Name | Iterable[Name] | Callable[..., Name | Iterable[Name]] | None")
    return text + block("OnceOptions", "OfBoth", {name: option for name, option in once.items() if name not in both}, key="Name | Callable[..., Name] | None")


def converted(options):
    names = {}
    for place in ("client", "lock", "scope"):
        names |= {name: CONVERTED[option["takes"]] for name, option in by_name(options, place).items() if option["takes"] in CONVERTED}
    return "".join(f'"{name}": {convert},\n' for name, convert in names.items())


def bounds(option):
    """The bounds of a time in a message of Python."""
    def said(value):
        return f"{milliseconds(value) / 1000:.15g}" if milliseconds(value) is not None else value

    least = said(option.get("least", "0"))
    return f"{least} to {said(option['most'])}" if "most" in option else f"{least} or more"


def arms(options, places, beside, to, name, value):
    """What the native module reads, as arms of a `match`."""
    text = ""
    for option_name, option in options.items():
        if not any(option_name in wanted_names(options, "python", place) for place in places) or option_name in beside:
            continue
        names = sorted({spelled(option_name, option, "python", place) for place in option["in"] if option_name in wanted_names(options, "python", place)})
        takes = option["takes"]
        given = f"{name}, &{value}"
        if takes in ("time", "limit"):
            given += f", {json.dumps(bounds(option))}"
        elif takes in ("count", "slots"):
            least, most = (int(option.get(bound, other)) for bound, other in (("least", 0), ("most", 2 ** 31 - 1)))
            given += f", {least:_}, {most:_}"
        elif takes == "word":
            given += f", &[{', '.join(map(json.dumps, option['words']))}]"
        # What stands by position is the way to say where it stands.
        setter = option_name if "lock" in option["in"] or "client" in option["in"] else option["by_position"][0]
        text += f"{' | '.join(map(json.dumps, reversed(names)))} => {to}.{setter}({READ.get(takes, takes)}({given})?),\n"
    return text


def respelled(options):
    pairs = {(spelled(name, option, "python", place), name) for name, option in options.items() for place in option["in"]
             if name in wanted_names(options, "python", place)}
    return "".join(f"({json.dumps(own)}, {json.dumps(name)}),\n" for own, name in sorted(pairs) if own != name)


def made(options):
    yield f"{PACKAGE}/_typed.py", None, typed(options)
    client, lock, scope = f"{PACKAGE}/_client.py", by_name(options, "lock"), by_name(options, "scope")
    for path, part, found in (
            (client, "a client", behind_nodes(options)), (client, "a lock", lock), (client, "two modes of a lock", by_name(options, "rwlock")),
            (client, "a semaphore", by_name(options, "semaphore")), (client, "several locks", by_name(options, "several")),
            (client, "an election", by_name(options, "election")), (f"{PACKAGE}/_redlock.py", "once", {**by_name(options, "once"), **of_client(options)}),
            (f"{PACKAGE}/_redlock.py", "a scope with a slot", {**by_name(options, "semaphore"), **of_client(options)}),
            (f"{PACKAGE}/testing.py", "a lock", lock)):
        yield path, f"the options of {part}", parameters(found)
        yield path, f"the options of {part}, passed on", passed(found)
    yield f"{PACKAGE}/_redlock.py", "the options of a scope", parameters(scope)
    yield f"{PACKAGE}/_redlock.py", "what a scope gives to its lock", passed({name: option for name, option in scope.items() if name in lock})
    yield f"{PACKAGE}/_redlock.py", "what a scope gives to its client", passed(of_client(options))
    yield client, "what is said of a lock", of_locks(options)
    yield f"{PACKAGE}/sync.py", "what is said of a client", of_clients(options)
    yield f"{PACKAGE}/_options.py", "what is converted", converted(options)
    both = wanted_names(options, "python", "client") & wanted_names(options, "python", "lock")
    yield NATIVE, "those of a client and a lock", arms(options, ["client"], wanted_names(options, "python", "client") - both, "$to", "$name", "$value")
    yield NATIVE, "those of a client", arms(options, ["client"], both, "to", "name", "value")
    yield NATIVE, "what is spelled otherwise", respelled(options)
    yield NATIVE, "those of a lock", arms(options, ["lock", "once"], both, "to", "name", "value")
