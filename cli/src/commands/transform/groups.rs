//! Pairs in, groups for the graded-ranking task out: an anchor and its candidates, best first (PARTIAL).

use isomer_proto::transform::v1::TransformResult;
use serde_json::{Value, json};

use crate::{
    args::TransformArgs,
    exit::Failure,
    input::{self, Record},
};

/// The texts to transform and, for each, the anchor it is ranked against.
pub(super) struct Pairs(Vec<(Record, String)>);

impl Pairs {
    pub(super) fn unzip(self) -> (Vec<Record>, Vec<String>) {
        self.0.into_iter().unzip()
    }
}

/// Reads pairs. Those with label 0 are none of a paraphrase, and left out.
pub(super) fn read(args: &TransformArgs) -> Result<Pairs, Failure> {
    let name = args.transformation.as_deref().unwrap_or_default();
    // PARTIAL swaps in the second sentence of a pair, and continues the first.
    let (changed, anchor) = match name {
        "multi_swap" => ("sentence2", "sentence1"),
        "continuation" => ("sentence1", "sentence2"),
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
        Ok(positive.then_some((record(row, changed, number - 1)?, text(row, anchor)?)))
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

/// Its id is the row's own, or else its number in the file, so that leaving rows out changes no draw.
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

/// A group, or nothing for a text that gave no variants.
pub(super) fn line(anchor: &str, original: &str, result: &TransformResult) -> Option<Value> {
    if result.texts.is_empty() {
        return None;
    }
    let mut candidates = vec![original];
    candidates.extend(result.texts.iter().map(String::as_str));
    Some(json!({
        "id": result.id,
        "anchor": anchor,
        "candidates": candidates,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_original_is_the_best_candidate() {
        let result = TransformResult {
            id: "7".into(),
            texts: vec!["b1".into(), "b2".into()],
            ..TransformResult::default()
        };
        let group = line("a", "b", &result).unwrap_or_default();
        assert_eq!(
            group,
            json!({"id": "7", "anchor": "a", "candidates": ["b", "b1", "b2"]})
        );
        assert!(line("a", "b", &TransformResult::default()).is_none());
    }
}
