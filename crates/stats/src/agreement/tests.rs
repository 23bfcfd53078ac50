#![allow(clippy::unwrap_used)]
use ndarray::{Array2, array, s};

use super::*;

const NONE: f64 = f64::NAN;

/// Four raters, twelve items, five categories: the worked example of Gwet (2014, table 2.8; the
/// data set `cac.raw4raters` of his R package irrCAC) and of Krippendorff (2011, section C).
fn published() -> Array2<f64> {
    array![
        [1.0, 2.0, 3.0, 3.0, 2.0, 1.0, 4.0, 1.0, 2.0, NONE, NONE, NONE],
        [1.0, 2.0, 3.0, 3.0, 2.0, 2.0, 4.0, 1.0, 2.0, 5.0, NONE, 3.0],
        [NONE, 3.0, 3.0, 3.0, 2.0, 3.0, 4.0, 2.0, 2.0, 5.0, 1.0, NONE],
        [1.0, 2.0, 3.0, 3.0, 2.0, 4.0, 4.0, 1.0, 2.0, 5.0, 1.0, NONE],
    ]
}

fn near(found: f64, expected: f64, tolerance: f64) {
    assert!((found - expected).abs() <= tolerance, "{found} is not {expected}");
}

#[test]
fn gwet_s_published_coefficient_standard_error_and_p_value_are_found() {
    // irrCAC's overview page: AC1 0.77544, pa 0.8181818, pe 0.1903212, se 0.14295, (0.461, 1), p
    // 0.000208721.
    let ratings = Ratings::new(published().view(), None).unwrap();
    let found = gwet(&ratings, Weights::Identity, 0.95).unwrap();
    near(found.coefficient, 0.775_44, 5e-6);
    near(found.observed, 0.818_181_8, 5e-8);
    near(found.chance, 0.190_321_2, 5e-8);
    near(found.standard_error, 0.142_95, 5e-6);
    near(found.interval.0, 0.461, 5e-4);
    assert_eq!(found.interval.1, 1.0);
    near(found.p_value, 0.000_208_721, 5e-9);
}

#[test]
fn krippendorff_s_published_alphas_are_found() {
    let ratings = Ratings::new(published().view(), None).unwrap();
    for (metric, published) in [
        (Metric::Nominal, 0.743),
        (Metric::Ordinal, 0.815),
        (Metric::Interval, 0.849),
        (Metric::Ratio, 0.797),
    ] {
        near(krippendorff_alpha(&ratings, metric).unwrap(), published, 5e-4);
    }
}

#[test]
fn everybody_agreeing_is_one() {
    let ratings = Ratings::new(array![[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]].view(), None).unwrap();
    for weights in [Weights::Identity, Weights::Ordinal, Weights::Linear, Weights::Quadratic] {
        let found = gwet(&ratings, weights, 0.95).unwrap();
        near(found.coefficient, 1.0, 1e-15);
        assert_eq!((found.observed, found.p_value), (1.0, 0.0));
    }
    near(krippendorff_alpha(&ratings, Metric::Ordinal).unwrap(), 1.0, 1e-15);
}

#[test]
fn the_order_of_raters_and_of_items_changes_nothing() {
    let published = published();
    let turned = published.slice(s![..;-1, ..;-1]);
    let (a, b) = (
        Ratings::new(published.view(), None).unwrap(),
        Ratings::new(turned, None).unwrap(),
    );
    let of = |r| gwet(r, Weights::Quadratic, 0.9).unwrap().coefficient;
    near(of(&a), of(&b), 1e-14);
}

#[test]
fn a_scale_with_values_nobody_used_changes_what_chance_is() {
    let ratings = array![[1.0, 2.0, 2.0, 3.0], [1.0, 2.0, 3.0, 3.0]];
    let used = gwet(&Ratings::new(ratings.view(), None).unwrap(), Weights::Ordinal, 0.95).unwrap();
    let whole = Ratings::new(ratings.view(), Some(&[1.0, 2.0, 3.0, 4.0, 5.0])).unwrap();
    let whole = gwet(&whole, Weights::Ordinal, 0.95).unwrap();
    assert!(whole.chance != used.chance && whole.observed > used.observed);
}

#[test]
fn what_cannot_be_rated_is_refused_by_name() {
    let message =
        |ratings: Array2<f64>, scale: Option<&[f64]>| Ratings::new(ratings.view(), scale).unwrap_err().to_string();
    assert!(message(array![[1.0]], None).contains("raters"));
    assert!(message(array![[1.0, 1.0], [1.0, 1.0]], None).contains("only one value"));
    assert!(message(array![[1.0, NONE], [NONE, 2.0]], None).contains("two raters"));
    assert!(message(array![[1.0, 7.0], [1.0, 2.0]], Some(&[1.0, 2.0, 3.0])).contains("ratings is 7"));
    assert!(message(array![[f64::INFINITY, 7.0], [1.0, 2.0]], None).contains("finite"));
}
