-------------------------------- MODULE Shared --------------------------------
(* Readers and holders of one lock alone, on the nodes of a set: votes of both kinds, their fences, a downgrade, and   *)
(* the reservation for one that wants it alone. What Votes.tla has of restarts, late messages and lost ones is left    *)
(* out; a request is carried out when it is sent, or is lost. Times are what is left, as there.                        *)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS Nodes, Tokens, None, Ttl, Candidates, MaxFence, MaxAsks

VARIABLES
    node,   \* the token that has it alone, the readers' ends, and the fences that are counted
    token,
    topAlone, topAll \* the largest fence that was won by one alone, and by any: for Order
vars == <<node, token, topAlone, topAll>>
Symmetry == Permutations(Nodes) \cup Permutations(Tokens)

Quorums == {q \in SUBSET Nodes : 2 * Cardinality(q) > Cardinality(Nodes)}
Less(x) == IF x > 0 THEN x - 1 ELSE 0
Max(a, b) == IF a > b THEN a ELSE b

Init ==
    /\ node = [n \in Nodes |-> [alone |-> None, left |-> 0, readers |-> [t \in Tokens |-> 0], base |-> 0, count |-> 0,
                                for |-> None]]
    /\ \E kind \in [Tokens -> {"alone", "shared"}] :
        token = [t \in Tokens |-> [phase |-> "new", kind |-> kind[t], vote |-> [n \in Nodes |-> 0],
                                   mark |-> [n \in Nodes |-> 0], asks |-> [n \in Nodes |-> 0], fence |-> 0, floor |-> 0,
                                   cast |-> FALSE]]
    /\ topAlone = 0 /\ topAll = 0

Lasting(t) == {n \in Nodes : token[t].vote[n] > 0}
Valid(t) == token[t].phase = "held" /\ Lasting(t) \in Quorums
Readers(n) == {t \in Tokens : node[n].readers[t] > 0}
(* A reader excludes only those that want the lock alone, and its fence is compared with theirs. *)
Voted(t, n, f) ==
    LET top == IF token[t].kind = "alone" THEN topAll ELSE topAlone IN
    [token EXCEPT ![t].vote[n] = Ttl, ![t].mark[n] = f, ![t].phase = "asking", ![t].asks[n] = @ + 1,
                  ![t].floor = IF token[t].cast THEN @ ELSE top, ![t].cast = TRUE]

(* A vote for one alone: acquire of Votes.tla. *)
NodeAcquire(t, n) ==
    /\ token[t].phase \in {"new", "asking"} /\ token[t].kind = "alone"
    /\ token[t].asks[n] < MaxAsks
    /\ node[n].left = 0                                         \* guard: one alone takes what none has alone
    /\ Readers(n) = {}                                          \* guard: one alone is refused by readers
    /\ node[n].for \in {None, t}                                \* guard: what is reserved is another's
    /\ \E c \in Candidates :
        LET f == Max(c, node[n].count + 1) IN
        /\ node' = [node EXCEPT ![n].alone = t, ![n].left = Ttl, ![n].count = f, ![n].for = IF @ = t THEN None ELSE @]
        /\ token' = Voted(t, n, f)
    /\ UNCHANGED <<topAlone, topAll>>

ClientShare(t) ==
    /\ token[t].phase = "new" /\ token[t].kind = "shared"
    /\ token' = [token EXCEPT ![t].phase = "asking"]
    /\ UNCHANGED <<node, topAlone, topAll>>

NodeShare(t, n) ==
    LET base == IF Readers(n) = {} THEN node[n].count ELSE node[n].base IN
    /\ token[t].phase = "asking" /\ token[t].kind = "shared"
    /\ token[t].asks[n] < MaxAsks
    /\ node[n].left = 0                                         \* guard: a reader is refused by one alone
    /\ node[n].for = None                                       \* guard: a reader is refused where it is reserved
    /\ \E c \in Candidates :
        LET least == base + 1
            above == c > base                                   \* guard: a reader's fence is beyond the base
            f == IF above THEN c ELSE least
        IN
        /\ node' = [node EXCEPT ![n].alone = None, ![n].readers[t] = Ttl, ![n].base = base, ![n].count = Max(@, f)]
        /\ token' = Voted(t, n, f)
    /\ UNCHANGED <<topAlone, topAll>>

(* The fence of the largest mark, written back: extend and share_extend, mode 3. *)
NodeConfirm(t, n, f) ==
    /\ token[t].phase = "asking" /\ Lasting(t) \in Quorums /\ n \in Lasting(t)
    /\ f \in {token[t].mark[i] : i \in Lasting(t)} \/ f - 1 \in {token[t].mark[i] : i \in Lasting(t)}
    /\ f <= MaxFence /\ f # token[t].mark[n]
    /\ IF token[t].kind = "alone"
       THEN /\ node[n].alone = t /\ node[n].left > 0
            /\ f > node[n].count                                \* guard: a fence of one alone is beyond what is counted
       ELSE /\ node[n].readers[t] > 0
            /\ f > node[n].base                                 \* guard: a reader's fence that is written back is beyond the base
    /\ node' = [node EXCEPT ![n].count = Max(@, f)]
    /\ token' = [token EXCEPT ![t].mark[n] = f]
    /\ UNCHANGED <<topAlone, topAll>>

ClientWin(t) ==
    /\ token[t].phase = "asking"
    /\ \E q \in Quorums, f \in 1..MaxFence :
        /\ \A n \in q : token[t].vote[n] > 0
        /\ \A n \in q : token[t].mark[n] = f                    \* guard: a quorum of readers stores one fence
        /\ token' = [token EXCEPT ![t].phase = "held", ![t].fence = f]
        /\ topAlone' = IF token[t].kind = "alone" THEN Max(topAlone, f) ELSE topAlone
        /\ topAll' = Max(topAll, f)
    /\ UNCHANGED node

(* The lease is shared from this moment on; each node lets readers in when it hears of it. *)
ClientDowngrade(t) ==
    /\ Valid(t) /\ token[t].kind = "alone"
    /\ token' = [token EXCEPT ![t].kind = "shared"]
    /\ UNCHANGED <<node, topAlone, topAll>>

NodeShareExtend(t, n) ==
    /\ Valid(t) /\ token[t].kind = "shared"                     \* guard: only a lease that says that it is shared is made a reader's
    /\ node[n].alone = t /\ node[n].left > 0                    \* guard: only the token's own vote is made a reader's
    /\ node' = [node EXCEPT ![n].alone = None, ![n].left = 0, ![n].readers[t] = node[n].left, ![n].base = node[n].count]
    /\ UNCHANGED <<token, topAlone, topAll>>

NodeReserve(t, n) ==
    /\ token[t].phase \in {"new", "asking"} /\ token[t].kind = "alone"
    /\ node[n].left = 0 /\ node[n].for = None /\ Readers(n) # {}
    /\ node' = [node EXCEPT ![n].for = t]
    /\ UNCHANGED <<token, topAlone, topAll>>

(* The end of a token, and its release at all nodes: one step, for what comes late is in Votes.tla. *)
ClientRelease(t) ==
    /\ token[t].phase \in {"asking", "held"}
    /\ token' = [token EXCEPT ![t] = [@ EXCEPT !.phase = "dead", !.vote = [n \in Nodes |-> 0], !.mark = [n \in Nodes |-> 0],
                                               !.asks = [n \in Nodes |-> 0]]]
    /\ node' = [n \in Nodes |-> [node[n] EXCEPT !.alone = IF @ = t THEN None ELSE @, !.left = IF node[n].alone = t THEN 0 ELSE @,
                                                !.readers[t] = 0, !.for = IF @ = t THEN None ELSE @]]
    /\ UNCHANGED <<topAlone, topAll>>

Tick ==
    /\ node' = [n \in Nodes |-> [node[n] EXCEPT !.left = Less(@), !.readers = [t \in Tokens |-> Less(@[t])],
                                                !.alone = IF node[n].left > 1 THEN @ ELSE None]]
    /\ token' = [t \in Tokens |-> [token[t] EXCEPT !.vote = [n \in Nodes |-> Less(@[n])]]]
    /\ UNCHANGED <<topAlone, topAll>>

Next ==
    \/ \E t \in Tokens, n \in Nodes :
        \/ NodeAcquire(t, n) \/ NodeShare(t, n) \/ NodeShareExtend(t, n) \/ NodeReserve(t, n)
        \/ \E f \in 1..MaxFence : NodeConfirm(t, n, f)
    \/ \E t \in Tokens : ClientShare(t) \/ ClientWin(t) \/ ClientDowngrade(t) \/ ClientRelease(t)
    \/ Tick
Spec == Init /\ [][Next]_vars

Sharing == \A t, u \in Tokens : t # u /\ Valid(t) /\ Valid(u) => token[t].kind = "shared" /\ token[u].kind = "shared"
OneKind == \A n \in Nodes : node[n].left > 0 => Readers(n) = {}
(* Where the lock is reserved for one that wants it alone, no other is let in. *)
PassesNone == \A n \in Nodes, t \in Tokens :
    node[n].for \notin {None, t} /\ node'[n].for # None =>
        /\ node'[n].readers[t] <= node[n].readers[t]
        /\ node'[n].alone = t => node[n].alone = t
NoPassing == [][PassesNone]_vars
(* A hold has a larger fence than each that excludes it, and that was won before its votes were cast; and no fence of *)
(* one alone is another's. A lease that was downgraded was won alone.                                                 *)
Order == \A t \in Tokens : token[t].fence > 0 => token[t].fence > token[t].floor
===============================================================================
