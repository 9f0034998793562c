/** The clients that `redlock` makes by itself: one for each set of options. */

import type { NativeClientOptions } from "./binding.js";
import { Client } from "./client.js";

const clients = new Map<string, Client>();

export function defaultClient(options: NativeClientOptions): Client {
  const where = options.nodes ?? process.env["QUORLOCK_NODES"] ?? null;
  const others = Object.entries(options).filter(([name]) => name !== "nodes");
  const place = JSON.stringify([where, ...others.sort()]);
  let client = clients.get(place);
  if (client === undefined) {
    client = new Client(options);
    clients.set(place, client);
  }
  return client;
}
