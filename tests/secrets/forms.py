"""Texts that hold a marker where a secret stands, and the judge that looks for it: of `drawn.py` and `commands.py`."""

import json
import os
import random

FORMS = json.load(open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "forms.json")))
# So many characters of a secret are a piece of it.
PIECE = 6
LETTERS = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"


class Draw:
    """What is drawn by one seed: its marker, and texts with it."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.marker = "".join(self.random.choice(LETTERS) for _ in range(16))

    def one(self, *these):
        return self.random.choice(these)

    def _filled(self, form):
        text = form.replace("%", self.marker)
        return self.one(f" {text}\n", f"{text},{text}", text * 30, *[text] * 5)

    def secret(self):
        """A text that is a secret wherever it stands."""
        return self._filled(self.one(*FORMS["everywhere"]))

    def given(self):
        """One that is a secret where secrets are given."""
        return self._filled(self.one(*FORMS["in its place"])) if self.one(True, False) else self.secret()

    def shared(self, refused):
        """A text for what everybody sees: a secret, or what is refused for the letters `refused`."""
        return self.one(self.secret(), f"{refused}{self.marker * 20}", f"{self.marker * 70}{refused}")


def leaked(marker, text):
    """The first piece of the marker in a text, or nothing."""
    text = text.lower()
    pieces = (marker[at:at + PIECE] for at in range(len(marker) - PIECE + 1))
    return next((piece for piece in pieces if piece.lower() in text), None)
