/** The gateway's providers and keys. All of it needs the scope `admin`. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampDate, timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { CallOptions } from "./connection.js";
import { chosen } from "./encoding.js";
import { InvalidArgument } from "./errors.js";
import { Part, some } from "./part.js";
import {
  AccessScope,
  AccessService,
  type ApiKey,
  type ApiKeySchema,
  type AuditEvent,
  type KeyLimitsSchema,
} from "./proto/isomer/gateway/v1/access_pb.js";
import { type CheckProviderResponse, type Provider, type ProviderSchema, ProviderService } from "./proto/isomer/gateway/v1/provider_pb.js";
import { NewKey } from "./results.js";

const SCOPES = {
  encode: AccessScope.ENCODE,
  transform: AccessScope.TRANSFORM,
  evaluate: AccessScope.EVALUATE,
  admin: AccessScope.ADMIN,
};
/** Scopes and limits of a key. */
export type Scope = keyof typeof SCOPES;

/** ProviderService: encoders that live elsewhere. */
export class Providers extends Part {
  async create(provider: MessageInitShape<typeof ProviderSchema>, options: CallOptions = {}): Promise<Provider> {
    return some((await this.ask(ProviderService.method.createProvider, { provider }, options)).provider, "provider");
  }

  async get(id: string, options: CallOptions = {}): Promise<Provider> {
    return some((await this.ask(ProviderService.method.getProvider, { id }, options)).provider, "provider");
  }

  /** All providers, in order of id. */
  list(options: CallOptions = {}): AsyncGenerator<Provider> {
    return this.pages(options, async (pageToken, operation) => {
      const answer = await this.connection.call(ProviderService.method.listProviders, { pageToken }, operation);
      return [answer.providers, answer.nextPageToken];
    });
  }

  /**
   * Changes fields of a provider, by default all that are set; their names are those of the protos,
   * e.g. `price_per_million_tokens`. With `allowMissing` it is registered if it is not there.
   */
  async update(
    provider: MessageInitShape<typeof ProviderSchema>,
    options: { fields?: readonly string[]; allowMissing?: boolean } & CallOptions = {},
  ): Promise<Provider> {
    const { fields, allowMissing = false } = options;
    const request = { provider, allowMissing, ...(fields === undefined ? {} : { updateMask: { paths: [...fields] } }) };
    return some((await this.ask(ProviderService.method.updateProvider, request, options)).provider, "provider");
  }

  /** Begins a provider's lease anew; when it runs out now. */
  async renewLease(id: string, options: CallOptions = {}): Promise<Date> {
    return timestampDate(some((await this.ask(ProviderService.method.renewLease, { id }, options)).expireTime, "expire_time"));
  }

  async delete(id: string, options: { etag?: string } & CallOptions = {}): Promise<void> {
    await this.ask(ProviderService.method.deleteProvider, { id, etag: options.etag ?? "" }, options);
  }

  /** Probes a provider for real: one that is registered, by its id, or a candidate. */
  check(target: string | MessageInitShape<typeof ProviderSchema>, options: CallOptions = {}): Promise<CheckProviderResponse> {
    const asked = typeof target === "string" ? { case: "id" as const, value: target } : { case: "candidate" as const, value: target };
    return this.ask(ProviderService.method.checkProvider, { target: asked }, options);
  }
}

/** AccessService: API keys and their permissions. */
export class Keys extends Part {
  /** Makes a key. Its text is in the answer and nowhere else. */
  async create(
    name: string,
    scopes: readonly Scope[],
    options: { limits?: MessageInitShape<typeof KeyLimitsSchema>; expires?: Date } & CallOptions = {},
  ): Promise<NewKey> {
    if (typeof scopes === "string") {
      throw new InvalidArgument("scopes is one word", { field: "key.scopes", reason: "INVALID_ARGUMENT", hint: 'give a list: ["encode"]' });
    }
    const { limits, expires } = options;
    const key = {
      name,
      scopes: scopes.map((scope) => chosen("key.scopes", scope, SCOPES)),
      ...(limits === undefined ? {} : { limits }),
      ...(expires === undefined ? {} : { expireTime: timestampFromDate(expires) }),
    };
    const answer = await this.ask(AccessService.method.createKey, { key }, options);
    return new NewKey(answer.key?.id ?? "", answer.secret, answer.key);
  }

  /** A key with what it has used, without its text. */
  async get(id: string, options: CallOptions = {}): Promise<ApiKey> {
    return some((await this.ask(AccessService.method.getKey, { id }, options)).key, "key");
  }

  /** Keys, revoked ones too, oldest first. */
  list(options: CallOptions = {}): AsyncGenerator<ApiKey> {
    return this.pages(options, async (pageToken, operation) => {
      const answer = await this.connection.call(AccessService.method.listKeys, { pageToken }, operation);
      return [answer.keys, answer.nextPageToken];
    });
  }

  /** Changes `name`, `scopes`, `limits` or `expire_time` of the key with this id. */
  async update(key: MessageInitShape<typeof ApiKeySchema>, fields: readonly string[], options: CallOptions = {}): Promise<ApiKey> {
    const request = { key, updateMask: { paths: [...fields] } };
    return some((await this.ask(AccessService.method.updateKey, request, options)).key, "key");
  }

  /** Ends a key for good. */
  async revoke(id: string, options: CallOptions = {}): Promise<ApiKey> {
    return some((await this.ask(AccessService.method.revokeKey, { id }, options)).key, "key");
  }

  /** Lists the actions of administrators, oldest first. */
  async *audit(options: { after?: number | bigint } & CallOptions = {}): AsyncGenerator<AuditEvent> {
    let after = BigInt(options.after ?? 0);
    for (;;) {
      const answer = await this.ask(AccessService.method.listAuditEvents, { after }, options);
      for (const event of answer.events) {
        yield event;
        after = event.seq;
      }
      if (answer.events.length === 0 || after >= answer.headSeq) return;
    }
  }
}
