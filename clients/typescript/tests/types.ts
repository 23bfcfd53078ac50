/** TypeScript's knowledge of vectors: compiled, never run. */

import type { Client, DtypeName, Embeddings } from "isomer-client";

declare const client: Client;
declare const dtype: DtypeName;
const encoder = "tiny";

export const floats: Float32Array = (await client.encode(["river"], { encoder })).vectors.row(0);
export const halves: Uint16Array = (await client.encode(["river"], { encoder, dtype: "f16" })).vectors.data;
export const bits: Uint8Array = (await client.encodeTokens(["river"], { encoder, dtype: "ubinary" })).vectors[0]?.row(0) ?? new Uint8Array();
export const any: Embeddings = await client.encode(["river"], { encoder, dtype });
for await (const { vectors } of client.encodeStream(["river"], { encoder, dtype: "int8" })) {
  const bytes: Int8Array = vectors.data;
  // @ts-expect-error: they are no floats.
  const wrong: Float32Array = vectors.data;
  console.log(bytes, wrong);
}
// @ts-expect-error: there is no such type of elements.
await client.encode(["river"], { encoder, dtype: "f64" });
// @ts-expect-error: the encoder is not named.
await client.encode(["river"], {});
