"""Who makes a blocking call, and so whether it re-enters.

The owner of a blocking call is made of four things. A call re-enters a hold where all of them agree; else it is another
owner's, and waits as any other.

- **The thread.**
- **The task** that runs in it, where an event loop does: else every coroutine that blocks would be one owner.
- **The greenlet**, where there are greenlets: else all of a thread would be one owner.
- **The context** (`contextvars`). A hold leaves a mark in the context in which it was entered, and whatever is called from
  there finds it, also in a copy of that context. A thread of a pool runs one piece of work after the other, each in a context
  of its own: the mark tells whether the holder is among our callers, or is somebody who was here before and will go on
  elsewhere.

A mark is set and never taken back: `reset` raises in another context, and what is left out of order would bring back an old
value. It names one hold and counts for nothing once that has ended. A generator has no context of its own: it is one owner
with whoever runs it, as with `threading.RLock`; and so is work that a pool runs in no context of its own.

In the core every hold has an owner to itself, which a call that re-enters uses once more.
"""

import sys
import weakref
from contextvars import ContextVar
from typing import Any, Final, TypeAlias

from . import _native
from ._green import station
from .errors import LockContendedError, QuorlockError

Place: TypeAlias = tuple[int, bytes]
"""A client, and the key of a lock."""


class Caller:
    """Who calls: a thread, and what runs in it now."""

    __slots__ = ("greenlet", "task", "thread")

    def __init__(self) -> None:
        self.thread: Final = _native._thread()
        self.task: Final = _task()
        self.greenlet: Final = _greenlet()


def _task() -> Any:
    """The task that runs in this thread; outside of any task the loop that runs; `None` where none does."""
    # Nobody who does not use them pays for them: what is not imported does not run.
    running = getattr(sys.modules.get("asyncio"), "_get_running_loop", None)
    if running is not None and (loop := running()) is not None:
        import asyncio

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


class _Mark:
    """Stands in contexts for a hold. It lives as long as one of these does."""

    __slots__ = ("__weakref__", "hold")

    def __init__(self, hold: "Hold") -> None:
        self.hold: Final = weakref.ref(hold)


_Marks: TypeAlias = tuple[_Mark, "_Marks | None", int, int]
"""The newest mark of a context, those below it, how many there are, and at how many to look for those that have ended."""

_FEW: Final = 16

_marks: ContextVar[_Marks | None] = ContextVar("quorlock", default=None)

# The newest hold of every place, as long as it lives; no other of its place can be valid. Whoever re-enters is found by
# marks: this is for telling who is in the way.
_newest: dict[Place, "weakref.ref[Hold]"] = {}
_MANY: Final = 1024
_sweep_above = _MANY


def _remember(hold: "Hold") -> None:
    """Makes it the newest of its place. What has ended is swept out so rarely that the effort for each is bounded."""
    global _sweep_above
    _newest[hold.place] = weakref.ref(hold)
    if len(_newest) <= _sweep_above:
        return
    for place, known in _newest.copy().items():
        if known() is not None:
            continue
        try:
            # No call between the look and the deed, so no other thread either.
            if _newest[place] is known:
                del _newest[place]
        except KeyError:
            pass
    _sweep_above = max(_MANY, 2 * len(_newest))


def _newest_of(place: Place) -> "Hold | None":
    known = _newest.get(place)
    return None if known is None else known()


class Hold:
    """A lease as all handles of one owner share it. It lives as long as one of these does."""

    __slots__ = ("__weakref__", "_greenlet", "_mark", "_task", "_thread", "lock", "owner", "place", "reentrant")

    def __init__(self, lock: _native.Lock, place: Place, owner: _native.Owner, caller: Caller, reentrant: bool) -> None:
        self.lock: Final = lock
        self.place: Final = place
        self.owner: Final = owner
        self.reentrant: Final = reentrant
        self._thread: Final = caller.thread
        self._task: Final = None if caller.task is None else weakref.ref(caller.task)
        self._greenlet: Final = None if caller.greenlet is None else weakref.ref(caller.greenlet)
        self._mark: weakref.ref[_Mark] | None = None

    def won(self) -> None:
        """Known from now on: to whoever is called from here, and to whoever would wait for it."""
        _remember(self)
        below = _marks.get()
        while below is not None and below[0].hold() is None:
            below = below[1]
        if below is not None and below[2] >= below[3]:
            below = _living(below)
        mark = _Mark(self)
        self._mark = weakref.ref(mark)
        _marks.set(_on(mark, below))

    def won_by_task(self) -> None:
        """Known to whoever would wait for it. In asyncio's API the task alone is the owner."""
        _remember(self)

    def lives(self) -> bool:
        """Whether there is a handle that has not been released."""
        return self.lock.holds(self.owner) is not None

    def is_of(self, caller: Caller) -> bool:
        """Whether thread, task and greenlet agree."""
        return self._thread == caller.thread and self._same_task(caller) and self._same_greenlet(caller)

    def _same_task(self, caller: Caller) -> bool:
        return caller.task is None if self._task is None else self._task() is caller.task is not None

    def _same_greenlet(self, caller: Caller) -> bool:
        return caller.greenlet is None if self._greenlet is None else self._greenlet() is caller.greenlet is not None

    def is_left_by_task(self, caller: Caller) -> bool:
        """Whether a task of the caller's thread has won it and ended: then that thread may release it."""
        if self._task is None or self._thread != caller.thread or not self._same_greenlet(caller):
            return False
        task = self._task()
        done = getattr(task, "done", None)
        return task is None or (done is not None and bool(done()))

    def why_stuck(self, caller: Caller) -> str | None:
        """Who holds it that cannot go on while the caller blocks its thread; `None` if somebody else may release it."""
        if self._thread != caller.thread:
            return None
        if not self._same_greenlet(caller):
            return "another greenlet of this thread" if station() is None else None
        if caller.task is not None:
            if not self._same_task(caller):
                return "this thread outside of the event loop" if self._task is None else "another task of this thread"
            return "this task" if self._mark is None else "this task in another context"
        # Where no context has the mark, the holder has returned from here and will go on elsewhere.
        alive = self._mark is not None and self._mark() is not None
        return "this thread in another context" if alive else None


def _on(mark: _Mark, below: _Marks | None) -> _Marks:
    if below is None:
        return (mark, None, 1, _FEW)
    return (mark, below, below[2] + 1, below[3])


def _living(marks: _Marks) -> _Marks | None:
    """The marks of those that live. As many more may come as there are, so that the effort for each is bounded."""
    living: list[_Mark] = []
    at: _Marks | None = marks
    while at is not None:
        hold = at[0].hold()
        if hold is not None and hold.lives():
            living.append(at[0])
        at = at[1]
    kept: _Marks | None = None
    for mark in reversed(living):
        kept = (mark, kept, 1 if kept is None else kept[2] + 1, max(_FEW, 2 * len(living)))
    return kept


def mine(place: Place, caller: Caller) -> Hold | None:
    """The hold of this place that the caller has, by all four signs."""
    at = _marks.get()
    while at is not None:
        hold = at[0].hold()
        if hold is not None and hold.place == place and hold.is_of(caller) and hold.lives():
            return hold
        at = at[1]
    return None


def left_by_task(place: Place, caller: Caller) -> Hold | None:
    """The hold of this place that an ended task of the caller's thread has left; a cell of a notebook is a task."""
    hold = _newest_of(place)
    return hold if hold is not None and hold.is_left_by_task(caller) and hold.lives() else None


def of_task(lock: _native.Lock, place: Place, owner: _native.Owner, reentrant: bool) -> Hold:
    """The hold of a task that has won by asyncio's API, or once more entered."""
    known = _newest_of(place)
    return known if known is not None and known.owner is owner else Hold(lock, place, owner, Caller(), reentrant)


def refuse_if_stuck(hold: Hold, caller: Caller, shown: str) -> None:
    """Raises where to wait would be to wait for somebody who waits for us."""
    other = _newest_of(hold.place)
    # Where an owner has a name it may be the same.
    if other is None or not other.lock.holds(other.owner) or hold.lives():
        return
    if hold.lock.shared and other.lock.shares(other.owner):
        # Readers keep no reader out.
        return
    if hold.lock.has_slots:
        # As with `threading.Semaphore`: any other thread or task may give a slot back.
        return
    if mine(hold.place, caller) is other:
        # It is to be no re-entry, so it is as with `threading.Lock`: another thread may release it.
        return
    who = other.why_stuck(caller)
    if who is None:
        return
    of_asyncio = caller.task is not None and not type(caller.task).__module__.startswith("trio")
    instead = "use `async with`, or " if of_asyncio else ""
    raise LockContendedError(
        f"the lock {shown} is held by {who}, which cannot go on while this call blocks the thread: {instead}"
        "give both the same owner= if they are one piece of work"
    )


def told(error: QuorlockError, hold: Hold) -> None:
    """Adds to an error of a wait where the holder is: perhaps it is the same piece of work."""
    other = _newest_of(hold.place)
    if other is not None and other.lock.holds(other.owner):
        error.args = (
            f"{error.args[0]}; its holder is in this process, in another thread or task: give both the same owner= if they "
            "are one piece of work",
        )
