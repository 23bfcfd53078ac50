//! Reranking: a query, or several with the same meaning, and candidates of which some are relevant.

use std::collections::BTreeMap;

use ndarray::ArrayView2;
use rayon::prelude::*;

use super::{Profile, ScoreError, Scores, TaskType, ranked};
use crate::{
    chance::Chance,
    evidence::precisions_within,
    metric::{
        Similarity,
        matrix::Rows,
        pair_classification::average_precision,
        ranking::{self, CUTOFFS, Judgements, QueryMetrics, RetrievedDocument},
        similarity,
    },
    stats::mean,
};

/// mteb 1 searches the first relevant candidate among the ten best.
const V1_MRR_DEPTH: usize = 10;

/// The numbers of consecutive vectors that belong to one item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Candidates {
    /// Queries with the same meaning; a candidate counts by the nearest query.
    pub queries: usize,
    /// Relevant candidates.
    pub positives: usize,
    /// Other candidates, which follow the relevant ones.
    pub negatives: usize,
}

impl Candidates {
    /// Whether each candidate is relevant.
    fn labels(&self) -> Vec<bool> {
        let mut labels = vec![true; self.positives];
        labels.resize(self.positives + self.negatives, false);
        labels
    }
}

#[derive(Debug, Clone, Copy)]
pub struct RerankingInput<'a> {
    /// Queries of all items, one after another.
    pub queries: ArrayView2<'a, f32>,
    /// Candidates of all items: positives, then negatives, item after item.
    pub documents: ArrayView2<'a, f32>,
    /// The items. Each has at least one query, one positive and one negative.
    pub items: &'a [Candidates],
    /// Ids of the candidates, in their order, or empty if rows are lists. They decide ties under
    /// `mteb-v2`. Unique within an item.
    pub document_ids: &'a [String],
}

/// Scores reranking.
///
/// * `mteb-v2`: candidates ordered by the encoder's own similarity, then trec_eval's measures and
///   MRR over at most 1000, with `map_at_1000` as the main score. Ties go to the id that sorts last
///   by bytes. For rows of lists, mteb's own ids decide: ties go to the later candidate, and to
///   negatives before positives.
/// * `mteb-v1`: `map`, the mean of scikit-learn's average precision (ties grouped) by cosine, and
///   `mrr` at 10.
/// * `hteb`: the same `map` by the encoder's own similarity.
///
/// With several queries, the best one counts for each candidate.
///
/// # Errors
/// If vectors do not match the items, there are no items, an item has no query, positive or
/// negative, or a similarity is not a number.
pub fn score_reranking(input: &RerankingInput<'_>, own: Similarity, profile: Profile) -> Result<Scores, ScoreError> {
    let task = TaskType::Reranking;
    let main_key = task
        .main_score(profile)
        .ok_or(ScoreError::NotServed { task, profile })?;
    check(input, main_key)?;
    let similarity = match profile {
        Profile::MtebV1 => Similarity::Cosine,
        Profile::MtebV2 | Profile::Hteb => own,
    };
    let scores = candidate_scores(input, similarity);
    if let Some(index) = scores
        .iter()
        .position(|scores| scores.iter().any(|score| score.is_nan()))
    {
        return Err(ScoreError::Item {
            what: "items",
            index,
            problem: "the similarity of a query and a candidate is not a number".to_owned(),
        });
    }
    match profile {
        Profile::MtebV2 => trec(input, &scores, main_key),
        Profile::MtebV1 | Profile::Hteb => grouped(input.items, &scores, main_key, profile),
    }
}

fn check(input: &RerankingInput<'_>, main_key: &'static str) -> Result<(), ScoreError> {
    if input.items.is_empty() {
        return Err(ScoreError::none(main_key, "queries with candidates"));
    }
    for (index, item) in input.items.iter().enumerate() {
        for (what, count) in [
            ("query", item.queries),
            ("positive", item.positives),
            ("negative", item.negatives),
        ] {
            if count == 0 {
                let problem = format!("it has no {what}; such items are to be left out");
                return Err(ScoreError::Item {
                    what: "items",
                    index,
                    problem,
                });
            }
        }
    }
    let total = |of: fn(&Candidates) -> usize| input.items.iter().map(of).sum::<usize>();
    ScoreError::rows("queries", total(|i| i.queries), input.queries.nrows())?;
    ScoreError::rows(
        "documents",
        total(|i| i.positives + i.negatives),
        input.documents.nrows(),
    )?;
    if !input.document_ids.is_empty() {
        ScoreError::rows("document_ids", input.documents.nrows(), input.document_ids.len())?;
    }
    ScoreError::widths("documents", input.queries, input.documents)
}

/// Scores of each item's candidates: the highest over its queries; NaN if one is NaN.
fn candidate_scores(input: &RerankingInput<'_>, similarity: Similarity) -> Vec<Vec<f64>> {
    let starts: Vec<(usize, usize)> = input
        .items
        .iter()
        .scan((0, 0), |(query, document), item| {
            let here = (*query, *document);
            *query += item.queries;
            *document += item.positives + item.negatives;
            Some(here)
        })
        .collect();
    let (queries, documents) = (Rows::new(input.queries), Rows::new(input.documents));
    let score = |((query, document), item): (&(usize, usize), &Candidates)| {
        let candidates = *document..document + item.positives + item.negatives;
        let own = || (*query..query + item.queries).map(|q| queries.row(q));
        candidates
            .map(|d| similarity::highest(own().map(|q| similarity.of(q, documents.row(d)))))
            .collect()
    };
    starts.par_iter().zip(input.items).map(score).collect()
}

/// mteb 2: trec_eval's measures, with the candidates' own ids or those that mteb assigns to them.
fn trec(input: &RerankingInput<'_>, scores: &[Vec<f64>], main_key: &'static str) -> Result<Scores, ScoreError> {
    let depth = CUTOFFS.last().copied().unwrap_or(1);
    let items = input.items;
    let mut rest = input.document_ids;
    let own: Vec<&[String]> = items
        .iter()
        .map(|item| {
            let (ids, after) = rest.split_at((item.positives + item.negatives).min(rest.len()));
            rest = after;
            ids
        })
        .collect();
    let (metrics, retrieved): (Vec<QueryMetrics>, Vec<Vec<f64>>) = items
        .par_iter()
        .zip(scores)
        .zip(own)
        .map(|((item, scores), own)| {
            // mteb's ids: a positive sorts before a negative, and ties go to the id that sorts
            // last.
            let given = |i: usize| match i.checked_sub(item.positives) {
                None => format!("apositive_{i:05}"),
                Some(i) => format!("negative_{i:05}"),
            };
            let ids: Vec<String> = match own {
                [] => (0..item.positives + item.negatives).map(given).collect(),
                own => own.to_vec(),
            };
            let judgements: Judgements<'_> = ids
                .iter()
                .enumerate()
                .map(|(i, id)| (id.as_str(), i32::from(i < item.positives)))
                .collect();
            let mut list: Vec<RetrievedDocument<'_>> = ids
                .iter()
                .zip(scores)
                .map(|(id, score)| RetrievedDocument { id, score: *score })
                .collect();
            if list.len() > depth {
                list.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| b.id.cmp(a.id)));
                list.truncate(depth);
            }
            let kept = list.iter().map(|r| r.score).collect();
            (ranking::query_metrics(&judgements, &list, &CUTOFFS), kept)
        })
        .unzip();
    let series = ranking::series(&metrics, &CUTOFFS);
    let mut all = ranked::means(&series);
    all.extend(ranked::abstention_areas(&retrieved, &series));
    Ok(Scores::new(main_key, all, items.len())?
        .with_items(series)
        .with_mean_of_column(ranked::decimals(main_key), Some(chance(items, scores))))
}

/// mteb 1 and HTEB: average precision with ties grouped.
fn grouped(
    items: &[Candidates],
    scores: &[Vec<f64>],
    main_key: &'static str,
    profile: Profile,
) -> Result<Scores, ScoreError> {
    let of_items = |f: &dyn Fn(&[f64], &[bool]) -> f64| -> Vec<f64> {
        items
            .iter()
            .zip(scores)
            .map(|(item, scores)| f(scores, &item.labels()))
            .collect()
    };
    let mut series = BTreeMap::from([("map".to_owned(), of_items(&average_precision))]);
    if profile == Profile::MtebV1 {
        series.insert("mrr".to_owned(), of_items(&reciprocal_rank));
    }
    let all = series
        .iter()
        .filter_map(|(key, values)| Some((key.clone(), mean(values)?)))
        .collect();
    Ok(Scores::new(main_key, all, items.len())?
        .with_items(series)
        .with_mean_of_column(None, Some(chance(items, scores))))
}

fn chance(items: &[Candidates], scores: &[Vec<f64>]) -> Chance {
    precisions_within(
        items
            .iter()
            .zip(scores)
            .map(|(item, scores)| (scores.as_slice(), item.labels())),
    )
}

/// Reciprocal rank of the first relevant candidate among the ten best; ties keep their order.
fn reciprocal_rank(scores: &[f64], labels: &[bool]) -> f64 {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| (scores[b] + 0.0).total_cmp(&(scores[a] + 0.0)));
    order
        .iter()
        .take(V1_MRR_DEPTH)
        .position(|&i| labels[i])
        .map_or(0.0, |rank| 1.0 / (rank + 1) as f64)
}
