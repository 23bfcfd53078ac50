//! The judge of a run, tested with one pair before anything is generated.

use std::collections::BTreeMap;

use isomer_proto::{
    common::v1::Usage,
    transform::v1::{
        JudgeRequest, judge_request::Pair as ProtoPair, judge_response::Rating as ProtoRating,
        transform_service_client::TransformServiceClient,
    },
};
use isomer_service_kit::Fault;
use isomer_usage::sum;

use crate::{
    judging::{JudgeSettings, Scale},
    run::{RunContext, RunError, record::JudgeCounters, wire},
    suite::Suite,
    work::Producer,
};

/// The pair used to test a judge before anything is generated.
const TRIAL: (&str, &str) = ("The shop opens at nine.", "At nine the shop opens its doors.");

/// A judge that has rated the trial pair.
#[derive(Debug, Clone)]
pub(crate) struct JudgePlan {
    /// The judge's settings: generator, scales and sample.
    pub judging: JudgeSettings,
    /// The judge's id, as it reported.
    pub id: String,
    /// Digest of its weights, if known.
    pub digest: String,
    /// Version and digest of the prompt of each of the scales.
    pub prompts: Vec<(String, String)>,
    /// The generator and prompt that rate on each scale.
    pub producers: BTreeMap<Scale, Producer>,
    /// Usage of the trial.
    pub trial: Usage,
    /// Warnings from the trial, for a human reader.
    pub warnings: Vec<String>,
}

/// The result of rating a pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Rating {
    /// A rating in the scale's own unit.
    Score(f64),
    /// No answer was a rating.
    Unreadable,
    /// The judge failed.
    Failed,
}

impl Rating {
    /// The rating, if there is one.
    pub(crate) fn score(self) -> Option<f64> {
        match self {
            Self::Score(score) => Some(score),
            Self::Unreadable | Self::Failed => None,
        }
    }
}

/// Has the judge rate the trial pair on each scale, bypassing the cache. This shows, before
/// anything is generated, that the judge is reachable, has its model and responds, and which model
/// it is. `field` is the field that names the judge.
pub(crate) async fn probe(
    context: &RunContext,
    suite: &Suite,
    judging: JudgeSettings,
    field: &str,
) -> Result<JudgePlan, RunError> {
    let failed = |fault: Fault| RunError::Judge {
        id: judging.generator.clone(),
        field: field.to_owned(),
        fault: Box::new(fault),
    };
    let mut planned = JudgePlan {
        judging: judging.clone(),
        id: judging.generator.clone(),
        digest: String::new(),
        prompts: Vec::with_capacity(judging.scales.len()),
        producers: BTreeMap::new(),
        trial: Usage::default(),
        warnings: Vec::new(),
    };
    for scale in &judging.scales {
        let request = JudgeRequest {
            bypass_cache: true,
            pairs: vec![ProtoPair {
                id: String::new(),
                original: TRIAL.0.to_owned(),
                transformed: TRIAL.1.to_owned(),
            }],
            ..base_request(suite, &judging, *scale)
        };
        let mut client = TransformServiceClient::new(context.clients.transform.clone());
        let answer = client.judge(request).await;
        let answer = answer
            .map_err(|status| failed(Fault::from_status(&status)))?
            .into_inner();
        let Some(rating) = answer.ratings.into_iter().next() else {
            return Err(failed(Fault::internal(
                "the transform service answered without a rating",
            )));
        };
        match outcome(&rating, suite.attempts) {
            Rating::Score(_) => {}
            Rating::Unreadable => planned.warnings.push(format!(
                "the judge {} was tried with one pair, and no answer was a rating ({}, {}). Such pairs are counted and \
                 left out; a stronger model rates more of them",
                judging.generator,
                scale.name(),
                rating.error
            )),
            Rating::Failed => {
                let fault = Fault::unavailable("JUDGE_FAILED", format!("it could not rate a pair: {}", rating.error));
                return Err(failed(fault.hint("check the judge's address, model and key")));
            }
        }
        let provenance = rating.provenance.unwrap_or_default();
        planned.producers.insert(*scale, Producer::from(&provenance));
        if !provenance.generator_id.is_empty() {
            planned.id = provenance.generator_id;
        }
        planned.digest = provenance.generator_digest;
        planned
            .prompts
            .push((provenance.prompt_version, provenance.prompt_digest));
        sum::add(&mut planned.trial, &answer.usage.unwrap_or_default());
    }
    Ok(planned)
}

impl JudgePlan {
    /// The counters of a run before its start: those of its judge's trial.
    pub(crate) fn trial_usage(&self) -> JudgeCounters {
        let mut counters = JudgeCounters::default();
        spend(&mut counters, &self.trial);
        counters
    }
}

/// The fields that all requests for a scale share. The seed is the run's first, so later rounds do
/// not change a rating.
pub(crate) fn base_request(suite: &Suite, judging: &JudgeSettings, scale: Scale) -> JudgeRequest {
    JudgeRequest {
        scale: wire::judge_scale(scale).into(),
        generator_id: judging.generator.clone(),
        seed: suite.seeds.first().copied(),
        max_attempts: Some(suite.attempts),
        on_fingerprint_change: suite.on_fingerprint_change.into(),
        ..JudgeRequest::default()
    }
}

/// The result of rating a pair, after this number of attempts.
pub(crate) fn outcome(rating: &ProtoRating, attempts: u32) -> Rating {
    match rating.score {
        Some(score) if score.is_finite() => Rating::Score(score),
        _ if rating.unreadable >= attempts => Rating::Unreadable,
        _ => Rating::Failed,
    }
}

/// Adds the usage of a response.
pub(crate) fn spend(counters: &mut JudgeCounters, usage: &Usage) {
    counters.calls = counters.calls.saturating_add(usage.generator_calls);
    counters.tokens = counters.tokens.saturating_add(usage.tokens);
    counters.generated_tokens = counters.generated_tokens.saturating_add(usage.generated_tokens);
    counters.tokens_estimated |= usage.tokens_estimated;
}
