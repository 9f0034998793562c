"""`async with` over a lease: the task is cancelled when the lease is lost."""

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from ._channel import Awaited
from .errors import NotOwnerError, QuorlockError

if TYPE_CHECKING:
    from ._aio_several import Leases
    from .aio import Lease

_L = TypeVar("_L", bound="Lease | Leases | None")


class Scope:
    """One entry into a scope, from `__aenter__` to `__aexit__`. Works as `asyncio.timeout` does."""

    def __init__(self, lease: "Lease | Leases") -> None:
        self.lease = lease
        self._task = asyncio.current_task()
        self._cancelled = False
        self._cancelling = 0
        if self._task is not None:
            self._cancelling = self._task.cancelling()
        self._loss = Awaited(lease._core.watch_lost)
        self._loss.future.add_done_callback(self._on_lost)

    def is_of(self, task: "asyncio.Task[object] | None") -> bool:
        """Whether this task has entered it."""
        return self._task is task

    def is_lost(self) -> bool:
        """Whether its lease is lost."""
        return self.lease._core.reason is not None

    def _on_lost(self, loss: "asyncio.Future[Any]") -> None:
        if self._task is not None and not loss.cancelled():
            self._cancelled = True
            self._task.cancel(f"the lock is held no longer ({self.lease.lost.reason})")

    def _ours(self, error: BaseException | None) -> bool:
        """Whether the body ended by our cancellation alone. Nobody may hear of it afterwards."""
        self._loss.future.remove_done_callback(self._on_lost)
        self._loss.give_up()
        if self._task is None or not self._cancelled or self._task is not asyncio.current_task():
            return False
        return self._task.uncancel() <= self._cancelling and isinstance(error, asyncio.CancelledError)

    async def leave(self, error: BaseException | None) -> None:
        """Releases the lease. Raises `LockLostError` after a loss, unless the body failed by itself."""
        ours = self._ours(error)
        try:
            await self.lease.release()
        except QuorlockError as failed:
            if error is None:
                raise
            error.add_note(f"and the lock could not be released: {failed}")
            return
        if error is None or ours:
            try:
                self.lease._raise_if_lost()
            except QuorlockError as lost:
                raise lost from error


class Skipped:
    """An entry into a scope without a lease: there is nothing to watch, and nothing to release."""

    def __init__(self) -> None:
        self._task = asyncio.current_task()

    def is_of(self, task: "asyncio.Task[object] | None") -> bool:
        """As of `Scope`."""
        return self._task is task

    def is_lost(self) -> bool:
        """What was not had is not lost."""
        return False

    async def leave(self, error: BaseException | None) -> None:
        """There is nothing to do."""


class Scopes:
    """The scopes that are open of one object, newest last."""

    def __init__(self) -> None:
        self._open: list[tuple[int, Scope | Skipped]] = []

    def enter(self, frame: int, lease: _L) -> _L:
        """Enters a scope, with a lease or without; returns that. `frame` is the one that does the `async with`."""
        self._open.append((frame, Skipped() if lease is None else Scope(lease)))
        return lease

    def _left(self, frame: int) -> Scope | Skipped | None:
        """Takes the scope that is left here: the newest that this frame has entered, whatever task it goes on in.

        What opens scopes for others, as an `AsyncExitStack`, leaves them in another frame: then the newest of this task, else
        of any. Of several then one that is lost, so that none is ended that somebody else may be inside of.
        """
        task = asyncio.current_task()

        def fits(at: int) -> tuple[bool, bool, bool, int]:
            entered, scope = self._open[at]
            return (entered == frame, scope.is_of(task), scope.is_lost(), at)

        return self._open.pop(max(range(len(self._open)), key=fits))[1] if self._open else None

    async def leave(self, frame: int, error: BaseException | None) -> None:
        """Leaves a scope."""
        scope = self._left(frame)
        if scope is not None:
            await scope.leave(error)
        elif error is None:
            raise NotOwnerError("no scope of this lock is open: it was not entered, or has been left before")
