"""Several locks at once, for asyncio: all of them, or none."""

import sys
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Literal, Self, overload

from . import _native
from ._channel import completed, in_this_loop, port_here
from ._lease import NotPickled, awaited, shown
from ._leases import LeasesBase
from ._options import UNSET, Limit, Seconds, Unset, call_options, given, text, tries_once
from ._client import LocksBase
from ._doubt import left_in_doubt
from ._owner import WaitFields, WarnedWait, add_holder, check_await
from ._scope import Scope, Scopes, of_caller
from ._unseen import guarded, guarded_coroutine, shown_unmade
from .errors import LockBusyError
from ._aio_lock import Lease, Lock

__all__ = ["Leases", "Locks"]


class Leases(LeasesBase[Lease]):
    """Holds on several locks that were acquired together: what `await Locks.acquire()` returns; as `quorlock.Leases`.

    `async with leases:` releases them at the end, and cancels the task at the first loss, which comes out of the scope as
    `LockLostError`.
    """

    __slots__ = ("_scopes",)

    def __init__(self, core: _native.Leases, leases: tuple[Lease, ...]) -> None:
        super().__init__(core, leases)
        # Those that are open; the newest is the last.
        self._scopes: tuple[Scope, ...] = ()

    @guarded
    def on_lost(self, callback: Callable[[str, str], object]) -> None:
        """Calls `callback(name, reason)` once when the first of them is lost, soon if one is. As `quorlock.aio.Lease.on_lost`."""
        self._core.on_lost(in_this_loop(self._told(callback)))

    @guarded_coroutine
    async def extend(self, ttl: Seconds | None = None) -> None:
        await completed(self._core.extend(ttl).start)

    @guarded_coroutine
    async def ensure(self, min_remaining: Seconds) -> None:
        await completed(self._core.ensure(min_remaining).start)

    @guarded_coroutine
    async def release(self, *, confirm: bool | None = None) -> bool:
        waits = self._core.waits(confirm)
        self._callbacks = []
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


@shown_unmade
class Locks(LocksBase[Lock]):
    """Several names with the same options; made by `Client.lock_all`. As `quorlock.Locks`, for tasks.

    `async with locks as leases:` holds them all for a scope, as `Lock` does.
    """

    __slots__ = ("_locks", "_scopes")

    _of = Lock

    @guarded
    def __init__(self, locks: list[Lock]) -> None:
        super().__init__(locks)
        self._scopes = Scopes()

    @overload
    async def acquire(
        self, blocking: Literal[True] = True, timeout: Limit = UNSET, *, wait: Limit = UNSET, label: str | Unset = UNSET
    ) -> Leases: ...

    @overload
    async def acquire(
        self, blocking: bool, timeout: Limit = UNSET, *, wait: Limit = UNSET, label: str | Unset = UNSET
    ) -> Leases | Literal[False]: ...

    @guarded_coroutine
    async def acquire(
        self, blocking: bool = True, timeout: Limit = UNSET, *, wait: Limit = UNSET, label: str | Unset = UNSET
    ) -> Leases | Literal[False]:
        options = call_options(blocking, timeout, wait, label)
        if not blocking:
            return await self.try_acquire(label=label) or False
        return await self._acquired(options, by_hand=True)

    @guarded_coroutine
    async def try_acquire(self, *, label: str | Unset = UNSET) -> Leases | None:
        return await self._tried(0, by_hand=True, label=label)

    @guarded
    def attempt(self, wait: Limit = 0, *, label: str | Unset = UNSET) -> "AttemptAll":
        """A scope for work that is left out where others hold one of the locks, as `Lock.attempt`."""
        return AttemptAll(self, wait, label)

    def _owners(self, by_hand: bool, waits: bool) -> tuple[list[_native.Owner], WaitFields | None]:
        """The owner that is to have them, and what there is to be warned of."""
        owners, warning = [lock._owner(by_hand) for lock in self._locks], None
        if waits:
            for lock, owner in zip(self._locks, owners, strict=True):
                warning = check_await(lock._core, lock._place, owner, by_hand, lock.name) or warning
        return owners, warning

    async def _acquired(self, options: dict[str, object], by_hand: bool) -> Leases:
        wait = options.get("wait", self._locks[0]._wait)
        owners, warning = self._owners(by_hand, not tries_once(wait))
        cores = [lock._core for lock in self._locks]
        try:
            with WarnedWait(warning, wait is None):
                core: _native.Leases = await completed(_native.acquire_all(cores, owners, options).start)
        except LockBusyError as error:
            for lock in self._locks:
                if warning is None and not lock._named and lock.name == error.name:
                    add_holder(error, lock._place)
            raise
        return self._register(core, owners, by_hand)

    async def _tried(self, wait: Limit, by_hand: bool, label: str | Unset = UNSET) -> Leases | None:
        """As `_acquired`; `None` where others hold one of them all the time."""
        owners, warning = self._owners(by_hand, not tries_once(wait))
        cores = [lock._core for lock in self._locks]
        with WarnedWait(warning, wait is None):
            core: _native.Leases | None = await completed(_native.try_all(cores, owners, given(wait=wait, label=label)).start)
        return None if core is None else self._register(core, owners, by_hand)

    def _register(self, core: _native.Leases, owners: list[_native.Owner], by_hand: bool) -> Leases:
        # Where its task goes on: since the result came the loop may have been busy for longer than the ttl.
        if not core.is_held():
            error = core.lost_error()
            core.discard()
            if error is not None:
                raise error
        named = {lock.name: (lock, owner) for lock, owner in zip(self._locks, owners, strict=True)}
        leases: list[Lease] = []
        for part in core.parts():
            lock, owner = named[text(part.name)]
            leases.append(lock._register(part, owner, by_hand))
        return Leases(core, tuple(leases))

    # Plain functions, which are called by the very frame that does the `async with`.
    @awaited
    def __aenter__(self) -> Coroutine[Any, Any, Leases]:
        return self._enter(self._scopes.place(sys._getframe(1)))

    async def _enter(self, place: _native.Place) -> Leases:
        return self._scopes.enter(place, await self._entered(self._scopes.in_doubt()))

    @guarded_coroutine
    async def _entered(self, at_once: bool) -> Leases:
        if not at_once:
            return await self._acquired({}, by_hand=False)
        leases = await self._tried(0, by_hand=False)
        if leases is None:
            raise left_in_doubt(", ".join(self.names))
        return leases

    @awaited
    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Coroutine[Any, Any, None]:
        return self._scopes.leave(self, sys._getframe(1), error)

    def __repr__(self) -> str:
        return f"<quorlock.aio.Locks {', '.join(shown(name) for name in self.names)}>"


@shown_unmade
class AttemptAll(NotPickled):
    """What `Locks.attempt` gives."""

    __slots__ = ("_label", "_of", "_scopes", "_wait")

    def __init__(self, of: Locks, wait: Limit, label: str | Unset) -> None:
        self._of = of
        self._wait = wait
        self._label = label
        self._scopes = Scopes()

    @awaited
    def __aenter__(self) -> Coroutine[Any, Any, Leases | None]:
        return self._enter(self._scopes.place(sys._getframe(1)))

    async def _enter(self, place: _native.Place) -> Leases | None:
        return self._scopes.enter(place, await self._entered(self._scopes.in_doubt()))

    @guarded_coroutine
    async def _entered(self, at_once: bool) -> Leases | None:
        leases = await self._of._tried(0 if at_once else self._wait, by_hand=False, label=self._label)
        if leases is None and at_once and not tries_once(self._wait):
            raise left_in_doubt(", ".join(self._of.names))
        return leases

    def __repr__(self) -> str:
        return f"<quorlock.aio.AttemptAll {', '.join(shown(name) for name in self._of.names)}>"

    @awaited
    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Coroutine[Any, Any, None]:
        return self._scopes.leave(self, sys._getframe(1), error)
