//! The looks of a sequential run.
//!
//! Data sets come first, under one seed: half of them, a quarter, … as long as at least [`LEAST`]
//! are included, because fewer permit no signed-rank bound at an early look's share of alpha. Then
//! the seeds on all data sets are doubled. The looks are fixed before any data are seen. So each
//! look may spend the value of the spending function at its share of the cells (data sets x seeds),
//! minus what was spent before. By the union bound the probability of ever erring is at most alpha
//! for any bound that keeps its level at each look.

use super::spending::Spending;

/// Minimum number of units in a look other than the last.
pub const LEAST: usize = 8;

/// A look: the data available by then.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Round {
    /// The number of units, counted from the first.
    pub units: usize,
    /// The number of seeds per unit, counted from the first.
    pub seeds: usize,
    /// Share of all units x seeds.
    pub fraction: f64,
}

/// The looks for this number of units and seeds; the last look includes all of them. Empty without
/// units or seeds.
pub fn rounds(units: usize, seeds: usize) -> Vec<Round> {
    if units == 0 || seeds == 0 {
        return Vec::new();
    }
    let mut widths = vec![units];
    while let Some(half) = widths
        .last()
        .map(|width| width.div_ceil(2))
        .filter(|half| *half >= LEAST)
    {
        widths.push(half);
    }
    let mut looks: Vec<(usize, usize)> = widths.into_iter().rev().map(|width| (width, 1)).collect();
    let mut depth = 1;
    while depth < seeds {
        depth = (depth * 2).min(seeds);
        looks.push((units, depth));
    }
    let whole = (units * seeds) as f64;
    looks
        .into_iter()
        .map(|(units, seeds)| Round {
            units,
            seeds,
            fraction: (units * seeds) as f64 / whole,
        })
        .collect()
}

/// The share of each look; the shares add up to `alpha`.
pub fn shares(rounds: &[Round], spending: Spending, alpha: f64) -> Vec<f64> {
    let mut before = 0.0;
    rounds
        .iter()
        .map(|round| {
            let spent = spending.spent(alpha, round.fraction);
            let share = spent - before;
            before = spent;
            share
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(units: usize, seeds: usize) -> Vec<(usize, usize)> {
        rounds(units, seeds)
            .iter()
            .map(|round| (round.units, round.seeds))
            .collect()
    }

    #[test]
    fn data_sets_are_doubled_under_one_seed_and_then_seeds() {
        assert_eq!(looks(4, 3), [(4, 1), (4, 2), (4, 3)]);
        assert_eq!(looks(15, 1), [(8, 1), (15, 1)]);
        assert_eq!(looks(32, 5), [(8, 1), (16, 1), (32, 1), (32, 2), (32, 4), (32, 5)]);
        assert_eq!(looks(1, 1), [(1, 1)]);
        assert!(looks(0, 3).is_empty());
    }

    #[test]
    fn the_looks_share_alpha_out_completely() {
        for spending in [Spending::Pocock, Spending::OBrienFleming] {
            let rounds = rounds(32, 3);
            let shares = shares(&rounds, spending, 0.05);
            assert!(shares.iter().all(|share| *share > 0.0));
            assert!((shares.iter().sum::<f64>() - 0.05).abs() < 1e-12);
            assert!(rounds.last().is_some_and(|round| round.fraction == 1.0));
        }
        // Pocock at 1/3 of the cells: 0.05 ln(1 + (e − 1)/3) = 0.0226.
        let first = shares(&rounds(4, 3), Spending::Pocock, 0.05)[0];
        assert!((first - 0.022_6).abs() < 5e-5, "{first}");
    }
}
