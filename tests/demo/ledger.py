"""What the workers wrote: following their logs, and the checks on them."""

from dataclasses import dataclass, field


@dataclass
class Log:
    """One worker's log, read as it grows."""

    path: str
    holds: list = field(default_factory=list)  # (enter, exit), ns
    waits: list = field(default_factory=list)  # ns
    entered: int = None
    broken: str = None
    _offset: int = 0

    def follow(self):
        """Takes in the lines that have been added."""
        try:
            with open(self.path, "rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return
        complete = data[:data.rfind(b"\n") + 1]
        self._offset += len(complete)
        for line in complete.decode(errors="replace").splitlines():
            try:
                self._take(line.split())
            except ValueError:
                self.broken = self.broken or f"unexpected line: {line[:80]}"

    def _take(self, words):
        if words[:1] == ["enter"] and len(words) == 3 and self.entered is None:
            self.entered = int(words[1])
            self.waits.append(int(words[2]))
        elif words[:1] == ["exit"] and len(words) == 2 and self.entered is not None:
            self.holds.append((self.entered, int(words[1])))
            self.entered = None
        else:
            raise ValueError


def overlaps(logs):
    """How many holds began while another was not over, by a clock that all workers share."""
    holds = sorted(hold for log in logs for hold in log.holds)
    count, latest = 0, 0
    for entered, left in holds:
        count += entered < latest
        latest = max(latest, left)
    return count


def percentile(values, part):
    """The value below which `part` percent of the values are, nearest rank; 0 without values."""
    if not values:
        return 0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, -(-len(ordered) * part // 100) - 1)]


def balance(path):
    with open(path) as file:
        return int(file.read())
