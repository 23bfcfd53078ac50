/** Encoders and rerankers as models of the AI SDK (the npm package `ai`, 5 and later). */

import type { Client, EncodeOptions } from "./client.js";
import { InvalidArgument } from "./errors.js";

/** The SDK's model interface: `v2` for `ai` 5 and later, `v3` for 6 and later, `v4` for 7 and later. */
export type Specification = "v2" | "v3" | "v4";

/** Options for an encoder's vectors: those of `encode`. */
export type EmbeddingSettings = Pick<
  EncodeOptions,
  "role" | "prompt" | "promptName" | "dimensions" | "normalise" | "truncation" | "priority" | "collection"
>;

/** Values that the SDK passes to an embedding model. */
export interface EmbedCall {
  values: string[];
  /** Columns to keep (`v4`). */
  dimensions?: number | undefined;
  abortSignal?: AbortSignal | undefined;
  /** `{ isomer: { role: "query" } }` and other settings of one call. */
  providerOptions?: Record<string, Record<string, unknown> | undefined> | undefined;
  headers?: Record<string, string | undefined> | undefined;
}

/** An embedding model as the SDK takes it. */
export interface EmbeddingModel<S extends Specification> {
  readonly specificationVersion: S;
  readonly provider: "isomer";
  readonly modelId: string;
  /** No limit: the client splits lists by the encoder's own. */
  readonly maxEmbeddingsPerCall: number;
  readonly supportsParallelCalls: true;
  doEmbed(call: EmbedCall): Promise<{
    embeddings: number[][];
    usage: { tokens: number };
    providerMetadata: { isomer: { vectorSpace: string; truncated: number } };
    warnings: [];
  }>;
}

/** Values that the SDK passes to a reranking model. */
export interface RerankCall {
  query: string;
  documents: { type: "text"; values: string[] } | { type: "object"; values: unknown[] };
  topN?: number | undefined;
  abortSignal?: AbortSignal | undefined;
  providerOptions?: Record<string, Record<string, unknown> | undefined> | undefined;
  headers?: Record<string, string | undefined> | undefined;
}

/** A reranking model as the SDK takes it. */
export interface RerankingModel<S extends Exclude<Specification, "v2">> {
  readonly specificationVersion: S;
  readonly provider: "isomer";
  readonly modelId: string;
  doRerank(call: RerankCall): Promise<{ ranking: { index: number; relevanceScore: number }[]; warnings: [] }>;
}

const SETTINGS = ["role", "prompt", "promptName", "dimensions", "normalise", "truncation", "priority"] as const;

/**
 * The encoders of a client as models of the AI SDK.
 *
 * Retries are the client's: pass `maxRetries: 0` to the SDK.
 */
export function createIsomer(client: Client): {
  /** An encoder. Its `specification` is `v2` unless given, which every `ai` since 5 takes. */
  embeddingModel<S extends Specification = "v2">(encoder: string, settings?: EmbeddingSettings & { specification?: S }): EmbeddingModel<S>;
  /** A cross-encoder, for `rerank` of `ai` 6 and later. Its `specification` is `v3` unless given. */
  rerankingModel<S extends Exclude<Specification, "v2"> = "v3">(encoder: string, settings?: { label?: string; specification?: S }): RerankingModel<S>;
} {
  return {
    embeddingModel<S extends Specification = "v2">(encoder: string, { specification, ...settings }: EmbeddingSettings & { specification?: S } = {}) {
      return {
        specificationVersion: specification ?? ("v2" as S),
        provider: "isomer",
        modelId: encoder,
        maxEmbeddingsPerCall: Infinity,
        supportsParallelCalls: true,
        async doEmbed({ values, dimensions, abortSignal, providerOptions }) {
          const options: EncodeOptions = { encoder, ...settings, ...given(providerOptions?.["isomer"]) };
          if (dimensions !== undefined) options.dimensions = dimensions;
          const found = await aborting(abortSignal, (signal) => client.encode(values, { ...options, ...signal }));
          const truncated = found.truncated?.filter(Boolean).length ?? 0;
          return {
            embeddings: found.vectors.toArrays(),
            usage: { tokens: found.usage.tokens },
            providerMetadata: { isomer: { vectorSpace: found.space.digest, truncated } },
            warnings: [],
          };
        },
      };
    },
    rerankingModel<S extends Exclude<Specification, "v2"> = "v3">(encoder: string, settings: { label?: string; specification?: S } = {}) {
      const { specification, ...more } = settings;
      return {
        specificationVersion: specification ?? ("v3" as S),
        provider: "isomer",
        modelId: encoder,
        async doRerank({ query, documents, topN, abortSignal }) {
          const texts = documents.type === "text" ? documents.values : documents.values.map((value) => JSON.stringify(value));
          const options = { encoder, ...more, ...(topN === undefined ? {} : { topN }) };
          const found = await aborting(abortSignal, (signal) => client.rerank(query, texts, { ...options, ...signal }));
          return { ranking: found.results.map(({ index, score }) => ({ index, relevanceScore: score })), warnings: [] };
        },
      };
    },
  };
}

/** Settings of one call. A misspelt one would change the vectors without a word. */
function given(options: Record<string, unknown> = {}): Partial<EmbeddingSettings> {
  for (const name of Object.keys(options)) {
    if (!(SETTINGS as readonly string[]).includes(name)) {
      const field = `providerOptions.isomer.${name}`;
      throw new InvalidArgument(`there is no setting \`${name}\``, { field, hint: `one of ${SETTINGS.join(", ")}` });
    }
  }
  return options;
}

/** The SDK knows cancelled calls by the reason of their signal. */
async function aborting<T>(signal: AbortSignal | undefined, call: (options: { signal?: AbortSignal }) => Promise<T>): Promise<T> {
  try {
    return await call(signal === undefined ? {} : { signal });
  } catch (error) {
    throw signal?.aborted ? signal.reason : error;
  }
}
