"""Options: what was given, and what was not."""

import os
from collections.abc import Iterable
from enum import Enum
from itertools import islice
from typing import Final, Literal, TypeAlias, TypeVar

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

Seconds: TypeAlias = float
"""A time in seconds, as int or float."""

Limit: TypeAlias = float | None | Unset
"""A time in seconds, or `None` for no limit."""

Guard: TypeAlias = Literal["auto", "on", "off"] | bool
Layout: TypeAlias = Literal["plain", "redisson"]
"""Whether restarts are guarded: a word, or true for `"on"` and false for `"off"`."""

Name: TypeAlias = str | bytes
"""Text, or bytes that need not be text."""


def given(**options: object) -> dict[str, object]:
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


def urls(nodes: str | Iterable[str]) -> list[str]:
    """A node list, or one in a text, split at commas and blanks as in QUORLOCK_NODES."""
    if isinstance(nodes, str):
        return nodes.replace(",", " ").split()
    return listed("nodes", nodes, "URLs, as a list or in one text")


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


def client_options(
    nodes: str | Iterable[str] | None = None,
    *,
    restart_guard: Guard | Unset = UNSET,
    ca: str | os.PathLike[str] | None = None,
    cert: str | os.PathLike[str] | None = None,
    key: str | os.PathLike[str] | None = None,
    **options: object,
) -> dict[str, object]:
    """A client's options as the native module takes them, but for the nodes that the environment names."""
    files = {name: pem(name, file) for name, file in (("ca", ca), ("cert", cert), ("key", key)) if file is not None}
    listed: dict[str, object] = {} if nodes is None else {"nodes": urls(nodes)}
    if not isinstance(restart_guard, str | bool | Unset):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f'restart_guard is {kind(restart_guard)}: give "auto", "on" or "off"')
    if isinstance(restart_guard, bool):
        restart_guard = "on" if restart_guard else "off"
    return given(**options, restart_guard=restart_guard, **files, **listed)


def lock_options(owner: Name | Unset | None = UNSET, **options: object) -> dict[str, object]:
    """A lock's options as the native module takes them."""
    owned = {} if owner is UNSET or owner is None else {"owner": octets("owner", owner)}
    return given(**options, **owned)


def check_flag(what: str, value: object) -> None:
    """Refuses what is no flag."""
    if not isinstance(value, bool):
        raise TypeError(f"{what} is {kind(value)}: give True or False")


def check_function(what: str, value: object) -> None:
    """Refuses what cannot be called."""
    if not callable(value):
        raise TypeError(f"{what} is {kind(value)}: give a function")


def check_reentrant(reentrant: bool, owner: Name | None) -> None:
    """Refuses what is no flag, and an owner where nobody re-enters."""
    check_flag("reentrant", reentrant)
    if owner is not None and not reentrant:
        raise InvalidArgumentError("owner names who may re-enter: with reentrant=False nobody does, so give one of them")


def enters(reentrant: bool, slots: int | Unset, owner: Name | None) -> bool:
    """Whether who holds it enters it again. Whoever has a slot of a semaphore is one who may want another, unless it has a name."""
    return reentrant and (slots is UNSET or owner is not None)


def call_options(blocking: bool, timeout: Limit, wait: Limit, label: str | Unset) -> dict[str, object]:
    """The options of one call. There are three ways to say its wait, one at a time. A timeout of -1 is none, as in `threading`."""
    if timeout == -1:
        timeout = None if blocking else UNSET
    if blocking and timeout is UNSET and wait is UNSET:
        return given(label=label)
    if timeout is not UNSET and wait is not UNSET:
        raise InvalidArgumentError("timeout is another word for wait: give one of them")
    asked = wait if timeout is UNSET else timeout
    if not blocking:
        if asked is not UNSET:
            raise InvalidArgumentError("a call with blocking=False does not wait: give no timeout")
        asked = 0
    return given(wait=asked, label=label)
