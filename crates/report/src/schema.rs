//! The published schema of `report.json`, from the types that are written.

use schemars::{JsonSchema, generate::SchemaSettings};

use super::{Report, SCHEMA};

/// Fields in which the reports of two runs of one check may differ. All other fields are equal,
/// whether one process or many workers did the work. `*` stands for every place of a list.
///
/// Encoders do not count the tokens of texts whose vectors their process has, and each worker has
/// others. This matters where a text comes up again, e.g. as the copy that a generator made of
/// another one.
const VARIES: [&str; 7] = [
    "run.id",
    "run.created",
    "run.started",
    "run.finished",
    "run.seconds",
    "durations",
    "counters.tokens_encoded",
];
/// Further ones if a process was killed or cut off meanwhile: texts and scores that it had finished
/// count as cached.
const VARIES_AFTER_A_FAULT: [&str; 2] = ["counters", "scores.*.cached"];

/// JSON Schema (draft 2020-12) of `report.json`; `eval-svc/schema/report-1.json` is a copy of it.
pub fn json_schema() -> serde_json::Value {
    let mut schema = of::<Report>("Isomer robustness report", "urn:isomer:report:1", SCHEMA);
    if let Some(object) = schema.as_object_mut() {
        object.insert("x-varies".to_owned(), VARIES.as_slice().into());
        object.insert(
            "x-varies-after-a-fault".to_owned(),
            VARIES_AFTER_A_FAULT.as_slice().into(),
        );
    }
    schema
}

/// The schema of a file that names its version in `schema`.
pub(super) fn of<T: JsonSchema>(title: &str, id: &str, version: &str) -> serde_json::Value {
    // The schema of what is written, not of what is read: fields that older files lack are always
    // written.
    let mut schema = SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value();
    if let Some(object) = schema.as_object_mut() {
        object.insert("title".to_owned(), title.into());
        object.insert("$id".to_owned(), id.into());
        if let Some(own) = object.get_mut("properties").and_then(|all| all.get_mut("schema")) {
            own["const"] = version.into();
        }
    }
    schema
}
