"""What is said where scopes are left that nothing tells apart."""

import warnings

from ._lease import shown
from ._logging import note
from .errors import WouldDeadlockError

_REMEDY = (
    "enter each by `with` or `async with`, by a stack of contextlib, or by methods of an object of its own; or keep the lease of "
    "acquire() and release that"
)


def in_doubt(scopes: object) -> None:
    """Warns, once for each object, that one of several scopes was left and nothing says which."""
    words = (
        "a scope of {scopes} was left, and nothing tells which of several that were entered by hand: none of them is released "
        f"before all have been left. {_REMEDY[0].upper()}{_REMEDY[1:]}"
    )
    note("warning", "scope_in_doubt", words, scopes=repr(scopes))
    warnings.warn(words.format(scopes=repr(scopes)), ResourceWarning, stacklevel=3)


def left_in_doubt(name: str) -> WouldDeadlockError:
    """For a caller that would wait for what it has left itself."""
    error = WouldDeadlockError(
        f"the lock {shown(name)} would be waited for by a caller that has left a scope of it which is not released, for nothing tells "
        f"which of several it was: {_REMEDY}"
    )
    error.name = name
    return error


def too_many() -> WouldDeadlockError:
    """For an entry where so many were left in doubt that none would ever be released, while more come."""
    return WouldDeadlockError(
        f"many scopes of one object were left that are not released, for nothing tells which of several they were: {_REMEDY}"
    )


def not_open(elsewhere: bool) -> str:
    """Why nothing is left here."""
    if elsewhere:
        return (
            "no scope of this lock can be left here: what is open was entered by a function that still runs, and is left by that. "
            "Leave it there, or keep the lease of acquire() and call lease.release()"
        )
    return "no scope of this lock is open that could be left here: it was not entered, or has been left before"
