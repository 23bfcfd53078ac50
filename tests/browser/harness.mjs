// A gateway whose page is checked: it has its own home with the machine's models, a run and a provider that is unavailable. A second gateway
// requires keys.

import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
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
    for (const child of this.children) {
      if (child.exitCode !== null) continue;
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
