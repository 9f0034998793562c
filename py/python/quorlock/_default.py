"""The clients that `redlock` makes by itself: one for each set of options, in each process."""

import os
import sys
import warnings
from collections.abc import Iterable
from typing import Any

from . import _native
from ._logging import note
from ._options import environment, native
from ._unseen import guarded

# A forked child finds none of its own here and makes new ones. No lock guards this: one that another thread held at the
# fork would stay held in the child. Two threads that make the same client at once agree on the first.
_clients: dict[tuple[object, ...], _native.Client] = {}
# More sets of options than this are hardly meant: each has connections of its own, for as long as the process lives.
_MANY = 16
_told_of_many = False


@guarded
def client(nodes: str | Iterable[str] | None, options: dict[str, Any]) -> _native.Client:
    """The client for these options."""
    options = native(**{"nodes": nodes, **options})
    variables = environment()
    made: dict[str, Any] = {**options, "environment": variables}
    others = sorted((name, _plain(value)) for name, value in options.items() if name != "nodes")
    place = (os.getpid(), options.get("nodes", ()), variables, *others)
    known = _clients.get(place)
    if known is None:
        known = _clients.setdefault(place, _native.Client(made))
        _tell_many()
    return known


def _plain(value: Any) -> object:
    """A value as one has it that is the same and was given otherwise: a time by a `timedelta`, a word by a flag."""
    if isinstance(value, bool):
        return "on" if value else "off"
    seconds = getattr(value, "total_seconds", None)
    return value if seconds is None else seconds()


def _tell_many() -> None:
    """Warns, once in a process, that there is hardly a reason for so many."""
    global _told_of_many
    count = sum(place[0] == os.getpid() for place in list(_clients))
    if _told_of_many or count <= _MANY:
        return
    _told_of_many = True
    words = (
        "{count} calls of redlock without `client` had other options of a client each time, and each set of them has a client and "
        "connections of its own: give them the same options, or a `client`"
    )
    note("warning", "many_clients", words, count=str(count))
    warnings.warn(words.format(count=count), ResourceWarning, stacklevel=_frames_of_ours() + 1)


def _frames_of_ours() -> int:
    """How many frames of this package are between the caller and the program."""
    count, frame = 0, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__package__") == __package__:
        count, frame = count + 1, frame.f_back
    return count
