//! The output of `isomer transform`: one line per text, and a summary.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufWriter, Write},
    path::Path,
};

use isomer_proto::{
    ProtoEnum,
    transform::v1::{self as proto, Check, Guard, Outcome, TransformResult, TransformStreamEnd},
};
use serde_json::{Value, json};

use crate::{commands::write_failure, exit::Failure, reasons::Reasons};

pub(super) fn line(original: &str, result: &TransformResult) -> Value {
    let checks = |checks: &[i32]| checks.iter().map(|c| Check::name_of(*c)).collect::<Vec<_>>();
    let guards = |guards: &[i32]| guards.iter().map(|guard| Guard::name_of(*guard)).collect::<Vec<_>>();
    let outcome = Outcome::try_from(result.outcome).unwrap_or_default();
    let has_text = outcome != Outcome::Failed;
    let mut line = json!({
        "id": result.id,
        "original": original,
        "text": has_text.then_some(&result.text),
        "outcome": outcome.name(),
        "failed_checks": checks(&result.failed_checks),
        "retried_checks": checks(&result.retried_checks),
        "guards": guards(&result.guards),
        "guards_untold": guards(&result.guards_untold),
        "language": result.language,
        "language_check": result.language_check().name(),
        "measures": result.measures.as_ref().map(measures),
        "provenance": result.provenance.as_ref().map(|p| json!({
            "generator": p.generator_id, "prompt": p.prompt_version, "seed": p.seed, "attempts": p.attempts,
            "cache_hit": p.cache_hit, "languages": p.languages, "content_key": p.content_key,
        })),
        "calls": result.calls.iter().map(|call| json!({
            "prompt": call.prompt_version, "language": call.language, "text": call.text, "content_key": call.content_key,
        })).collect::<Vec<_>>(),
    });
    if let Some(object) = line.as_object_mut() {
        if !result.texts.is_empty() {
            object.insert("texts".into(), json!(result.texts));
            object.insert("text".into(), Value::Null);
            let each: Vec<_> = result.text_measures.iter().map(measures).collect();
            object.insert("text_measures".into(), json!(each));
            object.insert("set_jaccard".into(), json!(result.set_jaccard));
        }
        if !result.error.is_empty() {
            object.insert("error".into(), json!(result.error));
        }
    }
    line
}

fn measures(m: &proto::Measures) -> Value {
    json!({"edit_distance": m.edit_distance, "jaccard": m.jaccard, "length_ratio": m.length_ratio})
}

/// The counts of the summary, in a sentence.
pub(super) fn summary(end: &TransformStreamEnd) -> String {
    let Some(totals) = &end.summary else {
        return String::new();
    };
    let mut text = format!(
        "{} ok, {} recovered, {} kept original, {} failed; {} from cache, {} generator calls",
        totals.ok, totals.recovered, totals.kept_original, totals.failed, totals.cache_hits, totals.generator_calls
    );
    if totals.language_too_short > 0 {
        text.push_str(&format!(
            "; {} too short to detect the language",
            totals.language_too_short
        ));
    }
    let checks: BTreeMap<_, _> = totals.check_counts.iter().collect();
    if !checks.is_empty() {
        let fired: Vec<String> = checks.iter().map(|(check, count)| format!("{check} {count}")).collect();
        text.push_str(&format!("; checks fired: {}", fired.join(", ")));
    }
    let guards: BTreeMap<_, _> = totals.guard_counts.iter().collect();
    if !guards.is_empty() {
        let fired: Vec<String> = guards.iter().map(|(guard, count)| format!("{guard} {count}")).collect();
        text.push_str(&format!("; guards warn: {}", fired.join(", ")));
    }
    text
}

/// Stored texts of a server whose model may have changed since.
#[derive(Debug, Default)]
pub(super) struct StoredTexts {
    texts: usize,
}

impl StoredTexts {
    pub(super) fn count(&mut self, result: &TransformResult) {
        let is_stored = result.provenance.as_ref().is_some_and(|made| made.cache_hit);
        let of_server = result.calls.last().is_some_and(|call| !call.fingerprint.is_empty());
        self.texts += usize::from(is_stored && of_server);
    }

    /// A note on the versions of the model; absent if all texts are of one version, which was
    /// queried now. `reports`: whether stored texts are used and reported.
    pub(super) fn note(&self, end: &TransformStreamEnd, reports: bool) -> Option<String> {
        let versions: BTreeMap<_, _> = end.summary.iter().flat_map(|totals| &totals.fingerprints).collect();
        let counts: Vec<String> = versions.iter().map(|(name, count)| format!("{name} {count}")).collect();
        let hint = "--on-fingerprint-change regenerate makes stored texts of another version again";
        if versions.len() > 1 {
            return Some(format!("texts by version of the model: {}; {hint}", counts.join(", ")));
        }
        (self.texts > 0 && reports).then(|| {
            format!(
                "{} of the texts are stored answers of `{}`, as the server named its model then; {hint}",
                self.texts,
                versions.keys().next().map_or("", |name| name.as_str())
            )
        })
    }
}

/// Texts that failed because of the generator or of the request to it.
#[derive(Debug, Default)]
pub(super) struct Errors {
    pub(super) reasons: Reasons,
    /// Number of texts for which no attempt returned a text to check.
    silent: usize,
}

impl Errors {
    pub(super) fn count(&mut self, result: &TransformResult) {
        self.silent += usize::from(result.failed_checks().any(|check| check == Check::GeneratorError));
        self.reasons.count(&result.error);
    }

    /// An error if all texts, `texts` of them, failed that way.
    pub(super) fn refuse_silence(&self, texts: usize) -> Result<(), Failure> {
        if self.silent < texts {
            return Ok(());
        }
        Err(Failure::dependency(format!(
            "none of the {texts} texts could be transformed: {}",
            self.reasons.main()
        )))
    }
}

/// Writes lines in the order of their index and buffers those that arrive early.
pub(super) struct OrderedWriter {
    out: Box<dyn Write>,
    name: String,
    next: u32,
    waiting: BTreeMap<u32, Option<Value>>,
}

impl OrderedWriter {
    pub(super) fn open(path: Option<&Path>) -> Result<Self, Failure> {
        let (out, name): (Box<dyn Write>, _) = match path {
            Some(path) => {
                let name = path.display().to_string();
                let file = File::create(path)
                    .map_err(|e| Failure::dependency(format!("cannot write {name}: {e}; check --output")))?;
                (Box::new(BufWriter::new(file)), name)
            }
            None => (Box::new(std::io::stdout()), "stdout".to_owned()),
        };
        Ok(Self {
            out,
            name,
            next: 0,
            waiting: BTreeMap::new(),
        })
    }

    /// Puts a line at its index; `None` writes no line.
    pub(super) fn put(&mut self, index: u32, line: Option<Value>) -> Result<(), Failure> {
        self.waiting.insert(index, line);
        while let Some(line) = self.waiting.remove(&self.next) {
            if let Some(line) = line {
                writeln!(self.out, "{line}").map_err(|e| write_failure(&self.name, &e))?;
            }
            self.next += 1;
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<(), Failure> {
        self.out.flush().map_err(|e| write_failure(&self.name, &e))
    }
}
