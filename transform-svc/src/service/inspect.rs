//! `TransformService.Inspect`: measures and checks of pairs that need no generator.

use std::sync::atomic::{AtomicBool, Ordering};

use isomer_proto::transform::v1::{InspectRequest, InspectResponse, LanguageCheck, inspect_response::Finding};
use isomer_service_kit::{Fault, long_work};
use tonic::Code;

use super::convert;
use crate::{
    checks,
    engine::{TransformationRequest, read_language},
    guards, language, measures,
};

/// Maximum number of pairs of one request.
const MOST_PAIRS: usize = 4096;
/// Maximum length of a text, in bytes. Guards and checks take time in proportion to it; the edit
/// distance takes a fraction of a second for two texts of this length.
const LONGEST_TEXT: usize = 100_000;
/// Maximum bytes of all texts.
const MOST_TEXT: usize = 4 << 20;

/// Refuses requests that would keep a thread busy for long.
fn check(request: &InspectRequest) -> Result<(), Fault> {
    if request.pairs.len() > MOST_PAIRS {
        let message = format!(
            "has {} entries, at most {MOST_PAIRS} are looked at in one call",
            request.pairs.len()
        );
        return Err(Fault::invalid("pairs", message).hint("send them in several calls"));
    }
    let mut total = 0;
    for (index, pair) in request.pairs.iter().enumerate() {
        for (name, text) in [("original", &pair.original), ("transformed", &pair.transformed)] {
            total += text.len();
            if text.len() > LONGEST_TEXT {
                let message = format!("is {} bytes long, at most {LONGEST_TEXT} are compared", text.len());
                return Err(Fault::invalid(format!("pairs[{index}].{name}"), message).hint("send a part of it"));
            }
        }
    }
    if total > MOST_TEXT {
        let message = format!("hold {total} bytes of text, at most {MOST_TEXT} are looked at in one call");
        return Err(Fault::invalid("pairs", message).hint("send them in several calls"));
    }
    Ok(())
}

/// Inspects the pairs on a separate thread, so that the runtime's threads stay free for other
/// calls. It ends after the current pair if the caller leaves.
pub(super) async fn inspect(request: InspectRequest) -> Result<InspectResponse, Fault> {
    check(&request)?;
    long_work(move |left| look(request, &left)).await?
}

fn look(request: InspectRequest, left: &AtomicBool) -> Result<InspectResponse, Fault> {
    let requested = TransformationRequest::read(request.transformation.as_ref(), "transformation")?;
    let kind = requested.transformation.declaration();
    let target = requested.language("target_language")?;
    let mut findings = Vec::with_capacity(request.pairs.len());
    for (index, pair) in request.pairs.into_iter().enumerate() {
        if left.load(Ordering::Relaxed) {
            return Err(Fault::new(Code::Cancelled, "CALLER_LEFT", "the caller left"));
        }
        let expected = match pair.expected_language.as_deref().filter(|tag| !tag.is_empty()) {
            Some(tag) => Some(read_language(tag, || format!("pairs[{index}].expected_language"))?),
            None if kind.changes_language() => target,
            None => language::detect(&pair.original),
        };
        let source = language::detect(&pair.original).or(expected.filter(|_| !kind.changes_language()));
        let guarded = guards::run(kind, &pair.original, &pair.transformed, source, expected);
        let failed = checks::run(kind, &pair.original, &pair.transformed, expected);
        findings.push(Finding {
            failed_checks: convert::numbers(&failed),
            measures: Some(convert::measures(measures::measure(&pair.original, &pair.transformed))),
            language_check: expected
                .filter(|_| kind.needs_generator() && !pair.transformed.trim().is_empty())
                .map_or(LanguageCheck::Unspecified, |expected| {
                    language::check(&pair.transformed, expected)
                })
                .into(),
            detected_language: language::detect(&pair.transformed)
                .map(|found| found.code().to_owned())
                .unwrap_or_default(),
            guards: convert::numbers(&guarded.fired),
            guards_untold: convert::numbers(&guarded.unknown),
        });
    }
    Ok(InspectResponse { findings })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use isomer_proto::transform::v1::inspect_request::Pair;

    use super::*;

    fn request(texts: &[(String, String)]) -> InspectRequest {
        InspectRequest {
            pairs: texts
                .iter()
                .map(|(original, transformed)| Pair {
                    original: original.clone(),
                    transformed: transformed.clone(),
                    expected_language: Some("en".to_owned()),
                })
                .collect(),
            transformation: Some(isomer_proto::transform::v1::Transformation::named("paraphrase")),
        }
    }

    #[test]
    fn what_would_take_minutes_is_refused_and_an_ordinary_request_is_not() {
        let long = "a ".repeat(LONGEST_TEXT / 2 + 1);
        let fault = check(&request(&[("a".to_owned(), long)])).unwrap_err();
        assert_eq!(fault.field.as_deref(), Some("pairs[0].transformed"));
        let many = vec![("a".to_owned(), "b".to_owned()); MOST_PAIRS + 1];
        assert_eq!(check(&request(&many)).unwrap_err().field.as_deref(), Some("pairs"));
        let large = vec![("a ".repeat(40_000), "b ".repeat(40_000)); 30];
        assert_eq!(check(&request(&large)).unwrap_err().field.as_deref(), Some("pairs"));
        check(&request(&many[..MOST_PAIRS])).unwrap();
    }

    #[test]
    fn no_pair_is_looked_at_after_the_caller_left() {
        let pair = || request(&[("A man plays.".to_owned(), "A man is playing.".to_owned())]);
        let fault = look(pair(), &AtomicBool::new(true)).unwrap_err();
        assert_eq!(fault.reason, "CALLER_LEFT");
        assert_eq!(look(pair(), &AtomicBool::new(false)).unwrap().findings.len(), 1);
    }

    /// The runtime of this test has one thread.
    #[tokio::test]
    async fn other_work_goes_on_during_the_worst_legal_request() {
        let words = |seed: u64| {
            (0..8_000_u64)
                .map(|n| format!("w{} ", n * seed % 9973))
                .collect::<String>()
        };
        let heavy = tokio::spawn(inspect(request(&vec![(words(7), words(11)); 2])));
        let mut turns = 0;
        while !heavy.is_finished() {
            tokio::time::sleep(Duration::from_millis(1)).await;
            turns += 1;
        }
        assert_eq!(heavy.await.unwrap().unwrap().findings.len(), 2);
        assert!(turns > 3, "the thread was given back {turns} times");
    }
}
