#!/usr/bin/env python3
"""Proves the rules of the protocol for any number of nodes and clients, and shows for each assumption what happens without it.

    check.py [-k WORD] [--list] [--write] [--drop GUARD]

`--write` puts the runs and tables that Z3 has found into z3.md; without it the page must have them already.
"""

import argparse
import functools
import multiprocessing
import pathlib
import re
import sys
import time
import tomllib

import z3

import left_out
from actions import ACTIONS
from assumptions import ASSUMPTIONS, witness
from invariant import INVARIANT, PROMISES
from numbers_alone import NUMBERS
from prove import SECONDS, lemmas, promised

HERE = pathlib.Path(__file__).parent
PAGE = HERE.parent / "z3.md"
BREAKS = {"overlap": "exclusion", "out_of_order": "order", "kept_in_vain": "keep"}


class Failed(Exception):
    pass


def need(answer, expected, what):
    """`unknown` is never what is expected."""
    if answer != expected:
        raise Failed(f"{what}: {answer}, and not {expected}")


# What is checked.

def both(action):
    """The lemmas about one step, in two solvers."""
    return [lemmas(action, False), lemmas(action, True)]


def begins():
    for half in both(None):
        for name in half.names:
            need(half.refuted(name), z3.unsat, name)


def step(action, dropped):
    """It keeps each part of the invariant, and it can be taken, so that nothing is proven from a contradiction."""
    for half in both(action):
        need(half.can_be_taken(), z3.sat, "the step can be taken")
        for name in half.names:
            need(half.refuted(name, dropped), z3.unsat, name)


def guards(action):
    """Without any one of its conditions it does not keep the invariant."""
    for guard in list(both(action)[0].guards.switches):
        if not any(half.refuted(name, (guard,)) == z3.sat for half in both(action) for name in half.names):
            raise Failed(f"nothing is lost without {guard}")


def needed(part):
    """Without this part the others do not follow, or do not give the promises."""
    if any(promised(name, (part,)) == z3.sat for name in PROMISES):
        return
    for half in (half for action in ACTIONS for half in both(action)):
        if any(half.refuted(name, (), (part,)) == z3.sat for name in half.names if name != part):
            return
    raise Failed("nothing is lost without it")


def apart(find):
    """What `find` returns, from a process of its own: what Z3 finds depends on what it was asked before."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(find)


def counterexample(k):
    given = ASSUMPTIONS[k]
    with_it = given.holds_with_it()
    answer, run = given.breaks_without_it()
    return str(with_it), str(answer), run.text() if answer == z3.sat else ""


def witnessed():
    run = witness()
    answer = run.check()
    return str(answer), run.text() if answer == z3.sat else ""


def assumption(k, page):
    with_it, answer, text = apart(functools.partial(counterexample, k))
    need(with_it, "unsat", "with the assumption there is such a run")
    need(answer, "sat", "without it there is none")
    page.put(ASSUMPTIONS[k].name, f"```text\n{text}\n```")


def shown(page):
    answer, text = apart(witnessed)
    need(answer, "sat", "a lock that is won, passed on, lost and won again")
    page.put("witness", f"```text\n{text}\n```")


def promise(name):
    need(promised(name), z3.unsat, name)


def number(name):
    expected, make = NUMBERS[name]
    solver = z3.Solver()
    solver.set("timeout", SECONDS * 1000)
    solver.add(make())
    need(solver.check(), expected, name)


def table(page):
    """The page names each assumption."""
    rows = ["| assumption | | without it | what breaks |", "|---|---|---|---|"]
    rows += [f"| [`{a.name}`](#{a.name.lower()}) | {a.says} | {a.without} | {BREAKS[a.breaks]} |" for a in ASSUMPTIONS]
    page.put("assumptions", "\n".join(rows))
    rows = ["| action | why it has no lemma |", "|---|---|"]
    rows += [f"| `{name}` | {why} |" for name, why in left_out.NOT_HERE.items()]
    page.put("left_out", "\n".join(rows))


def names_are_those_of_the_list():
    listed = {a["name"] for a in tomllib.loads((HERE.parent / "actions.toml").read_text())["action"]}
    here = set(ACTIONS) | set(left_out.NOT_HERE)
    if listed ^ here or set(ACTIONS) & set(left_out.NOT_HERE):
        raise Failed(f"only in actions.toml: {sorted(listed - here)}; only here: {sorted(here - listed)}")


class Page:
    """The blocks of z3.md that are made here."""

    def __init__(self, write):
        self.write, self.text = write, PAGE.read_text()

    def put(self, name, block):
        pattern = re.compile(rf"(<!-- z3: {name} -->\n)(?:.*?\n)??(<!-- z3: end -->)", re.S)
        found = pattern.search(self.text)
        if not found:
            raise Failed(f"z3.md has no block {name}")
        made = pattern.sub(lambda m: m[1] + block + "\n" + m[2], self.text, count=1)
        if self.write:
            self.text = made
            PAGE.write_text(made)
        elif made != self.text:
            raise Failed(f"the block {name} of z3.md is another: check.py --write")


def checks(page, dropped):
    """What is found for the page comes first, before this process has asked Z3 for anything."""
    for k, given in enumerate(ASSUMPTIONS):
        yield f"assumption {given.name}", functools.partial(assumption, k, page)
    yield "witness", functools.partial(shown, page)
    yield "tables of the page", functools.partial(table, page)
    yield "names of actions", names_are_those_of_the_list
    yield "the invariant holds at the beginning", begins
    for action in ACTIONS:
        yield f"step {action}", functools.partial(step, action, dropped)
    for name in PROMISES:
        yield f"promise {name}", functools.partial(promise, name)
    for name in NUMBERS:
        yield f"number {name}", functools.partial(number, name)
    for action in ACTIONS:
        yield f"guards {action}", functools.partial(guards, action)
    for part in INVARIANT:
        yield f"needed {part}", functools.partial(needed, part)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", metavar="WORD", default="", help="only checks whose names have this word")
    parser.add_argument("--list", action="store_true", help="the names of all checks")
    parser.add_argument("--write", action="store_true", help="write what was found into z3.md")
    parser.add_argument("--drop", action="append", default=[], metavar="GUARD", help="leave this condition out of its step, which then fails")
    given = parser.parse_args()
    passed = failed = 0
    begun = time.monotonic()
    for name, check in checks(Page(given.write), given.drop):
        if given.k not in name:
            continue
        if given.list:
            print(name)
            continue
        try:
            check()
            passed += 1
        except Failed as why:
            failed += 1
            print(f"FAILED {name}: {why}", flush=True)
    if not given.list:
        print(f"{time.monotonic() - begun:.0f} s")
        print(f"{passed} passed, {failed} failed")
        sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
