"""Waiting in gevent and eventlet: the greenlet waits, and its hub goes on.

A result of the core arrives as in asyncio: by one pipe for all that wait in a thread, which the hub watches as any other. It
is watched only while a greenlet waits, so that a program still ends, or hears of a deadlock, as without it.
"""

import sys
import weakref
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from . import _native

if TYPE_CHECKING:
    from ._options import Seconds


class _Event(Protocol):
    """What a greenlet waits for."""

    def set(self) -> None: ...
    def wait(self, timeout: float | None) -> None: ...


class _Hub(Protocol):
    """What is asked of a hub."""

    def watch(self, file: int, ready: Callable[[], None]) -> Callable[[], None]:
        """Calls `ready` whenever there is something to read, until what this returns is called."""
        ...

    def call_soon(self, function: Callable[[], object]) -> None: ...
    def event(self) -> _Event: ...


class _Gevent:
    def __init__(self, hub: Any) -> None:
        # Weakly: the hub keeps what belongs to it by a table of such.
        self._hub = weakref.ref(hub)

    def watch(self, file: int, ready: Callable[[], None]) -> Callable[[], None]:
        hub: Any = self._hub()
        watcher = hub.loop.io(file, 1)
        watcher.start(ready)

        def end() -> None:
            watcher.stop()
            watcher.close()

        return end

    def call_soon(self, function: Callable[[], object]) -> None:
        hub: Any = self._hub()
        hub.loop.run_callback(function)

    def event(self) -> _Event:
        made: _Event = import_module("gevent.event").Event()
        return made


class _EventletEvent:
    def __init__(self) -> None:
        self._event = import_module("eventlet.event").Event()

    def set(self) -> None:
        self._event.send(None)

    def wait(self, timeout: float | None) -> None:
        self._event.wait(timeout)


class _Eventlet:
    def __init__(self, hub: Any) -> None:
        self._hub = weakref.ref(hub)

    def watch(self, file: int, ready: Callable[[], None]) -> Callable[[], None]:
        hub: Any = self._hub()

        def closed(*_error: object) -> None:
            """Only this module closes it, when nothing watches it."""

        def readable(_file: object) -> None:
            ready()

        listener = hub.add(hub.READ, file, readable, closed, closed)
        return lambda: hub.remove(listener)

    def call_soon(self, function: Callable[[], object]) -> None:
        hub: Any = self._hub()
        hub.schedule_call_global(0, function)

    def event(self) -> _Event:
        return _EventletEvent()


class _Slot:
    """The future of one greenlet, as `Port` fills it in."""

    def __init__(self, hub: _Hub) -> None:
        self._hub = hub
        self.event = hub.event()
        self.is_done = False
        self.result: Any = None
        self.error: BaseException | None = None

    def done(self) -> bool:
        return self.is_done

    def set_result(self, result: object) -> None:
        self.is_done, self.result = True, result
        self.event.set()

    def set_exception(self, error: BaseException) -> None:
        self.is_done, self.error = True, error
        self.event.set()

    def get_loop(self) -> _Hub:
        return self._hub


class Station:
    """Where the greenlets of one hub wait."""

    def __init__(self, hub: _Hub) -> None:
        self._hub = hub
        self._port = _native.Port()
        self._waiting = 0
        self._end: Callable[[], None] | None = None

    def is_ours(self) -> bool:
        """Whether this process made it: a forked child shares the pipe and must not read from it."""
        return self._port.is_ours()

    def _ready(self) -> None:
        if self.is_ours():
            self._port()
        elif self._end is not None:
            self._end()

    def completed(self, start: Callable[[_native.Port, Any], int], timeout: float | None = None) -> Any:
        """Begins something and waits for its result; `None` when `timeout` has passed. Given up, what was begun ends."""
        slot = _Slot(self._hub)
        if self._waiting == 0:
            self._end = self._hub.watch(self._port.fileno(), self._ready)
        self._waiting += 1
        number = None
        try:
            number = start(self._port, slot)
            slot.event.wait(timeout)
            if slot.error is not None:
                raise slot.error
            return slot.result
        except BaseException:
            # The greenlet was killed, or its time is over. A lease that was won by then is released.
            if isinstance(slot.result, _native.Lease | _native.Leases):
                slot.result.discard()
            raise
        finally:
            if number is not None and not slot.is_done:
                self._port.cancel(number)
            self._waiting -= 1
            if self._waiting == 0 and self._end is not None:
                end, self._end = self._end, None
                end()


_stations: weakref.WeakKeyDictionary[Any, Station] = weakref.WeakKeyDictionary()


def station() -> Station | None:
    """Where this thread waits if it has a hub; `None`: it may simply block."""
    if "greenlet" not in sys.modules:
        return None
    # Only a hub that there is: to ask for one makes one.
    known = getattr(sys.modules.get("gevent._hub_local"), "get_hub_if_exists", None)
    hub = known() if known is not None else None
    kind: type[_Gevent | _Eventlet] = _Gevent
    if hub is None:
        hub = getattr(getattr(sys.modules.get("eventlet.hubs"), "_threadlocal", None), "hub", None)
        kind = _Eventlet
        if hub is None:
            return None
    found = _stations.get(hub)
    if found is None or not found.is_ours():
        found = _stations[hub] = Station(kind(hub))
    return found


def waited(call: _native.Call) -> Any:
    """The result of a call, waited for in the way of this thread."""
    # A program without greenlets pays for none.
    here = station() if "greenlet" in sys.modules else None
    return call.wait() if here is None else here.completed(call.start)


def waited_for_loss(lease: _native.Lease | _native.Leases, timeout: "Seconds | None") -> bool:
    """Waits for the loss of a lease; false when `timeout` has passed."""
    here = station()
    if here is None:
        return lease.wait_lost(timeout)
    here.completed(lease.watch_lost, _native.seconds_of("timeout", timeout))
    return lease.reason is not None
