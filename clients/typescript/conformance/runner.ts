/** Runs the cases of clients/conformance with this client: `node runner.js PROTOCOL CASES RESULTS`. */

import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { context, propagation, ROOT_CONTEXT, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { W3CTraceContextPropagator } from "@opentelemetry/core";
import { BasicTracerProvider } from "@opentelemetry/sdk-trace-base";
import {
  Client,
  type ClientOptions,
  ClientTooOld,
  Collection,
  type EncodeOptions,
  InvalidArgument,
  IsomerError,
  NotFound,
  type Protocol,
  Unauthenticated,
  type OutputsOptions,
  VERSION,
  type Vectors,
} from "isomer-client";
import { RunState } from "isomer-client/proto/eval/v1/run";
import { ProviderKind } from "isomer-client/proto/gateway/v1/provider";

// A step as the table of cases has it: the judge looks at its result.
type Step = Record<string, any>;
interface Case {
  id: string;
  server: string;
  connect: Record<string, any>;
  steps: Step[];
}

/** Names of arguments in the table, and here. */
const ENCODE: Record<string, string> = {
  encoder: "encoder",
  prompt: "prompt",
  prompt_name: "promptName",
  role: "role",
  dimensions: "dimensions",
  normalise: "normalise",
  dtype: "dtype",
  truncation: "truncation",
  partial: "partial",
  timeout_ms: "timeoutMs",
};

function chosen(step: Step, names: Record<string, string>): Record<string, any> {
  return Object.fromEntries(Object.entries(names).flatMap(([name, ours]) => (name in step ? [[ours, step[name]]] : [])));
}

function digest(...parts: ArrayBufferView[]): string {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(new Uint8Array(part.buffer, part.byteOffset, part.byteLength));
  return hash.digest("hex").slice(0, 16);
}

function digests(vectors: Vectors): string[] {
  return Array.from(vectors, (row) => digest(row));
}

async function listed<T, U>(items: AsyncIterable<T>, what: (item: T) => U): Promise<U[]> {
  const found: U[] = [];
  for await (const item of items) found.push(what(item));
  return found;
}

/** One case's client, and each kind of step as a method. */
class Steps {
  readonly #collections = new Map<string, Collection>();

  constructor(
    readonly client: Client,
    readonly settings: { address: string; options: ClientOptions },
  ) {}

  #encodeOptions(step: Step, signal: AbortSignal | undefined): EncodeOptions {
    const options: Record<string, any> = chosen(step, ENCODE);
    if (typeof step["collection"] === "string") {
      const collection = this.#collections.get(step["collection"]) ?? new Collection(step["collection"]);
      this.#collections.set(step["collection"], collection);
      options["collection"] = collection;
    }
    return { ...options, ...(signal ? { signal } : {}) } as EncodeOptions;
  }

  async encode(step: Step, signal?: AbortSignal) {
    const found = await this.client.encode(step["texts"], this.#encodeOptions(step, signal));
    const { data } = found.vectors;
    return {
      rows: digests(found.vectors),
      cols: found.vectors.width,
      token_counts: Array.from(found.tokenCounts),
      failed: found.errors.map((error) => error.index),
      // The array lies within a larger buffer: that of the answer.
      view: data.byteLength < data.buffer.byteLength,
    };
  }

  async encode_stream(step: Step, signal?: AbortSignal) {
    let [read, at_first, batches] = [0, 0, 0];
    const rows: string[] = [];
    function* texts() {
      for (const text of step["texts"]) {
        read++;
        yield text;
      }
    }
    for await (const part of this.client.encodeStream(texts(), this.#encodeOptions(step, signal))) {
      at_first ||= read;
      rows.push(...digests(part.vectors));
      if (++batches === step["leave_after"]) break;
    }
    return { rows, read_at_first: at_first };
  }

  async encode_tokens(step: Step, signal?: AbortSignal) {
    const { vectors } = await this.client.encodeTokens(step["texts"], this.#encodeOptions(step, signal));
    return { rows: vectors.flatMap(digests), counts: vectors.map((one) => one.rows) };
  }

  async encode_outputs(step: Step, signal?: AbortSignal) {
    const more = chosen(step, { outputs: "outputs", max_active_dimensions: "maxActiveDimensions" });
    const options = { ...this.#encodeOptions(step, signal), ...more } as OutputsOptions;
    const { textVector, sparse, tokenVectors } = await this.client.encodeOutputs(step["texts"], options);
    const spaces: Record<string, string> = {};
    const value: Record<string, unknown> = { spaces };
    if (textVector !== undefined) {
      value["rows"] = digests(textVector.vectors);
      spaces["text_vector"] = textVector.space.digest;
    }
    if (sparse !== undefined) {
      value["sparse"] = sparse.vectors.map(({ indices, values }) => digest(indices, values));
      spaces["sparse"] = sparse.space.digest;
    }
    if (tokenVectors !== undefined) {
      value["token_rows"] = tokenVectors.vectors.flatMap(digests);
      value["counts"] = tokenVectors.vectors.map((one) => one.rows);
      spaces["token_vectors"] = tokenVectors.space.digest;
    }
    return value;
  }

  /** Calls of one client at the same time: what Node has in place of threads. */
  async threads(step: Step) {
    const all = await Promise.all(Array.from({ length: step["threads"] }, () => this.encode(step)));
    return { rows: all.flatMap((one) => one.rows) };
  }

  async encoders() {
    return { ids: await listed(this.client.encoders(), (encoder) => encoder.id) };
  }

  async encoder(step: Step) {
    const { dimensions, prompts } = await this.client.encoder(step["encoder"]);
    return { dimensions, prompts };
  }

  async count_tokens(step: Step) {
    return { token_counts: await this.client.countTokens(step["texts"], { encoder: step["encoder"] }) };
  }

  async tokenize(step: Step) {
    const found = await this.client.tokenize(step["texts"], { encoder: step["encoder"] });
    return { ids: found.map((text) => text.map((token) => token.id)) };
  }

  async rerank(step: Step) {
    const options = { encoder: step["encoder"], ...chosen(step, { top_n: "topN" }) };
    const { results } = await this.client.rerank(step["query"], step["documents"], options);
    return { ranking: results.map((one) => [one.index, one.score]) };
  }

  async transform(step: Step) {
    const found = await this.client.transform(step["texts"], step["transformation"], chosen(step, { generator: "generator" }));
    return { texts: found.texts, indices: found.results.map((one) => one.index) };
  }

  async transform_stream(step: Step) {
    const stream = this.client.transformStream(step["texts"], step["transformation"], chosen(step, { generator: "generator" }));
    const found = (await listed(stream, (one) => one)).sort((one, other) => one.index - other.index);
    return { texts: found.map((one) => one.text), indices: found.map((one) => one.index) };
  }

  async encode_augmented(step: Step) {
    const options = { encoder: step["encoder"], ...chosen(step, { pooling: "pooling", original_weight: "originalWeight" }) };
    return { rows: digests((await this.client.encodeAugmented(step["texts"], step["sources"], options)).vectors) };
  }

  async score_pairs(step: Step) {
    const found = await this.client.tasks.scorePairs(step["first"], step["second"], step["labels"], { task: step["task"] });
    return { main_score_key: found.mainScoreKey, main_score: found.mainScore, items: Number(found.items) };
  }

  async score_dataset(step: Step) {
    const found = await this.client.tasks.scoreDataset(step["dataset"], { encoder: step["encoder"], task: step["task"], limit: step["limit"] });
    return { main_score_key: found.mainScoreKey, main_score: found.mainScore, items: Number(found.items) };
  }

  async adjust_p_values(step: Step) {
    const { holm, benjaminiHochberg } = await this.client.statistics.adjustPValues(step["p_values"]);
    return { holm, benjamini_hochberg: benjaminiHochberg };
  }

  async compare(step: Step) {
    const { comparisons } = await this.client.statistics.compare(step["reference"], step["treatments"], chosen(step, { seed: "seed" }));
    return { mean_difference: comparisons[0]?.meanDifference, n: comparisons[0]?.n };
  }

  async run(step: Step) {
    const { runs } = this.client;
    const options = chosen(step, { transformations: "transformations", generator: "generator", limit: "limit" });
    const made = await runs.create(await runs.spec(step["suite"], step["encoders"], options));
    let [events, reports] = [0, 0];
    const ended = await runs.wait(made.id, { progress: () => void events++ });
    for (const format of step["formats"]) {
      const { content, mediaType } = await runs.report(made.id, format);
      if (content.length > 0 && mediaType !== "") reports++;
    }
    return { state: RunState[ended.state], events, reports };
  }

  async create_run(step: Step) {
    const { id } = await this.client.runs.create(await this.client.runs.spec(step["suite"], step["encoders"]));
    return { id };
  }

  async watch_run(step: Step) {
    return { sequences: await listed(this.client.runs.watch(step["id"]), (event) => Number(event.sequence)) };
  }

  #provider({ id, address, encoders }: Step) {
    return { id, kind: ProviderKind.ISOMER, address, encoders };
  }

  async create_provider(step: Step) {
    const { id } = await this.client.providers.create(this.#provider(step));
    return { id };
  }

  async providers(step: Step) {
    const { providers } = this.client;
    const id: string = step["id"];
    const made = await providers.create(this.#provider(step));
    const read = await providers.get(id);
    const ids = await listed(providers.list(), (one) => one.id);
    const changed = await providers.update({ id, pricePerMillionTokens: 2.5 }, { fields: ["price_per_million_tokens"] });
    const checked = await providers.check(id);
    await providers.delete(id);
    const deleted = await codeOf(providers.get(id), NotFound, (error) => error.code);
    return {
      created: made.id === id && read.id === id,
      listed: ids.includes(id),
      price: changed.pricePerMillionTokens,
      usable: checked.usable,
      findings: checked.findings.filter((one) => !one.passed).map((one) => `${one.name}: ${one.detail}`),
      deleted,
    };
  }

  async list_keys() {
    return { ids: await listed(this.client.keys.list(), (key) => key.id) };
  }

  async create_key(step: Step) {
    const { id } = await this.client.keys.create(step["name"], step["scopes"]);
    return { id };
  }

  async keys(step: Step) {
    const { keys } = this.client;
    const made = await keys.create(step["name"], step["scopes"]);
    const ids = await listed(keys.list(), (key) => key.id);
    const other = new Client(this.settings.address, { ...this.settings.options, key: made.secret });
    const rows = digests((await other.encode(step["texts"], { encoder: step["encoder"] })).vectors);
    await keys.revoke(made.id);
    const after = await codeOf(other.encode(step["texts"], { encoder: step["encoder"] }), Unauthenticated, (error) => error.reason);
    other.close();
    const events = await listed(keys.audit(), (event) => event);
    const audited = events.filter((event) => event.target.includes(made.id)).map((event) => event.act);
    return { rows, listed: ids.includes(made.id), after, audited };
  }
}

async function codeOf(call: Promise<unknown>, kind: typeof IsomerError, what: (error: IsomerError) => string): Promise<string> {
  try {
    await call;
  } catch (error) {
    if (error instanceof kind) return what(error);
    throw error;
  }
  return "answered";
}

function described(error: IsomerError) {
  return {
    type: error.name,
    too_old: error instanceof ClientTooOld,
    code: error.code,
    reason: error.reason,
    field: error.field,
    hint: error.hint,
    message: error.rawMessage,
    shown: String(error),
    retry_after_s: error.retryAfterMs === undefined ? undefined : error.retryAfterMs / 1000,
    metadata: error.metadata,
  };
}

/** Why a case is impossible with a protocol; undefined: it is possible. */
function skipped(one: Case, protocol: Protocol): string | undefined {
  if (one.steps.some((step) => step["op"] === "fork")) return "a Node process does not fork: child processes begin anew";
  if (protocol === "grpc") return undefined;
  if (one.server === "stub" || one.server === "fragile") return "the stub speaks gRPC alone";
  if (one.server === "tls" || one.server === "mtls") return "fetch takes no authorities and certificates from a program";
  return undefined;
}

async function run(one: Case, protocol: Protocol) {
  const why = skipped(one, protocol);
  if (why !== undefined) return { skipped: why };
  const { connect } = one;
  let asked = 0;
  const options: Record<string, any> = { protocol, metadata: connect["metadata"] };
  Object.assign(options, chosen(connect, { key: "key", in_flight: "inFlight", batch_items: "batchItems", batch_bytes: "batchBytes", timeout_ms: "timeoutMs" }));
  const tls = chosen(connect, { ca_file: "ca", certificate_file: "certificate", key_file: "privateKey" });
  if (Object.keys(tls).length > 0) options["tls"] = tls;
  const tokens: string[] | undefined = connect["tokens"];
  if (tokens !== undefined) options["token"] = () => tokens[Math.min(++asked, tokens.length) - 1] ?? "";
  const results: Record<string, unknown>[] = [];
  let client: Client | undefined;
  let steps: Steps | undefined;
  for (const step of one.steps) {
    const started = performance.now();
    const result: Record<string, unknown> = {};
    try {
      client ??= new Client(connect["address"], options);
      steps ??= new Steps(client, { address: connect["address"], options: { protocol } });
      const signal = "cancel_after_ms" in step ? AbortSignal.timeout(step["cancel_after_ms"]) : undefined;
      const work = steps[step["op"] as "encode"];
      result["ok"] = await work.call(steps, step, signal);
    } catch (error) {
      if (!(error instanceof IsomerError)) throw error;
      result["error"] = described(error);
    }
    result["elapsed_ms"] = Math.round(performance.now() - started);
    if (tokens !== undefined) result["tokens_asked"] = asked;
    results.push(result);
  }
  client?.close();
  return { steps: results };
}

/** Runs under the span of that header as OpenTelemetry's current one. */
function traced<T>(traceparent: string | undefined, work: () => Promise<T>): Promise<T> {
  if (traceparent === undefined) return work();
  trace.setGlobalTracerProvider(new BasicTracerProvider());
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  const getter = { keys: (carrier: { traceparent: string }) => Object.keys(carrier), get: (carrier: { traceparent: string }, name: string) => (name === "traceparent" ? carrier.traceparent : undefined) };
  return context.with(propagation.extract(ROOT_CONTEXT, { traceparent }, getter), work);
}

/** The case's results, or that it did not end. */
async function within<T>(ms: number, work: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => (timer = setTimeout(() => reject(new Error(`not over after ${ms} ms`)), ms)));
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

const [protocol = "", given = "", taken = ""] = process.argv.slice(2);
if (!["grpc", "grpc-web", "connect"].includes(protocol)) throw new InvalidArgument(`there is no protocol ${protocol}`);
const { cases } = JSON.parse(readFileSync(given, "utf8")) as { cases: Case[] };
const results: Record<string, unknown> = {};

async function each(some: Case[]): Promise<void> {
  for (let one = some.shift(); one !== undefined; one = some.shift()) {
    const { id, connect } = one;
    const work = run.bind(undefined, one, protocol as Protocol);
    try {
      results[id] = await within(120_000, traced(connect["traceparent"], work));
    } catch (error) {
      // A defect of the client: the case fails, the others continue.
      results[id] = { failed: String((error as Error).stack ?? error) };
    }
  }
}

// A server that a case restarts serves one case at a time. The others do not disturb each other.
const alone = cases.filter(({ server }) => server === "fragile" || server === "killed");
const together = cases.filter((one) => !alone.includes(one));
await Promise.all([each(alone), each(together), each(together), each(together)]);
writeFileSync(taken, JSON.stringify({ client: { name: "isomer-client (npm)", version: VERSION }, results }));
// Calls of a case that failed may hold the process.
process.exit(0);
