/** The client: texts to vectors, and the way to everything else. */

import * as platform from "#platform";
import { type CallOptions, Connection, Operation } from "./connection.js";
import {
  Asked,
  type Batch,
  Checker,
  Joiner,
  type OutputName,
  OutputsJoiner,
  type PriorityName,
  type PromptOptions,
  type Text,
  type TruncationName,
  batches,
  checkCount,
  empty,
  notEmpty,
  notOneText,
  promptField,
  promptOf,
  sendable,
} from "./encoding.js";
import { Runs, Statistics, Tasks } from "./evaluation.js";
import { Keys, Providers } from "./gateway.js";
import type { DtypeName, Vectors } from "./matrix.js";
import { collect, moved, some } from "./part.js";
import { type EncodeResponse, EncoderService, type Encoder, type RerankResponse, type Token } from "./proto/isomer/encoder/v1/encoder_pb.js";
import { type Embeddings, type Outputs, type Ranking, type TokenEmbeddings, failed, ranking, usageOf } from "./results.js";
import { type ClientOptions, DEFAULT_ADDRESS, settingsOf } from "./settings.js";
import { type Collection, Known, spaceOf } from "./spaces.js";
import { Transformations } from "./transform.js";

/** Options of `encode`. */
export interface EncodeOptions<D extends DtypeName = DtypeName> extends CallOptions, PromptOptions {
  /** Id of the encoder. */
  encoder: string;
  /** Columns to keep (Matryoshka). */
  dimensions?: number;
  /** Whether to scale to unit length; by default as the encoder does. */
  normalise?: boolean;
  /** `f32` unless given. */
  dtype?: D;
  /** Handling of too long a text: `tail` by default. */
  truncation?: TruncationName;
  /** `interactive` unless given; `batch` for `encodeStream`. */
  priority?: PriorityName;
  /** Where the vectors are kept: throws SpaceMismatch for those of another space. */
  collection?: Collection;
  /** Whether texts that fail leave rows of zeros; without it they throw TextsFailed. */
  partial?: boolean;
}

/** Options of `encodeOutputs`. `dimensions`, `normalise`, `dtype` and `collection` apply to `text_vector`. */
export interface OutputsOptions<D extends DtypeName = DtypeName> extends Omit<EncodeOptions<D>, "partial"> {
  /** Results for each text. */
  outputs: readonly OutputName[];
  /** Entries to keep of each sparse vector, the largest ones. */
  maxActiveDimensions?: number;
}

/** Options of `rerank`. */
export interface RerankOptions extends CallOptions {
  encoder: string;
  /** How many of the best; all unless given. */
  topN?: number;
  /** The encoder's label that counts. */
  label?: string;
}

/** Options of `countTokens` and `tokenize`. */
export interface TokenOptions extends CallOptions, Omit<PromptOptions, "role"> {
  encoder: string;
}

/**
 * A client of one Isomer server. Make one and keep it: with gRPC it is one connection, which is
 * made at the first call.
 */
export class Client extends Transformations {
  protected override readonly known: Known | undefined;
  readonly #encoders = new Map<string, Encoder>();
  /** Scores of vectors and of data sets. */
  readonly tasks: Tasks;
  /** Tests and intervals of scores. */
  readonly statistics: Statistics;
  /** Robustness checks. */
  readonly runs: Runs;
  /** The gateway's providers of encoders. */
  readonly providers: Providers;
  /** The gateway's keys and audit log. */
  readonly keys: Keys;

  /** `address` is `host:port`, `http://host:port`, `https://host` (TLS; port 443 unless given), or `unix:/path`. */
  constructor(address: string = DEFAULT_ADDRESS, options: ClientOptions = {}) {
    super(new Connection(settingsOf(address, options)));
    this.known = options.checkSpaces === false ? undefined : new Known();
    Object.defineProperty(this, "known", { enumerable: false });
    this.tasks = new Tasks(this.connection);
    this.statistics = new Statistics(this.connection);
    this.runs = new Runs(this.connection);
    this.providers = new Providers(this.connection);
    this.keys = new Keys(this.connection);
  }

  /** A client of the server in `ISOMER_SERVER`, with the key in `ISOMER_API_KEY`, as the command line has it. */
  static fromEnvironment(options: ClientOptions = {}): Client {
    const { ISOMER_SERVER: address, ISOMER_API_KEY: key } = platform.environment();
    const found = key && options.key === undefined && options.token === undefined ? { key } : {};
    return new Client(address || DEFAULT_ADDRESS, { ...found, ...options });
  }

  /** Ends the connection. Calls in flight throw Cancelled. */
  close(): void {
    this.connection.close();
  }

  // Encoders

  /** The encoders that can be asked for, loaded or not. */
  encoders(options: CallOptions = {}): AsyncGenerator<Encoder> {
    return this.pages(options, async (pageToken, operation) => {
      const answer = await this.connection.call(EncoderService.method.listEncoders, { pageToken }, operation);
      return [answer.encoders, answer.nextPageToken];
    });
  }

  /** One encoder, described; the server loads it if need be. */
  async encoder(id: string, options: CallOptions = {}): Promise<Encoder> {
    this.#encoders.delete(id);
    return this.#described(id, new Operation(options));
  }

  /** Describes an encoder within the time of the call that needs it; the description is cached. */
  async #described(id: string, operation: Operation): Promise<Encoder> {
    operation.check();
    const known = this.#encoders.get(id);
    if (known !== undefined) return known;
    const encoder = some((await this.connection.call(EncoderService.method.getEncoder, { id }, operation)).encoder, "encoder");
    this.#encoders.set(id, encoder);
    return encoder;
  }

  // Vectors

  /** A vector for each of any number of texts, in their order: texts, or token ids by the encoder's own tokenizer. */
  async encode<D extends DtypeName = "f32">(texts: Iterable<Text>, options: EncodeOptions<D>): Promise<Embeddings<D>> {
    notOneText(texts);
    const listed = Array.isArray(texts) ? (texts as readonly Text[]) : [...texts];
    const operation = new Operation(options);
    const { known, asked } = await this.#asked(options, operation);
    if (listed.length === 0) return empty(known, asked) as Embeddings<D>;
    const joiner = new Joiner(listed.length);
    for await (const part of this.#parts(listed, known, asked, options.collection, operation)) joiner.add(part);
    return succeeded<D>(joiner.whole(), options.partial);
  }

  /**
   * Vectors of texts that come from an iterator, in their order, a batch at a time.
   *
   * Texts are read only as far as requests are in flight, and each batch's vectors are a view of its
   * answer: memory does not grow with the number of texts. Leaving the loop cancels what is in flight.
   */
  async *encodeStream<D extends DtypeName = "f32">(
    texts: Iterable<Text> | AsyncIterable<Text>,
    options: EncodeOptions<D>,
  ): AsyncGenerator<Embeddings<D>> {
    notOneText(texts);
    const operation = new Operation(options);
    const { known, asked } = await this.#asked({ priority: "batch", ...options }, operation);
    for await (const part of this.#parts(texts, known, asked, options.collection, operation)) yield succeeded<D>(part, options.partial);
  }

  async #asked(options: EncodeOptions | OutputsOptions, operation: Operation, tokens?: boolean): Promise<{ known: Encoder; asked: Asked }> {
    const known = await this.#described(options.encoder, operation);
    return { known, asked: new Asked(options.encoder, promptOf(known, options), { ...options, tokens }) };
  }

  /** The answers to each request, in order. */
  async *#parts(
    texts: Iterable<Text> | AsyncIterable<Text>,
    known: Encoder,
    asked: Asked,
    collection: Collection | undefined,
    operation: Operation,
  ): AsyncGenerator<Embeddings> {
    const checker = new Checker(asked, collection, this.known);
    for await (const [{ start, texts: some }, answer] of this.#answers(texts, known, asked, operation)) {
      yield checker.embeddings(answer, some.length, start);
    }
  }

  #answers(texts: Iterable<Text> | AsyncIterable<Text>, known: Encoder, asked: Asked, operation: Operation): AsyncGenerator<[Batch<Text>, EncodeResponse]> {
    const one = async (batch: Batch<Text>, inner: Operation): Promise<[Batch<Text>, EncodeResponse]> => {
      const request = asked.request(batch.texts, batch.start);
      return [batch, await moved(batch.start, this.connection.call(EncoderService.method.encode, request, inner))];
    };
    return this.connection.ordered(this.#batches(texts, known), one, operation);
  }

  #batches<T>(texts: Iterable<T> | AsyncIterable<T>, known: Encoder): AsyncGenerator<Batch<T>> {
    const { batchItems, batchBytes } = this.connection.settings;
    return batches(texts, known.maxBatchItems > 0 ? Math.min(batchItems, known.maxBatchItems) : batchItems, batchBytes);
  }

  /** A vector for each token of each text. */
  async encodeTokens<D extends DtypeName = "f32">(
    texts: Iterable<Text>,
    options: Omit<EncodeOptions<D>, "priority" | "partial">,
  ): Promise<TokenEmbeddings<D>> {
    notOneText(texts);
    const operation = new Operation(options);
    const { known, asked } = await this.#asked(options, operation, true);
    const checker = new Checker(asked, options.collection, this.known);
    const vectors: Vectors<D>[] = [];
    const parts: TokenEmbeddings[] = [];
    for await (const [{ start, texts: some }, answer] of this.#answers(texts, known, asked, operation)) {
      const part = checker.tokenEmbeddings(answer, some.length, start);
      vectors.push(...(part.vectors as Vectors<D>[]));
      parts.push(part);
    }
    return { vectors, space: parts[0]?.space ?? spaceOf(known.vectorSpace), usage: usageOf(parts.map((part) => part.usage)) };
  }

  /** Several results of one pass: dense, sparse and token vectors. */
  async encodeOutputs<D extends DtypeName = "f32">(texts: Iterable<Text>, options: OutputsOptions<D>): Promise<Outputs<D>> {
    notOneText(texts);
    const listed = Array.isArray(texts) ? (texts as readonly Text[]) : [...texts];
    notEmpty(listed, "texts");
    notEmpty(options.outputs, "outputs");
    const operation = new Operation(options);
    const { known, asked } = await this.#asked(options, operation);
    const joiner = new OutputsJoiner(listed.length, asked, options.collection, this.known);
    for await (const [{ start, texts: some }, answer] of this.#answers(listed, known, asked, operation)) {
      joiner.add(answer, some.length, start);
    }
    // Answers of a type that was not requested have been refused.
    return joiner.whole() as Outputs<D>;
  }

  /** Any number of documents scored against a query by a cross-encoder, best first. */
  async rerank(query: string, documents: Iterable<string>, options: RerankOptions): Promise<Ranking> {
    notOneText(documents);
    sendable(query, "query");
    checkCount("topN", options.topN, 1);
    const { encoder, topN, label = "" } = options;
    const operation = new Operation(options);
    const known = await this.#described(encoder, operation);
    const one = async ({ start, texts }: Batch<string>, inner: Operation): Promise<[number, RerankResponse]> => {
      const some = texts.map((text, index) => sendable(text, `documents[${start + index}]`));
      const request = { encoderId: encoder, query, documents: some, label, ...(topN === undefined ? {} : { topN }) };
      return [start, await moved(start, this.connection.call(EncoderService.method.rerank, request, inner))];
    };
    return ranking(await collect(this.connection.ordered(this.#batches(documents, known), one, operation)), topN);
  }

  // Tokens

  /** Tokens of each text as `encode` would see them, before truncation. */
  async countTokens(texts: Iterable<string>, options: TokenOptions): Promise<number[]> {
    return (await this.ask(EncoderService.method.countTokens, tokensRequest(texts, options), options)).tokenCounts;
  }

  /** The tokens of each text, with the part of the text that each stands for. */
  async tokenize(texts: Iterable<string>, options: TokenOptions & { specialTokens?: boolean }): Promise<Token[][]> {
    const request = { ...tokensRequest(texts, options), specialTokens: options.specialTokens ?? true };
    return (await this.ask(EncoderService.method.tokenize, request, options)).texts.map((text) => text.tokens);
  }

  /** The text of each list of token ids. */
  async detokenize(
    tokenIds: Iterable<ArrayLike<number>>,
    options: CallOptions & { encoder: string; specialTokens?: boolean },
  ): Promise<string[]> {
    const ids = Array.from(tokenIds, (one) => ({ ids: Array.from(one) }));
    const request = { encoderId: options.encoder, tokenIds: ids, specialTokens: options.specialTokens ?? false };
    return (await this.ask(EncoderService.method.detokenize, request, options)).texts;
  }
}

function tokensRequest(texts: Iterable<string>, options: TokenOptions) {
  notOneText(texts);
  const listed = Array.from(texts, (text, index) => sendable(text, `texts[${index}]`));
  return { encoderId: options.encoder, texts: listed, prompt: promptField(promptOf(undefined, options)) };
}

/** The vectors, or TextsFailed where texts have none and the caller did not say that this is fine. */
function succeeded<D extends DtypeName>(embeddings: Embeddings, partial: boolean | undefined): Embeddings<D> {
  if (partial !== true) failed(embeddings.errors, embeddings);
  // Answers of a type that was not requested have been refused.
  return embeddings as Embeddings<D>;
}
