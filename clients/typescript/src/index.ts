/**
 * Client of Isomer: texts to vectors, transformations, scores and robustness checks, over gRPC,
 * gRPC-Web and Connect.
 */

export { Client, type EncodeOptions, type OutputsOptions, type RerankOptions, type TokenOptions } from "./client.js";
export type { CallOptions } from "./connection.js";
export { type OidcOptions, Token, type TokenSource, oidcClientCredentials } from "./credentials.js";
export type { OutputName, PriorityName, PromptOptions, Text, TruncationName } from "./encoding.js";
export {
  Aborted,
  AlreadyExists,
  BadAnswer,
  Cancelled,
  ClientTooOld,
  type CodeName,
  DeadlineExceeded,
  FailedPrecondition,
  InvalidArgument,
  IsomerError,
  NotFound,
  PermissionDenied,
  ResourceExhausted,
  ServerFault,
  Unauthenticated,
  Unavailable,
  Unimplemented,
} from "./errors.js";
export type { ScoreOptions, Series, SpecOptions, StatisticsOptions } from "./evaluation.js";
export { Runs, Statistics, Tasks } from "./evaluation.js";
export { Keys, Providers, type Scope } from "./gateway.js";
export { type DataOf, type DtypeName, type Rows, type VectorData, Vectors, packed, view } from "./matrix.js";
export {
  type AugmentedEmbeddings,
  type Embeddings,
  type ItemError,
  NewKey,
  type Outputs,
  type Ranked,
  type Ranking,
  type Report,
  type SparseEmbeddings,
  type SparseVector,
  TextsFailed,
  type TokenEmbeddings,
  type Transformed,
  type Usage,
  cosine,
} from "./results.js";
export { NO_RETRIES, type RetryPolicy } from "./retry.js";
export type { ClientOptions, Protocol, Tls } from "./settings.js";
export { Collection, SpaceMismatch, type VectorSpace, comparable, differing } from "./spaces.js";
export { ATTEMPT, telemetryInterceptor } from "./telemetry.js";
export type { EncodeAugmentedOptions } from "./transform.js";
export { Transformations } from "./transform.js";
export type { AugmentSettings, Cascade, Item, Parameters, Sampling, Source, TransformSettings, Transformation } from "./transforming.js";
export { VERSION } from "./version.js";
