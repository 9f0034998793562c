/** What can be listened to: losses, and what is worth knowing. */

import { EventEmitter } from "node:events";

import type { Loss } from "./lease.js";
import { tell, told } from "./port.js";

/** What `log` tells: passwords and tokens are never in it. */
export interface LogLine {
  level: "warn" | "info";
  message: string;
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
  for (const weak of logged) {
    const emitter = weak.deref();
    if (emitter === undefined) logged.delete(weak);
    else if (emitter.listenerCount("log") > 0) {
      tell(() => emitter.emit("log", { level: warning ? "warn" : "info", message }));
    }
  }
};

/** From now on log lines go to this one, too. */
export function tellLog(emitter: Events): void {
  logged.add(new WeakRef(emitter));
}
