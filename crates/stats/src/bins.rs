//! Error by bin: the error of predictions (a judge's ratings) against gold scores, by gold score or
//! by word count.

use crate::{
    StatsError,
    describe::mean,
    error::{finite, sample},
    spearman,
};

/// Agreement within a bin.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorBin {
    /// Exclusive lower bound of the keys.
    pub from: f64,
    /// Inclusive upper bound of the keys.
    pub to: f64,
    /// Number of pairs in the bin.
    pub n: usize,
    /// Mean absolute error; `None` for an empty bin.
    pub mae: Option<f64>,
    /// Spearman's correlation; `None` for fewer than three pairs, or if either side does not vary.
    pub spearman: Option<f64>,
}

/// Mean absolute error and correlation of `predicted` against `gold` in bins of `key` (word counts,
/// or the gold scores themselves). `edges` ascend: the bins are up to the first edge, above it up
/// to the second, …, above the last.
///
/// # Errors
/// If there are no pairs, series have different lengths, values are not finite, or edges do not
/// ascend.
pub fn error_by_bin(key: &[f64], gold: &[f64], predicted: &[f64], edges: &[f64]) -> Result<Vec<ErrorBin>, StatsError> {
    sample("gold", gold, "error by bin", 1)?;
    for (name, series) in [("key", key), ("predicted", predicted)] {
        if series.len() != gold.len() {
            return Err(StatsError::LengthMismatch {
                left_name: "gold",
                left: gold.len(),
                right_name: name,
                right: series.len(),
            });
        }
        finite(name, series)?;
    }
    finite("edges", edges)?;
    if let Some(pair) = edges.windows(2).find(|pair| pair[0] >= pair[1]) {
        return Err(StatsError::OutOfRange {
            argument: "edges",
            value: pair[1],
            allowed: "larger than the edge before it",
        });
    }
    let from = std::iter::once(f64::NEG_INFINITY).chain(edges.iter().copied());
    let to = edges.iter().copied().chain(std::iter::once(f64::INFINITY));
    Ok(from
        .zip(to)
        .map(|(from, to)| {
            let within: Vec<usize> = (0..key.len()).filter(|&i| key[i] > from && key[i] <= to).collect();
            let errors: Vec<f64> = within.iter().map(|&i| (predicted[i] - gold[i]).abs()).collect();
            let pick = |series: &[f64]| -> Vec<f64> { within.iter().map(|&i| series[i]).collect() };
            ErrorBin {
                from,
                to,
                n: within.len(),
                mae: mean(&errors),
                spearman: (within.len() >= 3)
                    .then(|| spearman(&pick(predicted), &pick(gold)).ok())
                    .flatten(),
            }
        })
        .collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_bin_has_its_own_error() {
        let words = [5.0, 10.0, 11.0, 30.0, 31.0];
        let gold = [1.0, 2.0, 3.0, 4.0, 5.0];
        let rated = [1.5, 2.5, 3.0, 2.0, 5.0];
        let found = error_by_bin(&words, &gold, &rated, &[10.0, 20.0, 30.0]).unwrap();
        let figures: Vec<(usize, Option<f64>)> = found.iter().map(|bin| (bin.n, bin.mae)).collect();
        assert_eq!(
            figures,
            [(2, Some(0.5)), (1, Some(0.0)), (1, Some(2.0)), (1, Some(0.0))]
        );
        assert!(error_by_bin(&words, &gold, &rated, &[3.0, 3.0]).is_err());
        assert!(error_by_bin(&words[1..], &gold, &rated, &[3.0]).is_err());
    }

    #[test]
    fn an_empty_bin_has_no_error_and_without_edges_there_is_one_bin() {
        let found = error_by_bin(&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0], &[0.0, 1.0, 2.0], &[0.0]).unwrap();
        assert_eq!((found[0].n, found[0].mae), (0, None));
        assert_eq!((found[1].n, found[1].mae), (3, Some(1.0)));
        assert!((found[1].spearman.unwrap() - 1.0).abs() < 1e-12);
        assert_eq!(error_by_bin(&[1.0], &[1.0], &[1.0], &[]).unwrap().len(), 1);
    }
}
