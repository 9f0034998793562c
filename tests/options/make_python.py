"""What is made from core/options.toml for Python: see definition.py."""

import json

from definition import spelled, wanted_names

# What a checker of types sees of an option in Python, by what it takes. A word has its own.
PYTHON = {"time": "Seconds", "limit": "float | None", "flag": "bool", "count": "int", "slots": "int", "fraction": "float", "text": "str",
          "name": "Name | None", "urls": "str | Iterable[str] | None", "pem": "str | os.PathLike[str] | None"}


def python_type(name, option):
    if option["takes"] != "word":
        return PYTHON[option["takes"]]
    # What is on or off may be said by a flag, too.
    return f"Literal[{', '.join(map(json.dumps, option['words']))}]" + (" | bool" if {"on", "off"} <= set(option["words"]) else "")


def typed(options):
    """The options of the callables that take them by `**`."""
    text = '"""The options of what takes them by `**`, for checkers of types. Made from core/options.toml by tests/options/definition.py."""\n\n'
    text += "import os\nfrom collections.abc import Callable, Iterable\nfrom typing import TYPE_CHECKING, Any, Literal, TypedDict\n\n"
    text += "from ._options import Name, Seconds\n\nif TYPE_CHECKING:\n    from . import aio, sync\n"

    def block(name, base, fields):
        body = "".join(f"    {field}: {kind}\n" for field, kind in fields) or "    pass\n"
        return f"\n\nclass {name}({base}, total=False):\n{body}"

    def of(place):
        return [(spelled(name, option, "python", place), python_type(name, option)) for name, option in options.items()
                if name in wanted_names(options, "python", place) and place not in option.get("by_position", ())]

    text += block("SemaphoreOptions", "TypedDict", of("semaphore"))
    text += block("RWLockOptions", "TypedDict", of("rwlock"))
    text += block("SeveralOptions", "TypedDict", of("several"))
    where = [one for one in of("scope") if one[0] not in dict(of("lock"))]
    text += block("WhereOptions", "TypedDict", [("client", '"sync.Client | aio.Client | None"'), *where])
    text += block("ScopeOptions", "WhereOptions", [
        ("key", "Name | Iterable[Name] | Callable[..., Name | Iterable[Name]] | None"), *(one for one in of("scope") if one not in where)])
    text += block("ScopeOfSlotsOptions", "WhereOptions", of("semaphore"))
    text += block("OnceOptions", "WhereOptions", [
        ("key", "Name | Callable[..., Name] | None"), *of("once")])
    return text.replace(", Any, ", ", ")


def made(options):
    yield "py/python/quorlock/_typed.py", None, typed(options)
