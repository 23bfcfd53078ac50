//! Rankings of systems: their stability, their reliability, and whether the systems differ at all.

use isomer_proto::eval::v1::{
    self as proto, CompareRanksRequest, CompareRanksResponse, RankStabilityRequest, RankStabilityResponse,
    ReliabilityRequest, ReliabilityResponse, ScoreSeries, compare_ranks_response,
};
use isomer_service_kit::Fault;
use ndarray::Array2;

use super::{
    DEFAULT_ALPHA, DEFAULT_SEED, MOST_SYSTEMS,
    cost::{Cost, letters, product, resampled, sorted, sum},
    count, few_systems, longest, same_length, share, undefined,
};
use crate::stats::{
    friedman::{friedman, nemenyi},
    kendall_tau_b, mean,
    reliability::split_half_reliability,
    sample_sd, series,
};

const DEFAULT_SPLITS: u32 = 1000;

/// Kendall's tau-b between the original and the transformed ranking of the encoders, per position
/// (data set).
pub(super) fn rank_stability(request: &RankStabilityRequest) -> Result<RankStabilityResponse, Fault> {
    let original = same_length("original", &request.original)?;
    let transformed = same_length("transformed", &request.transformed)?;
    if request.original.len() != request.transformed.len() {
        let message = format!(
            "has {1} encoders, but the original has {0}",
            request.original.len(),
            request.transformed.len()
        );
        return Err(Fault::invalid("transformed", message).hint("series i of both must be the same encoder"));
    }
    if original != transformed {
        let message = format!("has {transformed} positions, but the originals have {original}");
        return Err(
            Fault::invalid("transformed[0].values", message).hint("position i of both must be the same data set")
        );
    }
    for (i, (before, after)) in request.original.iter().zip(&request.transformed).enumerate() {
        if before.name != after.name {
            let message = format!(
                "is {:?}, but the originals have {:?} at this position",
                after.name, before.name
            );
            return Err(
                Fault::invalid(format!("transformed[{i}].name"), message).hint("list the encoders in one order")
            );
        }
    }
    let at = |all: &[ScoreSeries], i: usize| -> Vec<f64> { all.iter().map(|series| series.values[i]).collect() };
    let tau_b: Result<Vec<f64>, Fault> = (0..original)
        .map(|i| {
            kendall_tau_b(&at(&request.original, i), &at(&request.transformed, i)).map_err(|error| {
                Fault::invalid(format!("original[].values[{i}]"), error.to_string())
                    .hint("leave out data sets on which all encoders score alike")
            })
        })
        .collect();
    let tau_b = tau_b?;
    Ok(RankStabilityResponse {
        mean: mean(&tau_b).ok_or_else(|| Fault::invalid("original", "has no scores"))?,
        sd: sample_sd(&tau_b),
        tau_b,
    })
}

fn splits(request: &ReliabilityRequest) -> u32 {
    match request.splits {
        0 => DEFAULT_SPLITS,
        splits => splits,
    }
}

/// For each split: a shuffle of the data sets, two means of each encoder and a correlation.
pub(super) fn reliability_cost(request: &ReliabilityRequest) -> Vec<Cost> {
    let (encoders, datasets) = (request.encoders.len() as u64, longest(&request.encoders));
    let means = product(&[4, encoders, datasets]);
    let steps = resampled(u64::from(splits(request)), datasets, sum([means, sorted(encoders)]));
    vec![Cost::new("splits", steps)]
}

/// For each position: a correlation.
pub(super) fn rank_stability_cost(request: &RankStabilityRequest) -> Vec<Cost> {
    let encoders = sorted(request.original.len() as u64);
    vec![Cost::new("original", product(&[longest(&request.original), encoders]))]
}

/// For each position: ranks.
pub(super) fn compare_ranks_cost(request: &CompareRanksRequest) -> Vec<Cost> {
    if request.systems.len() > MOST_SYSTEMS {
        // Too many systems are refused elsewhere.
        return Vec::new();
    }
    let systems = request.systems.len() as u64;
    let ranks = product(&[longest(&request.systems), sorted(systems)]);
    vec![Cost::new("systems", sum([ranks, letters(systems)]))]
}

/// Split-half reliability of the encoders' ranking.
pub(super) fn reliability(request: &ReliabilityRequest) -> Result<ReliabilityResponse, Fault> {
    let datasets = same_length("encoders", &request.encoders)?;
    let strata = match request.strata.len() {
        0 => vec![String::new(); datasets],
        count if count == datasets => request.strata.clone(),
        count => {
            return Err(
                Fault::invalid("strata", format!("has {count} names for {datasets} data sets"))
                    .hint("one task type a data set, or none at all"),
            );
        }
    };
    let splits = splits(request);
    let scores = rows(&request.encoders)?;
    let seed = request.seed.unwrap_or(DEFAULT_SEED);
    let found = split_half_reliability(scores.view(), &strata, splits as usize, seed).map_err(undefined("encoders"))?;
    Ok(ReliabilityResponse {
        median: found.median,
        interval: Some(proto::Interval {
            low: found.spread.0,
            high: found.spread.1,
            level: 0.95,
            method: format!("quantiles over {} splits", found.splits),
        }),
    })
}

/// One row for each series, all of which have one length.
fn rows(all: &[ScoreSeries]) -> Result<Array2<f64>, Fault> {
    let values: Vec<&[f64]> = all.iter().map(|series| series.values.as_slice()).collect();
    series::matrix(&values, ["the first series", "another series"]).map_err(|error| Fault::internal(error.to_string()))
}

/// Friedman's test of the ranks, and Nemenyi's critical difference.
pub(super) fn compare_ranks(request: &CompareRanksRequest) -> Result<CompareRanksResponse, Fault> {
    same_length("systems", &request.systems)?;
    few_systems(&request.systems)?;
    let alpha = share("alpha", request.alpha, DEFAULT_ALPHA)?;
    let scores = rows(&request.systems)?;
    let test = friedman(scores.view()).map_err(undefined("systems"))?;
    let nemenyi = nemenyi(&test, alpha).map_err(undefined("alpha"))?;
    let systems = request.systems.iter().zip(&test.average_ranks).zip(nemenyi.letters);
    Ok(CompareRanksResponse {
        systems: systems
            .map(|((series, rank), letters)| compare_ranks_response::System {
                name: series.name.clone(),
                average_rank: *rank,
                letters,
            })
            .collect(),
        statistic: test.statistic,
        p_value: test.p_value,
        f_statistic: test.f_statistic,
        f_p_value: test.f_p_value,
        critical_difference: nemenyi.critical_difference,
        datasets: count(test.blocks),
    })
}
