"""What Quorlock raises: one class for each kind of error, all of them a `QuorlockError`.

A kind says what the caller should do. Its name and number are the same in every language and never change.
"""

from collections.abc import Iterable
from typing import ClassVar

__all__ = [
    # Made from core/vocabulary.toml: names.
    "ClientClosedError",
    "ForkedProcessError",
    "InternalError",
    "InvalidArgumentError",
    "LockBusyError",
    "LockContendedError",
    "LockLostError",
    "LockTimeoutError",
    "MisconfiguredError",
    "NotOwnerError",
    "QuorlockError",
    "QuorumUnavailableError",
    "TooManyWaitersError",
    "WouldDeadlockError",
    # End of what is made.
]


def led(summary: str, message: str) -> str:
    """A message behind the sentence of its kind, unless it begins with that by itself."""
    if message[: len(summary)].lower() == summary.lower():
        return summary + message[len(summary) :]
    return f"{summary}: {message}" if message else summary


class QuorlockError(Exception):
    """The base of all errors of Quorlock."""

    kind: ClassVar[str] = "Internal"
    """The kind's name, such as `"Timeout"`."""
    summary: ClassVar[str] = "Quorlock itself failed"
    """What the kind means in one sentence, without its full stop: what the text of every error of it begins with, and errors can be
    grouped by."""
    number: ClassVar[int] = 12
    """The kind's number."""
    nodes: list[tuple[str, str]]
    """What each node answered, as (node, answer), in the order of the node list. Empty where they played no part."""
    name: str | None = None
    """The name of the lock that it is about."""
    holder: str | None = None
    """The label of the lock's holder, where a node has given it. A wait that ends (`LockTimeoutError`) nearly always has it; a
    try (`LockContendedError`) is mostly refused by a command that does not tell: ask `Lock.holder`."""

    def __init__(self, message: str = "", nodes: Iterable[tuple[str, str]] = ()) -> None:
        super().__init__(led(self.summary, message))
        self.nodes = list(nodes)


class LockBusyError(QuorlockError):
    """The lock is held by another: `LockContendedError` or `LockTimeoutError`."""

    summary = "The lock is held by another"


# Made from core/vocabulary.toml: classes.
class InvalidArgumentError(QuorlockError, ValueError):
    """An argument or option is not valid. Fix the call."""

    kind = "InvalidArgument"
    summary = "An argument or option is not valid"
    number = 1


class LockContendedError(LockBusyError):
    """The lock is held by another, and the call was told not to wait."""

    kind = "Contended"
    summary = "The lock is held by another"
    number = 2


class LockTimeoutError(LockBusyError, TimeoutError):
    """The wait is over and the lock is still held by another."""

    kind = "Timeout"
    summary = "The wait is over, and the lock was not won"
    number = 3


class QuorumUnavailableError(QuorlockError):
    """Too few nodes answered for a decision. Look at the nodes."""

    kind = "QuorumUnavailable"
    summary = "Too few nodes answered"
    number = 4


class LockLostError(QuorlockError):
    """The lease is held no longer. Stop the protected work."""

    kind = "LockLost"
    summary = "The lock is held no longer"
    number = 5


class NotOwnerError(QuorlockError, RuntimeError):
    """Release or extension by an owner that holds nothing. A `RuntimeError` too, as of `threading.Lock`."""

    kind = "NotOwner"
    summary = "The owner holds nothing"
    number = 6


class TooManyWaitersError(QuorlockError):
    """As many calls of this client wait for the lock as `max_waiters` allows. Shed load."""

    kind = "TooManyWaiters"
    summary = "Too many calls wait for the lock"
    number = 7


class MisconfiguredError(QuorlockError):
    """Nodes or credentials are set up wrong. Never retried: fix the settings."""

    kind = "Misconfigured"
    summary = "Nodes or credentials are set up wrong"
    number = 8


class ClientClosedError(QuorlockError):
    """The client is closed. Make a new one."""

    kind = "Closed"
    summary = "The client is closed"
    number = 10


class ForkedProcessError(QuorlockError):
    """The client was used before this process was forked, or the lease is the parent's. Make a client here."""

    kind = "Forked"
    summary = "The client is that of the process before the fork"
    number = 11


class InternalError(QuorlockError):
    """A bug in Quorlock, or a panic caught at its boundary. Report it."""

    kind = "Internal"
    summary = "Quorlock itself failed"
    number = 12


class WouldDeadlockError(QuorlockError, RuntimeError):
    """The call would wait for itself: for a scope around it that does not let it in, for another task or greenlet of its own thread,
    or, where it shares the lock and wants it for itself, for another that does the same. The message says what to do instead.
    """

    kind = "WouldDeadlock"
    summary = "The call would wait for itself"
    number = 13


_CLASSES: dict[int, type[QuorlockError]] = {
    each.number: each
    for each in (
        InvalidArgumentError,
        LockContendedError,
        LockTimeoutError,
        QuorumUnavailableError,
        LockLostError,
        NotOwnerError,
        TooManyWaitersError,
        MisconfiguredError,
        ClientClosedError,
        ForkedProcessError,
        InternalError,
        WouldDeadlockError,
    )
}
# End of what is made.
_CANCELLED = 9


def make(
    number: int, message: str, nodes: list[tuple[str, str]], name: bytes | None, holder: str | None
) -> BaseException:
    """The exception for a kind's number; the native module calls it."""
    if number == _CANCELLED:
        # A cancelled call is reported in the language's own way. Where asyncio is not in use that is Ctrl-C.
        return KeyboardInterrupt(message)
    error = _CLASSES[number](message, nodes)
    # Attributes, for what users derive takes message and nodes.
    if name is not None:
        error.name = name.decode(errors="surrogateescape")
    error.holder = holder
    return error
