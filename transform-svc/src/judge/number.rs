//! Reads a rating strictly: an answer that requires interpretation is not a rating.
//!
//! A rating is one number of the scale. It may be surrounded only by additions that do not change
//! it: whitespace, one pair of quotation marks or asterisks, a full stop, a label (`Score: 4`,
//! `Similarity = 3.5`), the scale's own maximum (`4/5`, `4 out of 5`). Everything else is rejected:
//! two numbers, a range, words before or after, a number out of range, a decimal on a scale of
//! whole numbers, a decimal comma.

use isomer_proto::transform::v1::JudgeScale;

use super::Scale;

const LABELS: &[&str] = &["score", "rating", "similarity", "quality", "fluency", "answer"];
const WRAPPERS: &[&str] = &["**", "*", "\"", "'", "`"];

/// The rating in an answer; `None` if the answer is not a rating.
pub fn read(answer: &str, scale: JudgeScale) -> Option<f64> {
    let text = unwrap(answer.trim());
    let text = unwrap(unlabelled(text).unwrap_or(text));
    let text = text.strip_suffix('.').unwrap_or(text).trim_end();
    let text = without_maximum(text, scale).unwrap_or(text);
    let number = number(text)?;
    let (low, high) = scale.range();
    ((low..=high).contains(&number) && (scale.takes_decimals() || number.fract() == 0.0)).then_some(number)
}

/// Removes one pair of marks around the whole answer.
fn unwrap(text: &str) -> &str {
    WRAPPERS
        .iter()
        .find_map(|mark| text.strip_prefix(mark)?.strip_suffix(mark))
        .map_or(text, str::trim)
}

/// The text after `Score:`, `Similarity rating =` and the like, ignoring case.
fn unlabelled(text: &str) -> Option<&str> {
    let (label, rest) = text.split_once([':', '='])?;
    let mut words = label.trim_matches(['*', ' ']).split_whitespace().peekable();
    words.peek()?;
    words
        .all(|word| LABELS.iter().any(|label| word.eq_ignore_ascii_case(label)))
        .then(|| rest.trim_start_matches('*').trim())
}

/// The text before `/5` or `out of 5`, where 5 is the scale's maximum.
fn without_maximum(text: &str, scale: JudgeScale) -> Option<&str> {
    let (value, most) = text.split_once('/').or_else(|| text.split_once("out of"))?;
    (number(most.trim())? == scale.range().1).then(|| value.trim())
}

/// Digits with at most one point between them; no sign, no exponent.
fn number(text: &str) -> Option<f64> {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let plain = match text.split_once('.') {
        Some((whole, fraction)) => digits(whole) && digits(fraction),
        None => digits(text),
    };
    plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use isomer_proto::ProtoEnum;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_number_of_the_scale_is_read_in_every_form_that_leaves_no_doubt() {
        for (answer, rating) in [
            ("4", 4.0),
            (" 3.75\n", 3.75),
            ("0", 0.0),
            ("5.0", 5.0),
            ("4.", 4.0),
            ("Score: 4", 4.0),
            ("**Rating:** 2.5", 2.5),
            ("Similarity score = 1", 1.0),
            ("**4**", 4.0),
            ("\"4\"", 4.0),
            ("4/5", 4.0),
            ("4.2 / 5.", 4.2),
            ("Score: 3 out of 5", 3.0),
        ] {
            assert_eq!(read(answer, JudgeScale::Similarity), Some(rating), "{answer}");
        }
        assert_eq!(read("Quality: 4.0", JudgeScale::Quality), Some(4.0));
    }

    #[test]
    fn what_has_to_be_interpreted_is_no_rating() {
        for answer in [
            "",
            ".",
            "four",
            "3-4",
            "3 or 4",
            "4, because they say the same",
            "The score is 4",
            "The texts differ: 4",
            "6",
            "-1",
            "+4",
            "5.01",
            "4,5",
            "4/10",
            "80%",
            "1e0",
            "NaN",
            "inf",
            "4 5",
            "4\n5",
            "Score:",
            "1. 4",
            "٤",
        ] {
            assert_eq!(read(answer, JudgeScale::Similarity), None, "{answer}");
        }
        assert_eq!(read("3.5", JudgeScale::Quality), None, "whole numbers only");
        assert_eq!(read("0", JudgeScale::Fluency), None, "the scale begins at 1");
        assert_eq!(read("0", JudgeScale::Similarity), Some(0.0));
    }

    proptest! {
        #[test]
        fn every_number_of_the_scale_reads_back_and_any_text_is_answered(hundredths in 0_u32..=500, noise in "\\PC{0,12}") {
            let value = f64::from(hundredths) / 100.0;
            prop_assert_eq!(read(&value.to_string(), JudgeScale::Similarity), Some(value));
            for scale in JudgeScale::all() {
                if let Some(rating) = read(&noise, scale) {
                    let (low, high) = scale.range();
                    prop_assert!(rating >= low && rating <= high);
                }
            }
        }
    }
}
