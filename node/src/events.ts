/** What can be listened to: losses, and what is worth knowing. */

import { EventEmitter } from "node:events";

import { logged as channel } from "./channels.js";
import type { Loss } from "./lease.js";
import { tell, told } from "./port.js";

/** What `log` tells: passwords and tokens are never in it. */
export interface LogLine {
  level: "warn" | "info";
  message: string;
  /** What the work of an election has thrown, if this is about it. */
  error?: unknown;
}

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

/** Those that are told of log lines. */
const logged = new Set<WeakRef<Events>>();
told.log = (warning, message) => {
  const heard = log({ level: warning ? "warn" : "info", message });
  // Nothing listens: the process prints it.
  if (warning && !heard) process.emitWarning(message, { type: "QuorlockWarning", code: "QUORLOCK_LOG" });
};

/** Tells a line to all who listen. Returns whether anybody does. */
export function log(line: LogLine): boolean {
  let heard = channel.hasSubscribers;
  if (heard) channel.publish({ ...line });
  for (const weak of logged) {
    const emitter = weak.deref();
    if (emitter === undefined) logged.delete(weak);
    else if (emitter.listenerCount("log") > 0) {
      heard = true;
      tell(() => emitter.emit("log", { ...line }));
    }
  }
  return heard;
}

/** Tells what the program does that it should not: to the process, which prints it, and to all who listen to `log`. */
export function warn(code: string, message: string, detail?: string): void {
  log({ level: "warn", message });
  process.emitWarning(message, { type: "QuorlockWarning", code, ...(detail !== undefined && { detail }) });
}

/** From now on log lines go to this one, too. */
export function tellLog(emitter: Events): void {
  logged.add(new WeakRef(emitter));
}
