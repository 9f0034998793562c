"""Who holds a lock, as the nodes have it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

from ._options import text
from ._unseen import shown_unmade

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["Forced", "Holder", "Inspection", "NodeView", "Verdict"]

Verdict = Literal["held", "kept", "free", "split", "unknown"]


@shown_unmade
@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lock, or keeps it."""

    label: str | None
    """The label of its client; `None` where it has none, or is a client of another library."""
    votes: int
    """How many nodes have its vote."""
    left: float | None
    """For how many more seconds a quorum of these votes lasts, unless they are renewed; `None`: they have no end."""
    since: "datetime | None"
    """When it asked for the lock, by the nodes' clocks; `None` where that is not known."""
    fence: int | None
    """The fence of its hold, also where others have asked for the lock in vain since. Of a lease that was passed on within its
    client, or won where nodes had counted differently far, from its next renewal on. Of readers, and of a holder that is known to no
    node by its fence, the largest that a node has counted, which is never less than the holder's."""

    @classmethod
    def _of(cls, parts: tuple[Any, ...] | None) -> Self | None:
        if parts is None:
            return None
        from datetime import UTC, datetime

        label, votes, left, since, fence = parts
        return cls(label, votes, left, None if since is None else datetime.fromtimestamp(since, UTC), fence)


@shown_unmade
@dataclass(frozen=True, slots=True)
class NodeView:
    """What one node has of a lock."""

    node: str
    """The node, as in errors."""
    state: Literal["held", "shared", "kept", "free", "reserved", "foreign", "unknown"]
    """What stands there. `shared`: readers hold it. `reserved`: free, and kept for a waiter that was called. `foreign`: of another
    library, or of none."""
    label: str | None
    """The label of who has the vote."""
    left: float | None
    """For how many more seconds that lasts."""
    fence: int | None
    """The last fence that the node has counted, for the client that asked last."""
    queued: int
    """How many wait in its queue."""
    quarantine: float
    """For how many more seconds it gives no vote, for it may have lost its memory."""
    error: str | None
    """Why it did not say."""


@shown_unmade
@dataclass(frozen=True, slots=True)
class Inspection:
    """What the nodes have of a lock, and what follows from that.

    It tells how it was. A program that wants to act on a lock has to acquire it: between the look and the act it may have been
    released and won again.
    """

    name: str
    """The lock's name."""
    verdict: Verdict
    """`held` or `kept`: a quorum has the vote of one holder, or keeps the lock for one that has released it. `free`: a quorum
    has no vote. `split`: a quorum has answered and does not agree. `unknown`: too few have answered."""
    holder: Holder | None
    """Who holds it, or keeps it."""
    fence: int | None
    """The largest fence that a node has counted, by who holds the lock, or by who asked in vain since: see `Holder.fence`."""
    queued: int
    """How many wait in the queue of the lock: one for each client that waits."""
    nodes: tuple[NodeView, ...]
    """What each node has, in the order of the node list."""
    slots_held: int = 0
    """How many slots are held, of the semaphore that was looked at. Of a lock that is free: of a semaphore that has its name,
    which is another matter, and may be what was meant."""
    slot: int | None = None
    """Which slot of a semaphore that is, if it is one."""
    slots: "tuple[Inspection, ...]" = ()
    """Each slot of a semaphore, in the order of their numbers; none of a lock. A semaphore is `free` where a slot of it is, and has
    no holder of its own."""

    @classmethod
    def _of(cls, parts: tuple[Any, ...]) -> Self:
        name, verdict, holder, fence, queued, nodes, held, slot, slots = parts
        views = tuple(NodeView(*node) for node in nodes)
        of_slots = tuple(cls._of(one) for one in slots)
        return cls(text(name), verdict, Holder._of(holder), fence, queued, views, held, slot, of_slots)


@shown_unmade
@dataclass(frozen=True, slots=True)
class Forced:
    """What a forced release has met and done: a quorum of nodes is free of the holder that the lock had before."""

    found: Inspection
    """How the lock stood before."""
    freed: int
    """How many votes were taken away; 0 where nothing was there any more."""

    @property
    def holder(self) -> Holder | None:
        """Who held it, or kept it; `None` where a quorum agreed on no holder."""
        return self.found.holder

    @classmethod
    def _of(cls, parts: tuple[Any, ...]) -> Self:
        found, freed = parts
        return cls(Inspection._of(found), freed)
