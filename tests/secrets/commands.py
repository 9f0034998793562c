#!/usr/bin/env python3
"""Wrong words, variables and files of the command `quorlock` that are drawn, with a marker where a secret stands:
tests/secrets/commands.py [--draws N] [--from SEED] [--broken] [PROGRAM]

No output of any command has the marker, or six characters of it, and each ends by itself. Ends with `N passed, M failed`; a draw
is played again by its seed. With --broken each draw also shows its marker: all have to fail.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "options")]

from definition import read, spelled
from forms import Draw, leaked

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
AT_ONCE = 8
# So many seconds a command may take that waits for nothing.
LONGEST, WATCHED = 30, 3
SHOWN_AT_MOST = 600
OPTIONS = read()
# Letters that no text of an option may have, of one or another.
REFUSED = " {\n"


def flags(*takes, of_lock=False):
    """The flags that take one of these, of a lock or of the set."""
    return [spelled(name, option, "command", "command") for name, option in OPTIONS.items()
            if "command" in option["in"] and option["takes"] in takes and ("lock" in option["in"]) == of_lock]


def variables(*takes):
    return [option["variable"] for option in OPTIONS.values() if "variable" in option and option["takes"] in takes]


TIMED, PUBLIC, PEMS, FILES = flags("time", "word", "count"), flags("text"), flags("pem"), flags("urls")
# Whatever is given for one of two that go together, the other is missed.
ALONE = [spelled(name, option, "command", "command") for name, option in OPTIONS.items() if option["takes"] == "pem" and "with" not in option]


def clean(text):
    return text.replace("\0", "")


def a_name(draw):
    return clean(draw.shared("}{"))


def connection(draw, folder):
    """Options of how to reach the set, one of which has a secret."""
    option = draw.one(*TIMED, *PUBLIC, *PEMS, *FILES, *FILES, "--unknown")
    if option in FILES:
        if draw.one(True, False):
            return [option, clean(draw.given())]
        path = os.path.join(folder, f"nodes-{draw.random.getrandbits(64)}")
        with open(path, "w") as file:
            file.write(draw.one("", "# ours\n", "memory://a ") + draw.given())
        return [option, path]
    if option in PUBLIC:
        return [option, clean(draw.shared(REFUSED))]
    value = clean(draw.secret() if option in ALONE else draw.given())
    if option == "--unknown":
        return [draw.one(f"--{value}", f"--password={value}", f"-{value}", f"--ttll={value}", clean(draw.secret()))]
    return draw.one([option, value], [f"{option}={value}"])


def words(draw, folder):
    command = draw.one("run", "run", "inspect", "release", "doctor", "list", "watch", "init", "acl", "dev", "completions", "man", "other")
    secret = clean(draw.given())
    more = connection(draw, folder) if draw.one(True, True, False) else []
    if command == "run":
        own = draw.one(
            ["-w", secret], [f"-w{secret}"], [f"-nqE{secret}"],
            *([flag, secret] for flag in flags("time", "limit", "slots", of_lock=True)), *([f"{flag}={secret}"] for flag in flags("time", of_lock=True)),
            *([flag, clean(draw.shared(REFUSED))] for flag in flags("text", of_lock=True)),
            ["--grace", secret], ["--json", f"/nowhere/{secret}"], ["--conflict-code", secret], [])
        program = draw.one("true", "true", clean(draw.secret()))
        name = draw.one("a", a_name(draw))
        return ["run", "-n", *own, *more, name, *draw.one(["--", program], ["--", program, secret], [program, secret], ["--"])]
    if command in ("inspect", "doctor"):
        return [command, *more, *draw.one(["a"], [a_name(draw)], ["--json", a_name(draw)])]
    if command == "release":
        return ["release", *draw.one(["--force", "--yes"], ["--force"], ["--yes"]), *draw.one([], ["--fence", secret]), *more, draw.one("a", a_name(draw))]
    if command == "list":
        return ["list", *more, clean(draw.secret())]
    if command == "watch":
        return ["watch", "--until-free", "--every", draw.one("1s", secret), *more, draw.one("a", a_name(draw))]
    if command == "acl":
        own = draw.one(["--user", f" {clean(draw.given())}"], ["--user", clean(draw.secret())], ["--namespace", clean(draw.secret())], [secret])
        return ["acl", *own]
    if command == "dev":
        return ["dev", *draw.one([secret], ["1", "--server", f"/nowhere/{clean(draw.secret())}"], ["--server", clean(draw.secret())])]
    if command == "completions":
        return ["completions", secret]
    if command == "man":
        return ["man", *draw.one([secret], ["--dir", f"/nowhere/{secret}"])]
    if command == "init":
        return ["init", *draw.one(more, [secret], ["--json", *more])]
    return [secret, *more]


def drawn(seed, program, folder, broken):
    draw = Draw(seed)
    given = words(draw, folder)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("QUORLOCK_")}
    environment |= {"QUORLOCK_NODES": draw.one("memory://a", "memory://a", clean(draw.given()), f"redis://u:{draw.marker}@127.0.0.1:1"),
                    "QUORLOCK_NODE_TIMEOUT": "20ms", "QUORLOCK_CONNECT_TIMEOUT": "20ms"}
    if draw.one(True, False, False):
        environment[draw.one(*variables("time", "word", "count", "flag"))] = clean(draw.given())
    if draw.one(True, False, False):
        name = draw.one(*variables("text", "pem"))
        paired = [option["variable"] for option in OPTIONS.values() if "with" in option]
        environment[name] = clean(draw.given() if name in paired else draw.secret())
    try:
        done = subprocess.run([program, *given], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=WATCHED if given[0] == "watch" else LONGEST, cwd=folder)
        text = done.stdout.decode(errors="replace")
    except subprocess.TimeoutExpired as late:
        # That goes on for as long as nodes do not answer.
        if given[0] != "watch":
            return f"{given[0]} does not end"
        text = (late.stdout or b"").decode(errors="replace")
    if "panicked" in text:
        return text
    if broken:
        text += draw.marker[3:9]
    return " ".join([given[0] if given[0] in ("run", "list", "acl") else "", text]) if leaked(draw.marker, text) else None


def endless(program, folder):
    """A file of nodes without an end, and none at all."""
    found = []
    for path in ("/dev/zero", "/dev/null", folder):
        try:
            done = subprocess.run([program, "list", "--nodes-file", path], stdin=subprocess.DEVNULL, capture_output=True, timeout=LONGEST)
        except subprocess.TimeoutExpired:
            found.append(f"{path}: it does not end")
            continue
        if done.returncode != 78:
            found.append(f"{path}: status {done.returncode}: {done.stderr[-300:]}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=10_000)
    parser.add_argument("--from", type=int, default=0, dest="seed")
    parser.add_argument("--broken", action="store_true")
    parser.add_argument("program", nargs="?", default=os.path.join(ROOT, "target", "release", "quorlock"))
    asked = parser.parse_args()
    print(f"draws {asked.seed} to {asked.seed + asked.draws}")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(AT_ONCE) as pool:
        failures = [(path, path) for path in endless(asked.program, folder)]
        seeds = range(asked.seed, asked.seed + asked.draws)
        found = pool.map(lambda seed: drawn(seed, asked.program, folder, asked.broken), seeds)
        failures += [(seed, text) for seed, text in zip(seeds, found) if text is not None]
    for seed, text in failures[:10]:
        print(f"FAIL seed {seed}: {text[:SHOWN_AT_MOST]}")
    print(f"{asked.draws + 3 - len(failures)} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
