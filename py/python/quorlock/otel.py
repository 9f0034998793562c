"""Spans and metrics of OpenTelemetry, for programs that have it.

    import quorlock.otel

    quorlock.otel.instrument()

From then on each acquire that asks the nodes is a span, and what callers wait for and hold is measured, of blocking code and asyncio,
by the providers of the program. It costs what the providers cost, and nothing before it is called. `docs/operations/tracing.md`
explains every name. Needs `opentelemetry-api`: `pip install quorlock[otel]`.
"""

import functools
import threading
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from opentelemetry import metrics, trace

from . import _aio_several, _several, aio, sync
from ._lease import LeaseBase
from .errors import (
    LockContendedError,
    LockTimeoutError,
    QuorumUnavailableError,
    TooManyWaitersError,
)

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

__all__ = ["instrument", "uninstrument"]

_OUTCOMES: tuple[tuple[type[BaseException], str], ...] = (
    (LockContendedError, "contended"),
    (LockTimeoutError, "timeout"),
    (QuorumUnavailableError, "no_quorum"),
    (TooManyWaitersError, "busy"),
)
# What was in the place of ours.
_originals: list[tuple[type, str, Any]] = []
# Of the hints that OpenTelemetry has for durations in seconds, and longer ones: people wait for locks.
_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0]


class _Held:
    """A hold, however many handles are on it."""

    __slots__ = ("attributes", "begun", "handles", "name", "span")

    def __init__(self, name: str, attributes: dict[str, str], span: "Span") -> None:
        self.name, self.attributes, self.span = name, attributes, span
        self.begun, self.handles = time.monotonic(), 0


class _Instruments:
    """What is measured and reported, by these providers."""

    def __init__(self, tracer_provider: "TracerProvider | None", meter_provider: "MeterProvider | None") -> None:
        self.tracer = trace.get_tracer("quorlock", tracer_provider=tracer_provider)
        meter = metrics.get_meter("quorlock", meter_provider=meter_provider)
        self.acquires = meter.create_histogram(
            "quorlock.acquire.duration",
            unit="s",
            description="How long callers took to get a lock, or to give up.",
            explicit_bucket_boundaries_advisory=_BUCKETS,
        )
        self.holds = meter.create_histogram(
            "quorlock.hold.duration",
            unit="s",
            description="How long locks were held.",
            explicit_bucket_boundaries_advisory=_BUCKETS,
        )
        self.locks = meter.create_up_down_counter(
            "quorlock.locks.held", unit="{lock}", description="Locks that are held now."
        )
        # By their tokens: each handle of an owner that enters again is another object.
        self._held: dict[str, _Held] = {}
        self._handles: weakref.WeakKeyDictionary[Any, Callable[[], object]] = weakref.WeakKeyDictionary()
        self._guard = threading.Lock()

    def won(self, lease: Any, attributes: dict[str, str], span: "Span") -> bool:
        """A handle on a hold; returns whether that is a new one, and not entered once more."""
        token = lease.token
        with self._guard:
            held = self._held.get(token)
            first = held is None
            if held is None:
                held = self._held[token] = _Held(lease.name, attributes, span)
            held.handles += 1
            # Given back, or collected: whichever comes first.
            finalizer = weakref.finalize(lease, self._let_go, token)
            finalizer.atexit = False
            self._handles[lease] = finalizer
        if first:
            self.locks.add(1, attributes)
            # What the core keeps until a loss knows no lease.
            lease._core.on_lost(functools.partial(self._lost, token))
        return first

    def forgotten(self, lease: Any) -> None:
        """A handle is given back, in whatever way."""
        with self._guard:
            finalizer = self._handles.pop(lease, None)
        if finalizer is not None:
            finalizer()

    def _let_go(self, token: str) -> None:
        with self._guard:
            held = self._held.get(token)
            if held is None:
                return
            held.handles -= 1
            if held.handles > 0:
                return
            del self._held[token]
        self._over(held, "released")

    def _lost(self, token: str, reason: str) -> None:
        with self._guard:
            held = self._held.pop(token, None)
        if held is not None:
            # The span of the work that the lock was for, unless it has ended.
            if held.span.is_recording():
                held.span.add_event("quorlock.lost", {"quorlock.lock.name": held.name, "quorlock.reason": reason})
            self._over(held, "lost")

    def _over(self, held: _Held, outcome: str) -> None:
        self.locks.add(-1, held.attributes)
        self.holds.record(time.monotonic() - held.begun, {**held.attributes, "quorlock.outcome": outcome})


class _Acquire:
    """One call, from its begin to its end."""

    def __init__(self, instruments: _Instruments, locks: tuple[Any, ...]) -> None:
        self._instruments = instruments
        group: str = locks[0]._core.group
        self._attributes = {"quorlock.group": group} if group else {}
        self._begun = time.monotonic()
        # Where the loss is reported: what runs now, and goes on under the lock.
        self._holder = trace.get_current_span()
        names = [lock.name for lock in locks]
        about: dict[str, Any] = {"quorlock.lock.name": names[0] if len(names) == 1 else names, **self._attributes}
        self._span = instruments.tracer.start_span(f"acquire {group}" if group else "acquire", attributes=about)

    def won(self, lease: Any) -> None:
        """`lease`: one, several, or `None` where others hold the lock."""
        parts: tuple[Any, ...] = () if lease is None else (lease,)
        if lease is not None and hasattr(lease, "fences"):
            parts = tuple(lease)
        new = [self._instruments.won(part, self._attributes, self._holder) for part in parts]
        if parts and parts[0].fence is not None:
            self._span.set_attribute("quorlock.fence", parts[0].fence)
        if parts and not any(new):
            # Entered once more: that asked no node.
            self._span.set_attribute("quorlock.outcome", "reentered")
            self._span.end()
            return
        self._ended("won" if parts else "contended")

    def failed(self, error: BaseException) -> None:
        outcome = next((word for kind, word in _OUTCOMES if isinstance(error, kind)), None)
        if outcome is None:
            outcome = "failed" if isinstance(error, Exception) else "cancelled"
        self._span.set_attribute("error.type", type(error).__name__)
        if outcome not in ("contended", "timeout", "cancelled"):
            self._span.set_status(trace.StatusCode.ERROR, str(error))
        self._ended(outcome)

    def _ended(self, outcome: str) -> None:
        took = time.monotonic() - self._begun
        self._span.set_attribute("quorlock.outcome", outcome)
        self._span.end()
        self._instruments.acquires.record(took, {**self._attributes, "quorlock.outcome": outcome})


def _locks(of: Any) -> tuple[Any, ...]:
    """One lock, or those that are taken together."""
    return getattr(of, "_locks", None) or (of,)


def _blocking(instruments: _Instruments, original: Callable[..., Any]) -> Callable[..., Any]:
    def acquired(self: Any, *arguments: Any, **keywords: Any) -> Any:
        call = _Acquire(instruments, _locks(self))
        try:
            lease = original(self, *arguments, **keywords)
        except BaseException as error:
            call.failed(error)
            raise
        call.won(lease)
        return lease

    return acquired


def _async(instruments: _Instruments, original: Callable[..., Any]) -> Callable[..., Any]:
    async def acquired(self: Any, *arguments: Any, **keywords: Any) -> Any:
        call = _Acquire(instruments, _locks(self))
        try:
            lease = await original(self, *arguments, **keywords)
        except BaseException as error:
            call.failed(error)
            raise
        call.won(lease)
        return lease

    return acquired


def _replace(owner: type, name: str, replacement: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    original = getattr(owner, name)
    _originals.append((owner, name, original))
    setattr(owner, name, replacement(original))


def instrument(
    tracer_provider: "TracerProvider | None" = None, meter_provider: "MeterProvider | None" = None
) -> None:
    """From now on locks of this process are traced and measured, by these providers or those of the program. A second call
    changes nothing until `uninstrument`."""
    if _originals:
        return
    instruments = _Instruments(tracer_provider, meter_provider)
    wrappers: tuple[tuple[type, Any], ...] = (
        (sync.Lock, _blocking),
        (_several.Locks, _blocking),
        (aio.Lock, _async),
        (_aio_several.Locks, _async),
    )
    for owner, wrapper in wrappers:
        for name in ("_acquired", "_tried"):
            _replace(owner, name, functools.partial(wrapper, instruments))

    def forgetting(original: Callable[..., Any]) -> Callable[..., Any]:
        def forgotten(self: Any) -> None:
            instruments.forgotten(self)
            original(self)

        return forgotten

    def releasing(original: Callable[..., Any]) -> Callable[..., Any]:
        def release(self: Any) -> Any:
            for part in self:
                instruments.forgotten(part)
            return original(self)

        return release

    _replace(LeaseBase, "_forgotten", forgetting)
    for several in (_several.Leases, _aio_several.Leases):
        _replace(several, "release", releasing)


def uninstrument() -> None:
    """Undoes `instrument`. What is held then is measured to its end."""
    while _originals:
        owner, name, original = _originals.pop()
        setattr(owner, name, original)
