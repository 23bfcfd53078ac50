//! R-Precision.

use crate::{StatsError, error::finite};

/// Share of relevant entries among the R highest scores, where R is the number of relevant entries;
/// in [0, 1]. If equal scores lie across the cut, the result is their expectation over all orders,
/// so that the order of the input does not matter.
///
/// Source: E. M. Voorhees and D. K. Harman, "TREC" (2005), chapter 3; PARTIAL uses it per group of
/// candidates.
///
/// # Errors
/// If series have different lengths, scores are not finite, or nothing is relevant.
pub fn r_precision(scores: &[f64], relevant: &[bool]) -> Result<f64, StatsError> {
    if scores.len() != relevant.len() {
        return Err(StatsError::LengthMismatch {
            left_name: "scores",
            left: scores.len(),
            right_name: "relevant",
            right: relevant.len(),
        });
    }
    finite("scores", scores)?;
    let wanted = relevant.iter().filter(|r| **r).count();
    if wanted == 0 {
        return Err(StatsError::Undefined {
            what: "R-Precision",
            why: "nothing is relevant",
        });
    }
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| (scores[b] + 0.0).total_cmp(&(scores[a] + 0.0)));
    let (mut left, mut found) = (wanted, 0.0);
    for group in order.chunk_by(|&a, &b| scores[a] == scores[b]) {
        let hits = group.iter().filter(|i| relevant[**i]).count() as f64;
        let taken = left.min(group.len());
        found += hits * taken as f64 / group.len() as f64;
        left -= taken;
        if left == 0 {
            break;
        }
    }
    Ok(found / wanted as f64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn two_relevant_ones_are_looked_for_among_the_first_two() {
        let relevant = [true, false, true, false];
        assert_eq!(r_precision(&[0.9, 0.1, 0.8, 0.2], &relevant), Ok(1.0));
        assert_eq!(r_precision(&[0.9, 0.8, 0.1, 0.2], &relevant), Ok(0.5));
    }

    #[test]
    fn equal_scores_across_the_cut_count_by_their_expectation() {
        // Three entries share the second place, one of them relevant: a third of a hit.
        let found = r_precision(&[0.9, 0.5, 0.5, 0.5], &[true, true, false, false]).unwrap();
        assert!((found - (1.0 + 1.0 / 3.0) / 2.0).abs() < 1e-15);
    }

    #[test]
    fn nothing_relevant_is_an_error() {
        assert!(r_precision(&[1.0], &[false]).is_err());
        assert!(r_precision(&[1.0], &[]).is_err());
    }
}
