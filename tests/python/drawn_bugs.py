"""Seeded bugs of scopes and owners in Python, each of which programs that are drawn have to find."""

import collections
import threading

import quorlock
import quorlock.aio
from quorlock import _lease, _leases, _lock, _native, _owner, sync


def guess():
    """As it was: what is left is the newest of the thread or task, else of any, one that is lost first."""
    entered = collections.defaultdict(list)

    def fits(one, here):
        where, lease = one
        return where == here, lease is not None and lease._core.reason is not None

    def chosen(scope, here):
        found = entered[id(scope)]
        return found.pop(max(range(len(found)), key=lambda at: (*fits(found[at], here), at)))[1] if found else None

    def __enter__(self):
        lease = self._enter()
        entered[id(self)].append((threading.get_ident(), lease))
        return lease

    def __exit__(self, kind, error, traceback):
        lease = chosen(self, threading.get_ident())
        if lease is not None:
            self._leave(lease, error)

    _lock.Scoped.__enter__, _lock.Scoped.__exit__ = __enter__, __exit__


def guess_of_tasks():
    """The newest, whatever it is left by."""
    native = _native.Scopes

    class Newest:
        def __init__(self):
            self.native, self.entered = native(), []

        def enter(self, place, scope):
            self.entered.append(scope)

        def leave(self, frame):
            return [self.entered.pop()] if self.entered else [], False, False

        def __getattr__(self, name):
            return getattr(self.native, name)

    _native.Scopes = Newest


def one_of_several():
    """Where nothing tells which is left, one is released."""

    def _leave_doubt(self, leases, warn, error):
        if leases:
            self._leave(leases[-1], error)

    _lock.Scoped._leave_doubt = _leave_doubt


def owner_by_hand():
    """What is acquired by hand is entered again, as a scope is."""
    made = _owner.Hold

    def Hold(lock, key, owner, caller, reentrant, by_hand):  # noqa: N802
        return made(lock, key, owner, caller, reentrant, False)

    _owner.Hold = _lock.Hold = Hold
    hold = sync.Lock._hold
    sync.Lock._hold = lambda self, caller, by_hand: hold(self, caller, False)


def owner_by_hand_of_tasks():
    owner = quorlock.aio.Lock._owner
    quorlock.aio.Lock._owner = lambda self, by_hand: owner(self, False)


def release_of_others():
    """`Lock.release()` ends the newest lease, whichever caller has acquired it."""
    _lease._is_of = lambda flow, caller: True


def lost_first():
    """`Lock.release()` ends one that is lost before all that are held."""
    newest = _lease.Kept.newest

    def lost(self, caller):
        found = (lease for lease in reversed(tuple(self)) if lease._core.reason is not None and lease._hold.flow.is_of(caller))
        return next(found, None) or newest(self, caller)

    _lease.Kept.newest = lost


def loss_untold():
    """A scope that ends normally says nothing of its loss."""
    _lease.lost_in = _leases.lost_in = lambda lost, error: None


def owner_by_thread():
    """A scope is entered again by whatever runs in its thread."""

    def scope_of(key, caller):
        hold = _owner._newest_of(key)
        return hold if hold is not None and hold.flow.thread == caller.thread and hold.lives() and not hold.by_hand else None

    _owner.scope_of = scope_of


BUGS = {
    bug.__name__.replace("_", "-"): bug
    for bug in (guess, guess_of_tasks, one_of_several, owner_by_hand, owner_by_hand_of_tasks, release_of_others,
                lost_first, loss_untold, owner_by_thread)
}
