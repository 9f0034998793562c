"""What the leases of both APIs have in common."""

import weakref
from collections.abc import Callable, Generator
from typing import NoReturn

from . import _native
from ._green import waited_for_loss
from ._options import Seconds, text
from ._owner import Hold

_SHOWN = 64


def shown(name: str) -> str:
    """A name for a message: escaped, and cut."""
    escaped = ascii(name)
    return escaped if len(escaped) <= _SHOWN else escaped[: _SHOWN - 1] + "…"


class NotPickled:
    """Refuses to be pickled and copied."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} cannot be pickled or copied: it belongs to connections of this process. "
            "Give another process the node list and the lock's name"
        )


class Lost:
    """The loss of a lease, to look at and to wait for.

    A lease that is released is not lost: then waiting has no end but its timeout. Whoever keeps this object keeps the
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

    def wait(self, timeout: Seconds | None = None) -> bool:
        """Blocks until the lease is lost, at most `timeout` seconds; `None`: forever. Returns whether it is lost.

        Ctrl-C ends the wait. In asyncio use `await lease.lost`.
        """
        return self.is_set() or waited_for_loss(self._core, timeout)

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


class Kept(dict["LeaseBase", None]):
    """Leases that were acquired by hand, kept until they are released: the newest is the last."""

    __slots__ = ("__weakref__",)

    def keep(self, lease: "LeaseBase") -> None:
        """Keeps a lease. It knows of that weakly: a cycle would wait for the garbage collector."""
        lease._kept = weakref.ref(self)
        self[lease] = None

    def discard(self, lease: "LeaseBase") -> None:
        """Keeps it no longer."""
        self.pop(lease, None)


class LeaseBase(NotPickled):
    """A hold on a lock, without what waits."""

    __slots__ = ("__weakref__", "_callbacks", "_core", "_hold", "_kept", "_lost")

    def __init__(self, core: _native.Lease, hold: Hold | None) -> None:
        # What few leases need is made when it is needed: many live for microseconds.
        self._core = core
        self._hold = hold
        self._lost: Lost | None = None
        self._callbacks: list[Callable[[str], object]] | None = None
        self._kept: weakref.ref[Kept] | None = None

    @property
    def name(self) -> str:
        """The lock's name. Bytes that are not UTF-8 appear as surrogate escapes."""
        return text(self._core.name)

    @property
    def token(self) -> str:
        """The token: 40 hex digits that name this hold. Keep it secret: whoever knows it can release the lock."""
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

    def remaining(self) -> Seconds:
        """Validity left before the next renewal, in seconds; 0 when the lease is over."""
        return self._core.remaining()

    def on_lost(self, callback: Callable[[str], object]) -> None:
        """Calls `callback(reason)` once when the lease is lost, at once if it is.

        It runs on a thread that is there for such calls alone, and may block: that holds up no renewal and no callback of
        another lease, unless 64 of them block at one time. Callbacks may run at the same time, on different threads. Signals
        are blocked there, and in a process that a callback starts, unless that unblocks them. What a callback raises goes to
        `sys.unraisablehook`. It is not called once the lease is released or collected.
        """
        if self._callbacks is None:
            self._callbacks = []
        self._callbacks.append(callback)
        # The core keeps what it calls until the loss. Weakly, or a callback that knows its lease would keep it forever.
        lease = weakref.ref(self)

        def call(reason: str) -> None:
            alive = lease()
            if alive is not None and alive._callbacks is not None and callback in alive._callbacks:
                alive._callbacks.remove(callback)
                callback(reason)

        self._core.on_lost(call)

    def _forgotten(self) -> None:
        """Released: nothing keeps it, and it calls nobody."""
        self._callbacks = None
        kept = self._kept() if self._kept is not None else None
        if kept is not None:
            kept.discard(self)

    def _raise_if_lost(self) -> None:
        """For a scope whose body ended normally."""
        if self._core.reason is not None:
            raise self._core.lost_error()

    def __repr__(self) -> str:
        if self.is_held():
            state = f"held, {self.remaining():.3f} s left"
        elif (reason := self._core.reason) is not None:
            state = f"lost: {reason}"
        else:
            state = "released"
        return f"<quorlock.Lease {shown(self.name)} {state}>"
