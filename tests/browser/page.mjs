// Checks the gateway's page at `/` in a headless browser: the checks of look.mjs, a trial with the expected cosines, the errors of an invalid
// trial, the page without scripts, behind a password dialog, and opened by a link of another site.
//
// node page.mjs --isomer FILE --out FOLDER [--chromium FILE]

import { createServer } from "node:http";
import { parseArgs } from "node:util";
import { Harness, MODEL, fleet, keyed, open } from "./harness.mjs";
import { Looker, views } from "./look.mjs";

const { values: args } = parseArgs({
  options: {
    isomer: { type: "string" },
    out: { type: "string" },
    chromium: { type: "string", default: "/usr/bin/chromium" },
  },
});
const TEXTS = ["A man is playing a guitar on the stage.", "Somebody plays music for a crowd."];
const TRANSFORMATION = "stopword_removal";

const harness = new Harness(args.isomer);
let looker;
let code = 1;
try {
  const address = await open(harness);
  const url = `http://${address}/`;
  const asked = `${url}?${new URLSearchParams([
    ["first", TEXTS[0]],
    ["second", TEXTS[1]],
    ["encoder", MODEL],
    ["transformation", TRANSFORMATION],
    ["transformation", "random_keywords"],
  ])}`;
  const guarded = await keyed(harness);
  const many = await fleet(harness);
  // The page may fetch only the document and the targets of its own form and links.
  const ours = (fetched) => ["", guarded.address, address, many.address].some((one) => one && fetched.startsWith(`http://${one}/`));
  const documents = (fetched) => ours(fetched) && /^\/(\?.*)?$|^\/runs\/[^/]+\/report\.html$/.test(new URL(fetched).pathname + new URL(fetched).search);
  looker = await Looker.start({ executable: args.chromium, out: args.out, mayFetch: documents });
  for (const view of views) {
    await looker.sight(view, url);
    await looker.sight(view, asked, { suffix: "-trial" });
  }
  await looker.print(url);
  await trial(url, address);
  await problems(url);
  await withoutScripts(url);
  await keyboard(url, asked);
  await report(url);
  await password(guarded);
  await elsewhere(asked);
  await workers(many);
} finally {
  if (looker) code = await looker.end();
  await harness.end();
}
process.exit(code);

/** The vectors that HTTP clients are given, to hold the page's cosines against. */
async function vectors(address, input) {
  const answer = await fetch(`http://${address}/v1/embeddings`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: MODEL, input }),
  });
  return (await answer.json()).data.map((one) => one.embedding);
}

function cosine(a, b) {
  const dot = (x, y) => x.reduce((sum, value, i) => sum + value * y[i], 0);
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
}

/** Typed, chosen and sent; the cosines are those of the vectors, the changed text is shown, what was typed is still there. */
async function trial(url, address) {
  const { context, page } = await looker.open({ ...views[0], name: "trial" }, url);
  await page.fill("#first", TEXTS[0]);
  await page.fill("#second", TEXTS[1]);
  for (const box of await page.locator("input[type=checkbox]").all()) await box.setChecked(false);
  await page.check(`input[name=encoder][value="${MODEL}"]`);
  await page.check(`input[name=transformation][value="${TRANSFORMATION}"]`);
  await page.click("button");
  await page.waitForURL(/#try$/);
  const heads = await page.locator("#try thead th").allInnerTexts();
  const shown = (await page.locator("#try tbody td").allInnerTexts()).map(Number);
  const changed = await page.locator("#try dd").innerText();
  const [first, ...others] = await vectors(address, [...TEXTS, changed]);
  const due = others.map((other) => cosine(first, other));
  looker.expect(heads.join() === `encoder,second text,${TRANSFORMATION}`, `trial: columns ${heads}`);
  looker.expect(changed !== TEXTS[0] && TEXTS[0].includes(changed.split(" ")[0]), `trial: changed to ${changed}`);
  const near = shown.length === due.length && shown.every((value, i) => Math.abs(value - due[i]) <= 0.5e-4 + 1e-9);
  looker.expect(near, `trial: cosines ${shown}, should be ${due}`);
  looker.expect((await page.inputValue("#second")) === TEXTS[1], "trial: the second text is gone");
  looker.expect(await page.isChecked(`input[value="${TRANSFORMATION}"]`), "trial: the choice is gone");
  looker.expect((await page.locator(".problem").count()) === 0, "trial: it shows an error");
  console.log(`trial: cosines ${shown.join(", ")} equal those of /v1/embeddings`);
  await context.close();
}

/** An error is shown, and read out. */
async function problems(url) {
  const { context, page } = await looker.open({ ...views[2], name: "problems" }, url);
  for (const box of await page.locator("input[type=checkbox]").all()) await box.setChecked(false);
  await page.click("button");
  await page.waitForURL(/#try$/);
  const told = await page.locator("[role=alert]").innerText();
  looker.expect(told.includes("choose at least one"), `problems: without an encoder: ${told}`);
  await page.goto(`${url}?first=x&second=y&encoder=no-such-encoder&encoder=${MODEL}`);
  const unknown = await page.locator("[role=alert]").innerText();
  looker.expect(unknown.includes("no-such-encoder"), `problems: an unknown encoder: ${unknown}`);
  looker.expect((await page.locator("#try tbody tr").count()) === 1, "problems: the other encoder's row is missing");
  await looker.shot(page, "problems");
  await page.goto(`${url}?first=${encodeURIComponent("<script>alert(1)</script> <b>bold</b>")}&second=y&encoder=${MODEL}`);
  looker.expect((await page.inputValue("#first")).includes("<script>"), "problems: a text with tags is changed");
  await context.close();
}

/** Everything that is read is in the document, and the form works too. */
async function withoutScripts(url) {
  const { context, page } = await looker.open({ ...views[0], name: "without-scripts", javaScriptEnabled: false }, url);
  const text = await page.locator("main").innerText();
  for (const word of [MODEL, "loaded", "this process", "away", "healthy", "unhealthy", "done", "report", "384"]) {
    looker.expect(text.includes(word), `without-scripts: ${word} is not there`);
  }
  await page.getByRole("button", { name: "Compare" }).click();
  await page.waitForURL(/#try$/);
  looker.expect((await page.locator("#try tbody tr").count()) === 1, "without-scripts: the form gives no row");
  await looker.shot(page, "without-scripts");
  await context.close();
}

/** Every link, field, box, button and scrolling part is a stop; the form can be sent without a mouse. */
async function keyboard(url, asked) {
  const { context, page } = await looker.open({ ...views[0], name: "keyboard" }, asked);
  await looker.stops(page, "a[href], textarea, input, button, .scroll[tabindex='0']");
  await page.goto(url);
  await page.keyboard.press("Tab");
  looker.expect(await page.locator(".skip").isVisible(), "keyboard: the skip link is not shown when it is reached");
  await page.keyboard.press("Enter");
  await page.waitForURL(/#try$/, { timeout: 5000 }).catch(() => {});
  looker.expect(page.url().endsWith("#try"), "keyboard: the skip link leads nowhere");
  await page.locator("button").focus();
  await page.keyboard.press("Enter");
  await page.waitForURL(/first=/);
  looker.expect((await page.locator("#try tbody tr").count()) === 1, "keyboard: Enter on the button gives no row");
  await context.close();
}

/** The page without scripts, loaded until it holds what is looked for. */
async function until(page, url, holds, what) {
  for (const begun = Date.now(); Date.now() - begun < 120_000; ) {
    await page.goto(url);
    const text = await page.locator("main").innerText();
    if (holds(text)) return text;
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  looker.expect(false, `workers: not shown: ${what}: ${await page.locator("main").innerText()}`);
  return "";
}

/** A run says which worker is missing; then the worker is shown with its lane, and the run ends. */
async function workers({ address, work }) {
  const url = `http://${address}/`;
  const { context, page } = await looker.open({ ...views[0], name: "workers", javaScriptEnabled: false }, url);
  const waits = await until(page, url, (text) => text.includes("no worker takes"), "what the run waits for");
  for (const word of [`encode with ${MODEL}`, "isomer worker --lanes encode=1", "starts one."]) {
    looker.expect(waits.includes(word), `workers: ${word} is not there`);
  }
  await looker.shot(page, "workers-missing");
  const ended = work();
  await until(page, url, (text) => text.includes("encode 1"), "the worker");
  looker.expect((await ended) === 0, "workers: the check fails");
  const after = await until(page, url, (text) => !text.includes("no worker"), "that the run waits no longer");
  looker.expect(after.includes("done"), "workers: the run is not done");
  looker.expect((await page.getByRole("region", { name: "Table of workers" }).locator("tbody tr").count()) === 1, "workers: there is not one");
  await context.close();
  for (const view of views) await looker.sight(view, url, { suffix: "-workers" });
}

/** A run's report opens from the page. */
async function report(url) {
  const { context, page } = await looker.open({ ...views[0], name: "report" }, url);
  await page.locator("a[href$='report.html']").first().click();
  await page.waitForURL(/report\.html$/);
  const text = await page.locator("body").innerText();
  looker.expect(text.includes(MODEL) && text.includes(TRANSFORMATION), "report: encoder or transformation is missing");
  await context.close();
}

/** Where keys are asked for, the browser's own box takes one as the password. */
async function password({ address, key }) {
  const url = `http://${address}/`;
  const refused = await fetch(url);
  looker.expect(refused.status === 401 && refused.headers.get("www-authenticate")?.startsWith("Basic"), `password: ${refused.status} without a key`);
  const { context, page } = await looker.open({ ...views[0], name: "password", httpCredentials: { username: "me", password: key } }, url);
  looker.expect((await page.locator("h1").innerText()) === "Isomer", "password: the page is not shown");
  await page.goto(`${url}?first=x&second=y&encoder=${MODEL}`);
  looker.expect((await page.locator("#try tbody tr").count()) === 1, "password: no trial with the key");
  looker.expect(!(await page.content()).includes(key), "password: the key is in the page");
  await context.close();
}

/** A link on a page from elsewhere runs no trial. */
async function elsewhere(asked) {
  const escaped = asked.replaceAll("&", "&amp;");
  const server = createServer((_, response) => {
    response.setHeader("content-type", "text/html");
    response.end(`<!doctype html><title>x</title><a href="${escaped}">link</a>`);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  // The same machine under another name is another site.
  const foreign = `http://localhost:${server.address().port}/`;
  const before = looker.mayFetch;
  looker.mayFetch = (fetched) => before(fetched) || fetched.startsWith("http://localhost:");
  const { context, page } = await looker.open({ ...views[0], name: "elsewhere" }, "about:blank");
  // The other site's page has no icon, which is not our fault.
  await page.route("**/favicon.ico", (route) => route.fulfill({ status: 204 }));
  await page.goto(foreign);
  await page.click("a");
  await page.waitForURL(/first=/);
  const told = await page.locator("[role=alert]").innerText();
  looker.expect(told.includes("another page"), `elsewhere: a link ran a trial: ${told}`);
  looker.expect((await page.locator("#try tbody tr").count()) === 0, "elsewhere: there are cosines");
  looker.mayFetch = before;
  await context.close();
  server.close();
}
