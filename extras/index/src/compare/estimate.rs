//! Means over queries with their intervals, computed like those of a check: bootstrap of clusters
//! with corrected percentiles. Queries of equal text form one cluster, and are drawn together.

use std::collections::HashMap;

use isomer_scoring::evidence::{clusters::clusters, interval::ResampledDifference, resample::Clusters};
use isomer_stats::mean;

use super::Query;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Resampling {
    pub resamples: usize,
    /// Confidence level.
    pub level: f64,
    /// Seed of the draws.
    pub seed: u64,
}

/// A mean with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    pub mean: f64,
    /// Its interval; `None` if there is only one cluster of queries.
    pub interval: Option<(f64, f64)>,
}

/// The cluster of each query: queries of equal text form one cluster.
pub(super) fn clusters_of(queries: &[Query]) -> Vec<u32> {
    let mut numbers: HashMap<&str, u32> = HashMap::new();
    let texts = queries.iter().map(|query| {
        let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        [*numbers.entry(query.text.as_str()).or_insert(next)]
    });
    clusters(texts)
}

/// The mean of values within `range`, with the given clusters.
pub(super) fn estimate(values: &[f64], clusters: &[u32], range: (f64, f64), resampling: Resampling) -> Estimate {
    let centre = mean(values).unwrap_or(f64::NAN);
    let drawn = Clusters::among(
        clusters,
        &vec![true; values.len()],
        &format!("queries {}", resampling.seed),
    );
    let mut weights = Vec::new();
    // In points: if no resample differs from another, the bound assumes a change of 100 points.
    let resampled: Vec<f64> = (0..resampling.resamples)
        .map(|index| {
            drawn.draw(index, &mut weights);
            let (mut sum, mut total) = (0.0, 0.0);
            for (value, weight) in values.iter().zip(&weights) {
                sum += value * weight;
                total += weight;
            }
            sum / total * 100.0
        })
        .collect();
    let found = ResampledDifference::new(centre * 100.0, &resampled, drawn.len(), drawn.effective() - 1.0);
    Estimate {
        mean: centre,
        interval: found.map(|found| {
            let own = found.interval(resampling.level);
            (
                (own.low / 100.0).clamp(range.0, range.1),
                (own.high / 100.0).clamp(range.0, range.1),
            )
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESAMPLING: Resampling = Resampling {
        resamples: 2_000,
        level: 0.95,
        seed: 0,
    };

    #[test]
    fn queries_of_equal_text_are_drawn_together() {
        let queries: Vec<Query> = ["a", "b", "a", "c"]
            .iter()
            .enumerate()
            .map(|(id, text)| Query {
                id: id.to_string(),
                text: (*text).to_owned(),
            })
            .collect();
        assert_eq!(clusters_of(&queries), [0, 1, 0, 2]);
        // Each value ten times: with ten queries per cluster, the interval is that of the few
        // clusters, not of the many queries.
        let values: Vec<f64> = (0..200).map(|i| f64::from(i / 10 % 2)).collect();
        let width = |clusters: &[u32]| {
            let (low, high) = estimate(&values, clusters, (0.0, 1.0), RESAMPLING)
                .interval
                .unwrap_or((0.0, 0.0));
            high - low
        };
        let alone: Vec<u32> = (0..200).collect();
        let together: Vec<u32> = (0..200).map(|i| i / 10).collect();
        assert!(width(&together) > 2.5 * width(&alone));
    }

    #[test]
    fn one_cluster_has_no_interval_and_equal_values_have_one_that_is_not_a_point() {
        assert_eq!(estimate(&[0.5, 0.7], &[0, 0], (0.0, 1.0), RESAMPLING).interval, None);
        let found = estimate(&[1.0; 20], &(0..20).collect::<Vec<u32>>(), (0.0, 1.0), RESAMPLING);
        let (low, high) = found.interval.unwrap_or((1.0, 1.0));
        assert!((found.mean, high) == (1.0, 1.0) && low < 0.95 && low > 0.7, "{low}");
    }
}
