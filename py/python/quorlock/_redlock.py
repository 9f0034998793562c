"""`redlock(...)`: a lock in one line."""

# A program that only runs this reads no annotations.
from __future__ import annotations

import contextlib
import functools
import inspect
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeAlias, TypeVar, cast, overload

from . import _default, _native
from . import sync
from ._client import UNNAMED, ClientBase
from ._functions import called, goes_on, is_begun, is_class, runs_as, whole
from ._lease import awaited, shown
from ._lock import Scoped
from ._options import (
    UNSET,
    Limit,
    Name,
    Seconds,
    Unset,
    check_reentrant,
    enters,
    given,
    kind,
    listed,
    native,
    octets,
    text,
)
from ._unseen import Unseen, guarded, guarded_coroutine, has_every_option, shown_unmade
from .errors import InvalidArgumentError

if TYPE_CHECKING:
    from types import CoroutineType
    from typing import Unpack

    from . import _scope, aio
    from ._aio_several import Leases as AioLeases
    from ._several import Leases
    from ._typed import OnceOptions, ScopeOptions

__all__ = ["once", "redlock", "semaphore"]

_Octets: TypeAlias = bytes | tuple[bytes, ...]
"""One name, or several."""

_P = ParamSpec("_P")
_R = TypeVar("_R")


class _ForBoth(Scoped):
    """What can be entered by `with` and by `async with`."""

    def _of_tasks(self) -> _scope.Scopes:
        # Made when first needed: a program that does not use asyncio does not import it.
        known: _scope.Scopes | None = vars(self).get("_task_scopes")
        if known is not None:
            return known
        from ._scope import Scopes

        # The loops of two threads may come here at once. They agree on the first.
        made: _scope.Scopes = vars(self).setdefault("_task_scopes", Scopes())
        return made

    # Plain functions, which are called by the very frame that does the `async with`.
    @awaited
    def __aenter__(self) -> Coroutine[Any, Any, Any]:
        return self._aenter(self._of_tasks().place(sys._getframe(1)))

    async def _aenter(self, place: _native.Place) -> Any:
        scopes = self._of_tasks()
        return scopes.enter(place, await self._aentered(scopes.in_doubt()))

    @guarded_coroutine
    async def _aentered(self, at_once: bool) -> Any:
        raise NotImplementedError

    @awaited
    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Coroutine[Any, Any, None]:
        return self._of_tasks().leave(self, sys._getframe(1), error)


@shown_unmade
class _Redlock(_ForBoth):
    """What `redlock` does; of the latter are the types that follow from a name or several."""

    @guarded
    @has_every_option
    def __init__(
        self,
        name: Name | Iterable[Name] | None = None,
        *,
        client: sync.Client | aio.Client | None = None,
        key: Name | Iterable[Name] | Callable[..., Name | Iterable[Name]] | None = None,
        # Made from core/options.toml: the options of a scope.
        ttl: Seconds | Unset = UNSET,
        wait: Seconds | None | Unset = UNSET,
        renew: bool | Unset = UNSET,
        max_hold: Seconds | None | Unset = UNSET,
        raw: bool | Unset = UNSET,
        layout: Literal["plain", "redisson"] | Unset = UNSET,
        label: str | Unset = UNSET,
        fencing: bool | Unset = UNSET,
        max_waiters: int | Unset = UNSET,
        fair: bool | Unset = UNSET,
        keep: Seconds | Unset = UNSET,
        reentrant: bool | Unset = UNSET,
        group: str | Unset = UNSET,
        shared: bool | Unset = UNSET,
        slots: int | Unset = UNSET,
        owner: Name | None = None,
        confirm: bool | Unset = UNSET,
        nodes: str | Iterable[str] | None = None,
        max_ttl: Seconds | Unset = UNSET,
        node_timeout: Seconds | Unset = UNSET,
        connect_timeout: Seconds | Unset = UNSET,
        drift: float | Unset = UNSET,
        min_validity: float | Unset = UNSET,
        namespace: str | Unset = UNSET,
        fence_ttl: Seconds | Unset = UNSET,
        set_name: str | Unset = UNSET,
        restart_guard: Literal["auto", "on", "off"] | bool | Unset = UNSET,
        accept_eviction: bool | Unset = UNSET,
        wait_replicas: int | Unset = UNSET,
        ca: str | os.PathLike[str] | None = None,
        cert: str | os.PathLike[str] | None = None,
        cert_key: str | os.PathLike[str] | None = None,
        # End of what is made.
    ) -> None:
        self._key: Callable[..., Name | Iterable[Name]] | None = None
        self._octets: _Octets | None = None
        # What a decorator may fill: a key that has braces.
        self._template: Name | tuple[Name, ...] | None = None
        if (name is None) == (key is None):
            raise InvalidArgumentError("give the lock's name, as name or as key")
        if callable(name):
            raise TypeError(f'redlock was given {called(name)} in place of a name: write @redlock("a name") above the function')
        self._key = key if callable(key) else None
        if not callable(key):
            if key is None:
                self._octets = _octets("name", cast("Name | Iterable[Name]", name))
            else:
                one = _one_or_several("key", key)
                self._octets = _octets("key", one)
                if any(isinstance(each, str) and "{" in each for each in (one if isinstance(one, tuple) else (one,))):
                    self._template = one
        check_reentrant(reentrant, owner)
        self._named = owner is not None
        self._reentrant = enters(reentrant, slots, owner)
        # Nothing of it is checked yet, so any of it may be a secret.
        self._options: Unseen[dict[str, Any]] = Unseen(native(
            # Made from core/options.toml: what a scope gives to its lock.
            ttl=ttl,
            wait=wait,
            renew=renew,
            max_hold=max_hold,
            raw=raw,
            layout=layout,
            label=label,
            fencing=fencing,
            max_waiters=max_waiters,
            fair=fair,
            keep=keep,
            reentrant=reentrant,
            group=group,
            shared=shared,
            slots=slots,
            owner=owner,
            confirm=confirm,
            # End of what is made.
        ))
        if client is not None and not isinstance(client, ClientBase):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"client is {kind(client)}: give a quorlock.Client")
        self._client = client
        of_client = native(
            # Made from core/options.toml: what a scope gives to its client.
            nodes=nodes,
            max_ttl=max_ttl,
            node_timeout=node_timeout,
            connect_timeout=connect_timeout,
            drift=drift,
            min_validity=min_validity,
            namespace=namespace,
            fence_ttl=fence_ttl,
            set_name=set_name,
            restart_guard=restart_guard,
            accept_eviction=accept_eviction,
            wait_replicas=wait_replicas,
            ca=ca,
            cert=cert,
            cert_key=cert_key,
            # End of what is made.
        )
        self._where = Unseen(of_client)
        if (cert is None) != (cert_key is None):
            raise InvalidArgumentError("cert and cert_key go together: give both")
        if client is not None and of_client:
            raise InvalidArgumentError(f"a client has its own {', '.join(of_client)}: give them to the client")

    def _name(self) -> _Octets:
        """The name for a scope, which has no arguments to ask for it."""
        if self._octets is None:
            raise InvalidArgumentError("a key that is a function works for a decorator only: give a name")
        return self._octets

    def _lock(self, name: bytes) -> _native.Lock:
        client = self._client._core if self._client is not None else _default.client(None, self._where())
        return client.lock(name, self._options())

    def _waits(self) -> Any:
        """How long it waits."""
        return self._options().get("wait", UNSET if self._client is None else self._client._wait)

    def _check(self, is_filled: bool) -> None:
        """Refuses names and options that are not valid, before anything is locked. Starts nothing and keeps nothing. What a key is filled
        with, a call tells."""
        client = self._client._checked() if self._client is not None else self._throwaway()
        name = b"any" if self._octets is None or is_filled else self._octets
        names = (name,) if isinstance(name, bytes) else name
        _native.check_all([client.lock(name, self._options()) for name in names])

    @guarded
    def _throwaway(self) -> _native.Client:
        # Which nodes the environment names is known when the function is called.
        return _native.Client({"nodes": UNNAMED, **self._where()})

    # Of one name a lock, of several locks: these have the same methods.
    @guarded
    def _sync(self, name: _Octets) -> Any:
        if isinstance(name, tuple):
            from ._several import Locks

            return Locks([self._sync(one) for one in name])
        return sync.Lock(self._lock(name), text(name), self._named, self._reentrant, self._waits())

    @guarded
    def _aio(self, name: _Octets) -> Any:
        if isinstance(name, tuple):
            from ._aio_several import Locks

            return Locks([self._aio(one) for one in name])
        from . import aio

        return aio.Lock(self._lock(name), text(name), self._named, self._reentrant, self._waits())

    @guarded
    def _of_thread(self, name: _Octets) -> Any:
        """What a decorated function runs in; where that gives no lease it is left out."""
        return self._sync(name)

    @guarded
    def _of_task(self, name: _Octets) -> Any:
        return self._aio(name)

    @guarded
    def attempt(self, wait: Limit = 0) -> Attempt:
        """The same for work that is left out where others hold the lock.

            with redlock("orders:42").attempt() as lease:
                if lease:
                    ...

            @redlock("nightly").attempt(wait=3)
            def job(): ...

        A scope is entered with `None` in place of a lease there, for a `with` cannot leave its body out; a decorated function
        is not called, and gives `None`. `wait`, in seconds, takes the place of the one given to `redlock`: 0 tries once. Raises
        as `redlock` otherwise.
        """
        return Attempt(self, wait)

    @guarded
    def _enter(self, at_once: bool = False) -> Any:
        return self._sync(self._name())._enter(at_once)

    @guarded_coroutine
    async def _aentered(self, at_once: bool) -> Any:
        return await self._aio(self._name())._entered(at_once)

    @guarded
    def _name_for(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> _Octets:
        return self._name() if self._key is None else _octets("the key", self._key(*arguments, **keywords))

    def _filling(self, function: Callable[..., Any]) -> Callable[[tuple[Any, ...], dict[str, Any]], _Octets] | None:
        """What fills the key for a call of the function; `None` where it is filled with nothing."""
        if self._template is None:
            return None
        from ._template import filling

        fill = filling(function, self._template)
        return None if fill is None else guarded(lambda arguments, keywords: _octets("the key", fill(arguments, keywords)))

    @guarded
    def __call__(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        """Decorates a function or coroutine function: each call holds the lock.

        Names and options that are not valid are refused when it decorates, but for what only a call tells: a name that `key`
        gives, and nodes of the environment.

        Of what is called, not only of functions: an object with `async def __call__`, a `functools.partial`, a static method.
        A function of `contextlib.contextmanager` or `asynccontextmanager` holds the lock until what it gives is left. A class and a
        generator are refused, and so is a function when it returns what would go on without the lock: a generator or another
        iterator, something to be awaited, a future, a context manager of `contextlib`. A coroutine is closed and a task or future
        cancelled: nothing of it has run, or it is waited for.
        """
        return self._decorated(function, self._of_thread, self._of_task)

    def _decorated(
        self,
        function: Callable[_P, _R],
        of_thread: Callable[[_Octets], Any],
        of_task: Callable[[_Octets], Any],
    ) -> Callable[_P, _R]:
        """The function, run in what `of_thread` or `of_task` gives for the lock's name."""
        method: Any = function
        if isinstance(method, staticmethod | classmethod):
            inner: Any = cast(Any, method).__func__
            return cast(Callable[_P, _R], type(cast(Any, method))(self._decorated(inner, of_thread, of_task)))
        if not callable(function):
            raise TypeError(f"redlock holds a lock for the run of a function, and {kind(function)} is none")
        if is_class(function):
            raise TypeError(
                f"redlock holds a lock for the run of a function, and {kind(function)} is a class: its methods would run without the "
                "lock. Decorate these"
            )
        fill = self._filling(function)
        self._check(fill is not None)
        name_for = self._name_for if fill is None else fill
        maker = whole(function)
        if maker is not None:
            return cast(Callable[_P, _R], self._while_open(function, maker, name_for, of_thread, of_task))
        if runs_as(inspect.isgeneratorfunction, function) or runs_as(inspect.isasyncgenfunction, function):
            raise TypeError("redlock cannot hold a lock for a generator: use `with redlock(...)` inside it")
        if runs_as(inspect.iscoroutinefunction, function):

            @functools.wraps(function)
            async def held_by_task(*arguments: _P.args, **keywords: _P.kwargs) -> Any:
                try:
                    async with of_task(name_for(arguments, keywords)) as lease:
                        if lease is None:
                            return None
                        result = await cast("Awaitable[Any]", function(*arguments, **keywords))
                        if is_begun(result):
                            raise goes_on(function, result)
                        return result
                except Exception:
                    # Arguments may be a part of a request, and are not to be seen in this frame.
                    del arguments, keywords
                    raise

            return cast(Callable[_P, _R], held_by_task)

        @functools.wraps(function)
        def held_by_thread(*arguments: _P.args, **keywords: _P.kwargs) -> _R:
            try:
                with of_thread(name_for(arguments, keywords)) as lease:
                    if lease is None:
                        return cast(_R, None)
                    result = function(*arguments, **keywords)
                    if is_begun(result):
                        raise goes_on(function, result)
                    return result
            except Exception:
                # Arguments may be a part of a request, and are not to be seen in this frame.
                del arguments, keywords
                raise

        return held_by_thread

    def _while_open(
        self,
        function: Callable[..., Any],
        maker: Callable[..., Any],
        name_for: Callable[[tuple[Any, ...], dict[str, Any]], _Octets],
        of_thread: Callable[[_Octets], Any],
        of_task: Callable[[_Octets], Any],
    ) -> Callable[..., Any]:
        """What a function gives that makes context managers, with the lock held until it is left."""
        if self._leaves_out(of_thread):
            raise TypeError(
                f"{called(function)} makes a context manager, and a `with` cannot leave its body out: hold the lock by "
                "`with redlock(...).attempt() as lease` inside it"
            )
        if maker is contextlib.contextmanager:

            @contextlib.contextmanager
            @functools.wraps(function)
            def open_by_thread(*arguments: Any, **keywords: Any) -> Generator[Any, None, None]:
                try:
                    with of_thread(name_for(arguments, keywords)), function(*arguments, **keywords) as made:
                        yield made
                except Exception:
                    # Arguments may be a part of a request, and are not to be seen in this frame.
                    del arguments, keywords
                    raise

            return open_by_thread

        @contextlib.asynccontextmanager
        @functools.wraps(function)
        async def open_by_task(*arguments: Any, **keywords: Any) -> AsyncGenerator[Any, None]:
            try:
                async with of_task(name_for(arguments, keywords)), function(*arguments, **keywords) as made:
                    yield made
            except Exception:
                # Arguments may be a part of a request, and are not to be seen in this frame.
                del arguments, keywords
                raise

        return open_by_task

    def _leaves_out(self, of_thread: Callable[[_Octets], Any]) -> bool:
        """Whether what is decorated is left out where others hold the lock."""
        return getattr(of_thread, "__self__", None) is not self

    def __repr__(self) -> str:
        if self._octets is None:
            return f"<quorlock.redlock {called(self._key)}>"
        names = self._octets if isinstance(self._octets, tuple) else (self._octets,)
        return f"<quorlock.redlock {', '.join(shown(text(name)) for name in names)}>"


class redlock(_Redlock):  # noqa: N801 - used as a function and as a decorator
    """Holds a lock for a scope or for the run of a function.

        with redlock("orders:42", ttl=10, wait=10) as lease: ...
        async with redlock("orders:42") as lease: ...

        @redlock("nightly")
        def job(): ...

        @redlock(key="orders:{number}")
        def charge(number, customer): ...

        @redlock(key=lambda order: f"orders:{order.id}")
        async def handle(order): ...

        with redlock(["account:1", "account:2"]) as leases: ...

    - `name`: the lock's name, or several to be held together, all or none: see `Client.lock_all`. `key` is another word for it. Above a
      function its text is filled from each call's arguments: `{number}` with what the call gives the parameter `number`, and then `{{` and
      `}}` are braces. Braces that name no parameter stay as they are. What is filled in is text, bytes, a number, or something else that has
      a text of its own, and has no braces. Or `key` is a function that gives the name, and is called with the arguments of the decorated one.
    - `client`: whose nodes to use, a `quorlock.Client` or a `quorlock.aio.Client`. Without it there is one client for all uses with the
      same options of a client, made at the first use in each process.
    - Options of a lock: as of `Client.lock`. Options of a client: as of `quorlock.Client`; its `key`, which is the lock's name here, is
      `cert_key`. Times are in seconds, or a `timedelta`.

    The object may be used again, and by many threads and tasks at once. Who may re-enter: in `async with` and coroutine
    functions the task, else all that the holder calls, see `Lock`. Entering raises what `Lock.acquire` raises. If the
    body ends normally after the lock was lost, `LockLostError` is raised; `async with` also cancels its task at the loss.
    The body's own exception always wins.
    """

    if TYPE_CHECKING:

        @overload
        def __new__(  # type: ignore[overload-overlap]
            cls, name: Name | None = None, **options: Unpack[ScopeOptions]
        ) -> redlock: ...

        @overload
        def __new__(cls, name: Iterable[Name], **options: Unpack[ScopeOptions]) -> _All: ...

        def __new__(cls, name: Any = None, **options: Any) -> Any: ...  # pyright: ignore[reportInconsistentConstructor]

        def __enter__(self) -> sync.Lease: ...

        def __aenter__(self) -> CoroutineType[Any, Any, aio.Lease]: ...


if TYPE_CHECKING:

    class _All(redlock):
        """`redlock` of several names."""

        def __enter__(self) -> Leases: ...  # type: ignore[override]

        def __aenter__(self) -> CoroutineType[Any, Any, AioLeases]: ...  # type: ignore[override]


@guarded
def semaphore(
    name: Name,
    slots: int,
    *,
    client: sync.Client | aio.Client | None = None,
    # Made from core/options.toml: the options of a scope with a slot.
    ttl: Seconds | Unset = UNSET,
    wait: Seconds | None | Unset = UNSET,
    renew: bool | Unset = UNSET,
    max_hold: Seconds | None | Unset = UNSET,
    label: str | Unset = UNSET,
    fencing: bool | Unset = UNSET,
    max_waiters: int | Unset = UNSET,
    fair: bool | Unset = UNSET,
    keep: Seconds | Unset = UNSET,
    reentrant: bool | Unset = UNSET,
    group: str | Unset = UNSET,
    owner: Name | None = None,
    confirm: bool | Unset = UNSET,
    nodes: str | Iterable[str] | None = None,
    max_ttl: Seconds | Unset = UNSET,
    node_timeout: Seconds | Unset = UNSET,
    connect_timeout: Seconds | Unset = UNSET,
    drift: float | Unset = UNSET,
    min_validity: float | Unset = UNSET,
    namespace: str | Unset = UNSET,
    fence_ttl: Seconds | Unset = UNSET,
    set_name: str | Unset = UNSET,
    restart_guard: Literal["auto", "on", "off"] | bool | Unset = UNSET,
    accept_eviction: bool | Unset = UNSET,
    wait_replicas: int | Unset = UNSET,
    ca: str | os.PathLike[str] | None = None,
    cert: str | os.PathLike[str] | None = None,
    cert_key: str | os.PathLike[str] | None = None,
    # End of what is made.
) -> redlock:
    """A slot of a semaphore, for a scope or for the run of a function: at most `slots` are held at once, 1 to 128.

        with semaphore("api", 5) as lease: ...
        async with semaphore("api", 5) as lease: ...

        @semaphore("api", 5)
        def call(): ...

    Options as of `redlock`. `lease.slot` tells which slot it is. No thread and no task re-enters it, see `Client.semaphore`.
    """
    options = given(
        # Made from core/options.toml: the options of a scope with a slot, passed on.
        ttl=ttl,
        wait=wait,
        renew=renew,
        max_hold=max_hold,
        label=label,
        fencing=fencing,
        max_waiters=max_waiters,
        fair=fair,
        keep=keep,
        reentrant=reentrant,
        group=group,
        owner=owner,
        confirm=confirm,
        nodes=nodes,
        max_ttl=max_ttl,
        node_timeout=node_timeout,
        connect_timeout=connect_timeout,
        drift=drift,
        min_validity=min_validity,
        namespace=namespace,
        fence_ttl=fence_ttl,
        set_name=set_name,
        restart_guard=restart_guard,
        accept_eviction=accept_eviction,
        wait_replicas=wait_replicas,
        ca=ca,
        cert=cert,
        cert_key=cert_key,
        # End of what is made.
    )
    return redlock(name, client=client, **options, slots=slots)


@shown_unmade
class Attempt(_ForBoth):
    """What `redlock(...).attempt()` gives: for `with`, `async with` and functions, as `redlock` itself."""

    def __init__(self, of: _Redlock, wait: Limit) -> None:
        self._of = of
        self._wait = wait

    @guarded
    def _of_thread(self, name: _Octets) -> Any:
        return self._of._sync(name).attempt(self._wait)

    @guarded
    def _of_task(self, name: _Octets) -> Any:
        return self._of._aio(name).attempt(self._wait)

    @guarded
    def _enter(self, at_once: bool = False) -> Any:
        return self._of_thread(self._of._name())._enter(at_once)

    @guarded_coroutine
    async def _aentered(self, at_once: bool) -> Any:
        return await self._of_task(self._of._name())._entered(at_once)

    if TYPE_CHECKING:

        def __enter__(self) -> sync.Lease | None: ...

        def __aenter__(self) -> CoroutineType[Any, Any, aio.Lease | None]: ...

    @overload
    def __call__(self, function: Callable[_P, Coroutine[Any, Any, _R]]) -> Callable[_P, Coroutine[Any, Any, _R | None]]: ...

    @overload
    def __call__(self, function: Callable[_P, _R]) -> Callable[_P, _R | None]: ...

    @guarded
    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Decorates a function or coroutine function, as `redlock` does: where others hold the lock it gives `None`."""
        return self._of._decorated(function, self._of_thread, self._of_task)

    def __repr__(self) -> str:
        return f"<quorlock.Attempt of {self._of!r}>"


class once(redlock):  # noqa: N801 - used as a decorator
    """Runs a job that every host starts at about the same time on one of them.

        @once("nightly-report", every=86_400)
        def report(): ...

    A call runs the function where no other host runs it, or has begun it within `keep`; elsewhere it is left out and gives
    `None`. The lock is held while the job runs, so a run that takes longer than `every` is not joined by another. For
    coroutine functions too.

    - `every`: how often the job runs, in seconds; 0.02 at least.
    - `keep`: for how many seconds no other host runs the job after one has begun, however soon it is done: longer than the
      hosts' clocks differ by, and shorter than `every`. Half of `every`, at most the client's `max_ttl`.
    - `ttl`: how long the lock outlives a host that dies at the work. By default the same.
    - Others as of `redlock`; `wait`, `owner` and `reentrant` are not among them. It takes one name, that of the job.

    Raises as `redlock`, but not where another holds the lock.
    """

    if TYPE_CHECKING:

        def __new__(cls, name: Name | None = None, *, every: Seconds, **options: Unpack[OnceOptions]) -> once: ...

        @overload  # type: ignore[override]
        def __call__(self, function: Callable[_P, Coroutine[Any, Any, _R]]) -> Callable[_P, Coroutine[Any, Any, _R | None]]: ...

        @overload
        def __call__(self, function: Callable[_P, _R]) -> Callable[_P, _R | None]: ...

        def __call__(self, function: Any) -> Any: ...

    @guarded
    def __init__(
        self,
        name: Name | None = None,
        *,
        every: Seconds,
        client: sync.Client | aio.Client | None = None,
        key: Name | Callable[..., Name] | None = None,
        # Made from core/options.toml: the options of once.
        ttl: Seconds | Unset = UNSET,
        renew: bool | Unset = UNSET,
        max_hold: Seconds | None | Unset = UNSET,
        raw: bool | Unset = UNSET,
        label: str | Unset = UNSET,
        fencing: bool | Unset = UNSET,
        max_waiters: int | Unset = UNSET,
        fair: bool | Unset = UNSET,
        keep: Seconds | Unset = UNSET,
        group: str | Unset = UNSET,
        nodes: str | Iterable[str] | None = None,
        max_ttl: Seconds | Unset = UNSET,
        node_timeout: Seconds | Unset = UNSET,
        connect_timeout: Seconds | Unset = UNSET,
        drift: float | Unset = UNSET,
        min_validity: float | Unset = UNSET,
        namespace: str | Unset = UNSET,
        fence_ttl: Seconds | Unset = UNSET,
        set_name: str | Unset = UNSET,
        restart_guard: Literal["auto", "on", "off"] | bool | Unset = UNSET,
        accept_eviction: bool | Unset = UNSET,
        wait_replicas: int | Unset = UNSET,
        ca: str | os.PathLike[str] | None = None,
        cert: str | os.PathLike[str] | None = None,
        cert_key: str | os.PathLike[str] | None = None,
        # End of what is made.
    ) -> None:
        options = given(
            # Made from core/options.toml: the options of once, passed on.
            ttl=ttl,
            renew=renew,
            max_hold=max_hold,
            raw=raw,
            label=label,
            fencing=fencing,
            max_waiters=max_waiters,
            fair=fair,
            keep=keep,
            group=group,
            nodes=nodes,
            max_ttl=max_ttl,
            node_timeout=node_timeout,
            connect_timeout=connect_timeout,
            drift=drift,
            min_validity=min_validity,
            namespace=namespace,
            fence_ttl=fence_ttl,
            set_name=set_name,
            restart_guard=restart_guard,
            accept_eviction=accept_eviction,
            wait_replicas=wait_replicas,
            ca=ca,
            cert=cert,
            cert_key=cert_key,
            # End of what is made.
        )
        super().__init__(name, client=client, key=key, reentrant=False, **options)
        if self._octets is not None:
            self._sole(self._octets)
        # The core says what follows from it; what is given behind it wins.
        self._options = Unseen({"every": every, **self._options()})

    @guarded
    def _of_thread(self, name: _Octets) -> Any:
        return self._sync(name).attempt()

    @guarded
    def _of_task(self, name: _Octets) -> Any:
        return self._aio(name).attempt()

    def _name_for(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> _Octets:
        return self._sole(super()._name_for(arguments, keywords))

    def _sole(self, name: _Octets) -> bytes:
        """A run has one name, by which it is known."""
        if isinstance(name, tuple):
            raise TypeError("once takes one name, that of the job: hold several locks within the job, by redlock")
        return name

    def _leaves_out(self, of_thread: Callable[[_Octets], Any]) -> bool:
        return True

    @guarded
    def attempt(self, wait: Limit = 0) -> Attempt:
        raise TypeError("once tries once, and leaves its function out by itself: decorate the function with it")

    @guarded
    def _enter(self, at_once: bool = False) -> sync.Lease:
        raise TypeError("once is for functions: a `with` cannot leave its body out. Decorate one with it")

    def __aenter__(self) -> CoroutineType[Any, Any, aio.Lease]:
        raise TypeError("once is for functions: an `async with` cannot leave its body out. Decorate one with it")


def _one_or_several(what: str, name: Name | Iterable[Name]) -> Name | tuple[Name, ...]:
    """A name, or several, as they were given."""
    # A mapping has names that the program did not choose: those of what came in a request. A named tuple is one thing in parts, such as a URL.
    if isinstance(name, (str, bytes, Mapping)) or hasattr(name, "_fields") or not isinstance(name, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        return cast("Name", name)
    return tuple(listed(what, name, "names"))


def _octets(what: str, name: Name | Iterable[Name]) -> _Octets:
    """A name as bytes, or several."""
    found = _one_or_several(what, name)
    return tuple(octets(what, one) for one in found) if type(found) is tuple else octets(what, cast("Name", found))
