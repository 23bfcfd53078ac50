//! The scale on which an encoder's cosines of a data set lie: its parallel gap, in which drift is
//! given too.
//!
//! Cosines of two encoders cannot be compared: in one, unrelated texts have 0.1, in another 0.8,
//! and a drift of 0.1 is little in the first and much in the second. The parallel gap
//! ([`crate::metric::discrimination::parallel_gap`]) is what lies between a rewrite and an
//! unrelated text. It is that of the texts of separation, over rewrites that stay in the text's
//! language: mean over seeds, then over transformations. So all transformations of a data set have
//! one scale, and their order by drift stays.

use std::collections::BTreeMap;

use super::{
    plan::Plan,
    separation::{Separated, counts},
};
use crate::{separation::RESOLUTION, stats::mean};

/// The parallel gap of an encoder on a data set, or why there is none to divide by.
pub(super) fn scale(plan: &Plan, separated: &[Separated], encoder: usize, table: usize) -> Result<f64, String> {
    if plan.suite.separation.settled().is_none() {
        return Err("the suite leaves separation out, and the parallel gap is measured with it".to_owned());
    }
    let own = separated
        .iter()
        .filter(|one| one.encoder == encoder && one.table == table);
    let mut gaps: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for one in own {
        let counted = plan.transformations.get(one.transformation()).is_some_and(counts);
        if let Some(gap) = one.gap().filter(|_| counted) {
            gaps.entry(one.transformation()).or_default().push(gap);
        }
    }
    positive(&gaps.into_values().collect::<Vec<_>>())
}

/// Mean over transformations of the means over their seeds, as long as it can be divided by.
fn positive(gaps: &[Vec<f64>]) -> Result<f64, String> {
    let of_transformations: Vec<f64> = gaps.iter().filter_map(|seeds| mean(seeds)).collect();
    match mean(&of_transformations) {
        None => Err(
            "the parallel gap is not known: it takes two texts with a changed copy whose rewrites stay in their language".to_owned(),
        ),
        Some(gap) if gap > RESOLUTION => Ok(gap),
        Some(_) => Err(
            "the parallel gap is not above 0: rewrites are no nearer to their texts than the rewrites of other texts".to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_averaged_before_transformations() {
        // 0.5 of two seeds, 0.2 of one: (0.5 + 0.2) / 2, not 1.2 / 3.
        assert_eq!(positive(&[vec![0.4, 0.6], vec![0.2]]), Ok(0.35));
    }

    #[test]
    fn what_cannot_be_divided_by_has_a_reason() {
        assert!(positive(&[]).is_err_and(|why| why.contains("not known")));
        for gap in [0.0, -0.2, RESOLUTION, f64::NAN] {
            assert!(
                positive(&[vec![gap]]).is_err_and(|why| why.contains("not above 0")),
                "{gap}"
            );
        }
        assert!(positive(&[vec![2.0 * RESOLUTION]]).is_ok());
    }
}
