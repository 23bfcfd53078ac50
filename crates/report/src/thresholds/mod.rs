//! `isomer thresholds`: a threshold of an encoder's scores, its rates under transformation, and the
//! mapping of an earlier encoder's threshold.
//!
//! A threshold is chosen on the original texts of pair classification (cosine), of graded pairs
//! with a stated cut (cosine), or of retrieval (similarity of the first k documents). Data sets
//! with different prompts are never pooled, and the file names the vector space, so that a service
//! can refuse scores of another one.
//!
//! * `decisions`: accepted or not. `measure`: a threshold and its rates. `map`: isotonic regression
//!   from an earlier encoder's scores.
//! * `headline`, `markdown`: the output formats.

mod decisions;
mod headline;
mod map;
mod markdown;
mod measure;
mod model;

pub use model::{
    DecisionCounts, Knot, MapError, MappedThreshold, Rate, Rates, Restored, ScoreInterval, ScoreKind, ScoreMap,
    ScoredEncoder, SetPrompt, THRESHOLDS_SCHEMA, TargetMet, ThresholdLanguage, ThresholdOptions, ThresholdRow,
    ThresholdSet, ThresholdTarget, Thresholds, TransformationMapError, WithoutThreshold,
};

pub(crate) use headline::target;

use self::decisions::{DatasetDecisions, Run, of_dataset};
use crate::{
    EncoderInfo,
    diff::{DiffError, Side, comparable, side_fits},
    task::{LIST_DEPTH, TaskType},
};

/// The reason why thresholds are missing.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ThresholdError {
    /// The runs lack required data.
    #[error(transparent)]
    Runs(#[from] DiffError),
    /// A service could not determine whether scores belong to this encoder.
    #[error(
        "{side}: the report names no vector space of `{encoder}`, so a threshold would not say which scores it is for; \
         check an encoder that states its vector space"
    )]
    NoSpace {
        /// RUN or OLD.
        side: &'static str,
        encoder: String,
    },
    /// The run does not have the data set.
    #[error("the run has no data set `{name}`; it has {known}")]
    NoDataset {
        /// The requested data set.
        name: String,
        /// The known data sets.
        known: String,
    },
    /// No data set has a threshold.
    #[error("no data set of the run has a threshold:\n  {}", omissions(without))]
    Nothing {
        /// The reasons.
        without: Vec<WithoutThreshold>,
    },
}

fn omissions(without: &[WithoutThreshold]) -> String {
    let all: Vec<String> = without.iter().map(|one| format!("{}: {}", one.name, one.why)).collect();
    all.join("\n  ")
}

impl Default for ThresholdOptions {
    fn default() -> Self {
        Self {
            target: ThresholdTarget::Precision { at: 0.95 },
            k: 10,
            sts_cut: None,
            datasets: Vec::new(),
            shared: false,
        }
    }
}

/// Chooses thresholds of an encoder, with maps from the scores of `old`, if there is one.
///
/// # Errors
/// If an encoder is not in its run, the items do not belong to the report, an option is out of
/// range, a vector space is unknown, no data set has a threshold, or the two runs do not have the
/// same items.
pub fn thresholds(
    new: Side<'_>,
    old: Option<Side<'_>>,
    options: ThresholdOptions,
) -> Result<Thresholds, ThresholdError> {
    check(&options)?;
    side_fits("RUN", new)?;
    for name in &options.datasets {
        if !new.report.datasets.iter().any(|one| one.name == *name) {
            let known: Vec<&str> = new.report.datasets.iter().map(|one| one.name.as_str()).collect();
            return Err(ThresholdError::NoDataset {
                name: name.clone(),
                known: known.join(", "),
            });
        }
    }
    let encoder = scored("RUN", new)?;
    let run = run_of(new);
    let (mut without, mut found) = (Vec::new(), Vec::new());
    for info in new.report.datasets.iter().filter(|info| chosen(&options, &info.name)) {
        match of_dataset(run, info, &options) {
            Ok(own) => found.push(own),
            Err(why) => without.push(WithoutThreshold {
                name: info.name.clone(),
                why,
            }),
        }
    }
    let mut sets = Vec::new();
    let alone = found.iter().map(|own| Ok((own.info.name.as_str(), vec![own])));
    for group in alone.chain(pooled(&found)) {
        let set = group.and_then(|(name, datasets)| {
            measure::set(name, datasets, &options).map_err(|why| WithoutThreshold {
                name: name.to_owned(),
                why,
            })
        });
        match set {
            Ok(set) => sets.push(set),
            Err(missing) => without.push(missing),
        }
    }
    if sets.is_empty() {
        return Err(ThresholdError::Nothing { without });
    }
    let mut all = Thresholds {
        schema: THRESHOLDS_SCHEMA.to_owned(),
        headline: Vec::new(),
        encoder,
        options,
        seeds: new.report.suite.seeds.clone(),
        sets,
        without,
        maps: Vec::new(),
        not_mapped: Vec::new(),
        isomer_version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    if let Some(old) = old {
        side_fits("OLD", old)?;
        let from = scored("OLD", old)?;
        let rows = [old, new].map(|side| comparable::rows(side.report, side.encoder));
        let shared = comparable::shared(old.report, new.report, &rows, all.options.shared, None)?;
        let runs = [run_of(old), run];
        (all.maps, all.not_mapped) = map::maps(runs, &shared, &from, &all.options);
        let differences = shared.differences.into_iter().map(|why| WithoutThreshold {
            name: "left out".to_owned(),
            why,
        });
        all.not_mapped.extend(differences);
    }
    all.headline = headline::sentences(&all);
    Ok(all)
}

/// All files, with name and content.
///
/// # Errors
/// If a format cannot be rendered, which is an internal error; the message gives the reason.
pub fn files(thresholds: &Thresholds) -> Result<Vec<(&'static str, Vec<u8>)>, String> {
    let mut json = serde_json::to_vec_pretty(thresholds).map_err(|error| format!("thresholds.json: {error}"))?;
    json.push(b'\n');
    Ok(vec![
        ("thresholds.json", json),
        ("thresholds.md", markdown::render(thresholds).into_bytes()),
    ])
}

/// JSON Schema (draft 2020-12) of `thresholds.json`; `eval-svc/schema/thresholds-1.json` is a copy
/// of it.
pub fn json_schema() -> serde_json::Value {
    crate::schema::of::<Thresholds>(
        "Isomer thresholds of an encoder's scores",
        "urn:isomer:thresholds:1",
        THRESHOLDS_SCHEMA,
    )
}

/// Whether a data set was requested.
fn chosen(options: &ThresholdOptions, name: &str) -> bool {
    options.datasets.is_empty() || options.datasets.iter().any(|one| one == name)
}

/// The data sets that share a threshold, with its name, or the reason why there is none.
type Group<'a> = Result<(&'a str, Vec<&'a DatasetDecisions<'a>>), WithoutThreshold>;

/// The data sets of each kind with several. Graded pairs are excluded, because gold scores have a
/// different meaning in each data set.
fn pooled<'a>(found: &'a [DatasetDecisions<'a>]) -> Vec<Group<'a>> {
    let mut groups = Vec::new();
    for (name, task) in [
        ("all pairs", TaskType::PairClassification),
        ("all searches", TaskType::Retrieval),
    ] {
        let own: Vec<&DatasetDecisions<'_>> = found.iter().filter(|own| own.info.task == task).collect();
        if own.len() < 2 {
            continue;
        }
        if let Some(other) = own.iter().find(|one| one.prompts != own[0].prompts) {
            groups.push(Err(WithoutThreshold {
                name: name.to_owned(),
                why: format!(
                    "{} and {} have other prompts, so that their scores are not on one scale",
                    own[0].info.name, other.info.name
                ),
            }));
            continue;
        }
        groups.push(Ok((name, own)));
    }
    groups
}

fn run_of(side: Side<'_>) -> Run<'_> {
    Run {
        report: side.report,
        items: side.items,
        encoder: side.encoder,
    }
}

fn scored(name: &'static str, side: Side<'_>) -> Result<ScoredEncoder, ThresholdError> {
    let Side { report, encoder, .. } = side;
    let info = report.encoders.iter().find(|one| one.id == encoder);
    let of = |field: fn(&EncoderInfo) -> &String| info.map(field).cloned().unwrap_or_default();
    let own = ScoredEncoder {
        encoder: encoder.to_owned(),
        revision: of(|info| &info.revision),
        weights_digest: of(|info| &info.weights_digest),
        vector_space: of(|info| &info.vector_space),
        run: report.run.id.clone(),
        finished: report.run.finished,
        suite: report.suite.name.clone(),
        suite_digest: report.suite.digest.clone(),
    };
    if own.vector_space.is_empty() {
        return Err(ThresholdError::NoSpace {
            side: name,
            encoder: encoder.to_owned(),
        });
    }
    Ok(own)
}

fn check(options: &ThresholdOptions) -> Result<(), ThresholdError> {
    let refused = |option, given: String, accepted: &str| {
        Err(DiffError::Option {
            option,
            given,
            accepted: accepted.to_owned(),
        })?
    };
    match options.target {
        ThresholdTarget::Precision { at } if !(at > 0.0 && at < 1.0) => {
            return refused(
                "target",
                format!("precision={at}"),
                "a precision between 0 and 1, both exclusive",
            );
        }
        ThresholdTarget::Fpr { at } if !(at > 0.0 && at < 1.0) => {
            return refused("target", format!("fpr={at}"), "a rate between 0 and 1, both exclusive");
        }
        _ => {}
    }
    if !(1..=LIST_DEPTH).contains(&options.k) {
        return refused(
            "k",
            options.k.to_string(),
            &format!("1 to {LIST_DEPTH}, the number of documents kept per query"),
        );
    }
    if options.sts_cut.is_some_and(|cut| !cut.is_finite()) {
        return refused(
            "sts-cut",
            format!("{:?}", options.sts_cut),
            "a gold score of the data set",
        );
    }
    Ok(())
}
