"""How results of the core reach an event loop."""

import asyncio
import contextlib
import contextvars
import sys
import weakref
from collections.abc import Callable
from typing import Any, TypeAlias

from . import _native

Starter: TypeAlias = Callable[[_native.Port, "asyncio.Future[Any]"], int]
"""Begins something that will fill in the future; returns its number for `Port.cancel`."""

# Both weak: the loop's registration of the reader is what keeps a port. So nothing here outlives its loop, and a port
# ends when its loop is closed or collected.
_ports: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.ref[_native.Port]] = weakref.WeakKeyDictionary()
# The port of the loop that asked last: most programs have one loop, and each call would look for it in the table.
_last: tuple[weakref.ref[asyncio.AbstractEventLoop], weakref.ref[_native.Port]] | None = None


def port_of(loop: asyncio.AbstractEventLoop) -> _native.Port:
    """The port of a loop, made when first needed."""
    global _last
    last = _last
    known = last[1] if last is not None and last[0]() is loop else _ports.get(loop)
    port = known() if known is not None else None
    if port is None or not port.is_ours():
        port = _native.Port()
        if sys.platform == "win32":
            # The default loop of Windows watches no descriptors. This keeps the port as a reader would.
            loop.__dict__["_quorlock_port"] = port
            port.call_in(loop)
        else:
            loop.add_reader(port.fileno(), port)
            sockets = port.sockets()
            if sockets is not None:
                loop.add_reader(sockets, port.step)
        _ports[loop] = known = weakref.ref(port)
    if last is None or last[1] is not known:
        _last = (weakref.ref(loop), weakref.ref(port))
    return port


def port_here() -> _native.Port | None:
    """The port of the loop that runs here, if it has one."""
    loop = asyncio._get_running_loop()
    known = None if loop is None else _ports.get(loop)
    return None if known is None else known()


class Awaited:
    """A future that the core will fill in, and how to end what it waits for.

    It knows the port weakly, for it lives in the frames of tasks, and these may outlive a loop that was closed.
    """

    __slots__ = ("_number", "_port", "future")

    def __init__(self, start: Starter) -> None:
        loop = asyncio.get_running_loop()
        port = port_of(loop)
        self.future: asyncio.Future[Any] = loop.create_future()
        self._port = weakref.ref(port)
        self._number = start(port, self.future)

    def give_up(self) -> None:
        """Ends what was begun. A lease that was won by then is released."""
        port = self._port()
        if port is not None:
            port.cancel(self._number)
        future = self.future
        if future.done() and not future.cancelled() and future.exception() is None:
            # It arrived in the same turn of the loop as the cancellation.
            result = future.result()
            if isinstance(result, _native.Lease | _native.Leases):
                result.discard()


async def completed(start: Starter) -> Any:
    """Begins something and waits for its result. When the wait is given up, what was begun ends."""
    awaited = Awaited(start)
    try:
        return await awaited.future
    except BaseException:
        # An error of the call itself comes here too; then there is nothing left to end.
        awaited.give_up()
        raise


def in_this_loop(call: Callable[[str], None]) -> Callable[[str], None]:
    """What has the running event loop do it, from any thread; without one it is done on that thread.

    It knows the loop weakly, for the core keeps it until a loss. A loop that is closed calls nothing.
    """
    try:
        loop = weakref.ref(asyncio.get_running_loop())
    except RuntimeError:
        return call
    context = contextvars.copy_context()

    def pass_on(reason: str) -> None:
        alive = loop()
        if alive is not None and not alive.is_closed():
            with contextlib.suppress(RuntimeError):
                alive.call_soon_threadsafe(call, reason, context=context)

    return pass_on
