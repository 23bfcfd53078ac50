//! Records and reports of runs without texts that are to be forgotten.

use isomer_retention::erasure::Texts;
use serde::Serialize;
use serde_json::Value;

use super::store::StoreError;
use crate::report;

/// A run whose record or report held a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ForgottenIn {
    /// Its id.
    pub run: String,
    /// Places where a text was replaced, in all files.
    pub places: u64,
    /// Its files that change.
    pub files: Vec<String>,
    /// SHA-256 of `report.json` before; absent where it does not change.
    pub report_before: Option<String>,
    /// And after; absent where it could not be read and is removed.
    pub report_after: Option<String>,
}

impl ForgottenIn {
    pub(super) fn of(run: &str) -> Self {
        Self {
            run: run.to_owned(),
            places: 0,
            files: Vec::new(),
            report_before: None,
            report_after: None,
        }
    }
}

/// What runs held of the texts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ForgottenRuns {
    /// Runs that change.
    pub runs: Vec<ForgottenIn>,
    /// Runs that have not ended. What they hold in memory is written when they end, so the texts
    /// have to be forgotten again then.
    pub active: Vec<String>,
    /// Files with scores or other measurements that held a text.
    pub measurements: u64,
}

/// A file of a run, cleaned.
pub(super) enum Cleaned {
    /// It holds none of the texts.
    Unchanged,
    /// Its new content, and the places where a text stood.
    Changed(Vec<u8>, u64),
    /// It holds one, and what it is made of is unknown to this version.
    Unreadable,
}

/// A document of JSON without the texts.
pub(super) fn document(content: &[u8], texts: &Texts) -> Cleaned {
    let Ok(mut document) = serde_json::from_slice::<Value>(content) else {
        return match texts.stand_in(content) {
            true => Cleaned::Unreadable,
            false => Cleaned::Unchanged,
        };
    };
    match texts.clean(&mut document) {
        0 => Cleaned::Unchanged,
        places => match serde_json::to_vec(&document) {
            Ok(content) => Cleaned::Changed(content, places),
            Err(_) => Cleaned::Unreadable,
        },
    }
}

/// Every form of a report without the texts; `None` where it is not one of this version.
pub(super) fn report_files(content: &[u8]) -> Option<Vec<(&'static str, Vec<u8>)>> {
    let report = report::read(content).ok()?;
    report::files(&report).ok()
}

/// Names of the forms of a report.
pub(super) const REPORT: [&str; 4] = ["report.json", "report.md", "report.html", "junit.xml"];

/// The files of a run without the texts: the new content of each that changes, `None` for one that
/// is removed.
pub(super) fn files_of_run(
    run: &str,
    texts: &Texts,
    mut read: impl FnMut(&str) -> Result<Option<Vec<u8>>, StoreError>,
) -> Result<Option<(ForgottenIn, Vec<(String, Option<Vec<u8>>)>)>, StoreError> {
    let mut told = ForgottenIn::of(run);
    let mut changed: Vec<(String, Option<Vec<u8>>)> = Vec::new();
    for name in ["report.json", "items.json"] {
        let Some(content) = read(name)? else { continue };
        let (cleaned, places) = match document(&content, texts) {
            Cleaned::Unchanged => continue,
            Cleaned::Changed(content, places) => (Some(content), places),
            Cleaned::Unreadable => (None, 1),
        };
        told.places += places;
        if name != "report.json" {
            changed.push((name.to_owned(), cleaned));
            continue;
        }
        told.report_before = Some(sha256(&content));
        let files = cleaned.as_deref().and_then(report_files);
        for form in REPORT {
            let file = files.iter().flatten().find(|(name, _)| *name == form);
            changed.push((form.to_owned(), file.map(|(_, content)| content.clone())));
        }
        let after = files.iter().flatten().find(|(name, _)| *name == REPORT[0]);
        told.report_after = after.map(|(_, content)| sha256(content));
    }
    // The forms are made of report.json; one of an older version may hold what that one lacks.
    for name in REPORT {
        if changed.iter().any(|(known, _)| known == name) {
            continue;
        }
        if read(name)?.is_some_and(|content| texts.stand_in(&content)) {
            told.places += 1;
            changed.push((name.to_owned(), None));
        }
    }
    told.files = changed.iter().map(|(name, _)| name.clone()).collect();
    Ok((told.places > 0).then_some((told, changed)))
}

fn sha256(content: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    hex::encode(Sha256::digest(content))
}
