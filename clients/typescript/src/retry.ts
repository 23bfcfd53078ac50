/** When a call is made again, and how much time it has: pure rules. */

import type { IsomerError } from "./errors.js";

/**
 * How often a call is made again.
 *
 * A refusal with RetryInfo is waited out as the server asks. A broken connection is tried again
 * with growing pauses, and only for calls that may be made twice. Everything else is final.
 */
export interface RetryPolicy {
  /** Maximum number of attempts at a server that says when to come back: 8. */
  readonly overloaded: number;
  /** Maximum number of attempts at a server that cannot be reached: 6. */
  readonly unreachable: number;
  /** Milliseconds before the second attempt, doubled from attempt to attempt: 200. */
  readonly firstWaitMs: number;
  /** Maximum number of milliseconds between two attempts: 20,000. A server that asks for longer is not asked again. */
  readonly longestWaitMs: number;
}

export const DEFAULT_RETRIES: RetryPolicy = { overloaded: 8, unreachable: 6, firstWaitMs: 200, longestWaitMs: 20_000 };
/** Every call is made once. */
export const NO_RETRIES: RetryPolicy = { ...DEFAULT_RETRIES, overloaded: 1, unreachable: 1 };

/**
 * Milliseconds to wait before the next attempt; undefined where the error is final. `remaining` is
 * the time left to the call, which a wait must not use up.
 */
export function waitMs(
  policy: RetryPolicy,
  error: IsomerError,
  attempt: number,
  repeatable: boolean,
  remaining: number | undefined,
): number | undefined {
  const own = Math.min(policy.firstWaitMs * 2 ** (attempt - 1), policy.longestWaitMs);
  let wait: number;
  if (error.retryAfterMs !== undefined && (error.code === "RESOURCE_EXHAUSTED" || error.code === "UNAVAILABLE")) {
    if (attempt >= policy.overloaded || error.retryAfterMs > policy.longestWaitMs) return undefined;
    wait = Math.max(error.retryAfterMs, own);
  } else if (repeatable && (error.code === "UNAVAILABLE" || error.code === "CANCELLED")) {
    if (attempt >= policy.unreachable) return undefined;
    // Between half and all of it, so that clients of one server do not come back together.
    wait = own * (0.5 + Math.random() / 2);
  } else {
    return undefined;
  }
  return remaining === undefined || wait < remaining ? wait : undefined;
}

/** A moment by which something must be over; without milliseconds it may take for ever. */
export class Deadline {
  readonly #at: number | undefined;

  constructor(ms: number | undefined) {
    this.#at = ms === undefined ? undefined : performance.now() + ms;
  }

  remaining(): number | undefined {
    return this.#at === undefined ? undefined : Math.max(this.#at - performance.now(), 0);
  }

  /** This deadline, or one after this many milliseconds if that is earlier. */
  earlier(ms: number | undefined): Deadline {
    const remaining = this.remaining();
    return ms === undefined || (remaining !== undefined && remaining <= ms) ? this : new Deadline(ms);
  }
}
