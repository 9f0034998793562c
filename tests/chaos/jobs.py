"""Five hosts start the same jobs by their own clocks, one of which is 300 ms off; in the middle a node is killed. Each tick
of each job runs once.

A lock is kept for half of `--every`: below 0.6 that is less than the clocks differ by, and has to be seen.
"""

import time

from crew import Crew, Orders
from history import read
from stage import Stage

# How far each host's clock is ahead, in ms.
OFF = (0, 5, -20, 50, 300)
JOBS = 20
# For the start of the hosts.
START_SECONDS = 2.0


def arguments(parser):
    parser.add_argument("--ticks", type=int, default=50, help=f"of each of {JOBS} jobs")
    parser.add_argument("--every", type=float, default=1.0, metavar="SECONDS")


def languages(_asked):
    return ["blocking"]


def heading(asked):
    return f"3 servers, {len(OFF)} hosts, {asked.ticks} ticks of {JOBS} jobs, one each {asked.every:g} s"


def play(asked, history, _seed):
    begin, lasts = time.time() + START_SECONDS, asked.ticks * asked.every
    work = f"job:{JOBS}:{asked.ticks}:{1000 * asked.every:g}:{1000 * begin:.0f}"
    hosts = {f"blocking-{number}": {"CHAOS_WORK": f"{work}:{off}"} for number, off in enumerate(OFF, 1)}
    orders = Orders(nodes=3, work=(), ttl=10_000, max_ttl=60_000, node_timeout=250, wait=10_000)
    # A host does its work once.
    end = time.monotonic_ns() + int(START_SECONDS * 1e9)
    with Stage(orders.nodes) as stage, Crew(history, lambda _: stage.urls(), orders, hosts, end=end, own=hosts) as crew:
        time.sleep(max(0.0, begin + lasts / 2 - time.time()))
        stage.kill(2)
        crew.join(lasts + 60)
    return crew.wrong


def judge(asked, path, verdict):
    ran = read(path).ticks
    expected = {(job, tick) for job in range(JOBS) for tick in range(asked.ticks)}
    wrong = sorted(one for one in expected | set(ran) if ran[one] != (one in expected))
    for job, tick in wrong[:10]:
        print(f"FAIL tick {tick} of job {job}: {ran[job, tick]} times")
    verdict.passed += len(expected - set(wrong))
    verdict.line(not wrong, f"{len(wrong)} ticks did not run once")
