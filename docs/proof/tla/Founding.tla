------------------------------- MODULE Founding -------------------------------
(* How a set is founded, and a lost record corrected: what lets a node vote at once, and what keeps a node that has    *)
(* lost votes from it. Clients list the nodes of their set; two that list other nodes mean other sets. How long a     *)
(* quarantine is, is left to Votes.tla: here it ends when no vote that was lost counts any more.                      *)
EXTENDS Naturals, FiniteSets

CONSTANTS
    Nodes, Clients, None,
    ListOf(_),  \* the nodes that a client lists
    MaxFlushes, MaxRestarts

VARIABLES
    node,   \* its record (none, pledge, full), of which list; in quarantine; whether it has lost votes that count; whether
            \* it runs for longer than a vote lives; how many keys it has stored in this run, 3 for more
    seen,   \* what each client has read of each node over the connection that it has
    spent
vars == <<node, seen, spent>>

Unseen == [rec |-> "unseen", of |-> {}, new |-> FALSE]
Init ==
    /\ node = [n \in Nodes |-> [rec |-> "none", of |-> {}, quar |-> FALSE, lost |-> FALSE, voted |-> FALSE, old |-> FALSE, sets |-> 0]]
    /\ seen = [c \in Clients |-> [n \in Nodes |-> Unseen]]
    /\ spent = [flushes |-> 0, restarts |-> 0]

Min(a, b) == IF a < b THEN a ELSE b
Mine(c, n) == seen[c][n].of = ListOf(c)
Foreign(c, n) == seen[c][n].rec \in {"pledge", "full"} /\ ~Mine(c, n)
(* A node shows that it has lost nothing: it has run for longer than a vote lives, and has stored nothing. *)
New(n) == node[n].old /\ node[n].sets = 0
Write(n, rec, list, quar) ==
    node' = [node EXCEPT ![n].rec = rec, ![n].of = list, ![n].quar = @ \/ quar, ![n].sets = Min(@ + 1, 3)]

ClientSee(c, n) ==
    /\ n \in ListOf(c)
    /\ seen' = [seen EXCEPT ![c][n] = [rec |-> node[n].rec, of |-> node[n].of, new |-> New(n)]]
    /\ seen' # seen
    /\ UNCHANGED <<node, spent>>

ClientPledge(c, n) ==
    LET list == ListOf(c)
        free == \A i \in list : seen[c][i].rec = "none" => seen[c][i].new    \* guard: all that have no record show that they are new
    IN
    /\ n \in list
    /\ \A i \in list : seen[c][i].rec \in {"none", "pledge"} /\ ~Foreign(c, i)   \* guard: all nodes were seen, and none is foreign
    /\ seen[c][n].rec = "none"
    /\ node[n].rec = "none"                                     \* guard: a pledge replaces no record that it has not seen
    /\ Write(n, "pledge", list, ~free)
    /\ seen' = [seen EXCEPT ![c][n] = [rec |-> "pledge", of |-> list, new |-> @.new]]
    /\ UNCHANGED spent

ClientRaise(c, n) ==
    LET list == ListOf(c)
        few == node[n].sets <= 2                                \* guard: a node that has stored more than its pledge is quarantined
    IN
    /\ n \in list
    /\ \A i \in list : seen[c][i].rec \in {"pledge", "full"} /\ Mine(c, i)       \* guard: all nodes hold the pledge
    /\ node[n].rec = "pledge"
    /\ node[n].of = list    \* init compares. A pledge that was seen is another's only where its node has forgotten it.
    /\ Write(n, "full", list, ~few)
    /\ seen' = [seen EXCEPT ![c][n] = [@ EXCEPT !.rec = "full"]]
    /\ UNCHANGED spent

ClientCorrect(c, n) ==
    LET list == ListOf(c)
        lost == TRUE            \* A node that lost its record may have lost votes.
    IN
    /\ n \in list
    /\ \E i \in list : seen[c][i].rec = "full" /\ Mine(c, i)    \* guard: this set was seen
    /\ \A i \in list : ~Foreign(c, i)                           \* guard: no node is foreign
    /\ seen[c][n].rec = "none" /\ node[n].rec = "none"
    /\ Write(n, "full", list, lost)
    /\ seen' = [seen EXCEPT ![c][n] = [@ EXCEPT !.rec = "full", !.of = list]]
    /\ UNCHANGED spent

(* A vote of a node: only what has this set's record gives one, and not in quarantine. *)
NodeAcquire(n) ==
    /\ node[n].rec = "full" /\ ~node[n].quar
    /\ ~node[n].voted
    /\ node' = [node EXCEPT ![n].voted = TRUE, ![n].sets = Min(@ + 1, 3)]
    /\ UNCHANGED <<seen, spent>>

(* All keys are deleted, and connections stand: the server has counted what it did. *)
Flush(n) ==
    /\ spent.flushes < MaxFlushes
    /\ spent' = [spent EXCEPT !.flushes = @ + 1]
    /\ node' = [node EXCEPT ![n] = [@ EXCEPT !.rec = "none", !.of = {}, !.quar = FALSE, !.lost = @ \/ node[n].voted, !.voted = FALSE]]
    /\ UNCHANGED seen

(* The server restarts without its data: connections end, and it has counted nothing. *)
Forget(n) ==
    /\ spent.restarts < MaxRestarts
    /\ spent' = [spent EXCEPT !.restarts = @ + 1]
    /\ node' = [node EXCEPT ![n] = [@ EXCEPT !.rec = "none", !.of = {}, !.quar = FALSE, !.lost = @ \/ node[n].voted, !.voted = FALSE,
                                             !.old = FALSE, !.sets = 0]]
    /\ seen' = [c \in Clients |-> [seen[c] EXCEPT ![n] = Unseen]]

(* The time of a vote goes by: what was lost counts no more, and a quarantine that stood all along ends. *)
Tick ==
    /\ node' = [n \in Nodes |-> [node[n] EXCEPT !.old = TRUE, !.lost = FALSE, !.quar = FALSE, !.voted = FALSE]]
    /\ node' # node
    /\ UNCHANGED <<seen, spent>>

Next ==
    \/ \E c \in Clients, n \in Nodes : ClientSee(c, n) \/ ClientPledge(c, n) \/ ClientRaise(c, n) \/ ClientCorrect(c, n)
    \/ \E n \in Nodes : NodeAcquire(n) \/ Flush(n) \/ Forget(n)
    \/ Tick
Spec == Init /\ [][Next]_vars

(* No node may vote that has lost votes which count. *)
NoneForgets == \A n \in Nodes : node[n].rec = "full" /\ ~node[n].quar => ~node[n].lost
(* Of two sets that share a node at most one comes to be. *)
OneSet == \A m, n \in Nodes : node[m].rec = "full" /\ node[n].rec = "full" => node[m].of = node[n].of
===============================================================================
