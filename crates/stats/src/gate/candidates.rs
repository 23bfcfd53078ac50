//! One rule, or gate, for several encoders.
//!
//! A gate limits the probability of a false pass for *one* encoder. Among E encoders that are all
//! at a limit, the probability that any of them passes is up to E · alpha. Holm's steps also limit
//! that probability to alpha: an encoder passes if it passes at alpha / E. Once the first has
//! passed, the next is tested at alpha / (E − 1), and so on. An encoder with several rules passes a
//! level if all its rules do.

use crate::{StatsError, error::probability};

/// An encoder after Holm's steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Whether the encoder passes.
    pub passes: bool,
    /// The level at which it passed, or the level at which it finally failed.
    pub level: f64,
}

/// Holm's steps over encoders: `passes` returns whether an encoder passes at a level. An encoder
/// that passes at a level must pass at every larger one, which holds for bounds and p-values. The
/// same encoders pass as with Holm-adjusted p-values.
///
/// # Errors
/// If `alpha` is outside (0, 1), or `passes` returns an error.
pub fn holm_over_encoders(
    encoders: usize,
    alpha: f64,
    mut passes: impl FnMut(usize, f64) -> Result<bool, StatsError>,
) -> Result<Vec<Step>, StatsError> {
    probability("alpha", alpha)?;
    let mut steps = vec![
        Step {
            passes: false,
            level: alpha,
        };
        encoders
    ];
    let mut left: Vec<usize> = (0..encoders).collect();
    while !left.is_empty() {
        let level = alpha / left.len() as f64;
        let mut kept = Vec::with_capacity(left.len());
        for &encoder in &left {
            let passed = passes(encoder, level)?;
            steps[encoder] = Step { passes: passed, level };
            if !passed {
                kept.push(encoder);
            }
        }
        if kept.len() == left.len() {
            break;
        }
        left = kept;
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{
        gate::bounded::p_at_least,
        holm,
        random::{stream, uniform},
    };

    #[test]
    fn the_same_encoders_pass_as_by_adjusted_p_values() {
        let mut rng = stream(17, 0);
        let mut passed = 0;
        for _ in 0..500 {
            let p: Vec<f64> = (0..6).map(|_| uniform(&mut rng).powi(3)).collect();
            let adjusted = holm(&p);
            let steps = holm_over_encoders(p.len(), 0.05, |e, level| Ok(p[e] <= level)).unwrap();
            for (step, adjusted) in steps.iter().zip(adjusted) {
                assert_eq!(step.passes, adjusted <= 0.05);
                passed += usize::from(step.passes);
            }
        }
        assert!(passed > 300 && passed < 2_700, "{passed}");
    }

    #[test]
    fn the_chance_that_any_of_ten_bad_encoders_passes_stays_at_alpha() {
        // Ten encoders at the limit of 10 points, 150 binary items each.
        let (gates, mut any_without, mut any_with) = (1_000, 0, 0);
        for gate in 0..gates {
            let p: Vec<f64> = (0..10)
                .map(|encoder| {
                    let mut rng = stream(23, 10 * gate + encoder);
                    let values: Vec<f64> = (0..150)
                        .map(|_| if uniform(&mut rng) < 0.1 { 100.0 } else { 0.0 })
                        .collect();
                    p_at_least(&values, 100.0, 10.0).unwrap()
                })
                .collect();
            any_without += usize::from(p.iter().any(|p| *p <= 0.05));
            let steps = holm_over_encoders(10, 0.05, |e, level| Ok(p[e] <= level)).unwrap();
            any_with += usize::from(steps.iter().any(|step| step.passes));
        }
        let share = |count: usize| count as f64 / gates as f64;
        assert!(share(any_without) > 0.2, "{}", share(any_without));
        assert!(share(any_with) < 0.071, "{}", share(any_with));
    }

    #[test]
    fn no_encoders_and_nonsense() {
        assert!(holm_over_encoders(0, 0.05, |_, _| Ok(true)).unwrap().is_empty());
        assert!(holm_over_encoders(1, 0.0, |_, _| Ok(true)).is_err());
    }
}
