//! For any machine; also for the elements that do not fill a register.

use super::LANES;

pub(super) fn dot(x: &[f32], y: &[f32]) -> f32 {
    sum(x, y, |a, b| a * b)
}

pub(super) fn squared(x: &[f32], y: &[f32]) -> f32 {
    sum(x, y, |a, b| (a - b) * (a - b))
}

pub(super) fn absolute(x: &[f32], y: &[f32]) -> f32 {
    sum(x, y, |a, b| (a - b).abs())
}

#[inline(always)]
fn sum(x: &[f32], y: &[f32], term: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = [0.0_f32; LANES];
    let ((xs, x_rest), (ys, y_rest)) = (x.as_chunks::<LANES>(), y.as_chunks::<LANES>());
    for (x, y) in xs.iter().zip(ys) {
        for i in 0..LANES {
            lanes[i] += term(x[i], y[i]);
        }
    }
    let rest: f32 = x_rest.iter().zip(y_rest).map(|(a, b)| term(*a, *b)).sum();
    lanes.iter().sum::<f32>() + rest
}
