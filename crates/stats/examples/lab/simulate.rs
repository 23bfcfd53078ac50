//! Error rates and savings of sequential checks, by simulation.

use isomer_stats::{
    StatsError,
    gate::{
        Limit, Verdict,
        betting::{BettingTest, Items},
        non_inferiority::{Comparison, non_inferiority},
        rule::{Basis, Rule, decide},
        schedule::{rounds, shares},
        spending::{SequentialRule, Spending},
    },
    random::{normal, stream, uniform},
};
use rayon::prelude::*;

/// Results of many simulated gates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct GateShares {
    pub(crate) gates: usize,
    /// Share that passed.
    pub(crate) passed: f64,
    /// Share that failed.
    pub(crate) failed: f64,
    /// Share that stayed undecided.
    pub(crate) undecided: f64,
    /// Mean share of the full run's items that were drawn.
    pub(crate) drawn: f64,
}

/// Items of a simulated data set: paired differences of per-item scores in [−1, 1].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ItemLaw {
    /// −1, 0 or 1: a right answer lost with chance `lost`, won with chance `won`.
    Answers {
        /// Chance of −1.
        lost: f64,
        /// Chance of 1.
        won: f64,
    },
    /// Uniform between the two.
    Uniform {
        /// Lower end.
        from: f64,
        /// Upper end.
        to: f64,
    },
}

impl ItemLaw {
    pub(crate) fn mean(&self) -> f64 {
        match self {
            Self::Answers { lost, won } => won - lost,
            Self::Uniform { from, to } => (from + to) / 2.0,
        }
    }

    fn draw(&self, u: f64) -> f64 {
        match self {
            Self::Answers { lost, .. } if u < *lost => -1.0,
            Self::Answers { lost, won } if u < lost + won => 1.0,
            Self::Answers { .. } => 0.0,
            Self::Uniform { from, to } => from + (to - from) * u,
        }
    }
}

/// Simulates betting gates: `gates` times up to `items` independent items of a law, against a
/// floor.
///
/// # Errors
/// As [`BettingTest::new`].
pub(crate) fn simulate_betting(
    law: ItemLaw,
    floor: f64,
    alpha: f64,
    items: usize,
    gates: usize,
    seed: u64,
) -> Result<GateShares, StatsError> {
    let start = BettingTest::new(
        Items {
            range: (-1.0, 1.0),
            population: None,
        },
        Limit::at_least(floor),
        alpha,
    )?;
    let outcomes: Result<Vec<(Verdict, f64)>, StatsError> = (0..gates)
        .into_par_iter()
        .map(|gate| {
            let mut rng = stream(seed, gate);
            let mut test = start.clone();
            while test.seen() < items && test.verdict() == Verdict::Undecided {
                test.push(law.draw(uniform(&mut rng)))?;
            }
            Ok((test.verdict(), test.seen() as f64 / items as f64))
        })
        .collect();
    outcomes.map(summed)
}

/// A simulated run in rounds: units (data sets) whose true differences are normal, seeds with noise
/// around them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RoundsLaw {
    /// Mean difference.
    pub(crate) mean: f64,
    /// Standard deviation between units.
    pub(crate) sd_between: f64,
    /// Standard deviation over seeds.
    pub(crate) sd_seeds: f64,
    /// Seeds a unit.
    pub(crate) seeds: usize,
    pub(crate) units_a_round: usize,
    /// Rounds planned.
    pub(crate) rounds: usize,
}

/// Simulates gates that look after every round.
///
/// # Errors
/// As [`SequentialRule::look`].
pub(crate) fn simulate_rounds(
    law: RoundsLaw,
    floor: f64,
    basis: Basis,
    alpha: f64,
    spending: Spending,
    gates: usize,
    seed: u64,
) -> Result<GateShares, StatsError> {
    let rule = Rule {
        limit: Limit::at_least(floor),
        basis,
        alpha,
    };
    let start = SequentialRule::new(rule, spending)?;
    let outcomes: Result<Vec<(Verdict, f64)>, StatsError> = (0..gates)
        .into_par_iter()
        .map(|gate| {
            let mut rng = stream(seed, gate);
            let mut test = start.clone();
            let mut observations: Vec<Vec<f64>> = Vec::with_capacity(law.rounds * law.units_a_round);
            let mut fraction = 0.0;
            for round in 1..=law.rounds {
                for _ in 0..law.units_a_round {
                    let unit = law.mean + law.sd_between * normal(&mut rng);
                    observations.push((0..law.seeds).map(|_| unit + law.sd_seeds * normal(&mut rng)).collect());
                }
                fraction = round as f64 / law.rounds as f64;
                if test.look(fraction, &observations)?.verdict != Verdict::Undecided {
                    break;
                }
            }
            Ok((test.verdict(), fraction))
        })
        .collect();
    outcomes.map(summed)
}

/// A simulated run over data sets and seeds as [`rounds`] lays them out: true differences are
/// normal, seeds scatter around them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ScheduleLaw {
    /// Mean difference.
    pub(crate) mean: f64,
    /// Standard deviation between units.
    pub(crate) sd_between: f64,
    /// Standard deviation over seeds.
    pub(crate) sd_seeds: f64,
    /// Units of the full run.
    pub(crate) units: usize,
    /// Seeds of the full run.
    pub(crate) seeds: usize,
}

impl ScheduleLaw {
    fn draw(&self, rng: &mut rand_chacha::ChaCha8Rng) -> Vec<Vec<f64>> {
        let mut unit = || {
            let own = self.mean + self.sd_between * normal(rng);
            (0..self.seeds).map(|_| own + self.sd_seeds * normal(rng)).collect()
        };
        (0..self.units).map(|_| unit()).collect()
    }
}

/// The first units under the first seeds.
fn part(all: &[Vec<f64>], units: usize, seeds: usize) -> Vec<Vec<f64>> {
    all[..units].iter().map(|unit| unit[..seeds].to_vec()).collect()
}

/// Simulates gates of one rule, looked at after each round until it is decided.
///
/// # Errors
/// As [`decide`].
pub(crate) fn simulate_schedule(
    law: ScheduleLaw,
    floor: f64,
    basis: Basis,
    alpha: f64,
    spending: Spending,
    gates: usize,
    seed: u64,
) -> Result<GateShares, StatsError> {
    let looks = rounds(law.units, law.seeds);
    let shares = shares(&looks, spending, alpha);
    let limit = Limit::at_least(floor);
    let outcomes: Result<Vec<(Verdict, f64)>, StatsError> = (0..gates)
        .into_par_iter()
        .map(|gate| {
            let all = law.draw(&mut stream(seed, gate));
            let mut outcome = (Verdict::Undecided, 0.0);
            for (look, alpha) in looks.iter().zip(&shares) {
                let rule = Rule {
                    limit,
                    basis,
                    alpha: *alpha,
                };
                outcome = (
                    decide(&rule, &part(&all, look.units, look.seeds))?.verdict,
                    look.fraction,
                );
                if outcome.0 != Verdict::Undecided {
                    break;
                }
            }
            Ok(outcome)
        })
        .collect();
    outcomes.map(summed)
}

/// Simulates gates of several comparisons with a baseline (each of the law, independent of the
/// others), Holm at each look, until all are decided. A gate counts as passed where **any**
/// comparison passed, and as failed where none passed and any failed: at the boundary `passed` is
/// the family-wise error rate.
///
/// # Errors
/// As [`non_inferiority`].
pub(crate) fn simulate_margins(
    law: ScheduleLaw,
    margin: f64,
    comparisons: usize,
    alpha: f64,
    spending: Spending,
    gates: usize,
    seed: u64,
) -> Result<GateShares, StatsError> {
    let looks = rounds(law.units, law.seeds);
    let shares = shares(&looks, spending, alpha);
    let outcomes: Result<Vec<(Verdict, f64)>, StatsError> = (0..gates)
        .into_par_iter()
        .map(|gate| {
            let mut rng = stream(seed, gate);
            let all: Vec<Vec<Vec<f64>>> = (0..comparisons).map(|_| law.draw(&mut rng)).collect();
            let mut verdicts = vec![Verdict::Undecided; comparisons];
            let mut drawn = 0.0;
            for (look, alpha) in looks.iter().zip(&shares) {
                drawn = look.fraction;
                let family: Vec<Comparison> = all
                    .iter()
                    .map(|own| Comparison {
                        differences: part(own, look.units, look.seeds)
                            .iter()
                            .map(|seeds| seeds.iter().sum::<f64>() / seeds.len() as f64)
                            .collect(),
                        margin,
                    })
                    .collect();
                for (verdict, found) in verdicts.iter_mut().zip(non_inferiority(&family, *alpha)?) {
                    if *verdict == Verdict::Undecided {
                        *verdict = found.verdict;
                    }
                }
                if !verdicts.contains(&Verdict::Undecided) {
                    break;
                }
            }
            let any = |wanted| verdicts.contains(&wanted);
            let outcome = match (any(Verdict::Pass), any(Verdict::Fail)) {
                (true, _) => Verdict::Pass,
                (false, true) => Verdict::Fail,
                (false, false) => Verdict::Undecided,
            };
            Ok((outcome, drawn))
        })
        .collect();
    outcomes.map(summed)
}

fn summed(outcomes: Vec<(Verdict, f64)>) -> GateShares {
    let gates = outcomes.len();
    let share = |wanted| outcomes.iter().filter(|(verdict, _)| *verdict == wanted).count() as f64 / gates as f64;
    GateShares {
        gates,
        passed: share(Verdict::Pass),
        failed: share(Verdict::Fail),
        undecided: share(Verdict::Undecided),
        drawn: outcomes.iter().map(|(_, drawn)| drawn).sum::<f64>() / gates as f64,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn at_the_boundary_no_more_than_alpha_of_two_thousand_gates_pass_or_fail() {
        let at_the_limit = ItemLaw::Answers { lost: 0.12, won: 0.1 };
        let found = simulate_betting(at_the_limit, -0.02, 0.05, 1_000, 2_000, 1337).unwrap();
        assert!(found.passed <= 0.05 && found.failed <= 0.05, "{found:?}");
        assert!(
            found.passed > 0.0,
            "a test that never errs at its boundary spends nothing: {found:?}"
        );
    }

    #[test]
    fn rounds_at_the_boundary_keep_their_level_with_either_bound() {
        let law = RoundsLaw {
            mean: -2.0,
            sd_between: 1.5,
            sd_seeds: 0.5,
            seeds: 3,
            units_a_round: 6,
            rounds: 4,
        };
        for basis in [Basis::StudentMean, Basis::SignedRank] {
            let found = simulate_rounds(law, -2.0, basis, 0.05, Spending::OBrienFleming, 2_000, 1337).unwrap();
            assert!(
                found.passed <= 0.05 + 0.01 && found.failed <= 0.05 + 0.01,
                "{basis:?} {found:?}"
            );
        }
    }

    /// Schedule of a gate's run: 16 data sets, 3 seeds.
    fn schedule(mean: f64) -> ScheduleLaw {
        ScheduleLaw {
            mean,
            sd_between: 1.5,
            sd_seeds: 0.5,
            units: 16,
            seeds: 3,
        }
    }

    #[test]
    fn the_runs_own_rounds_keep_their_level_at_the_boundary() {
        for spending in [Spending::Pocock, Spending::OBrienFleming] {
            let law = schedule(-2.0);
            let found = simulate_schedule(law, -2.0, Basis::SignedRank, 0.05, spending, 2_000, 1337).unwrap();
            assert!(found.passed <= 0.05 && found.failed <= 0.05, "{spending:?} {found:?}");
            assert!(found.passed > 0.005, "{found:?}");
        }
        let any = simulate_margins(schedule(-2.0), 2.0, 4, 0.05, Spending::Pocock, 2_000, 1337).unwrap();
        assert!(any.passed <= 0.05 && any.passed > 0.0, "{any:?}");
    }

    #[test]
    fn the_runs_own_rounds_save_most_of_a_clear_case() {
        let pass = simulate_schedule(schedule(2.0), -2.0, Basis::SignedRank, 0.05, Spending::Pocock, 500, 7).unwrap();
        assert!(pass.passed > 0.99 && pass.drawn < 0.25, "{pass:?}");
    }

    #[test]
    fn a_clear_case_costs_a_fraction_of_the_full_run() {
        let found = simulate_betting(ItemLaw::Uniform { from: -0.1, to: 0.1 }, -0.2, 0.05, 1_000, 500, 7).unwrap();
        assert_eq!(found.passed, 1.0);
        assert!(found.drawn < 0.1, "{found:?}");
        let broken = simulate_betting(ItemLaw::Uniform { from: -0.5, to: -0.1 }, -0.1, 0.05, 1_000, 500, 7).unwrap();
        assert_eq!(broken.failed, 1.0);
        assert!(broken.drawn < 0.2, "{broken:?}");
    }
}
