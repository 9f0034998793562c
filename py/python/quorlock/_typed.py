"""The options of what takes them by `**`, for checkers of types. Made from core/options.toml by tests/options/definition.py."""

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal, TypedDict

from ._options import Name, Seconds

if TYPE_CHECKING:
    from . import aio, sync


class SemaphoreOptions(TypedDict, total=False):
    ttl: Seconds
    wait: float | None
    renew: bool
    max_hold: float | None
    label: str
    fencing: bool
    max_waiters: int
    fair: bool
    keep: Seconds
    reentrant: bool
    group: str
    owner: Name | None


class RWLockOptions(TypedDict, total=False):
    ttl: Seconds
    wait: float | None
    renew: bool
    max_hold: float | None
    label: str
    fencing: bool
    max_waiters: int
    fair: bool
    reentrant: bool
    group: str
    owner: Name | None


class SeveralOptions(TypedDict, total=False):
    ttl: Seconds
    wait: float | None
    renew: bool
    max_hold: float | None
    raw: bool
    layout: Literal["plain", "redisson"]
    label: str
    fencing: bool
    max_waiters: int
    fair: bool
    keep: Seconds
    reentrant: bool
    group: str
    shared: bool
    slots: int
    owner: Name | None


class WhereOptions(TypedDict, total=False):
    client: "sync.Client | aio.Client | None"
    nodes: str | Iterable[str] | None
    max_ttl: Seconds
    node_timeout: Seconds
    connect_timeout: Seconds
    drift: float
    min_validity: float
    namespace: str
    fence_ttl: Seconds
    set_name: str
    restart_guard: Literal["auto", "on", "off"] | bool
    accept_eviction: bool
    wait_replicas: int
    ca: str | os.PathLike[str] | None
    cert: str | os.PathLike[str] | None
    cert_key: str | os.PathLike[str] | None


class ScopeOptions(WhereOptions, total=False):
    key: Name | Iterable[Name] | Callable[..., Name | Iterable[Name]] | None
    ttl: Seconds
    wait: float | None
    renew: bool
    max_hold: float | None
    raw: bool
    layout: Literal["plain", "redisson"]
    label: str
    fencing: bool
    max_waiters: int
    fair: bool
    keep: Seconds
    reentrant: bool
    group: str
    shared: bool
    slots: int
    owner: Name | None


class ScopeOfSlotsOptions(WhereOptions, total=False):
    ttl: Seconds
    wait: float | None
    renew: bool
    max_hold: float | None
    label: str
    fencing: bool
    max_waiters: int
    fair: bool
    keep: Seconds
    reentrant: bool
    group: str
    owner: Name | None


class OnceOptions(WhereOptions, total=False):
    key: Name | Callable[..., Name] | None
    ttl: Seconds
    renew: bool
    max_hold: float | None
    raw: bool
    label: str
    fencing: bool
    max_waiters: int
    fair: bool
    keep: Seconds
    group: str
