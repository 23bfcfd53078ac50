/** The models of the AI SDK, by the SDK itself. */

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { type EmbeddingModel, type RerankingModel, embed, embedMany, rerank } from "ai";
import { Client, InvalidArgument, cosine } from "isomer-client";
import { createIsomer } from "isomer-client/ai";
import { Stub } from "./stub.js";

// The SDK says once how an older interface differs.
(globalThis as Record<string, unknown>)["AI_SDK_LOG_WARNINGS"] = false;
const stub = await Stub.start();
const client = new Client(stub.address, { metadata: { "x-case": "ai" } });
after(() => client.close());
const isomer = createIsomer(client);

test("embedMany gives the client's vectors, with each interface of the SDK", async () => {
  const values = Array.from({ length: 40 }, (_, number) => `text ${number}`);
  const due = (await client.encode(values, { encoder: "plain", role: "document" })).vectors.toArrays();
  const models: EmbeddingModel[] = [
    isomer.embeddingModel("plain", { role: "document" }),
    isomer.embeddingModel("plain", { role: "document", specification: "v3" }),
    isomer.embeddingModel("plain", { role: "document", specification: "v4" }),
  ];
  for (const model of models) {
    const found = await embedMany({ model, values, maxRetries: 0 });
    assert.deepEqual(found.embeddings, due);
    assert.equal(found.usage.tokens, 160);
  }
});

test("one call may have settings of its own, and a misspelt one is refused", async () => {
  const model = isomer.embeddingModel("plain", { specification: "v4" });
  const [query, plain, short] = await Promise.all([
    embed({ model, value: "river", providerOptions: { isomer: { role: "query" } } }),
    embed({ model, value: "river" }),
    embed({ model, value: "river", dimensions: 8 }),
  ]);
  const [due] = (await client.encode(["river"], { encoder: "plain", promptName: "query" })).vectors.toArrays();
  assert.deepEqual(query.embedding, due);
  assert.notDeepEqual(plain.embedding, due);
  assert.equal(short.embedding.length, 8);
  assert.ok(cosine(plain.embedding as unknown as Float32Array, plain.embedding as unknown as Float32Array) > 0.999);
  const misspelt = embed({ model, value: "river", maxRetries: 0, providerOptions: { isomer: { rolle: "query" } } });
  await assert.rejects(misspelt, (error) => error instanceof InvalidArgument && error.field === "providerOptions.isomer.rolle");
});

test("a call that is cancelled ends with the reason of its signal", async () => {
  const controller = new AbortController();
  setTimeout(() => controller.abort(), 300);
  const call = embed({ model: isomer.embeddingModel("slow"), value: "river", abortSignal: controller.signal });
  await assert.rejects(call, { name: "AbortError" });
});

test("documents are ranked by a cross-encoder", async () => {
  const documents = Array.from({ length: 40 }, (_, number) => `document ${number}`);
  const due = await client.rerank("which one", documents, { encoder: "plain", topN: 3 });
  const models: RerankingModel[] = [isomer.rerankingModel("plain"), isomer.rerankingModel("plain", { specification: "v4" })];
  for (const model of models) {
    const found = await rerank({ model, query: "which one", documents, topN: 3 });
    assert.deepEqual(found.ranking.map(({ originalIndex, score }) => [originalIndex, score]), due.results.map(({ index, score }) => [index, score]));
  }
});
