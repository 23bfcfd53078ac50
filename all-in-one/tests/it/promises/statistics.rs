//! Refusals of StatisticsService.

use isomer_proto::eval::v1::{
    AdjustPValuesRequest, AgreementRequest, BootstrapRequest, BootstrapStatistic, ComparePairsRequest,
    CompareRanksRequest, CompareRequest, CorrelateRequest, PlanDesignRequest, RankStabilityRequest, ReliabilityRequest,
    ScoreSeries, WilcoxonMethod, agreement_request::Rater,
};
use prost::Message;

use super::table::{Call, Row, call, row};

const NAN: f64 = f64::NAN;

fn series(name: &str, values: &[f64]) -> ScoreSeries {
    ScoreSeries {
        name: name.to_owned(),
        values: values.to_vec(),
    }
}

/// Series with these values, called `a`, `b` and so on.
fn all(values: &[&[f64]]) -> Vec<ScoreSeries> {
    let name = |i: usize| char::from(b'a' + (i % 26) as u8).to_string();
    values
        .iter()
        .enumerate()
        .map(|(i, own)| series(&name(i), own))
        .collect()
}

fn many(count: usize) -> Vec<ScoreSeries> {
    (0..count)
        .map(|i| series(&i.to_string(), &[i as f64, 1.0, 2.0]))
        .collect()
}

fn rpc(name: &str, message: impl Message) -> Vec<Call> {
    vec![call(&format!("eval.v1.StatisticsService/{name}"), message)]
}

fn compare(reference: &[f64], treatments: &[&[f64]]) -> CompareRequest {
    CompareRequest {
        reference: Some(series("reference", reference)),
        treatments: all(treatments),
        ..CompareRequest::default()
    }
}

fn stability(original: &[&[f64]], transformed: &[&[f64]]) -> RankStabilityRequest {
    RankStabilityRequest {
        original: all(original),
        transformed: all(transformed),
    }
}

fn agreement(ratings: &[&[f64]]) -> AgreementRequest {
    let rater = |ratings: &&[f64]| Rater {
        name: String::new(),
        ratings: ratings.to_vec(),
    };
    AgreementRequest {
        raters: ratings.iter().map(rater).collect(),
        ..AgreementRequest::default()
    }
}

fn reliability(encoders: &[&[f64]]) -> ReliabilityRequest {
    ReliabilityRequest {
        encoders: all(encoders),
        ..ReliabilityRequest::default()
    }
}

fn pairs(systems: Vec<ScoreSeries>) -> ComparePairsRequest {
    ComparePairsRequest {
        systems,
        ..ComparePairsRequest::default()
    }
}

fn ranks(systems: Vec<ScoreSeries>) -> CompareRanksRequest {
    CompareRanksRequest {
        systems,
        ..CompareRanksRequest::default()
    }
}

fn bootstrap(values: &[f64]) -> BootstrapRequest {
    BootstrapRequest {
        values: values.to_vec(),
        ..BootstrapRequest::default()
    }
}

fn correlate(x: &[f64], y: &[f64]) -> CorrelateRequest {
    CorrelateRequest {
        x: Some(series("x", x)),
        y: Some(series("y", y)),
        ..CorrelateRequest::default()
    }
}

fn plan(differences: &[&[f64]]) -> PlanDesignRequest {
    PlanDesignRequest {
        differences: all(differences),
        ..PlanDesignRequest::default()
    }
}

/// A request for exact tests of `count` values.
fn exact(count: usize) -> CompareRequest {
    let values: Vec<f64> = (0..count).map(|i| (i as f64).sqrt()).collect();
    let zeros = vec![0.0; count];
    CompareRequest {
        method: WilcoxonMethod::Exact.into(),
        resamples: 1,
        ..compare(&zeros, &[&values, &values, &values])
    }
}

const A: &[f64] = &[1.0, 2.0, 4.0, 3.0];
const B: &[f64] = &[2.0, 1.0, 5.0, 3.5];
const C: &[f64] = &[0.5, 2.5, 1.0, 2.0];

pub fn honest() -> Vec<Call> {
    [
        rpc("Compare", compare(A, &[B, C])),
        rpc("Compare", exact(100)),
        rpc("RankStability", stability(&[A, B, C], &[B, A, C])),
        rpc("Agreement", agreement(&[&[1.0, 2.0, 3.0], &[1.0, 2.0, 2.0]])),
        rpc("Reliability", reliability(&[A, B, C])),
        rpc(
            "ComparePairs",
            ComparePairsRequest {
                resamples: 10,
                ..pairs(many(100))
            },
        ),
        rpc("CompareRanks", ranks(all(&[A, B, C]))),
        rpc(
            "AdjustPValues",
            AdjustPValuesRequest {
                p_values: vec![0.1, 0.0, 1.0],
            },
        ),
        rpc("Bootstrap", bootstrap(A)),
        rpc("Correlate", correlate(A, B)),
        rpc(
            "PlanDesign",
            PlanDesignRequest {
                effect: Some(0.5),
                ..plan(&[&[0.1, 0.2], &[0.3, 0.5]])
            },
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

pub fn rows() -> Vec<Row> {
    let short: &[f64] = &A[..3];
    let nan: &[f64] = &[1.0, NAN, 4.0, 3.0];
    // 2,000 items that two raters rate with a thousand and one distinct values.
    let fine: Vec<f64> = (0..1001).map(f64::from).collect();
    let wide: Vec<f64> = (0..5000).map(|i| f64::from(i % 900)).collect();
    vec![
        row(
            "StatisticsService.Compare INVALID_ARGUMENT values",
            rpc("Compare", compare(A, &[B, short])),
        ),
        row(
            "StatisticsService.Compare INVALID_ARGUMENT values",
            [rpc("Compare", compare(nan, &[B])), rpc("Compare", compare(A, &[nan]))].concat_calls(),
        ),
        row(
            "StatisticsService.Compare INVALID_ARGUMENT values",
            rpc("Compare", compare(&[], &[&[]])),
        ),
        row(
            "StatisticsService.Compare INVALID_ARGUMENT method",
            rpc("Compare", exact(2000)),
        ),
        row(
            "StatisticsService.RankStability INVALID_ARGUMENT transformed.name",
            rpc(
                "RankStability",
                RankStabilityRequest {
                    transformed: vec![series("b", A), series("a", B)],
                    ..stability(&[A, B], &[])
                },
            ),
        ),
        row(
            "StatisticsService.RankStability INVALID_ARGUMENT values",
            rpc("RankStability", stability(&[A, short], &[A, B])),
        ),
        row(
            "StatisticsService.RankStability INVALID_ARGUMENT values",
            rpc("RankStability", stability(&[A, B], &[A, nan])),
        ),
        row(
            "StatisticsService.RankStability INVALID_ARGUMENT values",
            rpc(
                "RankStability",
                stability(&[&[1.0, 2.0], &[1.0, 3.0]], &[&[1.0, 2.0], &[2.0, 3.0]]),
            ),
        ),
        row(
            "StatisticsService.Agreement INVALID_ARGUMENT raters",
            rpc("Agreement", agreement(&[A])),
        ),
        row(
            "StatisticsService.Agreement INVALID_ARGUMENT raters",
            rpc("Agreement", agreement(&[A, short])),
        ),
        row(
            "StatisticsService.Agreement INVALID_ARGUMENT weights",
            rpc(
                "Agreement",
                AgreementRequest {
                    weights: "cubic".to_owned(),
                    ..agreement(&[A, B])
                },
            ),
        ),
        row(
            "StatisticsService.Agreement INVALID_ARGUMENT raters",
            rpc(
                "Agreement",
                AgreementRequest {
                    scale: vec![1.0, 2.0],
                    ..agreement(&[A, A])
                },
            ),
        ),
        row(
            "StatisticsService.Agreement INVALID_ARGUMENT raters",
            rpc("Agreement", agreement(&[&[1.0, NAN, 1.0], &[NAN, 2.0, NAN]])),
        ),
        row(
            "StatisticsService.Agreement INVALID_ARGUMENT raters",
            rpc("Agreement", agreement(&[&fine, &fine])),
        ),
        row(
            "StatisticsService.Agreement INVALID_ARGUMENT raters",
            rpc("Agreement", agreement(&[&wide, &wide])),
        ),
        row(
            "StatisticsService.Reliability INVALID_ARGUMENT encoders",
            rpc("Reliability", reliability(&[A, B])),
        ),
        row(
            "StatisticsService.Reliability INVALID_ARGUMENT encoders",
            rpc("Reliability", reliability(&[&A[..1], &B[..1], &C[..1]])),
        ),
        row(
            "StatisticsService.Reliability INVALID_ARGUMENT encoders.values",
            rpc("Reliability", reliability(&[A, B, short])),
        ),
        row(
            "StatisticsService.Reliability INVALID_ARGUMENT encoders.values",
            rpc("Reliability", reliability(&[A, B, nan])),
        ),
        row(
            "StatisticsService.ComparePairs INVALID_ARGUMENT systems",
            rpc("ComparePairs", pairs(all(&[A]))),
        ),
        row(
            "StatisticsService.ComparePairs INVALID_ARGUMENT systems",
            rpc("ComparePairs", pairs(many(101))),
        ),
        row(
            "StatisticsService.ComparePairs INVALID_ARGUMENT systems.values",
            rpc("ComparePairs", pairs(all(&[A, short]))),
        ),
        row(
            "StatisticsService.ComparePairs INVALID_ARGUMENT systems.values",
            rpc("ComparePairs", pairs(all(&[A, nan]))),
        ),
        row(
            "StatisticsService.CompareRanks INVALID_ARGUMENT systems",
            rpc("CompareRanks", ranks(all(&[A, B]))),
        ),
        row(
            "StatisticsService.CompareRanks INVALID_ARGUMENT systems",
            rpc("CompareRanks", ranks(many(101))),
        ),
        row(
            "StatisticsService.CompareRanks INVALID_ARGUMENT systems",
            rpc("CompareRanks", ranks(all(&[&A[..1], &B[..1], &C[..1]]))),
        ),
        row(
            "StatisticsService.CompareRanks INVALID_ARGUMENT systems.values",
            rpc("CompareRanks", ranks(all(&[A, B, short]))),
        ),
        row(
            "StatisticsService.CompareRanks INVALID_ARGUMENT systems.values",
            rpc("CompareRanks", ranks(all(&[A, B, nan]))),
        ),
        row(
            "StatisticsService.CompareRanks INVALID_ARGUMENT systems",
            rpc("CompareRanks", ranks(all(&[A, A, A]))),
        ),
        row(
            "StatisticsService.AdjustPValues INVALID_ARGUMENT p_values",
            rpc("AdjustPValues", AdjustPValuesRequest::default()),
        ),
        row(
            "StatisticsService.AdjustPValues INVALID_ARGUMENT p_values",
            [-0.1, 1.1, NAN]
                .map(|p| rpc("AdjustPValues", AdjustPValuesRequest { p_values: vec![0.5, p] }))
                .concat_calls(),
        ),
        row(
            "StatisticsService.Bootstrap INVALID_ARGUMENT values",
            rpc("Bootstrap", bootstrap(&[])),
        ),
        row(
            "StatisticsService.Bootstrap INVALID_ARGUMENT values",
            rpc("Bootstrap", bootstrap(nan)),
        ),
        row(
            "StatisticsService.Bootstrap INVALID_ARGUMENT second",
            rpc(
                "Bootstrap",
                BootstrapRequest {
                    second: vec![1.0; 4],
                    statistic: BootstrapStatistic::Pearson.into(),
                    ..bootstrap(A)
                },
            ),
        ),
        row(
            "StatisticsService.Correlate INVALID_ARGUMENT y",
            rpc("Correlate", correlate(A, short)),
        ),
        row(
            "StatisticsService.Correlate INVALID_ARGUMENT values",
            rpc("Correlate", correlate(A, nan)),
        ),
        row(
            "StatisticsService.Correlate INVALID_ARGUMENT y",
            rpc("Correlate", correlate(A, &[1.0; 4])),
        ),
        row(
            "StatisticsService.PlanDesign INVALID_ARGUMENT differences",
            rpc("PlanDesign", plan(&[&[0.1, 0.2]])),
        ),
        row(
            "StatisticsService.PlanDesign INVALID_ARGUMENT differences.values",
            rpc("PlanDesign", plan(&[&[0.1, 0.2], &[0.1]])),
        ),
        row(
            "StatisticsService.PlanDesign INVALID_ARGUMENT sd_between",
            rpc(
                "PlanDesign",
                PlanDesignRequest {
                    datasets: 5,
                    seeds: 2,
                    ..PlanDesignRequest::default()
                },
            ),
        ),
    ]
}

trait Concat {
    fn concat_calls(self) -> Vec<Call>;
}

impl<const N: usize> Concat for [Vec<Call>; N] {
    fn concat_calls(self) -> Vec<Call> {
        self.into_iter().flatten().collect()
    }
}
