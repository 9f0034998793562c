// All calls of the Node package beside a server that lies (`lies serve`, tests/rust/src/bin/lies).
//
//     node lies.mjs [--seconds N] [--seed S]
//
// Each call ends within its time, by its value or by an error of Quorlock's, which names a node where nodes are at fault and
// shows what they said as text; nothing panics. The seed is printed, and repeats what is drawn.

import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const require = createRequire(import.meta.url);
const { stage } = require("../node/support.cjs");
const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const { Client, QuorlockError } = require(join(ROOT, "node", "dist", "index.js"));

const WAIT = 300;
const PATIENCE = 8000;
// How many rounds are drawn at the least, for a round of silent nodes takes seconds.
const FEWEST = 4;
const MOODS = ["lies", "lies", "lies", "always", "twice", "late", "silent", "floods"];

const words = process.argv.slice(2);
const option = (name, otherwise) => (words.includes(name) ? Number(words[words.indexOf(name) + 1]) : otherwise);
const seed = option("--seed", Math.floor(Math.random() * 1_000_000));
const seconds = option("--seconds", 20);

/** Random numbers of a seed (mulberry32). */
function draws(state) {
  return (most) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % most;
  };
}

async function liar(number, before) {
  const child = spawn(join(ROOT, "target", "release", "lies"), ["serve", "--seed", `${number}`, ...(before ? ["--before", before] : [])], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  for await (const line of createInterface({ input: child.stdout })) {
    return { address: `127.0.0.1:${line.split(" ")[1]}`, be: (mood) => child.stdin.write(`${mood}\n`), close: () => child.kill("SIGKILL") };
  }
  throw new Error("no port");
}

const failed = new Map();
const ends = new Map();
const count = (map, what) => map.set(what, (map.get(what) ?? 0) + 1);

function text(what, said) {
  const odd = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.exec(said);
  if (odd !== null) count(failed, `${what}: a text with ${JSON.stringify(odd[0])}`);
  if (said.length > 2500) count(failed, `${what}: a text of ${said.length} characters`);
}

async function call(what, made) {
  const late = Symbol("late");
  let timer;
  const end = new Promise((done) => (timer = setTimeout(() => done(late), WAIT + PATIENCE)));
  try {
    const value = await Promise.race([made(), end]);
    if (value === late) {
      count(failed, `${what}: it does not end within ${WAIT + PATIENCE} ms`);
      return undefined;
    }
    count(ends, `${what} ok`);
    return value ?? true;
  } catch (error) {
    count(ends, `${what} ${error?.name}`);
    if (!(error instanceof QuorlockError)) {
      count(failed, `${what}: ${error?.stack}`);
      return undefined;
    }
    text(what, error.message);
    const shown = `${error.message} ${JSON.stringify(error.nodes ?? [])}`;
    if (["QuorumUnavailableError", "MisconfiguredError"].includes(error.name) && !shown.includes("127.0.0.1:")) {
      count(failed, `${what}: it names no node: ${error.message}`);
    }
    if (error.message.includes("panic")) count(failed, `${what}: ${error.message}`);
    return undefined;
  } finally {
    clearTimeout(timer);
  }
}

async function calls(draw, client) {
  const name = `l${draw(4)}`;
  const won = async (what, acquire) => {
    const lease = await call(what, acquire);
    if (lease === undefined) return;
    await call("extend", () => lease.extend());
    await call("release", () => lease.release());
  };
  switch (draw(7)) {
    case 0:
    case 1:
    case 2:
      return won("acquire", () => client.lock(name).acquire({ wait: WAIT }));
    case 3: {
      const found = await call("inspect", () => client.inspect(name));
      for (const node of found?.nodes ?? []) text("inspect", `${node.label} ${node.error}`);
      return undefined;
    }
    case 4: {
      const probe = await call("probe", () => client.probe());
      for (const node of probe?.nodes ?? []) for (const finding of node.findings) text("probe", finding.what);
      return undefined;
    }
    case 5:
      return won("several", () => client.lockAll(["a", "b"], { wait: WAIT }).acquire());
    default: {
      const exported = await call("export", async () => (await client.lock("e").acquire({ wait: WAIT })).export());
      if (typeof exported === "string") await call("adopt", () => client.adopt(exported));
      return undefined;
    }
  }
}

// A set is founded by all its nodes together, which a liar holds up.
const FOUNDED = { namespace: "founded:" };
const namespaces = (round) => [FOUNDED, FOUNDED, { namespace: `r${round}:`, restartGuard: "off" }];
const OPTIONS = { ttl: 2000, maxTtl: 3000, nodeTimeout: 100, setName: "lies" };

console.log(`seed ${seed}`);
process.on("unhandledRejection", (error) => count(failed, `a rejection that nobody awaits: ${error?.stack}`));
const servers = await stage("3");
const honest = servers.nodes.split(",").map((url) => url.replace("redis://", ""));
const founder = new Client(honest.map((address) => `redis://${address}`), { ...OPTIONS, ...FOUNDED });
await (await founder.lock("a").acquire({ wait: 20_000 })).release();
await founder.close();
const end = performance.now() + seconds * 1000;
let rounds = 0;
while (rounds < FEWEST || performance.now() < end) {
  const draw = draws(seed + rounds);
  const alone = draw(4) === 0;
  const mood = MOODS[draw(MOODS.length)];
  const lies = await liar(draw(1 << 30), alone ? undefined : honest[2]);
  const url = alone ? [`redis://${lies.address}`, `redis+cluster://${lies.address}`, `redis+sentinel://${lies.address}/m`][draw(3)] : `redis://${lies.address}`;
  const nodes = [url, ...(alone ? [] : honest.slice(0, 2).map((address) => `redis://${address}`))];
  const options = { ...OPTIONS, ...namespaces(rounds)[draw(3)] };
  const before = failed.size;
  lies.be(mood);
  const client = new Client(nodes, options);
  for (let turn = 0; turn < 6; turn++) await calls(draw, client);
  await call("close", () => client.close());
  lies.close();
  if (failed.size > before) console.log(`in the round of seed ${seed + rounds}`);
  rounds++;
}
for (const [what, times] of [...ends].sort()) console.log(`${times}`.padStart(6), what);
for (const [what, times] of failed) console.log(`FAIL ${what} (${times} times)`);
console.log(`${rounds} rounds`);
console.log(`${[...ends.values()].reduce((a, b) => a + b, 0)} passed, ${failed.size} failed`);
process.exit(failed.size > 0 ? 1 : 0);
