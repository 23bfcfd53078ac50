//! Statistics that take a long time.

use isomer_proto::eval::v1::{
    AdjustPValuesRequest, AgreementRequest, BootstrapRequest, BootstrapStatistic, ComparePairsRequest,
    CompareRanksRequest, CompareRequest, CorrelateRequest, PlanDesignRequest, RankStabilityRequest, ReliabilityRequest,
    ScoreSeries, agreement_request::Rater,
};
use prost::Message;

use super::rows::{Cost, Row, SCALE, grpc};

fn values(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    (0..count).map(|_| next()).collect()
}

fn series(count: usize, length: usize) -> Vec<ScoreSeries> {
    let one = |seed: usize| ScoreSeries {
        name: seed.to_string(),
        values: values(length, seed as u64 + 1),
    };
    (0..count).map(one).collect()
}

fn row<M: Message>(rpc: &str, what: &'static str, message: impl FnOnce() -> M + Send + 'static) -> Row {
    grpc(
        &format!("eval.v1.StatisticsService/{rpc}"),
        what,
        Cost::Computing,
        message,
    )
}

fn raters(items: usize) -> Vec<Rater> {
    let rater = |seed| Rater {
        name: String::new(),
        ratings: values(items, seed)
            .iter()
            .map(|rating| (rating * 30.0).floor())
            .collect(),
    };
    vec![rater(1), rater(2), rater(3)]
}

pub fn rows() -> Vec<Row> {
    vec![
        row("Compare", "resamples of a shift", || CompareRequest {
            reference: series(1, 1000).pop(),
            treatments: series(4, 1000),
            resamples: 200 * SCALE,
            ..CompareRequest::default()
        }),
        grpc(
            "eval.v1.StatisticsService/RankStability",
            "many data sets",
            Cost::Moving,
            || RankStabilityRequest {
                original: series(100, 1200 * SCALE as usize),
                transformed: series(100, 1200 * SCALE as usize),
            },
        ),
        row("Agreement", "many items on a long scale", || AgreementRequest {
            raters: raters(8000 * SCALE as usize),
            ..AgreementRequest::default()
        }),
        row("Reliability", "many splits", || ReliabilityRequest {
            encoders: series(100, 100),
            splits: 2000 * SCALE,
            ..ReliabilityRequest::default()
        }),
        row("ComparePairs", "as many systems as allowed", || ComparePairsRequest {
            systems: series(100, 20),
            resamples: 20 * SCALE,
            ..ComparePairsRequest::default()
        }),
        row("CompareRanks", "as many systems as allowed", || CompareRanksRequest {
            systems: series(if cfg!(debug_assertions) { 30 } else { 100 }, 1000 * SCALE as usize),
            ..CompareRanksRequest::default()
        }),
        row("AdjustPValues", "many values", || AdjustPValuesRequest {
            p_values: values(240_000 * SCALE as usize, 3),
        }),
        row("Bootstrap", "resamples of a shift", || BootstrapRequest {
            values: values(1000, 5),
            statistic: BootstrapStatistic::HodgesLehmann.into(),
            resamples: 1000 * SCALE,
            ..BootstrapRequest::default()
        }),
        row("Correlate", "resamples of long series", || CorrelateRequest {
            x: series(1, 20_000).pop(),
            y: series(2, 20_000).pop(),
            resamples: 20 * SCALE,
            ..CorrelateRequest::default()
        }),
        row("PlanDesign", "a long pilot", || PlanDesignRequest {
            differences: series(240 * SCALE as usize, 1000),
            effect: Some(1e-6),
            ..PlanDesignRequest::default()
        }),
    ]
}
