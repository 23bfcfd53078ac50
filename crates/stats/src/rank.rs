//! Ranks.

/// Ranks from 1, with the average rank for ties (scipy `rankdata`, method `average`). NaN sorts
/// last.
pub fn average_ranks(values: &[f64]) -> Vec<f64> {
    // -0.0 and 0.0 are equal and must tie, so the sign of zero is dropped before the total order is
    // used.
    let keys: Vec<f64> = values.iter().map(|v| v + 0.0).collect();
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_by(|&a, &b| keys[a].total_cmp(&keys[b]));
    let mut ranks = vec![0.0; keys.len()];
    let mut start = 0;
    for group in order.chunk_by(|&a, &b| keys[a] == keys[b]) {
        let rank = start as f64 + (group.len() as f64 + 1.0) / 2.0;
        for &i in group {
            ranks[i] = rank;
        }
        start += group.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_share_their_average_rank() {
        assert_eq!(average_ranks(&[10.0, 20.0, 10.0, 5.0]), [2.5, 4.0, 2.5, 1.0]);
        assert_eq!(average_ranks(&[0.0, -0.0, 1.0]), [1.5, 1.5, 3.0]);
        assert!(average_ranks(&[]).is_empty());
    }
}
