#!/usr/bin/env python3
"""What the locks protect in a fault run, as a process of its own: a counter for each lock, behind a fence.

    protected.py SOCKET honour|ignore       ends with its stdin, and then prints the figures as JSON

A connection says `read LOCK FENCE` and gets the counter, or `write LOCK FENCE VALUE` and gets `ok`; either is answered
`stale` where a larger fence was seen before. `look LOCK FENCE` is of a lease that shares the lock: it gets the counter, or `stale`
where a larger fence was seen of one that does not. `hand LOCK FENCE TEXT` leaves an exported lease for others, and
`next - 0` gets `NUMBER LOCK TEXT` of one that was left, or `none`; every second one goes to two, of which one may go on
with it. Fence 0 is none, and is never stale. A write that does not add one to what
is there now destroys what another has written: a lost update.
"""

import asyncio
import json
import sys
from collections import deque


class Resource:
    def __init__(self, honour):
        self.honour = honour
        self.values, self.fences, self.shared = {}, {}, {}
        self.figures = {"writes": 0, "stale": 0, "lost_updates": 0}
        self.exported, self.left = 0, deque()

    def answer(self, line):
        verb, lock, fence, *value = line.split()
        if verb == "hand":
            self.exported += 1
            self.left.extend((1 + self.exported % 2) * [f"{self.exported} {lock} {value[0]}"])
            return "ok"
        if verb == "next":
            return self.left.popleft() if self.left else "none"
        fence = int(fence)
        seen = self.fences.get(lock, 0)
        if 0 < fence < (seen if verb == "look" else max(seen, self.shared.get(lock, 0))):
            self.figures["stale"] += 1
            if self.honour:
                return "stale"
        if verb == "look":
            self.shared[lock] = max(fence, self.shared.get(lock, 0))
            return str(self.values.get(lock, 0))
        # Reads count too: what was read under a larger fence is not to be overwritten by a smaller one.
        self.fences[lock] = max(fence, self.fences.get(lock, 0))
        now = self.values.get(lock, 0)
        if verb == "read":
            return str(now)
        self.figures["writes"] += 1
        self.figures["lost_updates"] += int(value[0]) != now + 1
        self.values[lock] = int(value[0])
        return "ok"

    async def serve(self, reader, writer):
        try:
            while line := await reader.readline():
                writer.write(self.answer(line.decode()).encode() + b"\n")
        except ConnectionError:
            # A worker was killed.
            pass
        finally:
            writer.close()


async def main(path, honour):
    resource = Resource(honour == "honour")
    await asyncio.start_unix_server(resource.serve, path)
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    print(json.dumps(resource.figures), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
