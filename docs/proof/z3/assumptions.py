"""What the proof assumes, by name; and for each a run of a small set without it, in which a promise is broken.

The same list of steps with the assumption must have no such run: so it is the assumption that matters, and nothing else.
"""

from dataclasses import dataclass, field

from model import ACQUIRE, ADOPT, CONFIRM, EXTEND, KEEP, NATIVE, RELEASE, REPAIR, SHARE
from runs import Run

ASKS = {NATIVE: "ClientAsk", ACQUIRE: "ClientAsk", EXTEND: "ClientRenew", REPAIR: "ClientRenew", CONFIRM: "ClientWriteBack",
        ADOPT: "ClientAdopt", SHARE: "ClientShare", RELEASE: "ClientRelease", KEEP: "ClientRelease"}
HANDLES = {ACQUIRE: "NodeAcquire", EXTEND: "NodeExtend", REPAIR: "NodeExtend", CONFIRM: "NodeConfirm", ADOPT: "NodeAdopt",
           SHARE: "NodeShare", RELEASE: "NodeRelease", KEEP: "NodeKeep"}
A, B, C = range(3)


class Story:
    """Steps, and the requests that they are about."""

    def __init__(self):
        self.requests, self.steps = [], []

    def then(self, *step):
        self.steps.append(step)
        return self

    def request(self, token, node, kind=ACQUIRE, **more):
        self.requests.append((kind, token, node, more))
        return len(self.requests) - 1

    def sees(self, i):
        return self.then("ClientSee", i)

    def asks(self, i):
        return self.then(ASKS[self.requests[i][0]], i)

    def answers(self, i):
        kind = self.requests[i][0]
        if kind == NATIVE:
            return self.then("NodeNativeAcquire", i).then("NodeTrailer", i)
        return self.then(HANDLES[kind], i)

    def vote(self, token, node, kind=ACQUIRE, **more):
        i = self.request(token, node, kind, **more)
        self.sees(i).asks(i).answers(i)
        return i

    def wins(self, token, nodes, kind=ACQUIRE, **more):
        for node in nodes:
            self.vote(token, node, kind, **more)
        return self.then("ClientWin", token)


@dataclass
class Assumption:
    name: str
    says: str        # what is assumed
    without: str     # what happens without it
    dropped: tuple
    story: Story
    breaks: str = "overlap"
    options: dict = field(default_factory=dict)
    sound: dict = field(default_factory=dict)   # the options of the run that has the assumption, where they differ
    also: object = None

    def run(self, dropped):
        options = self.options if dropped else self.options | self.sound
        return Run(self.story.steps, self.story.requests, self.dropped if dropped else (), also=self.also, **options)

    def breaks_without_it(self):
        run = self.run(True)
        return run.check(getattr(run, self.breaks)()), run

    def holds_with_it(self):
        run = self.run(False)
        return run.check(getattr(run, self.breaks)())


def first_a_then_b(*between, a=(0, 1), b=(1, 2), **of_a):
    """A wins; something happens; B wins too."""
    story = Story().wins(A, a, **of_a)
    for step in between:
        story.then(*step)
    return story.wins(B, b)


def other_set():
    return {"nodes": 4, "quorums": ((0, 1), (2, 3))}


def native_then_marks():
    """A's fence is of both its nodes; B's is that of node 2 alone, which had counted less."""
    story = Story().wins(A, (0, 1), mark=10)
    story.then("ClientGiveUp", A).then("Tick")
    story.vote(B, 1, mark=12)
    story.vote(B, 2, mark=4)
    return story.then("ClientWin", B)


def before_the_restart():
    """B's client connects to node 1 before that restarts, and a proxy keeps its connection."""
    story = Story()
    late = story.request(B, 1)
    story.sees(late).wins(A, (0, 1)).then("Forget", 1, True, False).asks(late).answers(late)
    story.vote(B, 2)
    return story.then("ClientWin", B)


def repair_of_what_is_over():
    """A's votes are over; node 1 has voted for B since, and forgotten it."""
    story = first_a_then_b(("Tick",)).then("Forget", 1, False, False).then("NodeInit", 1)
    story.vote(A, 0, EXTEND)
    story.vote(A, 1, REPAIR, counted=1)
    return story


def release_of_a_living_token():
    story = Story().wins(A, (0, 1))
    i = story.request(A, 1, RELEASE)
    return story.asks(i).answers(i).wins(B, (1, 2))


def kept_in_quarantine():
    """B has a vote of node 2, which forgets it, and then keeps the lock for A."""
    story = Story().wins(A, (0, 1)).then("Tick")
    story.vote(B, 2)
    story.then("Forget", 2, False, False).then("NodeInit", 2)
    for node in (0, 2):
        story.vote(A, node, KEEP)
    return story.then("Tick").wins(B, (1,))


def kept_and_forgotten():
    story = Story().wins(A, (0, 1))
    for node in (0, 1):
        story.vote(A, node, KEEP)
    return story.then("Forget", 1, True, False).then("NodeInit", 1).then("Tick").wins(B, (1, 2))


def adopted():
    story = Story().wins(A, (0, 1)).then("ClientExport", A)
    return story.wins(B, (0, 1), ADOPT, former=A)


def one_node_decides(run):
    w, b = run.w, run.t[B]
    return [w.fence(b) == w.mark(run.m[len(run.m) - 1]), w.fence(run.t[A]) == 10]


FORGETS = ("Forget", 1, False, False)

ASSUMPTIONS = [
    Assumption("RATES", "The rates of a client's and a node's clock differ by less than `drift`.",
               "The clock of node 1 is faster, and A's vote there ends before A stops to count it.",
               ("Tick.rates_within_drift",), first_a_then_b(("Tick",))),
    Assumption("NO_STEP", "The clock of a node that the lease needs does not step forward.",
               "The clock of node 1 steps over the end of A's vote.",
               ("steady:1",), first_a_then_b(("Step", 1))),
    Assumption("NO_STEP_IN_QUARANTINE", "Nor does it in a quarantine, unseen.",
               "The clock of node 1 steps over the end of its quarantine.",
               ("steady:1",), first_a_then_b(FORGETS, ("NodeInit", 1), ("Step", 1))),
    Assumption("GUARDED", "A node that may forget is guarded.",
               "Node 1 forgets A's vote, and votes for B at once.",
               ("guarded:1",), first_a_then_b(FORGETS)),
    Assumption("LONG_QUARANTINE", "A quarantine lasts as long as any vote: `max_ttl`.",
               "The quarantine of node 1 is over before A's vote is.",
               ("NodeInit.as_long_as_any_vote", "NodeInit.as_long_as_any_keep"), first_a_then_b(FORGETS, ("NodeInit", 1), ("Tick",))),
    Assumption("LONGER_FOR_KEEP", "A quarantine lasts as long as any keep: `max_ttl` and the drift of it.",
               "Node 1 forgets that it keeps the lock, and its quarantine is over before.",
               ("NodeInit.as_long_as_any_keep",), kept_and_forgotten(), "kept_in_vain", {"longest": 11}),
    Assumption("ONE_MAX_TTL", "All clients of a set have one `max_ttl`, and no ttl is longer.",
               "A's ttl is longer than the quarantine that another client writes.",
               ("ClientAsk.one_max_ttl",), first_a_then_b(FORGETS, ("NodeInit", 1), ("Tick",), ttl=30)),
    Assumption("ONE_SET", "All clients have the same nodes, so that any two quorums share one.",
               "A's quorum is of nodes 0 and 1, and B's of nodes 2 and 3.",
               ("one set",), first_a_then_b(b=(2, 3)), options=other_set(),
               sound={"quorums": ((0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3))}),
    Assumption("CONNECTIONS_END", "A connection ends with the server behind it.",
               "Node 1 restarts with an old record behind a proxy, and B's client does not see it.",
               ("NodeAcquire.connection_to_this_run",), before_the_restart()),
    Assumption("TRUE_UPTIME", "A server that founds a set is as old as it says.",
               "Node 1 has restarted, looks old, and is given its record without a quarantine.",
               ("ClientRaise.older_than_any_vote",), first_a_then_b(("Forget", 1, True, False), ("ClientRaise", 1))),
    Assumption("COUNTERS", "A node that two quorums share keeps its counter of fences.",
               "The counter of node 1 is lost, and B proposes a smaller fence.",
               ("counting:1",), Story().wins(A, (0, 1)).then("ClientGiveUp", A).then("Tick").then("CounterLost", 1, 0, 0).wins(B, (1, 2)),
               "out_of_order"),
    Assumption("ONE_FENCE_OF_A_QUORUM", "A fence is good once a quorum stores that one; no node, and no clock, makes it alone.",
               "B takes the fence of one node for its own.",
               ("ClientWin.of_one_fence",), native_then_marks(), "out_of_order", also=one_node_decides),
    Assumption("COUNTED_FROM_BEFORE", "A client counts a vote from before its request is sent, on a clock that goes on.",
               "A counts from later, and so beyond the end of its vote on node 1.",
               ("ClientAsk.counts_from_before_it_is_sent",), first_a_then_b(("Tick",))),
    Assumption("R1", "A release is sent only when its token is dead.",
               "A's vote on node 1 is deleted while A counts it.",
               ("ClientRelease.token_is_dead",), release_of_a_living_token()),
    Assumption("REPAIRED_WHILE_COUNTED", "An extension in mode 2 or 3 is sent only for a vote that the client counts at this moment.",
               "A's votes are over, and in its quarantine node 1 stores A's anew, beside the one of B that it has forgotten.",
               ("ClientRenew.which_it_counts_now",), repair_of_what_is_over()),
    Assumption("EXPORT_ENDS", "A client that exports a lease takes it for ended.",
               "A goes on beside B, which has adopted its votes.",
               ("ClientExport.lease_is_over",), adopted()),
    Assumption("KEPT_WHERE_VOTES_COUNT", "What a node keeps in quarantine does not count for the keep.",
               "Node 2 has forgotten its vote for B, which B still counts, and keeps the lock for A.",
               ("NodeKeep.counts_where_votes_do",), kept_in_quarantine(), "kept_in_vain"),
]


def witness():
    """With all assumptions: a new set is founded, a lock is won, passed on, lost and won again."""
    story = Story().then("ClientRaise", 0).then("ClientRaise", 1).then("ClientRaise", 2)
    story.wins(A, (0, 1), NATIVE).then("ClientPassOn", A).then("Tick").then("ClientGiveUp", A)
    story.wins(B, (1, 2))
    return Run(story.steps, story.requests, begin="new", also=lambda run: [
        run.states[-1].now(run.t[A]) > run.w.asked(run.m[0]) + run.w.counts(run.m[0])])
