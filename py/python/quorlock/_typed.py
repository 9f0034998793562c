"""The options of `redlock` and `once`, for checkers of types. Made from core/options.toml by tests/options/definition.py."""

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal, TypedDict

from ._options import Name, Seconds

if TYPE_CHECKING:
    from . import aio, sync


class OfBoth(TypedDict, total=False):
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
    ttl: Seconds
    renew: bool
    max_hold: Seconds | None
    raw: bool
    label: str
    fencing: bool
    max_waiters: int
    fair: bool
    keep: Seconds
    group: str


class ScopeOptions(OfBoth, total=False):
    key: Name | Iterable[Name] | Callable[..., Name | Iterable[Name]] | None
    wait: Seconds | None
    layout: Literal["plain", "redisson"]
    reentrant: bool
    shared: bool
    slots: int
    owner: Name | None
    confirm: bool


class OnceOptions(OfBoth, total=False):
    key: Name | Callable[..., Name] | None
