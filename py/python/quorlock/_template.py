"""A decorator's `key` as a template, which is filled from the arguments of each call."""

import inspect
import re
import sys
from collections.abc import Callable
from typing import Any

from ._options import Name, kind, text
from .errors import InvalidArgumentError

_BRACES = re.compile(r"\{\{|\}\}|\{([^\W\d]\w*)\}")


def filling(function: Callable[..., Any], key: Name | tuple[Name, ...]) -> Callable[..., Name | tuple[Name, ...]] | None:
    """What fills the key from positional and named arguments of the function; `None` where its braces name no parameter."""
    try:
        signature = _signature(function)
    except (TypeError, ValueError):
        # Of something compiled, which does not tell its parameters.
        return None
    keys = key if isinstance(key, tuple) else (key,)
    fields = {name for one in keys for name in _names(one) if name in signature.parameters}
    if not fields:
        return None

    def fill(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Name | tuple[Name, ...]:
        try:
            bound = signature.bind(*arguments, **keywords)
        except TypeError as error:
            raise TypeError(f"{getattr(function, '__qualname__', type(function).__name__)}() {error}") from None
        bound.apply_defaults()
        values = {name: _part(name, bound.arguments[name]) for name in fields}
        filled = tuple(_filled(one, values) for one in keys)
        return filled if isinstance(key, tuple) else filled[0]

    return fill


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    if sys.version_info >= (3, 14):
        # Annotations may name what is imported for checkers of types alone.
        from annotationlib import Format

        return inspect.signature(function, annotation_format=Format.FORWARDREF)
    return inspect.signature(function)


def _names(key: Name) -> set[str]:
    """The names in braces. Bytes are never filled."""
    return {found[1] for found in _BRACES.finditer(key) if found[1]} if isinstance(key, str) else set()


def _filled(key: Name, values: dict[str, str]) -> Name:
    if not isinstance(key, str) or _names(key).isdisjoint(values):
        return key
    # Braces that name no parameter stay, as the tag of a cluster does.
    return _BRACES.sub(lambda found: values.get(found[1], found[0]) if found[1] else found[0][0], key)


def _part(name: str, value: object) -> str:
    """A value as a part of a name. What has no text of its own would be another name each time, or the same for all."""
    if isinstance(value, bytes):
        part = text(value)
    elif isinstance(value, str | int | float) or type(value).__str__ is not object.__str__:
        part = str(value)
    else:
        raise TypeError(f"{name} is {kind(value, name)}, and the key is filled with it: give text, bytes or a number, or a function as the key")
    if "{" in part or "}" in part:
        raise InvalidArgumentError(f"{name} has a brace in it, and the key is filled with it: give one without, or a function as the key")
    return part
