#!/usr/bin/env python3
"""Every option in every place of every language: it works there, or is refused there by its name, as core/options.toml says. And what
that says of bounds, of options that exclude each other, and of defaults is what the core does.

    test_everywhere.py      ends with `N passed, M failed`
"""

import asyncio
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]

import quorlock
import quorlock.aio
from definition import PLACES, ROOT, UNITS, milliseconds, read, setters, source, spelled, wanted_names
from stage import certs

OPTIONS = read()
PROGRAM = os.path.join(os.path.dirname(sys.executable), "quorlock")
NODES = ["memory://everywhere"]
# A client of these connects to nothing before it is used.
FAR = ["redis://127.0.0.1:1"]
# A certificate and its key.
PEM = ""
names = (f"lock-{number}" for number in itertools.count())
passed, failed = 0, 0


def tell(what, wrong):
    global passed, failed
    passed, failed = passed + (not wrong), failed + bool(wrong)
    if wrong:
        print(f"FAIL {what}: {wrong}", flush=True)


def value(option, language):
    """A value that the option may have, in JSON's types; where it can be another than the default."""
    takes, default = option["takes"], option.get("default")
    if takes in ("time", "limit"):
        time = milliseconds(default) + 1 if default else UNITS["s"]
        return {"python": time / 1000, "command": f"{time}ms"}.get(language, time)
    if takes == "word":
        return next(word for word in reversed(option["words"]) if word != default)
    return {"flag": default is False, "count": default, "fraction": default, "slots": 2, "urls": NODES, "pem": PEM, "nothing": True}.get(takes, "it")


# Callables that are scopes of one kind, beside the places of the definition.
SCOPES = ("once", "scope of slots", "scope of several")


def given(name, language, place):
    """The option as it is given there, with the one without which it is refused."""
    both = [name, *([OPTIONS[name]["with"]] if "with" in OPTIONS[name] else [])]
    return {spelled(one, OPTIONS[one], language, "scope" if place in SCOPES else place): value(OPTIONS[one], language) for one in both}


def of_a_place(language, place):
    """The options that may be given there."""
    scope = wanted_names(OPTIONS, language, "scope")
    slots = next(name for name, option in OPTIONS.items() if option["takes"] == "slots")
    if place == "scope of slots":
        return {name for name in scope if slots not in OPTIONS[name].get("excludes", [])}
    if place == "once":
        # It has its client as a scope has.
        scope = {name for name in scope if "client" in OPTIONS[name]["in"] and "lock" not in OPTIONS[name]["in"]}
    return scope if place in ("scope of several", "scope") else wanted_names(OPTIONS, language, place) | (scope if place == "once" else set())


def places(language):
    """Each option and place, how it is spelled there, whether it may be given, and whether it says where a scope has its client."""
    for place in (*PLACES[:-1], *SCOPES[1:]):
        wanted = of_a_place(language, place)
        for name, option in OPTIONS.items():
            where = "client" in option["in"] and "lock" not in option["in"]
            yield name, place, spelled(name, option, language, "scope" if place in SCOPES else place), name in wanted, where


def known(name, language):
    """Whether the language has the option anywhere."""
    return any(name in wanted_names(OPTIONS, language, place) for place in PLACES)


def judged(what, own, works, error):
    """Tells whether an option that may be given works, and another is refused by its name."""
    if works or error is None:
        tell(what, None if works == (error is None) else error or "it is not refused")
    else:
        tell(what, None if re.search(rf"\b{own}\b", error) else f"its name is missing: {error}")


def held(lock):
    with lock:
        pass


async def aheld(lock):
    async with lock:
        pass


def of_python(place, of, client, options, where):
    """What is done with the option in the blocking API, or in asyncio."""
    name, at = next(names), {} if where else {"client": client}
    if place == "client":
        return of.Client(**{"nodes": NODES, **options}).close
    if place == "acquire":
        return lambda: client.lock(name).acquire(**options)
    if place == "rwlock":
        return lambda: (client.rwlock(name, **options).read(), client.rwlock(name, **options).write())
    if place == "semaphore":
        return lambda: client.semaphore(name, **{"slots": 2, **options})
    if place == "several":
        return lambda: client.lock_all([name, next(names)], **options)
    at = {**(at or {"nodes": NODES}), **options}
    if place == "once":
        return lambda: quorlock.once(name, **{"every": 10, **at})
    if place == "scope of slots":
        return lambda: quorlock.semaphore(name, **{"slots": 2, **at})
    if place.startswith("scope"):
        return lambda: quorlock.redlock(name if place == "scope" else [name, next(names)], **at)
    return lambda: getattr(client, place)(name, **options)


def python():
    client = quorlock.Client(NODES)
    for name, place, own, works, where in places("python"):
        error = None
        try:
            made = of_python(place, quorlock, client, given(name, "python", place), where)()
            if place == "acquire":
                made.release()
            elif place == "election":
                made.campaign()
                made.resign()
            elif place == "once":
                made(lambda: None)()
            elif place != "client":
                for one in made if isinstance(made, tuple) else [made]:
                    held(one)
        except Exception as e:  # noqa: BLE001 - what is refused may be of any type
            error = f"{type(e).__name__}: {e}"
        judged(f"python, {place}, {own}", own, works, error)
    client.close()


async def of_asyncio():
    client = quorlock.aio.Client(NODES)

    async def job():
        pass

    for name, place, own, works, where in places("python"):
        error = None
        try:
            made = of_python(place, quorlock.aio, client, given(name, "python", place), where)()
            if place == "client":
                await made
            elif place == "acquire":
                await (await made).release()
            elif place == "election":
                await made.campaign()
                await made.resign()
            elif place == "once":
                await made(job)()
            else:
                for one in made if isinstance(made, tuple) else [made]:
                    await aheld(one)
        except Exception as e:  # noqa: BLE001 - what is refused may be of any type
            error = f"{type(e).__name__}: {e}"
        judged(f"asyncio, {place}, {own}", own, works, error)
    await client.close()


def node():
    cases = [{"place": place, "option": own, "given": given(name, "node", place), "works": works, "where": where, "known": known(name, "node"),
              "nodes": NODES}
             for name, place, own, works, where in places("node")]
    program = ROOT / "tests" / "options" / "test_everywhere.mjs"
    done = subprocess.run(["node", str(program)], input=json.dumps(cases), capture_output=True, text=True, timeout=300)
    answers = done.stdout.splitlines()
    if len(answers) != len(cases):
        tell("node", f"{len(answers)} of {len(cases)} were tried: {done.stderr}")
    for case, answer in zip(cases, answers):
        # An option that Node has nowhere may be a secret as well as any text, and is not shown.
        judged(f"node, {case['place']}, {case['option']}", case["option"] if case["known"] else "", case["works"], json.loads(answer))


def run(*words):
    environment = {name: said for name, said in os.environ.items() if not name.startswith("QUORLOCK_")}
    done = subprocess.run([PROGRAM, *words], env={**environment, "QUORLOCK_NODES": NODES[0], "COLUMNS": "200"}, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60)
    return None if done.returncode == 0 else done.stderr, done.stdout


def command():
    commands = [found for found in re.findall(r"^  (\w+) ", run("help")[1].partition("Commands:")[2].partition("\n\n")[0], re.MULTILINE) if found != "help"]
    helps = {name: run("help", name)[1] for name in commands}
    for name, option in OPTIONS.items():
        flag, own = spelled(name, option, "command", "command"), "command" in option["in"]
        words = [word for other, said in given(name, "command", "command").items()
                 for word in ([other] if said is True else [other, os.devnull if option["takes"] == "urls" else str(said)])]
        error, _ = run("run", *words, "a", "--", "true")
        if option["takes"] == "urls":
            # A file that names no node is read.
            error = None if "names no node" in (error or "") else error
        judged(f"command, run, {flag}", flag.lstrip("-"), own, error)
        for one in commands:
            # Of a lock's options other commands have some, in a sense of their own.
            has = re.search(rf"{flag}\b(?!-)", helps[one].partition("Options:")[2]) is not None
            if own and "lock" not in option["in"] and one != "acl" and has != ("The set of nodes:" in helps[one]):
                tell(f"command, {one}, {flag}", "its help says something else")
            if not has and "[CMD]" not in helps[one]:
                error, _ = run(one, *words)
                judged(f"command, {one}, {flag}", flag.lstrip("-"), False, error)
        # The nearest name is suggested.
        if own and len(flag) > len("--ca"):
            error, _ = run("run", flag[:-1], "a", "--", "true")
            tell(f"command, {flag[:-1]}", None if error and flag in error else error or "it is taken")


def compiled():
    """In compiled languages there is a setter where an option may be given, and none elsewhere."""
    header, classes = source("include/quorlock.h"), source("include/quorlock.hpp")
    rust = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "core" / "src").rglob("*.rs")))
    of_both = set(setters(rust, r"\$Type"))
    types = {"client": "ClientBuilder", "lock": "Lock"}
    for place in types:
        body = re.search(rf"^struct {place}_options \{{\n(.*?)^\}};", classes, re.MULTILINE | re.DOTALL)[1]
        has = {
            "c": set(re.findall(rf"quorlock_{place}_options_set_(\w+)\(", header)),
            "cpp": {name for line in re.findall(r"^    std::optional<.*?> (.*);", body, re.MULTILINE) for name in re.findall(r"(\w+)\{\}", line)},
            "rust": of_both | set(setters(rust, types[place])),
        }
        for (language, there), (name, option) in itertools.product(has.items(), OPTIONS.items()):
            own, wants = spelled(name, option, language, place), name in wanted_names(OPTIONS, language, place)
            tell(f"{language}, {place}, {own}", None if (own in there) == wants else "there is no setter of it" if wants else "there is a setter of it")


def at(option, bound):
    """A bound as a value in Python, and the least step from it."""
    bound = OPTIONS[bound].get("default", bound) if bound in OPTIONS else bound
    if milliseconds(bound) is not None:
        return milliseconds(bound) / 1000, 0.001
    if option["takes"] == "text":
        return int(bound.split()[0]), 1
    return (float(bound), 1e-6) if option["takes"] == "fraction" else (int(bound), 1)


def refused(what, make, *own):
    """Fails unless it is refused as an option that is not valid, by one of these names."""
    try:
        make()
        tell(what, "it is not refused")
    except (quorlock.InvalidArgumentError, quorlock.MisconfiguredError) as error:
        tell(what, None if any(re.search(rf"\b{one}\b", str(error)) for one in own) else f"it is not named: {error}")


def bounds():
    near = quorlock.Client(NODES)

    def make(name, it, beside):
        option = OPTIONS[name]
        options = {**beside, name: "t" * it if option["takes"] == "text" else it}
        if "client" in option["in"]:
            return lambda: quorlock.Client(FAR, **options)
        if "lock" in option["in"]:
            return lambda: held(near.lock(next(names), **options))
        return lambda: quorlock.once(next(names), client=near, **options)(lambda: None)()

    for name, option in OPTIONS.items():
        if "python" not in option.get("only", {}).get("client", ["python"]):
            continue
        for bound, sign in (("least", -1), ("most", 1)):
            if bound not in option:
                continue
            limit, step = at(option, option[bound])
            other = option[bound] if option[bound] in OPTIONS else None
            beside = {other: at(OPTIONS[other], OPTIONS[other]["default"])[0]} if other else {}
            try:
                make(name, limit, beside)()
                tell(f"{name}, its {bound}", None)
            except (quorlock.InvalidArgumentError, quorlock.MisconfiguredError, TypeError) as error:
                tell(f"{name}, its {bound}", error)
            except quorlock.LockLostError:
                # It was not refused, and so short that the lease was lost.
                tell(f"{name}, its {bound}", None)
            refused(f"{name}, beyond its {bound}", make(name, limit + sign * step, beside), name)
    for name, option in OPTIONS.items():
        for other in option.get("excludes", []):
            if other not in OPTIONS or "lock" not in option["in"]:
                continue
            both = {one: value(OPTIONS[one], "python") for one in (name, other)}
            of_client = {} if "lock" in OPTIONS[other]["in"] else {other: both.pop(other)}
            lock = lambda both=both, of_client=of_client: held(quorlock.Client(NODES, **of_client).lock(next(names), **both))  # noqa: E731
            refused(f"{name} with {other}", lock, name, other)
    near.close()


def defaults():
    """The constants of the core are the definition's defaults."""
    module = re.search(r"pub mod defaults \{\n(.*?)\n\}", source("core/src/config.rs"), re.DOTALL)[1]
    units = {"secs": 1000, "millis": 1}
    found = 0
    for constant, said in re.findall(r"pub const (\w+): \S+ = ([^;]+);", module):
        name = constant.lower()
        if name not in OPTIONS:
            continue
        found += 1
        time = re.fullmatch(r"Duration::from_(secs|millis)\(([\d_]+)\)", said)
        in_core = int(time[2]) * units[time[1]] if time else 0 if said == "Duration::ZERO" else json.loads(said.replace("_", "") if said[0].isdigit() else said)
        default = OPTIONS[name]["default"]
        defined = milliseconds(default) if milliseconds(default) is not None else default
        tell(f"{name}, its default", None if in_core == defined else f"it is {in_core} in the core, and {defined} in the definition")
    tell("defaults", None if found > 10 else f"{found} constants were found")


def main():
    global PEM
    with tempfile.TemporaryDirectory() as folder:
        made = pathlib.Path(certs.make(folder))
        PEM = (made / "client.crt").read_text() + (made / "client.key").read_text()
    bounds()
    defaults()
    compiled()
    python()
    asyncio.run(of_asyncio())
    node()
    command()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
