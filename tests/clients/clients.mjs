// OpenAI's JavaScript client, and gRPC-Web by plain HTTP, against a running gateway.
//
// node clients.mjs PLAN   where PLAN is a JSON file: the gateways' addresses, keys, encoders with texts and the expected vectors
// (little-endian 32-bit floats in base64). Each check is one line of JSON on stdout: {client, what, holds, detail}.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import OpenAI, { AzureOpenAI } from "openai";
import protobuf from "protobufjs";

const plan = JSON.parse(readFileSync(process.argv[2], "utf8"));
const NODE = "openai (npm)";
const AZURE = "AzureOpenAI (npm)";
const WEB = "gRPC-Web (fetch)";

const open = (address, more = {}) => new OpenAI({ baseURL: `http://${address}/v1`, apiKey: "not-asked-for", maxRetries: 0, ...more });
const openAzure = (address, more = {}) =>
  new AzureOpenAI({ endpoint: `http://${address}`, apiKey: "not-asked-for", apiVersion: "2024-10-21", maxRetries: 0, ...more });

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

const bits = (base64) => new Uint32Array(new Uint8Array(Buffer.from(base64, "base64")).buffer);

/** Rows of numbers against the rows that are due: equal in every bit of their 32-bit floats. */
function same(rows, encoder) {
  const due = bits(encoder.rows);
  const found = new Uint32Array(Float32Array.from(rows.flat()).buffer);
  hold(rows.length === encoder.texts.length && found.length === due.length, `${found.length} numbers instead of ${due.length}`);
  const first = found.findIndex((value, index) => value !== due[index]);
  hold(first < 0, `number ${first} of ${due.length} differs`);
}

for (const encoder of plan.encoders) {
  await check(NODE, `vectors of ${encoder.id}`, async () => {
    const client = open(plan.address);
    const asked = { model: encoder.id, input: encoder.texts };
    // By default, the client requests base64 and decodes it.
    for (const more of [{}, { encoding_format: "float" }]) {
      const answer = await client.embeddings.create({ ...asked, ...more });
      hold(answer.model === encoder.id && answer.usage.prompt_tokens > 0, `model ${answer.model}, usage ${JSON.stringify(answer.usage)}`);
      same(answer.data.map((one) => Array.from(one.embedding)), encoder);
    }
    const raw = await client.embeddings.create({ ...asked, encoding_format: "base64" });
    hold(Buffer.concat(raw.data.map((one) => Buffer.from(one.embedding, "base64"))).equals(Buffer.from(encoder.rows, "base64")), "base64");
    return `${encoder.texts.length} texts: default, float, base64`;
  });
}

for (const encoder of plan.encoders) {
  await check(AZURE, `vectors of ${encoder.id}`, async () => {
    // The deployment is part of the path: the one that the call names, or the client's own.
    for (const [model, more] of [
      [encoder.id, {}],
      ["the client's own name", { deployment: encoder.id }],
    ]) {
      const answer = await openAzure(plan.address, more).embeddings.create({ model, input: encoder.texts });
      hold(answer.model === encoder.id, `model ${answer.model}`);
      same(answer.data.map((one) => Array.from(one.embedding)), encoder);
    }
    return `${encoder.texts.length} texts`;
  });
}

await check(NODE, "models", async () => {
  const listed = [];
  for await (const model of open(plan.address).models.list()) listed.push(model.id);
  const missing = plan.encoders.map((one) => one.id).filter((id) => !listed.includes(id));
  hold(missing.length === 0, `${missing} are not listed`);
  const one = await open(plan.address).models.retrieve(plan.encoders[0].id);
  hold(one.id === plan.encoders[0].id, `retrieved ${one.id}`);
  return `${listed.length} listed`;
});

/** The error of the client's own class that a call must end with. */
async function refused(kind, call, ...words) {
  const error = await call().then(
    () => hold(false, "answered"),
    (error) => error,
  );
  hold(error.constructor === kind, `${error.constructor.name} instead of ${kind.name}: ${error.message}`);
  for (const word of words) hold(error.message.includes(word), `${word} is missing in: ${error.message}`);
  return error;
}

await check(NODE, "errors and keys", async () => {
  const { address, keys, encoder } = plan.keyed;
  const asked = { model: encoder.id, input: encoder.texts };
  const create = (options, more = {}) => open(address, options).embeddings.create({ ...asked, ...more });
  for (const options of [
    { apiKey: keys.good },
    { defaultHeaders: { Authorization: null, "api-key": keys.good } },
    { apiKey: keys.good, defaultHeaders: { "api-key": keys.good } },
  ]) {
    same((await create(options)).data.map((one) => Array.from(one.embedding)), encoder);
  }
  await refused(OpenAI.AuthenticationError, () => create({ apiKey: "sk-wrong" }), "not a key of this gateway");
  await refused(OpenAI.AuthenticationError, () => create({ apiKey: keys.revoked }), "revoked");
  await refused(OpenAI.AuthenticationError, () => create({ defaultHeaders: { "api-key": keys.good } }), "different keys");
  await refused(OpenAI.PermissionDeniedError, () => create({ apiKey: keys.evaluate }), "encode");
  const unknown = await refused(OpenAI.NotFoundError, () => create({ apiKey: keys.good }, { model: "no-such-encoder" }));
  hold(unknown.param === "model" && unknown.code === "model_not_found", `${unknown.param} ${unknown.code}`);
  const bad = await refused(OpenAI.BadRequestError, () => create({ apiKey: keys.good }, { dimensions: 100000 }));
  hold(bad.param === "dimensions", `blames ${bad.param}`);
  const large = await refused(OpenAI.APIError, () => create({ apiKey: keys.good }, { input: "x".repeat(2 << 20) }), "larger than");
  hold(large.status === 413 && large.code === "request_too_large", `${large.status} ${large.code}`);
  return "three ways to send a key; seven refusals as errors of the client's own";
});

await check(AZURE, "errors and keys", async () => {
  const { address, keys, encoder } = plan.keyed;
  const create = (apiKey, model = encoder.id) => openAzure(address, { apiKey }).embeddings.create({ model, input: encoder.texts });
  same((await create(keys.good)).data.map((one) => Array.from(one.embedding)), encoder);
  await refused(OpenAI.AuthenticationError, () => create("sk-wrong"), "not a key of this gateway");
  await refused(OpenAI.AuthenticationError, () => create(keys.revoked), "revoked");
  await refused(OpenAI.PermissionDeniedError, () => create(keys.evaluate), "encode");
  const unknown = await refused(OpenAI.NotFoundError, () => create(keys.good, "no-such-encoder"));
  hold(unknown.param === "model" && unknown.code === "model_not_found", `${unknown.param} ${unknown.code}`);
  return "its key; four refusals as errors of the client's own";
});

const root = new protobuf.Root();
// Imports are relative to the folder of the protos; Google's well-known types are in the library.
root.resolvePath = (_, target) => (target.startsWith("google/") ? target : join(plan.protos, target));
await root.load("isomer/encoder/v1/encoder.proto", { keepCase: true });
const EncodeRequest = root.lookupType("isomer.encoder.v1.EncodeRequest");
const EncodeResponse = root.lookupType("isomer.encoder.v1.EncodeResponse");
const METHOD = "/isomer.encoder.v1.EncoderService/Encode";

/** A call as a page in a browser makes it: one frame there, frames back, the status in the last of them. */
async function call(address, request, { text = false, headers = {} } = {}) {
  const message = EncodeRequest.encode(EncodeRequest.create(request)).finish();
  const frame = Buffer.alloc(5 + message.length);
  frame.writeUInt32BE(message.length, 1);
  frame.set(message, 5);
  const kind = text ? "application/grpc-web-text" : "application/grpc-web+proto";
  const answer = await fetch(`http://${address}${METHOD}`, {
    method: "POST",
    headers: { "content-type": kind, accept: kind, "x-grpc-web": "1", ...headers },
    body: text ? frame.toString("base64") : frame,
  });
  hold(answer.status === 200, `HTTP ${answer.status}`);
  const body = Buffer.from(await answer.arrayBuffer());
  // In the text form each frame is encoded in base64 separately.
  const pieces = text ? body.toString("latin1").match(/[^=]+=*/g) ?? [] : [];
  const bytes = text ? Buffer.concat(pieces.map((piece) => Buffer.from(piece, "base64"))) : body;
  let response = null;
  let status = answer.headers.get("grpc-status");
  let said = answer.headers.get("grpc-message") ?? "";
  for (let at = 0; at < bytes.length; ) {
    const length = bytes.readUInt32BE(at + 1);
    const part = bytes.subarray(at + 5, at + 5 + length);
    if (bytes[at] & 0x80) {
      const trailers = new Map(part.toString("latin1").trim().split("\r\n").map((line) => line.split(/:\s*(.*)/s).slice(0, 2)));
      status = trailers.get("grpc-status");
      said = trailers.get("grpc-message") ?? "";
    } else {
      response = EncodeResponse.decode(part);
    }
    at += 5 + length;
  }
  return { status, said: decodeURIComponent(said), response, headers: answer.headers };
}

const request = (encoder) => ({ encoder_id: encoder.id, inputs: encoder.texts.map((text) => ({ text })) });

for (const encoder of plan.encoders) {
  await check(WEB, `vectors of ${encoder.id}`, async () => {
    for (const text of [false, true]) {
      const { status, said, response } = await call(plan.address, request(encoder), { text });
      hold(status === "0" && response, `grpc-status ${status} ${said}`);
      const data = Buffer.from(response.embeddings.data);
      hold(data.equals(Buffer.from(encoder.rows, "base64")), `other bytes (${text ? "text" : "binary"})`);
    }
    return `${encoder.texts.length} texts, binary and text form`;
  });
}

await check(WEB, "errors and keys", async () => {
  const { address, keys, encoder } = plan.keyed;
  const good = await call(address, request(encoder), { headers: { "api-key": keys.good } });
  hold(good.status === "0" && Buffer.from(good.response.embeddings.data).equals(Buffer.from(encoder.rows, "base64")), `status ${good.status}`);
  const none = await call(address, request(encoder));
  hold(none.status === "16" && none.said.includes("wants a key"), `status ${none.status} ${none.said}`);
  const unknown = await call(plan.address, { ...request(encoder), encoder_id: "no-such-encoder" });
  hold(unknown.status === "5", `status ${unknown.status} ${unknown.said}`);
  return "a key as metadata; UNAUTHENTICATED, NOT_FOUND";
});

await check("a page's browser (fetch)", "origins", async () => {
  // Node's fetch does not let a page's headers be set; a browser first sends a preflight request without a body.
  const ask = (origin, headers) =>
    fetch(`http://${plan.address}/v1/embeddings`, {
      method: "OPTIONS",
      headers: { origin, "access-control-request-method": "POST", "access-control-request-headers": headers },
    });
  const wanted = "authorization,content-type,x-stainless-lang,x-stainless-retry-count";
  const named = await ask(plan.origin, wanted);
  hold(named.headers.get("access-control-allow-origin") === plan.origin, "the named origin may not call");
  hold(named.headers.get("access-control-allow-headers") === wanted, `headers ${named.headers.get("access-control-allow-headers")}`);
  const other = await ask("https://evil.example", wanted);
  hold(other.headers.get("access-control-allow-origin") === null, "another origin may call");
  const post = (origin) =>
    fetch(`http://${plan.address}/v1/embeddings`, {
      method: "POST",
      headers: { origin, "content-type": "application/json" },
      body: JSON.stringify({ model: plan.encoders[0].id, input: "one" }),
    });
  hold((await post(plan.origin)).status === 200, "a call from the named origin is refused");
  const evil = await post("https://evil.example");
  const { error } = await evil.json();
  hold(evil.status === 403 && error.code === "foreign_origin" && error.message.includes("web.allowed_origins"), `${evil.status} ${error.message}`);
  return `${plan.origin} may call with headers of its own, another origin gets a hint`;
});
