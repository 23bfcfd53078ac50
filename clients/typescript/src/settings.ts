/** Where a server is and how it is spoken to, checked before anything is sent. */

import type { Interceptor, Transport } from "@connectrpc/connect";
import type { TokenSource } from "./credentials.js";
import { InvalidArgument } from "./errors.js";
import { DEFAULT_RETRIES, type RetryPolicy } from "./retry.js";

export const DEFAULT_ADDRESS = "127.0.0.1:50051";
const SCHEMES: Record<string, boolean> = { http: false, grpc: false, https: true, grpcs: true };
/** Headers in which keys travel. */
const SECRETS = ["authorization", "x-api-key", "api-key"];

/** TLS towards the server, in Node with gRPC. Each part is PEM text or bytes, or the path of a file. */
export interface Tls {
  /** Authorities to trust; none: those of Node. */
  ca?: string | Uint8Array;
  /** The client's certificate chain (mTLS), with `privateKey`. */
  certificate?: string | Uint8Array;
  privateKey?: string | Uint8Array;
  /** Name expected in the server's certificate; none: the address's host. */
  serverName?: string;
}

/** Protocol: `grpc` is for Node alone, the others are made by `fetch`, as in browsers. */
export type Protocol = "grpc" | "grpc-web" | "connect";

/** How a client behaves. */
export interface ClientOptions {
  /** `grpc` in Node, `connect` in browsers. */
  protocol?: Protocol;
  /** Authorities, and a certificate for mTLS. With it any address is called with TLS. */
  tls?: Tls;
  /** An API key, sent with each call. */
  key?: string;
  /** In place of a key, what gives tokens of an identity provider. See oidcClientCredentials. */
  token?: TokenSource;
  /** Further metadata (headers) of each call. */
  metadata?: Readonly<Record<string, string>>;
  /**
   * Milliseconds for one request, its retries included: 120,000; null: no limit. The `timeoutMs` of
   * a method is for all of its requests together.
   */
  timeoutMs?: number | null;
  /** When a request is made again. */
  retries?: Partial<RetryPolicy>;
  /** Maximum number of concurrent requests of one call: 4. */
  inFlight?: number;
  /** Maximum number of texts in one request: 256; the encoder's own limit takes precedence. */
  batchItems?: number;
  /** Maximum bytes of texts in one request: 1 MiB. */
  batchBytes?: number;
  /** Whether a key or token may travel in plain text to another machine. */
  secretOverPlainText?: boolean;
  /** Whether OpenTelemetry is given a span of each request, and the trace travels: true. It does nothing without an SDK. */
  telemetry?: boolean;
  /** Whether an encoder that answers the same question in another vector space than before throws SpaceMismatch: true. */
  checkSpaces?: boolean;
  /** Interceptors of connect-es, around each attempt. */
  interceptors?: readonly Interceptor[];
  /** In place of the global `fetch`, for the protocols `grpc-web` and `connect`. */
  fetch?: typeof fetch;
  /** A transport of connect-es in place of one made of these options. */
  transport?: Transport;
}

/** Options with their defaults, checked. */
export interface Settings extends ClientOptions {
  readonly address: string;
  readonly target: Target;
  readonly metadata: Readonly<Record<string, string>>;
  readonly timeoutMs: number | null;
  readonly retries: RetryPolicy;
  readonly inFlight: number;
  readonly batchItems: number;
  readonly batchBytes: number;
  readonly interceptors: readonly Interceptor[];
}

/** Where a server is. */
export interface Target {
  /** Host with port, or the path of a socket. */
  readonly host: string;
  readonly port: number;
  readonly secure: boolean;
  /** Path of a Unix socket. */
  readonly socket?: string;
  /** Prefix of the URLs of calls. */
  readonly baseUrl: string;
}

/** Parts of an address. */
export function targetOf(address: string, tls: Tls | undefined): Target {
  const text = address.trim();
  if (text.startsWith("unix:")) {
    const socket = text.replace(/^unix:(\/\/)?/, "");
    if (socket === "") throw badAddress(address, "it names no socket");
    const secure = tls !== undefined;
    return { host: "localhost", port: 0, secure, socket, baseUrl: `${secure ? "https" : "http"}://localhost` };
  }
  const parts = /^(?:([A-Za-z][A-Za-z0-9+.-]*):\/\/)?(\[[0-9A-Fa-f:.]+\]|[^\s/:@?#[\]]+)(?::(\d{1,5}))?\/?$/.exec(text);
  if (parts === null) throw badAddress(address, "it has more or less than a host and a port");
  const [, scheme = "", host = ""] = parts;
  if (scheme !== "" && !Object.hasOwn(SCHEMES, scheme)) throw badAddress(address, `there is no scheme \`${scheme}\``);
  if (tls !== undefined && SCHEMES[scheme] === false) throw badAddress(address, "it says plain text, and `tls` is given");
  const secure = SCHEMES[scheme] === true || tls !== undefined;
  if (parts[3] === undefined && !secure) throw badAddress(address, "it has no port");
  const port = parts[3] === undefined ? 443 : Number(parts[3]);
  if (port < 1 || port > 65_535) throw badAddress(address, `there is no port ${port}`);
  return { host, port, secure, baseUrl: `${secure ? "https" : "http"}://${host}:${port}` };
}

function badAddress(address: string, why: string): InvalidArgument {
  return new InvalidArgument(`address \`${address}\` cannot be used: ${why}`, {
    field: "address",
    hint: "write host:port, http://host:port, or https://host (with TLS, port 443 unless given)",
  });
}

function onThisMachine(target: Target): boolean {
  return target.socket !== undefined || target.host === "localhost" || target.host === "[::1]" || /^127(\.\d{1,3}){3}$/.test(target.host);
}

/** The options with their defaults, or InvalidArgument for the first that cannot be meant. */
export function settingsOf(address: string, options: ClientOptions): Settings {
  const target = targetOf(address, options.tls);
  const hasSecret = options.key !== undefined || options.token !== undefined;
  if (options.key !== undefined && options.token !== undefined) {
    throw new InvalidArgument("key and token are both given", { field: "token", hint: "give one of the two" });
  }
  if (options.key !== undefined && !/^[!-~]+$/.test(options.key)) {
    throw new InvalidArgument("key holds characters that no key has", { field: "key", hint: "give it as `isomer keys create` printed it" });
  }
  if (hasSecret && !target.secure && options.secretOverPlainText !== true && !onThisMachine(target)) {
    throw new InvalidArgument(`the key would travel to \`${address}\` in plain text`, {
      field: "address",
      reason: "SECRET_IN_PLAIN_TEXT",
      hint: "write https:// in the address; or set secretOverPlainText where nobody else can read the traffic",
    });
  }
  const { inFlight = 4, batchItems = 256, batchBytes = 1 << 20, timeoutMs = 120_000 } = options;
  for (const [field, value] of Object.entries({ inFlight, batchItems, batchBytes })) {
    if (!Number.isInteger(value) || value < 1) throw new InvalidArgument(`${field} is ${value}`, { field, hint: "give 1 or more" });
  }
  checkTimeout(timeoutMs);
  const metadata = options.metadata ?? {};
  for (const [name, value] of Object.entries(metadata)) {
    if (!/^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(name) || (hasSecret && SECRETS.includes(name))) {
      const hint = "names are in lower case; a key is given as `key`, not as metadata";
      throw new InvalidArgument(`metadata names \`${name}\``, { field: "metadata", hint });
    }
    if (!/^[ -~]*$/.test(value)) {
      const hint = "give printable ASCII";
      throw new InvalidArgument(`metadata \`${name}\` holds characters that no header has`, { field: "metadata", hint });
    }
  }
  return {
    ...options,
    address,
    target,
    metadata,
    timeoutMs,
    retries: { ...DEFAULT_RETRIES, ...options.retries },
    inFlight,
    batchItems,
    batchBytes,
    interceptors: options.interceptors ?? [],
  };
}

export function checkTimeout(timeoutMs: number | null | undefined): void {
  if (timeoutMs !== undefined && timeoutMs !== null && !(timeoutMs > 0)) {
    throw new InvalidArgument(`timeoutMs is ${timeoutMs}`, { field: "timeoutMs", hint: "give milliseconds above 0, or null for no limit" });
  }
}
