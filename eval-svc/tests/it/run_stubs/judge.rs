//! A judge that rates by rule and remembers its ratings, like a cache on disk.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use isomer_eval::judging::{ProbeKind, probes};
use isomer_proto::{
    common::v1::{Provenance, Usage},
    transform::v1::{JudgeRequest, JudgeResponse, JudgeScale, JudgeSummary, judge_response::Rating},
};
use isomer_service_kit::Fault;
use parking_lot::Mutex;

use super::quota::Quota;

/// Pairs whose transformed text contains this word get no readable rating.
pub const UNREADABLE: &str = "court";

/// Counts its requests.
#[derive(Debug, Clone, Default)]
pub struct StubJudge {
    /// Number of ratings made (not found), excluding trials.
    pub made: Arc<AtomicU64>,
    /// Number of ratings that bypass the cache.
    pub trials: Arc<AtomicU64>,
    /// Requested ratings: scale, original, transformed.
    pub asked: Arc<Mutex<Vec<(JudgeScale, String, String)>>>,
    /// Limit on the number of ratings.
    pub quota: Arc<Quota>,
    /// Ratings for pairs with a known rating; absent: those of a good judge.
    pub probe: Arc<Mutex<Option<fn(ProbeKind) -> f64>>>,
    /// Rates a pair of the run, original and transformed; absent: by letters.
    pub rater: Arc<Mutex<Option<fn(&str, &str) -> f64>>>,
    /// The version of the model that rates a pair, by its transformed text.
    pub version: Arc<Mutex<Option<fn(&str) -> &'static str>>>,
    /// Whether it fails, starting with the first pair that is not a trial.
    pub fails: Arc<Mutex<bool>>,
    known: Arc<Mutex<HashSet<String>>>,
}

/// The stub's rating, by the letters of the transformed text.
pub fn rating(scale: JudgeScale, transformed: &str) -> Option<f64> {
    let sum: u32 = transformed.bytes().map(u32::from).sum();
    let score = match scale {
        JudgeScale::Similarity => f64::from(sum % 11) / 2.0,
        _ => f64::from(1 + sum % 5),
    };
    (!transformed.contains(UNREADABLE)).then_some(score)
}

impl StubJudge {
    pub async fn judge(&self, request: JudgeRequest) -> Result<JudgeResponse, Fault> {
        match request.generator_id.as_str() {
            "missing" => {
                return Err(Fault::not_found("UNKNOWN_GENERATOR", "unknown generator `missing`")
                    .field("generator_id")
                    .hint("use `local:ID` or `openai:MODEL@URL`"));
            }
            "down" => {
                return Err(
                    Fault::unavailable("GENERATOR_UNREACHABLE", "the generator `down` cannot be reached")
                        .hint("start the server"),
                );
            }
            _ => {}
        }
        let (scale, attempts) = (request.scale(), request.max_attempts.unwrap());
        let mut response = JudgeResponse::default();
        let (mut usage, mut summary) = (Usage::default(), JudgeSummary::default());
        let fails = *self.fails.lock() && !request.bypass_cache;
        for (index, pair) in request.pairs.into_iter().enumerate() {
            let probe = probes()
                .into_iter()
                .find(|probe| (probe.original, probe.beside) == (&pair.original, &pair.transformed));
            if let Some(probe) = probe {
                let rate = self.probe.lock().unwrap_or(|kind| match kind {
                    ProbeKind::Identical => 5.0,
                    ProbeKind::Paraphrase => 4.0,
                    ProbeKind::Unrelated => 0.0,
                });
                response.ratings.push(Rating {
                    id: pair.id,
                    index: index as u32,
                    score: Some(rate(probe.kind)),
                    ..Rating::default()
                });
                continue;
            }
            assert_ne!(pair.original, pair.transformed, "only what changed is rated");
            let key = format!(
                "{scale:?}|{:?}|{:?}|{}|{}",
                request.seed, request.transformation, pair.original, pair.transformed
            );
            let cache_hit = !request.bypass_cache && self.known.lock().contains(&key);
            let rater = *self.rater.lock();
            let score = match rater {
                Some(rate) => Some(rate(&pair.original, &pair.transformed)),
                None => rating(scale, &pair.transformed),
            };
            let score = score.filter(|_| !fails);
            let version = self.version.lock().map_or("", |version| version(&pair.transformed));
            if !version.is_empty() && !request.bypass_cache {
                *summary.fingerprints.entry(version.to_owned()).or_default() += 1;
            }
            if request.bypass_cache {
                self.trials.fetch_add(1, Ordering::SeqCst);
            } else {
                self.asked.lock().push((scale, pair.original, pair.transformed));
                if !cache_hit {
                    self.quota.take().await;
                }
                if !cache_hit && !fails {
                    self.made.fetch_add(1, Ordering::SeqCst);
                    self.known.lock().insert(key);
                }
            }
            if !cache_hit {
                let calls = if score.is_some() { 1 } else { attempts.into() };
                usage.generator_calls += calls;
                usage.tokens += 100 * calls;
                usage.generated_tokens += calls;
            }
            summary.cache_hits += u64::from(cache_hit);
            response.ratings.push(Rating {
                id: pair.id,
                index: index as u32,
                score,
                error: match score {
                    Some(_) => String::new(),
                    None if fails => "connection reset".to_owned(),
                    None => "`I would rather not say` is not a rating".to_owned(),
                },
                unreadable: if score.is_none() && !fails { attempts } else { 0 },
                provenance: Some(Provenance {
                    generator_id: request.generator_id.clone(),
                    generator_digest: format!("weights-of-{}", request.generator_id),
                    prompt_version: format!("judge_{}@1", scale.as_str_name().to_lowercase()),
                    prompt_digest: "digest-of-judge".to_owned(),
                    cache_hit,
                    ..Provenance::default()
                }),
                fingerprint: version.to_owned(),
            });
        }
        // In reverse order: the index identifies the pair.
        response.ratings.reverse();
        response.usage = Some(usage);
        response.summary = Some(summary);
        Ok(response)
    }
}
