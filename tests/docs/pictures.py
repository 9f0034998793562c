#!/usr/bin/env python3
"""The pictures of the site, as SVG, each for a light and a dark page.

    pictures.py                       draws them from the data that is kept beside them, in docs/images
    pictures.py --check               fails where one is not what its data gives
    pictures.py --record              records that data anew: of locks on real servers, and from target/faults/history

`round`: one round of three nodes, of which one hangs. `handoff`: four clients want one lock, and each of their requests is a dot.
`faults`: a part of a fault run, from its history. `benefit`: how long eight processes wait for one lock, beside other libraries, from the
long tables of the benchmark. The times are those that were measured.
"""

import collections
import json
import math
import pathlib
import re
import socket
import sys
import threading
import time
from html import escape

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
IMAGES = ROOT / "docs" / "images"
sys.path[:0] = [str(HERE), str(ROOT / "tests"), str(ROOT / "tests" / "chaos")]

from made import put  # noqa: E402

WIDTH, LEFT, RIGHT, ROW = 860, 110, 20, 34
FONT = 'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" font-size="13"'
SCHEMES = {
    "light": {"ink": "#1f2328", "faint": "#59636e", "line": "#d0d7de", "good": "#0a58ca", "bad": "#b3261e", "wait": "#8c959f",
              "python": "#0a58ca", "node": "#1a7f37", "rust": "#9a3412", "c": "#6639ba", "cpp": "#8a6100", "cli": "#59636e"},
    "dark": {"ink": "#e6edf3", "faint": "#9198a1", "line": "#3d444d", "good": "#58a6ff", "bad": "#ff7b72", "wait": "#6e7681",
             "python": "#58a6ff", "node": "#56d364", "rust": "#ffa657", "c": "#d2a8ff", "cpp": "#e3b341", "cli": "#9198a1"},
}


# ---- drawing ----


class Drawing:
    """Rows over a common time, which goes from left to right."""

    def __init__(self, scheme, title, description, rows, begin, end, unit, left=LEFT, top=40):
        self.colours, self.parts, self.left = SCHEMES[scheme], [], left
        self.title, self.description, self.begin, self.end, self.unit = title, description, begin, end, unit
        self.top, self.rows = top, rows

    def x(self, at):
        at = min(max(at, self.begin), self.end)
        return self.left + (WIDTH - self.left - RIGHT) * (at - self.begin) / (self.end - self.begin)

    def y(self, row):
        return self.top + ROW * row + ROW / 2

    def text(self, x, y, words, colour="ink", anchor="start", weight=400):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" fill="{self.colours[colour]}" text-anchor="{anchor}" '
                          f'font-weight="{weight}">{escape(words)}</text>')

    def label(self, row, words, colour="ink", weight=400):
        self.text(self.left - 12, self.y(row) + 5, words, colour, "end", weight)

    def line(self, row, begin, end, colour="line", width=2, dashes=""):
        more = f' stroke-dasharray="{dashes}"' if dashes else ""
        self.parts.append(f'<line x1="{self.x(begin):.1f}" y1="{self.y(row):.1f}" x2="{self.x(end):.1f}" y2="{self.y(row):.1f}" '
                          f'stroke="{self.colours[colour]}" stroke-width="{width}"{more}/>')

    def block(self, row, begin, end, colour, height=18, least=1.0):
        width = max(self.x(end) - self.x(begin), least)
        self.parts.append(f'<rect x="{self.x(begin):.1f}" y="{self.y(row) - height / 2:.1f}" width="{width:.1f}" height="{height}" '
                          f'rx="{min(3, width / 3):.1f}" fill="{self.colours[colour]}"/>')

    def dot(self, row, at, colour, radius=4.5):
        self.parts.append(f'<circle cx="{self.x(at):.1f}" cy="{self.y(row):.1f}" r="{radius}" fill="{self.colours[colour]}"/>')

    def mark(self, at, words, rows=None):
        """An upright line at an instant, with words above it."""
        x, bottom = self.x(at), self.top + ROW * (self.rows if rows is None else rows)
        self.parts.append(f'<line x1="{x:.1f}" y1="{self.top - 4}" x2="{x:.1f}" y2="{bottom}" stroke="{self.colours["faint"]}" '
                          'stroke-dasharray="2 3"/>')
        anchor = "start" if x < WIDTH * 0.7 else "end"
        self.text(x, self.top - 9, words, "faint", anchor)

    def whole(self, words=(), axis=True):
        bottom = round(self.top + ROW * self.rows)
        ticks = []
        step = nice((self.end - self.begin) / 6)
        at = 0.0
        while axis and at <= self.end - self.begin + 1e-9:
            x = self.x(self.begin + at)
            ticks.append(f'<line x1="{x:.1f}" y1="{bottom}" x2="{x:.1f}" y2="{bottom + 5}" stroke="{self.colours["faint"]}"/>')
            ticks.append(f'<text x="{x:.1f}" y="{bottom + 20}" fill="{self.colours["faint"]}" text-anchor="middle">{at:g} {self.unit}</text>')
            at += step
        height, foot = bottom + (32 if axis else 4), []
        x = self.left
        for colour, word in words:
            foot.append(f'<rect x="{x}" y="{height}" width="12" height="12" rx="2" fill="{self.colours[colour]}"/>')
            foot.append(f'<text x="{x + 17}" y="{height + 11}" fill="{self.colours["ink"]}">{escape(word)}</text>')
            x += 34 + 7.2 * len(word)
        height += 22 if words else 0
        return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
                          f'role="img" {FONT}>', f"<title>{escape(self.title)}</title>", f"<desc>{escape(self.description)}</desc>",
                          *self.parts, *ticks, *foot, "</svg>", ""])


def nice(step):
    """The next of 1, 2, 5, 10, … that is no less."""
    size = 10.0 ** math.floor(math.log10(step))
    return next(each * size for each in (1, 2, 5, 10) if each * size >= step - 1e-12)


def draw_round(data, scheme):
    end = data["won"] * 1.9
    drawing = Drawing(scheme, "One round, one node hangs", "Three nodes are asked at once. Two answer and the lock is won; the third does not.",
                      len(data["nodes"]), 0, end, "ms")
    for row, (asked, answered) in enumerate(data["nodes"]):
        drawing.label(row, f"node {row + 1}")
        drawing.line(row, 0, end)
        drawing.line(row, asked, answered or end, "good" if answered else "bad", 5, "" if answered else "7 5")
        drawing.dot(row, asked, "ink")
        if answered:
            drawing.dot(row, answered, "good", 6)
        else:
            drawing.text(drawing.x(end) - 4, drawing.y(row) - 9, "hangs, and is not waited for", "bad", "end")
    drawing.mark(data["won"], "won: two of three have voted")
    return drawing.whole((("ink", "asked"), ("good", "has voted"), ("bad", "no answer")))


def draw_handoff(data, scheme):
    end = max(client["released"] for client in data) * 1.04
    drawing = Drawing(scheme, "Four clients, one lock", "Whoever waits asks once and is then silent until it is called; each request is a dot.",
                      len(data), 0, end, "ms")
    for row, client in enumerate(data):
        drawing.label(row, f"client {row + 1}")
        drawing.line(row, 0, end)
        drawing.line(row, client["asked"], client["won"], "wait", 4, "2 4")
        drawing.block(row, client["won"], client["released"], "good")
        for at in client["requests"]:
            drawing.dot(row, at, "ink", 2.6)
    return drawing.whole((("wait", "waits"), ("good", "holds"), ("ink", "a request to a node")))


LANGUAGES = {"python": "Python", "node": "Node", "rust": "Rust", "c": "C", "cpp": "C++", "cli": "the command"}


def draw_faults(data, scheme):
    nodes, locks = data["nodes"], data["locks"]
    drawing = Drawing(scheme, "A part of a run with faults", "Five servers with their faults, and below who held each lock; no two holds overlap.",
                      nodes + len(locks), 0, data["end"], "s")
    for row in range(nodes):
        drawing.label(row, f"server {row + 1}")
        drawing.line(row, 0, data["end"], "line", 3)
        last = -100.0
        for kind, begin, end, hit in data["faults"]:
            if row + 1 in hit:
                drawing.block(row, begin, end, "bad", 12, least=3)
                if last < drawing.x(begin) < WIDTH - RIGHT - 7.4 * len(kind):
                    drawing.text(drawing.x(begin), drawing.y(row) - 8, kind, "bad")
                    last = drawing.x(begin) + 7.4 * len(kind)
    for row, (lock, holds) in enumerate(locks.items(), nodes):
        drawing.label(row, lock)
        drawing.line(row, 0, data["end"], "line", 1)
        for language, begin, end, _ in holds:
            drawing.block(row, begin, end, language, 20, least=0.8)
    used = {language for holds in locks.values() for language, *_ in holds}
    return drawing.whole((*((name, words) for name, words in LANGUAGES.items() if name in used), ("bad", "fault")))


def draw_benefit(data, scheme):
    groups, most = data["rows"], data["seconds"] * 1000
    told = "; ".join(f"{label} in {language} {ms:,} ms" for language, rows in groups.items() for label, ms in rows)
    gap = 0.4
    drawing = Drawing(scheme, "Eight processes want one lock", f"The longest that one of eight processes waited for it: {told}.",
                      sum(map(len, groups.values())) + gap * (len(groups) - 1), 0, most * 1.42, "ms", left=308, top=58)
    drawing.text(0, 17, "Eight processes want one lock: the longest wait of any", weight=600)
    drawing.text(0, 38, f"Each holds it for {data['hold_ms']} ms and asks again at once, for {data['seconds']} s, on one Redis server. Shorter is better.",
                 "faint")
    at = 0.0
    for language, rows in groups.items():
        drawing.text(0, drawing.y(at) + 5, language, weight=600)
        for label, ms in rows:
            ink, weight = ("ink", 600) if label == OURS else ("faint", 400)
            drawing.label(at, label, ink, weight)
            drawing.block(at, 0, ms, "good" if label == OURS else "wait", least=3)
            words = f"{ms:,} ms" + (", the whole run" if ms > 0.99 * most else "")
            drawing.text(drawing.x(ms) + 8, drawing.y(at) + 5, words, ink, weight=weight)
            at += 1
        at += gap
    return drawing.whole(axis=False)


# ---- recording ----


class Relay:
    """Passes bytes between a client and one server, and notes when each side has spoken."""

    def __init__(self, port):
        self.asked, self.answered = [], []
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            client, _ = self._listener.accept()
            server = socket.create_connection(("127.0.0.1", self._port))
            for source, target, times in ((client, server, self.asked), (server, client, self.answered)):
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._pass, args=(source, target, times), daemon=True).start()

    @staticmethod
    def _pass(source, target, times):
        while data := source.recv(65536):
            times.append(time.monotonic())
            target.sendall(data)


def record_round(times=9):
    """The one of some rounds that took the median time."""
    from quorlock import Client
    from stage import Stage

    rounds = []
    with Stage(3) as stage:
        relays = [Relay(stage.port(number)) for number in (1, 2, 3)]
        client = Client([relay.url for relay in relays])
        # Connected, and with all scripts, as a program is that has run for a while.
        for _ in range(3):
            client.lock("warm").acquire().release()
        for _ in range(times):
            time.sleep(0.3)
            stage.stop(3)
            begin = time.monotonic()
            lease = client.lock("round").acquire()
            won = time.monotonic()
            stage.cont(3)
            lease.release()
            rounds.append((won - begin, [[first(relay.asked, begin, won), first(relay.answered, begin, won)] for relay in relays]))
        client.close()
    took, nodes = sorted(rounds)[times // 2]
    return {"nodes": nodes, "won": round(took * 1000, 3)}


def first(times, begin, end):
    return next((round((at - begin) * 1000, 3) for at in times if begin <= at <= end), None)


def record_handoff():
    from quorlock import Client
    from stage import Stage

    def want(number, client, begin):
        time.sleep(0.02 * number)
        asked = time.monotonic()
        lease = client.lock("handoff").acquire()
        won = time.monotonic()
        time.sleep(0.12)
        released = time.monotonic()
        lease.release()
        found[number].update(asked=asked - begin, won=won - begin, released=released - begin)

    found = [{} for _ in range(4)]
    with Stage(3) as stage:
        relays = [[Relay(stage.port(number)) for number in (1, 2, 3)] for _ in found]
        clients = [Client([relay.url for relay in each]) for each in relays]
        for number, client in enumerate(clients):
            client.lock(f"warm{number}").acquire().release()
        time.sleep(0.3)
        begin = time.monotonic()
        threads = [threading.Thread(target=want, args=(number, client, begin)) for number, client in enumerate(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        end = time.monotonic()
        for client in clients:
            client.close()
    for each, ways in zip(found, relays):
        each["requests"] = [at - begin for relay in ways for at in relay.asked if begin <= at <= end]
        for name in ("asked", "won", "released"):
            each[name] = round(each[name] * 1000, 2)
        each["requests"] = sorted(round(at * 1000, 2) for at in each["requests"])
    return found


# A lease that was held when a clock stepped is over by then.
STEP_SECONDS = 4.0


def record_faults(seconds=6.0, most=3):
    """The part of the last fault run in which most kinds of faults met servers, and the locks that were held most in it. A part
    in which a clock was set forward is left out, for exclusion is not promised there; the page says so."""
    from history import read

    history = read(ROOT / "target" / "faults" / "history")
    begin = history.notes["begin"]
    faults = [(fault.kind, (fault.begin - begin) / 1e9, (fault.end - begin) / 1e9, nodes) for fault in history.faults.values()
              if (nodes := struck(fault.whom))]
    last = (history.notes["end"] - begin) / 1e9 - seconds
    steps = [first for kind, first, _, _ in faults if kind == "clock-forward"]
    starts = [first - 0.3 for _, first, _, _ in faults if 0.3 <= first <= last
              and not any(first - 0.3 - STEP_SECONDS <= step <= first - 0.3 + seconds for step in steps)]
    start = max(starts, key=lambda at: len({kind for kind, first, _, _ in faults if at <= first <= at + seconds}))
    end = start + seconds
    holds = collections.defaultdict(list)
    for hold in history.holds:
        first, over = (hold.acquired - begin) / 1e9, (min(hold.until, begin + int(end * 1e9)) - begin) / 1e9
        if over > start and first < end and over > first:
            holds[hold.lock].append([language(hold.worker), round(max(first - start, 0), 4), round(min(over, end) - start, 4), hold.fence])
    chosen = sorted((lock for lock in holds if "&" not in lock), key=lambda lock: -sum(over - first for _, first, over, _ in holds[lock]))[:most]
    return {"nodes": int(history.notes.get("nodes", 5)), "end": seconds, "locks": {lock: holds[lock] for lock in sorted(chosen)},
            "faults": [[kind, round(max(first - start, 0), 3), round(min(over, end) - start, 3), nodes]
                       for kind, first, over, nodes in faults if over > start and first < end]}


def struck(whom):
    """The servers that a fault has met for all workers; a fault of one worker is none of a server."""
    nodes, _, workers = whom.partition("@")
    return [int(node) for node in nodes.split(",")] if re.fullmatch(r"[\d,]+", nodes) and workers in ("", "all") else []


def language(worker):
    return {"blocking": "python", "asyncio": "python"}.get(name := worker.split("-")[0], name)


OURS = "Quorlock"
# Of each language what stands in the picture: the words for it, and its name in the long tables.
WAITED = {
    "Python": ((OURS, "py:quorlock"), ("redis-py Lock (asks each 1 ms)", "py:redis-py+fast"), ("redis-py Lock (default: asks each 100 ms)", "py:redis-py")),
    "Node": ((OURS, "js:quorlock"), ("node-redlock (asks each 1 ms)", "js:redlock5+fast"), ("node-redlock (default: asks each 200 ms)", "js:redlock5")),
}
CONTENDED = "## W3: contention: one lock, and who has released it asks again at once; 1 node; 8 processes, 5 ms\n"
CONTENDED_SECONDS, CONTENDED_HOLD_MS = 3, 5


def contended():
    """What the benchmark has found of eight processes and one lock: by peer the cells of its long table, by their column."""
    section = (ROOT / "tests" / "bench" / "RESULTS.md").read_text().partition(CONTENDED)[2].partition("\n## ")[0]
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("|")]
    return {row[0].strip("*"): dict(zip(head, row)) for row in rows}


def record_benefit():
    """By the long table that is kept: nothing is measured here."""
    found = contended()
    return {"seconds": CONTENDED_SECONDS, "hold_ms": CONTENDED_HOLD_MS,
            "rows": {language: [[label, int(found[peer]["longest wait ms"])] for label, peer in peers] for language, peers in WAITED.items()}}


PICTURES = {"round": (draw_round, record_round), "handoff": (draw_handoff, record_handoff), "faults": (draw_faults, record_faults),
            "benefit": (draw_benefit, record_benefit)}


def main():
    if "--record" in sys.argv[1:]:
        named = [word for word in sys.argv[1:] if word in PICTURES] or PICTURES
        for name in named:
            (IMAGES / f"{name}.json").write_text(json.dumps(PICTURES[name][1](), separators=(",", ":")) + "\n")
    files = {}
    for name, (draw, _) in PICTURES.items():
        data = json.loads((IMAGES / f"{name}.json").read_text())
        files.update({IMAGES / f"{name}-{scheme}.svg": draw(data, scheme) for scheme in SCHEMES})
    return put(files, "--check" in sys.argv[1:], "run `make pictures`")


if __name__ == "__main__":
    sys.exit(main())
