//! Errors that a comment of the `.proto` files promises: `@error CODE REASON field: when`.
//!
//! A test that provokes one names it by its element and its tag up to the colon. The tests of
//! `all-in-one/tests/it/promises` compare these literals with the comments, in both directions.

use isomer_service_kit::{Fault, code_name};

/// Asserts that a fault is the promised one, for example
/// `EncoderService.Encode NOT_FOUND UNKNOWN_ENCODER`.
#[track_caller]
pub fn promised(promise: &str, fault: &Fault) {
    assert!(
        keeps(promise, fault),
        "promised: {promise}; given: {}: {fault}",
        refusal(fault)
    );
}

/// Whether a fault has code and reason of a promise, and its field if the promise has one.
pub fn keeps(promise: &str, fault: &Fault) -> bool {
    let mut words = promise.split(' ').skip(1).peekable();
    let code = words.next().unwrap_or_default();
    let upper = |word: &&str| word.starts_with(|c: char| c.is_ascii_uppercase());
    let reason = words.next_if(upper).unwrap_or(code);
    let field = words.next().is_none_or(|end| {
        let path = without_indexes(fault.field.as_deref().unwrap_or_default());
        path == end || path.ends_with(&format!(".{end}"))
    });
    (code, reason) == (code_name(fault.code), fault.reason.as_str()) && field
}

/// Code, reason and field of a fault in the form of a tag, with the indexes of the field:
/// `INVALID_ARGUMENT BROKEN_GATE spec.gate.rules[0].quantity`.
pub fn refusal(fault: &Fault) -> String {
    let code = code_name(fault.code);
    let reason = Some(fault.reason.as_str()).filter(|reason| *reason != code);
    let words: Vec<&str> = [Some(code), reason, fault.field.as_deref()]
        .into_iter()
        .flatten()
        .collect();
    words.join(" ")
}

fn without_indexes(path: &str) -> String {
    path.split('[')
        .map(|part| part.split_once(']').map_or(part, |(_, rest)| rest))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_is_kept_by_its_code_its_reason_and_the_end_of_its_field() {
        let fault = Fault::invalid("spec.gate.rules[0].quantity", "is unknown");
        assert_eq!(refusal(&fault), "INVALID_ARGUMENT spec.gate.rules[0].quantity");
        for kept in ["", " quantity", " rules.quantity", " INVALID_ARGUMENT quantity"] {
            assert!(keeps(&format!("GateRule INVALID_ARGUMENT{kept}"), &fault), "{kept}");
        }
        for broken in [
            "NOT_FOUND",
            "INVALID_ARGUMENT BROKEN_GATE",
            "INVALID_ARGUMENT antity",
            "INVALID_ARGUMENT rules",
        ] {
            assert!(!keeps(&format!("GateRule {broken}"), &fault), "{broken}");
        }
        let fault = Fault::not_found("UNKNOWN_RUN", "there is none");
        assert!(keeps("RunService NOT_FOUND UNKNOWN_RUN", &fault));
        assert!(!keeps("RunService NOT_FOUND", &fault) && !keeps("RunService NOT_FOUND UNKNOWN_RUN id", &fault));
    }
}
