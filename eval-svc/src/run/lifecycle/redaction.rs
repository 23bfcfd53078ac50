//! Removes texts to be forgotten from the records and reports of runs.

use std::ops::Range;

use isomer_retention::erasure::{MARKER, Texts};
use serde::Serialize;
use serde_json::Value;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use crate::{report, run::StoreError};

/// A run whose record or report contained a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunRedaction {
    /// Its id.
    pub run: String,
    /// Number of replaced texts, in all files.
    pub places: u64,
    /// Files of the run that change.
    pub files: Vec<String>,
    /// SHA-256 of `report.json` before; absent if it does not change.
    pub report_before: Option<String>,
    /// SHA-256 of `report.json` after; absent if the file could not be read and is removed.
    pub report_after: Option<String>,
}

impl RunRedaction {
    pub(crate) fn of(run: &str) -> Self {
        Self {
            run: run.to_owned(),
            places: 0,
            files: Vec::new(),
            report_before: None,
            report_after: None,
        }
    }
}

/// The occurrences of the texts in runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RunRedactions {
    /// Runs that change.
    pub runs: Vec<RunRedaction>,
    /// Runs that have not ended. Their in-memory data is written when they end, so the texts must
    /// then be forgotten again.
    pub active: Vec<String>,
    /// Files with scores or other measurements that contained a text.
    pub measurements: u64,
}

/// The result of cleaning a file of a run.
pub(crate) enum Redaction {
    /// It contains none of the texts.
    Unchanged,
    /// Its new content, and the number of replaced texts.
    Changed(Vec<u8>, u64),
    /// It contains a text, but this version does not know its format.
    Unreadable,
}

/// A suite's TOML without the texts, including those written with TOML escapes, and the number of
/// replaced texts; `None` if it contains none.
pub(crate) fn suite(toml: &str, texts: &Texts) -> Option<(String, u64)> {
    let (mut cleaned, mut places) = (toml.to_owned(), 0);
    // Each round finds the name of a repeated table only once. A text contained in the marker would
    // be found again.
    while !texts.is_held_by(MARKER) {
        let mut held = Vec::new();
        if let Ok(table) = DeTable::parse(&cleaned) {
            strings_of(table.get_ref(), &mut |value, span| {
                held.extend(texts.without(value).map(|value| (span, value)));
            });
        }
        if held.is_empty() {
            break;
        }
        places += held.len() as u64;
        held.sort_by_key(|(span, _)| std::cmp::Reverse(span.start));
        for (span, value) in held {
            cleaned.replace_range(span, &toml::Value::from(value).to_string());
        }
    }
    // Comments, and content that is not TOML.
    if let Some(plain) = texts.without(&cleaned) {
        (cleaned, places) = (plain, places + 1);
    }
    (places > 0).then_some((cleaned, places))
}

/// Calls `call` with every string of a table, names included, and its place.
fn strings_of(table: &DeTable<'_>, call: &mut impl FnMut(&str, Range<usize>)) {
    for (name, value) in table {
        call(name.get_ref(), name.span());
        strings_in(value, call);
    }
}

fn strings_in(value: &Spanned<DeValue<'_>>, call: &mut impl FnMut(&str, Range<usize>)) {
    match value.get_ref() {
        DeValue::String(text) => call(text, value.span()),
        DeValue::Array(all) => all.iter().for_each(|one| strings_in(one, call)),
        DeValue::Table(table) => strings_of(table, call),
        _ => {}
    }
}

/// Cleans the suites in a document: the record of a run contains one, and so does its end event.
fn suites_of(document: &mut Value, texts: &Texts) -> u64 {
    let mut places = 0;
    if let Value::Object(fields) = document
        && fields.get("from").is_some_and(|from| from == "toml")
        && let Some(Value::String(text)) = fields.get_mut("text")
        && let Some((cleaned, found)) = suite(text, texts)
    {
        (*text, places) = (cleaned, found);
    }
    places
        + match document {
            Value::Object(fields) => fields.values_mut().map(|one| suites_of(one, texts)).sum(),
            Value::Array(all) => all.iter_mut().map(|one| suites_of(one, texts)).sum(),
            _ => 0,
        }
}

/// A JSON document without the texts.
pub(crate) fn document(content: &[u8], texts: &Texts) -> Redaction {
    let Ok(mut document) = serde_json::from_slice::<Value>(content) else {
        return match texts.stand_in(content) {
            true => Redaction::Unreadable,
            false => Redaction::Unchanged,
        };
    };
    // Suites are cleaned first, because in them a place is a string of TOML.
    match suites_of(&mut document, texts) + texts.clean(&mut document) {
        0 => Redaction::Unchanged,
        places => match serde_json::to_vec(&document) {
            Ok(content) => Redaction::Changed(content, places),
            Err(_) => Redaction::Unreadable,
        },
    }
}

/// Every format of a report without the texts; `None` if the report is not of this version.
pub(crate) fn report_files(content: &[u8]) -> Option<Vec<(&'static str, Vec<u8>)>> {
    let report = report::read(content).ok()?;
    report::files(&report).ok()
}

/// File names of a report's formats.
pub(crate) const REPORT: [&str; 4] = ["report.json", "report.md", "report.html", "junit.xml"];

/// The files of a run without the texts: the new content of each changed file, `None` for a removed
/// file.
pub(crate) fn files_of_run(
    run: &str,
    texts: &Texts,
    mut read: impl FnMut(&str) -> Result<Option<Vec<u8>>, StoreError>,
) -> Result<Option<(RunRedaction, Vec<(String, Option<Vec<u8>>)>)>, StoreError> {
    let mut redaction = RunRedaction::of(run);
    let mut changed: Vec<(String, Option<Vec<u8>>)> = Vec::new();
    for name in ["report.json", "items.json"] {
        let Some(content) = read(name)? else { continue };
        let (cleaned, places) = match document(&content, texts) {
            Redaction::Unchanged => continue,
            Redaction::Changed(content, places) => (Some(content), places),
            Redaction::Unreadable => (None, 1),
        };
        redaction.places += places;
        if name != "report.json" {
            changed.push((name.to_owned(), cleaned));
            continue;
        }
        redaction.report_before = Some(sha256(&content));
        let files = cleaned.as_deref().and_then(report_files);
        for form in REPORT {
            let file = files.iter().flatten().find(|(name, _)| *name == form);
            changed.push((form.to_owned(), file.map(|(_, content)| content.clone())));
        }
        let after = files.iter().flatten().find(|(name, _)| *name == REPORT[0]);
        redaction.report_after = after.map(|(_, content)| sha256(content));
    }
    // The formats are rendered from report.json; a format written by an older version may contain
    // data that report.json lacks.
    for name in REPORT {
        if changed.iter().any(|(known, _)| known == name) {
            continue;
        }
        if read(name)?.is_some_and(|content| texts.stand_in(&content)) {
            redaction.places += 1;
            changed.push((name.to_owned(), None));
        }
    }
    redaction.files = changed.iter().map(|(name, _)| name.clone()).collect();
    Ok((redaction.places > 0).then_some((redaction, changed)))
}

fn sha256(content: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    hex::encode(Sha256::digest(content))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use serde_json::json;

    use super::*;

    const TEXT: &str = "Anna \"Red\" O'Neil\\ lives in Zürich";

    /// The text in the forms in which TOML may contain it.
    fn suites() -> Vec<String> {
        let basic = TEXT.replace('\\', "\\\\").replace('"', "\\\"");
        let coded: String = TEXT.chars().map(|c| format!("\\u{:04X}", c as u32)).collect();
        vec![
            format!("name = \"{basic}\""),
            format!("name = \"before {basic} after\""),
            format!("name = \"{coded}\""),
            format!("name = \"\"\"{basic}\"\"\""),
            format!("name = '''{TEXT}'''"),
            format!("list = [[{{ a = \"{coded}\" }}]]"),
            format!("[prompts.\"{coded}\"]\na = 1"),
            format!("[[set.\"{coded}\"]]\n[[set.\"{coded}\"]]"),
            format!("# {TEXT}\na = 1"),
            format!("not TOML: {TEXT}"),
        ]
    }

    #[test]
    fn a_text_is_found_in_a_suite_however_toml_writes_it() {
        let texts = Texts::new([TEXT.to_owned()]).unwrap();
        for toml in suites() {
            let (cleaned, places) = suite(&toml, &texts).unwrap_or_else(|| panic!("{toml}"));
            assert!(cleaned.contains(MARKER) && places > 0, "{toml}");
            assert_eq!(suite(&cleaned, &texts), None, "{toml} became {cleaned}");
            let is_toml = |text: &str| DeTable::parse(text).is_ok();
            assert_eq!(is_toml(&cleaned), is_toml(&toml), "{cleaned}");
        }
        assert_eq!(suite("name = \"Anna Red\"", &texts), None);
        let marked = Texts::new(["forgotten".to_owned()]).unwrap();
        assert!(suite("name = \"it is forgotten\"", &marked).is_some(), "and it ends");
    }

    #[test]
    fn a_suite_is_cleaned_in_a_record_and_in_an_event() {
        let texts = Texts::new([TEXT.to_owned()]).unwrap();
        for toml in suites() {
            let choice = json!({ "from": "toml", "text": toml, "file_name": "a.toml" });
            for held in [
                json!({ "request": { "suite": choice } }),
                json!({ "ended": { "request": { "suite": choice } } }),
            ] {
                let content = serde_json::to_vec(&held).unwrap();
                let Redaction::Changed(cleaned, _) = document(&content, &texts) else {
                    panic!("{toml}");
                };
                assert!(matches!(document(&cleaned, &texts), Redaction::Unchanged), "{toml}");
            }
        }
    }
}
