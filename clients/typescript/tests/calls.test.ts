/** Behaviour that the conformance suite does not cover: calls against its stub server. */

import assert from "node:assert/strict";
import { createServer, type IncomingMessage } from "node:http";
import { createServer as createHttp2Server } from "node:http2";
import type { AddressInfo } from "node:net";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { context, propagation, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { W3CTraceContextPropagator } from "@opentelemetry/core";
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { ATTEMPT, Cancelled, Client, InvalidArgument, IsomerError, Token, Unauthenticated, Unavailable, oidcClientCredentials } from "isomer-client";
import { EncoderService } from "isomer-client/proto/encoder/v1/encoder";
import { Stub } from "./stub.js";

const stub = await Stub.start();

function client(name: string, options = {}): Client {
  const made = new Client(stub.address, { metadata: { "x-case": name }, ...options });
  after(() => made.close());
  return made;
}

const many = (count: number) => Array.from({ length: count }, (_, number) => `text ${number}`);

test("a string in place of a list is refused", async () => {
  await assert.rejects(client("one").encode("river" as unknown as string[], { encoder: "plain" }), /\[text\]/);
  assert.deepEqual(await stub.journal("one"), []);
});

test("texts without a length are taken too, and several answers make one array", async () => {
  const found = await client("set").encode(new Set(many(40)), { encoder: "plain" });
  const [one] = (await client("set").encode(["text 39"], { encoder: "plain" })).vectors;
  assert.deepEqual([found.vectors.rows, found.usage.texts, found.tokenCounts.length], [40, 40, 40]);
  assert.equal(found.vectors.data.byteLength, found.vectors.data.buffer.byteLength);
  assert.deepEqual(found.vectors.row(39), one);
});

test("the time of a call is for all of its requests", async () => {
  await client("deadline").encode(many(40), { encoder: "plain", timeoutMs: 60_000 });
  const journal = await stub.journal("deadline");
  // The time travels in whole units and is measured by the stub's clock.
  assert.ok(journal.length === 4 && journal.every(({ deadline }) => deadline !== null && deadline < 60.05));
  await client("no-deadline", { timeoutMs: null }).encoder("plain");
  // gRPC in Python has no deadline as hundreds of years, or as none.
  assert.ok((await stub.journal("no-deadline")).every(({ deadline }) => deadline === null || deadline > 1e9));
});

test("a closed client says so, and ends its calls", async () => {
  const closed = client("closed");
  const slow = closed.encode(["river"], { encoder: "slow" });
  await new Promise((resolve) => setTimeout(resolve, 300));
  closed.close();
  await assert.rejects(slow, /closed/);
  await assert.rejects(closed.encode(["river"], { encoder: "plain" }), /closed/);
});

test("a signal that is aborted already sends nothing", async () => {
  const signal = AbortSignal.abort(new Error("too late"));
  await assert.rejects(
    client("aborted").encode(["river"], { encoder: "plain", signal }),
    (error) => error instanceof Cancelled && (error.cause as Error).message === "too late",
  );
  assert.deepEqual(await stub.journal("aborted"), []);
});

test("a signal ends a wait between two attempts", async () => {
  const controller = new AbortController();
  const call = client("waiting", { retries: { longestWaitMs: 100_000 } }).encode(["river"], { encoder: "overloaded-long", signal: controller.signal });
  setTimeout(() => controller.abort(), 400);
  await assert.rejects(call, Cancelled);
});

test("a signal ends a call whose texts do not come", async () => {
  async function* never(): AsyncGenerator<string> {
    yield "river";
    await new Promise(() => {});
  }
  const controller = new AbortController();
  setTimeout(() => controller.abort(), 300);
  const stream = client("never").encodeStream(never(), { encoder: "plain", signal: controller.signal });
  await assert.rejects(stream.next(), Cancelled);
});

test("a texts iterator that fails ends the call with its error, and one that is left is closed", async () => {
  function* broken() {
    yield* many(20);
    throw new Error("the file is cut off");
  }
  await assert.rejects(async () => {
    for await (const _ of client("broken").encodeStream(broken(), { encoder: "plain" }));
  }, /cut off/);
  let closed = false;
  async function* endless() {
    try {
      for (let number = 0; ; number++) yield `text ${number}`;
    } finally {
      closed = true;
    }
  }
  for await (const { vectors } of client("endless").encodeStream(endless(), { encoder: "plain" })) {
    assert.equal(vectors.rows, 16);
    break;
  }
  assert.ok(closed);
});

test("what is no text is named by its place in the caller's list, whatever request it is in", async () => {
  const texts = [...many(40), 7 as unknown as string];
  await assert.rejects(client("place").encode(texts, { encoder: "plain" }), (error) => error instanceof InvalidArgument && error.field === "inputs[40]");
  await assert.rejects(client("place").rerank("q", texts, { encoder: "plain" }), (error) => error instanceof InvalidArgument && error.field === "documents[40]");
});

test("an answer that never comes to a port is UNAVAILABLE, with its cause", async () => {
  const nowhere = new Client("127.0.0.1:9", { retries: { unreachable: 2, firstWaitMs: 1 } });
  await assert.rejects(nowhere.encoder("plain"), (error) => error instanceof Unavailable && error.attempts === 2 && /ECONNREFUSED/.test(error.message));
  for (const protocol of ["connect", "grpc-web"] as const) {
    const web = new Client("127.0.0.1:9", { protocol, retries: { unreachable: 1 } });
    await assert.rejects(web.encoder("plain"), Unavailable, protocol);
  }
});

interface Asked {
  path: string;
  form: string;
}

async function identity(): Promise<{ url: string; asked: Asked[] }> {
  const asked: Asked[] = [];
  const read = async (request: IncomingMessage) => {
    let form = "";
    for await (const chunk of request) form += String(chunk);
    return form;
  };
  const server = createServer((request, response) => {
    void read(request).then((form) => {
      if (request.method === "GET") return response.end(JSON.stringify({ token_endpoint: `http://${request.headers.host}/token` }));
      asked.push({ path: request.url ?? "", form });
      if (!form.includes("client_secret=good")) response.statusCode = 401;
      return response.end(JSON.stringify({ access_token: `token-${asked.length}`, expires_in: 3600 }));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  after(() => server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}

test("tokens of an identity provider are found and kept", async () => {
  const { url, asked } = await identity();
  const options = { clientId: "me", clientSecret: "good", issuer: url, scope: "isomer:encode" };
  const one = client("oidc", { token: oidcClientCredentials(options) });
  await Promise.all([one.encode(["river"], { encoder: "plain" }), one.encode(["ok"], { encoder: "plain" })]);
  const sent = new Set((await stub.journal("oidc")).map(({ metadata }) => metadata["authorization"]));
  assert.deepEqual([[...sent], asked.length], [["Bearer token-1"], 1]);
  assert.ok(asked[0]?.form.includes("grant_type=client_credentials") && asked[0].form.includes("isomer%3Aencode"));
  const bad = client("oidc-bad", { token: oidcClientCredentials({ ...options, clientSecret: "bad" }) });
  await assert.rejects(bad.encoder("plain"), (error) => error instanceof Unauthenticated && /401/.test(error.message));
  const elsewhere = oidcClientCredentials({ ...options, issuer: "http://127.0.0.1:9" });
  await assert.rejects(async () => elsewhere(), Unavailable);
});

test("a token that ends soon is not sent twice", async () => {
  let given = 0;
  const one = client("ends", { token: async () => new Token(`t${++given}`, 0) });
  await one.encoder("plain");
  await one.encoder("plain");
  const sent = (await stub.journal("ends")).map(({ metadata }) => metadata["authorization"]);
  assert.deepEqual(sent, ["Bearer t1", "Bearer t2"]);
});

test("what a token source throws reaches the caller", async () => {
  const failing = () => {
    throw new RangeError("no token today");
  };
  await assert.rejects(client("failing", { token: failing }).encoder("plain"), RangeError);
});

test("spans have the call and its error and no texts", async () => {
  const exporter = new InMemorySpanExporter();
  trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }));
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  const one = client("spans");
  await one.encode(["a private text"], { encoder: "plain" });
  await assert.rejects(one.encode(["a private text"], { encoder: "no-budget" }), IsomerError);
  await assert.rejects(async () => {
    for await (const _ of one.transformStream(["a private text"], "paraphrase"));
  }, IsomerError);
  const spans = exporter.getFinishedSpans();
  const encodes = spans.filter(({ name }) => name === "isomer.encoder.v1.EncoderService/Encode");
  assert.equal(encodes.length, 2);
  const failed = encodes[1]?.attributes ?? {};
  assert.deepEqual([failed["error.type"], failed["rpc.grpc.status_code"]], ["BUDGET_EXCEEDED", 8]);
  assert.equal(spans.at(-1)?.attributes["rpc.grpc.status_code"], 12, "a stream's span has its error");
  assert.ok(!JSON.stringify(spans.map(({ name, attributes, status, events }) => ({ name, attributes, status, events }))).includes("private"));
  const count = spans.length;
  await client("silent", { telemetry: false }).encode(["river"], { encoder: "plain" });
  assert.equal(exporter.getFinishedSpans().length, count);
  assert.ok((await stub.journal("spans")).every(({ metadata }) => "traceparent" in metadata));
  assert.ok(!(await stub.journal("silent")).some(({ metadata }) => "traceparent" in metadata));
});

test("interceptors see each attempt of a call", async () => {
  const seen: string[] = [];
  const one = client("intercepted", {
    interceptors: [
      (next: (request: any) => Promise<unknown>) => (request: any) => {
        seen.push(`${request.method.name} ${request.contextValues.get(ATTEMPT)}`);
        request.header.set("x-mark", "set");
        return next(request);
      },
    ],
  });
  await one.encode(["river"], { encoder: "once" });
  assert.deepEqual(seen, ["GetEncoder 1", "Encode 1", "Encode 2"]);
  assert.ok((await stub.journal("intercepted")).every(({ metadata }) => metadata["x-mark"] === "set"));
});

test("a server may be at a Unix socket", async () => {
  const folder = mkdtempSync(join(tmpdir(), "isomer-socket-"));
  const socket = join(folder, "socket");
  const seen: (string | null)[] = [];
  const handler = connectNodeAdapter({
    routes: ({ rpc }) => {
      rpc(EncoderService.method.getEncoder, ({ id }, { requestHeader }) => {
        seen.push(requestHeader.get("authorization"));
        return { encoder: { id } };
      });
    },
  });
  const server = createHttp2Server(handler);
  await new Promise<void>((resolve) => server.listen(socket, resolve));
  const one = new Client(`unix:${socket}`, { key: "iso_x" });
  assert.equal((await one.encoder("tiny")).id, "tiny");
  assert.deepEqual(seen, ["Bearer iso_x"]);
  one.close();
  await new Promise((resolve) => server.close(resolve));
  rmSync(folder, { recursive: true });
});
