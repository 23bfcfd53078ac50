/** Results of calls, where the message of the protos is not returned as it is. */

import type { DtypeName, VectorData, Vectors } from "./matrix.js";
import type { ItemError as ItemErrorMessage, Usage as UsageMessage } from "./proto/isomer/common/v1/common_pb.js";
import type { RerankResponse } from "./proto/isomer/encoder/v1/encoder_pb.js";
import type { ApiKey } from "./proto/isomer/gateway/v1/access_pb.js";
import type { TransformResult, TransformSummary, Variants } from "./proto/isomer/transform/v1/transform_pb.js";
import type { VectorSpace } from "./spaces.js";
import { codeName, type CodeName, IsomerError } from "./errors.js";

/** A text of a list that has no vector. `index` is its place in the caller's list. */
export interface ItemError {
  readonly index: number;
  readonly code: CodeName;
  readonly message: string;
}

/** Usage of a call, over all its requests; see the message of that name. */
export interface Usage {
  readonly texts: number;
  readonly tokens: number;
  readonly cachedTexts: number;
  readonly generatedTokens: number;
  readonly generatorCalls: number;
  readonly tokensEstimated: boolean;
  readonly costNanoUsd: number;
}

/** The sum of what several requests consumed. */
export function usageOf(messages: Iterable<UsageMessage | Usage | undefined>): Usage {
  const sum = { texts: 0, tokens: 0, cachedTexts: 0, generatedTokens: 0, generatorCalls: 0, tokensEstimated: false, costNanoUsd: 0 };
  for (const one of messages) {
    if (one === undefined) continue;
    for (const name of ["texts", "tokens", "cachedTexts", "generatedTokens", "generatorCalls", "costNanoUsd"] as const) {
      sum[name] += Number(one[name]);
    }
    sum.tokensEstimated ||= one.tokensEstimated;
  }
  return sum;
}

/**
 * Vectors of texts, in the order of the texts.
 *
 * Vectors of one answer are a view of that answer's bytes; vectors of several answers are one array
 * of their own.
 */
export interface Embeddings<D extends DtypeName = DtypeName> {
  readonly vectors: Vectors<D>;
  readonly space: VectorSpace;
  readonly tokenCounts: Uint32Array;
  /** Whether each text was cut; undefined where the encoder does not say. */
  readonly truncated: readonly boolean[] | undefined;
  readonly usage: Usage;
  readonly errors: readonly ItemError[];
}

/** A vector for each token of each text: `vectors[i]` has the rows of text i, special tokens and prompt included. */
export interface TokenEmbeddings<D extends DtypeName = DtypeName> {
  readonly vectors: readonly Vectors<D>[];
  readonly space: VectorSpace;
  readonly usage: Usage;
}

/** Weights of tokens of the encoder's vocabulary: ascending token ids, and one weight above 0 each. */
export interface SparseVector {
  readonly indices: Uint32Array;
  readonly values: Float32Array;
}

/** A sparse vector for each text. */
export interface SparseEmbeddings {
  readonly vectors: readonly SparseVector[];
  readonly space: VectorSpace;
  readonly usage: Usage;
}

/** Results of one pass, each in a vector space of its own; undefined where it was not asked for. */
export interface Outputs<D extends DtypeName = DtypeName> {
  readonly textVector: Embeddings<D> | undefined;
  readonly sparse: SparseEmbeddings | undefined;
  readonly tokenVectors: TokenEmbeddings | undefined;
  readonly usage: Usage;
}

/** Vectors pooled of texts and their variants (GASE). `used[i]` says which variants went into row i, and which are missing. */
export interface AugmentedEmbeddings extends Embeddings<"f32"> {
  readonly used: readonly Variants[];
}

/** A document with its score. `index` is its place in the caller's list. */
export interface Ranked {
  readonly index: number;
  readonly score: number;
  readonly labelScores: readonly number[];
  readonly truncated: boolean;
}

/** Documents, best first. */
export interface Ranking {
  readonly results: readonly Ranked[];
  readonly labels: readonly string[];
  readonly usage: Usage;
}

/** Transformed texts, in the order of the texts. `results` are the messages, with outcome, measures and provenance. */
export interface Transformed {
  readonly results: readonly TransformResult[];
  /** One text each; empty where the text failed, or has several (see `results[i].texts`). */
  readonly texts: readonly string[];
  readonly usage: Usage;
  readonly summaries: readonly TransformSummary[];
}

/** A run's report in one form. */
export interface Report {
  readonly content: Uint8Array;
  readonly mediaType: string;
  readonly fileName: string;
  readonly text: string;
}

/** A key with its text, which no later call shows, and which printing this object does not show. */
export class NewKey {
  readonly #secret: string;

  constructor(
    readonly id: string,
    secret: string,
    readonly record: ApiKey | undefined,
  ) {
    this.#secret = secret;
  }

  get secret(): string {
    return this.#secret;
  }
}

/** Some texts of a list have no vector, others have: `embeddings` has the others, and rows of zeros for these. */
export class TextsFailed extends IsomerError {
  readonly errors: readonly ItemError[];
  readonly embeddings: Embeddings | undefined;

  constructor(errors: readonly [ItemError, ...ItemError[]], embeddings?: Embeddings) {
    const [first, ...more] = errors;
    super(`inputs[${first.index}]: ${first.message}${more.length > 0 ? `, and ${more.length} more texts` : ""}`, {
      code: first.code,
      field: `inputs[${first.index}]`,
      reason: "TEXTS_FAILED",
      ...(embeddings ? { hint: "partial: true gives the others, and the errors beside them" } : {}),
    });
    this.errors = errors;
    this.embeddings = embeddings;
  }
}

/** The answers to parts of a list, each with its start, as one: best first, equal scores in the caller's order. */
export function ranking(parts: readonly [number, RerankResponse][], topN: number | undefined): Ranking {
  const results = parts.flatMap(([start, answer]) =>
    answer.results.map(({ index, score, labelScores, truncated }) => ({ index: index + start, score, labelScores, truncated })),
  );
  if (parts.length > 1) results.sort((one, other) => other.score - one.score || one.index - other.index);
  const usage = usageOf(parts.map(([, answer]) => answer.usage));
  return { results: results.slice(0, topN), labels: parts[0]?.[1].labels ?? [], usage };
}

export function itemErrors(errors: readonly ItemErrorMessage[], start: number): ItemError[] {
  return errors.map(({ index, code, message }) => ({ index: index + start, code: codeName(code), message }));
}

/** Throws TextsFailed if there are errors. */
export function failed(errors: readonly ItemError[], embeddings?: Embeddings): void {
  const [first, ...more] = errors;
  if (first !== undefined) throw new TextsFailed([first, ...more], embeddings);
}

/** One vector of two as cosine similarity. */
export function cosine(one: VectorData, other: VectorData): number {
  let [dot, a, b] = [0, 0, 0];
  for (let i = 0; i < one.length; i++) {
    const [x, y] = [one[i] ?? 0, other[i] ?? 0];
    dot += x * y;
    a += x * x;
    b += y * y;
  }
  return dot / Math.sqrt(a * b);
}
