// Counts up what is in a file while it holds the lock: count.mjs URL NAME FILE TIMES.
import { readFileSync, writeFileSync } from "node:fs";
import { redlock } from "../../../node/dist/index.mjs";

const [url, name, file, times] = process.argv.slice(2);
for (let i = 0; i < Number(times); i += 1) {
  await redlock(name, { nodes: url, layout: "redisson", wait: 60_000 }, () => {
    writeFileSync(file, `${Number(readFileSync(file, "utf8")) + 1}\n`);
  });
}
