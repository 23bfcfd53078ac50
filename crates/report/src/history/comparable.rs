//! Selects the checks of an encoder that are compared with each other.

use std::collections::{BTreeMap, BTreeSet};

use super::{HistoryError, HistoryOptions, HistoryReference, LeftOutRun};
use crate::{EncoderInfo, Report, items::ScoreKey};

/// The checks that are compared.
pub(super) struct ComparableChecks<'a> {
    /// The reports, earliest first.
    pub(super) reports: Vec<&'a Report>,
    /// The check that determines comparability of the others.
    pub(super) newest: &'a Report,
    pub(super) reference: HistoryReference,
}

impl<'a> ComparableChecks<'a> {
    /// The reference of a release: a report and an encoder in it. `None` for the first release, if
    /// it is itself the reference of the others.
    pub(super) fn compared_with(&self, report: &'a Report) -> Option<(&'a Report, &str)> {
        if self.reference.baseline {
            return Some((report, &self.reference.encoder));
        }
        let first = *self.reports.first()?;
        (first.run.id != report.run.id).then_some((first, self.reference.encoder.as_str()))
    }
}

/// Chooses the checks.
///
/// # Errors
/// If no check has the encoder, or none has the suite.
pub(super) fn kept<'a>(
    encoder: &str,
    reports: &'a [Report],
    options: &HistoryOptions,
) -> Result<(ComparableChecks<'a>, Vec<LeftOutRun>), HistoryError> {
    let mut seen = BTreeSet::new();
    let mut own: Vec<&Report> = reports
        .iter()
        .filter(|report| info(report, encoder).is_some() && seen.insert(report.run.id.as_str()))
        .collect();
    own.sort_by(|a, b| (a.run.finished, &a.run.id).cmp(&(b.run.finished, &b.run.id)));
    if own.is_empty() {
        let ids = reports
            .iter()
            .flat_map(|report| &report.encoders)
            .map(|one| one.id.as_str());
        let known: BTreeSet<&str> = ids.collect();
        return Err(HistoryError::NoEncoder {
            encoder: encoder.to_owned(),
            checks: reports.len(),
            known: known.into_iter().collect::<Vec<_>>().join(", "),
        });
    }
    let asked = options.suite.as_deref().unwrap_or_default();
    let Some(newest) = own
        .iter()
        .rev()
        .copied()
        .find(|report| report.suite.digest.starts_with(asked))
    else {
        let known: BTreeSet<&str> = own.iter().map(|report| report.suite.digest.as_str()).collect();
        return Err(HistoryError::NoSuite {
            encoder: encoder.to_owned(),
            suite: asked.to_owned(),
            known: known.into_iter().collect::<Vec<_>>().join(", "),
        });
    };
    let mut left_out = Vec::new();
    let mut chosen: Vec<&Report> = Vec::new();
    for report in own {
        let why = unlike(report, newest, encoder, options).or_else(|| {
            let same = |earlier: &&&Report| release(earlier, encoder) == release(report, encoder);
            let stated = !release(report, encoder).weights.is_empty();
            chosen.iter().find(same).filter(|_| stated).map(|earlier| {
                format!(
                    "it checks the release of run {} again, which counts once",
                    earlier.run.id
                )
            })
        });
        match why {
            Some(why) => left_out.push(LeftOutRun {
                run: report.run.id.clone(),
                why,
            }),
            None => chosen.push(report),
        }
    }
    let baseline = baseline(newest, encoder).filter(|_| !options.against_first);
    let first = chosen.first().and_then(|report| info(report, encoder));
    let of = baseline.or(first);
    let reference = HistoryReference {
        encoder: of.map(|info| info.id.clone()).unwrap_or_default(),
        weights_digest: of.map(|info| info.weights_digest.clone()).unwrap_or_default(),
        baseline: baseline.is_some(),
    };
    Ok((
        ComparableChecks {
            reports: chosen,
            newest,
            reference,
        },
        left_out,
    ))
}

/// The encoder in a check. A model of a registry (`models:/NAME`) is found by its version
/// (`models:/NAME/3`), if the check has only one version that is not the baseline.
pub(super) fn info<'a>(report: &'a Report, encoder: &str) -> Option<&'a EncoderInfo> {
    if let Some(own) = report.encoders.iter().find(|one| one.id == encoder) {
        return Some(own);
    }
    let versions: Vec<&EncoderInfo> = report
        .encoders
        .iter()
        .filter(|one| is_version(&one.id, encoder))
        .collect();
    let checked: Vec<&EncoderInfo> = versions.iter().copied().filter(|one| !one.baseline).collect();
    match (checked.as_slice(), versions.as_slice()) {
        ([own], _) | ([], [own]) => Some(own),
        _ => None,
    }
}

/// Whether an id is a version of a model of a registry.
fn is_version(id: &str, model: &str) -> bool {
    let number = id.strip_prefix(model).and_then(|rest| rest.strip_prefix('/'));
    model.starts_with("models:/")
        && number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The baseline of a check, if it is another encoder.
fn baseline<'a>(report: &'a Report, encoder: &str) -> Option<&'a EncoderInfo> {
    let own = info(report, encoder)?;
    report.encoders.iter().find(|one| one.baseline && one.id != own.id)
}

/// The properties that distinguish releases.
#[derive(PartialEq)]
struct Identity<'a> {
    weights: &'a str,
    space: &'a str,
    prompts: Vec<&'a crate::PromptUse>,
}

fn release<'a>(report: &'a Report, encoder: &str) -> Identity<'a> {
    let info = info(report, encoder);
    Identity {
        weights: info.map_or("", |info| &info.weights_digest),
        space: info.map_or("", |info| &info.vector_space),
        prompts: info.map(|info| info.prompts.iter().collect()).unwrap_or_default(),
    }
}

/// The reason why a check is not compared with the newest.
fn unlike(report: &Report, newest: &Report, encoder: &str, options: &HistoryOptions) -> Option<String> {
    let short = |digest: &str| digest.chars().take(12).collect::<String>();
    if report.suite.digest != newest.suite.digest {
        return Some(format!(
            "it has another suite: {} ({}), not {} ({})",
            report.suite.name,
            short(&report.suite.digest),
            newest.suite.name,
            short(&newest.suite.digest)
        ));
    }
    if report.suite.metrics != newest.suite.metrics {
        return Some(format!(
            "it has another metric profile: {}, not {}",
            report.suite.metrics, newest.suite.metrics
        ));
    }
    if !options.against_first {
        let named = |own: Option<&EncoderInfo>| match own {
            None => "no baseline".to_owned(),
            Some(own) => format!("the baseline {} ({})", own.id, short(&own.weights_digest)),
        };
        let (own, other) = (baseline(report, encoder), baseline(newest, encoder));
        let of = |own: Option<&EncoderInfo>| {
            own.map(|own| (own.id.clone(), own.weights_digest.clone(), own.vector_space.clone()))
        };
        if of(own) != of(other) {
            return Some(format!("it has {}, not {}", named(own), named(other)));
        }
    }
    for own in &report.datasets {
        let other = newest.datasets.iter().find(|other| other.name == own.name);
        if other.is_none_or(|other| other.digest != own.digest || other.main_score != own.main_score) {
            return Some(format!("its data set {} has other content", own.name));
        }
    }
    let (own, other) = (texts(report, encoder), texts(newest, encoder));
    if own.len() != other.len() {
        return Some("it has scores of other texts".to_owned());
    }
    let differs = own.iter().find(|(place, digest)| other.get(*place) != Some(*digest));
    differs.map(|((dataset, transformation, seed), _)| match (transformation, seed) {
        (Some(label), Some(seed)) => format!("its texts differ: {label} of {dataset} (seed {seed})"),
        _ => format!("its texts differ: the originals of {dataset}"),
    })
}

/// The digest of the texts of every score.
fn texts<'a>(report: &'a Report, encoder: &str) -> BTreeMap<ScoreKey<'a>, &'a str> {
    let id = info(report, encoder).map(|info| info.id.as_str());
    let own = report.scores.iter().filter(|row| Some(row.encoder.as_str()) == id);
    own.map(|row| {
        let place = (row.dataset.as_str(), row.transformation.as_deref(), row.seed);
        (place, row.texts_digest.as_str())
    })
    .collect()
}
