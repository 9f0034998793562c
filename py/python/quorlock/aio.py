"""The API for asyncio: as `quorlock`, with `await` before what waits.

    import quorlock.aio

    async with quorlock.aio.Client(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"]) as client:
        async with client.lock("orders:42") as lease:
            ...

A client may be used from any number of event loops. Cancelling a call ends it in the core too: an acquire that is
cancelled leaves no key behind, a release that is cancelled is carried out all the same.
"""

from types import TracebackType
from typing import Self

from . import _native
from ._aio_election import Election, Observer
from ._aio_lock import Attempt, Lease, Lock, deliver
from ._aio_several import Locks
from ._channel import completed
from ._client import ClientBase, Unmade
from ._inspection import Forced, Inspection
from ._options import Limit, Name, check_flag
from ._probe import Probe
from ._unseen import guarded_coroutine

__all__ = ["Attempt", "Client", "Election", "Lease", "Lock", "Observer"]


class Client(ClientBase[Lock, Locks, Election]):
    """A set of nodes and the options for its locks; options and their meaning as of `quorlock.Client`.

    Connects when first needed and again when connections break. One client serves all event loops of a process. As an
    asynchronous context manager it closes itself.
    """

    __slots__ = ()
    _package = "quorlock.aio"

    def _lock_of(self, core: _native.Lock | Unmade, name: str, named: bool, reentrant: bool, wait: Limit) -> Lock:
        return Lock(core, name, named, reentrant, wait)

    def _locks_of(self, locks: list[Lock]) -> Locks:
        return Locks(locks)

    def _election_of(self, core: _native.Lock | Unmade, name: str) -> Election:
        return Election(core, name)

    @guarded_coroutine
    async def inspect(self, name: Name) -> Inspection:
        return await self.lock(name).inspect()

    @guarded_coroutine
    async def force_release(self, name: Name, fence: int | None = None) -> Forced:
        return await self.lock(name).force_release(fence)

    @guarded_coroutine
    async def adopt(self, text: str) -> Lease:
        return Lease(deliver(await completed(self._core.adopt(text).start)), None)

    async def probe(self) -> Probe:
        return Probe._of(await completed(self._core.probe().start))

    @guarded_coroutine
    async def init_set(self, *, force: bool = False) -> float:
        check_flag("force", force)
        left: float = await completed(self._core.init_set(force).start)
        return left

    async def close(self) -> None:
        await completed(self._core.close().start)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
