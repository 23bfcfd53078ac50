//! The agreement of two result lists of one query: overlap at k, and rank-biased overlap.
//!
//! Rank-biased overlap (W. Webber, A. Moffat and J. Zobel, "A similarity measure for indefinite
//! rankings", ACM TOIS 28, 2010) is the mean over depths d of the fraction of documents that the
//! two lists share down to d, with the weight (1 − p) p^(d − 1) for depth d. Finite lists are
//! extrapolated: below their end, they are assumed to agree as they do at the end (equation 32 of
//! the paper, also for lists of unequal length).

use std::{collections::HashSet, hash::Hash};

/// Default persistence of rank-biased overlap: the ten best documents have 86 % of the weight.
pub const PERSISTENCE: f64 = 0.9;

/// The fraction of the first `k` documents that two lists of distinct documents share, in any
/// order. If the longer list has fewer than `k` documents, its length replaces `k`. 1 for two empty
/// lists.
pub fn overlap_at<T: Eq + Hash>(first: &[T], second: &[T], k: usize) -> f64 {
    let (first, second) = (&first[..k.min(first.len())], &second[..k.min(second.len())]);
    let longest = first.len().max(second.len());
    if longest == 0 {
        return 1.0;
    }
    let seen: HashSet<&T> = first.iter().collect();
    second.iter().filter(|one| seen.contains(one)).count() as f64 / longest as f64
}

/// Extrapolated rank-biased overlap of two lists of distinct documents, best first: 0 if they are
/// disjoint, 1 if they are equal. `p` lies between 0 and 1, both exclusive. 1 for two empty lists,
/// 0 if only one is empty.
pub fn rank_biased_overlap<T: Eq + Hash>(first: &[T], second: &[T], p: f64) -> f64 {
    let (short, long) = if first.len() <= second.len() {
        (first, second)
    } else {
        (second, first)
    };
    let (s, l) = (short.len(), long.len());
    if s == 0 {
        return if l == 0 { 1.0 } else { 0.0 };
    }
    // `common` is the size of the overlap at a depth: X_d of the paper.
    let (mut in_short, mut in_long) = (HashSet::new(), HashSet::new());
    let (mut common, mut at_short) = (0.0, 0.0);
    let (mut sum, mut power) = (0.0, 1.0);
    for (depth, theirs) in long.iter().enumerate() {
        let ours = short.get(depth);
        if ours == Some(theirs) {
            common += 1.0;
        } else {
            common += f64::from(u8::from(in_short.contains(theirs)));
            if let Some(ours) = ours {
                common += f64::from(u8::from(in_long.contains(ours)));
                in_short.insert(ours);
            }
            in_long.insert(theirs);
        }
        let d = depth as f64 + 1.0;
        power *= p;
        if depth + 1 == s {
            at_short = common;
        }
        let mut agreement = common / d;
        if depth + 1 > s {
            // Below its end, the shorter list is assumed to agree as it did at its end.
            agreement += at_short * (d - s as f64) / (s as f64 * d);
        }
        sum += agreement * power;
    }
    let beyond = (common - at_short) / l as f64 + at_short / s as f64;
    ((1.0 - p) / p * sum + beyond * power).clamp(0.0, 1.0)
}

/// The share of the weight of rank-biased overlap in the first `depth` documents, which no
/// extrapolation affects (equation 21 of the paper).
pub fn weight_of_prefix(p: f64, depth: usize) -> f64 {
    if depth == 0 {
        return 0.0;
    }
    let d = depth as f64;
    let series: f64 = (1..depth)
        .map(|i| p.powi(i32::try_from(i).unwrap_or(i32::MAX)) / i as f64)
        .sum();
    1.0 - p.powf(d - 1.0) + (1.0 - p) / p * d * (-(1.0 - p).ln() - series)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlap_at_k_counts_the_documents_in_common_whatever_their_order() {
        assert_eq!(overlap_at(&[1, 2, 3, 4], &[3, 1, 9, 8], 3), 2.0 / 3.0);
        assert_eq!(overlap_at(&[1, 2, 3], &[2, 1, 3], 3), 1.0);
        assert_eq!(overlap_at(&[1, 2, 3], &[2, 1, 3], 1), 0.0);
        // A list that ended early lacks the documents of the other.
        assert_eq!(overlap_at(&[1, 2], &[1, 2, 3, 4], 10), 0.5);
        assert_eq!(overlap_at::<u32>(&[], &[], 10), 1.0);
    }

    #[test]
    fn rank_biased_overlap_is_that_of_reference_values() {
        // `RankingSimilarity(S, T).rbo_ext(p)` of the Python package `rbo` 0.1.3. The definition
        // summed to depth 4000, with lists that continue to agree as at their end, gives the same.
        let twenty: Vec<u32> = (1..=20).collect();
        let other = [20, 3, 1, 25, 2, 5, 7, 31, 9, 11, 13, 4, 41, 6, 8, 10, 50, 51, 12, 14];
        let cases: [(&[u32], &[u32], f64, f64); 7] = [
            (&[1, 2, 3, 4, 5], &[2, 1, 3, 5, 4], 0.9, 0.881_775),
            (&[1, 2, 3, 4, 5], &[1, 2, 3, 4, 5], 0.9, 1.0),
            (&[1, 2, 3, 4, 5, 6, 7], &[3, 9, 1, 8], 0.9, 0.418_5),
            (&[4, 2, 9], &[2, 7, 4, 9, 1, 3, 8, 5], 0.8, 0.593_277_561_904_762),
            (&[1, 2, 3], &[4, 5, 1], 0.5, 0.083_333_333_333_333_33),
            (&twenty, &other, 0.9, 0.537_796_928_766_640_2),
            (&[1], &[2, 1], 0.98, 0.49),
        ];
        for (first, second, p, expected) in cases {
            let found = rank_biased_overlap(first, second, p);
            assert!(
                (found - expected).abs() < 1e-12,
                "{first:?} {second:?} {p}: {found}, expected {expected}"
            );
            assert_eq!(found, rank_biased_overlap(second, first, p));
        }
    }

    #[test]
    fn equal_lists_have_overlap_1_and_disjoint_ones_0() {
        for p in [0.1, 0.5, 0.9, 0.98] {
            assert!((rank_biased_overlap(&[5, 3, 8, 1], &[5, 3, 8, 1], p) - 1.0).abs() < 1e-12);
            assert_eq!(rank_biased_overlap(&[1, 2], &[3, 4, 5], p), 0.0);
        }
        assert_eq!(rank_biased_overlap::<u32>(&[], &[], 0.9), 1.0);
        assert_eq!(rank_biased_overlap(&[], &[1], 0.9), 0.0);
    }

    #[test]
    fn the_first_ten_carry_86_percent_of_the_weight_at_0_9() {
        // Webber et al., section 4.2: "p = 0.9 gives the first 10 ranks 86 % of the weight". The
        // other figures: the weights of the ranks, (1 - p) / p times the sum of p^d / d from the
        // rank on, added up to depth 5000.
        for (depth, weight) in [
            (10, 0.855_585_446_747_352),
            (20, 0.965_613_032_847_318_5),
            (50, 0.999_228_671_975_868_8),
            (1000, 1.0),
        ] {
            let found = weight_of_prefix(0.9, depth);
            assert!((found - weight).abs() < 1e-9, "{depth}: {found}");
        }
        assert_eq!(weight_of_prefix(0.9, 0), 0.0);
    }
}
