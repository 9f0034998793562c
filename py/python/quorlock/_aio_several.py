"""Several locks at once, for asyncio: all of them, or none."""

import sys
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Literal, Self, overload

from . import _native
from ._channel import completed
from ._lease import NotPickled, shown
from ._leases import LeasesBase
from ._options import UNSET, Limit, Seconds, given, text, wait_options
from ._scope import Scope, Scopes
from .aio import Lease, Lock

__all__ = ["Leases", "Locks"]


class Leases(LeasesBase[Lease]):
    """Holds on several locks that were acquired together: what `await Locks.acquire()` returns; as `quorlock.Leases`.

    `async with leases:` releases them at the end, and cancels the task at the first loss, which comes out of the scope as
    `LockLostError`.
    """

    __slots__ = ("_scope",)

    def __init__(self, core: _native.Leases, leases: tuple[Lease, ...]) -> None:
        super().__init__(core, leases)
        self._scope: Scope | None = None

    async def extend(self, ttl: Seconds | None = None) -> None:
        """Lengthens all of them at the same time, as `Lease.extend`. Raises what the first raises that could not be."""
        await completed(self._core.extend(ttl).start)

    async def ensure(self, min_remaining: Seconds) -> None:
        """Makes sure that each has at least this many seconds of validity left, as `Lease.ensure`."""
        await completed(self._core.ensure(min_remaining).start)

    async def release(self) -> bool:
        """Releases all of them at the same time. Returns whether each was still held; as `Lease.release`."""
        self._callbacks = None
        held: bool = await completed(self._core.release().start)
        return held

    async def __aenter__(self) -> Self:
        self._scope = Scope(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        scope, self._scope = self._scope, None
        if scope is not None:
            await scope.leave(error)


class Locks(NotPickled):
    """Several names with the same options; made by `Client.lock_all`. As `quorlock.Locks`, for tasks.

    `async with locks as leases:` holds them all for a scope, as `Lock` does.
    """

    __slots__ = ("_locks", "_scopes")

    def __init__(self, locks: list[Lock]) -> None:
        # Each once: an owner enters a lock that it has just won no second time.
        self._locks = tuple({lock._place: lock for lock in locks}.values())
        self._scopes = Scopes()
        _native.check_all([lock._core for lock in self._locks])

    @property
    def names(self) -> tuple[str, ...]:
        """The locks' names, each once."""
        return tuple(lock.name for lock in self._locks)

    @overload
    async def acquire(self, blocking: Literal[True] = True, timeout: Limit = UNSET, *, wait: Limit = UNSET) -> Leases: ...

    @overload
    async def acquire(
        self, blocking: bool, timeout: Limit = UNSET, *, wait: Limit = UNSET
    ) -> Leases | Literal[False]: ...

    async def acquire(
        self, blocking: bool = True, timeout: Limit = UNSET, *, wait: Limit = UNSET
    ) -> Leases | Literal[False]:
        """Acquires all of the locks, waiting as long as their `wait` says for all of them together; as `Lock.acquire`.

        Raises what `Lock.acquire` raises, for the first lock that could not be had; then none is held. Keep what it
        returns: leases that nobody keeps are released.
        """
        options = wait_options(blocking, timeout, wait)
        if not blocking:
            return await self.try_acquire() or False
        return await self._acquired(options)

    async def try_acquire(self) -> Leases | None:
        """Tries once. `None` where another holds one of them. Raises as `acquire` otherwise."""
        return await self._tried(0)

    def attempt(self, wait: Limit = 0) -> "AttemptAll":
        """A scope for work that is left out where others hold one of the locks, as `Lock.attempt`."""
        return AttemptAll(self, wait)

    def _owners(self) -> list[_native.Owner]:
        return [lock._owner() for lock in self._locks]

    async def _acquired(self, options: dict[str, object]) -> Leases:
        owners = self._owners()
        cores = [lock._core for lock in self._locks]
        return self._won(await completed(_native.acquire_all(cores, owners, options).start), owners)

    async def _tried(self, wait: Limit) -> Leases | None:
        """As `_acquired`; `None` where others hold one of them all the time."""
        owners = self._owners()
        cores = [lock._core for lock in self._locks]
        core: _native.Leases | None = await completed(_native.try_all(cores, owners, given(wait=wait)).start)
        return None if core is None else self._won(core, owners)

    def _won(self, core: _native.Leases, owners: list[_native.Owner]) -> Leases:
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
            leases.append(lock._won(part, owner))
        return Leases(core, tuple(leases))

    # Plain functions, which are called by the very frame that does the `async with`.
    def __aenter__(self) -> Coroutine[Any, Any, Leases]:
        return self._enter(id(sys._getframe(1)))

    async def _enter(self, frame: int) -> Leases:
        return self._scopes.enter(frame, await self._acquired({}))

    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Coroutine[Any, Any, None]:
        return self._scopes.leave(id(sys._getframe(1)), error)

    def __repr__(self) -> str:
        return f"<quorlock.aio.Locks {', '.join(shown(name) for name in self.names)}>"


class AttemptAll(NotPickled):
    """What `Locks.attempt` gives."""

    __slots__ = ("_of", "_scopes", "_wait")

    def __init__(self, of: Locks, wait: Limit) -> None:
        self._of = of
        self._wait = wait
        self._scopes = Scopes()

    def __aenter__(self) -> Coroutine[Any, Any, Leases | None]:
        return self._enter(id(sys._getframe(1)))

    async def _enter(self, frame: int) -> Leases | None:
        return self._scopes.enter(frame, await self._of._tried(self._wait))

    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Coroutine[Any, Any, None]:
        return self._scopes.leave(id(sys._getframe(1)), error)
