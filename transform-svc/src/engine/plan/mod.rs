//! A validated request, ready to run: its generator and prompts, the texts that form one job, and
//! the languages drawn.

mod items;
mod spec;

use std::sync::Arc;

use isomer_proto::transform::v1::{self as proto, GuardMode, OnFailure};
use isomer_service_kit::priority::Priority;
use isomer_transformations::{AnswerForm, Declaration, Parameters};

use super::{
    cache_access::{CacheAccess, Caller},
    task::computed,
    version::CurrentVersion,
};
use crate::{
    config::TransformConfig,
    error::TransformError,
    generator::{BoundedGenerator, registry::Registry},
    language::Language,
    prompt::{Prompt, Prompts, Purpose},
    rules::Rule,
    words,
};
pub(crate) use spec::{TransformationRequest, read_language};

/// Maximum number of tokens of one answer.
pub(super) const MAX_TOKENS: usize = 2048;
/// Tokens allowed for an answer: a multiple of the estimated tokens of its text, plus a constant.
/// The multiple is larger than the runaway limit of five times the words, so that the runaway check
/// detects a model that does not stop, before the token limit hides it.
const TOKEN_FACTOR: usize = 6;
const EXPANSION_TOKEN_FACTOR: usize = 8;
const TOKEN_CONSTANT: usize = 32;

/// The origin of a text's drawn language (target or pivot).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Draw {
    /// No other language is needed.
    None,
    /// The language that the request names.
    Given(Language),
    /// One language for the whole run, from [`crate::language::TARGETS`]: by the seed's rank among
    /// the run's seeds if the request states it, else by the seed.
    PerRun(Option<u32>),
    /// One language for each text, from this list.
    PerText(Vec<Language>),
}

/// One call of an attempt.
#[derive(Debug, Clone)]
pub struct Step {
    pub prompt: Arc<Prompt>,
    /// Whether the answer is in the drawn language rather than in the text's own.
    pub drawn: bool,
}

/// A validated request.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(super) draw: Draw,
    /// The transformation with its parameters.
    pub(crate) requested: TransformationRequest,
    /// The rule that makes the texts; `None` if a generator makes them.
    pub(super) rule: Option<Arc<dyn Rule>>,
    /// The generator, if the transformation needs one.
    pub generator: Option<Arc<BoundedGenerator>>,
    /// The calls of an attempt, each on the output of the previous one; empty if no generator is
    /// needed.
    pub steps: Vec<Step>,
    /// Seed of the run.
    pub seed: u64,
    /// Name of the run.
    pub run: String,
    /// Maximum number of attempts per text.
    pub max_attempts: u32,
    /// The treatment of a failed text.
    pub on_failure: OnFailure,
    /// Temperature of the first attempt.
    pub temperature: f64,
    /// Nucleus sampling.
    pub top_p: f64,
    /// Sample among the k likeliest tokens, if the request sets it.
    pub top_k: Option<u32>,
    /// Minimum temperature of attempts after the first.
    pub retry_temperature: f64,
    /// Whether a text that came back unchanged is retried.
    pub retry_identical: bool,
    /// The consequence of a guard that fires.
    pub guards: GuardMode,
    /// Maximum number of tokens of an answer, if the request sets it.
    pub max_tokens: Option<u32>,
    pub access: CacheAccess,
    pub(super) version: CurrentVersion,
    /// Whether the texts of each version are counted.
    pub counts_versions: bool,
    pub caller: Caller,
    /// The priority of the request's calls.
    pub priority: Priority,
}

impl Plan {
    /// The transformation's row in the catalogue.
    pub fn kind(&self) -> &'static Declaration {
        self.requested.transformation.declaration()
    }

    pub fn parameters(&self) -> Parameters<'_> {
        self.requested.transformation.parameters()
    }

    /// The number of texts to request from a generator, for a transformation that returns a list.
    pub fn count(&self) -> u32 {
        self.parameters().whole("count")
    }

    /// The purpose of each call, in order; empty if no generator is needed.
    pub fn purposes(&self) -> impl Iterator<Item = Purpose> + use<> {
        self.kind().prompts().iter().copied().map(Purpose::Write)
    }

    /// The language that a text's transformation should be in: the target of a translation, else
    /// the text's own.
    pub fn language_of(&self, job: &Job) -> Option<Language> {
        if self.kind().changes_language() {
            job.drawn
        } else {
            job.language
        }
    }

    /// The language that a step's answer should be in.
    pub fn step_language(&self, step: &Step, job: &Job) -> Option<Language> {
        if step.drawn { job.drawn } else { job.language }
    }

    /// Maximum number of tokens of a step's answer to a text.
    pub fn max_tokens_for(&self, purpose: Purpose, text: &str) -> u32 {
        let factor = match purpose.answer() {
            AnswerForm::LongText => EXPANSION_TOKEN_FACTOR,
            AnswerForm::List => TOKEN_FACTOR.max(2 * self.count() as usize + 2),
            AnswerForm::Text | AnswerForm::Words => TOKEN_FACTOR,
        };
        let tokens = (words::estimated_tokens(text) * factor + TOKEN_CONSTANT).min(MAX_TOKENS);
        self.max_tokens.unwrap_or(tokens as u32)
    }

    /// Ids and versions of the prompts, each once, for example `expansion@2+summarisation@2`; empty
    /// if there are none.
    pub fn prompt_version(&self) -> String {
        joined(self.steps.iter().map(|step| step.prompt.tag()))
    }

    /// Digests of the prompts, joined the same way.
    pub fn prompt_digest(&self) -> String {
        joined(self.steps.iter().map(|step| step.prompt.digest().to_owned()))
    }
}

/// Joins the parts with `+` and drops equal neighbours.
pub(crate) fn joined(parts: impl Iterator<Item = String>) -> String {
    let mut parts: Vec<String> = parts.collect();
    parts.dedup();
    parts.join("+")
}

/// An item of the request that a job covers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Member {
    pub index: u32,
    /// The client's id.
    pub id: String,
}

/// A text to transform once, however often the request contains it.
#[derive(Debug, Clone)]
pub struct Job {
    pub text: String,
    /// The text's language, given or detected; `None` if the text is too short for detection.
    pub language: Option<Language>,
    /// Target or pivot language, given or drawn.
    pub drawn: Option<Language>,
    /// The reason why it cannot be transformed at all, for example because its own language, the
    /// target of a back-translation, is unknown.
    pub refusal: Option<String>,
    /// The items that the job covers, in order of the request; never empty.
    pub members: Vec<Member>,
}

pub(super) async fn plan(
    config: &TransformConfig,
    prompts: &Prompts,
    registry: &Registry,
    spec: Option<proto::TransformSpec>,
    items: Vec<proto::TextItem>,
) -> Result<(Plan, Vec<Job>), TransformError> {
    let (plan, deferred) = spec::read(spec.unwrap_or_default())?;
    let named = spec::named_prompts(prompts, &plan, &deferred.prompts)?;
    let most_chars = config.max_text_chars;
    let read = computed(move || items::read(most_chars, &plan, items).map(|jobs| (plan, jobs))).await;
    let (mut plan, jobs) = read.unwrap_or(Err(TransformError::ShuttingDown))?;
    // This step is last because it may fetch and load a model: an invalid request is refused before
    // that.
    if plan.kind().needs_generator() {
        let generator = registry.get(&deferred.generator_id).await?.ok_or_else(|| {
            TransformError::invalid(
                "spec.generator_id",
                format!("`{}` needs a generator and this is `none`", plan.kind().name),
                format!("name one: {}", crate::error::GENERATOR_FORMS),
            )
        })?;
        for (at, purpose) in plan.purposes().enumerate() {
            let prompt = match named.iter().find(|prompt| prompt.purpose() == purpose) {
                Some(prompt) => Arc::clone(prompt),
                None => prompts.get(purpose, &generator.identity().id),
            };
            spec::check_count(&prompt, &plan)?;
            plan.steps.push(Step {
                prompt,
                // Backtranslation uses the drawn language first and the text's own language last.
                drawn: plan.draw != Draw::None && (at == 0 || plan.kind().changes_language()),
            });
        }
        plan.generator = Some(generator);
    }
    Ok((plan, jobs))
}
