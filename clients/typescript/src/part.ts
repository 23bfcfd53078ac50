/** State that all parts of the client share: the connection, and lists that come in pages. */

import type { DescMessage, DescMethodServerStreaming, DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { type CallOptions, type Connection, Operation } from "./connection.js";
import { BadAnswer, IsomerError } from "./errors.js";

/** Some of a client's methods. */
export class Part {
  protected readonly connection: Connection;

  constructor(connection: Connection) {
    this.connection = connection;
    // Printing a client shows neither its settings nor its key.
    Object.defineProperty(this, "connection", { enumerable: false });
  }

  protected ask<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    options: CallOptions = {},
  ): Promise<MessageShape<O>> {
    return this.connection.call(method, request, new Operation(options));
  }

  /** The entries of every page, each page fetched when the one before is used up. */
  protected async *pages<T>(options: CallOptions, page: (token: string, operation: Operation) => Promise<[readonly T[], string]>): AsyncGenerator<T> {
    const operation = new Operation(options);
    let token = "";
    do {
      const [entries, next] = await page(token, operation);
      yield* entries;
      token = next;
    } while (token !== "");
  }

  /** A stream, begun again where its connection breaks, with a request that knows how far it came. */
  protected async *resumed<I extends DescMessage, O extends DescMessage>(
    method: DescMethodServerStreaming<I, O>,
    request: () => MessageInitShape<I>,
    options: CallOptions,
    over: (answer: MessageShape<O>) => boolean,
  ): AsyncGenerator<MessageShape<O>> {
    const operation = new Operation(options);
    for (let attempt = 1; ; attempt++) {
      try {
        for await (const answer of this.connection.stream(method, request(), operation, attempt)) {
          attempt = 1;
          yield answer;
          if (over(answer)) return;
        }
        return;
      } catch (error) {
        if (!(error instanceof IsomerError)) throw error;
        await this.connection.pause(error, method, operation, attempt);
      }
    }
  }
}

/** All results of a generator. */
export async function collect<T>(results: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const one of results) found.push(one);
  return found;
}

/** Places of a request's lists in an error, as places of the caller's list. */
export async function moved<T>(start: number, call: Promise<T>): Promise<T> {
  try {
    return await call;
  } catch (error) {
    // A request refused before it is sent has its index already.
    throw error instanceof IsomerError && error.method !== "" ? error.moved(start) : error;
  }
}

/** The message that an answer is there to carry. */
export function some<T>(message: T | undefined, what: string): T {
  if (message === undefined) throw new BadAnswer(`the answer has no ${what}`, { hint: "ask again; if it stays so, the server is at fault" });
  return message;
}
