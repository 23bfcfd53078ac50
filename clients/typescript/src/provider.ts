/**
 * Serves an encoder of one's own, in Node, and registers it with a gateway: implement the two
 * methods of `Provider` and call `serve`.
 *
 * A text's vector must depend on the text alone: not on the others of its batch, not on their order.
 * CheckProvider (`isomer providers check`) looks at that, and at what else a provider owes its callers.
 */

import { createHash, timingSafeEqual } from "node:crypto";
import { type Http2SecureServer, type Http2Server, type ServerHttp2Session, createSecureServer, createServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { Code, ConnectError, type ConnectRouter, type HandlerContext } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { type MessageInitShape, create } from "@bufbuild/protobuf";
import type { Client } from "./client.js";
import { HINT, IsomerError, NotFound } from "./errors.js";
import { BadRequestSchema, ErrorInfoSchema } from "./proto/google/rpc/error_details_pb.js";
import { Health, HealthCheckResponse_ServingStatus } from "./proto/grpc/health/v1/health_pb.js";
import { Dtype, Similarity, type VectorSpaceSchema } from "./proto/isomer/common/v1/common_pb.js";
import {
  Capability,
  type EncodeRequest,
  type EncodeResponseSchema,
  EncodeStreamResponseSchema,
  type EncoderSchema,
  EncoderService,
  Output,
} from "./proto/isomer/encoder/v1/encoder_pb.js";
import { ProviderKind } from "./proto/isomer/gateway/v1/provider_pb.js";
import { targetOf } from "./settings.js";
import { duration } from "./transforming.js";

/** Description of an encoder, as callers receive it. */
export interface Description {
  readonly id: string;
  /** Changes whenever equal texts begin to get other vectors: it is part of the vector space. */
  readonly version: string;
  readonly dimensions: number;
  /** Maximum number of texts in one request: 512 by default. */
  readonly maxBatchItems?: number;
  /** Name of a prompt to the text that is put before each text. */
  readonly prompts?: Readonly<Record<string, string>>;
  /** Whether vectors are of unit length unless a request says otherwise: true. */
  readonly normalises?: boolean;
  /** Smaller numbers of columns that the vectors may be cut to. */
  readonly matryoshkaDimensions?: readonly number[];
}

/** An encoder. */
export interface Provider {
  /** Description of the encoder. Called once. */
  describe(): Description | Promise<Description>;
  /** A row of `dimensions` numbers for each text. Prompts are in front of the texts already. Called for several requests at once. */
  encode(texts: readonly string[]): readonly ArrayLike<number>[] | Promise<readonly ArrayLike<number>[]>;
  /** Tokens of each text; words, unless a provider says better. Callers can see that they are estimates. */
  countTokens?(texts: readonly string[]): readonly number[] | Promise<readonly number[]>;
}

/** How a provider is served. */
export interface ServeOptions {
  /** Host and port, 0 for any: `127.0.0.1:0`. */
  listen?: string;
  /** Keys of which callers must send one. */
  keys?: readonly string[];
  /** Certificate and key as PEM text; without them it speaks plain text. */
  tls?: { certificate: string; privateKey: string };
}

/** How a provider is registered. */
export interface RegisterOptions {
  /** Milliseconds after which the gateway forgets a provider that is silent: 30,000. */
  leaseMs?: number;
  /** How the gateway reaches this server; by default where it listens. */
  address?: string;
  /** Called when a lease was not renewed; by default `console.warn`. */
  warn?: (message: string) => void;
}

function refusal(code: Code, reason: string, message: string, field = "", hint = ""): ConnectError {
  const text = field === "" ? message : `${field}: ${message}`;
  const info = { reason, domain: "isomer", metadata: hint === "" ? {} : { [HINT]: hint } };
  return new ConnectError(text, code, undefined, [
    { desc: ErrorInfoSchema, value: info },
    ...(field === "" ? [] : [{ desc: BadRequestSchema, value: { fieldViolations: [{ field, description: text }] } }]),
  ]);
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

/** EncoderService in front of a provider. */
class Service {
  readonly #keys: readonly Buffer[];

  constructor(
    readonly provider: Provider,
    readonly is: Description,
    keys: readonly string[],
  ) {
    this.#keys = keys.map((key) => createHash("sha256").update(`Bearer ${key}`).digest());
  }

  routes(router: ConnectRouter): void {
    const notServed = (_: unknown, context: HandlerContext): never => {
      this.#admit(context);
      throw refusal(Code.Unimplemented, "NOT_SERVED_YET", "this provider only encodes", "", "call Encode");
    };
    router.service(EncoderService, {
      listEncoders: (_, context) => {
        this.#admit(context);
        return { encoders: [this.#described()] };
      },
      getEncoder: ({ id }, context) => {
        this.#admit(context);
        this.#known(id, "id");
        return { encoder: this.#described() };
      },
      encode: async (request, context) => {
        this.#admit(context);
        return this.#encode(request);
      },
      encodeStream: (requests, context) => this.#encodeStream(requests, context),
      countTokens: async (request, context) => {
        this.#admit(context);
        this.#known(request.encoderId, "encoder_id");
        const prompt = this.#prompt(request.prompt);
        return { tokenCounts: [...(await this.#count(request.texts.map((text) => prompt + text)))] };
      },
      tokenize: notServed,
      detokenize: notServed,
      rerank: notServed,
    });
    router.service(Health, { check: () => ({ status: HealthCheckResponse_ServingStatus.SERVING }) });
  }

  async *#encodeStream(requests: AsyncIterable<{ clientIndex: bigint; request?: EncodeRequest | undefined }>, context: HandlerContext) {
    this.#admit(context);
    for await (const { clientIndex, request } of requests) {
      if (request === undefined) throw refusal(Code.InvalidArgument, "INVALID_ARGUMENT", "is missing", "request", "send a request");
      yield create(EncodeStreamResponseSchema, { clientIndex, response: await this.#encode(request) });
    }
  }

  #admit(context: HandlerContext): void {
    const given = createHash("sha256").update(context.requestHeader.get("authorization") ?? "").digest();
    if (this.#keys.length > 0 && !this.#keys.some((key) => timingSafeEqual(key, given))) {
      throw refusal(Code.Unauthenticated, "UNKNOWN_KEY", "no key that is known", "", "send `authorization: Bearer KEY`");
    }
  }

  #known(id: string, field: string): void {
    if (id !== this.is.id) throw refusal(Code.NotFound, "UNKNOWN_ENCODER", `no encoder \`${id}\``, field, `ask for \`${this.is.id}\``);
  }

  #prompt(prompt: EncodeRequest["prompt"]): string {
    if (prompt.case === "literalPrompt") return prompt.value;
    if (prompt.case === undefined || prompt.value === "") return "";
    const prompts = this.is.prompts ?? {};
    const found = Object.hasOwn(prompts, prompt.value) ? prompts[prompt.value] : undefined;
    if (found === undefined) {
      const names = Object.keys(prompts).join(", ") || "it has none";
      throw refusal(Code.InvalidArgument, "INVALID_ARGUMENT", `there is no prompt \`${prompt.value}\``, "prompt_name", names);
    }
    return found;
  }

  #dimensions(asked: number | undefined): number {
    const permitted = [...(this.is.matryoshkaDimensions ?? []), this.is.dimensions];
    if (asked !== undefined && !permitted.includes(asked)) {
      const hint = `one of ${permitted.join(", ")}`;
      throw refusal(Code.InvalidArgument, "INVALID_ARGUMENT", `${asked} is not permitted`, "dimensions", hint);
    }
    return asked ?? this.is.dimensions;
  }

  #texts(request: EncodeRequest, prompt: string): string[] {
    const most = this.is.maxBatchItems ?? 512;
    if (request.inputs.length < 1 || request.inputs.length > most) {
      throw refusal(Code.InvalidArgument, "INVALID_ARGUMENT", `holds ${request.inputs.length} texts`, "inputs", `send 1 to ${most}`);
    }
    return request.inputs.map(({ input }, index) => {
      if (input.case === "text") return prompt + input.value;
      throw refusal(Code.Unimplemented, "NOT_SERVED_YET", "only texts are taken", `inputs[${index}]`, "send text");
    });
  }

  async #count(texts: readonly string[]): Promise<readonly number[]> {
    return this.provider.countTokens?.(texts) ?? texts.map((text) => text.split(/\s+/u).filter((word) => word !== "").length);
  }

  #space(prompt: string, normalised: boolean, dimensions: number): MessageInitShape<typeof VectorSpaceSchema> {
    const { id, version } = this.is;
    return {
      digest: sha256([id, version, prompt, String(normalised), String(dimensions)].join("\0")),
      modelId: id,
      weightsDigest: sha256(version),
      prompt,
      pooling: version,
      normalised,
      dimensions,
      dtype: Dtype.F32,
    };
  }

  #described(): MessageInitShape<typeof EncoderSchema> {
    const { id, version, dimensions, maxBatchItems = 512, prompts = {}, normalises = true, matryoshkaDimensions = [] } = this.is;
    return {
      id,
      revision: version,
      weightsDigest: sha256(version),
      vectorSpace: this.#space("", normalises, dimensions),
      dimensions,
      matryoshkaDimensions: [...matryoshkaDimensions],
      maxBatchItems,
      prompts: { ...prompts },
      similarity: Similarity.COSINE,
      normalises,
      dtypes: [Dtype.F32],
      capabilities: [Capability.DENSE],
      loaded: true,
    };
  }

  async #encode(request: EncodeRequest): Promise<MessageInitShape<typeof EncodeResponseSchema>> {
    const started = performance.now();
    this.#known(request.encoderId, "encoder_id");
    if (request.outputDtype !== Dtype.UNSPECIFIED && request.outputDtype !== Dtype.F32) {
      throw refusal(Code.Unimplemented, "NOT_SERVED_YET", "only 32-bit floats are given", "output_dtype", "ask for DTYPE_F32");
    }
    if (request.output !== Output.UNSPECIFIED && request.output !== Output.TEXT_VECTOR) {
      throw refusal(Code.Unimplemented, "NOT_SERVED_YET", "only one vector a text is given", "output", "ask for OUTPUT_TEXT_VECTOR");
    }
    const dimensions = this.#dimensions(request.dimensions);
    const prompt = this.#prompt(request.prompt);
    const texts = this.#texts(request, prompt);
    const normalise = request.normalise ?? this.is.normalises ?? true;
    const rows = await this.provider.encode(texts);
    if (rows.length !== texts.length || rows.some((row) => row.length !== this.is.dimensions)) {
      throw new ConnectError(`encode gave other than ${texts.length} rows of ${this.is.dimensions} numbers`, Code.Internal);
    }
    const floats = new Float32Array(texts.length * dimensions);
    rows.forEach((row, index) => floats.set(scaled(Float32Array.from(row).subarray(0, dimensions), normalise), index * dimensions));
    const tokenCounts = [...(await this.#count(texts))];
    const tokens = tokenCounts.reduce((sum, one) => sum + one, 0);
    return {
      embeddings: { rows: texts.length, cols: dimensions, dtype: Dtype.F32, data: new Uint8Array(floats.buffer) },
      tokenCounts,
      vectorSpace: this.#space(prompt, normalise, dimensions),
      usage: { texts: BigInt(texts.length), tokens: BigInt(tokens), tokensEstimated: true },
      timing: { total: duration(performance.now() - started) },
    };
  }
}

/** A row of unit length, if that is asked for; a row of zeros stays. */
function scaled(row: Float32Array, normalise: boolean): Float32Array {
  const length = normalise ? Math.sqrt(row.reduce((sum, value) => sum + value * value, 0)) : 1;
  return length === 0 || length === 1 ? row : row.map((value) => value / length);
}

/** A provider that is served, and registered as long as it is. */
export class ProviderServer {
  readonly #server: Http2Server | Http2SecureServer;
  readonly #sessions = new Set<ServerHttp2Session>();
  #leave: (() => Promise<void>) | undefined;

  private constructor(
    server: Http2Server | Http2SecureServer,
    /** Host and port where it listens. */
    readonly address: string,
    readonly encoder: string,
    readonly secure: boolean,
  ) {
    this.#server = server;
    server.on("session", (session: ServerHttp2Session) => {
      this.#sessions.add(session);
      session.once("close", () => this.#sessions.delete(session));
    });
  }

  /** Serves gRPC over HTTP/2, which is what gateways call. */
  static async start(provider: Provider, options: ServeOptions = {}): Promise<ProviderServer> {
    const { listen = "127.0.0.1:0", keys = [], tls } = options;
    const { host, port } = listen.endsWith(":0") ? { ...targetOf(`${listen.slice(0, -2)}:1`, undefined), port: 0 } : targetOf(listen, undefined);
    const service = new Service(provider, await provider.describe(), keys);
    const handler = connectNodeAdapter({ routes: (router) => service.routes(router) });
    const server = tls ? createSecureServer({ cert: tls.certificate, key: tls.privateKey }, handler) : createServer(handler);
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(port, host.replace(/^\[|\]$/g, ""), () => {
        server.off("error", reject);
        resolve();
      });
    });
    return new ProviderServer(server, `${host}:${(server.address() as AddressInfo).port}`, service.is.id, tls !== undefined);
  }

  /**
   * Registers with a gateway by a client whose key has the scope `admin`, renews the lease, and takes
   * the provider away when the server stops.
   */
  async register(gateway: Client, id: string, options: RegisterOptions = {}): Promise<void> {
    const { leaseMs = 30_000, address, warn = (message: string) => console.warn(message) } = options;
    const record = {
      id,
      kind: ProviderKind.ISOMER,
      address: address ?? `${this.secure ? "grpcs" : "grpc"}://${this.address}`,
      encoders: { [this.encoder]: this.encoder },
      lease: duration(leaseMs),
    };
    const put = (timeoutMs?: number) => gateway.providers.update(record, { allowMissing: true, ...(timeoutMs === undefined ? {} : { timeoutMs }) });
    await put();
    let renewing: Promise<void> = Promise.resolve();
    const renew = async () => {
      try {
        await gateway.providers.renewLease(id, { timeoutMs: leaseMs / 3 });
      } catch (error) {
        // The lease ran out, or the gateway lost its memory.
        if (error instanceof NotFound) await put(leaseMs / 3);
        else throw error;
      }
    };
    const timer = setInterval(() => {
      renewing = renew().catch((error: unknown) => warn(`the lease of \`${id}\` was not renewed: ${String(error)}`));
    }, leaseMs / 3);
    this.#leave = async () => {
      clearInterval(timer);
      await renewing;
      try {
        await gateway.providers.delete(id, { timeoutMs: 5_000 });
      } catch (error) {
        if (!(error instanceof IsomerError)) throw error;
        warn(`\`${id}\` was not taken away from its gateway: ${String(error)}`);
      }
    };
  }

  /** Takes the provider away from its gateway, then lets requests in flight end. */
  async stop(graceMs = 5_000): Promise<void> {
    const leave = this.#leave;
    this.#leave = undefined;
    await leave?.();
    const ended = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const session of this.#sessions) session.close();
    const late = setTimeout(() => {
      for (const session of this.#sessions) session.destroy();
    }, graceMs);
    await ended;
    clearTimeout(late);
  }
}

/** An encoder's id as a provider's, which has up to 63 of a-z, 0-9 and hyphens. */
export function providerId(encoder: string): string {
  const id = encoder.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+/, "").slice(0, 63).replace(/-+$/, "");
  return id || "provider";
}

/** Serves until SIGTERM or SIGINT; with `register`, a client of a gateway, under that gateway. */
export async function serve(
  provider: Provider,
  options: ServeOptions & RegisterOptions & { register?: Client | undefined; id?: string } = {},
): Promise<void> {
  const server = await ProviderServer.start(provider, options);
  console.log(`listening on ${server.address}`);
  const told = new Promise<void>((resolve) => {
    for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => resolve());
  });
  if (options.register !== undefined) {
    const id = options.id ?? providerId(server.encoder);
    try {
      await server.register(options.register, id, options);
    } catch (error) {
      await server.stop();
      options.register.close();
      throw error;
    }
    console.log(`registered as ${id}`);
  }
  await told;
  await server.stop();
  options.register?.close();
}
