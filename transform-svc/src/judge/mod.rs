//! A language model as judge: it rates pairs of texts (PTEB: similarity, 0 to 5; HTEB: quality and
//! fluency, 1 to 5).
//!
//! A rating is read strictly ([`number`]). An answer that is not a rating is retried with another
//! seed at a higher temperature, like a transformation whose check failed. A pair that still has no
//! rating is counted as unrated; its rating is never guessed. Answers are cached like
//! transformations, under separate kinds of keys (`judge/similarity`, …).

pub mod number;

use std::sync::Arc;

use futures::stream::{self, Stream, StreamExt};
use isomer_proto::transform::v1::{self as proto, JudgeScale};
use isomer_service_kit::priority::Priority;

use crate::{
    cache::Key,
    clean::clean,
    engine::{CacheAccess, Caller, Cost, CurrentVersion, Engine, PATIENCE, Question, TransformationRequest, with_room},
    error::TransformError,
    generator::{BoundedGenerator, GeneratorError},
    prompt::{Prompt, Purpose},
    seed,
};

/// Maximum tokens of an answer. A number takes few; a model that reasons first takes many.
const MAX_TOKENS: u32 = 512;
/// Minimum temperature of retries, because a greedy model would repeat its answer.
const RETRY_TEMPERATURE: f64 = 0.7;
/// Maximum number of characters of a refused answer that an error repeats.
const SHOWN_CHARS: usize = 120;

/// The properties of a scale. A request without a scale is refused, so that the unspecified value
/// never gets here.
pub trait Scale {
    /// Lowest and highest rating.
    fn range(self) -> (f64, f64);
    /// Whether a rating may have decimals, which gold scores of STS have.
    fn takes_decimals(self) -> bool;
    /// The purpose of the scale's prompt.
    fn purpose(self) -> Purpose;
    /// The kind of the scale's answers in the cache.
    fn kind(self) -> &'static str;
}

impl Scale for JudgeScale {
    fn range(self) -> (f64, f64) {
        match self {
            Self::Quality | Self::Fluency => (1.0, 5.0),
            Self::Similarity | Self::Unspecified => (0.0, 5.0),
        }
    }

    fn takes_decimals(self) -> bool {
        self == Self::Similarity
    }

    fn purpose(self) -> Purpose {
        match self {
            Self::Quality => Purpose::JudgeQuality,
            Self::Fluency => Purpose::JudgeFluency,
            Self::Similarity | Self::Unspecified => Purpose::JudgeSimilarity,
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::Quality => "judge/quality",
            Self::Fluency => "judge/fluency",
            Self::Similarity | Self::Unspecified => "judge/similarity",
        }
    }
}

/// Two texts to compare.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Pair {
    pub original: String,
    pub transformed: String,
}

/// A validated request.
#[derive(Debug, Clone)]
pub struct RatingRequest {
    /// The rated property.
    pub scale: JudgeScale,
    /// The generator that rates.
    pub generator: Arc<BoundedGenerator>,
    pub prompt: Arc<Prompt>,
    /// The task of the transformation, against which quality is rated.
    pub task: String,
    /// Seed of the run.
    pub seed: u64,
    /// Maximum number of attempts per pair.
    pub max_attempts: u32,
    /// Whether to neither read nor write the cache.
    pub bypass_cache: bool,
    pub(crate) version: CurrentVersion,
    pub caller: Caller,
    /// The priority of the request's calls.
    pub priority: Priority,
}

/// The result of a pair.
#[derive(Debug, Clone, PartialEq)]
pub struct PairRating {
    pub score: Option<f64>,
    /// The reason for a missing rating.
    pub error: String,
    /// Whether the rating is missing because the generator failed.
    pub generator_failed: bool,
    /// Number of attempts, including those found in the cache.
    pub attempts: u32,
    /// Answers that were not ratings.
    pub unreadable: u32,
    /// Of these, answers generated now.
    pub fresh_unreadable: u32,
    /// Seed of the last attempt.
    pub seed: u64,
    /// Content address of the last attempt.
    pub key: Key,
    /// The version of the model that the server named in the last attempt; empty if it named none.
    pub fingerprint: String,
    pub cost: Cost,
}

impl PairRating {
    /// Whether the whole rating came from the cache or from work that another request counts.
    pub fn is_cached(&self) -> bool {
        self.attempts > 0 && self.cost.fresh_attempts == 0 && !self.generator_failed
    }
}

/// Rates pairs, several at once; each is yielded with its index when it is done. An error that
/// affects all pairs ends the stream.
pub fn run(
    engine: Arc<Engine>,
    request: Arc<RatingRequest>,
    pairs: Vec<Pair>,
) -> impl Stream<Item = Result<(usize, PairRating), TransformError>> + Send + 'static {
    let concurrency = request.generator.concurrency();
    stream::iter(pairs.into_iter().enumerate())
        .map(move |(index, pair)| {
            let (engine, request) = (Arc::clone(&engine), Arc::clone(&request));
            async move { Ok((index, rate(&engine, &request, &pair).await?)) }
        })
        .buffer_unordered(concurrency)
}

async fn rate(engine: &Engine, request: &RatingRequest, pair: &Pair) -> Result<PairRating, TransformError> {
    let content = content(request, pair);
    let mut rating = PairRating {
        score: None,
        error: String::new(),
        generator_failed: false,
        attempts: 0,
        unreadable: 0,
        fresh_unreadable: 0,
        seed: request.seed,
        key: Key::default(),
        fingerprint: String::new(),
        cost: Cost::default(),
    };
    let mut patience = 1;
    for attempt in 0..request.max_attempts {
        rating.attempts += 1;
        rating.seed = seed::of_attempt(request.seed, &content, attempt);
        let question = Question {
            generator: &request.generator,
            kind: request.scale.kind(),
            content: content.clone(),
            prompt: request.prompt.tag(),
            prompt_digest: request.prompt.digest(),
            messages: request
                .prompt
                .render_pair(&pair.original, &pair.transformed, &request.task),
            temperature: if attempt == 0 { 0.0 } else { RETRY_TEMPERATURE },
            max_tokens: with_room(MAX_TOKENS, patience),
            seed: rating.seed,
            access: CacheAccess::bypassing(request.bypass_cache),
            version: &request.version,
            caller: &request.caller,
            priority: request.priority,
        };
        let reply = engine.ask(&question).await?;
        rating.key = reply.key;
        rating.fingerprint = reply.fingerprint;
        rating.cost.fresh_attempts += u32::from(reply.fresh);
        rating.cost.add(&reply.usage, reply.waited);
        let id = || request.generator.identity().id.clone();
        let text = match reply.text {
            Ok(text) => clean(request.prompt.purpose(), "", &text, ("", "")).text,
            // These errors end the request, because the next pair would fail too.
            Err(GeneratorError::Unreachable { message, .. }) => {
                return Err(TransformError::Unreachable { id: id(), message });
            }
            Err(GeneratorError::Refused { message, hint, .. }) => {
                return Err(TransformError::Refused {
                    id: id(),
                    message,
                    hint,
                });
            }
            Err(GeneratorError::Paused { wait, .. }) => return Err(TransformError::Paused { id: id(), wait }),
            Err(
                error @ (GeneratorError::Withheld { .. }
                | GeneratorError::Failed { .. }
                | GeneratorError::Budget { .. }
                | GeneratorError::NotCached),
            ) => {
                // The generator has already retried, or its budget is spent.
                rating.generator_failed = true;
                rating.error = error.to_string();
                return Ok(rating);
            }
        };
        // The number of a cut answer may lack digits.
        let score = number::read(&text, request.scale).filter(|_| !reply.is_cut);
        if let Some(score) = score {
            rating.score = Some(score);
            rating.error.clear();
            return Ok(rating);
        }
        rating.unreadable += 1;
        rating.fresh_unreadable += u32::from(reply.fresh);
        let (low, high) = request.scale.range();
        let shown: String = text.chars().take(SHOWN_CHARS).collect();
        rating.error = if reply.is_cut {
            patience = patience.saturating_mul(PATIENCE);
            format!("`{shown}` is cut off at the limit of tokens")
        } else {
            format!("`{shown}` is not a rating from {low} to {high}")
        };
    }
    Ok(rating)
}

/// All parts of the question that vary with the pair and the request, so that different questions
/// have different keys.
fn content(request: &RatingRequest, pair: &Pair) -> String {
    match request.scale {
        JudgeScale::Quality => serde_json::json!([pair.original, pair.transformed, request.task]).to_string(),
        _ => serde_json::json!([pair.original, pair.transformed]).to_string(),
    }
}

/// The task of a transformation, worded for the judge. Without a transformation: any rewriting that
/// keeps the meaning.
pub fn task(transformation: Option<&proto::Transformation>) -> Result<String, TransformError> {
    match transformation {
        None => Ok("A rewriting that keeps the core meaning.".to_owned()),
        Some(_) => {
            let requested = TransformationRequest::read(transformation, "transformation")?;
            let entry = requested.transformation.declaration();
            // The source references in brackets are meaningless to a model.
            let described = entry.description.split(" (").next().unwrap_or_default();
            Ok(format!("{}.", described.trim_end_matches('.')))
        }
    }
}
