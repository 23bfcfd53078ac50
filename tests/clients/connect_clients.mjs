// connect-es over Node's HTTP and over fetch, Cohere's and Ollama's JavaScript clients, against a running gateway.
//
// node connect_clients.mjs PLAN   where PLAN is the file that clients.mjs reads; `descriptors` in it is a FileDescriptorSet. Each check is one
// line of JSON on stdout: {client, what, holds, detail}.

import { readFileSync } from "node:fs";
import { createFileRegistry, fromBinary } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import * as node from "@connectrpc/connect-node";
import * as web from "@connectrpc/connect-web";
import { OllamaEmbedding } from "@llamaindex/ollama";
import { CohereClientV2 } from "cohere-ai";
import { Groq } from "groq-sdk";
import { Ollama } from "ollama";

const plan = JSON.parse(readFileSync(process.argv[2], "utf8"));
const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, readFileSync(plan.descriptors)));
const service = registry.getService("isomer.encoder.v1.EncoderService");
const transform = registry.getService("isomer.transform.v1.TransformService");
const baseUrl = `http://${plan.address}`;

function hold(condition, message) {
  if (!condition) throw new Error(message);
}

async function check(client, what, call) {
  let row;
  try {
    row = { client, what, holds: true, detail: await call() };
  } catch (error) {
    row = { client, what, holds: false, detail: `${error.name}: ${error.message}` };
  }
  console.log(JSON.stringify(row));
}

const due = (encoder) => Buffer.from(encoder.rows, "base64");
const inputs = (texts) => texts.map((text) => ({ input: { case: "text", value: text } }));
const request = (encoder) => ({ encoderId: encoder.id, inputs: inputs(encoder.texts) });

/** The error of a call that must fail. */
async function refused(call, code, ...words) {
  try {
    await call();
  } catch (error) {
    hold(error instanceof ConnectError, `${error.name} instead of ConnectError: ${error.message}`);
    hold(error.code === code, `code ${Code[error.code]} instead of ${Code[code]}: ${error.message}`);
    for (const word of words) hold(error.message.includes(word), `${word} is missing in: ${error.message}`);
    return error;
  }
  throw new Error("answered");
}

const transports = [
  ["connect-node, Connect over HTTP/1.1, JSON", node.createConnectTransport({ baseUrl, httpVersion: "1.1", useBinaryFormat: false }), false],
  ["connect-node, Connect over HTTP/1.1, binary", node.createConnectTransport({ baseUrl, httpVersion: "1.1", useBinaryFormat: true }), false],
  ["connect-node, Connect over HTTP/2, JSON", node.createConnectTransport({ baseUrl, httpVersion: "2", useBinaryFormat: false }), true],
  [
    "connect-node, Connect over HTTP/2, binary, gzip",
    node.createConnectTransport({
      baseUrl,
      httpVersion: "2",
      useBinaryFormat: true,
      sendCompression: node.compressionGzip,
      acceptCompression: [node.compressionGzip],
      compressMinBytes: 0,
    }),
    true,
  ],
  ["connect-node, gRPC", node.createGrpcTransport({ baseUrl }), true],
  ["connect-node, gRPC-Web", node.createGrpcWebTransport({ baseUrl, httpVersion: "1.1" }), false],
  ["connect-web, Connect, JSON", web.createConnectTransport({ baseUrl, useBinaryFormat: false }), false],
  ["connect-web, Connect, binary", web.createConnectTransport({ baseUrl, useBinaryFormat: true }), false],
  ["connect-web, gRPC-Web", web.createGrpcWebTransport({ baseUrl }), false],
];

for (const [name, transport, bidirectional] of transports) {
  const client = createClient(service, transport);
  await check(name, "unary calls", async () => {
    for (const encoder of plan.encoders) {
      const answer = await client.encode(request(encoder));
      hold(Buffer.from(answer.embeddings.data).equals(due(encoder)), `${encoder.id}: other vectors`);
    }
    const listed = await client.listEncoders({});
    hold(plan.encoders.every((one) => listed.encoders.some((other) => other.id === one.id)), "encoders are missing in the list");
    return `${plan.encoders.length} encoders, each vector bit for bit`;
  });
  await check(name, "errors, deadlines", async () => {
    const unknown = await refused(() => client.encode({ encoderId: "no-such", inputs: inputs(["a"]) }), Code.NotFound, "no-such");
    hold(unknown.details.length > 0, "no details came with the error");
    await refused(() => client.encode({ encoderId: plan.encoders[0].id, inputs: [] }), Code.InvalidArgument);
    // The request is small enough to be sent completely before the answer arrives.
    const many = { encoderId: plan.encoders[0].id, inputs: inputs(Array.from({ length: 64 }, (_, i) => `text ${i} `.repeat(100))) };
    await refused(() => client.encode(many, { timeoutMs: 5 }), Code.DeadlineExceeded);
    return "not found, invalid argument, deadline exceeded; details are read";
  });
  if (bidirectional) {
    await check(name, "a stream both ways", async () => {
      const encoder = plan.encoders[0];
      async function* batches() {
        for (let i = 0n; i < 3n; i++) yield { clientIndex: i, request: request(encoder) };
      }
      const seen = [];
      for await (const answer of client.encodeStream(batches())) {
        hold(Buffer.from(answer.response.embeddings.data).equals(due(encoder)), "other vectors");
        seen.push(answer.clientIndex);
      }
      hold(seen.join() === "0,1,2", `indexes ${seen}`);
      async function* broken() {
        yield { clientIndex: 0n, request: request(encoder) };
        yield { clientIndex: 1n, request: { encoderId: "no-such", inputs: inputs(["a"]) } };
      }
      const answered = [];
      await refused(
        async () => {
          for await (const answer of client.encodeStream(broken())) answered.push(answer.clientIndex);
        },
        Code.NotFound,
        "no-such",
      );
      hold(answered.join() === "0", `answers before the refusal: ${answered}`);
      return "3 batches in order; answers before a refusal are kept";
    });
  } else {
    await check(name, "a stream of answers", async () => {
      const streamed = createClient(transform, transport);
      const items = [{ text: "A man is eating food." }, { text: "Somebody is running." }];
      const spec = { transformation: { kind: { case: "stopwordRemoval", value: {} } }, generatorId: "none" };
      let results = 0;
      for await (const answer of streamed.transformStream({ spec, items })) results += answer.event.case === "result" ? 1 : 0;
      hold(results === items.length, `${results} results for ${items.length} texts`);
      return `${results} results`;
    });
  }
}

const [encoder] = plan.encoders;
const few = { ...encoder, texts: encoder.texts.slice(0, 12) };
const rows = () => {
  const all = new Float32Array(new Uint8Array(due(encoder)).buffer);
  const columns = all.length / encoder.texts.length;
  return few.texts.map((_, i) => all.subarray(i * columns, (i + 1) * columns));
};
const same = (found, wanted) => found.length === wanted.length && found.every((row, i) => Float32Array.from(row).every((value, j) => value === wanted[i][j]));

await check("cohere-ai (npm)", `vectors of ${encoder.id}, rerank`, async () => {
  const client = new CohereClientV2({ token: "not-asked-for", baseUrl, environment: baseUrl });
  const answer = await client.embed({ model: encoder.id, texts: few.texts, inputType: "search_document", embeddingTypes: ["float"] });
  hold(same(answer.embeddings.float, rows()), "other vectors");
  const ranked = await client.rerank({ model: plan.reranker, query: "which one", documents: ["a b", "c d", "e f"], topN: 2 });
  hold(ranked.results.length === 2, `${ranked.results.length} results`);
  return `${few.texts.length} texts, 2 of 3 documents`;
});

await check("ollama (npm)", `vectors of ${encoder.id}`, async () => {
  const client = new Ollama({ host: baseUrl });
  const answer = await client.embed({ model: encoder.id, input: few.texts });
  hold(same(answer.embeddings, rows()), "other vectors");
  const { models } = await client.list();
  hold(models.some((one) => one.name === encoder.id), "it is not listed");
  return `${few.texts.length} texts, ${models.length} models`;
});

await check("@llamaindex/ollama (npm)", `vectors of ${encoder.id}`, async () => {
  // It sends `num_ctx: 4096` with each text.
  const client = new OllamaEmbedding({ model: encoder.id, config: { host: baseUrl } });
  const found = [];
  for (const text of few.texts) found.push(await client.getTextEmbedding(text));
  hold(same(found, rows()), "other vectors");
  return `${few.texts.length} texts`;
});

await check("groq-sdk (npm)", `vectors of ${encoder.id}`, async () => {
  const client = new Groq({ apiKey: "not-asked-for", baseURL: baseUrl, maxRetries: 0 });
  const answer = await client.embeddings.create({ model: encoder.id, input: few.texts });
  hold(same(answer.data.map((one) => one.embedding), rows()), "other vectors");
  return `${few.texts.length} texts`;
});
