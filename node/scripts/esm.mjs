// Makes the ESM face of the compiled CommonJS: every export by name, so there is one native instance and one identity
// of each class however the package is loaded.

import { writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const dist = join(dirname(dirname(fileURLToPath(import.meta.url))), "dist");
// Each entry of the package, as `exports` in its package.json names them.
const ENTRIES = ["index", "opentelemetry", "testing"];

for (const entry of ENTRIES) {
  const names = Object.keys(createRequire(import.meta.url)(join(dist, `${entry}.js`))).sort();
  const note = `// Generated from ${entry}.js by scripts/esm.mjs.`;
  const listed = names.map((name) => `  ${name},\n`).join("");
  writeFileSync(
    join(dist, `${entry}.mjs`),
    `${note}\nimport quorlock from "./${entry}.js";\nexport const {\n${listed}} = quorlock;\n`,
  );
  writeFileSync(join(dist, `${entry}.d.mts`), `${note}\nexport * from "./${entry}.js";\n`);
  console.log(`made the ESM face of ${names.length} exports of ${entry}`);
}
