/** The reasons of a loss. */

/** Why a lease was lost. */
export type LossReason = "expired" | "refused" | "max_hold" | "owner_gone" | "closed" | "forced";
