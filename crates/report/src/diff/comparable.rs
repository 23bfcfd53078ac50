//! The common parts of two runs: only scores of the same texts are compared.

use std::collections::HashMap;

use super::DiffError;
use crate::{DatasetInfo, Report, ScoreRow, items::ScoreKey};

#[derive(Debug)]
pub(crate) struct SharedParts {
    /// Names of the data sets.
    pub datasets: Vec<String>,
    /// Labels of the transformations.
    pub transformations: Vec<String>,
    pub seeds: Vec<u64>,
    /// The differences between the runs, in sentences.
    pub differences: Vec<String>,
    /// Transformations whose rewrites differ, if they are compared all the same.
    pub other_rewrites: Vec<String>,
}

/// The scores of an encoder by their place.
pub(crate) type Rows<'a> = HashMap<ScoreKey<'a>, &'a ScoreRow>;

/// The scores of an encoder.
pub(crate) fn rows<'a>(report: &'a Report, encoder: &str) -> Rows<'a> {
    let own = report.scores.iter().filter(|row| row.encoder == encoder);
    own.map(|row| ((row.dataset.as_str(), row.transformation.as_deref(), row.seed), row))
        .collect()
}

/// Finds the common parts of two runs. With `shared`, the rest is dropped; otherwise any difference
/// is an error. `other_rewrites` says whether rewrites of the same texts may differ; `None` if the
/// caller cannot choose.
pub(crate) fn shared(
    old: &Report,
    new: &Report,
    rows: &[Rows<'_>; 2],
    shared: bool,
    other_rewrites: Option<bool>,
) -> Result<SharedParts, DiffError> {
    if old.suite.metrics != new.suite.metrics {
        return Err(DiffError::Metrics {
            old: old.suite.metrics.clone(),
            new: new.suite.metrics.clone(),
        });
    }
    let mut differences = Vec::new();
    let both = |seed: &&u64| new.suite.seeds.contains(seed);
    let seeds: Vec<u64> = old.suite.seeds.iter().filter(both).copied().collect();
    if old.suite.seeds != new.suite.seeds {
        let list = |seeds: &[u64]| seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        differences.push(format!(
            "seeds: OLD has {}, NEW has {}",
            list(&old.suite.seeds),
            list(&new.suite.seeds)
        ));
    }
    let texts = |rows: &Rows<'_>, key: ScoreKey<'_>| rows.get(&key).map(|row| row.texts_digest.clone());
    let mut datasets = Vec::new();
    for own in &old.datasets {
        let theirs = new.datasets.iter().find(|other| other.name == own.name);
        let difference = match theirs {
            None => Some("only OLD has it".to_owned()),
            Some(theirs) => unlike(own, theirs).or_else(|| {
                let key = (own.name.as_str(), None, None);
                let (first, second) = (texts(&rows[0], key), texts(&rows[1], key));
                (first.is_none() || first != second).then(|| "its texts differ".to_owned())
            }),
        };
        match difference {
            Some(difference) => differences.push(format!("data set {}: {difference}", own.name)),
            None => datasets.push(own.name.clone()),
        }
    }
    let known = |report: &Report, name: &str| report.datasets.iter().any(|one| one.name == name);
    let added = new.datasets.iter().filter(|one| !known(old, &one.name));
    differences.extend(added.map(|one| format!("data set {}: only NEW has it", one.name)));

    let labels = |report: &Report| -> Vec<String> {
        report
            .suite
            .transformations
            .iter()
            .map(|one| one.label.clone())
            .collect()
    };
    let (old_labels, new_labels) = (labels(old), labels(new));
    let (mut transformations, mut rewritten) = (Vec::new(), Vec::new());
    for label in &old_labels {
        if !new_labels.contains(label) {
            differences.push(format!("transformation {label}: only OLD has it"));
            continue;
        }
        let places = datasets.iter().flat_map(|name| {
            seeds
                .iter()
                .map(move |seed| (name.as_str(), Some(label.as_str()), Some(*seed)))
        });
        let (mut missing, mut differ) = (Vec::new(), Vec::new());
        for key @ (name, _, seed) in places {
            let shown = format!("{name} (seed {})", seed.unwrap_or_default());
            match (texts(&rows[0], key), texts(&rows[1], key)) {
                (Some(first), Some(second)) if first == second => {}
                (Some(_), Some(_)) => differ.push(shown),
                _ => missing.push(shown),
            }
        }
        let may_differ = missing.is_empty() && other_rewrites == Some(true);
        if may_differ && !differ.is_empty() {
            rewritten.push(format!("{label} on {}", differ.join(", ")));
        }
        if missing.is_empty() && (differ.is_empty() || may_differ) {
            transformations.push(label.clone());
            continue;
        }
        let hint = match (missing.as_slice(), other_rewrites) {
            ([], Some(false)) => " (--other-rewrites compares them)",
            _ => "",
        };
        differ.extend(missing);
        differences.push(format!(
            "transformation {label}: its texts differ on {}{hint}",
            differ.join(", ")
        ));
    }
    let added = new_labels.iter().filter(|label| !old_labels.contains(label));
    differences.extend(added.map(|label| format!("transformation {label}: only NEW has it")));
    if seeds.is_empty() {
        transformations.clear();
    }
    if datasets.is_empty() {
        return Err(DiffError::Nothing { differences });
    }
    if !differences.is_empty() && !shared {
        let transformations = match transformations.as_slice() {
            [] => "the original texts alone".to_owned(),
            all => format!("the original texts and {}", all.join(", ")),
        };
        return Err(DiffError::Differ {
            differences,
            remains: format!("{} on {}", transformations, datasets.join(", ")),
        });
    }
    Ok(SharedParts {
        datasets,
        transformations,
        seeds,
        differences,
        other_rewrites: rewritten,
    })
}

/// The difference between two data sets of the same name.
fn unlike(own: &DatasetInfo, theirs: &DatasetInfo) -> Option<String> {
    let apart = |what: &str, own: &str, theirs: &str| {
        (own != theirs).then(|| format!("its {what} differs: OLD has {own}, NEW has {theirs}"))
    };
    apart("task", own.task.name(), theirs.task.name())
        .or_else(|| apart("main score", &own.main_score, &theirs.main_score))
        .or_else(|| apart("content", &short(&own.digest), &short(&theirs.digest)))
        .or_else(|| (own.digest != theirs.digest).then(|| "its content differs".to_owned()))
}

fn short(digest: &str) -> String {
    digest.chars().take(12).collect()
}
