"use strict";
// Loaded before a suite: whoever connects to port 6379 gets one of the runner's servers; and what the shims share, which is
// whom a peer's redis clients mean, and one Quorlock client for each set of them.
//
// Suites have that port written in them, and let several databases of one server stand for several servers. Quorlock refuses
// that, for one failure would take all of them: database 1 goes to the first server, 2 to the second, and so on.

const net = require("node:net");
const path = require("node:path");
const Redis = require("ioredis");

const quorlock = require(path.join(__dirname, "..", "..", "..", "node"));

const PORTS = process.env.PEERS_PORTS.split(",").map(Number);
const portOf = (db) => PORTS[Math.max(db, 1) - 1];

const connect = net.Socket.prototype.connect;
net.Socket.prototype.connect = function (...words) {
  // `net.connect` has put its arguments in order by then.
  const options = Array.isArray(words[0]) ? words[0][0] : words[0];
  if (options?.port === 6379) options.port = PORTS[0];
  return connect.apply(this, words);
};

class OwnServer extends Redis {
  constructor(options = {}) {
    super({ port: portOf(options.db ?? 0), ...options });
  }
}
require.cache[require.resolve("ioredis")].exports = OwnServer;

// Some suites cannot end a wait: this is where a peer would wait for ever.
const LONG = 30_000;
const clients = new Map();

/** The client for a list of clients of ioredis or node-redis, with the options that a program which comes from a peer gives. */
function clientOf(...of) {
  const nodes = of.map((one) => {
    const db = one.options.db ?? 0;
    return `redis://127.0.0.1:${portOf(db)}/${db}`;
  });
  const key = nodes.join();
  if (!clients.has(key)) {
    // On the servers there is one key with the lock's own name, and its value is the token and the dot that tells it from the
    // value of another library. No peer has the restart guard, and suites flush the servers. What Quorlock remembers of a set
    // says how many nodes there are.
    const options = { raw: true, fencing: false, label: "", restartGuard: "off", wait: LONG };
    clients.set(key, new quorlock.Client({ nodes, ...options, namespace: `quorlock${nodes.length}:` }));
  }
  return clients.get(key);
}

module.exports = { quorlock, clientOf, PORTS, LONG };
