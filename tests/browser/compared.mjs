// Checks the pages of `isomer diff`, `isomer history` and `isomer eval --augment --out` in a headless browser: the checks of look.mjs, and that
// no chart is cut off and no label covers another.
//
// node compared.mjs --isomer FILE --out FOLDER [--chromium FILE]

import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { Harness, MODEL } from "./harness.mjs";
import { Looker, views } from "./look.mjs";

const { values: args } = parseArgs({
  options: {
    isomer: { type: "string" },
    out: { type: "string" },
    chromium: { type: "string", default: "/usr/bin/chromium" },
  },
});
const harness = new Harness(args.isomer);
let looker;
let code = 1;
try {
  const pages = { ...releases(), ...(await gains()) };
  const urls = Object.values(pages).map((page) => pathToFileURL(page).href);
  looker = await Looker.start({ executable: args.chromium, out: args.out, mayFetch: (fetched) => urls.includes(fetched) });
  for (const [name, page] of Object.entries(pages)) {
    const url = pathToFileURL(page).href;
    for (const view of views) await looker.sight(view, url, { suffix: `-${name}`, prepare: unfold });
    await looker.print(url, `-${name}`);
    await charts(name, url);
    const { context, page: open } = await looker.open({ ...views[0], name }, url);
    await looker.stops(open, "a[href], summary, .scroll[tabindex='0']");
    await context.close();
  }
} finally {
  code = looker ? await looker.end() : code;
  await harness.end();
}
process.exit(code);

async function unfold(page) {
  await page.evaluate(() => document.querySelectorAll("details").forEach((one) => (one.open = true)));
}

/** Two releases of an encoder: the second takes the vector of the first token. */
function releases() {
  const shown = JSON.parse(harness.run("compared", "models", "pull", MODEL, "--format", "json"));
  const first = join(harness.folder, "release-with-a-rather-long-name_1");
  cpSync(shown.path, first, { recursive: true, dereference: true });
  const second = join(harness.folder, "release-with-a-rather-long-name_2");
  cpSync(first, second, { recursive: true });
  const pooling = join(second, "1_Pooling", "config.json");
  const settings = { ...JSON.parse(readFileSync(pooling, "utf8")), pooling_mode_mean_tokens: false, pooling_mode_cls_token: true };
  writeFileSync(pooling, JSON.stringify(settings));
  const out = (name) => join(harness.folder, name);
  for (const [name, folder] of [["old", first], ["new", second]])
    harness.run("compared", "check", "--suite", "noise", "--limit", "40", "--undecided", "warn", "--no-suite-rules", "--quiet",
      "--model", `support-search_v2=${folder}`, "--items", "--out", out(name));
  harness.run("compared", "diff", out("old"), out("new"), "--out", out("diff"));
  harness.run("compared", "history", "support-search_v2", "--out", out("history"));
  return { diff: join(out("diff"), "diff.html"), history: join(out("history"), "history.html") };
}

/** Gains of three settings, with a generator that turns the words of a text around. */
async function gains() {
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (data) => (body += data));
    request.on("end", () => {
      const asked = JSON.parse(body || "{}").messages?.at(-1)?.content ?? "";
      const words = asked.split(/\s+/).filter((word) => word !== "");
      const content = `Indeed ${words.slice(-12).reverse().join(" ")}`;
      const usage = { prompt_tokens: 2 * words.length, completion_tokens: words.length, total_tokens: 3 * words.length };
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify({ id: "1", object: "chat.completion", model: "stub",
        choices: [{ index: 0, message: { role: "assistant", content }, finish_reason: "stop" }], usage }));
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const out = join(harness.folder, "gains");
  const child = spawn(args.isomer, ["eval", "--model", MODEL, "--data", "quick/sts", "quick/retrieval", "--limit", "20", "--augment", "paraphrase,expansion",
    "--settings", "together,each", "--generator", `openai:stub@http://127.0.0.1:${server.address().port}/v1`, "--out", out],
  { env: harness.environment("compared"), stdio: ["ignore", "ignore", "inherit"] });
  const ended = await new Promise((resolve) => child.once("exit", resolve));
  server.close();
  if (ended !== 0) throw new Error(`isomer eval ended with ${ended}`);
  return { gains: join(out, "gains.html") };
}

/** Every label of a chart lies within it, and covers no other. */
async function charts(name, url) {
  for (const view of views.filter(({ colorScheme }) => colorScheme === "light")) {
    const { context, page } = await looker.open({ ...view, name }, url);
    const found = await page.evaluate(() =>
      [...document.querySelectorAll("svg.chart")].map((chart) => {
        const area = chart.getBoundingClientRect();
        const labels = [...chart.querySelectorAll("text")].map((one) => ({ text: one.textContent, box: one.getBoundingClientRect() }));
        const cut = labels.filter(({ box }) => box.left < area.left - 1 || box.right > area.right + 1 || box.top < area.top - 1 || box.bottom > area.bottom + 1);
        const covers = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3;
        const covered = labels.filter((one, i) => labels.slice(0, i).some((other) => covers(one.box, other.box)));
        return { labels: labels.length, cut: cut.map(({ text }) => text), covered: covered.map(({ text }) => text) };
      }),
    );
    looker.expect(found.length > 0, `${name}: no chart`);
    for (const { labels, cut, covered } of found) {
      looker.expect(labels > 5, `${name}, ${view.name}: a chart of ${labels} labels`);
      looker.expect(cut.length === 0, `${name}, ${view.name}: cut off: ${cut.join(" | ")}`);
      looker.expect(covered.length === 0, `${name}, ${view.name}: covered: ${covered.join(" | ")}`);
    }
    await context.close();
  }
}
