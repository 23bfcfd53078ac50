//! Queries and judgements of `isomer index compare`.

use std::{collections::HashSet, path::Path};

use isomer_index::{
    IndexError,
    compare::{Qrels, Query},
    read_rows,
};
use serde_json::Value;

use super::failure;
use crate::exit::Failure;

/// A name: a text or an integer.
fn name(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(name) if !name.is_empty() => Some(name.clone()),
        Value::Number(number) if number.is_i64() || number.is_u64() => Some(number.to_string()),
        _ => None,
    }
}

/// Reads queries: `id` (or `_id`) and `text`.
pub(super) fn queries(path: &Path) -> Result<Vec<Query>, Failure> {
    let (mut queries, mut seen) = (Vec::new(), HashSet::new());
    read_rows(path, |row| {
        let id = name(row.fields.get("id").or_else(|| row.fields.get("_id")));
        let id = id.ok_or_else(|| row.error(Some("id"), "missing; each query has an id and a text"))?;
        let text = row.fields.get("text").and_then(Value::as_str);
        let text = text.ok_or_else(|| row.error(Some("text"), "missing; each query has an id and a text"))?;
        if !seen.insert(id.clone()) {
            return Err(row
                .error(Some("id"), format!("`{id}` is the id of an earlier query too"))
                .into());
        }
        queries.push(Query {
            id,
            text: text.to_owned(),
        });
        Ok::<_, IndexError>(true)
    })
    .map_err(|error| failure(error).of_flag("--queries"))?;
    Ok(queries)
}

/// Reads judgements: `query-id`, `corpus-id` and `score`.
pub(super) fn qrels(path: &Path) -> Result<Qrels, Failure> {
    let mut qrels = Qrels::new();
    read_rows(path, |row| {
        let needed = |field| {
            name(row.fields.get(field))
                .ok_or_else(|| row.error(Some(field), "missing; a judgement has query-id, corpus-id and score"))
        };
        let (query, document) = (needed("query-id")?, needed("corpus-id")?);
        let score = row.fields.get("score").and_then(|score| match score {
            Value::String(cell) => cell.trim().parse::<f64>().ok(),
            other => other.as_f64(),
        });
        let whole = score.filter(|score| score.fract() == 0.0 && score.abs() < 1e6);
        let whole = whole.ok_or_else(|| row.error(Some("score"), "missing or not a whole number"))?;
        #[allow(clippy::cast_possible_truncation)]
        qrels.entry(query).or_default().insert(document, whole as i32);
        Ok::<_, IndexError>(true)
    })
    .map_err(|error| failure(error).of_flag("--qrels"))?;
    Ok(qrels)
}
