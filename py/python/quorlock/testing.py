"""For the tests of code that takes locks: nodes without a server, and a lock that is lost when the test wants it.

    # conftest.py
    pytest_plugins = ["quorlock.testing"]

    # test_orders.py
    from quorlock import testing

    def test_it_stops_when_the_lock_is_lost(quorlock_nodes):
        with pytest.raises(LockLostError):
            close_month(before_the_last_step=lambda: testing.lose("nightly"))

    def test_it_gives_up_when_another_is_at_it(quorlock_nodes):
        with testing.held("nightly"):
            assert close_month() == "left to another"

`quorlock_nodes` is a fixture for pytest: nodes that no other test has, which everything that names no nodes of its own uses while
the test runs: `redlock` at each use, and a `Client` that a module has made if this test is the first that uses it. With unittest and others, `nodes` gives such nodes.

The nodes live within this process (`memory://`): all of the API works on them, but no other process sees them.
"""

# A program that only runs this reads no annotations.
from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Literal, cast

from . import _default, _native
from ._options import UNSET, Name, Seconds, Unset, given, octets
from ._unseen import guarded
from .sync import Client, Lease
__all__ = ["held", "lose", "nodes"]

Reason = Literal["expired", "refused", "max_hold", "owner_gone", "closed", "forced"]


def nodes(count: int = 1) -> list[str]:
    """This many nodes that no other test has, for `nodes=` or, joined by commas, for `QUORLOCK_NODES`."""
    return _native.testing_nodes(count)


def lose(name: Name, reason: Reason = "expired") -> int:
    """Has the lock of that name be lost now, and the slots of the semaphore of that name, whichever client of this process holds
    them, blocking or of asyncio.

    When this returns the lease is held no longer, and what waits for its loss is being called: as if the nodes had not answered
    for too long. The lock is free then. Gives how many leases that were: 0 if this process has none.
    """
    return _native.testing_lose(octets("name", name), reason)


@contextmanager
@guarded
def held(
    name: Name,
    *,
    nodes: str | Iterable[str] | None = None,
    # Made from core/options.toml: the options of a lock.
    ttl: Seconds | Unset = UNSET,
    wait: Seconds | None | Unset = UNSET,
    renew: bool | Unset = UNSET,
    max_hold: Seconds | None | Unset = UNSET,
    raw: bool | Unset = UNSET,
    layout: Literal["plain", "redisson"] | Unset = UNSET,
    label: str | Unset = UNSET,
    fencing: bool | Unset = UNSET,
    max_waiters: int | Unset = UNSET,
    fair: bool | Unset = UNSET,
    keep: Seconds | Unset = UNSET,
    reentrant: bool | Unset = UNSET,
    group: str | Unset = UNSET,
    shared: bool | Unset = UNSET,
    slots: int | Unset = UNSET,
    owner: Name | None = None,
    confirm: bool | Unset = UNSET,
    # End of what is made.
) -> Generator[Lease, None, None]:
    """Holds a lock as another client, for the length of a block. `nodes`: those of the code that is tested, if it names any;
    `options`: as of `Client.lock`."""
    options = given(
        # Made from core/options.toml: the options of a lock, passed on.
        ttl=ttl,
        wait=wait,
        renew=renew,
        max_hold=max_hold,
        raw=raw,
        layout=layout,
        label=label,
        fencing=fencing,
        max_waiters=max_waiters,
        fair=fair,
        keep=keep,
        reentrant=reentrant,
        group=group,
        shared=shared,
        slots=slots,
        owner=owner,
        confirm=confirm,
        # End of what is made.
    )
    with Client(nodes, label="somebody-else") as client, client.lock(name, **options) as lease:
        yield lease


def _forget(listed: str) -> None:
    """Closes the clients that `redlock` has made for these nodes."""
    for place, client in list(_default._clients.items()):
        of_environment = not place[1] and ("QUORLOCK_NODES", listed) in cast("tuple[tuple[str, str], ...]", place[2])
        if of_environment or place[1] == tuple(listed.split(",")):
            del _default._clients[place]
            client.close().wait()


# As a plugin this is imported by pytest; no other program has to have that.
if "pytest" in sys.modules:
    import pytest

    @pytest.fixture
    def quorlock_nodes(request: pytest.FixtureRequest) -> Iterator[list[str]]:
        """Nodes that no other test has, in `QUORLOCK_NODES` while the test runs. One; or as many as
        `@pytest.mark.parametrize("quorlock_nodes", [3], indirect=True)` says."""
        own = nodes(getattr(request, "param", 1))
        before, listed = os.environ.get("QUORLOCK_NODES"), ",".join(own)
        os.environ["QUORLOCK_NODES"] = listed
        try:
            yield own
        finally:
            _forget(listed)
            if before is None:
                del os.environ["QUORLOCK_NODES"]
            else:
                os.environ["QUORLOCK_NODES"] = before
