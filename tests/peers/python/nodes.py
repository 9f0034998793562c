"""What the shims share: whom a peer's redis clients mean, and one Quorlock client for each set of them.

`PEERS_PORTS` has the ports of the servers that the runner started. A suite that says localhost:6379 means the first of
them; `ports.py` sends its connections there.
"""

import asyncio
import os

import quorlock
import quorlock.aio

PORTS = [int(port) for port in os.environ["PEERS_PORTS"].split(",")]
# Where a peer would wait forever: a suite must end.
LONG = 30
_clients = {}


def url(settings, place):
    """The node for the settings of one redis client, which is number `place` in its peer's list.

    Suites stand in for several servers by several databases of one. Quorlock refuses that, for one failure would take
    all of them, so the second goes to the second server and so on, with its database.
    """
    database = settings.get("db") or 0
    if "path" in settings:
        return f"redis+unix://{settings['path']}"
    return f"redis://127.0.0.1:{PORTS[place]}/{database}"


def client(settings, api=quorlock):
    """The client for a list of redis clients' settings, with the options that a program which comes from a peer gives.

    `raw`, `fencing=False` and an empty label: on the servers there is one key with the lock's own name, and its value is the
    token and the dot that tells it from the value of another library. `restart_guard="off"`: no peer has it, and suites flush
    the servers. A namespace for each number of nodes: what Quorlock remembers of a set says how many there are.
    """
    nodes = [url(one, place) for place, one in enumerate(settings)]
    # A forked child has connections of its own.
    place = (os.getpid(), api, *nodes)
    if place not in _clients:
        _clients[place] = api.Client(
            nodes, raw=True, fencing=False, label="", restart_guard="off", wait=LONG, max_ttl=3600,
            namespace=f"quorlock{len(nodes)}:")
    return _clients[place]


def close():
    """Ends what a test has left held. Suites flush the servers; a lease that is still renewed would come back."""
    for client in _clients.values():
        closing = client.close()
        if closing is not None:
            asyncio.run(closing)
    _clients.clear()


def of_redis(*clients):
    """The settings of clients of redis-py."""
    return [one.connection_pool.connection_kwargs for one in clients]
