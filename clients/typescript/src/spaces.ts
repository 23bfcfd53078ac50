/** Vector spaces, and what keeps vectors of two of them apart. */

import { IsomerError } from "./errors.js";
import type { VectorSpace as Message } from "./proto/isomer/common/v1/common_pb.js";

/** Properties that vectors must share to be compared; see the message of that name for each field. */
export interface VectorSpace {
  readonly digest: string;
  readonly modelId: string;
  readonly weightsDigest: string;
  readonly prompt: string;
  readonly pooling: string;
  readonly normalised: boolean;
  readonly dimensions: number;
  readonly dtype: number;
  readonly augmentation: string;
  readonly quantisation: string;
  readonly settingsDigest: string;
}

/** Fields, the digest last, which follows from the others. */
const FIELDS = [
  "modelId",
  "weightsDigest",
  "prompt",
  "pooling",
  "normalised",
  "dimensions",
  "dtype",
  "augmentation",
  "quantisation",
  "settingsDigest",
  "digest",
] as const;

/** A plain object of the message: it can be stored as JSON beside an index. */
export function spaceOf(message: Message | undefined): VectorSpace {
  return {
    digest: message?.digest ?? "",
    modelId: message?.modelId ?? "",
    weightsDigest: message?.weightsDigest ?? "",
    prompt: message?.prompt ?? "",
    pooling: message?.pooling ?? "",
    normalised: message?.normalised ?? false,
    dimensions: message?.dimensions ?? 0,
    dtype: message?.dtype ?? 0,
    augmentation: message?.augmentation ?? "",
    quantisation: message?.quantisation ?? "",
    settingsDigest: message?.settingsDigest ?? "",
  };
}

/** Names of the fields that differ. */
export function differing(one: VectorSpace, other: VectorSpace): (keyof VectorSpace)[] {
  return FIELDS.filter((field) => one[field] !== other[field]);
}

/** Whether vectors of the two may be compared: one space, or two that differ in the prompt alone. */
export function comparable(one: VectorSpace, other: VectorSpace): boolean {
  return one.digest === other.digest || differing(one, other).every((field) => field === "prompt" || field === "digest");
}

/** Vectors of two spaces where one is expected. They must not be compared or stored together. */
export class SpaceMismatch extends IsomerError {
  static override readonly code = "FAILED_PRECONDITION";
  readonly expected: VectorSpace;
  readonly found: VectorSpace;
  /** Names of the fields that differ. */
  readonly differing: readonly (keyof VectorSpace)[];

  constructor(expected: VectorSpace, found: VectorSpace, whose: string) {
    const fields = differing(expected, found);
    const told = fields
      .filter((field) => field !== "digest")
      .map((field) => `${field} ${JSON.stringify(found[field])} in place of ${JSON.stringify(expected[field])}`)
      .join(", ");
    super(`vectors of another space than those of ${whose}: ${told || `digest ${found.digest}`}`, {
      reason: "SPACE_MISMATCH",
      field: "vector_space",
      hint: "encode everything again into a collection of its own, or ask the encoder that the first vectors came from",
    });
    this.expected = expected;
    this.found = found;
    this.differing = fields;
  }
}

/**
 * The space of vectors that are kept together, e.g. in one index.
 *
 * The first vectors decide which one it is, or `space` does. Vectors that cannot be compared with
 * it throw SpaceMismatch. Queries and documents may have prompts of their own. One collection may
 * be used with several clients.
 */
export class Collection {
  readonly name: string;
  #space: VectorSpace | undefined;

  constructor(name = "", space?: VectorSpace) {
    this.name = name;
    this.#space = space;
  }

  /** The space of the first vectors; store it as JSON beside an index. */
  get space(): VectorSpace | undefined {
    return this.#space;
  }

  /** Throws SpaceMismatch unless vectors of `found` belong here. */
  check(found: VectorSpace): void {
    this.#space ??= found;
    if (!comparable(this.#space, found)) {
      throw new SpaceMismatch(this.#space, found, this.name ? `the collection \`${this.name}\`` : "the collection");
    }
  }
}

/** The spaces that a client has seen: the same question must not be answered in another space later. */
export class Known {
  readonly #spaces = new Map<string, VectorSpace>();

  check(encoder: string, asked: string, found: VectorSpace): void {
    const key = JSON.stringify([encoder, asked]);
    const expected = this.#spaces.get(key);
    if (expected === undefined) this.#spaces.set(key, found);
    else if (expected.digest !== found.digest) throw new SpaceMismatch(expected, found, `\`${encoder}\` before`);
  }
}
