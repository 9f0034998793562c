"""Where log lines go."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logging import Logger


def logger() -> "Logger":
    """The logger of this package."""
    # Not before it is needed.
    import logging

    return logging.getLogger("quorlock")


def log(level: str, line: str) -> None:
    """Logs a line of the core, on its thread for log lines."""
    # Not before it is needed, and never while the interpreter ends: then it is not called.
    import logging

    logging.getLogger("quorlock").log(logging.WARNING if level == "warning" else logging.INFO, "%s", line)
