//! Rank stability, agreement of raters, split-half reliability: protos in, figures out.

use isomer_proto::eval::v1::{
    self as proto, AgreementRequest, AgreementResponse, RankStabilityRequest, RankStabilityResponse,
    ReliabilityRequest, ReliabilityResponse, ScoreSeries,
};
use isomer_service_kit::Fault;

use super::{DEFAULT_CONFIDENCE, DEFAULT_SEED, MOST_DRAWS};
use crate::stats::{
    agreement::{Metric, Ratings, Weights, gwet, krippendorff_alpha},
    kendall_tau_b, mean,
    reliability::split_half_reliability,
    sample_sd,
};

const DEFAULT_SPLITS: u32 = 1000;

/// Kendall's tau-b between the original and the transformed ranking of the encoders, per position (data set).
pub(super) fn rank_stability(request: &RankStabilityRequest) -> Result<RankStabilityResponse, Fault> {
    let original = same_length("original", &request.original)?;
    let transformed = same_length("transformed", &request.transformed)?;
    if request.original.len() != request.transformed.len() {
        let message = format!(
            "{} encoders against {}",
            request.original.len(),
            request.transformed.len()
        );
        return Err(Fault::invalid("transformed", message).mend("series i of both must be the same encoder"));
    }
    if original != transformed {
        let message = format!("{transformed} positions against {original} of the originals");
        return Err(
            Fault::invalid("transformed[0].values", message).mend("position i of both must be the same data set")
        );
    }
    for (i, (before, after)) in request.original.iter().zip(&request.transformed).enumerate() {
        if before.name != after.name {
            let message = format!("{:?} stands where the originals have {:?}", after.name, before.name);
            return Err(
                Fault::invalid(format!("transformed[{i}].name"), message).mend("list the encoders in one order")
            );
        }
    }
    let at = |all: &[ScoreSeries], i: usize| -> Vec<f64> { all.iter().map(|series| series.values[i]).collect() };
    let tau_b: Result<Vec<f64>, Fault> = (0..original)
        .map(|i| {
            kendall_tau_b(&at(&request.original, i), &at(&request.transformed, i)).map_err(|error| {
                Fault::invalid(format!("original[].values[{i}]"), error.to_string())
                    .mend("leave out data sets on which all encoders score alike")
            })
        })
        .collect();
    let tau_b = tau_b?;
    Ok(RankStabilityResponse {
        mean: mean(&tau_b).ok_or_else(|| Fault::invalid("original", "there are no scores"))?,
        // One data set has no spread.
        sd: sample_sd(&tau_b).unwrap_or(0.0),
        tau_b,
    })
}

/// Gwet's AC1 or AC2, and Krippendorff's alpha with the metric that goes with the weights.
pub(super) fn agreement(request: &AgreementRequest) -> Result<AgreementResponse, Fault> {
    let (weights, metric) = match request.weights.as_str() {
        "identity" => (Weights::Identity, Metric::Nominal),
        "" | "ordinal" => (Weights::Ordinal, Metric::Ordinal),
        "linear" => (Weights::Linear, Metric::Linear),
        "quadratic" => (Weights::Quadratic, Metric::Interval),
        other => {
            return Err(Fault::invalid("weights", format!("{other:?} are no known weights"))
                .mend("identity, ordinal, linear or quadratic"));
        }
    };
    let confidence = if request.confidence == 0.0 {
        DEFAULT_CONFIDENCE
    } else {
        request.confidence
    };
    let raters: Vec<Vec<f64>> = request.raters.iter().map(|rater| rater.ratings.clone()).collect();
    let scale = (!request.scale.is_empty()).then_some(request.scale.as_slice());
    let ratings = Ratings::new(&raters, scale).map_err(|error| Fault::invalid("raters", error.to_string()))?;
    let found = gwet(&ratings, weights, confidence).map_err(|error| Fault::invalid("confidence", error.to_string()))?;
    let alpha = krippendorff_alpha(&ratings, metric).map_err(|error| Fault::invalid("raters", error.to_string()))?;
    Ok(AgreementResponse {
        ac2: found.coefficient,
        alpha,
        observed_agreement: found.observed,
        chance_agreement: found.chance,
        standard_error: found.standard_error,
        interval: Some(proto::Interval {
            low: found.interval.0,
            high: found.interval.1,
            level: found.level,
            method: "Student's t over items".to_owned(),
        }),
        p_value: found.p_value,
    })
}

/// Split-half reliability of the encoders' ranking.
pub(super) fn reliability(request: &ReliabilityRequest) -> Result<ReliabilityResponse, Fault> {
    let datasets = same_length("encoders", &request.encoders)?;
    let strata = match request.strata.len() {
        0 => vec![String::new(); datasets],
        count if count == datasets => request.strata.clone(),
        count => {
            return Err(
                Fault::invalid("strata", format!("{count} names for {datasets} data sets"))
                    .mend("one task type a data set, or none at all"),
            );
        }
    };
    let splits = if request.splits == 0 {
        DEFAULT_SPLITS
    } else {
        request.splits
    };
    let values = (datasets * request.encoders.len()) as u64;
    if values.saturating_mul(u64::from(splits)) > MOST_DRAWS {
        return Err(Fault::invalid(
            "splits",
            format!("{splits} splits of {values} scores are too many for one request"),
        )
        .mend(format!("keep splits x scores below {MOST_DRAWS}")));
    }
    let scores: Vec<Vec<f64>> = request.encoders.iter().map(|series| series.values.clone()).collect();
    let seed = request.seed.unwrap_or(DEFAULT_SEED);
    let found = split_half_reliability(&scores, &strata, splits as usize, seed)
        .map_err(|error| Fault::invalid("encoders", error.to_string()))?;
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

/// The length all series share.
fn same_length(field: &str, all: &[ScoreSeries]) -> Result<usize, Fault> {
    let length = all.first().map_or(0, |series| series.values.len());
    if length == 0 {
        return Err(Fault::invalid(field, "there are no scores"));
    }
    for (i, series) in all.iter().enumerate() {
        let field = format!("{field}[{i}]");
        super::finite(&field, series)?;
        if series.values.len() != length {
            let message = format!("{} values against {length} of the first series", series.values.len());
            return Err(Fault::invalid(format!("{field}.values"), message)
                .mend("position i of every series must be the same data set"));
        }
    }
    Ok(length)
}
