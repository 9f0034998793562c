#!/usr/bin/env python3
"""What is said by name in every language: makes lists and tables from core/vocabulary.toml, and compares the others with it.

    vocabulary.py            tells each place that differs, then that each is told where a name of it is misspelt; ends with `N passed, M failed`
    vocabulary.py --write    writes what is made, by make_vocabulary.py

A place has the names that are wanted there, and finds those that are, in the text of its files: the same ones, in the same order, at least those, or some
of them.
"""

import ast
import functools
import json
import pathlib
import re
import sys
import tomllib
from dataclasses import dataclass

import definition
import make_vocabulary
from make_vocabulary import camel, error_class, upper

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEFINITION = ROOT / "core" / "vocabulary.toml"
SAME, ORDERED, AT_LEAST, AMONG = "same", "in this order", "at least", "among"
# Of each sort, what an entry has to have, and what it may have.
FIELDS = {
    "errors": ({"number", "summary", "text"}, {"more", "bases", "says", "python", "node", "cpp"}),
    "findings": ({"severity", "text", "do"}, set()),
    "metrics": ({"type", "text"}, {"labels", "more"}),
    "run_metrics": ({"type", "labels", "text"}, {"more"}),
    "events": ({"text"}, {"in"}),
    "things": ({"text", "fields"}, {"also", "rust", "extension", "c", "cpp", "command"}),
}


def read():
    return tomllib.loads(DEFINITION.read_text(encoding="utf-8"))


@functools.cache
def source(path):
    return (ROOT / path).read_text(encoding="utf-8")


@dataclass
class Place:
    what: str
    paths: str | list
    wanted: list
    found: object
    how: str = SAME

    def text(self):
        """What its files say; of many without the tests in them."""
        return source(self.paths) if isinstance(self.paths, str) else "\n".join(source(path).split("\nmod tests {")[0] for path in self.paths)

    def wrong(self, text):
        """How what the text has differs from what is wanted."""
        try:
            has = list(self.found(text))
        except (KeyError, ValueError, SyntaxError) as error:
            yield f"it cannot be read: {error!r}"
            return
        if not has and self.wanted:
            yield "none of them is found"
            return
        if self.how != AMONG:
            yield from (f"{one} is not there" for one in self.wanted if one not in has)
        if self.how != AT_LEAST:
            yield from (f"{one} is not in core/vocabulary.toml" for one in has if one not in self.wanted)
        if self.how == ORDERED and has != self.wanted and set(has) == set(self.wanted):
            yield f"the order is {', '.join(has)}"

    def misspelt(self):
        """The text with each name of it misspelt, by the name."""
        text = self.text()
        for one in self.wanted if self.how != AMONG else dict.fromkeys(self.found(text)):
            name = one.split()[0]
            yield name, re.sub(rf"(?<![A-Za-z]){re.escape(name)}(?![A-Za-z])", f"{name}x", text)


def files(folder, ending):
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob(f"*{ending}"))


def first(pattern, text):
    """What the pattern has found; nothing where it finds nothing, which a place then tells."""
    found = re.search(pattern, text, re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def words(text, marks='`"'):
    """The words of a text that stand in such marks."""
    return re.findall(rf"[{marks}]([A-Za-z_]\w*)[{marks}]", text)


def rows(text):
    """The words that the rows of tables begin with."""
    return re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)


# ---- what a language has of a thing


def rust_fields(name):
    def found(text):
        text = text.split("\nmod tests {")[0]
        body = first(rf"^pub struct {name} \{{\n(.*?)^\}}", text)
        methods = "".join(re.findall(rf"^impl {name} \{{\n(.*?)^\}}", text, re.MULTILINE | re.DOTALL))
        return re.findall(r"^    pub (\w+):", body, re.MULTILINE) or re.findall(r"^    pub fn (\w+)\(&self\)", methods, re.MULTILINE)

    return found


def class_of(text, name):
    return next((one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.ClassDef) and one.name == name), ast.ClassDef(name, body=[]))


def python_fields(name):
    return lambda text: [part.target.id for part in class_of(text, name).body if isinstance(part, ast.AnnAssign)]


def python_words(name, field):
    def found(text):
        [kind] = [part.annotation for part in class_of(text, name).body if isinstance(part, ast.AnnAssign) and part.target.id == field]
        if isinstance(kind, ast.Name):
            [kind] = [part.value for part in ast.parse(text).body if isinstance(part, ast.Assign) and part.targets[0].id == kind.id]
        return [one.value for one in ast.walk(kind) if isinstance(one, ast.Constant) and isinstance(one.value, str)]

    return found


def node_body(text, name):
    return first(rf"^export interface {name} \{{\n(.*?)^\}}", text)


def node_fields(name):
    return lambda text: re.findall(r"^  readonly (\w+):", node_body(text, name), re.MULTILINE)


def node_words(name, field):
    return lambda text: words(first(rf"^  readonly {field}: ([^;]*);", node_body(text, name)), '"')


def native_fields(name):
    return lambda text: re.findall(r"^    pub (\w+):", first(rf"^pub struct {name} \{{\n(.*?)^\}}", text), re.MULTILINE)


def without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)


def c_fields(name):
    return lambda text: re.findall(r"(\w+);$", without_comments(first(rf"^typedef struct {name} \{{\n(.*?)^\}}", text)), re.MULTILINE)


def c_functions(of, without):
    return lambda text: [name for name in re.findall(rf"^\S.*\b{of}_(\w+)\(", without_comments(text), re.MULTILINE) if name not in without]


def cpp_fields(name):
    def found(text):
        body = without_comments(first(rf"^struct {name} \{{\n(.*?)^\}};", text))
        while "<" in body:
            body = re.sub(r"<[^<>]*>", "", body)
        for statement in body.split(";"):
            kind, _, members = statement.strip().partition(" ")
            if members and kind != "using":
                yield from (re.match(r"\w+", member.strip())[0] for member in members.split(","))

    return found


def told_above(pattern):
    """The words in quotes of the comment above a line of C, C++ or Rust."""
    comment = rf"((?:^ *(?:/\*\*|\*|///)[^\n]*\n)+){pattern}"
    return lambda text: words(first(comment, text))


def schema(*path):
    def found(text):
        there = json.loads(text)["$defs"]
        for part in path:
            there = there[part]
        return [one for one in there if one is not None]

    return found


# ---- places


def of_errors(kinds):
    classes = {language: [one for name, error in kinds.items() if (one := error_class(name, error, language))] for language in ("python", "node")}
    bases = ["QuorlockError", "LockBusyError"]
    numbered = [f"QUORLOCK_{upper(name)} {error['number']}" for name, error in kinds.items()]
    yield Place("codes of the header", "include/quorlock.h", numbered,
                lambda text: re.findall(r"^#define (QUORLOCK_(?!ABI_|LEASE_|VERDICT_|HEALTH_|\w+_(?:AUTO|ON|OFF)\b)\w+ \d+)$", text, re.MULTILINE), AT_LEAST)
    yield Place("exceptions that the package of Python has", "py/python/quorlock/__init__.py", classes["python"] + bases,
                lambda text: re.findall(r'^    "(\w+Error)",', text, re.MULTILINE))
    yield Place("errors that the package of Node has", "node/src/index.ts", classes["node"] + bases, lambda text: re.findall(r"^  (\w+Error),", text, re.MULTILINE))
    yield Place("kinds of the page of errors", "docs/reference/errors.md", list(kinds), lambda text: re.findall(r"^## (\w+)$", text, re.MULTILINE))


def of_losses(reasons):
    names = list(reasons)
    yield Place("reasons of the header", "include/quorlock.h", [f"QUORLOCK_LEASE_{name.upper()} {number}" for number, name in enumerate(reasons, 1)],
                lambda text: re.findall(r"^#define (QUORLOCK_LEASE_\w+ [1-9]\d*)$", text, re.MULTILINE))
    yield Place("reasons of Node", "node/src/loss.ts", names, lambda text: words(first(r"^export type LossReason = (.*?);", text), '"'), ORDERED)
    yield Place("reasons of Python", "py/python/quorlock/testing.py", names, lambda text: words(first(r"^Reason = Literal\[(.*?)\]", text), '"'), ORDERED)
    yield Place("reasons of `lost_reason`", "py/python/quorlock/_lease.py", names, lambda text: words(first(r'"""Why it was lost: (.*?);', text), '"'), ORDERED)
    for event in ("ending", "lost"):
        yield Place(f"reasons of the command, {event}", "docs/cli.schema.json", names, lambda text, event=event: [
            word for one in json.loads(text)["$defs"]["run"]["oneOf"] if one["properties"]["event"]["const"] == event
            for word in one["properties"]["reason"].get("enum", ())])
    yield Place("reasons of the page of metrics", "docs/operations/metrics.md", names, lambda text: words(first(r"^.*`reason` of a loss: (.*?)\n\n", text)))
    meant = first(r'quorlock_lost_total\{reason!~"(.*?)"', source("docs/operations/alerts.yml")).split("|")
    yield Place("reasons of the runbook", "docs/operations/runbooks/QuorlockLost.md", [name for name in names if name not in meant], rows)
    yield Place("reasons of scenarios", "tests/scenarios/README.md", [*names, "none"], lambda text: words(first(r"^\| `lost X MS` (.*?)$", text)))


def of_counters(counts):
    names = list(counts)
    yield Place("counts of the header", "include/quorlock.h", names, c_fields("quorlock_stats_t"), ORDERED)
    yield Place("counts of Python", "py/python/quorlock/_client.py", names,
                lambda text: re.findall(r"`(\w+)`(?=[:,])", first(r'"""What has happened so far: counts by name\.(.*?)"""', text)))
    yield Place("counts of the page on waiting", "docs/explanation/waiting.md", names,
                lambda text: rows(first(r"^What `stats` of a client tells(.*?)^##", text)), AMONG)


# Where words stand beside the types of Python and Node: the enumeration of the core, or the comment above what gives them.
ENUMS = {
    "verdict": ("core/src/inspect.rs", r"Verdict::\w+ => \"(\w+)\""), "health": ("core/src/report.rs", r"Health::\w+ => \"(\w+)\""),
    "severity": ("core/src/report.rs", r"Severity::\w+ => \"(\w+)\""), "state": ("core/src/inspect.rs", r"(?:Standing::\w+ =>|state:) \"(\w+)\""),
    "outcome": ("core/src/protocol/measures.rs", r"Outcome::\w+ => \"(\w+)\""),
    "release": ("core/src/node/admission/flavor.rs", r"DeleteByValue::\w+ => \"(\w+)\""), "record": ("core/src/client/findings/node.rs", r"^ +(?:report\.record = |record: )?\"([a-z]+)\"[,;]?$"),
    "run_outcome": ("core/cli/src/voice/metrics.rs", None), "mode": ("core/src/protocol/group.rs", None),
}
FILES = {"Inspection": ("inspect", "inspection"), "NodeView": ("inspect", "inspection"), "Holder": ("inspect", "inspection"), "Forced": ("force", "inspection"),
         "Probe": ("report", "probe"), "NodeReport": ("report", "probe"), "Finding": ("report", "probe")}
SCHEMAS = {"Inspection": ("inspect",), "Holder": ("inspect", "properties", "holder", "oneOf", 1), "NodeView": ("inspect", "properties", "nodes", "items"),
           "Forced": ("release",), "Probe": ("doctor",), "NodeReport": ("node",), "Finding": ("finding",)}


def of_words(sorts):
    for sort, entries in sorts.items():
        names = [name for name in entries if name != "of"]
        path, pattern = ENUMS.get(sort, (None, None))
        if pattern:
            yield Place(f"words of {sort} in the core", path, names, lambda text, pattern=pattern: re.findall(pattern, text, re.MULTILINE))
        elif path:
            yield Place(f"words of {sort} in the core", path, names, lambda text: words(first(r"^const (?:OUTCOMES|MODES)(.*?);\n", text), '"'))
        if "of" not in entries:
            continue
        thing, field = entries["of"].split(".")
        core, file = FILES[thing]
        yield Place(f"words of {sort} in Python", f"py/python/quorlock/_{file}.py", names, python_words(thing, field))
        yield Place(f"words of {sort} in Node", f"node/src/{file}.ts", names, node_words(thing, field))
        yield Place(f"words of {sort} in what the command prints", "docs/cli.schema.json", names, schema(*SCHEMAS[thing], "properties", field, "enum"))
        if sort in ("verdict", "health"):
            yield Place(f"words of {sort} in the header", "include/quorlock.h", [f"QUORLOCK_{sort.upper()}_{name.upper()} {number}" for number, name in enumerate(names, 1)],
                        lambda text, sort=sort: re.findall(rf"^#define (QUORLOCK_{sort.upper()}_\w+ \d+)$", text, re.MULTILINE))
            yield Place(f"words of {sort} in C++", "include/quorlock.hpp", [f"{name} QUORLOCK_{sort.upper()}_{name.upper()}" for name in names],
                        lambda text, sort=sort: [" ".join(one) for one in re.findall(rf"^    (\w+) = (QUORLOCK_{sort.upper()}_\w+),", text, re.MULTILINE)])
            continue
        yield Place(f"words of {sort} in C", "include/quorlock.h", names, told_above(rf"^  const char \*{field};"), AT_LEAST)
        yield Place(f"words of {sort} in C++", "include/quorlock.hpp", names, told_above(rf"^    std::string {field}\b"), AT_LEAST)
        if sort != "severity":
            yield Place(f"words of {sort} in Rust", f"core/src/{core}.rs", names, told_above(rf"^    pub (?:fn )?{field}\b"), AT_LEAST)
    page = "docs/operations/metrics.md"
    for sort, pattern in (("outcome", r"^`outcome` of an acquire: (.*?)\. Entering"), ("run_outcome", r"^`outcome` of a run: (.*?)\. Of a job"),
                          ("mode", r"^`mode` is how the lock was asked for: (.*?)\. A\b")):
        told = lambda text, pattern=pattern: [word for word in words(first(pattern, text)) if word != "max_waiters"]  # noqa: E731
        yield Place(f"words of {sort} on the page of metrics", page, list(sorts[sort]), told)
    for path in ("py/python/quorlock/otel.py", "node/src/opentelemetry.ts", "docs/operations/tracing.md"):
        yield Place(f"words of outcome in {path}", path, list(sorts["outcome"]), words, AT_LEAST)


# How each of them is called, in C as a structure or by functions, in C++, and the tuple by which Python has it from the core.
C = {"Holder": c_fields("quorlock_holder_t"), "NodeView": c_fields("quorlock_node_view_t"), "Inspection": c_functions("quorlock_inspection", {"free"}),
     "Finding": c_fields("quorlock_finding_t"), "NodeReport": c_fields("quorlock_node_report_t"),
     "Probe": lambda text: [*c_fields("quorlock_set_report_t")(text), *c_functions("quorlock_probe", {"free", "set"})(text)], "Forced": lambda text: []}


def tuples(begin, end, pattern):
    """What a tuple of the extension has, in its order."""
    def found(text):
        parts = [next(filter(None, one)) if isinstance(one, tuple) else one for one in re.findall(pattern, first(f"{begin}(.*?){end}", text), re.MULTILINE)]
        return list(dict.fromkeys(parts))

    return found


TUPLES = {
    "Holder": ("inspection", tuples(r"fn parts", r"^\}", r"holder\.(\w+)\(")),
    "NodeView": ("inspection", tuples(r"\|node\| \{", r"collect", r"node\.(\w+)\(")),
    "Inspection": ("inspection", tuples(r"let slots = slots\.collect", r"into_py_any", r"self\.(\w+)\(|^ +(nodes|slots),$")),
    "Forced": ("inspection", tuples(r"for Forced", r"^\}", r"\(self\.(\w+)\(\)\.clone|, (\w+)\)\.into_py_any")),
    "Finding": ("probe", tuples(r"^fn findings", r"^\}", r"f\.(\w+)")),
    "NodeReport": ("probe", tuples(r"let is = ", r"into_py_any", r"report\.(\w+)|clock\.(error_\w+)")),
    "Probe": ("probe", tuples(r"let nodes: PyResult[^;]*;", r"into_py_any", r"self\.(\w+)|^ +(nodes)\?,$")),
}


def of_things(things):
    for name, thing in things.items():
        core, file = FILES[name]
        names = list(thing["fields"])

        def wanted(language, spelled=lambda one: one, thing=thing, names=names):
            own = thing.get(language, {})
            return [each for one in names if not isinstance(own.get(one), str) for each in own.get(one, [spelled(one)])] + thing.get("also", {}).get(language, [])

        of = name[0].lower() + re.sub("([A-Z])", lambda found: f"_{found[1].lower()}", name[1:])
        yield Place(f"{name} of Rust", f"core/src/{core}.rs", wanted("rust"), rust_fields(name))
        yield Place(f"{name} of Python", f"py/python/quorlock/_{file}.py", wanted("python"), python_fields(name), ORDERED)
        yield Place(f"{name} of Python's extension", f"py/src/{TUPLES[name][0]}.rs", wanted("extension"), TUPLES[name][1], ORDERED)
        yield Place(f"{name} of Node", f"node/src/{file}.ts", wanted("node", camel), node_fields(name))
        native = [one for one in wanted("node") if (name, one) != ("Inspection", "name")]
        yield Place(f"{name} of Node's addon", f"node/native/{file}.rs", native, native_fields(name))
        yield Place(f"{name} of C", "include/quorlock.h", wanted("c"), C[name])
        yield Place(f"{name} of C++", "include/quorlock.hpp", wanted("cpp"), cpp_fields(of))
        yield Place(f"{name} of the command", "docs/cli.schema.json", wanted("command"), schema(*SCHEMAS[name], "properties"))
        yield Place(f"{name} of the command, always there", "docs/cli.schema.json", wanted("command"), schema(*SCHEMAS[name], "required"))


def severities(text):
    """The findings of the core with how grave they may be. That stands before the id, or in a function that makes them for others."""
    found = {}
    for part in re.split(r"^(?=(?:pub(?:\(\w+\))? )?(?:fn|const) )", text, flags=re.MULTILINE):
        ids = [(one[0].strip('"'), one.start()) for one in re.finditer(r'"QD\d\d"', part)]
        grave = [(one[1].lower(), one.start()) for one in re.finditer(r"Severity::(\w+)", part)]
        for name, at in ids:
            before = [word for word, place in grave if place < at][-1:]
            these = [word for word, _ in grave] if len({name for name, _ in ids}) == 1 else before or [word for word, _ in grave[:1]] or ["error"]
            found.setdefault(name, set()).update(these)
    return [f"{name} {' '.join(sorted(words))}" for name, words in sorted(found.items())]


def of_findings(findings):
    core = ["core/src/node/admission/flavor.rs", *(f"core/src/client/findings/{part}.rs" for part in ("node", "stopped", "crowded", "set"))]
    yield Place("findings of the core", core, [f"{name} {' '.join(sorted(one['severity']))}" for name, one in findings.items()], severities)
    everywhere = [*files("core", ".rs"), *files("docs", ".md"), *files("py/python", ".py"), *files("node/src", ".ts"), "include/quorlock.hpp"]
    yield Place("findings that are named anywhere", everywhere, list(findings), lambda text: dict.fromkeys(re.findall(r"\bQD\d\w*", text)), AMONG)
    yield Place("findings of the runbook", "docs/operations/runbooks/findings.md", list(findings), lambda text: re.findall(r"^## (\w+)\n\n\S", text, re.MULTILINE), ORDERED)


def of_explain(vocabulary):
    said = "\n".join(map(source, [*files("core", ".rs"), *files("docs", ".md"), *files("docs", ".yml"), *files("py/python", ".py"), *files("node/src", ".ts")]))
    asked = {word for word in re.findall(r"quorlock explain (\w+)", said) if word not in ("ID", "WHAT")}
    yield Place("what `quorlock explain` knows", "core/cli/src/explain.txt", sorted({*vocabulary["errors"], *vocabulary["findings"], *asked}),
                lambda text: re.findall(r"^== (\S+)$", text, re.MULTILINE), AT_LEAST)


def metrics(text):
    flat = re.sub(r"\s+", " ", text)
    for one in re.finditer(r'"(quorlock_\w+)"', flat):
        kinds = re.findall(r'"(gauge|counter|histogram)"', flat[one.end():])
        kind = "histogram" if flat[: one.start()].endswith("times( ") else kinds[0] if kinds else ""
        told = [said for said in re.findall(r'"((?:[^"\\]|\\.)*)"', flat[one.end():]) if said != kind or " " in said]
        yield f"{one[1]} {kind} {told[0] if told else ''}"


def run_metrics(text):
    total = first(r'^const TOTAL: &str = (".*?");', text)
    flat = re.sub(r"\s+", " ", first(r"^const FAMILIES(.*?)^\];", text)).replace("(TOTAL,", f"({total},")
    return [f"{name} {kind} {told}" for name, kind, told in re.findall(r'\( ?"(\w+)", "(\w+)", "([^"]*)",? ?\)', flat)]


def of_metrics(vocabulary):
    for sort, path, found in (("metrics", "core/src/metrics.rs", metrics), ("run_metrics", "core/cli/src/voice/metrics.rs", run_metrics)):
        yield Place(sort.replace("_", " of "), path, [f"{name} {one['type']} {one['text']}" for name, one in vocabulary[sort].items()], found)
    of_c = set(re.findall(r"quorlock_\w+", source("include/quorlock.h")))
    named = lambda text: {re.sub("_(bucket|sum|count)$", "", one) for one in re.findall(r"\bquorlock_[a-z_]+", text) if one not in of_c}  # noqa: E731
    yield Place("metrics that pages, alerts and the dashboard name", [path for ending in (".md", ".yml", ".json") for path in files("docs/operations", ending)],
                [*vocabulary["metrics"], *vocabulary["run_metrics"]], named, AMONG)
    for path in ("py/python/quorlock/otel.py", "node/src/opentelemetry.ts", "docs/operations/tracing.md"):
        yield Place(f"telemetry of {path}", path, list(vocabulary["telemetry"]),
                    lambda text: dict.fromkeys(re.findall(r"""["`]((?:quorlock|error)\.(?!otel\b)[a-z.]+)["`]""", text)))
    channels = dict.fromkeys(re.findall(r"(quorlock:\w+)", source("docs/operations/tracing.md")))
    yield Place("channels of Node", "node/src/channels.ts", list(channels), lambda text: dict.fromkeys(re.findall(r"quorlock:\w+", text)))


def core_events(text):
    for name, template in re.findall(r'event!\(\s*"(\w+)",\s*"((?:[^"\\]|\\.|\\\n)*)"', text):
        yield " ".join([name, re.sub(r"\\\n\s*", "", template)])


def python_events(text):
    names = re.findall(r'note\(\s*"\w+",\s*"(\w+)"|"event_name": "(\w+)"', text)
    return dict.fromkeys(one or other for one, other in names)


def of_events(events):
    told = {where: [name for name, one in events.items() if where in one.get("in", ["core"])] for where in ("core", "python", "node")}
    without_tests = [path for path in files("core/src", ".rs") if "/tests" not in path]
    yield Place("lines of the log of the core", without_tests, [f"{name} {events[name]['text']}" for name in told["core"]], core_events)
    package, ended = files("py/python/quorlock", ".py"), [name for name in told["python"] if name.endswith("_ended")]
    yield Place("lines of the log of Python", package, [name for name in told["python"] if name not in ended], python_events)
    # One function tells who has ended, by the word that it is given.
    yield Place("who has ended, in the log of Python", package, [name.removesuffix("_ended") for name in ended],
                lambda text: dict.fromkeys(re.findall(r'\bended\("(\w+)"', text)))
    yield Place("lines of the log of Node", files("node/src", ".ts"), told["node"],
                lambda text: dict.fromkeys(re.findall(r'(?:lineOf\("\w+", |\bwarn\()"(\w+)"', text)))
    warned = dict.fromkeys(re.findall(r'\bwarn\("(\w+)"', "".join(map(source, files("node/src", ".ts")))))
    yield Place("warnings of Node's page", "node/README.md", [f"QUORLOCK_{name.upper()}" for name in warned],
                lambda text: words(first(r"`QuorlockWarning` with a code: (.*?);", text)))


def places(vocabulary):
    yield from of_errors(vocabulary["errors"])
    yield from of_losses(vocabulary["losses"])
    yield from of_counters(vocabulary["counters"])
    yield from of_words(vocabulary["words"])
    yield from of_things(vocabulary["things"])
    yield from of_findings(vocabulary["findings"])
    yield from of_explain(vocabulary)
    yield from of_metrics(vocabulary)
    yield from of_events(vocabulary["events"])


def wrong(vocabulary):
    """What is wrong with the definition."""
    for sort, (needs, may) in FIELDS.items():
        for name, entry in vocabulary[sort].items():
            yield from (f"{name} has no {field}" for field in needs - entry.keys())
            yield from (f"{name} has a field {field}" for field in entry.keys() - needs - may)
    if [error["number"] for error in vocabulary["errors"].values()] != list(range(1, len(vocabulary["errors"]) + 1)):
        yield "the numbers of errors are not 1, 2 and so on"
    of_findings = [f"QD{number:02}" for number in range(1, len(vocabulary["findings"]) + 1)]
    if list(vocabulary["findings"]) != of_findings:
        yield "the ids of findings are not QD01, QD02 and so on"


def made(vocabulary):
    """What is made from it: the texts of files, by their paths."""
    texts, options = {}, definition.read()
    for path, part, text in make_vocabulary.made(vocabulary, options):
        texts[path] = definition.replaced(texts.get(path) or source(path), part, text)
    return texts


def main():
    vocabulary = read()
    if "--write" in sys.argv[1:]:
        for path, text in made(vocabulary).items():
            (ROOT / path).write_text(text, encoding="utf-8")
        return 0
    passed, failed = 0, 0

    def tell(what, found):
        nonlocal passed, failed
        found = list(found)
        passed, failed = passed + (not found), failed + bool(found)
        print(*(f"FAIL {what}: {one}" for one in found), sep="\n", end="\n" if found else "")

    tell("core/vocabulary.toml", wrong(vocabulary))
    for path, text in made(vocabulary).items():
        tell(path, [] if source(path) == text else ["it is not what core/vocabulary.toml says: run tests/options/vocabulary.py --write"])
    for place in places(vocabulary):
        found = list(place.wrong(place.text()))
        tell(f"{place.what} ({place.paths if isinstance(place.paths, str) else f'{len(place.paths)} files'})", found)
        if not found:
            unseen = [name for name, text in place.misspelt() if not list(place.wrong(text))]
            tell(place.what, (f"{name} may be misspelt there, and nothing tells it" for name in unseen))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
