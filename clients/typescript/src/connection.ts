/** Calls over one transport: one retry loop, several requests in flight, cancelling. */

import type { DescMessage, DescMethodServerStreaming, DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { type Transport, createContextValues } from "@connectrpc/connect";
import * as platform from "#platform";
import { type Token, asToken } from "./credentials.js";
import { Cancelled, DeadlineExceeded, IsomerError, fromRpc } from "./errors.js";
import { METHODS } from "./methods.js";
import { Deadline, waitMs } from "./retry.js";
import { type Settings, checkTimeout } from "./settings.js";
import { ATTEMPT, telemetryInterceptor } from "./telemetry.js";
import { VERSION } from "./version.js";

/** How long a call of a client's may take, with all of its requests, and what ends it. */
export interface CallOptions {
  /** Milliseconds for all requests of the call together. */
  timeoutMs?: number;
  /** Cancels the call: it throws Cancelled. */
  signal?: AbortSignal;
}

/** The largest `grpc-timeout` that has eight digits of milliseconds: 27 hours. */
const LONGEST_MS = 99_999_999;

/** One call of the caller's, of any number of requests. */
export class Operation {
  readonly deadline: Deadline;
  readonly signal: AbortSignal | undefined;

  constructor(options: CallOptions = {}, deadline?: Deadline) {
    if (deadline === undefined) checkTimeout(options.timeoutMs);
    this.deadline = deadline ?? new Deadline(options.timeoutMs);
    this.signal = options.signal;
  }

  /** Throws if the caller has cancelled. */
  check(): void {
    if (this.signal?.aborted) throw cancelled(this.signal);
  }
}

function cancelled(signal: AbortSignal): Cancelled {
  return new Cancelled("the call was cancelled", { cause: signal.reason });
}

/** A promise, or Cancelled as soon as the signal is aborted. */
async function unless<T>(signal: AbortSignal | undefined, promise: PromiseLike<T>): Promise<T> {
  if (signal === undefined) return promise;
  let stop = () => {};
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(cancelled(signal));
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
  });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

/** A controller that a signal aborts too, until it is let go. */
function linked(signal: AbortSignal | undefined): { controller: AbortController; release: () => void } {
  const controller = new AbortController();
  const abort = () => controller.abort(signal?.reason);
  if (signal?.aborted) abort();
  else signal?.addEventListener("abort", abort, { once: true });
  return { controller, release: () => signal?.removeEventListener("abort", abort) };
}

async function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  try {
    await unless(signal, new Promise<void>((resolve) => (timer = setTimeout(resolve, ms))));
  } finally {
    clearTimeout(timer);
  }
}

/** A server, and what goes with each call to it. */
export class Connection {
  readonly settings: Settings;
  readonly #transport: Transport;
  readonly #close: (idle: boolean) => void;
  #closed = false;
  /** Calls in flight. */
  #calls = 0;
  #token: Token | undefined;
  #asking: Promise<Token> | undefined;

  constructor(settings: Settings) {
    this.settings = settings;
    const interceptors = [...settings.interceptors, ...(settings.telemetry === false ? [] : [telemetryInterceptor()])];
    const made = settings.transport ? { transport: settings.transport, close: () => {} } : platform.connected(settings, interceptors);
    this.#transport = made.transport;
    this.#close = made.close;
  }

  close(): void {
    this.#closed = true;
    this.#close(this.#calls === 0);
  }

  /** A call with one answer, retried as the policy says. */
  async call<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    operation: Operation = new Operation(),
  ): Promise<MessageShape<O>> {
    const deadline = operation.deadline.earlier(this.settings.timeoutMs ?? undefined);
    for (let attempt = 1; ; attempt++) {
      let token: Token | undefined;
      try {
        token = await this.#currentToken(operation.signal);
        return await this.#attempt(method, request, operation, deadline, token, attempt);
      } catch (error) {
        // Other errors that a token source throws are the caller's own.
        if (!(error instanceof IsomerError)) throw error;
        await this.#pause(error, pathOf(method), deadline, operation.signal, attempt, token);
      }
    }
  }

  async #attempt<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    operation: Operation,
    deadline: Deadline,
    token: Token | undefined,
    attempt: number,
  ): Promise<MessageShape<O>> {
    this.#calls++;
    try {
      const header = this.#header(token);
      const timeoutMs = this.#left(deadline, pathOf(method), attempt);
      const values = createContextValues().set(ATTEMPT, attempt);
      return (await this.#transport.unary(method, operation.signal, timeoutMs, header, request, values)).message;
    } catch (thrown) {
      throw this.#error(thrown, method, operation, attempt);
    } finally {
      this.#calls--;
    }
  }

  /** A call with many answers, made once: what resumes it knows where it stood. Leaving it cancels it. */
  async *stream<I extends DescMessage, O extends DescMessage>(
    method: DescMethodServerStreaming<I, O>,
    request: MessageInitShape<I>,
    operation: Operation,
    attempt = 1,
  ): AsyncGenerator<MessageShape<O>> {
    const token = await this.#currentToken(operation.signal);
    const { controller, release } = linked(operation.signal);
    this.#calls++;
    try {
      const header = this.#header(token);
      const timeoutMs = this.#left(operation.deadline, pathOf(method), attempt);
      const values = createContextValues().set(ATTEMPT, attempt);
      const once = (async function* () {
        yield request;
      })();
      const answer = await this.#transport.stream(method, controller.signal, timeoutMs, header, once, values);
      for await (const message of answer.message) yield message;
    } catch (thrown) {
      throw this.#error(thrown, method, operation, attempt);
    } finally {
      this.#calls--;
      release();
      controller.abort();
    }
  }

  /** Waits before a stream is restarted; throws the error if a restart makes no sense. */
  async pause(error: IsomerError, method: { parent: { typeName: string }; name: string }, operation: Operation, attempt: number): Promise<void> {
    await this.#pause(error, pathOf(method), operation.deadline, operation.signal, attempt);
  }

  /**
   * `work` of each item, `inFlight` of them at once; results in the order of the items.
   *
   * Items are read only as far as they are worked on. Leaving it, or an error of any item, cancels
   * the others.
   */
  async *ordered<T, U>(
    items: AsyncIterable<T> | Iterable<T>,
    work: (item: T, operation: Operation) => Promise<U>,
    operation: Operation,
  ): AsyncGenerator<U> {
    const source = Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]();
    const { controller, release } = linked(operation.signal);
    const inner = new Operation({ signal: controller.signal }, operation.deadline);
    const waiting: Promise<U>[] = [];
    let more = true;
    let reading = false;
    try {
      for (;;) {
        while (more && waiting.length < this.settings.inFlight) {
          reading = true;
          const next = await unless(operation.signal, Promise.resolve(source.next()));
          reading = false;
          if (next.done) {
            more = false;
            break;
          }
          const answer = work(next.value, inner);
          // Whether it failed is looked at in its turn.
          answer.catch(() => {});
          waiting.push(answer);
        }
        const first = waiting.shift();
        if (first === undefined) return;
        yield await first;
      }
    } finally {
      release();
      controller.abort();
      // An iterator that waits for its next item cannot be asked to end: it is left.
      if (more && !reading) await source.return?.();
      await Promise.allSettled(waiting);
    }
  }

  #error(thrown: unknown, method: { parent: { typeName: string }; name: string }, operation: Operation, attempt: number): IsomerError {
    if (operation.signal?.aborted) return thrown instanceof Cancelled ? thrown : cancelled(operation.signal);
    if (this.#closed) return closed();
    return fromRpc(thrown, pathOf(method), attempt);
  }

  async #pause(
    error: IsomerError,
    path: string,
    deadline: Deadline,
    signal: AbortSignal | undefined,
    attempt: number,
    token?: Token,
  ): Promise<void> {
    if (signal?.aborted || this.#closed) throw error;
    if (attempt === 1 && token !== undefined && error.code === "UNAUTHENTICATED") {
      // A token was refused that a new one may replace: then once more, at once.
      if (this.#token === token) this.#token = undefined;
      return;
    }
    const wait = waitMs(this.settings.retries, error, attempt, METHODS.get(path) ?? false, deadline.remaining());
    if (wait === undefined) throw error;
    await sleep(wait, signal);
  }

  #left(deadline: Deadline, method: string, attempts: number): number | undefined {
    const remaining = deadline.remaining();
    if (remaining === undefined) return undefined;
    if (remaining <= 0) throw new DeadlineExceeded("the time of the call is over", { method, attempts });
    return Math.min(Math.ceil(remaining), LONGEST_MS);
  }

  #header(token: Token | undefined): Headers {
    if (this.#closed) throw closed();
    const header = new Headers(this.settings.metadata);
    header.set(platform.USER_AGENT_HEADER, `isomer-client-js/${VERSION}`);
    const secret = token?.value ?? this.settings.key;
    if (secret !== undefined) header.set("authorization", `Bearer ${secret}`);
    return header;
  }

  /** The token, requested once for all calls that wait for it; undefined where there is no source. */
  async #currentToken(signal: AbortSignal | undefined): Promise<Token | undefined> {
    const source = this.settings.token;
    if (source === undefined || this.#token?.usable()) return this.#token;
    this.#asking ??= Promise.resolve()
      .then(source)
      .then(asToken)
      .then((token) => (this.#token = token))
      .finally(() => (this.#asking = undefined));
    return unless(signal, this.#asking);
  }
}

function closed(): IsomerError {
  return new Cancelled("the client is closed", { hint: "make a new one" });
}

function pathOf(method: { parent: { typeName: string }; name: string }): string {
  return `${method.parent.typeName}/${method.name}`;
}
