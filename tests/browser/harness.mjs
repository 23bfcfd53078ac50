// A gateway whose page is checked: it has its own home with the machine's models, a run and a provider that is unavailable. A second gateway
// requires keys.

import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";

export const MODEL = "paraphrase-MiniLM-L3-v2";
const PATIENCE_MS = 120_000;

export class Harness {
  constructor(isomer) {
    this.isomer = isomer;
    this.folder = mkdtempSync(join(tmpdir(), "isomer-page-"));
    const cache = process.env.XDG_CACHE_HOME ?? join(homedir(), ".cache");
    this.models = join(process.env.ISOMER_HOME ?? join(cache, "isomer"), "models");
    this.children = [];
  }

  /** No setting of the caller's, offline, a home of its own. */
  environment(home) {
    const folder = join(this.folder, home);
    if (!existsSync(folder)) {
      mkdirSync(folder);
      symlinkSync(this.models, join(folder, "models"));
    }
    const kept = Object.entries(process.env).filter(([name]) => !name.startsWith("ISOMER_"));
    return { ...Object.fromEntries(kept), ISOMER_HOME: folder, ISOMER_OFFLINE: "1" };
  }

  write(name, text) {
    const path = join(this.folder, name);
    writeFileSync(path, text);
    return path;
  }

  /** Starts `isomer serve` on a free port; returns its address. */
  serve(home, ...more) {
    const child = spawn(this.isomer, ["serve", "--listen", "127.0.0.1:0", ...more], {
      env: this.environment(home),
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.children.push(child);
    return new Promise((resolve, reject) => {
      let told = "";
      const failed = (why) => reject(new Error(`isomer serve ${why}: ${told.slice(-2000)}`));
      const timer = setTimeout(() => failed("did not start"), PATIENCE_MS);
      child.on("exit", (code) => failed(`ended with ${code}`));
      child.on("error", (error) => failed(error.message));
      child.stderr.on("data", (data) => {
        told += data;
      });
      child.stdout.on("data", (data) => {
        told += data;
        const line = told.match(/^isomer serves .* (\S+:\d+)\n/m);
        if (line) {
          clearTimeout(timer);
          resolve(line[1]);
        }
      });
    });
  }

  /** Runs a command of `isomer` to its end; returns its output. */
  run(home, ...more) {
    const done = spawnSync(this.isomer, more, { env: this.environment(home), encoding: "utf8", timeout: PATIENCE_MS });
    if (done.status !== 0) throw new Error(`isomer ${more.slice(0, 2).join(" ")} ended with ${done.status}: ${done.stderr}`);
    return done.stdout;
  }

  async end() {
    // The last first: a worker does not end without its queue.
    for (const child of this.children.reverse()) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      const ended = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGTERM");
      await ended;
    }
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** The gateway that is looked at. */
export async function open(harness) {
  const config = harness.write("gateway.toml", '[addresses]\nallow = ["127.0.0.1"]\n');
  const address = await harness.serve("open", "--config", config, "--model", MODEL);
  harness.run("open", "providers", "--server", address, "create", "away", "--kind", "isomer", "--address", "grpc://127.0.0.1:1",
    "--encoder", "somebody-elses-encoder/with-a-rather-long-name-v2=x");
  harness.run("open", "check", "--server", address, "--suite", "quick", "--transformation", "stopword_removal", "--no-suite-rules", "--generator", "none",
    "--limit", "8", "--model", MODEL, "--quiet", "--out", join(harness.folder, "report"));
  return address;
}

/** A gateway that wants keys, and a key that may see the page and try texts. */
export async function keyed(harness) {
  const config = harness.write("keyed.toml", '[access]\nmode = "required"\n');
  const printed = harness.run("keyed", "keys", "create", "--config", config, "--name", "page", "--scope", "evaluate,encode,transform");
  const key = printed.split(/\s+/).find((word) => word.startsWith("iso_") && word.length > 60);
  return { address: await harness.serve("keyed", "--config", config), key };
}

/** A gateway whose runs go to workers: a run that waits for one, until `work` starts it. */
export async function fleet(harness) {
  const port = await freePort();
  const nats = spawn(process.env.ISOMER_NATS_SERVER ?? "nats-server", ["-js", "-a", "127.0.0.1", "-p", String(port), "-sd", join(harness.folder, "nats")], { stdio: "ignore" });
  harness.children.push(nats);
  const failed = new Promise((_, reject) => nats.on("error", (error) => reject(new Error(`nats-server: ${error.message}; tests/run installs it`))));
  await Promise.race([answering(port), failed]);
  const store = join(harness.folder, "store");
  const config = harness.write(
    "fleet.toml",
    `[fleet]\nengine = "nats://127.0.0.1:${port}"\nrepublish_seconds = 1\nworker_wait_seconds = 600\n\n[store]\nurl = ${JSON.stringify(store)}\n`,
  );
  const address = await harness.serve("fleet", "--config", config, "--model", MODEL);
  const check = spawn(harness.isomer, ["check", "--server", address, "--suite", "quick", "--transformation", "stopword_removal", "--no-suite-rules",
    "--generator", "none", "--limit", "8", "--model", MODEL, "--quiet", "--out", join(harness.folder, "fleet-report")], { env: harness.environment("fleet"), stdio: "ignore" });
  harness.children.push(check);
  const ended = new Promise((resolve) => check.once("exit", resolve));
  const work = () => {
    const worker = spawn(harness.isomer, ["worker", "--engine", `nats://127.0.0.1:${port}`, "--store", store, "--lanes", "encode=1"],
      { env: harness.environment("worker"), stdio: "ignore" });
    harness.children.push(worker);
    return ended;
  };
  return { address, work };
}

async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Waits until somebody listens on a port. */
async function answering(port) {
  for (const begun = Date.now(); Date.now() - begun < PATIENCE_MS; ) {
    const there = await new Promise((resolve) => {
      const socket = connect(port, "127.0.0.1");
      socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
      socket.once("close", () => resolve(false)).once("connect", () => socket.destroy());
    });
    if (there) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`nobody listens on port ${port}`);
}
