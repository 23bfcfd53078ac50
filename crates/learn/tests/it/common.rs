//! The vectors of `fixtures/data.py`, and the numbers of the reference.

use ndarray::Array2;
use serde_json::Value;

pub(crate) fn fixture(name: &str) -> Value {
    let path = format!("fixtures/{name}");
    serde_json::from_str(&std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))).unwrap()
}

/// Scores of scikit-learn 1.8, which the tests of scoring compare too.
pub(crate) fn golden() -> Value {
    fixture("../../../eval-svc/fixtures/golden.json")
}

/// Like `uniform` in data.py.
pub(crate) fn uniform(seed: u64, n: usize) -> Vec<f32> {
    let mut x = seed;
    (0..n)
        .map(|_| {
            x = x
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((x >> 40) as f64 / 16_777_216.0 - 0.5) as f32
        })
        .collect()
}

/// Like `clusters` in data.py.
pub(crate) fn clusters(
    seed: u64,
    rows: usize,
    cols: usize,
    classes: usize,
    spread: f64,
    norm: bool,
) -> (Array2<f32>, Vec<usize>) {
    let centres = uniform(seed, classes * cols);
    let noise = uniform(seed + 1, rows * cols);
    let mut x = Array2::zeros((rows, cols));
    for (row, mut x) in x.rows_mut().into_iter().enumerate() {
        let values: Vec<f64> = (0..cols)
            .map(|d| f64::from(centres[row % classes * cols + d]) + spread * f64::from(noise[row * cols + d]))
            .collect();
        let length = if norm {
            values.iter().fold(0.0, |sum, v| sum + v * v).sqrt()
        } else {
            1.0
        };
        x.iter_mut().zip(values).for_each(|(x, v)| *x = (v / length) as f32);
    }
    (x, (0..rows).map(|r| r % classes).collect())
}

/// A case's vectors, and the number of its classes.
pub(crate) fn case_vectors(case: &Value) -> (Array2<f32>, Vec<usize>) {
    clusters(
        case["seed"].as_u64().unwrap(),
        integer(&case["rows"]),
        integer(&case["cols"]),
        integer(&case["classes"]),
        case["spread"].as_f64().unwrap(),
        case["norm"].as_bool().unwrap(),
    )
}

pub(crate) fn integer(value: &Value) -> usize {
    usize::try_from(value.as_u64().unwrap()).unwrap()
}

pub(crate) fn integers(value: &Value) -> Vec<usize> {
    value.as_array().unwrap().iter().map(integer).collect()
}

pub(crate) fn signed(value: &Value) -> Vec<i64> {
    value.as_array().unwrap().iter().map(|v| v.as_i64().unwrap()).collect()
}

pub(crate) fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

pub(crate) fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap()
}

/// Rows of numbers.
pub(crate) fn matrix(value: &Value) -> Array2<f32> {
    let rows: Vec<Vec<f64>> = list(value).iter().map(numbers).collect();
    Array2::from_shape_fn((rows.len(), rows[0].len()), |(row, col)| rows[row][col] as f32)
}

pub(crate) fn assert_close(what: &str, got: f64, expected: f64, tolerance: f64) {
    assert!(
        (got - expected).abs() <= tolerance,
        "{what}: {got} instead of {expected}"
    );
}
