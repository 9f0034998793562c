/** The clients that `redlock` makes by itself: one for each set of options. What they tell, `redlock.events` does. */

import type { NativeClientOptions } from "./binding.js";
import { Client } from "./client.js";
import { Events, tellLog } from "./events.js";
import { environment } from "./options.js";

const clients = new Map<string, Client>();

/** Tells what all of them do. */
export const events = new Events();
tellLog(events);

export function defaultClient(options: NativeClientOptions): Client {
  const where = options.nodes ?? environment();
  const others = Object.entries(options).filter(([name]) => name !== "nodes");
  const place = JSON.stringify([where, ...others.sort()]);
  let client = clients.get(place);
  if (client === undefined) {
    client = new Client(options);
    client.on("lost", (loss) => events.emit("lost", loss));
    clients.set(place, client);
  }
  return client;
}
