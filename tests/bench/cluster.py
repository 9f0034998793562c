#!/usr/bin/env python3
"""What a cycle costs on a cluster of three primaries, beside one server: cluster.py [REPETITIONS [SECONDS]].

Clusters are asked by scripts alone, so the lock is shared: a shared lock is asked for by scripts on a server, too. One client,
one lock, nobody else; the two take turns, and the ratio is the median of what each pair of turns says.
"""

import os
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import quorlock  # noqa: E402
from stage import Stage  # noqa: E402


def cycles(lock, seconds):
    """Microseconds a cycle."""
    begun, count = time.perf_counter(), 0
    while time.perf_counter() - begun < seconds:
        lock.acquire().release()
        count += 1
    return (time.perf_counter() - begun) / count * 1e6


def main():
    repetitions, seconds = int([*sys.argv[1:], 9][0]), float([*sys.argv[2:], 1][0])
    with Stage(1) as server, Stage(1, shards=3) as cluster, \
            quorlock.Client(server.urls()) as one, quorlock.Client(cluster.urls()) as other:
        locks = [client.lock("a", shared=True) for client in (one, other)]
        for lock in locks:
            cycles(lock, 0.5)
        pairs = [[cycles(lock, seconds) for lock in locks] for _ in range(repetitions)]
    ratios = sorted(cluster / server for server, cluster in pairs)
    plain, clustered = (statistics.median(column) for column in zip(*pairs))
    print(f"a server {plain:.1f} us, a cluster {clustered:.1f} us a cycle: ratio {statistics.median(ratios):.3f} "
          f"({ratios[0]:.3f} to {ratios[-1]:.3f}), {repetitions} repetitions of {seconds:g} s")


if __name__ == "__main__":
    main()
