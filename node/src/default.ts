/** The clients that `redlock` makes by itself: one for each set of options. What they tell, `redlock.events` does. */

import { environment } from "./options.js";
import type { NativeClientOptions } from "./binding.js";
import { Client } from "./client.js";
import { Events, type ClientEvents } from "./events.js";
import { tellLog, warn } from "./log.js";

const clients = new Map<string, Client>();
/** More sets of options than this are hardly meant: each has connections of its own, for as long as the process lives. */
const MANY = 16;

/** Emits what all of them do. */
export const events = new Events();
tellLog(events);

/** A client whose losses `events` emits. */
class DefaultClient extends Client {
  override emit<E extends keyof ClientEvents>(event: E, ...values: ClientEvents[E]): boolean {
    return event === "lost" ? events.emit(event, ...values) : super.emit(event, ...values);
  }

  override listenerCount(event: keyof ClientEvents): number {
    return event === "lost" ? events.listenerCount(event) : super.listenerCount(event);
  }
}

export function defaultClient(options: NativeClientOptions): Client {
  const place = JSON.stringify([environment(), ...Object.entries(options).sort()]);
  let client = clients.get(place);
  if (client === undefined) {
    client = new DefaultClient(options);
    clients.set(place, client);
    if (clients.size === MANY + 1) {
      const what = "{count} calls without `client` had other options of a client each time, and each set of them has a client";
      const count = String(clients.size);
      warn("many_clients", `${what} and connections of its own: give them the same options, or a \`client\``, { count });
    }
  }
  return client;
}
