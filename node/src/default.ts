/** The clients that `redlock` makes by itself: one for each set of options. What they tell, `redlock.events` does. */

import type { NativeClientOptions } from "./binding.js";
import { Client } from "./client.js";
import { Events, tellLog, warn } from "./events.js";
import type { Loss } from "./lease.js";
import { environment } from "./options.js";

const clients = new Map<string, Client>();
/** More sets of options than this are hardly meant: each has connections of its own, for as long as the process lives. */
const MANY = 16;

/** Tells what all of them do. */
export const events = new Events();
tellLog(events);

const forward = (loss: Loss) => void events.emit("lost", loss);
// While nobody listens their leases need not know in which context to tell.
events.on("newListener" as "lost", (name: unknown) => {
  if (name === "lost" && events.listenerCount("lost") === 0) for (const client of clients.values()) client.on("lost", forward);
});
events.on("removeListener" as "lost", (name: unknown) => {
  if (name === "lost" && events.listenerCount("lost") === 0) for (const client of clients.values()) client.off("lost", forward);
});

export function defaultClient(options: NativeClientOptions): Client {
  const where = options.nodes ?? environment();
  const others = Object.entries(options).filter(([name]) => name !== "nodes");
  const place = JSON.stringify([where, ...others.sort()]);
  let client = clients.get(place);
  if (client === undefined) {
    client = new Client(options);
    if (events.listenerCount("lost") > 0) client.on("lost", forward);
    clients.set(place, client);
    if (clients.size === MANY + 1) {
      const what = `${clients.size} calls without \`client\` had other options of a client each time, and each set of them has a client`;
      warn("QUORLOCK_MANY_CLIENTS", `${what} and connections of its own: give them the same options, or a \`client\``);
    }
  }
  return client;
}
