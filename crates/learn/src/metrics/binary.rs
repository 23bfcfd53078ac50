//! Average precision.

/// `average_precision_score`: precision at every threshold, weighted by the added recall; equal
/// scores are one threshold. 0 without positives. Scores must be finite.
pub fn average_precision(positive: &[bool], scores: &[f64]) -> f64 {
    let mut order: Vec<usize> = (0..scores.len().min(positive.len())).collect();
    order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    let all = positive.iter().filter(|p| **p).count();
    if all == 0 {
        return 0.0;
    }
    let (mut found, mut seen, mut sum) = (0, 0, 0.0);
    for group in order.chunk_by(|a, b| scores[*a] == scores[*b]) {
        let new = group.iter().filter(|i| positive[**i]).count();
        found += new;
        seen += group.len();
        sum += new as f64 / all as f64 * (found as f64 / seen as f64);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::average_precision;

    #[test]
    fn equal_scores_are_one_threshold() {
        let positive = [true, false, true, false, true, false];
        let ap = average_precision(&positive, &[0.9, 0.9, 0.5, 0.5, 0.5, 0.1]);
        assert!((ap - (1.0 / 3.0 * 0.5 + 2.0 / 3.0 * 0.6)).abs() < 1e-15);
        assert_eq!(average_precision(&[false, false], &[0.1, 0.2]), 0.0);
    }
}
