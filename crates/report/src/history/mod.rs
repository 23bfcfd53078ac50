//! `isomer history`: the releases of an encoder over the stored checks, and whether each is
//! non-inferior, with one error probability over all releases.
//!
//! Only checks of one suite, one metric profile, one reference and the same texts are compared; the
//! others are listed with the reason. A release that is checked again is not a new look: its first
//! check counts, so that the better of two checks cannot be chosen.
//!
//! * `comparable`: selects the checks. `tables`: the sections of both pages. `markdown`, `html`:
//!   the output formats.

mod comparable;
mod html;
mod markdown;
mod tables;

pub use crate::releases::{
    HISTORY_SCHEMA, History, HistoryOptions, HistoryQuantity, HistoryReference, LeftOutRun, Release, ReleaseTest,
};

use self::comparable::ComparableChecks;
use crate::{
    GateVerdict, Report,
    format::{p_value, points, signed},
    profile::EncoderProfile,
    stats::gate::releases::{fewest_datasets, release_alpha, release_test},
};

/// The reason why a history cannot be computed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum HistoryError {
    /// No check has the encoder.
    #[error("{}", no_encoder(encoder, *checks, known))]
    NoEncoder {
        encoder: String,
        checks: usize,
        /// The known encoders.
        known: String,
    },
    /// No check has the suite.
    #[error("no check of `{encoder}` has a suite whose digest begins with {suite}; there are {known}")]
    NoSuite {
        encoder: String,
        suite: String,
        /// The known suites.
        known: String,
    },
    /// An option is out of range.
    #[error("{option} is {given}; give {accepted}")]
    Option {
        /// Its name.
        option: &'static str,
        given: String,
        accepted: &'static str,
    },
    /// The tests cannot be computed.
    #[error("the releases cannot be tested: {0}")]
    Test(String),
}

fn no_encoder(encoder: &str, checks: usize, known: &str) -> String {
    match checks {
        0 => format!("no kept check has the encoder `{encoder}`"),
        _ => format!("none of {checks} checks has the encoder `{encoder}`; they have {known}"),
    }
}

impl Default for HistoryOptions {
    fn default() -> Self {
        Self {
            of: HistoryQuantity::Total,
            margin: 1.0,
            alpha: 0.05,
            against_first: false,
            earlier: 0,
            suite: None,
        }
    }
}

/// The history of an encoder over reports in any order. `models:/NAME` is the model of a registry;
/// each check then has a version of it.
///
/// # Errors
/// If an option is out of range, no report has the encoder, or none has the suite.
pub fn history(encoder: &str, reports: &[Report], options: HistoryOptions) -> Result<History, HistoryError> {
    check(&options)?;
    let (comparable_checks, left_out) = comparable::kept(encoder, reports, &options)?;
    let newest = comparable_checks.newest;
    let groups = groups(newest);
    let mut history = History {
        schema: HISTORY_SCHEMA.to_owned(),
        headline: Vec::new(),
        encoder: encoder.to_owned(),
        suite: newest.suite.name.clone(),
        suite_digest: newest.suite.digest.clone(),
        metrics: newest.suite.metrics.clone(),
        reference: comparable_checks.reference.clone(),
        groups: groups.iter().map(|(name, _)| name.clone()).collect(),
        releases: Vec::new(),
        left_out,
        notes: Vec::new(),
        isomer_version: env!("CARGO_PKG_VERSION").to_owned(),
        options,
    };
    let mut look = history.options.earlier;
    for report in &comparable_checks.reports {
        let mut release = release(report, encoder);
        if let Some(reference) = comparable_checks.compared_with(report) {
            look += 1;
            let differences = differences(report, encoder, reference, &groups, history.options.of);
            release.test = Some(test(differences, &history.options, look)?);
        }
        history.releases.push(release);
    }
    distinguish(&mut history.releases);
    history.notes = notes(&history, &comparable_checks);
    history.headline = headline(&history);
    Ok(history)
}

/// Drops the parts of a report that a history does not use, which are most of it, because hundreds
/// of reports are in memory together.
pub fn keep(report: &mut Report) {
    report.headline = Vec::new();
    report.subsets = Vec::new();
    (report.judge, report.separation) = (None, None);
    (report.checks, report.error_rates) = (Vec::new(), Vec::new());
    (report.drift, report.truncation) = (Vec::new(), Vec::new());
    (report.examples, report.tables) = (Vec::new(), Vec::new());
    (report.notes, report.not_computed) = (Vec::new(), Vec::new());
}

/// All files, with name and content.
///
/// # Errors
/// If a format cannot be rendered, which is an internal error; the message gives the reason.
pub fn files(history: &History) -> Result<Vec<(&'static str, Vec<u8>)>, String> {
    let mut json = serde_json::to_vec_pretty(history).map_err(|error| format!("history.json: {error}"))?;
    json.push(b'\n');
    Ok(vec![
        ("history.json", json),
        ("history.md", markdown::render(history).into_bytes()),
        ("history.html", html::render(history)?.into_bytes()),
    ])
}

/// JSON Schema (draft 2020-12) of `history.json`; `eval-svc/schema/history-1.json` is a copy of it.
pub fn json_schema() -> serde_json::Value {
    crate::schema::of::<History>("Isomer history of an encoder", "urn:isomer:history:1", HISTORY_SCHEMA)
}

fn check(options: &HistoryOptions) -> Result<(), HistoryError> {
    let refused = |option, given: f64, accepted| {
        Err(HistoryError::Option {
            option,
            given: given.to_string(),
            accepted,
        })
    };
    if !(options.margin >= 0.0 && options.margin <= 100.0) {
        return refused("margin", options.margin, "0 to 100 points");
    }
    if !(options.alpha > 0.0 && options.alpha < 0.5) {
        return refused("alpha", options.alpha, "a chance between 0 and 0.5, both exclusive");
    }
    Ok(())
}

/// The groups of data sets with their members.
fn groups(report: &Report) -> Vec<(String, Vec<String>)> {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for own in &report.datasets {
        let name = if own.group.is_empty() { &own.name } else { &own.group };
        match groups.iter_mut().find(|(known, _)| known == name) {
            Some((_, members)) => members.push(own.name.clone()),
            None => groups.push((name.clone(), vec![own.name.clone()])),
        }
    }
    groups
}

fn profile<'a>(report: &'a Report, encoder: &str) -> Option<&'a EncoderProfile> {
    let id = &comparable::info(report, encoder)?.id;
    report.profile.encoders.iter().find(|one| one.encoder == *id)
}

/// The score of a group of data sets.
fn score(report: &Report, encoder: &str, members: &[String], of: HistoryQuantity) -> Option<f64> {
    let profile = profile(report, encoder)?;
    let own = members.iter().map(|name| {
        let own = profile.datasets.iter().find(|one| one.dataset == *name)?;
        match of {
            HistoryQuantity::Original => Some(own.original),
            HistoryQuantity::Total => own.total.as_ref().map(|total| total.mean),
        }
    });
    let own: Option<Vec<f64>> = own.collect();
    crate::stats::mean(&own?)
}

/// Release minus reference, for each group.
fn differences(
    report: &Report,
    encoder: &str,
    (reference, of_reference): (&Report, &str),
    groups: &[(String, Vec<String>)],
    of: HistoryQuantity,
) -> Result<Vec<f64>, String> {
    groups
        .iter()
        .map(|(name, members)| {
            let found = score(report, encoder, members, of).zip(score(reference, of_reference, members, of));
            let found = found
                .map(|(own, other)| own - other)
                .filter(|difference| difference.is_finite());
            found.ok_or_else(|| match of {
                HistoryQuantity::Total => format!("{name} has no score of transformed texts"),
                HistoryQuantity::Original => format!("{name} has no score"),
            })
        })
        .collect()
}

fn test(
    differences: Result<Vec<f64>, String>,
    options: &HistoryOptions,
    look: u64,
) -> Result<ReleaseTest, HistoryError> {
    let failed = |error: crate::stats::StatsError| HistoryError::Test(error.to_string());
    let alpha = release_alpha(options.alpha, look).map_err(failed)?;
    let mut test = ReleaseTest {
        look,
        alpha,
        verdict: GateVerdict::Undecided,
        shift: f64::NAN,
        p_value: None,
        p_inferior: None,
        fewest_groups: fewest_datasets(alpha),
        note: None,
    };
    let differences = match differences {
        Ok(differences) => differences,
        Err(why) => {
            (test.verdict, test.note, test.shift) = (GateVerdict::Invalid, Some(why), 0.0);
            return Ok(test);
        }
    };
    let (_, found) = release_test(differences, options.margin, options.alpha, look).map_err(failed)?;
    test.verdict = found.verdict.into();
    (test.shift, test.p_value, test.p_inferior) = (found.shift, found.p_value, found.p_inferior);
    test.note = found.note;
    Ok(test)
}

fn release(report: &Report, encoder: &str) -> Release {
    let info = comparable::info(report, encoder);
    let of = |field: fn(&crate::EncoderInfo) -> &String| info.map(field).cloned().unwrap_or_default();
    let profile = profile(report, encoder);
    let total = profile.and_then(|profile| profile.total.as_ref());
    let verdicts = report.gate.iter().flat_map(|gate| &gate.encoders);
    Release {
        name: info.map_or_else(String::new, release_name),
        run: report.run.id.clone(),
        finished: report.run.finished,
        isomer_version: report.isomer_version.clone(),
        revision: of(|info| &info.revision),
        weights_digest: of(|info| &info.weights_digest),
        vector_space: of(|info| &info.vector_space),
        original: profile.map_or(f64::NAN, |profile| profile.original),
        transformed: total.map(|total| total.mean),
        delta: total.map(|total| total.delta),
        delta_interval: total.and_then(|total| total.intervals.items.clone()),
        gate: verdicts
            .filter(|own| info.is_some_and(|info| info.id == own.encoder))
            .map(|own| own.verdict)
            .next(),
        test: None,
    }
}

/// A short name of a release.
fn release_name(info: &crate::EncoderInfo) -> String {
    let version = info
        .id
        .strip_prefix("models:/")
        .and_then(|model| model.rsplit_once('/'));
    let short = |digest: &str| digest.chars().take(8).collect::<String>();
    match version {
        Some((_, version)) => format!("version {version}"),
        None if is_commit(&info.revision) => short(&info.revision),
        // A branch, such as `main`, names many releases.
        None => short(&info.weights_digest),
    }
}

/// Adds the first digits of the vector space to names that several releases have.
fn distinguish(releases: &mut [Release]) {
    let names: Vec<String> = releases.iter().map(|one| one.name.clone()).collect();
    for one in releases {
        if names.iter().filter(|name| **name == one.name).count() > 1 {
            let space: String = one.vector_space.chars().take(4).collect();
            one.name.push_str(&format!(" {space}"));
        }
    }
}

fn is_commit(revision: &str) -> bool {
    revision.len() == 40 && revision.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Notes for the reader.
fn notes(history: &History, comparable_checks: &ComparableChecks<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    let looks = history.releases.iter().filter_map(|release| release.test.as_ref());
    if history.options.earlier == 0 && looks.clone().next().is_some() {
        notes.push(
            "looks are counted over these checks alone: for earlier ones that are no longer kept, say how many with --earlier"
                .to_owned(),
        );
    }
    if history.releases.iter().any(|release| release.weights_digest.is_empty()) {
        notes.push("the encoder does not state its weights, so that each check counts as a release".to_owned());
    }
    let mut versions: Vec<&str> = history
        .releases
        .iter()
        .map(|release| release.isomer_version.as_str())
        .collect();
    versions.sort_unstable();
    versions.dedup();
    if versions.len() > 1 {
        notes.push(format!(
            "the checks were made by Isomer {}, with the same metric profile",
            versions.join(", ")
        ));
    }
    let short = looks
        .clone()
        .filter(|test| test.fewest_groups as usize > history.groups.len());
    if let Some(first) = short.map(|test| (test.look, test.fewest_groups)).next() {
        notes.push(format!(
            "{} groups of data sets are too few to pass a release from look {} on, which takes {}",
            history.groups.len(),
            first.0,
            first.1
        ));
    }
    if !comparable_checks.reference.baseline && history.releases.len() > 1 {
        notes.push("releases are compared with the first of them".to_owned());
    }
    notes
}

fn headline(history: &History) -> Vec<String> {
    let mut sentences = Vec::new();
    if let Some(last) = history.releases.last() {
        let transformed = last
            .transformed
            .map_or_else(String::new, |own| format!(", {} on transformed ones", points(own)));
        let releases = match history.releases.len() {
            1 => "1 release".to_owned(),
            n => format!("{n} releases"),
        };
        sentences.push(format!(
            "{releases}; the last scores {} on the original texts{transformed}.",
            points(last.original)
        ));
    }
    let tested = history
        .releases
        .iter()
        .filter_map(|release| Some((release, release.test.as_ref()?)));
    if let Some((last, test)) = tested.clone().next_back() {
        let verdict = match test.verdict {
            GateVerdict::Pass => format!("is not worse by {} points", history.options.margin),
            GateVerdict::Fail => format!("is worse by {} points or more", history.options.margin),
            GateVerdict::Invalid => "cannot be tested".to_owned(),
            GateVerdict::Undecided => format!("is not shown to be within {} points", history.options.margin),
        };
        sentences.push(format!(
            "The last release (run {}) {verdict}: shift {} against {}, p {} at {:.2e} for look {}.",
            last.run,
            signed(test.shift),
            history.reference.encoder,
            test.p_value.map_or_else(|| "–".to_owned(), p_value),
            test.alpha,
            test.look
        ));
    }
    let failed: Vec<&str> = tested
        .filter(|(_, test)| test.verdict == GateVerdict::Fail)
        .map(|(release, _)| release.run.as_str())
        .collect();
    if !failed.is_empty() {
        sentences.push(format!("Worse by the margin or more: {}.", failed.join(", ")));
    }
    match history.left_out.len() {
        0 => {}
        1 => sentences.push("1 check is left out; see why below.".to_owned()),
        n => sentences.push(format!("{n} checks are left out; see why below.")),
    }
    sentences
}
