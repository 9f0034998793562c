"""What the clients of both APIs have in common."""

import os
from collections.abc import Iterable
from typing import ClassVar

from . import _native
from ._lease import NotPickled
from ._options import UNSET, Guard, Layout, Limit, Seconds, Unset, client_options


class ClientBase(NotPickled):
    """A set of nodes and the options for its locks, without what waits. What the options mean: `quorlock.Client`."""

    __slots__ = ("__weakref__", "_core")

    _package: ClassVar[str]
    """Where users find it."""

    def __init__(
        self,
        nodes: str | Iterable[str] | None = None,
        *,
        ttl: Seconds | Unset = UNSET,
        wait: Limit = UNSET,
        renew: bool | Unset = UNSET,
        max_hold: Limit = UNSET,
        max_ttl: Seconds | Unset = UNSET,
        node_timeout: Seconds | Unset = UNSET,
        drift: float | Unset = UNSET,
        min_validity: float | Unset = UNSET,
        namespace: str | Unset = UNSET,
        label: str | Unset = UNSET,
        raw: bool | Unset = UNSET,
        fencing: bool | Unset = UNSET,
        max_waiters: int | Unset = UNSET,
        fair: bool | Unset = UNSET,
        keep: Seconds | Unset = UNSET,
        layout: Layout | Unset = UNSET,
        group: str | Unset = UNSET,
        fence_ttl: Seconds | Unset = UNSET,
        set_name: str | Unset = UNSET,
        restart_guard: Guard | Unset = UNSET,
        accept_eviction: bool | Unset = UNSET,
        wait_replicas: int | Unset = UNSET,
        ca: str | os.PathLike[str] | None = None,
        cert: str | os.PathLike[str] | None = None,
        key: str | os.PathLike[str] | None = None,
    ) -> None:
        self._core = _native.Client(
            client_options(
                nodes,
                ttl=ttl,
                wait=wait,
                renew=renew,
                max_hold=max_hold,
                max_ttl=max_ttl,
                node_timeout=node_timeout,
                drift=drift,
                min_validity=min_validity,
                namespace=namespace,
                label=label,
                raw=raw,
                fencing=fencing,
                max_waiters=max_waiters,
                fair=fair,
                keep=keep,
                layout=layout,
                group=group,
                fence_ttl=fence_ttl,
                set_name=set_name,
                restart_guard=restart_guard,
                accept_eviction=accept_eviction,
                wait_replicas=wait_replicas,
                ca=ca,
                cert=cert,
                key=key,
            )
        )

    def stats(self) -> dict[str, int]:
        """What has happened so far: counts by name.

        - `acquired`, `reentered`, `released`, `lost`: leases; `attempts_lost`: attempts that did not win, each undone.
        - `renewals`, `repairs`: votes renewed, and votes that were missing and have been stored anew.
        - `write_backs`: fences written back to a node because the votes disagreed.
        - `clock_steps`: steps seen of nodes' clocks. `timeouts_awaited`: rounds that a node's timeout decided.
        - `releases_pending`: releases that nodes have not acknowledged yet; like `waiting` it also falls;
          `releases_dropped`: those given up because too many waited for a node; their keys end by themselves.
        - `connects`: connections made to nodes.
        - `waiting`: calls that wait in a line now, behind the one that asks the nodes or holds the lock.
        - `passed_on`: leases that were released and went to the next in line of this client without a request.
        - `queued`: calls that stand in the queue of a node now, among those of all clients: at most one for each lock;
          `ahead`: waiters of other clients before the last of those, as far as the node told. Both fall too.
        - `stray_messages`: messages that named nobody who waits, or that no node sends: late, or forged.
        """
        return self._core.stats()

    def __repr__(self) -> str:
        return f"<{self._package}.{self._core!r}>"
