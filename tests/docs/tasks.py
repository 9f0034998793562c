#!/usr/bin/env python3
"""Six things that somebody does who has the site alone: tests/docs/tasks.py [TASK...]

Each is done in an empty folder, with the packages as they are published and nothing else of this project, on servers that
`quorlock dev` has started as the first page says. What is typed is what the pages show and nothing that they hide; in place of example
addresses stand those of the servers, and in place of the registry the packages that `make build` has made.
"""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DOCS = ROOT / "docs"
sys.path[:0] = [str(HERE)]

from blocks import agrees, blocks  # noqa: E402

SECONDS = 300


class Wrong(Exception):
    """What was typed has not done what the page says."""


def shown(page, language, word):
    """The one block of that language on a page that shows the word, as a reader sees it."""
    found = [block for block in blocks(page, (DOCS / page).read_text()) if block.language == language and word in block.text]
    if len(found) != 1:
        raise Wrong(f"{page} shows {len(found)} blocks of {language} with {word!r}")
    return found[0].text


class Place:
    """An empty folder with the packages, and three servers or one of `quorlock dev`."""

    def __init__(self, packages, servers):
        self._stack = contextlib.ExitStack()
        self.folder = pathlib.Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        # Nothing of the caller's: no settings, no path into this project.
        self._environment = {"HOME": str(self.folder), "PATH": f"{packages / 'bin'}:/usr/local/bin:/usr/bin:/bin:" + NODE, "LANG": "C.UTF-8"}
        (self.folder / "node_modules").symlink_to(packages / "node_modules")
        self._dev = subprocess.Popen(["quorlock", "dev", str(servers)], cwd=self.folder, env=self._environment, stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self._stack.callback(self._end)
        printed = []
        for line in self._dev.stdout:
            printed.append(line)
            if match := re.match(r"export QUORLOCK_NODES=(\S+)", line.strip()):
                self._environment["QUORLOCK_NODES"] = match[1]
                break
        else:
            raise Wrong("`quorlock dev` has printed no `export QUORLOCK_NODES=…`, but:\n" + "".join(printed))
        self._urls = self._environment["QUORLOCK_NODES"].strip("'\"").split(",")
        self._environment["QUORLOCK_NODES"] = ",".join(self._urls)

    def _end(self):
        self._dev.terminate()
        self._dev.communicate(timeout=20)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stack.close()

    def _theirs(self, text):
        return re.sub(r"redis://10\.0\.0\.(\d)", lambda found: self._urls[(int(found[1]) - 1) % len(self._urls)], text)

    def save(self, name, text):
        (self.folder / name).write_text(self._theirs(text))

    def start(self, *command):
        return subprocess.Popen(command, cwd=self.folder, env=self._environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)

    def type(self, text, name="typed.sh", *command):
        """Saves the text and runs it, in a shell unless a command is given; returns what it printed."""
        self.save(name, text)
        process = self.start(*(command or ("bash", "-euo", "pipefail")), name)
        try:
            printed, _ = process.communicate(timeout=SECONDS)
        finally:
            process.kill()
        if process.returncode:
            raise Wrong(f"status {process.returncode}\n{printed}")
        return printed


def must(agreed, printed):
    if not agreed:
        raise Wrong(f"printed was\n{printed}")


# ---- the tasks ----


def hold(packages):
    page = "tutorial/first-lock.md"
    with Place(packages, 3) as place:
        for language, name, begin in (("python", "first.py", "import time"), ("js", "first.mjs", "import { redlock }")):
            place.save(name, shown(page, language, begin))
            lines = place.type(shown(page, "sh", f" {name} &")).splitlines()
            # The first program may say that it has released behind the word of the second, which has the lock by then.
            said = [line.split(",")[0] for line in lines if line != "waiting"]
            must(said[0] == "held" and sorted(said) == ["held", "held", "released", "released"], "\n".join(lines))
            fences = [int(line.split()[-1]) for line in lines if line.startswith("held")]
            must(fences[0] < fences[1], fences)


def lose(packages):
    page = "tutorial/lose-it.md"
    with Place(packages, 3) as place:
        place.save("hold.py", shown(page, "python", "is_held()"))
        place.save("hold.mjs", shown(page, "js", "isHeld()"))
        for begin in ("python hold.py &\n", "node hold.mjs &\n"):
            until = "until quorlock inspect tutorial-loss >/dev/null; do sleep 1; done\n"
            for word in (begin + until + "quorlock release", begin + until + "sleep 1\nkill -STOP"):
                printed = place.type(shown(page, "sh", word))
                # The log's warning goes its own way, so it may stand before or behind each line of the program.
                lines = [line.split(":")[0] for line in printed.splitlines() if line.startswith(("held", "stopping", "lost: "))]
                must(lines == ["held", "stopping", "lost"], printed)


def fence(packages):
    page = "tutorial/fences.md"
    with Place(packages, 3) as place:
        place.save("table.sql", shown(page, "sql", "CREATE TABLE"))
        place.type("import sqlite3\nsqlite3.connect('page.db').executescript(open('table.sql').read())\n", "table.py", "python")
        place.save("bank.py", shown(page, "python", "UPDATE account"))
        printed = place.type(shown(page, "python", "testing.lose"), "two.py", "python")
        # The warning comes from a thread of its own, before which the program may end.
        others = "".join(line for line in printed.splitlines(keepends=True) if " is lost: " not in line)
        must(agrees(shown(page, "text", "writes, late"), others), printed)


def once(packages):
    with Place(packages, 3) as place:
        for name, language, word, begin in (("report.py", "python", "report()\n", ["python"]),
                                            ("report.mjs", "js", "hourly-report-js", ["node"])):
            place.save(name, shown("how-to/jobs.md", language, word))
            hosts = [place.start(*begin, name) for _ in range(4)]
            printed = "".join(host.communicate(timeout=SECONDS)[0] for host in hosts)
            must(printed == "report sent\n", printed)


def who(packages):
    page = "operations/who-holds-it.md"
    with Place(packages, 3) as place:
        holder = place.start("quorlock", "run", "--label", "billing on host7", "nightly", "--", "sleep", "30")
        try:
            place.type("until quorlock inspect nightly >/dev/null; do sleep 0.1; done\n")
            printed = place.type(shown(page, "sh", "quorlock inspect nightly"))
            must(agrees(shown(page, "text", "billing on host7"), printed), printed)
        finally:
            holder.terminate()
            holder.communicate(timeout=20)
        for language, name, begin, word in (("python", "who.py", "python", ".inspect("), ("js", "who.mjs", "node", ".inspect(")):
            printed = place.type(shown(page, language, word), name, begin)
            must(printed.startswith("held by "), printed)


def migrate(packages):
    """A program of redis-py and one of node-redlock: before and after, and both at once on the same key."""
    for servers, page, language, name, command, before, after in (
            (1, "migrate/redis-py.md", "python", "program.py", "python", "r.lock(", "raw=True"),
            (3, "migrate/node-redlock.md", "js", "program.mjs", "node", "redlock.using(", "raw: true")):
        with Place(packages, servers) as place:
            old, new = shown(page, language, before), shown(page, language, after)
            for text in (old, new):
                printed = place.type(text, name, command)
                must(printed == "charged\n", printed)
            # While the one that has moved holds the lock, the one that has not waits.
            place.save("old-" + name, old)
            place.save("new-" + name, re.sub(r'( *)(print|console\.log)\("charged"\);?', SLOW[language], new))
            processes = [place.start(command, each + name) for each in ("new-", "old-", "new-", "old-")]
            printed = [process.communicate(timeout=SECONDS)[0] for process in processes]
            must(all(text.endswith("charged\n") for text in printed), printed)


SLOW = {"python": r'\1import time; time.sleep(0.5)\n\1print("charged")',
        "js": r'\1await new Promise((resolve) => setTimeout(resolve, 500));\n\1console.log("charged");'}
NODE = os.path.dirname(shutil.which("node") or "/usr/bin/node")
TASKS = {"hold": hold, "lose": lose, "fence": fence, "once": once, "who": who, "migrate": migrate}


def packages(folder):
    """The packages, installed as the pages say, from what `make build` has made in place of the registry."""
    python = folder / "bin" / "python"
    wheel, = (ROOT / "target" / "wheels").glob("quorlock-*.whl")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel, "redis==8.1.0"], check=True)
    packed = subprocess.run(["npm", "pack", "--silent", "--pack-destination", folder, ROOT / "node"], check=True, capture_output=True,
                            text=True).stdout.split()[-1]
    (folder / "package.json").write_text('{"private": true}\n')
    subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", folder, folder / packed, "ioredis@6.0.0", "redlock@5.0.0-beta.2"],
                   check=True)
    return folder


def main():
    wanted = sys.argv[1:] or list(TASKS)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        place = packages(pathlib.Path(folder))
        for name in wanted:
            try:
                TASKS[name](place)
            except (Wrong, subprocess.TimeoutExpired) as wrong:
                failed += 1
                print(f"FAIL {name}\n     " + "\n     ".join(str(wrong).splitlines()[-20:]), flush=True)
            else:
                print(f"ok   {name}", flush=True)
    print(f"{len(wanted) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
