// The pages that Isomer writes, looked at by a headless browser: nothing on the console, nothing fetched, axe-core clean at WCAG 2 AA
// in light and dark, nothing wider than a phone, everything reachable by keyboard, the filter without a script. Screenshots beside it.
//
// node check.mjs --page report.html --json report.json --schema report-1.json --out FOLDER [--chromium FILE]

import { readFileSync, mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import Ajv from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { chromium } from "playwright-core";

const { values: args } = parseArgs({
  options: {
    page: { type: "string" },
    json: { type: "string" },
    schema: { type: "string" },
    out: { type: "string" },
    chromium: { type: "string", default: "/usr/bin/chromium" },
  },
});
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const url = pathToFileURL(resolve(args.page)).href;
mkdirSync(args.out, { recursive: true });

const faults = [];
const expect = (holds, what) => {
  if (!holds) faults.push(what);
};

const views = [
  { name: "light", width: 1280, height: 900, colorScheme: "light" },
  { name: "dark", width: 1280, height: 900, colorScheme: "dark" },
  { name: "phone", width: 390, height: 844, colorScheme: "light", hasTouch: true, isMobile: true },
  { name: "phone-dark", width: 390, height: 844, colorScheme: "dark", hasTouch: true, isMobile: true },
];

schema();
const browser = await chromium.launch({ executablePath: args.chromium, args: ["--no-sandbox", "--disable-gpu"] });
try {
  for (const view of views) await look(view);
  await print();
  await filter();
  await keyboard();
} finally {
  await browser.close();
}
for (const fault of faults) console.error(`FAULT ${fault}`);
console.log(faults.length === 0 ? `all holds; screenshots in ${args.out}` : `${faults.length} faults`);
process.exit(faults.length === 0 ? 0 : 1);

/** report.json against the published schema, by a validator that is not ours. */
function schema() {
  const ajv = new Ajv({ strict: false, allErrors: true });
  addFormats(ajv);
  for (const format of ["uint", "uint8", "uint32", "uint64", "int32", "int64", "double", "float"]) ajv.addFormat(format, true);
  const validate = ajv.compile(JSON.parse(readFileSync(args.schema, "utf8")));
  const valid = validate(JSON.parse(readFileSync(args.json, "utf8")));
  expect(valid, `report.json: ${ajv.errorsText(validate.errors?.slice(0, 5))}`);
  console.log(`schema: report.json ${valid ? "is valid" : "is not valid"}`);
}

async function open({ name, width, height, ...rest }) {
  const context = await browser.newContext({ viewport: { width, height }, ...rest });
  const page = await context.newPage();
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) faults.push(`${name}: console: ${message.text()}`);
  });
  page.on("pageerror", (error) => faults.push(`${name}: ${error.message}`));
  page.on("request", (request) => {
    if (request.url() !== url) faults.push(`${name}: fetches ${request.url()}`);
  });
  await page.goto(url);
  return { context, page };
}

async function look(view) {
  const { context, page } = await open(view);
  await page.screenshot({ path: join(args.out, `${view.name}.png`), fullPage: true });
  await page.evaluate(() => document.querySelectorAll("details").forEach((one) => (one.open = true)));
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  expect(width <= view.width, `${view.name}: ${width} px wide in a window of ${view.width}`);
  // The page's own policy allows no script: the checker comes in past it.
  const session = await context.newCDPSession(page);
  await session.send("Page.setBypassCSP", { enabled: true });
  await page.reload();
  await page.evaluate(() => document.querySelectorAll("details").forEach((one) => (one.open = true)));
  await page.evaluate(axe);
  const found = await page.evaluate(() =>
    window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }),
  );
  for (const violation of found.violations) {
    const where = violation.nodes.slice(0, 3).map((node) => `${node.target.join(" ")}: ${node.any[0]?.message ?? ""}`);
    faults.push(`${view.name}: axe ${violation.id} (${violation.nodes.length}): ${violation.help}; ${where.join("; ")}`);
  }
  console.log(`${view.name}: ${found.passes.length} rules of axe-core pass, ${found.violations.length} do not`);
  await context.close();
}

async function print() {
  // A4 landscape less the margins that the page asks for.
  const width = 1032;
  const { context, page } = await open({ name: "print", width, height: 703, colorScheme: "dark" });
  await page.pdf({ path: join(args.out, "print.pdf"), preferCSSPageSize: true, printBackground: true });
  await page.emulateMedia({ media: "print", colorScheme: "dark" });
  const background = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  expect(background === "rgb(255, 255, 255)", `print: the page is ${background}`);
  const cut = await page.evaluate(
    () => [...document.querySelectorAll(".scroll")].filter((one) => getComputedStyle(one).overflowX !== "visible").length,
  );
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  expect(wide <= width, `print: ${wide} px wide on a page of ${width}`);
  expect(cut === 0, `print: ${cut} parts are cut off instead of shown`);
  await page.screenshot({ path: join(args.out, "print.png"), fullPage: true });
  await context.close();
}

/** The filter shows exactly the rows that it names, and all of them again. */
async function filter() {
  const { context, page } = await open({ ...views[0], name: "filter" });
  const shown = () => page.locator(".x:visible").count();
  const all = await page.locator(".x").count();
  expect(all > 0 && (await shown()) === all, "filter: not every example is shown at first");
  await page.selectOption("#by-transformation", "t1");
  expect((await shown()) === (await page.locator(".x.t1").count()), "filter: transformation");
  await page.selectOption("#by-dataset", "d0");
  expect((await shown()) === (await page.locator(".x.t1.d0").count()), "filter: transformation and data set");
  await page.selectOption("#by-pick", "worst_moved");
  expect((await shown()) === (await page.locator(".x.t1.d0.worst_moved").count()), "filter: those that moved furthest");
  for (const id of ["#by-transformation", "#by-dataset", "#by-pick"]) await page.selectOption(id, "");
  expect((await shown()) === all, "filter: all again");
  await context.close();
}

/** Tab reaches the skip link first, every filter, every part that scrolls and every fold. */
async function keyboard() {
  const { context, page } = await open({ ...views[0], name: "keyboard" });
  const wanted = await page.evaluate(() => {
    const all = [...document.querySelectorAll("a[href], select, summary, .scroll[tabindex='0']")];
    const seen = all.filter((one) => one.checkVisibility() || one.matches(".skip"));
    seen.forEach((one, i) => one.setAttribute("data-stop", i));
    return seen.length;
  });
  const reached = new Set();
  for (let i = 0; i < wanted + 5; i++) {
    await page.keyboard.press("Tab");
    const stop = await page.evaluate(() => document.activeElement.getAttribute("data-stop"));
    if (i === 0) expect(stop === "0", "keyboard: the first stop is not the skip link");
    if (stop !== null) reached.add(stop);
  }
  expect(reached.size === wanted, `keyboard: ${reached.size} of ${wanted} stops reached`);
  await page.keyboard.press("Escape");
  await page.locator("summary").first().focus();
  await page.keyboard.press("Enter");
  expect(await page.locator("details").first().evaluate((one) => one.open), "keyboard: Enter does not open a fold");
  console.log(`keyboard: ${wanted} stops`);
  await context.close();
}
