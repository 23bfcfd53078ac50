//! The table: the fields of each request, with their flags.

use super::{Field, RequestFlags};

const fn flag(path: &'static str, flag: &'static str) -> Field {
    let (flag, item) = (Some(flag), None);
    Field { path, flag, item }
}

const fn items(path: &'static str, flag: &'static str, item: &'static str) -> Field {
    let (flag, item) = (Some(flag), Some(item));
    Field { path, flag, item }
}

const fn unset(path: &'static str) -> Field {
    let (flag, item) = (None, None);
    Field { path, flag, item }
}

const RUN_SPEC: &[Field] = &[
    flag("spec.suite", "--suite"),
    flag("spec.encoder_ids", "--model"),
    flag("spec.generator_id", "--generator"),
    flag("spec.seeds", "--seeds"),
    flag("spec.limit", "--limit"),
    flag("spec.baseline_encoder_id", "--baseline"),
    flag("spec.transformations", "--transformation"),
    flag("spec.sample_seed", "--sample-seed"),
    items("spec.gate.rules", "--rule", "rule"),
    flag("spec.gate.alpha", "--gate-alpha"),
    flag("spec.gate.basis", "--gate-basis"),
    flag("spec.gate.undecided", "--undecided"),
    flag("spec.gate.sequential", "--sequential"),
    flag("spec.gate.max_unchanged", "--max-unchanged"),
    flag("spec.gate.max_near_copies", "--max-near-copies"),
    flag("spec.gate.unit", "--gate-unit"),
    flag("spec.gate.adjust", "--gate-adjust"),
    flag("spec.gate.max_cut", "--max-cut"),
    flag("spec.gate.min_accepted", "--min-accepted"),
    flag("spec.gate.max_shared", "--max-shared"),
    flag("spec.gate.without_suite_rules", "--no-suite-rules"),
    flag("spec.judge.generator_id", "--judge"),
    flag("spec.judge.sample", "--judge-sample"),
    flag("spec.judge.scales", "--judge-scale"),
    flag("spec.judge.accept", "--judge-accept"),
    flag("spec.temperature", "--temperature"),
    flag("spec.on_fingerprint_change", "--on-fingerprint-change"),
    flag("spec.prompts", "--prompt"),
    flag("spec.separation.off", "--no-separation"),
    flag("spec.separation.kinds", "--separation-kind"),
    flag("spec.separation.texts", "--separation-texts"),
    flag("spec.limits.generator_calls", "--max-calls"),
    flag("spec.limits.cost", "--max-cost"),
    flag("spec.forms", "--form"),
    flag("spec.prompt_variants", "--prompt-variant"),
    flag("spec.total_items", "--total-items"),
];

pub(crate) const CREATE_RUN: RequestFlags = RequestFlags {
    message: "isomer.eval.v1.CreateRunRequest",
    fields: &[RUN_SPEC, &[unset("request_id")]],
};

pub(crate) const PLAN_RUN: RequestFlags = RequestFlags {
    message: "isomer.eval.v1.PlanRunRequest",
    fields: &[RUN_SPEC, &[flag("power", "--power")]],
};

/// The run of a registry's version: its encoder and its baseline are versions.
#[cfg(feature = "registry")]
pub(crate) const REGISTRY_RUN: RequestFlags = RequestFlags {
    message: "isomer.eval.v1.CreateRunRequest",
    fields: &[
        &[
            flag("spec.encoder_ids", "--version"),
            unset("spec.baseline_encoder_id"),
            unset("spec.prompts"),
            unset("request_id"),
        ],
        RUN_SPEC,
    ],
};

pub(crate) const SCORE: RequestFlags = RequestFlags {
    message: "isomer.eval.v1.ScoreRequest",
    fields: &[&[
        flag("task_type", "--task"),
        flag("profile", "--profile"),
        flag("dataset", "--data"),
        flag("dataset.dataset.split", "--split"),
        flag("dataset.dataset.language", "--language"),
        flag("dataset.dataset.languages", "--languages"),
        flag("dataset.dataset.fields", "--field"),
        flag("dataset.encoder_id", "--model"),
        flag("dataset.limit", "--limit"),
        flag("dataset.form", "--form"),
        flag("dataset.sample_seed", "--sample-seed"),
        flag("dataset.augmentation.spec.sources.generator_id", "--generator"),
        flag("dataset.augmentation.spec.sources.transformation", "--augment"),
        unset("dataset.augmentation.spec.k"),
        flag("dataset.augmentation.spec.seed", "--seed"),
        unset("dataset.augmentation.spec.sampling"),
        flag("dataset.augmentation.spec.generation_budget", "--generation-budget"),
        flag("dataset.augmentation.spec.partial_failure", "--missing-variants"),
        unset("dataset.augmentation.spec.max_attempts"),
        unset("dataset.augmentation.spec.bypass_cache"),
        flag("dataset.augmentation.spec.mode", "--augment-mode"),
        unset("dataset.augmentation.spec.make_missing"),
        unset("dataset.augmentation.spec.cascade"),
        unset("dataset.augmentation.spec.priority"),
        flag("dataset.augmentation.pooling", "--pooling"),
        flag("dataset.augmentation.original_weight", "--original-weight"),
        flag("dataset.augmentation.normalise_before", "--normalise-before"),
        unset("dataset.augmentation.normalise_after"),
        flag("dataset.augmentation.queries_only", "--queries-only"),
        unset("dataset.augmentation.plain"),
        flag("dataset.pivot", "--pivot"),
        flag("dataset.pivot.generator_id", "--generator"),
        unset("dataset.pivot.seed"),
        unset("dataset.pivot.max_attempts"),
        flag("dataset.prompts", "--prompt"),
        flag("per_item", "--per-item"),
        flag("options.samples_per_label", "--samples-per-label"),
        unset("options.max_fraction"),
        flag("options.legacy_clustering", "--legacy-clustering"),
        flag("options.train_limit", "--train-limit"),
        flag("options.tag_parts_of_speech", "--tag-pos"),
        flag("options.experiments", "--experiments"),
        unset("similarity"),
        flag("index", "--index"),
        flag("index.hnsw.ef_construction", "--ef-construction"),
        flag("index.hnsw.ef_search", "--ef-search"),
        unset("index.hnsw.seed"),
        unset("evidence"),
        // Vectors of the caller's own.
        unset("pairs"),
        unset("retrieval"),
        unset("reranking"),
        unset("summarisation"),
        unset("clsd"),
        unset("graded"),
        unset("pair_scores"),
        unset("classification"),
        unset("clustering"),
    ]],
};

const AUGMENTATION_SPEC: &[Field] = &[
    flag("spec.sources", "--augment"),
    flag("spec.sources.generator_id", "--generator"),
    unset("spec.k"),
    flag("spec.seed", "--seed"),
    unset("spec.sampling"),
    flag("spec.generation_budget", "--generation-budget"),
    flag("spec.partial_failure", "--missing-variants"),
    unset("spec.max_attempts"),
    unset("spec.bypass_cache"),
    flag("spec.mode", "--augment-mode"),
    unset("spec.make_missing"),
    unset("spec.cascade"),
    unset("spec.priority"),
];

/// The variants of the texts of a data set.
pub(crate) const AUGMENT: RequestFlags = RequestFlags {
    message: "isomer.transform.v1.AugmentRequest",
    fields: &[AUGMENTATION_SPEC, &[items("items", "--data", "text")]],
};

pub(crate) const ENCODE: RequestFlags = RequestFlags {
    message: "isomer.encoder.v1.EncodeRequest",
    fields: &[&[
        flag("encoder_id", "--model"),
        items("inputs", "--input", "text"),
        flag("prompt_name", "--prompt-name"),
        flag("literal_prompt", "--prompt"),
        flag("truncation", "--truncation"),
        flag("dimensions", "--dimensions"),
        flag("normalise", "--normalise"),
        flag("output_dtype", "--dtype"),
        unset("priority"),
        flag("output", "--token-vectors"),
        flag("outputs", "--outputs"),
        flag("max_active_dimensions", "--max-active-dimensions"),
        unset("bypass_cache"),
    ]],
};

pub(crate) const ENCODE_AUGMENTED: RequestFlags = RequestFlags {
    message: "isomer.transform.v1.EncodeAugmentedRequest",
    fields: &[
        AUGMENTATION_SPEC,
        &[
            items("items", "--input", "text"),
            flag("encoder_id", "--model"),
            flag("pooling", "--pooling"),
            flag("original_weight", "--original-weight"),
            flag("normalise_before", "--normalise-before"),
            flag("normalise_after", "--normalise"),
            flag("prompt_name", "--prompt-name"),
            flag("literal_prompt", "--prompt"),
            flag("dimensions", "--dimensions"),
            unset("encoder_address"),
            unset("evidence"),
        ],
    ],
};

/// The estimate of the variants of a query log.
pub(crate) const ESTIMATE: RequestFlags = RequestFlags {
    message: "isomer.transform.v1.EstimateRequest",
    fields: &[&[
        flag("spec.transformation", "--augment"),
        flag("spec.generator_id", "--generator"),
        flag("spec.seed", "--seed"),
        unset("spec.max_attempts"),
        unset("spec.on_failure"),
        unset("spec.sampling"),
        unset("spec.bypass_cache"),
        unset("spec.run"),
        unset("spec.prompts"),
        unset("spec.guards"),
        unset("spec.retry_identical"),
        unset("spec.retry_temperature"),
        unset("spec.on_fingerprint_change"),
        items("items", "--input", "text"),
    ]],
};

pub(crate) const TRANSFORM: RequestFlags = RequestFlags {
    message: "isomer.transform.v1.TransformStreamRequest",
    fields: &[&[
        flag("spec.transformation", "--transformation"),
        flag("spec.generator_id", "--generator"),
        flag("spec.seed", "--seed"),
        flag("spec.max_attempts", "--attempts"),
        flag("spec.on_failure", "--on-failure"),
        flag("spec.sampling.temperature", "--temperature"),
        flag("spec.sampling.top_p", "--top-p"),
        unset("spec.sampling.max_tokens"),
        flag("spec.sampling.top_k", "--top-k"),
        flag("spec.bypass_cache", "--no-cache"),
        flag("spec.run", "--run"),
        flag("spec.prompts", "--prompt"),
        flag("spec.guards", "--guards"),
        flag("spec.retry_identical", "--retry-identical"),
        flag("spec.retry_temperature", "--retry-temperature"),
        flag("spec.on_fingerprint_change", "--on-fingerprint-change"),
        items("items", "--input", "text"),
        unset("priority"),
    ]],
};

pub(crate) const JUDGE: RequestFlags = RequestFlags {
    message: "isomer.transform.v1.JudgeRequest",
    fields: &[&[
        items("pairs", "--input", "pair"),
        flag("scale", "--scale"),
        flag("generator_id", "--generator"),
        flag("seed", "--seed"),
        flag("max_attempts", "--attempts"),
        flag("bypass_cache", "--no-cache"),
        flag("transformation", "--of"),
        unset("priority"),
        flag("on_fingerprint_change", "--on-fingerprint-change"),
    ]],
};

pub(crate) const RERANK: RequestFlags = RequestFlags {
    message: "isomer.encoder.v1.RerankRequest",
    fields: &[&[
        flag("encoder_id", "--model"),
        flag("query", "--query"),
        items("documents", "--input", "document"),
        flag("top_n", "--top"),
        flag("label", "--label"),
        unset("activation"),
    ]],
};
