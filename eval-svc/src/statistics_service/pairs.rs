//! Compares every system with every other.

use isomer_proto::eval::v1::{
    ComparePairsRequest, ComparePairsResponse, PairedTest,
    compare_pairs_response::{Pair, System},
};
use isomer_service_kit::Fault;

use super::{
    DEFAULT_ALPHA, DEFAULT_CONFIDENCE, DEFAULT_SEED, MOST_SYSTEMS, bootstrapped,
    cost::{Cost, letters, product, resampled, sign_flips, signed_ranks, sum},
    count, few_systems, longest, resamples, same_length, share, undefined,
};
use crate::stats::{
    Alternative, Bootstrap, EXACT_SIGNS, IntervalMethod, Statistic, StatsError, differences, holm,
    letters::significance_letters, mean, paired_bootstrap_test, sign_flip_test, statistic_interval,
    wilcoxon_signed_rank,
};

/// For each pair: a test. For each system: an interval.
pub(super) fn cost(request: &ComparePairsRequest) -> Vec<Cost> {
    let (k, n) = (request.systems.len() as u64, longest(&request.systems));
    if request.systems.len() > MOST_SYSTEMS {
        // Too many systems are refused elsewhere.
        return Vec::new();
    }
    let (pairs, drawn) = (k * k.saturating_sub(1) / 2, u64::from(resamples(request.resamples)));
    let intervals = product(&[k, resampled(drawn, n, 0)]);
    let of_pairs = |steps: u64| product(&[pairs, steps]);
    let (tests_drawn, tests) = match request.test() {
        PairedTest::Unspecified | PairedTest::PairedBootstrap => (of_pairs(resampled(drawn, n, 0)), 0),
        PairedTest::SignFlip if n > EXACT_SIGNS as u64 => (of_pairs(sign_flips(drawn, n)), 0),
        PairedTest::SignFlip => (0, of_pairs(sign_flips(drawn, n))),
        PairedTest::SignedRank => (0, of_pairs(signed_ranks(n))),
    };
    vec![
        Cost::new("resamples", sum([tests_drawn, intervals])),
        Cost::new("systems", sum([tests, letters(k)])),
    ]
}

pub(super) fn compare_pairs(request: &ComparePairsRequest) -> Result<ComparePairsResponse, Fault> {
    same_length("systems", &request.systems)?;
    few_systems(&request.systems)?;
    let k = request.systems.len();
    if k < 2 {
        return Err(Fault::invalid("systems", "has fewer than two systems to compare").hint("give at least two"));
    }
    let alpha = share("alpha", request.alpha, DEFAULT_ALPHA)?;
    let settings = Bootstrap {
        resamples: resamples(request.resamples) as usize,
        level: share("confidence", request.confidence, DEFAULT_CONFIDENCE)?,
        seed: request.seed.unwrap_or(DEFAULT_SEED),
        method: IntervalMethod::Percentile,
    };
    let test = PairedTest::try_from(request.test).map_err(|_| Fault::invalid("test", "is not a known test"))?;
    let mut pairs = Vec::with_capacity(k * (k - 1) / 2);
    for first in 0..k {
        for second in first + 1..k {
            let found = differences(&request.systems[first].values, &request.systems[second].values)
                .and_then(|d| Ok((mean(&d).unwrap_or(f64::NAN), p_value(test, &d, &settings)?)));
            let (mean_difference, p_value) = found.map_err(undefined("systems"))?;
            pairs.push(Pair {
                first: count(first),
                second: count(second),
                mean_difference,
                p_value,
                p_holm: 1.0,
            });
        }
    }
    let adjusted = holm(&pairs.iter().map(|pair| pair.p_value).collect::<Vec<f64>>());
    let mut differ = vec![vec![false; k]; k];
    for (pair, p_holm) in pairs.iter_mut().zip(adjusted) {
        pair.p_holm = p_holm;
        let (first, second) = (pair.first as usize, pair.second as usize);
        differ[first][second] = p_holm <= alpha;
        differ[second][first] = p_holm <= alpha;
    }
    let means: Vec<f64> = request.systems.iter().filter_map(|s| mean(&s.values)).collect();
    let mut order: Vec<usize> = (0..k).collect();
    order.sort_by(|a, b| means[*b].total_cmp(&means[*a]));
    let letters = significance_letters(&order, |i, j| differ[i][j]).map_err(undefined("systems"))?;
    let systems: Result<Vec<System>, StatsError> = request
        .systems
        .iter()
        .zip(letters)
        .zip(&means)
        .map(|((series, letters), mean)| {
            let interval = statistic_interval(&series.values, Statistic::Mean, &settings)?;
            Ok(System {
                name: series.name.clone(),
                mean: *mean,
                interval: Some(bootstrapped("percentile", &interval)),
                letters,
            })
        })
        .collect();
    Ok(ComparePairsResponse {
        systems: systems.map_err(undefined("systems"))?,
        pairs,
    })
}

/// The two-sided p-value. If all differences are zero, it is 1.
fn p_value(test: PairedTest, differences: &[f64], settings: &Bootstrap) -> Result<f64, StatsError> {
    let (side, resamples, seed) = (Alternative::TwoSided, settings.resamples, settings.seed);
    let p = match test {
        PairedTest::Unspecified | PairedTest::PairedBootstrap => {
            paired_bootstrap_test(differences, side, resamples, seed).map(|found| found.p_value)
        }
        PairedTest::SignedRank => wilcoxon_signed_rank(differences, side).map(|found| found.p_value),
        PairedTest::SignFlip => sign_flip_test(differences, side, resamples, seed).map(|found| found.p_value),
    };
    match p {
        Err(StatsError::AllZero) => Ok(1.0),
        other => other,
    }
}
