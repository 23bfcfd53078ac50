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

/// A request with `count` values.
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
    let table: [(&'static str, &'static str, Vec<Call>); 39] = [
        ("Compare", "unequal lengths", rpc("Compare", compare(A, &[B, short]))),
        (
            "Compare",
            "NaN",
            [rpc("Compare", compare(nan, &[B])), rpc("Compare", compare(A, &[nan]))].concat_calls(),
        ),
        ("Compare", "no pairs", rpc("Compare", compare(&[], &[&[]]))),
        ("Compare", "exact tests of too many values", rpc("Compare", exact(2000))),
        (
            "RankStability",
            "encoders that are not the same in both",
            rpc(
                "RankStability",
                RankStabilityRequest {
                    transformed: vec![series("b", A), series("a", B)],
                    ..stability(&[A, B], &[])
                },
            ),
        ),
        (
            "RankStability",
            "unequal lengths",
            rpc("RankStability", stability(&[A, short], &[A, B])),
        ),
        (
            "RankStability",
            "NaN",
            rpc("RankStability", stability(&[A, B], &[A, nan])),
        ),
        (
            "RankStability",
            "a data set on which all encoders tie",
            rpc(
                "RankStability",
                stability(&[&[1.0, 2.0], &[1.0, 3.0]], &[&[1.0, 2.0], &[2.0, 3.0]]),
            ),
        ),
        ("Agreement", "one rater", rpc("Agreement", agreement(&[A]))),
        ("Agreement", "unequal lengths", rpc("Agreement", agreement(&[A, short]))),
        (
            "Agreement",
            "unknown weights",
            rpc(
                "Agreement",
                AgreementRequest {
                    weights: "cubic".to_owned(),
                    ..agreement(&[A, B])
                },
            ),
        ),
        (
            "Agreement",
            "a rating off the scale",
            rpc(
                "Agreement",
                AgreementRequest {
                    scale: vec![1.0, 2.0],
                    ..agreement(&[A, A])
                },
            ),
        ),
        (
            "Agreement",
            "no item rated twice",
            rpc("Agreement", agreement(&[&[1.0, NAN, 1.0], &[NAN, 2.0, NAN]])),
        ),
        (
            "Agreement",
            "more than 1000 values on the scale",
            rpc("Agreement", agreement(&[&fine, &fine])),
        ),
        (
            "Agreement",
            "more than 4194304 items x values",
            rpc("Agreement", agreement(&[&wide, &wide])),
        ),
        (
            "Reliability",
            "fewer than three encoders",
            rpc("Reliability", reliability(&[A, B])),
        ),
        (
            "Reliability",
            "fewer than two data sets",
            rpc("Reliability", reliability(&[&A[..1], &B[..1], &C[..1]])),
        ),
        (
            "Reliability",
            "unequal lengths",
            rpc("Reliability", reliability(&[A, B, short])),
        ),
        ("Reliability", "NaN", rpc("Reliability", reliability(&[A, B, nan]))),
        (
            "ComparePairs",
            "fewer than two systems",
            rpc("ComparePairs", pairs(all(&[A]))),
        ),
        (
            "ComparePairs",
            "more than 100 systems",
            rpc("ComparePairs", pairs(many(101))),
        ),
        (
            "ComparePairs",
            "unequal lengths",
            rpc("ComparePairs", pairs(all(&[A, short]))),
        ),
        ("ComparePairs", "NaN", rpc("ComparePairs", pairs(all(&[A, nan])))),
        (
            "CompareRanks",
            "fewer than three systems",
            rpc("CompareRanks", ranks(all(&[A, B]))),
        ),
        (
            "CompareRanks",
            "more than 100 systems",
            rpc("CompareRanks", ranks(many(101))),
        ),
        (
            "CompareRanks",
            "fewer than two data sets",
            rpc("CompareRanks", ranks(all(&[&A[..1], &B[..1], &C[..1]]))),
        ),
        (
            "CompareRanks",
            "unequal lengths",
            rpc("CompareRanks", ranks(all(&[A, B, short]))),
        ),
        ("CompareRanks", "NaN", rpc("CompareRanks", ranks(all(&[A, B, nan])))),
        (
            "CompareRanks",
            "all systems tied everywhere",
            rpc("CompareRanks", ranks(all(&[A, A, A]))),
        ),
        (
            "AdjustPValues",
            "no p-values",
            rpc("AdjustPValues", AdjustPValuesRequest::default()),
        ),
        (
            "AdjustPValues",
            "a value outside 0 to 1",
            [-0.1, 1.1, NAN]
                .map(|p| rpc("AdjustPValues", AdjustPValuesRequest { p_values: vec![0.5, p] }))
                .concat_calls(),
        ),
        ("Bootstrap", "no values", rpc("Bootstrap", bootstrap(&[]))),
        ("Bootstrap", "NaN", rpc("Bootstrap", bootstrap(nan))),
        (
            "Bootstrap",
            "a statistic that is undefined on these",
            rpc(
                "Bootstrap",
                BootstrapRequest {
                    second: vec![1.0; 4],
                    statistic: BootstrapStatistic::Pearson.into(),
                    ..bootstrap(A)
                },
            ),
        ),
        ("Correlate", "unequal lengths", rpc("Correlate", correlate(A, short))),
        ("Correlate", "NaN", rpc("Correlate", correlate(A, nan))),
        (
            "Correlate",
            "a constant series (its correlation is undefined, not 0)",
            rpc("Correlate", correlate(A, &[1.0; 4])),
        ),
        (
            "PlanDesign",
            "fewer than two data sets",
            rpc("PlanDesign", plan(&[&[0.1, 0.2]])),
        ),
        (
            "PlanDesign",
            "numbers of seeds that differ",
            rpc("PlanDesign", plan(&[&[0.1, 0.2], &[0.1]])),
        ),
    ];
    let neither = row(
        "StatisticsService.PlanDesign",
        "INVALID_ARGUMENT: neither differences nor spreads",
        rpc(
            "PlanDesign",
            PlanDesignRequest {
                datasets: 5,
                seeds: 2,
                ..PlanDesignRequest::default()
            },
        ),
    );
    let named = table.into_iter().map(|(rpc, case, calls)| {
        // Rows live as long as the test.
        let element: &'static str = format!("StatisticsService.{rpc}").leak();
        let promise: &'static str = format!("INVALID_ARGUMENT: {case}").leak();
        row(element, promise, calls)
    });
    named.chain([neither]).collect()
}

trait Concat {
    fn concat_calls(self) -> Vec<Call>;
}

impl<const N: usize> Concat for [Vec<Call>; N] {
    fn concat_calls(self) -> Vec<Call> {
        self.into_iter().flatten().collect()
    }
}
