// What TypeScript makes of the package. Compiled as an ES module and as CommonJS, and run.

import {
  Client,
  Election,
  InvalidArgumentError,
  Lease,
  Leases,
  Lock,
  Locks,
  LockBusyError,
  LockLostError,
  once,
  QuorlockError,
  redlock,
  type AcquireOptions,
  type ClientOptions,
  type ElectionOptions,
  type Events,
  type Holder,
  type InitOptions,
  type Leadership,
  type LockOptions,
  type LogLine,
  type Loss,
  type LossReason,
  type Name,
  type OnceOptions,
  type RedlockOptions,
  type RunOptions,
  type Stats,
} from "quorlock";

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const same = <_ extends true>() => {};

// The reasons that the core gives, and no other.
same<Same<LossReason, "expired" | "refused" | "max_hold" | "owner_gone" | "closed" | "forced">>();

// All there are: neither the type nor the counts themselves have one more.
const COUNTS: Record<keyof Stats, true> = {
  // Made from core/vocabulary.toml: counts.
  acquired: true,
  reentered: true,
  attemptsLost: true,
  timeoutsAwaited: true,
  released: true,
  lost: true,
  renewals: true,
  repairs: true,
  releasesPending: true,
  clockSteps: true,
  writeBacks: true,
  releasesDropped: true,
  connects: true,
  waiting: true,
  passedOn: true,
  queued: true,
  ahead: true,
  strayMessages: true,
  // End of what is made.
};

async function main(): Promise<void> {
  const options: ClientOptions = { ttl: 5000, wait: null, maxHold: Infinity, minValidity: 0.2 };
  await using client = new Client(undefined, options);
  const set: ClientOptions = { fencing: true, maxWaiters: 100, fair: true, fenceTtl: 600_000, setName: "default", restartGuard: "auto" };
  await using twin = new Client(undefined, { ...set, acceptEviction: false, waitReplicas: 0 });
  // @ts-expect-error: there is no such word.
  const guard: ClientOptions = { restartGuard: "maybe" };
  void guard;
  client.on("lost", (loss) => same<Same<typeof loss, Loss>>());
  client.on("log", ({ level, message, event, template, fields }) => console.error(level, message, event, template, fields["lock"]));
  const events: Events = redlock.events;
  events.on("lost", ({ lease, reason }) => console.error(lease.name, reason));
  redlock.events.once("log", (line) => same<Same<typeof line, LogLine>>());
  // @ts-expect-error: there is no such event.
  client.on("error", () => {});
  // @ts-expect-error: nor such an option.
  const wrong: LockOptions = { tll: 5 };
  void wrong;

  let kept: Lease;
  {
    await using lease = await client.lock("typed", { ttl: 2000 }).acquire({ wait: 100 } satisfies AcquireOptions);
    kept = lease;
    const signal: AbortSignal = lease.signal;
    const reason: LossReason | null = lease.lossReason;
    const left: number = lease.remaining();
    const fence: number | null = lease.fence;
    same<Same<typeof lease.fence, number | null>>();
    if (fence === null || !Number.isSafeInteger(fence)) throw new Error(`the fence is ${fence}`);
    if (signal.aborted || reason !== null || left <= 0 || !lease.isHeld()) throw new Error("not held");
  }
  if (kept.isHeld()) throw new Error("it was not disposed of");

  const lock: Lock = client.lock(new Uint8Array([0xff]), { owner: "me" });
  const tried: Lease | null = await lock.tryAcquire();
  const released: boolean = await lock.release();
  if (tried === null || !released) throw new Error("not acquired");

  const scope: RedlockOptions = { client, reentrant: true, signal: new AbortController().signal };
  const text = await redlock("typed", scope, async (lease) => `${lease.isHeld()}`);
  const number = await redlock("typed", { client }, () => 5);
  same<Same<typeof text, string>>();
  const attempted = await redlock.attempt("typed", { client, wait: 100 }, () => 5);
  same<Same<typeof attempted, number | undefined>>();
  if (attempted !== 5) throw new Error("left out");
  const either = await redlock.attempt("typed", { client, otherwise: () => "left out" as const }, () => 5);
  same<Same<typeof either, number | "left out">>();
  const job: OnceOptions<null> = { client, every: 60_000, otherwise: () => null };
  void (async () => {
    const done = await once("typed job", job, () => 5);
    same<Same<typeof done, number | null>>();
  });
  void ((error: LockBusyError): [string, string | undefined] => [error.code, error.holder]);
  same<Same<typeof number, number>>();
  // @ts-expect-error: the body is missing.
  await redlock("typed", scope).catch((error: unknown) => {
    if (!(error instanceof InvalidArgumentError)) throw error;
  });

  const locks: Locks = twin.lockAll(["typed", new Uint8Array([0xff])], { ttl: 2000 });
  {
    await using leases = await locks.acquire({ wait: 100 });
    const first: Lease | undefined = leases.get("typed");
    const fences: Map<Name, number | null> = leases.fences;
    const lost: [Name | null, LossReason | null, AbortSignal] = [leases.lostName, leases.lossReason, leases.signal];
    if (first?.fence !== fences.get("typed") || lost[0] !== null || [...leases].length !== 2) throw new Error("not both");
  }
  const several: Leases | null = await locks.tryAcquire();
  if ((await several?.release()) !== true) throw new Error("not acquired");
  const ofAll = await redlock(["typed", "other"], { client: twin }, (leases) => leases.size);
  same<Same<typeof ofAll, number>>();
  const attemptedAll = await redlock.attempt(["typed", "other"], { client: twin }, (leases) => leases.isHeld());
  same<Same<typeof attemptedAll, boolean | undefined>>();
  if (ofAll !== 2 || attemptedAll !== true) throw new Error("not all");
  // One name or several, as the program has them: the work gets the lease or the leases.
  const listed = ["typed", "other"] as const;
  for (const some of ["typed", listed, ["typed"]] as (string | readonly string[])[]) {
    const held = await redlock(some, { client: twin, ttl: 2000 }, (held) => {
      same<Same<typeof held, Lease | Leases>>();
      return held.isHeld();
    });
    same<Same<typeof held, boolean>>();
    const tried = await redlock.attempt(some, { client: twin, otherwise: () => null }, (held) => held instanceof Leases);
    same<Same<typeof tried, boolean | null>>();
    if (!held || tried !== (typeof some !== "string")) throw new Error("not held");
    // @ts-expect-error: it may be one.
    void (() => redlock(some, { client: twin }, (leases: Leases) => leases.size));
    // @ts-expect-error: it may be several.
    void (() => redlock.attempt(some, (lease: Lease) => lease.fence));
    void (() => redlock(some, (held) => held.remaining()));
    void (() => redlock.attempt(some, (held) => held.remaining()));
  }
  const ofTuple = await redlock(listed, { client: twin }, (leases) => leases.size);
  same<Same<typeof ofTuple, number>>();
  void twin.lockAll(listed);
  // @ts-expect-error: it tries once.
  void (() => twin.lock("typed").tryAcquire({ wait: 5 }));
  // @ts-expect-error: its nodes are given already.
  void (() => new Client("memory://typed", { nodes: [] }));
  // @ts-expect-error: one name has one lease.
  void (() => redlock("typed", { client: twin }, (leases: Leases) => leases.size));
  // @ts-expect-error: several have several.
  void (() => redlock(["typed"], { client: twin }, (lease: Lease) => lease.fence));

  const candidate: ElectionOptions = { ttl: 2000, wait: null };
  // @ts-expect-error: nobody enters a term again.
  const owned: ElectionOptions = { owner: "me" };
  void owned;
  const election: Election = twin.election("typed leader", candidate);
  const term: Lease = await election.campaign({ signal: new AbortController().signal });
  const leader: Holder | null = await election.leader();
  if (leader?.fence !== term.fence || !election.isLeader()) throw new Error("it does not lead");
  for await (const now of election.observe({ every: 100 })) {
    same<Same<typeof now, Leadership>>();
    if (!now.known || now.leader?.fence !== term.fence) throw new Error("it is not seen to lead");
    break;
  }
  if (!(await election.resign())) throw new Error("it did not lead");
  const running: RunOptions = {
    again: false,
    onLost: (reason) => same<Same<typeof reason, LossReason>>(),
    onStopped: () => {},
    signal: new AbortController().signal,
  };
  const led = await election.run(async ({ fence }) => fence, running);
  same<Same<typeof led, number | null>>();

  try {
    client.lock("");
  } catch (error) {
    if (!(error instanceof QuorlockError) || error instanceof LockLostError) throw error;
    const told: [string, string, number] = [error.code, error.kind, error.number];
    for (const { node, message } of error.nodes) told.push(node, message);
  }
  const unfenced: LockOptions & RedlockOptions = { fencing: false, maxWaiters: 5, fair: true, group: "orders", shared: false };
  if ((await redlock("unfenced", unfenced, ({ fence }) => fence)) !== null) throw new Error("a fence");
  // The set was declared before, and votes.
  const declared: Promise<number> = twin.initSet();
  if ((await declared) !== 0) throw new Error(`${await declared} ms left`);
  const gently: InitOptions = { force: false };
  await twin.initSet(gently);
  const stats: Stats = client.stats();
  const counts = Object.keys(stats).sort().join();
  if (counts !== Object.keys(COUNTS).sort().join()) throw new Error(`counts: ${counts}`);
  if (stats.acquired !== 6) throw new Error(`${stats.acquired} acquired`);
}

main().then(
  () => console.log("consumer is content"),
  (error: unknown) => {
    console.error(error);
    process.exitCode = 1;
  },
);
