/** The stub server of the conformance suite, as a process that ends with the tests. */

import { type ChildProcess, spawn } from "node:child_process";
import { resolve } from "node:path";
import { createInterface } from "node:readline";
import { after } from "node:test";

/** Requests to the stub. */
export interface Entry {
  method: string;
  metadata: Record<string, string>;
  texts?: string[];
  deadline: number | null;
  cancelled: boolean;
}

const HERE = resolve(import.meta.dirname, "../../tests");

export class Stub {
  private constructor(
    readonly address: string,
    readonly child: ChildProcess,
    readonly lines: AsyncIterator<string>,
  ) {}

  /** Started once a file of tests. */
  static async start(): Promise<Stub> {
    const PYTHONPATH = [resolve(HERE, "../../conformance"), resolve(HERE, "../../python/src")].join(":");
    const python = process.env["ISOMER_TEST_PYTHON"] ?? "python3";
    const child = spawn(python, [resolve(HERE, "stub.py")], {
      env: { ...process.env, PYTHONPATH, GRPC_VERBOSITY: "NONE" },
      stdio: ["pipe", "pipe", "inherit"],
    });
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const { value } = await lines.next();
    if (typeof value !== "string") throw new Error("the stub server did not start");
    const stub = new Stub(value, child, lines);
    after(() => child.stdin.end());
    return stub;
  }

  /** Requests with the metadata `x-case`. */
  async journal(name: string): Promise<Entry[]> {
    this.child.stdin?.write(`${name}\n`);
    const { value } = await this.lines.next();
    return JSON.parse(value) as Entry[];
  }
}
