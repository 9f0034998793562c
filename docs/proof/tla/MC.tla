---------------------------------- MODULE MC ----------------------------------
(* Votes, with what only TLC needs. Nodes and tokens may be exchanged for each other where they are model values. *)
EXTENDS Votes, TLC
Symmetry == Permutations(Nodes) \cup Permutations(Tokens)
===============================================================================
