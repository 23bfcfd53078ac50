//! Isotonic regression: the non-decreasing function with the least squared error, by pooling
//! adjacent violators (R. E. Barlow et al., "Statistical Inference under Order Restrictions", 1972;
//! M. J. Best and N. Chakravarti, Mathematical Programming 47, 1990).
//!
//! It equals scikit-learn's `IsotonicRegression(out_of_bounds="clip")`: equal x are merged into one
//! point at their weighted mean, values between two knots are interpolated linearly, and values
//! beyond the knots are those of the nearest knot.

use crate::{
    StatsError,
    error::{finite, paired},
};

/// A non-decreasing piecewise linear function.
#[derive(Debug, Clone, PartialEq)]
pub struct Isotonic {
    x: Vec<f64>,
    y: Vec<f64>,
}

/// Pooled points: their weight and the sum of weight x y.
#[derive(Clone, Copy)]
struct Block {
    weight: f64,
    sum: f64,
    /// Index of the first of its distinct x.
    first: usize,
}

impl Block {
    fn mean(self) -> f64 {
        self.sum / self.weight
    }
}

impl Isotonic {
    /// Fits `y` on `x`.
    ///
    /// # Errors
    /// If there are no points, the series differ in length, or a value is not finite.
    pub fn fit(x: &[f64], y: &[f64]) -> Result<Self, StatsError> {
        Self::fit_weighted(x, y, &vec![1.0; x.len()])
    }

    /// Fits with a weight for each point; points of weight 0 are ignored.
    ///
    /// # Errors
    /// Those of [`Isotonic::fit`]; also if a weight is negative, or no point has weight.
    pub fn fit_weighted(x: &[f64], y: &[f64], weights: &[f64]) -> Result<Self, StatsError> {
        paired(x, y, "isotonic regression", 1)?;
        finite("weights", weights)?;
        if weights.len() != x.len() {
            return Err(StatsError::LengthMismatch {
                left_name: "x",
                left: x.len(),
                right_name: "weights",
                right: weights.len(),
            });
        }
        if let Some(value) = weights.iter().copied().find(|weight| *weight < 0.0) {
            return Err(StatsError::OutOfRange {
                argument: "weight",
                value,
                allowed: "at least 0",
            });
        }
        let mut order: Vec<usize> = (0..x.len()).filter(|i| weights[*i] > 0.0).collect();
        order.sort_by(|a, b| x[*a].total_cmp(&x[*b]).then(y[*a].total_cmp(&y[*b])));
        if order.is_empty() {
            return Err(StatsError::TooFew {
                what: "isotonic regression",
                needed: 1,
                found: 0,
            });
        }
        let (mut distinct, mut blocks): (Vec<f64>, Vec<Block>) = (Vec::new(), Vec::new());
        // −0 and 0 are the same x.
        for group in order.chunk_by(|a, b| x[*a] == x[*b]) {
            let weight = group.iter().map(|i| weights[*i]).sum();
            let sum = group.iter().map(|i| weights[*i] * y[*i]).sum();
            let mut block = Block {
                weight,
                sum,
                first: distinct.len(),
            };
            distinct.push(x[group[0]]);
            while let Some(before) = blocks.pop_if(|before| before.mean() >= block.mean()) {
                block = Block {
                    weight: before.weight + block.weight,
                    sum: before.sum + block.sum,
                    first: before.first,
                };
            }
            blocks.push(block);
        }
        Ok(Self::knots_of(&distinct, &blocks))
    }

    /// The first and last x of each block, between which the function is constant.
    fn knots_of(distinct: &[f64], blocks: &[Block]) -> Self {
        let (mut x, mut y) = (Vec::new(), Vec::new());
        for (b, block) in blocks.iter().enumerate() {
            let end = blocks.get(b + 1).map_or(distinct.len(), |next| next.first);
            x.push(distinct[block.first]);
            y.push(block.mean());
            if end - 1 > block.first {
                x.push(distinct[end - 1]);
                y.push(block.mean());
            }
        }
        Self { x, y }
    }

    /// The function's value.
    pub fn at(&self, value: f64) -> f64 {
        let after = self.x.partition_point(|knot| *knot <= value);
        match (after.checked_sub(1), self.x.get(after)) {
            (None, _) => self.y[0],
            (Some(before), None) => self.y[before],
            (Some(before), Some(next)) => {
                let share = (value - self.x[before]) / (next - self.x[before]);
                self.y[before] + share * (self.y[after] - self.y[before])
            }
        }
    }

    /// The knots: x ascending, y not descending.
    pub fn knots(&self) -> impl Iterator<Item = (f64, f64)> {
        self.x.iter().copied().zip(self.y.iter().copied())
    }

    /// Smallest and largest x of the knots.
    pub fn domain(&self) -> (f64, f64) {
        (self.x[0], self.x[self.x.len() - 1])
    }

    /// Whether all values are equal, so that x gives no information about y.
    pub fn is_constant(&self) -> bool {
        self.y.first() == self.y.last()
    }
}

/// The value of each point under the function fitted to the points of the other folds. `fold`
/// contains the fold of each point (see [`crate::folds::folds`]).
///
/// # Errors
/// Those of [`Isotonic::fit`]; also if there are fewer than two folds.
pub fn cross_validated(x: &[f64], y: &[f64], fold: &[usize]) -> Result<Vec<f64>, StatsError> {
    paired(x, y, "isotonic regression", 2)?;
    if fold.len() != x.len() {
        return Err(StatsError::LengthMismatch {
            left_name: "x",
            left: x.len(),
            right_name: "folds",
            right: fold.len(),
        });
    }
    let mut found = vec![f64::NAN; x.len()];
    for own in 0..=fold.iter().copied().max().unwrap_or(0) {
        let weights: Vec<f64> = fold.iter().map(|f| f64::from(u8::from(*f != own))).collect();
        let function = Isotonic::fit_weighted(x, y, &weights)?;
        for (i, value) in x.iter().enumerate().filter(|(i, _)| fold[*i] == own) {
            found[i] = function.at(*value);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn violators_are_pooled_to_their_mean_and_values_between_knots_are_interpolated() {
        let fitted = Isotonic::fit(&[1.0, 2.0, 3.0, 4.0], &[1.0, 5.0, 3.0, 8.0]).unwrap();
        let knots: Vec<(f64, f64)> = fitted.knots().collect();
        assert_eq!(knots, [(1.0, 1.0), (2.0, 4.0), (3.0, 4.0), (4.0, 8.0)]);
        assert_eq!(
            [0.0, 1.5, 2.5, 3.25, 9.0].map(|x| fitted.at(x)),
            [1.0, 2.5, 4.0, 5.0, 8.0]
        );
    }

    #[test]
    fn what_only_falls_becomes_constant_and_what_cannot_be_fitted_is_refused() {
        let fitted = Isotonic::fit(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]).unwrap();
        assert!(fitted.is_constant() && fitted.at(7.0) == 2.0);
        assert!(!Isotonic::fit(&[1.0, 2.0], &[1.0, 2.0]).unwrap().is_constant());
        assert!(Isotonic::fit(&[], &[]).is_err());
        assert!(Isotonic::fit(&[1.0], &[f64::NAN]).is_err());
        assert!(Isotonic::fit(&[1.0], &[1.0, 2.0]).is_err());
        assert!(Isotonic::fit_weighted(&[1.0], &[1.0], &[-1.0]).is_err());
        assert!(Isotonic::fit_weighted(&[1.0], &[1.0], &[0.0]).is_err());
        // One fold leaves nothing to fit.
        assert!(cross_validated(&[1.0, 2.0], &[1.0, 2.0], &[0, 0]).is_err());
    }

    #[test]
    fn a_point_is_predicted_without_itself() {
        let (x, mut y) = ([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0]);
        let before = cross_validated(&x, &y, &[0, 1, 2, 3]).unwrap();
        y[3] = 400.0;
        let after = cross_validated(&x, &y, &[0, 1, 2, 3]).unwrap();
        assert_eq!((before[3], after[3]), (3.0, 3.0));
        assert_ne!(before[2], after[2], "the others see it");
    }

    proptest! {
        /// The pooled function is the projection: no other non-decreasing function is nearer, and
        /// the residuals of each block sum to 0.
        #[test]
        fn it_never_falls_and_keeps_the_mean(points in prop::collection::vec((0..8_u8, -20..20_i8), 1..40)) {
            let x: Vec<f64> = points.iter().map(|p| f64::from(p.0)).collect();
            let y: Vec<f64> = points.iter().map(|p| f64::from(p.1)).collect();
            let fitted = Isotonic::fit(&x, &y).unwrap();
            let knots: Vec<(f64, f64)> = fitted.knots().collect();
            prop_assert!(knots.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 <= two[1].1));
            let residual: f64 = x.iter().zip(&y).map(|(x, y)| y - fitted.at(*x)).sum();
            prop_assert!(residual.abs() < 1e-9);
        }
    }
}
