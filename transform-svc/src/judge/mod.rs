//! A language model as judge: it rates pairs of texts (PTEB: similarity, 0 to 5; HTEB: quality and
//! fluency, 1 to 5).
//!
//! A rating is read strictly ([`number`]). An answer that is not a rating is retried with another
//! seed at a higher temperature, like a transformation whose check failed. A pair that still has no
//! rating is counted as unrated; its rating is never guessed. Answers are cached like
//! transformations, under separate kinds of keys (`judge/similarity`, …).

pub mod number;

use std::{sync::Arc, time::Duration};

use futures::stream::{self, Stream, StreamExt};
use isomer_proto::transform::v1 as proto;
use isomer_service_kit::priority::Priority;

use crate::{
    cache::Key,
    clean::clean,
    engine::{Ask, CacheAccess, Caller, Engine, Requested},
    error::TransformError,
    generator::{Bounded, GeneratorError},
    prompt::{Prompt, Purpose},
    seed,
};

/// Maximum tokens of an answer. A number takes few; a model that reasons first takes many.
const MAX_TOKENS: u32 = 512;
/// Minimum temperature of retries, because a greedy model would repeat its answer.
const RETRY_TEMPERATURE: f64 = 0.7;
/// Maximum number of characters of a refused answer that an error repeats.
const SHOWN_CHARS: usize = 120;

/// The rated property.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scale {
    /// Semantic similarity of a pair, 0 to 5, decimals allowed: gold scores of STS have them
    /// (PTEB).
    Similarity,
    /// Quality of a transformation, 1 to 5, whole (HTEB).
    Quality,
    /// Fluency of the transformed text, 1 to 5, whole (HTEB).
    Fluency,
}

impl Scale {
    pub const ALL: [Self; 3] = [Self::Similarity, Self::Quality, Self::Fluency];

    /// Lowest and highest rating.
    pub const fn range(self) -> (f64, f64) {
        match self {
            Self::Similarity => (0.0, 5.0),
            Self::Quality | Self::Fluency => (1.0, 5.0),
        }
    }

    /// Whether a rating may have decimals.
    pub const fn takes_decimals(self) -> bool {
        matches!(self, Self::Similarity)
    }

    /// The purpose of the scale's prompt.
    pub const fn purpose(self) -> Purpose {
        match self {
            Self::Similarity => Purpose::JudgeSimilarity,
            Self::Quality => Purpose::JudgeQuality,
            Self::Fluency => Purpose::JudgeFluency,
        }
    }

    pub const fn name(self) -> &'static str {
        self.kind().split_at("judge/".len()).1
    }

    /// The kind of the scale's answers in the cache.
    const fn kind(self) -> &'static str {
        match self {
            Self::Similarity => "judge/similarity",
            Self::Quality => "judge/quality",
            Self::Fluency => "judge/fluency",
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
pub struct Judging {
    /// The rated property.
    pub scale: Scale,
    /// The generator that rates.
    pub generator: Arc<Bounded>,
    pub prompt: Arc<Prompt>,
    /// The task of the transformation, against which quality is rated.
    pub task: String,
    /// Seed of the run.
    pub seed: u64,
    /// Maximum number of attempts per pair.
    pub max_attempts: u32,
    /// Whether to neither read nor write the cache.
    pub bypass_cache: bool,
    pub caller: Caller,
    /// The priority of the request's calls.
    pub priority: Priority,
}

/// The result of a pair.
#[derive(Debug, Clone, PartialEq)]
pub struct Rated {
    pub score: Option<f64>,
    /// The reason for a missing rating.
    pub error: String,
    /// Whether the rating is missing because the generator failed.
    pub generator_failed: bool,
    /// Number of attempts, including those found in the cache.
    pub attempts: u32,
    /// Of these, attempts made now.
    pub fresh: u32,
    /// Answers that were not ratings.
    pub unreadable: u32,
    /// Of these, answers generated now.
    pub fresh_unreadable: u32,
    /// Seed of the last attempt.
    pub seed: u64,
    /// Content address of the last attempt.
    pub key: Key,
    /// Calls made to the generator now.
    pub calls: u64,
    /// Prompt tokens processed now.
    pub prompt_tokens: u64,
    /// Tokens generated now.
    pub generated_tokens: u64,
    /// Whether the token counts are estimated because the generator does not report them.
    pub tokens_estimated: bool,
    /// Time spent waiting for a permit of the generator.
    pub waited: Duration,
}

/// Rates pairs, several at once; each is yielded with its index when it is done. An error that
/// affects all pairs ends the stream.
pub fn run(
    engine: Arc<Engine>,
    judging: Arc<Judging>,
    pairs: Vec<Pair>,
) -> impl Stream<Item = Result<(usize, Rated), TransformError>> + Send + 'static {
    let concurrency = judging.generator.concurrency();
    stream::iter(pairs.into_iter().enumerate())
        .map(move |(index, pair)| {
            let (engine, judging) = (Arc::clone(&engine), Arc::clone(&judging));
            async move { Ok((index, rate(&engine, &judging, &pair).await?)) }
        })
        .buffer_unordered(concurrency)
}

async fn rate(engine: &Engine, judging: &Judging, pair: &Pair) -> Result<Rated, TransformError> {
    let content = content(judging, pair);
    let mut rated = Rated {
        score: None,
        error: String::new(),
        generator_failed: false,
        attempts: 0,
        fresh: 0,
        unreadable: 0,
        fresh_unreadable: 0,
        seed: judging.seed,
        key: Key::default(),
        calls: 0,
        prompt_tokens: 0,
        generated_tokens: 0,
        tokens_estimated: false,
        waited: Duration::ZERO,
    };
    for attempt in 0..judging.max_attempts {
        rated.attempts += 1;
        rated.seed = seed::of_attempt(judging.seed, &content, attempt);
        let ask = Ask {
            generator: &judging.generator,
            kind: judging.scale.kind(),
            content: content.clone(),
            prompt: judging.prompt.tag(),
            prompt_digest: judging.prompt.digest(),
            messages: judging
                .prompt
                .render_pair(&pair.original, &pair.transformed, &judging.task),
            temperature: if attempt == 0 { 0.0 } else { RETRY_TEMPERATURE },
            max_tokens: MAX_TOKENS,
            seed: rated.seed,
            access: CacheAccess::bypassing(judging.bypass_cache),
            caller: &judging.caller,
            priority: judging.priority,
        };
        let answer = engine.ask(ask).await?;
        rated.key = answer.key;
        rated.fresh += u32::from(answer.fresh);
        rated.calls += answer.calls;
        rated.prompt_tokens += answer.prompt_tokens;
        rated.generated_tokens += answer.generated_tokens;
        rated.tokens_estimated |= answer.tokens_estimated;
        rated.waited += answer.waited;
        let id = || judging.generator.identity().id.clone();
        let text = match answer.text {
            Ok(text) => clean(judging.prompt.purpose(), "", &text, ("", "")).text,
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
                rated.generator_failed = true;
                rated.error = error.to_string();
                return Ok(rated);
            }
        };
        if let Some(score) = number::read(&text, judging.scale) {
            rated.score = Some(score);
            rated.error.clear();
            return Ok(rated);
        }
        rated.unreadable += 1;
        rated.fresh_unreadable += u32::from(answer.fresh);
        let (low, high) = judging.scale.range();
        let shown: String = text.chars().take(SHOWN_CHARS).collect();
        rated.error = format!("`{shown}` is not a rating from {low} to {high}");
    }
    Ok(rated)
}

/// All parts of the question that vary with the pair and the request, so that different questions
/// have different keys.
fn content(judging: &Judging, pair: &Pair) -> String {
    match judging.scale {
        Scale::Quality => serde_json::json!([pair.original, pair.transformed, judging.task]).to_string(),
        Scale::Similarity | Scale::Fluency => serde_json::json!([pair.original, pair.transformed]).to_string(),
    }
}

/// The task of a transformation, worded for the judge. Without a transformation: any rewriting that
/// keeps the meaning.
pub fn task(transformation: Option<&proto::Transformation>) -> Result<String, TransformError> {
    match transformation {
        None => Ok("A rewriting that keeps the core meaning.".to_owned()),
        Some(_) => {
            let requested = Requested::read(transformation, "transformation")?;
            let entry = requested.transformation.declaration();
            // The source references in brackets are meaningless to a model.
            let described = entry.description.split(" (").next().unwrap_or_default();
            Ok(format!("{}.", described.trim_end_matches('.')))
        }
    }
}
