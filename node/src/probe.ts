/** The state of a set and of its nodes. */

/** One thing that a probe has found. `docs/operations/doctor.md` lists all that there are. */
export interface Finding {
  /** Which one it is, such as `QD01`: the same forever. */
  readonly id: string;
  /** `error`: it costs a vote, or breaks what is promised. `warning`: to be fixed, or waited for. `note`: worth knowing. */
  readonly severity: "note" | "warning" | "error";
  /** What is wrong, without secrets. */
  readonly what: string;
  /** What to do about it. */
  readonly remedy: string;
}

/** The state of one node. What is not known of one that cannot be used is `null`. Times in milliseconds. */
export interface NodeReport {
  /** The node, as in errors; never with credentials. */
  readonly node: string;
  /** Whether it has answered. */
  readonly answers: boolean;
  /** Whether it would give a vote now. */
  readonly votes: boolean;
  /** The shortest of a few round trips, and the one in the middle of them. */
  readonly roundTrip: readonly [number, number] | null;
  /** What it is; `memory` for a node within the process. */
  readonly server: "redis" | "valkey" | "memory" | null;
  /** The version of that. */
  readonly version: string | null;
  /** What it is among its replicas. */
  readonly role: "master" | "replica" | null;
  /** For how long it has run. */
  readonly uptime: number | null;
  /** How far its clock is ahead of the one in the middle of the set's; negative: it is behind. */
  readonly clock: number | null;
  /** By how much that may be wrong. */
  readonly clockError: number | null;
  /** Its eviction policy. */
  readonly eviction: string | null;
  /** How much memory it uses, in bytes. */
  readonly memoryUsed: number | null;
  /** How much it may use, in bytes; `null` also where it has no limit. */
  readonly memoryLimit: number | null;
  /** Its record; `unknown` where that was not read. A node within the process needs none: `expected`. */
  readonly record: "expected" | "none" | "other" | "unknown";
  /** What of its record is not as this client expects it, field by field. */
  readonly differences: readonly string[];
  /** How much longer it gives no vote, for it may have lost its memory. */
  readonly quarantine: number;
  /** How votes are given back there; `null` where that was not tried. */
  readonly release: "delifeq" | "delex" | "script" | null;
  /** What is to be said of it, the gravest first. */
  readonly findings: readonly Finding[];
}

/** The state of a client's set. */
export interface Probe {
  /** The name of the set. */
  readonly setName: string;
  /** How many nodes must vote for a lock. */
  readonly quorum: number;
  /** The longest ttl of its locks, in milliseconds, as this client has it. */
  readonly maxTtl: number;
  /** Whether this client guards restarts. */
  readonly guard: boolean;
  /** How many nodes would give a vote now. */
  readonly votes: number;
  /**
   * `works`: a quorum votes, and there is nothing to fix. `works_but`: a quorum votes, and there is a warning or an error.
   * `cannot`: no lock can be won now.
   */
  readonly health: "works" | "works_but" | "cannot";
  /** What is to be said of the set as a whole. */
  readonly findings: readonly Finding[];
  /** The nodes, in the order of the node list. */
  readonly nodes: readonly NodeReport[];
}
