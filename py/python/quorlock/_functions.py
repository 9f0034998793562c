"""What a decorator is given: what runs when it is called, and what it returns that would go on without the lock."""

import contextlib
import functools
import inspect
import io
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any


def called(function: object) -> str:
    """A function, as it is called in messages."""
    name = getattr(function, "__qualname__", None)
    return f"the function {name}" if isinstance(name, str) else f"the {type(function).__name__}"


def runs_as(kind: Callable[[object], bool], function: object) -> bool:
    """Whether what runs when this is called is of a kind that `inspect` knows."""
    while isinstance(function, functools.partial):
        function = function.func
    return kind(function) or (not isinstance(function, type) and kind(type(function).__call__))


def is_class(function: object) -> bool:
    """Whether calling it makes an object, whose methods are the work."""
    while isinstance(function, functools.partial):
        function = function.func
    return isinstance(function, type)


# What the makers of context managers make of a function.
_MAKERS: tuple[Any, ...] = (contextlib.contextmanager, contextlib.asynccontextmanager)
_WHOLE: dict[Any, Callable[..., Any]] = {maker(lambda: ()).__code__: maker for maker in _MAKERS}
# What such a function gives.
_OPENED: tuple[Any, ...] = (contextlib._GeneratorContextManager, contextlib._AsyncGeneratorContextManager)


def whole(function: object) -> Callable[..., Any] | None:
    """Which of these has made the function, if one of them has."""
    return _WHOLE.get(getattr(function, "__code__", None))


def is_begun(result: Any) -> bool:
    """Whether it is work that has only been begun, or not even that."""
    if inspect.isawaitable(result) or isinstance(result, (AsyncIterator, *_OPENED)):
        return True
    # A file is read line by line, but no work of the function's.
    if isinstance(result, Iterator) and not isinstance(result, io.IOBase):
        return True
    futures = sys.modules.get("concurrent.futures")
    return futures is not None and isinstance(result, futures.Future)


def goes_on(function: object, result: Any) -> TypeError:
    """Ends what a function has returned that would go on without the lock; gives the error that says so."""
    of = getattr(result, "gen", result) if isinstance(result, _OPENED) else result
    end = getattr(of, "close", None) or getattr(of, "cancel", None)
    if end is not None and end() is False and not inspect.isawaitable(result):
        # A future that is under way already. Here the lock is held.
        sys.modules["concurrent.futures"].wait([result])
    return TypeError(
        f"{called(function)} returned a {type(result).__name__}, which would go on without the lock: make it an `async def` "
        "function, or use `with redlock(...)` or `async with redlock(...)` where the work is done"
    )
