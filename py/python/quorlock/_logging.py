"""Where log lines of the core go."""


def log(level: str, line: str) -> None:
    """Logs a line of the core, on its dispatcher thread."""
    # Not before it is needed, and never while the interpreter ends: then it is not called.
    import logging

    logging.getLogger("quorlock").log(logging.WARNING if level == "warning" else logging.INFO, "%s", line)
