//! The gold pairs that judges are compared with.

use std::collections::HashSet;

use super::{SCALE, rescale, sample};
use crate::dataset::Dataset;

/// A sampled STS dataset.
#[derive(Debug, Clone, PartialEq)]
pub struct GoldSet {
    pub name: String,
    /// Languages of the first and of the second texts, if the data names them.
    pub sides: Option<(String, String)>,
    /// Pairs of the whole set.
    pub of: usize,
    /// The pairs that were drawn.
    pub pairs: Vec<GoldPair>,
}

/// A pair with its gold score on the judges' scale.
#[derive(Debug, Clone, PartialEq)]
pub struct GoldPair {
    /// The first text.
    pub first: String,
    /// The second text.
    pub second: String,
    /// The score, on [`SCALE`].
    pub gold: f64,
}

/// A gold score outside the given range.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("the gold score {score} of row {row} lies outside {} to {}", range.0, range.1)]
pub struct GoldError {
    pub score: f64,
    /// Its row, from 1.
    pub row: usize,
    pub range: (f64, f64),
}

impl GoldPair {
    /// Mean number of words of the two texts.
    pub fn words(&self) -> f64 {
        let count = |text: &str| text.split_whitespace().count() as f64;
        f64::midpoint(count(&self.first), count(&self.second))
    }
}

impl GoldSet {
    /// Draws at most `limit` pairs of a dataset and maps their scores from `range` to [`SCALE`].
    ///
    /// # Errors
    /// A score outside the range.
    pub fn of(dataset: &Dataset, range: (f64, f64), limit: Option<usize>, seed: u64) -> Result<Self, GoldError> {
        let (gold, texts) = (dataset.gold().unwrap_or_default(), dataset.texts());
        let mut pairs = Vec::new();
        for row in sample(gold.len(), limit, seed, dataset.name()) {
            let (Some(first), Some(second), Some(&score)) = (texts.get(2 * row), texts.get(2 * row + 1), gold.get(row))
            else {
                continue;
            };
            let row = row + 1;
            pairs.push(GoldPair {
                first: first.text.to_string(),
                second: second.text.to_string(),
                gold: rescale(score, range).ok_or(GoldError { score, row, range })?,
            });
        }
        let sides = dataset.sides();
        Ok(Self {
            name: dataset.name().to_owned(),
            sides: sides.map(|(first, second)| (first.to_owned(), second.to_owned())),
            of: gold.len(),
            pairs,
        })
    }

    /// Every text once, in order, with its language if the data names it.
    pub fn distinct(&self) -> Vec<(&str, Option<&str>)> {
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

/// Splits `PATH` or `PATH@LOW:HIGH`; the range defaults to [`SCALE`].
///
/// # Errors
/// The text that is not a valid range, and the path.
pub fn range_of(data: &str) -> Result<(&str, (f64, f64)), (&str, &str)> {
    let Some((path, range)) = data.rsplit_once('@').filter(|(_, range)| range.contains(':')) else {
        return Ok((data, SCALE));
    };
    let read = range.split_once(':').and_then(|(low, high)| {
        let (low, high): (f64, f64) = (low.parse().ok()?, high.parse().ok()?);
        (low < high && low.is_finite() && high.is_finite()).then_some((low, high))
    });
    read.map(|range| (path, range)).ok_or((range, path))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{
        dataset::{InlineFile, LoadOptions, Source, load},
        task::TaskType,
    };

    #[test]
    fn the_range_of_the_gold_scores_goes_with_the_path() {
        assert!(matches!(range_of("a/b"), Ok(("a/b", (low, high))) if low == 0.0 && high == 5.0));
        assert!(matches!(range_of("a@b/c@1:4"), Ok(("a@b/c", (low, high))) if low == 1.0 && high == 4.0));
        assert!(matches!(range_of("a@b/c"), Ok(("a@b/c", _))));
        assert_eq!(range_of("a@4:1"), Err(("4:1", "a")));
        assert_eq!(range_of("a@x:1"), Err(("x:1", "a")));
    }

    #[test]
    fn scores_come_to_the_judges_scale_and_one_outside_its_range_is_named() {
        let rows = "{\"sentence1\":\"a b\",\"sentence2\":\"c\",\"score\":1}\n{\"sentence1\":\"c\",\"sentence2\":\"d\",\"score\":3}";
        let file = InlineFile {
            path: "test.jsonl".to_owned(),
            content: rows.as_bytes().to_vec(),
        };
        let dataset = load(TaskType::Sts, &Source::Inline(vec![file]), &LoadOptions::default()).unwrap();
        let set = GoldSet::of(&dataset, (1.0, 3.0), None, 1).unwrap();
        let gold: Vec<f64> = set.pairs.iter().map(|pair| pair.gold).collect();
        assert_eq!((gold, set.of, set.pairs[0].words()), (vec![0.0, 5.0], 2, 1.5));
        let distinct: Vec<&str> = set.distinct().into_iter().map(|(text, _)| text).collect();
        assert_eq!(distinct, ["a b", "c", "d"]);
        let outside = GoldSet::of(&dataset, (2.0, 3.0), None, 1).unwrap_err();
        assert_eq!((outside.score, outside.row), (1.0, 1));
        assert_eq!(GoldSet::of(&dataset, (1.0, 3.0), Some(1), 1).unwrap().pairs.len(), 1);
    }
}
