//! The designs that `fixtures/make.py` drew, drawn again.

use ndarray::Array2;
use serde_json::Value;

pub(crate) struct SplitMix(u64);

impl SplitMix {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.word()) * u128::from(n)) >> 64) as u64
    }

    pub(crate) fn bell(&mut self) -> f64 {
        let sum: u64 = (0..12).map(|_| self.below(1 << 20)).sum();
        (sum as f64 - 6.0 * f64::from(1 << 20)) / f64::from(1 << 20)
    }
}

pub(crate) const SIZES: [usize; 32] = [
    3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17, 20, 23, 26, 30, 34, 40, 45, 49, 50, 51, 52, 60, 75, 100, 150, 220,
    333, 500,
];

pub(crate) fn sample(rng: &mut SplitMix, index: usize) -> Vec<f64> {
    (0..SIZES[index % SIZES.len()])
        .map(|_| {
            let b = rng.bell();
            match index % 7 {
                0 => b,
                1 => b + 0.375,
                2 => {
                    let size = (rng.below(5) + 1) as f64;
                    size * if rng.below(2) == 1 { 1.0 } else { -1.0 } / 8.0
                }
                3 => (rng.below(7) as f64 - 3.0) / 4.0,
                4 => b * b - 0.5,
                5 if rng.below(6) == 0 => 0.0,
                5 => b - 0.25,
                _ => (b * 8.0).floor() / 8.0 + 0.25,
            }
        })
        .collect()
}

pub(crate) fn correlated(rng: &mut SplitMix, index: usize) -> (Vec<f64>, Vec<f64>) {
    let x = sample(rng, index);
    let noise = sample(rng, index + 7 * SIZES.len());
    let a = [0.0, 0.5, -0.75, 1.0][index % 4];
    let y = x.iter().zip(&noise).map(|(u, v)| a * u + v).collect();
    (x, y)
}

/// Ratings, one row per rater, NaN if missing.
pub(crate) fn ratings(index: usize) -> Array2<f64> {
    let mut rng = SplitMix::new(11_000 + index as u64);
    let (raters, items) = (2 + index % 4, 4 + rng.below(30) as usize);
    let (q, missing) = (2 + index as u64 % 5, [0, 4, 9][index % 3]);
    let mut ratings = Array2::from_elem((raters, items), f64::NAN);
    for mut item in ratings.columns_mut() {
        let truth = rng.below(q);
        for rating in &mut item {
            let value = if rng.below(10) < 6 { truth } else { rng.below(q) };
            if rng.below(20) >= missing {
                *rating = (1 + value) as f64;
            }
        }
    }
    ratings
}

/// Friedman's designs: one row per treatment.
pub(crate) fn treatments(index: usize) -> Array2<f64> {
    let mut rng = SplitMix::new(9_000 + index as u64);
    let (k, n) = (3 + index % 6, 2 + rng.below(30) as usize);
    Array2::from_shape_fn((k, n), |(t, _)| {
        let b = rng.bell();
        if index.is_multiple_of(3) {
            (b * 2.0).floor() / 2.0
        } else {
            b + 0.25 * t as f64
        }
    })
}

pub(crate) fn numbers(value: &Value) -> Vec<Option<f64>> {
    value.as_array().unwrap().iter().map(Value::as_f64).collect()
}

/// Expected values of a fixture's designs; `None` if the reference has none.
pub(crate) fn designs<'a>(fixture: &'a Value, name: &str) -> &'a [Value] {
    let designs = fixture[name].as_array().unwrap();
    assert!(designs.len() >= 200, "{name}: {} designs", designs.len());
    designs
}

/// Equal within a tolerance, absolute or relative, whichever is wider.
#[track_caller]
pub(crate) fn close(found: f64, expected: f64, tolerance: f64, what: &str) {
    assert!(
        (found - expected).abs() <= tolerance * expected.abs().max(1.0),
        "{what}: {found} is not {expected} (± {tolerance})"
    );
}

/// Equal within a relative tolerance, for tails that must keep their digits.
#[track_caller]
pub(crate) fn close_relative(found: f64, expected: f64, tolerance: f64, what: &str) {
    assert!(
        (found - expected).abs() <= tolerance * expected.abs() + 1e-300,
        "{what}: {found:e} is not {expected:e} (± {tolerance} of it)"
    );
}
