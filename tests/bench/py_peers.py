"""The Python driver: `py_peers.py [--gate] [--shared] [--hold] PEER WORKERS SECONDS`, nodes from `QUORLOCK_NODES`.

PEER is `py:NAME` for a blocking peer and `aio:NAME` for one of asyncio. Prints one line of JSON. See README.md.
"""

import asyncio
import os
import sys

import py_asyncio
import py_blocking
from py_meter import words


def main():
    found = words()
    kind, _, name = found.peer.partition(":")
    found.base, *found.settings = name.split("+")
    if kind == "aio":
        asyncio.run((py_asyncio.hold if found.hold else py_asyncio.run)(found))
    else:
        (py_blocking.hold if found.hold else py_blocking.run)(found)
    sys.stdout.flush()
    # Peers leave tasks, threads and connections behind; their end is not measured.
    os._exit(0)


if __name__ == "__main__":
    main()
