/// <reference types="node" preserve="true" />

/**
 * Spans and metrics of OpenTelemetry, for programs that have it.
 *
 *     import { instrument } from "quorlock/opentelemetry";
 *
 *     instrument();
 *
 * From then on each call that acquires is a span, and what callers wait for and hold is measured, by the providers of the program.
 * `docs/operations/tracing.md` explains every name. Needs `@opentelemetry/api`.
 */

import { subscribe, tracingChannel, unsubscribe } from "node:diagnostics_channel";

import {
  metrics,
  SpanStatusCode,
  trace,
  type Attributes,
  type MeterProvider,
  type Span,
  type TracerProvider,
} from "@opentelemetry/api";

import type { LostMessage, ReleasedMessage } from "./lease.js";
import type { AcquireMessage } from "./tracing.js";
import { QuorlockError } from "./errors.js";
import { Leases } from "./leases.js";
import { bytesOf, type Name } from "./options.js";

/** Whose spans and metrics they are; those of the program by default. */
export interface Providers {
  tracerProvider?: TracerProvider | undefined;
  meterProvider?: MeterProvider | undefined;
}

/** A hold, however many handles are on it. */
interface HeldLease {
  readonly name: Name;
  readonly attributes: Attributes;
  readonly span: Span | undefined;
  readonly begun: number;
  handles: number;
}

interface Acquire {
  readonly span: Span;
  readonly holder: Span | undefined;
  readonly attributes: Attributes;
  readonly begun: number;
}

const OUTCOMES: Record<string, string> = {
  Contended: "contended",
  Timeout: "timeout",
  QuorumUnavailable: "no_quorum",
  TooManyWaiters: "busy",
};
// Of the hints that OpenTelemetry has for durations in seconds, and longer ones: people wait for locks.
const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

const seconds = (since: number) => (performance.now() - since) / 1000;
const shown = (name: Name) => Buffer.from(bytesOf(name)).toString();

let undo: (() => void) | undefined;

/**
 * From now on locks of this process are traced and measured. A second call changes nothing until `uninstrument`.
 */
export function instrument({ tracerProvider, meterProvider }: Providers = {}): void {
  if (undo !== undefined) return;
  const tracer = (tracerProvider ?? trace).getTracer("quorlock");
  const meter = (meterProvider ?? metrics).getMeter("quorlock");
  const duration = { unit: "s", advice: { explicitBucketBoundaries: BUCKETS } };
  const acquires = meter.createHistogram("quorlock.acquire.duration", {
    ...duration,
    description: "How long callers took to get a lock, or to give up.",
  });
  const holds = meter.createHistogram("quorlock.hold.duration", {
    ...duration,
    description: "How long locks were held.",
  });
  const locks = meter.createUpDownCounter("quorlock.locks.held", {
    unit: "{lock}",
    description: "Locks that are held now.",
  });
  const calls = new WeakMap<AcquireMessage, Acquire>();
  // By their tokens: each handle of an owner that enters again is another object.
  const held = new Map<string, HeldLease>();

  const start = (message: AcquireMessage) => {
    const { names, group } = message;
    const attributes: Attributes = group === "" ? {} : { "quorlock.group": group };
    const name = names.length === 1 ? shown(names[0]!) : names.map(shown);
    const span = tracer.startSpan(group === "" ? "acquire" : `acquire ${group}`, {
      attributes: { "quorlock.lock.name": name, ...attributes },
    });
    // Where a loss is reported: what runs now, and goes on under the lock.
    calls.set(message, { span, holder: trace.getActiveSpan(), attributes, begun: performance.now() });
  };

  const won = ({ span, holder, attributes }: Acquire, result: NonNullable<AcquireMessage["result"]>): string => {
    const parts = result instanceof Leases ? [...result] : [result];
    let isNew = false;
    for (const lease of parts) {
      let known = held.get(lease.token);
      if (known === undefined) {
        isNew = true;
        known = { name: lease.name, attributes, span: holder, begun: performance.now(), handles: 0 };
        held.set(lease.token, known);
        locks.add(1, attributes);
      }
      known.handles += 1;
    }
    const fence = parts[0]!.fence;
    if (fence !== null) span.setAttribute("quorlock.fence", fence);
    return isNew ? "won" : "reentered";
  };

  const failed = (span: Span, error: unknown): string => {
    span.setAttribute("error.type", error instanceof Error ? error.name : typeof error);
    const outcome = error instanceof QuorlockError ? (OUTCOMES[error.kind] ?? "failed") : "cancelled";
    if (outcome === "no_quorum" || outcome === "busy" || outcome === "failed") {
      span.setStatus({ code: SpanStatusCode.ERROR, message: (error as Error).message });
    }
    return outcome;
  };

  const end = (message: AcquireMessage) => {
    const call = calls.get(message);
    if (call === undefined) return;
    calls.delete(message);
    const { error, result } = message;
    const outcome =
      error !== undefined ? failed(call.span, error) : result == null ? "contended" : won(call, result);
    call.span.setAttribute("quorlock.outcome", outcome);
    call.span.end();
    // Entering once more asked no node.
    if (outcome !== "reentered") {
      acquires.record(seconds(call.begun), { ...call.attributes, "quorlock.outcome": outcome });
    }
  };

  const over = (token: string, { attributes, begun }: HeldLease, outcome: string) => {
    held.delete(token);
    locks.add(-1, attributes);
    holds.record(seconds(begun), { ...attributes, "quorlock.outcome": outcome });
  };

  const released = (message: unknown) => {
    const { lease } = message as ReleasedMessage;
    const known = held.get(lease.token);
    if (known === undefined) return;
    known.handles -= 1;
    if (known.handles === 0) over(lease.token, known, "released");
  };

  const lost = (message: unknown) => {
    const { lease, reason } = message as LostMessage;
    const known = held.get(lease.token);
    if (known === undefined) return;
    // The span of the work that the lock was for, unless it has ended.
    if (known.span?.isRecording() === true) {
      known.span.addEvent("quorlock.lost", { "quorlock.lock.name": shown(known.name), "quorlock.reason": reason });
    }
    over(lease.token, known, "lost");
  };

  const acquire = tracingChannel<AcquireMessage, AcquireMessage>("quorlock:acquire");
  const nothing = () => {};
  const handlers = { start, asyncEnd: end, end: nothing, asyncStart: nothing, error: nothing };
  acquire.subscribe(handlers);
  subscribe("quorlock:released", released);
  subscribe("quorlock:lost", lost);
  undo = () => {
    acquire.unsubscribe(handlers);
    unsubscribe("quorlock:released", released);
    unsubscribe("quorlock:lost", lost);
  };
}

/** Undoes `instrument`. */
export function uninstrument(): void {
  undo?.();
  undo = undefined;
}
