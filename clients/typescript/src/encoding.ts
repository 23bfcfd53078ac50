/** Texts as encode requests, and their answers as arrays: pure. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import { BadAnswer, InvalidArgument } from "./errors.js";
import { type DtypeName, type VectorData, Vectors, dataOf, dtypeNumber, view, widthOf } from "./matrix.js";
import {
  type EncodeRequestSchema,
  type EncodeResponse,
  type Encoder,
  type InputSchema,
  Output,
  Priority,
  Truncation,
} from "./proto/isomer/encoder/v1/encoder_pb.js";
import type { Usage as UsageMessage } from "./proto/isomer/common/v1/common_pb.js";
import {
  type Embeddings,
  type ItemError,
  type Outputs,
  type SparseEmbeddings,
  type TokenEmbeddings,
  failed,
  itemErrors,
  usageOf,
} from "./results.js";
import { type Collection, type Known, SpaceMismatch, type VectorSpace, spaceOf } from "./spaces.js";

/** A text, or the ids of its tokens by the encoder's own tokenizer. */
export type Text = string | readonly number[] | Uint32Array;
/** Handling of too long a text. */
export type TruncationName = "tail" | "head" | "error";
/** Priority among calls. */
export type PriorityName = "interactive" | "batch";

const TRUNCATIONS = { tail: Truncation.TAIL, head: Truncation.HEAD, error: Truncation.ERROR };
const PRIORITIES = { interactive: Priority.INTERACTIVE, batch: Priority.BATCH };
/** A result of one pass. */
export type OutputName = "text_vector" | "sparse" | "token_vectors";
const OUTPUTS = { text_vector: Output.TEXT_VECTOR, sparse: Output.SPARSE, token_vectors: Output.TOKEN_VECTORS };
/** Other names of the part `document`, as the server has them. */
const PARTS: Record<string, readonly string[]> = {
  document: ["passage", "corpus"],
  passage: ["document", "corpus"],
  corpus: ["document", "passage"],
};

/** How a prompt is said: one of the three. */
export interface PromptOptions {
  /** Text put before each one; empty for none. */
  prompt?: string;
  /** One of the encoder's prompts, by its name. */
  promptName?: string;
  /** Role of the texts, e.g. `query`, `document`, `Retrieval-query`: the encoder's own prompt for it, where it has one. */
  role?: string;
}

/** The prompt of a request: neither name nor literal: the encoder's default. */
export interface Prompt {
  name?: string | undefined;
  literal?: string | undefined;
}

/** As the protos have it. */
export function promptField(prompt: Prompt): NonNullable<MessageInitShape<typeof EncodeRequestSchema>["prompt"]> {
  if (prompt.name !== undefined) return { case: "promptName", value: prompt.name };
  if (prompt.literal !== undefined) return { case: "literalPrompt", value: prompt.literal };
  return { case: undefined };
}

/** The one prompt of at most one way to say it. `encoder` is needed for a role. */
export function promptOf(encoder: Encoder | undefined, options: PromptOptions): Prompt {
  const given = [options.prompt, options.promptName, options.role].filter((one) => one !== undefined);
  if (given.length > 1) {
    throw new InvalidArgument("prompt, promptName and role are given together", { field: "prompt", hint: "give one of them" });
  }
  if (options.role !== undefined && encoder !== undefined) return { name: promptOfRole(encoder, options.role) };
  return { name: options.promptName, literal: options.prompt };
}

/**
 * The encoder's own prompt for a role such as `query`, `document` or `Retrieval-query`; undefined
 * where it has none.
 *
 * The whole role goes before its task, and the task before its part; letter case, hyphens and
 * underscores do not matter. These are the rules of `isomer.eval.v1.EncoderPrompt`.
 */
export function promptOfRole(encoder: Pick<Encoder, "prompts" | "promptNames">, role: string): string | undefined {
  const dash = role.lastIndexOf("-");
  const [task, part] = dash < 0 ? ["", role] : [role.slice(0, dash), role.slice(dash + 1)];
  const known = part.toLowerCase() === "query" || Object.hasOwn(PARTS, part.toLowerCase());
  const wanted = known ? (task === "" ? [part] : [role, task, part]) : [role];
  return firstPrompt(encoder, wanted);
}

function firstPrompt(encoder: Pick<Encoder, "prompts" | "promptNames">, roles: readonly string[]): string | undefined {
  const named = new Map([...Object.keys(encoder.prompts), ...encoder.promptNames].map((name) => [plain(name), name]));
  for (const role of roles) {
    const dash = role.lastIndexOf("-");
    const [task, part] = [role.slice(0, dash + 1), role.slice(dash + 1)];
    for (const one of [part, ...(PARTS[part.toLowerCase()] ?? [])]) {
      const found = named.get(plain(task + one));
      if (found !== undefined) return found;
    }
  }
  return undefined;
}

function plain(role: string): string {
  return role.toLowerCase().replace(/[-_]/g, "");
}

/** The number of a word; 0, which is the server's default, for none. */
export function chosen<T extends number>(field: string, value: string | undefined, known: Readonly<Record<string, T>>): T | 0 {
  if (value === undefined) return 0;
  const number = Object.hasOwn(known, value) ? known[value] : undefined;
  if (number === undefined) {
    const hint = `one of ${Object.keys(known).join(", ")}`;
    throw new InvalidArgument(`${field}: there is no \`${value}\``, { field, reason: "INVALID_ARGUMENT", hint });
  }
  return number;
}

/** Everything of an encode request but its texts. */
export class Asked {
  constructor(
    readonly encoder: string,
    readonly prompt: Prompt,
    readonly how: {
      dimensions?: number | undefined;
      normalise?: boolean | undefined;
      dtype?: DtypeName | undefined;
      truncation?: TruncationName | undefined;
      priority?: PriorityName | undefined;
      tokens?: boolean | undefined;
      outputs?: readonly OutputName[] | undefined;
      maxActiveDimensions?: number | undefined;
    },
  ) {
    dtypeNumber(this.dtype);
    chosen("truncation", how.truncation, TRUNCATIONS);
    chosen("priority", how.priority, PRIORITIES);
    how.outputs?.forEach((output, index) => chosen(`outputs[${index}]`, output, OUTPUTS));
    checkCount("dimensions", how.dimensions);
    checkCount("maxActiveDimensions", how.maxActiveDimensions, 1);
  }

  get dtype(): DtypeName {
    return this.how.dtype ?? "f32";
  }

  /** The request of some texts; `start` is the place of the first one in the caller's list. */
  request(texts: readonly Text[], start: number): MessageInitShape<typeof EncodeRequestSchema> {
    const { dimensions, normalise, truncation, priority, tokens, outputs = [], maxActiveDimensions } = this.how;
    return {
      encoderId: this.encoder,
      inputs: texts.map((text, index) => input(text, start + index)),
      outputDtype: dtypeNumber(this.dtype),
      prompt: promptField(this.prompt),
      truncation: chosen("truncation", truncation, TRUNCATIONS),
      priority: chosen("priority", priority, PRIORITIES),
      output: tokens ? Output.TOKEN_VECTORS : Output.UNSPECIFIED,
      outputs: outputs.map((output) => OUTPUTS[output]),
      ...(dimensions === undefined ? {} : { dimensions }),
      ...(normalise === undefined ? {} : { normalise }),
      ...(maxActiveDimensions === undefined ? {} : { maxActiveDimensions }),
    };
  }

  /** Settings that the space of the vectors depends on, beside the server and the encoder. */
  question(): string {
    const { dimensions, normalise, tokens, outputs } = this.how;
    return JSON.stringify([this.prompt.name ?? null, this.prompt.literal ?? null, dimensions, normalise, this.dtype, tokens, outputs]);
  }
}

/** A number that the protos have as uint32, if it is given. */
export function checkCount(field: string, value: number | undefined, least = 0): void {
  if (value !== undefined && !(Number.isInteger(value) && value >= least && value < 2 ** 32)) {
    throw new InvalidArgument(`${field} is ${value}`, { field, reason: "INVALID_ARGUMENT", hint: `give a whole number from ${least} on` });
  }
}

function input(text: unknown, index: number): MessageInitShape<typeof InputSchema> {
  if (typeof text === "string") return { input: { case: "text", value: sendable(text, `inputs[${index}]`) } };
  if (Array.isArray(text) || text instanceof Uint32Array) {
    const ids = Array.from(text as ArrayLike<number>);
    if (ids.every((id) => Number.isInteger(id) && id >= 0 && id < 2 ** 32)) return { input: { case: "tokenIds", value: { ids } } };
  }
  const [field, hint] = [`inputs[${index}]`, "give a string, or an array of token ids from 0 to 2**32 - 1"];
  throw new InvalidArgument(`${field} is no text`, { field, reason: "INVALID_ARGUMENT", hint });
}

/** A text that UTF-8 has. Halves of surrogate pairs would reach the server as another character. */
export function sendable(text: unknown, field: string): string {
  if (typeof text !== "string") {
    throw new InvalidArgument(`${field} is a ${typeof text}`, { field, reason: "INVALID_ARGUMENT", hint: "give a string" });
  }
  // In Node and in newer browsers, several times as fast.
  const wellFormed = (text as { isWellFormed?: () => boolean }).isWellFormed?.() ?? !/\p{Surrogate}/u.test(text);
  if (!wellFormed) {
    const hint = "take halves of surrogate pairs out: they are no characters";
    throw new InvalidArgument(`${field} cannot be sent: it is no UTF-16`, { field, reason: "INVALID_ARGUMENT", hint });
  }
  return text;
}

export function notOneText(texts: unknown): void {
  if (typeof texts === "string") {
    throw new InvalidArgument("texts is one text", { field: "texts", reason: "INVALID_ARGUMENT", hint: "give a list: [text]" });
  }
}

export function notEmpty(list: readonly unknown[], field: string): void {
  if (list.length === 0) {
    throw new InvalidArgument(`${field} is empty`, { field, reason: "INVALID_ARGUMENT", hint: "give at least one" });
  }
}

/** Bytes of a text in a request, about. */
export function size(text: unknown): number {
  if (typeof text === "string") return /^[\0-\x7f]*$/.test(text) ? text.length : 3 * text.length;
  if (typeof text !== "object" || text === null) return 0;
  if ("length" in text && typeof text.length === "number") return 4 * text.length;
  return "text" in text ? size(text.text) : 0;
}

/** The texts of a request, and the place of the first one in the caller's list. */
export interface Batch<T> {
  readonly start: number;
  readonly texts: readonly T[];
}

/** Divides texts, in their order, into requests. A text that is larger than `mostBytes` goes alone. */
export async function* batches<T>(texts: Iterable<T> | AsyncIterable<T>, mostItems: number, mostBytes: number): AsyncGenerator<Batch<T>> {
  let [start, bytes] = [0, 0];
  let waiting: T[] = [];
  const rest = (): Batch<T> => {
    const batch = { start, texts: waiting };
    [start, bytes, waiting] = [start + waiting.length, 0, []];
    return batch;
  };
  const push = (text: T): Batch<T>[] => {
    const full: Batch<T>[] = [];
    const added = size(text);
    if (waiting.length > 0 && bytes + added > mostBytes) full.push(rest());
    waiting.push(text);
    bytes += added;
    if (waiting.length >= mostItems) full.push(rest());
    return full;
  };
  // Arrays are not awaited item by item.
  if (Symbol.iterator in texts) for (const text of texts) yield* push(text);
  else for await (const text of texts) yield* push(text);
  if (waiting.length > 0) yield rest();
}

/** Holds the answers of one operation against what was asked, and against each other. */
export class Checker {
  #first: VectorSpace | undefined;

  constructor(
    readonly asked: Asked,
    readonly collection: Collection | undefined,
    readonly known: Known | undefined,
    readonly question: string = asked.question(),
  ) {}

  space(answer: Pick<EncodeResponse, "vectorSpace">): VectorSpace {
    const space = spaceOf(answer.vectorSpace);
    if (this.#first === undefined) {
      // First the caller's own expectation, then what the server said before.
      this.collection?.check(space);
      // Ranges of int8 may come from the texts of each request: the spaces of two calls then differ.
      if (this.asked.dtype !== "int8") this.known?.check(this.asked.encoder, this.question, space);
      this.#first = space;
    } else if (this.#first.digest !== space.digest) {
      throw new SpaceMismatch(this.#first, space, "the texts before them in the same call");
    }
    return this.#first;
  }

  /** The space of the answers so far. */
  found(): VectorSpace {
    if (this.#first === undefined) {
      throw new InvalidArgument("texts is empty", { field: "texts", reason: "INVALID_ARGUMENT", hint: "give at least one text" });
    }
    return this.#first;
  }

  /** One answer's vectors, a row for each of `count` texts. */
  embeddings(answer: EncodeResponse, count: number, start: number): Embeddings {
    const vectors = view(answer.embeddings);
    const { dimensions } = this.asked.how;
    if (vectors.rows !== count || vectors.dtype !== this.asked.dtype || (dimensions !== undefined && vectors.cols !== dimensions)) {
      const message = `${vectors.rows} x ${vectors.cols} of element type ${vectors.dtype} were answered to ${count} texts`;
      throw new BadAnswer(message, { hint: "ask again; if it stays so, the server is at fault" });
    }
    if (answer.truncated.length > 0 && answer.truncated.length !== count) {
      throw new BadAnswer(`${answer.truncated.length} marks of truncation were answered to ${count} texts`);
    }
    return {
      vectors,
      space: this.space(answer),
      tokenCounts: Uint32Array.from(answer.tokenCounts),
      truncated: answer.truncated.length > 0 ? answer.truncated : undefined,
      usage: usageOf([answer.usage]),
      errors: itemErrors(answer.errors, start),
    };
  }

  /** One answer's vectors of tokens; `beside` says whether they stand beside other results. */
  tokenEmbeddings(answer: EncodeResponse, count: number, start: number, beside = false): TokenEmbeddings {
    const { data, rows, cols, dtype } = view(beside ? answer.tokenEmbeddings : answer.embeddings);
    failed(itemErrors(answer.errors, start));
    if (dtype !== this.asked.dtype || answer.rowCounts.length !== count || answer.rowCounts.reduce((sum, one) => sum + one, 0) !== rows) {
      const message = `${rows} token vectors of element type ${dtype} of ${answer.rowCounts.length} texts were answered to ${count}`;
      throw new BadAnswer(message, { hint: "ask again" });
    }
    const width = widthOf(cols, dtype);
    let row = 0;
    const vectors = answer.rowCounts.map((number) => {
      const part = data.subarray(row * width, (row + number) * width);
      row += number;
      return new Vectors(part, number, cols, dtype);
    });
    const space = this.space(beside ? { vectorSpace: answer.tokenVectorSpace } : answer);
    return { vectors, space, usage: usageOf([answer.usage]) };
  }

  /** One answer's sparse vectors, one for each of `count` texts. */
  sparseEmbeddings(answer: EncodeResponse, count: number): SparseEmbeddings {
    if (answer.sparseEmbeddings.length !== count) {
      throw new BadAnswer(`${answer.sparseEmbeddings.length} sparse vectors were answered to ${count} texts`, { hint: "ask again" });
    }
    const vectors = answer.sparseEmbeddings.map(({ indices, values }, place) => {
      const ascending = indices.every((index, entry) => entry === 0 || index > (indices[entry - 1] ?? Infinity));
      if (indices.length !== values.length || !ascending || !values.every((value) => value > 0 && Number.isFinite(value))) {
        const message = `the sparse vector of text ${place} has not one weight above 0 for each of ascending indices`;
        throw new BadAnswer(message, { hint: "ask again; if it stays so, the server is at fault" });
      }
      return { indices: Uint32Array.from(indices), values: Float32Array.from(values) };
    });
    return { vectors, space: this.space({ vectorSpace: answer.sparseVectorSpace }), usage: usageOf([answer.usage]) };
  }
}

/** Puts the answers of several requests together, in order: one array, filled as they come. */
export class Joiner {
  readonly #count: number;
  readonly #parts: Omit<Embeddings, "vectors">[] = [];
  #whole: Vectors | undefined;
  #filled = 0;
  #data: VectorData | undefined;

  constructor(count: number) {
    this.#count = count;
  }

  add({ vectors, ...part }: Embeddings): void {
    this.#parts.push(part);
    if (vectors.rows === this.#count) {
      this.#whole = vectors;
      return;
    }
    const { cols, dtype, width } = vectors;
    if (this.#data === undefined || this.#whole === undefined) {
      this.#data = dataOf(dtype, this.#count * width);
      this.#whole = new Vectors(this.#data, this.#count, cols, dtype);
    }
    if (this.#whole.cols !== cols || this.#whole.dtype !== dtype) {
      throw new BadAnswer("two answers of one call have vectors of different widths", { hint: "ask again" });
    }
    // The answer's bytes are not needed any more.
    this.#data.set(vectors.data, this.#filled * width);
    this.#filled += vectors.rows;
  }

  whole(): Embeddings {
    const [first, ...more] = this.#parts;
    if (this.#whole === undefined || first === undefined) throw new BadAnswer("no vectors were answered");
    if (more.length === 0) return { vectors: this.#whole, ...first };
    const tokenCounts = new Uint32Array(this.#parts.reduce((sum, part) => sum + part.tokenCounts.length, 0));
    let filled = 0;
    for (const part of this.#parts) {
      tokenCounts.set(part.tokenCounts, filled);
      filled += part.tokenCounts.length;
    }
    const told = this.#parts.flatMap((part) => (part.truncated === undefined ? [] : [part.truncated]));
    return {
      vectors: this.#whole,
      space: first.space,
      tokenCounts,
      truncated: told.length === this.#parts.length ? told.flat() : undefined,
      usage: usageOf(this.#parts.map((part) => part.usage)),
      errors: this.#parts.flatMap((part): readonly ItemError[] => part.errors),
    };
  }
}

/** Checks every result of the answers of one call, and puts them together, in order. */
export class OutputsJoiner {
  readonly #outputs: readonly OutputName[];
  readonly #dense: Checker;
  readonly #sparse: Checker;
  readonly #tokens: Checker;
  readonly #joiner: Joiner;
  readonly #sparseParts: SparseEmbeddings[] = [];
  readonly #tokenParts: TokenEmbeddings[] = [];
  readonly #usage: (UsageMessage | undefined)[] = [];

  constructor(count: number, asked: Asked, collection: Collection | undefined, known: Known | undefined) {
    const { encoder, prompt, how } = asked;
    // Settings of dense vectors do not change the spaces of the others.
    const other = { ...how, dimensions: undefined, normalise: undefined, dtype: undefined };
    this.#outputs = how.outputs ?? [];
    this.#joiner = new Joiner(count);
    this.#dense = new Checker(new Asked(encoder, prompt, { ...how, outputs: undefined }), collection, known);
    this.#sparse = new Checker(new Asked(encoder, prompt, { ...other, outputs: ["sparse"] }), undefined, known);
    this.#tokens = new Checker(new Asked(encoder, prompt, { ...other, outputs: undefined, tokens: true }), undefined, known);
  }

  add(answer: EncodeResponse, count: number, start: number): void {
    failed(itemErrors(answer.errors, start));
    this.#usage.push(answer.usage);
    for (const output of this.#outputs) {
      if (output === "text_vector") this.#joiner.add(this.#dense.embeddings(answer, count, start));
      else if (output === "sparse") this.#sparseParts.push(this.#sparse.sparseEmbeddings(answer, count));
      else this.#tokenParts.push(this.#tokens.tokenEmbeddings(answer, count, start, true));
    }
  }

  whole(): Outputs {
    const usage = usageOf(this.#usage);
    const [sparse, tokens] = [this.#sparseParts, this.#tokenParts];
    return {
      textVector: this.#outputs.includes("text_vector") ? this.#joiner.whole() : undefined,
      sparse: sparse[0] && { vectors: sparse.flatMap((part) => part.vectors), space: sparse[0].space, usage },
      tokenVectors: tokens[0] && { vectors: tokens.flatMap((part) => part.vectors), space: tokens[0].space, usage },
      usage,
    };
  }
}

/** Result for no texts: no rows, as wide as others would be. */
export function empty(encoder: Encoder, asked: Asked): Embeddings {
  const cols = asked.how.dimensions ?? encoder.dimensions;
  return {
    vectors: new Vectors(dataOf(asked.dtype, 0), 0, cols, asked.dtype),
    space: spaceOf(encoder.vectorSpace),
    tokenCounts: new Uint32Array(),
    truncated: [],
    usage: usageOf([]),
    errors: [],
  };
}
