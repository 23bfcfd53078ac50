// The picture of a report in the README: its head and first charts, in a window of 1200 x 900 pixels.
//
// node picture.mjs --page report.html --out picture.png [--chromium FILE]

import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { chromium } from "playwright-core";

const { values: args } = parseArgs({
  options: {
    page: { type: "string" },
    out: { type: "string" },
    chromium: { type: "string", default: "/usr/bin/chromium" },
  },
});
const browser = await chromium.launch({ executablePath: args.chromium, args: ["--no-sandbox", "--disable-gpu"] });
try {
  const page = await browser.newPage({ viewport: { width: 1200, height: 900 }, colorScheme: "light" });
  await page.goto(pathToFileURL(resolve(args.page)).href);
  await page.screenshot({ path: args.out });
} finally {
  await browser.close();
}
