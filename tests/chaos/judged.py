"""For the tests of judges: what is found wrong with a history that is made by hand."""

import contextlib
import io
import tempfile

from check import Verdict


def judged(text, judge):
    """What `judge(path, verdict)` finds wrong with the history of these lines, and all that it says."""
    verdict = Verdict()
    with tempfile.NamedTemporaryFile("w", suffix=".history") as file, contextlib.redirect_stdout(io.StringIO()) as said:
        file.write(text.strip() + "\n")
        file.flush()
        judge(file.name, verdict)
    return verdict.failed, said.getvalue()


def in_ns(text, times, unit):
    """The lines with their times, which stand at these places of each kind of line, in ns."""
    lines = [line.split() for line in text.strip().splitlines()]
    return "\n".join(" ".join(str(round(float(word) * unit)) if place in times.get(line[0], ()) else word
                              for place, word in enumerate(line)) for line in lines)
