// Programs that are drawn: trees of calls with bodies, of branches, of what runs in the context of another place, and of leases by hand.
// Few names, few clients, few variables, so that they meet.

import fc from "fast-check";

/** How many there are of each. */
const [NAMES, CLIENTS, VARIABLES, HOOKS] = [3, 2, 2, 2];
/** Of every semaphore: who uses one has to name the same number. */
export const SLOTS = 2;
const DEPTH = 4;
/** One program in so many has a worker beside it, which takes long to start. */
const RARE = 200;

const name = fc.nat(NAMES - 1);
const one = fc.tuple(name);
const names = fc.oneof(
  { weight: 4, arbitrary: one },
  { weight: 1, arbitrary: fc.uniqueArray(name, { minLength: 2, maxLength: 3 }) },
);
const client = fc.oneof({ weight: 4, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.nat(CLIENTS - 1) });
const variable = fc.nat(VARIABLES - 1);
const hook = fc.nat(HOOKS - 1);
// In milliseconds, short: much of what waits, waits for itself.
const wait = fc.constantFrom(0, 5, 15, 40);
const pause = fc.nat(4);
// Without it a call does not enter again.
const reentrant = fc.constantFrom(undefined, false, true, true);
const mode = fc.constantFrom("alone", "alone", "alone", "alone", "shared", "shared", "raw");

const of = (weight, what, fields) => ({ weight, arbitrary: fc.record({ do: fc.constant(what), ...fields }) });

const LEAVES = [
  of(10, "pause", { length: pause }),
  of(2, "lose", { name }),
  of(2, "give", { awaited: fc.boolean() }),
  of(1, "throw", {}),
  of(3, "take", { name, client, mode, variable, wait }),
  of(2, "back", { variable }),
  of(1, "back by lock", { variable }),
  of(1, "drop", { variable }),
  of(4, "hook", { hook, kind: fc.constantFrom("resource", "socket", "timer", "stream") }),
];

function stepsOf(depth) {
  if (depth === 0) return fc.array(fc.oneof(...LEAVES), { minLength: 1, maxLength: 2, size: "max" });
  const steps = stepsOf(depth - 1);
  const body = (weight, call, fields) => of(weight, "body", { call: fc.constantFrom(...call), client, ...fields, steps });
  const step = fc.oneof(
    ...LEAVES,
    body(18, ["redlock", "redlock", "attempt"], { names, mode, reentrant, wait }),
    body(3, ["redlock", "attempt"], { names, mode, reentrant, wait, aborts: pause }),
    body(2, ["once"], { names: one, mode: fc.constant("alone") }),
    body(4, ["semaphore"], { names: one, mode: fc.constant("slots"), reentrant, wait }),
    of(8, "branches", { branches: fc.array(steps, { minLength: 2, maxLength: 3, size: "max" }) }),
    // It goes on beside what comes next, and when the body around it has ended.
    of(4, "leave", { after: pause, steps }),
    // In the context of where the hook was made.
    of(6, "via", { hook, steps }),
  );
  return fc.array(step, { minLength: 1, maxLength: 3, size: "max" });
}

const program = fc.record({ steps: stepsOf(DEPTH), worker: fc.integer({ min: 1, max: RARE }).map((n) => n === RARE / 2) });

/** The program of a seed. */
export const drawn = (seed) => fc.sample(program, { seed, numRuns: 1 })[0];

/** Programs that are a little smaller. */
export function* smaller({ steps, worker }) {
  if (worker) yield { steps, worker: false };
  for (const fewer of smallerSteps(steps)) yield { steps: fewer, worker };
}

function* smallerSteps(steps) {
  for (const [i, step] of steps.entries()) {
    const put = (...others) => steps.toSpliced(i, 1, ...others);
    yield put();
    if (step.steps !== undefined) {
      yield put(...step.steps);
      for (const inner of smallerSteps(step.steps)) yield put({ ...step, steps: inner });
    }
    for (const [k, branch] of (step.branches ?? []).entries()) {
      yield put(...branch);
      yield put({ ...step, branches: step.branches.toSpliced(k, 1) });
      for (const inner of smallerSteps(branch)) yield put({ ...step, branches: step.branches.with(k, inner) });
    }
    for (const [field, value] of SIMPLE) {
      if (field in step && step[field] !== value && step[field] !== "slots") yield put({ ...step, [field]: value });
    }
    if (step.names?.length > 1) for (const k of step.names.keys()) yield put({ ...step, names: step.names.toSpliced(k, 1) });
  }
}

const SIMPLE = [["client", 0], ["mode", "alone"], ["call", "redlock"], ["reentrant", undefined], ["aborts", undefined], ["kind", "resource"]];

/** A program in one line for each step. */
export function shown({ steps, worker }) {
  const lines = worker ? ["beside it a worker with nodes in an environment of its own"] : [];
  const tell = (all, depth) => {
    for (const { do: what, steps, branches, ...own } of all) {
      const words = Object.entries(own).filter(([, value]) => value !== undefined);
      lines.push(["  ".repeat(depth) + what, ...words.map(([key, value]) => `${key}=${value}`)].join(" "));
      if (steps !== undefined) tell(steps, depth + 1);
      branches?.forEach((branch, i) => {
        lines.push(`${"  ".repeat(depth + 1)}branch ${i}`);
        tell(branch, depth + 2);
      });
    }
  };
  tell(steps, 0);
  return lines.join("\n");
}
