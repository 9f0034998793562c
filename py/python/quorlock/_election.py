"""Leader election, for blocking code: one of several processes does the work, and another takes over when it cannot."""

import inspect
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, TypeVar

from . import _native
from ._client import Unmade
from ._candidate import Leadership, Loss, check_run, told, work_failed, work_failed_late
from ._green import waited
from ._inspection import Holder
from ._lease import NotPickled, shown
from ._options import UNSET, Seconds, Unset
from ._unseen import guarded, shown_unmade
from .errors import QuorlockError
from ._lock import Lease, Lock, Scoped

__all__ = ["Election", "Observer"]

_T = TypeVar("_T")


@shown_unmade
class Election(NotPickled):
    """One candidate of an election; made by `Client.election`.

        election = client.election("scheduler")
        election.run(schedule_jobs)

    The candidate that holds the lock of that name leads. Each campaign is a caller of its own: a candidate that leads already and campaigns once
    more, also in the same thread, waits for its own term to end. The fence of a term grows from term to term.
    """

    __slots__ = ("__weakref__", "_core", "_lock", "_term")

    def __init__(self, core: _native.Lock | Unmade, name: str) -> None:
        self._lock = Lock(core, name, named=False, reentrant=False)
        self._term: Lease | None = None

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

    @guarded
    def campaign(self, *, label: str | Unset = UNSET) -> Lease:
        """Waits until this candidate leads, and returns its term: for those who loop by themselves.

        The term is a lease as `Lock.acquire` returns it: release it to resign, and stop once it is lost. `label` takes the
        place of the election's, for this term. Raises as `Lock.acquire`; `LockTimeoutError` only where the election was given a
        `wait`. Ctrl-C ends the wait.
        """
        term = self._lock.acquire(label=label)
        self._term = term
        return term

    @guarded
    def run(
        self,
        fn: Callable[[Lease], _T],
        *,
        again: bool = False,
        on_lost: Callable[[str], object] | None = None,
        on_stopped: Callable[[], object] | None = None,
    ) -> _T:
        """Campaigns, and calls `fn(term)` when it leads; again and again, until `fn` has returned while it led.

        `fn` runs in the calling thread, where nothing can stop it when the term is lost: before each step that only a
        leader may do it has to ask `term.is_held()`, and to give `term.fence` to what it writes to. The next campaign begins
        when it has returned.

        - `on_lost(reason)` is called once at the loss of a term, on a thread that is there for such calls, as of
          `Lease.on_lost`: so that it can tell `fn` to stop now.
        - `on_stopped()` is called when `fn` has returned or raised, whatever ended it: from here on this candidate does
          nothing of the term any more. What either of them raises is logged.

        If the term is held when `fn` returns, this resigns and returns what `fn` did; with `again` it campaigns again, 0.1 s
        after it called `fn` at the earliest. If the term was lost, or given up by `resign`, it campaigns again in any case. If
        `fn` raises an `Exception`, this resigns, logs it to the logger `quorlock`, pauses and campaigns again: at first for 0.5
        to 1 s, so that another candidate may do better, and for twice as long each time up to 30 s; a term of more than 30 s
        makes the next pause short again. Any other exception, such as `KeyboardInterrupt`, is raised when it has resigned.

        The `wait` of the election does not count here. Raises what ends it for good: `MisconfiguredError`,
        `InvalidArgumentError`, `TooManyWaitersError`, `ClientClosedError`, `ForkedProcessError`.
        """
        check_run(fn, again, on_lost, on_stopped)
        if inspect.iscoroutinefunction(fn):
            raise TypeError(f"run was given a coroutine function: use the election of a quorlock.aio.Client")
        failures = _native.Failures()
        terms = _Terms(self._lock)
        while True:
            failed: Exception | None = None
            with terms as term:
                self._term = term
                loss = Loss(on_lost)
                if on_lost is not None:
                    term.on_lost(loss)
                begun = time.monotonic()
                try:
                    done = fn(term)
                except Exception as error:
                    failed = error
                else:
                    if not again and term.is_held():
                        return done
                finally:
                    led, held = time.monotonic() - begun, term.is_held()
                    loss(term.lost.reason)
                    told(on_stopped)
            if failed is None:
                if held:
                    waited(self._core.pause(failures.none_after(led)))
            elif held:
                pause = failures.pause_after(led)
                work_failed(self.name, failed, pause)
                # Not kept for as long as that: its traceback keeps what the work had.
                failed = None
                waited(self._core.pause(pause))
            else:
                work_failed_late(self.name, failed)

    def is_leader(self) -> bool:
        """Whether this candidate leads now. Exact at every call, as `Lease.is_held`."""
        term = self._term
        return term is not None and term.is_held()

    def resign(self) -> bool:
        """Gives up the term that this candidate has, so that the next one is called; it may campaign again.

        Returns whether it still led; false where it has no term. The term ends at once, also where `run` has it, in another
        thread: there `fn` has to ask `term.is_held()`, for `on_lost` is not called. Raises as `Lease.release`.
        """
        term = self._term
        return term is not None and term.release()

    def leader(self) -> Holder | None:
        """Who leads, as a quorum of the nodes has it; `None` where it agrees on no leader. One request to each node.

        It tells how it was: it may have lost the term since. Raises `QuorumUnavailableError` if too few nodes answered to know.
        """
        return Holder._of(waited(self._core.leader()))

    @guarded
    def observe(self, every: Seconds = 1.0) -> "Observer":
        """Follows who leads: an iterator that gives at once how it is, and then each change, whenever that comes.

        It looks each `every` seconds. A term that was shorter than the time between two looks may be left out.

            for now in election.observe():
                print(now.leader.label if now.leader else "nobody" if now.known else "unknown")
        """
        return Observer(self._core.observe(every), self.name)

    def __repr__(self) -> str:
        return f"<quorlock.Election {shown(self.name)}{', leads' if self.is_leader() else ''}>"


class _Terms(Scoped):
    """Each entry is a term that was waited for, however long, and leaving it resigns."""

    __slots__ = ("_lock",)

    def __init__(self, lock: Lock) -> None:
        self._lock = lock

    def _enter(self, at_once: bool = False) -> Lease:
        return self._lock._acquired({"wait": None}, by_hand=False)

    def _leave(self, lease: object, error: BaseException | None) -> None:
        # A loss is no error here.
        if not isinstance(lease, Lease):
            return
        try:
            lease.release()
        except QuorlockError as failed:
            if error is None:
                raise
            error.add_note(f"and the term could not be given up: {failed}")

    if TYPE_CHECKING:

        def __enter__(self) -> Lease: ...


@shown_unmade
class Observer(NotPickled):
    """An iterator over who leads; made by `Election.observe`.

    Each step waits for the next change. Where too few nodes answer it gives a `Leadership` that is not `known`, and never
    names who led before. It raises `InvalidArgumentError` for an `every` of 0, and `ClientClosedError` once the client is
    closed. Ctrl-C ends the wait, and the next step goes on as if it had not been begun.
    """

    __slots__ = ("_core", "_name")

    def __init__(self, core: _native.Observer, name: str) -> None:
        self._core = core
        self._name = name

    def __repr__(self) -> str:
        return f"<quorlock.Observer {shown(self._name)}>"

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Leadership:
        seen: _native.Change = waited(self._core.next())
        return Leadership._of(seen.taken())
