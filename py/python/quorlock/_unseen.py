"""What nothing shows that looks into objects, or into the frames of an error, as reporters of errors do: URLs with passwords, keys."""

import functools
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Generic, ParamSpec, TypeVar

from .errors import QuorlockError

_P = ParamSpec("_P")
_R = TypeVar("_R")
_T = TypeVar("_T")


class Unseen(Generic[_T]):
    """A value that is had by a call alone."""

    __slots__ = ("_get",)

    def __init__(self, value: _T) -> None:
        # A function's own variables are looked into by nothing.
        self._get: Callable[[], _T] = lambda: value

    def __call__(self) -> _T:
        return self._get()

    def __repr__(self) -> str:
        return "<not shown>"


def _of_a_name(error: Exception) -> bool:
    """Whether an error names no argument, or one that a program has in its text."""
    _, found, named = str(error).partition("unexpected keyword argument ")
    parts = named.split("'")
    return not found or (len(parts) in (3, 5) and all(part.isidentifier() for part in parts[1::2]))


def shown_unmade(cls: type[_T]) -> type[_T]:
    """The class, whose objects are shown also where their constructor has failed: a reporter would lose the error otherwise."""
    shown: Callable[[Any], str] = cls.__repr__

    @functools.wraps(shown)
    def represented(self: _T) -> str:
        try:
            return shown(self)
        except AttributeError:
            return f"<quorlock.{type(self).__name__} that was not made>"

    cls.__repr__ = represented  # type: ignore[assignment,method-assign]
    return cls


def frameless(error: Exception) -> Exception:
    """The same error without the frames of this package: their variables are what was given."""
    found: list[TracebackType] = []
    traceback = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_globals.get("__package__") != __package__:
            found.append(traceback)
        traceback = traceback.tb_next
    kept: TracebackType | None = None
    for one in reversed(found):
        kept = TracebackType(kept, one.tb_frame, one.tb_lasti, one.tb_lineno)
    if kept is None and isinstance(error, QuorlockError | TypeError):
        # Of ours: what it was made of is no more than the error says.
        error.__cause__ = error.__context__ = None
        if isinstance(error, TypeError) and not _of_a_name(error):
            # Of Python, which shows any text that was unpacked as a name.
            error.args = ("there is an unexpected keyword argument, whose name is no identifier: it is not shown",)
    return error.with_traceback(kept)


def guarded(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """The function, whose errors have no frame with what it was given."""

    @functools.wraps(function)
    def call(*arguments: _P.args, **keywords: _P.kwargs) -> _R:
        try:
            return function(*arguments, **keywords)
        except Exception as error:
            del arguments, keywords
            raise frameless(error)  # noqa: B904 - it is the same error

    return call


def guarded_coroutine(function: Callable[_P, Coroutine[Any, Any, _R]]) -> Callable[_P, Coroutine[Any, Any, _R]]:
    """The same of a coroutine function."""

    @functools.wraps(function)
    async def call(*arguments: _P.args, **keywords: _P.kwargs) -> _R:
        try:
            return await function(*arguments, **keywords)
        except Exception as error:
            del arguments, keywords
            raise frameless(error)  # noqa: B904 - it is the same error

    return call
