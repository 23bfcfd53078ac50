/** The client on a page: with both protocols against a gateway of another origin. The page sends its results to its own server. */

import { Cancelled, Client, InvalidArgument, type IsomerError, NotFound, type Protocol, VERSION } from "isomer-client";

/** SHA-256 over all rows. */
async function digest(data: Float32Array): Promise<string> {
  const bytes = new Uint8Array(data.buffer as ArrayBuffer, data.byteOffset, data.byteLength);
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function refusal(call: Promise<unknown>): Promise<IsomerError> {
  return call.then(
    () => Promise.reject(new Error("answered")),
    (error: IsomerError) => error,
  );
}

async function tried(protocol: Protocol, address: string, key: string, texts: string[]): Promise<Record<string, unknown>> {
  const client = new Client(address, { protocol, key });
  const found = await client.encode(texts, { encoder: "tiny", role: "query" });
  const unknown = await refusal(client.encode(["river"], { encoder: "tinny" }));
  const misspelt = await refusal(client.encode(["river"], { encoder: "tiny", promptName: "quary" }));
  const results: string[] = [];
  for await (const { text } of client.transformStream(texts.slice(0, 3), "stopword_removal")) results.push(text);
  // Aborted when the request is on its way.
  const controller = new AbortController();
  const leaving = new Client(address, {
    protocol,
    key,
    interceptors: [
      (next) => (request) => {
        const answer = next(request);
        if (request.method.name === "Encode") controller.abort();
        return answer;
      },
    ],
  });
  const cancelled = await refusal(leaving.encode(texts, { encoder: "tiny", signal: controller.signal }));
  const nobody = await refusal(new Client("http://127.0.0.1:9", { protocol, retries: { unreachable: 1 } }).encoder("tiny"));
  let node: unknown;
  try {
    new Client(address, { protocol: "grpc" });
  } catch (error) {
    node = error instanceof InvalidArgument ? error.field : error;
  }
  return {
    rows: found.vectors.rows,
    digest: await digest(found.vectors.data),
    unknown: [unknown instanceof NotFound, unknown.reason, unknown.hint !== undefined],
    misspelt: [misspelt.code, misspelt.field],
    results: results.sort(),
    cancelled: cancelled instanceof Cancelled,
    nobody: nobody.code,
    node,
  };
}

const { address, key, texts } = (await (await fetch("/plan")).json()) as { address: string; key: string; texts: string[] };
let told: Record<string, unknown> = { version: VERSION };
try {
  for (const protocol of ["connect", "grpc-web"] as const) told[protocol] = await tried(protocol, address, key, texts);
} catch (error) {
  told = { failed: String((error as Error).stack ?? error) };
}
await fetch("/told", { method: "POST", body: JSON.stringify(told) });
