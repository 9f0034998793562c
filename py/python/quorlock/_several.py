"""Several locks at once, for blocking code: all of them, or none."""

from typing import TYPE_CHECKING, Literal, overload

from . import _native, _owner
from ._green import waited
from ._lease import shown
from ._leases import LeasesBase
from ._options import UNSET, Limit, Seconds, Unset, call_options, given, text, tries_once
from ._owner import Caller, Hold
from ._doubt import left_in_doubt
from ._unseen import guarded, shown_unmade
from .errors import LockBusyError
from ._client import LocksBase
from ._lock import Lease, Lock, Scoped, leave

__all__ = ["Leases", "Locks"]


class Leases(LeasesBase[Lease], _native.Ends):
    """Holds on several locks that were acquired together: what `Locks.acquire` returns.

    They are held while each of them is. The loss of one is the loss of all: the work that needs them has to stop. Those that
    are not lost stay held until they are released, so that no other client comes in while it stops. Iterating gives each
    `Lease`, and `leases[name]` the one of that lock. As a context manager it releases them at the end; if the body ends
    normally after a loss, `LockLostError` is raised.
    """

    __slots__ = ()

    @guarded
    def extend(self, ttl: Seconds | None = None) -> None:
        waited(self._core.extend(ttl))

    @guarded
    def ensure(self, min_remaining: Seconds) -> None:
        waited(self._core.ensure(min_remaining))

    @guarded
    def release(self, *, confirm: bool | None = None) -> bool:
        waits = self._core.waits(confirm)
        self._callbacks = []
        held: bool = waited(self._core.release()) if waits else self._core.release_unconfirmed(None)
        return held

    def _leave(self, error: BaseException | None) -> None:
        leave(self, error)


@shown_unmade
class Locks(LocksBase[Lock], Scoped):
    """Several names with the same options; made by `Client.lock_all`. It holds nothing by itself.

    Each name is a lock like any other, with the owner of the call as `Lock` has it. They are taken in one order that is the
    same in all programs, whatever order they are given in, so that callers who ask for several do not wait for each other in
    a ring. `with locks as leases:` holds them all for a scope.
    """

    __slots__ = ("_locks",)

    _of = Lock

    @overload
    def acquire(
        self, blocking: Literal[True] = True, timeout: Limit = UNSET, *, wait: Limit = UNSET, label: str | Unset = UNSET
    ) -> Leases: ...

    @overload
    def acquire(
        self, blocking: bool, timeout: Limit = UNSET, *, wait: Limit = UNSET, label: str | Unset = UNSET
    ) -> Leases | Literal[False]: ...

    @guarded
    def acquire(
        self, blocking: bool = True, timeout: Limit = UNSET, *, wait: Limit = UNSET, label: str | Unset = UNSET
    ) -> Leases | Literal[False]:
        options = call_options(blocking, timeout, wait, label)
        if not blocking:
            return self.try_acquire(label=label) or False
        return self._acquired(options, by_hand=True)

    @guarded
    def try_acquire(self, *, label: str | Unset = UNSET) -> Leases | None:
        return self._tried(0, by_hand=True, label=label)

    @guarded
    def attempt(self, wait: Limit = 0, *, label: str | Unset = UNSET) -> "AttemptAll":
        """A scope for work that is left out where others hold one of the locks, as `Lock.attempt`."""
        return AttemptAll(self, wait, label)

    def _holds(self, by_hand: bool, waits: bool) -> tuple[list[Hold], _owner.WaitFields | None]:
        """The holds to be re-entered or won, and what there is to be warned of."""
        caller, warning = Caller(), None
        holds = [lock._hold(caller, by_hand) for lock in self._locks]
        if waits:
            for lock, hold in zip(self._locks, holds, strict=True):
                warning = _owner.check_wait(hold, caller, lock.name, lock._named) or warning
        return holds, warning

    def _acquired(self, options: dict[str, object], by_hand: bool) -> Leases:
        wait = options.get("wait", self._locks[0]._wait)
        holds, warning = self._holds(by_hand, not tries_once(wait))
        cores, owners = [lock._core for lock in self._locks], [hold.owner for hold in holds]
        try:
            with _owner.WarnedWait(warning, wait is None):
                core: _native.Leases = waited(_native.acquire_all(cores, owners, options))
        except LockBusyError as error:
            for lock in self._locks:
                if warning is None and not lock._named and lock.name == error.name:
                    _owner.add_holder(error, lock._place)
            raise
        return self._register(core, holds)

    def _tried(self, wait: Limit, by_hand: bool, label: str | Unset = UNSET) -> Leases | None:
        """As `_acquired`; `None` where others hold one of them all the time."""
        holds, warning = self._holds(by_hand, not tries_once(wait))
        cores, owners = [lock._core for lock in self._locks], [hold.owner for hold in holds]
        with _owner.WarnedWait(warning, wait is None):
            core: _native.Leases | None = waited(_native.try_all(cores, owners, given(wait=wait, label=label)))
        return None if core is None else self._register(core, holds)

    def _register(self, core: _native.Leases, holds: list[Hold]) -> Leases:
        try:
            for hold in holds:
                hold.register()
            named = {lock.name: hold for lock, hold in zip(self._locks, holds, strict=True)}
            return Leases(core, tuple(Lease(part, named[text(part.name)]) for part in core.parts()))
        except BaseException:
            # Ctrl-C before the caller has it.
            core.discard()
            raise

    @guarded
    def _enter(self, at_once: bool = False) -> Leases | None:
        if not at_once:
            return self._acquired({}, by_hand=False)
        leases = self._tried(0, by_hand=False)
        if leases is None:
            raise left_in_doubt(", ".join(self.names))
        return leases

    if TYPE_CHECKING:

        def __enter__(self) -> Leases: ...

    def __repr__(self) -> str:
        return f"<quorlock.Locks {', '.join(shown(name) for name in self.names)}>"


@shown_unmade
class AttemptAll(Scoped):
    """What `Locks.attempt` gives."""

    __slots__ = ("_label", "_of", "_wait")

    def __init__(self, of: Locks, wait: Limit, label: str | Unset) -> None:
        self._of = of
        self._wait = wait
        self._label = label

    @guarded
    def _enter(self, at_once: bool = False) -> Leases | None:
        leases = self._of._tried(0 if at_once else self._wait, by_hand=False, label=self._label)
        if leases is None and at_once and not tries_once(self._wait):
            raise left_in_doubt(", ".join(self._of.names))
        return leases

    def __repr__(self) -> str:
        return f"<quorlock.AttemptAll {', '.join(shown(name) for name in self._of.names)}>"

    if TYPE_CHECKING:

        def __enter__(self) -> Leases | None: ...
