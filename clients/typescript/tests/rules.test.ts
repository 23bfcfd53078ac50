/** The pure rules: batches, retries, addresses, roles, spaces, errors. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { inspect } from "node:util";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  Client,
  Collection,
  InvalidArgument,
  NO_RETRIES,
  NewKey,
  NotFound,
  ResourceExhausted,
  SpaceMismatch,
  Token,
  Unavailable,
  VERSION,
  Vectors,
  type VectorSpace,
  comparable,
  cosine,
  oidcClientCredentials,
  packed,
  view,
} from "isomer-client";
import { Dtype, MatrixSchema } from "isomer-client/proto/common/v1/common";
import { EncodeResponseSchema, EncoderSchema, EncoderService } from "isomer-client/proto/encoder/v1/encoder";
import { RunService } from "isomer-client/proto/eval/v1/run";
import { StatisticsService } from "isomer-client/proto/eval/v1/statistics";
import { TaskService } from "isomer-client/proto/eval/v1/task";
import { AccessService } from "isomer-client/proto/gateway/v1/access";
import { ProviderService } from "isomer-client/proto/gateway/v1/provider";
import { AugmentationService, TransformService } from "isomer-client/proto/transform/v1/transform";
import { Asked, batches, promptOf, promptOfRole, size } from "../dist/encoding.js";
import { METHODS } from "../dist/methods.js";
import { DEFAULT_RETRIES, waitMs } from "../dist/retry.js";
import { targetOf } from "../dist/settings.js";
import { augmentationSpec, transformation } from "../dist/transforming.js";

/** Throws InvalidArgument that names the field. */
function refused(call: () => unknown, field: string): void {
  assert.throws(call, (error: unknown) => error instanceof InvalidArgument && error.field === field, field);
}

async function batched(texts: string[], items: number, bytes: number): Promise<[number, readonly string[]][]> {
  const found: [number, readonly string[]][] = [];
  for await (const { start, texts: some } of batches(texts, items, bytes)) found.push([start, some]);
  return found;
}

test("batches keep the order and both bounds", async () => {
  assert.deepEqual(await batched(["a", "b", "c"], 2, 100), [[0, ["a", "b"]], [2, ["c"]]]);
  assert.deepEqual(await batched(["aa", "bb", "c"], 9, 4), [[0, ["aa", "bb"]], [2, ["c"]]]);
  assert.deepEqual(await batched(["long text", "b"], 9, 4), [[0, ["long text"]], [1, ["b"]]]);
  assert.deepEqual(await batched(["b", "long text"], 9, 4), [[0, ["b"]], [1, ["long text"]]]);
  assert.deepEqual(await batched([], 9, 4), []);
  assert.deepEqual(await batched(["a", "b"], 1, 100), [[0, ["a"]], [1, ["b"]]]);
});

test("a text outside ASCII counts for its most bytes", () => {
  assert.equal(size("abc"), 3);
  for (const text of ["é", "好好", "🧬"]) assert.ok(size(text) >= Buffer.byteLength(text));
});

test("a server that says when is asked again then", () => {
  const overloaded = (retryAfterMs?: number) => new ResourceExhausted("no", retryAfterMs === undefined ? {} : { retryAfterMs });
  const wait = waitMs(DEFAULT_RETRIES, overloaded(1500), 1, false, 10_000);
  assert.ok(wait !== undefined && wait >= 1500);
  assert.equal(waitMs(DEFAULT_RETRIES, overloaded(1500), 1, true, 1000), undefined, "not beyond the deadline");
  assert.equal(waitMs(DEFAULT_RETRIES, overloaded(60_000), 1, true, undefined), undefined, "not for longer than the policy's");
  assert.equal(waitMs(DEFAULT_RETRIES, overloaded(), 1, true, undefined), undefined, "no RetryInfo: waiting does not help");
  assert.equal(waitMs(DEFAULT_RETRIES, overloaded(100), DEFAULT_RETRIES.overloaded, true, undefined), undefined);
  assert.equal(waitMs(NO_RETRIES, overloaded(100), 1, true, undefined), undefined);
});

test("a broken connection is tried again for calls that may be made twice", () => {
  const gone = new Unavailable("no");
  for (let attempt = 1; attempt < DEFAULT_RETRIES.unreachable; attempt++) {
    assert.ok(waitMs(DEFAULT_RETRIES, gone, attempt, true, undefined) !== undefined);
  }
  assert.equal(waitMs(DEFAULT_RETRIES, gone, DEFAULT_RETRIES.unreachable, true, undefined), undefined);
  assert.equal(waitMs(DEFAULT_RETRIES, gone, 1, false, undefined), undefined);
  assert.equal(waitMs(DEFAULT_RETRIES, new NotFound("no"), 1, true, undefined), undefined);
});

test("every rpc of the protos is in the table, and what makes something is not repeated", () => {
  const services = [
    EncoderService,
    TransformService,
    AugmentationService,
    TaskService,
    StatisticsService,
    RunService,
    ProviderService,
    AccessService,
  ];
  const declared = services.flatMap((service) => service.methods.map((method) => `${service.typeName}/${method.name}`));
  assert.deepEqual([...METHODS.keys()].sort(), declared.sort());
  const once = [...METHODS].filter(([, twice]) => !twice).map(([path]) => path.split("/")[1]);
  assert.deepEqual(once.sort(), ["CreateKey", "CreateProvider", "DeleteProvider", "DeleteRun", "UpdateProvider"]);
});

test("addresses", () => {
  const found = (address: string) => {
    const { baseUrl, secure } = targetOf(address, undefined);
    return [baseUrl, secure];
  };
  assert.deepEqual(found("127.0.0.1:50051"), ["http://127.0.0.1:50051", false]);
  assert.deepEqual(found("grpc://host:80/"), ["http://host:80", false]);
  assert.deepEqual(found("https://gateway.example"), ["https://gateway.example:443", true]);
  assert.deepEqual(found("grpcs://gateway.example:8443"), ["https://gateway.example:8443", true]);
  assert.deepEqual(found("https://[::1]:1"), ["https://[::1]:1", true]);
  assert.equal(targetOf("unix:/run/isomer.sock", undefined).socket, "/run/isomer.sock");
  assert.equal(targetOf("host:1", {}).secure, true);
  for (const bad of ["", "host", "http://", "ftp://host:1", "http://user@host:1", "http://host:1/path", "host:port", "host:70000", "http://host:1?a=b"]) {
    assert.throws(() => new Client(bad), (error) => error instanceof InvalidArgument && error.field === "address" && error.hint !== "", bad);
  }
});

test("a key does not travel in plain text to another machine", () => {
  for (const address of ["http://gateway.example:80", "10.0.0.1:80", "localhost.example:1", "127.0.0.1.example:1"]) {
    assert.throws(() => new Client(address, { key: "iso_x" }), /plain text/, address);
  }
  for (const address of ["127.0.0.1:1", "localhost:1", "[::1]:1", "unix:/x", "https://gateway.example"]) {
    new Client(address, { key: "iso_x" }).close();
  }
  new Client("10.0.0.1:80", { key: "iso_x", secretOverPlainText: true }).close();
});

test("settings that cannot be meant name their field", () => {
  refused(() => new Client(undefined, { key: "a\nb" }), "key");
  refused(() => new Client(undefined, { key: " " }), "key");
  refused(() => new Client(undefined, { key: "a", token: () => "b" }), "token");
  refused(() => new Client(undefined, { timeoutMs: 0 }), "timeoutMs");
  refused(() => new Client(undefined, { inFlight: 0 }), "inFlight");
  refused(() => new Client(undefined, { metadata: { "X-Team": "a" } }), "metadata");
  refused(() => new Client(undefined, { metadata: { team: "ä" } }), "metadata");
  refused(() => new Client(undefined, { key: "a", metadata: { authorization: "b" } }), "metadata");
  refused(() => new Client(undefined, { tls: { certificate: "-----BEGIN x" } }), "tls.privateKey");
  refused(() => new Client(undefined, { tls: { ca: "/no/such/file" } }), "tls.ca");
  refused(() => new Client("http://host:1", { tls: {} }), "address");
  refused(() => new Client(undefined, { protocol: "connect", tls: { ca: "x" } }), "tls");
  refused(() => new Client(undefined, { protocol: "http" as "connect" }), "protocol");
});

test("secrets are not shown", () => {
  const client = new Client("127.0.0.1:1", { key: "hidden", metadata: { "x-secret": "hidden" } });
  for (const one of [client, new NewKey("id", "hidden", undefined), new Token("hidden")]) {
    assert.ok(!inspect(one, { depth: 9 }).includes("hidden") && !JSON.stringify(one).includes("hidden"));
  }
  refused(() => oidcClientCredentials({ clientId: "me", clientSecret: "x", tokenUrl: "http://login.example/token" }), "tokenUrl");
  refused(() => oidcClientCredentials({ clientId: "me", clientSecret: "x" }), "issuer");
});

test("roles find the encoder's own prompts", () => {
  const prompts = { "Retrieval-query": "a", query: "b", passage: "c", STS: "d" };
  const encoder = create(EncoderSchema, { prompts, promptNames: ["search_document"] });
  const found = ["retrieval-query", "retrieval_query", "Clustering-query", "document", "sts", "none"].map((role) => promptOfRole(encoder, role));
  assert.deepEqual(found, ["Retrieval-query", "Retrieval-query", "query", "passage", "STS", undefined]);
  refused(() => promptOf(undefined, { promptName: "query", prompt: "query: " }), "prompt");
});

test("texts that are none are named by their place", () => {
  const asked = new Asked("plain", {}, {});
  refused(() => asked.request(["a", 7 as unknown as string], 30), "inputs[31]");
  refused(() => asked.request(["a", "\ud800"], 30), "inputs[31]");
  refused(() => asked.request([[1, -1]], 30), "inputs[30]");
  const { inputs } = asked.request(["a", [1, 2], Uint32Array.of(3)], 0);
  assert.deepEqual(inputs?.map((one) => one.input?.case), ["text", "tokenIds", "tokenIds"]);
});

function space(fields: Partial<VectorSpace> = {}): VectorSpace {
  const none = { prompt: "", pooling: "", normalised: false, dtype: 1, augmentation: "", quantisation: "", weightsDigest: "", settingsDigest: "" };
  return { digest: "a", modelId: "m", dimensions: 8, ...none, ...fields };
}

test("a collection takes one space and other prompts of it", () => {
  const collection = new Collection("articles");
  collection.check(space());
  collection.check(space());
  collection.check(space({ digest: "b", prompt: "query: " }));
  assert.throws(
    () => collection.check(space({ digest: "c", weightsDigest: "w" })),
    (error) => error instanceof SpaceMismatch && error.differing.join() === "weightsDigest,digest" && error.message.includes("articles"),
  );
  const stored = JSON.parse(JSON.stringify(collection.space)) as VectorSpace;
  assert.throws(() => new Collection("", stored).check(space({ digest: "c", dimensions: 4 })), SpaceMismatch);
  assert.ok(comparable(space(), space({ digest: "b", prompt: "x" })) && !comparable(space(), space({ digest: "b", dtype: 2 })));
});

test("places move with their request", () => {
  const error = new InvalidArgument("inputs[3].text is empty", { field: "inputs[3].text", hint: "send one" }).moved(512);
  assert.deepEqual([error.field, error.rawMessage, error.message], ["inputs[515].text", "inputs[515].text is empty", "inputs[515].text is empty (send one)"]);
  assert.equal(new InvalidArgument("encoder_id is empty", { field: "encoder_id" }).moved(512).field, "encoder_id");
  assert.equal(new NotFound("no").name, "NotFound");
});

test("vectors are views of the answer's bytes wherever they lie in it", () => {
  // Numbers of rows whose lengths take one, two and three bytes: the elements begin at every offset.
  const offsets = new Set<number>();
  for (const rows of [1, 2, 31, 33, 100, 200, 4000]) {
    for (const cols of [1, 3, 16, 130]) {
      const floats = Float32Array.from({ length: rows * cols }, (_, index) => Math.fround(index / 7));
      const data = new Uint8Array(floats.buffer);
      const sent = create(EncodeResponseSchema, { embeddings: { rows, cols, dtype: Dtype.F32, data }, tokenCounts: [1, 2, 3] });
      const bytes = toBinary(EncodeResponseSchema, sent);
      const answer = fromBinary(EncodeResponseSchema, bytes);
      offsets.add((answer.embeddings?.data.byteOffset ?? 0) % 4);
      const vectors = view(answer.embeddings);
      assert.equal(vectors.data.buffer, bytes.buffer);
      assert.deepEqual(vectors.data, floats);
      assert.deepEqual(view(answer.embeddings).data, floats, "looked at twice");
      assert.deepEqual(answer.tokenCounts, [1, 2, 3]);
    }
  }
  assert.equal(offsets.size, 4, `offsets ${[...offsets].join()}`);
});

test("matrices go both ways", () => {
  const rows = [[0, 1, 2], [3, 4, 5]];
  const seen = view(create(MatrixSchema, packed(rows, "first")));
  assert.deepEqual(seen.toArrays(), rows);
  assert.deepEqual(view(create(MatrixSchema, packed(seen, "first"))).toArrays(), rows);
  assert.equal(packed([Int8Array.of(1, -1)], "first").dtype, Dtype.INT8);
  assert.deepEqual(Array.from(seen.row(1)), [3, 4, 5]);
  assert.throws(() => seen.row(2), RangeError);
  const bits = view(create(MatrixSchema, { rows: 1, cols: 12, dtype: Dtype.UBINARY, data: Uint8Array.of(0xff, 0x10) }));
  assert.equal(bits.width, 2);
  assert.deepEqual(bits.toArrays(), [[1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1]]);
  const halves = new Vectors(Uint16Array.of(0x3c00, 0xc000, 0x3555, 0x0001, 0x7bff, 0x7c00), 1, 6, "f16").toArrays();
  assert.deepEqual(halves, [[1, -2, 0.333251953125, 2 ** -24, 65504, Infinity]]);
  refused(() => packed([[1, 2], [3]], "first"), "first[1]");
  for (const data of [new Uint8Array(7), new Uint8Array(12)]) {
    assert.throws(() => view(create(MatrixSchema, { rows: 1, cols: 2, dtype: Dtype.F32, data })), /bytes for 1 x 2/);
  }
  assert.ok(Math.abs(cosine([3, 4] as unknown as Float32Array, [4, 3] as unknown as Float32Array) - 0.96) < 1e-12);
});

test("transformations by name with their parameters", () => {
  const german = transformation("translation", { targetLanguage: "de" });
  assert.ok(german.kind.case === "translation" && german.kind.value.targetLanguage === "de");
  assert.equal(transformation("stopword_removal").kind.case, "stopwordRemoval");
  const several = transformation("cross_translation", { target_languages: ["de", "fr"] });
  assert.ok(several.kind.case === "crossTranslation" && several.kind.value.targetLanguages.join() === "de,fr");
  refused(() => transformation("paraphase"), "spec.transformation");
  refused(() => transformation("translation", { language: "de" }), "spec.transformation.translation.language");
  refused(() => transformation("multi_swap", { swaps: "three" }), "spec.transformation.multi_swap.swaps");
  refused(() => transformation("cross_translation", { targetLanguages: "de" }), "spec.transformation.cross_translation.targetLanguages");
});

test("a budget of milliseconds is kept to the nanosecond", () => {
  const { generationBudget } = augmentationSpec([{ transformation: "keywords" }], { budgetMs: 1250.5 });
  assert.deepEqual(generationBudget, { seconds: 1n, nanos: 250_500_000 });
});

test("the version is that of the package", () => {
  const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as { version: string };
  assert.equal(VERSION, version);
});
