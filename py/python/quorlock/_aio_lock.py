"""The lock of asyncio and its lease."""

import asyncio
import sys
import weakref
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Literal, Self, cast, overload

from . import _native
from ._channel import completed, in_this_loop, port_here
from ._client import LockBase, Unmade
from ._doubt import left_in_doubt
from ._inspection import Forced, Holder, Inspection
from ._lease import Kept, KeptByTask, LeaseBase, NotPickled, awaited, shown
from ._options import UNSET, Limit, Seconds, Unset, call_options, given, tries_once
from ._owner import Caller, Hold, WarnedWait, add_holder, add_lost_scope, check_await, hold_of_task
from ._scope import Scope, Scopes, of_caller
from ._tasks import owner as this_task
from ._unseen import guarded, guarded_coroutine, shown_unmade
from .errors import LockBusyError, LockLostError, NotOwnerError

__all__ = ["Attempt", "Lease", "Lock", "deliver"]


class Lease(LeaseBase):
    """A hold on a lock: what `await Lock.acquire()` returns.

    It is valid until released or lost. It is renewed in the background, unless its lock says otherwise. One that is
    collected while it is held is released in the background, with a `ResourceWarning`. `async with lease:` releases at the
    end, and cancels the task on a loss, which comes out of the scope as `LockLostError`.
    """

    __slots__ = ("_scopes",)

    def __init__(self, core: _native.Lease, hold: Hold | None) -> None:
        super().__init__(core, hold)
        # Those that are open; the newest is the last.
        self._scopes: tuple[Scope, ...] = ()

    @guarded
    def on_lost(self, callback: Callable[[str], object]) -> None:
        """Calls `callback(reason)` once when the lease is lost, soon if it is: by the event loop that runs here.

        It may cancel tasks and set events of that loop, and must not block it; what it raises goes to the loop's exception
        handler. What blocks the loop withholds it, and so does the end of the loop. Where none runs here it is called on a
        thread of Quorlock's own, as of `quorlock.Lease.on_lost`. It is not called once the lease is released or collected.
        """
        self._core.on_lost(in_this_loop(self._told(callback)))

    @guarded_coroutine
    async def extend(self, ttl: Seconds | None = None) -> None:
        await completed(self._core.extend(ttl).start)

    async def downgrade(self) -> None:
        await completed(self._core.downgrade().start)

    async def export(self) -> str:
        await completed(self._core.prepare_export().start)
        # Where the task goes on: a task that gets no text keeps the lease.
        return self._exported()

    @guarded_coroutine
    async def ensure(self, min_remaining: Seconds) -> None:
        await completed(self._core.ensure(min_remaining).start)

    @guarded_coroutine
    async def release(self, *, confirm: bool | None = None) -> bool:
        waits = self._core.waits(confirm)
        self._forgotten()
        if not waits:
            return self._core.release_unconfirmed(port_here())
        held: bool = await completed(self._core.release().start)
        return held

    async def __aenter__(self) -> Self:
        self._scopes += (Scope(self),)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        scope = of_caller(self._scopes)
        if scope is not None:
            self._scopes = tuple(other for other in self._scopes if other is not scope)
            await scope.leave(error)


def deliver(core: _native.Lease) -> _native.Lease:
    """Gives the lease to its task, unless it is lost: since the result came the loop may have been busy for longer than the ttl."""
    if core.is_held():
        return core
    error = core.lost_error()
    core.discard()
    raise error


@shown_unmade
class Lock(LockBase):
    """A name with options; made by `Client.lock`. It holds nothing by itself.

    May be used by many tasks at once. `async with lock as lease:` holds the lock for a scope. If the lease is lost the task is
    cancelled, and that comes out of the scope as `LockLostError`, as `asyncio.timeout` does it. An exception of the body's own
    always wins. A scope has an owner: the one named by `owner=`, else the task; a child task is another one than its parent. While
    the scope is open its owner enters it again by `async with`, which gives another handle on the same lease, and the last one
    that is left frees the lock.

    What is acquired by hand, by `acquire` or `try_acquire`, has no owner unless `owner=` names one: a second call waits as a
    stranger's does, also in the same task. Its lease may be handed on. It lives until it is released, or until both it and its
    lock, or the task that acquired it, have been collected, which a `ResourceWarning` and a line in the log tell; so `await
    lock.acquire()` and `await lock.release()` work without storing the lease.

    Where a task would have to wait for a scope around it that does not let it in, `WouldDeadlockError` is raised at once.
    """

    __slots__ = (
        "__weakref__", "_kept", "_kept_by_name", "_later", "_made", "_name", "_named", "_reentrant", "_scopes", "_wait",
    )

    def __init__(
        self, core: _native.Lock | Unmade, name: str, named: bool, reentrant: bool, wait: Limit = UNSET
    ) -> None:
        self._of(core, name, named, reentrant, wait)
        self._scopes = Scopes()
        self._kept: weakref.WeakKeyDictionary[asyncio.Task[object], Kept] = weakref.WeakKeyDictionary()
        self._kept_by_name = Kept()

    @overload
    async def acquire(
        self, blocking: Literal[True] = True, timeout: Limit = UNSET, *, wait: Limit = UNSET, label: str | Unset = UNSET
    ) -> Lease: ...

    @overload
    async def acquire(
        self, blocking: bool, timeout: Limit = UNSET, *, wait: Limit = UNSET, label: str | Unset = UNSET
    ) -> Lease | Literal[False]: ...

    @guarded_coroutine
    async def acquire(
        self, blocking: bool = True, timeout: Limit = UNSET, *, wait: Limit = UNSET, label: str | Unset = UNSET
    ) -> Lease | Literal[False]:
        options = call_options(blocking, timeout, wait, label)
        if not blocking:
            return await self.try_acquire(label=label) or False
        return self._keep(await self._acquired(options, by_hand=True))

    @guarded_coroutine
    async def try_acquire(self, *, label: str | Unset = UNSET) -> Lease | None:
        lease = await self._tried(0, by_hand=True, label=label)
        return None if lease is None else self._keep(lease)

    @guarded
    def attempt(self, wait: Limit = 0, *, label: str | Unset = UNSET) -> "Attempt":
        """A scope for work that is left out where others hold the lock, as `quorlock.Lock.attempt`.

            async with lock.attempt() as lease:
                if lease:
                    ...
        """
        return Attempt(self, wait, label)

    async def release(self) -> bool:
        """Releases the newest lease that is held of those that the task has acquired by hand through this object.

        Returns whether the lock was still held: false where all that the task has left are lost leases, or it has acquired none in
        vain. Raises `NotOwnerError` otherwise, and never releases what another has acquired: that is released by
        `lease.release()`, wherever its lease is. With `owner=` it releases the newest handle of that owner.
        """
        if self._named:
            held: bool = await completed(self._core.release(_native.Owner()).start)
            for lease in tuple(self._kept_by_name):
                if lease._core.is_released():
                    lease._forgotten()
            return held
        caller, kept = Caller(), self._mine()
        newest = kept.newest(caller)
        if newest is None:
            if kept.was_refused(caller):
                return False
            raise NotOwnerError(
                f"the lock {shown(self._name)} was not acquired by this task through this object: call lease.release() of the lease "
                "that acquire() gave, or leave the scope; or give both the same owner= to acquire and release in different places"
            )
        return await cast(Lease, newest).release()

    async def locked(self) -> bool:
        found: bool = await completed(self._core.is_locked().start)
        return found

    async def holder(self) -> Holder | None:
        return Holder._of(await completed(self._core.holder().start))

    async def inspect(self) -> Inspection:
        return Inspection._of(await completed(self._core.inspect().start))

    @guarded_coroutine
    async def force_release(self, fence: int | None = None, *, slot: int | None = None) -> Forced:
        return Forced._of(await completed(self._core.force_release(fence, slot).start))

    @guarded_coroutine
    async def wait_until_free(self, timeout: Seconds | None = None) -> bool:
        found: bool = await completed(self._core.wait_until_free(timeout).start)
        return found

    async def _acquired(self, options: dict[str, object], by_hand: bool) -> Lease:
        owner = self._owner(by_hand)
        wait = options.get("wait", self._wait)
        try:
            call = self._core.acquire(owner, options)
            core: _native.Lease = await self._begin(call, owner, by_hand, wait)
        except BaseException as error:
            # One whose loop is gone releases nothing any more.
            if by_hand and not isinstance(error, GeneratorExit):
                self._mine().refused(Caller())
            raise
        return self._register(deliver(core), owner, by_hand)

    async def _tried(self, wait: Limit, by_hand: bool, label: str | Unset = UNSET) -> Lease | None:
        """As `_acquired`; `None` where others hold the lock all the time."""
        owner = self._owner(by_hand)
        call = self._core.try_acquire(owner, given(wait=wait, label=label))
        core: _native.Lease | None = await self._begin(call, owner, by_hand, wait)
        if core is None:
            if by_hand:
                self._mine().refused(Caller())
            return None
        return self._register(deliver(core), owner, by_hand)

    async def _begin(self, call: _native.Call, owner: _native.Owner, by_hand: bool, wait: object) -> Any:
        """Begins the call and awaits its result, unless the wait would be for the task itself."""
        warning = None if tries_once(wait) else check_await(self._core, self._place, owner, by_hand, self._name)
        try:
            if warning is None:
                return await completed(call.start)
            with WarnedWait(warning, wait is None):
                return await completed(call.start)
        except LockBusyError as error:
            if warning is None and not self._named and not self._core.has_slots:
                add_holder(error, self._place)
            raise
        except LockLostError as error:
            if self._core.holds(owner) is False:
                add_lost_scope(error)
            raise

    def _owner(self, by_hand: bool) -> _native.Owner:
        return this_task() if self._reentrant and not by_hand else _native.Owner()

    def _register(self, core: _native.Lease, owner: _native.Owner, by_hand: bool) -> Lease:
        """Makes the hold known to those that would wait for it, and a lease of it."""
        hold = hold_of_task(self._core, self._place, owner, self._reentrant, by_hand)
        hold.register_for_task()
        return Lease(core, hold)

    def _mine(self) -> Kept:
        """The leases kept for the owner."""
        task = asyncio.current_task()
        if self._named or task is None:
            return self._kept_by_name
        kept = self._kept.get(task)
        if kept is None:
            kept = self._kept[task] = KeptByTask(task)
        return kept

    def _keep(self, lease: Lease) -> Lease:
        self._mine().keep(lease)
        return lease

    # Plain functions, which are called by the very frame that does the `async with`.
    @awaited
    def __aenter__(self) -> Coroutine[Any, Any, Lease]:
        return self._enter(self._scopes.place(sys._getframe(1)))

    async def _enter(self, place: _native.Place) -> Lease:
        return self._scopes.enter(place, await self._entered(self._scopes.in_doubt()))

    @guarded_coroutine
    async def _entered(self, at_once: bool) -> Lease:
        if not at_once:
            return await self._acquired({}, by_hand=False)
        lease = await self._tried(0, by_hand=False)
        if lease is None:
            raise left_in_doubt(self._name)
        return lease

    @awaited
    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Coroutine[Any, Any, None]:
        return self._scopes.leave(self, sys._getframe(1), error)

    def __repr__(self) -> str:
        return f"<quorlock.aio.Lock {shown(self._name)}>"


@shown_unmade
class Attempt(NotPickled):
    """A scope that is entered without a lease where others hold the lock: what `Lock.attempt` returns.

    It may be used again, and by many tasks at once.
    """

    __slots__ = ("_label", "_lock", "_scopes", "_wait")

    def __init__(self, lock: Lock, wait: Limit, label: str | Unset) -> None:
        self._lock = lock
        self._wait = wait
        self._label = label
        self._scopes = Scopes()

    # As of `Lock`.
    @awaited
    def __aenter__(self) -> Coroutine[Any, Any, Lease | None]:
        return self._enter(self._scopes.place(sys._getframe(1)))

    async def _enter(self, place: _native.Place) -> Lease | None:
        return self._scopes.enter(place, await self._entered(self._scopes.in_doubt()))

    @guarded_coroutine
    async def _entered(self, at_once: bool) -> Lease | None:
        lease = await self._lock._tried(0 if at_once else self._wait, by_hand=False, label=self._label)
        if lease is None and at_once and not tries_once(self._wait):
            raise left_in_doubt(self._lock.name)
        return lease

    @awaited
    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Coroutine[Any, Any, None]:
        return self._scopes.leave(self, sys._getframe(1), error)

    def __repr__(self) -> str:
        return f"<quorlock.aio.Attempt {shown(self._lock.name)}>"
