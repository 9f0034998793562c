// Charges an order once, however often a job asks for it: `node bullmq.mjs 7 8` queues two orders, and works on what is queued.

import { setTimeout as sleep } from "node:timers/promises";

import { DelayedError, Queue, Worker } from "bullmq";
import { LockBusyError, redlock } from "quorlock";

const connection = { url: process.env.BROKER ?? "redis://127.0.0.1:6379" };
const queue = new Queue("orders", { connection });
const database = await queue.client; // the broker, in place of a database

const worker = new Worker(
  "orders",
  async (job, token) => {
    const { order } = job.data;
    try {
      return await redlock(`order:${order}`, { wait: 0 }, (lease) => charge(order, lease));
    } catch (error) {
      // Other errors count as attempts of the job; that its order is busy does not.
      if (!(error instanceof LockBusyError)) throw error;
      await job.moveToDelayed(Date.now() + 1_000, token);
      throw new DelayedError();
    }
  },
  { connection, concurrency: 10 },
);
worker.on("completed", (job, fence) => console.log(`order ${job.data.order} is charged, fence ${fence}`));

async function charge(order, lease) {
  // A job that has stalled is given to another worker, which finds here whether it was done.
  const found = await database.get(`charged:${order}`);
  if (found) return Number(found);
  console.log(`charging order ${order}, fence ${lease.fence}`);
  // The payment provider, with the order as its idempotency key. It is given up when the lock is lost.
  await sleep(300, undefined, { signal: lease.signal });
  const written = await database.eval(
    `if tonumber(redis.call("GET", KEYS[1]) or 0) > tonumber(ARGV[1]) then return 0 end
     redis.call("SET", KEYS[1], ARGV[1]) return 1`, 1, `charged:${order}`, lease.fence);
  if (!written) throw new Error(`order ${order} was charged by a later job`);
  return lease.fence;
}

await queue.addBulk(
  process.argv.slice(2).map((order) => ({ name: "charge", data: { order }, opts: { attempts: 20, backoff: { type: "exponential", delay: 1_000 } } })),
);
// The worker ends when its jobs have, and so does the process.
process.once("SIGTERM", async () => {
  await worker.close();
  await queue.close();
});
