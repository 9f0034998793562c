"""What the clients of both APIs have in common."""

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from . import _native
from ._lease import NotPickled
from ._options import UNSET, Guard, Layout, Limit, Seconds, Unset, client_options, environment, kind, listed
from ._unseen import Unseen, guarded, shown_unmade

if TYPE_CHECKING:
    from . import aio, sync


class Unmade:
    """A lock of a client that nothing has used so far."""

    __slots__ = ("_client", "_election", "_name", "_options")

    def __init__(self, client: "ClientBase", name: bytes, options: dict[str, object], election: bool) -> None:
        self._client = client
        self._name = name
        self._options = options
        self._election = election
        # Refused now, if at all.
        self.checked().place()

    def checked(self) -> _native.Lock:
        """As it would be with other nodes."""
        return self._of(self._client._unused())

    def made(self) -> _native.Lock:
        """As it is: now the client is used."""
        return self._of(self._client._core)

    def _of(self, core: _native.Client) -> _native.Lock:
        return (core.election if self._election else core.lock)(self._name, self._options)


def checkable(lock: "sync.Lock | aio.Lock") -> _native.Lock:
    """A lock to be checked, whose client is not used on that account."""
    return lock._later.checked() if lock._later is not None else lock._core


def check_locks(locks: Iterable[object], of: type) -> None:
    """Refuses what is no lock of the API that is used."""
    for lock in listed("locks", locks, "locks, as a list"):
        if not isinstance(lock, of):
            raise TypeError(f"locks has {kind(lock)}: give locks that client.lock() made, or names to client.lock_all()")


@shown_unmade
class ClientBase(NotPickled):
    """A set of nodes and the options for its locks, without what waits. What the options mean: `quorlock.Client`."""

    __slots__ = ("__weakref__", "_core", "_options", "_wait", "_without")

    _package: ClassVar[str]
    """Where users find it."""
    _core: _native.Client

    @guarded
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
        connect_timeout: Seconds | Unset = UNSET,
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
        # Until it is made, as it is shown.
        self._options: Unseen[dict[str, object]] | None = None
        self._without: dict[str, _native.Client] = {}
        options = client_options(
            nodes,
            ttl=ttl,
            wait=wait,
            renew=renew,
            max_hold=max_hold,
            max_ttl=max_ttl,
            node_timeout=node_timeout,
            connect_timeout=connect_timeout,
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
        self._wait = wait
        if nodes is None:
            # Which nodes the environment names is asked when the client is first used: by then a test has set it.
            self._options = Unseen(options)
            self._unused()
        else:
            self._core = _native.Client({**options, "environment": environment()})

    def __getattr__(self, name: str) -> Any:
        if name != "_core" or self._options is None:
            raise AttributeError(name)
        made = self._made({**self._options(), "environment": environment()})
        # Of two threads that come at once both get the first. Behind that nothing is made once more.
        self._core = self._without.setdefault("used", made)
        return self._core

    @staticmethod
    @guarded
    def _made(options: dict[str, object]) -> _native.Client:
        return _native.Client(options)

    def _unused(self) -> _native.Client:
        """One with the same options and no nodes, to check by what is asked of this one."""
        known = self._without.get("unused")
        if known is None:
            options = {} if self._options is None else self._options()
            known = self._without["unused"] = self._made({**options, "nodes": ["memory://none"]})
            del options
        return known

    def _checked(self) -> _native.Client:
        """One to check by what is asked of this one, which is not used on that account."""
        return self._core if self._is_used() else self._unused()

    def _is_used(self) -> bool:
        return self._options is None or "used" in self._without

    def _is_made(self) -> bool:
        try:
            object.__getattribute__(self, "_core")
        except AttributeError:
            return False
        return True

    def _lock(self, name: bytes, options: dict[str, Any]) -> tuple[_native.Lock | Unmade, Limit]:
        """A lock, and how long it waits."""
        core = self._core.lock(name, options) if self._is_used() else Unmade(self, name, options, False)
        return core, options.get("wait", self._wait)

    def _election(self, name: bytes, options: dict[str, object]) -> _native.Lock | Unmade:
        return self._core.election(name, options) if self._is_used() else Unmade(self, name, options, True)

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
        if self._is_used() and not self._is_made():
            return f"<{self._package}.Client that was not made>"
        if not self._is_used():
            return f"<{self._package}.Client of QUORLOCK_NODES, not used so far>"
        return f"<{self._package}.{self._core!r}>"
