"""Which file of the core imports which, read from its sources: for the rules of CONTRIBUTING.md that keep the wings apart."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[1]
CORE = ROOT / "core" / "src"

# Of each wing, those that its files may import beside their own. Folders are wings; of the files beside them those in `GROUND`
# know nothing else of the core, and the others are the public ones.
WINGS = {
    "ground": set(),
    "runtime": {"ground"},
    "node": {"ground"},
    "node::memory": {"ground", "node"},
    "node::redis": {"ground", "node", "runtime"},
    "node::cluster": {"ground", "node", "runtime", "node::redis"},
    "protocol": {"ground", "node"},
    "public": {"ground", "runtime", "node", "node::memory", "node::redis", "node::cluster", "protocol"},
    "binding": {"ground", "runtime", "node", "node::memory", "node::redis", "node::cluster", "protocol", "public"},
}
GROUND = {"clock", "error", "event", "foreign", "given", "hash", "lean", "mutex", "owner", "process", "sync", "token", "wakers"}
# The crate's root shows what the others have, and probes are for tests.
APART = {"", "probe"}


def modules(core):
    """The files of the core by the words of their module path. Tests are left out."""
    found = {}
    for path in sorted(core.rglob("*.rs")):
        words = path.relative_to(core).with_suffix("").parts
        if words[-1] not in ("tests", "loom_tests", "explore"):
            found[words[:-1] if words[-1] in ("mod", "lib") else words] = path
    return found


def wing(module):
    first = module[0] if module else ""
    if "::".join(module[:2]) in WINGS:
        return "::".join(module[:2])
    return first if first in WINGS else "ground" if first in GROUND else "public"


def code(path):
    """The text without comments, and without the tests at its end."""
    text = re.sub(r"//[^\n]*", "", path.read_text())
    return re.split(r"#\[cfg\((?:all\()?test[^\n]*\]\s*(?:#\[[^\n]*\]\s*)*mod ", text)[0]


def leaves(tree, before=()):
    """The paths that `a::{b, c::{d, e}}` stands for."""
    head, brace, rest = tree.partition("{")
    if not brace:
        yield before + tuple(head.split(" as ")[0].strip().split("::"))
        return
    before += tuple(word.strip() for word in head.split("::") if word.strip())
    depth, part = 0, ""
    for letter in rest[:rest.rindex("}")] + ",":
        depth += (letter == "{") - (letter == "}")
        if letter == "," and not depth:
            if part.strip():
                yield from leaves(part.strip(), before)
            part = ""
        else:
            part += letter


def absolute(here, words, known):
    """A path as the module `here` writes it, from the crate's root; `None`: it is another crate's."""
    if words[0] == "crate":
        return words[1:]
    if words[0] == "self":
        return here + words[1:]
    if words[0] == "super":
        return absolute(here[:-1], words[1:] if words[1:2] == ("super",) else ("self", *words[1:]), known)
    return here + words if here + words[:1] in known else None


def imports(core=CORE):
    """Of each module, those that it names. What a module shows of its own parts counts as theirs."""
    files = modules(core)
    named, shown = {}, {}
    for here, path in files.items():
        named[here], shown[here] = [], {}
        text = code(path)
        for public, tree in re.findall(r"^\s*(pub(?:\([a-z]+\))? )?use ([^;]+);", text, re.M):
            for words in leaves(tree):
                there = absolute(here, words, files)
                if there is None:
                    continue
                if public:
                    shown[here][words[-1]] = there
                if not public or there[:len(here)] != here:
                    named[here].append(there)
        rest = re.sub(r"^\s*(?:pub(?:\([a-z]+\))? )?use [^;]+;", "", text, flags=re.M)
        for path in re.findall(r"(?<![\w:])[a-z_0-9]+(?:::[a-zA-Z_0-9]+)+", rest):
            there = absolute(here, tuple(path.split("::")), files)
            if there is not None and not path.startswith("self::"):
                named[here].append(there)

    def home(path):
        """The module that defines what the path names."""
        end = max(end for end in range(len(path) + 1) if path[:end] in files)
        module, rest = path[:end], path[end:]
        if rest and rest[0] in shown[module]:
            return home(shown[module][rest[0]] + rest[1:])
        return module

    return {here: {home(path) for path in paths} - {here} for here, paths in named.items()}


def upward(arrows):
    """Imports that the wings do not allow."""
    for here, there in ((here, there) for here, those in arrows.items() for there in those):
        if APART.isdisjoint({*here[:1]} or {""}) and wing(there) not in WINGS[wing(here)] | {wing(here)}:
            yield f"{'::'.join(here)} imports {'::'.join(there)}"


def circles(arrows):
    """Rings of modules that import each other: what is left once all that import nothing, or nobody imports, are taken away."""
    arrows = {here: set(those) for here, those in arrows.items()}
    while True:
        imported = set().union(*arrows.values())
        ends = {here for here, those in arrows.items() if not those or here not in imported}
        if not ends:
            return sorted("::".join(here) for here in arrows)
        arrows = {here: those - ends for here, those in arrows.items() if here not in ends}
        if not arrows:
            return []


TYPE = re.compile(r"^(?:pub(?:\([^)]*\))? )?(?:struct|enum|trait|type|union) ([A-Z]\w*)", re.M)


def twice(core=CORE):
    """Names of types that several files of the core define, tests aside: a reader would take the one for the other."""
    homes = {}
    for module, path in modules(core).items():
        for name in TYPE.findall(code(path)):
            homes.setdefault(name, set()).add(module)
    return {name for name, files in homes.items() if len(files) > 1}


# Those that still are; the list shall become empty. `Tls` is one type that is built in two ways.
NAMED_TWICE = set("""
Adopted Answers Asked Bell Call Callback Finding Given Health Histogram Inner Left Lines Name Outcome Place Registered Said Seat Server Set
Shared Sink Slot Sockets Standing State Stream Target Task Terms Tls Told Turn Verdict Waits Who Word Work
""".split())

# What a fork may copy while another thread makes or holds it, so that the child waits for ever. `Made` and `PerProcess` of core/src/process.rs
# stand for them, and in Python `Kept` and `name!` of py/src/kept.rs; `intern!` is pyo3's, and has a static of that kind.
HALF_MADE = re.compile(r"\bstatic (?:mut )?(\w+): (?:\w+::)*"
                       r"(?:Lazy|LazyLock|LazyCell|OnceCell|OnceLock|PyOnceLock|Once|Mutex|RwLock|Condvar)\b|\b(intern)!\(")
# Node cannot fork but into another program, and the simulator never does. Python forks with the interpreter's lock, under which alone
# the log's is held.
NEVER_FORKED = {("core/src/client/simulated.rs", "NOBODYS"), ("py/src/lib.rs", "LOG")}


def half_made(root=ROOT):
    """Statics that a forked child may find half made."""
    for folder in ("core/src", "ffi-c/src", "py/src"):
        for path in sorted((root / folder).rglob("*.rs")):
            where = str(path.relative_to(root))
            for name in map("".join, HALF_MADE.findall(code(path))):
                if (where, name) not in NEVER_FORKED and path.stem != "tests":
                    yield f"{where}: {name}"
