"""Leader election, for asyncio: one of several processes does the work, and another takes over when it cannot."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, Self, TypeVar

from . import _native
from ._client import Unmade
from ._candidate import Leadership, Loss, check_run, told, work_failed, work_failed_late
from ._channel import Awaited, completed
from ._inspection import Holder
from ._lease import NotPickled, shown
from ._options import UNSET, Seconds, Unset, kind
from ._unseen import guarded, guarded_coroutine, shown_unmade
from ._aio_lock import Lease, Lock

__all__ = ["Election", "Observer"]

_T = TypeVar("_T")


@shown_unmade
class Election(NotPickled):
    """One candidate of an election; made by `Client.election`. As `quorlock.Election`, for tasks.

        election = client.election("scheduler")
        await election.run(schedule_jobs)

    The candidate that holds the lock of that name leads. Each campaign is a caller of its own: a candidate that leads already and campaigns once
    more, also in the same task, waits for its own term to end. The fence of a term grows from term to term.
    """

    __slots__ = ("__weakref__", "_core", "_lock", "_seat")

    def __init__(self, core: _native.Lock | Unmade, name: str) -> None:
        self._lock = Lock(core, name, named=False, reentrant=False)
        self._seat: Lease | _Work[Any] | None = None

    def __getattr__(self, name: str) -> Any:
        # Made when it is first used, as its client is.
        if name != "_core":
            raise AttributeError(name)
        self._core = _native.Election(self._lock._core)
        return self._core

    @property
    def name(self) -> str:
        """The election's name. Bytes that are not UTF-8 appear as surrogate escapes."""
        return self._lock.name

    @guarded_coroutine
    async def campaign(self, *, label: str | Unset = UNSET) -> Lease:
        """Waits until this candidate leads, and returns its term: for those who loop by themselves.

        The term is a lease as `Lock.acquire` returns it: release it to resign, and stop once it is lost. `label` takes the
        place of the election's, for this term. Raises as `Lock.acquire`; `LockTimeoutError` only where the election was given a
        `wait`. Cancelled, it leaves the line.
        """
        term = await self._lock.acquire(label=label)
        self._seat = term
        return term

    @guarded_coroutine
    async def run(
        self,
        fn: Callable[[Lease], Awaitable[_T]],
        *,
        again: bool = False,
        on_lost: Callable[[str], object] | None = None,
        on_stopped: Callable[[], object] | None = None,
    ) -> _T:
        """Campaigns, and awaits `fn(term)` while it leads; again and again, until that has returned.

        `fn` runs in a task of its own, and only while its term is held: before each step of it, from one `await` to the next,
        the clock is asked. Where the term is over `asyncio.CancelledError` is raised in place of that step, once: what `fn`
        does then to clean up goes on. So a process that was stopped for a while and goes on does not go on with the work of a
        leader. Tasks that `fn` has started and what it has handed to threads have to look at the term, or to give its fence to
        what they write to.

        - At the loss of its term `fn` is cancelled. When it has ended, however long that takes, this campaigns again.
        - `on_lost(reason)` is called at the loss, before `fn` is cancelled: stop now, for another candidate may lead.
        - `on_stopped()` is called when `fn` has ended, whatever ended it: from here on this candidate does nothing of the term
          any more. Both are called by the event loop, and what they raise is logged.

        When `fn` returns, this resigns and returns what `fn` did; with `again` it campaigns again, 0.1 s after it called `fn`
        at the earliest. If `fn` raises an `Exception`, this resigns, logs it to the logger `quorlock`, pauses and campaigns
        again: at first for 0.5 to 1 s, so that another candidate may do better, and for twice as long each time up to 30 s; a
        term of more than 30 s makes the next pause short again. Any other exception, such as `KeyboardInterrupt`, is raised
        when it has resigned.

        Cancelled, this cancels `fn`, waits until it has ended, and resigns.

        The `wait` of the election does not count here. Raises what ends it for good: `MisconfiguredError`,
        `InvalidArgumentError`, `TooManyWaitersError`, `ClientClosedError`, `ForkedProcessError`.
        """
        check_run(fn, again, on_lost, on_stopped)
        failures = _native.Failures()
        while True:
            work: _Work[_T] = _Work(await self._lock._acquired({"wait": None}, by_hand=False), on_lost)
            self._seat = work
            begun = time.monotonic()
            cancelled = await work.done(fn, f"quorlock election {shown(self.name)}")
            led = time.monotonic() - begun
            lost = work.tell_loss()
            told(on_stopped)
            held = False
            try:
                held = await work.term.release()
            finally:
                work.resigned.set_result(held)
                if self._seat is work:
                    self._seat = None
            if cancelled is not None:
                if work.failure is not None:
                    work_failed_late(self.name, work.failure)
                raise cancelled
            if work.failure is not None and (lost or work.is_over()):
                # It could do no better.
                work_failed_late(self.name, work.failure)
            elif work.is_over():
                pass
            elif work.failure is not None and not work.is_misused:
                pause = failures.pause_after(led)
                work_failed(self.name, work.failure, pause)
                # Not kept for as long as that: its traceback keeps what the work had.
                del work
                await completed(self._core.pause(pause).start)
            elif not again or work.failed():
                return work.result()
            else:
                await completed(self._core.pause(failures.none_after(led)).start)

    def is_leader(self) -> bool:
        """Whether this candidate leads now. Exact at every call, as `Lease.is_held`."""
        seat = self._seat
        term = seat.term if isinstance(seat, _Work) else seat
        return term is not None and term.is_held()

    async def resign(self) -> bool:
        """Gives up the term that this candidate has, so that the next one is called; it may campaign again.

        Where `run` has that term, `fn` is cancelled, and the term is released when `fn` has ended; then it campaigns again
        behind the others. Returns whether it still led; false where it has no term. Raises as `Lease.release`. Cancelled,
        this only stops to wait for it. To be called in the event loop that `run` is in.
        """
        seat = self._seat
        if isinstance(seat, _Work):
            seat.check_loop()
        self._seat = None
        if seat is None:
            return False
        if isinstance(seat, Lease):
            return await seat.release()
        seat.stop()
        return await asyncio.shield(seat.resigned)

    async def leader(self) -> Holder | None:
        """Who leads, as a quorum of the nodes has it; `None` where it agrees on no leader. One request to each node.

        It tells how it was: it may have lost the term since. Raises `QuorumUnavailableError` if too few nodes answered to know.
        """
        return Holder._of(await completed(self._core.leader().start))

    @guarded
    def observe(self, every: Seconds = 1.0) -> "Observer":
        """Follows who leads: an iterator that gives at once how it is, and then each change, whenever that comes.

        It looks each `every` seconds. A term that was shorter than the time between two looks may be left out.

            async for now in election.observe():
                print(now.leader.label if now.leader else "nobody" if now.known else "unknown")
        """
        return Observer(self._core.observe(every), self.name)

    def __repr__(self) -> str:
        return f"<quorlock.aio.Election {shown(self.name)}{', leads' if self.is_leader() else ''}>"


class _Work(Generic[_T]):
    """The work of one term: a task each step of which is done only while the term is held."""

    def __init__(self, term: Lease, on_lost: Callable[[str], object] | None) -> None:
        self.term = term
        self.is_misused = False
        self._loop = asyncio.get_running_loop()
        # Whether the term was still held when it was given up.
        self.resigned: asyncio.Future[bool] = self._loop.create_future()
        self._tell = Loss(on_lost)
        self._task: asyncio.Task[_T] | None = None
        # Whether it is asked to end, and whether it has been cancelled for that.
        self._asked = self._stopped = False

    async def done(self, fn: Callable[[Lease], Awaitable[_T]], name: str) -> asyncio.CancelledError | None:
        """Does it, and waits until it has ended. Returns the cancellation of the waiting task, which is passed on to it."""
        loss = Awaited(self.term._core.watch_lost)
        loss.future.add_done_callback(self._on_lost)
        self._task = asyncio.create_task(self._steps(fn), name=name)
        cancelled: asyncio.CancelledError | None = None
        while not self._task.done():
            try:
                await asyncio.wait([self._task])
            except asyncio.CancelledError as error:
                cancelled = error
                if not self.stop():
                    self._task.cancel()
        loss.future.remove_done_callback(self._on_lost)
        loss.give_up()
        return cancelled

    async def _steps(self, fn: Callable[[Lease], Awaitable[_T]]) -> _T:
        return await _Steps(self, fn)

    def _on_lost(self, loss: "asyncio.Future[Any]") -> None:
        if not loss.cancelled():
            self.tell_loss()
            self.stop()

    def tell_loss(self) -> bool:
        """Calls `on_lost` for a loss of the term, once. Returns whether it is lost."""
        reason = self.term.lost.reason
        self._tell(reason)
        return reason is not None

    def stop(self) -> bool:
        """Cancels it, unless it was cancelled before or has ended. Returns whether it did."""
        if self.is_over() or (self._task is not None and self._task.done()):
            return False
        self._asked = True
        # None: it is in its first step, and is stopped before the next.
        if self._task is not None:
            self._task.cancel(self._why())
        return True

    def is_over(self) -> bool:
        """Whether it was asked to end before it did."""
        return self._asked or self._stopped

    def check_step(self, error: BaseException | None) -> BaseException | None:
        """What is raised in place of its next step, given what would be."""
        if self._stopped or not (self._asked or not self.term.is_held()):
            return error
        if error is not None and not isinstance(error, Exception | asyncio.CancelledError):
            # It is closed, or the process is to end.
            return error
        self._stopped = True
        self.tell_loss()
        return error if isinstance(error, asyncio.CancelledError) else asyncio.CancelledError(self._why())

    def _why(self) -> str:
        return f"the term is over ({self.term.lost.reason or 'resigned'})"

    def check_loop(self) -> None:
        """Refuses another event loop than its own."""
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError("the term is one of run() in another event loop: resign there")

    def failed(self) -> bool:
        """Whether it ended otherwise than by returning."""
        assert self._task is not None
        return self._task.cancelled() or self._task.exception() is not None

    @property
    def failure(self) -> Exception | None:
        """What it has raised that is no reason to end `run`."""
        assert self._task is not None
        error = None if self._task.cancelled() else self._task.exception()
        return error if isinstance(error, Exception) else None

    def result(self) -> _T:
        """What it has returned. Raises what it has raised."""
        assert self._task is not None
        return self._task.result()


class _Steps(Generator[Any, Any, _T]):
    """What is awaited in place of `fn(term)`: does the same, and asks before each step."""

    def __init__(self, work: _Work[_T], fn: Callable[[Lease], Awaitable[_T]]) -> None:
        self._work = work
        self._fn = fn
        self._inner: Generator[Any, Any, _T] | None = None

    def __await__(self) -> Generator[Any, Any, _T]:
        return self

    def send(self, value: Any) -> Any:
        """The next step."""
        instead = self._work.check_step(None)
        if instead is not None:
            return self._thrown(instead)
        if self._inner is None:
            made = self._fn(self._work.term)
            if not isinstance(made, Awaitable):  # pyright: ignore[reportUnnecessaryIsInstance]
                self._work.is_misused = True
                raise TypeError(f"run was given {kind(self._fn)}, which returns nothing to await: give a coroutine function")
            self._inner = made.__await__()
        return next(self._inner) if value is None else self._inner.send(value)

    def throw(self, kind: Any, value: Any = None, traceback: Any = None) -> Any:
        """The next step, where what was awaited has failed, or the task was cancelled."""
        error = kind if isinstance(kind, BaseException) else value if isinstance(value, BaseException) else kind()
        return self._thrown(self._work.check_step(error) or error)

    def _thrown(self, error: BaseException) -> Any:
        if self._inner is None:
            raise error
        return self._inner.throw(error)


@shown_unmade
class Observer(NotPickled):
    """An asynchronous iterator over who leads; made by `Election.observe`.

    Each step waits for the next change. Where too few nodes answer it gives a `Leadership` that is not `known`, and never
    names who led before. It raises `InvalidArgumentError` for an `every` of 0, and `ClientClosedError` once the client is
    closed. A step that is cancelled loses no change, and the next goes on as if it had not been begun.
    """

    __slots__ = ("_core", "_name")

    def __init__(self, core: _native.Observer, name: str) -> None:
        self._core = core
        self._name = name

    def __repr__(self) -> str:
        return f"<quorlock.aio.Observer {shown(self._name)}>"

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Leadership:
        seen: _native.Change = await completed(self._core.next().start)
        return Leadership._of(seen.taken())
