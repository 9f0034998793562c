// A process of a cluster that serves an application of Express: express-worker.mjs NODES.

import cluster from "node:cluster";

import express from "express";

import { Failure, Work } from "./work.mjs";

const work = new Work(process.argv[2], "express");
const app = express();

app.get("/work/:number", async (request, response) => {
  const inside = await work.do(Number(request.params.number));
  response.json({ inside, worker: cluster.worker.id });
});

// A slot until the reply is over.
app.get("/until-over/:number", async (request, response) => {
  const { lease, inside } = await work.enter();
  response.on("close", () => work.leave(lease));
  response.json({ inside, worker: cluster.worker.id });
});

// The caller goes while this waits, or has its slot.
app.get("/gone/:number", async (request, response) => {
  const gone = new AbortController();
  response.on("close", () => gone.abort());
  try {
    const { lease } = await work.enter({ signal: gone.signal });
    await work.leave(lease);
    response.end();
  } catch (error) {
    if (error !== gone.signal.reason) throw error;
  }
});

app.use((error, request, response, next) => {
  if (response.headersSent) next(error);
  else response.status(error instanceof Failure ? 418 : 500).json({ error: error.stack });
});

const server = app.listen(0, "127.0.0.1");
// The end, as the primary tells it.
process.once("message", async () => {
  await work.close();
  server.closeAllConnections();
  cluster.worker.disconnect();
});
