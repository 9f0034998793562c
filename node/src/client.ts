/** The client: a configured set, and what runs for it. */

import { EventEmitter } from "node:events";
import { inspect } from "node:util";

import { native, type NativeClient, type NativeStats } from "./binding.js";
import { asyncDispose } from "./dispose.js";
import { checked, look } from "./errors.js";
import type { Loss } from "./lease.js";
import { newLock, type Lock } from "./lock.js";
import { clientOptions, lockOptions, octets, type ClientOptions, type LockOptions, type Name } from "./options.js";
import { begin, told, valueOf } from "./port.js";

/** Counts of a client since it was made. */
export interface Stats extends Readonly<NativeStats> {}

/** What `log` tells: passwords and tokens are never in it. */
export interface LogLine {
  level: "warn" | "info";
  message: string;
}

export interface ClientEvents {
  /** A lease was lost. Once for each handle that had not been released. */
  lost: [loss: Loss];
  /** Something is worth knowing; of all clients of the process. */
  log: [line: LogLine];
}

export interface Client {
  on<E extends keyof ClientEvents>(event: E, listener: (...values: ClientEvents[E]) => void): this;
  once<E extends keyof ClientEvents>(event: E, listener: (...values: ClientEvents[E]) => void): this;
  off<E extends keyof ClientEvents>(event: E, listener: (...values: ClientEvents[E]) => void): this;
  addListener<E extends keyof ClientEvents>(event: E, listener: (...values: ClientEvents[E]) => void): this;
  removeListener<E extends keyof ClientEvents>(event: E, listener: (...values: ClientEvents[E]) => void): this;
  emit<E extends keyof ClientEvents>(event: E, ...values: ClientEvents[E]): boolean;
}

/** Those that are told of log lines. */
const clients = new Set<WeakRef<Client>>();
told.log = (warning, message) => {
  for (const weak of clients) {
    const client = weak.deref();
    if (client === undefined) clients.delete(weak);
    else if (client.listenerCount("log") > 0) {
      process.nextTick(() => client.emit("log", { level: warning ? "warn" : "info", message }));
    }
  }
};

function isOptions(value: unknown): value is ClientOptions {
  return typeof value === "object" && value !== null && !(Symbol.iterator in value);
}

/**
 * A set of nodes and the options for its locks.
 *
 * Connects when first needed and again when connections break. Keeps no process alive, nor do its leases; what is
 * awaited does. Emits `lost` and `log`, and never `error`.
 */
export class Client extends EventEmitter {
  readonly #core: NativeClient;

  /**
   * Throws `InvalidArgumentError`, naming the option, its value and what to give.
   *
   * @param nodes URLs, see `ClientOptions.nodes`; or options with `nodes` among them.
   */
  constructor(nodes?: string | Iterable<string> | ClientOptions, options: Omit<ClientOptions, "nodes"> = {}) {
    super();
    const given = isOptions(nodes) ? { ...nodes, ...options } : { ...options, nodes };
    this.#core = look(Client, () => checked(native.client(...clientOptions(given))));
    clients.add(new WeakRef(this));
  }

  /**
   * A lock by its name: 1 to 1,024 bytes. Options not given are the client's. Throws `InvalidArgumentError` for a name
   * or option that is not valid.
   */
  lock(name: Name, options: LockOptions = {}): Lock {
    const core = look(this.lock, () => checked(this.#core.lock(octets("name", name), lockOptions(options))));
    return newLock(core, typeof name === "string" ? name : Uint8Array.from(name), this);
  }

  /** What has happened so far. */
  stats(): Stats {
    return checked(this.#core.stats(), this.stats);
  }

  /**
   * Releases every lease and stops. Leases still held are lost with the reason `closed`. Resolves when the nodes have
   * answered, at the latest after `nodeTimeout`. A second call does nothing.
   */
  async close(): Promise<void> {
    await this.#close();
  }

  async #close(): Promise<void> {
    valueOf(await begin<null>((port, number) => this.#core.close(port, number)), this.close);
  }

  /** For `await using`: closes. */
  async [asyncDispose](): Promise<void> {
    await this.#close();
  }

  [inspect.custom](): string {
    return this.#core.describe();
  }
}
