//! `StatisticsService`: comparisons of paired scores.

use isomer_proto::eval::v1::{CompareRequest, RankStabilityRequest, ScoreSeries};
use isomer_service_kit::Fault;
use tonic::Code;

use crate::{house::house, support::close};

fn series(name: &str, values: &[f64]) -> ScoreSeries {
    ScoreSeries {
        name: name.to_owned(),
        values: values.to_vec(),
    }
}

#[tokio::test]
async fn comparisons_carry_shift_interval_test_and_adjustment() {
    let mut house = house().await;
    let statistics = &mut house.statistics;
    let reference: Vec<f64> = (0..12).map(|i| 0.5 + f64::from(i) / 40.0).collect();
    let moved = |by: f64| -> Vec<f64> {
        reference
            .iter()
            .enumerate()
            .map(|(i, v)| v + by + (i as f64 - 5.5) / 1000.0)
            .collect()
    };
    let request = CompareRequest {
        reference: Some(series("a", &reference)),
        treatments: vec![
            series("b", &moved(0.05)),
            series("c", &moved(0.0)),
            series("a again", &reference),
        ],
        ..CompareRequest::default()
    };
    let found = statistics
        .compare(request.clone())
        .await
        .unwrap()
        .into_inner()
        .comparisons;
    let (b, c, same) = (&found[0], &found[1], &found[2]);
    assert_eq!((b.n, b.name.as_str()), (12, "b"));
    close(b.mean_difference, 0.05, 1e-12, "mean difference");
    close(b.hodges_lehmann, 0.05, 1e-9, "shift");
    // Twelve differences of one sign: 2 / 2^12.
    close(b.p_value.unwrap(), 2.0 / 4096.0, 1e-12, "p");
    close(
        b.p_holm.unwrap(),
        4.0 / 4096.0,
        1e-12,
        "adjusted over the two that were tested",
    );
    let interval = b.hodges_lehmann_interval.as_ref().unwrap();
    assert!(interval.low < 0.05 && 0.05 < interval.high && interval.level == 0.95);
    assert_eq!(interval.method, "percentile bootstrap (1000)");
    assert!(c.p_value.unwrap() > 0.5 && c.p_holm.unwrap() >= c.p_value.unwrap());
    assert_eq!((same.p_value, same.p_holm, same.hodges_lehmann), (None, None, 0.0));
    assert!(same.note.contains("all differences are zero"), "{}", same.note);
    let again = statistics.compare(request).await.unwrap().into_inner().comparisons;
    assert_eq!(again, found);
}

#[tokio::test]
async fn comparisons_that_make_no_sense_are_refused() {
    let mut house = house().await;
    let statistics = &mut house.statistics;
    let mut refuse = async |reference: &[f64], treatment: &[f64], confidence: f64, resamples: u32| {
        let request = CompareRequest {
            reference: Some(series("a", reference)),
            treatments: vec![series("b", treatment)],
            confidence,
            resamples,
            ..CompareRequest::default()
        };
        let fault = Fault::from_status(&statistics.compare(request).await.unwrap_err());
        assert_eq!(fault.code, Code::InvalidArgument);
        fault.field.unwrap()
    };
    assert_eq!(refuse(&[1.0, 2.0], &[1.0], 0.95, 10).await, "treatments[0].values");
    assert_eq!(refuse(&[1.0], &[f64::NAN], 0.95, 10).await, "treatments[0].values[0]");
    assert_eq!(refuse(&[], &[], 0.95, 10).await, "reference.values");
    assert_eq!(refuse(&[1.0], &[2.0], 1.0, 10).await, "confidence");
    assert_eq!(refuse(&[1.0; 1000], &[2.0; 1000], 0.9, 4_000_000).await, "resamples");
    let none = CompareRequest {
        reference: Some(series("a", &[1.0])),
        ..CompareRequest::default()
    };
    assert_eq!(
        statistics.compare(none).await.unwrap_err().code(),
        Code::InvalidArgument
    );
    let later = statistics
        .rank_stability(RankStabilityRequest::default())
        .await
        .unwrap_err();
    assert_eq!(later.code(), Code::Unimplemented);
}

#[tokio::test]
async fn one_pair_is_compared_without_what_one_pair_cannot_give() {
    let mut house = house().await;
    let statistics = &mut house.statistics;
    let request = CompareRequest {
        reference: Some(series("a", &[0.5])),
        treatments: vec![series("b", &[0.75])],
        ..CompareRequest::default()
    };
    let found = statistics
        .compare(request)
        .await
        .unwrap()
        .into_inner()
        .comparisons
        .remove(0);
    assert_eq!((found.n, found.hodges_lehmann, found.sd_difference), (1, 0.25, None));
    assert_eq!(found.p_value, Some(1.0));
    assert!(found.note.contains("no two-sided p-value below 1"), "{}", found.note);
}
