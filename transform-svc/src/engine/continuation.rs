//! PARTIAL's continuation: a text continues after ", and" and is cut after every few generated
//! tokens (section 3.3 there).
//!
//! Each cut is one call for a fixed number of tokens, given everything generated so far, so that
//! any generator that can continue a text makes the same cuts. The text of the first cut is a
//! prefix of the text of the second.

use std::sync::Arc;

use super::{Engine, Job, JobResult, MadeTexts, Outcome, Plan, attempt, question::Question};
use crate::{
    checks::{self, Check},
    error::TransformError,
    generator::BoundedGenerator,
    prompt::{Message, Role},
    seed,
};

/// Version of everything that influences the answers besides the text; increment it when that
/// changes.
const VERSION: &str = "continuation@1";

/// Attempts a text until every cut has its tokens. A text that ends earlier is attempted again.
pub(super) async fn until_all_cuts(
    engine: &Engine,
    plan: &Plan,
    job: &Job,
    generator: &Arc<BoundedGenerator>,
) -> Result<JobResult, TransformError> {
    let mut result = JobResult::new(plan.seed, job.language);
    let (stride, cuts) = (plan.parameters().whole("stride"), plan.parameters().whole("cuts"));
    for attempt in 0..plan.max_attempts {
        let seed = seed::of_attempt(plan.seed, &job.text, attempt);
        result.begin_attempt(seed);
        let mut text = opening(&job.text);
        let (mut texts, mut fresh) = (Vec::new(), false);
        for _ in 0..cuts {
            let reply = engine
                .ask(&Question {
                    generator,
                    kind: "continuation/raw",
                    content: text.clone(),
                    prompt: VERSION.to_owned(),
                    prompt_digest: VERSION,
                    messages: vec![message(text.clone())],
                    temperature: attempt::temperature(plan, attempt),
                    max_tokens: stride,
                    seed,
                    access: plan.access,
                    version: &plan.version,
                    caller: &plan.caller,
                    priority: plan.priority,
                })
                .await?;
            fresh |= reply.fresh;
            result.provenance.key = Some(reply.key);
            result.cost.add(&reply.usage, reply.waited);
            match reply.text {
                Ok(piece) if extend(&mut text, &piece) => texts.push(text.trim_end().to_owned()),
                Ok(_) => break,
                Err(error) => {
                    result.cost.fresh_attempts += u32::from(fresh);
                    return attempt::end(result, generator, error, reply.fresh, texts.len());
                }
            }
        }
        result.cost.fresh_attempts += u32::from(fresh);
        let checks = fired_checks(plan, job, &texts);
        if checks.is_empty() {
            result.outcome = Outcome::Made(MadeTexts::new(texts, attempt > 0));
            return Ok(result);
        }
        result.fail(checks, String::new(), fresh);
        if attempt::is_futile(plan, generator, attempt + 1) {
            break;
        }
    }
    Ok(result)
}

fn fired_checks(plan: &Plan, job: &Job, texts: &[String]) -> Vec<Check> {
    let mut failed = texts.last().map_or_else(Vec::new, |last| {
        // A continuation is meant to be longer than its original and begins with it.
        let mut fired = checks::run(plan.kind(), &job.text, last, job.language);
        fired.retain(|check| *check != Check::Runaway);
        fired
    });
    if texts.len() < plan.parameters().whole("cuts") as usize {
        failed.push(Check::TooFew);
    }
    failed
}

/// A message with a text that the model continues without a template.
pub(super) fn message(content: String) -> Message {
    Message {
        role: Role::Text,
        content,
    }
}

/// The text without its final punctuation, followed by ", and".
pub(super) fn opening(text: &str) -> String {
    let body =
        text.trim_end_matches(|c: char| c.is_whitespace() || matches!(c, '.' | '!' | '?' | '…' | ';' | ':' | ','));
    let body = if body.is_empty() { text.trim_end() } else { body };
    format!("{body}, and")
}

/// Appends the generated text up to the end of the line; false if that is empty.
fn extend(text: &mut String, piece: &str) -> bool {
    let line = piece.split(['\n', '\r']).next().unwrap_or_default();
    if line.trim().is_empty() {
        return false;
    }
    if text.ends_with(", and") && line.starts_with(char::is_alphanumeric) {
        text.push(' ');
    }
    text.push_str(line);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_goes_on_after_its_last_word() {
        assert_eq!(opening("He was born in Rome ."), "He was born in Rome, and");
        assert_eq!(opening("Is it?!"), "Is it, and");
        assert_eq!(opening("..."), "..., and");
    }

    #[test]
    fn what_is_generated_is_taken_up_to_the_end_of_its_line() {
        let mut text = opening("He left.");
        assert!(extend(&mut text, "was seen\nQ: "));
        assert_eq!(text, "He left, and was seen");
        assert!(extend(&mut text, " aga"));
        assert!(extend(&mut text, "in"));
        assert_eq!(text, "He left, and was seen again");
        assert!(!extend(&mut text, "\nNext"));
        assert!(!extend(&mut text, ""));
    }
}
