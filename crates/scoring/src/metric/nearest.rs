//! Nearest neighbours as predictions: bitext mining.
//!
//! Source: mteb 2.20.0 `abstasks/text/bitext_mining.py`. Row i of the second side is the label of
//! row i of the first, and scikit-learn's `precision_score`, `recall_score`, `f1_score` with
//! `average="weighted", zero_division=0` are computed over the rows as classes.

use std::collections::BTreeMap;

/// `precision`, `recall`, `f1` (weighted by support, which is 1 for every class) and `accuracy` of
/// predictions, where the label of row i is i.
pub fn score(predictions: &[usize]) -> BTreeMap<String, f64> {
    let n = predictions.len();
    let mut predicted = vec![0_u32; n];
    for &p in predictions {
        predicted[p] += 1;
    }
    let (mut precisions, mut f1s, mut found) = (Vec::with_capacity(n), Vec::with_capacity(n), 0_usize);
    for (label, &prediction) in predictions.iter().enumerate() {
        let correct = prediction == label;
        found += usize::from(correct);
        let precision = if correct {
            1.0 / f64::from(predicted[label])
        } else {
            0.0
        };
        precisions.push(precision);
        f1s.push(if correct {
            2.0 * precision / (precision + 1.0)
        } else {
            0.0
        });
    }
    let of_rows = |values: &[f64]| crate::stats::mean(values).unwrap_or(0.0);
    let accuracy = found as f64 / n.max(1) as f64;
    BTreeMap::from([
        ("precision".to_owned(), of_rows(&precisions)),
        ("recall".to_owned(), accuracy),
        ("f1".to_owned(), of_rows(&f1s)),
        ("accuracy".to_owned(), accuracy),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_attracts_others_loses_precision_but_not_recall() {
        // Row 0 is predicted twice, once correctly; row 1 never; row 2 correctly.
        let scores = score(&[0, 0, 2]);
        let third = 1.0 / 3.0;
        assert!((scores["precision"] - (0.5 + 1.0) * third).abs() < 1e-15);
        assert!((scores["recall"] - 2.0 * third).abs() < 1e-15);
        assert!((scores["f1"] - (2.0 * 0.5 / 1.5 + 1.0) * third).abs() < 1e-15);
        assert_eq!(scores["accuracy"], scores["recall"]);
    }
}
