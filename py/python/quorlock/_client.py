"""What the clients and locks of both APIs have in common."""

# A program that only runs this reads no annotations.
from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, ClassVar, Generic, Literal, TypeVar

from . import _native
from ._lease import NotPickled
from ._options import (
    UNSET,
    Limit,
    Name,
    Seconds,
    Unset,
    check_reentrant,
    enters,
    environment,
    given,
    kind,
    listed,
    native,
    octets,
    text,
)
from ._rwlock import RWLock
from ._unseen import Unseen, guarded, shown_unmade


# Stands for nodes that are not named yet, where options are checked: nothing is started there, and no option is refused for what nodes in this
# process lack.
UNNAMED = ["redis://none"]


class Unmade:
    """A lock of a client that nothing has used so far."""

    __slots__ = ("_client", "_election", "_name", "_options")

    def __init__(self, client: ClientBase[Any, Any, Any], name: bytes, options: dict[str, object], election: bool) -> None:
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


class LockBase(NotPickled):
    """A name with options, without what waits."""

    __slots__ = ()

    # The native one, and its place; none before a client that is not used yet has made it.
    _made: tuple[_native.Lock, tuple[int, bytes]] | None
    _later: Unmade | None
    _name: str
    _named: bool
    _reentrant: bool
    # How long it waits where a call does not say.
    _wait: Limit

    def _of(self, core: _native.Lock | Unmade, name: str, named: bool, reentrant: bool, wait: Limit) -> None:
        later = core if isinstance(core, Unmade) else None
        # The slots are those of the classes that are made of this one.
        self._later, self._name, self._named, self._reentrant, self._wait = later, name, named, reentrant, wait  # type: ignore[misc]
        self._made = None if isinstance(core, Unmade) else (core, core.place())  # type: ignore[misc]

    # Properties, for a class with `__getattr__` has each of its attributes and methods looked up slowly.
    @property
    def _core(self) -> _native.Lock:
        return (self._made or self._used())[0]

    @property
    def _place(self) -> tuple[int, bytes]:
        return (self._made or self._used())[1]

    def _used(self) -> tuple[_native.Lock, tuple[int, bytes]]:
        """What its client makes of it when it is first used."""
        assert self._later is not None
        core = self._later.made()
        made = self._made = (core, core.place())  # type: ignore[misc]
        return made

    @property
    def name(self) -> str:
        """The lock's name. Bytes that are not UTF-8 appear as surrogate escapes."""
        return self._name

    @guarded
    def acquire(self, *_given: Any, **_options: Any) -> Any:
        """Acquires the lock, waiting as long as its `wait` says, or for this call `timeout` seconds.

        `wait` is another word for `timeout`: 0 tries once, `None` waits forever, and so does `timeout=-1`. With
        `blocking=False` it tries once and returns `False` where another holds the lock. A lease is always true, also when it
        is lost: ask `is_held()`. `label` takes the place of the lock's, for the lease that this call wins.

        Raises `LockTimeoutError` if others held it all the time, `LockContendedError` likewise with a wait of 0,
        `QuorumUnavailableError` if too few nodes answered, `MisconfiguredError` at once if credentials or addresses
        leave no quorum, `TooManyWaitersError` at once if too many others of this client wait already,
        `LockLostError` on re-entry into a lease that was lost, or if the lease is lost by the time the caller goes on, for something
        else kept the interpreter or the event loop. Ctrl-C ends the wait within 200 ms; neither that nor a task that is cancelled leaves
        a key behind, for a lease that is won in that very moment is released.

        Those of one client that wait for a lock get it in the order in which they came; a wait of 0 asks the nodes past
        that line.
        """
        raise NotImplementedError

    @guarded
    def try_acquire(self, *, label: str | Unset = UNSET) -> Any:
        """Tries once. `None` where another holds the lock. Raises as `acquire` otherwise."""
        raise NotImplementedError

    def locked(self) -> Any:
        """Whether any client holds the lock, or keeps it, or is about to: by one request to each node. Of a semaphore whether all
        slots are held.

        Raises `QuorumUnavailableError` if too few nodes answered.
        """
        raise NotImplementedError

    def holder(self) -> Any:
        """Who holds the lock, or keeps it; `None` where a quorum agrees on no holder. Of a semaphore the holder that has had a slot for longest.
        Raises as `locked`.
        """
        raise NotImplementedError

    def inspect(self) -> Any:
        """What each node has of the lock, and what follows from that; of a semaphore of each of its `slots`. Changes nothing."""
        raise NotImplementedError

    @guarded
    def force_release(self, fence: int | None = None, *, slot: int | None = None) -> Any:
        """Takes the lock away from its holder, or from what keeps it: see `Client.force_release`. Of a semaphore all slots, without a
        fence, or the one of that number.
        """
        raise NotImplementedError

    @guarded
    def wait_until_free(self, timeout: Seconds | None = None) -> Any:
        """Waits until the lock is free, or a slot of a semaphore is, and takes nothing: whether it was so before so many seconds were
        over; `None`: without end. Another may have it a moment later: to have it, acquire it. It is looked at again and
        again, every 0.05 to 0.5 seconds. Raises as `locked`.
        """
        raise NotImplementedError


def checkable(lock: LockBase) -> _native.Lock:
    """A lock to be checked, whose client is not used on that account."""
    return lock._later.checked() if lock._later is not None else lock._core


_L = TypeVar("_L", bound=LockBase)
_S = TypeVar("_S")
_E = TypeVar("_E")


class LocksBase(NotPickled, Generic[_L]):
    """Several names with the same options, without what waits."""

    __slots__ = ()

    _of: ClassVar[type[LockBase]]
    """What each of them is."""
    _locks: tuple[_L, ...]

    @guarded
    def __init__(self, locks: list[_L]) -> None:
        self._locks = ()  # type: ignore[misc]
        for lock in listed("locks", locks, "locks, as a list"):
            if not isinstance(lock, self._of):
                raise TypeError(f"locks has {kind(lock)}: give locks that client.lock() made, or names to client.lock_all()")
        # Each once: an owner enters a lock that it has just won no second time.
        self._locks = tuple({checkable(lock).place(): lock for lock in locks}.values())  # type: ignore[misc]
        _native.check_all([checkable(lock) for lock in self._locks])

    @property
    def names(self) -> tuple[str, ...]:
        """The locks' names, each once."""
        return tuple(lock.name for lock in self._locks)

    @guarded
    def acquire(self, *_given: Any, **_options: Any) -> Any:
        """Acquires all of the locks, waiting as long as their `wait` says for all of them together; as `Lock.acquire`.

        Raises what `Lock.acquire` raises, for the first lock that could not be had; then none is held. Keep what it
        returns: leases that the program does not keep are released.
        """
        raise NotImplementedError

    @guarded
    def try_acquire(self, *, label: str | Unset = UNSET) -> Any:
        """Tries once. `None` where another holds one of them. Raises as `acquire` otherwise."""
        raise NotImplementedError


@shown_unmade
class ClientBase(NotPickled, Generic[_L, _S, _E]):
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
        # Made from core/options.toml: the options of a client.
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
        group: str | Unset = UNSET,
        max_ttl: Seconds | Unset = UNSET,
        node_timeout: Seconds | Unset = UNSET,
        connect_timeout: Seconds | Unset = UNSET,
        drift: float | Unset = UNSET,
        min_validity: float | Unset = UNSET,
        namespace: str | Unset = UNSET,
        fence_ttl: Seconds | Unset = UNSET,
        set_name: str | Unset = UNSET,
        restart_guard: Literal["auto", "on", "off"] | bool | Unset = UNSET,
        accept_eviction: bool | Unset = UNSET,
        wait_replicas: int | Unset = UNSET,
        ca: str | os.PathLike[str] | None = None,
        cert: str | os.PathLike[str] | None = None,
        key: str | os.PathLike[str] | None = None,
        # End of what is made.
    ) -> None:
        # Until it is made, as it is shown.
        self._options: Unseen[dict[str, object]] | None = None
        self._without: dict[str, _native.Client] = {}
        options = native(
            nodes=nodes,
            # Made from core/options.toml: the options of a client, passed on.
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
            group=group,
            max_ttl=max_ttl,
            node_timeout=node_timeout,
            connect_timeout=connect_timeout,
            drift=drift,
            min_validity=min_validity,
            namespace=namespace,
            fence_ttl=fence_ttl,
            set_name=set_name,
            restart_guard=restart_guard,
            accept_eviction=accept_eviction,
            wait_replicas=wait_replicas,
            ca=ca,
            cert=cert,
            key=key,
            # End of what is made.
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
            known = self._without["unused"] = self._made({**options, "nodes": UNNAMED})
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

    def _lock_of(self, core: _native.Lock | Unmade, name: str, named: bool, reentrant: bool, wait: Limit) -> _L:
        raise NotImplementedError

    def _locks_of(self, locks: list[_L]) -> _S:
        raise NotImplementedError

    def _election_of(self, core: _native.Lock | Unmade, name: str) -> _E:
        raise NotImplementedError

    @guarded
    def lock(
        self,
        name: Name,
        *,
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
    ) -> _L:
        # Made from core/options.toml: what is said of a lock.
        """A lock by its name: 1 to 1,024 bytes. Options not given are the client's; times are in seconds, or a `timedelta`.

        - `ttl`: Auto-release time on the nodes: how long the lock outlives a crashed holder. A part of a millisecond is rounded up.
          Less than 10 s by default where `max_ttl` or `max_hold` is less. 10 ms to `max_ttl`. Default: 10 s.
        - `wait`: How long an acquire waits: zero tries once, no limit waits forever. At the end answers that are under way are
          awaited where they decide, at most for another `node_timeout`. No limit: `None`. Default: 10 s.
        - `renew`: Whether the lease is renewed until it is released. Without, it ends after the `ttl`, unless extended. Default:
          `True`.
        - `max_hold`: The longest life of a lease, renewed or not. By default the `ttl`, where that is longer than 1 h. No limit:
          `None`. At least `ttl`. Default: 1 h.
        - `raw`: Whether the key on the nodes is the name itself, so that other Redlock libraries and Quorlock exclude each other.
          Not with `shared` nor `slots`. Default: `False`.
        - `layout`: How the lock is stored on the nodes: as Quorlock's own, or as one lock with Redisson's `RLock` of that name. In
          Redisson's layout the key is the name, a named `owner` is one in all processes and in Java, and waiters are not queued on
          the nodes. Both wake each other, and their fences are of one order with those of `RFencedLock`. Such a lease is not
          exported. Not with `shared`, `slots` nor `keep`. Default: `plain`.
        - `label`: Text that is stored with the token of a lease, which names the holder. Without control characters; empty for
          none. An acquire that enters a lease again leaves that lease's label as it is. What is `raw`, or in Redisson's layout, has
          no label. At most 256 bytes. Default: `host:pid`.
        - `fencing`: Whether leases have a fence. Without, one key less is written on each node. Default: `True`.
        - `max_waiters`: How many calls of the client may wait for the lock in a line, behind the one that asks the nodes or holds
          it; one more gets `TooManyWaitersError` at once. With 0 no call waits behind another. Default: 10,000.
        - `fair`: Whether every release goes over the nodes, where the waiters of all clients queue in their order. Without, a lease
          may be passed on to the next in line of this client, up to 16 times in a row. Default: `False`.
        - `keep`: For how long the lock stays taken after it was won, also when it is released before: so that a job which every
          host starts at about the same time runs once. Counted on this client's clock, and kept by the nodes that the release
          reaches; a lease that is lost, or whose process dies, leaves the lock to its `ttl`. At most `max_ttl`. Not with `layout`,
          `shared` nor `confirm` off. Default: 0.
        - `reentrant`: Whether an acquire by the `owner` of a lease enters that lease again, at once. Without, an owner by name
          waits as any other does, for its own lease too; an owner that is the calling thread would wait in vain, and gets
          `WouldDeadlockError` at once. Default: `True`.
        - `group`: The lock's group in metrics, which never name locks: a word for all of a kind, such as `orders`. The process
          keeps 64 groups; those that come later are counted as `other`. At most 64 bytes. Default: empty.
        - `shared`: Whether the lease is one of many that share the lock: readers, which a lease that is not shared keeps out, and
          which keep that out. A reader that asks while a writer waits is served after that writer. The fence of a shared lease is
          above that of each lease before it that was not shared, and below that of each such lease after it; among readers it says
          nothing. An owner that shares the lock and asks for it alone gets `WouldDeadlockError` at once. Not with `raw`, `layout`,
          `keep`, `slots` nor `accept_eviction`. Default: `False`.
        - `slots`: Makes it a semaphore of this many slots: no more of them are held at once. Every client of the semaphore asks for
          as many slots: the largest number in use is the limit. A lock of that name is another matter. 1 to 128. Not with `raw`,
          `shared`, `layout` nor `once`.
        - `owner`: The owner of leases, by a name that is valid within the client: it enters its lease again. An acquire that gives
          the same name, in any thread but with the same client, enters the lock again. What is acquired by hand without an owner is
          bound to no thread, and a second acquire waits for it as for a stranger's.
        - `confirm`: Whether a release waits until a quorum of the nodes has carried it out. Without, it returns at once, and says
          whether the lease was valid here until then; the nodes hear of it all the same. A call of release may say otherwise. Off,
          not with `keep`. Default: `True`.

        Raises `InvalidArgumentError` for a name or option that is not valid.
        """
        # End of what is made.
        octet_name = octets("name", name)
        check_reentrant(reentrant, owner)
        options = native(
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
        core, its_wait = self._lock(octet_name, options)
        return self._lock_of(core, text(octet_name), owner is not None, enters(reentrant, slots, owner), its_wait)

    @guarded
    def rwlock(
        self,
        name: Name,
        *,
        # Made from core/options.toml: the options of two modes of a lock.
        ttl: Seconds | Unset = UNSET,
        wait: Seconds | None | Unset = UNSET,
        renew: bool | Unset = UNSET,
        max_hold: Seconds | None | Unset = UNSET,
        label: str | Unset = UNSET,
        fencing: bool | Unset = UNSET,
        max_waiters: int | Unset = UNSET,
        fair: bool | Unset = UNSET,
        reentrant: bool | Unset = UNSET,
        group: str | Unset = UNSET,
        owner: Name | None = None,
        confirm: bool | Unset = UNSET,
        # End of what is made.
    ) -> RWLock[_L]:
        """The two modes of one lock, to share it and to have it alone; options as of `lock`. Raises as `lock`."""
        options = given(
            # Made from core/options.toml: the options of two modes of a lock, passed on.
            ttl=ttl,
            wait=wait,
            renew=renew,
            max_hold=max_hold,
            label=label,
            fencing=fencing,
            max_waiters=max_waiters,
            fair=fair,
            reentrant=reentrant,
            group=group,
            owner=owner,
            confirm=confirm,
            # End of what is made.
        )
        return RWLock(self.lock(name, **options, shared=True), self.lock(name, **options))

    @guarded
    def semaphore(
        self,
        name: Name,
        slots: int,
        *,
        # Made from core/options.toml: the options of a semaphore.
        ttl: Seconds | Unset = UNSET,
        wait: Seconds | None | Unset = UNSET,
        renew: bool | Unset = UNSET,
        max_hold: Seconds | None | Unset = UNSET,
        label: str | Unset = UNSET,
        fencing: bool | Unset = UNSET,
        max_waiters: int | Unset = UNSET,
        fair: bool | Unset = UNSET,
        keep: Seconds | Unset = UNSET,
        reentrant: bool | Unset = UNSET,
        group: str | Unset = UNSET,
        owner: Name | None = None,
        confirm: bool | Unset = UNSET,
        # End of what is made.
    ) -> _L:
        """A semaphore: at most `slots` of it are held at once, 1 to 128. Options as of `lock`.

            with client.semaphore("api", 5) as lease:
                call_the_api(worker=lease.slot)

        It is acquired and released as a lock is, and no thread and no task re-enters it: who acquires it twice has two slots, as of
        `threading.Semaphore`, but for an `owner` by name. All who use it have to ask for the same number of slots: the largest
        number in use is the limit. A lock of that name is another matter. Raises as `lock`.
        """
        options = given(
            # Made from core/options.toml: the options of a semaphore, passed on.
            ttl=ttl,
            wait=wait,
            renew=renew,
            max_hold=max_hold,
            label=label,
            fencing=fencing,
            max_waiters=max_waiters,
            fair=fair,
            keep=keep,
            reentrant=reentrant,
            group=group,
            owner=owner,
            confirm=confirm,
            # End of what is made.
        )
        return self.lock(name, **options, slots=slots)

    @guarded
    def lock_all(
        self,
        names: Iterable[Name],
        *,
        # Made from core/options.toml: the options of several locks.
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
    ) -> _S:
        """Several locks by their names, to be held together: all of them, or none; options as of `lock`.

        1 to 16 names that differ, in any order; one that is given twice is held once.
        """
        if isinstance(names, str | bytes):
            raise TypeError(f"names is a {type(names).__name__}: give a list of names, or one name to lock()")
        options = given(
            # Made from core/options.toml: the options of several locks, passed on.
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
        return self._locks_of([self.lock(name, **options) for name in listed("names", names, "a list of names")])

    @guarded
    def election(
        self,
        name: Name,
        *,
        # Made from core/options.toml: the options of an election.
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
        group: str | Unset = UNSET,
        # End of what is made.
    ) -> _E:
        """A candidate of the election of that name, one of whose candidates leads: the holder of the lock of that name.

        Options as of `lock`, with other defaults: it is waited for without end (`wait=None`), a term has no longest life
        (`max_hold=None`), and the candidates of all clients lead in the order in which they came (`fair=True`). `ttl` is how
        long no candidate leads after a leader has crashed. `wait` is that of `campaign` alone.

        Raises `InvalidArgumentError` for a name or option that is not valid.
        """
        octet_name = octets("name", name)
        options = native(
            # Made from core/options.toml: the options of an election, passed on.
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
            group=group,
            # End of what is made.
        )
        core = self._core.election(octet_name, options) if self._is_used() else Unmade(self, octet_name, options, True)
        return self._election_of(core, text(octet_name))

    @guarded
    def inspect(self, name: Name) -> Any:
        """Reports who holds a lock, without acquiring it: what each node has of it, and what follows from that.

        That nodes do not answer is no error, but part of the result.
        """
        raise NotImplementedError

    @guarded
    def force_release(self, name: Name, fence: int | None = None) -> Any:
        """Takes a lock away from its holder, or from what keeps it, for an operator: deletes the vote on all nodes, whatever client
        or library put it there, and calls the next waiter. A lock without a holder is no error.

        The holder learns it at its next renewal, at most about a third of its ttl later, or when it extends: its lease is
        lost, `"forced"`, or `"refused"` where another has taken the lock meanwhile. A lease that is not renewed learns nothing
        before its end. Until then two may work, and their fences tell them apart.

        `fence`: only from the hold that has it, so that a holder that has got the lock since is never hit.
        Give that of the lease that is to go, or what `inspect` tells of the holder.

        Raises `InvalidArgumentError` for a name or a fence that is not valid; `LockContendedError` if the lock is held, and
        not by `fence` for certain, and nothing is changed; `QuorumUnavailableError` if too few nodes answer: some may have
        done it then, and calling again completes it. `MisconfiguredError` where the lock's key is no string.
        """
        raise NotImplementedError

    @guarded
    def adopt(self, text: str) -> Any:
        """Goes on with a lease that another client has exported by `lease.export()`, as long as that has not ended.

        It has what was left of its `max_hold`, the same ttl, or that if it is less, and a larger fence. Of two that adopt one
        lease one wins at most. No owner re-enters it. Nodes that do not answer are waited for as long as the client's `wait`, at
        most for the ttl.

        Raises `LockLostError` if the lease has ended or another has adopted it, `QuorumUnavailableError` if too few nodes
        answered, `InvalidArgumentError` for a text that is damaged, or of another set, namespace or version. Where a
        task is cancelled it gives back what it has taken over, so the lock is free.
        """
        raise NotImplementedError

    def probe(self) -> Any:
        """Checks the state of the set: which nodes answer, which would vote, and what needs to be fixed.

        Nothing is admitted, founded or locked by it. It takes at most `connect_timeout` and eight times
        `node_timeout`. That nodes do not answer, or cannot be used, is no error, but part of the result: `docs/operations/doctor.md` lists
        what may be found.
        """
        raise NotImplementedError

    @guarded
    def init_set(self, *, force: bool = False) -> Any:
        """Declares the set: founds it, where no node has a record, by writing its record to all nodes.

        Returns for how many more seconds the set gives no vote; 0.0: it votes. A wholly new set (servers that have run for
        longer than `max_ttl` and never stored anything) votes at once. Where the servers are only too young, the call
        waits until they have run for `max_ttl` (a warning of the logger `quorlock` says for how long). Servers that may
        have lost something give no vote for `max_ttl` first. Where all nodes have this set's record already nothing is
        changed and no quarantine is lifted; so it is safe to run at every deploy. `memory://` nodes need none of it.
        `quorlock init` does the same.

        `force` lifts the quarantine of this set's nodes, or founds the set without one: two may then hold a lock that was
        held within the last `max_ttl`. Only where you know that no lock is held.

        Raises `MisconfiguredError` if a node has a record of another set or cannot be a node, `QuorumUnavailableError` if
        one does not answer; `nodes` of the error say which, and nothing is written. Ctrl-C, or a task that is
        cancelled, ends only the wait.
        """
        raise NotImplementedError

    def close(self) -> Any:
        """Releases every lease and stops. Leases still held are lost with the reason `closed`.

        Returns when the nodes have answered, at the latest after `node_timeout`. A second call does nothing. Where a task
        is cancelled it goes on in the background.
        """
        raise NotImplementedError

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
        - `stray_messages`: messages that named no waiter, or that no node sends: late, or forged.
        """
        return self._core.stats()

    def __repr__(self) -> str:
        if self._is_used() and not self._is_made():
            return f"<{self._package}.Client that was not made>"
        if not self._is_used():
            return f"<{self._package}.Client of QUORLOCK_NODES, not used so far>"
        return f"<{self._package}.{self._core!r}>"
