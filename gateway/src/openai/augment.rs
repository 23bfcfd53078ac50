//! The `augment` field of `/v1/embeddings`: GASE over HTTP.

use std::time::Duration;

use isomer_access::AccessScope;
use isomer_proto::{
    ProtoEnum,
    encoder::v1::encode_request::Prompt,
    transform::v1::{
        AugmentationMode, AugmentationPooling, AugmentationSpec, CascadeRule, EncodeAugmentedRequest, MissingReason,
        PartialFailurePolicy, SearchEvidence, TextItem, TransformationInfo, VariantSource, Variants,
    },
};
use isomer_service_kit::config::ConfigError;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Backends, Call,
    encoded_inputs::EncodedInputs,
    error::ApiError,
    inputs::{bounded, bounded_or_none},
};
use crate::{billing, catalogue, proxy::missing_variants, tenant};

/// More sources than any request may have; further sources are not created.
const ENOUGH_SOURCES: usize = 1024;

/// How vectors are augmented.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Augment {
    /// Transformations that make the variants; each of them runs on each generator.
    #[serde(deserialize_with = "bounded")]
    transformations: Vec<String>,
    /// Generators that make the variants; empty: the service's default.
    #[serde(default, deserialize_with = "bounded")]
    generators: Vec<String>,
    /// Use only the first `k` sources.
    k: Option<u32>,
    pooling: Option<AugmentationPooling>,
    original_weight: Option<f64>,
    normalise_before: Option<bool>,
    normalise_after: Option<bool>,
    seed: Option<u64>,
    /// In seconds.
    generation_budget: Option<f64>,
    /// When variants are used; absent: `budget` with a `generation_budget`, else `always`.
    mode: Option<AugmentationMode>,
    /// Whether missing variants are made after the answer, for the next request; absent: only with
    /// `cached`.
    make_missing: Option<bool>,
    /// The threshold of a poor plain search, with `cascade`.
    cascade: Option<Cascade>,
    /// Scores of each text's plain search, best first, with `cascade`; absent: no search was made
    /// yet.
    #[serde(default, deserialize_with = "bounded_or_none")]
    evidence: Option<Vec<Scores>>,
    missing_variants: Option<PartialFailurePolicy>,
    /// Language of the texts (BCP-47); absent: detected.
    language: Option<String>,
}

/// The scores of one search.
#[derive(Debug, Clone, Deserialize)]
struct Scores(#[serde(deserialize_with = "bounded")] Vec<f64>);

/// The threshold of a poor plain search.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cascade {
    min_results: Option<u32>,
    min_score: Option<f64>,
    min_gap: Option<f64>,
    gap_rank: Option<u32>,
}

impl Augment {
    /// Sources ordered by transformation, then by generator. A transformation that needs no
    /// generator is one source, however many generators are named.
    fn sources(&self, served: &[TransformationInfo]) -> Result<Vec<VariantSource>, ApiError> {
        let default = [String::new()];
        let none = ["none".to_owned()];
        let mut sources = Vec::new();
        for (i, name) in self.transformations.iter().enumerate() {
            // The service accepts fewer sources, and its error states the limit.
            if sources.len() > ENOUGH_SOURCES {
                break;
            }
            let field = || format!("augment.transformations[{i}]");
            let (transformation, needs_generator) =
                catalogue::named(served, name).map_err(|fault| ApiError::from(fault).at(&field()))?;
            let generators = match (needs_generator, self.generators.as_slice()) {
                (false, _) => none.as_slice(),
                (_, []) => default.as_slice(),
                (_, named) => named.get(..ENOUGH_SOURCES).unwrap_or(named),
            };
            sources.extend(generators.iter().map(|generator| VariantSource {
                generator_id: generator.clone(),
                transformation: Some(transformation.clone()),
            }));
        }
        if sources.is_empty() {
            return Err(ApiError::invalid("augment.transformations", "is empty")
                .hint("name some, e.g. [\"paraphrase\"], or leave `augment` out"));
        }
        Ok(sources)
    }

    /// Checks the `augment` object of a configuration, which applies to all later requests.
    pub(super) fn check_standing(&self) -> Result<(), ConfigError> {
        if self.transformations.is_empty() {
            let hint = "name some, e.g. [\"paraphrase\"]";
            return Err(ConfigError::new("augment.transformations", "is empty", hint));
        }
        if self.evidence.is_some() {
            return Err(ConfigError::new(
                "augment.evidence",
                "is of one request",
                "leave it out: a name cannot say what a search found",
            ));
        }
        Ok(())
    }

    /// Combines the request's two settings for unit length.
    pub(super) fn normalised(mut self, wanted: Option<bool>) -> Result<Self, ApiError> {
        match (self.normalise_after, wanted) {
            (Some(own), Some(other)) if own != other => Err(ApiError::invalid(
                "normalized",
                "differs from `augment.normalise_after`; give one of the two",
            )),
            (own, wanted) => {
                self.normalise_after = wanted.or(own);
                Ok(self)
            }
        }
    }

    fn budget(&self) -> Result<Option<prost_types::Duration>, ApiError> {
        let Some(seconds) = self.generation_budget else {
            return Ok(None);
        };
        Duration::try_from_secs_f64(seconds)
            .ok()
            .filter(|budget| !budget.is_zero())
            .and_then(|budget| prost_types::Duration::try_from(budget).ok())
            .map(Some)
            .ok_or_else(|| {
                ApiError::invalid(
                    "augment.generation_budget",
                    format!("{seconds} is not a valid duration"),
                )
                .hint("seconds above 0")
            })
    }
}

/// The texts that are augmented.
pub(super) struct Originals {
    pub(super) encoder_id: String,
    pub(super) texts: Vec<String>,
    pub(super) prompt: Option<Prompt>,
    pub(super) dimensions: Option<u32>,
}

pub(super) async fn encode(
    backends: &Backends,
    call: &Call,
    originals: Originals,
    wanted: Augment,
) -> Result<EncodedInputs, ApiError> {
    if let Some(caller) = &call.caller {
        caller.require(AccessScope::Transform)?;
    }
    let mut client = backends.augmentation()?;
    let served = match &backends.augmentation {
        Some(servers) => catalogue::served(servers).await?,
        None => Vec::new(),
    };
    let spec = AugmentationSpec {
        sources: wanted.sources(&served)?,
        k: wanted.k,
        seed: wanted.seed,
        generation_budget: wanted.budget()?,
        partial_failure: wanted.missing_variants.unwrap_or_default().into(),
        mode: wanted.mode.unwrap_or_default().into(),
        make_missing: wanted.make_missing,
        cascade: wanted.cascade.map(|rule| CascadeRule {
            min_results: rule.min_results,
            min_score: rule.min_score,
            min_gap: rule.min_gap,
            gap_rank: rule.gap_rank,
        }),
        ..AugmentationSpec::default()
    };
    let evidence = wanted.evidence.unwrap_or_default();
    let items = originals.texts.into_iter().map(|text| TextItem {
        text,
        language: wanted.language.clone(),
        ..TextItem::default()
    });
    let (prompt_name, literal_prompt) = match originals.prompt {
        None => (String::new(), None),
        Some(Prompt::PromptName(name)) => (name, None),
        Some(Prompt::LiteralPrompt(text)) => (String::new(), Some(text)),
    };
    let request = EncodeAugmentedRequest {
        spec: Some(spec),
        items: items.collect(),
        encoder_id: originals.encoder_id,
        pooling: wanted.pooling.unwrap_or_default().into(),
        original_weight: wanted.original_weight,
        normalise_before: wanted.normalise_before,
        normalise_after: wanted.normalise_after,
        prompt_name,
        literal_prompt,
        dimensions: originals.dimensions,
        evidence: evidence
            .into_iter()
            .map(|Scores(scores)| SearchEvidence { scores })
            .collect(),
        ..EncodeAugmentedRequest::default()
    };
    let most = billing::most::of_augmented(&backends.router, &request);
    let _reserved = billing::reserve(call.caller.as_ref(), &most).await?;
    let lacking = backends.variants.as_ref().zip(request.spec.clone());
    let lacking = lacking.filter(|(_, spec)| missing_variants::is_wanted(Some(spec)));
    let items = lacking.as_ref().map(|_| request.items.clone()).unwrap_or_default();
    let request = tenant::request(call.caller.as_ref(), request);
    let answer = client.encode_augmented(request).await?.into_inner();
    if let Some((queue, spec)) = lacking {
        queue.take(call.caller.as_ref(), &spec, &items, &answer.used);
    }
    let usage = answer.usage.unwrap_or_default();
    let encoded = EncodedInputs {
        matrix: answer.embeddings,
        sparse: Vec::new(),
        token_matrix: None,
        space: answer.vector_space,
        sparse_space: None,
        token_space: None,
        usage,
        row_counts: Vec::new(),
        timing: None,
        errors: answer.errors,
        augment: Some(json!({ "used": answer.used.iter().map(used).collect::<Vec<_>>() })),
    };
    Ok(encoded.reserved()?)
}

/// The sources of one vector.
fn used(variants: &Variants) -> Value {
    let missing = variants.missing.iter().map(|missing| {
        let reason = MissingReason::given(missing.reason)
            .ok()
            .flatten()
            .map_or("unknown", ProtoEnum::name);
        json!({ "source": missing.source, "reason": reason, "message": missing.message })
    });
    let texts = variants.variants.iter().zip(&variants.sources);
    json!({
        "index": variants.index,
        "variants": texts.map(|(variant, source)| json!({ "source": source, "text": variant.text })).collect::<Vec<_>>(),
        "missing": missing.collect::<Vec<_>>(),
    })
}
