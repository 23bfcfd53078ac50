//! Retrieval metrics of ranked lists.
//!
//! Source: trec_eval through pytrec_eval (nDCG with linear gain, MAP, recall, precision, success)
//! and mteb 2.20.0 `_evaluators/retrieval_metrics.py` (MRR, rounding). Ties: trec_eval compares
//! scores as f32, then ids descending by bytes; mteb's MRR compares them as f64, then ids
//! descending.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, HashMap},
};

/// Cut-offs that mteb reports.
pub const CUTOFFS: [usize; 7] = [1, 3, 5, 10, 20, 100, 1000];

/// Judged relevance by document: grades above zero are relevant.
pub type Judgements<'a> = HashMap<&'a str, i32>;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetrievedDocument<'a> {
    /// Document id.
    pub id: &'a str,
    /// Score, higher is better.
    pub score: f64,
}

/// Metrics of one query at each cut-off, in the given order of cut-offs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct QueryMetrics {
    /// Normalised discounted cumulative gain: linear gain, log2(rank + 1), ideal list cut at k too.
    pub ndcg: Vec<f64>,
    /// Average precision cut at k, over the number of all relevant documents.
    pub map: Vec<f64>,
    /// Fraction of the relevant documents that were found.
    pub recall: Vec<f64>,
    /// Fraction of the first k that are relevant.
    pub precision: Vec<f64>,
    /// 1 if any relevant document was found.
    pub hit: Vec<f64>,
    /// Reciprocal rank of the first relevant document.
    pub mrr: Vec<f64>,
}

/// Scores one query's retrieved documents, given in any order.
pub fn query_metrics(
    judgements: &Judgements<'_>,
    retrieved: &[RetrievedDocument<'_>],
    cutoffs: &[usize],
) -> QueryMetrics {
    let grade = |r: &RetrievedDocument<'_>| judgements.get(r.id).copied().unwrap_or(0);
    let ordered = |key: fn(&RetrievedDocument<'_>, &RetrievedDocument<'_>) -> Ordering| {
        let mut list = retrieved.to_vec();
        list.sort_by(key);
        list
    };
    let trec: Vec<i32> = ordered(by_f32).iter().map(grade).collect();
    let first = ordered(by_f64).iter().position(|r| grade(r) > 0);

    let relevant = judgements.values().filter(|g| **g > 0).count() as f64;
    let mut ideal: Vec<i32> = judgements.values().copied().filter(|g| *g > 0).collect();
    ideal.sort_unstable_by(|a, b| b.cmp(a));

    let mut metrics = QueryMetrics::default();
    for &k in cutoffs {
        let list = &trec[..k.min(trec.len())];
        let (mut found, mut precisions) = (0.0, 0.0);
        for (i, g) in list.iter().enumerate() {
            if *g > 0 {
                found += 1.0;
                precisions += found / (i + 1) as f64;
            }
        }
        let ideal_gain = discounted_gain(&ideal[..k.min(ideal.len())]);
        let of_relevant = |value: f64| if relevant > 0.0 { value / relevant } else { 0.0 };
        metrics.ndcg.push(if ideal_gain > 0.0 {
            discounted_gain(list) / ideal_gain
        } else {
            0.0
        });
        metrics.map.push(of_relevant(precisions));
        metrics.recall.push(of_relevant(found));
        metrics.precision.push(found / k as f64);
        metrics.hit.push(if found > 0.0 { 1.0 } else { 0.0 });
        metrics.mrr.push(
            first
                .filter(|rank| *rank < k)
                .map_or(0.0, |rank| 1.0 / (rank + 1) as f64),
        );
    }
    metrics
}

fn by_f32(a: &RetrievedDocument<'_>, b: &RetrievedDocument<'_>) -> Ordering {
    let key = |r: &RetrievedDocument<'_>| r.score as f32 + 0.0;
    key(b)
        .total_cmp(&key(a))
        .then_with(|| b.id.as_bytes().cmp(a.id.as_bytes()))
}

fn by_f64(a: &RetrievedDocument<'_>, b: &RetrievedDocument<'_>) -> Ordering {
    let key = |r: &RetrievedDocument<'_>| r.score + 0.0;
    key(b)
        .total_cmp(&key(a))
        .then_with(|| b.id.as_bytes().cmp(a.id.as_bytes()))
}

fn discounted_gain(grades: &[i32]) -> f64 {
    let gains = grades.iter().enumerate().filter(|(_, g)| **g > 0);
    gains.map(|(i, g)| f64::from(*g) / ((i + 2) as f64).log2()).sum()
}

/// A series per metric and cut-off under mteb's keys (`ndcg_at_10`), one value per query. The hit
/// rate is separate because mteb computes no abstention for it.
pub fn series(queries: &[QueryMetrics], cutoffs: &[usize]) -> BTreeMap<String, Vec<f64>> {
    let mut series = BTreeMap::new();
    for (name, of) in METRICS {
        for (i, k) in cutoffs.iter().enumerate() {
            series.insert(format!("{name}_at_{k}"), queries.iter().map(|q| of(q)[i]).collect());
        }
    }
    series
}

type Column = fn(&QueryMetrics) -> &Vec<f64>;
const METRICS: [(&str, Column); 6] = [
    ("ndcg", |q| &q.ndcg),
    ("map", |q| &q.map),
    ("recall", |q| &q.recall),
    ("precision", |q| &q.precision),
    ("hit_rate", |q| &q.hit),
    ("mrr", |q| &q.mrr),
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn list<'a>(scored: &[(&'a str, f64)]) -> Vec<RetrievedDocument<'a>> {
        scored
            .iter()
            .map(|(id, score)| RetrievedDocument { id, score: *score })
            .collect()
    }

    #[test]
    fn a_tie_in_f32_goes_to_the_later_id_though_mrr_sees_the_difference() {
        let judgements = Judgements::from([("a", 1)]);
        // 0.7 and 0.7 + 1e-10 are the same f32, but different f64.
        let m = query_metrics(&judgements, &list(&[("b", 0.7), ("a", 0.700_000_000_1)]), &[1]);
        assert_eq!((m.precision[0], m.mrr[0]), (0.0, 1.0));
    }

    #[test]
    fn grades_of_zero_or_less_count_as_not_relevant() {
        let judgements = Judgements::from([("a", -1), ("b", 0), ("c", 2)]);
        let m = query_metrics(&judgements, &list(&[("a", 3.0), ("b", 2.0), ("c", 1.0)]), &[3]);
        assert_eq!((m.recall[0], m.mrr[0]), (1.0, 1.0 / 3.0));
        assert_eq!(m.ndcg[0], (2.0 / 4.0_f64.log2()) / 2.0);
    }

    #[test]
    fn a_query_with_nothing_relevant_scores_zero_everywhere() {
        let m = query_metrics(&Judgements::from([("a", 0)]), &list(&[("a", 1.0)]), &CUTOFFS);
        for (_, of) in METRICS {
            assert_eq!(of(&m), &vec![0.0; CUTOFFS.len()]);
        }
    }

    proptest! {
        #[test]
        fn every_metric_lies_between_zero_and_one_and_ignores_input_order(
            grades in prop::collection::vec(-1..4_i32, 1..30), scores in prop::collection::vec(0..5_i32, 30),
        ) {
            let ids: Vec<String> = (0..30).map(|i| format!("d{i}")).collect();
            let judgements: Judgements<'_> = ids.iter().map(String::as_str).zip(grades.iter().copied()).collect();
            let mut run: Vec<RetrievedDocument<'_>> =
                ids.iter().zip(&scores).map(|(id, s)| RetrievedDocument { id, score: f64::from(*s) }).collect();
            let metrics = query_metrics(&judgements, &run, &CUTOFFS);
            for (_, of) in METRICS {
                prop_assert!(of(&metrics).iter().all(|v| (0.0..=1.0 + 1e-12).contains(v)));
            }
            run.reverse();
            prop_assert_eq!(query_metrics(&judgements, &run, &CUTOFFS), metrics);
        }
    }
}
