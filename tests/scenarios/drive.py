#!/usr/bin/env python3
"""Runs scenario files with one runner:
drive.py [-k WORD] [-x WORD] [-j N] [--runner NAME] [--seconds S] [--patient] [--auth [--permit WORDS]] COMMAND...

Starts the servers that each file asks for, rewrites the file (README.md), runs COMMAND on it, bounds its time, and
looks that no key of ours is left behind. With --auth every server asks for a password, and the clients may do what the
line of docs/reference/protocol.md permits and nothing else. The last line is `N passed, M failed`.
"""

import argparse
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), HERE]

import scenario  # noqa: E402
from stage import Stage, ensure_server  # noqa: E402
from stage.control import Control  # noqa: E402
from stage.stage import command as stage_command, options as stage_options  # noqa: E402

# A vote of ours: a token, a dot, a label; while somebody waits behind its end in µs.
VOTE = re.compile(rb"(?:=(\d+) )?[0-9a-f]{40}\.")
# A closed client's releases are on their way; they need a moment, not a ttl.
LEFT_SECONDS = 2.0
# Of what a failed runner said.
MAX_LINES = 60


def over(stage, number, end):
    """Whether a crowded vote has ended, though its key is there."""
    seconds, micros = map(int, stage.redis(number, "TIME"))
    return end is not None and int(end) < seconds * 1_000_000 + micros


def votes_left(stage):
    """Keys on the running nodes that hold a vote of ours."""
    left = set()
    for number in stage.running():
        for db in re.findall(rb"^db(\d+):", stage.redis(number, "INFO", "keyspace"), re.MULTILINE):
            for key in stage.keys(number, db=int(db)):
                if stage.redis(number, "TYPE", key, db=int(db)) != b"string":
                    continue
                vote = VOTE.match(stage.redis(number, "GET", key, db=int(db)) or b"")
                if vote and not over(stage, number, vote[1]):
                    left.add(f"{key!r} on node {number}")
    return sorted(left)


# As docs/how-to/one-lock-with-java.md says.
REDISSON = {"&redisson_lock__channel:*", *"+hgetall +hget +hset +hdel +hincrby +get +set +unsubscribe".split()}


def permit(stage, lines):
    """Adds the keys of the file's other namespaces to what the tests' user may touch: the line is one for each namespace.
    With raw naming the keys are the names, in Redisson's layout there are channels and other commands, and `wait_replicas`
    needs a word more."""
    patterns, words = set(), set()
    for step in scenario.parse([scenario.repeated(line) for line in lines]):
        if step.options.get("raw") == "on":
            patterns.add("*")
        if step.options.get("layout") == "redisson":
            patterns.add("*")
            words |= REDISSON
        if step.verb == "client" and "namespace" in step.options:
            patterns.add(step.options["namespace"] + "*")
        if "wait_replicas" in step.options:
            words.add("+wait")
    if "*" in patterns:
        patterns = {"*"}  # a server refuses others beside it
    words |= {f"~{pattern}" for pattern in patterns}
    for number in stage.running() if words else ():
        stage.redis(number, "ACL", "SETUSER", "quorlock", *sorted(words))


def await_no_votes(stage):
    end = time.monotonic() + LEFT_SECONDS
    while (left := votes_left(stage)) and time.monotonic() < end:
        time.sleep(0.02)
    return left


def patient(lines):
    """The lines, where clients that name no node_timeout have the longest that the file's ttls allow: for a runner that is
    slow itself, not its nodes."""
    quarter = min([10_000, *(int(ttl) for line in lines for ttl in re.findall(r"\bttl=(\d+)", line))]) // 4
    return [line if "node_timeout=" in line else re.sub(r"^client \S+", rf"\g<0> node_timeout={quarter}", line)
            for line in lines]


class Lane:
    """Runs files one after the other, on one stage as long as they ask for the same shape."""

    def __init__(self, command, seconds, folder, rewrite=list, auth=False, more=""):
        self._command, self._seconds, self._folder, self._rewrite = command, seconds, folder, rewrite
        self._auth, self._more = auth, more
        self._stage = self._control = self._shape = None

    def _set(self, shape):
        if self._shape == shape:
            self._stage.heal()
            return
        self.close()
        self._stage = Stage(**stage_options(shape), cert_folder=os.path.join(self._folder, "certs"),
                            permit=self._more, declare=False)
        self._control = Control(self._stage)
        self._shape = shape

    def close(self):
        if self._stage:
            self._control.close()
            self._stage.close()
        self._stage = self._shape = None

    def run(self, path):
        """Runs one file; returns what went wrong, or nothing."""
        try:
            found = scenario.load(path)
            scenario.checked(found.lines)
        except scenario.FormatError as error:
            return str(error)
        shape = [word for word in found.shape if word != scenario.NEW]
        if self._auth:
            shape = sorted({*shape, "auth"})
        self._set(shape)
        if self._auth:
            permit(self._stage, found.lines)
        if scenario.NEW not in found.shape:
            for numbers, record in scenario.sets(found.lines, len(self._stage), self._stage.fails_over):
                self._stage.declare(numbers, **record)
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            # The folder is ours alone: the rewritten file holds passwords.
            rewritten = os.path.join(folder, os.path.basename(path))
            with open(rewritten, "w", encoding="utf-8") as file:
                file.write("\n".join([*self._rewrite(scenario.rewrite(found.lines, self._stage)), ""]))
            with open(os.path.join(folder, "output"), "w+b") as output:
                status = self._runner(rewritten, output)
                output.seek(0)
                said = output.read().decode(errors="backslashreplace").strip()
        if status != 0:
            return self._explained(found, status, said)
        left = await_no_votes(self._stage)
        return f"left behind: {', '.join(left)}" if left else None

    def _runner(self, rewritten, output):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("QUORLOCK_")}
        environment["QUORLOCK_SCENARIO"] = rewritten
        environment["QUORLOCK_STAGE"] = stage_command(self._stage.folder)
        environment["QUORLOCK_NODES"] = ",".join(self._stage.urls())
        # Into a file and not a pipe: what the runner started may outlive it and hold a pipe open.
        runner = subprocess.Popen(self._command, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                                  stderr=subprocess.STDOUT)
        try:
            return runner.wait(self._seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            runner.kill()
            runner.wait()

    def _explained(self, found, status, said):
        """What the runner said, with the line that it means."""
        why = f"no end after {self._seconds:g} s" if status is None else ""
        if status and status < 0:
            why = f"ended by signal {-status}"
        said = "\n".join(said.splitlines()[:MAX_LINES])
        parts = [part for part in (why, said) if part] or [f"status {status}, and no word"]
        line = re.search(r"^line (\d+):", said, re.MULTILINE)
        if line and int(line[1]) <= len(found.lines):
            parts.append(f"    {found.lines[int(line[1]) - 1][:200].strip()}")
        return "\n".join(parts)


def files(words, without, runner):
    paths = scenario.of_runner(runner)

    def has(path, words):
        return any(word in os.path.basename(path) for word in words)

    chosen = [path for path in paths if (not words or has(path, words)) and not has(path, without)]

    def shape(path):
        try:
            return scenario.load(path).shape
        except scenario.FormatError:
            return []

    # Files of one shape follow each other and share a stage.
    return sorted(chosen, key=lambda path: (shape(path), path))


def run_all(paths, lanes):
    """Runs the files; prints a line for each; returns how many failed."""
    todo, done = queue.SimpleQueue(), queue.SimpleQueue()
    for path in paths:
        todo.put(path)

    def work(lane):
        while True:
            try:
                path = todo.get_nowait()
            except queue.Empty:
                return lane.close()
            begun = time.monotonic()
            try:
                wrong = lane.run(path)
            except Exception as error:  # the stage's own trouble; the other files still count
                wrong = f"{type(error).__name__}: {error}"
                lane.close()
            done.put((path, wrong, time.monotonic() - begun))

    for lane in lanes:
        threading.Thread(target=work, args=(lane,), daemon=True).start()
    failed = 0
    for _ in paths:
        path, wrong, took = done.get()
        name = os.path.basename(path).removesuffix(scenario.SUFFIX)
        print(f"{'FAIL' if wrong else 'ok  '} {name}  {took:.2f} s", flush=True)
        if wrong:
            failed += 1
            print("     " + wrong.replace("\n", "\n     "), flush=True)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", action="append", default=[], metavar="WORD", help="only files with WORD in their name")
    parser.add_argument("-x", action="append", default=[], metavar="WORD", help="no files with WORD in their name")
    parser.add_argument("-j", type=int, default=1, metavar="N", help="this many files at a time")
    parser.add_argument("--runner", choices=scenario.RUNNERS, help="only the files that are for it; without, all")
    parser.add_argument("--seconds", type=float, default=300.0, metavar="S", help="bound for one file")
    parser.add_argument("--patient", action="store_true", help="long node_timeouts, for a runner under a checker of memory")
    parser.add_argument("--auth", action="store_true", help="every file as the user of the documented ACL line")
    parser.add_argument("--permit", default="", metavar="WORDS", help="what this user may beyond the line")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    asked = parser.parse_args()
    if not asked.command:
        parser.error("which runner?")
    ensure_server()
    # An exception, so that servers and runners end with us.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    paths = files(asked.k, asked.x, asked.runner)
    with tempfile.TemporaryDirectory(prefix="qlscene") as folder:
        rewrite = patient if asked.patient else list
        lanes = [Lane(asked.command, asked.seconds, folder, rewrite, asked.auth, asked.permit)
                 for _ in range(max(1, asked.j))]
        try:
            failed = run_all(paths, lanes)
        finally:
            for lane in lanes:
                lane.close()
    print(f"{len(paths) - failed} passed, {failed} failed")
    return 1 if failed or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
