// Checks a report's page in a headless browser: the checks of look.mjs, the filter without a script, the folds; report.json against its schema.
//
// node check.mjs --page report.html --json report.json --schema report-1.json --out FOLDER [--chromium FILE]

import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import Ajv from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { Looker, views } from "./look.mjs";

const { values: args } = parseArgs({
  options: {
    page: { type: "string" },
    json: { type: "string" },
    schema: { type: "string" },
    out: { type: "string" },
    chromium: { type: "string", default: "/usr/bin/chromium" },
  },
});
const url = pathToFileURL(resolve(args.page)).href;
const looker = await Looker.start({ executable: args.chromium, out: args.out, mayFetch: (fetched) => fetched === url });
let code = 1;
try {
  schema();
  for (const view of views) await looker.sight(view, url, { prepare: unfold });
  await looker.print(url);
  await filter();
  await keyboard();
} finally {
  code = await looker.end();
}
process.exit(code);

/** report.json against the published schema, by a validator that is not ours. */
function schema() {
  const ajv = new Ajv({ strict: false, allErrors: true });
  addFormats(ajv);
  for (const format of ["uint", "uint8", "uint32", "uint64", "int32", "int64", "double", "float"]) ajv.addFormat(format, true);
  const validate = ajv.compile(JSON.parse(readFileSync(args.schema, "utf8")));
  const valid = validate(JSON.parse(readFileSync(args.json, "utf8")));
  looker.expect(valid, `report.json: ${ajv.errorsText(validate.errors?.slice(0, 5))}`);
  console.log(`schema: report.json ${valid ? "is valid" : "is not valid"}`);
}

async function unfold(page) {
  await page.evaluate(() => document.querySelectorAll("details").forEach((one) => (one.open = true)));
}

/** The filter shows exactly the rows that it names, and all of them again. */
async function filter() {
  const { context, page } = await looker.open({ ...views[0], name: "filter" }, url);
  await unfold(page);
  const shown = () => page.locator(".x:visible").count();
  const all = await page.locator(".x").count();
  const expect = looker.expect.bind(looker);
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

/** Every filter, fold and scrolling part is a stop; Enter opens a fold. */
async function keyboard() {
  const { context, page } = await looker.open({ ...views[0], name: "keyboard" }, url);
  await looker.stops(page, "a[href], select, summary, .scroll[tabindex='0']");
  await page.keyboard.press("Escape");
  await page.locator("summary").first().focus();
  await page.keyboard.press("Enter");
  looker.expect(await page.locator("details").first().evaluate((one) => one.open), "keyboard: Enter does not open a fold");
  await context.close();
}
