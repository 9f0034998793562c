-------------------------------- MODULE Votes --------------------------------
(* Votes, fences, restarts and late messages of one lock: what carries exclusion and order. The names of the actions  *)
(* are those of ../actions.toml, which says for what each of them stands in docs/reference/protocol.md. The line of   *)
(* waiters is in Line.tla, readers are in Shared.tla, records of a new set in Founding.tla: ../tla.md has the table.  *)
(*                                                                                                                    *)
(* All times are what is left, in units: 0 is over. So no clock is in the state, and time is not bounded. A token is  *)
(* one attempt and what may come of it: a client that asks again does so by another token.                           *)
(*                                                                                                                    *)
(* A set that changes while it is used would have a membership and an epoch in each record, and a quorum of each: the *)
(* place for it is `Quorums`, which is the only word that actions know for who decides, and `rec`.                    *)
(*                                                                                                                    *)
(* A conjunct marked `guard: name` is a condition that check.py takes out, one at a time, to see a property fail.     *)
EXTENDS Naturals, FiniteSets

CONSTANTS
    Nodes,      \* the nodes of the set
    Tokens,     \* the tokens, of which each client uses one for each attempt
    None,       \* no token
    Ttl,        \* how long a vote stands by the node's clock
    Drift,      \* how much less of it is counted, and how often within a ttl a node's clock may gain a unit
    Spare,      \* for how much longer than a ttl the key of a plain command stands
    Late,       \* a script does nothing that comes later, by the node's clock
    Quarantine, \* for how long a node that was given a record gives no new vote
    Guard,      \* restarts are guarded
    Fencing,    \* fences are counted
    Candidates, \* what fences are proposed; 0: none
    Block,      \* how many fences are taken at once
    KeepFor,    \* for how long a lock stays taken from its win on; 0: not at all
    BanFor,     \* for how long a token is banned
    Natives,    \* a node is asked by plain commands the first time
    Exports,    \* leases are exported and adopted
    Forces,     \* locks are taken away
    MaxAsks,    \* how often a token asks one node
    MaxRenews,  \* how many renewals a token sends
    MaxPasses,  \* how often a token is passed on
    MaxForgets, MaxSteps, MaxGains, MaxCounters, MaxRepeats, \* how often these befall the nodes, in all
    MaxFence,   \* no fence is written back beyond this one
    Ages,       \* up to when the time since the end of a token is counted: for NotLate alone
    Breaks,     \* connections break, and a release may overtake the request that it undoes
    Instant,    \* an answer comes at once, or is lost: see Reply
    Together,   \* all nodes are asked at once, and singly else
    Losses      \* requests and answers are lost, and clients end: see Lose

VARIABLES
    node,   \* what stands on each node
    token,  \* what the client of each token knows
    net,    \* the requests and answers under way
    top,    \* the largest fence of all holds that were won so far: for Order alone
    spent   \* what has befallen the nodes
vars == <<node, token, net, top, spent>>

Counted == Ttl - Drift
Quorums == {q \in SUBSET Nodes : 2 * Cardinality(q) > Cardinality(Nodes)}
Less(x) == IF x > 0 THEN x - 1 ELSE 0
Max(a, b) == IF a > b THEN a ELSE b
Min(a, b) == IF a < b THEN a ELSE b
Free == [t |-> None, left |-> 0, kept |-> FALSE]

Init ==
    /\ node = [n \in Nodes |-> [key |-> Free, quar |-> 0, rec |-> 1, count |-> 0, gain |-> 0,
                                ban |-> [t \in Tokens |-> 0]]]
    /\ token = [t \in Tokens |-> [phase |-> "new", vote |-> [n \in Nodes |-> 0], mark |-> [n \in Nodes |-> 0],
                                  asks |-> [n \in Nodes |-> 0], renews |-> 0, passes |-> 0, fence |-> 0, last |-> 0,
                                  floor |-> 0, cast |-> FALSE, undo |-> {}, kept |-> {}, keep |-> 0, from |-> None,
                                  won |-> FALSE, age |-> 0]]
    /\ net = {}
    /\ top = 0
    /\ spent = [forgets |-> 0, steps |-> 0, gains |-> 0, counters |-> 0, repeats |-> 0]

(* A lease is valid while a quorum of its votes last. *)
Lasting(t) == {n \in Nodes : token[t].vote[n] > 0}
Valid(t) == token[t].phase = "held" /\ Lasting(t) \in Quorums

(* One message: its kind, token and node, what is left of the time that its vote is counted for (c) and of the node's *)
(* TIME until which it does anything (a), the record that it expects (r), a fence (f), a mode (m), whether it is the  *)
(* second of two (x).                                                                                                 *)
Message(k, t, n, c, a, f, m) ==
    [k |-> k, t |-> t, n |-> n, c |-> c, a |-> a, r |-> node[n].rec, f |-> f, m |-> m, x |-> 0]
Answer(msg, k, c, f) == [msg EXCEPT !.k = k, !.c = c, !.a = 0, !.r = 0, !.f = f, !.m = 0]
Requests == {"native", "trailer", "acquire", "extend", "confirm", "adopt"}
(* What is under way to a client that has ended its token is of no interest to it. *)
Unheard(t) == {msg \in net : msg.t # t \/ msg.k \in Requests}

-----------------------------------------------------------------------------
(* The client of a token. *)

(* A request that is lost is as none, so to ask all nodes at once is to ask each or not. *)
ClientAsk(t, ns) ==
    /\ token[t].phase \in {"new", "asking"}                     \* guard: a dead token asks no node
    /\ token[t].from = None
    /\ \A n \in ns : token[t].asks[n] < MaxAsks
    /\ \E n \in ns : token[t].vote[n] = 0 /\ node[n].rec # 0     \* A client is admitted first.
    /\ \E f \in IF Fencing THEN Candidates ELSE {0} :
        LET native(n) == Natives /\ token[t].asks[n] = 0 IN
        net' = net \cup {Message(IF native(n) THEN "native" ELSE "acquire", t, n, Counted,
                                IF native(n) THEN Ttl + Spare ELSE Late, f, 0) :
                        n \in {i \in ns : token[t].vote[i] = 0 /\ node[i].rec # 0}}
    /\ token' = [token EXCEPT ![t].phase = "asking", ![t].asks = [n \in Nodes |-> IF n \in ns THEN @[n] + 1 ELSE @[n]]]
    /\ UNCHANGED <<node, top, spent>>

(* What an answer makes of what the client knows. *)
Hears(t) == token[t].phase = "asking" \/ Valid(t)                \* guard: a lease that is over stays over
Took(all, msg) ==
    CASE msg.k = "vote" -> [all EXCEPT ![msg.t].vote[msg.n] = Max(@, msg.c), ![msg.t].mark[msg.n] = IF msg.m = 1 THEN msg.f ELSE @]
      [] msg.k = "mark" -> [all EXCEPT ![msg.t].vote[msg.n] = Max(@, msg.c), ![msg.t].mark[msg.n] = msg.f]
      [] msg.k = "no" -> [all EXCEPT ![msg.t].vote[msg.n] = 0]
Takes(msg, k) ==
    /\ msg.k = k
    /\ Hears(msg.t)
    /\ token' = Took(token, msg)
    /\ net' = net \ {msg}
    /\ UNCHANGED <<node, top, spent>>
ClientTakeVote == \E msg \in net : Takes(msg, "vote")
ClientTakeRefusal == \E msg \in net : Takes(msg, "no")
ClientTakeMark == \E msg \in net : Takes(msg, "mark")

(* The largest mark is written back, or one beyond it, where the node has said that it has more: plain commands count  *)
(* where another has the lock, scripts do not.                                                                        *)
ClientWriteBack(t, n) ==
    LET marks == {token[t].mark[i] : i \in Lasting(t)}
        largest == CHOOSE f \in marks : \A g \in marks : g <= f IN
    /\ Fencing
    /\ token[t].phase = "asking"
    /\ Lasting(t) \in Quorums
    /\ n \in Lasting(t)                                         \* guard: a fence is written back to a vote that counts
    /\ \E f \in {largest} \cup IF Natives THEN {largest + Block} ELSE {} :
        /\ f > 0 /\ f <= MaxFence /\ f # token[t].mark[n]
        /\ net' = net \cup {Message("confirm", t, n, Counted, Late, f, 3)}
        /\ net' # net
    /\ UNCHANGED <<node, token, top, spent>>

ClientWin(t) ==
    /\ token[t].phase = "asking"                                \* guard: a lease is won once
    /\ \E q \in Quorums, f \in IF Fencing THEN 0..MaxFence ELSE {0} :
        /\ \A n \in q : token[t].vote[n] > 0                    \* guard: a quorum of votes lasts
        /\ \A n \in q : Fencing => token[t].mark[n] = f         \* guard: a quorum stores one fence
        /\ Fencing => f > 0                                     \* guard: a mark is a fence
        /\ token' = [token EXCEPT ![t].phase = "held", ![t].last = f, ![t].fence = IF f = 0 THEN 0 ELSE f + 1 - Block,
                                  ![t].keep = KeepFor,
                                  ![t].won = Exports]
        /\ top' = Max(top, f)
    /\ UNCHANGED <<node, net, spent>>

ClientRenew(t, n) ==
    /\ Valid(t)                                                 \* guard: only what is valid is renewed
    /\ token[t].renews < MaxRenews
    /\ node[n].rec # 0
    /\ LET ends == IF token[t].vote[n] > 0 THEN token[t].vote[n] ELSE Late
           counts == token[t].vote[n] > 0                       \* guard: only a vote that counts goes on in quarantine
       IN
        net' = net \cup {Message("extend", t, n, Counted, Min(Late, ends), token[t].last, IF counts THEN 2 ELSE 1)}
    /\ token' = [token EXCEPT ![t].renews = @ + 1]
    /\ UNCHANGED <<node, top, spent>>

ClientPassOn(t) ==
    /\ Valid(t)                                                 \* guard: only what is valid is passed on
    /\ token[t].passes < MaxPasses
    /\ Fencing => token[t].fence < token[t].last                \* guard: a fence of the block is left
    /\ token' = [token EXCEPT ![t].passes = @ + 1, ![t].fence = IF Fencing THEN @ + 1 ELSE @, ![t].keep = KeepFor]
    /\ UNCHANGED <<node, net, top, spent>>

(* Dead first, then the first byte: from here on nothing is asked, counted or won for the token. *)
Dead(t, phase, undo) ==
    /\ token' = [token EXCEPT ![t] = [@ EXCEPT !.phase = phase, !.undo = undo, !.vote = [n \in Nodes |-> 0],
                                               !.mark = [n \in Nodes |-> 0], !.asks = [n \in Nodes |-> 0], !.renews = 0,
                                               !.passes = 0, !.cast = FALSE, !.keep = IF phase = "kept" THEN @ ELSE 0]]
    /\ net' = Unheard(t)
    /\ UNCHANGED <<node, top, spent>>
Asked(t) == {n \in Nodes : token[t].asks[n] > 0} \cup (IF token[t].renews > 0 THEN Nodes ELSE {})

ClientGiveUp(t) == token[t].phase = "asking" /\ Dead(t, "dead", Asked(t))

ClientRelease(t) ==
    /\ Valid(t)
    /\ IF token[t].keep > 0 THEN Dead(t, "kept", Nodes) ELSE Dead(t, "dead", Asked(t))

ClientLose(t) ==
    /\ token[t].phase = "held"
    /\ ~Valid(t)
    /\ Dead(t, "dead", Asked(t))

ClientExport(t) ==
    /\ Exports
    /\ Valid(t)
    /\ Dead(t, "exported", Asked(t) \ Lasting(t))

ClientAdopt(t, n, from) ==
    /\ token[from].phase = "exported"
    /\ token[t].phase = "new" \/ (token[t].phase = "asking" /\ token[t].from = from)
    /\ token[t].vote[n] = 0
    /\ token[t].asks[n] < MaxAsks
    /\ node[n].rec # 0
    /\ \E f \in IF Fencing THEN Candidates ELSE {0} : net' = net \cup {Message("adopt", t, n, Counted, Late, f, 0)}
    /\ token' = [token EXCEPT ![t].phase = "asking", ![t].asks[n] = @ + 1, ![t].from = from]
    /\ UNCHANGED <<node, top, spent>>

(* Somebody takes away the lock that a token holds; its holder hears of it from the nodes. *)
ClientForce(t) ==
    /\ Forces
    /\ token[t].phase = "held"
    /\ net' = net \cup {Message("force", t, n, Counted, 0, 0, 0) : n \in Nodes}
    /\ UNCHANGED <<node, token, top, spent>>

-----------------------------------------------------------------------------
(* A node that takes in a message. What it refuses leaves no trace but the answer "no" to an extension. *)

Same(msg) == Guard => node[msg.n].rec = msg.r
Banned(t, n) == node[n].ban[t] > 0
(* What each script looks at first: guard.lua, and the bans. *)
Fits(msg) ==
    /\ Same(msg)                                                \* guard: scripts compare the record
    /\ msg.a > 0                                                \* guard: scripts come in time
Allowed(t, n) == ~Banned(t, n)                                  \* guard: a banned token is given no vote
Stands(n) == node[n].key.left > 0
Own(t, n) == Stands(n) /\ node[n].key.t = t /\ ~node[n].key.kept
Open(n) == ~Stands(n)
(* Where answers are instant a request that is refused is as one that is lost: it need not go. *)
Gone(msg) == ~Instant /\ net' = net \ {msg} /\ UNCHANGED <<node, token, top, spent>>
(* An answer that comes later is as one that came at once, and of which its client makes use later: its count begins  *)
(* with the request. So where it comes at once, or never, the client of each state knows no less than it could.       *)
Reply(msg, tokens, answer) ==
    LET heard == token[msg.t].phase \in {"asking", "held"} IN
    IF Instant
    THEN /\ net' = net \ {msg}
         /\ token' = tokens \/ (heard /\ Hears(msg.t) /\ token' = Took(tokens, answer))
    ELSE /\ net' = (net \ {msg}) \cup IF heard THEN {answer} ELSE {}
         /\ token' = tokens
Store(t, n, left) == [t |-> t, left |-> IF Own(t, n) THEN Max(node[n].key.left, left) ELSE left, kept |-> FALSE]
(* What the node counts for a candidate: its own mark. *)
Count(n, f) == IF f >= node[n].count + Block THEN f ELSE node[n].count + Block
(* The first vote that is cast for a token remembers the holds that were won before: for Order. *)
Cast(t) == IF Fencing /\ token[t].phase = "asking" /\ ~token[t].cast
           THEN [token EXCEPT ![t].cast = TRUE, ![t].floor = top] ELSE token

NodeNativeAcquire == \E msg \in net :
    LET t == msg.t  n == msg.n  takes == Open(n) /\ msg.a > 0
        counts == msg.f > node[n].count IN
    /\ msg.k = "native"
    /\ node' = [node EXCEPT ![n].key = IF takes THEN [t |-> t, left |-> msg.a, kept |-> FALSE] ELSE @,
                            ![n].count = Max(@, msg.f)]
    /\ net' = (net \ {msg}) \cup
        IF takes THEN {[msg EXCEPT !.k = "trailer", !.f = IF counts THEN @ ELSE 0]} ELSE {}
    /\ token' = IF takes THEN Cast(t) ELSE token
    /\ UNCHANGED <<top, spent>>

(* The vote is counted from when the request was sent, for what is left of the key by now, at most a ttl, less the   *)
(* drift: what has passed since is subtracted twice.                                                                  *)
NodeTrailer == \E msg \in net :
    LET n == msg.n
        lasts == IF msg.a >= Ttl THEN msg.c ELSE IF msg.a + msg.c > Ttl THEN msg.a + msg.c - Ttl ELSE 0 IN
    /\ msg.k = "trailer"
    /\ IF /\ Same(msg)                                          \* guard: plain commands count with the record behind them
          /\ Guard => node[n].quar = 0                          \* guard: plain commands count without a quarantine behind them
       THEN /\ Reply(msg, token, [Answer(msg, "vote", lasts, msg.f) EXCEPT !.m = 1])
            /\ UNCHANGED <<node, top, spent>>
       ELSE Gone(msg)

NodeAcquire == \E msg \in net :
    LET t == msg.t  n == msg.n  f == IF Fencing /\ msg.f > 0 THEN Count(n, msg.f) ELSE 0 IN
    /\ msg.k = "acquire"
    /\ IF /\ Fits(msg)
          /\ Allowed(t, n)
          /\ node[n].quar = 0                                   \* guard: acquire gives no vote in quarantine
          /\ Own(t, n) \/ Open(n)                               \* guard: acquire takes what is free
       THEN /\ node' = [node EXCEPT ![n].key = Store(t, n, Ttl), ![n].count = Max(@, f)]
            /\ Reply(msg, Cast(t), [Answer(msg, "vote", msg.c, f) EXCEPT !.m = 1])
            /\ UNCHANGED <<top, spent>>
       ELSE Gone(msg)

NodeExtend == \E msg \in net :
    LET t == msg.t  n == msg.n IN
    /\ msg.k = "extend"
    /\ IF /\ Fits(msg)
          /\ node[n].quar = 0 \/ msg.m = 2                      \* guard: extend stores nothing anew in quarantine
       THEN IF /\ Allowed(t, n)
               /\ Own(t, n) \/ Open(n)                          \* guard: extend takes what is free
            THEN /\ node' = [node EXCEPT ![n].key = Store(t, n, Ttl), ![n].count = Max(@, msg.f)]
                 /\ Reply(msg, token, Answer(msg, "vote", msg.c, 0))
                 /\ UNCHANGED <<top, spent>>
            ELSE /\ Reply(msg, token, Answer(msg, "no", msg.c, 0))
                 /\ UNCHANGED <<node, top, spent>>
       ELSE Gone(msg)

NodeConfirm == \E msg \in net :
    LET t == msg.t  n == msg.n IN
    /\ msg.k = "confirm"
    /\ IF /\ Fits(msg)
          /\ Allowed(t, n)
          /\ Own(t, n)                                          \* guard: confirm finds the token
          /\ node[n].count + Block <= msg.f                     \* guard: confirm stores a fence whose block is beyond what is counted
       THEN /\ node' = [node EXCEPT ![n].key = Store(t, n, Ttl), ![n].count = msg.f]
            /\ Reply(msg, token, Answer(msg, "mark", msg.c, msg.f))
            /\ UNCHANGED <<top, spent>>
       ELSE Gone(msg)

NodeAdopt == \E msg \in net :
    LET t == msg.t  n == msg.n  from == token[msg.t].from
        f == IF Fencing /\ msg.f > 0 THEN Count(n, msg.f) ELSE 0 IN
    /\ msg.k = "adopt"
    /\ IF Fits(msg)
       THEN /\ IF /\ Allowed(t, n)
                  /\ node[n].quar = 0                           \* guard: adopt gives no vote in quarantine
                  /\ Own(t, n) \/ Own(from, n)                  \* guard: adopt takes over what stands
                  /\ Own(from, n) => ~Banned(from, n)           \* guard: adopt takes nothing of a banned lease
               THEN /\ node' = [node EXCEPT ![n].key = [Store(t, n, Ttl) EXCEPT !.left = Max(@, node[n].key.left)],
                                            ![n].count = Max(@, f), ![n].ban[from] = BanFor]
                    /\ Reply(msg, Cast(t), [Answer(msg, "vote", msg.c, f) EXCEPT !.m = 1])
               ELSE /\ node' = [node EXCEPT ![n].ban[from] = BanFor]
                    /\ net' = net \ {msg}
                    /\ UNCHANGED token
            /\ UNCHANGED <<top, spent>>
       ELSE Gone(msg)

Reaches(t, n) == \E msg \in net : msg.t = t /\ msg.n = n /\ msg.k \in Requests
(* A release is sent until it is acknowledged, so it has no message: it may come whenever it is owed, and where        *)
(* connections break once more at any time.                                                                          *)
NodeRelease(t, n) ==
    LET own == Own(t, n)                                        \* guard: release deletes the token's own
    IN
    /\ n \in token[t].undo                                       \* guard: a release is of a dead token
    /\ Breaks \/ ~Reaches(t, n)                                 \* guard: a release stands behind its request
    /\ token[t].keep = 0
    /\ Breaks => own
    /\ node' = [node EXCEPT ![n].key = IF own THEN Free ELSE @]
    /\ token' = [token EXCEPT ![t].undo = IF Breaks THEN @ ELSE @ \ {n}]
    /\ UNCHANGED <<net, top, spent>>

NodeKeep(t, n) ==
    /\ n \in token[t].undo
    /\ Breaks \/ ~Reaches(t, n)
    /\ token[t].keep > 0
    /\ LET keeps == Own(t, n) \/ Open(n)                        \* guard: keep takes what is free
       IN
        /\ node' = [node EXCEPT ![n].key = IF keeps THEN [t |-> t, left |-> token[t].keep + Drift, kept |-> TRUE] ELSE @]
        /\ token' = [token EXCEPT ![t].undo = @ \ {n}, ![t].kept = IF keeps THEN @ \cup {n} ELSE @]
    /\ UNCHANGED <<net, top, spent>>

NodeForce == \E msg \in net :
    LET t == msg.t  n == msg.n IN
    /\ msg.k = "force"
    /\ node' = [node EXCEPT ![n].key = IF Own(t, n) THEN Free ELSE @, ![n].ban[t] = Max(@, BanFor)]
    /\ net' = net \ {msg}
    /\ UNCHANGED <<token, top, spent>>

NodeInit(n) ==
    /\ node[n].rec = 0
    /\ node' = [node EXCEPT ![n].rec = 1 + spent.forgets, ![n].quar = Quarantine]
    /\ UNCHANGED <<token, net, top, spent>>

-----------------------------------------------------------------------------
(* What nobody decides. *)

Passed(n) == [node[n] EXCEPT !.key = IF @.left > 1 THEN [@ EXCEPT !.left = @ - 1] ELSE Free, !.quar = Less(@),
                             !.ban = [t \in Tokens |-> Less(@[t])]]

(* A message whose count is over changes nothing that counts any more. *)
Tick ==
    /\ node' = [n \in Nodes |-> [Passed(n) EXCEPT !.gain = Less(@)]]
    /\ token' = [t \in Tokens |-> [token[t] EXCEPT !.vote = [n \in Nodes |-> Less(@[n])], !.keep = Less(@),
                                              !.age = IF token[t].phase = "dead" THEN Min(@ + 1, Ages) ELSE 0]]
    /\ net' = {[msg EXCEPT !.c = Less(@), !.a = Less(@)] : msg \in {m \in net : m.c > 1}}
    /\ UNCHANGED <<top, spent>>

Ahead(n, what) ==
    /\ node' = [node EXCEPT ![n] = IF what = "gains" THEN [Passed(n) EXCEPT !.gain = Ttl] ELSE Passed(n)]
    /\ net' = {IF msg.n = n THEN [msg EXCEPT !.a = Less(@)] ELSE msg : msg \in net}
    /\ UNCHANGED <<token, top>>

Gain(n) ==
    /\ spent.gains < MaxGains
    /\ node[n].gain = 0                                         \* guard: a clock gains no more than the drift
    /\ spent' = [spent EXCEPT !.gains = @ + 1]
    /\ Ahead(n, "gains")

Step(n) ==
    /\ spent.steps < MaxSteps
    /\ spent' = [spent EXCEPT !.steps = @ + 1]
    /\ Ahead(n, "steps")

(* Without a guard the record is not looked at, and so is not missed. Counters are lost by CounterLost. *)
Forget(n) ==
    /\ spent.forgets < MaxForgets
    /\ spent' = [spent EXCEPT !.forgets = @ + 1]
    /\ node' = [node EXCEPT ![n].key = Free, ![n].quar = 0, ![n].rec = IF Guard THEN 0 ELSE @, ![n].ban = [t \in Tokens |-> 0]]
    /\ UNCHANGED <<token, net, top>>

CounterLost(n) ==
    /\ spent.counters < MaxCounters
    /\ spent' = [spent EXCEPT !.counters = @ + 1]
    /\ node' = [node EXCEPT ![n].count = 0]
    /\ UNCHANGED <<token, net, top>>

(* A message that is never taken in is as good as lost, and nothing waits for one: where no progress is claimed, and  *)
(* this is left out, the states that are left out are such that each later one has a later one of another among them. *)
Lose == \E msg \in net : Losses /\ net' = net \ {msg} /\ UNCHANGED <<node, token, top, spent>>

Repeat == \E msg \in net :
    /\ msg.k \in {"acquire", "extend", "adopt"} /\ msg.x = 0
    /\ spent.repeats < MaxRepeats
    /\ spent' = [spent EXCEPT !.repeats = @ + 1]
    /\ net' = net \cup {[msg EXCEPT !.x = 1]}
    /\ UNCHANGED <<node, token, top>>

Crash(t) == Losses /\ token[t].phase \in {"asking", "held"} /\ Dead(t, "dead", {})

Next ==
    \/ \E t \in Tokens, n \in Nodes :
        \/ ClientWriteBack(t, n) \/ ClientRenew(t, n)
        \/ NodeRelease(t, n) \/ NodeKeep(t, n)
        \/ \E from \in Tokens : ClientAdopt(t, n, from)
    \/ \E t \in Tokens, ns \in IF Together THEN {Nodes} ELSE {{n} : n \in Nodes} : ClientAsk(t, ns)
    \/ \E t \in Tokens :
        \/ ClientWin(t) \/ ClientPassOn(t) \/ ClientGiveUp(t) \/ ClientRelease(t) \/ ClientLose(t) \/ ClientExport(t)
        \/ ClientForce(t) \/ Crash(t)
    \/ NodeNativeAcquire \/ NodeTrailer \/ NodeAcquire \/ NodeExtend \/ NodeConfirm \/ NodeAdopt \/ NodeForce
    \/ ClientTakeVote \/ ClientTakeRefusal \/ ClientTakeMark
    \/ Lose \/ Repeat
    \/ \E n \in Nodes : NodeInit(n) \/ Gain(n) \/ Step(n) \/ Forget(n) \/ CounterLost(n)
    \/ Tick

Spec == Init /\ [][Next]_vars
(* For what happens in the end: time goes on, and a client that finds its lease over says so. *)
Fair == Spec /\ WF_vars(Tick) /\ \A t \in Tokens : WF_vars(ClientLose(t))

-----------------------------------------------------------------------------
(* What docs/reference/promises.md promises. *)

Exclusion == \A t, u \in Tokens : Valid(t) /\ Valid(u) => t = u

Order ==
    /\ \A t \in Tokens : Fencing /\ token[t].phase = "held" => token[t].fence > 0
    /\ \A t \in Tokens : token[t].fence > 0 => token[t].fence > token[t].floor
    /\ \A t, u \in Tokens : t # u /\ token[t].fence > 0 /\ token[u].fence > 0 =>
        Max(token[t].last, token[t].fence) <= token[u].last - Block \/ Max(token[u].last, token[u].fence) <= token[t].last - Block

(* What was released everywhere stands nowhere, but by a request that is late. *)
NoLeak == \A t \in Tokens, n \in Nodes :
    /\ token[t].phase \in {"dead", "kept"}
    /\ n \notin token[t].undo
    /\ ~Breaks /\ ~Reaches(t, n)
    => ~Own(t, n)

IsFinal == \A t \in Tokens : token[t].phase = "held" /\ ~Valid(t) => ~Valid(t)'
LossFinal == [][IsFinal]_vars
LossTold == \A t \in Tokens : (token[t].phase = "held" /\ ~Valid(t)) ~> token[t].phase # "held"

(* Rule Q: in quarantine nothing is taken for a vote that did not count before. *)
IsVote == Instant => \A t \in Tokens, n \in Nodes : token[t].vote[n] = 0 /\ token'[t].vote[n] > 0 => node[n].quar = 0
RuleQ == [][IsVote]_vars

(* A lock that was taken away from its holder by force: once a quorum has banned its token it has no vote there.      *)
ForcedEnds == \A t \in Tokens, n \in Nodes : Forces /\ Banned(t, n) => ~Own(t, n)
(* In the end nothing stands of a token that is dead, also where its release did not arrive. *)
InTheEndFree == \A t \in Tokens, n \in Nodes : (token[t].phase = "dead") ~> [](node[n].key.t # t)

(* A lease begins valid, and with a fence that is no smaller than that of the lease before it. *)
IsGiven == \A t \in Tokens :
    /\ token'[t].passes > token[t].passes => Valid(t)'
    /\ token'[t].phase = "held" /\ token[t].phase # "held" => Valid(t)'
    /\ token'[t].fence >= token[t].fence
Given == [][IsGiven]_vars

(* No theft: a vote that stands goes to no other token than one that adopts it. *)
IsOwn == \A n \in Nodes : Stands(n) /\ node'[n].key.t \notin {None, node[n].key.t} => token[node'[n].key.t].from = node[n].key.t
NoTheft == [][IsOwn]_vars

(* What was asked for a token that has ended since is carried out within the time for scripts, or not at all. *)
IsPrompt == Ages > 0 => \A n \in Nodes : \A t \in Tokens :
    /\ token[t].phase = "dead" /\ node'[n].key.t = t
    /\ node[n].key.t # t \/ node'[n].key.left > node[n].key.left
    => token[t].age < Late
NotLate == [][IsPrompt]_vars

(* Once a quorum has stored that a lock is kept no hold begins until that is over. *)
Kept(t) == token[t].keep > 0 /\ token[t].kept \in Quorums
IsKept == \A t \in Tokens : Kept(t) => \A u \in Tokens : token'[u].phase = "held" => token[u].phase = "held"
Keep == [][IsKept]_vars

(* Of all who adopt one lease at most one has it, ever. *)
AdoptedOnce == \A t, u \in Tokens : t # u /\ token[t].won /\ token[u].won => token[t].from = None \/ token[t].from # token[u].from
=============================================================================
