// The checks of every page of Isomer: the console, requests, width, axe-core, the keyboard. Faults are collected and
// screenshots written.

import { readFileSync, mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { chromium } from "playwright-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

export const views = [
  { name: "light", width: 1280, height: 900, colorScheme: "light" },
  { name: "dark", width: 1280, height: 900, colorScheme: "dark" },
  { name: "phone", width: 390, height: 844, colorScheme: "light", hasTouch: true, isMobile: true },
  { name: "phone-dark", width: 390, height: 844, colorScheme: "dark", hasTouch: true, isMobile: true },
];

export class Looker {
  /** `mayFetch` decides whether a page may fetch an address. */
  static async start({ executable, out, mayFetch }) {
    mkdirSync(out, { recursive: true });
    const looker = new Looker();
    looker.browser = await chromium.launch({ executablePath: executable, args: ["--no-sandbox", "--disable-gpu"] });
    return Object.assign(looker, { out, mayFetch, faults: [] });
  }

  expect(holds, what) {
    if (!holds) this.faults.push(what);
  }

  async open({ name, width, height, ...rest }, url) {
    const context = await this.browser.newContext({ viewport: { width, height }, ...rest });
    const page = await context.newPage();
    page.on("console", (message) => {
      if (["error", "warning"].includes(message.type())) this.faults.push(`${name}: console: ${message.text()}`);
    });
    page.on("pageerror", (error) => this.faults.push(`${name}: ${error.message}`));
    page.on("request", (request) => this.expect(this.mayFetch(request.url()), `${name}: fetches ${request.url()}`));
    await page.goto(url);
    return { context, page };
  }

  async shot(page, name) {
    await page.screenshot({ path: join(this.out, `${name}.png`), fullPage: true });
  }

  /** Checks one view of a page: no wider than the window, no violation by axe-core; takes a screenshot. `prepare` opens the folds. */
  async sight(view, url, { suffix = "", prepare = async () => {} } = {}) {
    const { context, page } = await this.open(view, url);
    const name = view.name + suffix;
    await this.shot(page, name);
    await prepare(page);
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    this.expect(width <= view.width, `${name}: ${width} px wide in a window of ${view.width}`);
    // The page's own policy allows no script, so the checker is injected past it.
    const session = await context.newCDPSession(page);
    await session.send("Page.setBypassCSP", { enabled: true });
    await page.reload();
    await prepare(page);
    await page.evaluate(axe);
    const found = await page.evaluate((rules) => window.axe.run(document, { runOnly: rules }), RULES);
    for (const violation of found.violations) {
      const where = violation.nodes.slice(0, 3).map((node) => `${node.target.join(" ")}: ${node.any[0]?.message ?? ""}`);
      this.faults.push(`${name}: axe ${violation.id} (${violation.nodes.length}): ${violation.help}; ${where.join("; ")}`);
    }
    console.log(`${name}: ${found.passes.length} rules of axe-core pass, ${found.violations.length} do not`);
    await context.close();
  }

  /** On paper: white, nothing wider than the sheet, nothing cut off. A4 landscape less the margins that a page asks for. */
  async print(url, suffix = "") {
    const width = 1032;
    const { context, page } = await this.open({ name: "print", width, height: 703, colorScheme: "dark" }, url);
    await page.pdf({ path: join(this.out, `print${suffix}.pdf`), preferCSSPageSize: true, printBackground: true });
    await page.emulateMedia({ media: "print", colorScheme: "dark" });
    const background = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    this.expect(background === "rgb(255, 255, 255)", `print${suffix}: the page is ${background}`);
    const cut = await page.evaluate(
      () => [...document.querySelectorAll(".scroll")].filter((one) => getComputedStyle(one).overflowX !== "visible").length,
    );
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    this.expect(wide <= width, `print${suffix}: ${wide} px wide on a page of ${width}`);
    this.expect(cut === 0, `print${suffix}: ${cut} parts are cut off instead of shown`);
    await this.shot(page, `print${suffix}`);
    await context.close();
  }

  /** Tab reaches the skip link first, then everything that can be used and every part that scrolls. */
  async stops(page, selector) {
    const wanted = await page.evaluate((selector) => {
      const seen = [...document.querySelectorAll(selector)].filter((one) => one.checkVisibility() || one.matches(".skip"));
      seen.forEach((one, i) => one.setAttribute("data-stop", i));
      return seen.length;
    }, selector);
    const reached = new Set();
    for (let i = 0; i < wanted + 5; i++) {
      await page.keyboard.press("Tab");
      const stop = await page.evaluate(() => document.activeElement.getAttribute("data-stop"));
      if (i === 0) this.expect(stop === "0", "keyboard: the first stop is not the skip link");
      if (stop !== null) reached.add(stop);
    }
    this.expect(reached.size === wanted, `keyboard: ${reached.size} of ${wanted} stops reached`);
    console.log(`keyboard: ${wanted} stops`);
  }

  /** Prints the errors and returns the exit code. */
  async end() {
    await this.browser.close();
    for (const fault of this.faults) console.error(`FAULT ${fault}`);
    console.log(this.faults.length === 0 ? `all checks pass; screenshots in ${this.out}` : `${this.faults.length} faults`);
    return this.faults.length === 0 ? 0 : 1;
  }
}
