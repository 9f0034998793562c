// Refuses to pack a tarball that lacks what it needs.

import { existsSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const home = dirname(dirname(fileURLToPath(import.meta.url)));
const wanted = ["dist/index.js", "dist/index.mjs", "dist/index.d.ts", "dist/index.d.mts", "dist/opentelemetry.mjs", "dist/testing.mjs", "prebuilds"];
const missing = wanted.filter((path) => !existsSync(join(home, path)));
const natives = existsSync(join(home, "prebuilds")) ? readdirSync(join(home, "prebuilds")) : [];
if (missing.length > 0 || !natives.some((name) => existsSync(join(home, "prebuilds", name, "quorlock.node")))) {
  console.error(`run \`npm run build\` first: there is no ${missing[0] ?? "native part"}`);
  process.exit(1);
}
