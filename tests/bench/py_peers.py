"""The Python driver: `py_peers.py [--gate] [--shared] [--hold] [--contend=FILE --stay=MS] PEER WORKERS SECONDS`, nodes from
`QUORLOCK_NODES`.

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
    peers = py_asyncio if kind == "aio" else py_blocking
    begin = peers.contend if found.contend else peers.hold if found.hold else peers.run
    if kind == "aio":
        asyncio.run(begin(found))
    else:
        begin(found)
    sys.stdout.flush()
    # Peers leave tasks, threads and connections behind; their end is not measured.
    os._exit(0)


if __name__ == "__main__":
    main()
