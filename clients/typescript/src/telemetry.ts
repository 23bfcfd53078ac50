/** A client span of each attempt and its `traceparent`, with OpenTelemetry's API. Without an SDK both are nothing. */

import { type Interceptor, type StreamResponse, type UnaryResponse, createContextKey } from "@connectrpc/connect";
import { type Span, SpanKind, SpanStatusCode, context, propagation, trace } from "@opentelemetry/api";
import { CODES, fromRpc } from "./errors.js";
import { VERSION } from "./version.js";

/** Number of the attempt at a call, for interceptors. */
export const ATTEMPT = createContextKey(1, { description: "attempt of an Isomer call" });

/** For clients that are made of the generated services too. No attribute holds texts or keys. */
export function telemetryInterceptor(): Interceptor {
  return (next) => async (request) => {
    const method = `${request.service.typeName}/${request.method.name}`;
    const url = new URL(request.url);
    const attempt = request.contextValues.get(ATTEMPT);
    const span = trace.getTracer("isomer-client", VERSION).startSpan(method, {
      kind: SpanKind.CLIENT,
      attributes: {
        "rpc.system": "grpc",
        "rpc.service": request.service.typeName,
        "rpc.method": request.method.name,
        "server.address": url.hostname,
        ...(url.port === "" ? {} : { "server.port": Number(url.port) }),
        ...(attempt > 1 ? { "isomer.attempt": attempt } : {}),
      },
    });
    propagation.inject(trace.setSpan(context.active(), span), request.header, { set: (header, name, value) => header.set(name, value) });
    let answer: UnaryResponse | StreamResponse;
    try {
      answer = await next(request);
    } catch (error) {
      ended(span, error, method);
      throw error;
    }
    if (answer.stream) return { ...answer, message: watched(answer.message, span, method) };
    span.end();
    return answer;
  };
}

async function* watched<T>(messages: AsyncIterable<T>, span: Span, method: string): AsyncGenerator<T> {
  let failure: unknown;
  try {
    yield* messages;
  } catch (error) {
    failure = error;
    throw error;
  } finally {
    ended(span, failure, method);
  }
}

function ended(span: Span, thrown: unknown, method: string): void {
  if (thrown !== undefined) {
    const error = fromRpc(thrown, method, 1);
    span.setAttribute("rpc.grpc.status_code", CODES.indexOf(error.code));
    span.setAttribute("error.type", error.reason || error.code);
    span.setStatus({ code: SpanStatusCode.ERROR, message: error.code });
  }
  span.end();
}
