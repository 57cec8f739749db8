// Visits the studio in a Chromium, by the keyboard alone where that is asked for.
//
//     node studio_visitor.mjs CHROMIUM LINK look FOLDER   every view, wide and narrow, light and dark
//     node studio_visitor.mjs CHROMIUM LINK use           what people do with runs and turns
//
// LINK is what live-eval studio printed. Writes JSON lines: what the pages showed, what they asked other hosts for,
// what axe finds. Screenshots go to FOLDER. The run that is under way is to end once a line says that it was seen.

import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const PATIENCE_MS = 60_000;
const LOOKS = [
  ["wide", "light"],
  ["wide", "dark"],
  ["narrow", "light"],
  ["narrow", "dark"],
];
const [executablePath, link, task, folder] = process.argv.slice(2);
const tell = (line) => process.stdout.write(JSON.stringify(line) + "\n");
const browser = await chromium.launch({
  executablePath,
  args: ["--autoplay-policy=no-user-gesture-required"],
});

async function open(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  page.on(
    "console",
    (line) => ["error", "warning"].includes(line.type()) && tell({ type: "console", text: line.text() }),
  );
  page.on("pageerror", (error) => tell({ type: "exception", text: String(error) }));
  page.on("request", (request) => {
    if (!request.url().startsWith(new URL(link).origin) && !/^(data|blob):/.test(request.url()))
      tell({ type: "elsewhere", url: request.url() });
  });
  await page.goto(link);
  await page.locator("table.runs").waitFor();
  return page;
}

async function go(page, hash) {
  await page.evaluate((to) => {
    location.hash = to;
  }, hash);
  await page.locator(".view:not([aria-busy])").waitFor();
}

/** Wait for the result of a function; the page's policy forbids Playwright's own way, which is `eval`. */
async function until(page, look, wanted) {
  const end = performance.now() + PATIENCE_MS;
  while ((await page.evaluate(look)) !== wanted) {
    if (performance.now() > end) throw new Error(`never ${wanted}: ${look}`);
    await page.waitForTimeout(10);
  }
}

const runs = async (page) =>
  Object.fromEntries(
    (await page.evaluate(async () => (await fetch("/api/runs")).json())).map((run) => [run.name, run.id]),
  );

async function look() {
  const axe = await readFile(
    fileURLToPath(new URL("node_modules/axe-core/axe.min.js", import.meta.url)),
    "utf-8",
  );
  for (const [width, colorScheme] of LOOKS) {
    const page = await open({
      colorScheme,
      viewport: width === "wide" ? { width: 1280, height: 900 } : { width: 390, height: 844 },
    });
    const devtools = await page.context().newCDPSession(page);
    const id = await runs(page);
    const views = {
      runs: "/runs",
      run: `/runs/${id.amber}`,
      turn: `/runs/${id.amber}/turns/id_000%2Ftarget`,
      failed: `/runs/${id.amber}/turns/id_009%2Ftarget`,
      campaign: `/runs/${id.campaign}`,
      compare: `/compare/${id.amber}/${id.birch}`,
      latency: `/latency/${id.campaign}`,
      duplex: "/duplex",
      leaderboard: "/leaderboard",
      problem: `/runs/${id.damaged}`,
      start: "/start",
      talk: "/talk",
      listen: "/listen",
    };
    const pages = {
      "report page": `/pages/report.html?run=${id.amber}&run=${id.birch}`,
      "leaderboard page": `/pages/leaderboard.html?run=${id.amber}`,
      "latency page": `/pages/${id.campaign}/latency.html`,
      "duplex page": `/pages/${id.duplex}/duplex.html`,
    };
    for (const [name, address] of Object.entries({ ...views, ...pages })) {
      if (name in views) await go(page, address);
      else await page.goto(new URL(address, link).href);
      await page.waitForTimeout(200);
      await page.screenshot({ path: `${folder}/${name}-${width}-${colorScheme}.png`, fullPage: true });
      await devtools.send("Runtime.evaluate", { expression: axe }); // as an extension would, past the page's policy
      const found = await page.evaluate(() => window.axe.run(document, { iframes: false }));
      const sideways = await page.evaluate(
        () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
      );
      const violations = found.violations.map(({ impact, id: rule, nodes }) => ({
        impact,
        rule,
        where: nodes.slice(0, 3).map((node) => node.html),
      }));
      tell({
        type: "looked",
        view: name,
        width,
        colorScheme,
        sideways,
        violations,
        headings: await page.locator("h1").count(),
      });
    }
    await page.context().close();
  }
}

async function use() {
  const page = await open();
  const id = await runs(page);
  const text = (selector) => page.locator(selector).first().innerText();
  const at = async () => Number(await page.getByRole("slider").getAttribute("aria-valuenow"));
  const played = async () => {
    for (const waited of [false, true])
      await until(page, () => document.querySelector("audio").paused, waited);
  };
  const focused = () =>
    page.evaluate(
      () => document.activeElement.innerText || document.activeElement.getAttribute("aria-label"),
    );

  // From the list of runs to a turn, by the keyboard alone.
  await page.keyboard.press("Tab");
  tell({ type: "first", focused: await focused() });
  for (let presses = 0; presses < 60 && (await focused()) !== "amber"; presses += 1)
    await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.locator("#turn-table tbody tr").first().waitFor();
  tell({
    type: "run",
    title: await page.title(),
    rows: await page.locator("#turn-table tbody tr").count(),
    count: await text("form output"),
  });

  await page.getByRole("button", { name: "Next" }).click();
  await page.getByText("turns 101 to 130").waitFor();
  tell({
    type: "page",
    first: await text("#turn-table a.name"),
    rows: await page.locator("#turn-table tbody tr").count(),
  });
  await page.getByRole("searchbox", { name: "Search" }).fill("bus id_017");
  await page.locator("form output", { hasText: "1 of 130 turns" }).waitFor();
  tell({ type: "search", first: await text("#turn-table a.name"), address: page.url() });

  // A figure shows and plays the sound behind it, and stops after it.
  await page.locator("#turn-table .figure a").first().click();
  await page.getByRole("slider").waitFor();
  await played();
  tell({ type: "figure", until: await at(), selected: await page.locator(".selection").isVisible() });
  await page.getByRole("slider").focus();
  for (const key of ["Home", "ArrowRight", "ArrowRight", "PageUp"]) await page.keyboard.press(key);
  tell({ type: "keys", at: await at() });
  await page.keyboard.press("Home");
  await page.getByRole("button", { name: "reply", exact: true }).click();
  await page.getByRole("slider").focus();
  await page.keyboard.press("Space");
  await played();
  tell({
    type: "played",
    at: await at(),
    length: Number(await page.getByRole("slider").getAttribute("aria-valuemax")),
  });
  // A pointer dragged over an interval plays it, and stops at its end.
  const lanes = await page.getByRole("slider").boundingBox();
  const y = lanes.y + lanes.height / 2;
  await page.mouse.move(lanes.x + lanes.width * 0.5, y);
  await page.mouse.down();
  await page.mouse.move(lanes.x + lanes.width * 0.25, y, { steps: 4 });
  await page.mouse.up();
  await played();
  tell({
    type: "dragged",
    share: (await at()) / Number(await page.getByRole("slider").getAttribute("aria-valuemax")),
  });
  const drawn = await page.evaluate(() =>
    [...document.querySelectorAll(".lane canvas")].map((canvas) => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      return new Set(new Uint32Array(data.buffer)).size;
    }),
  );
  tell({ type: "drawn", colours: drawn });

  // What endpoints say is text, and judges give their reasons.
  await go(page, `/runs/${id.amber}/turns/id_001%2Ftarget`);
  tell({
    type: "hostile",
    said: await text(".transcript .reply .said"),
    images: await page.locator("main img, main b >> text=bold").count(),
    title: await page.title(),
  });
  await go(page, `/runs/${id.amber}/turns/id_000%2Ftarget`);
  tell({ type: "reason", text: await text(".judgement") });
  await page.locator(".events summary").first().click();
  await page.locator(".events pre", { hasText: "{" }).waitFor();
  tell({ type: "event", body: JSON.parse(await text(".events pre")) });

  // Two runs are compared, and a run under way is followed to its end.
  await go(page, "/runs");
  for (const name of ["amber", "birch"]) await page.getByRole("checkbox", { name: `Select ${name}` }).check();
  await page.getByRole("button", { name: "Compare" }).click();
  await page.getByRole("heading", { name: "amber and birch" }).waitFor();
  tell({ type: "compared", row: await page.getByRole("row", { name: /^first byte/ }).innerText() });
  await go(page, "/runs");
  await page.getByText("1 of 2 turns").waitFor();
  tell({ type: "under way" });
  const live = page.getByRole("row").filter({ has: page.getByRole("link", { name: "live" }) });
  await live.getByText("finished").waitFor();
  tell({ type: "ended", row: await live.innerText() });
}

try {
  await (task === "look" ? look() : use());
} finally {
  await browser.close();
}
