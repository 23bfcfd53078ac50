/** Every method that neither the page of the documentation nor the conformance suite calls, once, against a real server. */

import assert from "node:assert/strict";
import { Client, IsomerError, packed } from "isomer-client";
import { MetricProfile, TaskType } from "isomer-client/proto/eval/v1/task";

const ENCODER = "all-MiniLM-L6-v2";
const client = Client.fromEnvironment();
const { tasks, statistics, runs, keys } = client;

async function some<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

const close = (found: number | undefined, due: number) => assert.ok(Math.abs((found ?? NaN) - due) < 1e-9, `${found} in place of ${due}`);

// Tokens.
const [tokens = []] = await client.tokenize(["the river"], { encoder: ENCODER, specialTokens: false });
const [text = ""] = await client.detokenize([tokens.map(({ id }) => id)], { encoder: ENCODER });
assert.equal((await client.tokenize([text], { encoder: ENCODER, specialTokens: false }))[0]?.map(({ id }) => id).join(), tokens.map(({ id }) => id).join());
assert.ok(tokens.length > 0);

// Transformations.
const catalogue = await some(client.transformations());
assert.ok(catalogue.some(({ name, needsGenerator }) => name === "stopword_removal" && !needsGenerator));
const estimate = await client.estimate(["The train was late.", "River."], "paraphrase");
assert.ok(estimate?.texts === 2n && estimate.mostCalls >= 2n);
const [same, other] = await client.inspect([["The train was late.", "The train was late."], ["The train was late.", "The train came late."]]);
assert.ok(same && other && same.failedChecks.length > 0 && other.failedChecks.length === 0);
close(same.measures?.editDistance, 0);
const judged = await client.judge([["The train was late.", "The train came late."]], { scale: "quality", maxAttempts: 1, seed: 3 });
assert.equal(judged.ratings.length, 1);
const [variants] = await client.augment(["The gardener watered the roses before breakfast."], [{ transformation: "stopword_removal" }], { seed: 1n });
assert.ok(variants?.variants[0] && variants.variants[0].text.includes("gardener"));

// Scores.
assert.ok((await some(tasks.list())).length >= 9);
const sts = await some(tasks.datasets({ task: "sts" }));
assert.ok(sts.length > 0 && sts.every(({ taskType }) => taskType === TaskType.STS));
const found = await tasks.scoreRetrieval(
  { ids: ["q"], vectors: [[1, 0]] },
  { ids: ["a", "b"], vectors: [[0, 1], [1, 0.1]] },
  { q: { b: 1 } },
  { perItem: true },
);
close(found.mainScore, 1);
assert.deepEqual([found.items, found.perItem?.ids], [1n, ["q"]]);
const pairs = { first: packed([[1, 0], [0, 1]], "pairs.first"), second: packed([[1, 0], [0, 1]], "pairs.second"), labels: [1, 0] };
const scored = await tasks.score({ taskType: TaskType.PAIR_CLASSIFICATION, profile: MetricProfile.MTEB_V2, input: { case: "pairs", value: pairs } });
assert.equal(scored.items, 2n);

// Statistics.
const [a, b] = [[0.5, 0.6, 0.7, 0.55], [0.6, 0.7, 0.8, 0.65]];
close((await statistics.bootstrap(a, { statistic: "mean", resamples: 200, seed: 7 })).estimate, 0.5875);
close((await statistics.correlate(a, b, { seed: 7 })).spearman?.value, 1);
close((await statistics.rankStability({ x: a, y: b }, { x: a, y: b })).mean, 1);
close((await statistics.agreement({ one: [1, 2, 3, 1], two: [1, 2, 3, 1] })).observedAgreement, 1);
const ranks = await statistics.compareRanks({ x: a, y: b, z: [0.9, 0.9, 0.95, 0.9] });
assert.deepEqual([ranks.datasets, ranks.systems[2]?.averageRank], [4, 1]);
const compared = await statistics.comparePairs({ x: a, y: b }, { test: "sign-flip", seed: 7 });
close(Math.abs(compared.pairs[0]?.meanDifference ?? 0), 0.1);
const half = await statistics.reliability({ x: a, y: b, z: [0.1, 0.2, 0.3, 0.4] }, ["s", "s", "s", "s"], { splits: 20, seed: 7 });
assert.ok(half.median <= 1);
const design = await statistics.planDesign({ sdBetween: 0.02, sdSeeds: 0.01, datasets: 8, seeds: 3, effect: 0.02 });
assert.ok(design.datasets === 8 && design.minimalDetectableEffect > 0);

// Runs.
const spec = await runs.spec("quick", [ENCODER], { transformations: ["paraphrase"], limit: 8, seeds: [1] });
assert.ok((await runs.plan(spec)).encodings.some(({ encoderId }) => encoderId === ENCODER));
const run = await runs.create(spec, { requestId: "services" });
assert.equal((await runs.create(spec, { requestId: "services" })).id, run.id);
await runs.cancel(run.id, { reason: "a test" });
const ended = await runs.wait(run.id);
assert.equal((await runs.get(run.id)).state, ended.state);
assert.ok((await some(runs.list())).some(({ id }) => id === run.id));
await runs.delete(run.id);
await assert.rejects(runs.get(run.id), (error) => error instanceof IsomerError && error.code === "NOT_FOUND");
await assert.rejects(runs.spec("/no/such.toml", []), (error) => error instanceof IsomerError && error.field === "suite");
assert.equal((await runs.fleet()).hasWorkers, false);
await assert.rejects(
  runs.history({ encoderId: "never-checked" }),
  (error) => error instanceof IsomerError && error.code === "NOT_FOUND" && error.field === "encoder_id",
);

// Keys.
const expires = new Date(Date.now() + 3_600_000);
const key = await keys.create("team", ["encode", "transform"], { expires, limits: { requestsPerSecond: 5 } });
assert.equal((await keys.get(key.id)).limits?.requestsPerSecond, 5);
assert.equal((await keys.update({ id: key.id, name: "other team" }, ["name"])).name, "other team");
assert.ok((await keys.revoke(key.id)).revokeTime);

client.close();
console.log("every service answered");
