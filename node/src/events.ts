/** What can be listened to: losses, and what is worth knowing. */

import { EventEmitter } from "node:events";
import { inspect } from "node:util";

import { logged as channel } from "./channels.js";
import type { Loss } from "./lease.js";
import type { Name } from "./options.js";
import { tell, told } from "./port.js";

/** What `log` tells: passwords and tokens are never in it. */
export interface LogLine {
  level: "warn" | "info";
  message: string;
  /** What kind of thing it tells of, in one word, which is the same in every language: `"lease_lost"`, `"node_unreached"`. */
  event: string;
  /** The text of all lines of its kind, with the names of the fields in braces: what lines can be grouped by. */
  template: string;
  /** What differs: `lock` is the name of a lock, `node` a node as in errors, `reason` why. */
  fields: Readonly<Record<string, string>>;
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
told.log = (warning, line) => {
  const heard = hear({ level: warning ? "warn" : "info", ...line });
  // Nothing listens: the process prints it.
  if (warning && !heard) process.emitWarning(line.message, { type: "QuorlockWarning", code: "QUORLOCK_LOG" });
};

/** A line of this package's own. */
export function lineOf(
  level: LogLine["level"],
  event: string,
  template: string,
  fields: Record<string, string>,
  error?: unknown,
): LogLine {
  const message = template.replace(/\{(\w+)\}/g, (_, name: string) => fields[name] ?? "");
  return { level, message, event, template, fields, ...(error !== undefined && { error }) };
}

/** A lock's name for a line: in one line, whatever it is. */
export function shown(name: Name): string {
  return inspect(typeof name === "string" ? name : Buffer.from(name).toString("latin1")).slice(1, -1);
}

/** Tells a line to all who listen. Returns whether anybody does. */
export function hear(line: LogLine): boolean {
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
export function warn(event: string, template: string, fields: Record<string, string>, detail?: string): void {
  const line = lineOf("warn", event, template, fields);
  hear(line);
  const code = `QUORLOCK_${event.toUpperCase()}`;
  process.emitWarning(line.message, { type: "QuorlockWarning", code, ...(detail !== undefined && { detail }) });
}

/** From now on log lines go to this one, too. */
export function tellLog(emitter: Events): void {
  logged.add(new WeakRef(emitter));
}
