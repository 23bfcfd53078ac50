//! Summarisation: does similarity to human summaries follow human judgement?
//!
//! A machine summary's predicted quality is its highest similarity to any human summary of the same
//! text. Three published definitions of the score differ widely on the same vectors:
//! * mteb 2.20.0 `summarization_evaluator.py`: a correlation per text, averaged ([`per_text`] with
//!   [`Average::Statistic`]);
//! * its deprecated evaluator, which produced the numbers of the first leaderboard: the mean ran
//!   over the correlations *and* their p-values (issue 1156; [`Average::StatisticAndP`]);
//! * HTEB 1.1 `evaluation.py`: one correlation over all machine summaries of all texts
//!   ([`pooled`]).

use std::collections::BTreeMap;

use super::similarity::{self, Similarity};
use crate::stats::{StatsError, correlation_p_value, mean, pearson, spearman};

/// A text's machine summaries, each with its human rating and its ratings by the vectors.
#[derive(Debug, Clone, PartialEq)]
pub struct Ratings {
    /// Human relevance.
    pub gold: Vec<f64>,
    /// Highest cosine with a human summary.
    pub cosine: Vec<f64>,
    /// Highest dot product with a human summary.
    pub dot: Vec<f64>,
    /// Highest value of the encoder's own similarity.
    pub own: Vec<f64>,
}

/// The values that are averaged over texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Average {
    /// The correlations.
    Statistic,
    /// The correlations together with their p-values, as mteb once did by mistake.
    StatisticAndP,
}

impl Average {
    /// The contribution to the mean of a text with correlation `r` over `n` machine summaries.
    pub fn value(self, r: f64, n: usize) -> f64 {
        match self {
            Self::Statistic => r,
            Self::StatisticAndP => (r + correlation_p_value(r, n)) / 2.0,
        }
    }
}

impl Ratings {
    /// Rates the machine summaries of one text. `human` must not be empty.
    pub fn new<'a>(
        human: &[&'a [f32]],
        machine: impl Iterator<Item = &'a [f32]>,
        gold: &[f64],
        own: Similarity,
    ) -> Self {
        let mut judged = Self {
            gold: gold.to_vec(),
            cosine: Vec::new(),
            dot: Vec::new(),
            own: Vec::new(),
        };
        for summary in machine {
            let highest = |f: &dyn Fn(&[f32], &[f32]) -> f32| similarity::highest(human.iter().map(|h| f(summary, h)));
            judged.cosine.push(highest(&similarity::cosine_of_units));
            judged.dot.push(highest(&similarity::dot));
            judged.own.push(highest(&|x, y| own.of(x, y)));
        }
        judged
    }

    /// Whether a similarity is not a number.
    pub fn unsound(&self) -> bool {
        [&self.cosine, &self.dot, &self.own]
            .iter()
            .any(|values| values.iter().any(|value| value.is_nan()))
    }

    /// Whether mteb leaves the text out: its gold scores are equal, or its predictions do not
    /// distinguish the summaries.
    pub fn skipped(&self) -> bool {
        [&self.gold, &self.dot, &self.cosine]
            .iter()
            .any(|values| values.windows(2).all(|w| w[0] == w[1]))
    }
}

type Values = fn(&Ratings) -> &Vec<f64>;
type Correlation = fn(&[f64], &[f64]) -> Result<f64, StatsError>;
const KINDS: [(&str, Values); 3] = [("cosine_", |j| &j.cosine), ("dot_", |j| &j.dot), ("", |j| &j.own)];
const CORRELATIONS: [(&str, Correlation); 2] = [("pearson", pearson), ("spearman", spearman)];

/// mteb's `{cosine_,dot_,}{pearson,spearman}`: means over the texts that are not skipped, and the
/// value of each text (NaN if it is skipped). A score is left out if a text's own similarities are
/// all equal; `None` if every text is skipped.
pub fn per_text(texts: &[Ratings], average: Average) -> Option<(BTreeMap<String, f64>, BTreeMap<String, Vec<f64>>)> {
    if texts.iter().all(Ratings::skipped) {
        return None;
    }
    let (mut scores, mut values) = (BTreeMap::new(), BTreeMap::new());
    for (prefix, of) in KINDS {
        for (name, correlation) in CORRELATIONS {
            let per_text: Vec<Option<f64>> = texts
                .iter()
                .map(|text| correlation(&text.gold, of(text)).ok().filter(|_| !text.skipped()))
                .collect();
            let defined = texts
                .iter()
                .zip(&per_text)
                .all(|(text, value)| text.skipped() || value.is_some());
            let averaged = texts.iter().zip(&per_text).filter_map(|(text, value)| {
                let r = (*value)?;
                Some(average.value(r, text.gold.len()))
            });
            if let Some(score) = mean(&averaged.collect::<Vec<_>>()).filter(|_| defined) {
                scores.insert(format!("{prefix}{name}"), score);
            }
            let column = per_text.into_iter().map(|value| value.unwrap_or(f64::NAN)).collect();
            values.insert(format!("{prefix}{name}"), column);
        }
    }
    Some((scores, values))
}

/// HTEB's `cosine_spearman`: one Spearman over every machine summary, and `cosine_pearson` beside
/// it.
///
/// # Errors
/// If gold scores or predictions are all equal, or there are fewer than two machine summaries.
pub fn pooled(texts: &[Ratings]) -> Result<BTreeMap<String, f64>, StatsError> {
    let gold: Vec<f64> = texts.iter().flat_map(|t| t.gold.iter().copied()).collect();
    let cosine: Vec<f64> = texts.iter().flat_map(|t| t.cosine.iter().copied()).collect();
    Ok(BTreeMap::from([
        ("cosine_spearman".to_owned(), spearman(&gold, &cosine)?),
        ("cosine_pearson".to_owned(), pearson(&gold, &cosine)?),
    ]))
}
