//! The output of `isomer eval`: one result, a table of many, values of single items.

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use isomer_proto::eval::v1::{PromptUse, ScoreResponse, prompt_use};
use serde_json::{Map, Value, json};

use super::json;
use crate::{args::Format, commands::stdout_failure, exit::Failure};

/// The score of one encoder on one dataset.
pub(crate) struct Outcome {
    pub(crate) model: String,
    pub(crate) data: String,
    pub(crate) response: ScoreResponse,
}

/// Prints one result as mteb's document or as text, several as a list of results or a table of main
/// scores.
pub(super) fn print(format: Format, outcomes: &[Outcome]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let text = match (format, outcomes) {
        (Format::Json, [one]) => pretty(&document(&one.response))?,
        (Format::Json, many) => {
            let result = |outcome: &Outcome| {
                json!({
                    "model": outcome.model,
                    "data": outcome.data,
                    "profile": outcome.response.profile_stamp,
                    "main_score_key": outcome.response.main_score_key,
                    "main_score": outcome.response.main_score,
                    "result": document(&outcome.response),
                })
            };
            pretty(&Value::Array(many.iter().map(result).collect()))?
        }
        (Format::Text, [one]) => scores(one),
        (Format::Text, many) => table(many),
    };
    writeln!(out, "{}", text.trim_end()).map_err(|e| stdout_failure(&e))
}

fn document(response: &ScoreResponse) -> Value {
    response.mteb_result.as_ref().map(json::from_struct).unwrap_or_default()
}

fn pretty(value: &Value) -> Result<String, Failure> {
    serde_json::to_string_pretty(value).map_err(|e| Failure::dependency(format!("cannot write the result: {e}")))
}

fn scores(outcome: &Outcome) -> String {
    let response = &outcome.response;
    let mut text = format!(
        "{} on {}, {} items, profile {}\n  {:<28} {:.4}  (main score)\n",
        outcome.model,
        outcome.data,
        response.items,
        response.profile_stamp,
        response.main_score_key,
        response.main_score
    );
    let mut rest: Vec<_> = response
        .scores
        .iter()
        .filter(|(key, _)| **key != response.main_score_key && *key != "main_score")
        .collect();
    rest.sort_by(|a, b| a.0.cmp(b.0));
    for (key, value) in rest {
        text.push_str(&format!("  {key:<28} {value:.4}\n"));
    }
    text.push_str(&prompts(response));
    for note in &response.notes {
        text.push_str(&format!("note: {note}\n"));
    }
    text
}

/// The prompts that precede the texts, one per line.
pub(in crate::commands) fn prompts(response: &ScoreResponse) -> String {
    let line = |used: &PromptUse| {
        let source = match used.source() {
            prompt_use::Source::Request => "--prompt",
            prompt_use::Source::Suite => "the suite",
            prompt_use::Source::Encoder | prompt_use::Source::Unspecified => "the encoder",
        };
        let text = used
            .text
            .as_ref()
            .map_or("(its own)".to_owned(), |text| format!("{text:?}"));
        format!("prompt of {} texts: {text} ({} of {source})\n", used.part, used.role)
    };
    response.prompts.iter().map(line).collect()
}

/// Main scores: one row per dataset, one column per encoder, and the mean over datasets.
fn table(outcomes: &[Outcome]) -> String {
    let mut models: Vec<&str> = Vec::new();
    let mut data: Vec<&str> = Vec::new();
    for outcome in outcomes {
        if !models.contains(&outcome.model.as_str()) {
            models.push(&outcome.model);
        }
        if !data.contains(&outcome.data.as_str()) {
            data.push(&outcome.data);
        }
    }
    let score = |model: &str, data: &str| {
        let found = outcomes.iter().find(|o| o.model == model && o.data == data);
        found.map(|o| o.response.main_score)
    };
    let first = data.iter().map(|d| d.len()).chain([4]).max().unwrap_or(4);
    let cell = |model: &str, text: String| format!("  {text:>width$}", width = model.len().max(7));
    let mut text = String::new();
    if let Some(one) = outcomes.first() {
        text.push_str(&format!(
            "{}, profile {}\n",
            one.response.main_score_key, one.response.profile_stamp
        ));
    }
    let row = |name: &str, value: &dyn Fn(&str) -> Option<f64>| {
        let cells: String = models
            .iter()
            .map(|model| {
                cell(
                    model,
                    value(model).map_or_else(|| "-".to_owned(), |v| format!("{v:.4}")),
                )
            })
            .collect();
        format!("{name:<first$}{cells}\n")
    };
    let header: String = models.iter().map(|model| cell(model, (*model).to_owned())).collect();
    text.push_str(&format!("{:<first$}{header}\n", ""));
    for set in &data {
        text.push_str(&row(set, &|model| score(model, set)));
    }
    if data.len() > 1 {
        let mean = |model: &str| {
            let values: Option<Vec<f64>> = data.iter().map(|set| score(model, set)).collect();
            values.map(|values| values.iter().sum::<f64>() / values.len() as f64)
        };
        text.push_str(&row("mean", &mean));
    }
    text
}

/// Values of single items as JSON lines: model, data, id and one field per key; null where
/// undefined.
pub(super) struct ItemFile {
    path: PathBuf,
    writer: BufWriter<File>,
}

impl ItemFile {
    pub(super) fn create(path: &Path) -> Result<Self, Failure> {
        let file = File::create(path).map_err(|e| failed(path, &e))?;
        Ok(Self {
            path: path.to_owned(),
            writer: BufWriter::new(file),
        })
    }

    pub(super) fn write(&mut self, model: &str, data: &str, response: &ScoreResponse) -> Result<(), Failure> {
        let Some(items) = &response.per_item else {
            return Err(Failure::dependency(
                "the server answered without values of single items".to_owned(),
            ));
        };
        for (i, id) in items.ids.iter().enumerate() {
            let mut line = Map::new();
            line.insert("model".to_owned(), json!(model));
            line.insert("data".to_owned(), json!(data));
            line.insert("id".to_owned(), json!(id));
            for column in &items.columns {
                // JSON has no NaN: an undefined value is null.
                let value = column.values.get(i).copied().filter(|v| v.is_finite());
                line.insert(column.key.clone(), json!(value));
            }
            writeln!(self.writer, "{}", Value::Object(line)).map_err(|e| failed(&self.path, &e))?;
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<(), Failure> {
        self.writer.flush().map_err(|e| failed(&self.path, &e))
    }
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::dependency(format!("--per-item: cannot write {}: {error}", path.display()))
}
