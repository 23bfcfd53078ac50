/** Texts to texts, and vectors of texts with their variants (GASE). */

import { create, toBinary } from "@bufbuild/protobuf";
import { type CallOptions, Operation } from "./connection.js";
import { Asked, type Batch, Checker, type PromptOptions, batches, checkCount, chosen, notOneText, promptOf } from "./encoding.js";
import { IsomerError } from "./errors.js";
import { Part, collect, moved } from "./part.js";
import {
  AugmentationService,
  AugmentationSpecSchema,
  type EncodeAugmentedResponse,
  type GenerationEstimate,
  type InspectResponse_Finding,
  type JudgeResponse,
  type TransformResponse,
  type TransformResult,
  TransformService,
  type TransformationInfo,
  type Variants,
} from "./proto/isomer/transform/v1/transform_pb.js";
import { type AugmentedEmbeddings, type Transformed, failed } from "./results.js";
import type { Collection, Known } from "./spaces.js";
import {
  type AugmentSettings,
  type Item,
  POOLINGS,
  type Parameters,
  SCALES,
  type Source,
  type TransformSettings,
  type Transformation,
  augmentationSpec,
  augmented,
  evidenceOf,
  itemsOf,
  seeded,
  transformSpec,
  transformation as transformationOf,
  transformed,
} from "./transforming.js";

/** Options of `encodeAugmented`, beside the sources. */
export interface EncodeAugmentedOptions extends CallOptions, AugmentSettings, Omit<PromptOptions, "role"> {
  encoder: string;
  /** `mean` unless given; `weighted` with `originalWeight`. */
  pooling?: keyof typeof POOLINGS;
  originalWeight?: number;
  normaliseBefore?: boolean;
  normaliseAfter?: boolean;
  dimensions?: number;
  /** With `cascade`: scores of the plain search of each text, best first; without it all vectors are plain. */
  evidence?: readonly (readonly number[])[];
  collection?: Collection;
  /** Whether texts that fail leave rows of zeros; without it they throw TextsFailed. */
  partial?: boolean;
}

/** Calls of TransformService and AugmentationService. */
export class Transformations extends Part {
  protected readonly known: Known | undefined;

  /** The catalogue, with axis and prompts of each. */
  transformations(options: CallOptions = {}): AsyncGenerator<TransformationInfo> {
    return this.pages(options, async (pageToken, operation) => {
      const answer = await this.connection.call(TransformService.method.listTransformations, { pageToken }, operation);
      return [answer.transformations, answer.nextPageToken];
    });
  }

  /** Any number of texts, transformed, in their order. `transformation` is a name of the catalogue, e.g. `paraphrase`. */
  async transform(texts: Iterable<Item>, transformation: Transformation, options: TransformSettings & CallOptions = {}): Promise<Transformed> {
    notOneText(texts);
    const spec = transformSpec(transformation, options);
    const one = async ({ start, texts }: Batch<Item>, operation: Operation): Promise<[number, TransformResponse]> => {
      const call = this.connection.call(TransformService.method.transform, { spec, items: itemsOf(texts, start) }, operation);
      return [start, await moved(start, call)];
    };
    return transformed(await collect(this.connection.ordered(this.#batches(texts), one, new Operation(options))));
  }

  /** The same, each result as it comes, in any order: `index` says which text it is. Made once, without retries. */
  async *transformStream(
    texts: Iterable<Item>,
    transformation: Transformation,
    options: TransformSettings & CallOptions = {},
  ): AsyncGenerator<TransformResult> {
    notOneText(texts);
    const spec = transformSpec(transformation, options);
    const operation = new Operation(options);
    for await (const { start, texts: some } of this.#batches(texts)) {
      const request = { spec, items: itemsOf(some, start) };
      try {
        for await (const { event } of this.connection.stream(TransformService.method.transformStream, request, operation)) {
          if (event.case !== "result") continue;
          event.value.index += start;
          yield event.value;
        }
      } catch (error) {
        throw error instanceof IsomerError && error.method !== "" ? error.moved(start) : error;
      }
    }
  }

  #batches(texts: Iterable<Item>): AsyncGenerator<Batch<Item>> {
    return batches(texts, this.connection.settings.batchItems, this.connection.settings.batchBytes);
  }

  /** Estimates the requests of `transform` to the generator. It costs nothing. */
  async estimate(
    texts: Iterable<Item>,
    transformation: Transformation,
    options: TransformSettings & CallOptions = {},
  ): Promise<GenerationEstimate | undefined> {
    notOneText(texts);
    const request = { spec: transformSpec(transformation, options), items: itemsOf([...texts], 0) };
    return (await this.ask(TransformService.method.estimate, request, options)).estimate;
  }

  /** The error checks and measures of pairs of an original and a transformed text. */
  async inspect(
    pairs: readonly (readonly [string, string])[],
    options: { transformation?: Transformation; parameters?: Parameters } & CallOptions = {},
  ): Promise<InspectResponse_Finding[]> {
    const request = {
      pairs: pairs.map(([original, changed]) => ({ original, transformed: changed })),
      transformation: transformationOf(options.transformation ?? "paraphrase", options.parameters),
    };
    return (await this.ask(TransformService.method.inspect, request, options)).findings;
  }

  /** Pairs of an original and a transformed text, rated by a language model: `similarity`, `quality` or `fluency`. */
  judge(
    pairs: readonly (readonly [string, string])[],
    options: { scale?: keyof typeof SCALES; generator?: string; seed?: number | bigint; maxAttempts?: number } & CallOptions = {},
  ): Promise<JudgeResponse> {
    const { scale = "similarity", generator = "", seed, maxAttempts } = options;
    checkCount("maxAttempts", maxAttempts, 1);
    const request = {
      pairs: pairs.map(([original, changed]) => ({ original, transformed: changed })),
      scale: chosen("scale", scale, SCALES),
      generatorId: generator,
      ...seeded(seed),
      ...(maxAttempts === undefined ? {} : { maxAttempts }),
    };
    return this.ask(TransformService.method.judge, request, options);
  }

  /** Variants of texts, without vectors. */
  async augment(texts: Iterable<Item>, sources: readonly Source[], options: AugmentSettings & CallOptions = {}): Promise<Variants[]> {
    notOneText(texts);
    const request = { spec: augmentationSpec(sources, options), items: itemsOf([...texts], 0) };
    return (await this.ask(AugmentationService.method.augment, request, options)).items;
  }

  /** Vectors pooled of texts and their variants (GASE), in the order of the texts. */
  async encodeAugmented(texts: Iterable<Item>, sources: readonly Source[], options: EncodeAugmentedOptions): Promise<AugmentedEmbeddings> {
    notOneText(texts);
    // With evidence the number of texts has to be known.
    const all = options.evidence === undefined ? texts : [...texts];
    const evidence = evidenceOf(options.evidence, Array.isArray(all) ? all.length : 0);
    const spec = augmentationSpec(sources, options);
    const prompt = promptOf(undefined, options);
    const pooling = chosen("pooling", options.pooling, POOLINGS);
    const { encoder, originalWeight, normaliseBefore, normaliseAfter, dimensions, partial } = options;
    const asked = new Asked(encoder, prompt, { dimensions });
    const marks = [toBinary(AugmentationSpecSchema, create(AugmentationSpecSchema, spec)).join(), pooling, originalWeight, normaliseBefore, normaliseAfter];
    // The space depends on these too: the same question has one space.
    const checker = new Checker(asked, options.collection, this.known, JSON.stringify([asked.question(), marks]));
    const one = async ({ start, texts }: Batch<Item>, operation: Operation): Promise<[number, number, EncodeAugmentedResponse]> => {
      const request = {
        spec,
        items: itemsOf(texts, start),
        encoderId: encoder,
        pooling,
        promptName: prompt.name ?? "",
        ...(originalWeight === undefined ? {} : { originalWeight }),
        ...(normaliseBefore === undefined ? {} : { normaliseBefore }),
        ...(normaliseAfter === undefined ? {} : { normaliseAfter }),
        ...(prompt.literal === undefined ? {} : { literalPrompt: prompt.literal }),
        ...(dimensions === undefined ? {} : { dimensions }),
        evidence: evidence.slice(start, start + texts.length),
      };
      const call = this.connection.call(AugmentationService.method.encodeAugmented, request, operation);
      return [start, texts.length, await moved(start, call)];
    };
    const parts: [number, number, EncodeAugmentedResponse][] = [];
    for await (const part of this.connection.ordered(this.#batches(all), one, new Operation(options))) {
      checker.space(part[2]);
      parts.push(part);
    }
    const space = checker.found();
    const whole = augmented(parts, space);
    if (partial !== true) failed(whole.errors, whole);
    return whole;
  }
}
