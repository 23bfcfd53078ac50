//! Cross-lingual semantic discrimination (CLSD): is the translation nearer than texts that only
//! resemble it?
//!
//! Source: the CLSD paper (Michail, Clematide and Sennrich, 2025), sections 3.1 (P@1) and 3.3
//! (one-word changes).

use super::similarity::{self, norm};
use crate::stats::{StatsError, pearson, sample_sd, spearman};

/// Whether the target is nearer to its source than every distractor, by cosine. A tie is a failure:
/// the definition requires strictly nearer.
pub fn target_is_nearest<'a>(source: &[f32], target: &[f32], mut distractors: impl Iterator<Item = &'a [f32]>) -> bool {
    let reached = similarity::cosine_of_units(source, target);
    distractors.all(|distractor| reached > similarity::cosine_of_units(source, distractor))
}

/// Mean cosine of parallel pairs minus the mean cosine of unrelated ones (every source with every
/// other row's target). It is the unit of changes. Both means need two rows; 0 for fewer.
pub fn parallel_gap<'a>(
    sources: impl ExactSizeIterator<Item = &'a [f32]>,
    targets: impl Iterator<Item = &'a [f32]>,
) -> f64 {
    let rows = sources.len();
    if rows < 2 {
        return 0.0;
    }
    // Σᵢⱼ sᵢ·tⱼ is one dot product of two sums, so the mean over all pairs costs no more than the
    // mean over the rows.
    let (mut all_sources, mut all_targets, mut parallel) = (Vec::new(), Vec::new(), 0.0);
    for (source, target) in sources.zip(targets) {
        all_sources.resize(source.len(), 0.0);
        all_targets.resize(target.len(), 0.0);
        let (s, t) = (f64::from(norm(source).max(1e-12)), f64::from(norm(target).max(1e-12)));
        for (i, (x, y)) in source.iter().zip(target).enumerate() {
            let (x, y) = (f64::from(*x) / s, f64::from(*y) / t);
            all_sources[i] += x;
            all_targets[i] += y;
            parallel += x * y;
        }
    }
    let all: f64 = all_sources.iter().zip(&all_targets).map(|(x, y)| x * y).sum();
    let unrelated = (all - parallel) / (rows * (rows - 1)) as f64;
    parallel / rows as f64 - unrelated
}

/// How far a one-word change moves a distractor away, in units of [`parallel_gap`]; negative: away
/// from the source.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// ((1 − cos(S, T)) − (1 − cos(S, d))) / gap.
    pub cross: f64,
    /// The same with T in place of S: how far the change moves within the target's language.
    pub mono: f64,
}

/// The change from a target to a distractor.
pub fn change(source: &[f32], target: &[f32], distractor: &[f32], gap: f64) -> Change {
    let cosine = |x, y| f64::from(similarity::cosine_of_units(x, y));
    Change {
        cross: (cosine(source, distractor) - cosine(source, target)) / gap,
        mono: (cosine(target, distractor) - cosine(target, target)) / gap,
    }
}

/// Summary of the changes of a group: all changes, or those of one part of speech.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Group {
    pub pairs: usize,
    /// Mean cross-lingual change.
    pub cross_mean: f64,
    /// Its sample standard deviation; `None` for one pair.
    pub cross_sd: Option<f64>,
    /// Mean monolingual change.
    pub mono_mean: f64,
    /// Pearson's r of the two; `None` if it is undefined.
    pub pearson: Option<f64>,
    /// Spearman's rho of the two; `None` if it is undefined.
    pub spearman: Option<f64>,
}

/// Summarises changes; `None` if there are none.
pub fn group(changes: &[Change]) -> Option<Group> {
    let cross: Vec<f64> = changes.iter().map(|c| c.cross).collect();
    let mono: Vec<f64> = changes.iter().map(|c| c.mono).collect();
    let known = |r: Result<f64, StatsError>| r.ok();
    Some(Group {
        pairs: changes.len(),
        cross_mean: crate::stats::mean(&cross)?,
        cross_sd: sample_sd(&cross),
        mono_mean: crate::stats::mean(&mono)?,
        pearson: known(pearson(&cross, &mono)),
        spearman: known(spearman(&cross, &mono)),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_distractor_as_near_as_the_target_is_a_failure() {
        let (source, target) = ([1.0, 0.0], [1.0, 1.0]);
        let nearest = |distractor: [f32; 2]| target_is_nearest(&source, &target, [&distractor[..]].into_iter());
        assert!(nearest([0.0, 1.0]));
        assert!(!nearest([2.0, 2.0]));
        assert!(!nearest([1.0, 0.5]));
    }

    #[test]
    fn the_gap_is_that_of_the_double_loop() {
        let sources = [[1.0_f32, 0.2, 0.0], [0.0, 1.0, 0.5], [0.3, -1.0, 2.0]];
        let targets = [[0.9_f32, 0.1, 0.3], [0.1, 0.8, 0.1], [0.0, 0.4, 1.0]];
        let (mut parallel, mut unrelated) = (0.0, 0.0);
        for (i, s) in sources.iter().enumerate() {
            for (j, t) in targets.iter().enumerate() {
                let cosine = f64::from(similarity::cosine_of_units(s, t));
                if i == j {
                    parallel += cosine / 3.0
                } else {
                    unrelated += cosine / 6.0
                }
            }
        }
        let gap = parallel_gap(sources.iter().map(|s| &s[..]), targets.iter().map(|t| &t[..]));
        assert!((gap - (parallel - unrelated)).abs() < 1e-6);
    }

    #[test]
    fn a_change_away_from_the_source_is_negative_in_both_forms() {
        let change = change(&[1.0, 0.0], &[1.0, 0.1], &[0.0, 1.0], 0.5);
        assert!(change.cross < -1.0 && change.mono < -1.0);
        let group = group(&[change, change]).unwrap();
        assert_eq!((group.pairs, group.pearson), (2, None));
    }
}
