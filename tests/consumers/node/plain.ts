// What a program imports that says nothing of types to TypeScript: of the package and of its subpaths.

import { Client, redlock, type Lease } from "quorlock";
import { instrument } from "quorlock/opentelemetry";
import { lose, nodes } from "quorlock/testing";

export async function work(): Promise<boolean> {
  instrument();
  const client = new Client(nodes());
  client.on("lost", ({ name }) => void name);
  return await redlock("plain", { client }, async (lease: Lease) => {
    lose("plain");
    return lease.signal.aborted;
  });
}
