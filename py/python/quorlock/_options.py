"""Options: what was given, and what was not."""

import os
from collections.abc import Callable, Iterable
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from . import _native
from .errors import InvalidArgumentError


_T = TypeVar("_T")


class Unset(Enum):
    """The type of `UNSET`."""

    UNSET = "unset"

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset.UNSET
"""An option that is not given, where `None` means something: no limit."""

if TYPE_CHECKING:
    from datetime import timedelta

    Seconds: TypeAlias = float | timedelta
else:
    # Who gives no timedelta imports no datetime.
    Seconds = float
"""A time in seconds, as int or float, or a `datetime.timedelta`."""

Limit: TypeAlias = Seconds | None | Unset
"""A time, or `None` for no limit."""

Name: TypeAlias = str | bytes
"""Text, or bytes that need not be text."""


def given(**options: Any) -> dict[str, Any]:
    """Those of the options that were given."""
    return {name: value for name, value in options.items() if value is not UNSET}


def kind(value: object, option: str = "") -> str:
    """A value that is refused, for a message. It may hold the URL of a node, and with it a password: the native module says what
    is shown."""
    return _native.given(option, value)


def checked(what: str, name: bytes) -> bytes:
    """A name that everybody may see."""
    secret = _native.secret_in(name)
    if secret is not None:
        # In the words of the core, for it may be shown before that sees it.
        raise InvalidArgumentError(secret.replace("{what}", "the lock name" if what in ("name", "key", "the key") else what))
    return name


def octets(what: str, name: Name) -> bytes:
    """A name as bytes. Bytes that are not text may come as surrogate escapes, as `shown` makes them."""
    if isinstance(name, bytes):
        return checked(what, name)
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"{what} is {kind(name)}: give text, or bytes")
    try:
        return checked(what, name.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"{what} is {kind(name, what)}: it has no form in UTF-8") from None


def text(name: bytes) -> str:
    """A name as text; bytes that are not text become surrogate escapes."""
    return name.decode("utf-8", "surrogateescape")


_SHOWN: Final = 64


def shown(name: str) -> str:
    """A name for a message: escaped, and cut."""
    escaped = ascii(name)
    return escaped if len(escaped) <= _SHOWN else escaped[: _SHOWN - 1] + "…"


_LISTED: Final = 1_000


def listed(what: str, values: Iterable[_T], give: str) -> list[_T]:
    """What was given as a list, or by an iterator, which may have no end."""
    if not isinstance(values, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"{what} is {kind(values, what)}: give {give}")
    found = list(islice(values, _LISTED + 1))
    if len(found) > _LISTED:
        raise InvalidArgumentError(f"{what} has more than {_LISTED:,} entries: give fewer")
    return found


def urls(what: str, nodes: str | Iterable[str]) -> tuple[str, ...]:
    """A node list, or one in a text, split at commas and blanks as in QUORLOCK_NODES."""
    if isinstance(nodes, str):
        return tuple(nodes.replace(",", " ").split())
    return tuple(listed(what, nodes, "URLs, as a list or in one text"))


def environment() -> tuple[tuple[str, str], ...]:
    """The variables of Quorlock, of which the core reads those whose options are not given. Bytes that are not UTF-8 come as surrogate
    escapes here, and as replacement characters there, which it refuses."""
    ours = ((name, value) for name, value in os.environ.items() if name.startswith("QUORLOCK_"))
    return tuple(sorted((name, value.encode(errors="surrogateescape").decode(errors="replace")) for name, value in ours))


def pem(name: str, value: str | os.PathLike[str]) -> str:
    """A certificate or key: its path, or its text."""
    if not isinstance(value, str | os.PathLike):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"{name} is {kind(value, name)}: give the path of a PEM file, or its text")
    return os.fsdecode(value)


_CONVERTED: Final[dict[str, Callable[[str, Any], object]]] = {
    # Made from core/options.toml: what is converted.
    "nodes": urls,
    "ca": pem,
    "cert": pem,
    "key": pem,
    "owner": octets,
    "cert_key": pem,
    # End of what is made.
}


def native(**options: Any) -> dict[str, Any]:
    """Those of the options that were given, as the native module takes them. `None` for what is converted is as if it was not given."""
    made: dict[str, Any] = {}
    for name, value in options.items():
        if value is UNSET:
            continue
        convert = _CONVERTED.get(name)
        if convert is None:
            made[name] = value
        elif value is not None:
            made[name] = convert(name, value)
    return made


def tries_once(wait: object) -> bool:
    """Whether it is no time at all."""
    return wait is not None and not wait


def check_flag(what: str, value: object) -> None:
    """Refuses what is no flag."""
    if not isinstance(value, bool):
        raise TypeError(f"{what} is {kind(value)}: give True or False")


def check_function(what: str, value: object) -> None:
    """Refuses what cannot be called."""
    if not callable(value):
        raise TypeError(f"{what} is {kind(value)}: give a function")


def check_reentrant(reentrant: bool | Unset, owner: Name | None) -> None:
    """Refuses what is no flag, and an owner where no caller re-enters."""
    if reentrant is not UNSET:
        check_flag("reentrant", reentrant)
    if owner is not None and not reentrant:
        raise InvalidArgumentError("owner names who may re-enter: with reentrant=False nobody does, so give one of them")


def enters(reentrant: bool | Unset, slots: int | Unset, owner: Name | None) -> bool:
    """Whether its holder enters it again. The holder of a slot of a semaphore may want another slot, unless it has a name."""
    return bool(reentrant) and (slots is UNSET or owner is not None)


def call_options(blocking: bool, timeout: Limit, wait: Limit, label: str | Unset) -> dict[str, Any]:
    """The options of one call. There are three ways to say its wait, one at a time. A timeout of -1 is none, as in `threading`."""
    if timeout == -1:
        timeout = None if blocking else UNSET
    if blocking and timeout is UNSET and wait is UNSET:
        return {} if label is UNSET else {"label": label}
    if timeout is not UNSET and wait is not UNSET:
        raise InvalidArgumentError("timeout is another word for wait: give one of them")
    # In the word that was given.
    asked = wait if timeout is UNSET else _native.seconds_of("timeout", timeout)
    if not blocking:
        if asked is not UNSET:
            raise InvalidArgumentError("a call with blocking=False does not wait: give no timeout")
        asked = 0
    return given(wait=asked, label=label)
