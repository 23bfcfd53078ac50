//! A checked request, ready to run: its generator and prompts, the texts that form one job, and the
//! languages drawn.

mod items;
mod spec;

use std::sync::Arc;

use isomer_proto::transform::v1::{self as proto, GuardMode, OnFailure};
use isomer_service_kit::priority::Priority;
use tokio::sync::OnceCell;

use super::{
    cache_access::{CacheAccess, Caller},
    task::computed,
};
use crate::{
    catalogue::Kind,
    config::TransformConfig,
    error::TransformError,
    generator::{Bounded, registry::Registry},
    language::Language,
    plain::noise::Noise,
    prompt::{Prompt, Prompts, Purpose},
    words,
};
pub(crate) use spec::{kind_of, read_language, target_of};

/// Most tokens of one answer.
pub(super) const MAX_TOKENS: usize = 2048;
/// Tokens allowed for an answer: a multiple of the estimated tokens of its text, plus a constant.
/// This is above the runaway limit of five times the words, so that the runaway check catches a
/// model that does not end before it is cut off unnoticed.
const TOKEN_FACTOR: usize = 6;
const EXPANSION_TOKEN_FACTOR: usize = 8;
const TOKEN_CONSTANT: usize = 32;

/// Where the drawn language of a text (target or pivot) comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Draw {
    /// No other language is needed.
    None,
    /// The request names it.
    Given(Language),
    /// One for the whole run, from [`crate::language::TARGETS`]: by the seed's rank among the run's
    /// seeds if the request gives it, else by the seed.
    PerRun(Option<u32>),
    /// One for each text, from these.
    PerText(Vec<Language>),
}

/// One call of an attempt.
#[derive(Debug, Clone)]
pub struct Step {
    /// What is asked.
    pub prompt: Arc<Prompt>,
    /// Whether the answer is in the drawn language rather than in the text's own.
    pub drawn: bool,
}

/// A checked request.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The transformation.
    pub kind: Kind,
    pub(super) draw: Draw,
    /// Fraction of the words that `random_keywords` keeps.
    pub keep_ratio: f64,
    /// How many texts `distractors` makes of one.
    pub count: u32,
    /// Most swaps of `multi_swap`; it gives a text for each number up to it.
    pub swaps: u32,
    /// Tokens between the cuts of `continuation`.
    pub stride: u32,
    /// How many texts `continuation` makes of one.
    pub cuts: u32,
    /// Channel and dose of `noise`.
    pub noise: Option<Noise>,
    /// The generator, for those that need one.
    pub generator: Option<Arc<Bounded>>,
    /// The calls of an attempt, each on the output of the one before; empty if no generator is
    /// needed.
    pub steps: Vec<Step>,
    /// Seed of the run.
    pub seed: u64,
    /// Name of the run.
    pub run: String,
    /// Most attempts per text.
    pub max_attempts: u32,
    /// What a failed text turns into.
    pub on_failure: OnFailure,
    /// Temperature of the first attempt.
    pub temperature: f64,
    /// Nucleus sampling.
    pub top_p: f64,
    /// Sample among the k likeliest tokens, if the request sets it.
    pub top_k: Option<u32>,
    /// Least temperature of attempts after the first.
    pub retry_temperature: f64,
    /// Whether a text that came back unchanged is retried.
    pub retry_identical: bool,
    /// What a guard that fires leads to.
    pub guards: GuardMode,
    /// Most tokens of an answer, if the request sets it.
    pub max_tokens: Option<u32>,
    /// How the caches are used.
    pub access: CacheAccess,
    /// If stored texts of another version of the model are asked for again: the version that the
    /// server names in this request.
    pub(super) version: Option<Arc<OnceCell<String>>>,
    /// For whom the request is.
    pub caller: Caller,
    /// Whether its calls go before others that wait.
    pub priority: Priority,
}

impl Plan {
    /// The language a text's transformation should be in: the target of a translation, else its
    /// own.
    pub fn language_of(&self, job: &Job) -> Option<Language> {
        if self.kind.changes_language() {
            job.drawn
        } else {
            job.language
        }
    }

    /// The language a step's answer should be in.
    pub fn step_language(&self, step: &Step, job: &Job) -> Option<Language> {
        if step.drawn { job.drawn } else { job.language }
    }

    /// Most tokens of a step's answer to a text.
    pub fn max_tokens_for(&self, purpose: Purpose, text: &str) -> u32 {
        let factor = match purpose {
            Purpose::Expansion => EXPANSION_TOKEN_FACTOR,
            Purpose::Distractors => TOKEN_FACTOR.max(2 * self.count as usize + 2),
            _ => TOKEN_FACTOR,
        };
        let tokens = (words::estimated_tokens(text) * factor + TOKEN_CONSTANT).min(MAX_TOKENS);
        self.max_tokens.unwrap_or(tokens as u32)
    }

    /// Ids and versions of the prompts, each once, e.g. `expansion@2+summarisation@2`; empty if
    /// there are none.
    pub fn prompt_version(&self) -> String {
        joined(self.steps.iter().map(|step| step.prompt.tag()))
    }

    /// Digests of the prompts, joined the same way.
    pub fn prompt_digest(&self) -> String {
        joined(self.steps.iter().map(|step| step.prompt.digest().to_owned()))
    }
}

/// Joins the parts with `+`, dropping equal neighbours.
pub(crate) fn joined(parts: impl Iterator<Item = String>) -> String {
    let mut parts: Vec<String> = parts.collect();
    parts.dedup();
    parts.join("+")
}

/// An item of the request that a job answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Member {
    /// Its index.
    pub index: u32,
    /// The client's id.
    pub id: String,
}

/// A text to transform once, however often the request holds it.
#[derive(Debug, Clone)]
pub struct Job {
    /// The text.
    pub text: String,
    /// Its language, given or detected; `None` when too short to tell.
    pub language: Option<Language>,
    /// Target or pivot, given or drawn.
    pub drawn: Option<Language>,
    /// Why it cannot be transformed at all, e.g. because there is no language to translate it back
    /// into.
    pub refusal: Option<String>,
    /// The items it answers, in order of the request; never empty.
    pub members: Vec<Member>,
}

pub(super) async fn plan(
    config: &TransformConfig,
    prompts: &Prompts,
    registry: &Registry,
    spec: Option<proto::TransformSpec>,
    items: Vec<proto::TextItem>,
) -> Result<(Plan, Vec<Job>), TransformError> {
    let (plan, unresolved) = spec::read(spec.unwrap_or_default())?;
    let named = spec::named_prompts(prompts, &plan, &unresolved.prompts)?;
    let most_chars = config.max_text_chars;
    let read = computed(move || items::read(most_chars, &plan, items).map(|jobs| (plan, jobs))).await;
    let (mut plan, jobs) = read.unwrap_or(Err(TransformError::ShuttingDown))?;
    // Last, since it may fetch and load a model: a wrong request is refused before that.
    if plan.kind.needs_generator() {
        let generator = registry.get(&unresolved.generator_id).await?.ok_or_else(|| {
            TransformError::invalid(
                "spec.generator_id",
                format!("`{}` needs a generator and this is `none`", plan.kind.name()),
                format!("name one: {}", crate::error::GENERATOR_FORMS),
            )
        })?;
        let purposes = plan.kind.purposes();
        for (at, purpose) in purposes.iter().enumerate() {
            let prompt = match named.iter().find(|prompt| prompt.purpose() == *purpose) {
                Some(prompt) => Arc::clone(prompt),
                None => prompts.get(*purpose, &generator.identity().id),
            };
            spec::check_count(&prompt, plan.count)?;
            plan.steps.push(Step {
                prompt,
                // Backtranslation uses the drawn language first and the text's own language last.
                drawn: plan.draw != Draw::None && (at == 0 || plan.kind.changes_language()),
            });
        }
        plan.generator = Some(generator);
    }
    Ok((plan, jobs))
}
