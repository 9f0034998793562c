"""Who is inside of a lock: counted, and looked at for as long as another could come in."""

import threading


class Inside:
    """Counts who is inside. `with inside:` around the work."""

    def __init__(self):
        self._changed = threading.Condition()
        self.now = self.most = self.entries = 0

    def __enter__(self):
        with self._changed:
            self.now += 1
            self.entries += 1
            self.most = max(self.most, self.now)
            self._changed.notify_all()

    def __exit__(self, *_):
        with self._changed:
            self.now -= 1

    def linger(self, seconds=0.02):
        """Waits for what must not come: another one inside."""
        with self._changed:
            self._changed.wait_for(lambda: self.now > 1, seconds)
