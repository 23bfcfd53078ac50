//! Adjustment of p-values for several tests.

/// Holm-adjusted p-values, in the given order: the k-th smallest (from 0) of m is multiplied by m −
/// k, made monotone, and capped at 1. Source: Holm (1979), "A simple sequentially rejective
/// multiple test procedure".
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let m = p_values.len();
    let mut adjusted = vec![0.0; m];
    let mut floor = 0.0_f64;
    for (k, i) in ascending(p_values).into_iter().enumerate() {
        floor = floor.max((p_values[i] * (m - k) as f64).min(1.0));
        adjusted[i] = floor;
    }
    adjusted
}

/// p-values adjusted for the false discovery rate, in the given order: the k-th smallest (from 1)
/// of m is multiplied by m / k, made monotone from the largest down, and capped at 1. Source:
/// Benjamini and Hochberg (1995), "Controlling the false discovery rate"; scipy
/// `false_discovery_control`.
pub fn benjamini_hochberg(p_values: &[f64]) -> Vec<f64> {
    let m = p_values.len();
    let mut adjusted = vec![0.0; m];
    let mut ceiling = 1.0_f64;
    for (k, i) in ascending(p_values).into_iter().enumerate().rev() {
        ceiling = ceiling.min(p_values[i] * (m as f64 / (k + 1) as f64));
        adjusted[i] = ceiling;
    }
    adjusted
}

fn ascending(p_values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holm_s_values_keep_the_order_and_never_pass_one() {
        let adjusted = holm(&[0.001, 0.2, 0.013, 0.04, 0.03]);
        for (a, b) in adjusted.iter().zip([0.005, 0.2, 0.052, 0.09, 0.09]) {
            assert!((a - b).abs() < 1e-12);
        }
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }

    #[test]
    fn benjamini_and_hochberg_s_own_example_rejects_four() {
        // Their table of fifteen p-values (1995, section 3): four are at most 0.05 after
        // adjustment, three under Holm's.
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528,
            0.7590, 1.0000,
        ];
        let rejected = |adjusted: Vec<f64>| adjusted.iter().filter(|p| **p <= 0.05).count();
        assert_eq!(rejected(benjamini_hochberg(&p)), 4);
        assert_eq!(rejected(holm(&p)), 3);
        assert!(benjamini_hochberg(&[]).is_empty());
    }
}
