// Programs that are drawn: trees of calls with bodies, of branches, of what runs in the context of another place, and of leases by hand.
// Few names, few clients, few variables, so that they meet.

import fc from "fast-check";

/** How many there are of each. */
export const NAMES = 3;
export const CLIENTS = 2;
export const VARIABLES = 3;
export const HOOKS = 3;
/** Of every semaphore: who uses one has to name the same number. */
export const SLOTS = 2;

const name = fc.nat(NAMES - 1);
const client = fc.nat(CLIENTS - 1);
const variable = fc.nat(VARIABLES - 1);
const hook = fc.nat(HOOKS - 1);
// In milliseconds, short: much of what waits, waits for itself.
const wait = fc.constantFrom(0, 5, 15, 40);
const pause = fc.nat(4);
// Not given, it is off.
const reentrant = fc.constantFrom(undefined, false, true, true);
const mode = fc.oneof(
  { weight: 6, arbitrary: fc.constant("alone") },
  { weight: 3, arbitrary: fc.constant("shared") },
  { weight: 1, arbitrary: fc.constant("raw") },
);

/** What there is to do. */
const { steps } = fc.letrec((tie) => ({
  steps: fc.array(tie("step"), { minLength: 1, maxLength: 4, depthIdentifier: "steps" }),
  step: fc.oneof(
    { depthIdentifier: "steps", depthSize: "small", withCrossShrink: true },
    // First what has no steps of its own.
    { weight: 6, arbitrary: fc.record({ do: fc.constant("pause"), length: pause }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("lose"), name }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("give"), awaited: fc.boolean() }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("throw") }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("take"), name, client, mode, variable, wait }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("back"), variable }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("back by lock"), variable }) },
    { weight: 0.2, arbitrary: fc.record({ do: fc.constant("drop"), variable }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("hook"), hook, kind: fc.constantFrom("resource", "socket", "timer", "stream") }) },
    {
      weight: 12,
      arbitrary: fc.record({ do: fc.constant("body"), call: fc.constantFrom("redlock", "redlock", "attempt"), names: names(), client, mode, reentrant, wait, steps: tie("steps") }),
    },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("body"), call: fc.constant("once"), names: fc.tuple(name), client, mode: fc.constant("alone"), steps: tie("steps") }) },
    { weight: 3, arbitrary: fc.record({ do: fc.constant("body"), call: fc.constant("semaphore"), names: fc.tuple(name), client, mode: fc.constant("slots"), reentrant, wait, steps: tie("steps") }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("body"), call: fc.constant("redlock"), names: names(), client, mode, reentrant, wait, aborts: pause, steps: tie("steps") }) },
    { weight: 6, arbitrary: fc.record({ do: fc.constant("branches"), branches: fc.array(tie("steps"), { minLength: 2, maxLength: 3, depthIdentifier: "steps" }) }) },
    // It goes on beside what comes next, and when the body around it has ended.
    { weight: 3, arbitrary: fc.record({ do: fc.constant("leave"), after: pause, steps: tie("steps") }) },
    // In the context of where the hook was made.
    { weight: 4, arbitrary: fc.record({ do: fc.constant("via"), hook, steps: tie("steps") }) },
  ),
}));

function names() {
  return fc.oneof({ weight: 4, arbitrary: fc.tuple(name) }, { weight: 1, arbitrary: fc.uniqueArray(name, { minLength: 2, maxLength: 3 }) });
}

/** Programs of one in so many have a worker beside them, which takes long to start. */
const RARE = 200;

export const program = fc.record({ steps, worker: fc.nat(RARE - 1).map((n) => n === 0) });

/** A program in one line for each step. */
export function shown({ steps, worker }) {
  const lines = worker ? ["beside it a worker with nodes in an environment of its own"] : [];
  const tell = (all, depth) => {
    for (const { steps, branches, ...own } of all) {
      const words = Object.entries(own).map(([key, value]) => (key === "do" ? value : `${key}=${value}`));
      lines.push(`${"  ".repeat(depth)}${words.join(" ")}`);
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
