/** One way to encode texts, measured: `node way.js WAY ADDRESS TEXTS.json` prints a line of JSON. */

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { Client, type Protocol } from "isomer-client";
import { EncoderService } from "isomer-client/proto/encoder/v1/encoder";

const BATCH = 256;
const IN_FLIGHT = 4;
type Encode = (texts: string[]) => Promise<Float32Array>;

/** `one` of each batch, four at once; the batches' vectors in one array. */
async function inBatches(texts: string[], one: (some: string[]) => Promise<ArrayLike<number>>): Promise<Float32Array> {
  const parts: ArrayLike<number>[] = [];
  let next = 0;
  const worker = async () => {
    for (let start = next; start < texts.length; start = next) {
      next += BATCH;
      parts[start / BATCH] = await one(texts.slice(start, start + BATCH));
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, worker));
  const whole = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let filled = 0;
  for (const part of parts) {
    whole.set(part, filled);
    filled += part.length;
  }
  return whole;
}

/** Without compression, as this client. */
function bareStub(address: string): Encode {
  const stub = createClient(EncoderService, createGrpcTransport({ baseUrl: `http://${address}`, acceptCompression: [] }));
  return (texts) =>
    inBatches(texts, async (some) => {
      const inputs = some.map((value) => ({ input: { case: "text" as const, value } }));
      const { embeddings } = await stub.encode({ encoderId: "wide", inputs });
      const bytes = embeddings?.data ?? new Uint8Array();
      // A copy where the bytes do not lie on four bytes, which is what a caller of the stub has to do.
      const aligned = bytes.byteOffset % 4 === 0 ? bytes : bytes.slice();
      return new Float32Array(aligned.buffer, aligned.byteOffset, aligned.byteLength / 4);
    });
}

function thisClient(protocol: Protocol): (address: string) => Encode {
  return (address) => {
    const client = new Client(address, { protocol, batchItems: BATCH, inFlight: IN_FLIGHT });
    return async (texts) => (await client.encode(texts, { encoder: "wide" })).vectors.float32;
  };
}

interface OpenAI {
  embeddings: { create(request: { model: string; input: string[] }): Promise<{ data: { embedding: number[] }[] }> };
}

function openai(address: string): Encode {
  // Of the bench's own packages: neither the client nor its tests need it.
  const require = createRequire(new URL("../../bench/openai/package.json", import.meta.url));
  const { OpenAI } = require("openai") as { OpenAI: new (options: object) => OpenAI };
  const client = new OpenAI({ baseURL: `http://${address}/v1`, apiKey: "none" });
  return (texts) => inBatches(texts, async (some) => (await client.embeddings.create({ model: "wide", input: some })).data.flatMap((one) => one.embedding));
}

const WAYS: Record<string, (address: string) => Encode> = {
  "bare stub": bareStub,
  "isomer-client": thisClient("grpc"),
  "isomer-client, Connect": thisClient("connect"),
  "isomer-client, gRPC-Web": thisClient("grpc-web"),
  openai,
};

const [way = "", address = "", path = ""] = process.argv.slice(2);
const texts = JSON.parse(readFileSync(path, "utf8")) as string[];
const encode = WAYS[way]?.(address);
if (encode === undefined) throw new Error(`there is no way \`${way}\``);
// Connections and compiled code are part of none.
for (let round = 0; round < 3; round++) await encode(texts.slice(0, 4 * BATCH));
const resting = process.cpuUsage();
const before = process.resourceUsage().maxRSS;
const started = performance.now();
const vectors = await encode(texts);
const seconds = (performance.now() - started) / 1000;
const { user, system } = process.cpuUsage(resting);
const peak = process.resourceUsage().maxRSS;
const sum = vectors.reduce((total, value) => total + value, 0);
console.log(JSON.stringify({ seconds, cpu: (user + system) / 1e6, memory: (peak - before) * 1024, peak: peak * 1024, sum, numbers: vectors.length }));
process.exit(0);
