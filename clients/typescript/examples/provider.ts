// An encoder of one's own: two methods, and `serve` does the rest.
//
//     node provider.js                    serves it
//     ISOMER_SERVER=127.0.0.1:50051 node provider.js --register
//
// Words and their trigrams are hashed into 256 columns: no model, no file. Put yours in their place.

import { createHash } from "node:crypto";
import { Client } from "isomer-client";
import { type Provider, serve } from "isomer-client/provider";

const COLUMNS = 256;

const hashing: Provider = {
  describe: () => ({
    id: "hashing-256",
    version: "hashing/1",
    dimensions: COLUMNS,
    prompts: { query: "query: " },
    matryoshkaDimensions: [64, 128],
  }),

  encode: (texts) => texts.map(vector),
};

function vector(text: string): Float32Array {
  const row = new Float32Array(COLUMNS);
  const words = text.toLowerCase().split(/\s+/u).filter(Boolean);
  // A text without words has a vector too, of unit length.
  for (const word of words.length > 0 ? words : [""]) {
    const marked = [..."<", ...word, ">"];
    const trigrams = marked.slice(2).map((_, start) => marked.slice(start, start + 3).join(""));
    for (const part of [word, ...trigrams]) {
      const [column = 0, sign = 0] = createHash("sha256").update(part).digest();
      row[column] = (row[column] ?? 0) + (sign & 1 ? 1 : -1);
    }
  }
  if (row.every((value) => value === 0)) row[0] = 1;
  return row;
}

const register = process.argv.includes("--register") ? Client.fromEnvironment() : undefined;
await serve(hashing, { register });
