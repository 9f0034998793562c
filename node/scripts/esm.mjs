// Makes the ESM face of the compiled CommonJS: every export by name, so there is one native instance and one identity
// of each class however the package is loaded.

import { writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const dist = join(dirname(dirname(fileURLToPath(import.meta.url))), "dist");
const names = Object.keys(createRequire(import.meta.url)(join(dist, "index.js"))).sort();

const note = "// Generated from index.js by scripts/esm.mjs.";
writeFileSync(
  join(dist, "index.mjs"),
  `${note}\nimport quorlock from "./index.js";\nexport const {\n${names.map((name) => `  ${name},\n`).join("")}} = quorlock;\n`,
);
writeFileSync(join(dist, "index.d.mts"), `${note}\nexport * from "./index.js";\n`);
console.log(`made the ESM face of ${names.length} exports`);
