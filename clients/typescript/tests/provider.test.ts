/** A provider of one's own, asked by the client; the conformance suite serves one behind a gateway. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { Code, ConnectError, createRouterTransport } from "@connectrpc/connect";
import { Client, InvalidArgument, IsomerError, NotFound, Unauthenticated, Unimplemented } from "isomer-client";
import { ProviderService } from "isomer-client/proto/gateway/v1/provider";
import { type Provider, ProviderServer, providerId } from "isomer-client/provider";

const letters: Provider = {
  describe: () => ({ id: "letters", version: "1", dimensions: 4, prompts: { query: "q: " }, matryoshkaDimensions: [2], maxBatchItems: 3 }),
  encode: async (texts) => texts.map((text) => (text === "wrong" ? [1] : [text.length, [...text].filter((letter) => letter === "e").length, 3, 4])),
};

async function served<T>(work: (client: Client, server: ProviderServer) => Promise<T>, keys: string[] = [], key?: string, protocol = "grpc"): Promise<T> {
  const server = await ProviderServer.start(letters, { keys });
  const options = { protocol: protocol as "grpc", retries: { unreachable: 1 }, ...(key === undefined ? {} : { key }) };
  const client = new Client(server.address, options);
  try {
    return await work(client, server);
  } finally {
    client.close();
    await server.stop();
  }
}

test("texts come back as vectors of unit length, in batches of the provider's size", async () => {
  await served(async (client) => {
    const found = await client.encode(["a", "eel", "", "e", "ee"], { encoder: "letters" });
    assert.equal(found.vectors.rows, 5);
    for (const row of found.vectors) assert.ok(Math.abs(Math.hypot(...row) - 1) < 1e-6);
    const raw = await client.encode(["eel"], { encoder: "letters", normalise: false, role: "query" });
    assert.deepEqual(raw.vectors.toArrays(), [[6, 2, 3, 4]]);
    const cut = await client.encode(["eel"], { encoder: "letters", dimensions: 2, normalise: false });
    assert.deepEqual(cut.vectors.toArrays(), [[3, 2]]);
    assert.notEqual(cut.space.digest, raw.space.digest);
    assert.deepEqual(await client.countTokens([" two  words ", ""], { encoder: "letters" }), [2, 0]);
  });
});

test("what it does not do is refused with field and hint", async () => {
  await served(async (client) => {
    const refusals: [() => Promise<unknown>, typeof IsomerError, string | undefined][] = [
      [() => client.encode(["a"], { encoder: "letter" }), NotFound, "id"],
      [() => client.encode(["a"], { encoder: "letters", promptName: "quary" }), InvalidArgument, "prompt_name"],
      [() => client.encode(["a"], { encoder: "letters", dimensions: 3 }), InvalidArgument, "dimensions"],
      [() => client.encode([[1, 2]], { encoder: "letters" }), Unimplemented, "inputs[0]"],
      [() => client.encode(["a"], { encoder: "letters", dtype: "f16" }), Unimplemented, "output_dtype"],
      [() => client.tokenize(["a"], { encoder: "letters" }), Unimplemented, undefined],
    ];
    for (const [call, kind, field] of refusals) {
      await assert.rejects(call(), (error) => error instanceof kind && error.field === field && error.hint !== undefined);
    }
    await assert.rejects(client.encode(["wrong"], { encoder: "letters" }), /rows of 4 numbers/);
  });
});

test("with keys it wants one", async () => {
  await served((client) => assert.rejects(client.encoder("letters"), Unauthenticated), ["iso_good"]);
  await served((client) => assert.rejects(client.encoder("letters"), Unauthenticated), ["iso_good"], "iso_bad");
  assert.equal((await served((client) => client.encoder("letters"), ["iso_good"], "iso_good")).id, "letters");
});

test("a caller that speaks HTTP/1.1, as `fetch` in Node does, gets an error and does not wait", async () => {
  await served((client) => assert.rejects(client.encoder("letters"), IsomerError), [], undefined, "connect");
});

test("it stops while a client is connected", async () => {
  await served(async (client, server) => {
    await client.encoder("letters");
    await server.stop();
    await assert.rejects(client.encoder("letters"), /ECONNREFUSED|UNAVAILABLE|unavailable/i);
  });
});

test("an encoder's id becomes one that a provider may have", () => {
  assert.deepEqual(["hashing-256", "all-MiniLM-L6-v2", "org/A_b.c", "--", "ß"].map(providerId), ["hashing-256", "all-minilm-l6-v2", "org-a-b-c", "provider", "provider"]);
});

test("a lease is renewed, a gateway that forgot it is told again, and it is given back at the end", async () => {
  const came: string[] = [];
  let renewed = 0;
  const transport = createRouterTransport(({ service }) => {
    service(ProviderService, {
      updateProvider: ({ provider, allowMissing }) => {
        came.push(`update ${provider?.id} ${provider?.address} ${provider?.lease?.nanos} ${allowMissing}`);
        return { provider: provider as NonNullable<typeof provider> };
      },
      renewLease: ({ id }) => {
        came.push(`renew ${id}`);
        if (++renewed % 3 === 2) throw new ConnectError("it ran out", Code.NotFound);
        if (renewed % 3 === 0) throw new ConnectError("the gateway restarts", Code.Internal);
        return { expireTime: { seconds: 1n } };
      },
      deleteProvider: ({ id }) => {
        came.push(`delete ${id}`);
        return {};
      },
    });
  });
  const warned: string[] = [];
  const server = await ProviderServer.start(letters);
  await server.register(new Client(undefined, { transport }), "mine", { leaseMs: 300, warn: (message) => warned.push(message) });
  const put = `update mine grpc://${server.address} 300000000 true`;
  const told = /`mine` was not renewed.*the gateway restarts/;
  // However late a timer is: until both have happened.
  while (came.filter((one) => one === put).length < 2 || !warned.some((one) => told.test(one))) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  await server.stop();
  assert.deepEqual(came.slice(0, 2), [put, "renew mine"]);
  assert.equal(came.at(-1), "delete mine");
  assert.deepEqual([...new Set(came)].sort(), ["delete mine", "renew mine", put].sort());
  const count = came.length;
  await new Promise((resolve) => setTimeout(resolve, 200));
  assert.equal(came.length, count, "nothing is sent after the end");
});
