/** Node: gRPC over one HTTP/2 connection. */

import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import type { ClientHttp2Session, ClientHttp2Stream } from "node:http2";
import { connect as connectSocket } from "node:net";
import { basename, dirname, resolve } from "node:path";
import { type SecureContextOptions, connect as connectTls } from "node:tls";
import type { Interceptor } from "@connectrpc/connect";
import { Http2SessionManager, createGrpcTransport } from "@connectrpc/connect-node";
import { InvalidArgument } from "../errors.js";
import type { Settings, Tls } from "../settings.js";
import { type Connected, overFetch } from "./web.js";

export const USER_AGENT_HEADER = "user-agent";
/**
 * Bytes of an answer that may be in flight: HTTP/2's default of 64 KiB holds a connection with a
 * round trip of 50 ms to 1.3 MB a second.
 */
const WINDOW = 4 << 20;

export function connected(settings: Settings, interceptors: Interceptor[]): Connected {
  const { target, protocol = "grpc", tls } = settings;
  if (protocol !== "grpc") return overFetch(settings, interceptors, protocol);
  const secured = target.secure ? tlsOptions(tls ?? {}) : {};
  const manager = new Sessions(
    target.baseUrl,
    // A connection that died without a word is noticed while an answer is awaited.
    { pingIntervalMs: 30_000, pingTimeoutMs: 10_000 },
    {
      ...secured,
      settings: { initialWindowSize: WINDOW, enablePush: false },
      // Of answers, in megabytes. Node refuses streams beyond it, and 10 is its default.
      maxSessionMemory: 4096,
      ...(target.socket === undefined
        ? {}
        : {
            createConnection: () =>
              target.secure
                ? connectTls({ ...secured, path: target.socket, ALPNProtocols: ["h2"] } as object)
                : connectSocket(target.socket as string),
          }),
    },
  );
  const transport = createGrpcTransport({ baseUrl: target.baseUrl, interceptors, sessionManager: manager, acceptCompression: [] });
  return { transport, close: (idle) => manager.close(idle) };
}

/** Sessions whose window for all streams together is as large as for one. */
class Sessions extends Http2SessionManager {
  readonly #seen = new Set<ClientHttp2Session>();

  override async request(...parts: Parameters<Http2SessionManager["request"]>): Promise<ClientHttp2Stream> {
    const stream = await super.request(...parts);
    const session = stream.session as ClientHttp2Session | undefined;
    if (session !== undefined && !this.#seen.has(session) && !session.destroyed) {
      this.#seen.add(session);
      session.once("close", () => this.#seen.delete(session));
      session.setLocalWindowSize(4 * WINDOW);
    }
    return stream;
  }

  /** Says goodbye; calls in flight are cut off first. */
  close(idle: boolean): void {
    if (!idle) this.abort();
    for (const session of this.#seen) session.close();
  }
}

function tlsOptions(tls: Tls): SecureContextOptions & { servername?: string } {
  if ((tls.certificate === undefined) !== (tls.privateKey === undefined)) {
    const field = tls.privateKey === undefined ? "tls.privateKey" : "tls.certificate";
    throw new InvalidArgument("tls has a certificate or a private key alone", { field, hint: "give both, or neither" });
  }
  const ca = pem(tls.ca, "tls.ca");
  const cert = pem(tls.certificate, "tls.certificate");
  const key = pem(tls.privateKey, "tls.privateKey");
  return {
    ...(ca ? { ca } : {}),
    ...(cert && key ? { cert, key } : {}),
    ...(tls.serverName === undefined ? {} : { servername: tls.serverName }),
  };
}

function pem(source: string | Uint8Array | undefined, field: string): Buffer | undefined {
  if (source === undefined) return undefined;
  if (typeof source !== "string") return Buffer.from(source);
  if (source.includes("-----BEGIN")) return Buffer.from(source);
  try {
    return readFileSync(source);
  } catch (cause) {
    const hint = "give PEM text or bytes, or a file that is there";
    throw new InvalidArgument(`${field} cannot be read: ${(cause as Error).message}`, { field, hint, cause });
  }
}

export function environment(): Record<string, string | undefined> {
  return process.env;
}

export async function readText(path: string): Promise<{ text: string; name: string; folder: string }> {
  try {
    return { text: await readFile(path, "utf8"), name: basename(path), folder: dirname(resolve(path)) };
  } catch (cause) {
    const hint = "give a suite's name, or a file that is there";
    throw new InvalidArgument(`suite cannot be read: ${(cause as Error).message}`, { field: "suite", hint, cause });
  }
}
