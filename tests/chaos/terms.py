"""The history of a run with leaders, and what is asked of it (README.md).

A worker is one process, LANGUAGE-NUMBER, and its clock is read before its term is asked. Its lines, beside those of history.py:

    leads WORKER FENCE HELD AT UNTIL     the work of a term has begun; UNTIL: end of validity as then known
    acts WORKER FENCE HELD AT UNTIL      it does a step
    ended WORKER FENCE AT                the work has ended, by its own word
    lost WORKER FENCE REASON AT          the loss of a term is told
    stopped WORKER FENCE AT              the library tells that the work has ended
    seen WORKER FENCE AT                 an observer sees that this one leads; `- 0`: none does; `? 0`: it is not known
"""

import itertools
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from history import History as Lines
from history import NEVER, language, read

STOPPED, KILLED, CUT = KINDS = ("stopped", "killed", "cut")
# Whose work cannot do another step once its term is over: it is dropped, or cancelled, between two of them.
ENDED_BY_THE_LIBRARY = ("rust", "asyncio")
# So often in a run may such a worker be stopped within the few instructions before its step reads the clock.
RARE = 1
# How much longer than a ttl it may take until another leads, and until a dead leader is named no more: a floor for sanity.
TAKEOVER_NS, NAMED_NS = 2 * 10**9, 10**9


@dataclass
class Step:
    held: bool
    at: int
    # The number of its line.
    line: int


@dataclass
class Term:
    worker: str
    fence: int
    begun: int
    # Whether it was held when its work began; if not, it was lost before.
    held: bool
    # The latest end of validity that was seen, while there was work to do in it.
    until: int
    steps: list = field(default_factory=list)
    lost: int = NEVER
    ended: int = NEVER


@dataclass
class Fault:
    kind: str
    worker: str
    fence: int
    at: int
    # Whether it met a leader, and not one that had lost its term by itself.
    met: bool
    over: int = NEVER
    # The number of the line that says so.
    over_line: int = NEVER


class History(Lines):
    LINES = Lines.LINES | {kind: kind for kind in ("leads", "acts", "ended", "lost", "stopped")} | {"seen": "see"}

    def __init__(self, path=""):
        super().__init__(path)
        self.terms, self.ends, self.seen = {}, {}, []
        # What a process did in another order than it may.
        self.disorder = []
        # The term that the work of a worker is of.
        self.at_work = {}

    def leads(self, worker, fence, held, at, until):
        if worker in self.at_work:
            self.disorder.append(f"{worker} begins term {fence} before {self.at_work[worker]} has stopped")
        self.at_work[worker] = int(fence)
        if (worker, int(fence)) in self.terms:
            self.disorder.append(f"{worker} begins term {fence} twice")
        self.terms[worker, int(fence)] = Term(worker, int(fence), int(at), held == "1", int(until))

    def acts(self, worker, fence, held, at, until):
        term = self.terms[worker, int(fence)]
        if self.at_work.get(worker) != term.fence or term.ended < NEVER:
            self.disorder.append(f"{worker} does a step of term {fence} after that has stopped")
        term.steps.append(Step(held == "1", int(at), self.lines))
        if held == "1":
            term.until = max(term.until, int(until))

    def ended(self, worker, fence, at):
        term = self.terms[worker, int(fence)]
        term.ended = int(at)
        term.until = min(term.until, term.ended)

    def lost(self, worker, fence, reason, at):
        self.terms[worker, int(fence)].lost = int(at)

    def stopped(self, worker, fence, _at):
        if self.at_work.pop(worker, None) != int(fence) or self.terms[worker, int(fence)].ended == NEVER:
            self.disorder.append(f"{worker} tells that term {fence} has stopped, and it has not")

    def dead(self, worker, at):
        self.ends[worker] = int(at)
        self.at_work.pop(worker, None)
        for term in self.terms.values():
            if term.worker == worker:
                term.until = min(term.until, int(at))

    def begin(self, number, kind, at, whom):
        worker, _, fence = whom.partition("/")
        term = self.terms[worker, int(fence)]
        met = term.lost == term.ended == NEVER and term.until > int(at)
        self.faults[number] = Fault(kind, worker, int(fence), int(at), met)

    def end(self, number, at):
        self.faults[number].over, self.faults[number].over_line = int(at), self.lines

    def see(self, worker, _fence, at):
        self.seen.append((worker, int(at)))

    def ordered(self):
        """The terms that were held when their work began, in that order."""
        return sorted((term for term in self.terms.values() if term.held), key=lambda term: term.begun)

    def leader(self):
        """The term that there is, if its work does steps."""
        term = max(self.terms.values(), key=lambda term: term.fence, default=None)
        if term is None or term.worker in self.ends or not (term.held and term.steps and term.lost == term.ended == NEVER):
            return None
        return term

    def succeeded(self, fence):
        return any(term.held and term.fence > fence for term in self.terms.values())

    def is_told(self, worker, fence):
        """Whether the loss of a term has been told, and the end of its work."""
        term = self.terms[worker, fence]
        return NEVER not in (term.lost, term.ended) and self.at_work.get(worker) != fence


def out_of_order(terms):
    """Terms that began after one with the same or a larger fence."""
    wrong, largest = [], 0
    for term in terms:
        if term.fence <= largest:
            wrong.append(term)
        largest = max(largest, term.fence)
    return wrong


def doubles(terms):
    """Pairs of terms of which the second began while the first was valid, as its worker saw it."""
    pairs = []
    for place, term in enumerate(terms):
        pairs += [(other, term) for other in terms[:place] if other.until > term.begun]
    return pairs


def late_steps(terms):
    """Steps that were done in the belief to lead, after another had begun its work."""
    found, successor = [], NEVER
    for term in sorted(terms, key=lambda term: -term.fence):
        found += [(term, step) for step in term.steps if step.held and step.at > successor]
        if term.held:
            successor = min(successor, term.begun)
    return found


def after_a_stop(history):
    """What stopped leaders did when they went on: wrong steps, and steps that were under way when they were stopped."""
    wrong, under_way, looks = [], 0, []
    for fault in history.faults.values():
        if fault.kind != STOPPED:
            continue
        later = [step for step in history.terms[fault.worker, fault.fence].steps if step.line > fault.over_line]
        begun_before = [step for step in later if step.held and step.at <= fault.at]
        believed = [step for step in later if step.held and step.at > fault.at]
        under_way += len(begun_before)
        wrong += [f"{fault.worker} goes on and believes to lead" for _ in believed]
        ended = language(fault.worker) in ENDED_BY_THE_LIBRARY
        # One step may be under way; where the work is ended between two steps none follows it.
        if len(begun_before) > 1 or ended and len(later) > 1:
            wrong.append(f"{fault.worker} goes on with {len(later)} steps")
        looks += [f"{fault.worker} goes on and looks" for step in later if ended and not step.held and step.at > fault.at]
    # It may have been stopped when its step had begun and the clock was not read yet: of thousands of stops, one.
    return wrong + (looks if len(looks) > RARE else []), under_way


def untold(history):
    """Losses that no one was told of, or a worker that was cut off only when it was connected again."""
    wrong = []
    for fault in history.faults.values():
        term = history.terms[fault.worker, fault.fence]
        if fault.kind == KILLED:
            continue
        if term.lost == NEVER or term.ended == NEVER:
            wrong.append(f"{fault.worker} was {fault.kind}: " + ("no loss" if term.lost == NEVER else "no end") + " is told")
        elif fault.kind == CUT and term.lost > fault.over:
            wrong.append(f"{fault.worker} was told of its loss only when it was no longer cut off")
    return wrong


def takeovers(history):
    """How long after each fault another led, in ns, less the time in which nothing could run; by the fault's number."""
    found = {}
    for number, fault in history.faults.items():
        begun = min((term.begun for term in history.ordered() if term.fence > fault.fence), default=NEVER)
        found[number] = begun if begun == NEVER else max(0, begun - fault.at - history.stalled(fault.at, begun))
    return found


def haunted(history):
    """Dead workers that an observer named for too long, and for how much longer than a ttl the worst was, in ns."""
    wrong, worst, ttl = [], 0, history.notes["ttl-ns"]
    ends = [at for _, at in history.seen[1:]] + [history.notes["end"]]
    for (worker, _), end in zip(history.seen, ends):
        dead = history.ends.get(worker, NEVER)
        by = end - dead - ttl - history.stalled(dead, end) if dead < end else 0
        worst = max(worst, by)
        if by > NAMED_NS:
            wrong.append(f"{worker}, dead for {(end - dead) / 1e9:.2f} s, is named as the leader")
    return wrong, worst


def share_seen(history):
    """How many of the terms the observer has named, and how many there were."""
    changes = sorted([(term.begun, term.worker) for term in history.ordered()] + [(history.notes["end"], None)])
    named = sum(any(worker == other and at < end for other, at in history.seen if at > begun - history.notes["ttl-ns"])
                for (begun, worker), (end, _) in itertools.pairwise(changes))
    return named, len(changes) - 1


def judge(path, times, verdict):
    """Adds the verdict on a run in which each kind of fault was to meet a leader this many times."""
    history = read(path, History)
    terms = history.ordered()

    def line(wrong, words):
        verdict.line(not wrong, words)
        for one in wrong[:5]:
            print(f"       {one}")

    early = len(history.terms) - len(terms)
    line([f"{term.worker} has {term.fence}" for term in out_of_order(terms)],
         f"S2: {len(out_of_order(terms))} of {len(terms)} terms with a fence out of order; {early} more were lost at their begin")
    line([f"{first.worker} until {first.until}, {second.worker} from {second.begun}" for first, second in doubles(terms)],
         f"S1: {len(doubles(terms))} terms began while another was valid")
    late = late_steps(history.terms.values())
    line([f"{term.worker}, term {term.fence}, at {step.at}" for term, step in late],
         f"{len(late)} of {sum(len(term.steps) for term in history.terms.values())} steps of an old leader that believed to lead")
    line(history.disorder, f"{len(history.disorder)} times work was done out of order in one process")
    wrong, under_way = after_a_stop(history)
    line(wrong, f"{len(wrong)} times a leader that was stopped went on; {under_way} steps were under way then")
    wrong = untold(history)
    line(wrong, f"{len(wrong)} losses were not told; {sum(term.lost < NEVER for term in history.terms.values())} were")
    took, limit = takeovers(history), history.notes["ttl-ns"] + TAKEOVER_NS
    for kind in KINDS:
        those = sorted(took[number] for number, fault in history.faults.items() if fault.kind == kind)
        slow = [f"{by / 1e9:.2f} s" if by < NEVER else "never" for by in those if by > limit]
        said = f"median {those[len(those) // 2] / 1e9:.2f} s, worst {those[-1] / 1e9:.2f} s" if those and not slow else ""
        line(slow, f"{kind}: another led within {limit / 1e9:g} s but for {len(slow)} of {len(those)} times {said}".rstrip())
    wrong, worst = haunted(history)
    line(wrong, f"{len(wrong)} dead leaders named by the observer for longer than ttl + {NAMED_NS / 1e9:g} s "
                f"(worst: ttl + {worst / 1e9:.2f} s)")
    named, led = share_seen(history)
    verdict.line(2 * named >= led, f"{named} of {led} terms were seen by the observer (at least half)")
    floors(history, verdict, times)


def floors(history, verdict, times):
    counts = Counter(fault.kind for fault in history.faults.values() if fault.met)
    rare = [kind for kind in KINDS if counts[kind] < times]
    verdict.line(not rare, f"{len(history.faults)} faults met a leader {sum(counts.values())} times, each kind at least {times}"
                           + (f"; not {rare}" if rare else ""))
    rows = defaultdict(Counter)
    for fault in history.faults.values():
        rows[language(fault.worker)][fault.kind] += fault.met
    for name in sorted(rows):
        terms = sum(language(term.worker) == name for term in history.terms.values())
        print(f"       {name}: {terms} terms, " + ", ".join(f"{kind} {rows[name][kind]}" for kind in KINDS))
