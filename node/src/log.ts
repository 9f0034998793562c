/** Lines of the log: of the core and of this package, for all emitters of the process. */

import type { EventEmitter } from "node:events";
import { inspect } from "node:util";

import { logged } from "./channels.js";
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

/** The emitters whose listeners get log lines. */
const emitters = new Set<WeakRef<EventEmitter>>();
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

/** Gives a line to all listeners. Returns whether there are any. */
export function hear(line: LogLine): boolean {
  let heard = logged.hasSubscribers;
  if (heard) logged.publish({ ...line });
  for (const weak of emitters) {
    const emitter = weak.deref();
    if (emitter === undefined) emitters.delete(weak);
    else if (emitter.listenerCount("log") > 0) {
      heard = true;
      tell(() => emitter.emit("log", { ...line }));
    }
  }
  return heard;
}

/** Warns of what the program does and should not: the process prints it, and the listeners of `log` get it. */
export function warn(event: string, template: string, fields: Record<string, string>, detail?: string): void {
  const line = lineOf("warn", event, template, fields);
  hear(line);
  const code = `QUORLOCK_${event.toUpperCase()}`;
  process.emitWarning(line.message, { type: "QuorlockWarning", code, ...(detail !== undefined && { detail }) });
}

/** From now on log lines go to this emitter, too. */
export function tellLog(emitter: EventEmitter): void {
  emitters.add(new WeakRef(emitter));
}
