"""`async with` over a lease: the task is cancelled when the lease is lost."""

import asyncio
from collections.abc import Coroutine
from types import FrameType
from typing import Any, TypeAlias, TypeVar

from . import _native
from ._channel import Awaited
from ._doubt import in_doubt, not_open
from ._lease import LeaseBase
from ._leases import LeasesBase
from .errors import NotOwnerError, QuorlockError

Held: TypeAlias = LeaseBase | LeasesBase[Any]
"""What a scope holds: one lease, or several."""

_L = TypeVar("_L", bound=Held | None)


class Scope:
    """One entry into a scope, from `__aenter__` to `__aexit__`. Works as `asyncio.timeout` does."""

    def __init__(self, lease: Held) -> None:
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

    def nearness(self) -> int:
        """How likely it is that the calling task leaves it, beside others of the same lease."""
        if self._task is asyncio.current_task():
            return 2
        return 1 if self._task is None or self._task.done() else 0

    def _unwatched(self) -> None:
        self._loss.future.remove_done_callback(self._on_lost)
        self._loss.give_up()

    def abandoned(self) -> None:
        """It is left no more: what had entered it was dropped. Whatever else keeps the lease goes on with it."""
        loop = self._loss.future.get_loop()
        if not loop.is_closed():
            # This may be any thread.
            loop.call_soon_threadsafe(self._unwatched)

    def _ours(self, error: BaseException | None) -> bool:
        """Whether the body ended by our cancellation alone, which is taken back."""
        self._unwatched()
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
        if not ours:
            self.lease._raise_if_lost(error)
            return
        try:
            self.lease._raise_if_lost(None)
        except QuorlockError as lost:
            raise lost from error


def of_caller(scopes: tuple[Scope, ...]) -> Scope | None:
    """Which of the scopes of one lease is left here: the newest of the task's own, else of a task that has ended, else of any.

    Each of them releases the same lease. It matters for the cancellation by a loss, which each takes back for its own task.
    """
    return max(reversed(scopes), key=Scope.nearness, default=None)


class Skipped:
    """An entry into a scope without a lease: there is nothing to watch, and nothing to release."""

    async def leave(self, error: BaseException | None) -> None:
        """There is nothing to do."""


class _Left:
    """Scopes that are left, as long as their release has not begun."""

    __slots__ = ("scopes",)

    def __init__(self, scopes: "list[Scope | Skipped]") -> None:
        self.scopes = scopes

    def __del__(self) -> None:
        # The coroutine that was to release them was cancelled before, as that of a task which never began.
        for scope in self.scopes:
            if isinstance(scope, Scope):
                scope.abandoned()
                scope.lease._core.discard()


class Scopes:
    """The scopes of an object that are open. Which of them is left says the native one, at once where `__aexit__` is called."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open = _native.Scopes()

    def place(self, frame: FrameType) -> _native.Place:
        """Where a scope is being entered by this frame."""
        return self._open.place(frame)

    def in_doubt(self) -> bool:
        """Whether the task would wait for what it has left itself, which is not released because nothing tells which it was."""
        return self._open.awaits_itself()

    def enter(self, place: _native.Place, lease: _L) -> _L:
        """Enters a scope, with a lease or without; returns that."""
        self._open.enter(place, Skipped() if lease is None else Scope(lease))
        return lease

    def leave(self, of: object, frame: FrameType, error: BaseException | None) -> Coroutine[Any, Any, None]:
        """Leaves a scope from this frame."""
        scopes, doubt, more = self._open.leave(frame)
        if not doubt:
            return self._leave(_Left(scopes), more, error)
        if more:
            in_doubt(of)
        return self._leave_doubt(scopes, error)

    async def _leave(self, left: _Left, more: bool, error: BaseException | None) -> None:
        if not left.scopes and error is None:
            raise NotOwnerError(not_open(more))
        failed: BaseException | None = None
        for at in range(len(left.scopes)):
            try:
                await left.scopes.pop(0).leave(error)
            except QuorlockError as ended:
                # Where the first is the one that is left here, the others were left before, and have raised their losses there.
                failed = failed or (None if more and at else ended)
        try:
            if failed is not None:
                raise failed
        finally:
            # Its traceback knows this frame.
            del failed

    async def _leave_doubt(self, scopes: list[Scope], error: BaseException | None) -> None:
        for scope in scopes:
            scope.lease._raise_if_lost(error)
