"""A stage behind a network: relay.c before each node, which makes round trips longer."""

import json
import os
import subprocess

from prepare import OUT, call, HERE

PROGRAM = OUT / "relay"
END_SECONDS = 10


def build():
    call(os.environ.get("CC", "cc"), "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", HERE / "relay.c", "-o", PROGRAM)


class Relay:
    """Round trips of so many ms to each of these ports; `ports` are those that lead there."""

    def __init__(self, round_trip_ms, ports):
        one_way = round(round_trip_ms * 1e6 / 2)
        self._process = subprocess.Popen([PROGRAM, str(one_way), *map(str, ports)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ports = [int(port) for port in self._process.stdout.readline().split()]

    def close(self):
        """Ends it. Returns how late it was itself."""
        if self._process.returncode is not None:
            return {}
        said, _ = self._process.communicate(timeout=END_SECONDS)
        return json.loads(said)
