"""What the leases of both APIs have in common."""

import sys
import weakref
from _thread import _local
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar, cast

from . import _native
from ._green import waited_for_loss
from ._logging import note
from ._options import Seconds, check_function, shown as shown, text, tries_once
from ._owner import Caller, Flow, Hold
from ._unseen import guarded, guarded_coroutine, shown_unmade

if TYPE_CHECKING:
    from types import CoroutineType

_P = ParamSpec("_P")
_T = TypeVar("_T")


def lost_in(lost: BaseException, error: BaseException | None) -> None:
    """Raises a loss, or gives it to the error that a body has failed with."""
    if error is None:
        raise lost
    if error.__cause__ is None and error is not lost:
        error.__cause__ = lost
    elif error is not lost:
        error.add_note(f"and the lock was lost: {lost}")


class NotPickled:
    """Refuses to be pickled and copied."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} cannot be pickled or copied: it belongs to connections of this process. "
            "Give another process the node list and the lock's name"
        )


def awaited(method: Callable[_P, Coroutine[Any, Any, _T]]) -> "Callable[_P, CoroutineType[Any, Any, _T]]":
    """Marks a plain method that gives something to be awaited, for what looks before it calls, as `unittest` does.

    It is plain because it has to know its caller.
    """
    if sys.version_info >= (3, 12):
        import inspect

        method = inspect.markcoroutinefunction(method)
    # Checkers of types know a context manager of asyncio by what an `async def` gives, which this does.
    return cast("Callable[_P, CoroutineType[Any, Any, _T]]", method)


@shown_unmade
class Lost:
    """The loss of a lease, to look at and to wait for.

    A lease that is released is not lost: then waiting has no end but its timeout. A program that keeps this object keeps the
    lease from being collected.
    """

    __slots__ = ("_core",)

    def __init__(self, core: "_native.Lease | _native.Leases") -> None:
        self._core = core

    def is_set(self) -> bool:
        """Whether the lease is lost."""
        return self._core.reason is not None

    @property
    def reason(self) -> str | None:
        """Why it was lost: `"expired"`, `"refused"`, `"max_hold"`, `"owner_gone"`, `"closed"` or `"forced"`; `None` if it is not."""
        return self._core.reason

    @guarded
    def wait(self, timeout: Seconds | None = None) -> Any:
        """Blocks until the lease is lost, at most `timeout` seconds; `None`: forever. Returns whether it is lost.

        Ctrl-C ends the wait. In a thread whose event loop runs it does not block: there `await lease.lost.wait(timeout)` waits, and
        returns the same. `await lease.lost` waits without an end.
        """
        if getattr(sys.modules.get("asyncio"), "_get_running_loop", _no_loop)() is not None:
            return _Wait(self, timeout)
        return self.is_set() or waited_for_loss(self._core, timeout)

    def __bool__(self) -> bool:
        """Whether the lease is lost."""
        return self.is_set()

    def __await__(self) -> Generator[object, None, str]:
        """Waits in asyncio until the lease is lost and returns the reason. May be cancelled at any time."""
        return self._awaited().__await__()

    async def _awaited(self) -> str:
        from ._channel import completed

        while (reason := self.reason) is None:
            await completed(self._core.watch_lost)
        return reason

    def __repr__(self) -> str:
        return f"<quorlock.Lost {self.reason or 'not lost'}>"


def _no_loop() -> None:
    """Where asyncio is not in use."""


class _Wait(Awaitable[bool]):
    """A wait for a loss that an event loop must not be blocked by."""

    def __init__(self, lost: Lost, timeout: Seconds | None) -> None:
        self._lost = lost
        self._timeout = timeout

    def __await__(self) -> Generator[Any, None, bool]:
        return self._awaited().__await__()

    @guarded_coroutine
    async def _awaited(self) -> bool:
        import asyncio

        try:
            async with asyncio.timeout(_native.seconds_of("timeout", self._timeout)):
                await self._lost
        except TimeoutError:
            pass
        return self._lost.is_set()

    def __bool__(self) -> bool:
        """For a caller that looks and does not wait."""
        if not self._lost.is_set() and not tries_once(self._timeout):
            raise RuntimeError("lost.wait() would block the event loop: use `await lease.lost.wait()`, or `await lease.lost`")
        return self._lost.is_set()


class Kept(dict["LeaseBase", None]):
    """Leases that were acquired by hand through one object, kept until they are released: the newest is the last."""

    __slots__ = ("__weakref__",)

    def keep(self, lease: "LeaseBase") -> None:
        """Keeps a lease. It knows of that weakly: a cycle would wait for the garbage collector."""
        lease._kept = weakref.ref(self)
        self[lease] = None
        if lease._hold is not None:
            _of_thread().has_acquired(lease)

    def discard(self, lease: "LeaseBase") -> None:
        """Keeps it no longer."""
        self.pop(lease, None)

    def newest(self, caller: Caller) -> "LeaseBase | None":
        """The newest that is held of those that the caller has acquired; where all are lost the newest of these."""
        lost = None
        for lease in reversed(tuple(self)):
            if lease._hold is None or not _is_of(lease._hold.flow, caller):
                continue
            if lease._core.is_held():
                return lease
            lost = lost or (None if lease._core.is_released() else lease)
        return lost

    def refused(self, caller: Caller) -> None:
        """The caller has acquired none, and may yet call to release it, as `finally` does."""
        _of_thread().refused(self, caller)

    def was_refused(self, caller: Caller) -> bool:
        """Whether that is so, once."""
        return _of_thread().was_refused(self, caller)

    # Not those of a dictionary: a key of tables that are weak.
    __hash__ = object.__hash__  # type: ignore[assignment]
    __eq__ = object.__eq__


class KeptByTask(Kept):
    """Those of a task, which are kept as long as it is."""

    __slots__ = ("_task",)

    def __init__(self, task: Any) -> None:
        super().__init__()
        self._task = weakref.ref(task)

    def __del__(self) -> None:
        task = self._task()
        if task is not None and not task.done():
            # Its lock was collected.
            return
        leases = [weakref.ref(lease) for lease in self]
        self.clear()
        for known in leases:
            lease = known()
            if lease is not None and lease._core.is_held():
                ended("task", lease)


def _is_of(flow: Flow, caller: Caller) -> bool:
    """Whether the caller has acquired it. Each cell of a notebook is a task of its own, and the next one goes on for it."""
    return flow.is_of(caller) or ("IPython" in sys.modules and flow.is_left_by_task(caller))


class _OfThread:
    """What a thread has acquired by hand, and what in vain. It ends with the thread."""

    def __init__(self) -> None:
        self._leases: list[weakref.ref[LeaseBase]] = []
        self._sweep_above = 64
        # Made for the first call that was in vain, which few threads have.
        self._refused: weakref.WeakKeyDictionary[Kept, list[Flow]] | None = None

    def has_acquired(self, lease: "LeaseBase") -> None:
        """The caller has acquired one, and keeps it."""
        if self._refused and (kept := _keeper(lease)) is not None:
            self.was_refused(kept, Caller())
        if len(self._leases) >= self._sweep_above:
            self._leases = [known for known in self._leases if (lives := known()) is not None and _keeper(lives) is not None]
            self._sweep_above = max(64, 2 * len(self._leases))
        self._leases.append(weakref.ref(lease))

    def refused(self, kept: Kept, caller: Caller) -> None:
        """The caller has acquired none."""
        if self._refused is None:
            self._refused = weakref.WeakKeyDictionary()
        flows = self._refused.setdefault(kept, [])
        flows[:] = [flow for flow in flows if not (flow.is_of(caller) or flow.is_left_by_task(caller))]
        flows.append(Flow(caller))

    def was_refused(self, kept: Kept, caller: Caller) -> bool:
        """Whether that is so, once."""
        flows: list[Flow] = [] if self._refused is None else self._refused.get(kept, [])
        for at, flow in enumerate(flows):
            if flow.is_of(caller):
                del flows[at]
                return True
        return False

    def __del__(self) -> None:
        for known in self._leases:
            lease = known()
            if lease is not None and _keeper(lease) is not None and lease._core.is_held():
                ended("thread", lease)


def _keeper(lease: "LeaseBase") -> Kept | None:
    """What keeps it, if anything does."""
    kept = lease._kept() if lease._kept is not None else None
    return kept if kept is not None and lease in kept else None


def ended(what: str, lease: "LeaseBase") -> None:
    """Warns that the thread or task that acquired it has ended and left it behind."""
    note(
        "warning",
        f"{what}_ended",
        f"the {what} that acquired the lock {{lock}} by hand has ended, and its lease is held: it is renewed until it is released, or "
        "its max_hold has passed. Hold the lock by `with`, or call lease.release()",
        lock=shown(lease.name),
    )


_threads = _local()


def _of_thread() -> _OfThread:
    try:
        known: _OfThread = _threads.known
    except AttributeError:
        known = _threads.known = _OfThread()
    return known


@shown_unmade
class LeaseBase(NotPickled):
    """A hold on a lock, without what waits."""

    __slots__ = ("__weakref__", "_callbacks", "_core", "_hold", "_kept", "_lost")

    def __init__(self, core: _native.Lease, hold: Hold | None) -> None:
        # What few leases need is made when it is needed: many live for microseconds.
        self._core = core
        self._hold = hold
        if hold is not None:
            hold.handles.add(id(self))
        self._lost: Lost | None = None
        # Made here: two threads that come at once with callbacks would make two lists, and one would be forgotten.
        self._callbacks: list[Callable[[str], object]] = []
        self._kept: weakref.ref[Kept] | None = None

    @property
    def name(self) -> str:
        """The lock's name. Bytes that are not UTF-8 appear as surrogate escapes."""
        return text(self._core.name)

    @property
    def token(self) -> str:
        """The token: 40 hex digits that name this hold. Keep it secret: a program that knows it can release the lock."""
        return self._core.token

    @property
    def fence(self) -> int | None:
        """The fencing token: an integer below 2^53 that grows with every hold of the same lock; `None` with `fencing=False`.

        Give it to the resource that the lock protects, which then refuses what comes with a smaller one than it has
        seen: so work that a holder began, and that outlives its lease, does no harm. Re-entry keeps the fence. It stays
        what it is after release and loss.
        """
        return self._core.fence

    @property
    def lost(self) -> Lost:
        """The loss of the lease."""
        if self._lost is None:
            self._lost = Lost(self._core)
        return self._lost

    def is_held(self) -> bool:
        """Whether the lease is valid now. Exact at every call; false after release and in a forked child."""
        return self._core.is_held()

    @property
    def slot(self) -> int | None:
        """Which slot of the semaphore is held, counted from 0; `None` of a lock. No two leases that are held at one time have the
        same. The fence grows with every hold of one slot; between slots it says nothing."""
        return self._core.slot

    def is_shared(self) -> bool:
        """Whether others may share the lock with this lease: it was asked for with `shared=True`, or has been downgraded."""
        return self._core.is_shared()

    def remaining(self) -> float:
        """Validity left before the next renewal, in seconds; 0 when the lease is over."""
        return self._core.remaining()

    @guarded
    def extend(self, ttl: Seconds | None = None) -> Any:
        """Lengthens the lease to `ttl` seconds from now, to its own ttl with `None`; never shortens it.

        Raises `LockLostError` if it is lost, `QuorumUnavailableError` if too few nodes answered (it is then valid as
        long as it was), `NotOwnerError` after release. Ctrl-C leaves the lease valid; where a task is cancelled it may or may not have
        been lengthened.
        """
        raise NotImplementedError

    def downgrade(self) -> Any:
        """Shares the lease from now on with others that ask for the lock with `shared=True`, and calls those that wait for that.

        It keeps its fence. The call waits until a quorum of the nodes lets them in. Raises `LockLostError` if the lease is
        lost, `NotOwnerError` after release, `QuorumUnavailableError` if too few nodes answered: the lease is shared and held
        all the same; `InvalidArgumentError` of a raw lock, which stays as it is.
        """
        raise NotImplementedError

    def export(self) -> Any:
        """Ends the lease here without releasing the lock; returns a text with which one other client of the same nodes goes on.

        `Client.adopt(text)` does, in another process, in another language, on another host. The lease is lengthened to its
        full ttl first. Then it is over here, and is not renewed: adopt it within the ttl, or for as long as it was extended
        beyond that, else the lock is free. Until then a loss could not be noticed, so leave alone what the lock protects.

        **The text is a secret**: a program that has it can take the lock.

        Raises `LockLostError` if the lease is lost, `NotOwnerError` after release, `QuorumUnavailableError` if too few nodes
        answered to lengthen it: then it is held here as before, as it is where `InvalidArgumentError` says that it was entered
        more than once (release the inner handles first), that it is shared, or that its lock is kept. Ctrl-C leaves it held
        here, and so does a task that is cancelled.
        """
        raise NotImplementedError

    @guarded
    def ensure(self, min_remaining: Seconds) -> Any:
        """Makes sure that at least this many seconds of validity are left, extending the lease if there are not.

        Call it right before a step that takes that long. Raises as `extend`, and `InvalidArgumentError` if so
        much is not left and the ttl cannot give it.
        """
        raise NotImplementedError

    @guarded
    def release(self, *, confirm: bool | None = None) -> Any:
        """Releases this handle; the last handle of a lease frees the lock. Returns whether the lock was still held.

        With `confirm=False` it waits for no answer of the nodes, and returns whether the lease was valid here until now: for a lock
        of which nothing is decided by the answer. The end of the client or of the process waits for it. Raises
        `InvalidArgumentError` of a lock with `keep`, whose lease stays held, and nothing else. Not given, `confirm` is the lock's.

        Of a lock with `keep` true means that a quorum of nodes keeps it taken. False with a warning in the log: too few do, or
        nodes refuse the release for a missing permission.

        A second call does nothing and returns false. Raises for no loss; `ForkedProcessError` in a forked child, where it would wait. The
        lease ends at once; Ctrl-C, or a task that is cancelled, ends only the wait for the nodes, which do their part in the background.
        """
        raise NotImplementedError

    @guarded
    def on_lost(self, callback: Callable[[str], object]) -> None:
        """Calls `callback(reason)` once when the lease is lost, at once if it is.

        It runs on a thread that is there for such calls alone, and may block: that holds up no renewal and no callback of
        another lease, unless 64 of them block at one time. Callbacks may run at the same time, on different threads. It, and a
        process that it starts, has the signal mask of the thread that set it. What a callback raises goes to
        `sys.unraisablehook`. It is not called once the lease is released or collected.
        """
        self._core.on_lost(self._told(callback))

    def _told(self, callback: Callable[[str], object]) -> Callable[[str], None]:
        """What calls it, on whatever thread."""
        check_function("callback", callback)
        self._callbacks.append(callback)
        # The core keeps what it calls until the loss. Weakly, or a callback that knows its lease would keep it forever.
        lease = weakref.ref(self)

        def call(reason: str) -> None:
            alive = lease()
            if alive is not None and callback in alive._callbacks:
                alive._callbacks.remove(callback)
                callback(reason)

        return call

    def _forgotten(self) -> None:
        """Released: nothing keeps it, and it calls nothing."""
        self._callbacks = []
        if self._hold is not None:
            self._hold.handles.discard(id(self))
        kept = self._kept() if self._kept is not None else None
        if kept is not None:
            kept.discard(self)

    def _exported(self) -> str:
        """The text of an export. The lease is over with it, and held as before where Ctrl-C or an error comes in its place."""
        callbacks, kept = self._callbacks, _keeper(self)
        try:
            self._forgotten()
            # Read, not called: where a call returns Python looks for signals, and what a handler raises would take the place of
            # the text. From here to the caller of `export` it does not look again.
            return self._core.exported
        except BaseException:
            if self._core.is_held():
                self._callbacks = callbacks
                if self._hold is not None:
                    self._hold.handles.add(id(self))
                if kept is not None:
                    kept[self] = None
            raise

    def _raise_if_lost(self, error: BaseException | None) -> None:
        """For a scope that ends: raises after a loss, unless its body has failed by itself, and then says so there."""
        if self._core.reason is not None:
            lost_in(self._core.lost_error(), error)

    def __repr__(self) -> str:
        if self.is_held():
            state = f"held, {self.remaining():.3f} s left"
        elif (reason := self._core.reason) is not None:
            state = f"lost: {reason}"
        else:
            state = "released"
        return f"<quorlock.Lease {shown(self.name)} {state}>"
