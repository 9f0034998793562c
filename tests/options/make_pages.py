"""What is made from core/options.toml for the pages and for tests/FEATURES.md: see definition.py."""

from definition import LANGUAGES, PLACES, about, listed, shown, wanted_names

# What pages call a language, and a place.
LANGUAGE = {"rust": "Rust", "python": "Python", "node": "Node", "c": "C", "cpp": "C++"}
PLACE = {"scope": "a scope", "client": "a client", "lock": "a lock", "election": "an election"}


def default(option):
    value = option.get("default")
    if value is None:
        return "off" if option["takes"] == "nothing" else "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    return shown(value, {}, "page", "page")


def otherwise(option, name):
    """Where it is written in another way."""
    for where, own in option.get("spelled", {}).items():
        language, _, place = where.partition(".")
        yield f"In {LANGUAGE[language]} it is written `{own}`{f' in {PLACE[place]}' if place else ''}."


def says(name, options):
    option = options[name]
    first, rest = about(name, options, "page", "page", default=False)
    parts = [first, rest, "It is the same for all clients of a set." if option.get("of_the_set") else "", *otherwise(option, name), option.get("why", ""),
             f"[More](../{option['page']})." if "page" in option else ""]
    return " ".join(part for part in parts if part).replace("|", "\\|")


def table(options, names):
    variables = any("variable" in options[name] for name in names)
    rows = ["| option | default | in the environment | what it is |", "|---|---|---|---|"] if variables else ["| option | default | what it is |", "|---|---|---|"]
    for name in names:
        variable = f"`{options[name]['variable']}` | " if "variable" in options[name] else "| " if variables else ""
        rows.append(f"| `{name}` | {default(options[name])} | {variable if variables else ''}{says(name, options)} |")
    return "\n".join(rows) + "\n"


def places(options):
    """Where each option may be given, and in which languages where that is not all of them."""
    rows = ["| option | " + " | ".join(PLACES) + " |", "|---" * (len(PLACES) + 1) + "|"]
    for name, option in options.items():
        cells = []
        for place in PLACES:
            has = [language for language in LANGUAGES if name in wanted_names(options, language, place)]
            cells.append("" if place not in option["in"] else "yes" if place == "command" or len(has) == len(LANGUAGES)
                         else listed([LANGUAGE[language] for language in has], "and"))
        rows.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return "\n".join(row.replace("  |", " |") for row in rows) + "\n"


def features(options):
    """Options that one scenario shows in every language."""
    rows = ["| | Rust | Python | asyncio | Node | C | C++ |", "|---" * 7 + "|"]
    for name, option in options.items():
        if "feature" in option:
            rows.append(f"| {option['feature']} |" + f" option-{name.replace('_', '-')} |" * 6)
    return "\n".join(rows) + "\n"


def made(options):
    of_client = [name for name, option in options.items() if "client" in option["in"]]
    of_lock = [name for name, option in options.items() if "lock" in option["in"]]
    page = "docs/reference/options.md"
    yield page, "options of locks", table(options, [name for name in of_lock if name in of_client])
    yield page, "options of one lock", table(options, [name for name in options if name not in of_client])
    yield page, "options of a client", table(options, [name for name in of_client if name not in of_lock])
    yield page, "places", places(options)
    yield "tests/FEATURES.md", "options", features(options)
