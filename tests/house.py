"""The rules that the sources keep, read from them: which file imports which, in the core and in each binding, so that the core's wings stay apart
and no files import each other in a circle; what the claim may name; which statics a fork may copy; how long a file is."""

import ast
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
        if {"tests", "loom_tests", "explore", "exhaustive"}.isdisjoint(words):
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
    # Tests in files of their own may be named anywhere.
    text = re.sub(r"#\[cfg\((?:all\()?test[^\n]*\]\s*(?:pub(?:\([a-z]+\))? )?mod \w+;", "", text)
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


# What a claim does not have, in its files: it locks nothing, waits for nothing, reads no clock and sends nothing.
IMPURE = re.compile(r"\b(?:sync::(?!Arc\b)\w+|sync::\{|Mutex|Atomic\w+|OnceLock|Cell|RefCell|Waker|Wakers|Context|Poll|async|await|Link|Sink|Clock|Set|event!|log)\b")


def impure(core=CORE):
    """What makes the claim another thing than a function of its state, an event and what it is told."""
    for path in sorted((core / "protocol" / "claim").rglob("*.rs")):
        if path.stem != "tests":
            for word in sorted(set(IMPURE.findall(code(path)))):
                yield f"{path.relative_to(core)}: {word}"


def python_imports(package):
    """Of each module of a package of Python, those that it imports: also within a function, and for types alone."""
    files = {path.relative_to(package).with_suffix("").parts: path for path in sorted(package.rglob("*.py"))}
    files = {words[:-1] if words[-1] == "__init__" else words: path for words, path in files.items()}

    def home(words):
        """The module that defines what the path names."""
        return next(words[:end] for end in range(len(words), -1, -1) if words[:end] in files)

    arrows = {}
    for here, path in files.items():
        folder = here if path.stem == "__init__" else here[:-1]
        named = []
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                words = tuple(node.module.split(".")) if node.module else ()
                if node.level:
                    words = folder[:len(folder) + 1 - node.level] + words
                elif words[:1] == (package.name,):
                    words = words[1:]
                else:
                    continue
                named += [words + (name.name,) for name in node.names]
            elif isinstance(node, ast.Import):
                named += [tuple(name.name.split("."))[1:] for name in node.names if name.name.split(".")[0] == package.name]
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module") and isinstance(node.args[0], ast.Constant):
                words = tuple(node.args[0].value.split("."))
                named += [words[1:]] if words[0] == package.name else []
        # The compiled module has no source here.
        arrows[here] = {home(words) for words in named if words[:1] != ("_native",)} - {here}
    return arrows


def typescript_imports(folder):
    """Of each module of TypeScript, those that it imports, also for types alone: a reader has to look there for them as well."""
    arrows = {}
    for path in sorted(folder.rglob("*.ts")):
        text = re.sub(r"/\*.*?\*/|^\s*//[^\n]*", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        named = re.findall(r'\b(?:from|import|require)\s*\(?\s*"(\.[^"]*)\.js"', text)
        known = [(path.parent / name).resolve().relative_to(folder.resolve()).parts for name in named]
        here = path.relative_to(folder).with_suffix("").parts
        arrows[here] = set(known) - {here}
    return arrows


# The trees whose modules may not import each other in a circle, each with the reader of its imports.
TREES = {
    "core/src": imports,
    "ffi-c/src": imports,
    "py/src": imports,
    "py/python/quorlock": python_imports,
    "node/native": imports,
    "node/src": typescript_imports,
}


def upward(arrows):
    """Imports that the wings do not allow."""
    for here, there in ((here, there) for here, those in arrows.items() for there in those):
        if APART.isdisjoint({*here[:1]} or {""}) and wing(there) not in WINGS[wing(here)] | {wing(here)}:
            yield f"{'::'.join(here)} imports {'::'.join(there)}"


def circles(arrows):
    """The circles of modules that import each other, each with the names of all that are in it."""
    def reached(here):
        found, left = set(), [here]
        while left:
            new = arrows.get(left.pop(), set()) - found
            found |= new
            left += new
        return found

    all_reached = {here: reached(here) for here in arrows}
    found = {frozenset(there for there in those if here in all_reached.get(there, ())) for here, those in all_reached.items()}
    return sorted(sorted("::".join(module) or "(root)" for module in circle) for circle in found if circle)


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

# What a fork may copy while another thread makes or holds it, so that the child waits for ever. `LazyValue` and `PerProcess` of core/src/process.rs
# stand for them, and in Python `ForkSafe` and `name!` of py/src/kept.rs; `intern!` is pyo3's, and has a static of that kind.
HALF_MADE = re.compile(r"\bstatic (?:mut )?(\w+): (?:\w+::)*"
                       r"(?:Lazy|LazyLock|LazyCell|OnceCell|OnceLock|PyOnceLock|Once|Mutex|RwLock|Condvar)\b|\b(intern)!\(")
# Node cannot fork but into another program, and the simulator never does. Python forks with the interpreter's lock, under which alone
# the log's is held.
NEVER_FORKED = {("core/src/client/simulated.rs", "NOBODYS"), ("py/src/log.rs", "LOG")}


def half_made(root=ROOT):
    """Statics that a forked child may find half made."""
    for folder in ("core/src", "ffi-c/src", "py/src"):
        for path in sorted((root / folder).rglob("*.rs")):
            where = str(path.relative_to(root))
            for name in map("".join, HALF_MADE.findall(code(path))):
                if (where, name) not in NEVER_FORKED and path.stem != "tests":
                    yield f"{where}: {name}"


# A source of so many lines is two sources. What a script has made in it is read in its own definition, and does not count.
LONG = 600
MADE = re.compile(r"Made from core/\w+\.toml: .*?End of what is made", re.DOTALL)
WRITTEN = {".rs", ".py", ".pyi", ".c", ".h", ".cpp", ".hpp", ".ts", ".mts", ".mjs", ".cjs", ".js", ".sh", ".lua", ".go", ".java"}
# What is to be read as a whole: the headers, of which one is made.
WHOLE = {"include/quorlock.h", "include/quorlock.hpp"}


def too_long(names, root=ROOT):
    """Of these files, the sources of which too many lines are written by hand."""
    for name in sorted(names):
        path = root / name
        if path.suffix in WRITTEN and name not in WHOLE and path.is_file():
            text = path.read_text(encoding="utf-8")
            if text.count("\n") - sum(made.count("\n") for made in MADE.findall(text)) >= LONG:
                yield name


NAMED = re.compile(r"^(?:pub(?:\([^)]*\))? )?(?:unsafe )?(?:struct|enum|trait|type|union) (\w+)", re.MULTILINE)
# A type is named by a noun: none is a pronoun, a preposition, a conjunction or a participle that says not of what.
NO_NOUNS = set(
    "After Again All Apart Asked Before Behind Beside Between By Called Came Denied Ended Entered Extended Found Freed Given Going Had Heard Held Here "
    "How Killed Lacking Late Leaving Left Made Met Named Next Of Others Over Owed Parked Passed Registered Released Resigned Said Seated Seen "
    "Sent Shared Showing Still Stopped Taken Then There Timed Told Under Voted Waited Watched What Who Whom Whose Why With Within Without "
    "Won".split()
)
# What stands in the place of another file where a feature is off has its names.
IN_PLACE = {"core/src/node/redis/without_tls.rs"}
# Those that are still to be renamed. No other comes here.
STILL_NAMED = set()


def types(root=ROOT):
    """The types of each crate of the core, tests left out: where they are, by their names."""
    for crate in ("core/src", "core/cli/src"):
        found = {}
        for path in sorted((root / crate).rglob("*.rs")):
            where = str(path.relative_to(root))
            if where in IN_PLACE or {"tests", "loom_tests", "exhaustive"} & {*path.parts, path.stem}:
                continue
            for name in set(NAMED.findall(re.sub(r"^ +(?=(?:pub|struct|enum|trait|union)\b)", "", code(path), flags=re.MULTILINE))):
                found.setdefault(name, []).append(where)
        yield crate, found


def homonyms(root=ROOT):
    """Names that several types of a crate have."""
    for crate, found in types(root):
        for name, places in sorted(found.items()):
            if len(places) > 1:
                yield f"{crate}: {name} is {', '.join(places)}"


def no_nouns(root=ROOT):
    """Types whose name says not what they are."""
    for crate, found in types(root):
        for name in sorted(NO_NOUNS & set(found)):
            yield f"{crate}: {name}"
