//! `StatisticsService`: comparisons of paired scores.

use isomer_proto::eval::v1::{
    AgreementRequest, CompareRequest, RankStabilityRequest, ReliabilityRequest, ScoreSeries, agreement_request::Rater,
};
use isomer_service_kit::Fault;
use tonic::Code;

use crate::{harness::harness, support::close};

fn series(name: &str, values: &[f64]) -> ScoreSeries {
    ScoreSeries {
        name: name.to_owned(),
        values: values.to_vec(),
    }
}

#[tokio::test]
async fn comparisons_carry_shift_interval_test_and_adjustment() {
    let mut harness = harness().await;
    let statistics = &mut harness.statistics;
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
    let exact = b.signed_rank_interval.as_ref().unwrap();
    assert!(exact.low < 0.05 && 0.05 < exact.high && exact.level >= 0.95);
    assert_eq!(exact.method, "signed-rank, exact");
    close(
        b.p_benjamini_hochberg.unwrap(),
        4.0 / 4096.0,
        1e-12,
        "false discoveries",
    );
    assert!(c.p_value.unwrap() > 0.5 && c.p_holm.unwrap() >= c.p_value.unwrap());
    assert_eq!((same.p_value, same.p_holm, same.hodges_lehmann), (None, None, 0.0));
    assert!(same.note.contains("all differences are zero"), "{}", same.note);
    let again = statistics.compare(request).await.unwrap().into_inner().comparisons;
    assert_eq!(again, found);
}

#[tokio::test]
async fn comparisons_that_make_no_sense_are_refused() {
    let mut harness = harness().await;
    let statistics = &mut harness.statistics;
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
}

#[tokio::test]
async fn a_ranking_that_is_kept_is_stable_and_one_that_is_turned_is_not() {
    let mut harness = harness().await;
    let statistics = &mut harness.statistics;
    let original = vec![
        series("a", &[1.0, 3.0]),
        series("b", &[2.0, 2.0]),
        series("c", &[3.0, 1.0]),
    ];
    let transformed = vec![
        series("a", &[0.5, 0.1]),
        series("b", &[0.6, 0.2]),
        series("c", &[0.7, 0.3]),
    ];
    let request = RankStabilityRequest { original, transformed };
    let found = statistics.rank_stability(request.clone()).await.unwrap().into_inner();
    close(found.tau_b[0], 1.0, 1e-12, "kept");
    close(found.tau_b[1], -1.0, 1e-12, "turned");
    close(found.mean, 0.0, 1e-12, "mean");
    close(found.sd.unwrap(), 2.0_f64.sqrt(), 1e-12, "sd");
    let mut renamed = request;
    renamed.transformed[1].name = "d".to_owned();
    let fault = Fault::from_status(&statistics.rank_stability(renamed).await.unwrap_err());
    assert_eq!(fault.field.as_deref(), Some("transformed[1].name"));
}

#[tokio::test]
async fn raters_agree_as_published() {
    let mut harness = harness().await;
    let statistics = &mut harness.statistics;
    // Gwet (2014), table 2.8; irrCAC's overview: AC1 0.77544, se 0.14295; Krippendorff (2011):
    // alpha 0.743.
    let none = f64::NAN;
    let ratings = [
        vec![1.0, 2.0, 3.0, 3.0, 2.0, 1.0, 4.0, 1.0, 2.0, none, none, none],
        vec![1.0, 2.0, 3.0, 3.0, 2.0, 2.0, 4.0, 1.0, 2.0, 5.0, none, 3.0],
        vec![none, 3.0, 3.0, 3.0, 2.0, 3.0, 4.0, 2.0, 2.0, 5.0, 1.0, none],
        vec![1.0, 2.0, 3.0, 3.0, 2.0, 4.0, 4.0, 1.0, 2.0, 5.0, 1.0, none],
    ];
    let request = AgreementRequest {
        raters: ratings
            .map(|ratings| Rater {
                name: String::new(),
                ratings,
            })
            .to_vec(),
        weights: "identity".to_owned(),
        ..AgreementRequest::default()
    };
    let found = statistics.agreement(request.clone()).await.unwrap().into_inner();
    close(found.ac2, 0.775_44, 5e-6, "AC1");
    close(found.standard_error, 0.142_95, 5e-6, "standard error");
    close(found.alpha, 0.743, 5e-4, "alpha");
    let odd = AgreementRequest {
        weights: "cubic".to_owned(),
        ..request
    };
    let fault = Fault::from_status(&statistics.agreement(odd).await.unwrap_err());
    assert_eq!(fault.field.as_deref(), Some("weights"));
}

#[tokio::test]
async fn a_profile_that_ranks_alike_everywhere_is_reliable() {
    let mut harness = harness().await;
    let statistics = &mut harness.statistics;
    let encoders = (0..4)
        .map(|e| series("e", &[0, 1, 2, 3, 4].map(|d| f64::from(10 * e + d))))
        .collect();
    let strata = ["sts", "sts", "cls", "cls", "cls"].map(str::to_owned).to_vec();
    let request = ReliabilityRequest {
        encoders,
        strata,
        ..ReliabilityRequest::default()
    };
    let found = statistics.reliability(request.clone()).await.unwrap().into_inner();
    close(found.median, 1.0, 1e-12, "median");
    assert_eq!(found.interval.unwrap().method, "quantiles over 1000 splits");
    let odd = ReliabilityRequest {
        strata: vec!["sts".to_owned()],
        ..request
    };
    let fault = Fault::from_status(&statistics.reliability(odd).await.unwrap_err());
    assert_eq!(fault.field.as_deref(), Some("strata"));
}

#[tokio::test]
async fn one_pair_is_compared_without_what_one_pair_cannot_give() {
    let mut harness = harness().await;
    let statistics = &mut harness.statistics;
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
