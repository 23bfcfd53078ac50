//! mteb's task-result document: the JSON that `mteb.results.TaskResult.from_disk` and `from_dict`
//! read.
//!
//! Layout of mteb 2.20.0 `results/task_result.py`: scores by split, one entry per language subset,
//! each with `main_score`, `hf_subset` and `languages`; floats rounded to 6 decimals as `to_disk`
//! does.

use std::time::Duration;

use prost_types::{ListValue, Struct, Value as ProtoValue, value::Kind};
use serde_json::{Map, Value, json};

use crate::{dataset::Dataset, metric::rounding::round_decimals, task::Scores};

/// The mteb version whose layout and definitions the document follows. mteb reads documents of
/// versions below 1.11 differently.
const MTEB_VERSION: &str = "2.20.0";

/// ISO 639-3 code for a language that is not named. mteb skips entries that list no language at
/// all.
const UNDETERMINED: &str = "und";

/// The document of one dataset scored with one encoder. `dataset_revision` is the hub's commit, or
/// the digest of the dataset's content if it is not from the hub; `evaluation_time` is in seconds.
/// In addition to the scores, `isomer_sample` describes a sample, and `isomer_search` the recall of
/// an approximate search.
pub fn document(dataset: &Dataset, scores: &Scores, took: Duration) -> Value {
    let mut entry = Map::new();
    entry.insert("main_score".to_owned(), json!(round_decimals(scores.main, 6)));
    entry.insert("hf_subset".to_owned(), json!(dataset.language().unwrap_or("default")));
    let languages = match (dataset.languages(), dataset.language()) {
        (Some(codes), _) => codes.to_vec(),
        (None, Some(subset)) => languages(subset),
        (None, None) => vec![UNDETERMINED.to_owned()],
    };
    entry.insert("languages".to_owned(), json!(languages));
    for (key, value) in &scores.all {
        entry.insert(key.clone(), json!(round_decimals(*value, 6)));
    }
    if let Some(sample) = dataset.sample() {
        entry.insert("isomer_sample".to_owned(), json!(sample));
    }
    for (key, value) in dataset.remarks() {
        entry.insert((*key).to_owned(), value.clone());
    }
    if let Some(report) = &scores.approximate {
        let recall: Map<String, Value> = report
            .recall
            .iter()
            .map(|(k, share)| (format!("recall_at_{k}"), json!(round_decimals(*share, 6))))
            .collect();
        let search = json!({
            "approximate": report.index,
            "of_the_exact_documents": recall,
            "compared_queries": report.compared,
        });
        entry.insert("isomer_search".to_owned(), search);
    }
    json!({
        "dataset_revision": dataset.revision().map_or_else(|| format!("blake3:{}", dataset.digest()), str::to_owned),
        "task_name": dataset.name(),
        "mteb_version": MTEB_VERSION,
        "scores": { dataset.split(): [entry] },
        "evaluation_time": round_decimals(took.as_secs_f64(), 6),
        "kg_co2_emissions": null,
    })
}

/// The ISO 639-1 code, if there is one, and mteb's code.
const LANGUAGES: &str = include_str!("mteb_languages.txt");

/// mteb's language codes (ISO 639-3 and script) of a subset's name: `de` gives `deu-Latn`, `en-ar`
/// both. A part that is not a known language is kept as it is; a region or variant after a known
/// language (`en-ext`) is dropped.
fn languages(subset: &str) -> Vec<String> {
    let mut codes: Vec<String> = Vec::new();
    for (i, part) in subset.split('-').enumerate() {
        let mut known = LANGUAGES.lines().filter_map(|line| line.split_once(' '));
        let code = match known.find(|(short, long)| *short == part || long.split('-').next() == Some(part)) {
            Some((_, long)) => long.to_owned(),
            None if i == 0 => part.to_owned(),
            None => continue,
        };
        if !codes.contains(&code) {
            codes.push(code);
        }
    }
    codes
}

/// A JSON object as a protobuf `Struct`; anything else gives an empty one.
pub fn to_struct(value: &Value) -> Struct {
    match value {
        Value::Object(map) => Struct {
            fields: map.iter().map(|(k, v)| (k.clone(), to_proto(v))).collect(),
        },
        _ => Struct::default(),
    }
}

fn to_proto(value: &Value) -> ProtoValue {
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(b) => Kind::BoolValue(*b),
        // These documents contain only doubles, so nothing is lost.
        Value::Number(n) => Kind::NumberValue(n.as_f64().unwrap_or(f64::NAN)),
        Value::String(s) => Kind::StringValue(s.clone()),
        Value::Array(items) => Kind::ListValue(ListValue {
            values: items.iter().map(to_proto).collect(),
        }),
        Value::Object(_) => Kind::StructValue(to_struct(value)),
    };
    ProtoValue { kind: Some(kind) }
}

/// A protobuf `Struct` as JSON, keys sorted.
pub fn to_json(document: &Struct) -> Value {
    Value::Object(
        document
            .fields
            .iter()
            .map(|(k, v)| (k.clone(), from_proto(v)))
            .collect(),
    )
}

fn from_proto(value: &ProtoValue) -> Value {
    match &value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(b)) => json!(b),
        Some(Kind::NumberValue(n)) => json!(n),
        Some(Kind::StringValue(s)) => json!(s),
        Some(Kind::ListValue(list)) => Value::Array(list.values.iter().map(from_proto).collect()),
        Some(Kind::StructValue(inner)) => to_json(inner),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subsets_name_their_languages_as_mteb_does() {
        assert_eq!(languages("de"), ["deu-Latn"]);
        assert_eq!(languages("en-ar"), ["eng-Latn", "ara-Arab"]);
        assert_eq!(languages("en-en"), ["eng-Latn"]);
        assert_eq!(languages("en-ext"), ["eng-Latn"]);
        assert_eq!(languages("hau"), ["hau-Latn"]);
        assert_eq!(languages("qqq"), ["qqq"]);
        assert_eq!(
            (languages("af"), languages("zu"), languages("arb")),
            (
                vec!["afr-Latn".into()],
                vec!["zul-Latn".into()],
                vec!["arb-Arab".into()]
            )
        );
        assert!(
            LANGUAGES
                .lines()
                .all(|line| line.split_once(' ').is_some_and(|(_, long)| long.contains('-')))
        );
    }

    #[test]
    fn a_document_survives_the_wire() {
        let value = json!({"a": [1.5, null, true], "b": {"c": "text"}});
        assert_eq!(to_json(&to_struct(&value)), value);
    }
}
