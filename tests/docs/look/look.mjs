// Looks at every page of the built site in headless Chromium, light and dark, narrow and wide: look.mjs SITE PICTURES
//
// A page is right if nothing fails to load and no error is logged, nothing but tables and code is wider than the window, and axe finds
// no text that is too faint and no picture without a text. Keeps a picture of each page in PICTURES, for a person to look at.

import { createServer } from "node:http";
import { mkdir, readFile, readdir } from "node:fs/promises";
import { createRequire } from "node:module";
import path from "node:path";
import { chromium } from "playwright-core";

const [site, pictures] = process.argv.slice(2).map((folder) => path.resolve(folder));
const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const TYPES = { ".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".json": "application/json" };
const RULES = ["color-contrast", "image-alt", "svg-img-alt", "link-name", "document-title", "html-has-lang", "heading-order", "list"];
const WINDOWS = { narrow: { width: 390, height: 844 }, wide: { width: 1280, height: 900 } };

async function pages(folder, prefix = "") {
  const found = [];
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    if (entry.isDirectory()) found.push(...(await pages(path.join(folder, entry.name), `${prefix}${entry.name}/`)));
    else if (entry.name === "index.html") found.push(prefix);
  }
  return found.sort();
}

const server = createServer(async (request, response) => {
  const { pathname } = new URL(request.url, "http://site");
  const file = path.join(site, decodeURIComponent(pathname), pathname.endsWith("/") ? "index.html" : "");
  try {
    const body = await readFile(file);
    response.writeHead(200, { "content-type": TYPES[path.extname(file)] ?? "application/octet-stream" }).end(body);
  } catch {
    response.writeHead(404).end();
  }
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const origin = `http://127.0.0.1:${server.address().port}/`;
await mkdir(pictures, { recursive: true });
const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
let passed = 0;
let failed = 0;
try {
  const all = await pages(site);
  for (const [size, viewport] of Object.entries(WINDOWS)) {
    for (const colorScheme of ["light", "dark"]) {
      const context = await browser.newContext({ viewport, colorScheme, reducedMotion: "reduce" });
      for (const name of all) {
        const wrong = [];
        const page = await context.newPage();
        page.on("pageerror", (error) => wrong.push(`an error: ${error.message}`));
        page.on("response", (response) => response.status() >= 400 && wrong.push(`${response.status()} for ${response.url()}`));
        page.on("requestfailed", (request) => wrong.push(`not loaded: ${request.url()}`));
        await page.goto(origin + name, { waitUntil: "load" });
        const wider = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
        if (wider > 0) wrong.push(`it is ${wider} pixels wider than the window`);
        await page.evaluate(axe);
        const { violations } = await page.evaluate((values) => axe.run(document, { runOnly: { type: "rule", values } }), RULES);
        for (const { id, nodes } of violations) wrong.push(`${id}: ${nodes.length}, such as ${nodes[0].html.slice(0, 120)} ${nodes[0].failureSummary.replaceAll("\n", " ").slice(0, 200)}`);
        await page.screenshot({ path: path.join(pictures, `${name.replaceAll("/", "_") || "home_"}${size}-${colorScheme}.png`) });
        await page.close();
        wrong.length ? failed++ : passed++;
        if (wrong.length) console.log(`FAIL ${name || "home"} ${size} ${colorScheme}\n     ${wrong.join("\n     ")}`);
      }
      await context.close();
    }
  }
} finally {
  await browser.close();
  server.close();
}
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed || !passed ? 1 : 0;
