"""What is made from core/vocabulary.toml, in every language and on the pages: see vocabulary.py."""

import json
import re
import textwrap

from definition import listed, spoken


def upper(name):
    """A name as a constant of C has it."""
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).upper()


def camel(name):
    return re.sub(r"_(.)", lambda found: found[1].upper(), name)


def pascal(name):
    return camel(f"_{name}")


def error_class(name, error, language):
    """How the language calls errors of a kind; nothing where it has none, and says why."""
    own = error.get(language, upper(name).lower() if language == "cpp" else f"{name}Error")
    return None if " " in own else own


def plain(text):
    """A text without the marks of Markdown."""
    return re.sub(r"\[(.*?)\]\(.*?\)", r"\1", text).replace("`", "")


def small(text):
    """A sentence as a part of one, or as a cell of a table."""
    return text[:1].lower() + text[1:].removesuffix(".") if not text[:2].isupper() else text.removesuffix(".")


def doc(text, mark, width=100, indent=0):
    """A comment of whole lines, each behind that mark."""
    paragraphs = [textwrap.wrap(part, width - indent - len(mark) - 1, break_long_words=False, break_on_hyphens=False)
                  for part in text.split("\n\n")]
    lines = [line for lines in paragraphs for line in ["", *lines]][1:]
    return "".join(f"{mark} {line}".rstrip() + "\n" for line in lines)


def braced(text, indent=0, width=130):
    """A comment of TypeScript."""
    if len(text) + indent + 7 <= width:
        return f"/** {text} */\n"
    return "/**\n" + doc(text, " *", width, indent) + " */\n"


def indented(text, by=4):
    return textwrap.indent(text, " " * by)


def table(*rows):
    first, *rest = (f"| {' | '.join(row)} |".replace("|  |", "| |") for row in rows)
    return "\n".join(["", first, "|---" * len(rows[0]) + "|", *rest, "", ""])


def errors(kinds, options):
    def says(error, language):
        return spoken(error.get("says", {}).get(language, error["text"]), options, language, "client")

    path = "core/src/error.rs"
    members = (doc("\n\n".join([says(error, "rust"), *filter(None, [error.get("more")])]), "///", 96) + f"{name} = {error['number']},\n"
               for name, error in kinds.items())
    yield path, "kinds", "".join(members)
    all_of = "".join(f"ErrorKind::{name},\n" for name in kinds)
    names = "".join(f'ErrorKind::{name} => "{name}",\n' for name in kinds)
    summaries = "".join(f"ErrorKind::{name} => {json.dumps(error['summary'])},\n" for name, error in kinds.items())
    yield path, "lists of kinds", f"""impl ErrorKind {{
    /// Every kind, in the order of their numbers. Bindings map all of them.
    pub const ALL: &'static [ErrorKind] = &[
{indented(all_of, 8)}    ];

    /// The kind's name, as in the documentation: `"QuorumUnavailable"`.
    pub const fn name(self) -> &'static str {{
        match self {{
{indented(names, 12)}        }}
    }}

    /// What it means in one sentence, without its full stop: what every message of the kind
    /// begins with, and errors can be grouped by, for the rest names locks and holders.
    pub const fn summary(self) -> &'static str {{
        match self {{
{indented(summaries, 12)}        }}
    }}
}}
"""
    yield "ffi-c/src/kind.rs", "codes", "".join(
        f"{doc(plain(says(error, 'c')), '///', 88)}pub const QUORLOCK_{upper(name)}: i32 = {error['number']};\n" for name, error in kinds.items())

    path, constants = "include/quorlock.hpp", {name: f"QUORLOCK_{upper(name)}" for name in kinds}
    yield path, "kinds", "".join(f"{upper(name).lower()} = {constant},\n" for name, constant in constants.items())
    yield path, "errors by their kinds", "".join(
        f"using {error_class(name, kinds[name], 'cpp')} = error_of<{constant}>;\n" for name, constant in constants.items())
    yield path, "kinds that are thrown", "".join(f"QUORLOCK_RAISE({constant});\n" for constant in constants.values())

    path, classes = "py/python/quorlock/errors.py", {name: one for name, error in kinds.items() if (one := error_class(name, error, "python"))}
    yield path, "names", "".join(f"{json.dumps(name)},\n" for name in sorted([*classes.values(), "QuorlockError", "LockBusyError"]))
    text = ""
    for name, one in classes.items():
        error, lines = kinds[name], textwrap.wrap(says(kinds[name], "python"), 127, break_on_hyphens=False)
        bases = ", ".join(error.get("bases", []) if "LockBusyError" in error.get("bases", []) else ["QuorlockError", *error.get("bases", [])])
        text += f"class {one}({bases}):\n" + indented(f'"""{chr(10).join(lines)}' + ("\n" if lines[1:] else "") + '"""\n\n')
        text += f'    kind = "{name}"\n    summary = {json.dumps(error["summary"])}\n    number = {error["number"]}\n\n\n'
    rows = "".join(f"        {one},\n" for one in classes.values())
    yield path, "classes", f"{text}_CLASSES: dict[int, type[QuorlockError]] = {{\n    each.number: each\n    for each in (\n{rows}    )\n}}\n"

    path, classes = "node/src/errors.ts", {name: one for name, error in kinds.items() if (one := error_class(name, error, "node"))}
    bases = {name: "LockBusyError" if "LockBusyError" in kinds[name].get("bases", []) else "QuorlockError" for name in classes}
    yield path, "classes", "\n".join(f"{braced(says(kinds[name], 'node'))}export class {one} extends {bases[name]} {{}}\n" for name, one in classes.items())
    yield path, "meanings", "".join(
        f'[{one}, {kinds[name]["number"]}, "{name}", "{upper(name)}", {json.dumps(kinds[name]["summary"])}],\n' for name, one in classes.items())


def losses(reasons, options):
    path, numbers = "core/src/protocol/loss.rs", {name: number for number, name in enumerate(reasons, 1)}
    said = {name: spoken(text, options, "rust", "client") for name, text in reasons.items()}
    yield path, "reasons", "".join(f"{doc(said[name], '///', 96)}{pascal(name)},\n" for name in reasons)
    all_of = "".join(f"LossReason::{pascal(name)},\n" for name in reasons)
    arms = [indented("".join(f"LossReason::{pascal(name)} => {value(name)},\n" for name in reasons), 12)
            for value in (numbers.get, json.dumps)]
    words = doc(f"The reason as a word: {', '.join(f'`{name}`' for name in reasons)}.", "    ///", 100)
    yield path, "lists of reasons", f"""impl LossReason {{
    /// Every reason, in the order of their numbers.
    pub const ALL: &'static [LossReason] = &[
{indented(all_of, 8)}    ];

    /// The reason's number, the same forever.
    pub const fn number(self) -> i32 {{
        match self {{
{arms[0]}        }}
    }}

{words}    pub const fn as_str(self) -> &'static str {{
        match self {{
{arms[1]}        }}
    }}
}}

/// The words, for a message.
const WORDS: &str = {json.dumps(listed(list(reasons), "or"))};
"""
    yield "ffi-c/src/lease.rs", "reasons", "".join(
        doc(plain(f"Lost: {small(spoken(text, options, 'c', 'client'))}."), "///", 88) + f"pub const QUORLOCK_LEASE_{name.upper()}: i32 = {numbers[name]};\n"
        for name, text in reasons.items())
    yield "include/quorlock.hpp", "reasons", "".join(f"{name} = QUORLOCK_LEASE_{name.upper()},\n" for name in reasons)


def counters(counts):
    path = "core/src/stats.rs"
    fields = {mark: "".join(f"{doc(plain(text) if mark == 'c' else text, '///', 96 if mark == 'rust' else 88)}pub {name}: u64,\n" for name, text in counts.items())
              for mark in ("rust", "c")}
    yield path, "counts", fields["rust"]
    mutable = indented("".join(f"&mut self.{name},\n" for name in counts), 12)
    named = indented("".join(f'("{name}", self.{name}),\n' for name in counts), 12)
    yield path, "lists of counts", f"""impl Stats {{
    /// In the order of [`named`](Stats::named).
    fn all_mut(&mut self) -> [&mut u64; {len(counts)}] {{
        [
{mutable}        ]
    }}

    /// For bindings: the counts with their names.
    #[doc(hidden)]
    pub fn named(&self) -> [(&'static str, u64); {len(counts)}] {{
        [
{named}        ]
    }}
}}
"""
    yield "ffi-c/src/client.rs", "counts", fields["c"]
    yield "node/src/client.ts", "counts", "".join(f"{braced(text, 2)}readonly {camel(name)}: number;\n" for name, text in counts.items())
    yield "tests/consumers/node/typed.ts", "counts", "".join(f"{camel(name)}: true,\n" for name in counts)
    yield "tests/c/scenario.c", "counts", "".join(f'{{"{name}", stats.{name}}},\n' for name in counts)
    yield "tests/cpp/scenario.cpp", "counts", "".join(f'{{"{name}", s.{name}}},\n' for name in counts)
    rows = ((f"`{name}`", small(text)) for name, text in counts.items())
    yield "docs/operations/metrics.md", "counts of a client", table(("count", "what it is"), *rows)


def pages(vocabulary):
    def measured(of):
        for name, one in vocabulary[of].items():
            labels = ", ".join(f"`{label}`" for label in one.get("labels", []))
            yield f"`{name}`", one["type"], labels, small(one["text"]) + one.get("more", "")

    head = ("name", "type", "labels", "what it is")
    for of, part in (("metrics", "metrics of a process"), ("run_metrics", "metrics of a run")):
        yield "docs/operations/metrics.md", part, table(head, *measured(of))
    found = ((name, ", ".join(one["severity"]), one["text"], one["do"]) for name, one in vocabulary["findings"].items())
    yield "docs/operations/doctor.md", "findings", table(("id", "", "what", "do"), *found)
    alone = {"python": "Python", "node": "Node"}
    lines = ((f"`{name}`", f"`` {one['text']} ``" if "`" in one["text"] else f"`{one['text']}`",
              "" if "core" in (told := one.get("in", ["core"])) else listed([alone[language] for language in told], "and"))
             for name, one in sorted(vocabulary["events"].items()))
    yield "docs/operations/log.md", "events", table(("event", "line", "only in"), *lines)
    health = ((f"`{word}`", means) for word, means in vocabulary["words"]["health"].items() if word != "of")
    yield "docs/operations/doctor.md", "health", table(("health", "means"), *health)


def made(vocabulary, options):
    yield from errors(vocabulary["errors"], options)
    yield from losses(vocabulary["losses"], options)
    yield from counters(vocabulary["counters"])
    yield from pages(vocabulary)
