"""What the candidates of both APIs have in common."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from ._inspection import Holder
from ._lease import shown
from ._logging import logger
from ._options import check_flag, check_function
from ._unseen import shown_unmade

__all__ = ["Leadership", "Loss", "check_run", "told", "work_failed", "work_failed_late"]


@shown_unmade
@dataclass(frozen=True, slots=True)
class Leadership:
    """Who leads, as far as the nodes say: what `Election.observe` gives."""

    leader: Holder | None
    """Who leads; `None` where no candidate does, or it is not known."""
    known: bool
    """Whether the nodes said it; false where too few have answered."""

    @classmethod
    def _of(cls, parts: tuple[tuple[Any, ...] | None, bool]) -> Self:
        leader, known = parts
        return cls(Holder._of(leader), known)


def check_run(fn: object, again: object, on_lost: object, on_stopped: object) -> None:
    """Refuses what `run` could not call, or know what it means: it would campaign again and again for that."""
    check_function("fn", fn)
    check_flag("again", again)
    for name, callback in (("on_lost", on_lost), ("on_stopped", on_stopped)):
        if callback is not None:
            check_function(name, callback)


def told(callback: Callable[..., object] | None, *arguments: object) -> None:
    """Calls a callback of a candidate, if it was given one. What that raises is logged, and the election goes on."""
    if callback is None:
        return
    try:
        callback(*arguments)
    except Exception:
        logger().exception("%r, which an election calls, failed", callback)


class Loss:
    """Calls `on_lost` for the loss of a term once, wherever the loss is found first."""

    __slots__ = ("_untold",)

    def __init__(self, on_lost: Callable[[str], object] | None) -> None:
        self._untold = [] if on_lost is None else [on_lost]

    def __call__(self, reason: str | None) -> None:
        """Tells it, unless the term is not lost."""
        if reason is None:
            return
        try:
            # One call, so that of two threads one gets it.
            on_lost = self._untold.pop()
        except IndexError:
            return
        told(on_lost, reason)


def work_failed(name: str, error: Exception, pause: float) -> None:
    """Logs that the work of a term has failed, and what comes of it."""
    words = "the work of the leader of %(lock)s failed, which campaigns again in %(pause).1f s"
    fields = {"lock": shown(name), "pause": pause}
    logger().error(words, fields, exc_info=error, extra={"event_name": "leader_failed", **fields})


def work_failed_late(name: str, error: Exception) -> None:
    """Logs that work has failed which was to end anyway."""
    words, fields = "the work of the leader of %(lock)s failed, whose term is over", {"lock": shown(name)}
    logger().debug(words, fields, exc_info=error, extra={"event_name": "deposed_leader_failed", **fields})
