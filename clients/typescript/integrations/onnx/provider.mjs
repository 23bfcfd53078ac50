// A sentence encoder in ONNX behind a gateway: `node provider.mjs MODEL.onnx FOLDER [--register]`.
//
// FOLDER has tokenizer.json and tokenizer_config.json, as repositories of models have them. Vectors are the mean over the tokens.

import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { Tokenizer } from "@huggingface/tokenizers";
import { Client } from "isomer-client";
import { serve } from "isomer-client/provider";
import { InferenceSession, Tensor } from "onnxruntime-node";

const [model, folder] = process.argv.slice(2);
const read = (name) => JSON.parse(readFileSync(join(folder, name), "utf8"));
const tokenizer = new Tokenizer(read("tokenizer.json"), read("tokenizer_config.json"));
const most = existsSync(join(folder, "sentence_bert_config.json")) ? read("sentence_bert_config.json").max_seq_length : 512;
const session = await InferenceSession.create(model);
// The tokens' vectors: 32-bit floats by batch, token and column.
const output = session.outputMetadata.find(({ type, shape }) => type === "float32" && shape.length === 3);
if (output === undefined) throw new Error(`${model} gives no vectors of tokens`);
const dimensions = output.shape[2];

/** The ids of a text, the last special token kept where it is cut. */
function idsOf(text) {
  const { ids } = tokenizer.encode(text);
  return ids.length <= most ? ids : [...ids.slice(0, most - 1), ids.at(-1)];
}

/** One text by itself: in a batch, padding would change the last bits of a vector. */
async function vector(text) {
  const ids = idsOf(text);
  const tensor = (values) => new Tensor("int64", BigInt64Array.from(values, BigInt), [1, ids.length]);
  const inputs = { input_ids: tensor(ids), attention_mask: tensor(ids.map(() => 1)), token_type_ids: tensor(ids.map(() => 0)) };
  const given = Object.fromEntries(session.inputNames.map((name) => [name, inputs[name]]));
  const { [output.name]: tokens } = await session.run(given, [output.name]);
  const row = new Float32Array(dimensions);
  for (let place = 0; place < tokens.data.length; place++) row[place % dimensions] += tokens.data[place] / ids.length;
  return row;
}

const provider = {
  describe: () => ({
    // Other arithmetic gives other vectors: it is not the encoder that is called as the model is.
    id: `${basename(model, ".onnx")}-onnx`,
    // The weights are part of the vector space: other weights under this name are another one.
    version: `onnx/${createHash("sha256").update(readFileSync(model)).digest("hex").slice(0, 16)}`,
    dimensions,
  }),
  encode: async (texts) => {
    const rows = [];
    for (const text of texts) rows.push(await vector(text));
    return rows;
  },
  countTokens: (texts) => texts.map((text) => idsOf(text).length),
};

await serve(provider, { register: process.argv.includes("--register") ? Client.fromEnvironment() : undefined });
