"""Where log lines go."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logging import Logger


def logger() -> "Logger":
    """The logger of this package."""
    # Not before it is needed.
    import logging

    return logging.getLogger("quorlock")


def log(level: str, event: str, template: str, *parts: str) -> None:
    """Logs a line of the core, on its thread for log lines; `parts` are names and values by turns. See `note`."""
    note(level, event, template, **dict(zip(parts[::2], parts[1::2], strict=True)))


def note(level: str, event: str, template: str, **fields: str) -> None:
    """Logs a line. What logs group it by, template and `event`, is the same for all that tell of the same kind of thing; what
    differs is filled in, and stands in attributes of the record."""
    # Not before it is needed, and never while the interpreter ends: then it is not called.
    import logging
    import re

    words = re.sub(r"\{(\w+)\}", r"%(\1)s", template.replace("%", "%%")) if fields else template
    arguments = [fields] if fields else []
    number = logging.WARNING if level == "warning" else logging.INFO
    logging.getLogger("quorlock").log(number, words, *arguments, extra={"event_name": event, **fields})
