"""The caller of a blocking call, and so whether that re-enters.

A scope has an owner, and what is acquired by hand has none. The owner of a scope is made of four things. A call re-enters a
scope that is open where all of them agree; else it is another owner's, and waits as any other.

- **The thread.**
- **The task** that runs in it, where an event loop does: else every coroutine that blocks would be one owner.
- **The greenlet**, where there are greenlets: else all of a thread would be one owner.
- **The context** (`contextvars`). A hold leaves a mark in the context in which it was entered, and a call that is made from
  there finds it, also in a copy of that context. A thread of a pool runs one piece of work after the other, each in a context
  of its own: the mark tells whether the holder is among our callers, or is a piece of work that this thread ran before and that
  goes on elsewhere.

A mark is set and never taken back: `reset` raises in another context, and what is left out of order would bring back an old
value. It names one hold and counts for nothing once that has ended. A generator has no context of its own: it is one owner
with the code that runs it, as with `threading.RLock`; and so is work that a pool runs in no context of its own.

In the core every hold has an owner to itself, which a call that re-enters uses once more.

What would wait for itself is refused at once, as `WouldDeadlockError`. What was acquired by hand may be released by any caller, so that is
waited for, and a warning names its holder.
"""

import sys
import weakref
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Final, NamedTuple, TypeAlias, cast

from . import _native
from ._green import station
from ._logging import note
from ._options import shown
from .errors import QuorlockError, WouldDeadlockError

LockKey: TypeAlias = tuple[int, bytes]
"""A client, and the key of a lock."""


class Caller:
    """The thread that calls, and what runs in it now."""

    __slots__ = ("greenlet", "task", "thread")

    def __init__(self) -> None:
        # A program that uses none of them pays for none: what is not imported does not run.
        known = sys.modules
        self.thread: Final = _native._thread()
        self.task: Final = _task() if "asyncio" in known or "trio" in known else None
        self.greenlet: Final = _greenlet() if "greenlet" in known else None


def _task() -> Any:
    """The task that runs in this thread; outside of any task the loop that runs; `None` where none does."""
    asyncio: Any = sys.modules.get("asyncio")
    running = getattr(asyncio, "_get_running_loop", None)
    if running is not None and (loop := running()) is not None:
        return asyncio.current_task(loop) or loop
    of_trio = getattr(sys.modules.get("trio"), "lowlevel", None)
    if of_trio is not None:
        try:
            return of_trio.current_task()
        except RuntimeError:
            return None
    return None


def _greenlet() -> Any:
    """The greenlet that runs in this thread; `None` is the thread's own."""
    current = getattr(sys.modules.get("greenlet"), "getcurrent", None)
    if current is None:
        return None
    greenlet = current()
    return None if greenlet.parent is None else greenlet


class Flow:
    """The caller, as `Caller` has it; this keeps nothing alive."""

    __slots__ = ("_greenlet", "_task", "thread")

    def __init__(self, caller: Caller | None = None) -> None:
        caller = caller or Caller()
        self.thread: Final = caller.thread
        self._task: Final = None if caller.task is None else weakref.ref(caller.task)
        self._greenlet: Final = None if caller.greenlet is None else weakref.ref(caller.greenlet)

    def is_of(self, caller: Caller) -> bool:
        """Whether thread, task and greenlet agree."""
        return self.thread == caller.thread and self.is_of_task(caller) and self.is_of_greenlet(caller)

    def is_of_task(self, caller: Caller) -> bool:
        """Whether the task agrees."""
        return caller.task is None if self._task is None else self._task() is caller.task is not None

    def is_of_greenlet(self, caller: Caller) -> bool:
        """Whether the greenlet agrees."""
        return caller.greenlet is None if self._greenlet is None else self._greenlet() is caller.greenlet is not None

    def is_same(self, other: "Flow") -> bool:
        """Whether it is the same, and goes on."""
        if self.thread != other.thread:
            return False
        for one, its in ((self._task, other._task), (self._greenlet, other._greenlet)):
            if one is None or its is None:
                if one is not its:
                    return False
            elif one() is None or one() is not its():
                return False
        return True

    @property
    def has_task(self) -> bool:
        """Whether it was a task."""
        return self._task is not None

    def is_left_by_task(self, caller: Caller) -> bool:
        """Whether it was a task of the caller's thread, and has ended."""
        if self._task is None or self.thread != caller.thread or not self.is_of_greenlet(caller):
            return False
        task = self._task()
        done = getattr(task, "done", None)
        return task is None or (done is not None and bool(done()))


# That of the thread that was the last to enter outside of any task and greenlet.
_of_last_thread: Flow | None = None


def _flow_of(caller: Caller) -> Flow:
    """The flow of a caller. A flow never changes, so that of a thread without task and greenlet is used again."""
    global _of_last_thread
    if caller.task is not None or caller.greenlet is not None:
        return Flow(caller)
    known = _of_last_thread
    if known is None or known.thread != caller.thread:
        known = _of_last_thread = Flow(caller)
    return known


# Which piece of work a context is of, and in which thread.
_work: ContextVar[tuple[int, object] | None] = ContextVar("quorlock.work", default=None)


class Work(Flow):
    """The piece of work that enters and leaves scopes by hand. A thread of a pool runs one piece of work after the other: in a context of its own, as
    `asyncio.to_thread` does, or by a call of the pool. It is another caller in each. The only thread of a pool is one caller, for
    all that is given to it comes to it."""

    __slots__ = ("_context", "_job")

    def __init__(self) -> None:
        super().__init__()
        known = _work.get()
        if known is None or known[0] != self.thread:
            known = (self.thread, object())
            _work.set(known)
        self._context: Final = known[1]
        self._job: Final = _job()

    def is_same(self, other: "Flow") -> bool:
        """Whether it is the same, and goes on."""
        if not isinstance(other, Work) or self._context is not other._context:
            return False
        if self._job is None or other._job is None:
            return self._job is other._job and super().is_same(other)
        return self._job() is other._job() is not None and super().is_same(other)


def _job() -> "weakref.ref[object] | None":
    """What a pool of `concurrent.futures` has one of its threads run now; `None` where none does."""
    if "concurrent.futures.thread" not in sys.modules:
        return None
    import threading

    # What the pool has its threads begin with: itself, weakly.
    given: list[object] = list(getattr(threading.current_thread(), "_args", None) or ())
    is_weak = bool(given) and isinstance(given[0], weakref.ref)
    pool: object = cast("weakref.ref[object]", given[0])() if is_weak else None
    if getattr(pool, "_max_workers", 0) == 1:
        return None
    frame = sys._getframe(1)
    while frame.f_back is not None:
        if frame.f_code.co_name == "run" and frame.f_globals.get("__name__") == "concurrent.futures.thread":
            return weakref.ref(frame.f_locals["self"])
        frame = frame.f_back
    return None


class _Sign:
    """Stands for a hold in the marks of contexts. It lives as long as one of these contexts does."""

    __slots__ = ("__weakref__", "hold")

    def __init__(self, hold: "Hold") -> None:
        self.hold: Final = weakref.ref(hold)


class Mark(NamedTuple):
    """A hold that was entered in a context, above those that were entered there before."""

    sign: _Sign
    below: "Mark | None"
    depth: int
    """How many marks there are with this one."""
    sweep_at: int
    """The depth at which those of holds that have ended are taken out."""

    @property
    def hold(self) -> "Hold | None":
        """The hold, as long as it lives."""
        return self.sign.hold()


_FEW: Final = 16

_newest_mark: ContextVar[Mark | None] = ContextVar("quorlock", default=None)

# The newest hold of every key, as long as it lives; no other of its key can be valid. A caller that re-enters finds its hold by
# marks; here a caller that would wait finds the hold that it would wait for.
_newest: dict[LockKey, "weakref.ref[Hold]"] = {}
_MANY: Final = 1024
_sweep_above = _MANY


def _remember(hold: "Hold") -> None:
    """Makes it the newest of its key. What has ended is swept out so rarely that the effort for each is bounded."""
    global _sweep_above
    _newest[hold.key] = weakref.ref(hold)
    if len(_newest) <= _sweep_above:
        return
    for key, known in _newest.copy().items():
        if known() is not None:
            continue
        try:
            # No call between the look and the deed, so no other thread either.
            if _newest[key] is known:
                del _newest[key]
        except KeyError:
            pass
    _sweep_above = max(_MANY, 2 * len(_newest))


def _newest_of(key: LockKey) -> "Hold | None":
    known = _newest.get(key)
    return None if known is None else known()


class Hold:
    """A lease as all handles of one owner share it. It lives as long as one of these does."""

    __slots__ = ("__weakref__", "_sign", "by_hand", "flow", "handles", "key", "lock", "owner", "reentrant")

    def __init__(
        self, lock: _native.Lock, key: LockKey, owner: _native.Owner, caller: Caller, reentrant: bool, by_hand: bool
    ) -> None:
        self.lock: Final = lock
        self.key: Final = key
        self.owner: Final = owner
        self.reentrant: Final = reentrant
        self.by_hand: Final = by_hand
        self.flow: Final = _flow_of(caller)
        # Those of its leases that have not been released, by their `id`. The core knows it only when a release has begun there,
        # which may be in another thread.
        self.handles: Final[set[int]] = set()
        self._sign: weakref.ref[_Sign] | None = None

    def register(self) -> None:
        """Makes it known to callers that would wait for it; that of a scope also to what is called from here."""
        _remember(self)
        if self.by_hand:
            return
        below = _newest_mark.get()
        while below is not None and below.hold is None:
            below = below.below
        if below is not None and below.depth >= below.sweep_at:
            below = _swept(below)
        sign = _Sign(self)
        self._sign = weakref.ref(sign)
        _newest_mark.set(Mark(sign, below, 1, _FEW) if below is None else Mark(sign, below, below.depth + 1, below.sweep_at))

    def register_for_task(self) -> None:
        """Makes it known to callers that would wait for it. In asyncio's API the task alone is the owner."""
        _remember(self)

    def lives(self) -> bool:
        """Whether there is a handle that has not been released."""
        return bool(self.handles) and self.lock.holds(self.owner) is not None

    def is_lost(self) -> bool:
        """Whether there is a handle on a lease that is lost."""
        return self.lock.holds(self.owner) is False

    def is_marked(self) -> bool:
        """Whether a context knows it. Where none does, the holder has returned from here and will go on elsewhere."""
        return self._sign is not None and self._sign() is not None

    @property
    def is_of_scope(self) -> bool:
        """Whether a scope was entered with it, in a context that may have ended since."""
        return self._sign is not None and not self.by_hand


def _swept(mark: Mark) -> Mark | None:
    """The marks of holds that live. As many more may come as there are, so that the effort for each is bounded."""
    living: list[_Sign] = []
    at: Mark | None = mark
    while at is not None:
        if (hold := at.hold) is not None and hold.lives():
            living.append(at.sign)
        at = at.below
    kept: Mark | None = None
    for depth, sign in enumerate(reversed(living), 1):
        kept = Mark(sign, kept, depth, max(_FEW, 2 * len(living)))
    return kept


def scope_of(key: LockKey, caller: Caller) -> Hold | None:
    """The hold of the open scope of this key that the caller has, by all four of thread, task, greenlet and context."""
    at = _newest_mark.get()
    while at is not None:
        hold = at.hold
        if hold is not None and hold.key == key and hold.flow.is_of(caller) and hold.lives():
            return hold
        at = at.below
    return None


def hold_of_task(lock: _native.Lock, key: LockKey, owner: _native.Owner, reentrant: bool, by_hand: bool) -> Hold:
    """The hold of a task that has won by asyncio's API, or once more entered."""
    known = _newest_of(key)
    return known if known is not None and known.owner is owner else Hold(lock, key, owner, Caller(), reentrant, by_hand)


def blocked_by(hold: Hold, caller: Caller) -> str | None:
    """The holder, where it cannot go on while the caller blocks its thread; `None` where another caller may release the hold."""
    flow = hold.flow
    if flow.thread != caller.thread:
        return None
    if not flow.is_of_greenlet(caller):
        return "another greenlet of this thread" if station() is None else None
    if caller.task is not None:
        if not flow.is_of_task(caller):
            return "another task of this thread" if flow.has_task else "this thread outside of the event loop"
        return "this task in another context" if hold.is_of_scope else "this task"
    if hold.by_hand:
        return "this thread" if flow.is_of(caller) else None
    return "this thread in another context" if hold.is_marked() else None


def _in_the_way(lock: _native.Lock, key: LockKey) -> Hold | None:
    """The hold of this process that such a lock would be waited for, if it is for one."""
    other = _newest_of(key)
    return other if other is not None and _keeps_out(other, lock) else None


def _keeps_out(other: Hold, lock: _native.Lock) -> bool:
    """Whether such a lock is to be waited for until this hold ends."""
    if not other.handles or not other.lock.holds(other.owner):
        return False
    # Readers keep no reader out. A slot any other thread or task may give back, as with `threading.Semaphore`.
    return not lock.has_slots and not (lock.shared and other.lock.shares(other.owner))


_SAME: Final = "give both the same owner= if they are one piece of work"

WaitFields: TypeAlias = dict[str, str]
"""Of a warning: the lock that is waited for, and the holder that has acquired it by hand and may be behind that wait."""

_WAITS: Final = (
    "the lock {lock} was acquired by hand by {holder}, which waits for it now: nothing but lease.release() elsewhere ends the wait. "
    f"Release that lease first, or hold the lock by `with` or `async with`, which enter again; or {_SAME}"
)


def check_wait(hold: Hold, caller: Caller, name: str, named: bool) -> WaitFields | None:
    """Raises where the wait would be for a holder that waits for us; returns what to warn of where that may be so."""
    # Where an owner has a name it may be the same.
    if hold.handles or (named and hold.lock.holds(hold.owner) is not None):
        return None
    own = None if _newest_mark.get() is None else scope_of(hold.key, caller)
    if own is not None and _keeps_out(own, hold.lock):
        raise _of_our_own(own, hold.by_hand, name)
    other = _in_the_way(hold.lock, hold.key)
    if other is None:
        return None
    holder = blocked_by(other, caller)
    if holder is None:
        return None
    if other.by_hand:
        return _by_hand(name, holder)
    of_asyncio = caller.task is not None and not type(caller.task).__module__.startswith("trio")
    instead = "use `async with`, or " if of_asyncio else ""
    raise _would_deadlock(name, f"is held by {holder}, which cannot go on while this call blocks the thread: {instead}{_SAME}")


def check_await(lock: _native.Lock, key: LockKey, owner: _native.Owner, by_hand: bool, name: str) -> WaitFields | None:
    """As `check_wait`, for a task that waits by asyncio's API."""
    other = _in_the_way(lock, key)
    if other is None or lock.holds(owner) is not None:
        return None
    caller = Caller()
    if other.flow.thread != caller.thread or not other.flow.is_of_greenlet(caller):
        return None
    if other.flow.is_of_task(caller):
        if other.by_hand:
            return _by_hand(name, "this task")
        raise _of_our_own(other, by_hand, name)
    if other.by_hand or other.flow.has_task or not other.is_marked():
        return None
    raise _would_deadlock(name, f"is held by this thread outside of the event loop, which cannot go on while the loop runs: {_SAME}")


def _would_deadlock(name: str, why: str) -> WouldDeadlockError:
    error = WouldDeadlockError(f"the lock {shown(name)} {why}")
    error.name = name
    return error


def _of_our_own(own: Hold, by_hand: bool, name: str) -> WouldDeadlockError:
    if own.lock.shares(own.owner):
        return _would_deadlock(name, "is shared by a scope around this call, which would wait for itself: release the shared lease first")
    instead = (
        "what is acquired by hand has no owner: use `with` or `async with`, which enters again"
        if by_hand
        else "it is entered again where both are by `with`, or both by `async with`, without reentrant=False"
    )
    return _would_deadlock(name, f"is held by a scope around this call, which would wait for itself: {instead}; or {_SAME}")


def _by_hand(name: str, holder: str) -> WaitFields:
    return {"lock": shown(name), "holder": holder}


WARNED_EVERY: Final = 10.0
"""How often a wait without an end is warned of, in seconds."""


class WarnedWait:
    """A wait of which the log warns: at once, and again and again where it has no end."""

    def __init__(self, warning: WaitFields | None, endless: bool) -> None:
        self._warning = warning
        self._endless = endless
        self._over: Any = None

    def __enter__(self) -> None:
        if self._warning is None:
            return
        self._warn()
        if self._endless:
            import threading

            over = self._over = threading.Event()
            threading.Thread(target=self._again, args=(over,), name="quorlock-waits", daemon=True).start()

    def _warn(self) -> None:
        if self._warning is not None:
            note("warning", "waits_within", _WAITS, **self._warning)

    def _again(self, over: Any) -> None:
        while not over.wait(WARNED_EVERY):
            self._warn()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self._over is not None:
            self._over.set()
        if self._warning is not None and isinstance(error, QuorlockError):
            error.args = (f"{error.args[0]}; {_WAITS.format(**self._warning)}",)


def add_holder(error: QuorlockError, key: LockKey) -> None:
    """Adds to an error of a wait where the holder is: perhaps it is the same piece of work."""
    other = _newest_of(key)
    if other is not None and other.lock.holds(other.owner):
        error.args = (f"{error.args[0]}; its holder is in this process, in another thread or task: {_SAME}",)


def add_lost_scope(error: QuorlockError) -> None:
    """Adds to the error of an entry again into what its owner has lost."""
    error.args = (f"{error.args[0]}; a scope of this owner that is still open had it: release the old lease first, by leaving that scope",)
