//! Holm's step-down adjustment.

/// Holm-adjusted p-values, in the order given: the k-th smallest (from 0) of m times m − k, made monotone, capped at 1.
/// Source: Holm (1979), "A simple sequentially rejective multiple test procedure".
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let m = p_values.len();
    let mut order: Vec<usize> = (0..m).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut adjusted = vec![0.0; m];
    let mut floor = 0.0_f64;
    for (k, &i) in order.iter().enumerate() {
        floor = floor.max((p_values[i] * (m - k) as f64).min(1.0));
        adjusted[i] = floor;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjusted_values_keep_the_order_and_never_pass_one() {
        let adjusted = holm(&[0.001, 0.2, 0.013, 0.04, 0.03]);
        for (a, b) in adjusted.iter().zip([0.005, 0.2, 0.052, 0.09, 0.09]) {
            assert!((a - b).abs() < 1e-12);
        }
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }
}
