//! A request, checked and made ready: which generator, which prompt, which texts are one job.

use std::{collections::HashMap, sync::Arc};

use isomer_proto::transform::v1 as proto;
use proto::transformation::Kind as Wanted;

use crate::{
    catalogue::Kind,
    config::TransformConfig,
    error::TransformError,
    generator::{Bounded, registry::Registry},
    language::{self, Language},
    plain::{random_keywords::KEEP_RATIO, stopwords},
    prompt::{Prompt, Prompts},
    words,
};

/// Default seed (HTEB's first).
const DEFAULT_SEED: u64 = 1337;
const DEFAULT_ATTEMPTS: u32 = 3;
const MAX_ATTEMPTS: u32 = 10;
/// Most tokens of one answer.
const MAX_TOKENS: usize = 2048;
/// Tokens allowed to an answer, as a multiple of the estimated tokens of its text and a constant. Above the runaway limit
/// of five times the words, so that a model that does not end is found out by that check rather than cut off unseen.
const TOKEN_FACTOR: usize = 6;
const EXPANSION_TOKEN_FACTOR: usize = 8;
const TOKEN_CONSTANT: usize = 32;

/// What a failed text turns into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// Its original.
    KeepOriginal,
    /// Nothing.
    Drop,
    /// An error of the request.
    Fail,
}

/// A checked request.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The transformation.
    pub kind: Kind,
    /// Target language that the request names.
    pub target: Option<Language>,
    /// Share of the words that `random_keywords` keeps.
    pub keep_ratio: f64,
    /// The generator, for those that need one.
    pub generator: Option<Arc<Bounded>>,
    /// The prompt, for those that need a generator.
    pub prompt: Option<Arc<Prompt>>,
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
    /// Most tokens of an answer, where the request says.
    pub max_tokens: Option<u32>,
    /// Neither read nor write the cache.
    pub bypass_cache: bool,
}

impl Plan {
    /// The language a text's transformation should be in: the target of a translation, else its own.
    pub fn language_of(&self, job: &Job) -> Option<Language> {
        match self.kind {
            Kind::Translation => Some(
                self.target
                    .unwrap_or_else(|| language::draw_target(self.seed, &self.run, job.language)),
            ),
            _ => job.language,
        }
    }

    /// Most tokens of a text's answer.
    pub fn max_tokens_for(&self, text: &str) -> u32 {
        let factor = if self.kind.expands() {
            EXPANSION_TOKEN_FACTOR
        } else {
            TOKEN_FACTOR
        };
        let tokens = (words::estimated_tokens(text) * factor + TOKEN_CONSTANT).min(MAX_TOKENS);
        self.max_tokens.unwrap_or(tokens as u32)
    }
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
    let (mut plan, generator_id) = read_spec(spec.unwrap_or_default())?;
    let jobs = read_items(config, &plan, items)?;
    // Last, since it may fetch and load a model: a request that is wrong is told so at once.
    if plan.kind.needs_generator() {
        let generator = registry.get(&generator_id).await?.ok_or_else(|| {
            TransformError::invalid(
                "spec.generator_id",
                format!("`{}` needs a generator and this is `none`", plan.kind.name()),
                format!("name one: {}", crate::error::GENERATOR_FORMS),
            )
        })?;
        plan.prompt = plan
            .kind
            .purposes()
            .first()
            .map(|purpose| prompts.get(*purpose, &generator.identity().id));
        plan.generator = Some(generator);
    }
    Ok((plan, jobs))
}

/// The transformation a message names.
pub(crate) fn kind_of(transformation: Option<&proto::Transformation>, field: &str) -> Result<Kind, TransformError> {
    let wanted = transformation
        .and_then(|transformation| transformation.kind.as_ref())
        .ok_or_else(|| {
            TransformError::invalid(
                field,
                "no transformation is set",
                format!("set one of {}", crate::catalogue::served_names()),
            )
        })?;
    Ok(match wanted {
        Wanted::Paraphrase(_) => Kind::Paraphrase,
        Wanted::Backtranslation(_) => Kind::Backtranslation,
        Wanted::StyleChange(_) => Kind::StyleChange,
        Wanted::Expansion(_) => Kind::Expansion,
        Wanted::Summarisation(_) => Kind::Summarisation,
        Wanted::SummarisedExpansion(_) => Kind::SummarisedExpansion,
        Wanted::Translation(_) => Kind::Translation,
        Wanted::CrossTranslation(_) => Kind::CrossTranslation,
        Wanted::Keywords(_) => Kind::Keywords,
        Wanted::RandomKeywords(_) => Kind::RandomKeywords,
        Wanted::StopwordRemoval(_) => Kind::StopwordRemoval,
        Wanted::Distractors(_) => Kind::Distractors,
        Wanted::MultiSwap(_) => Kind::MultiSwap,
        Wanted::Continuation(_) => Kind::Continuation,
    })
}

/// The target language a translation names.
pub(crate) fn target_of(
    transformation: Option<&proto::Transformation>,
    field: &str,
) -> Result<Option<Language>, TransformError> {
    match transformation.and_then(|transformation| transformation.kind.as_ref()) {
        Some(Wanted::Translation(proto::Translation {
            target_language: Some(tag),
        })) => read_language(tag, || format!("{field}.translation.target_language")).map(Some),
        _ => Ok(None),
    }
}

pub(crate) fn read_language(tag: &str, field: impl Fn() -> String) -> Result<Language, TransformError> {
    Language::parse(tag).ok_or_else(|| {
        TransformError::invalid(
            field(),
            format!("unknown language `{tag}`"),
            "give a BCP-47 tag such as `en` or `pt-BR`",
        )
    })
}

fn read_spec(spec: proto::TransformSpec) -> Result<(Plan, String), TransformError> {
    let field = "spec.transformation";
    let kind = kind_of(spec.transformation.as_ref(), field)?;
    if !kind.entry().served {
        return Err(TransformError::NotServed(kind.name()));
    }
    let target = target_of(spec.transformation.as_ref(), field)?;
    let keep_ratio = match spec.transformation.and_then(|transformation| transformation.kind) {
        Some(Wanted::RandomKeywords(proto::RandomKeywords {
            keep_ratio: Some(ratio),
        })) => ratio,
        _ => KEEP_RATIO,
    };
    let within = |field: &str, value: f64, low_open: bool, low: f64, high: f64| {
        let above = if low_open { value > low } else { value >= low };
        if above && value <= high {
            return Ok(value);
        }
        let from = if low_open {
            format!("above {low}")
        } else {
            format!("{low}")
        };
        Err(TransformError::invalid(
            field,
            format!("{value} is out of range"),
            format!("give {from} to {high}"),
        ))
    };
    let sampling = spec.sampling.unwrap_or_default();
    let max_attempts = spec.max_attempts.unwrap_or(DEFAULT_ATTEMPTS);
    if !(1..=MAX_ATTEMPTS).contains(&max_attempts) {
        return Err(TransformError::invalid(
            "spec.max_attempts",
            format!("{max_attempts} attempts"),
            format!("give 1 to {MAX_ATTEMPTS}"),
        ));
    }
    if sampling
        .max_tokens
        .is_some_and(|tokens| tokens == 0 || tokens as usize > 16 * MAX_TOKENS)
    {
        return Err(TransformError::invalid(
            "spec.sampling.max_tokens",
            "out of range",
            format!("give 1 to {}", 16 * MAX_TOKENS),
        ));
    }
    let on_failure = match proto::OnFailure::try_from(spec.on_failure) {
        Ok(proto::OnFailure::Unspecified | proto::OnFailure::KeepOriginal) => OnFailure::KeepOriginal,
        Ok(proto::OnFailure::Drop) => OnFailure::Drop,
        Ok(proto::OnFailure::Fail) => OnFailure::Fail,
        Err(_) => {
            let message = format!("{} is no policy", spec.on_failure);
            return Err(TransformError::invalid(
                "spec.on_failure",
                message,
                "give 1 (keep the original), 2 (drop) or 3 (fail)",
            ));
        }
    };
    let plan = Plan {
        kind,
        target,
        keep_ratio: within(
            "spec.transformation.random_keywords.keep_ratio",
            keep_ratio,
            true,
            0.0,
            1.0,
        )?,
        generator: None,
        prompt: None,
        seed: spec.seed.unwrap_or(DEFAULT_SEED),
        run: spec.run,
        max_attempts,
        on_failure,
        temperature: within(
            "spec.sampling.temperature",
            sampling.temperature.unwrap_or(0.0),
            false,
            0.0,
            2.0,
        )?,
        top_p: within("spec.sampling.top_p", sampling.top_p.unwrap_or(1.0), true, 0.0, 1.0)?,
        max_tokens: sampling.max_tokens,
        bypass_cache: spec.bypass_cache,
    };
    Ok((plan, spec.generator_id))
}

fn read_items(config: &TransformConfig, plan: &Plan, items: Vec<proto::TextItem>) -> Result<Vec<Job>, TransformError> {
    if items.is_empty() {
        return Err(TransformError::invalid(
            "items",
            "there are no texts",
            "send at least one",
        ));
    }
    let mut jobs: Vec<Job> = Vec::with_capacity(items.len());
    let mut known: HashMap<(String, Option<String>, String), usize> = HashMap::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        let chars = item.text.chars().count();
        if chars > config.max_text_chars {
            return Err(TransformError::invalid(
                format!("items[{index}].text"),
                format!("{chars} characters, more than the limit of {}", config.max_text_chars),
                "shorten or split the text, or raise transform.max_text_chars",
            ));
        }
        let given = match item.language.as_deref().filter(|tag| !tag.is_empty()) {
            Some(tag) => Some(read_language(tag, || format!("items[{index}].language"))?),
            None => None,
        };
        if let Some(language) =
            given.filter(|language| plan.kind == Kind::StopwordRemoval && !stopwords::knows(*language))
        {
            return Err(TransformError::invalid(
                format!("items[{index}].language"),
                format!("there is no list of function words for {}", language.name()),
                format!("there is one for {}", stopwords::LANGUAGES),
            ));
        }
        // A random draw depends on the id; everything else on the text alone.
        let drawn_by = if plan.kind == Kind::RandomKeywords {
            item.id.clone()
        } else {
            String::new()
        };
        let member = Member {
            index: index as u32,
            id: item.id,
        };
        let key = (item.text, given.map(|language| language.code().to_owned()), drawn_by);
        if let Some(job) = known.get(&key).and_then(|at| jobs.get_mut(*at)) {
            job.members.push(member);
            continue;
        }
        let text = key.0.clone();
        known.insert(key, jobs.len());
        jobs.push(Job {
            language: given.or_else(|| language::detect(&text)),
            text,
            members: vec![member],
        });
    }
    Ok(jobs)
}
