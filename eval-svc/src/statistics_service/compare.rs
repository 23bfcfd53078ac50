//! Compares treatments with a reference.

use isomer_proto::eval::v1::{self as proto, CompareRequest, CompareResponse, Comparison, ScoreSeries};
use isomer_service_kit::{Fault, choice};

use super::{
    DEFAULT_CONFIDENCE, DEFAULT_SEED, alternative, bootstrapped,
    cost::{Cost, exact_ranks, product, resampled, sign_flips, signed_ranks, sorted, sum},
    count, finite, resamples, share,
};
use crate::stats::{
    Alternative, Bootstrap, Distribution, EXACT_LIMIT, EXACT_SIGNS, IntervalMethod, Method, Statistic, StatsError,
    WilcoxonOptions, Zeros, benjamini_hochberg, hodges_lehmann, holm, mean, paired_bootstrap_test, sample_sd,
    sign_flip_test, statistic_interval, wilcoxon_interval, wilcoxon_with,
};

/// For each treatment: an interval, a test and an interval of signed ranks, two tests with draws.
pub(super) fn cost(request: &CompareRequest) -> Vec<Cost> {
    let drawn = u64::from(resamples(request.resamples));
    let asked = matches!(
        request.method(),
        proto::WilcoxonMethod::Exact | proto::WilcoxonMethod::Conditional
    );
    let of_each = |steps: &dyn Fn(u64) -> u64| {
        let treatments = request.treatments.iter();
        sum(treatments.map(|treatment| steps(treatment.values.len() as u64)))
    };
    // Longer series have no exact test; the response's `note` says so.
    let exact = |n: u64| match asked && n <= EXACT_LIMIT as u64 {
        true => exact_ranks(n),
        false => 0,
    };
    let flips = |n: u64, drawn_at: bool| match drawn_at == (n > EXACT_SIGNS as u64) {
        true => sign_flips(drawn, n),
        false => 0,
    };
    let drawn_of = |n: u64| sum([resampled(drawn, n, sorted(n)), resampled(drawn, n, 0), flips(n, true)]);
    // The test and the interval.
    let tests = |n: u64| sum([flips(n, false), product(&[2, signed_ranks(n)])]);
    vec![
        Cost::new("resamples", of_each(&drawn_of)),
        Cost::new("method", of_each(&exact)),
        Cost::new("treatments", of_each(&tests)),
    ]
}

struct Settings {
    test: WilcoxonOptions,
    bootstrap: Bootstrap,
}

impl Settings {
    fn read(request: &CompareRequest) -> Result<Self, Fault> {
        let method = match choice("method", request.method)? {
            Some(proto::WilcoxonMethod::Exact) => Method::Exact,
            Some(proto::WilcoxonMethod::Normal) => Method::Normal,
            Some(proto::WilcoxonMethod::Conditional) => Method::Conditional,
            _ => Method::Auto,
        };
        let zeros = match choice("zero_method", request.zero_method)? {
            Some(proto::ZeroMethod::Pratt) => Zeros::Pratt,
            Some(proto::ZeroMethod::Zsplit) => Zeros::Split,
            _ => Zeros::Drop,
        };
        Ok(Self {
            test: WilcoxonOptions {
                alternative: alternative(request.alternative)?,
                method,
                zeros,
                continuity: request.continuity_correction,
            },
            bootstrap: Bootstrap {
                resamples: resamples(request.resamples) as usize,
                level: share("confidence", request.confidence, DEFAULT_CONFIDENCE)?,
                seed: request.seed.unwrap_or(DEFAULT_SEED),
                method: IntervalMethod::Percentile,
            },
        })
    }
}

pub(super) fn compare(request: &CompareRequest) -> Result<CompareResponse, Fault> {
    let settings = Settings::read(request)?;
    let reference = request
        .reference
        .as_ref()
        .ok_or_else(|| Fault::invalid("reference", "no reference is given"))?;
    finite("reference", reference)?;
    if reference.values.is_empty() {
        return Err(Fault::invalid("reference.values", "has no values"));
    }
    if request.treatments.is_empty() {
        return Err(Fault::invalid(
            "treatments",
            "there is nothing to compare with the reference",
        ));
    }
    let mut comparisons = Vec::with_capacity(request.treatments.len());
    for (i, treatment) in request.treatments.iter().enumerate() {
        let field = format!("treatments[{i}]");
        finite(&field, treatment)?;
        if treatment.values.len() != reference.values.len() {
            let message = format!(
                "has {} values, but the reference has {}",
                treatment.values.len(),
                reference.values.len()
            );
            return Err(Fault::invalid(format!("{field}.values"), message)
                .hint("position i of every series must be the same item"));
        }
        comparisons
            .push(one(reference, treatment, &settings).map_err(|error| Fault::invalid(field, error.to_string()))?);
    }
    let tested: Vec<usize> = (0..comparisons.len())
        .filter(|i| comparisons[*i].p_value.is_some())
        .collect();
    let p_values: Vec<f64> = tested.iter().filter_map(|i| comparisons[*i].p_value).collect();
    let adjusted = holm(&p_values).into_iter().zip(benjamini_hochberg(&p_values));
    for (i, (step_down, discovery)) in tested.into_iter().zip(adjusted) {
        comparisons[i].p_holm = Some(step_down);
        comparisons[i].p_benjamini_hochberg = Some(discovery);
    }
    Ok(CompareResponse { comparisons })
}

fn one(reference: &ScoreSeries, treatment: &ScoreSeries, settings: &Settings) -> Result<Comparison, StatsError> {
    let differences: Vec<f64> = treatment
        .values
        .iter()
        .zip(&reference.values)
        .map(|(t, r)| t - r)
        .collect();
    let empty = || StatsError::TooFew {
        what: "a comparison",
        needed: 1,
        found: 0,
    };
    let Settings { test, bootstrap } = settings;
    let interval = statistic_interval(&differences, Statistic::HodgesLehmann, bootstrap)?;
    let mut comparison = Comparison {
        name: treatment.name.clone(),
        n: count(differences.len()),
        mean_difference: mean(&differences).ok_or_else(empty)?,
        sd_difference: sample_sd(&differences),
        hodges_lehmann: hodges_lehmann(&differences).ok_or_else(empty)?,
        hodges_lehmann_interval: Some(bootstrapped("percentile", &interval)),
        ..Comparison::default()
    };
    let mut notes = Vec::new();
    match wilcoxon_with(&differences, test) {
        Ok(found) => {
            comparison.wilcoxon_statistic = Some(found.statistic);
            comparison.p_value = Some(found.p_value);
            comparison.set_method(match found.distribution {
                Distribution::Exact => proto::WilcoxonMethod::Exact,
                Distribution::Permutation => proto::WilcoxonMethod::Conditional,
                Distribution::Normal => proto::WilcoxonMethod::Normal,
            });
            if found.n < 6 && test.alternative == Alternative::TwoSided {
                let least = 2.0_f64.powi(1 - i32::try_from(found.n).unwrap_or(i32::MAX));
                notes.push(format!(
                    "{} differences: no two-sided p-value below {least} is possible",
                    found.n
                ));
            }
        }
        Err(error) => notes.push(format!("no signed-rank test: {error}")),
    }
    let draws = (bootstrap.resamples, bootstrap.seed);
    comparison.p_sign_flip = sign_flip_test(&differences, test.alternative, draws.0, draws.1)
        .ok()
        .map(|found| found.p_value);
    comparison.p_paired_bootstrap = paired_bootstrap_test(&differences, test.alternative, draws.0, draws.1)
        .ok()
        .map(|found| found.p_value);
    match wilcoxon_interval(&differences, bootstrap.level, test.alternative) {
        Ok(found) => {
            comparison.signed_rank_interval = Some(proto::Interval {
                low: found.low,
                high: found.high,
                level: found.achieved,
                method: if found.exact {
                    "signed-rank, exact"
                } else {
                    "signed-rank, normal"
                }
                .to_owned(),
            });
        }
        Err(error) => notes.push(error.to_string()),
    }
    if comparison.sd_difference.is_none() {
        notes.push("one pair has no standard deviation".to_owned());
    }
    comparison.note = notes.join("; ");
    Ok(comparison)
}
