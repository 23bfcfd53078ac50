//! Centres as means, in f32 and in scikit-learn's order of addition.

use crate::{linalg::dispatched, vectors::Vectors};

dispatched! {
    fn scale(values: &mut [f32], factor: f32) {
        for value in values {
            *value *= factor;
        }
    }
}

dispatched! {
    fn add(values: &mut [f32], row: &[f32]) {
        for (sum, value) in values.iter_mut().zip(row) {
            *sum += value;
        }
    }
}

/// Moves every centre to the mean of all vectors assigned to it so far; `weights` counts the
/// vectors of earlier batches.
pub(super) fn update_centres(
    vectors: Vectors<'_>,
    rows: &[usize],
    labels: &[usize],
    centres: &mut [f32],
    weights: &mut [f32],
) {
    let cols = vectors.cols();
    let mut counts = vec![0.0_f32; weights.len()];
    for (row, &label) in rows.iter().zip(labels) {
        let centre = &mut centres[label * cols..(label + 1) * cols];
        if counts[label] == 0.0 {
            scale(centre, weights[label]);
        }
        counts[label] += 1.0;
        add(centre, vectors.row(*row));
    }
    for ((centre, weight), count) in centres.chunks_exact_mut(cols).zip(weights).zip(counts) {
        if count > 0.0 {
            *weight += count;
            scale(centre, 1.0 / *weight);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_centre_is_the_mean_of_all_it_got_and_stays_where_it_got_nothing() {
        let mut centres = vec![1.0, 1.0, 5.0, 5.0];
        let mut weights = vec![2.0, 7.0];
        let data = [4.0, 1.0, 9.0, 9.0, 1.0, 7.0];
        let vectors = Vectors::new(&data, 2);
        update_centres(vectors, &[0, 2], &[0, 0], &mut centres, &mut weights);
        assert_eq!(centres, [1.75, 2.5, 5.0, 5.0]);
        assert_eq!(weights, [4.0, 7.0]);
    }
}
