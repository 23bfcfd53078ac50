//! Prediction-powered means against ppi-python, and shares against every pair of counts with
//! scipy's hypergeometric probabilities (`fixtures/make_prediction_powered.py`).

use isomer_stats::prediction_powered::{
    LabelledStratum, PredictedSample, StratifiedShare, Tuning, prediction_powered_mean,
};
use serde_json::Value;

use super::{designs::close, read};

fn list(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

#[test]
fn prediction_powered_means_equal_ppi_python() {
    let fixture = read("prediction_powered.json");
    let (mut fixed, mut tuned) = (0, 0);
    for (index, row) in fixture["means"].as_array().unwrap().iter().enumerate() {
        let [labels, predictions, unlabelled] = ["labels", "predictions", "unlabelled"].map(|key| list(&row[key]));
        let sample = PredictedSample {
            labels: &labels,
            predictions: &predictions,
            unlabelled: &unlabelled,
        };
        let alpha = row["alpha"].as_f64().unwrap();
        for expected in row["fixed"].as_array().unwrap() {
            let [weight, estimate, low] = list(expected)[..] else {
                panic!("{expected}")
            };
            let found = prediction_powered_mean(sample, Tuning::Fixed(weight)).unwrap();
            let what = format!("design {index}, weight {weight}");
            close(found.estimate, estimate, 1e-12, &what);
            close(found.lower(alpha).unwrap(), low, 1e-12, &what);
            fixed += 1;
        }
        if !row["tuned"].is_null() {
            let [estimate, low] = list(&row["tuned"])[..] else {
                panic!("{row}")
            };
            let found = prediction_powered_mean(sample, Tuning::Power).unwrap();
            let what = format!("design {index}, tuned: {found:?}");
            close(found.estimate, estimate, 1e-12, &what);
            close(found.lower(alpha).unwrap(), low, 1e-12, &what);
            tuned += 1;
        }
    }
    assert!(fixed == 180 && tuned > 50, "{fixed} {tuned}");
}

#[test]
fn the_bound_of_a_share_is_the_smallest_total_of_all_pairs_that_are_not_rejected() {
    let fixture = read("prediction_powered.json");
    for row in fixture["shares"].as_array().unwrap() {
        let numbers = list(row);
        let stratum = |at: usize| LabelledStratum {
            units: numbers[at] as u64,
            labelled: numbers[at + 1] as u64,
            positive: numbers[at + 2] as u64,
        };
        let found = StratifiedShare::of([stratum(0), stratum(3)], numbers[6]).unwrap();
        let total = numbers[0] + numbers[3];
        close(found.low * total, numbers[7], 1e-9, &format!("{row}"));
    }
}
