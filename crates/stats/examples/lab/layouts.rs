//! Layouts of the shipped suites for simulation: data sets, the items behind their scores, and
//! groups.

use isomer_stats::{
    StatsError,
    gate::{
        Limit, Verdict,
        items::{Evidence, Stratum, decide_with},
    },
    random::{stream, uniform},
    special::normal_quantile,
};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::laws::ITEMS;

/// Draws behind a simulated bound; a rule takes more.
const DRAWS: usize = 1_999;
/// Standard error of a figure that is not a mean of items, times the root of its items, in points:
/// of a paired difference of Spearman correlations near 0.8 with about one pair in ten moved.
const MEASURED: f64 = 25.0;

/// A data set: its items, and whether its score is their mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    /// Items, as sampled by the suite.
    pub(crate) items: usize,
    /// Whether the score is a mean of items (retrieval, reranking, classification, summaries), or a
    /// figure of all of them together (correlation, average precision, V-measure).
    pub(crate) mean: bool,
    /// Data sets of its group, which count once together.
    pub(crate) members: usize,
}

/// A suite's data sets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Layout {
    pub(crate) name: &'static str,
    /// Data sets whose scores are taken; the first is a mean of items where there is one.
    pub(crate) sizes: &'static [Size],
    /// Maximum drop of the total in points, the limit of its gate.
    pub(crate) limit: f64,
}

const fn mean_of(items: usize) -> Size {
    Size {
        items,
        mean: true,
        members: 1,
    }
}

const fn figure_of(items: usize) -> Size {
    Size {
        items,
        mean: false,
        members: 1,
    }
}

/// The same as one of the data sets of a group.
const fn among(members: usize, size: Size) -> Size {
    Size { members, ..size }
}

/// So many data sets of one group, put behind others.
const fn with_group<const N: usize>(mut sizes: [Size; N], from: usize, members: usize, size: Size) -> [Size; N] {
    let mut place = from;
    while place < from + members {
        sizes[place] = among(members, size);
        place += 1;
    }
    sizes
}

/// suites/quick.toml: pairs of sts and pair classification, queries.
pub(crate) const QUICK: Layout = Layout {
    name: "quick",
    sizes: &[figure_of(96), figure_of(92), mean_of(36)],
    limit: 10.0,
};

/// suites/minimal.toml, as its `total_items` divides them: STSBenchmark, RTE3, counterfactuals,
/// news clusters, AskUbuntu, NFCorpus, SummEval.
pub(crate) const MINIMAL: Layout = Layout {
    name: "minimal",
    sizes: &[
        figure_of(205),
        figure_of(79),
        mean_of(219),
        figure_of(182),
        mean_of(82),
        mean_of(83),
        mean_of(50),
    ],
    limit: 4.0,
};

/// suites/hteb-english.toml, 19 data sets; of larger ones 200 items (`--limit 200`), whole BIOSSES
/// and SummEval.
pub(crate) const HTEB_ENGLISH: Layout = Layout {
    name: "hteb-english, --limit 200",
    sizes: &[
        mean_of(200),
        mean_of(200),
        mean_of(200),
        figure_of(200),
        figure_of(200),
        figure_of(200),
        figure_of(200),
        figure_of(200),
        figure_of(200),
        mean_of(200),
        mean_of(200),
        mean_of(200),
        mean_of(200),
        mean_of(200),
        mean_of(200),
        figure_of(200),
        figure_of(100),
        figure_of(200),
        mean_of(100),
    ],
    limit: 5.0,
};

/// suites/hteb-multilingual.toml, 63 data sets in 13 groups, of each at most 200 items.
pub(crate) const HTEB_MULTILINGUAL: Layout = Layout {
    name: "hteb-multilingual, --limit 200",
    sizes: &{
        // Six means of items and two figures by themselves; then languages of clustering, pairs and
        // three sts sets.
        let mut sizes = [mean_of(200); 63];
        sizes[6] = figure_of(200);
        sizes[7] = figure_of(200);
        let sizes = with_group(sizes, 8, 16, figure_of(200));
        let sizes = with_group(sizes, 24, 4, figure_of(200));
        let sizes = with_group(sizes, 28, 12, figure_of(200));
        let sizes = with_group(sizes, 40, 11, figure_of(200));
        with_group(sizes, 51, 12, figure_of(200))
    },
    limit: 5.0,
};

/// suites/pteb.toml, 49 data sets in 20 groups, of each at most 200 items.
pub(crate) const PTEB: Layout = Layout {
    name: "pteb, --limit 200",
    sizes: &{
        // Six means of items and ten figures by themselves; then languages of a classification,
        // clustering, pairs and sts.
        let mut sizes = [mean_of(200); 49];
        let mut place = 6;
        while place < 16 {
            sizes[place] = figure_of(200);
            place += 1;
        }
        let sizes = with_group(sizes, 16, 3, mean_of(200));
        let sizes = with_group(sizes, 19, 16, figure_of(200));
        let sizes = with_group(sizes, 35, 4, figure_of(200));
        with_group(sizes, 39, 10, figure_of(200))
    },
    limit: 5.0,
};

/// How a drop spreads over a suite's data sets and their items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spread {
    /// Like everywhere: answers lost and won, the balance being the drop.
    Even,
    /// Like everywhere, nothing but losses: of a drop of 3 points every item of 33 is lost whole.
    Rare,
    /// All of it in one data set, whose score is a mean of items; nothing moves elsewhere. That one
    /// can lose 100 points at most.
    OneDataset,
}

impl Layout {
    /// Groups of data sets: each counts once.
    pub(crate) fn groups(&self) -> f64 {
        self.sizes.iter().map(|size| 1.0 / size.members as f64).sum()
    }

    /// Evidence of a run whose true mean drop is `drop` points.
    fn draw(&self, drop: f64, spread: Spread, rng: &mut ChaCha8Rng) -> Vec<Stratum> {
        let one = self.sizes.iter().position(|size| size.mean).unwrap_or(0);
        let mut strata = Vec::with_capacity(self.sizes.len());
        for (d, size) in self.sizes.iter().enumerate() {
            let own = match spread {
                Spread::OneDataset if d == one => drop * self.groups(),
                Spread::OneDataset => 0.0,
                _ => drop,
            };
            let mut stratum = if size.mean {
                let (lost, won) = match spread {
                    Spread::Even => (0.06 + own / 200.0, 0.06 - own / 200.0),
                    _ => (own / 100.0, 0.0),
                };
                let values: Vec<f64> = (0..size.items)
                    .map(|_| {
                        let u = uniform(rng);
                        if u < lost {
                            100.0
                        } else if u < lost + won {
                            -100.0
                        } else {
                            0.0
                        }
                    })
                    .collect();
                Stratum::of_items(&values, ITEMS)
            } else {
                let freedom = (size.items - 1) as f64;
                let error = MEASURED / (size.items as f64).sqrt();
                // A standard error is estimated, too: about chi over its degrees of freedom.
                let estimated = error * (1.0 + normal_quantile(uniform(rng)) / (2.0 * freedom).sqrt());
                Stratum {
                    weight: 1.0,
                    evidence: Evidence::Measured {
                        estimate: own + error * normal_quantile(uniform(rng)),
                        standard_error: estimated.max(0.0),
                        freedom,
                    },
                }
            };
            stratum.weight = 1.0 / size.members as f64;
            strata.push(stratum);
        }
        strata
    }

    /// Gates that pass and that fail, of `gates`, where the mean drop over the data sets may be
    /// `limit` and is `drop`.
    ///
    /// # Errors
    /// As [`decide_with`].
    pub(crate) fn simulate(
        &self,
        drop: f64,
        spread: Spread,
        limit: f64,
        alpha: f64,
        gates: usize,
        seed: u64,
    ) -> Result<(usize, usize), StatsError> {
        let verdicts: Result<Vec<Verdict>, StatsError> = (0..gates)
            .into_par_iter()
            .map(|gate| {
                let strata = self.draw(drop, spread, &mut stream(seed, gate));
                decide_with(Limit::at_most(limit), alpha, &strata, DRAWS).map(|found| found.verdict)
            })
            .collect();
        let verdicts = verdicts?;
        let count = |wanted| verdicts.iter().filter(|verdict| **verdict == wanted).count();
        Ok((count(Verdict::Pass), count(Verdict::Fail)))
    }
}
