//! Laws of drops under which bounds are compared. They are not fitted to any bound: each is a way
//! in which drops differ over data sets or items. Drops are in points, of scores of 0 to 100 whose
//! original is 70 (units) or known item by item (items), so that no drop leaves [`UNITS`] or
//! [`ITEMS`].

use isomer_stats::{
    gate::{bounded::Range, items::Cluster},
    random::{below, uniform},
    special::{normal_quantile, student_quantile},
};
use rand_chacha::ChaCha8Rng;

/// Range of the drop of a data set's score: from 70 points to 0, or up to 100.
pub(crate) const UNITS: Range = Range { low: -30.0, high: 70.0 };
/// Range of the drop of an item's score.
pub(crate) const ITEMS: Range = Range {
    low: -100.0,
    high: 100.0,
};
/// Points at which a law's mean is integrated.
const GRID: usize = 200_000;

/// A law by its quantile function, cut at its range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Law {
    /// Name in tables.
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    /// Turned around: gains where it had drops, about 3 points.
    pub(crate) mirrored: bool,
    pub(crate) range: Range,
}

/// Shapes of laws; means and spreads in points.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Shape {
    Normal {
        mean: f64,
        /// Standard deviation.
        sd: f64,
    },
    Exponential {
        mean: f64,
    },
    /// e to the power of a standard normal, scaled.
    Lognormal {
        /// Mean before it is cut.
        mean: f64,
    },
    /// Student's t with three degrees of freedom.
    Student3 {
        mean: f64,
        scale: f64,
    },
    /// About 0 (standard deviation 0.5), but for a share that drops by 15 to 30 points.
    Collapse {
        share: f64,
    },
    /// Answers: right before and wrong now (100), wrong before and right now (−100), or as before.
    Answers {
        /// Chance of 100.
        lost: f64,
        /// Chance of −100.
        won: f64,
    },
    /// Nothing for most, and a drop of 0 to 100, mostly small, for a share.
    Inflated {
        /// The share that moves.
        share: f64,
    },
}

impl Law {
    pub(crate) const fn of_units(name: &'static str, shape: Shape) -> Self {
        Self {
            name,
            shape,
            mirrored: false,
            range: UNITS,
        }
    }

    pub(crate) const fn of_items(name: &'static str, shape: Shape) -> Self {
        Self {
            name,
            shape,
            mirrored: false,
            range: ITEMS,
        }
    }

    /// The same, turned around.
    #[must_use]
    pub(crate) const fn turned(self, name: &'static str) -> Self {
        Self {
            name,
            mirrored: true,
            ..self
        }
    }

    /// Its value at a uniform number.
    pub(crate) fn at(&self, u: f64) -> f64 {
        let value = match self.shape {
            Shape::Normal { mean, sd } => mean + sd * normal_quantile(u),
            Shape::Exponential { mean } => -mean * (1.0 - u).ln(),
            Shape::Lognormal { mean } => mean * (normal_quantile(u) - 0.5).exp(),
            Shape::Student3 { mean, scale } => mean + scale * student_quantile(u, 3.0),
            Shape::Collapse { share } if u < share => 15.0 + 15.0 * u / share,
            Shape::Collapse { share } => 0.5 * normal_quantile((u - share) / (1.0 - share)),
            Shape::Answers { lost, .. } if u < lost => 100.0,
            Shape::Answers { lost, won } if u < lost + won => -100.0,
            Shape::Answers { .. } => 0.0,
            Shape::Inflated { share } if u < share => 100.0 * (u / share).powi(3),
            Shape::Inflated { .. } => 0.0,
        };
        let value = if self.mirrored { 6.0 - value } else { value };
        value.clamp(self.range.low, self.range.high)
    }

    pub(crate) fn draw(&self, rng: &mut ChaCha8Rng) -> f64 {
        self.at(uniform(rng))
    }

    /// Its mean, cut as it is: the midpoint rule over its quantiles.
    pub(crate) fn mean(&self) -> f64 {
        let sum: f64 = (0..GRID).map(|i| self.at((i as f64 + 0.5) / GRID as f64)).sum();
        sum / GRID as f64
    }
}

/// Laws of data sets or groups. Where no share is stated the mean is about 3 points.
pub(crate) fn of_units() -> Vec<Law> {
    let exponential = Law::of_units("exponential", Shape::Exponential { mean: 3.0 });
    let lognormal = Law::of_units("lognormal", Shape::Lognormal { mean: 3.0 });
    let collapse = |name, share| Law::of_units(name, Shape::Collapse { share });
    vec![
        Law::of_units("normal", Shape::Normal { mean: 3.0, sd: 3.0 }),
        exponential,
        exponential.turned("exponential, turned"),
        lognormal,
        lognormal.turned("lognormal, turned"),
        Law::of_units("Student's t, 3", Shape::Student3 { mean: 3.0, scale: 2.0 }),
        collapse("10 % collapse", 0.1),
        collapse("15 % collapse", 0.15),
        collapse("25 % collapse", 0.25),
        collapse("15 % collapse, turned", 0.15).turned("15 % soar"),
    ]
}

pub(crate) fn of_items() -> Vec<Law> {
    let inflated = Law::of_items("20 % drop, mostly little", Shape::Inflated { share: 0.2 });
    vec![
        Law::of_items("answers, 6 % lost, 3 % won", Shape::Answers { lost: 0.06, won: 0.03 }),
        Law::of_items("answers, 3 % lost", Shape::Answers { lost: 0.03, won: 0.0 }),
        Law::of_items("answers, 1 % lost", Shape::Answers { lost: 0.01, won: 0.0 }),
        inflated,
        inflated.turned("20 % gain, mostly little"),
        Law::of_items("normal", Shape::Normal { mean: 3.0, sd: 15.0 }),
    ]
}

/// Data sets with entries that share their fate, e.g. languages of one data set: normal, mean 3,
/// standard deviation 3.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Clustered<'a> {
    /// Entries of each data set.
    pub(crate) sizes: &'a [usize],
    /// Share of an entry's variance that its data set explains.
    pub(crate) shared: f64,
}

impl Clustered<'_> {
    pub(crate) const MEAN: f64 = 3.0;

    /// Every entry, data set by data set.
    pub(crate) fn draw(&self, rng: &mut ChaCha8Rng) -> Vec<Vec<f64>> {
        let mut scatter = |share: f64| 3.0 * share.sqrt() * normal_quantile(uniform(rng));
        self.sizes
            .iter()
            .map(|&entries| {
                let group = Self::MEAN + scatter(self.shared);
                (0..entries)
                    .map(|_| (group + scatter(1.0 - self.shared)).clamp(UNITS.low, UNITS.high))
                    .collect()
            })
            .collect()
    }
}

/// Rows that share a text: up to five, of which all are lost (100 points) where the text is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SharedTexts {
    pub(crate) texts: usize,
    /// Chance that a text is lost.
    pub(crate) lost: f64,
}

impl SharedTexts {
    /// Clusters of rows.
    pub(crate) fn draw(&self, rng: &mut ChaCha8Rng) -> Vec<Cluster> {
        (0..self.texts)
            .map(|_| {
                let items = below(rng, 5) + 1;
                let lost = uniform(rng) < self.lost;
                Cluster {
                    sum: if lost { 100.0 * items as f64 } else { 0.0 },
                    items,
                }
            })
            .collect()
    }

    /// The same rows, as if they were independent.
    pub(crate) fn rows(&self, rng: &mut ChaCha8Rng) -> Vec<f64> {
        let clusters = self.draw(rng);
        let rows = clusters.iter().flat_map(|cluster| {
            let each = cluster.sum / cluster.items as f64;
            std::iter::repeat_n(each, cluster.items)
        });
        rows.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_those_of_the_laws_but_for_what_is_cut() {
        for (law, mean, slack) in of_units()
            .into_iter()
            .zip([3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 2.25, 3.375, 5.625, 2.625])
            .map(|(law, mean)| (law, mean, 0.05))
            .chain(
                of_items()
                    .into_iter()
                    .zip([3.0, 3.0, 1.0, 5.0, 1.0, 3.0])
                    .map(|(law, mean)| (law, mean, 1e-3)),
            )
        {
            assert!((law.mean() - mean).abs() < slack, "{}: {}", law.name, law.mean());
        }
    }
}
