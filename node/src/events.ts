/** What can be listened to: losses, and what is worth knowing. */

import { EventEmitter } from "node:events";

import type { Loss } from "./lease.js";
import type { LogLine } from "./log.js";

/** The events of a client, each with what its listeners get. */
export interface ClientEvents {
  /** A lease was lost. Once for each handle that had not been released. */
  lost: [loss: Loss];
  /** Something is worth knowing; of all clients of the process. */
  log: [line: LogLine];
}

/** An `EventEmitter` of `lost` and `log`. */
export class Events extends EventEmitter {}

export interface Events {
  on<E extends keyof ClientEvents>(event: E, listener: (...values: ClientEvents[E]) => void): this;
  once<E extends keyof ClientEvents>(event: E, listener: (...values: ClientEvents[E]) => void): this;
  off<E extends keyof ClientEvents>(event: E, listener: (...values: ClientEvents[E]) => void): this;
  addListener<E extends keyof ClientEvents>(event: E, listener: (...values: ClientEvents[E]) => void): this;
  removeListener<E extends keyof ClientEvents>(event: E, listener: (...values: ClientEvents[E]) => void): this;
  emit<E extends keyof ClientEvents>(event: E, ...values: ClientEvents[E]): boolean;
}
