------------------------------ MODULE MCFounding ------------------------------
(* Founding, with lists of nodes for TLC: all clients mean one set, or the sets of two of them share a node.           *)
EXTENDS Founding, TLC
Symmetry == Permutations(Nodes) \cup Permutations(Clients)
Same(c) == Nodes
Shifted(c) == {c, c + 1}
===============================================================================
