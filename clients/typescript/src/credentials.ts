/** Where tokens of an identity provider come from. */

import { InvalidArgument, Unauthenticated, Unavailable } from "./errors.js";

/** Milliseconds before its end in which a token is not sent any more. */
const MARGIN_MS = 30_000;

/** A token and when it ends; without an end it is asked for again only when a server refuses it. */
export class Token {
  readonly #value: string;

  constructor(
    value: string,
    /** `Date.now()` at its end. */
    readonly expiresAt?: number,
  ) {
    this.#value = value;
  }

  get value(): string {
    return this.#value;
  }

  usable(): boolean {
    return this.expiresAt === undefined || Date.now() < this.expiresAt - MARGIN_MS;
  }
}

/** Gives a token whenever one is needed. Clients keep it until it ends. */
export type TokenSource = () => string | Token | Promise<string | Token>;

export function asToken(answer: unknown): Token {
  const token = typeof answer === "string" ? new Token(answer) : answer;
  if (!(token instanceof Token) || token.value === "") {
    throw new InvalidArgument("token gave no token", { field: "token", hint: "return a string or a Token" });
  }
  return token;
}

/** Settings that an identity provider needs to give a token. */
export interface OidcOptions {
  clientId: string;
  clientSecret: string;
  /** Its token endpoint is found there (OpenID Connect Discovery). */
  issuer?: string;
  /** The token endpoint, in place of `issuer`. */
  tokenUrl?: string;
  scope?: string;
  audience?: string;
  /** 10,000 unless given. */
  timeoutMs?: number;
  /** In place of the global one, e.g. for a proxy or an authority of your own. */
  fetch?: typeof fetch;
}

/** Tokens by OAuth 2.0's client-credentials grant (RFC 6749, 4.4) from an identity provider. */
export function oidcClientCredentials(options: OidcOptions): TokenSource {
  const { clientId, clientSecret, issuer, scope, audience, timeoutMs = 10_000 } = options;
  const ask = options.fetch ?? globalThis.fetch;
  let tokenUrl = options.tokenUrl;
  if ((issuer === undefined) === (tokenUrl === undefined)) {
    throw new InvalidArgument("issuer and tokenUrl are both given, or neither", { field: "issuer", hint: "give one of the two" });
  }
  for (const [field, url] of Object.entries({ issuer, tokenUrl })) {
    if (url !== undefined && !confidential(url)) {
      throw new InvalidArgument(`${field} is not an https address`, { field, hint: "a secret is sent there: write https://" });
    }
  }

  async function json(url: string, body?: URLSearchParams): Promise<Record<string, unknown>> {
    let answer: Response;
    let content: unknown;
    try {
      const signal = AbortSignal.timeout(timeoutMs);
      const headers = { accept: "application/json" };
      // A redirect could carry the secret elsewhere.
      answer = await ask(url, { method: body ? "POST" : "GET", body: body ?? null, headers, signal, redirect: "error" });
      content = answer.ok ? await answer.json() : undefined;
    } catch (cause) {
      throw new Unavailable(`the identity provider cannot be asked: ${String(cause)}`, { field: "token", cause });
    }
    if (!answer.ok) {
      const hint = "check client id and secret";
      throw new Unauthenticated(`the identity provider answered ${answer.status}`, { field: "token", hint });
    }
    return typeof content === "object" && content !== null ? { ...content } : {};
  }

  return async () => {
    if (tokenUrl === undefined) {
      const found = (await json(`${String(issuer).replace(/\/+$/, "")}/.well-known/openid-configuration`))["token_endpoint"];
      if (typeof found !== "string" || !confidential(found)) {
        throw new Unauthenticated("the issuer names no token endpoint with https", { field: "issuer", hint: "give tokenUrl" });
      }
      tokenUrl = found;
    }
    const form = new URLSearchParams({ grant_type: "client_credentials", client_id: clientId, client_secret: clientSecret });
    if (scope !== undefined) form.set("scope", scope);
    if (audience !== undefined) form.set("audience", audience);
    const { access_token: value, expires_in: seconds } = await json(tokenUrl, form);
    if (typeof value !== "string" || value === "") {
      throw new Unauthenticated("the identity provider gave no token: no access_token", { field: "token" });
    }
    return new Token(value, typeof seconds === "number" ? Date.now() + seconds * 1000 : undefined);
  };
}

function confidential(url: string): boolean {
  if (!URL.canParse(url)) return false;
  const { protocol, hostname } = new URL(url);
  return protocol === "https:" || (protocol === "http:" && ["127.0.0.1", "localhost", "[::1]"].includes(hostname));
}
