//! The cost of a request, known before anything is computed.

use isomer_service_kit::Fault;

use crate::stats::{EXACT_MAX, EXACT_SIGNS};

/// Maximum number of steps of one request. A step takes about as long as drawing one value, so the
/// maximum corresponds to some 20 seconds on one core.
pub(super) const MOST_STEPS: u64 = 1 << 31;
/// Steps to start a resample and to store its result.
const RESAMPLE: u64 = 128;

#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    /// The field that this part grows with.
    pub(super) field: &'static str,
    pub(super) steps: u64,
}

impl Cost {
    pub(super) fn new(field: &'static str, steps: u64) -> Self {
        Self { field, steps }
    }
}

/// Refuses a request that would take too long.
pub(super) fn check(costs: &[Cost]) -> Result<(), Fault> {
    let steps = sum(costs.iter().map(|cost| cost.steps));
    match costs.iter().max_by_key(|cost| cost.steps) {
        Some(Cost { field, .. }) if steps > MOST_STEPS => {
            let message = format!("makes the request take {steps} steps; at most {MOST_STEPS} are accepted");
            Err(Fault::invalid(*field, message).hint("lower it, or send fewer or shorter series in one request"))
        }
        _ => Ok(()),
    }
}

/// A product, saturating at the largest number.
pub(super) fn product(factors: &[u64]) -> u64 {
    factors.iter().copied().fold(1, u64::saturating_mul)
}

/// A sum, saturating at the largest number.
pub(super) fn sum(terms: impl IntoIterator<Item = u64>) -> u64 {
    terms.into_iter().fold(0, u64::saturating_add)
}

pub(super) fn sorted(values: u64) -> u64 {
    product(&[values, u64::from(values.max(2).ilog2()) + 1])
}

/// The cost of resamples of `values` values each, with the steps of the statistic of one resample.
pub(super) fn resampled(resamples: u64, values: u64, statistic: u64) -> u64 {
    product(&[resamples, sum([values, statistic, RESAMPLE])])
}

/// The cost of the exact distribution of signed ranks.
pub(super) fn exact_ranks(values: u64) -> u64 {
    product(&[values, values, values]) / 4
}

/// The cost of the signed-rank test by its usual method.
pub(super) fn signed_ranks(values: u64) -> u64 {
    let exact = if values <= EXACT_MAX as u64 {
        exact_ranks(values)
    } else {
        0
    };
    sum([sorted(values), exact])
}

/// The cost of the sign-flip test: all patterns for few values, resamples for more.
pub(super) fn sign_flips(resamples: u64, values: u64) -> u64 {
    if values <= EXACT_SIGNS as u64 {
        2 << values
    } else {
        resampled(resamples, values, 0)
    }
}

/// The cost of letters of significance.
pub(super) fn letters(systems: u64) -> u64 {
    product(&[systems, systems, 1 << 12])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use std::collections::BTreeSet;

    use isomer_proto::eval::v1::{
        AdjustPValuesRequest, AgreementRequest, BootstrapMethod, BootstrapRequest, BootstrapStatistic,
        ComparePairsRequest, CompareRanksRequest, CompareRequest, CorrelateRequest, PairedTest, PlanDesignRequest,
        RankStabilityRequest, ReliabilityRequest, ScoreSeries, WilcoxonMethod, agreement_request::Rater,
    };

    use isomer_stubs::promise::promised;

    use super::{
        super::{MOST_SYSTEMS, RPCS, compare, pairs, rankings, samples},
        *,
    };

    /// Maximum number of values in one message.
    const MESSAGE: usize = (32 << 20) / 8;

    fn series(values: usize) -> ScoreSeries {
        ScoreSeries {
            values: vec![0.5; values],
            ..ScoreSeries::default()
        }
    }

    fn all(count: usize, values: usize) -> Vec<ScoreSeries> {
        vec![series(values); count]
    }

    fn resamples(of: u64) -> u32 {
        u32::try_from(of).unwrap_or(u32::MAX)
    }

    /// An rpc, the field named when its heaviest request is refused for one step more, and the cost
    /// of that request by its size. Without a field, the largest message is within the bound.
    type Row = (&'static str, Option<&'static str>, Box<dyn Fn(u64) -> Vec<Cost>>);

    fn bootstrap(statistic: BootstrapStatistic, method: BootstrapMethod, values: usize, drawn: u64) -> Vec<Cost> {
        let mut request = BootstrapRequest {
            values: vec![0.5; values],
            resamples: resamples(drawn),
            ..BootstrapRequest::default()
        };
        request.set_statistic(statistic);
        request.set_method(method);
        samples::bootstrap_cost(&request)
    }

    fn compared(method: WilcoxonMethod, treatments: usize, values: usize, drawn: u64) -> Vec<Cost> {
        let mut request = CompareRequest {
            reference: Some(series(values)),
            treatments: all(treatments, values),
            resamples: resamples(drawn),
            ..CompareRequest::default()
        };
        request.set_method(method);
        compare::cost(&request)
    }

    fn paired(test: PairedTest, systems: usize, values: usize, drawn: u64) -> Vec<Cost> {
        let mut request = ComparePairsRequest {
            systems: all(systems, values),
            resamples: resamples(drawn),
            ..ComparePairsRequest::default()
        };
        request.set_test(test);
        pairs::cost(&request)
    }

    fn rows() -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        for statistic in [
            BootstrapStatistic::Mean,
            BootstrapStatistic::Median,
            BootstrapStatistic::HodgesLehmann,
            BootstrapStatistic::Pearson,
            BootstrapStatistic::Spearman,
            BootstrapStatistic::Kendall,
        ] {
            let drawn = move |n| bootstrap(statistic, BootstrapMethod::Percentile, 100_000, n);
            rows.push(("bootstrap", Some("resamples"), Box::new(drawn)));
            let left_out = move |n| bootstrap(statistic, BootstrapMethod::Bca, n as usize, 1);
            rows.push(("bootstrap", Some("method"), Box::new(left_out)));
        }
        let more: [Row; 15] = [
            (
                "correlate",
                Some("resamples"),
                Box::new(|n| {
                    samples::correlate_cost(&CorrelateRequest {
                        x: Some(series(100_000)),
                        y: Some(series(100_000)),
                        resamples: resamples(n),
                        ..CorrelateRequest::default()
                    })
                }),
            ),
            (
                "compare",
                Some("resamples"),
                Box::new(|n| compared(WilcoxonMethod::Normal, 2, 50_000, n)),
            ),
            (
                "compare",
                Some("method"),
                Box::new(|n| compared(WilcoxonMethod::Exact, n as usize, 2000, 1)),
            ),
            (
                "compare",
                Some("treatments"),
                Box::new(|n| compared(WilcoxonMethod::Normal, n as usize, 20, 1)),
            ),
            (
                "compare_pairs",
                Some("resamples"),
                Box::new(|n| paired(PairedTest::PairedBootstrap, MOST_SYSTEMS, 50, n)),
            ),
            (
                "compare_pairs",
                Some("resamples"),
                Box::new(|n| paired(PairedTest::SignFlip, MOST_SYSTEMS, 21, n)),
            ),
            (
                "compare_pairs",
                Some("systems"),
                Box::new(|n| paired(PairedTest::SignFlip, n as usize, 20, 1)),
            ),
            (
                "compare_pairs",
                Some("systems"),
                Box::new(|n| paired(PairedTest::SignedRank, MOST_SYSTEMS, n as usize, 1)),
            ),
            (
                "reliability",
                Some("splits"),
                Box::new(|n| {
                    rankings::reliability_cost(&ReliabilityRequest {
                        encoders: all(10, 10_000),
                        splits: resamples(n),
                        ..ReliabilityRequest::default()
                    })
                }),
            ),
            (
                "rank_stability",
                None,
                Box::new(|_| {
                    let half = all(1000, MESSAGE / 2000);
                    let (original, transformed) = (half.clone(), half);
                    rankings::rank_stability_cost(&RankStabilityRequest { original, transformed })
                }),
            ),
            (
                "compare_ranks",
                None,
                Box::new(|_| {
                    let systems = all(MOST_SYSTEMS, MESSAGE / MOST_SYSTEMS);
                    rankings::compare_ranks_cost(&CompareRanksRequest {
                        systems,
                        ..CompareRanksRequest::default()
                    })
                }),
            ),
            (
                "adjust_p_values",
                None,
                Box::new(|_| {
                    let p_values = vec![0.5; MESSAGE];
                    samples::adjust_cost(&AdjustPValuesRequest { p_values })
                }),
            ),
            (
                "agreement",
                Some("raters"),
                Box::new(|n| {
                    let rater = Rater {
                        ratings: (0..n).map(|at| (at % 1000) as f64).collect(),
                        ..Rater::default()
                    };
                    samples::agreement_cost(&AgreementRequest {
                        raters: vec![rater.clone(), rater],
                        ..AgreementRequest::default()
                    })
                }),
            ),
            (
                "plan_design",
                None,
                Box::new(|_| {
                    samples::plan_design_cost(&PlanDesignRequest {
                        differences: all(1000, MESSAGE / 1000),
                        ..PlanDesignRequest::default()
                    })
                }),
            ),
            (
                "compare",
                None,
                Box::new(|_| compared(WilcoxonMethod::Unspecified, 10, 10_000, 1000)),
            ),
        ];
        rows.extend(more);
        rows
    }

    #[test]
    fn the_largest_request_of_each_rpc_is_within_the_bound_and_one_step_more_is_refused() {
        let rows = rows();
        for (rpc, field, cost) in &rows {
            let Some(field) = field else {
                check(&cost(1)).unwrap_or_else(|fault| panic!("{rpc}: {fault}"));
                continue;
            };
            let fits = |size: u64| check(&cost(size)).is_ok();
            assert!(fits(1), "{rpc}, {field}");
            let (mut legal, mut refused) = (1, 2);
            while fits(refused) {
                (legal, refused) = (refused, refused * 2);
                assert!(refused <= 1 << 32, "{rpc}, {field} has no bound");
            }
            while refused - legal > 1 {
                let middle = legal + (refused - legal) / 2;
                if fits(middle) { legal = middle } else { refused = middle }
            }
            let fault = check(&cost(refused)).unwrap_err();
            promised("StatisticsService INVALID_ARGUMENT", &fault);
            assert_eq!(fault.field.as_deref(), Some(*field), "{rpc}");
            assert!(fault.hint.is_some(), "{rpc}");
        }
        let covered: BTreeSet<&str> = rows.iter().map(|(rpc, ..)| *rpc).collect();
        assert_eq!(covered, RPCS.iter().copied().collect());
    }

    #[test]
    fn the_defaults_are_within_the_bound_for_a_hundred_thousand_pairs() {
        for statistic in [BootstrapStatistic::Spearman, BootstrapStatistic::HodgesLehmann] {
            check(&bootstrap(statistic, BootstrapMethod::Percentile, 100_000, 0)).unwrap();
        }
        check(&compared(WilcoxonMethod::Unspecified, 2, 40_000, 0)).unwrap();
    }
}
