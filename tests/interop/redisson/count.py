"""Counts up what is in a file while it holds the lock: count.py URL NAME FILE TIMES."""

import sys
from pathlib import Path

from quorlock import redlock

url, name, file, times = sys.argv[1:]
for _ in range(int(times)):
    with redlock(name, nodes=url, layout="redisson", wait=60):
        Path(file).write_text(f"{int(Path(file).read_text()) + 1}\n")
