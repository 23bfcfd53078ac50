//! Reads a transformation spec, field by field.

use std::sync::Arc;

use isomer_proto::transform::v1 as proto;
use isomer_service_kit::{choice, priority::Priority};
use proto::{GuardMode, OnFailure, OnFingerprintChange, transformation::Kind as Wanted};

use super::{super::continuation, CacheAccess, Caller, Draw, MAX_TOKENS, Plan};
use crate::{
    catalogue::Kind,
    distractors::{DEFAULT_COUNT, MAX_COUNT},
    error::TransformError,
    language::{self, Language},
    plain::{multi_swap::MAX_SWAPS, noise::Noise, random_keywords::KEEP_RATIO},
    prompt::{Prompt, Prompts},
};

/// Default seed (HTEB's first).
const DEFAULT_SEED: u64 = 1337;
const DEFAULT_ATTEMPTS: u32 = 3;
const MAX_ATTEMPTS: u32 = 10;
/// Retries sample at least this hot if the request does not say: a greedy model would repeat its
/// answer.
const RETRY_TEMPERATURE: f64 = 0.7;
const FIELD: &str = "spec.transformation";

/// The parts of a spec that need more than the request to be checked.
#[derive(Debug)]
pub(super) struct Unresolved {
    pub(super) generator_id: String,
    pub(super) prompts: Vec<String>,
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
        Wanted::Noise(_) => Kind::Noise,
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
            ..
        })) => read_language(tag, || format!("{field}.translation.target_language")).map(Some),
        _ => Ok(None),
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

/// Where drawn languages come from.
fn draw_of(transformation: Option<&proto::Transformation>) -> Result<Draw, TransformError> {
    let Some(wanted) = transformation.and_then(|transformation| transformation.kind.as_ref()) else {
        return Ok(Draw::None);
    };
    Ok(match wanted {
        Wanted::Translation(translation) => match target_of(transformation, FIELD)? {
            Some(target) => Draw::Given(target),
            None => Draw::PerRun(translation.seed_rank),
        },
        Wanted::Backtranslation(backtranslation) => match &backtranslation.pivot_language {
            Some(tag) => Draw::Given(read_language(tag, || {
                format!("{FIELD}.backtranslation.pivot_language")
            })?),
            None => Draw::PerText(language::known(&language::PIVOTS)),
        },
        Wanted::CrossTranslation(cross) if cross.target_languages.is_empty() => {
            Draw::PerText(language::known(&language::TARGETS))
        }
        Wanted::CrossTranslation(cross) => {
            let mut targets = Vec::with_capacity(cross.target_languages.len());
            for (at, tag) in cross.target_languages.iter().enumerate() {
                targets.push(read_language(tag, || {
                    format!("{FIELD}.cross_translation.target_languages[{at}]")
                })?);
            }
            Draw::PerText(targets)
        }
        _ => Draw::None,
    })
}

/// How many distractors.
fn count_of(transformation: Option<&proto::Transformation>) -> Result<u32, TransformError> {
    let count = match transformation.and_then(|transformation| transformation.kind.as_ref()) {
        Some(Wanted::Distractors(distractors)) => distractors.count.unwrap_or(DEFAULT_COUNT),
        _ => return Ok(DEFAULT_COUNT),
    };
    if !(1..=MAX_COUNT).contains(&count) {
        return Err(TransformError::invalid(
            format!("{FIELD}.distractors.count"),
            format!("{count} distractors for a text"),
            format!("give 1 to {MAX_COUNT}"),
        ));
    }
    Ok(count)
}

/// An integer parameter of a transformation, checked against its bounds.
fn number(field: &str, given: Option<u32>, default: u32, most: u32) -> Result<u32, TransformError> {
    let number = given.unwrap_or(default);
    if (1..=most).contains(&number) {
        return Ok(number);
    }
    Err(TransformError::invalid(
        format!("{FIELD}.{field}"),
        format!("{number} is out of range"),
        format!("give 1 to {most}"),
    ))
}

/// Swaps of `multi_swap`; stride and cuts of `continuation`.
fn numbers_of(transformation: Option<&proto::Transformation>) -> Result<[u32; 3], TransformError> {
    let most = MAX_SWAPS as u32;
    let mut numbers = [most, continuation::STRIDE, continuation::CUTS];
    match transformation.and_then(|transformation| transformation.kind.as_ref()) {
        Some(Wanted::MultiSwap(swap)) => numbers[0] = number("multi_swap.swaps", swap.swaps, most, most)?,
        Some(Wanted::Continuation(wanted)) => {
            let (stride, cuts) = (continuation::MAX_STRIDE, continuation::MAX_CUTS);
            numbers[1] = number("continuation.stride", wanted.stride, continuation::STRIDE, stride)?;
            numbers[2] = number("continuation.cuts", wanted.cuts, continuation::CUTS, cuts)?;
        }
        _ => {}
    }
    Ok(numbers)
}

/// Channel and dose of `noise`.
fn noise_of(transformation: Option<&proto::Transformation>) -> Result<Option<Noise>, TransformError> {
    match transformation.and_then(|transformation| transformation.kind.as_ref()) {
        Some(Wanted::Noise(message)) => Noise::read(message, &format!("{FIELD}.noise")).map(Some),
        _ => Ok(None),
    }
}

/// The prompts that a request names. Each must fit one of the plan's calls.
pub(super) fn named_prompts(
    prompts: &Prompts,
    plan: &Plan,
    ids: &[String],
) -> Result<Vec<Arc<Prompt>>, TransformError> {
    let mut named: Vec<Arc<Prompt>> = Vec::new();
    for (at, id) in ids.iter().enumerate() {
        let field = format!("spec.prompts[{at}]");
        let prompt = prompts.named(id, &field)?;
        let purposes = plan.kind.purposes();
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
            let message = format!("`{id}` is not a prompt for `{}`", plan.kind.name());
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

/// A prompt with a fixed number of distractors cannot be asked for another number.
pub(super) fn check_count(prompt: &Prompt, count: u32) -> Result<(), TransformError> {
    if prompt.purpose() == crate::prompt::Purpose::Distractors && count != DEFAULT_COUNT && !prompt.takes_count() {
        return Err(TransformError::invalid(
            format!("{FIELD}.distractors.count"),
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

/// Reads a spec. Its generator, its prompts and so its steps are found later.
pub(super) fn read(spec: proto::TransformSpec) -> Result<(Plan, Unresolved), TransformError> {
    let kind = kind_of(spec.transformation.as_ref(), FIELD)?;
    if !kind.entry().served {
        return Err(TransformError::NotServed(kind.name()));
    }
    let draw = draw_of(spec.transformation.as_ref())?;
    let count = count_of(spec.transformation.as_ref())?;
    let [swaps, stride, cuts] = numbers_of(spec.transformation.as_ref())?;
    let noise = noise_of(spec.transformation.as_ref())?;
    let keep_ratio = match spec.transformation.and_then(|transformation| transformation.kind) {
        Some(Wanted::RandomKeywords(proto::RandomKeywords {
            keep_ratio: Some(ratio),
        })) => ratio,
        _ => KEEP_RATIO,
    };
    let sampling = spec.sampling.unwrap_or_default();
    let narrowed = sampling.top_p.is_some_and(|p| p != 1.0) || sampling.top_k.is_some();
    if kind == Kind::Continuation && (sampling.max_tokens.is_some() || narrowed) {
        return Err(TransformError::invalid(
            "spec.sampling",
            "`continuation` takes neither max_tokens, nor top_k, nor a top_p other than 1",
            format!("leave them out; {FIELD}.continuation.stride and .cuts say how much is generated"),
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
        kind,
        draw,
        count,
        swaps,
        stride,
        cuts,
        noise,
        keep_ratio: within(
            "spec.transformation.random_keywords.keep_ratio",
            keep_ratio,
            true,
            0.0,
            1.0,
        )?,
        generator: None,
        steps: Vec::new(),
        seed: spec.seed.unwrap_or(DEFAULT_SEED),
        run: spec.run,
        max_attempts,
        on_failure,
        temperature: within(
            "spec.sampling.temperature",
            sampling.temperature.unwrap_or(kind.default_temperature()),
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
        version: (on_change == Some(OnFingerprintChange::Regenerate)).then(Arc::default),
        access: CacheAccess::bypassing(spec.bypass_cache),
        caller: Caller::default(),
        priority: Priority::default(),
    };
    let unresolved = Unresolved {
        generator_id: spec.generator_id,
        prompts: spec.prompts,
    };
    Ok((plan, unresolved))
}
