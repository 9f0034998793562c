"""Scenario files: reading, checking, rewriting, and cutting them into steps. The format is in README.md."""

import glob
import os
import re
import sys
from dataclasses import dataclass
from urllib.parse import quote, unquote_to_bytes

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "options"))

import vocabulary  # noqa: E402
from definition import everywhere  # noqa: E402

SUFFIX = ".scenario"
VOCABULARY = vocabulary.read()
KINDS = set(VOCABULARY["errors"])
BOOLEAN = {"true", "false"}
REASONS = {*VOCABULARY["losses"], "none"}
# As the stage's servers have.
DATABASES = 16
# In the first line: the driver does not declare the set.
NEW = "new"
# And which of these the file is for, where it is about servers and not about a language: `runners=rust,c`.
RUNNERS = ("rust", "blocking", "asyncio", "node-esm", "node-cjs", "c", "cpp")
FOR = "runners="
# What each option takes, by the places where it may be given.
CLIENT_OPTIONS, LOCK_OPTIONS, SEVERAL_OPTIONS, ELECTION_OPTIONS = map(everywhere, ("client", "lock", "several", "election"))
TAKES = CLIENT_OPTIONS | LOCK_OPTIONS
DRIVER_OPTIONS = {"via", "db", "user", "password", "master"}
# What a label, a name or a count is written with.
A_WORD = re.compile(r"[\w.:-]+")
A_COUNT = re.compile(r"(>=|<=)?\d+|" + "|".join(sorted(KINDS)))
# verb: (words, options, what it may answer besides an error kind; None is a number)
VERBS = {
    "client": (1, set(CLIENT_OPTIONS), {"ok"}),
    "lock": (3, set(LOCK_OPTIONS), {"ok"}),
    "locks": (3, set(SEVERAL_OPTIONS), {"ok"}),
    "election": (3, set(ELECTION_OPTIONS), {"ok"}),
    "leader": (1, set(), A_WORD),
    "resign": (1, set(), BOOLEAN),
    "acquire": (2, {"wait"}, {"ok"}),
    "try": (2, set(), {"ok", "none"}),
    "release": (1, {"confirm"}, BOOLEAN),
    "unlock": (1, set(), BOOLEAN),
    "drop": (1, set(), {"ok"}),
    "extend": (1, {"ttl"}, {"ok"}),
    "ensure": (2, set(), {"ok"}),
    "downgrade": (1, set(), {"ok"}),
    "export": (2, set(), {"ok"}),
    "adopt": (3, set(), {"ok"}),
    "held": (1, set(), BOOLEAN),
    "remaining": (1, set(), None),
    "fence": (1, set(), None),
    "fence-of": (2, set(), None),
    "lost-name": (1, set(), A_WORD),
    "newer": (2, set(), BOOLEAN),
    "same-slot": (2, set(), BOOLEAN),
    "force": (2, {"fence"}, A_COUNT),
    "init": (1, set(), {"ok"}),
    "lost": (2, set(), REASONS),
    "stats": (3, set(), None),
    "metric": (1, set(), None),
    "close": (1, set(), {"ok"}),
    "message": (2, set(), {"ok"}),
    "causes": (0, set(), None),
    "inspect": (2, set(), A_WORD),
    "error": (1, set(), A_WORD),
    "finish": (2, set(), {"ok", "pending"}),
    "cancel": (1, set(), {"ok"}),
    "stage": (None, set(), {"ok"}),
}
BY_ACTORS = {"acquire", "try", "release", "unlock", "extend", "drop", "held"}
# What goes through a shell unchanged, in any shell.
SHELL_SAFE = re.compile(r"[A-Za-z0-9_.:{}/@%+=,-]+\Z")
HANDLE = re.compile(r"[A-Za-z0-9_]+\Z")
COMPARED = re.compile(r"(>=|<=)?(\d+)\Z")
REPEATED = re.compile(r"<(.)\*(\d+)>")


class FormatError(Exception):
    """A line of a scenario is wrong."""


@dataclass
class Step:
    line: int
    verb: str
    words: list
    options: dict
    expected: str
    actor: str = "main"
    started: bool = False


@dataclass
class Scenario:
    path: str
    lines: list
    shape: list
    runners: tuple = RUNNERS

    @property
    def name(self):
        return os.path.basename(self.path).removesuffix(SUFFIX)


def text(word):
    """The text that a word stands for, or its bytes if it is not UTF-8."""
    if word == "%":
        return ""
    data = unquote_to_bytes(word)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def content(line):
    """The line's words; none for a comment."""
    return [] if line.lstrip().startswith("#") else line.split()


def load(path):
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    shape = next(filter(None, map(content, lines)), [])
    if shape[:1] != ["nodes"]:
        raise FormatError("the first line must be `nodes N …`")
    named = [word for word in shape if word.startswith(FOR)]
    runners = tuple(named[0].removeprefix(FOR).split(",")) if named else RUNNERS
    if set(runners) - set(RUNNERS) or len(named) > 1:
        raise FormatError(f"after {FOR} stand some of {','.join(RUNNERS)}")
    return Scenario(path, lines, [word for word in shape[1:] if word not in named], runners)


def of_runner(name=None):
    """The paths of the files for a runner, or of all files."""
    folder = os.path.dirname(os.path.abspath(__file__))
    paths = sorted(glob.glob(os.path.join(glob.escape(folder), "*" + SUFFIX)))
    return [path for path in paths if name is None or name in load(path).runners]


def parse(lines):
    """The steps of a scenario."""
    steps, shape_seen = [], False
    for number, line in enumerate(lines, 1):
        words = content(line)
        if not words:
            continue
        if not shape_seen:
            shape_seen = True
            continue
        try:
            steps.append(_step(number, line, words))
        except FormatError as error:
            raise FormatError(f"line {number}: {error}") from None
    return steps


def _step(number, line, words):
    if len(words) > 24 or len(line.encode()) > 8192:
        raise FormatError("too long")
    actor, started, expected = "main", False, None
    if words[0] in ("in", "start"):
        if len(words) < 3:
            raise FormatError("an actor does something")
        actor, started, words = words[1], words[0] == "start", words[2:]
    if len(words) > 2 and words[-2] == "->":
        expected, words = words[-1], words[:-2]
    verb, words = words[0], words[1:]
    if verb not in VERBS:
        raise FormatError(f"no verb {verb}")
    count, allowed, _ = VERBS[verb]
    options = {}
    if verb != "stage":
        options = dict(word.split("=", 1) for word in words[count:] if "=" in word)
        if len(words) != count + len(options):
            raise FormatError(f"{verb} takes {count} words, and options")
        if set(options) - allowed - (DRIVER_OPTIONS if verb == "client" else set()):
            raise FormatError(f"{verb} takes the options {sorted(allowed)}")
        words = words[:count]
    return Step(number, verb, words, options, expected or "ok", actor, started)


def holds(expected, got):
    """Whether an answer is as expected."""
    compared = COMPARED.match(expected)
    if compared and re.fullmatch(r"-?\d+", got):
        sign, limit = compared.groups()
        return {">=": int(got) >= int(limit), "<=": int(got) <= int(limit), None: int(got) == int(limit)}[sign]
    return got == expected


def check(steps):
    """Finds what a runner would trip over: handles made twice or never, answers that a verb cannot give."""
    made, busy, cancelled = set(), {}, 0
    for step in steps:
        try:
            _check(step, made, busy)
        except FormatError as error:
            raise FormatError(f"line {step.line}: {error}") from None
        cancelled += step.verb == "cancel"
    if busy:
        raise FormatError(f"never finished: {', '.join(busy)}")
    if cancelled > 1:
        raise FormatError("only one actor is cancelled in a file")
    if not any(step.expected != "ok" or step.verb == "stage" for step in steps):
        raise FormatError("it expects nothing")


def _check(step, made, busy):
    verb, words = step.verb, step.words
    answers = VERBS[verb][2]
    if answers is None:
        if not COMPARED.match(step.expected):
            raise FormatError(f"{verb} answers with a number")
    elif answers is A_COUNT:
        if not A_COUNT.fullmatch(step.expected):
            raise FormatError(f"{verb} answers with a number, or an error")
    elif answers is A_WORD:
        if not A_WORD.fullmatch(step.expected):
            raise FormatError(f"{verb} answers with a word")
    elif step.expected not in answers | KINDS and not step.started:
        raise FormatError(f"{verb} does not answer {step.expected}")
    if not HANDLE.match(step.actor):
        raise FormatError("an actor's name is letters, digits and _")
    if step.actor != "main" and verb not in BY_ACTORS or step.started and (
            verb != "acquire" or step.expected != "ok" or step.actor == "main"):
        raise FormatError(f"{verb} cannot be done so by an actor")
    if verb in ("finish", "cancel"):
        if words[0] not in busy:
            raise FormatError(f"{words[0]} has not started anything")
        if verb == "finish" and step.expected != "pending":
            handle = busy.pop(words[0])
            if step.expected == "ok":
                made.add(handle)
    elif step.actor in busy:
        raise FormatError(f"{step.actor} is busy")
    elif step.started:
        busy[step.actor] = "lease " + words[0]
    if verb in ("lost", "ensure", "stats", "finish") and not words[-1].isdigit():
        raise FormatError("a time is whole milliseconds")
    _check_options(step.options)
    if verb == "stage":
        if not words or not all(map(SHELL_SAFE.match, words)):
            raise FormatError("a shell would change these words")
    elif verb == "message":
        if words[0] not in ("has", "lacks"):
            raise FormatError("message has or lacks")
    else:
        _check_handles(step, made)


def _check_options(options):
    for name, value in options.items():
        takes = TAKES.get(name)
        if takes in ("time", "limit") and not (value.isdigit() or value == "none" and takes == "limit"):
            raise FormatError(f"{name} is whole milliseconds")
        if takes == "flag" and value not in ("on", "off"):
            raise FormatError(f"{name} is on or off")
        if takes in ("count", "slots") and not value.isdigit():
            raise FormatError(f"{name} is a number")
        if takes == "fraction" and not re.fullmatch(r"-?\d+(\.\d+)?", value):
            raise FormatError(f"{name} is a decimal fraction")


def _check_handles(step, made):
    verb, words = step.verb, step.words
    kind = {"client": "client", "lock": "lock", "locks": "lock", "election": "lock", "acquire": "lease", "try": "lease",
            "adopt": "lease"}.get(verb)
    if kind:
        if not HANDLE.match(words[0]):
            raise FormatError("a handle is letters, digits and _")
        if f"{kind} {words[0]}" in made:
            raise FormatError(f"{kind} {words[0]} is made twice")
        # Only a line that succeeds makes a handle; what an actor starts is made when it is finished.
        if step.expected == "ok" and not step.started:
            made.add(f"{kind} {words[0]}")
            made.add(f"{verb} {words[0]}")
    needed = {"lock": ("client", 1), "locks": ("client", 1), "election": ("client", 1), "leader": ("election", 0), "resign": ("election", 0), "acquire": ("lock", 1), "try": ("lock", 1), "unlock": ("lock", 0), "inspect": ("lock", 0),
              "stats": ("client", 0), "force": ("client", 0), "close": ("client", 0), "adopt": ("client", 1), "export": ("lease", 0), "init": ("client", 0), "fence": ("lease", 0),
              "fence-of": ("lease", 0), "lost-name": ("lease", 0),
              "release": ("lease", 0), "drop": ("lease", 0),
              "extend": ("lease", 0), "ensure": ("lease", 0), "downgrade": ("lease", 0), "held": ("lease", 0), "remaining": ("lease", 0),
              "lost": ("lease", 0)}.get(verb)
    if needed and f"{needed[0]} {words[needed[1]]}" not in made:
        raise FormatError(f"there is no {needed[0]} {words[needed[1]]}")
    leases = words if verb == "newer" else [step.options["fence"]] if "fence" in step.options else []
    for word in leases:
        if f"lease {word}" not in made and not (verb == "force" and word.isdigit()):
            raise FormatError(f"there is no lease {word}")


def sets(lines, all_nodes, fails_over=False):
    """The guarded sets that a file's clients use: node numbers, and what else the records say; each place once. `fails_over`:
    the nodes do, so that clients guard them however few they are."""
    found = {}
    for step in parse([repeated(line) for line in lines]):
        options = step.options
        nodes = options.get("nodes", "all")
        made = step.verb == "client" and step.expected == "ok"
        if not made or nodes not in ("all", "env") and not re.fullmatch(r"\d+(,\d+)*", nodes):
            continue
        numbers = [int(part) for part in nodes.split(",")] if nodes[0].isdigit() else list(range(1, all_nodes + 1))
        guard = options.get("restart_guard", "auto")
        place = options.get("namespace", "lock:"), int(options.get("db", 0))
        max_ttl = options.get("max_ttl", "60000")
        if not max_ttl.isdigit() or place in found or place[1] >= DATABASES:
            continue
        # The first client of a place says what set it is; one without a guard founds it by itself.
        guarded = guard == "on" or guard == "auto" and (fails_over or len(numbers) >= 3)
        found[place] = guarded and (numbers, {"namespace": text(place[0]), "db": place[1], "max_ttl": int(max_ttl),
                                              "set_name": options.get("set_name", "default"), "guard": True})
    return [record for record in found.values() if record]


def repeated(line):
    """The line with `<x*3>` written out."""
    return REPEATED.sub(lambda found: found[1] * int(found[2]), line)


def checked(lines):
    """The steps of a file as it was written, looked through for mistakes."""
    steps = parse([repeated(line) for line in lines])
    check(steps)
    return steps


def rewrite(lines, stage):
    """The file as a runner gets it, line for line."""
    return [_rewrite(line, stage) if content(line) else line for line in lines]


def _rewrite(line, stage):
    line = repeated(line)
    if "<secret" in line:
        line = line.replace("<secret>", stage.secrets["quorlock"]).replace("<secret:wrong>", stage.secrets["wrong"])
    if "<text>" in line:
        line = line.replace("<text>", os.path.join(stage.folder, "exported"))
    words = line.split()
    if words[0] != "client":
        return line
    return " ".join(_client(words, stage))


def _client(words, stage):
    kept, url = [], {}
    nodes = "all"
    for word in words:
        name, _, value = word.partition("=")
        if "=" not in word:
            kept.append(word)
        elif name in DRIVER_OPTIONS:
            url[name] = value
        elif name == "nodes":
            nodes = value
        elif name in ("ca", "cert", "key"):
            kept.append(f"{name}={_file(stage.certs, name, value)}")
        else:
            kept.append(word)
    if nodes == "all":
        nodes = ",".join(stage.urls(**url))
    elif re.fullmatch(r"\d+(,\d+)*", nodes):
        nodes = ",".join(stage.urls(map(int, nodes.split(",")), **url))
    if nodes != "env":
        kept.insert(2, f"nodes={nodes}")
    return kept


def _file(folder, name, value):
    """Path (or text) of what an option ca, cert or key names."""
    stem = "ca" if name == "ca" else "client"
    file = f"{stem}.{'key' if name == 'key' else 'crt'}"
    if value == "pem":
        with open(os.path.join(folder, file)) as pem:
            return quote(pem.read(), safe="")
    if value in ("right", "wrong"):
        return os.path.join(folder, file if value == "right" else f"wrong-{file}")
    return value
