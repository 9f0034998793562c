"""What leases that were won together have in common in both APIs."""

import weakref
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from . import _native
from ._lease import Lost, NotPickled, lost_in, shown
from ._options import Name, Seconds, check_function, kind, octets, text
from ._unseen import guarded, shown_unmade

L = TypeVar("L")


class LostOne(Lost):
    """The loss of the first of several leases; as `Lost`."""

    __slots__ = ("_leases",)

    def __init__(self, leases: _native.Leases) -> None:
        super().__init__(leases)
        self._leases = leases

    @property
    def name(self) -> str | None:
        """The name of the lock whose lease was lost; `None` if none is."""
        name = self._leases.lost_name
        return None if name is None else text(name)


@shown_unmade
class LeasesBase(NotPickled, Generic[L]):
    """Holds on several locks, without what waits."""

    __slots__ = ("__weakref__", "_callbacks", "_core", "_leases", "_lost")

    def __init__(self, core: _native.Leases, leases: tuple[L, ...]) -> None:
        self._core = core
        self._leases = leases
        self._lost: LostOne | None = None
        self._callbacks: list[Callable[[str, str], object]] = []

    @property
    def fences(self) -> dict[str, int | None]:
        """The fencing token of each lease, by the name of its lock: see `Lease.fence`."""
        return {text(part.name): part.fence for part in self._core.parts()}

    @property
    def lost(self) -> LostOne:
        """The loss of the first of them that is lost, which is the loss of all."""
        if self._lost is None:
            self._lost = LostOne(self._core)
        return self._lost

    def is_held(self) -> bool:
        """Whether all of them are valid now. Exact at every call; false after release and in a forked child."""
        return self._core.is_held()

    def remaining(self) -> float:
        """The least validity that any of them has left before its next renewal, in seconds; 0 when one is over."""
        return self._core.remaining()

    @guarded
    def extend(self, ttl: Seconds | None = None) -> Any:
        """Lengthens all of them at the same time, as `Lease.extend`. Raises what the first raises that could not be."""
        raise NotImplementedError

    @guarded
    def ensure(self, min_remaining: Seconds) -> Any:
        """Makes sure that each has at least this many seconds of validity left, as `Lease.ensure`."""
        raise NotImplementedError

    @guarded
    def release(self, *, confirm: bool | None = None) -> Any:
        """Releases all of them at the same time. Returns whether each was still held; as `Lease.release`."""
        raise NotImplementedError

    @guarded
    def on_lost(self, callback: Callable[[str, str], object]) -> None:
        """Calls `callback(name, reason)` once when the first of them is lost, at once if one is. As `Lease.on_lost`."""
        self._core.on_lost(self._told(callback))

    def _told(self, callback: Callable[[str, str], object]) -> Callable[[str], None]:
        """What calls it, on whatever thread."""
        check_function("callback", callback)
        self._callbacks.append(callback)
        # Weakly, or a callback that knows its leases would keep them forever.
        leases = weakref.ref(self)

        def call(reason: str) -> None:
            alive = leases()
            if alive is not None and callback in alive._callbacks:
                alive._callbacks.remove(callback)
                callback(alive.lost.name or "", reason)

        return call

    def __iter__(self) -> Iterator[L]:
        """Each lease, in the order in which the locks are taken."""
        return iter(self._leases)

    def __len__(self) -> int:
        return len(self._leases)

    def __bool__(self) -> bool:
        return True

    @guarded
    def __getitem__(self, name: Name) -> L:
        """The lease on the lock of that name: `x` and `{x}` are one. Raises `KeyError`."""
        place = self._core.place_of(octets("name", name))
        if place is None:
            # What was asked for is no name of a lock, so it may be anything.
            raise KeyError(f"{kind(name)} is no name of these: {', '.join(shown(text(part.name)) for part in self._core.parts())}")
        return self._leases[place]

    def _raise_if_lost(self, error: BaseException | None) -> None:
        """As of a lease."""
        lost = self._core.lost_error()
        if lost is not None:
            lost_in(lost, error)

    def __repr__(self) -> str:
        names = ", ".join(shown(text(part.name)) for part in self._core.parts())
        if self.is_held():
            state = f"held, {self.remaining():.3f} s left"
        elif (reason := self._core.reason) is not None:
            state = f"lost: {self.lost.name}, {reason}"
        else:
            state = "released"
        return f"<quorlock.Leases {names} {state}>"
