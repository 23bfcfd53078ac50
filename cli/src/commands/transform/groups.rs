//! Converts pairs to groups for the graded-ranking task: an anchor and its candidates, best first
//! (PARTIAL).

use isomer_proto::transform::v1::TransformResult;
use serde_json::{Value, json};

use crate::{
    args::{AnchorArg, TransformArgs},
    exit::Failure,
    input::{self, Record},
};

/// The parts of a group other than the transformed text and its variants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    /// The text that every candidate is compared with.
    anchor: String,
    /// The best candidate: a full paraphrase of the anchor.
    paraphrase: String,
}

impl Frame {
    /// PARTIAL, section 4: swapped texts are made from b and compared with b, so the pairs of a
    /// group are (a, b), (b̂1, b), (b̂2, b) and (b̂3, b). The best candidate is the sentence of the
    /// pair that is not the anchor.
    fn new(sentence1: String, sentence2: String, anchor: AnchorArg) -> Self {
        let (anchor, paraphrase) = match anchor {
            AnchorArg::Sentence1 => (sentence1, sentence2),
            AnchorArg::Sentence2 => (sentence2, sentence1),
        };
        Self { anchor, paraphrase }
    }
}

/// The texts to transform and, for each, the rest of its group.
pub(super) struct Pairs(Vec<(Record, Frame)>);

impl Pairs {
    pub(super) fn unzip(self) -> (Vec<Record>, Vec<Frame>) {
        self.0.into_iter().unzip()
    }
}

/// Reads pairs. A pair with label 0 is not a paraphrase and is skipped.
pub(super) fn read(args: &TransformArgs) -> Result<Pairs, Failure> {
    let name = args.transformation.as_deref().unwrap_or_default();
    // PARTIAL swaps in the second sentence of a pair, and continues the first.
    let changed = match name {
        "multi_swap" => "sentence2",
        "continuation" => "sentence1",
        _ => return Err(Failure::usage("--groups goes with multi_swap and continuation only")),
    };
    let mut number = 0;
    let pairs = input::rows(args.input.as_deref(), |row| {
        number += 1;
        let positive = match row.get("label") {
            None | Some(Value::Null) => true,
            Some(label) => match label.as_f64().or_else(|| label.as_str()?.parse().ok()) {
                Some(label) => label != 0.0,
                None => return Err(format!("field `label` should be 0 or 1, found {label}")),
            },
        };
        let record = record(row, changed, number - 1)?;
        let frame = Frame::new(text(row, "sentence1")?, text(row, "sentence2")?, args.anchor);
        Ok(positive.then_some((record, frame)))
    })?;
    if pairs.is_empty() {
        return Err(Failure::dependency(
            "--input holds no pair with a label other than 0; give JSONL with `sentence1` and `sentence2`",
        ));
    }
    Ok(Pairs(pairs))
}

fn text(row: &Value, field: &str) -> Result<String, String> {
    match row.get(field) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => Err(format!("field `{field}` should be a string, found {other}")),
        None => Err(format!("field `{field}` is missing")),
    }
}

/// A record's id is the row's own, or else its number in the file, so that skipping rows changes no
/// random draw.
fn record(row: &Value, field: &str, number: usize) -> Result<Record, String> {
    let id = match row.get("id") {
        Some(Value::String(id)) => id.clone(),
        Some(Value::Number(id)) => id.to_string(),
        _ => number.to_string(),
    };
    Ok(Record {
        text: text(row, field)?,
        id: Some(id),
        language: row.get("language").and_then(Value::as_str).map(str::to_owned),
    })
}

/// The line of a group; `None` if the text gave no variants.
pub(super) fn line(frame: &Frame, result: &TransformResult) -> Option<Value> {
    if result.texts.is_empty() {
        return None;
    }
    let mut candidates = vec![frame.paraphrase.as_str()];
    candidates.extend(result.texts.iter().map(String::as_str));
    Some(json!({
        "id": result.id,
        "anchor": frame.anchor,
        "candidates": candidates,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(anchor: AnchorArg) -> Option<Value> {
        let swaps = TransformResult {
            id: "7".into(),
            texts: vec!["b1".into(), "b2".into(), "b3".into()],
            ..TransformResult::default()
        };
        line(&Frame::new("a".into(), "b".into(), anchor), &swaps)
    }

    #[test]
    fn swapped_texts_are_compared_with_the_sentence_they_were_made_from() {
        let paper = json!({"id": "7", "anchor": "b", "candidates": ["a", "b1", "b2", "b3"]});
        assert_eq!(group(AnchorArg::Sentence2), Some(paper));
    }

    #[test]
    fn the_other_form_is_there_on_request() {
        let other = json!({"id": "7", "anchor": "a", "candidates": ["b", "b1", "b2", "b3"]});
        assert_eq!(group(AnchorArg::Sentence1), Some(other));
    }

    #[test]
    fn a_text_without_variants_gives_no_group() {
        let frame = Frame::new("a".into(), "b".into(), AnchorArg::Sentence2);
        assert!(line(&frame, &TransformResult::default()).is_none());
    }
}
