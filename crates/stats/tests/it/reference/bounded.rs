//! Bounds within a known range against exact rational arithmetic and scipy
//! (`fixtures/make_bounded.py`).

use std::sync::LazyLock;

use isomer_stats::gate::bounded::{Range, bounded_interval, p_at_least};
use serde_json::Value;

use super::{close, close_relative, numbers, read};

static BOUNDED: LazyLock<Value> = LazyLock::new(|| read("bounded.json"));

#[test]
fn tails_of_weighted_means_equal_exact_fractions() {
    let rows = BOUNDED["tails"].as_array().unwrap();
    for (index, row) in rows.iter().enumerate() {
        let values: Vec<f64> = numbers(&row["values"]).into_iter().map(Option::unwrap).collect();
        let figure = |name: &str| row[name].as_f64().unwrap();
        let found = p_at_least(&values, figure("high"), figure("limit")).unwrap();
        close_relative(
            found,
            figure("p"),
            1e-11,
            &format!("design {index} of {}", values.len()),
        );
    }
    assert_eq!(rows.len(), 180);
}

#[test]
fn bounds_of_all_or_nothing_equal_scipy_s_clopper_and_pearson() {
    for row in BOUNDED["binomial"].as_array().unwrap() {
        let figures: Vec<f64> = numbers(row).into_iter().map(Option::unwrap).collect();
        let (k, n) = (figures[0] as usize, figures[1] as usize);
        let values: Vec<f64> = (0..n).map(|i| f64::from(u8::from(i < k))).collect();
        let (low, high) = bounded_interval(&values, Range { low: 0.0, high: 1.0 }, 0.05).unwrap();
        close(low, figures[2], 2e-9, &format!("{k} of {n}, low"));
        close(high, figures[3], 2e-9, &format!("{k} of {n}, high"));
    }
}
