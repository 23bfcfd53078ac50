//! The agreement of a pair of ratings: 1 for the same category, and less for categories further
//! apart.
//!
//! Source: K. L. Gwet, "Handbook of Inter-Rater Reliability", 4th edition (2014), chapter 3.

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Weights {
    /// 1 for the same category, 0 otherwise: AC1.
    Identity,
    /// By ranks: 1 − C(|k − l| + 1, 2) / C(q, 2) for q categories.
    #[default]
    Ordinal,
    /// By values: 1 − |x − y| / (largest − smallest).
    Linear,
    /// By values: 1 − (x − y)² / (largest − smallest)².
    Quadratic,
}

impl Weights {
    /// The matrix for ascending categories.
    pub(super) fn matrix(self, categories: &[f64]) -> Vec<Vec<f64>> {
        let q = categories.len();
        let range = categories[q - 1] - categories[0];
        let pairs = |n: usize| (n * (n - 1) / 2) as f64;
        let weight = |k: usize, l: usize| {
            let apart = (categories[k] - categories[l]).abs() / range;
            match self {
                _ if k == l => 1.0,
                Self::Identity => 0.0,
                Self::Ordinal => 1.0 - pairs(k.abs_diff(l) + 1) / pairs(q),
                Self::Linear => 1.0 - apart,
                Self::Quadratic => 1.0 - apart * apart,
            }
        };
        (0..q).map(|k| (0..q).map(|l| weight(k, l)).collect()).collect()
    }
}
