// What is told on channels, and `quorlock/opentelemetry` on them, with OpenTelemetry itself: its SDK, in memory.

import assert from "node:assert/strict";
import { channel, subscribe, tracingChannel, unsubscribe } from "node:diagnostics_channel";
import { once as event } from "node:events";
import { after, afterEach, beforeEach, test } from "node:test";

import { context, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { AggregationTemporality, InMemoryMetricExporter, MeterProvider, PeriodicExportingMetricReader } from "@opentelemetry/sdk-metrics";
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";

import { Client, LockContendedError, LockTimeoutError, redlock } from "../../node/dist/index.mjs";
import { instrument, uninstrument } from "../../node/dist/opentelemetry.mjs";
import { held, lose, nodes } from "../../node/dist/testing.mjs";

context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
after(() => context.disable());

let spans, exporter, reader, tracers, client, own;
beforeEach(() => {
  spans = new InMemorySpanExporter();
  tracers = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] });
  exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 });
  instrument({ tracerProvider: tracers, meterProvider: new MeterProvider({ readers: [reader] }) });
  own = nodes();
  client = new Client(own);
});
afterEach(async () => {
  uninstrument();
  await client.close();
  await reader.shutdown();
});

/** Of a metric its points: attributes in one text, and the count or the value. */
async function measured(name) {
  exporter.reset();
  await reader.forceFlush();
  const metrics = exporter.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics.flatMap((scope) => scope.metrics));
  const points = metrics.find((metric) => metric.descriptor.name === name)?.dataPoints ?? [];
  return Object.fromEntries(
    points.map(({ attributes, value }) => [Object.values(attributes).join(" "), value.count ?? value]),
  );
}

const outcomes = () => spans.getFinishedSpans().map(({ name, attributes }) => [name, attributes["quorlock.outcome"]]);

test("a hold is a span and three metrics", async () => {
  let fence;
  await redlock("orders:42", { client, group: "orders" }, async (lease) => {
    fence = lease.fence;
    assert.deepEqual(await measured("quorlock.locks.held"), { orders: 1 });
  });
  const [span] = spans.getFinishedSpans();
  assert.equal(span.name, "acquire orders");
  assert.deepEqual(span.attributes, {
    "quorlock.lock.name": "orders:42",
    "quorlock.group": "orders",
    "quorlock.fence": fence,
    "quorlock.outcome": "won",
  });
  assert.deepEqual(await measured("quorlock.acquire.duration"), { "orders won": 1 });
  assert.deepEqual(await measured("quorlock.hold.duration"), { "orders released": 1 });
  assert.deepEqual(await measured("quorlock.locks.held"), { orders: 0 });
});

test("what does not win", async () => {
  await held("a", async () => {
    assert.equal(await client.lock("a").tryAcquire(), null);
    await assert.rejects(client.lock("a", { wait: 0 }).acquire(), LockContendedError);
    await assert.rejects(client.lock("a", { wait: 10 }).acquire(), LockTimeoutError);
    const gaveUp = new AbortController();
    const waits = client.lock("a").acquire({ signal: gaveUp.signal });
    gaveUp.abort();
    await assert.rejects(waits, { name: "AbortError" });
  }, { nodes: own });
  // The first is of the one who holds it.
  assert.deepEqual(outcomes().slice(1).map(([, outcome]) => outcome), ["contended", "contended", "timeout", "cancelled"]);
});

test("entering again is no second hold, and several are one acquire", async () => {
  await redlock("again", { client, owner: "me" }, () => redlock("again", { client, owner: "me" }, () => {}));
  assert.deepEqual(outcomes(), [["acquire", "won"], ["acquire", "reentered"]]);
  await redlock(["a", "b"], { client }, async () => {
    assert.deepEqual(await measured("quorlock.locks.held"), { "": 2 });
  });
  assert.deepEqual(await measured("quorlock.acquire.duration"), { won: 2 });
  assert.deepEqual(await measured("quorlock.hold.duration"), { released: 3 });
});

test("a loss is an event of the span of the work", async () => {
  const work = tracers.getTracer("test").startSpan("work");
  await context.with(trace.setSpan(context.active(), work), async () => {
    const lease = await client.lock("lost").acquire();
    lose("lost", "refused");
    if (!lease.signal.aborted) await event(lease.signal, "abort");
    await lease.release();
  });
  work.end();
  const [told] = work.events;
  assert.equal(told.name, "quorlock.lost");
  assert.deepEqual(told.attributes, { "quorlock.lock.name": "lost", "quorlock.reason": "refused" });
  assert.deepEqual(await measured("quorlock.hold.duration"), { lost: 1 });
  assert.deepEqual(await measured("quorlock.locks.held"), { "": 0 });
});

test("uninstrumented nothing is told", async () => {
  uninstrument();
  await redlock("quiet", { client }, () => {});
  assert.deepEqual(outcomes(), []);
  assert.equal(channel("quorlock:released").hasSubscribers, false);
});

test("channels tell whoever listens", async () => {
  uninstrument();
  const told = [];
  const seen = { asyncEnd: ({ names, group, result, error }) => told.push([names, group, result?.isHeld(), error?.kind]) };
  const handlers = { start() {}, end() {}, asyncStart() {}, error() {}, ...seen };
  const acquire = tracingChannel("quorlock:acquire");
  const released = ({ name, lossReason }) => told.push(["released", name, lossReason]);
  const lost = ({ name, reason }) => told.push(["lost", name, reason]);
  acquire.subscribe(handlers);
  subscribe("quorlock:released", released);
  subscribe("quorlock:lost", lost);
  try {
    const lease = await client.lock("a", { group: "g" }).acquire();
    await assert.rejects(client.lock("a", { wait: 0 }).acquire(), LockContendedError);
    lose("a");
    if (!lease.signal.aborted) await event(lease.signal, "abort");
    await lease.release();
  } finally {
    acquire.unsubscribe(handlers);
    unsubscribe("quorlock:released", released);
    unsubscribe("quorlock:lost", lost);
  }
  assert.deepEqual(told, [
    [["a"], "g", true, undefined],
    [["a"], "", undefined, "Contended"],
    ["lost", "a", "expired"],
    ["released", "a", "expired"],
  ]);
});

test("log lines are told on a channel, too", async () => {
  const lines = [];
  const logged = (line) => lines.push(line);
  subscribe("quorlock:log", logged);
  try {
    const lease = await client.lock("logged").acquire();
    lose("logged");
    if (!lease.signal.aborted) await event(lease.signal, "abort");
    for (let tries = 0; lines.length === 0 && tries < 500; tries++) await new Promise((resolve) => setTimeout(resolve, 5));
  } finally {
    unsubscribe("quorlock:log", logged);
  }
  assert.match(lines[0].message, /is lost: expired/);
});
