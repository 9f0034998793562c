#!/usr/bin/env python3
"""The pages of docs/reference that are made from the code.

    reference.py            writes them
    reference.py --check    fails where one is not what the code says

The pages of C and C++ come from their headers, those of Rust, Python and Node are the packages' own and, name by name, from their sources and types. Options come from the builders of the core and their defaults, errors from its kinds and the names that each language has for
them, commands from what `quorlock help` prints.
"""

import os
import pathlib
import re
import subprocess
import sys

import api
import headers
from made import put

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "reference"
COMMAND = ROOT / ".venv" / "bin" / "quorlock"
# Where an option has no constant for its default.
NO_CONSTANT = {
    "nodes": "`QUORLOCK_NODES`, else `redis://127.0.0.1:6379`", "restart_guard": "`auto`", "label": "`host:pid`",
    "ca": "what the system trusts", "cert": "none", "key": "none", "on_current_runtime": "off; Rust alone has it", "raw": "off", "layout": "`plain`",
    "group": "empty", "owner": "see above", "shared": "off", "slots": "none",
}
MADE = "<!-- Made from the code by tests/docs/reference.py. -->\n\n"


def source(path):
    return (ROOT / path).read_text(encoding="utf-8")


def documented(text, item):
    """What is said above each item of a source that matches, with the item's name."""
    for found in re.finditer(rf"((?:^ *///.*\n)+)(?:^ *#\[.*\n)*^ *{item}", text, re.MULTILINE):
        if "doc(hidden)" in found[0]:
            continue
        yield found[2], re.sub(r"^ */// ?", "", found[1], flags=re.MULTILINE)


def prose(text):
    """A comment of the code as a cell of a table: links to items of the code without the link."""
    text = re.sub(r"\[(`?[^\]]+`?)\]\((?:crate|Self|Lock|ClientBuilder|super)[^)]*\)", r"\1", text)
    text = re.sub(r"\(docs/([A-Z]+)\.md\)", r"([how](../\1.md))", text)
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n")]
    return "<br>".join(paragraphs).replace("|", "\\|")


def default(value):
    """A constant of Rust as a reader would write it."""
    if found := re.fullmatch(r"Duration::from_(secs|millis)\(([\d_]+)\)", value):
        number = int(found[2].replace("_", ""))
        if found[1] == "millis":
            return f"{number} ms"
        for unit, size in (("h", 3600), ("min", 60)):
            if number % size == 0 and number >= 2 * size or number == 3600 == size:
                return f"{number // size} {unit}"
        return f"{number} s"
    words = {"Duration::ZERO": "0", "true": "on", "false": "off"}
    if value.isdigit() or "_" in value:
        return f"{int(value.replace('_', '')):,}"
    return words.get(value) or value.replace('"', "`")


def options():
    config = source("core/src/config.rs")
    constants = dict(re.findall(r"pub const (\w+): \S+ = ([^;]+);", config))
    shared = documented(config, r"pub fn (\w+)\(self, .*\) -> \$Type")
    lock = ((name, text) for name, text in documented(source("core/src/lock.rs"), r"pub fn (\w+)\((?:mut )?self, .*\) -> Lock")
            if name in ("owner", "shared", "slots"))
    client = ((name, text) for name, text in documented(source("core/src/client/builder.rs"),
                                                        r"pub fn (\w+)(?:<S: [^(]*>)?\((?:mut )?self.*\) -> ClientBuilder"))

    def rows(found):
        for name, text in found:
            value = NO_CONSTANT[name] if name in NO_CONSTANT else default(constants[name.upper()])
            # The default, which ends a comment in the code, has a column of its own here.
            said = re.sub(r"(?<=[.)]) (?:On|Off|Zero|Plain|Empty|[\d,.]+(?: m?s)?|`[^`]+`)\.(?=<br>|$)", "", prose(text))
            yield f"| `{name}` | {value} | {said} |\n"

    def table(found):
        return "| option | default | what it is |\n|---|---|---|\n" + "".join(rows(found)) + "\n"

    return MADE + """# Options

Names are written as in Python, Rust, C and C++; in Node they are in camelCase: `max_ttl` is `maxTtl`. Times are seconds or a `timedelta` in Python,
milliseconds in Node and C, `std::chrono` durations in C++ and `Duration` in Rust. An option that is out of its bounds is refused with
[`InvalidArgument`](errors.md), by a text that names the option, the value, and what to give.

## Of locks

Give them to a client, as the defaults of its locks, to a lock, or to `redlock(…)`. `wait` and, in Python and Node, `label` may be given to
one acquire, too.

""" + table(shared) + """## Of one lock alone

What is acquired by hand has no `owner` unless you give a name; a scope has one: [Whose lock it is](../explanation/owners.md). The last release of an owner
frees the lock.
`slots` is what `client.semaphore(name, slots)` sets.

""" + table(lock) + """## Of a client

`max_ttl`, `set_name` and `restart_guard` must be the same in all clients of a set: [sets](../operations/sets.md). `nodes` is a list, or one text with
commas. In Python's `redlock(…)` the option `key` is written `cert_key`, for `key` is the name there.

In every language a client that is not given one of these reads it from the environment, where that has it: `QUORLOCK_NODES`, `QUORLOCK_MAX_TTL`, `QUORLOCK_CA` and
the others of [this table](command.md#which-nodes).

""" + table(client)


def errors():
    cpp = {constant: name for name, constant in re.findall(r"using (\w+) = error_of<(\w+)>", source("include/quorlock.hpp"))}
    constants = {number: constant for constant, number in re.findall(r"#define (QUORLOCK_\w+) (\d+)$", source("include/quorlock.h"),
                                                                     re.MULTILINE) if constant in cpp}
    python = {number: name for name, number in re.findall(r"class (\w+)\((?:QuorlockError|LockBusyError)(?:(?!^class ).)*?number = (\d+)",
                                                          source("py/python/quorlock/errors.py"), re.DOTALL | re.MULTILINE)}
    node = set(re.findall(r"export class (\w+) extends (?:Quorlock|LockBusy)Error", source("node/src/errors.ts")))
    text = MADE + """# Errors

Errors tell apart what a program does next: *held by another* (`Contended`, `Timeout`), *nodes do not answer* (`QuorumUnavailable`), and
*you no longer hold it* (`LockLost`). One that follows from what nodes answered carries all of their answers: `error.nodes` in Python and
Node, `Error::nodes()` in Rust, `quorlock_error_node` in C. None carries a password or a token.

Kinds have the same number and name in every language, forever. In Rust they are `ErrorKind`, from `error.kind()`. The text of an error
begins with the sentence of its kind, by which errors can be grouped, for the rest names locks, holders and nodes: `error.summary` in Python
and Node, `Error::summary()` in Rust, `quorlock_kind_summary()` in C, `error::summary()` in C++.

"""
    sentences = dict(re.findall(r'ErrorKind::(\w+) => "([^"]+ [^"]+)"', source("core/src/error.rs")))
    body = re.search(r"pub enum ErrorKind \{\n(.*?)\n\}", source("core/src/error.rs"), re.DOTALL)[1]
    for found in re.finditer(r"((?:^ *///.*\n)+)^ *(\w+) = (\d+),", body + "\n", re.MULTILINE):
        what, name, number = re.sub(r"^ */// ?", "", found[1], flags=re.MULTILINE), found[2], found[3]
        constant = constants[number]
        names = [f"C `{constant}`", f"C++ `quorlock::{cpp[constant]}`"]
        if number in python:
            names.insert(0, f"Python `{python[number]}`")
            if python[number] in node:
                names.insert(1, f"Node `{python[number]}`, code `ERR_{constant}`")
        else:
            names[0:0] = ["Python the exception of what cancelled it", "Node the reason of the signal"]
        text += f"## {name}\n\n{prose(what).replace('<br>', chr(10) * 2)}\n\n*{sentences[name]}* · number {number} · {' · '.join(names)}\n\n"
    return text


def printed(*words):
    # As wide as a page, whatever the terminal is.
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    environment = {name: value for name, value in environment.items() if not name.startswith("QUORLOCK_")}
    done = subprocess.run([str(COMMAND), *words], env=environment, capture_output=True, text=True, check=True)
    return "\n".join(line.rstrip() for line in done.stdout.strip().splitlines())


def commands():
    first = printed("help")
    names = re.findall(r"^  ([a-z]+) ", first.partition("Commands:")[2].partition("\n\n")[0], re.MULTILINE)
    text = MADE + f"""# The command, as it prints its help

What it is for, and what is promised, says [the page of the command](command.md).

```text
{first}
```

"""
    for name in names:
        if name != "help":
            text += f"## `{name}`\n\n```text\n{printed('help', name)}\n```\n\n"
    return text


def package(language, path):
    """The page of a package is its README."""
    return MADE + source(path).replace("# quorlock\n", f"# {language}\n", 1).replace("`docs/explanation/waiting.md` of the project", "[waiting](../explanation/waiting.md)")


def rust():
    """The crate's README, with the way to what rustdoc makes, which the site has beside it."""
    name_by_name = '<p><a href="rust-api/quorlock/index.html">Name by name</a>, as rustdoc shows it.</p>\n\n'
    first, _, rest = package("Rust", "core/README.md").partition("\n\n<!-- hidden")
    return f"{first}\n\n{name_by_name}<!-- hidden{rest}"


def features():
    """What all languages can do: that each has a test of it stands in tests/FEATURES.md, which is not for users."""
    rows = re.findall(r"^\| ([^|]+) \|(?:[^|\n]+\|){6}$", source("tests/FEATURES.md"), re.MULTILINE)
    return MADE + """# Features

Rust, Python with and without asyncio, Node, C and C++ can do all of these, and each of them is tested in each of these languages.

""" + "".join(f"- {row[:1].upper()}{row[1:]}.\n" for row in rows if row.strip("-"))


# Beside findings, exit codes, errors and alerts: the pages that messages send to, by the word for them.
EXPLAINED = {"clusters": "cluster", "deploy": "deploy", "permissions": "acl-and-tls", "sentinel": "sentinel", "servers": "servers", "sets": "sets",
             "sizes": "sizes"}


def unmarked(text):
    """A page for a terminal: without comments, pictures, and where links lead."""
    text = re.sub(r"<!--.*?-->\n?", "", text, flags=re.DOTALL)
    text = re.sub(r"^!\[.*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def explained():
    """What `quorlock explain` prints: entries that begin with a line `== NAME`."""
    runbooks = ROOT / "docs" / "operations" / "runbooks"
    entries = {}
    for page in ("operations/runbooks/findings.md", "reference/errors.md"):
        for section in re.split(r"^## ", source(f"docs/{page}"), flags=re.MULTILINE)[1:]:
            name, _, text = section.partition("\n")
            entries[name.strip()] = unmarked(text)
    heads = ("of", "it means", "do", "do not")
    for row in re.findall(r"^\| (\d+) \|(.*)\|$", source("docs/operations/runbooks/exit-codes.md"), re.MULTILINE):
        cells = [unmarked(cell) for cell in row[1].split("|")]
        entries[row[0]] = "\n".join(f"{head}: {cell}" for head, cell in zip(heads, cells, strict=True) if cell)
    for alert in sorted(runbooks.glob("Quorlock*.md")):
        entries[alert.stem] = unmarked(alert.read_text(encoding="utf-8"))
    for word, page in EXPLAINED.items():
        entries[word] = unmarked(source(f"docs/operations/{page}.md"))
    return "Made from the pages by tests/docs/reference.py.\n" + "".join(f"\n== {name}\n{text}\n" for name, text in entries.items())


MAKERS = {
    "options": options, "errors": errors, "commands": commands, "features": features,
    "c": lambda: MADE + headers.c_page(source("include/quorlock.h")),
    "cpp": lambda: MADE + headers.cpp_page(source("include/quorlock.hpp")),
    "python": lambda: package("Python", "py/README.md"),
    "node": lambda: package("Node", "node/README.md"),
    "rust": rust,
    "python-api": lambda: MADE + api.python(), "node-api": lambda: MADE + api.node(),
}


def main():
    files = {PAGES / f"{name}.md": made().rstrip() + "\n" for name, made in MAKERS.items()}
    files[ROOT / "core/cli/src/explain.txt"] = explained()
    return put(files, "--check" in sys.argv[1:], "run tests/docs/reference.py")


if __name__ == "__main__":
    sys.exit(main())
