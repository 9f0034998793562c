// Charges an order once, however many processes serve and however often a client asks: POST /orders/7/charge

import { setTimeout as sleep } from "node:timers/promises";

import express from "express";
import { LockBusyError, LockLostError, QuorumUnavailableError, redlock } from "quorlock";

const charged = new Map(); // in place of a database: the fence of the hold that charged an order
const app = express();

app.post("/orders/:order/charge", async (request, response) => {
  const { order } = request.params;
  const gone = new AbortController();
  response.on("close", () => response.writableFinished || gone.abort());
  try {
    // The wait is shorter than clients wait for an answer, and ends when this one hangs up. What has begun goes on without it: a
    // payment that stops half way would be made, and not written down.
    const options = { wait: 1_000, signal: gone.signal };
    response.json({ order, fence: await redlock(`order:${order}`, options, (lease) => charge(order, lease)) });
  } catch (error) {
    if (error !== gone.signal.reason) throw error;
    console.log(`order ${order}: its client has hung up`);
  }
});

async function charge(order, lease) {
  if (charged.has(order)) return charged.get(order);
  console.log(`charging order ${order}, fence ${lease.fence}`);
  // The payment provider, with the order as its idempotency key. It is given up when the lock is lost.
  await sleep(300, undefined, { signal: lease.signal });
  // UPDATE orders SET fence = $2 WHERE id = $1 AND fence <= $2
  if (charged.get(order) > lease.fence) throw new LockBusyError("another request has the order");
  charged.set(order, lease.fence);
  return lease.fence;
}

// The text of an error names servers, so it is for the log, and clients are told their part of it.
app.use((error, request, response, next) => {
  if (error instanceof LockBusyError) return response.status(409).json({ detail: "another request has the order" });
  // A charge that has lost its lock may be asked for again, too: the payment provider knows the order.
  if (!(error instanceof QuorumUnavailableError || error instanceof LockLostError)) return next(error);
  console.error(error.message);
  response.status(503).json({ detail: "try again later" });
});

const server = app.listen(process.env.PORT ?? 3000, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}`));
// No `process.exit`: the process ends by itself when the last charge is over.
process.once("SIGTERM", () => server.close());
