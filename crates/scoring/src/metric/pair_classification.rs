//! Pair classification: how well a similarity separates positive pairs from negative ones.
//!
//! Source: mteb 2.20.0 `abstasks/pair_classification.py`; average precision as scikit-learn 1.8
//! `average_precision_score`.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::similarity::{self, Similarity};

/// The metrics of one set of scores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairMetrics {
    /// Best accuracy over thresholds.
    pub accuracy: f64,
    /// Best F1 over thresholds.
    pub f1: f64,
    /// Precision at the best F1.
    pub precision: f64,
    /// Recall at the best F1.
    pub recall: f64,
    /// Average precision.
    pub ap: f64,
}

/// Metrics of the five score sets (`similarity`, `cosine`, `manhattan`, `euclidean`, `dot`) under
/// mteb's keys, and `max_*`, the best of the five. Labels must include both classes, or average
/// precision is meaningless; the caller checks that.
pub fn score<'a>(
    pairs: impl IndexedParallelIterator<Item = (&'a [f32], &'a [f32])> + Clone,
    labels: &[bool],
    own: Similarity,
) -> BTreeMap<String, f64> {
    let measure = |f: &(dyn Fn(&[f32], &[f32]) -> f32 + Sync)| -> Vec<f64> {
        pairs.clone().map(|(x, y)| f64::from(f(x, y))).collect()
    };
    let sets: [(&str, Vec<f64>); 5] = [
        ("similarity", measure(&|x, y| own.of(x, y))),
        ("cosine", measure(&similarity::cosine)),
        // Distances are negated, so that higher values mean more similar. Sorting, ties and average
        // precision are unchanged.
        ("manhattan", measure(&|x, y| -similarity::manhattan(x, y))),
        ("euclidean", measure(&|x, y| -similarity::euclidean(x, y))),
        ("dot", measure(&similarity::dot)),
    ];
    let mut scores = BTreeMap::new();
    for (name, values) in sets {
        let m = metrics(&values, labels);
        let named = [
            ("accuracy", m.accuracy),
            ("f1", m.f1),
            ("precision", m.precision),
            ("recall", m.recall),
            ("ap", m.ap),
        ];
        for (metric, value) in named {
            scores.insert(format!("{name}_{metric}"), value);
            let best = scores.entry(format!("max_{metric}")).or_insert(value);
            *best = best.max(value);
        }
    }
    scores
}

/// Metrics of one set of scores, where higher means more similar.
///
/// Best accuracy and best F1 are computed by visiting the pairs in stable order of score and
/// evaluating a threshold below each pair. As in mteb, ties are not grouped and the last pair is
/// never counted, so that numbers agree.
pub fn metrics(scores: &[f64], labels: &[bool]) -> PairMetrics {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| (scores[b] + 0.0).total_cmp(&(scores[a] + 0.0)));
    let total = labels.len() as f64;
    let positives = labels.iter().filter(|l| **l).count();
    let mut negatives_below = labels.len() - positives;
    let mut found = 0;
    let (mut accuracy, mut best) = (0.0_f64, (0.0_f64, 0.0_f64, 0.0_f64));
    for (above, &i) in order.iter().take(order.len().saturating_sub(1)).enumerate() {
        if labels[i] {
            found += 1;
        } else {
            negatives_below -= 1;
        }
        accuracy = accuracy.max((found + negatives_below) as f64 / total);
        if found > 0 {
            let precision = found as f64 / (above + 1) as f64;
            let recall = found as f64 / positives as f64;
            let f1 = 2.0 * precision * recall / (precision + recall);
            if f1 > best.0 {
                best = (f1, precision, recall);
            }
        }
    }
    PairMetrics {
        accuracy,
        f1: best.0,
        precision: best.1,
        recall: best.2,
        ap: average_precision_of(&order, scores, labels),
    }
}

/// Average precision: Σ (R_n − R_{n−1}) P_n over distinct thresholds from the highest down, ties
/// grouped, without interpolation (scikit-learn `average_precision_score`). 0 without positives.
pub fn average_precision(scores: &[f64], labels: &[bool]) -> f64 {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| (scores[b] + 0.0).total_cmp(&(scores[a] + 0.0)));
    average_precision_of(&order, scores, labels)
}

fn average_precision_of(order: &[usize], scores: &[f64], labels: &[bool]) -> f64 {
    let positives = labels.iter().filter(|l| **l).count() as f64;
    if positives == 0.0 {
        return 0.0;
    }
    let (mut seen, mut found, mut recall, mut ap) = (0_usize, 0_usize, 0.0, 0.0);
    for group in order.chunk_by(|&a, &b| scores[a] == scores[b]) {
        seen += group.len();
        found += group.iter().filter(|&&i| labels[i]).count();
        let here = found as f64 / positives;
        ap += (here - recall) * (found as f64 / seen as f64);
        recall = here;
    }
    ap
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tied_scores_are_one_threshold_for_average_precision() {
        let labels = [true, false, true, false, true, false];
        let ap = average_precision(&[0.9, 0.9, 0.5, 0.5, 0.5, 0.1], &labels);
        assert!((ap - 0.566_666_666_666_666_7).abs() < 1e-15);
    }

    #[test]
    fn the_last_pair_is_never_counted() {
        // Counting it would reach recall 1 at the lowest threshold; mteb stops one pair earlier.
        let m = metrics(&[0.9, 0.8, 0.1], &[true, false, true]);
        assert_eq!((m.recall, m.precision), (0.5, 1.0));
        assert!((m.accuracy - 2.0 / 3.0).abs() < 1e-15);
    }

    proptest! {
        #[test]
        fn average_precision_does_not_depend_on_the_order_of_pairs(rows in prop::collection::vec((0..6_i32, any::<bool>()), 1..40)) {
            let split = |rows: &[(i32, bool)]| -> (Vec<f64>, Vec<bool>) { rows.iter().map(|(s, l)| (f64::from(*s), *l)).unzip() };
            let (scores, labels) = split(&rows);
            let mut reversed = rows.clone();
            reversed.reverse();
            let (back_scores, back_labels) = split(&reversed);
            let (a, b) = (average_precision(&scores, &labels), average_precision(&back_scores, &back_labels));
            prop_assert_eq!(a, b);
            prop_assert!((0.0..=1.0 + 1e-12).contains(&a));
        }
    }
}
