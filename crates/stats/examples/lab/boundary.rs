//! Error rates of bounds if the truth lies exactly at the limit, and how often they decide
//! elsewhere, by simulation.
//!
//! The limit is the law's mean, taken as the largest allowed drop: every pass is a false pass,
//! every fail a false failure.

use isomer_stats::{
    Alternative, Method, StatsError, WilcoxonOptions,
    gate::{
        Limit, Verdict,
        betting::{BettingTest, Items},
        bounded::{Range, p_at_least, p_at_most},
        items::{Cluster, Evidence, Stratum, decide_items},
    },
    mean, quantile,
    random::{below, stream},
    sample_sd,
    special::{normal_cdf, normal_quantile, student_quantile},
    wilcoxon_interval, wilcoxon_with,
};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

/// Bounds to compare. Four of them are bases of a rule; the rest were candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Candidate {
    /// [`isomer_stats::gate::rule::Basis::SignedRank`].
    SignedRank,
    /// [`isomer_stats::gate::rule::Basis::StudentMean`].
    Student,
    /// Student's t after Johnson's correction for skewness (N. J. Johnson 1978).
    Johnson,
    /// Hall's monotone cubic transformation of t (P. Hall 1992).
    Hall,
    /// [`isomer_stats::gate::rule::Basis::BootstrapMean`].
    Percentile,
    /// Percentile bounds, accelerated and corrected for bias.
    Bca,
    /// [`isomer_stats::gate::rule::Basis::StudentisedBootstrap`].
    Studentised,
    /// Betting ([`BettingTest`]), read after the last value.
    Betting,
    /// [`isomer_stats::gate::rule::Basis::Bounded`].
    Bounded,
}

impl Candidate {
    /// All of them.
    pub(crate) const ALL: [Self; 9] = [
        Self::SignedRank,
        Self::Student,
        Self::Johnson,
        Self::Hall,
        Self::Percentile,
        Self::Bca,
        Self::Studentised,
        Self::Betting,
        Self::Bounded,
    ];

    /// Its name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::SignedRank => "signed-rank",
            Self::Student => "Student",
            Self::Johnson => "Johnson",
            Self::Hall => "Hall",
            Self::Percentile => "percentile",
            Self::Bca => "BCa",
            Self::Studentised => "studentised",
            Self::Betting => "betting",
            Self::Bounded => "bounded",
        }
    }
}

/// The results of one candidate's gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) candidate: Candidate,
    /// Gates that passed.
    pub(crate) passed: usize,
    /// Gates that failed.
    pub(crate) failed: usize,
}

/// How a cell of the table is simulated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Settings {
    /// The most that the mean may be.
    pub(crate) limit: f64,
    pub(crate) range: Range,
    /// Chance of error on each side.
    pub(crate) alpha: f64,
    pub(crate) gates: usize,
    /// Resamples of a bootstrap.
    pub(crate) resamples: usize,
    pub(crate) seed: u64,
}

/// Simulates gates: each draws a sample and asks every candidate.
///
/// # Errors
/// If a candidate refuses the sample, e.g. for values outside the range.
pub(crate) fn simulate(
    candidates: &[Candidate],
    settings: &Settings,
    draw: impl Fn(&mut ChaCha8Rng) -> Vec<f64> + Sync,
) -> Result<Vec<Count>, StatsError> {
    let outcomes: Result<Vec<Vec<Verdict>>, StatsError> = (0..settings.gates)
        .into_par_iter()
        .map(|gate| {
            let mut rng = stream(settings.seed, gate);
            let values = draw(&mut rng);
            let own = Sample::of(&values, candidates, settings, &mut rng);
            candidates.iter().map(|one| own.verdict(*one, settings)).collect()
        })
        .collect();
    let outcomes = outcomes?;
    let count = |at: usize, wanted| outcomes.iter().filter(|verdicts| verdicts[at] == wanted).count();
    Ok(candidates
        .iter()
        .enumerate()
        .map(|(at, &candidate)| Count {
            candidate,
            passed: count(at, Verdict::Pass),
            failed: count(at, Verdict::Fail),
        })
        .collect())
}

/// Simulates gates on clusters of items, by [`decide_items`]: how many passed and
/// failed.
///
/// # Errors
/// As [`decide_items`].
pub(crate) fn simulate_clusters(
    settings: &Settings,
    draw: impl Fn(&mut ChaCha8Rng) -> Vec<Cluster> + Sync,
) -> Result<(usize, usize), StatsError> {
    let verdicts: Result<Vec<Verdict>, StatsError> = (0..settings.gates)
        .into_par_iter()
        .map(|gate| {
            let stratum = Stratum {
                weight: 1.0,
                evidence: Evidence::Items {
                    clusters: draw(&mut stream(settings.seed, gate)),
                    range: settings.range,
                },
            };
            decide_items(Limit::at_most(settings.limit), settings.alpha, &[stratum]).map(|found| found.verdict)
        })
        .collect();
    let verdicts = verdicts?;
    let count = |wanted| verdicts.iter().filter(|verdict| **verdict == wanted).count();
    Ok((count(Verdict::Pass), count(Verdict::Fail)))
}

struct Sample<'a> {
    values: &'a [f64],
    centre: f64,
    spread: f64,
    /// Third moment about the mean, over the spread's cube.
    skewness: f64,
    /// Means of resamples less the mean, ascending.
    means: Vec<f64>,
    /// Their quotients, ascending.
    quotients: Vec<f64>,
}

impl<'a> Sample<'a> {
    fn of(values: &'a [f64], candidates: &[Candidate], settings: &Settings, rng: &mut ChaCha8Rng) -> Self {
        let n = values.len();
        let centre = mean(values).unwrap_or(f64::NAN);
        let spread = sample_sd(values).unwrap_or(0.0);
        let third = values.iter().map(|v| (v - centre).powi(3)).sum::<f64>() / n as f64;
        let resampled = [Candidate::Percentile, Candidate::Bca, Candidate::Studentised];
        let resamples = if candidates.iter().any(|one| resampled.contains(one)) {
            settings.resamples
        } else {
            0
        };
        let (mut means, mut quotients) = (Vec::with_capacity(resamples), Vec::with_capacity(resamples));
        for _ in 0..resamples {
            let (mut sum, mut squares) = (0.0, 0.0);
            for _ in 0..n {
                let v = values[below(rng, n)] - centre;
                sum += v;
                squares += v * v;
            }
            let own = sum / n as f64;
            let variance = (squares - sum * own) / (n - 1) as f64;
            means.push(own);
            quotients.push(if variance > 1e-12 * spread * spread {
                own / (variance / n as f64).sqrt()
            } else if own.abs() > 1e-12 * spread {
                f64::INFINITY.copysign(own)
            } else {
                0.0
            });
        }
        means.sort_unstable_by(f64::total_cmp);
        quotients.sort_unstable_by(f64::total_cmp);
        Self {
            values,
            centre,
            spread,
            skewness: third / spread.powi(3),
            means,
            quotients,
        }
    }

    fn verdict(&self, candidate: Candidate, settings: &Settings) -> Result<Verdict, StatsError> {
        let limit = Limit::at_most(settings.limit);
        let tests = |beyond: f64, within: f64| {
            if beyond <= settings.alpha {
                Verdict::Pass
            } else if within <= settings.alpha {
                Verdict::Fail
            } else {
                Verdict::Undecided
            }
        };
        let (low, high) = match candidate {
            Candidate::Bounded => {
                return Ok(tests(
                    p_at_least(self.values, settings.range.high, settings.limit)?,
                    p_at_most(self.values, settings.range.low, settings.limit)?,
                ));
            }
            Candidate::Betting => {
                let items = Items {
                    range: (settings.range.low, settings.range.high),
                    population: None,
                };
                let mut test = BettingTest::new(items, limit, settings.alpha)?;
                for value in self.values {
                    test.push(*value)?;
                }
                return Ok(test.verdict());
            }
            Candidate::SignedRank if self.values.len() > 50 => {
                let moved: Vec<f64> = self.values.iter().map(|v| v - settings.limit).collect();
                let p = |alternative| {
                    let options = WilcoxonOptions {
                        alternative,
                        method: Method::Normal,
                        ..WilcoxonOptions::default()
                    };
                    wilcoxon_with(&moved, &options).map(|test| test.p_value)
                };
                return Ok(tests(p(Alternative::Less)?, p(Alternative::Greater)?));
            }
            Candidate::SignedRank => {
                let level = 1.0 - 2.0 * settings.alpha;
                match wilcoxon_interval(self.values, level, Alternative::TwoSided) {
                    Ok(interval) => (interval.low, interval.high),
                    Err(StatsError::LevelUnreachable { .. }) => return Ok(Verdict::Undecided),
                    Err(other) => return Err(other),
                }
            }
            // Equal values say nothing about the spread.
            _ if self.spread == 0.0 => return Ok(Verdict::Undecided),
            _ => self.bounds(candidate, settings.alpha),
        };
        Ok(limit.verdict(low, high))
    }

    fn bounds(&self, candidate: Candidate, alpha: f64) -> (f64, f64) {
        let n = self.values.len() as f64;
        let error = self.spread / n.sqrt();
        let t = student_quantile(1.0 - alpha, n - 1.0);
        match candidate {
            Candidate::Johnson => {
                let centre = self.centre + self.skewness * self.spread / (6.0 * n);
                (centre - t * error, centre + t * error)
            }
            Candidate::Hall => {
                let g = self.skewness;
                // The inverse of w + g w² / 3 + g² w³ / 27 + g / (6 n).
                let inverse = |y: f64| {
                    let y = y - g / (6.0 * n);
                    if g.abs() < 1e-9 {
                        y
                    } else {
                        3.0 / g * ((1.0 + g * y).cbrt() - 1.0)
                    }
                };
                let y = t / n.sqrt();
                (
                    self.centre - self.spread * inverse(y),
                    self.centre - self.spread * inverse(-y),
                )
            }
            Candidate::Percentile => self.percentiles(alpha, 1.0 - alpha),
            Candidate::Bca => {
                let below = self.means.partition_point(|m| *m < 0.0) + self.means.partition_point(|m| *m <= 0.0);
                let bias = normal_quantile(below as f64 / (2.0 * self.means.len() as f64));
                // Leave-one-out means: the acceleration is the skewness over 6 √n.
                let scale = (n / (n - 1.0)).powf(1.5);
                let acceleration = self.skewness * scale / (6.0 * n.sqrt());
                let moved = |z: f64| normal_cdf(bias + (bias + z) / (1.0 - acceleration * (bias + z)));
                let z = normal_quantile(alpha);
                self.percentiles(moved(z), moved(-z))
            }
            Candidate::Studentised => {
                let resamples = self.quotients.len();
                let rank = (((resamples + 1) as f64 * alpha + 1e-9).floor() as usize).max(1);
                (
                    self.centre - self.quotients[resamples - rank] * error,
                    self.centre - self.quotients[rank - 1] * error,
                )
            }
            _ => (self.centre - t * error, self.centre + t * error),
        }
    }

    fn percentiles(&self, from: f64, to: f64) -> (f64, f64) {
        let end = |q| quantile(&self.means, q).map_or(f64::NAN, |m| self.centre + m);
        (end(from), end(to))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use isomer_stats::gate::rule::{Basis, Rule, decide};

    use super::{
        super::laws::{self, Law, Shape},
        *,
    };

    fn settings(law: &Law, gates: usize) -> Settings {
        Settings {
            limit: law.mean(),
            range: law.range,
            alpha: 0.05,
            gates,
            resamples: 999,
            seed: 1337,
        }
    }

    #[test]
    fn what_is_simulated_is_what_a_rule_decides() {
        let bases = [
            (Candidate::SignedRank, Basis::SignedRank),
            (Candidate::Student, Basis::StudentMean),
            (Candidate::Bounded, Basis::Bounded(laws::UNITS)),
        ];
        let mut decided = 0;
        for law in laws::of_units() {
            // The mean of a law is integrated, which takes long.
            let settings = settings(&law, 1);
            for gate in 0..40 {
                let values: Vec<f64> = (0..12).map(|_| law.draw(&mut stream(gate, 3))).collect();
                let mut rng = stream(gate, 5);
                let values: Vec<f64> = values.iter().map(|v| v + law.draw(&mut rng) / 4.0).collect();
                let own = Sample::of(&values, &[], &settings, &mut rng);
                for (candidate, basis) in bases {
                    let rule = Rule {
                        limit: Limit::at_most(settings.limit),
                        basis,
                        alpha: 0.05,
                    };
                    let units: Vec<Vec<f64>> = values.iter().map(|v| vec![*v]).collect();
                    let Ok(found) = decide(&rule, &units) else { continue };
                    assert_eq!(
                        own.verdict(candidate, &settings).unwrap(),
                        found.verdict,
                        "{candidate:?} {law:?}"
                    );
                    decided += usize::from(found.verdict != Verdict::Undecided);
                }
            }
        }
        assert!(decided > 100, "{decided}");
    }

    #[test]
    fn under_a_normal_law_every_candidate_is_near_its_level() {
        let law = Law::of_units("normal", Shape::Normal { mean: 3.0, sd: 3.0 });
        let found = simulate(&Candidate::ALL, &settings(&law, 2_000), |rng| {
            (0..20).map(|_| law.draw(rng)).collect()
        })
        .unwrap();
        for one in found {
            // Bounds that know nothing but the range decide less.
            let least = if matches!(one.candidate, Candidate::Bounded | Candidate::Betting) {
                0
            } else {
                60
            };
            for count in [one.passed, one.failed] {
                assert!(count >= least && count <= 150, "{one:?}");
            }
        }
    }
}
