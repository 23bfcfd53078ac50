//! Samples of rows for a quick look, drawn with a seed, and in proportion to labels or gold scores
//! if rows have them.

use std::collections::{BTreeMap, HashMap};

use rand::seq::SliceRandom;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use serde::{Deserialize, Serialize};

/// Seed of a sample if none is given.
pub const DEFAULT_SAMPLE_SEED: u64 = 42;
/// Number of bins of equal width for gold scores.
const BINS: usize = 5;

/// How a sample was drawn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Sample {
    /// Rows drawn.
    pub rows: usize,
    /// Rows there are.
    pub of: usize,
    /// Seed of the draw.
    pub seed: u64,
    /// Column whose proportions the sample keeps, e.g. `label`; `None`: nothing.
    pub by: Option<String>,
}

impl std::fmt::Display for Sample {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a sample of {} of {} rows, seed {}", self.rows, self.of, self.seed)?;
        match &self.by {
            Some(by) => write!(f, ", in proportion to {by}"),
            None => Ok(()),
        }
    }
}

/// The stratum of a row.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Stratum {
    /// No strata: the row is like all others.
    None,
    /// The stratum of the row's label.
    Label(String),
    /// The stratum of the bin of the row's gold score.
    Gold(f64),
}

/// The stratum of each row of a table, in a few bytes per row.
#[derive(Debug, Default)]
pub(super) struct Strata {
    /// Group of each row; [`NO_GROUP`] for an excluded row.
    groups: Vec<u32>,
    /// Names of the groups by label, in the order of their first rows.
    names: Vec<String>,
    numbers: HashMap<String, u32>,
    /// Gold score of each row, where rows have one.
    gold: Vec<f64>,
    labelled: bool,
}

/// A row that is never drawn.
const NO_GROUP: u32 = u32::MAX;

impl Strata {
    /// Adds the next row; `None` excludes it.
    pub(super) fn push(&mut self, stratum: Option<Stratum>) {
        let name = match stratum {
            None => {
                self.groups.push(NO_GROUP);
                return;
            }
            Some(Stratum::None) => String::new(),
            Some(Stratum::Label(label)) => {
                self.labelled = true;
                label
            }
            Some(Stratum::Gold(gold)) => {
                self.gold.push(gold);
                String::new()
            }
        };
        let number = match self.numbers.get(&name) {
            Some(number) => *number,
            None => {
                let number = u32::try_from(self.names.len()).unwrap_or(NO_GROUP - 1);
                self.names.push(name.clone());
                self.numbers.insert(name, number);
                number
            }
        };
        self.groups.push(number);
    }

    /// Rows by stratum, in order of the strata's names, and the name of the distinguishing
    /// property.
    fn groups(&self) -> (Vec<(String, Vec<usize>)>, Option<&'static str>) {
        let mut groups = BTreeMap::<String, Vec<usize>>::new();
        let counted = self.groups.iter().enumerate().filter(|(_, group)| **group != NO_GROUP);
        if !self.gold.is_empty() {
            let (low, high) = self
                .gold
                .iter()
                .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), gold| {
                    (low.min(*gold), high.max(*gold))
                });
            for ((row, _), gold) in counted.zip(&self.gold) {
                // If all scores are equal there is one bin, because NaN becomes 0.
                let bin = (gold - low) / (high - low) * BINS as f64;
                let bin = bin.min(BINS as f64 - 1.0).max(0.0) as usize;
                groups.entry(bin.to_string()).or_default().push(row);
            }
            return (groups.into_iter().collect(), Some("score (5 bins of equal width)"));
        }
        for (row, group) in counted {
            let name = &self.names[*group as usize];
            match groups.get_mut(name) {
                Some(rows) => rows.push(row),
                None => drop(groups.insert(name.clone(), vec![row])),
            }
        }
        (groups.into_iter().collect(), self.labelled.then_some("label"))
    }
}

/// How rows are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Draw {
    /// In proportion to labels or gold scores where rows have them.
    #[default]
    Proportional,
    /// At random, one after another. A smaller limit draws the first rows of a larger one, and the
    /// order of the draw is recorded: a sequential test needs an order of rows that is independent
    /// of their contents.
    OneByOne,
}

/// The facts about a draw.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct DrawFacts {
    /// How the sample was drawn; `None` if all rows are in it.
    pub sample: Option<Sample>,
    /// [`Draw::OneByOne`]: for each row taken, in the order of the table, its place in the order of the draw.
    pub order: Option<Vec<u32>>,
}

/// Rows to take, in the order of the table.
#[derive(Debug, Clone)]
pub(super) struct RowSelection {
    /// Ascending; `None`: all rows.
    rows: Option<Vec<usize>>,
    next: usize,
    seen: usize,
}

impl RowSelection {
    /// Every row.
    pub(super) fn all() -> Self {
        Self {
            rows: None,
            next: 0,
            seen: 0,
        }
    }

    /// These rows, ascending.
    fn only(rows: Vec<usize>) -> Self {
        Self {
            rows: Some(rows),
            ..Self::all()
        }
    }

    /// Whether the current row is taken; `None` if neither it nor any later row is taken. Call it
    /// once per row.
    pub(super) fn takes(&mut self) -> Option<bool> {
        let Some(rows) = &self.rows else { return Some(true) };
        let wanted = *rows.get(self.next)?;
        let taken = wanted == self.seen;
        self.seen += 1;
        self.next += usize::from(taken);
        Some(taken)
    }
}

/// Draws at most `limit` of the included rows, or all of them if the limit is not exceeded.
pub(super) fn draw(strata: &Strata, limit: usize, seed: u64, draw: Draw) -> (RowSelection, DrawFacts) {
    let of = strata.groups.iter().filter(|group| **group != NO_GROUP).count();
    if draw == Draw::OneByOne {
        return one_by_one(strata, of, limit, seed);
    }
    if of <= limit {
        return (RowSelection::all(), DrawFacts::default());
    }
    let (groups, by) = strata.groups();
    let sizes: Vec<usize> = groups.iter().map(|(_, rows)| rows.len()).collect();
    let mut rows = Vec::with_capacity(limit);
    for ((name, mut members), share) in groups.into_iter().zip(shares(&sizes, limit)) {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&seed.to_le_bytes());
        hasher.update(name.as_bytes());
        members.shuffle(&mut ChaCha8Rng::from_seed(*hasher.finalize().as_bytes()));
        members.truncate(share);
        rows.append(&mut members);
    }
    rows.sort_unstable();
    let sample = Sample {
        rows: rows.len(),
        of,
        seed,
        by: by.map(str::to_owned),
    };
    let drawn = DrawFacts {
        sample: Some(sample),
        order: None,
    };
    (RowSelection::only(rows), drawn)
}

/// The first `limit` rows in a random order of all `of` included rows.
fn one_by_one(strata: &Strata, of: usize, limit: usize, seed: u64) -> (RowSelection, DrawFacts) {
    let counted = strata
        .groups
        .iter()
        .enumerate()
        .filter(|(_, group)| **group != NO_GROUP);
    let mut members: Vec<usize> = counted.map(|(row, _)| row).collect();
    let seed_of_order = blake3::hash(&seed.to_le_bytes());
    members.shuffle(&mut ChaCha8Rng::from_seed(*seed_of_order.as_bytes()));
    members.truncate(limit);
    let mut placed: Vec<(usize, u32)> = members.into_iter().zip(0..).collect();
    placed.sort_unstable();
    let (rows, order): (Vec<usize>, Vec<u32>) = placed.into_iter().unzip();
    let sample = (rows.len() < of).then_some(Sample {
        rows: rows.len(),
        of,
        seed,
        by: None,
    });
    let drawn = DrawFacts {
        sample,
        order: Some(order),
    };
    (RowSelection::only(rows), drawn)
}

/// Divides `limit` rows among groups in proportion to their sizes, largest remainders first. Every
/// group gets at least one if there are enough for all.
fn shares(sizes: &[usize], limit: usize) -> Vec<usize> {
    let all: usize = sizes.iter().sum();
    let least = usize::from(limit >= sizes.len());
    // The rows beyond each group's minimum are divided exactly; products of row counts fit in 128
    // bits.
    let rest = limit - least * sizes.len();
    let over = (all - least * sizes.len()).max(1);
    let parts: Vec<(usize, usize)> = sizes
        .iter()
        .map(|size| {
            let product = (size - least) as u128 * rest as u128;
            ((product / over as u128) as usize, (product % over as u128) as usize)
        })
        .collect();
    let mut shares: Vec<usize> = parts.iter().map(|(whole, _)| least + whole).collect();
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by(|a, b| parts[*b].1.cmp(&parts[*a].1).then(a.cmp(b)));
    let missing = limit - shares.iter().sum::<usize>();
    for group in order.into_iter().take(missing) {
        shares[group] += 1;
    }
    shares
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn strata(rows: &[Option<Stratum>]) -> Strata {
        let mut strata = Strata::default();
        rows.iter().for_each(|row| strata.push(row.clone()));
        strata
    }

    fn drawn(rows: &[Option<Stratum>], limit: usize, seed: u64) -> Vec<usize> {
        let (mut picked, _) = draw(&strata(rows), limit, seed, Draw::Proportional);
        (0..rows.len()).filter(|_| picked.takes() == Some(true)).collect()
    }

    fn labels(counts: &[(&str, usize)]) -> Vec<Option<Stratum>> {
        let of = |(label, count): &(&str, usize)| vec![Some(Stratum::Label((*label).to_owned())); *count];
        counts.iter().flat_map(of).collect()
    }

    #[test]
    fn labels_keep_their_proportions_and_rare_ones_are_not_lost() {
        let strata = labels(&[("a", 800), ("b", 195), ("c", 5)]);
        let rows = drawn(&strata, 100, 42);
        let within = |range: std::ops::Range<usize>| rows.iter().filter(|row| range.contains(row)).count();
        assert_eq!(rows.len(), 100);
        assert_eq!([within(0..800), within(800..995), within(995..1000)], [79, 20, 1]);
        assert!(rows.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn a_sample_depends_on_its_seed_and_not_on_the_rest() {
        let strata = labels(&[("a", 50), ("b", 50)]);
        assert_eq!(drawn(&strata, 10, 1), drawn(&strata, 10, 1));
        assert_ne!(drawn(&strata, 10, 1), drawn(&strata, 10, 2));
    }

    #[test]
    fn gold_scores_are_drawn_from_the_whole_range() {
        let strata: Vec<_> = (0..1000).map(|i| Some(Stratum::Gold(f64::from(i) / 200.0))).collect();
        let rows = drawn(&strata, 50, 7);
        for bin in 0..5 {
            let inside = rows
                .iter()
                .filter(|row| (bin * 200..(bin + 1) * 200).contains(*row))
                .count();
            assert_eq!(inside, 10, "bin {bin}");
        }
        let constant = vec![Some(Stratum::Gold(3.0)); 10];
        assert_eq!(drawn(&constant, 4, 7).len(), 4);
    }

    #[test]
    fn rows_that_do_not_count_are_never_drawn() {
        let mut strata = vec![Some(Stratum::None); 20];
        strata.extend(vec![None; 20]);
        let rows = drawn(&strata, 5, 3);
        assert!(rows.len() == 5 && rows.iter().all(|row| *row < 20));
    }

    #[test]
    fn what_fits_is_not_sampled() {
        let strata = strata(&labels(&[("a", 2), ("b", 1)]));
        let (_, drawn) = draw(&strata, 3, 42, Draw::Proportional);
        assert_eq!(drawn, DrawFacts::default());
        let (_, drawn) = draw(&strata, 2, 42, Draw::Proportional);
        assert_eq!(
            drawn.sample.unwrap().to_string(),
            "a sample of 2 of 3 rows, seed 42, in proportion to label"
        );
    }

    #[test]
    fn one_by_one_a_smaller_sample_is_the_beginning_of_a_larger_one() {
        let mut rows = labels(&[("a", 60), ("b", 40)]);
        rows[7] = None;
        let strata = strata(&rows);
        let in_order = |limit: usize, seed: u64| -> Vec<usize> {
            let (mut picked, drawn) = draw(&strata, limit, seed, Draw::OneByOne);
            let taken = (0..rows.len()).filter(|_| picked.takes() == Some(true));
            let mut placed: Vec<(u32, usize)> = drawn.order.unwrap().into_iter().zip(taken).collect();
            placed.sort_unstable();
            assert!(placed.iter().map(|(place, _)| *place).eq(0..placed.len() as u32));
            placed.into_iter().map(|(_, row)| row).collect()
        };
        let all = in_order(1000, 42);
        assert_eq!(all.len(), 99);
        assert!(!all.contains(&7) && all.windows(2).any(|pair| pair[0] > pair[1]));
        for limit in [1, 10, 98] {
            assert_eq!(in_order(limit, 42), all[..limit]);
        }
        assert_ne!(in_order(10, 43), all[..10]);
        let (_, whole) = draw(&strata, 99, 42, Draw::OneByOne);
        assert_eq!(whole.sample, None);
    }

    #[test]
    fn shares_add_up_to_the_limit() {
        for (sizes, limit) in [
            (vec![1, 1, 1], 2),
            (vec![5, 3, 2], 7),
            (vec![10], 9),
            (vec![3, 3, 3], 4),
        ] {
            let shares = shares(&sizes, limit);
            assert_eq!(shares.iter().sum::<usize>(), limit, "{sizes:?}");
            assert!(
                shares.iter().zip(&sizes).all(|(share, size)| share <= size),
                "{sizes:?}"
            );
        }
    }
}
