"""A distributed lock over independent Redis or Valkey masters.

    from quorlock import redlock

    with redlock("orders:42") as lease:
        charge(fence=lease.fence)

A lock is won by the votes of a majority of the nodes, renewed while it is held, and lost loudly. The nodes are those of
`nodes=` or of the environment variable `QUORLOCK_NODES`. All times are in seconds.

`redlock` holds a lock for a scope, blocking or in asyncio, or for the run of a function; `semaphore` does the same for one of
a number of slots; `once` has one host of many run a
function that all of them call. `Client.election` has one process of many do the work, and another take over when it no
longer can. `Client`, `Lock` and `Lease` are the blocking API by hand; `quorlock.aio` has the same for asyncio. Errors are subclasses of `QuorlockError`; wherever a
lease may have been lost, `lease.is_held()` tells the truth at every call. `lease.fence` is a number that grows with every
hold of a lock: a resource that refuses smaller ones is safe from holders that are late.

Nodes that may have lost something give no vote for `max_ttl`. `quorlock init`, or `Client.init_set`, declares a
set of nodes before it is used, and says how long that lasts.

Importing this or making a client starts no thread and connects to nothing: its first use does. After a fork, leases of the
parent and clients that it has used are of no use to the child: make a new client there (`redlock` does so by itself).
A client that was not used before starts in the child, so a module may make one for workers that are forked later.
"""

import atexit
from typing import TYPE_CHECKING

from . import _missing as _missing  # Before all that needs the compiled part.
from . import _loaded as _loaded  # Before all that has a state.
from ._candidate import Leadership
from ._inspection import Forced, Holder, Inspection, NodeView
from ._lease import Lost
from ._logging import log
from ._metrics import metrics_text
from ._native import __version__, _close_all, _log_to
from ._probe import Finding, NodeReport, Probe
from ._redlock import once, redlock, semaphore
from ._rwlock import RWLock
from .errors import (
    ClientClosedError,
    ForkedProcessError,
    InternalError,
    InvalidArgumentError,
    LockBusyError,
    LockContendedError,
    LockLostError,
    LockTimeoutError,
    MisconfiguredError,
    NotOwnerError,
    QuorlockError,
    QuorumUnavailableError,
    TooManyWaitersError,
    WouldDeadlockError,
)
from .sync import Client, Lease, Lock
from ._election import Election, Observer
from ._several import Leases, Locks

if TYPE_CHECKING:
    from types import ModuleType

    from . import aio as aio

__all__ = [
    "Client",
    "ClientClosedError",
    "Election",
    "Finding",
    "ForkedProcessError",
    "Forced",
    "Holder",
    "Inspection",
    "InternalError",
    "InvalidArgumentError",
    "Leadership",
    "Lease",
    "Leases",
    "Lock",
    "Locks",
    "LockBusyError",
    "LockContendedError",
    "LockLostError",
    "LockTimeoutError",
    "Lost",
    "MisconfiguredError",
    "NodeReport",
    "NodeView",
    "NotOwnerError",
    "Observer",
    "Probe",
    "QuorlockError",
    "QuorumUnavailableError",
    "RWLock",
    "TooManyWaitersError",
    "WouldDeadlockError",
    "__version__",
    "metrics_text",
    "once",
    "redlock",
    "semaphore",
]


def __getattr__(name: str) -> "ModuleType":
    # Not before it is asked for: it imports asyncio.
    if name == "aio":
        from importlib import import_module

        return import_module("quorlock.aio")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), "aio"]


_log_to(log)
# Releases what is still held, before the interpreter is gone. Bounded by node_timeout.
atexit.register(_close_all)
