"""A host of jobs.py: starts every job at each of its ticks, by a clock that is off, and says which it ran."""

import sys
import threading
import time

import quorlock
from quorlock import once

NODES, BEGIN, OFF, EVERY, JOBS, TICKS = sys.argv[1].split(","), *map(float, sys.argv[2:5]), *map(int, sys.argv[5:7])

client = quorlock.Client(NODES)
said = threading.Lock()


def cron(job):
    @once(f"job-{job}", every=EVERY, client=client)
    def report(tick):
        with said:
            print("ran", job, tick, flush=True)

    for tick in range(TICKS):
        # As cron does it: by the time of day, which this host has wrong.
        time.sleep(max(0.0, BEGIN + tick * EVERY - (time.time() + OFF)))
        report(tick)


threads = [threading.Thread(target=cron, args=(job,)) for job in range(JOBS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
client.close()
