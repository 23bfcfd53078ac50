//! The scale of an encoder's cosines on a data set: its parallel gap, which is also a unit of
//! drift.
//!
//! Cosines of two encoders cannot be compared: unrelated texts have a cosine of 0.1 in one and 0.8
//! in another, and a drift of 0.1 is small in the first and large in the second. The parallel gap
//! ([`crate::metric::discrimination::parallel_gap`]) is the difference between a rewrite and an
//! unrelated text. It is measured on the texts of separation, over rewrites in the text's own
//! language: mean over seeds, then over transformations. All transformations of a data set thus
//! have one scale, which keeps their order by drift.

use std::collections::BTreeMap;

use crate::{
    run::{
        plan::{Layout, transformations::PlannedTransformation},
        separate::SeparationEntry,
    },
    separation::RESOLUTION,
    stats::mean,
};

/// The parallel gap of an encoder on a data set, or the reason why there is none to divide by.
pub(crate) fn scale(
    layout: &Layout,
    separations: &[SeparationEntry],
    encoder: usize,
    table: usize,
) -> Result<f64, String> {
    if layout.suite.separation.settled().is_none() {
        return Err("the suite leaves separation out, and the parallel gap is measured with it".to_owned());
    }
    let own = separations
        .iter()
        .filter(|one| one.encoder == encoder && one.table == table);
    let mut gaps: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for one in own {
        let counted = layout
            .transformations
            .get(one.transformation())
            .is_some_and(PlannedTransformation::keeps_language);
        if let Some(gap) = one.gap().filter(|_| counted) {
            gaps.entry(one.transformation()).or_default().push(gap);
        }
    }
    positive(&gaps.into_values().collect::<Vec<_>>())
}

/// Mean over transformations of the means over their seeds, or the reason why drift cannot be
/// divided by it.
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
