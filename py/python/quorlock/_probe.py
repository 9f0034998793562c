"""The state of a set and of its nodes."""

from dataclasses import dataclass
from typing import Any, Literal, Self

from ._unseen import shown_unmade

__all__ = ["Finding", "NodeReport", "Probe"]


@shown_unmade
@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a probe has found. `docs/operations/doctor.md` lists all that there are."""

    id: str
    """Which one it is, such as `QD01`: the same forever."""
    severity: Literal["note", "warning", "error"]
    """`error`: it costs a vote, or breaks what is promised. `warning`: to be fixed, or waited for. `note`: worth knowing."""
    what: str
    """What is wrong, without secrets."""
    remedy: str
    """What to do about it."""


@shown_unmade
@dataclass(frozen=True, slots=True)
class NodeReport:
    """The state of one node. What is not known of one that cannot be used is `None`."""

    node: str
    """The node, as in errors; never with credentials."""
    answers: bool
    """Whether it has answered."""
    votes: bool
    """Whether it would give a vote now."""
    round_trip: tuple[float, float] | None
    """The shortest of a few round trips, and the one in the middle of them."""
    server: Literal["redis", "valkey", "memory"] | None
    """What it is; `memory` for a node within the process."""
    version: str | None
    """The version of that."""
    role: Literal["master", "replica"] | None
    """What it is among its replicas."""
    uptime: float | None
    """For how long it has run."""
    clock: float | None
    """How far its clock is ahead of the one in the middle of the set's; negative: it is behind."""
    clock_error: float | None
    """By how much that may be wrong."""
    eviction: str | None
    """Its eviction policy."""
    memory_used: int | None
    """How much memory it uses, in bytes."""
    memory_limit: int | None
    """How much it may use, in bytes; `None` also where it has no limit."""
    record: Literal["expected", "none", "other", "unknown"]
    """Its record; `unknown` where that was not read. A node within the process needs none: `expected`."""
    differences: tuple[str, ...]
    """What of its record is not as this client expects it, field by field."""
    quarantine: float
    """How much longer it gives no vote, for it may have lost its memory."""
    release: Literal["delifeq", "delex", "script"] | None
    """How votes are given back there; `None` where that was not tried."""
    findings: tuple[Finding, ...]
    """What is to be said of it, the gravest first."""

    @classmethod
    def _of(cls, parts: tuple[Any, ...]) -> Self:
        is_, (clock, error, eviction, used, limit, record, differences, *rest), findings = parts
        has = (clock, error, eviction, used, limit, record, tuple(differences), *rest)
        values: list[Any] = [*is_, *has, tuple(Finding(*found) for found in findings)]
        return cls(*values)


@shown_unmade
@dataclass(frozen=True, slots=True)
class Probe:
    """The state of a client's set."""

    set_name: str
    """The name of the set."""
    quorum: int
    """How many nodes must vote for a lock."""
    max_ttl: float
    """The longest ttl of its locks, as this client has it."""
    guard: bool
    """Whether this client guards restarts."""
    votes: int
    """How many nodes would give a vote now."""
    health: Literal["works", "works_but", "cannot"]
    """`works`: a quorum votes, and there is nothing to fix. `works_but`: a quorum votes, and there is a warning or an error.
    `cannot`: no lock can be won now."""
    findings: tuple[Finding, ...]
    """What is to be said of the set as a whole."""
    nodes: tuple[NodeReport, ...]
    """The nodes, in the order of the node list."""

    @classmethod
    def _of(cls, parts: tuple[Any, ...]) -> Self:
        *first, findings, nodes = parts
        values: list[Any] = [*first, tuple(Finding(*found) for found in findings), tuple(NodeReport._of(node) for node in nodes)]
        return cls(*values)
