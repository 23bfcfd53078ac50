/** Every rpc of the protos, and whether making it twice is the same as making it once. A test compares this with the protos. */

const ENCODER = "isomer.encoder.v1.EncoderService";
const TRANSFORM = "isomer.transform.v1.TransformService";
const AUGMENTATION = "isomer.transform.v1.AugmentationService";
const TASK = "isomer.eval.v1.TaskService";
const STATISTICS = "isomer.eval.v1.StatisticsService";
const RUN = "isomer.eval.v1.RunService";
const PROVIDER = "isomer.gateway.v1.ProviderService";
const ACCESS = "isomer.gateway.v1.AccessService";

/** May be made twice. A run's request_id, which the client sets, makes that true of CreateRun. */
const TWICE: Record<string, string> = {
  [ENCODER]: "ListEncoders GetEncoder Encode EncodeStream CountTokens Tokenize Detokenize Rerank",
  [TRANSFORM]: "ListTransformations Transform TransformStream Estimate Inspect Judge",
  [AUGMENTATION]: "Augment EncodeAugmented",
  [TASK]: "ListTasks Score ListDatasets",
  [STATISTICS]:
    "Compare RankStability Agreement Reliability ComparePairs CompareRanks AdjustPValues Bootstrap Correlate PlanDesign",
  [RUN]: "CreateRun PlanRun GetRun ListRuns WatchRun CancelRun GetReport GetFleet GetHistory",
  [PROVIDER]: "GetProvider ListProviders RenewLease CheckProvider",
  [ACCESS]: "GetKey ListKeys UpdateKey RevokeKey ListAuditEvents",
};
/** May not. With an etag a second UpdateProvider would find the first's change and be ABORTED. */
const ONCE: Record<string, string> = {
  [RUN]: "DeleteRun",
  [PROVIDER]: "CreateProvider UpdateProvider DeleteProvider",
  [ACCESS]: "CreateKey",
};

function paths(table: Record<string, string>): string[] {
  return Object.entries(table).flatMap(([service, methods]) => methods.split(" ").map((method) => `${service}/${method}`));
}

/** Path of each rpc to whether it may be made twice. */
export const METHODS: ReadonlyMap<string, boolean> = new Map([
  ...paths(TWICE).map((path) => [path, true] as const),
  ...paths(ONCE).map((path) => [path, false] as const),
]);
