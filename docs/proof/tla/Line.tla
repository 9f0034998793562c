--------------------------------- MODULE Line ---------------------------------
(* The line of a lock at its home: the crowded forms, reservations, calls and polls. It carries no exclusion, so what *)
(* a vote of the home is worth is left out, and the home's vote is the lock. A client waits (`queued`, between two     *)
(* requests), asks (`asking`, by script; `trying`, by plain commands), holds, or has a release under way (`owing`).   *)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS
    Clients, None,
    Polls,      \* a waiter asks again by its timer
    Lossy,      \* messages and answers are lost, or come too late
    MaxGone     \* how many clients give up or end while they wait or hold

VARIABLES
    form,   \* under the lock's key: none, quiet, held (=), reserved (@), open (@ or = that is over, and the key is there)
    who,    \* its holder, or the waiter that it is reserved for
    queue,  \* the waiters, the first of which is next
    client, \* what each client does
    called  \* the clients to which a message is under way
vars == <<form, who, queue, client, called>>

Init ==
    /\ form = "none" /\ who = None /\ queue = <<>>
    /\ client = [c \in Clients |-> "idle"]
    /\ called = {}

Live(c) == client[c] # "gone"                                   \* guard: the dead are passed over
InQueue(c) == \E i \in 1..Len(queue) : queue[i] = c
Without(q, c) == SelectSeq(q, LAMBDA x : x # c)
RECURSIVE Alive(_)
(* The queue from its first live waiter on: the dead before it are taken out. *)
Alive(q) == IF q = <<>> THEN q ELSE IF Live(Head(q)) THEN q ELSE Alive(Tail(q))
Held == form \in {"quiet", "held"}
FreeNow == form \in {"none", "open"}

(* The first live waiter is called, and has the lock reserved; if there is none the key goes. *)
Serve(q) ==
    LET line == Alive(q) IN
    IF line = <<>>
    THEN form' = "none" /\ who' = None /\ queue' = line /\ called' = called
    ELSE form' = "reserved" /\ who' = Head(line) /\ queue' = Tail(line) /\ called' = called \cup {Head(line)}

ClientTry(c) ==
    /\ client[c] = "idle"
    /\ client' = [client EXCEPT ![c] = "trying"]
    /\ UNCHANGED <<form, who, queue, called>>

(* An answer that is lost leaves the client asking. *)
NodeTry(c, heard) ==
    /\ client[c] = "trying"
    /\ IF form = "none"                                         \* guard: plain commands take a key that is not there
       THEN form' = "quiet" /\ who' = c /\ client' = [client EXCEPT ![c] = IF heard THEN "holding" ELSE "asking"]
       ELSE UNCHANGED <<form, who>> /\ client' = [client EXCEPT ![c] = "asking"]
    /\ UNCHANGED <<queue, called>>

ClientJoin(c) ==
    /\ client[c] = "idle" \/ (client[c] = "queued" /\ Polls)
    /\ client' = [client EXCEPT ![c] = "asking"]
    /\ UNCHANGED <<form, who, queue, called>>

NodeJoin(c, heard) ==
    LET line == Alive(queue)
        own == Held /\ who = c
        mine == form = "reserved" /\ who = c
        first == line = <<>> \/ Head(line) = c                  \* guard: the first in the queue is next
        turn == FreeNow /\ first
        joined == IF InQueue(c) THEN queue ELSE Append(queue, c)
    IN
    /\ client[c] = "asking"
    /\ IF own \/ mine \/ turn
       THEN /\ form' = IF (own /\ form = "quiet") \/ (turn /\ Without(line, c) = <<>>) THEN "quiet" ELSE "held"
            /\ who' = c
            /\ queue' = IF turn THEN Without(line, c) ELSE Without(queue, c)
            /\ called' = called
            /\ client' = [client EXCEPT ![c] = IF heard THEN "holding" ELSE "asking"]
       ELSE /\ IF FreeNow
               THEN /\ form' = "reserved" /\ who' = Head(line) /\ called' = called \cup {Head(line)}
                    /\ queue' = Append(Without(Tail(line), c), c)
               ELSE /\ form' = IF form = "quiet" THEN "held" ELSE form       \* A quiet key is marked: it outlives its vote.
                    /\ queue' = joined
                    /\ UNCHANGED <<who, called>>
            /\ client' = [client EXCEPT ![c] = "queued"]

ClientHear(c) ==
    /\ c \in called
    /\ called' = called \ {c}
    /\ client' = [client EXCEPT ![c] = IF @ = "queued" THEN "asking" ELSE @]
    /\ UNCHANGED <<form, who, queue>>

Call(c) ==
    /\ Lossy /\ c \in called
    /\ called' = called \ {c}
    /\ UNCHANGED <<form, who, queue, client>>

ClientDone(c) ==
    /\ client[c] = "holding"
    /\ client' = [client EXCEPT ![c] = "owing"]
    /\ UNCHANGED <<form, who, queue, called>>

(* A client that gives up does not come again here. *)
Ended == Cardinality({x \in Clients : client[x] \in {"gone", "leaving"}})
ClientLeave(c) ==
    /\ client[c] \in {"queued", "asking"}
    /\ Ended < MaxGone
    /\ client' = [client EXCEPT ![c] = "leaving"]
    /\ UNCHANGED <<form, who, queue, called>>

(* The release of what a client held, or waited for. *)
NodeServe(c) ==
    /\ client[c] \in {"owing", "leaving"}
    /\ client' = [client EXCEPT ![c] = IF @ = "owing" THEN "idle" ELSE "gone"]
    /\ IF who = c /\ form # "none"                              \* guard: a release lets go of its own
       THEN Serve(Without(queue, c))
       ELSE IF FreeNow THEN Serve(Without(queue, c))
       ELSE queue' = Without(queue, c) /\ UNCHANGED <<form, who, called>>

WaiterGone(c) ==
    /\ Ended < MaxGone
    /\ client[c] \in {"queued", "asking", "holding"}
    /\ client' = [client EXCEPT ![c] = "gone"]
    /\ called' = called \ {c}
    /\ UNCHANGED <<form, who, queue>>

(* By time: a reservation; the hold of a client that is gone, or does not know that it has one; and a key whose life  *)
(* is over, for no live waiter has asked.                                                                             *)
PlaceEnds ==
    /\ \/ form = "reserved" /\ form' = "open" /\ (Lossy \/ (who \notin called /\ client[who] # "asking"))
       \/ Held /\ client[who] # "holding" /\ form' = IF form = "quiet" THEN "none" ELSE "open"
       \/ /\ form = "open"
          /\ Alive(queue) = <<>>                                \* guard: the key outlives the places in the queue
          /\ form' = "none"
    /\ who' = None
    /\ UNCHANGED <<queue, client, called>>

Answers == IF Lossy THEN {TRUE, FALSE} ELSE {TRUE}
Next ==
    \/ \E c \in Clients :
        \/ ClientTry(c) \/ ClientJoin(c) \/ ClientHear(c) \/ ClientDone(c) \/ ClientLeave(c)
        \/ NodeServe(c) \/ Call(c) \/ WaiterGone(c)
    \/ \E c \in Clients, heard \in Answers : NodeTry(c, heard) \/ NodeJoin(c, heard)
    \/ PlaceEnds

(* A waiter asks again, a holder ends, and time goes on. A client hears of its votes again and again, and of its       *)
(* reservations it is in time for one again and again: where every message is lost, and each poll of two waiters comes *)
(* when the reservation is over, they have the lock reserved for each other forever. Polls are drawn, so that they do *)
(* not.                                                                                                               *)
Spec ==
    /\ Init /\ [][Next]_vars
    /\ WF_vars(PlaceEnds)
    /\ \A c \in Clients :
        /\ WF_vars(client[c] # "idle" /\ ClientJoin(c)) /\ WF_vars(NodeTry(c, TRUE)) /\ WF_vars(NodeJoin(c, TRUE))
        /\ SF_vars(NodeJoin(c, TRUE) /\ client'[c] = "holding")
        /\ SF_vars((ClientJoin(c) \/ ClientHear(c)) /\ form = "reserved" /\ who = c)
        /\ WF_vars(ClientHear(c)) /\ WF_vars(ClientDone(c)) /\ WF_vars(NodeServe(c))

(* No client passes a live waiter that stands before it in the queue, or that the lock is reserved for.               *)
NewHold(c) == (form' \in {"quiet", "held"}) /\ who' = c /\ ~(Held /\ who = c)
Ahead(c) == IF Alive(queue) = <<>> THEN FALSE ELSE Head(Alive(queue)) # c
PassesNone == \A c \in Clients : NewHold(c) => IF form = "reserved" THEN who = c ELSE ~Ahead(c)
NoPassing == [][PassesNone]_vars
(* A lock is not taken from its holder. *)
Stays == Held /\ client[who] = "holding" /\ client'[who] = "holding" => who' = who /\ form' \in {"quiet", "held"}
NoTheft == [][Stays]_vars
(* While a live client waits in the queue the key is there, so that plain commands take nothing. *)
Marked == Alive(queue) # <<>> => form # "none"
(* No lost wake-up: a lock that a live client waits for does not stay free. *)
Waits == \E c \in Clients : client[c] \in {"queued", "asking"}
Idle == Waits /\ ~(Held /\ client[who] = "holding")
NoLostWakeUp == Idle ~> ~Idle
(* Where no message is lost and no client ends, each that waits has it. *)
EachHasIt == \A c \in Clients : (client[c] = "queued") ~> (client[c] = "holding")
===============================================================================
