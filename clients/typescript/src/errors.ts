/** Errors of the client: the code, the field and the hint that a server gives are properties. */

import { Code, ConnectError } from "@connectrpc/connect";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "./proto/google/rpc/error_details_pb.js";

/** Metadata of google.rpc.ErrorInfo under which servers put the hint. */
export const HINT = "mend";
/** A place in a list of the request. */
const INDEXED = /\b(inputs|items|documents|texts|pairs)\[(\d+)\]/g;

/** gRPC's codes by their numbers. */
export const CODES = [
  "OK",
  "CANCELLED",
  "UNKNOWN",
  "INVALID_ARGUMENT",
  "DEADLINE_EXCEEDED",
  "NOT_FOUND",
  "ALREADY_EXISTS",
  "PERMISSION_DENIED",
  "RESOURCE_EXHAUSTED",
  "FAILED_PRECONDITION",
  "ABORTED",
  "OUT_OF_RANGE",
  "UNIMPLEMENTED",
  "INTERNAL",
  "UNAVAILABLE",
  "DATA_LOSS",
  "UNAUTHENTICATED",
] as const;
/** The name of a gRPC code. */
export type CodeName = (typeof CODES)[number];

/** Properties of an error beside its message. */
export interface ErrorParts {
  code?: CodeName;
  reason?: string;
  field?: string;
  hint?: string;
  retryAfterMs?: number;
  metadata?: Readonly<Record<string, string>>;
  method?: string;
  attempts?: number;
  cause?: unknown;
}

/** A call that failed, or an argument that cannot be meant. */
export class IsomerError extends Error {
  /** The gRPC code of errors of this kind. */
  static readonly code: CodeName = "UNKNOWN";
  /** The gRPC code. */
  readonly code: CodeName;
  /** The stable reason of the server, e.g. `UNKNOWN_ENCODER`; empty where there is none. */
  readonly reason: string;
  /**
   * Path of the invalid field of the request, e.g. `inputs[3].text`. An index refers to the
   * caller's list, however it was split into requests.
   */
  field: string | undefined;
  /** Hint that says how to fix the error. */
  readonly hint: string | undefined;
  /** Milliseconds after which the server says that trying again makes sense. */
  readonly retryAfterMs: number | undefined;
  /** Further facts, e.g. `scope`. */
  readonly metadata: Readonly<Record<string, string>>;
  /** The rpc, e.g. `isomer.encoder.v1.EncoderService/Encode`; empty where none was made. */
  readonly method: string;
  /** How often it was made. */
  readonly attempts: number;
  /** The message: one sentence that names the field. `message` has the hint too. */
  rawMessage: string;

  constructor(message: string, parts: ErrorParts = {}) {
    super(shown(message, parts.hint), parts.cause === undefined ? undefined : { cause: parts.cause });
    this.name = new.target.name;
    this.rawMessage = message;
    this.code = parts.code ?? new.target.code;
    this.reason = parts.reason ?? "";
    this.field = parts.field;
    this.hint = parts.hint;
    this.retryAfterMs = parts.retryAfterMs;
    this.metadata = { ...parts.metadata };
    this.method = parts.method ?? "";
    this.attempts = parts.attempts ?? 1;
  }

  /** The same with places in lists counted from `start`: a request of several may hold any part of a list. */
  moved(start: number): this {
    if (start > 0) {
      const move = (text: string) => text.replace(INDEXED, (_, list: string, place: string) => `${list}[${Number(place) + start}]`);
      this.rawMessage = move(this.rawMessage);
      this.message = shown(this.rawMessage, this.hint);
      if (this.field !== undefined) this.field = move(this.field);
    }
    return this;
  }
}

function shown(message: string, hint: string | undefined): string {
  return hint === undefined || hint === "" ? message : `${message} (${hint})`;
}

/** Something in the request cannot be meant; `field` says what. */
export class InvalidArgument extends IsomerError {
  static override readonly code = "INVALID_ARGUMENT";
}

/** An encoder, generator, run, key, … that is not there. */
export class NotFound extends IsomerError {
  static override readonly code = "NOT_FOUND";
}

/** An id that is taken. */
export class AlreadyExists extends IsomerError {
  static override readonly code = "ALREADY_EXISTS";
}

/** No key, or one that is unknown, revoked or expired: see `reason`. */
export class Unauthenticated extends IsomerError {
  static override readonly code = "UNAUTHENTICATED";
}

/** A key without the scope that is needed: see `metadata.scope`. */
export class PermissionDenied extends IsomerError {
  static override readonly code = "PERMISSION_DENIED";
}

/** Overload, a rate limit or a spent budget: see `reason` and `retryAfterMs`. */
export class ResourceExhausted extends IsomerError {
  static override readonly code = "RESOURCE_EXHAUSTED";
}

/** A request that is valid, while something that it depends on is not. */
export class FailedPrecondition extends IsomerError {
  static override readonly code = "FAILED_PRECONDITION";
}

/** This client is older than any that the server serves: `metadata.oldest_client` says which it serves. */
export class ClientTooOld extends FailedPrecondition {}

/** Somebody else changed the same thing, or a text failed where none may. */
export class Aborted extends IsomerError {
  static override readonly code = "ABORTED";
}

/** The server or encoder does not support the request. */
export class Unimplemented extends IsomerError {
  static override readonly code = "UNIMPLEMENTED";
}

/** The server, or something behind it, cannot be reached. */
export class Unavailable extends IsomerError {
  static override readonly code = "UNAVAILABLE";
}

/** No answer within the time allowed. */
export class DeadlineExceeded extends IsomerError {
  static override readonly code = "DEADLINE_EXCEEDED";
}

/** The caller cancelled: `cause` is the reason of its AbortSignal. */
export class Cancelled extends IsomerError {
  static override readonly code = "CANCELLED";
}

/** A defect of the server's. */
export class ServerFault extends IsomerError {
  static override readonly code = "INTERNAL";
}

/** An answer that does not fit its request: too few rows, bytes that are missing. */
export class BadAnswer extends IsomerError {
  static override readonly code = "DATA_LOSS";
}

const KINDS: readonly (typeof IsomerError)[] = [
  InvalidArgument,
  NotFound,
  AlreadyExists,
  Unauthenticated,
  PermissionDenied,
  ResourceExhausted,
  FailedPrecondition,
  Aborted,
  Unimplemented,
  Unavailable,
  DeadlineExceeded,
  Cancelled,
  ServerFault,
  BadAnswer,
];
const BY_CODE = new Map(KINDS.map((kind) => [kind.code, kind]));

/** The name of a code by its number; `UNKNOWN` for a number that is none. */
export function codeName(number: number): CodeName {
  return CODES[number] ?? "UNKNOWN";
}

/** The error for a failed call, with what its details say. */
export function fromRpc(thrown: unknown, method: string, attempts: number): IsomerError {
  if (thrown instanceof IsomerError) return thrown;
  const error = ConnectError.from(thrown, Code.Unavailable);
  const said = error.details.length > 0 || !error.metadata.keys().next().done;
  const code = codeName(said ? error.code : localCode(error));
  const parts: ErrorParts = { code, method, attempts };
  // It has everything that a server said. The cause of a broken connection is in its error alone.
  if (!said) parts.cause = thrown;
  for (const info of error.findDetails(ErrorInfoSchema)) {
    const { [HINT]: hint, ...metadata } = info.metadata;
    parts.reason = info.reason;
    parts.metadata = metadata;
    if (hint !== undefined) parts.hint = hint;
  }
  for (const bad of error.findDetails(BadRequestSchema)) {
    const first = bad.fieldViolations[0];
    if (first !== undefined) parts.field = first.field;
  }
  for (const { retryDelay } of error.findDetails(RetryInfoSchema)) {
    if (retryDelay !== undefined) parts.retryAfterMs = Number(retryDelay.seconds) * 1000 + retryDelay.nanos / 1e6;
  }
  const kind = parts.reason === "CLIENT_TOO_OLD" ? ClientTooOld : (BY_CODE.get(code) ?? IsomerError);
  return new kind(error.rawMessage || code, parts);
}

/**
 * The code of a failed call of which no server said anything: a connection broke or never was made.
 * The transports give a dozen codes for that, from `aborted` to `internal`; it is UNAVAILABLE here, as
 * in gRPC's own clients.
 */
function localCode(error: ConnectError): Code {
  const own = error.code === Code.DeadlineExceeded || /^(parse|serialize|decode) /.test(error.rawMessage);
  return own ? error.code : Code.Unavailable;
}
