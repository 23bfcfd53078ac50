//! Hugging Face: entries of `.eval_results/*.yaml`, which a model's page and the leaderboards of
//! data sets show.
//!
//! Each entry is a score on the unchanged texts of a data set, at the commit for which its task is
//! defined. A score on transformed texts is another task, which no leaderboard has: it is mentioned
//! only in the notes.

use isomer_datasets::catalogue;
use serde::Serialize;

use super::intervals;
use crate::{DatasetInfo, Report, profile::DatasetProfile};

/// The entries of an encoder, and the data sets without an entry.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EvalResults {
    /// The entries: the content of the file.
    pub entries: Vec<Entry>,
    /// Data sets without an entry, with the reason.
    #[serde(skip)]
    pub left_out: Vec<(String, String)>,
}

/// A score, with the hub's field names.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    /// The data set.
    pub dataset: Benchmark,
    /// The score x 100, as mteb writes it.
    pub value: f64,
    /// The time when the check ended.
    pub date: String,
    /// The location of the report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<ReportLink>,
    /// The scored texts, and the scores under transformations.
    pub notes: String,
}

/// A data set of the hub.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Benchmark {
    /// `org/name`.
    pub id: String,
    /// The task, as mteb defines it in a data set's `eval.yaml`: task, subset and split.
    pub task_id: String,
    pub revision: String,
}

/// The location of a report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReportLink {
    pub url: String,
    /// Its display name.
    pub name: &'static str,
}

/// The entries of an encoder; `None` if the report has no such encoder. `url` is where the report
/// can be read.
pub fn eval_results(report: &Report, encoder: &str, url: Option<&str>) -> Option<EvalResults> {
    let profile = report.profile.encoders.iter().find(|one| one.encoder == encoder)?;
    let mut results = EvalResults {
        entries: Vec::new(),
        left_out: Vec::new(),
    };
    for measured in &profile.datasets {
        let name = &measured.dataset;
        let info = report.datasets.iter().find(|one| one.name == *name);
        match info.map_or(Err("the report does not describe it".to_owned()), |info| {
            benchmark(report, info)
        }) {
            Ok(dataset) => results.entries.push(Entry {
                dataset,
                // The same number of digits as mteb writes.
                value: (measured.original * 1e5).round() / 1e5,
                date: report.run.finished.to_string(),
                source: url.map(|url| ReportLink {
                    url: url.to_owned(),
                    name: "Isomer report",
                }),
                notes: notes(report, info, measured),
            }),
            Err(why) => results.left_out.push((name.clone(), why)),
        }
    }
    Some(results)
}

/// The task on the hub that a data set's score belongs to; or the reason why there is none.
fn benchmark(report: &Report, info: &DatasetInfo) -> Result<Benchmark, String> {
    let plain = info.name.split(" (").next().unwrap_or_default();
    let entry = [info.name.as_str(), plain, info.group.as_str()]
        .into_iter()
        .find_map(catalogue::find)
        .ok_or("it is not a task of mteb with a data set on the hub")?;
    let hub = entry.hub();
    let pinned = hub.revision.unwrap_or_default();
    if !report.suite.metrics.starts_with("mteb-v2") {
        return Err(format!(
            "its metrics are `{}`, not mteb's (mteb-v2)",
            report.suite.metrics
        ));
    }
    if let Some(sample) = &info.sample {
        return Err(format!("it is {sample}, not the data set"));
    }
    match &info.revision {
        None => {
            return Err(
                "its files came from this machine, so the commit is not known; have it fetched from the hub".to_owned(),
            );
        }
        Some(commit) if *commit != pinned => {
            return Err(format!("it is the commit {commit}, and the task's is {pinned}"));
        }
        Some(_) => {}
    }
    if info.split != entry.split || info.main_score != entry.metric {
        return Err(format!(
            "the split is `{}` and the score `{}`, and the task has `{}` and `{}`",
            info.split, info.main_score, entry.split, entry.metric
        ));
    }
    let subset = match info.language.as_deref() {
        _ if entry.subsets.is_empty() && info.name.eq_ignore_ascii_case(&entry.name) => "default",
        Some(subset) if entry.subsets.iter().any(|known| known == subset) => subset,
        other => {
            return Err(format!(
                "`{}` is not a subset of the task {}",
                other.unwrap_or_default(),
                entry.name
            ));
        }
    };
    Ok(Benchmark {
        id: hub.repo,
        task_id: format!("{}_{subset}_{}", entry.name, entry.split),
        revision: pinned,
    })
}

fn notes(report: &Report, info: Option<&DatasetInfo>, measured: &DatasetProfile) -> String {
    let mut text = format!(
        "{} x 100 on the texts as they are; {}; Isomer {}.",
        info.map_or("main score", |info| info.main_score.as_str()),
        report.suite.metrics,
        report.isomer_version
    );
    if let Some(total) = &measured.total {
        let items = intervals(total).find(|(_, drawn)| *drawn == "items");
        let items = items.map_or(String::new(), |(one, _)| {
            format!(
                " ({:.0} % interval over items {:.1} to {:.1})",
                one.level * 100.0,
                one.low,
                one.high
            )
        });
        text.push_str(&format!(
            " Transformed texts, suite {}: {:.1}, change {:+.1}{items}.",
            report.suite.name, total.mean, total.delta
        ));
    }
    text
}
