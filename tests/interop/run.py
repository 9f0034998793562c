#!/usr/bin/env python3
"""The proof matrix: other libraries and Quorlock on one key, the real libraries from their registries, real servers.

    run.py [python|node|go|rust|WORD]...     the rows of these groups, or of these libraries; default: all
    run.py --table                           the table of docs/migrate/side-by-side.md with the pinned versions; fails if the page differs
    run.py --write …                         enter what ran into the page

Needs `make python`. Ends with `N passed, M failed`: a library that cannot be had, or that does not start, has failed all of
its checks. README.md says the rest.
"""

import argparse
import concurrent.futures
import datetime
import pathlib
import signal
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import checks  # noqa: E402
import libraries  # noqa: E402
import rows  # noqa: E402
from stage import Stage  # noqa: E402

# At once. They wait more than they work.
ROWS_AT_ONCE = 2


def report(row, wrong, figures, missing=None):
    """Prints what the row showed; returns how many of its checks passed and failed."""
    total = len(checks.checks(row))
    failed = total if missing else len(wrong)
    print(f"{'FAIL' if failed else 'ok  '} {row.name:<34} {total - failed:2d} of {total}  {shown(figures)}".rstrip(), flush=True)
    for name, words in {"all": missing}.items() if missing else wrong.items():
        print(f"       {name}: {words}", flush=True)
    if row.note:
        print(f"     ! {row.note}", flush=True)
    return total - failed, failed


def shown(figures):
    if not {"ours", "theirs", "counted"} <= set(figures):
        return ""
    return (f"they {figures['theirs']:.2f} s after us, we {figures['ours']:.2f} s after them; {figures['counted']} counted in "
            f"{figures['seconds']:.1f} s, {figures['changes']} changes of hands")


def cells(figures):
    """What the page's table has of a row that ran."""
    return [datetime.datetime.now(datetime.timezone.utc).date().isoformat(), f"{figures['theirs']:.2f} s",
            f"{figures['ours']:.2f} s", figures["counted"], str(figures["changes"])]


def run(chosen, missing):
    """Runs the rows, whose groups may be missing; returns the counts, and the figures of rows without fault."""
    passed = failed = 0
    good = {}
    with tempfile.TemporaryDirectory(prefix="qlinterop") as folder, Stage(1) as one, Stage(3) as three, \
            concurrent.futures.ThreadPoolExecutor(ROWS_AT_ONCE) as pool:
        running = {}
        for row in chosen:
            if row.group in missing:
                failed += report(row, {}, {}, missing[row.group])[1]
            else:
                running[pool.submit(checks.run, row, one if row.nodes == 1 else three, folder)] = row
        for done in concurrent.futures.as_completed(running):
            wrong, figures = done.result()
            counts = report(running[done], wrong, figures)
            passed, failed = passed + counts[0], failed + counts[1]
            if not wrong:
                good[running[done].name] = cells(figures)
    return passed, failed, good


def main():
    # An exception, so that servers and adapters end with us.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true", help="print the table as the pins have it, and compare the page")
    parser.add_argument("--write", action="store_true", help="enter what ran into docs/migrate/side-by-side.md")
    parser.add_argument("rows", nargs="*", metavar="GROUP|LIBRARY")
    asked = parser.parse_args()
    known = {*rows.GROUPS, *(row.word for row in rows.ROWS)}
    if unknown := [word for word in asked.rows if word not in known]:
        parser.error(f"no {unknown[0]!r}; there are {', '.join(sorted(known))}")
    if asked.table:
        page = rows.PAGE.read_text()
        print(*rows.table({name: cells[4:] for name, cells in rows.of_page(page).items()}), sep="\n")
        wrong = rows.wrong(page)
        print(*(f"docs/migrate/side-by-side.md: {line}" for line in wrong), sep="\n", end="\n" if wrong else "")
        return 1 if wrong else 0
    chosen = [row for row in rows.ROWS if not asked.rows or {row.group, row.word} & set(asked.rows)]
    missing = libraries.get(dict.fromkeys(row.group for row in chosen))
    passed, failed, good = run(chosen, missing)
    if asked.write:
        rows.PAGE.write_text(rows.rewrite(rows.PAGE.read_text(), good))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
