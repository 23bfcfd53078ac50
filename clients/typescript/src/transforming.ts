/** Texts as requests for transformations and augmentation: pure. */

import { type MessageInitShape, create } from "@bufbuild/protobuf";
import { reflect } from "@bufbuild/protobuf/reflect";
import { checkCount, chosen, sendable } from "./encoding.js";
import { BadAnswer, InvalidArgument } from "./errors.js";
import { Vectors, view } from "./matrix.js";
import {
  AugmentationMode,
  AugmentationPooling,
  type AugmentationSpecSchema,
  type EncodeAugmentedResponse,
  GuardMode,
  JudgeScale,
  OnFailure,
  PartialFailurePolicy,
  type TextItem,
  TextItemSchema,
  type TransformResponse,
  type TransformSpecSchema,
  type Transformation as TransformationMessage,
  TransformationSchema,
} from "./proto/isomer/transform/v1/transform_pb.js";
import { type AugmentedEmbeddings, type Transformed, itemErrors, usageOf } from "./results.js";
import type { VectorSpace } from "./spaces.js";

/** A text, or one with an id and a language. */
export type Item = string | MessageInitShape<typeof TextItemSchema>;
/** The name of a transformation, e.g. `paraphrase`, or one with its parameters. */
export type Transformation = string | TransformationMessage;
/** Parameters of a transformation, e.g. `{ targetLanguage: "de" }`. */
export type Parameters = Readonly<Record<string, string | number | readonly string[]>>;

const ON_FAILURE = { keep_original: OnFailure.KEEP_ORIGINAL, drop: OnFailure.DROP, fail: OnFailure.FAIL };
const GUARDS = { warn: GuardMode.WARN, retry: GuardMode.RETRY, off: GuardMode.OFF };
export const POOLINGS = { mean: AugmentationPooling.MEAN, max: AugmentationPooling.MAX, weighted: AugmentationPooling.WEIGHTED };
export const MODES = {
  always: AugmentationMode.ALWAYS,
  budget: AugmentationMode.BUDGET,
  cached: AugmentationMode.CACHED,
  cascade: AugmentationMode.CASCADE,
};
export const SCALES = { similarity: JudgeScale.SIMILARITY, quality: JudgeScale.QUALITY, fluency: JudgeScale.FLUENCY };

/** How a generator samples; what is not given is the server's default. */
export interface Sampling {
  temperature?: number;
  topP?: number;
  topK?: number;
  maxTokens?: number;
}

/** A source of variants of a text (GASE): a transformation, and the generator that makes it where it needs one. */
export interface Source {
  transformation: Transformation;
  generator?: string;
  parameters?: Parameters;
}

/** How texts are transformed; what is not given is the server's default. */
export interface TransformSettings {
  /** Those of the transformation, e.g. `{ targetLanguage: "de" }`. */
  parameters?: Parameters;
  /** The language model; by default the server's. */
  generator?: string;
  seed?: number | bigint;
  maxAttempts?: number;
  /** Handling of a text whose attempts all failed a check: `keep_original` by default. */
  onFailure?: keyof typeof ON_FAILURE;
  sampling?: Sampling;
  bypassCache?: boolean;
  run?: string;
  prompts?: readonly string[];
  /** `warn` unless given. */
  guards?: keyof typeof GUARDS;
}

/** How variants are made; what is not given is the server's default. */
export interface AugmentSettings {
  /** How many of the sources are used; by default all. */
  k?: number;
  seed?: number | bigint;
  sampling?: Sampling;
  /** Milliseconds for generation; what has come by then is pooled. */
  budgetMs?: number;
  /** Whether a missing variant fails the call. */
  allVariants?: boolean;
  maxAttempts?: number;
  bypassCache?: boolean;
  /** `budget` with a budget, else `always`; `cached` asks no generator before the answer. */
  mode?: keyof typeof MODES;
  /** Whether what a budget or the caches lack is made after the answer, for the next call; by default with `cached`. */
  makeMissing?: boolean;
  /** With the mode `cascade`: when the plain search of a query was not good enough. One condition that holds is enough. */
  cascade?: Cascade;
}

/** When the plain search of a query was not good enough. */
export interface Cascade {
  /** Fewer results than this. */
  minResults?: number;
  /** The best score is below this. */
  minScore?: number;
  /** The best score is less than this above the one at `gapRank` (2 unless given). */
  minGap?: number;
  gapRank?: number;
}

/** Results of the plain search of each text: scores, best first. */
export function evidenceOf(scores: readonly (readonly number[])[] | undefined, texts: number): { scores: number[] }[] {
  if (scores === undefined) return [];
  if (scores.length !== texts) {
    const hint = "give one list per text, empty where nothing was found";
    throw new InvalidArgument(`evidence: ${scores.length} lists of scores for ${texts} texts`, { field: "evidence", reason: "INVALID_ARGUMENT", hint });
  }
  return scores.map((found) => ({ scores: [...found] }));
}

/** `paraphrase`, or `translation` with `{ targetLanguage: "de" }`. */
export function transformation(kind: Transformation, parameters: Parameters = {}): TransformationMessage {
  if (typeof kind !== "string") return kind;
  const field = TransformationSchema.fields.find((one) => one.name === kind);
  if (field?.message === undefined) {
    const hint = `one of ${TransformationSchema.fields.map((one) => one.name).join(", ")}`;
    throw new InvalidArgument(`there is no transformation \`${kind}\``, { field: "spec.transformation", reason: "INVALID_ARGUMENT", hint });
  }
  const part = reflect(field.message);
  for (const [name, value] of Object.entries(parameters)) {
    const path = `spec.transformation.${kind}.${name}`;
    const parameter = field.message.fields.find((one) => one.localName === name || one.name === name);
    if (parameter === undefined) {
      const known = field.message.fields.map((one) => one.localName).join(", ");
      const hint = known === "" ? "it has no parameters" : `it has ${known}`;
      throw new InvalidArgument(`\`${kind}\` has no parameter \`${name}\``, { field: path, reason: "INVALID_ARGUMENT", hint });
    }
    try {
      if (parameter.fieldKind === "list") {
        if (!Array.isArray(value)) throw new TypeError("it is a list");
        for (const one of value as readonly string[]) part.get(parameter).add(one);
      } else {
        part.set(parameter, value);
      }
    } catch (cause) {
      const message = `${path} cannot be ${JSON.stringify(value)}: ${(cause as Error).message}`;
      throw new InvalidArgument(message, { field: path, reason: "INVALID_ARGUMENT", cause });
    }
  }
  const made = create(TransformationSchema);
  reflect(TransformationSchema, made).set(field, part);
  return made;
}

export function transformSpec(kind: Transformation, settings: TransformSettings): MessageInitShape<typeof TransformSpecSchema> {
  const { parameters, generator = "", seed, maxAttempts, onFailure, sampling, bypassCache, run = "", prompts, guards } = settings;
  checkCount("maxAttempts", maxAttempts, 1);
  return {
    transformation: transformation(kind, parameters),
    generatorId: generator,
    onFailure: chosen("onFailure", onFailure, ON_FAILURE),
    bypassCache: bypassCache ?? false,
    run,
    prompts: [...(prompts ?? [])],
    guards: chosen("guards", guards, GUARDS),
    ...seeded(seed),
    ...(maxAttempts === undefined ? {} : { maxAttempts }),
    ...(sampling === undefined ? {} : { sampling }),
  };
}

/** A seed as the protos have it. */
export function seeded(seed: number | bigint | undefined): { seed?: bigint } {
  if (seed === undefined) return {};
  if ((typeof seed === "number" && !Number.isSafeInteger(seed)) || seed < 0) {
    throw new InvalidArgument(`seed is ${seed}`, { field: "seed", reason: "INVALID_ARGUMENT", hint: "give a whole number from 0 on" });
  }
  return { seed: BigInt(seed) };
}

export function augmentationSpec(sources: readonly Source[], settings: AugmentSettings): MessageInitShape<typeof AugmentationSpecSchema> {
  const { k, seed, sampling, budgetMs, allVariants, maxAttempts, bypassCache, mode, makeMissing, cascade } = settings;
  checkCount("k", k, 1);
  checkCount("maxAttempts", maxAttempts, 1);
  return {
    sources: sources.map((source) => ({
      generatorId: source.generator ?? "",
      transformation: transformation(source.transformation, source.parameters),
    })),
    partialFailure: allVariants ? PartialFailurePolicy.FAIL : PartialFailurePolicy.UNSPECIFIED,
    bypassCache: bypassCache ?? false,
    mode: chosen("mode", mode, MODES),
    ...(makeMissing === undefined ? {} : { makeMissing }),
    ...(cascade === undefined ? {} : { cascade }),
    ...seeded(seed),
    ...(k === undefined ? {} : { k }),
    ...(sampling === undefined ? {} : { sampling }),
    ...(maxAttempts === undefined ? {} : { maxAttempts }),
    ...(budgetMs === undefined ? {} : { generationBudget: duration(budgetMs) }),
  };
}

/** Milliseconds as the protos have them, to the nanosecond. */
export function duration(ms: number): { seconds: bigint; nanos: number } {
  const seconds = Math.floor(ms / 1000);
  return { seconds: BigInt(seconds), nanos: Math.round((ms - seconds * 1000) * 1e6) };
}

/** Texts with what they are known by; `start` is the place of the first one in the caller's list. */
export function itemsOf(texts: readonly Item[], start: number): MessageInitShape<typeof TextItemSchema>[] {
  return texts.map((text, index) => {
    const field = `items[${start + index}].text`;
    if (typeof text === "object" && text !== null) {
      sendable((text as Partial<TextItem>).text ?? "", field);
      return text;
    }
    return { text: sendable(text, field) };
  });
}

/** The answers to parts of a list, each with its start, as one. */
export function transformed(parts: readonly [number, TransformResponse][]): Transformed {
  const results = parts.flatMap(([start, answer]) =>
    answer.results.map((result) => {
      result.index += start;
      return result;
    }),
  );
  return {
    results,
    texts: results.map((result) => result.text),
    usage: usageOf(parts.map(([, answer]) => answer.usage)),
    summaries: parts.flatMap(([, answer]) => (answer.summary === undefined ? [] : [answer.summary])),
  };
}

/** The answers to parts of a list, each with its start and number of texts, as one. */
export function augmented(parts: readonly [number, number, EncodeAugmentedResponse][], space: VectorSpace): AugmentedEmbeddings {
  const found = parts.map(([, count, answer]) => {
    const vectors = view(answer.embeddings);
    if (vectors.rows !== count || vectors.dtype !== "f32") {
      throw new BadAnswer(`${vectors.rows} vectors of element type ${vectors.dtype} were answered to ${count} texts`, { hint: "ask again" });
    }
    return vectors as Vectors<"f32">;
  });
  const [first, ...more] = found;
  if (first === undefined) throw new BadAnswer("no vectors were answered");
  let vectors = first;
  if (more.length > 0) {
    const rows = found.reduce((sum, one) => sum + one.rows, 0);
    const data = new Float32Array(rows * first.width);
    let filled = 0;
    for (const one of found) {
      if (one.cols !== first.cols) throw new BadAnswer("two answers of one call have vectors of different widths");
      data.set(one.data, filled);
      filled += one.data.length;
    }
    vectors = new Vectors(data, rows, first.cols, "f32");
  }
  const whole = parts.every(([, count, answer]) => answer.truncated.length === count);
  return {
    vectors,
    space,
    tokenCounts: new Uint32Array(),
    truncated: whole ? parts.flatMap(([, , answer]) => answer.truncated) : undefined,
    usage: usageOf(parts.map(([, , answer]) => answer.usage)),
    errors: parts.flatMap(([start, , answer]) => itemErrors(answer.errors, start)),
    used: parts.flatMap(([start, , answer]) =>
      answer.used.map((variants) => {
        variants.index += start;
        return variants;
      }),
    ),
  };
}

