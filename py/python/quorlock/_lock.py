"""The blocking lock and its lease."""

from typing import TYPE_CHECKING, Literal, cast, overload

from . import _native, _owner
from ._client import LockBase, Unmade
from ._doubt import in_doubt, left_in_doubt, not_open
from ._green import waited
from ._inspection import Forced, Holder, Inspection
from ._lease import Kept, LeaseBase, NotPickled, shown
from ._leases import LeasesBase
from ._options import UNSET, Limit, Seconds, Unset, call_options, given, tries_once
from ._owner import Caller, Hold
from ._unseen import guarded, shown_unmade
from .errors import LockBusyError, LockLostError, NotOwnerError, QuorlockError

__all__ = ["Attempt", "Lease", "Lock", "Scoped", "leave"]

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
        waited(self._core.extend(ttl))

    def downgrade(self) -> None:
        waited(self._core.downgrade())

    def export(self) -> str:
        waited(self._core.prepare_export())
        return self._exported()

    @guarded
    def ensure(self, min_remaining: Seconds) -> None:
        waited(self._core.ensure(min_remaining))

    @guarded
    def release(self, *, confirm: bool | None = None) -> bool:
        waits = self._core.waits(confirm)
        self._forgotten()
        held: bool = waited(self._core.release()) if waits else self._core.release_unconfirmed(None)
        return held

    def _leave(self, error: BaseException | None) -> None:
        leave(self, error)


def leave(lease: "Lease | LeasesBase[Lease]", error: BaseException | None) -> None:
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
    def _enter(self, at_once: bool = False) -> "Lease | LeasesBase[Lease] | None":
        """Gives the lease of a new scope. `at_once`: a wait would be for what the caller itself has left in doubt."""
        raise NotImplementedError

    def _leave(self, lease: "Lease | LeasesBase[Lease]", error: BaseException | None) -> None:
        leave(lease, error)

    def _leave_doubt(self, leases: "list[Lease | LeasesBase[Lease]]", warn: bool, error: BaseException | None) -> None:
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
class Lock(LockBase, Scoped):
    """A name with options; made by `Client.lock`. It holds nothing by itself.

    May be used by many threads at once. `with lock as lease:` holds the lock for a scope; if the body ends normally after a
    loss, `LockLostError` is raised. A scope has an owner: the one named by `owner=`, else the caller that enters it: the thread, and in it
    the task of an event loop, the greenlet and the context (`contextvars`). While the scope is open its owner enters it again by
    `with`, which gives another handle on the same lease, and the last one that is left frees the lock. So a function that the
    holder calls re-enters; another task, another greenlet, other work of a thread of a pool is another owner. A generator is one
    owner with the code that runs it, as with `threading.RLock`. With `reentrant=False` no `with` re-enters, as with `threading.Lock`.

    What is acquired by hand, by `acquire` or `try_acquire`, has no owner unless `owner=` names one: a second call waits as a
    stranger's does, also in the same thread. Its lease is bound to no thread and may be handed on. It lives until it is released,
    or until both it and its lock have been collected, which a `ResourceWarning` and a line in the log tell.

    Where a call would have to wait for a scope around it, or for another task or context of its own thread, which cannot go on
    meanwhile, `WouldDeadlockError` is raised at once: use `async with` there, or one `owner=` for both. In gevent and eventlet a
    wait lets other greenlets run. What this thread has acquired by hand another caller may release, so that is waited for, with a
    warning in the log.
    """

    __slots__ = ("__weakref__", "_kept", "_later", "_made", "_name", "_named", "_reentrant", "_wait")

    def __init__(
        self, core: _native.Lock | Unmade, name: str, named: bool, reentrant: bool, wait: Limit = UNSET
    ) -> None:
        self._of(core, name, named, reentrant, wait)
        self._kept = Kept()

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
        options = call_options(blocking, timeout, wait, label)
        if not blocking:
            return self.try_acquire(label=label) or False
        return self._keep(self._acquired(options, by_hand=True))

    @guarded
    def try_acquire(self, *, label: str | Unset = UNSET) -> Lease | None:
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
        found: bool = waited(self._core.is_locked())
        return found

    def holder(self) -> Holder | None:
        return Holder._of(waited(self._core.holder()))

    def inspect(self) -> Inspection:
        return Inspection._of(waited(self._core.inspect()))

    @guarded
    def force_release(self, fence: int | None = None, *, slot: int | None = None) -> Forced:
        return Forced._of(waited(self._core.force_release(fence, slot)))

    @guarded
    def wait_until_free(self, timeout: Seconds | None = None) -> bool:
        found: bool = waited(self._core.wait_until_free(timeout))
        return found

    def _hold(self, caller: Caller, by_hand: bool) -> Hold:
        """The hold that the caller re-enters, or one to be won."""
        if self._reentrant and not self._named and not by_hand:
            known = _owner.scope_of(self._place, caller)
            if known is not None and known.reentrant:
                return known
        return Hold(self._core, self._place, _native.Owner(), caller, self._reentrant, by_hand)

    def _acquired(self, options: dict[str, object], by_hand: bool) -> Lease:
        caller = Caller()
        hold = self._hold(caller, by_hand)
        wait = options.get("wait", self._wait)
        warning = None
        try:
            if wait is None or wait:
                warning = _owner.check_wait(hold, caller, self._name, self._named)
            if warning is None:
                core: _native.Lease = waited(self._core.acquire(hold.owner, options))
            else:
                with _owner.WarnedWait(warning, wait is None):
                    core = waited(self._core.acquire(hold.owner, options))
        except QuorlockError as error:
            if isinstance(error, LockBusyError) and warning is None and not self._named and not self._core.has_slots:
                _owner.add_holder(error, self._place)
            elif isinstance(error, LockLostError) and hold.is_lost():
                _owner.add_lost_scope(error)
            if by_hand:
                self._kept.refused(caller)
            raise
        return self._register(core, hold)

    def _tried(self, wait: Limit, by_hand: bool, label: str | Unset = UNSET) -> Lease | None:
        """As `_acquired`; `None` where others hold the lock all the time."""
        caller = Caller()
        hold = self._hold(caller, by_hand)
        warning = None if tries_once(wait) else _owner.check_wait(hold, caller, self._name, self._named)
        try:
            with _owner.WarnedWait(warning, wait is None):
                core: _native.Lease | None = waited(self._core.try_acquire(hold.owner, given(wait=wait, label=label)))
        except LockLostError as error:
            if hold.is_lost():
                _owner.add_lost_scope(error)
            raise
        if core is None and by_hand:
            self._kept.refused(caller)
        return None if core is None else self._register(core, hold)

    def _register(self, core: _native.Lease, hold: Hold) -> Lease:
        try:
            hold.register()
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
        if lease is None and at_once and not tries_once(self._wait):
            raise left_in_doubt(self._lock.name)
        return lease

    if TYPE_CHECKING:

        def __enter__(self) -> Lease | None: ...

    def __repr__(self) -> str:
        return f"<quorlock.Attempt {shown(self._lock.name)}>"
