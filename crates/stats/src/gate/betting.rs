//! An anytime-valid test of the mean of bounded items, by betting.
//!
//! Two gamblers start with 1 each. Item by item, one bets that the mean lies above the limit, and
//! the other that it lies below. Neither can expect to win if that is false. If a gambler ever
//! holds 1/alpha, the limit is shown to be kept, or broken, with a probability of error of at most
//! alpha **whenever one looks and whenever one stops** (Ville's inequality). Each gambler divides
//! the stake among constant fractions of the largest permitted bet, so the variance of the items
//! need not be known in advance.
//!
//! If items are drawn without replacement from a finite data set, the bets are against the mean of
//! the unseen items that the limit implies. This decides clear cases sooner, and every case at the
//! end.
//!
//! Source: I. Waudby-Smith and A. Ramdas, "Estimating means of bounded random variables by
//! betting", Journal of the Royal Statistical Society B 86 (2024), sections 4 and 5, appendix B
//! (grid Kelly).

use super::{
    Limit, Side, Verdict,
    rule::{Decision, Need},
};
use crate::{
    StatsError,
    error::{level as check_level, probability},
};

/// Maximum number of items that is proposed.
const MOST: usize = 100_000;

/// Fractions of the largest bet, with an equal stake on each.
const FRACTIONS: [f64; 14] = [
    0.005, 0.01, 0.02, 0.035, 0.055, 0.08, 0.115, 0.16, 0.22, 0.3, 0.4, 0.52, 0.68, 0.9,
];

/// The properties of the items.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Items {
    /// Minimum and maximum value of an item: known, not estimated.
    pub range: (f64, f64),
    /// Number of items in the data set, if they are drawn from it in random order without
    /// replacement; `None` for independent draws.
    pub population: Option<usize>,
}

/// A test in progress.
#[derive(Debug, Clone)]
pub struct BettingTest {
    items: Items,
    limit: Limit,
    /// The limit, scaled to the range 0 to 1.
    mean: f64,
    /// Logarithm of 1 / alpha.
    enough: f64,
    above: Gambler,
    below: Gambler,
    seen: usize,
    sum: f64,
    verdict: Verdict,
}

/// Logarithm of the fortune, by fraction.
#[derive(Debug, Clone)]
struct Gambler {
    fortunes: [f64; FRACTIONS.len()],
}

impl Gambler {
    fn new() -> Self {
        Self {
            fortunes: [0.0; FRACTIONS.len()],
        }
    }

    /// Bets that x in [0, 1] has a mean above m in [0, 1): the stake f is lost at x = 0, and
    /// returned unchanged at x = m.
    fn bet(&mut self, x: f64, m: f64) {
        for (fortune, f) in self.fortunes.iter_mut().zip(FRACTIONS) {
            *fortune += if m > 0.0 {
                (f * (x / m - 1.0)).ln_1p()
            } else if x > 0.0 {
                f64::INFINITY
            } else {
                0.0
            };
        }
    }

    /// Logarithm of the total fortune.
    fn fortune(&self) -> f64 {
        let most = self.fortunes.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if most.is_infinite() {
            return most;
        }
        let sum: f64 = self.fortunes.iter().map(|fortune| (fortune - most).exp()).sum();
        most + (sum / FRACTIONS.len() as f64).ln()
    }
}

impl BettingTest {
    /// A test of `limit` with a probability of error of at most `alpha` on each side.
    ///
    /// # Errors
    /// If the range is empty or not finite, the limit is outside it, `alpha` is outside (0, 1), or
    /// the population is empty.
    pub fn new(items: Items, limit: Limit, alpha: f64) -> Result<Self, StatsError> {
        probability("alpha", alpha)?;
        check(&items)?;
        let (low, high) = items.range;
        if !(limit.value > low && limit.value < high) {
            return Err(StatsError::OutOfRange {
                argument: "limit",
                value: limit.value,
                allowed: "strictly within the items' range (a limit at its end needs no test)",
            });
        }
        Ok(Self {
            items,
            limit,
            mean: (limit.value - low) / (high - low),
            enough: -alpha.ln(),
            above: Gambler::new(),
            below: Gambler::new(),
            seen: 0,
            sum: 0.0,
            verdict: Verdict::Undecided,
        })
    }

    /// Adds an item. A verdict is final.
    ///
    /// # Errors
    /// If the item is outside the range, or there are more items than the population has.
    pub fn push(&mut self, item: f64) -> Result<Verdict, StatsError> {
        let (low, high) = self.items.range;
        if !(item >= low && item <= high) {
            return Err(StatsError::OutOfRange {
                argument: "item",
                value: item,
                allowed: "within the items' range",
            });
        }
        let x = (item - low) / (high - low);
        // Mean of the remaining items if the overall mean equalled the limit.
        let m = match self.items.population {
            None => self.mean,
            Some(n) if self.seen >= n => {
                return Err(StatsError::OutOfRange {
                    argument: "items (how many)",
                    value: (self.seen + 1) as f64,
                    allowed: "at most the population",
                });
            }
            Some(n) => (self.mean * n as f64 - self.sum) / (n - self.seen) as f64,
        };
        // Sums are rounded, so the remaining mean counts as impossible only beyond this slack.
        let slack = 1e-9;
        if m < -slack {
            self.decide(true);
        } else if m > 1.0 + slack {
            self.decide(false);
        } else {
            let m = m.clamp(0.0, 1.0);
            let (x_up, x_down) = if m <= slack || m >= 1.0 - slack {
                (m, 1.0 - m)
            } else {
                (x, 1.0 - x)
            };
            self.above.bet(x_up, m);
            self.below.bet(x_down, 1.0 - m);
        }
        self.seen += 1;
        self.sum += x;
        if self.above.fortune() >= self.enough {
            self.decide(true);
        } else if self.below.fortune() >= self.enough {
            self.decide(false);
        }
        if self.items.population == Some(self.seen) && self.verdict == Verdict::Undecided {
            // All items are known, so their mean decides.
            self.verdict = if self.limit.keeps(self.mean_so_far()) {
                Verdict::Pass
            } else {
                Verdict::Fail
            };
        }
        Ok(self.verdict)
    }

    fn decide(&mut self, mean_is_above: bool) {
        if self.verdict == Verdict::Undecided {
            self.verdict = if mean_is_above == (self.limit.side == Side::AtLeast) {
                Verdict::Pass
            } else {
                Verdict::Fail
            };
        }
    }

    fn mean_so_far(&self) -> f64 {
        let (low, high) = self.items.range;
        low + (high - low) * self.sum / self.seen as f64
    }

    /// The verdict so far.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Number of items seen.
    pub fn seen(&self) -> usize {
        self.seen
    }

    /// Mean of the items seen; `None` before the first.
    pub fn estimate(&self) -> Option<f64> {
        (self.seen > 0).then(|| self.mean_so_far())
    }
}

/// The verdict on items in the order of their draw. The bounds hold simultaneously at every number
/// of items, so an early stop does not weaken them.
///
/// # Errors
/// Those of [`BettingTest::new`] and [`BettingTest::push`]; also if there are no items.
pub fn decide_bets(values: &[f64], items: &Items, limit: Limit, alpha: f64) -> Result<Decision, StatsError> {
    let mut test = BettingTest::new(*items, limit, alpha)?;
    for value in values {
        test.push(*value)?;
    }
    let (low, high) = betting_interval(values, items, 1.0 - 2.0 * alpha)?;
    let needed = match test.verdict() {
        Verdict::Undecided => repeated(values, items, limit, alpha)?,
        Verdict::Pass | Verdict::Fail => None,
    };
    Ok(Decision {
        verdict: test.verdict(),
        estimate: values.iter().sum::<f64>() / values.len() as f64,
        low: Some(low),
        high: Some(high),
        units: values.len(),
        need: needed.map(|units| Need {
            units: Some(units),
            seeds: None,
        }),
        note: None,
    })
}

/// Number of further items like these after which the test would decide; `None`: more than
/// [`MOST`].
fn repeated(values: &[f64], items: &Items, limit: Limit, alpha: f64) -> Result<Option<usize>, StatsError> {
    if items.population.is_some() {
        return Ok(None);
    }
    let mut test = BettingTest::new(*items, limit, alpha)?;
    for value in values.iter().cycle().take(MOST) {
        if test.push(*value)? != Verdict::Undecided {
            return Ok(Some(test.seen()));
        }
    }
    Ok(None)
}

/// The minimum number of items with the value `best` that would decide; `None`: more than 100,000,
/// or a limit that no item decides.
pub fn fewest_bets(best: f64, items: &Items, limit: Limit, alpha: f64) -> Option<usize> {
    repeated(&[best], items, limit, alpha).ok().flatten()
}

/// A confidence interval for the mean that holds simultaneously at every number of items (a
/// confidence sequence, read at the last item). It consists of the means that neither gambler, each
/// at (1 − level)/2, ever refuted.
///
/// # Errors
/// Those of [`BettingTest::new`] and [`BettingTest::push`]; also if there are no items or the level
/// is outside (0, 1).
pub fn betting_interval(values: &[f64], items: &Items, level: f64) -> Result<(f64, f64), StatsError> {
    check_level(level)?;
    check(items)?;
    if values.is_empty() {
        return Err(StatsError::TooFew {
            what: "a confidence sequence",
            needed: 1,
            found: 0,
        });
    }
    let alpha = (1.0 - level) / 2.0;
    let refuted = |value: f64, as_too_low: bool| -> Result<bool, StatsError> {
        let mut test = BettingTest::new(*items, Limit::at_least(value), alpha)?;
        for item in values {
            match test.push(*item)? {
                Verdict::Undecided => {}
                verdict => return Ok((verdict == Verdict::Pass) == as_too_low),
            }
        }
        Ok(false)
    };
    let (low, high) = items.range;
    let width = high - low;
    // Refutation is monotone in the mean, so bisection is used, to a millionth of the range.
    let search = |as_too_low: bool| -> Result<f64, StatsError> {
        let (mut inside, mut outside) = if as_too_low { (high, low) } else { (low, high) };
        for _ in 0..24 {
            let middle = 0.5 * (inside + outside);
            if (outside - inside).abs() < 1e-6 * width {
                break;
            }
            if refuted(middle, as_too_low)? {
                outside = middle;
            } else {
                inside = middle;
            }
        }
        Ok(outside)
    };
    Ok((search(true)?, search(false)?))
}

fn check(items: &Items) -> Result<(), StatsError> {
    let (low, high) = items.range;
    if !(low.is_finite() && high.is_finite() && low < high) {
        return Err(StatsError::OutOfRange {
            argument: "range",
            value: high - low,
            allowed: "two finite numbers, the smaller first",
        });
    }
    if items.population == Some(0) {
        return Err(StatsError::TooFew {
            what: "a population",
            needed: 1,
            found: 0,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{
        proportion::clopper_pearson_lower,
        random::{shuffle, stream, uniform},
    };

    const OPEN: Items = Items {
        range: (-1.0, 1.0),
        population: None,
    };

    #[test]
    fn a_clear_case_is_decided_early_and_either_way() {
        for (limit, expected) in [(-0.5, Verdict::Pass), (0.6, Verdict::Fail)] {
            let mut test = BettingTest::new(OPEN, Limit::at_least(limit), 0.05).unwrap();
            let mut items = 0;
            while test.verdict() == Verdict::Undecided {
                test.push(if items % 2 == 0 { 0.1 } else { -0.1 }).unwrap();
                items += 1;
            }
            assert_eq!(test.verdict(), expected);
            assert!(items < 20, "{items}");
        }
    }

    #[test]
    fn an_upper_limit_mirrors_a_lower_one() {
        let (mut floor, mut ceiling) = (
            BettingTest::new(OPEN, Limit::at_least(-0.2), 0.05).unwrap(),
            BettingTest::new(OPEN, Limit::at_most(0.2), 0.05).unwrap(),
        );
        let mut rng = stream(3, 0);
        for _ in 0..300 {
            let x = 0.6 * uniform(&mut rng) - 0.2;
            assert_eq!(floor.push(x).unwrap(), ceiling.push(-x).unwrap());
        }
        assert_eq!(floor.verdict(), Verdict::Pass);
    }

    #[test]
    fn a_finite_data_set_is_decided_at_its_end_at_the_latest_and_rightly_there() {
        for limit in [0.249, 0.251] {
            let items = Items {
                range: (0.0, 1.0),
                population: Some(40),
            };
            let mut data: Vec<f64> = (0..40).map(|i| f64::from(u8::from(i % 4 == 0))).collect();
            shuffle(&mut stream(1, 0), &mut data);
            let mut test = BettingTest::new(items, Limit::at_least(limit), 0.01).unwrap();
            for x in data {
                test.push(x).unwrap();
            }
            assert_eq!(test.verdict(), if limit < 0.25 { Verdict::Pass } else { Verdict::Fail });
            assert!(test.push(0.0).is_err());
        }
    }

    #[test]
    fn what_is_decided_once_stays_decided_on_more_items() {
        let items = Items {
            range: (-100.0, 100.0),
            population: None,
        };
        let limit = Limit::at_most(5.0);
        let fewest = fewest_bets(0.0, &items, limit, 0.05).unwrap();
        assert_eq!(fewest, 112);
        let no_drop = vec![0.0; 400];
        let says = |n: usize| decide_bets(&no_drop[..n], &items, limit, 0.05).unwrap();
        assert_eq!(says(fewest - 1).verdict, Verdict::Undecided);
        assert_eq!(says(fewest - 1).need.unwrap().units, Some(fewest));
        for n in [fewest, fewest + 1, 400] {
            let said = says(n);
            assert_eq!((said.verdict, said.units, said.estimate), (Verdict::Pass, n, 0.0));
            assert!(said.high.unwrap() <= 5.0 && said.low.unwrap() < 0.0, "{said:?}");
        }
        // No data can show that a mean is exactly at its limit, and a limit at the end of the range
        // needs no test.
        assert_eq!(fewest_bets(0.0, &items, Limit::at_most(0.0), 0.05), None);
        assert_eq!(fewest_bets(100.0, &items, Limit::at_least(100.0), 0.05), None);
        assert!(decide_bets(&[], &items, limit, 0.05).is_err());
    }

    #[test]
    fn looking_after_every_round_keeps_the_error() {
        // Answers are lost with a probability equal to the limit, so every pass is false.
        let items = Items {
            range: (-100.0, 100.0),
            population: None,
        };
        let (gates, alpha, mut passed, mut failed) = (2_000, 0.05, 0, 0);
        for gate in 0..gates {
            let mut rng = stream(1337, gate);
            let drops: Vec<f64> = (0..800)
                .map(|_| if uniform(&mut rng) < 0.05 { 100.0 } else { 0.0 })
                .collect();
            let looks = [100, 200, 400, 800].map(|n| decided(&drops[..n], &items, alpha));
            passed += u64::from(looks.contains(&Verdict::Pass));
            failed += u64::from(looks.contains(&Verdict::Fail));
        }
        for wrong in [passed, failed] {
            assert!(wrong > 0_u64, "a test that never decides keeps its error for nothing");
            assert!(
                clopper_pearson_lower(wrong, gates as u64, 0.01) <= alpha,
                "{wrong} of {gates}"
            );
        }
    }

    fn decided(values: &[f64], items: &Items, alpha: f64) -> Verdict {
        let mut test = BettingTest::new(*items, Limit::at_most(5.0), alpha).unwrap();
        for value in values {
            test.push(*value).unwrap();
        }
        test.verdict()
    }

    #[test]
    fn the_interval_closes_around_the_mean() {
        let mut rng = stream(11, 0);
        let values: Vec<f64> = (0..2_000).map(|_| 0.4 * uniform(&mut rng)).collect();
        let (low, high) = betting_interval(&values, &OPEN, 0.95).unwrap();
        assert!(low < 0.2 && high > 0.2 && high - low < 0.05, "{low} {high}");
        let few = betting_interval(&values[..20], &OPEN, 0.95).unwrap();
        assert!(few.1 - few.0 > high - low);
        let whole = Items {
            population: Some(2_000),
            ..OPEN
        };
        let (low, high) = betting_interval(&values, &whole, 0.95).unwrap();
        assert!(high - low < 1e-3, "{low} {high}");
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(BettingTest::new(OPEN, Limit::at_least(1.0), 0.05).is_err());
        assert!(BettingTest::new(OPEN, Limit::at_least(0.0), 1.0).is_err());
        let backwards = Items {
            range: (1.0, 0.0),
            population: None,
        };
        assert!(BettingTest::new(backwards, Limit::at_least(0.5), 0.05).is_err());
        let mut test = BettingTest::new(OPEN, Limit::at_least(0.0), 0.05).unwrap();
        assert!(test.push(1.5).is_err() && test.push(f64::NAN).is_err());
        assert!(betting_interval(&[], &OPEN, 0.95).is_err());
    }
}
