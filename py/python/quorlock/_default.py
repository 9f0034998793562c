"""The clients that `redlock` makes by itself: one for each set of options, in each process."""

import os
from collections.abc import Iterable
from typing import Any, cast

from . import _native
from ._options import client_options, environment

# A forked child finds none of its own here and makes new ones. No lock guards this: one that another thread held at the
# fork would stay held in the child. Two threads that make the same client at once agree on the first.
_clients: dict[tuple[object, ...], _native.Client] = {}


def client(nodes: str | Iterable[str] | None, options: dict[str, Any]) -> _native.Client:
    """The client for these options."""
    made = client_options(nodes, **options)
    if nodes is None:
        made["environment"] = environment()
    where = tuple(cast("list[str]", made["nodes"])) if "nodes" in made else made["environment"]
    others = sorted((name, value) for name, value in made.items() if name not in ("nodes", "environment"))
    place = (os.getpid(), where, *others)
    known = _clients.get(place)
    return known if known is not None else _clients.setdefault(place, _native.Client(made))
