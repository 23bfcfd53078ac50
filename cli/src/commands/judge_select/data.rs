//! The gold pairs of a `--data`.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use isomer_eval::{
    dataset::{self, DatasetError, LoadOptions, Source},
    places::{HubRules, Places, Wanted},
    selection,
    task::TaskType,
};
use isomer_models::Resolver;
use isomer_service_kit::Fault;

use crate::{
    args::{Global, JudgeSelectArgs},
    commands::eval::looks_like_a_path,
    connect,
    exit::Failure,
};

/// A sampled STS dataset.
pub(super) struct StsData {
    pub(super) name: String,
    /// Languages of the first and of the second texts, where the data says them.
    pub(super) sides: Option<(String, String)>,
    /// Pairs of the whole set.
    pub(super) of: usize,
    pub(super) pairs: Vec<GoldPair>,
}

/// A pair with its gold score on the judges' scale.
pub(super) struct GoldPair {
    pub(super) first: String,
    pub(super) second: String,
    pub(super) gold: f64,
}

impl GoldPair {
    /// Mean of the two texts' words.
    pub(super) fn words(&self) -> f64 {
        let count = |text: &str| text.split_whitespace().count() as f64;
        f64::midpoint(count(&self.first), count(&self.second))
    }
}

impl StsData {
    /// Every text once, in order, with its language where the data says it.
    pub(super) fn distinct(&self) -> Vec<(&str, Option<&str>)> {
        let mut known = HashSet::new();
        let first = self.sides.as_ref().map(|(first, _)| first.as_str());
        let second = self.sides.as_ref().map(|(_, second)| second.as_str());
        self.pairs
            .iter()
            .flat_map(|pair| [(pair.first.as_str(), first), (pair.second.as_str(), second)])
            .filter(|(text, _)| known.insert(*text))
            .collect()
    }
}

/// Where data sets with a name are looked for: the gold pairs are read here, whoever judges them.
pub(super) fn places(global: &Global) -> Result<Places, Failure> {
    let config = connect::configuration(global)?;
    let mut eval = config.eval;
    eval.home.clone_from(&config.models.home);
    Ok(Places {
        folders: eval.named_data(),
        hub: Some(Resolver::new(config.models).map_err(Fault::from)?),
        rules: HubRules::owner(),
    })
}

/// Loads and samples what a `--data` names.
pub(super) async fn load(data: &str, args: &JudgeSelectArgs, places: &Places) -> Result<StsData, Failure> {
    let (path, range) = split(data)?;
    let source = if looks_like_a_path(path) || Path::new(path).exists() {
        Source::Path(PathBuf::from(path))
    } else {
        Source::named(path)
    };
    let wanted = Wanted {
        task: Some(TaskType::Sts),
        source,
        split: args.split.clone(),
        options: LoadOptions {
            language: args.language.clone(),
            ..LoadOptions::default()
        },
    };
    let failed = |error: DatasetError| Failure::dependency(format!("--data: {error}"));
    let located = places.locate(wanted).await.map_err(failed)?;
    let loaded = dataset::load(located.task, &located.source, &located.options).map_err(failed)?;
    let gold = loaded.gold().unwrap_or_default();
    let limit = args.limit.map(|limit| limit as usize);
    let mut pairs = Vec::new();
    for row in selection::sample(gold.len(), limit, args.seed, loaded.name()) {
        let texts = loaded.texts();
        let (Some(first), Some(second), Some(&score)) = (texts.get(2 * row), texts.get(2 * row + 1), gold.get(row))
        else {
            continue;
        };
        let gold = selection::rescale(score, range).ok_or_else(|| {
            Failure::dependency(format!(
                "--data: {path}: the gold score {score} of row {} lies outside {} to {}; say the range, e.g. {path}@1:5",
                row + 1,
                range.0,
                range.1
            ))
        })?;
        pairs.push(GoldPair {
            first: first.text.clone(),
            second: second.text.clone(),
            gold,
        });
    }
    Ok(StsData {
        name: loaded.name().to_owned(),
        sides: loaded
            .sides()
            .map(|(first, second)| (first.to_owned(), second.to_owned())),
        of: gold.len(),
        pairs,
    })
}

/// `PATH` or `PATH@LOW:HIGH`.
fn split(data: &str) -> Result<(&str, (f64, f64)), Failure> {
    let Some((path, range)) = data.rsplit_once('@').filter(|(_, range)| range.contains(':')) else {
        return Ok((data, selection::SCALE));
    };
    let read = range.split_once(':').and_then(|(low, high)| {
        let (low, high): (f64, f64) = (low.parse().ok()?, high.parse().ok()?);
        (low < high && low.is_finite() && high.is_finite()).then_some((low, high))
    });
    match read {
        Some(range) => Ok((path, range)),
        None => Err(Failure::usage(format!(
            "--data: `{range}` is no range of scores; write e.g. {path}@1:5"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_of_the_gold_scores_goes_with_the_path() {
        assert!(matches!(split("a/b"), Ok(("a/b", (low, high))) if low == 0.0 && high == 5.0));
        assert!(matches!(split("a@b/c@1:4"), Ok(("a@b/c", (low, high))) if low == 1.0 && high == 4.0));
        assert!(matches!(split("a@b/c"), Ok(("a@b/c", _))));
        assert!(split("a@4:1").is_err());
        assert!(split("a@x:1").is_err());
    }
}
