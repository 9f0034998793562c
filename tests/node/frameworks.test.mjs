// Exclusion where real frameworks run the callers: one semaphore and one lock for all requests and jobs, under load.

import "reflect-metadata";

import assert from "node:assert/strict";
import cluster from "node:cluster";
import { once } from "node:events";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { Catch, Controller, Get, Module, Param, UseInterceptors } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { Queue, QueueEvents, Worker } from "bullmq";
import { finalize } from "rxjs";

import support from "./support.cjs";
import { Failure, SLOTS, Work } from "./work.mjs";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const TIMES = 48;
const LONG = 20_000;
const numbers = Array.from({ length: TIMES }, (_, number) => number);
const unhandled = support.noUnhandled();
let servers;

before(async () => {
  servers = await support.stage("3");
});
after(async () => {
  await servers.stop();
  assert.deepEqual(unhandled, []);
});

/** What each is answered, or `failed` where it failed as it should. */
async function answers(port, path) {
  return await Promise.all(
    numbers.map(async (number) => {
      const reply = await fetch(`http://127.0.0.1:${port}/${path}/${number}`, { signal: AbortSignal.timeout(LONG) });
      const said = await reply.json();
      if (reply.status === 418) return "failed";
      assert.equal(reply.status, 200, said.error);
      return said;
    }),
  );
}

/** One way of eight fails; else all were done, up to as many at once as there are slots. */
function assertDone(done) {
  const inside = done.filter((each) => each !== "failed");
  assert.equal(inside.length, TIMES - TIMES / 8);
  assert.equal(Math.max(...inside), SLOTS);
}

test("Express with cluster", async (t) => {
  cluster.setupPrimary({ exec: join(HERE, "express-worker.mjs"), args: [servers.nodes] });
  const workers = [cluster.fork(), cluster.fork()];
  t.after(() => workers.forEach((worker) => worker.process.kill()));
  const exits = workers.map((worker) => once(worker, "exit"));
  const [{ port }] = (await Promise.all(workers.map((worker) => once(worker, "listening")))).map(([address]) => address);
  const [gone, done, over] = await Promise.all([
    Promise.all(
      numbers.map((number) => {
        const signal = AbortSignal.timeout(number);
        return fetch(`http://127.0.0.1:${port}/gone/${number}`, { signal }).then((reply) => reply.status, (error) => error.name);
      }),
    ),
    answers(port, "work"),
    answers(port, "until-over"),
  ]);
  assert.deepEqual(gone.filter((each) => each !== 200 && each !== "TimeoutError"), []);
  assertDone(done.map((each) => each.inside ?? each));
  assert.equal(over.length, TIMES);
  assert.equal(new Set([...done, ...over].map((each) => each.worker).filter(Boolean)).size, 2);
  await servers.awaitNoKeys();
  for (const worker of workers) worker.send("end");
  assert.deepEqual(await Promise.all(exits), [[0, null], [0, null]]);
});

test("Nest", async (t) => {
  const work = new Work(servers.nodes, "nest");
  t.after(() => work.close());

  /** A slot around the handler, which is left when the reply is ready. */
  class Held {
    async intercept(context, next) {
      const { lease } = await work.enter();
      return next.handle().pipe(finalize(() => work.leave(lease)));
    }
  }

  class Places {
    async work(number) {
      return { inside: await work.do(Number(number)) };
    }

    async held() {
      await support.sleep(1);
      return {};
    }
  }

  class Errors {
    catch(error, host) {
      const response = host.switchToHttp().getResponse();
      response.status(error instanceof Failure ? 418 : 500).json({ error: error.stack });
    }
  }

  Catch()(Errors);
  Controller()(Places);
  for (const [name, ...decorators] of [["work"], ["held", UseInterceptors(Held)]]) {
    Param("number")(Places.prototype, name, 0);
    const descriptor = Object.getOwnPropertyDescriptor(Places.prototype, name);
    for (const decorate of [Get(`${name}/:number`), ...decorators]) decorate(Places.prototype, name, descriptor);
  }
  class Shop {}
  Module({ controllers: [Places] })(Shop);

  const app = await NestFactory.create(Shop, { logger: false });
  t.after(() => {
    app.getHttpServer().closeAllConnections();
    return app.close();
  });
  app.useGlobalFilters(new Errors());
  await app.listen(0, "127.0.0.1");
  const { port } = app.getHttpServer().address();
  const [done] = await Promise.all([answers(port, "work"), answers(port, "held")]);
  assertDone(done.map((each) => each.inside ?? each));
  await servers.awaitNoKeys();
});

test("BullMQ", async (t) => {
  const connection = { url: `${servers.nodes.split(",")[0]}/1` };
  const [queue, events] = [new Queue("work", { connection }), new QueueEvents("work", { connection })];
  const works = [new Work(servers.nodes, "bullmq"), new Work(servers.nodes, "bullmq")];
  const left = [];
  // A worker does not wait for jobs that go on.
  t.after(() => Promise.all([...workers, ...works, events, queue].map((each) => each.close(true))));
  const workers = works.map((work) => {
    const until = new Map();
    const worker = new Worker(
      "work",
      async (job) => {
        if (job.name === "work") return await work.do(job.data);
        // A slot until the job has been told to be over.
        const { lease, inside } = await work.enter();
        until.set(job.id, lease);
        return inside;
      },
      { connection, concurrency: 12 },
    );
    worker.on("completed", (job) => until.has(job.id) && left.push(work.leave(until.get(job.id))));
    return worker;
  });
  // Each job that is waited for listens to it.
  queue.setMaxListeners(0);
  await events.waitUntilReady();
  const jobs = await queue.addBulk(numbers.flatMap((data) => ["work", "until-over"].map((name) => ({ name, data }))));
  const ended = await Promise.all(
    jobs.map(async (job) => {
      try {
        return await job.waitUntilFinished(events, LONG);
      } catch (error) {
        assert.equal(error.message, "as it should");
        return "failed";
      }
    }),
  );
  assertDone(ended.filter((_, at) => jobs[at].name === "work"));
  await Promise.all(workers.map((worker) => worker.close()));
  assert.equal(left.length, TIMES);
  await Promise.all(left);
  await servers.awaitNoKeys();
});
