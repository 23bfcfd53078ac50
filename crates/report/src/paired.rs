//! The values of a rule that compares an encoder's items with the baseline's: negative flips, and
//! overlap of result lists. Each data set is a stratum of items.

use crate::{
    diff::{Right, ScoredItems, overlaps},
    evidence::Evidence,
    metric::overlap::PERSISTENCE,
    profile::{DatasetItems, EncoderPair, Figure, Grid, clusters, shares},
    stats::gate::{
        bounded::Range,
        items::{Evidence as StratumEvidence, Stratum},
    },
    task::{ResultLists, TaskType},
};

/// Number of documents of each query that a rule of the gate uses.
pub const GATE_K: usize = 10;

/// The compared value of each item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PairedQuantity {
    /// Whether it is right under the baseline and wrong under the encoder, in percent.
    NegativeFlips,
    /// The share of its first documents that both encoders find, in percent.
    Overlap,
}

impl PairedQuantity {
    /// Whether the value exists for a task.
    pub fn is_of(self, task: TaskType) -> bool {
        match self {
            Self::NegativeFlips => Right::TASKS.contains(&task),
            Self::Overlap => task == TaskType::Retrieval,
        }
    }
}

/// The stored data of a score's items.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    pub task: TaskType,
    /// Key of the main score.
    pub main_key: String,
    /// The item-level data behind the score.
    pub evidence: Option<Evidence>,
    /// The result lists of retrieval.
    pub lists: Option<ResultLists>,
}

impl Outcome {
    fn scored(&self) -> ScoredItems<'_> {
        ScoredItems {
            task: self.task,
            main_key: &self.main_key,
            evidence: self.evidence.as_ref(),
            lists: self.lists.as_ref(),
        }
    }
}

/// A figure of an encoder that is compared with the baseline's.
#[derive(Debug, Clone, Copy)]
pub struct PairedComparison {
    pub encoders: EncoderPair,
    pub quantity: PairedQuantity,
    pub figure: Figure,
}

/// Texts of a data set: the originals, or a transformation and seed by position.
pub type Texts = Option<(usize, usize)>;

/// The strata of an encoder against the baseline: one for each data set; the members of a group
/// share the group's weight. `outcome` returns the stored data of an encoder's score.
///
/// # Errors
/// The reason why a data set has none, as a message.
pub fn paired_strata(
    grid: &Grid,
    comparison: PairedComparison,
    datasets: &[usize],
    items: &[DatasetItems],
    outcome: impl Fn(usize, usize, Texts) -> Result<Outcome, String>,
) -> Result<Vec<Stratum>, String> {
    let seeds = grid.seeds.len();
    let terms: Vec<(Texts, f64)> = match comparison.figure {
        Figure::Original => vec![(None, 1.0)],
        figure => shares(grid, figure)
            .into_iter()
            .flat_map(|(column, share)| (0..seeds).map(move |s| (Some((column, s)), share / seeds as f64)))
            .collect(),
    };
    let members = |d: usize| {
        datasets
            .iter()
            .filter(|other| grid.groups[**other] == grid.groups[d])
            .count()
    };
    datasets
        .iter()
        .map(|&d| {
            let of = |why: String| format!("{}: {why}", grid.datasets[d]);
            let own = items.get(d).ok_or_else(|| of("its items are not known".to_owned()))?;
            let values = values(comparison.quantity, &terms, own.clusters.len(), |side, texts| {
                let EncoderPair { encoder, baseline } = comparison.encoders;
                let encoder = if side == 0 { baseline } else { encoder };
                outcome(encoder, d, texts)
            });
            let values = values.map_err(of)?;
            if values.iter().all(Option::is_none) {
                return Err(of("no item of it counts".to_owned()));
            }
            Ok(Stratum {
                weight: 1.0 / members(d) as f64,
                evidence: StratumEvidence::Items {
                    clusters: clusters(&own.clusters, &values),
                    range: Range { low: 0.0, high: 100.0 },
                },
            })
        })
        .collect()
}

/// The mean of each item's values over the texts, in percent; `None` for items that do not count.
/// In `outcome`, side 0 is the baseline.
fn values(
    what: PairedQuantity,
    terms: &[(Texts, f64)],
    items: usize,
    outcome: impl Fn(usize, Texts) -> Result<Outcome, String>,
) -> Result<Vec<Option<f64>>, String> {
    let unfit = || "its items do not fit its scores".to_owned();
    let right = match what {
        PairedQuantity::NegativeFlips => Some(Right::on(outcome(0, None)?.scored(), GATE_K)?),
        PairedQuantity::Overlap => None,
    };
    let mut total: Option<Vec<Option<f64>>> = None;
    for (texts, weight) in terms {
        let (old, new) = (outcome(0, *texts)?, outcome(1, *texts)?);
        let own: Vec<Option<f64>> = match right {
            Some(right) => {
                let old = right.of(old.scored()).ok_or_else(unfit)?;
                let new = right.of(new.scored()).ok_or_else(unfit)?;
                if old.len() != new.len() {
                    return Err(unfit());
                }
                let flipped = |(old, new): (Option<bool>, Option<bool>)| Some(f64::from(u8::from(old? && !new?)));
                old.into_iter().zip(new).map(flipped).collect()
            }
            None => {
                let (shares, _, _) = overlaps(&[old.lists.as_ref()], &[new.lists.as_ref()], GATE_K, PERSISTENCE)?;
                shares.into_iter().map(Some).collect()
            }
        };
        if own.len() != items {
            return Err(unfit());
        }
        let own = own.into_iter().map(|value| value.map(|value| weight * value * 100.0));
        total = Some(match total {
            None => own.collect(),
            Some(before) => before.into_iter().zip(own).map(|(a, b)| Some(a? + b?)).collect(),
        });
    }
    total.ok_or_else(|| "it has no texts".to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{
        profile::Axis,
        stats::gate::{Limit, Verdict, items::decide_items},
    };

    const ITEMS: usize = 400;

    fn grid() -> Grid {
        let mut grid = Grid::of(&["old", "new"], &["x"], &[("paraphrase", Axis::Lexical)], &[1, 2]);
        grid.groups[0] = "x".to_owned();
        grid
    }

    /// A search whose first relevant documents are at these ranks; the lists begin at document
    /// `first`.
    fn search(rank: impl Fn(usize) -> u32, first: u32) -> Outcome {
        Outcome {
            task: TaskType::Retrieval,
            main_key: "ndcg_at_10".to_owned(),
            evidence: None,
            lists: Some(ResultLists {
                depth: 20,
                searched: 1000,
                corpus: 500,
                documents: vec![(first..first + 20).collect(); ITEMS],
                similarities: vec![vec![0.5; 20]; ITEMS],
                relevant: vec![Vec::new(); ITEMS],
                first_relevant: (0..ITEMS).map(|item| Some(rank(item))).collect(),
                judged: vec![1; ITEMS],
            }),
        }
    }

    fn strata(
        what: PairedQuantity,
        figure: Figure,
        of: impl Fn(usize, Texts) -> Outcome,
    ) -> Result<Vec<Stratum>, String> {
        let items = DatasetItems {
            clusters: (0..ITEMS as u32).collect(),
            changed: Vec::new(),
            accepted: Vec::new(),
        };
        let comparison = PairedComparison {
            encoders: EncoderPair {
                encoder: 1,
                baseline: 0,
            },
            quantity: what,
            figure,
        };
        paired_strata(&grid(), comparison, &[0], &[items], |encoder, _, texts| {
            Ok(of(encoder, texts))
        })
    }

    #[test]
    fn an_equal_encoder_passes_and_one_that_loses_queries_fails() {
        let verdict = |lost: usize| {
            let found = strata(PairedQuantity::NegativeFlips, Figure::Total, |encoder, texts| {
                let broken = encoder == 1 && texts.is_some();
                search(move |item| if broken && item < lost { 11 } else { 3 }, 0)
            });
            decide_items(Limit::at_most(5.0), 0.05, &found.unwrap()).unwrap()
        };
        let equal = verdict(0);
        assert_eq!((equal.verdict, equal.estimate), (Verdict::Pass, 0.0));
        let worse = verdict(80);
        assert_eq!((worse.verdict, worse.estimate), (Verdict::Fail, 20.0));
        assert_eq!(verdict(20).verdict, Verdict::Undecided);
    }

    #[test]
    fn a_flip_counts_with_the_share_of_the_seeds_it_happens_on() {
        let of = |figure| {
            let found = strata(PairedQuantity::NegativeFlips, figure, |encoder, texts| {
                let broken = encoder == 1 && matches!(texts, Some((_, 1)));
                search(move |_| if broken { 11 } else { 3 }, 0)
            });
            decide_items(Limit::at_most(5.0), 0.05, &found.unwrap())
                .unwrap()
                .estimate
        };
        assert_eq!((of(Figure::Total), of(Figure::Original)), (50.0, 0.0));
        // A query that became right is not a negative flip, and does not compensate for one.
        let found = strata(PairedQuantity::NegativeFlips, Figure::Total, |encoder, _| {
            search(move |item| if (item < 40) == (encoder == 1) { 3 } else { 11 }, 0)
        });
        let rate = decide_items(Limit::at_most(5.0), 0.05, &found.unwrap())
            .unwrap()
            .estimate;
        assert!((rate - 90.0).abs() < 1e-9, "{rate}");
    }

    #[test]
    fn overlap_is_that_of_the_first_ten_documents() {
        let verdict = |shift: u32| {
            let found = strata(PairedQuantity::Overlap, Figure::Total, |encoder, _| {
                search(|_| 1, if encoder == 1 { shift } else { 0 })
            });
            decide_items(Limit::at_least(80.0), 0.05, &found.unwrap()).unwrap()
        };
        assert_eq!((verdict(0).verdict, verdict(0).estimate), (Verdict::Pass, 100.0));
        assert!((verdict(4).estimate - 60.0).abs() < 1e-9);
        assert_eq!(verdict(4).verdict, Verdict::Fail);
    }

    #[test]
    fn what_is_missing_is_named() {
        let without = |encoder: usize, _: Texts| Outcome {
            lists: None,
            ..search(|_| 1, encoder as u32)
        };
        let why = strata(PairedQuantity::NegativeFlips, Figure::Total, without).unwrap_err();
        assert!(why.starts_with("x: its result lists are not kept"), "{why}");
        assert!(strata(PairedQuantity::Overlap, Figure::Total, without).is_err());
        // In a corpus of ten, every two lists share all of the first ten documents.
        for what in [PairedQuantity::NegativeFlips, PairedQuantity::Overlap] {
            let small = strata(what, Figure::Total, |_, _| {
                let mut found = search(|_| 1, 0);
                found.lists.as_mut().unwrap().corpus = 10;
                found
            });
            assert!(small.unwrap_err().contains("corpus has 10 documents"), "{what:?}");
        }
        let shallow = strata(PairedQuantity::Overlap, Figure::Total, |_, _| {
            let mut found = search(|_| 1, 0);
            found.lists.as_mut().unwrap().depth = 5;
            found
        });
        assert!(shallow.unwrap_err().contains("5 documents of each query are kept"));
    }
}
