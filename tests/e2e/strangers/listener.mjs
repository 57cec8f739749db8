// Sets up an A/B listening test in a Chromium, then votes on all of it in another session, by the keyboard alone.
//
//     node listener.mjs CHROMIUM LINK FOLDER
//
// LINK is what live-eval studio printed. Writes JSON lines: what the page showed, everything that the
// listener's browser was sent, the votes as CSV. Screenshots go to FOLDER.

import { chromium } from "playwright-core";

const PATIENCE_MS = 60_000;
const KEYS = ["1", "2", "0"];
const [executablePath, link, folder] = process.argv.slice(2);
const tell = (line) => process.stdout.write(JSON.stringify(line) + "\n");

const browser = await chromium.launch({ executablePath });
const open = async (options = {}) => {
  const page = await (await browser.newContext(options)).newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  page.on("console", (line) => line.type() === "error" && tell({ type: "console", text: line.text() }));
  page.on("pageerror", (error) => tell({ type: "exception", text: String(error) }));
  await page.goto(link);
  await page.goto("about:blank"); // the first page lists runs
  return page;
};
try {
  const host = await open();
  const base = new URL("/", link).href;
  await host.goto(`${base}#/listen`);
  await host.getByRole("button", { name: "Create the test" }).click();
  await host.getByLabel("Your name").waitFor();
  const test = host.url();

  // The listener opens the test itself, on a phone.
  const page = await open({ viewport: { width: 390, height: 844 }, colorScheme: "dark" });
  const received = [];
  page.on("response", async (response) => {
    const body = await response.body().catch(() => Buffer.alloc(0));
    received.push(`${response.url()} ${JSON.stringify(response.headers())} ${body.toString("latin1")}`);
  });
  await page.goto(test);
  await page.getByLabel("Your name").fill("Ana");
  await page.keyboard.press("Enter");
  const question = page.getByRole("heading", { level: 1 });
  const votes = Number(await page.locator("main progress").first().getAttribute("max"));
  const state = (label) => page.locator(`[data-label="${label}"] small`);
  const heard = async (key, label) => {
    await page.keyboard.press(key);
    await state(label).filter({ hasText: /^heard$/ }).waitFor();
  };
  let given = 0;
  const vote = async (key) => {
    await page.getByText(`${given} of ${votes} votes by Ana`).waitFor();
    await heard("ArrowLeft", "A");
    if (given === 0) {
      await page.keyboard.press("1"); // B was not heard: this does not count
      tell({ type: "disabled", all: await page.locator("[data-choice]").evaluateAll((all) => all.every((each) => each.disabled)) });
    }
    await heard("ArrowRight", "B");
    if (given === 0) await page.screenshot({ path: `${folder}/vote.png`, fullPage: true });
    await page.keyboard.press(key);
    given += 1;
  };
  for (let number = 0; number < votes; number += 1) {
    await vote(KEYS[number % KEYS.length]);
    if (number === 3) {
      await page.getByText(`4 of ${votes} votes by Ana`).waitFor();
      await page.keyboard.press("u");
      given -= 1;
      await vote("1");
    }
  }
  await question.filter({ hasText: "Thank you" }).waitFor();
  tell({ type: "received", text: received.join(" ").toLowerCase().replace(/[^\x20-\x7e]/g, " ") });

  await page.getByRole("link", { name: "Results" }).click();
  await page.getByRole("heading", { name: "Results" }).waitFor();
  await page.screenshot({ path: `${folder}/results.png`, fullPage: true });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  tell({ type: "results", text: await page.locator("main").innerText(), wide });
  const address = await page.getByRole("link", { name: "Votes as CSV" }).getAttribute("href");
  tell({ type: "csv", text: await page.evaluate(async (from) => (await fetch(from)).text(), address) });
  await host.goto(`${base}#/listen`);
  await host.getByRole("table").waitFor();
  await host.screenshot({ path: `${folder}/list.png`, fullPage: true });
} finally {
  await browser.close();
}
