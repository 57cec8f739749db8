// Opens browser_agent.html in a headless Chromium whose microphone is a recording, and tells what it heard.
//
//     node browser_agent.mjs CHROMIUM URL KEY WAV TURNS
//
// URL is where offers are posted, KEY an ephemeral one. The page leaves once TURNS replies have been played or cut off. Writes
// JSON lines: every event of the session, then {"type": "left", …} with what the page kept.

import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const PATIENCE_MS = 90_000;
const [executablePath, url, key, recording, turns] = process.argv.slice(2);
const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const tell = (line) => process.stdout.write(JSON.stringify(line) + "\n");

const server = createServer(async (request, response) => {
  const bundle = request.url.match(/^\/bundle\/([\w.-]+)$/);
  const path = bundle ? `node_modules/@openai/agents-realtime/dist/bundle/${bundle[1]}` : "browser_agent.html";
  const body = await readFile(here(path)).catch(() => null);
  response.writeHead(body ? 200 : 404, { "Content-Type": bundle ? "text/javascript" : "text/html" });
  response.end(body);
});
await new Promise((ready) => server.listen(0, "127.0.0.1", ready));

const browser = await chromium.launch({
  executablePath,
  args: [
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
    `--use-file-for-fake-audio-capture=${recording}%noloop`,
    "--autoplay-policy=no-user-gesture-required",
  ],
});
let failed = false;
try {
  const page = await browser.newPage();
  page.on("console", (line) => tell({ type: `console.${line.type()}`, text: line.text() }));
  page.on("pageerror", (error) => tell({ type: "console.exception", text: String(error) }));
  await page.goto(`http://127.0.0.1:${server.address().port}/`);
  await page.waitForFunction(() => window.agent);
  tell({ type: "connected", call: await page.evaluate((to) => window.agent.connect(...to), [url, key]) });
  await page.waitForFunction(
    (wanted) =>
      window.agent.count("output_audio_buffer.stopped") + window.agent.count("output_audio_buffer.cleared") >= wanted,
    Number(turns),
    { timeout: PATIENCE_MS },
  ).catch((error) => ((failed = true), tell({ type: "timeout", text: String(error) })));
  for (const event of await page.evaluate(() => window.agent.events)) tell(event);
  tell({ type: "left", ...(await page.evaluate(() => window.agent.leave())) });
} finally {
  await browser.close();
  server.close();
}
process.exitCode = failed ? 1 : 0;
