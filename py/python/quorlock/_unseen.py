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


_every_option: list[str] = []


def has_every_option(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Marks the function whose arguments are all options that there are: its names are those that an error may show."""
    _every_option[:] = _arguments(function)
    return function


def _arguments(function: Callable[..., Any]) -> list[str]:
    code = function.__code__
    return [known for known in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if known != "self"]


def _unknown(error: TypeError, function: Callable[..., Any], arguments: tuple[Any, ...]) -> str | None:
    """What an error says of an argument that a function does not have, if that is the error: Python shows any text that was unpacked as a
    name, and may have got none of the names that are near it."""
    caller, found, named = str(error).partition("() got an unexpected keyword argument '")
    if not found:
        return None
    import re
    from difflib import get_close_matches

    name = re.sub(r"'(\. Did you mean '\w+'\?)?$", "", named)
    called = function.__qualname__
    is_of_function = caller == called
    if not is_of_function:
        called = caller
    elif "." in called and arguments:
        # As users call it, who do not know what it is made of.
        called = ".".join([type(arguments[0]).__name__, *([] if function.__name__ == "__init__" else [function.__name__])])
    own = _arguments(function) if is_of_function else _every_option
    # Of which the names of arguments are made in other libraries: no secret is made of them alone.
    words = (
        "again attempts auto backoff block blocking call callback clients cluster connection connections count current db delay duration "
        "events expire expires expiration expiry extend extension factor force forced host hostname id identifier in interval lease life "
        "lifetime lock locks log logger loop lost milliseconds ms node on otherwise password period poll port prefix re release renewal "
        "renewals retries retry runtime s safe seconds session signal sleep slot socket stopped strict sync thread time timeouts tls token "
        "tries url urls user username"
    ).split()
    words += "_".join(_every_option).split("_")
    near = get_close_matches(name.lower(), own, 1) if name.isidentifier() else []
    is_short = re.fullmatch(r"[A-Za-z_]\w{0,4}", name, re.ASCII) is not None
    is_misspelt = bool(near) and abs(len(near[0]) - len(name)) <= 2
    if not (is_short or is_misspelt or set(words).issuperset(name.lower().split("_"))):
        return f"{called}() got an unexpected keyword argument, whose name is not shown"
    if not is_of_function:
        return None
    return f"{called}() got an unexpected keyword argument {name!r}" + (f". Did you mean {near[0]!r}?" if near else "")


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


def frameless(error: Exception, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Exception:
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
        told = _unknown(error, function, arguments) if isinstance(error, TypeError) else None
        if told is not None:
            error.args = (told,)
    return error.with_traceback(kept)


def guarded(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """The function, whose errors have no frame with what it was given."""

    @functools.wraps(function)
    def call(*arguments: _P.args, **keywords: _P.kwargs) -> _R:
        try:
            return function(*arguments, **keywords)
        except Exception as error:
            error = frameless(error, function, arguments)
            del arguments, keywords
            raise error  # noqa: B904 - it is the same error

    return call


def guarded_coroutine(function: Callable[_P, Coroutine[Any, Any, _R]]) -> Callable[_P, Coroutine[Any, Any, _R]]:
    """The same of a coroutine function."""

    @functools.wraps(function)
    async def call(*arguments: _P.args, **keywords: _P.kwargs) -> _R:
        try:
            return await function(*arguments, **keywords)
        except Exception as error:
            error = frameless(error, function, arguments)
            del arguments, keywords
            raise error  # noqa: B904 - it is the same error

    return call
