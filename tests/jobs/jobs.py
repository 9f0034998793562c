#!/usr/bin/env python3
"""Five hosts start the same jobs by their own clocks, one of which is 300 ms off; in the middle a node is killed. Each tick
of each job runs once.

    jobs.py [--ticks N] [--every SECONDS]

A lock is kept for half of `--every`: below 0.6 that is less than the clocks differ by, and has to be seen. Ends with
`N passed, M failed`.
"""

import argparse
import collections
import contextlib
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from stage import Stage  # noqa: E402

# How far each host's clock is ahead, in seconds.
OFF = (0.0, 0.005, -0.02, 0.05, 0.3)
JOBS = 20


def run(ticks, every):
    """How often each tick of each job ran."""
    ran = collections.Counter()
    # A pipe that nobody reads for so long would be full, and its host would stand still.
    outputs = [tempfile.TemporaryFile("w+") for _ in OFF]
    with Stage(3) as stage, contextlib.ExitStack() as files:
        for output in outputs:
            files.enter_context(output)
        begin = time.time() + 2.0
        words = [sys.executable, HERE / "host.py", ",".join(stage.urls()), str(begin)]
        hosts = [subprocess.Popen([*words, str(off), str(every), str(JOBS), str(ticks)], stdout=output)
                 for off, output in zip(OFF, outputs)]
        try:
            time.sleep(max(0.0, begin + ticks * every / 2 - time.time()))
            stage.kill(2)
            for host, output in zip(hosts, outputs):
                if host.wait(timeout=ticks * every + 60):
                    ran["a host failed"] += 1
                output.seek(0)
                ran.update(output.read().split("\n")[:-1])
        finally:
            for host in hosts:
                host.kill()
                host.wait()
    return ran


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ticks", type=int, default=50, help=f"of each of {JOBS} jobs")
    parser.add_argument("--every", type=float, default=1.0, metavar="SECONDS")
    given = parser.parse_args()
    ran = run(given.ticks, given.every)
    expected = {f"ran {job} {tick}" for job in range(JOBS) for tick in range(given.ticks)}
    wrong = sorted(line for line in expected | set(ran) if ran[line] != (line in expected))
    for line in wrong[:10]:
        print(f"FAIL {line}: {ran[line]} times")
    print(f"{len(wrong)} ticks did not run once")
    print(f"{len(expected) - len(expected & set(wrong))} passed, {len(wrong)} failed")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
