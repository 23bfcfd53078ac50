//! Reads a transformation spec, field by field.

use std::sync::Arc;

use isomer_config::spelling::suggest;
use isomer_proto::transform::v1 as proto;
use isomer_service_kit::{choice, priority::Priority};
use isomer_transformations::{
    AnswerForm, CATALOGUE, Draw as Drawn, Mechanism, Parameter, ParameterError, Transformation, declaration, wire,
};
use proto::{GuardMode, OnFailure, OnFingerprintChange};

use super::{CacheAccess, Caller, Draw, MAX_TOKENS, Plan};
use crate::{
    engine::version::current_version,
    error::TransformError,
    language::{self, Language},
    prompt::{Prompt, Prompts, Purpose},
    rules,
};

/// Default seed (HTEB's first).
const DEFAULT_SEED: u64 = 1337;
const DEFAULT_ATTEMPTS: u32 = 3;
const MAX_ATTEMPTS: u32 = 10;
/// Minimum temperature of retries if the request sets none, because a greedy model would repeat its
/// answer.
const RETRY_TEMPERATURE: f64 = 0.7;
const FIELD: &str = "spec.transformation";
/// Default number of distractors, for a prompt that does not state one.
const DEFAULT_COUNT: u32 = 4;

/// The parts of a spec that cannot be validated from the request alone.
#[derive(Debug)]
pub(super) struct DeferredFields {
    pub(super) generator_id: String,
    pub(super) prompts: Vec<String>,
}

/// A transformation named by a message.
#[derive(Debug, Clone)]
pub(crate) struct TransformationRequest {
    pub(crate) transformation: Transformation,
    /// Path of its parameters, for example `spec.transformation.noise`.
    path: String,
}

impl TransformationRequest {
    /// Reads a message; `field` is its path.
    pub(crate) fn read(message: Option<&proto::Transformation>, field: &str) -> Result<Self, TransformError> {
        let known = || CATALOGUE.iter().map(|row| row.name);
        let list = || known().collect::<Vec<_>>().join(", ");
        let message = message.filter(|message| message.kind.is_some() || !message.name.is_empty());
        let message = message.ok_or_else(|| {
            TransformError::invalid(field, "no transformation is set", format!("set one of {}", list()))
        })?;
        if message.kind.is_some() && !(message.name.is_empty() && message.parameters.is_none()) {
            let hint = "set one of its messages, or `name` and `parameters`";
            return Err(TransformError::invalid(field, "a message and a name are set", hint));
        }
        let named = wire::read(message);
        let row = declaration(&named.name).ok_or_else(|| {
            let hint = suggest(&named.name, &known().collect::<Vec<_>>());
            let problem = format!("unknown transformation `{}`", named.name);
            TransformError::invalid(format!("{field}.name"), problem, hint)
        })?;
        let requested = Self {
            transformation: Transformation::new(row, named.given),
            path: format!("{field}.{}", named.path),
        };
        let checked = requested.transformation.check(Parameter::in_requests);
        checked.map_err(|error| requested.invalid(error))?;
        Ok(requested)
    }

    /// Path of a parameter.
    fn field(&self, parameter: &str) -> String {
        format!("{}.{parameter}", self.path)
    }

    fn invalid(&self, error: ParameterError) -> TransformError {
        TransformError::invalid(self.field(&error.parameter), error.problem, error.hint)
    }

    /// The language named by a parameter, if any.
    pub(crate) fn language(&self, parameter: &str) -> Result<Option<Language>, TransformError> {
        let tag = self.transformation.parameters().text(parameter);
        tag.map(|tag| read_language(tag, || self.field(parameter))).transpose()
    }

    /// The origin of drawn languages.
    fn draw(&self) -> Result<Draw, TransformError> {
        let parameters = self.transformation.parameters();
        Ok(match self.transformation.declaration().draw {
            Drawn::Nothing | Drawn::Words => Draw::None,
            Drawn::Target => match self.language("target_language")? {
                Some(target) => Draw::Given(target),
                None => Draw::PerRun(parameters.given_whole("seed_rank")),
            },
            Drawn::PivotPerText => match self.language("pivot_language")? {
                Some(pivot) => Draw::Given(pivot),
                None => Draw::PerText(language::known(&language::PIVOTS)),
            },
            Drawn::TargetPerText => {
                let tags = parameters.texts("target_languages");
                if tags.is_empty() {
                    return Ok(Draw::PerText(language::known(&language::TARGETS)));
                }
                let field = self.field("target_languages");
                let targets = tags.iter().enumerate();
                let targets = targets.map(|(at, tag)| read_language(tag, || format!("{field}[{at}]")));
                Draw::PerText(targets.collect::<Result<_, _>>()?)
            }
        })
    }
}

pub(crate) fn read_language(tag: &str, field: impl Fn() -> String) -> Result<Language, TransformError> {
    Language::parse(tag).ok_or_else(|| {
        let hint = match Language::nearest(tag) {
            Some((code, name)) => format!("did you mean `{code}` ({name})?"),
            None => "give a BCP-47 tag such as `en` or `pt-BR`".to_owned(),
        };
        TransformError::invalid(field(), format!("unknown language `{tag}`"), hint)
    })
}

/// The prompts that a request names. Each must match one of the plan's calls.
pub(super) fn named_prompts(
    prompts: &Prompts,
    plan: &Plan,
    ids: &[String],
) -> Result<Vec<Arc<Prompt>>, TransformError> {
    let mut named: Vec<Arc<Prompt>> = Vec::new();
    for (at, id) in ids.iter().enumerate() {
        let field = format!("spec.prompts[{at}]");
        let prompt = prompts.named(id, &field)?;
        let purposes: Vec<Purpose> = plan.purposes().collect();
        if !purposes.contains(&prompt.purpose()) {
            let mut fit: Vec<_> = purposes
                .iter()
                .flat_map(|purpose| prompts.of(*purpose).map(|prompt| prompt.id()))
                .collect();
            fit.dedup();
            let hint = if fit.is_empty() {
                "leave it out: this transformation has no prompt".to_owned()
            } else {
                format!("name one of {}", fit.join(", "))
            };
            let message = format!("`{id}` is not a prompt for `{}`", plan.kind().name);
            return Err(TransformError::invalid(field, message, hint));
        }
        if let Some(other) = named.iter().find(|other| other.purpose() == prompt.purpose()) {
            let message = format!("`{id}` and `{}` are for the same call", other.id());
            return Err(TransformError::invalid(field, message, "name one of them"));
        }
        named.push(prompt);
    }
    Ok(named)
}

/// A prompt with a fixed number of texts cannot be used for another number.
pub(super) fn check_count(prompt: &Prompt, plan: &Plan) -> Result<(), TransformError> {
    let Some(count) = plan.requested.transformation.parameters().given_whole("count") else {
        return Ok(());
    };
    if prompt.purpose().answer() == AnswerForm::List && count != DEFAULT_COUNT && !prompt.takes_count() {
        return Err(TransformError::invalid(
            plan.requested.field("count"),
            format!("the prompt {} does not say how many", prompt.tag()),
            format!("ask for {DEFAULT_COUNT}, or write {{count}} into the prompt"),
        ));
    }
    Ok(())
}

fn within(field: &str, value: f64, low_open: bool, low: f64, high: f64) -> Result<f64, TransformError> {
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
}

/// Reads a spec. Its generator, prompts and steps are found later.
pub(super) fn read(spec: proto::TransformSpec) -> Result<(Plan, DeferredFields), TransformError> {
    let requested = TransformationRequest::read(spec.transformation.as_ref(), FIELD)?;
    let kind = requested.transformation.declaration();
    let rule = rules::rule(&requested.transformation).map_err(|error| requested.invalid(error))?;
    let draw = requested.draw()?;
    let sampling = spec.sampling.unwrap_or_default();
    let narrowed = sampling.top_p.is_some_and(|p| p != 1.0) || sampling.top_k.is_some();
    if matches!(kind.making, Mechanism::Continuation) && (sampling.max_tokens.is_some() || narrowed) {
        return Err(TransformError::invalid(
            "spec.sampling",
            "`continuation` takes neither max_tokens, nor top_k, nor a top_p other than 1",
            "leave them out; the parameters stride and cuts say how much is generated",
        ));
    }
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
    if sampling.top_k == Some(0) {
        return Err(TransformError::invalid(
            "spec.sampling.top_k",
            "0 tokens to sample among",
            "give at least 1, or leave it out",
        ));
    }
    let on_change = choice("spec.on_fingerprint_change", spec.on_fingerprint_change)?;
    let guards = choice("spec.guards", spec.guards)?.unwrap_or(GuardMode::Warn);
    let on_failure = choice("spec.on_failure", spec.on_failure)?.unwrap_or(OnFailure::KeepOriginal);
    let plan = Plan {
        draw,
        requested,
        rule,
        generator: None,
        steps: Vec::new(),
        seed: spec.seed.unwrap_or(DEFAULT_SEED),
        run: spec.run,
        max_attempts,
        on_failure,
        temperature: within(
            "spec.sampling.temperature",
            sampling.temperature.unwrap_or(kind.temperature),
            false,
            0.0,
            2.0,
        )?,
        top_p: within("spec.sampling.top_p", sampling.top_p.unwrap_or(1.0), true, 0.0, 1.0)?,
        top_k: sampling.top_k,
        retry_temperature: within(
            "spec.retry_temperature",
            spec.retry_temperature.unwrap_or(RETRY_TEMPERATURE),
            false,
            0.0,
            2.0,
        )?,
        retry_identical: spec.retry_identical.unwrap_or(true),
        guards,
        max_tokens: sampling.max_tokens,
        version: current_version(on_change),
        counts_versions: on_change != Some(OnFingerprintChange::Ignore),
        access: CacheAccess::bypassing(spec.bypass_cache),
        caller: Caller::default(),
        priority: Priority::default(),
    };
    let deferred = DeferredFields {
        generator_id: spec.generator_id,
        prompts: spec.prompts,
    };
    Ok((plan, deferred))
}
