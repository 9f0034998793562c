// The native part as a library: what its file says.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import support from "./support.cjs";

const folder = join(support.PACKAGE, "prebuilds");
const SHT_DYNAMIC = 6;
const [DT_FLAGS, DT_FLAGS_1] = [0x1en, 0x6ffffffbn];
const [DF_STATIC_TLS, DF_1_NODELETE] = [0x10n, 0x8n];

/** The dynamic entries of a 64-bit ELF file. */
function dynamic(file) {
  const sections = Number(file.readBigUInt64LE(0x28));
  const [size, count] = [file.readUInt16LE(0x3a), file.readUInt16LE(0x3c)];
  const entries = new Map();
  for (let i = 0; i < count; i++) {
    const at = sections + i * size;
    if (file.readUInt32LE(at + 4) !== SHT_DYNAMIC) continue;
    const [offset, length] = [0x18, 0x20].map((field) => Number(file.readBigUInt64LE(at + field)));
    for (let entry = offset; entry < offset + length; entry += 16) {
      entries.set(file.readBigUInt64LE(entry), file.readBigUInt64LE(entry + 8));
    }
  }
  return entries;
}

test("it stays loaded when the last worker that used it ends, and needs no static TLS", () => {
  const [name] = readdirSync(folder);
  const file = readFileSync(join(folder, name, "quorlock.node"));
  if (file.readUInt32BE(0) !== 0x7f454c46) return; // Other systems unload nothing that has threads.
  const entries = dynamic(file);
  assert.ok(((entries.get(DT_FLAGS_1) ?? 0n) & DF_1_NODELETE) !== 0n, "NODELETE");
  assert.equal((entries.get(DT_FLAGS) ?? 0n) & DF_STATIC_TLS, 0n, "STATIC_TLS");
});

test("every call from JavaScript catches panics", () => {
  const sources = join(support.PACKAGE, "native");
  let exports = 0;
  for (const name of readdirSync(sources)) {
    const text = readFileSync(join(sources, name), "utf8");
    for (const [, options] of text.matchAll(/#\[napi(?:\(([^\]]*)\))?\]\s*(?:#\[[^\]]*\]\s*)*pub fn/g)) {
      exports++;
      assert.match(options ?? "", /catch_unwind/, name);
    }
  }
  assert.ok(exports >= 25, `${exports}`);
});
