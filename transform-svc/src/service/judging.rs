//! The gRPC handler of the judge.

use std::{sync::Arc, time::Instant};

use futures::TryStreamExt;
use isomer_proto::{
    common::v1::{Provenance, Timing, Usage},
    transform::v1::{
        JudgeRequest, JudgeResponse, JudgeScale, JudgeSummary, OnFingerprintChange, judge_response::Rating,
    },
};
use isomer_service_kit::{Fault, choice};
use isomer_usage::sum;

use super::convert;
use crate::{
    engine::{Caller, Engine, current_version},
    error::TransformError,
    judge::{self, Pair, PairRating, RatingRequest, Scale},
};

const DEFAULT_SEED: u64 = 1337;
const DEFAULT_ATTEMPTS: u32 = 3;
const MAX_ATTEMPTS: u32 = 10;

/// Rates the pairs of a request.
pub(super) async fn judge(
    engine: &Arc<Engine>,
    request: JudgeRequest,
    caller: Caller,
) -> Result<JudgeResponse, TransformError> {
    let began = Instant::now();
    let scale = scale_of(request.scale)?;
    let priority = convert::priority(request.priority)?;
    let max_attempts = request.max_attempts.unwrap_or(DEFAULT_ATTEMPTS);
    if !(1..=MAX_ATTEMPTS).contains(&max_attempts) {
        return Err(TransformError::invalid(
            "max_attempts",
            format!("{max_attempts} attempts"),
            format!("give 1 to {MAX_ATTEMPTS}"),
        ));
    }
    let on_change = choice("on_fingerprint_change", request.on_fingerprint_change)?;
    if request.pairs.is_empty() {
        return Err(TransformError::invalid(
            "pairs",
            "there are no pairs",
            "send at least one",
        ));
    }
    let (mut ids, mut pairs) = (Vec::new(), Vec::new());
    for (index, pair) in request.pairs.into_iter().enumerate() {
        for (name, text) in [("original", &pair.original), ("transformed", &pair.transformed)] {
            let chars = text.chars().count();
            if chars > engine.max_text_chars() {
                return Err(TransformError::invalid(
                    format!("pairs[{index}].{name}"),
                    format!("{chars} characters, more than the limit of {}", engine.max_text_chars()),
                    "shorten the text, or raise transform.max_text_chars",
                ));
            }
        }
        ids.push(pair.id);
        pairs.push(Pair {
            original: pair.original,
            transformed: pair.transformed,
        });
    }
    let generator = engine
        .generator(&request.generator_id, "generator_id", "a judge")
        .await?;
    let prompt = engine.prompts().get(scale.purpose(), &generator.identity().id);
    let rating_request = Arc::new(RatingRequest {
        scale,
        generator,
        prompt,
        task: judge::task(request.transformation.as_ref())?,
        seed: request.seed.unwrap_or(DEFAULT_SEED),
        max_attempts,
        bypass_cache: request.bypass_cache,
        version: current_version(on_change),
        caller,
        priority,
    });
    let mut totals = Totals {
        counts_versions: on_change != Some(OnFingerprintChange::Ignore),
        ..Totals::default()
    };
    let mut ratings = Vec::with_capacity(ids.len());
    let mut pair_rating = std::pin::pin!(judge::run(Arc::clone(engine), Arc::clone(&rating_request), pairs));
    while let Some((index, pair_rating)) = pair_rating.try_next().await? {
        totals.add(&pair_rating);
        ratings.push(rating(
            &rating_request,
            index,
            std::mem::take(&mut ids[index]),
            pair_rating,
        ));
    }
    ratings.sort_unstable_by_key(|rating| rating.index);
    Ok(totals.response(ratings, began))
}

/// An error of a judge. The generator of a judge is named outside any spec.
pub(super) fn fault(error: TransformError) -> Fault {
    let mut fault = Fault::from(error);
    if fault.field.as_deref() == Some("spec.generator_id") {
        fault.field = Some("generator_id".to_owned());
        fault.message = fault.message.replace("spec.generator_id", "generator_id");
    }
    fault
}

fn scale_of(scale: i32) -> Result<JudgeScale, TransformError> {
    choice("scale", scale)?.ok_or_else(|| {
        let hint = "give 1 (similarity), 2 (quality) or 3 (fluency)";
        TransformError::invalid("scale", "no scale is set", hint)
    })
}

fn rating(request: &RatingRequest, index: usize, id: String, rated: PairRating) -> Rating {
    let identity = request.generator.identity();
    let cache_hit = rated.is_cached();
    Rating {
        index: index as u32,
        id,
        score: rated.score,
        provenance: Some(Provenance {
            generator_id: identity.id.clone(),
            generator_digest: identity.digest.clone(),
            prompt_version: request.prompt.tag(),
            prompt_digest: request.prompt.digest().to_owned(),
            seed: rated.seed,
            attempts: if cache_hit { 0 } else { rated.attempts },
            cache_hit,
            content_key: hex::encode(rated.key),
            languages: Vec::new(),
            generator_key: identity.fingerprint(),
        }),
        error: rated.error,
        unreadable: rated.unreadable,
        fingerprint: rated.fingerprint,
    }
}

/// Running totals of a request.
#[derive(Debug, Default)]
struct Totals {
    summary: JudgeSummary,
    /// Whether the ratings of each version are counted.
    counts_versions: bool,
    sum: f64,
    scored: u64,
    usage: Usage,
    waited: std::time::Duration,
}

impl Totals {
    fn add(&mut self, pair_rating: &PairRating) {
        let summary = &mut self.summary;
        let outcome = match pair_rating.score {
            Some(score) => {
                self.sum += score;
                self.scored += 1;
                if pair_rating.attempts == 1 {
                    summary.rated += 1;
                    "rated"
                } else {
                    summary.recovered += 1;
                    "recovered"
                }
            }
            None if pair_rating.generator_failed => {
                summary.generator_errors += 1;
                "generator_error"
            }
            None => {
                summary.unreadable += 1;
                "unreadable"
            }
        };
        metrics::counter!(crate::metric_names::RATINGS, "outcome" => outcome).increment(1);
        if self.counts_versions && !pair_rating.fingerprint.is_empty() {
            *summary.fingerprints.entry(pair_rating.fingerprint.clone()).or_default() += 1;
        }
        let hit = u64::from(pair_rating.is_cached());
        summary.cache_hits += hit;
        summary.unreadable_answers += u64::from(pair_rating.fresh_unreadable);
        sum::add(
            &mut self.usage,
            &Usage {
                texts: 1,
                cached_texts: hit,
                ..pair_rating.cost.usage
            },
        );
        self.waited = self.waited.max(pair_rating.cost.waited);
    }

    fn response(mut self, ratings: Vec<Rating>, began: Instant) -> JudgeResponse {
        self.summary.mean = (self.scored > 0).then(|| self.sum / self.scored as f64);
        let message = |duration| prost_types::Duration::try_from(duration).ok();
        let total = began.elapsed();
        JudgeResponse {
            ratings,
            failures: self.summary.unreadable + self.summary.generator_errors,
            usage: Some(self.usage),
            timing: Some(Timing {
                queue: message(self.waited),
                tokenise: None,
                compute: message(total.saturating_sub(self.waited)),
                total: message(total),
            }),
            summary: Some(self.summary),
        }
    }
}
