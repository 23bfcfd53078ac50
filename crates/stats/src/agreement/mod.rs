//! Agreement of raters: Gwet's AC1 and AC2, and Krippendorff's alpha. There may be any number of
//! raters, and ratings may be missing.

mod gwet;
mod krippendorff;
mod weights;

pub use gwet::{GwetAgreement, gwet};
pub use krippendorff::{Metric, krippendorff_alpha};
pub use weights::Weights;

use ndarray::ArrayView2;

use crate::StatsError;

/// Ratings of items by raters.
#[derive(Debug, Clone, PartialEq)]
pub struct Ratings {
    /// The scale's values, ascending.
    categories: Vec<f64>,
    /// The number of raters who gave item i category k; one row per rated item.
    counts: Vec<Vec<u32>>,
    raters: usize,
}

impl Ratings {
    /// Creates ratings from a matrix with a row for each rater and a column for each item; NaN is a
    /// missing rating. Items without ratings are left out. `scale` lists the possible values.
    /// Without it, the scale consists of the values that occur, as in Gwet's own software. Weights
    /// and chance agreement depend on the scale: give it if some of its values were never used.
    ///
    /// # Errors
    /// If there are fewer than two raters or two items, a rating is infinite or outside the scale,
    /// the scale has repeated values or fewer than two, or no item was rated twice.
    pub fn new(ratings: ArrayView2<'_, f64>, scale: Option<&[f64]>) -> Result<Self, StatsError> {
        let raters = ratings.nrows();
        if raters < 2 {
            return Err(StatsError::TooFew {
                what: "agreement (raters)",
                needed: 2,
                found: raters,
            });
        }
        if let Some(((_, index), _)) = ratings.indexed_iter().find(|(_, rating)| rating.is_infinite()) {
            return Err(StatsError::NotFinite {
                argument: "ratings",
                index,
            });
        }
        let given = || ratings.iter().filter(|r| !r.is_nan()).map(|r| r + 0.0);
        let mut categories: Vec<f64> = scale.map_or_else(|| given().collect(), <[f64]>::to_vec);
        crate::error::finite("scale", &categories)?;
        categories.sort_by(f64::total_cmp);
        let before = categories.len();
        categories.dedup();
        if scale.is_some() && categories.len() < before {
            return Err(StatsError::Undefined {
                what: "agreement",
                why: "the scale names a value twice",
            });
        }
        if let Some(outside) = given().find(|r| !categories.contains(r)) {
            return Err(StatsError::OutOfRange {
                argument: "ratings",
                value: outside,
                allowed: "one of the scale's values",
            });
        }
        if categories.len() < 2 {
            return Err(StatsError::Undefined {
                what: "agreement",
                why: "only one value was ever given; name the scale to say what else could have been",
            });
        }
        let mut counts = Vec::with_capacity(ratings.ncols());
        for item in ratings.columns() {
            let mut row = vec![0_u32; categories.len()];
            for rating in item {
                if let Some(k) = categories.iter().position(|c| c == rating) {
                    row[k] += 1;
                }
            }
            if row.iter().any(|count| *count > 0) {
                counts.push(row);
            }
        }
        if counts.len() < 2 {
            return Err(StatsError::TooFew {
                what: "agreement (rated items)",
                needed: 2,
                found: counts.len(),
            });
        }
        if counts.iter().all(|row| row.iter().sum::<u32>() < 2) {
            return Err(StatsError::Undefined {
                what: "agreement",
                why: "no item was rated by two raters",
            });
        }
        Ok(Self {
            categories,
            counts,
            raters,
        })
    }

    /// The scale's values, ascending.
    pub fn categories(&self) -> &[f64] {
        &self.categories
    }

    pub fn items(&self) -> usize {
        self.counts.len()
    }

    pub fn raters(&self) -> usize {
        self.raters
    }

    /// Ratings per item and category, as numbers.
    fn rows(&self) -> Vec<Vec<f64>> {
        self.counts
            .iter()
            .map(|row| row.iter().map(|count| f64::from(*count)).collect())
            .collect()
    }
}

#[cfg(test)]
mod tests;
