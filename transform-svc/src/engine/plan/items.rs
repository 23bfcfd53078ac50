//! The texts of a request as jobs: equal texts form one job, and each job knows the language drawn
//! for it.

use std::collections::HashMap;

use isomer_proto::transform::v1 as proto;
use isomer_transformations::Draw as Drawn;
use rayon::prelude::*;

use super::{Draw, Job, Member, Plan, spec::read_language};
use crate::{
    error::TransformError,
    language::{self, Language},
};

/// For fewer texts than this, language detection stays on one core.
const DETECTED_TOGETHER: usize = 64;

/// The properties that two items must share to form one job.
#[derive(PartialEq, Eq, Hash)]
struct JobKey {
    text: String,
    language: Option<Language>,
    drawn: Option<Language>,
    /// The id, if a random draw on the words depends on it.
    id: String,
}

/// Reads the items. Detecting the languages of many texts takes a while.
pub(super) fn read(most_chars: usize, plan: &Plan, items: Vec<proto::TextItem>) -> Result<Vec<Job>, TransformError> {
    if items.is_empty() {
        return Err(TransformError::invalid(
            "items",
            "there are no texts",
            "send at least one",
        ));
    }
    let detected = detected(most_chars, &items);
    let mut jobs: Vec<Job> = Vec::with_capacity(items.len());
    let mut known: HashMap<JobKey, usize> = HashMap::with_capacity(items.len());
    for (index, (item, detected)) in items.into_iter().zip(detected).enumerate() {
        let chars = item.text.chars().count();
        if chars > most_chars {
            return Err(TransformError::invalid(
                format!("items[{index}].text"),
                format!("{chars} characters, more than the limit of {most_chars}"),
                "shorten or split the text, or raise transform.max_text_chars",
            ));
        }
        let given = match item.language.as_deref().filter(|tag| !tag.is_empty()) {
            Some(tag) => Some(read_language(tag, || format!("items[{index}].language"))?),
            None => None,
        };
        if let (Some(rule), Some(language)) = (&plan.rule, given) {
            rule.check_language(language).map_err(|refused| {
                TransformError::invalid(format!("items[{index}].language"), refused.problem, refused.hint)
            })?;
        }
        let language = given.or(detected);
        let drawn = draw(plan, &item.id, &item.text, language);
        let key = JobKey {
            language,
            drawn,
            id: if plan.kind().draw == Drawn::Words {
                item.id.clone()
            } else {
                String::new()
            },
            text: item.text,
        };
        let member = Member {
            index: index as u32,
            id: item.id,
        };
        if let Some(job) = known.get(&key).and_then(|at| jobs.get_mut(*at)) {
            job.members.push(member);
            continue;
        }
        let text = key.text.clone();
        known.insert(key, jobs.len());
        jobs.push(Job {
            refusal: refusal(plan, given, language, drawn, &text),
            text,
            language,
            drawn,
            members: vec![member],
        });
    }
    Ok(jobs)
}

/// Detects the languages of texts that do not name theirs, on all cores if there are many. A text
/// that is too long is refused before detection.
fn detected(most_chars: usize, items: &[proto::TextItem]) -> Vec<Option<Language>> {
    let most_bytes = most_chars.saturating_mul(4);
    let detect = |item: &proto::TextItem| {
        let given = item.language.as_deref().is_some_and(|tag| !tag.is_empty());
        (!given && item.text.len() <= most_bytes)
            .then(|| language::detect(&item.text))
            .flatten()
    };
    items.par_iter().with_min_len(DETECTED_TOGETHER).map(detect).collect()
}

/// The target or pivot language of a text: a function of seed, run and id (or the text, if it has
/// no id), never of the order.
fn draw(plan: &Plan, id: &str, text: &str, source: Option<Language>) -> Option<Language> {
    match &plan.draw {
        Draw::None => None,
        Draw::Given(language) => Some(*language),
        Draw::PerRun(Some(rank)) => language::target_of_rank(*rank, &plan.run, source),
        Draw::PerRun(None) => language::draw_target(plan.seed, &plan.run, source),
        Draw::PerText(candidates) => {
            let id = if id.is_empty() { text } else { id };
            language::draw_for_text(candidates, plan.seed, plan.kind().name, &plan.run, id, source)
        }
    }
}

/// The reason why a text cannot be transformed at all. `given` is the language that the request
/// names; `source` is that language or the detected one.
fn refusal(
    plan: &Plan,
    given: Option<Language>,
    source: Option<Language>,
    drawn: Option<Language>,
    text: &str,
) -> Option<String> {
    if plan.draw == Draw::None {
        return None;
    }
    let Some(drawn) = drawn else {
        let name = source.map_or("the text's own", Language::name);
        return Some(format!(
            "no language is left to draw: the only one permitted is {name}, which the text is in"
        ));
    };
    if plan.kind().draw == Drawn::Target && given == Some(drawn) {
        return Some(format!(
            "the target is {}, which the text is in; name another, or none to have one drawn",
            drawn.name()
        ));
    }
    if plan.kind().draw != Drawn::PivotPerText {
        return None;
    }
    match source {
        // An empty text is reported as empty, whatever its language is.
        None if text.trim().is_empty() => None,
        None => Some(
            "the text is too short to detect its language, so there is no language to translate back into; give `language`"
                .to_owned(),
        ),
        Some(source) if source.matches(drawn) => Some(format!(
            "the pivot is {}, which the text is in; name another, or none to have one drawn",
            drawn.name()
        )),
        Some(_) => None,
    }
}
