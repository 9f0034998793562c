/**
 * Who called, for an error of a promise that nothing awaits.
 *
 * V8 tells the callers of a promise that is awaited, at no cost before it fails. It tells none where the promise is chained on by
 * `then`, `catch` or `Promise.race`, or returned by an async function. Each of these looks up `then` while its caller runs, and `await`
 * does not. So the stack is captured where that is looked up: captured at each call it would cost as much as all else there.
 */

/** A call of the API whose promise may be chained on. */
export interface Call {
  /** The function that was called: while it runs its frames are left out up to there. */
  readonly from: Function;
  /** What runs for it: once that has awaited anything, frames are left out up to there. */
  readonly run: Function;
  /** The stack of those who chained on it; empty where none did. */
  stack: string;
}

class Substitute {
  constructor(itself: object) {
    return itself;
  }
}

/** A promise with its call, as a private member: seen by nothing else. */
class PromiseOfCall extends Substitute {
  readonly #call: Call;

  constructor(promise: object, call: Call) {
    super(promise);
    this.#call = call;
  }

  static callOf(object: object): Call | undefined {
    return #call in object ? object.#call : undefined;
  }
}

const { then } = Promise.prototype;
// Its `constructor` is `Promise`, so `await` takes the promise as it is.
const chainable = Object.create(Promise.prototype, {
  then: {
    get: function got(this: object) {
      const call = PromiseOfCall.callOf(this);
      if (call?.stack === "") Error.captureStackTrace(call, got);
      return then;
    },
  },
}) as object;

/** Runs a call of the API's function `from`. */
export function chained<T>(from: Function, run: (call: Call) => Promise<T>): Promise<T> {
  const call: Call = { from, run, stack: "" };
  const promise = run(call);
  new PromiseOfCall(promise, call);
  return Object.setPrototypeOf(promise, chainable) as Promise<T>;
}

/** A call of the API's function `from` whose caller is looked up at once. */
export function called(from: Function): Call {
  const call: Call = { from, run: from, stack: "" };
  Error.captureStackTrace(call, from);
  return call;
}
