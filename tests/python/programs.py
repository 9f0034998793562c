#!/usr/bin/env python3
"""Programs that are drawn: scopes of few locks, entered and left in every way, by threads, tasks, calls of `to_thread` and greenlets.

    programs.py [--programs N] [--seed S] [--real N] [--node URL]
    programs.py --bugs       each seeded bug is found within 1,000 programs
    programs.py --bug NAME   what is found of it, and made small

A program is a list of steps. Each is done by one of some actors, threads, tasks of one event loop, greenlets of one thread, which take turns:
so a program does the same each time, and a failure is made smaller (hypothesis) until nothing can be left out of it. Nothing in it waits for a
lock, but for entries that are cancelled meanwhile: what is refused is left out. Each scope counts itself in behind the entry and out before
the exit, by the program's own hand.
Judged after each step:

- never more are inside than may be, but for those whose lease was told lost;
- each scope that is inside has a lease that is held, or was told lost;
- what was left, where that is told apart, is held no longer; what is lost says so at the exit, and nothing else does;
- in the end, when all has been left or dropped, another client gets each lock.

Programs come in batches of a seed each, the numbers from S on; one that fails names its batch, which `--seed` repeats.
"""

import argparse
import logging
import os
import re
import subprocess
import sys
import traceback
import warnings

import hypothesis
from drawn_actors import Green, Tasked, Threaded, ToThread, Wrong
from drawn_bugs import BUGS
from drawn_program import MODES, VERBS, Program
from hypothesis import strategies
from quorlock import _owner

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

try:
    import greenlet
except ImportError:
    greenlet = None

BATCH = 500
FORMS = ("lock", "redlock", "attempt", "several")
CHOSEN = strategies.lists(
    strategies.tuples(strategies.sampled_from(MODES), strategies.integers(0, 1), strategies.sampled_from(FORMS)), min_size=1, max_size=3
)
# Few of the actors, so that they meet.
ACTORS = strategies.lists(strategies.integers(0, 7), min_size=2, max_size=4, unique=True)
STEPS = strategies.lists(
    strategies.tuples(strategies.sampled_from(VERBS), *(strategies.integers(0, 49) for _ in range(4))), min_size=12, max_size=24
)


def crew():
    """Two of each kind."""
    made = [kind() for kind in (Threaded, ToThread, Tasked) for _ in range(2)]
    made += [Green(), Green()] if greenlet is not None else []
    for actor in made:
        if actor.kind != "task":
            # Its context is its own from here on, also in copies.
            actor.ask(_owner.Work)
    return made


class Runs:
    """All programs of a run, with one crew as long as nothing fails."""

    def __init__(self, nodes):
        self.nodes = nodes
        self.crew = None
        self.count = 0

    def run(self, actors, chosen, steps):
        self.count += 1
        if self.crew is None:
            self.crew = crew()
        few = list(dict.fromkeys(self.crew[at % len(self.crew)] for at in actors))
        program, ended = Program(self.nodes, few, chosen), False
        try:
            for step in steps:
                program.step(*step)
            program.end()
            ended = True
        except BaseException as error:
            words = "\n".join(f"  {number}. {said}" for number, said in enumerate(program.done, 1))
            raise Wrong(f"{error!r}\n{words}") from error
        finally:
            if not ended:
                self.crew = None
            program.clear()


def bugs():
    """Whether each is found. Without that what is found is made small, which takes long."""
    found = 0
    for name in BUGS:
        command = [sys.executable, __file__, "--bug", name, "--programs", "2000", "--large"]
        said = subprocess.run(command, capture_output=True, text=True, timeout=600).stdout
        number = re.search(r"^seed \d+, program (\d+) ", said, re.MULTILINE)
        print(f"{'ok  ' if number else 'FAIL'} {name}: {f'program {number[1]}' if number else 'not found'}", flush=True)
        found += number is not None
    print(f"{found} passed, {len(BUGS) - found} failed")
    sys.exit(found != len(BUGS))


def batch(runs, seed, count, large=False):
    phases = [hypothesis.Phase.generate, *([] if large else [hypothesis.Phase.shrink])]

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count, deadline=None, database=None, print_blob=False, report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck), phases=phases,
    )
    @hypothesis.given(ACTORS, CHOSEN, STEPS)
    def test(actors, chosen, steps):
        runs.run(actors, chosen, steps)

    test()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=2000, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--real", type=int, default=0, metavar="N", help="so many more on a real node")
    parser.add_argument("--node", help="the URL of a real node; else one is started")
    parser.add_argument("--large", action="store_true", help="tells what is found as it is")
    parser.add_argument("--bug", choices=BUGS, help="seeds this bug")
    parser.add_argument("--bugs", action="store_true", help="looks whether each seeded bug is found")
    given = parser.parse_args()
    if given.bugs:
        return bugs()
    if given.bug:
        BUGS[given.bug]()
    logging.getLogger("quorlock").setLevel(logging.ERROR)
    warnings.simplefilter("ignore", ResourceWarning)
    sets = [(given.programs, ["memory://programs"])]
    if given.real:
        sets.append((given.real, [given.node or started()]))
    failed = done = 0
    for programs, nodes in sets:
        runs = Runs(nodes)
        for number, begin in enumerate(range(0, programs, BATCH)):
            before = runs.count
            try:
                batch(runs, given.seed + number, min(BATCH, programs - begin), given.large)
            except (Wrong, hypothesis.errors.FlakyFailure) as error:
                # What a thread of the core did in time once and not again was found all the same.
                error = error.exceptions[0] if isinstance(error, hypothesis.errors.FlakyFailure) else error
                print(f"seed {given.seed + number}, program {runs.count - before} on {nodes[0]}: {error}", flush=True)
                failed += 1
                break
            done += runs.count - before
    print(f"{done} passed, {failed} failed", flush=True)
    for stage in stages:
        stage.close()
    # Actors of a program that has failed may wait for ever.
    os._exit(1 if failed else 0)


stages = []


def started():
    from stage import Stage

    stages.append(Stage(1))
    return stages[0].urls()[0]


if __name__ == "__main__":
    try:
        main()
    except Exception:
        # As above.
        traceback.print_exc()
        os._exit(1)
