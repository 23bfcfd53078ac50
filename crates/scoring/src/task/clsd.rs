//! Cross-lingual semantic discrimination: a source, its translation, and distractors in the
//! translation's language.

use std::collections::BTreeMap;

use isomer_stats::random::below;
use ndarray::{ArrayView2, Axis, stack};
use rayon::prelude::*;

use super::{Profile, RetrievalInput, ScoreError, Scores, SearchMode, TaskType, ranked, score_retrieval};
use crate::chance::Chance;
use crate::metric::{
    MatrixError, Similarity,
    discrimination::{self, Change},
    matrix::Rows,
};

/// A distractor that differs from its target in one word.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct OneWord {
    /// Row of the target.
    pub row: usize,
    /// Index among all distractors.
    pub distractor: usize,
    /// Part of speech of the word, if known.
    pub pos: Option<String>,
}

/// The input of discrimination scores.
#[derive(Debug, Clone, Copy)]
pub struct ClsdInput<'a> {
    /// One vector per source.
    pub sources: ArrayView2<'a, f32>,
    /// One vector per target, in the same order.
    pub targets: ArrayView2<'a, f32>,
    /// Distractors of all rows, one row after another.
    pub distractors: ArrayView2<'a, f32>,
    /// Distractors of each row.
    pub counts: &'a [usize],
    /// Whether each distractor is equal to its target; in that case mteb counts it as found.
    pub same_as_target: &'a [bool],
    /// Distractors that differ in one word, for the fine-grained analysis; may be empty.
    pub one_word: &'a [OneWord],
}

/// Scores discrimination.
///
/// * `candidates_precision_at_1`: the paper's P@1, the fraction of rows whose target is strictly
///   nearer (cosine) than each of its distractors. Main score under `hteb`.
/// * `recall_at_1` and every other retrieval score: mteb's form, in which each source must find its
///   target among all targets and distractors of the data set, by the encoder's own similarity.
///   Main score under the mteb profiles.
/// * `one_word_pairs`, `one_word_change` and its `_sd`, `one_word_mono_change`, `one_word_pearson`,
///   `one_word_spearman`: the fine-grained analysis, over distractors that differ in one word;
///   `one_word_change_<pos>` and the rest by part of speech, if the data contain it. Changes are in
///   units of the gap between parallel and unrelated pairs (`parallel_gap`).
///
/// # Errors
/// If vectors do not match, there are no rows, or a row has no distractors.
pub fn score_clsd(input: &ClsdInput<'_>, own: Similarity, profile: Profile) -> Result<Scores, ScoreError> {
    let task = TaskType::Clsd;
    let main_key = task
        .main_score(profile)
        .ok_or(ScoreError::NotServed { task, profile })?;
    check(input, main_key)?;
    let starts: Vec<usize> = input
        .counts
        .iter()
        .scan(0, |next, count| {
            let here = *next;
            *next += count;
            Some(here)
        })
        .collect();
    let [sources, targets, distractors] = [input.sources, input.targets, input.distractors].map(Rows::new);
    let nearest: Vec<f64> = starts
        .par_iter()
        .zip(input.counts)
        .enumerate()
        .map(|(row, (start, count))| {
            let own = (*start..start + count).map(|d| distractors.row(d));
            let won = discrimination::target_is_nearest(sources.row(row), targets.row(row), own);
            f64::from(u8::from(won))
        })
        .collect();
    let corpus = whole_corpus(input, &starts, own)?;
    let mut all = corpus.all;
    let share = nearest.iter().sum::<f64>() / nearest.len() as f64;
    all.insert("candidates_precision_at_1".to_owned(), share);
    all.extend(one_word(input.one_word, &sources, &targets, &distractors));
    let mut items = corpus.per_item;
    // Any candidate of a row could be the target.
    let chance = Chance::test(nearest.iter().sum(), |rng| {
        let targets = input
            .counts
            .iter()
            .filter(|distractors| below(rng, **distractors + 1) == 0);
        targets.count() as f64
    });
    items.insert("candidates_precision_at_1".to_owned(), nearest);
    // The paper's share is not rounded, but mteb's means are.
    let decimals = match main_key {
        "candidates_precision_at_1" => None,
        key => ranked::decimals(key),
    };
    let chance = match main_key {
        "candidates_precision_at_1" => Some(chance),
        _ => corpus.evidence.and_then(|evidence| evidence.chance()),
    };
    let mut scores = Scores::new(main_key, all, input.counts.len())?
        .with_items(items)
        .with_mean_of_column(decimals, chance);
    if !input.one_word.is_empty() && scores.all["parallel_gap"] <= 0.0 {
        scores.notes.push(
            "parallel pairs are no nearer to each other than unrelated ones: one-word changes have no unit and are left out"
                .to_owned(),
        );
    }
    Ok(scores)
}

fn check(input: &ClsdInput<'_>, main_key: &'static str) -> Result<(), ScoreError> {
    let rows = input.counts.len();
    if rows == 0 {
        return Err(ScoreError::none(main_key, "rows"));
    }
    if let Some(index) = input.counts.iter().position(|count| *count == 0) {
        let problem = "it has no distractor".to_owned();
        return Err(ScoreError::Item {
            what: "rows",
            index,
            problem,
        });
    }
    let distractors = input.counts.iter().sum();
    ScoreError::rows("sources", rows, input.sources.nrows())?;
    ScoreError::rows("targets", rows, input.targets.nrows())?;
    ScoreError::rows("distractors", distractors, input.distractors.nrows())?;
    ScoreError::rows("same_as_target", distractors, input.same_as_target.len())?;
    ScoreError::widths("targets", input.sources, input.targets)?;
    ScoreError::widths("distractors", input.sources, input.distractors)
}

/// mteb's form: queries Q1, Q2 … against documents D1, D2 …, each target followed by its
/// distractors.
fn whole_corpus(input: &ClsdInput<'_>, starts: &[usize], own: Similarity) -> Result<Scores, ScoreError> {
    let mut rows = Vec::with_capacity(input.targets.nrows() + input.distractors.nrows());
    let mut judgements = Vec::with_capacity(input.counts.len());
    for (row, (start, count)) in starts.iter().zip(input.counts).enumerate() {
        let first = rows.len();
        rows.push(input.targets.row(row));
        let mut relevant = vec![(first, 1)];
        for (offset, distractor) in (*start..start + count).enumerate() {
            rows.push(input.distractors.row(distractor));
            if input.same_as_target[distractor] {
                relevant.push((first + 1 + offset, 1));
            }
        }
        judgements.push(relevant);
    }
    let documents = stack(Axis(0), &rows).map_err(|_| ScoreError::Matrix {
        what: "distractors",
        source: MatrixError::Width {
            left: input.targets.ncols(),
            right: input.distractors.ncols(),
        },
    })?;
    let ids = |letter: char, count: usize| (1..=count).map(|i| format!("{letter}{i}")).collect::<Vec<_>>();
    let (query_ids, document_ids) = (ids('Q', input.counts.len()), ids('D', documents.nrows()));
    let retrieval = RetrievalInput {
        queries: input.sources,
        query_ids: &query_ids,
        documents: documents.view(),
        document_ids: &document_ids,
        judgements: &judgements,
        ignore_identical_ids: false,
        search: SearchMode::Exact,
    };
    score_retrieval(&retrieval, own, Profile::MtebV2)
}

/// The fine-grained analysis; empty if no distractor differs in one word or the gap is not
/// positive.
fn one_word(
    pairs: &[OneWord],
    sources: &Rows<'_>,
    targets: &Rows<'_>,
    distractors: &Rows<'_>,
) -> BTreeMap<String, f64> {
    let mut scores = BTreeMap::new();
    let gap = discrimination::parallel_gap(sources.iter(), targets.iter());
    scores.insert("parallel_gap".to_owned(), gap);
    if pairs.is_empty() || gap <= 0.0 {
        return scores;
    }
    let change = |pair: &OneWord| {
        let (source, target) = (sources.row(pair.row), targets.row(pair.row));
        discrimination::change(source, target, distractors.row(pair.distractor), gap)
    };
    let changes: Vec<Change> = pairs.iter().map(change).collect();
    let mut groups: BTreeMap<String, Vec<Change>> = BTreeMap::from([(String::new(), changes.clone())]);
    for (pair, change) in pairs.iter().zip(&changes) {
        if let Some(pos) = &pair.pos {
            groups
                .entry(format!("_{}", pos.to_lowercase()))
                .or_default()
                .push(*change);
        }
    }
    for (suffix, changes) in &groups {
        let Some(group) = discrimination::group(changes) else {
            continue;
        };
        let values = [
            ("one_word_pairs", Some(group.pairs as f64)),
            ("one_word_change", Some(group.cross_mean)),
            ("one_word_change_sd", group.cross_sd),
            ("one_word_mono_change", Some(group.mono_mean)),
            ("one_word_pearson", group.pearson),
            ("one_word_spearman", group.spearman),
        ];
        for (key, value) in values {
            if let Some(value) = value.filter(|v| v.is_finite()) {
                scores.insert(format!("{key}{suffix}"), value);
            }
        }
    }
    scores
}
