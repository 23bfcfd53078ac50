//! gRPC handlers for statistics, which convert protos. The computation is in [`crate::stats`].

mod compare;
mod cost;
mod pairs;
mod rankings;
mod samples;

use isomer_proto::eval::v1::{
    self as proto, AdjustPValuesRequest, AdjustPValuesResponse, AgreementRequest, AgreementResponse, BootstrapRequest,
    BootstrapResponse, ComparePairsRequest, ComparePairsResponse, CompareRanksRequest, CompareRanksResponse,
    CompareRequest, CompareResponse, CorrelateRequest, CorrelateResponse, PlanDesignRequest, PlanDesignResponse,
    RankStabilityRequest, RankStabilityResponse, ReliabilityRequest, ReliabilityResponse, ScoreSeries,
    statistics_service_server::StatisticsService,
};
use isomer_service_kit::{Fault, choice, long_work};
use tonic::{Code, Request, Response, Status};

use crate::stats::{Alternative, Interval, StatsError, stop};

const DEFAULT_RESAMPLES: u32 = 1000;
const DEFAULT_CONFIDENCE: f64 = 0.95;
const DEFAULT_ALPHA: f64 = 0.05;
const DEFAULT_SEED: u64 = 1337;
/// Maximum number of systems in a request that compares each with every other: the time grows
/// faster than their square.
const MOST_SYSTEMS: usize = 100;

/// Serves `isomer.eval.v1.StatisticsService`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StatisticsHandler;

/// An rpc that computes its response from its request alone, off the runtime's threads, until its
/// caller leaves. Its cost is checked first.
macro_rules! computed {
    ($($rpc:ident($request:ty) -> $response:ty = $compute:path, $cost:path;)*) => {
        #[cfg(test)]
        const RPCS: &[&str] = &[$(stringify!($rpc)),*];

        #[tonic::async_trait]
        impl StatisticsService for StatisticsHandler {
            $(async fn $rpc(&self, request: Request<$request>) -> Result<Response<$response>, Status> {
                let request = request.into_inner();
                let computed = long_work(move |left| {
                    stop::until(&left, || cost::check(&$cost(&request)).and_then(|()| $compute(&request)))
                });
                let left = || Fault::new(Code::Cancelled, "CALLER_LEFT", "the caller left");
                Ok(Response::new(computed.await?.ok_or_else(left)??))
            })*
        }
    };
}

computed! {
    compare(CompareRequest) -> CompareResponse = compare::compare, compare::cost;
    rank_stability(RankStabilityRequest) -> RankStabilityResponse = rankings::rank_stability, rankings::rank_stability_cost;
    agreement(AgreementRequest) -> AgreementResponse = samples::agreement, samples::agreement_cost;
    reliability(ReliabilityRequest) -> ReliabilityResponse = rankings::reliability, rankings::reliability_cost;
    compare_pairs(ComparePairsRequest) -> ComparePairsResponse = pairs::compare_pairs, pairs::cost;
    compare_ranks(CompareRanksRequest) -> CompareRanksResponse = rankings::compare_ranks, rankings::compare_ranks_cost;
    adjust_p_values(AdjustPValuesRequest) -> AdjustPValuesResponse = samples::adjust, samples::adjust_cost;
    bootstrap(BootstrapRequest) -> BootstrapResponse = samples::bootstrap, samples::bootstrap_cost;
    correlate(CorrelateRequest) -> CorrelateResponse = samples::correlate, samples::correlate_cost;
    plan_design(PlanDesignRequest) -> PlanDesignResponse = samples::plan_design, samples::plan_design_cost;
}

fn alternative(number: i32) -> Result<Alternative, Fault> {
    Ok(match choice("alternative", number)? {
        Some(proto::Alternative::Greater) => Alternative::Greater,
        Some(proto::Alternative::Less) => Alternative::Less,
        _ => Alternative::TwoSided,
    })
}

/// A number strictly between 0 and 1; 0 selects the default.
fn share(field: &str, value: f64, default: f64) -> Result<f64, Fault> {
    match value {
        0.0 => Ok(default),
        value if value > 0.0 && value < 1.0 => Ok(value),
        value => Err(Fault::invalid(
            field,
            format!("is {value}, must be above 0 and below 1"),
        )),
    }
}

/// The number of resamples to draw.
fn resamples(asked: u32) -> u32 {
    if asked == 0 { DEFAULT_RESAMPLES } else { asked }
}

/// The length of the longest series.
fn longest(all: &[ScoreSeries]) -> u64 {
    all.iter().map(|series| series.values.len()).max().unwrap_or_default() as u64
}

/// The fault for numbers that a statistic rejects.
fn undefined(field: &str) -> impl Fn(StatsError) -> Fault + '_ {
    move |error| Fault::invalid(field, error.to_string())
}

/// Refuses a number of systems that cannot be compared with each other quickly.
fn few_systems(systems: &[ScoreSeries]) -> Result<(), Fault> {
    if systems.len() > MOST_SYSTEMS {
        let message = format!("has {} systems; at most {MOST_SYSTEMS} are accepted", systems.len());
        return Err(Fault::invalid("systems", message).hint("compare those that matter most"));
    }
    Ok(())
}

/// The length that all series share.
fn same_length(field: &str, all: &[ScoreSeries]) -> Result<usize, Fault> {
    let length = all.first().map_or(0, |series| series.values.len());
    if length == 0 {
        return Err(Fault::invalid(field, "has no scores"));
    }
    for (i, series) in all.iter().enumerate() {
        let field = format!("{field}[{i}]");
        finite(&field, series)?;
        if series.values.len() != length {
            let message = format!("has {} values, but the first series has {length}", series.values.len());
            return Err(Fault::invalid(format!("{field}.values"), message)
                .hint("position i of every series must be the same data set"));
        }
    }
    Ok(length)
}

fn finite(field: &str, series: &ScoreSeries) -> Result<(), Fault> {
    finite_values(&format!("{field}.values"), &series.values)
}

fn finite_values(field: &str, values: &[f64]) -> Result<(), Fault> {
    match values.iter().position(|value| !value.is_finite()) {
        Some(i) => Err(Fault::invalid(
            format!("{field}[{i}]"),
            format!("{} is not a finite number", values[i]),
        )),
        None => Ok(()),
    }
}

/// A bootstrap interval as a proto; `method` is the word before "bootstrap".
fn bootstrapped(method: &str, interval: &Interval) -> proto::Interval {
    proto::Interval {
        low: interval.low,
        high: interval.high,
        level: interval.level,
        method: format!("{method} bootstrap ({})", interval.resamples),
    }
}

/// A count as a proto's number.
fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
