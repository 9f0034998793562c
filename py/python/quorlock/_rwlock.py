"""The two modes of one lock."""

from typing import Generic, Protocol, TypeVar

from ._lease import shown
from ._unseen import shown_unmade


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_L = TypeVar("_L", bound=_Named)


@shown_unmade
class RWLock(Generic[_L]):
    """The two modes of one lock: `read()` is shared by many, `write()` is for one alone.

        prices = client.rwlock("prices")
        with prices.read():
            ...
        with prices.write() as lease:
            ...

    Readers that come while a writer waits for the lock are served after that writer. A caller that shares the lock and asks for it
    alone gets `WouldDeadlockError` at once; `lease.downgrade()` goes the other way.
    """

    __slots__ = ("_read", "_write")

    def __init__(self, read: _L, write: _L) -> None:
        super().__init__()
        self._read = read
        self._write = write

    def read(self) -> _L:
        """The lock as many share it. The same at every call."""
        return self._read

    def write(self) -> _L:
        """The lock as one has it alone. The same at every call."""
        return self._write

    def __repr__(self) -> str:
        return f"<quorlock.RWLock {shown(self._read.name)}>"
