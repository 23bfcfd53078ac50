/** Browsers, and what is like them: calls by `fetch`. */

import type { Interceptor, Transport } from "@connectrpc/connect";
import { createConnectTransport, createGrpcWebTransport } from "@connectrpc/connect-web";
import { InvalidArgument } from "../errors.js";
import type { Settings } from "../settings.js";

/** A transport, and how its connections end. */
export interface Connected {
  transport: Transport;
  close(idle: boolean): void;
}

/** Browsers let pages set no `user-agent`. */
export const USER_AGENT_HEADER: string = "x-user-agent";

export function connected(settings: Settings, interceptors: Interceptor[]): Connected {
  return overFetch(settings, interceptors, settings.protocol ?? "connect");
}

export function overFetch(settings: Settings, interceptors: Interceptor[], protocol: string): Connected {
  if (protocol !== "connect" && protocol !== "grpc-web") {
    const hint = "use `connect` or `grpc-web` in browsers, those or `grpc` in Node";
    throw new InvalidArgument(`protocol \`${protocol}\` cannot be used here`, { field: "protocol", hint });
  }
  if (settings.tls !== undefined) {
    const hint = "in Node use protocol `grpc`, or name authorities in NODE_EXTRA_CA_CERTS; in browsers TLS is the browser's";
    throw new InvalidArgument(`tls cannot be set for the protocol \`${protocol}\``, { field: "tls", hint });
  }
  if (settings.target.socket !== undefined) {
    throw new InvalidArgument(`protocol \`${protocol}\` has no Unix sockets`, { field: "address", hint: "use protocol `grpc`" });
  }
  const options = { baseUrl: settings.target.baseUrl, interceptors, ...(settings.fetch ? { fetch: settings.fetch } : {}) };
  const transport = protocol === "connect" ? createConnectTransport({ ...options, useBinaryFormat: true }) : createGrpcWebTransport(options);
  return { transport, close: () => undefined };
}

export function environment(): Record<string, string | undefined> {
  return {};
}

/** A file's text and where it lies. */
export async function readText(path: string): Promise<{ text: string; name: string; folder: string }> {
  throw new InvalidArgument(`\`${path}\` cannot be read here`, { field: "suite", hint: "files are read in Node alone: give the text in spec.suite" });
}
