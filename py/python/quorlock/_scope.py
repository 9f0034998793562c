"""`async with` over a lease: the task is cancelled when the lease is lost."""

import asyncio
import weakref
from typing import TYPE_CHECKING, Any

from ._channel import Awaited
from .errors import NotOwnerError, QuorlockError

if TYPE_CHECKING:
    from .aio import Lease


class Scope:
    """One entry into a scope, from `__aenter__` to `__aexit__`. Works as `asyncio.timeout` does."""

    def __init__(self, lease: "Lease") -> None:
        self.lease = lease
        self._task = asyncio.current_task()
        self._cancelled = False
        self._cancelling = 0
        if self._task is not None:
            self._cancelling = self._task.cancelling()
        self._loss = Awaited(lease._core.watch_lost)
        self._loss.future.add_done_callback(self._on_lost)

    def _on_lost(self, loss: "asyncio.Future[Any]") -> None:
        if self._task is not None and not loss.cancelled():
            self._cancelled = True
            self._task.cancel(f"the lock is held no longer ({self.lease.lost.reason})")

    def _ours(self, error: BaseException | None) -> bool:
        """Whether the body ended by our cancellation alone. Nobody may hear of it afterwards."""
        self._loss.future.remove_done_callback(self._on_lost)
        self._loss.give_up()
        if self._task is None or not self._cancelled:
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


class Scopes:
    """The scopes that tasks have entered through one object, newest last."""

    def __init__(self) -> None:
        self._entered: weakref.WeakKeyDictionary[asyncio.Task[object], list[Scope]] = weakref.WeakKeyDictionary()
        self._elsewhere: list[Scope] = []

    def _mine(self) -> list[Scope]:
        task = asyncio.current_task()
        return self._elsewhere if task is None else self._entered.setdefault(task, [])

    def enter(self, lease: "Lease") -> "Lease":
        """Enters a scope; returns its lease."""
        self._mine().append(Scope(lease))
        return lease

    async def leave(self, error: BaseException | None) -> None:
        """Leaves the newest scope of the current task."""
        mine = self._mine()
        if mine:
            await mine.pop().leave(error)
        elif error is None:
            raise NotOwnerError("this task has not entered the scope that it leaves: enter and leave it in one task")
