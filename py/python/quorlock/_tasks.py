"""Asyncio tasks as owners of locks, and what belongs to them."""

import asyncio
import weakref

from . import _native

_owners: weakref.WeakKeyDictionary["asyncio.Task[object]", _native.Owner] = weakref.WeakKeyDictionary()


def owner() -> _native.Owner:
    """The current task as an owner. A child task is another one than its parent."""
    task = asyncio.current_task()
    if task is None:
        # Not within a task: a stranger to everybody.
        return _native.Owner()
    known = _owners.get(task)
    if known is None:
        known = _owners[task] = _native.Owner()
    return known
