//! Statistics of one or two samples: intervals, correlations, agreement, adjustment, the power of a
//! design.

use std::collections::HashSet;

use isomer_proto::eval::v1::{
    self as proto, AdjustPValuesRequest, AdjustPValuesResponse, AgreementRequest, AgreementResponse, BootstrapMethod,
    BootstrapRequest, BootstrapResponse, BootstrapStatistic, CorrelateRequest, CorrelateResponse, PlanDesignRequest,
    PlanDesignResponse, ScoreSeries, correlate_response::Coefficient,
};
use isomer_service_kit::{Fault, choice};

use super::{
    DEFAULT_ALPHA, DEFAULT_CONFIDENCE, DEFAULT_SEED, alternative, bootstrapped,
    cost::{Cost, product, resampled, sorted, sum},
    count, finite, finite_values, resamples, same_length, share, undefined,
};
use crate::stats::{
    Bootstrap, Correlation, Interval, IntervalMethod, KendallMethod, Statistic, StatsError,
    agreement::{Metric, Ratings, Weights, gwet, krippendorff_alpha},
    benjamini_hochberg, correlation_p_value_for, holm, kendall_test, pearson, pearson_interval,
    power::{Aim, Design, PowerOf},
    series, spearman, spearman_interval, statistic_interval,
};

const DEFAULT_POWER: f64 = 0.8;
/// Maximum number of values of a rating scale.
const MOST_VALUES: usize = 1000;
/// Maximum number of cells in the table of items and values.
const MOST_CELLS: usize = 1 << 22;

pub(super) fn adjust_cost(request: &AdjustPValuesRequest) -> Vec<Cost> {
    vec![Cost::new("p_values", sorted(request.p_values.len() as u64))]
}

/// For each resample: the statistic; with BCa, also for each sample without one value.
pub(super) fn bootstrap_cost(request: &BootstrapRequest) -> Vec<Cost> {
    let n = request.values.len() as u64;
    let statistic = match request.statistic() {
        BootstrapStatistic::Unspecified | BootstrapStatistic::Mean => n,
        BootstrapStatistic::Median | BootstrapStatistic::Pearson => 2 * n,
        BootstrapStatistic::HodgesLehmann | BootstrapStatistic::Spearman | BootstrapStatistic::Kendall => sorted(n),
    };
    let drawn = resampled(u64::from(resamples(request.resamples)), n, statistic);
    let left_out = match request.method() {
        BootstrapMethod::Bca => resampled(n, n, statistic),
        BootstrapMethod::Unspecified | BootstrapMethod::Percentile => 0,
    };
    vec![Cost::new("resamples", drawn), Cost::new("method", left_out)]
}

/// For each resample: Kendall's correlation.
pub(super) fn correlate_cost(request: &CorrelateRequest) -> Vec<Cost> {
    let n = request.x.as_ref().map_or(0, |x| x.values.len()) as u64;
    let drawn = resampled(u64::from(resamples(request.resamples)), n, sorted(n));
    vec![Cost::new("resamples", drawn)]
}

/// For each item: every value with every other.
pub(super) fn agreement_cost(request: &AgreementRequest) -> Vec<Cost> {
    let raters: Vec<&[f64]> = request.raters.iter().map(|rater| rater.ratings.as_slice()).collect();
    let scale = (!request.scale.is_empty()).then_some(request.scale.as_slice());
    let values = different(&raters, scale);
    if values > MOST_VALUES {
        // Too many values are refused elsewhere.
        return Vec::new();
    }
    let (values, items) = (
        values as u64,
        raters.iter().map(|ratings| ratings.len()).max().unwrap_or_default() as u64,
    );
    let of_items = product(&[items, values, sum([raters.len() as u64, values])]) / 4;
    vec![Cost::new(
        "raters",
        sum([of_items, product(&[values, values, values]) / 8]),
    )]
}

/// The searches take the same time for every design.
pub(super) fn plan_design_cost(request: &PlanDesignRequest) -> Vec<Cost> {
    let values = request.differences.iter().map(|series| series.values.len() as u64);
    vec![Cost::new("differences", sum(values))]
}

/// Holm and Benjamini–Hochberg.
pub(super) fn adjust(request: &AdjustPValuesRequest) -> Result<AdjustPValuesResponse, Fault> {
    if request.p_values.is_empty() {
        return Err(Fault::invalid("p_values", "is empty"));
    }
    if let Some(i) = request.p_values.iter().position(|p| !(0.0..=1.0).contains(p)) {
        let message = format!("is {}; a p-value must be from 0 to 1", request.p_values[i]);
        return Err(Fault::invalid(format!("p_values[{i}]"), message));
    }
    Ok(AdjustPValuesResponse {
        holm: holm(&request.p_values),
        benjamini_hochberg: benjamini_hochberg(&request.p_values),
    })
}

/// The interval of a statistic of a sample, or of pairs.
pub(super) fn bootstrap(request: &BootstrapRequest) -> Result<BootstrapResponse, Fault> {
    finite_values("values", &request.values)?;
    finite_values("second", &request.second)?;
    let (method, method_name) = match choice("method", request.method)? {
        Some(BootstrapMethod::Bca) => (IntervalMethod::Bca, "BCa"),
        _ => (IntervalMethod::Percentile, "percentile"),
    };
    let settings = Bootstrap {
        resamples: resamples(request.resamples) as usize,
        level: share("confidence", request.confidence, DEFAULT_CONFIDENCE)?,
        seed: request.seed.unwrap_or(DEFAULT_SEED),
        method,
    };
    let answer = |estimate: f64, interval: Interval, undefined: usize| BootstrapResponse {
        estimate,
        interval: Some(bootstrapped(method_name, &interval)),
        undefined: count(undefined),
    };
    let of_values = |statistic: Statistic| {
        if !request.second.is_empty() {
            return Err(Fault::invalid("second", "only correlations have a second series").hint("leave it out"));
        }
        let interval = statistic_interval(&request.values, statistic, &settings).map_err(undefined("values"))?;
        let estimate = statistic.of(&request.values).unwrap_or(f64::NAN);
        Ok(answer(estimate, interval, 0))
    };
    let of_pairs = |correlation: Correlation| {
        let (x, y) = (&request.values, &request.second);
        let found = correlation.bootstrap(x, y, &settings).map_err(undefined("second"))?;
        let estimate = correlation.of(x, y).map_err(undefined("second"))?;
        Ok(answer(estimate, found.interval, found.undefined))
    };
    match choice("statistic", request.statistic)?.unwrap_or_default() {
        BootstrapStatistic::Unspecified | BootstrapStatistic::Mean => of_values(Statistic::Mean),
        BootstrapStatistic::Median => of_values(Statistic::Median),
        BootstrapStatistic::HodgesLehmann => of_values(Statistic::HodgesLehmann),
        BootstrapStatistic::Pearson => of_pairs(Correlation::Pearson),
        BootstrapStatistic::Spearman => of_pairs(Correlation::Spearman),
        BootstrapStatistic::Kendall => of_pairs(Correlation::KendallTauB),
    }
}

/// All three correlations of two series.
pub(super) fn correlate(request: &CorrelateRequest) -> Result<CorrelateResponse, Fault> {
    let series = |field: &'static str, given: &Option<ScoreSeries>| -> Result<Vec<f64>, Fault> {
        let given = given
            .clone()
            .ok_or_else(|| Fault::invalid(field, "no series is given"))?;
        finite(field, &given)?;
        Ok(given.values)
    };
    let (x, y) = (series("x", &request.x)?, series("y", &request.y)?);
    let alternative = alternative(request.alternative)?;
    let settings = Bootstrap {
        resamples: resamples(request.resamples) as usize,
        level: share("confidence", request.confidence, DEFAULT_CONFIDENCE)?,
        seed: request.seed.unwrap_or(DEFAULT_SEED),
        method: IntervalMethod::Percentile,
    };
    let moment = |value: f64, interval: Result<(f64, f64), StatsError>| Coefficient {
        value,
        p_value: (x.len() > 2).then(|| correlation_p_value_for(value, x.len(), alternative)),
        interval: interval.ok().map(|(low, high)| proto::Interval {
            low,
            high,
            level: settings.level,
            method: "Fisher's transformation".to_owned(),
        }),
    };
    let kendall = kendall_test(&x, &y, alternative, KendallMethod::Auto).map_err(undefined("y"))?;
    let kendall_interval = Correlation::KendallTauB.bootstrap(&x, &y, &settings).ok();
    Ok(CorrelateResponse {
        n: count(x.len()),
        pearson: Some(moment(
            pearson(&x, &y).map_err(undefined("y"))?,
            pearson_interval(&x, &y, settings.level),
        )),
        spearman: Some(moment(
            spearman(&x, &y).map_err(undefined("y"))?,
            spearman_interval(&x, &y, settings.level),
        )),
        kendall_tau_b: Some(Coefficient {
            value: kendall.tau_b,
            p_value: (x.len() > 2).then_some(kendall.p_value),
            interval: kendall_interval.map(|found| bootstrapped("percentile", &found.interval)),
        }),
    })
}

/// The number of distinct values of a rating.
fn different(raters: &[&[f64]], scale: Option<&[f64]>) -> usize {
    match scale {
        Some(scale) => scale.len(),
        // Equal numbers are one value; NaN is refused later.
        None => raters
            .iter()
            .copied()
            .flatten()
            .filter(|rating| !rating.is_nan())
            .map(|rating| (rating + 0.0).to_bits())
            .collect::<HashSet<u64>>()
            .len(),
    }
}

/// Refuses ratings whose table of items and values does not fit into memory.
fn bounded(raters: &[&[f64]], scale: Option<&[f64]>) -> Result<(), Fault> {
    let values = different(raters, scale);
    if values > MOST_VALUES {
        let field = if scale.is_some() { "scale" } else { "raters" };
        let message = format!("has {values} different values; at most {MOST_VALUES} are accepted");
        return Err(Fault::invalid(field, message).hint("round the ratings to a scale"));
    }
    let items = raters.iter().map(|ratings| ratings.len()).max().unwrap_or_default();
    if items * values > MOST_CELLS {
        let message = format!(
            "has {items} items on a scale of {values} values; at most {MOST_CELLS} items x values are accepted"
        );
        return Err(Fault::invalid("raters", message).hint("send fewer items, or a shorter scale"));
    }
    Ok(())
}

/// Gwet's AC1 or AC2, and Krippendorff's alpha with the metric that corresponds to the weights.
pub(super) fn agreement(request: &AgreementRequest) -> Result<AgreementResponse, Fault> {
    let (weights, metric) = match request.weights.as_str() {
        "identity" => (Weights::Identity, Metric::Nominal),
        "" | "ordinal" => (Weights::Ordinal, Metric::Ordinal),
        "linear" => (Weights::Linear, Metric::Linear),
        "quadratic" => (Weights::Quadratic, Metric::Interval),
        other => {
            return Err(
                Fault::invalid("weights", format!("{other:?} is not a known kind of weights"))
                    .hint("identity, ordinal, linear or quadratic"),
            );
        }
    };
    let confidence = share("confidence", request.confidence, DEFAULT_CONFIDENCE)?;
    let raters: Vec<&[f64]> = request.raters.iter().map(|rater| rater.ratings.as_slice()).collect();
    let scale = (!request.scale.is_empty()).then_some(request.scale.as_slice());
    bounded(&raters, scale)?;
    let ratings = series::matrix(&raters, ["the first rater", "another rater"]).map_err(undefined("raters"))?;
    let ratings = Ratings::new(ratings.view(), scale).map_err(undefined("raters"))?;
    let found = gwet(&ratings, weights, confidence).map_err(undefined("confidence"))?;
    let alpha = krippendorff_alpha(&ratings, metric).map_err(undefined("raters"))?;
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

/// The effect that a design can detect.
pub(super) fn plan_design(request: &PlanDesignRequest) -> Result<PlanDesignResponse, Fault> {
    let design = design(request)?;
    let aim = Aim {
        alpha: share("alpha", request.alpha, DEFAULT_ALPHA)?,
        power: share("power", request.power, DEFAULT_POWER)?,
        alternative: alternative(request.alternative)?,
        test: if request.student {
            PowerOf::Student
        } else {
            PowerOf::SignedRank
        },
    };
    let wrong = undefined("datasets");
    let mut answer = PlanDesignResponse {
        sd_between: design.sd_between,
        sd_seeds: design.sd_seeds,
        datasets: count(design.units),
        seeds: count(design.seeds),
        standard_error: design.standard_error(),
        minimal_detectable_effect: design.minimal_detectable_effect(&aim).map_err(&wrong)?,
        ..PlanDesignResponse::default()
    };
    if let Some(effect) = request.effect {
        if !effect.is_finite() || effect == 0.0 {
            return Err(Fault::invalid(
                "effect",
                format!("is {effect}; it must be a finite number other than 0"),
            ));
        }
        answer.power = Some(design.power(effect, &aim).map_err(&wrong)?);
        answer.datasets_needed = design.units_needed(effect, &aim).map_err(&wrong)?.map(|n| n as u64);
        answer.seeds_needed = design.seeds_needed(effect, &aim).map_err(&wrong)?.map(|n| n as u64);
    }
    Ok(answer)
}

/// A design from a pilot's differences, from given spreads, or from a pilot's spreads with other
/// numbers of data sets and seeds.
fn design(request: &PlanDesignRequest) -> Result<Design, Fault> {
    let pilot = if request.differences.is_empty() {
        None
    } else {
        same_length("differences", &request.differences)?;
        let differences: Vec<Vec<f64>> = request.differences.iter().map(|series| series.values.clone()).collect();
        Some(Design::from_differences(&differences).map_err(undefined("differences"))?)
    };
    let spread = |field: &str, given: Option<f64>, piloted: Option<f64>| {
        given.or(piloted).ok_or_else(|| {
            Fault::invalid(field, "is missing, and there are no differences to estimate it from")
                .hint("give sd_between and sd_seeds, or differences")
        })
    };
    let number = |field: &str, given: u32, piloted: Option<usize>| match given {
        0 => piloted.ok_or_else(|| Fault::invalid(field, "is not given").hint("at least 1")),
        given => Ok(given as usize),
    };
    Ok(Design {
        units: number("datasets", request.datasets, pilot.map(|p| p.units))?,
        seeds: number("seeds", request.seeds, pilot.map(|p| p.seeds))?,
        sd_between: spread("sd_between", request.sd_between, pilot.map(|p| p.sd_between))?,
        sd_seeds: spread("sd_seeds", request.sd_seeds, pilot.map(|p| p.sd_seeds))?,
    })
}
