"""`redlock(...)`: a lock in one line."""

import functools
import inspect
import os
import sys
from collections.abc import Callable, Coroutine, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from . import _default, _native
from . import sync
from ._lease import shown
from ._options import UNSET, Guard, Limit, Name, Seconds, Unset, check_reentrant, given, lock_options, octets, text
from .errors import InvalidArgumentError
from .sync import Scoped

if TYPE_CHECKING:
    from . import _scope, aio

__all__ = ["redlock"]

_P = ParamSpec("_P")
_R = TypeVar("_R")


class redlock(Scoped):  # noqa: N801 - used as a function and as a decorator
    """Holds a lock for a scope or for the run of a function.

        with redlock("orders:42", ttl=10, wait=10) as lease: ...
        async with redlock("orders:42") as lease: ...

        @redlock("nightly")
        def job(): ...

        @redlock(key=lambda order: f"orders:{order.id}")
        async def handle(order): ...

    - `name`: the lock's name. `key` is another word for it; for a decorator it may be a function that gives the name and
      is called with the arguments of the decorated one.
    - `client`: whose nodes to use, a `quorlock.Client` or a `quorlock.aio.Client`. Without it there is one client for
      all uses with the same `nodes`, `max_ttl`, `node_timeout`, `drift`, `min_validity`, `namespace`, `label`, `fence_ttl`,
      `set_name`, `restart_guard`, `accept_eviction` and `ca`, made at the first use in each process; `nodes` defaults to
      `QUORLOCK_NODES`.
    - `ttl`, `wait`, `renew`, `max_hold`, `raw`, `fencing`, `max_waiters`, `fair`, `owner`, `reentrant`: as of `Client.lock`; times in seconds.

    The object may be used again, and by many threads and tasks at once. Who may re-enter: in `async with` and coroutine
    functions the task, else whoever is called by the holder, see `Lock`. Entering raises what `Lock.acquire` raises. If the body ends normally after the lock was
    lost, `LockLostError` is raised; `async with` also cancels its task at the loss. The body's own exception always wins.
    """

    def __init__(
        self,
        name: Name | None = None,
        *,
        client: "sync.Client | aio.Client | None" = None,
        nodes: str | Iterable[str] | None = None,
        key: Name | Callable[..., Name] | None = None,
        ttl: Seconds | Unset = UNSET,
        wait: Limit = UNSET,
        renew: bool | Unset = UNSET,
        max_hold: Limit = UNSET,
        raw: bool | Unset = UNSET,
        fencing: bool | Unset = UNSET,
        max_waiters: int | Unset = UNSET,
        fair: bool | Unset = UNSET,
        owner: Name | None = None,
        reentrant: bool = True,
        max_ttl: Seconds | Unset = UNSET,
        node_timeout: Seconds | Unset = UNSET,
        drift: float | Unset = UNSET,
        min_validity: float | Unset = UNSET,
        namespace: str | Unset = UNSET,
        label: str | Unset = UNSET,
        fence_ttl: Seconds | Unset = UNSET,
        set_name: str | Unset = UNSET,
        restart_guard: Guard | Unset = UNSET,
        accept_eviction: bool | Unset = UNSET,
        ca: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__()
        if (name is None) == (key is None):
            raise InvalidArgumentError("give the lock's name, as name or as key")
        self._key: Name | Callable[..., Name] = cast("Name | Callable[..., Name]", key if name is None else name)
        check_reentrant(reentrant, owner)
        self._named = owner is not None
        self._reentrant = reentrant
        self._options = lock_options(
            owner,
            ttl=ttl,
            wait=wait,
            renew=renew,
            max_hold=max_hold,
            raw=raw,
            fencing=fencing,
            max_waiters=max_waiters,
            fair=fair,
        )
        self._client = client
        self._nodes = nodes if nodes is None or isinstance(nodes, str) else tuple(nodes)
        self._of_client = given(
            max_ttl=max_ttl,
            node_timeout=node_timeout,
            drift=drift,
            min_validity=min_validity,
            namespace=namespace,
            label=label,
            fence_ttl=fence_ttl,
            set_name=set_name,
            restart_guard=restart_guard,
            accept_eviction=accept_eviction,
            **({} if ca is None else {"ca": ca}),
        )
        if client is not None and (self._of_client or nodes is not None):
            told = ", ".join([*self._of_client, *(["nodes"] if nodes is not None else [])])
            raise InvalidArgumentError(f"a client has its own {told}: give them to the client")
        # Made when first needed: asyncio is not imported for those who do not use it.
        self._task_scopes: _scope.Scopes | None = None

    def _name(self) -> bytes:
        """The name for a scope, which has no arguments to ask for it."""
        if callable(self._key):
            raise InvalidArgumentError("a key that is a function works for a decorator only: give a name")
        return octets("name", self._key)

    def _lock(self, name: bytes) -> _native.Lock:
        client = self._client._core if self._client is not None else _default.client(self._nodes, self._of_client)
        return client.lock(name, self._options)

    def _sync(self, name: bytes) -> sync.Lock:
        return sync.Lock(self._lock(name), text(name), self._named, self._reentrant)

    def _aio(self, name: bytes) -> "aio.Lock":
        from . import aio

        return aio.Lock(self._lock(name), text(name), self._named, self._reentrant)

    def _enter(self) -> sync.Lease:
        return self._sync(self._name())._enter()

    def _of_tasks(self) -> "_scope.Scopes":
        if self._task_scopes is None:
            from . import _scope

            self._task_scopes = _scope.Scopes()
        return self._task_scopes

    # Plain functions, which are called by the very frame that does the `async with`.
    def __aenter__(self) -> "Coroutine[Any, Any, aio.Lease]":
        return self._aenter(id(sys._getframe(1)))

    async def _aenter(self, frame: int) -> "aio.Lease":
        return self._of_tasks().enter(frame, await self._aio(self._name())._acquired({}))

    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Coroutine[Any, Any, None]:
        return self._of_tasks().leave(id(sys._getframe(1)), error)

    def _name_for(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> bytes:
        key = self._key
        return octets("the key", key(*arguments, **keywords) if callable(key) else key)

    def __call__(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        """Decorates a function or coroutine function: each call holds the lock."""
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError("redlock cannot hold a lock for a generator: use `with redlock(...)` inside it")
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def held_by_task(*arguments: _P.args, **keywords: _P.kwargs) -> Any:
                async with self._aio(self._name_for(arguments, keywords)):
                    return await function(*arguments, **keywords)

            return cast(Callable[_P, _R], held_by_task)

        @functools.wraps(function)
        def held_by_thread(*arguments: _P.args, **keywords: _P.kwargs) -> _R:
            with self._sync(self._name_for(arguments, keywords)):
                return function(*arguments, **keywords)

        return held_by_thread

    def __repr__(self) -> str:
        key = self._key
        return f"<quorlock.redlock {key if callable(key) else shown(text(octets('name', key)))}>"
