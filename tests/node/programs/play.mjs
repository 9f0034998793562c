// Does what a program says, and has it judged.

import { AsyncLocalStorage, AsyncResource } from "node:async_hooks";
import { connect, createServer } from "node:net";
import { PassThrough } from "node:stream";
import { Worker } from "node:worker_threads";

import { SLOTS } from "./draw.mjs";
import { Inside, Room } from "./judge.mjs";

const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const turn = () => new Promise(setImmediate);
const LONGEST = 120_000;
const LEFT_OUT = Symbol("left out");

/** The bodies around who asks, as this file counts them. */
const chain = new AsyncLocalStorage();

/** Sends back what it gets. */
const echo = createServer((socket) => socket.on("error", () => {}).pipe(socket));
const listening = new Promise((resolve) => echo.listen(0, "127.0.0.1", resolve));
echo.unref();

/** Something that is made in one context and runs what it is given in that one, as listeners do. */
const HOOKS = {
  resource() {
    const resource = new AsyncResource("PROGRAM");
    return { run: (work) => resource.runInAsyncScope(work), end() {} };
  },
  timer() {
    const jobs = [];
    const timer = setInterval(() => jobs.splice(0).forEach((job) => job()), 1);
    return { run: (work) => new Promise((resolve) => jobs.push(() => resolve(work()))), end: () => clearInterval(timer) };
  },
  stream() {
    const [jobs, stream] = [[], new PassThrough()];
    stream.on("data", (data) => [...data].forEach(() => jobs.shift()()));
    return {
      run: (work) => new Promise((resolve) => (jobs.push(() => resolve(work())), stream.write("x"))),
      end: () => stream.destroy(),
    };
  },
  socket() {
    const [jobs, socket] = [[], connect(echo.address().port, "127.0.0.1")];
    socket.on("data", (data) => [...data].forEach(() => jobs.shift()()));
    return {
      run: (work) => new Promise((resolve) => (jobs.push(() => resolve(work())), socket.write("x"))),
      end: () => socket.destroy(),
    };
  },
};

const WORKER = `
  const { parentPort, workerData: { main, name, words } } = require("node:worker_threads");
  const { redlock } = require(main);
  (async () => {
    while (Atomics.load(words, 3) === 0) {
      await redlock.attempt(name, { wait: 50 }, async (lease) => {
        Atomics.store(words, 1, 1);
        if (lease.isHeld() && Atomics.load(words, 0) === 1 && lease.isHeld()) Atomics.store(words, 2, 1);
        await new Promise((resolve) => setTimeout(resolve, 2));
        Atomics.store(words, 1, 0);
      }).catch(() => Atomics.store(words, 1, 0));
      parentPort.postMessage("has tried");
      await new Promise(setImmediate);
    }
  })();`;

/** What all programs have done so far: a generator that draws nothing of a kind finds nothing there. */
export const counts = { bodies: 0, entered: 0, "left out": 0, refused: 0, told: 0, lost: 0, given: 0, "by hand": 0, dropped: 0, hooked: 0, workers: 0 };

export class Play {
  /** The first that was found. */
  violation = undefined;
  #rooms = new Map();
  #locks = new Map();
  #variables = [];
  #hooks = [];
  #left = [];
  #dropped = [];
  #lost = new Set();
  #lines = [];
  #calls = 0;

  /** `old`: for a package that enters again unless it is told not to, and tells less. */
  constructor(program, { quorlock, testing, main, prefix, nodes, clients, old = false }) {
    this.program = program;
    this.quorlock = quorlock;
    this.testing = testing;
    this.main = main;
    this.prefix = prefix;
    this.nodes = nodes;
    this.old = old;
    this.clients = clients ?? [0, 1].map(() => new quorlock.Client(nodes, { ttl: 60_000 }));
    this.owned = clients === undefined;
  }

  async run() {
    await listening;
    const hear = ({ message }) => message.includes(this.prefix) && this.#lines.push(message);
    this.clients[0].on("log", hear);
    let timer;
    const hangs = new Promise((resolve) => (timer = setTimeout(() => (this.#found("it hangs"), resolve()), LONGEST)));
    const work = this.#all().catch((error) => this.#found(`it fails: ${error?.stack ?? error}`));
    await Promise.race([work, hangs]);
    clearTimeout(timer);
    this.clients[0].off("log", hear);
    for (const hook of this.#hooks) hook?.end();
    if (this.owned) await Promise.all(this.clients.map((client) => client.close()));
    return this.violation;
  }

  async #all() {
    const endWorker = this.program.worker ? await this.#worker() : undefined;
    await chain.run(undefined, () => this.#steps(this.program.steps)).catch(ours);
    while (this.#left.length > 0) await Promise.all(this.#left.splice(0));
    await endWorker?.();
    for (let i = 0; i < this.#variables.length; i++) await this.#back(i);
    await this.#nothingIsLeft();
  }

  #found(what) {
    this.violation ??= what;
  }

  #judge(look) {
    try {
      look();
    } catch (error) {
      this.#found(error.message);
    }
  }

  #check() {
    for (const room of this.#rooms.values()) this.#judge(() => room.check());
  }

  #name(i) {
    return `${this.prefix}${i}`;
  }

  #room(mode, i) {
    const kind = mode === "shared" ? "alone" : mode;
    const key = `${kind} ${i}`;
    if (!this.#rooms.has(key)) {
      const words = this.program.worker && key === "alone 0" ? new Int32Array(new SharedArrayBuffer(16)) : undefined;
      this.#rooms.set(key, new Room(key, kind === "slots" ? SLOTS : 1, words));
    }
    return this.#rooms.get(key);
  }

  async #steps(steps) {
    for (const step of steps) {
      if (this.violation !== undefined) return;
      await this[step.do](step);
      this.#check();
    }
  }

  async pause({ length }) {
    await (length === 0 ? turn() : sleep(length));
  }

  async throw() {
    throw new Ours();
  }

  async lose({ name }) {
    this.#lost.add(name);
    counts.lost += this.testing.lose(this.#name(name));
    for (const kind of ["alone", "raw", "slots"]) this.#judge(() => this.#room(kind, name).lose());
  }

  /** The body around gives back what it has. */
  async give({ awaited }) {
    const body = chain.getStore();
    if (body === undefined || !body.runs || body.gave) return;
    body.gave = true;
    counts.given++;
    for (const { inside } of body.holds) inside.room.leave(inside);
    const released = body.held.release();
    if (awaited) await released;
  }

  async branches({ branches }) {
    const all = branches.map((steps) => this.#steps(steps));
    this.#left.push(...all.map((branch) => branch.catch(ours)));
    await Promise.all(all);
  }

  async leave({ after, steps }) {
    const left = (async () => {
      await sleep(after);
      await this.#steps(steps);
    })();
    this.#left.push(left.catch(ours));
  }

  async hook({ hook, kind }) {
    this.#hooks[hook] ??= HOOKS[kind]();
  }

  async via({ hook, steps }) {
    if (this.#hooks[hook] !== undefined) counts.hooked++;
    await this.#hooks[hook]?.run(() => this.#steps(steps).catch(ours));
  }

  /** What the bodies around have of a lock by one client, the innermost first. `runs`: not of one that is about to end. */
  #around(mode, i, client) {
    const [found, room] = [[], this.#room(mode, i)];
    for (let body = chain.getStore(); body !== undefined; body = body.outer) {
      if (body.settled || body.gave || body.client !== client || !body.enterable) continue;
      for (const { inside } of body.holds) if (inside.room === room) found.push({ inside, body, runs: body.runs });
    }
    return found;
  }

  /** Whether a call for it cannot go on before a body around it has ended. */
  #isWithin(mode, i, client) {
    const holds = this.#around(mode, i, client).filter(({ inside, runs }) => runs && inside.lease.isHeld());
    const against = holds.filter(({ inside }) => !(mode === "shared" && inside.lease.isShared()));
    return new Set(against.map(({ inside }) => inside.token)).size >= (mode === "slots" ? SLOTS : 1);
  }

  /** That is to be told in this very turn. */
  #told(isWithin, before, what) {
    if (!isWithin || this.old) return;
    if (this.#lines.slice(before).some((line) => line.includes("is waited for within a body"))) return void counts.told++;
    this.#found(`${what} waits for itself, and nobody is told`);
  }

  async body({ call, names, client, mode, reentrant, wait = 0, aborts, steps }) {
    const what = `call ${++this.#calls} (${call})`;
    const outer = chain.getStore();
    const enters = reentrant ?? (this.old && call !== "semaphore" && call !== "once");
    const around = names.map((i) => (enters ? this.#around(mode, i, client) : []));
    // Which of them it enters is decided when it is called.
    const must = around.map((found) => found.find(({ inside, runs }) => runs && inside.lease.isHeld()));
    const shares = (one) => mode !== "shared" && one?.inside.lease.isShared();
    const mayBeRefused = around.flat().some(shares);
    const isWithin = wait > 0 && !enters && names.some((i) => this.#isWithin(mode, i, client));

    let [ran, bodyError, parts] = [false, undefined, []];
    // Of the old package: one that does not enter again is not entered either.
    const enterable = enters || !this.old;
    const body = { outer, client, enterable, holds: [], held: undefined, runs: true, gave: false, settled: false };
    const work = (held) => {
      ran = true;
      counts.bodies++;
      body.held = held;
      parts = names.length > 1 ? names.map((i) => held.get(this.#name(i))) : [held];
      parts.forEach((lease, k) => {
        const entered = around[k].find(({ inside }) => inside.token === lease.token) ?? must[k];
        const inside = new Inside(this.#room(mode, names[k]), lease, what, entered?.inside);
        body.holds.push({ inside });
        this.#judge(() => inside.room.enter(inside));
        if (entered?.inside.token === inside.token) counts.entered++;
        // One that has ended in the turn of the call may be gone before the call is begun.
        else if (entered?.body.runs && !entered.body.gave) this.#found(`${what} does not enter ${entered.inside.what} again`);
        if (shares(entered) && entered.body.runs && !entered.body.gave) this.#found(`${what} has alone what ${entered.inside.what} shares`);
      });
      return chain.run(body, async () => {
        try {
          this.#check();
          await this.#steps(steps);
          return what;
        } catch (error) {
          bodyError = error;
          throw error;
        } finally {
          this.#check();
          body.runs = false;
          if (!body.gave) for (const { inside } of body.holds) inside.room.leave(inside);
        }
      });
    };

    const before = this.#lines.length;
    const settled = this.#call(call, names, { client: this.clients[client], wait, ...OPTIONS[mode] }, reentrant, aborts, work);
    this.#told(isWithin, before, what);
    const [value, error] = await settled.then(
      (value) => [value, undefined],
      (error) => [undefined, error],
    );
    body.settled = true;
    if (!ran) counts[error instanceof this.quorlock.WouldDeadlockError ? "refused" : "left out"]++;
    if (ran) {
      const lost = parts.some((lease) => lease.lossReason !== null);
      if (bodyError !== undefined) {
        if (error !== bodyError) this.#found(`${what} hides the error of its body behind ${error}`);
      } else if (lost !== error instanceof this.quorlock.LockLostError || (lost ? undefined : what) !== value) {
        this.#found(`${what} ends with ${error ?? String(value)}, ${lost ? "and was lost" : "and was not lost"}`);
      }
    } else if (error === undefined) {
      const out = this.old ? undefined : LEFT_OUT;
      if ((call !== "attempt" && call !== "once") || value !== out) this.#found(`${what} gives ${String(value)} and did not run`);
    } else if (!(error instanceof Aborted) && !this.#mayFail(error, call)) {
      this.#found(`${what} fails: ${error.stack}`);
    } else if (error instanceof this.quorlock.WouldDeadlockError && !mayBeRefused) {
      this.#found(`${what} is refused, and shares nothing: ${error}`);
    }
  }

  #mayFail(error, call) {
    const { LockContendedError, LockTimeoutError, LockLostError, WouldDeadlockError, QuorumUnavailableError } = this.quorlock;
    const held = error instanceof LockContendedError || error instanceof LockTimeoutError;
    if (held) return call !== "attempt" && call !== "once";
    return [LockLostError, WouldDeadlockError, QuorumUnavailableError].some((kind) => error instanceof kind);
  }

  #call(call, names, options, reentrant, aborts, work) {
    const { redlock, once, semaphore } = this.quorlock;
    const all = names.map((i) => this.#name(i));
    const name = all.length > 1 ? all : all[0];
    if (reentrant !== undefined) options.reentrant = reentrant;
    if (aborts !== undefined) {
      const controller = new AbortController();
      options.signal = controller.signal;
      this.#left.push(sleep(aborts).then(() => controller.abort(new Aborted())));
    }
    if (!this.old && (call === "attempt" || call === "once")) options.otherwise = () => LEFT_OUT;
    switch (call) {
      case "attempt":
        return redlock.attempt(name, options, work);
      case "once":
        delete options.wait;
        // Its ttl would be as short as what it keeps.
        return once(name, { ...options, every: 40, ttl: 60_000 }, work);
      case "semaphore":
        delete options.slots;
        return semaphore(name, SLOTS, options, work);
      default:
        return redlock(name, options, work);
    }
  }

  async take({ name, client, mode, variable, wait }) {
    if (this.#variables[variable] !== undefined) return;
    const what = `a lease by hand (${++this.#calls})`;
    const isWithin = wait > 0 && this.#isWithin(mode, name, client);
    const key = `${name} ${client} ${mode}`;
    // Of one name all share an object.
    const lock = (name === 0 && this.#locks.get(key)) || this.clients[client].lock(this.#name(name), OPTIONS[mode]);
    if (name === 0) this.#locks.set(key, lock);
    const before = this.#lines.length;
    const taking = lock.acquire({ wait });
    this.#told(isWithin, before, what);
    let lease;
    try {
      lease = await taking;
    } catch (error) {
      if (!this.#mayFail(error, "redlock")) this.#found(`${what} fails: ${error.stack}`);
      return;
    }
    counts["by hand"]++;
    const inside = new Inside(this.#room(mode, name), lease, what);
    if (!lease.isHeld()) return void (await lease.release());
    this.#judge(() => inside.room.enter(inside));
    if (this.#variables[variable] === undefined) this.#variables[variable] = { lease, inside, lock, name };
    else await this.#release({ lease, inside });
  }

  async #release({ lease, inside }) {
    inside.room.leave(inside);
    const released = await lease.release();
    // It may be lost as it is released.
    if (released === (lease.lossReason !== null)) this.#found(`the release of ${inside.what} says ${released}: ${lease.lossReason}`);
  }

  async #back(variable) {
    const had = this.#variables[variable];
    this.#variables[variable] = undefined;
    if (had !== undefined) await this.#release(had);
  }

  async back({ variable }) {
    await this.#back(variable);
  }

  async "back by lock"({ variable }) {
    const had = this.#variables[variable];
    if (had === undefined) return;
    const error = await had.lock.release().then(
      () => undefined,
      (error) => error,
    );
    if (!(error instanceof this.quorlock.NotOwnerError)) this.#found(`a lock without an owner is released: ${error}`);
  }

  async drop({ variable }) {
    const had = this.#variables[variable];
    if (had === undefined) return;
    this.#variables[variable] = undefined;
    had.inside.room.leave(had.inside);
    counts.dropped++;
    if (had.lease.isHeld()) this.#dropped.push(had.name);
  }

  async #worker() {
    counts.workers++;
    const room = this.#room("alone", 0);
    const env = { ...process.env, QUORLOCK_NODES: this.nodes };
    const workerData = { main: this.main, name: this.#name(0), words: room.words };
    const worker = new Worker(WORKER, { eval: true, env, workerData });
    const exit = new Promise((resolve, reject) => worker.once("exit", resolve).once("error", reject));
    await new Promise((resolve) => worker.once("message", resolve));
    return async () => {
      Atomics.store(room.words, 3, 1);
      await exit;
      if (Atomics.load(room.words, 2) === 1 && !this.#lost.has(0)) this.#found("a worker is inside beside a body");
    };
  }

  async #nothingIsLeft() {
    this.#locks.clear();
    const end = performance.now() + 30_000;
    const until = async (look, what) => {
      while (!(await look())) {
        if (performance.now() > end) return this.#found(what);
        if (this.#dropped.length > 0) globalThis.gc();
        await turn();
      }
    };
    for (const [key] of this.#rooms) {
      const [kind, i] = key.split(" ");
      const name = this.#name(i);
      const what = `a key is left: ${key}`;
      if (kind !== "slots") await until(async () => !(await this.clients[0].lock(name, OPTIONS[kind]).isLocked()), what);
      else {
        await until(async () => {
          const leases = [];
          for (let slot = 0; slot < SLOTS; slot++) leases.push(await this.clients[0].semaphore(name, SLOTS).tryAcquire());
          await Promise.all(leases.map((lease) => lease?.release()));
          return !leases.includes(null);
        }, what);
      }
    }
    if (this.old) return;
    for (const name of new Set(this.#dropped)) {
      if (this.#lost.has(name)) continue;
      const wanted = this.#dropped.filter((other) => other === name).length;
      const told = () => this.#lines.filter((line) => line.includes(`the lease of '${this.#name(name)}' was collected`)).length;
      await until(async () => told() >= wanted, `a lease of ${name} was forgotten, and nobody is told`);
    }
  }
}

const OPTIONS = { alone: {}, shared: { shared: true }, raw: { raw: true }, slots: { slots: SLOTS } };

/** What a program throws. */
class Ours extends Error {}
class Aborted extends Error {}

function ours(error) {
  if (!(error instanceof Ours)) throw error;
}
