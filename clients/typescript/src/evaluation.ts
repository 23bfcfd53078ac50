/** Scores, statistics and runs. */

import { type DescEnum, type MessageInitShape, create } from "@bufbuild/protobuf";
import * as platform from "#platform";
import type { CallOptions } from "./connection.js";
import { checkCount, chosen } from "./encoding.js";
import { InvalidArgument } from "./errors.js";
import { type Rows, packed } from "./matrix.js";
import { Part, some } from "./part.js";
import {
  type GetFleetResponse,
  type GetHistoryRequestSchema,
  type GetHistoryResponse,
  type Run,
  type RunPlan,
  RunService,
  type RunSpec,
  RunSpecSchema,
  ReportFormat,
  type WatchRunResponse,
} from "./proto/isomer/eval/v1/run_pb.js";
import {
  type AdjustPValuesResponse,
  type AgreementResponse,
  Alternative,
  BootstrapMethod,
  type BootstrapResponse,
  BootstrapStatisticSchema,
  type ComparePairsResponse,
  type CompareRanksResponse,
  type CompareResponse,
  type CorrelateResponse,
  PairedTestSchema,
  type PlanDesignRequestSchema,
  type PlanDesignResponse,
  type RankStabilityResponse,
  type ReliabilityResponse,
  StatisticsService,
} from "./proto/isomer/eval/v1/statistics_pb.js";
import {
  type DatasetInfo,
  type DatasetRefSchema,
  MetricProfile,
  type ScoreRequestSchema,
  type ScoreResponse,
  type TaskInfo,
  TaskService,
  TaskTypeSchema,
} from "./proto/isomer/eval/v1/task_pb.js";
import type { Report } from "./results.js";
import { seeded } from "./transforming.js";

/** Scores of systems: `{ system: [a score of each data set] }`. */
export type Series = Readonly<Record<string, readonly number[]>>;

const TASKS = words(TaskTypeSchema);
const STATISTICS = words(BootstrapStatisticSchema);
const PAIRED_TESTS = words(PairedTestSchema);
const PROFILES = { "mteb-v2": MetricProfile.MTEB_V2, "mteb-v1": MetricProfile.MTEB_V1, hteb: MetricProfile.HTEB };
const ALTERNATIVES = { "two-sided": Alternative.TWO_SIDED, greater: Alternative.GREATER, less: Alternative.LESS };
const FORMATS = { json: ReportFormat.JSON, markdown: ReportFormat.MARKDOWN, html: ReportFormat.HTML, junit: ReportFormat.JUNIT, items: ReportFormat.ITEMS };
const BOOTSTRAPS = { percentile: BootstrapMethod.PERCENTILE, bca: BootstrapMethod.BCA };

/** `pair-classification` for TASK_TYPE_PAIR_CLASSIFICATION, and so on. */
export function words(schema: DescEnum): Record<string, number> {
  const known = schema.values.filter((value) => value.number !== 0);
  return Object.fromEntries(known.map((value) => [value.localName.toLowerCase().replaceAll("_", "-"), value.number]));
}

/** Options of scores. */
export interface ScoreOptions extends CallOptions {
  /** `sts`, `retrieval`, `pair-classification`, … */
  task?: string;
  /** `mteb-v2` unless given. */
  profile?: keyof typeof PROFILES;
  /** Whether the answer has a score for each item. */
  perItem?: boolean;
}

/** TaskService: vectors, or a data set and an encoder, to scores. */
export class Tasks extends Part {
  /** The kinds of task, with the fields and the main score of each. */
  list(options: CallOptions = {}): AsyncGenerator<TaskInfo> {
    return this.pages(options, async (pageToken, operation) => {
      const answer = await this.connection.call(TaskService.method.listTasks, { pageToken }, operation);
      return [answer.tasks, answer.nextPageToken];
    });
  }

  /** The data sets that can be named, of all papers or of one. */
  datasets(options: { family?: string; task?: string } & CallOptions = {}): AsyncGenerator<DatasetInfo> {
    const asked = { family: options.family ?? "", taskType: chosen("task", options.task, TASKS) };
    return this.pages(options, async (pageToken, operation) => {
      const answer = await this.connection.call(TaskService.method.listDatasets, { ...asked, pageToken }, operation);
      return [answer.datasets, answer.nextPageToken];
    });
  }

  /** The scores of any task: the request as the protos have it. `packed` makes matrices. */
  score(request: MessageInitShape<typeof ScoreRequestSchema>, options: CallOptions = {}): Promise<ScoreResponse> {
    return this.ask(TaskService.method.score, request, options);
  }

  #scored(input: MessageInitShape<typeof ScoreRequestSchema>["input"], task: string | undefined, options: ScoreOptions): Promise<ScoreResponse> {
    const taskType = chosen("task", options.task ?? task, TASKS);
    const profile = chosen("profile", options.profile, PROFILES);
    return this.score({ taskType, profile, input: input ?? { case: undefined }, perItem: options.perItem ?? false }, options);
  }

  /** Pairs of vectors: `sts` (unless another task is given) and `pair-classification` with labels, `bitext` without. */
  scorePairs(first: Rows, second: Rows, labels: readonly number[] = [], options: ScoreOptions = {}): Promise<ScoreResponse> {
    const value = { first: packed(first, "pairs.first"), second: packed(second, "pairs.second"), labels: [...labels] };
    return this.#scored({ case: "pairs", value }, "sts", options);
  }

  /** Queries and documents, with judgements as `{ query: { document: relevance } }`. */
  scoreRetrieval(
    queries: { ids: readonly string[]; vectors: Rows },
    documents: { ids: readonly string[]; vectors: Rows },
    judgements: Readonly<Record<string, Readonly<Record<string, number>>>>,
    options: Omit<ScoreOptions, "task"> = {},
  ): Promise<ScoreResponse> {
    const judged = Object.entries(judgements).flatMap(([queryId, ofIt]) =>
      Object.entries(ofIt).map(([documentId, relevance]) => ({ queryId, documentId, relevance })),
    );
    const value = {
      queries: packed(queries.vectors, "retrieval.queries"),
      queryIds: [...queries.ids],
      documents: packed(documents.vectors, "retrieval.documents"),
      documentIds: [...documents.ids],
      judgements: judged,
    };
    return this.#scored({ case: "retrieval", value }, "retrieval", options);
  }

  /** A data set, by its name or as a DatasetRef, encoded and scored by the server. */
  scoreDataset(
    dataset: string | MessageInitShape<typeof DatasetRefSchema>,
    options: ScoreOptions & { encoder: string; limit?: number },
  ): Promise<ScoreResponse> {
    checkCount("limit", options.limit, 1);
    const named = typeof dataset === "string" ? { source: { case: "named" as const, value: dataset } } : dataset;
    const value = { dataset: named, encoderId: options.encoder, ...(options.limit === undefined ? {} : { limit: options.limit }) };
    return this.#scored({ case: "dataset", value }, undefined, options);
  }
}

/** Options of several statistics; the server's default stands for each that is not given. */
export interface StatisticsOptions extends CallOptions {
  resamples?: number;
  confidence?: number;
  seed?: number | bigint;
}

/** StatisticsService. Equal numbers and seeds give equal answers. */
export class Statistics extends Part {
  /** Each treatment against the reference, paired: shift with interval, signed-rank test, Holm's adjustment. */
  compare(
    reference: Series | readonly number[],
    treatments: Series,
    options: StatisticsOptions & { alternative?: keyof typeof ALTERNATIVES } = {},
  ): Promise<CompareResponse> {
    const request = {
      reference: oneSeries(reference, "reference"),
      treatments: seriesOf(treatments),
      alternative: chosen("alternative", options.alternative, ALTERNATIVES),
      ...sampled(options),
    };
    return this.ask(StatisticsService.method.compare, request, options);
  }

  /** Kendall's tau-b between encoders' scores on originals and on rewrites. */
  rankStability(original: Series, transformed: Series, options: CallOptions = {}): Promise<RankStabilityResponse> {
    const request = { original: seriesOf(original), transformed: seriesOf(transformed) };
    return this.ask(StatisticsService.method.rankStability, request, options);
  }

  /** Agreement of raters; NaN where a rating is missing. */
  agreement(
    raters: Series,
    options: { weights?: string; scale?: readonly number[]; confidence?: number } & CallOptions = {},
  ): Promise<AgreementResponse> {
    const request = {
      raters: Object.entries(raters).map(([name, ratings]) => ({ name, ratings: [...ratings] })),
      weights: options.weights ?? "",
      scale: [...(options.scale ?? [])],
      confidence: options.confidence ?? 0,
    };
    return this.ask(StatisticsService.method.agreement, request, options);
  }

  /** Split-half reliability of a profile. */
  reliability(
    encoders: Series,
    strata: readonly string[],
    options: { splits?: number; seed?: number | bigint } & CallOptions = {},
  ): Promise<ReliabilityResponse> {
    const request = { encoders: seriesOf(encoders), strata: [...strata], splits: options.splits ?? 0, ...seeded(options.seed) };
    return this.ask(StatisticsService.method.reliability, request, options);
  }

  /** Every system against every other, with significance letters. */
  comparePairs(systems: Series, options: StatisticsOptions & { test?: string; alpha?: number } = {}): Promise<ComparePairsResponse> {
    const request = {
      systems: seriesOf(systems),
      test: chosen("test", options.test, PAIRED_TESTS),
      alpha: options.alpha ?? 0,
      ...sampled(options),
    };
    return this.ask(StatisticsService.method.comparePairs, request, options);
  }

  /** Whether systems differ in rank: Friedman's test, Nemenyi's critical difference. */
  compareRanks(systems: Series, options: { alpha?: number } & CallOptions = {}): Promise<CompareRanksResponse> {
    return this.ask(StatisticsService.method.compareRanks, { systems: seriesOf(systems), alpha: options.alpha ?? 0 }, options);
  }

  /** Holm's, and Benjamini and Hochberg's adjustment. */
  adjustPValues(pValues: readonly number[], options: CallOptions = {}): Promise<AdjustPValuesResponse> {
    return this.ask(StatisticsService.method.adjustPValues, { pValues: [...pValues] }, options);
  }

  /** The bootstrap interval of a statistic, e.g. `mean`, `median`, `hodges-lehmann`, `spearman`. */
  bootstrap(
    values: readonly number[],
    options: StatisticsOptions & { second?: readonly number[]; statistic?: string; method?: keyof typeof BOOTSTRAPS } = {},
  ): Promise<BootstrapResponse> {
    const request = {
      values: [...values],
      second: [...(options.second ?? [])],
      statistic: chosen("statistic", options.statistic, STATISTICS),
      method: chosen("method", options.method, BOOTSTRAPS),
      ...sampled(options),
    };
    return this.ask(StatisticsService.method.bootstrap, request, options);
  }

  /** Pearson's, Spearman's and Kendall's correlation, with tests and intervals. */
  correlate(
    x: readonly number[],
    y: readonly number[],
    options: StatisticsOptions & { alternative?: keyof typeof ALTERNATIVES } = {},
  ): Promise<CorrelateResponse> {
    const request = {
      x: oneSeries(x, "x"),
      y: oneSeries(y, "y"),
      alternative: chosen("alternative", options.alternative, ALTERNATIVES),
      ...sampled(options),
    };
    return this.ask(StatisticsService.method.correlate, request, options);
  }

  /** Computes the effect that a design with given numbers of data sets and seeds can detect: the request as the protos have it. */
  planDesign(request: MessageInitShape<typeof PlanDesignRequestSchema>, options: CallOptions = {}): Promise<PlanDesignResponse> {
    return this.ask(StatisticsService.method.planDesign, request, options);
  }
}

function sampled(options: StatisticsOptions): { resamples: number; confidence: number; seed?: bigint } {
  checkCount("resamples", options.resamples);
  return { resamples: options.resamples ?? 0, confidence: options.confidence ?? 0, ...seeded(options.seed) };
}

function seriesOf(values: Series): { name: string; values: number[] }[] {
  return Object.entries(values).map(([name, numbers]) => ({ name, values: [...numbers] }));
}

function oneSeries(values: Series | readonly number[], name: string): { name: string; values: number[] } {
  if (Array.isArray(values)) return { name, values: [...(values as readonly number[])] };
  const [first, ...more] = seriesOf(values as Series);
  if (first === undefined || more.length > 0) {
    const count = Object.keys(values).length;
    throw new InvalidArgument(`${name} has ${count} series`, { field: name, reason: "INVALID_ARGUMENT", hint: "give one" });
  }
  return first;
}

/** Options of a run; the server's default stands for each that is not given. */
export interface SpecOptions {
  generator?: string;
  transformations?: readonly string[];
  seeds?: readonly (number | bigint)[];
  /** Items of each data set. */
  limit?: number;
  /** The encoder that others are compared with. */
  baseline?: string;
}

/** RunService: robustness checks as long-running work. */
export class Runs extends Part {
  /**
   * Specification of a run: a suite by its name or, in Node, by its `.toml` file, and the encoders.
   * Set gate,
   * judge and so on in what it returns.
   */
  async spec(suite: string, encoders: readonly string[], options: SpecOptions = {}): Promise<RunSpec> {
    checkCount("limit", options.limit, 1);
    return create(RunSpecSchema, {
      suite: await suiteOf(suite),
      encoderIds: [...encoders],
      generatorId: options.generator ?? "",
      transformations: [...(options.transformations ?? [])],
      seeds: (options.seeds ?? []).map((seed) => seeded(seed).seed ?? 0n),
      baselineEncoderId: options.baseline ?? "",
      ...(options.limit === undefined ? {} : { limit: options.limit }),
    });
  }

  /** Starts a run. Repeated, also by a retry, an equal `requestId` gives the run that exists; by default a new one. */
  async create(spec: MessageInitShape<typeof RunSpecSchema>, options: { requestId?: string } & CallOptions = {}): Promise<Run> {
    const request = { spec, requestId: options.requestId ?? uuid() };
    return some((await this.ask(RunService.method.createRun, request, options)).run, "run");
  }

  /**
   * Estimates what a run would take, before it costs, and how probably its rules decide.
   * With `power`, e.g. 0.8, `design` has the items with which
   * an encoder that does not drop passes with this probability.
   */
  async plan(spec: MessageInitShape<typeof RunSpecSchema>, options: { power?: number } & CallOptions = {}): Promise<RunPlan> {
    const request = { spec, power: options.power };
    return some((await this.ask(RunService.method.planRun, request, options)).plan, "plan");
  }

  async get(id: string, options: CallOptions = {}): Promise<Run> {
    return some((await this.ask(RunService.method.getRun, { id }, options)).run, "run");
  }

  /** Runs, newest first. */
  list(options: CallOptions = {}): AsyncGenerator<Run> {
    return this.pages(options, async (pageToken, operation) => {
      const answer = await this.connection.call(RunService.method.listRuns, { pageToken }, operation);
      return [answer.runs, answer.nextPageToken];
    });
  }

  /** The run's events from its start, until it ends. A connection that breaks is made again where it stood. */
  async *watch(id: string, options: { after?: number | bigint } & CallOptions = {}): AsyncGenerator<WatchRunResponse> {
    let afterSequence = BigInt(options.after ?? 0);
    const over = (event: WatchRunResponse) => event.event.case === "ended";
    for await (const event of this.resumed(RunService.method.watchRun, () => ({ id, afterSequence }), options, over)) {
      afterSequence = event.sequence;
      yield event;
    }
  }

  /** The run as it ended. `progress` is called with each event on the way. */
  async wait(id: string, options: { progress?: (event: WatchRunResponse) => void } & CallOptions = {}): Promise<Run> {
    for await (const event of this.watch(id, options)) {
      if (event.event.case === "ended") return event.event.value;
      options.progress?.(event);
    }
    return this.get(id, options);
  }

  /** Stops a run. Finished work stays stored. */
  async cancel(id: string, options: { reason?: string } & CallOptions = {}): Promise<Run> {
    return some((await this.ask(RunService.method.cancelRun, { id, reason: options.reason ?? "" }, options)).run, "run");
  }

  /** Forgets a run that has ended, its report included. */
  async delete(id: string, options: CallOptions = {}): Promise<void> {
    await this.ask(RunService.method.deleteRun, { id }, options);
  }

  /** The workers that do the work of runs, their lanes, and what the next unit of each run waits for. */
  fleet(options: CallOptions = {}): Promise<GetFleetResponse> {
    return this.ask(RunService.method.getFleet, {}, options);
  }

  /** The releases of an encoder over the runs that are kept, in each form. */
  history(request: MessageInitShape<typeof GetHistoryRequestSchema>, options: CallOptions = {}): Promise<GetHistoryResponse> {
    return this.ask(RunService.method.getHistory, request, options);
  }

  /** The report of a run that succeeded. */
  async report(id: string, format: keyof typeof FORMATS = "json", options: CallOptions = {}): Promise<Report> {
    const { content, mediaType, fileName } = await this.ask(RunService.method.getReport, { id, format: chosen("format", format, FORMATS) }, options);
    return { content, mediaType, fileName, text: new TextDecoder().decode(content) };
  }
}

async function suiteOf(source: string): Promise<NonNullable<MessageInitShape<typeof RunSpecSchema>["suite"]>> {
  if (!source.endsWith(".toml")) return { source: { case: "builtin", value: source } };
  const { text, name, folder } = await platform.readText(source);
  return { source: { case: "toml", value: text }, fileName: name, baseDir: folder };
}

/** `crypto.randomUUID`, which browsers have on pages of https alone, by what they have everywhere. */
function uuid(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
