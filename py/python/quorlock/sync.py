"""The blocking API. Everything here is exported by `quorlock`."""

from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, cast, overload

from . import _native, _owner
from ._client import ClientBase, Unmade
from ._green import waited
from ._inspection import Forced, Holder, Inspection
from ._probe import Probe
from ._lease import Kept, LeaseBase, NotPickled, shown
from ._options import (
    UNSET,
    Layout,
    Limit,
    Name,
    Seconds,
    Unset,
    call_options,
    check_flag,
    check_reentrant,
    enters,
    given,
    listed,
    lock_options,
    octets,
    text,
)
from ._owner import Caller, Hold
from ._rwlock import RWLock
from ._unseen import guarded, shown_unmade
from ._doubt import in_doubt, left_in_doubt, not_open
from .errors import LockBusyError, LockLostError, NotOwnerError, QuorlockError

if TYPE_CHECKING:
    from typing import Unpack

    from ._election import Election
    from ._several import Leases, Locks
    from ._typed import RWLockOptions, SemaphoreOptions, SeveralOptions

__all__ = ["Attempt", "Client", "Lease", "Lock"]

_LOST_KEPT = 16
"""So many lost leases are known to their lock, until it is called to release them."""


class Lease(LeaseBase, _native.Ends):
    """A hold on a lock: what `Lock.acquire` returns.

    It is valid until released or lost. It is renewed in the background, unless its lock says otherwise. One that is
    collected while it is held is released in the background, with a `ResourceWarning`. As a context manager it releases at
    the end; if the body ends normally after a loss, `LockLostError` is raised.
    """

    __slots__ = ()

    @guarded
    def extend(self, ttl: Seconds | None = None) -> None:
        """Lengthens the lease to `ttl` seconds from now, to its own ttl with `None`; never shortens it.

        Raises `LockLostError` if it is lost, `QuorumUnavailableError` if too few nodes answered (it is then valid as
        long as it was), `NotOwnerError` after release. Ctrl-C leaves the lease valid.
        """
        waited(self._core.extend(ttl))

    def downgrade(self) -> None:
        """Shares the lease from now on with others that ask for the lock with `shared=True`, and calls those that wait for that.

        It keeps its fence. The call waits until a quorum of the nodes lets them in. Raises `LockLostError` if the lease is
        lost, `NotOwnerError` after release, `QuorumUnavailableError` if too few nodes answered: the lease is shared and held
        all the same; `InvalidArgumentError` of a raw lock, which stays as it is.
        """
        waited(self._core.downgrade())

    def export(self) -> str:
        """Ends the lease here without releasing the lock; returns a text with which one other client of the same nodes goes on.

        `Client.adopt(text)` does, in another process, in another language, on another host. The lease is lengthened to its
        full ttl first. Then it is over here, and nobody renews it: adopt it within the ttl, or for as long as it was extended
        beyond that, else the lock is free. Until then nobody could know of a loss, so leave alone what the lock protects.

        **The text is a secret**: whoever has it can take the lock.

        Raises `LockLostError` if the lease is lost, `NotOwnerError` after release, `QuorumUnavailableError` if too few nodes
        answered to lengthen it: then it is held here as before, as it is where `InvalidArgumentError` says that it was entered
        more than once (release the inner handles first), that it is shared, or that its lock is kept. Ctrl-C leaves it held
        here.
        """
        waited(self._core.prepare_export())
        return self._exported()

    @guarded
    def ensure(self, min_remaining: Seconds) -> None:
        """Makes sure that at least this many seconds of validity are left, extending the lease if there are not.

        Call it right before a step that takes that long. Raises as `extend`, and `InvalidArgumentError` if so
        much is not left and the ttl cannot give it.
        """
        waited(self._core.ensure(min_remaining))

    def release(self) -> bool:
        """Releases this handle; the last handle of a lease frees the lock. Returns whether the lock was still held.

        Of a lock with `keep` true means that a quorum of nodes keeps it taken. False with a warning in the log: too few do, or
        nodes refuse the release for a missing permission.

        A second call does nothing and returns false. Raises for no loss; `ForkedProcessError` in a forked child. The
        lease ends at once; Ctrl-C ends only the wait for the nodes, which do their part in the background.
        """
        self._forgotten()
        held: bool = waited(self._core.release())
        return held

    def _leave(self, error: BaseException | None) -> None:
        leave(self, error)


def leave(lease: "Lease | Leases", error: BaseException | None) -> None:
    """Ends a scope: releases, and raises `LockLostError` after a loss unless the body failed by itself."""
    try:
        lease.release()
    except QuorlockError as failed:
        if error is None:
            raise
        error.add_note(f"and the lock could not be released: {failed}")
        return
    lease._raise_if_lost(error)


class Scoped(NotPickled, _native.Scoped):
    """What `with` can enter again and again, in many threads at once. The native base does the `with`.

    A scope is left by the `with` that entered it, wherever that goes on: a generator or a fixture may be closed in another
    thread, task or context. What was entered by hand, or by a stack, is left by what has entered it; see
    `docs/explanation/owners.md`.
    """

    __slots__ = ()

    @guarded
    def _enter(self, at_once: bool = False) -> "Lease | Leases | None":
        """Gives the lease of a new scope. `at_once`: a wait would be for what the caller itself has left in doubt."""
        raise NotImplementedError

    def _leave(self, lease: "Lease | Leases", error: BaseException | None) -> None:
        leave(lease, error)

    def _leave_doubt(self, leases: "list[Lease | Leases]", warn: bool, error: BaseException | None) -> None:
        """One of several scopes was left, and nothing says which."""
        if warn:
            in_doubt(self)
        for lease in leases:
            lease._raise_if_lost(error)

    def _leave_none(self, elsewhere: bool, error: BaseException | None) -> None:
        """No scope is open that might be left."""
        if error is None:
            raise NotOwnerError(not_open(elsewhere))


@shown_unmade
class Lock(Scoped):
    """A name with options; made by `Client.lock`. It holds nothing by itself.

    May be used by many threads at once. `with lock as lease:` holds the lock for a scope; if the body ends normally after a
    loss, `LockLostError` is raised. A scope has an owner: the one named by `owner=`, else whoever enters it: the thread, and in it
    the task of an event loop, the greenlet and the context (`contextvars`). While the scope is open its owner enters it again by
    `with`, which gives another handle on the same lease, and the last one that is left frees the lock. So a function that the
    holder calls re-enters; another task, another greenlet, other work of a thread of a pool is another owner. A generator is one
    owner with whoever runs it, as with `threading.RLock`. With `reentrant=False` no `with` re-enters, as with `threading.Lock`.

    What is acquired by hand, by `acquire` or `try_acquire`, has no owner unless `owner=` names one: a second call waits as a
    stranger's does, also in the same thread. Its lease is bound to no thread and may be handed on. It lives until it is released,
    or until both it and its lock have been collected, which a `ResourceWarning` and a line in the log tell.

    Where a call would have to wait for a scope around it, or for another task or context of its own thread, which cannot go on
    meanwhile, `WouldDeadlockError` is raised at once: use `async with` there, or one `owner=` for both. In gevent and eventlet a
    wait lets other greenlets run. What this thread has acquired by hand somebody else may release, so that is waited for, with a
    warning in the log.
    """

    __slots__ = ("__weakref__", "_core", "_kept", "_later", "_name", "_named", "_place", "_reentrant", "_wait")

    _core: _native.Lock
    _place: _owner.Place

    def __init__(
        self, core: _native.Lock | Unmade, name: str, named: bool, reentrant: bool, wait: Limit = UNSET
    ) -> None:
        self._later = core if isinstance(core, Unmade) else None
        if not isinstance(core, Unmade):
            self._core = core
            self._place = core.place()
        self._name = name
        self._named = named
        self._reentrant = reentrant
        # How long it waits where a call does not say.
        self._wait = wait
        self._kept = Kept()

    def __getattr__(self, name: str) -> Any:
        # What its client makes of it when it is first used.
        if name not in ("_core", "_place") or self._later is None:
            raise AttributeError(name)
        self._core = self._later.made()
        self._place = self._core.place()
        return getattr(self, name)

    @property
    def name(self) -> str:
        """The lock's name. Bytes that are not UTF-8 appear as surrogate escapes."""
        return self._name

    @overload
    def acquire(
        self, blocking: Literal[True] = True, timeout: Limit = UNSET, *, wait: Limit = UNSET, label: str | Unset = UNSET
    ) -> Lease: ...

    @overload
    def acquire(
        self, blocking: bool, timeout: Limit = UNSET, *, wait: Limit = UNSET, label: str | Unset = UNSET
    ) -> Lease | Literal[False]: ...

    @guarded
    def acquire(
        self, blocking: bool = True, timeout: Limit = UNSET, *, wait: Limit = UNSET, label: str | Unset = UNSET
    ) -> Lease | Literal[False]:
        """Acquires the lock, waiting as long as its `wait` says, or for this call `timeout` seconds.

        `wait` is another word for `timeout`: 0 tries once, `None` waits forever, and so does `timeout=-1`. With
        `blocking=False` it tries once and returns `False` where another holds the lock. A lease is always true, also when it
        is lost: ask `is_held()`. `label` takes the place of the lock's, for the lease that this call wins.

        Raises `LockTimeoutError` if others held it all the time, `LockContendedError` likewise with a wait of 0,
        `QuorumUnavailableError` if too few nodes answered, `MisconfiguredError` at once if credentials or addresses
        leave no quorum, `TooManyWaitersError` at once if `max_waiters` others of this client wait already,
        `LockLostError` on re-entry into a lease that was lost, or if the lease is lost by the time the thread goes on, for
        another kept the interpreter. Ctrl-C ends the wait within 200 ms and leaves no key behind.

        Those of one client that wait for a lock get it in the order in which they came; a wait of 0 asks the nodes past
        that line.
        """
        options = call_options(blocking, timeout, wait, label)
        if not blocking:
            return self.try_acquire(label=label) or False
        return self._keep(self._acquired(options, by_hand=True))

    @guarded
    def try_acquire(self, *, label: str | Unset = UNSET) -> Lease | None:
        """Tries once. `None` where another holds the lock. Raises as `acquire` otherwise."""
        lease = self._tried(0, by_hand=True, label=label)
        return None if lease is None else self._keep(lease)

    @guarded
    def attempt(self, wait: Limit = 0, *, label: str | Unset = UNSET) -> "Attempt":
        """A scope for work that is left out where others hold the lock.

            with lock.attempt() as lease:
                if lease:
                    ...

        Entering it tries for `wait` seconds, once with 0, and gives `None` where others hold the lock all the time. `label` as
        of `acquire`. Raises as `acquire` otherwise.
        """
        return Attempt(self, wait, label)

    def release(self) -> bool:
        """Releases the newest lease that is held of those that the caller has acquired by hand through this object.

        The caller is the thread, and in it the task and the greenlet. Returns whether the lock was still held: false where all
        that the caller has left are lost leases, or it has acquired none in vain. Raises `NotOwnerError` otherwise, and never
        releases what another has acquired: that is released by `lease.release()`, wherever its lease is. With `owner=` it
        releases the newest handle of that owner.
        """
        if self._named:
            held: bool = waited(self._core.release(_native.Owner()))
            self._sweep()
            return held
        caller = Caller()
        lease = self._kept.newest(caller)
        if lease is not None:
            return cast(Lease, lease).release()
        if self._kept.was_refused(caller):
            return False
        raise NotOwnerError(
            f"the lock {shown(self._name)} was not acquired by this thread, task and greenlet through this object: call "
            "lease.release() of the lease that acquire() gave, or leave the scope; or give both the same owner= to acquire and "
            "release in different places"
        )

    def locked(self) -> bool:
        """Whether somebody holds the lock, or keeps it, or is about to: by one request to each node. Of a semaphore whether all
        slots are held.

        Raises `QuorumUnavailableError` if too few nodes answered.
        """
        found: bool = waited(self._core.is_locked())
        return found

    def holder(self) -> Holder | None:
        """Who holds the lock, or keeps it; `None` where a quorum agrees on nobody. Of a semaphore who has had a slot for longest.
        Raises as `locked`.
        """
        return Holder._of(waited(self._core.holder()))

    def inspect(self) -> Inspection:
        """What each node has of the lock, and what follows from that; of a semaphore of each of its `slots`. Changes nothing."""
        return Inspection._of(waited(self._core.inspect()))

    @guarded
    def force_release(self, fence: int | None = None, *, slot: int | None = None) -> Forced:
        """Takes the lock away from whoever holds it, or keeps it: see `Client.force_release`. Of a semaphore all slots, without a
        fence, or the one of that number.
        """
        return Forced._of(waited(self._core.force_release(fence, slot)))

    @guarded
    def wait_until_free(self, timeout: Seconds | None = None) -> bool:
        """Waits until the lock is free, or a slot of a semaphore is, and takes nothing: whether it was so before so many seconds were
        over; `None`: without end. Another may have it a moment later: whoever wants it acquires it. It is looked at again and
        again, every 0.05 to 0.5 seconds. Raises as `locked`.
        """
        found: bool = waited(self._core.wait_until_free(timeout))
        return found

    def _hold(self, caller: Caller, by_hand: bool) -> Hold:
        """The hold that the caller re-enters, or one to be won."""
        if self._reentrant and not self._named and not by_hand:
            known = _owner.mine(self._place, caller)
            if known is not None and known.reentrant:
                return known
        return Hold(self._core, self._place, _native.Owner(), caller, self._reentrant, by_hand)

    def _acquired(self, options: dict[str, object], by_hand: bool) -> Lease:
        caller = Caller()
        hold = self._hold(caller, by_hand)
        wait = options.get("wait", self._wait)
        warning = None
        try:
            if wait != 0:
                warning = _owner.before_waiting(hold, caller, self._name, self._named)
            if warning is None:
                core: _native.Lease = waited(self._core.acquire(hold.owner, options))
            else:
                with _owner.Warned(warning, wait is None):
                    core = waited(self._core.acquire(hold.owner, options))
        except QuorlockError as error:
            if isinstance(error, LockBusyError) and warning is None and not self._named and not self._core.has_slots:
                _owner.told(error, self._place)
            elif isinstance(error, LockLostError) and hold.is_lost():
                _owner.reentered_lost(error)
            if by_hand:
                self._kept.refused(caller)
            raise
        return self._won(core, hold)

    def _tried(self, wait: Limit, by_hand: bool, label: str | Unset = UNSET) -> Lease | None:
        """As `_acquired`; `None` where others hold the lock all the time."""
        caller = Caller()
        hold = self._hold(caller, by_hand)
        warning = None if wait == 0 else _owner.before_waiting(hold, caller, self._name, self._named)
        try:
            with _owner.Warned(warning, wait is None):
                core: _native.Lease | None = waited(self._core.try_acquire(hold.owner, given(wait=wait, label=label)))
        except LockLostError as error:
            if hold.is_lost():
                _owner.reentered_lost(error)
            raise
        if core is None and by_hand:
            self._kept.refused(caller)
        return None if core is None else self._won(core, hold)

    def _won(self, core: _native.Lease, hold: Hold) -> Lease:
        try:
            hold.won()
            return Lease(core, hold)
        except BaseException:
            # Ctrl-C before the caller has it.
            core.discard()
            raise

    def _keep(self, lease: Lease) -> Lease:
        try:
            if self._kept:
                self._sweep()
            self._kept.keep(lease)
            return lease
        except BaseException:
            # Ctrl-C before the caller has it.
            self._kept.discard(lease)
            lease._core.discard()
            raise

    def _sweep(self) -> None:
        """Keeps no longer what was released by lock, nor too many that are lost."""
        lost = 0
        for lease in reversed(tuple(self._kept)):
            lost += lease._core.reason is not None
            if lease._core.is_released() or lost > _LOST_KEPT:
                lease._forgotten()

    @guarded
    def _enter(self, at_once: bool = False) -> Lease:
        if not at_once:
            return self._acquired({}, by_hand=False)
        lease = self._tried(0, by_hand=False)
        if lease is None:
            raise left_in_doubt(self._name)
        return lease

    if TYPE_CHECKING:

        def __enter__(self) -> Lease: ...

    def __repr__(self) -> str:
        return f"<quorlock.Lock {shown(self._name)}>"


@shown_unmade
class Attempt(Scoped):
    """A scope that is entered without a lease where others hold the lock: what `Lock.attempt` returns.

    It may be used again, and by many threads at once.
    """

    __slots__ = ("_label", "_lock", "_wait")

    def __init__(self, lock: Lock, wait: Limit, label: str | Unset) -> None:
        self._lock = lock
        self._wait = wait
        self._label = label

    @guarded
    def _enter(self, at_once: bool = False) -> Lease | None:
        lease = self._lock._tried(0 if at_once else self._wait, by_hand=False, label=self._label)
        if lease is None and at_once and self._wait != 0:
            raise left_in_doubt(self._lock.name)
        return lease

    if TYPE_CHECKING:

        def __enter__(self) -> Lease | None: ...

    def __repr__(self) -> str:
        return f"<quorlock.Attempt {shown(self._lock.name)}>"


class Client(ClientBase):
    """A set of nodes and the options for its locks.

    Connects when first needed and again when connections break. One client serves all threads of a process.

    - `nodes`: URLs, as a list or in one text: `redis://[user:password@]host[:port][/db]`, `rediss://…`,
      `redis+unix:///path`, `redis+sentinel://host:26379;host;host/master` for a master with replicas that sentinels know
      by that name, `redis+cluster://host:6379;host` for a Redis Cluster, or `memory://name` for a node in this process.
      Default: the environment variable `QUORLOCK_NODES`, else `redis://127.0.0.1:6379`.
    - `ttl`, `wait`, `renew`, `max_hold`, `raw`, `fencing`, `max_waiters`, `fair`, `keep`, `layout`, `group`, `label`: defaults for
      its locks, see `lock`.
    - `max_ttl`: the longest ttl of any lock of the set, in seconds, and so how long a node that may have lost its memory
      gives no vote; the same for all clients of a set (60).
    - `node_timeout`: seconds for one request to one node, at most a quarter of the ttl (0.25).
    - `connect_timeout`: seconds for a connection to a node to be made. Calls that ask once (`wait=0`, `attempt`, `once`,
      `inspect`, `locked`, `adopt`) wait as long for the first ones, until a quorum of nodes is connected (2).
    - `drift`: bound on the difference of clock rates, as a fraction (0.01).
    - `min_validity`: the fraction of the ttl that must be left when a lease is won (0.1).
    - `namespace`: prefix of every key (`lock:`).
    - `fence_ttl`: seconds that a lock's counter of fences lives after its last use, at least twice `max_ttl` (600). After
      that the order of fences rests on the nodes' clocks.
    - `set_name`: the name of the set that the nodes form, 1 to 64 printable ASCII characters without blanks; nodes of
      another set are refused (`default`).
    - `restart_guard`: whether a node that may have lost its memory gives no vote until every vote that it may have given
      is over: `"on"` or true, `"off"` or false, or `"auto"`, which is on for three nodes and more, and where a node fails
      over to another server (`"auto"`). The same for all clients of a set; with `"on"` a wholly new set waits, too.
    - `accept_eviction`: whether to accept servers that drop keys when they are full; with them a lock may vanish under
      its holder (false).
    - `wait_replicas`: how many replicas of a node must have a vote before it counts, 0 to 16 (0). With as many as the
      node has, a failover loses no vote, and a master that is cut off from them gives none; a replica that hangs holds
      up every request to its master for half of `node_timeout`.
    - `ca`, `cert`, `key`: path of a PEM file, or its text: whom to trust, and the client's own certificate.

    Raises `InvalidArgumentError`, naming the option, its value and what to give. As a context manager it closes itself.
    """

    __slots__ = ()
    _package = "quorlock"

    @guarded
    def lock(
        self,
        name: Name,
        *,
        ttl: Seconds | Unset = UNSET,
        wait: Limit = UNSET,
        renew: bool | Unset = UNSET,
        max_hold: Limit = UNSET,
        raw: bool | Unset = UNSET,
        fencing: bool | Unset = UNSET,
        max_waiters: int | Unset = UNSET,
        fair: bool | Unset = UNSET,
        keep: Seconds | Unset = UNSET,
        layout: Layout | Unset = UNSET,
        group: str | Unset = UNSET,
        label: str | Unset = UNSET,
        shared: bool | Unset = UNSET,
        slots: int | Unset = UNSET,
        owner: Name | None = None,
        reentrant: bool = True,
    ) -> Lock:
        """A lock by its name: 1 to 1,024 bytes. Options not given are the client's.

        - `ttl`: auto-release time on the nodes, in seconds: how long the lock outlives a crashed holder (10).
        - `wait`: seconds to wait in `acquire` (10); 0 tries once, `None` waits forever.
        - `renew`: whether the lease is renewed until released (true). Without, it ends after the ttl unless extended.
        - `max_hold`: longest life of a lease in seconds (3600); `None` for no limit.
        - `raw`: the key on the nodes is the name itself, as in other Redlock libraries (false).
        - `fencing`: whether leases have a `fence` (true). Without, a release leaves no key at all on the nodes.
        - `max_waiters`: how many calls of this client may wait for the lock in a line, behind the one that asks the nodes
          or holds it (10,000); one more raises `TooManyWaitersError` at once. 0: nobody waits behind another.
        - `fair`: whether every release goes over the nodes, where the waiters of other clients queue (false). Without, a lease
          may be passed on to the next in line of this client, up to 16 times in a row.
        - `keep`: for how many seconds the lock stays taken after it was won, also when it is released before (0): so that a
          job which every host starts at about the same time runs once. At most the client's `max_ttl`.
        - `layout`: `"redisson"` makes it one lock with Java's `RLock` of that name (`"plain"`). The key is the name then, a named
          `owner` is one in all processes and in Java, and waiters are not queued on the nodes. Not with `shared`, `slots` nor
          `keep`. See docs/how-to/one-lock-with-java.md.
        - `group`: the lock's group in `quorlock.metrics_text`, which never names locks: a word for all of a kind, such as
          `orders`. At most 64 bytes. The process keeps 64 groups; later ones are counted as `other`.
        - `label`: text that is stored with the token of a lease, to tell who holds the lock: at most 256 bytes without control
          characters; empty for none (`host:pid`). An acquire that enters a lease again leaves that lease's label as it is. What is
          `raw`, or in Redisson's layout, has no label.
        - `shared`: whether the lease is one of many that share the lock (false): readers, whom a lease that is not shared keeps
          out, and who keep that out. Whoever shares the lock and asks for it alone gets `WouldDeadlockError` at once. Not with
          `raw` nor `keep`.
        - `slots`: makes it a semaphore of this many slots, 1 to 128: see `semaphore`.
        - `owner`: who may re-enter, by a name that is valid within this client; by default whoever calls, see `Lock`.
        - `reentrant`: whether the owner may enter again while it holds the lock (true).

        Raises `InvalidArgumentError` for a name or option that is not valid.
        """
        octet_name = octets("name", name)
        check_reentrant(reentrant, owner)
        options = lock_options(
            owner,
            ttl=ttl,
            wait=wait,
            renew=renew,
            max_hold=max_hold,
            raw=raw,
            fencing=fencing,
            max_waiters=max_waiters,
            fair=fair,
            keep=keep,
            layout=layout,
            group=group,
            label=label,
            shared=shared,
            slots=slots,
        )
        core, its_wait = self._lock(octet_name, options)
        return Lock(core, text(octet_name), owner is not None, enters(reentrant, slots, owner), its_wait)

    @guarded
    def rwlock(self, name: Name, **options: "Unpack[RWLockOptions]") -> RWLock[Lock]:
        """The two modes of one lock, to share it and to have it alone; options as of `lock`. Raises as `lock`."""
        return RWLock(self.lock(name, **options, shared=True), self.lock(name, **options))

    @guarded
    def semaphore(self, name: Name, slots: int, **options: "Unpack[SemaphoreOptions]") -> Lock:
        """A semaphore: at most `slots` of it are held at once, 1 to 128. Options as of `lock`.

            with client.semaphore("api", 5) as lease:
                call_the_api(worker=lease.slot)

        It is acquired and released as a lock is, and no thread re-enters it: who acquires it twice has two slots, as of
        `threading.Semaphore`, but for an `owner` by name. All who use it have to ask for the same number of slots: the largest
        number in use is the limit. A lock of that name is another matter. Raises as `lock`.
        """
        return self.lock(name, **options, slots=slots)

    @guarded
    def lock_all(self, names: Iterable[Name], **options: "Unpack[SeveralOptions]") -> "Locks":
        """Several locks by their names, to be held together: all of them, or none; options as of `lock`.

        1 to 16 names that differ, in any order; one that is given twice is held once.
        """
        from ._several import Locks

        if isinstance(names, str | bytes):
            raise TypeError(f"names is a {type(names).__name__}: give a list of names, or one name to lock()")
        return Locks([self.lock(name, **options) for name in listed("names", names, "a list of names")])

    @guarded
    def election(
        self,
        name: Name,
        *,
        ttl: Seconds | Unset = UNSET,
        wait: Limit = UNSET,
        renew: bool | Unset = UNSET,
        max_hold: Limit = UNSET,
        raw: bool | Unset = UNSET,
        fencing: bool | Unset = UNSET,
        max_waiters: int | Unset = UNSET,
        fair: bool | Unset = UNSET,
        keep: Seconds | Unset = UNSET,
        layout: Layout | Unset = UNSET,
        group: str | Unset = UNSET,
        label: str | Unset = UNSET,
    ) -> "Election":
        """A candidate of the election of that name, one of whose candidates leads: whoever holds the lock of that name.

        Options as of `lock`, with other defaults: it is waited for without end (`wait=None`), a term has no longest life
        (`max_hold=None`), and the candidates of all clients lead in the order in which they came (`fair=True`). `ttl` is how
        long nobody leads after a leader has crashed. `wait` is that of `campaign` alone.

        Raises `InvalidArgumentError` for a name or option that is not valid.
        """
        from ._election import Election

        octet_name = octets("name", name)
        options = given(
            ttl=ttl,
            wait=wait,
            renew=renew,
            max_hold=max_hold,
            raw=raw,
            fencing=fencing,
            max_waiters=max_waiters,
            fair=fair,
            keep=keep,
            layout=layout,
            group=group,
            label=label,
        )
        return Election(self._election(octet_name, options), text(octet_name))

    @guarded
    def inspect(self, name: Name) -> Inspection:
        """Reports who holds a lock, without acquiring it: what each node has of it, and what follows from that.

        That nodes do not answer is no error, but part of the result.
        """
        return self.lock(name).inspect()

    @guarded
    def force_release(self, name: Name, fence: int | None = None) -> Forced:
        """Takes a lock away from whoever holds it, or keeps it, for an operator: deletes its vote on all nodes, whatever client
        or library put it there, and calls who waits next. That nobody holds it is no error.

        The holder learns it at its next renewal, at most about a third of its ttl later, or when it extends: its lease is
        lost, `"forced"`, or `"refused"` where another has taken the lock meanwhile. A lease that is not renewed learns nothing
        before its end. Until then two may work, and their fences tell them apart.

        `fence`: only from the hold that has it, so that whoever has got the lock since is never hit.
        Give that of the lease that is to go, or what `inspect` tells of the holder.

        Raises `InvalidArgumentError` for a name or a fence that is not valid; `LockContendedError` if the lock is held, and
        not by `fence` for certain, and nothing is changed; `QuorumUnavailableError` if too few nodes answer: some may have
        done it then, and calling again completes it. `MisconfiguredError` where the lock's key is no string.
        """
        return self.lock(name).force_release(fence)

    @guarded
    def adopt(self, text: str) -> Lease:
        """Goes on with a lease that another client has exported by `lease.export()`, as long as that has not ended.

        It has what was left of its `max_hold`, the same ttl, or that if it is less, and a larger fence. Of two that adopt one
        lease one wins at most. Nobody re-enters it. Nodes that do not answer are waited for as long as the client's `wait`, at
        most for the ttl.

        Raises `LockLostError` if the lease has ended or another has adopted it, `QuorumUnavailableError` if too few nodes
        answered, `InvalidArgumentError` for a text that is damaged, or of another set, namespace or version.
        """
        core: _native.Lease = waited(self._core.adopt(text))
        try:
            return Lease(core, None)
        except BaseException:
            # Ctrl-C before the caller has it.
            core.discard()
            raise

    def probe(self) -> Probe:
        """Checks the state of the set: which nodes answer, which would vote, and what needs to be fixed.

        Nothing is admitted, founded or locked by it. It takes at most `connect_timeout` and eight times
        `node_timeout`. That nodes do not answer, or cannot be used, is no error, but part of the result: `docs/operations/doctor.md` lists
        what may be found.
        """
        return Probe._of(waited(self._core.probe()))

    @guarded
    def init_set(self, *, force: bool = False) -> Seconds:
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
        one does not answer; `nodes` of the error say which, and nothing is written. Ctrl-C ends only the wait.
        """
        check_flag("force", force)
        left: Seconds = waited(self._core.init_set(force))
        return left

    def close(self) -> None:
        """Releases every lease and stops. Leases still held are lost with the reason `closed`.

        Returns when the nodes have answered, at the latest after `node_timeout`. A second call does nothing.
        """
        waited(self._core.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
