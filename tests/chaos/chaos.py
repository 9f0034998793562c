#!/usr/bin/env python3
"""Workers of all languages, servers that are disturbed, a history, and judges that read it.

    chaos.py RUN [OPTION...]        demo, faults, restarts, names, leaders, failover, moving, jobs; `chaos.py RUN --help`

A run ends with `N passed, M failed`, and with status 1 if anything is wrong. README.md says what each is about.
"""

import argparse
import importlib
import os
import random
import shutil
import signal
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
sys.path[:0] = [HERE, TESTS, os.path.join(TESTS, "scenarios")]

import check3  # noqa: E402
from check import Verdict  # noqa: E402
from crew import LANGUAGES, missing  # noqa: E402
from history import Writer  # noqa: E402
from proxy import ROOT  # noqa: E402
from stage import RespError  # noqa: E402

RUNS = ("demo", "faults", "restarts", "names", "leaders", "failover", "moving", "jobs")


def once(run, asked, seed):
    """Carries out a run, keeps what is left of it in target/RUN, and judges it. Returns the verdict."""
    verdict, kept = Verdict(), os.path.join(ROOT, "target", asked.run)
    with tempfile.TemporaryDirectory(prefix="qlchaos") as folder:
        try:
            wrong, judged = run.play(asked, Writer(os.path.join(folder, "history")), seed), True
        except (RespError, OSError, RuntimeError) as error:
            wrong, judged = [f"the run broke off: {type(error).__name__}: {error}"], False
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(folder, kept, ignore=lambda *_: ["resource"])
    history = os.path.join(kept, "history")
    if judged:
        run.judge(asked, history, verdict)
        if hasattr(run, "SEMAPHORES"):
            check3.judge(history, verdict, run.SEMAPHORES)
    verdict.line(not wrong, f"{len(wrong)} times something went wrong beside the history")
    for line in wrong:
        print(f"wrong: {line}")
    print(f"the history: {os.path.relpath(history, ROOT)}")
    return verdict


def main():
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in RUNS:
        print(__doc__, end="", file=sys.stderr)
        return 2
    run = importlib.import_module(name)
    parser = argparse.ArgumentParser(prog=f"chaos.py {name}", description=run.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, help="of what is drawn beside the workers; another one each time, which is printed, without")
    run.arguments(parser)
    asked = parser.parse_args(sys.argv[2:])
    asked.run = name
    lacking = missing(getattr(run, "languages", lambda _: LANGUAGES)(asked))
    if lacking:
        print(f"there is no {lacking}: run `make build` first", file=sys.stderr)
        return 2
    # An exception, so that servers and workers end with us.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    seed = random.SystemRandom().randrange(1 << 31) if asked.seed is None else asked.seed
    print(f"{run.heading(asked)}, seed {seed}", flush=True)
    # What must show may fail to by chance, and is then tried again a few times.
    for number in range(getattr(run, "tries", lambda _: 1)(asked)):
        verdict = once(run, asked, seed + number)
        if any(line.startswith("S1") for line in verdict.failed):
            break
    print(f"{verdict.passed} passed, {len(verdict.failed)} failed")
    return 1 if verdict.failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
