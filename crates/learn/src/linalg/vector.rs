//! Sums over vectors, in eight lanes with a fixed order.

use super::{dispatched, fma};

/// Elements of a long vector per task.
pub(crate) const CHUNK: usize = 4096;
const LANES: usize = 8;

dispatched! {
    /// The inner product.
    pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
        let mut lanes = [[0.0_f64; LANES]; 2];
        let (a2, a_rest) = a.as_chunks::<{ 2 * LANES }>();
        let (b2, b_rest) = b.as_chunks::<{ 2 * LANES }>();
        for (x, y) in a2.iter().zip(b2) {
            for i in 0..LANES {
                lanes[0][i] = fma::<FUSED>(x[i], y[i], lanes[0][i]);
                lanes[1][i] = fma::<FUSED>(x[i + LANES], y[i + LANES], lanes[1][i]);
            }
        }
        let mut sum: f64 = (0..LANES).map(|i| lanes[0][i] + lanes[1][i]).sum();
        for (x, y) in a_rest.iter().zip(b_rest) {
            sum = fma::<FUSED>(*x, *y, sum);
        }
        sum
    }
}

dispatched! {
    /// `y += factor · x`.
    pub(crate) fn axpy(factor: f64, x: &[f64], y: &mut [f64]) {
        for (to, from) in y.iter_mut().zip(x) {
            *to = fma::<FUSED>(factor, *from, *to);
        }
    }
}

dispatched! {
    /// The inner product of an f32 row with f64 weights.
    pub(crate) fn dot_f32(row: &[f32], weights: &[f64]) -> f64 {
        let mut lanes = [[0.0_f64; LANES]; 2];
        let (a2, a_rest) = row.as_chunks::<{ 2 * LANES }>();
        let (b2, b_rest) = weights.as_chunks::<{ 2 * LANES }>();
        for (x, y) in a2.iter().zip(b2) {
            for i in 0..LANES {
                lanes[0][i] = fma::<FUSED>(f64::from(x[i]), y[i], lanes[0][i]);
                lanes[1][i] = fma::<FUSED>(f64::from(x[i + LANES]), y[i + LANES], lanes[1][i]);
            }
        }
        let mut sum: f64 = (0..LANES).map(|i| lanes[0][i] + lanes[1][i]).sum();
        for (x, y) in a_rest.iter().zip(b_rest) {
            sum = fma::<FUSED>(f64::from(*x), *y, sum);
        }
        sum
    }
}

dispatched! {
    /// The inner products of an f32 row with four rows of weights.
    pub(crate) fn dot_f32_by_four(row: &[f32], weights: [&[f64]; 4]) -> [f64; 4] {
        let mut lanes = [[0.0_f64; LANES]; 4];
        let (whole, rest) = row.as_chunks::<LANES>();
        let [a, b, c, d] = weights.map(|weights| weights[..row.len()].as_chunks::<LANES>().0);
        for ((((x, a), b), c), d) in whole.iter().zip(a).zip(b).zip(c).zip(d) {
            let x: [f64; LANES] = std::array::from_fn(|i| f64::from(x[i]));
            for (lanes, weights) in lanes.iter_mut().zip([a, b, c, d]) {
                for i in 0..LANES {
                    lanes[i] = fma::<FUSED>(x[i], weights[i], lanes[i]);
                }
            }
        }
        // If the compiler saw the lanes together with the sums below, it would shuffle them in the
        // loop above.
        let lanes = std::hint::black_box(lanes);
        let first = row.len() - rest.len();
        std::array::from_fn(|k| {
            let sum = lanes[k].iter().sum();
            rest.iter().zip(&weights[k][first..]).fold(sum, |sum, (x, y)| fma::<FUSED>(f64::from(*x), *y, sum))
        })
    }
}

dispatched! {
    /// `sum += factor · row`.
    pub(crate) fn add_f32(factor: f64, row: &[f32], sum: &mut [f64]) {
        for (to, from) in sum.iter_mut().zip(row) {
            *to = fma::<FUSED>(factor, f64::from(*from), *to);
        }
    }
}

pub(crate) fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}

dispatched! {
    /// The largest absolute value; NaN if any element is NaN.
    pub(crate) fn largest(a: &[f64]) -> f64 {
        let mut lanes = [0.0_f64; LANES];
        let mut sum = 0.0_f64;
        let (whole, rest) = a.as_chunks::<LANES>();
        for x in whole {
            for i in 0..LANES {
                lanes[i] = lanes[i].max(x[i].abs());
                sum += x[i] * 0.0;
            }
        }
        for x in rest {
            lanes[0] = lanes[0].max(x.abs());
            sum += x * 0.0;
        }
        if sum.is_nan() { f64::NAN } else { lanes.into_iter().fold(0.0, f64::max) }
    }
}
