//! Tests weights against repeated rows: the metrics themselves are the reference.
#![allow(clippy::unwrap_used)]

use ndarray::Array2;
use proptest::prelude::*;

use super::*;
use crate::{
    metric::{
        Similarity, nearest,
        pair_classification::average_precision,
        ranking::{self, Judgements, RetrievedDocument},
    },
    stats::spearman,
    task::{
        Candidates, ClassificationInput, ClsdInput, ClusteringInput, Profile, RerankingInput, RetrievalInput, Scores,
        SearchMode, SummarisationInput, SummarisedText, score_bitext, score_classification, score_clsd,
        score_clustering, score_graded_ranking, score_pair_classification, score_reranking, score_retrieval, score_sts,
        score_summarisation,
    },
};

/// Item numbers, each repeated as often as its weight.
fn written_out(weights: &[u8]) -> Vec<usize> {
    let rows = weights.iter().enumerate();
    rows.flat_map(|(i, w)| std::iter::repeat_n(i, usize::from(*w)))
        .collect()
}

fn floats(weights: &[u8]) -> Vec<f64> {
    weights.iter().map(|w| f64::from(*w)).collect()
}

fn near(found: Option<f64>, wanted: Option<f64>) -> bool {
    match (found, wanted) {
        (Some(found), Some(wanted)) => (found - wanted).abs() < 1e-9,
        (found, wanted) => found == wanted,
    }
}

/// Rows of few distinct values, so that ties occur, with weights.
fn rows() -> impl Strategy<Value = Vec<(u8, u8, bool, u8)>> {
    prop::collection::vec((0..6_u8, 0..5_u8, any::<bool>(), 0..4_u8), 2..40)
}

proptest! {
    #[test]
    fn a_weighted_spearman_is_that_of_the_rows_written_out(rows in rows()) {
        let gold: Vec<f64> = rows.iter().map(|r| f64::from(r.0)).collect();
        let predicted: Vec<f32> = rows.iter().map(|r| f32::from(r.1) / 8.0).collect();
        let weights: Vec<u8> = rows.iter().map(|r| r.3).collect();
        let evidence = Evidence::Spearman { gold: gold.clone(), predicted: predicted.clone(), points: Vec::new() };
        let out = written_out(&weights);
        let x: Vec<f64> = out.iter().map(|i| gold[*i]).collect();
        let y: Vec<f64> = out.iter().map(|i| f64::from(predicted[*i])).collect();
        prop_assert!(near(evidence.score(&floats(&weights)), spearman(&x, &y).ok()));
    }

    #[test]
    fn a_weighted_average_precision_is_that_of_the_rows_written_out(rows in rows()) {
        let labels: Vec<bool> = rows.iter().map(|r| r.2).collect();
        let series: Vec<Vec<f32>> = vec![
            rows.iter().map(|r| f32::from(r.0)).collect(),
            rows.iter().map(|r| f32::from(r.1)).collect(),
        ];
        let weights: Vec<u8> = rows.iter().map(|r| r.3).collect();
        let out = written_out(&weights);
        let own: Vec<bool> = out.iter().map(|i| labels[*i]).collect();
        let both = own.contains(&true) && own.contains(&false);
        let of = |s: &Vec<f32>| average_precision(&out.iter().map(|i| f64::from(s[*i])).collect::<Vec<_>>(), &own);
        let best = series.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
        let evidence = Evidence::AveragePrecision { labels, similarities: series };
        prop_assert!(near(evidence.score(&floats(&weights)), both.then_some(best)));
    }

    #[test]
    fn a_weighted_v_measure_is_that_of_the_rows_written_out(rows in rows()) {
        let classes: Vec<u32> = rows.iter().map(|r| u32::from(r.0)).collect();
        let weights: Vec<u8> = rows.iter().map(|r| r.3).collect();
        let all: Vec<u32> = (0..u32::try_from(rows.len()).unwrap()).collect();
        // The second clustering drew only the items at even positions, some of them twice.
        let even: Vec<u32> = all.iter().copied().filter(|i| i % 2 == 0).collect();
        let counts: Vec<u32> = even.iter().map(|i| 1 + i % 4).collect();
        let cluster = |i: u32| u32::from(rows[i as usize].1);
        let clusterings = vec![
            Clustering { items: all.clone(), clusters: all.iter().map(|i| cluster(*i)).collect(), counts: Vec::new() },
            Clustering { items: even.clone(), clusters: even.iter().map(|i| cluster(*i)).collect(), counts: counts.clone() },
        ];
        let reference = |of: &dyn Fn(usize) -> usize| -> Option<f64> {
            let out: Vec<usize> = (0..rows.len()).flat_map(|i| std::iter::repeat_n(i, of(i))).collect();
            let classes: Vec<usize> = out.iter().map(|i| usize::from(rows[*i].0)).collect();
            let clusters: Vec<usize> = out.iter().map(|i| usize::from(rows[*i].1)).collect();
            (!out.is_empty()).then(|| isomer_learn::metrics::agreement(&classes, &clusters).v_measure)
        };
        let first = reference(&|i| usize::from(weights[i]));
        let second = reference(&|i| if i % 2 == 0 { usize::from(weights[i]) * (1 + i % 4) } else { 0 });
        let defined: Vec<f64> = first.into_iter().chain(second).collect();
        let evidence = Evidence::VMeasure { classes, clusterings };
        prop_assert!(near(evidence.score(&floats(&weights)), crate::stats::mean(&defined)));
    }

    #[test]
    fn a_weighted_bitext_f1_is_that_of_the_rows_written_out(rows in rows()) {
        let n = rows.len();
        // Half of the items find themselves, the others find another item.
        let predictions: Vec<usize> =
            rows.iter().enumerate().map(|(i, r)| if r.2 { i } else { usize::from(r.0) % n }).collect();
        let weights: Vec<u8> = rows.iter().map(|r| r.3).collect();
        let out = written_out(&weights);
        // scikit-learn's weighted F1, computed class by class.
        let total = out.len() as f64;
        let mut f1 = 0.0;
        for class in 0..n {
            let support = out.iter().filter(|i| **i == class).count() as f64;
            let predicted = out.iter().filter(|i| predictions[**i] == class).count() as f64;
            let right = out.iter().filter(|i| **i == class && predictions[**i] == class).count() as f64;
            f1 += if right > 0.0 { support * 2.0 * right / (support + predicted) } else { 0.0 };
        }
        let evidence = Evidence::Nearest { nearest: predictions.iter().map(|p| u32::try_from(*p).unwrap()).collect() };
        prop_assert!(near(evidence.score(&floats(&weights)), (total > 0.0).then(|| f1 / total)));
        prop_assert!(near(evidence.whole(), Some(nearest::score(&predictions)["f1"])));
    }

    #[test]
    fn a_weighted_mean_is_that_of_the_rows_written_out(rows in rows()) {
        let values: Vec<f64> = rows.iter().map(|r| if r.2 { f64::NAN } else { f64::from(r.0) / 7.0 }).collect();
        let weights: Vec<u8> = rows.iter().map(|r| r.3).collect();
        let out: Vec<f64> = written_out(&weights).iter().map(|i| values[*i]).filter(|v| !v.is_nan()).collect();
        let evidence = Evidence::mean(&values, None);
        prop_assert!(near(evidence.score(&floats(&weights)), crate::stats::mean(&out)));
    }

    #[test]
    fn evidence_comes_back_from_json_to_the_last_bit(values in prop::collection::vec(any::<f32>().prop_filter("finite", |v| v.is_finite()), 1..30)) {
        let gold: Vec<f64> = values.iter().map(|v| f64::from(*v) / 3.0).collect();
        for evidence in [
            Evidence::mean(&gold, Some(5)),
            Evidence::Spearman { gold: gold.clone(), predicted: values.clone(), points: vec![1] },
            Evidence::AveragePrecision { labels: vec![true, false], similarities: vec![values.clone()] },
        ] {
            let json = serde_json::to_vec(&evidence).unwrap();
            prop_assert_eq!(serde_json::from_slice::<Evidence>(&json).unwrap(), evidence);
        }
    }
}

/// Pseudo-random vectors, some rows of which are equal so that ties occur.
fn vectors(rows: usize, salt: u64) -> Array2<f32> {
    let cell = |i: usize| {
        let row = (i / 4) % (rows - rows / 5).max(1);
        let hash = blake3::hash(format!("{salt} {row} {}", i % 4).as_bytes());
        f32::from(hash.as_bytes()[0]) / 128.0 - 1.0
    };
    Array2::from_shape_fn((rows, 4), |(row, col)| cell(row * 4 + col))
}

fn is_main(what: &str, scores: &Scores, items: usize) {
    let evidence = scores
        .evidence
        .as_ref()
        .unwrap_or_else(|| panic!("{what} has no evidence"));
    assert_eq!(evidence.items(), items, "{what}");
    let whole = evidence.whole().unwrap();
    assert!(
        (whole - scores.main).abs() < 1e-9,
        "{what}: {whole} is not {}",
        scores.main
    );
}

#[test]
fn all_weights_one_give_the_main_score_of_every_task_and_profile() {
    let (a, b) = (vectors(30, 1), vectors(30, 2));
    let labels: Vec<bool> = (0..30).map(|i| i % 3 == 0).collect();
    let gold: Vec<f64> = (0..30).map(|i| f64::from(i * 7 % 11)).collect();
    let names: Vec<String> = (0..30).map(|i| format!("label {}", i % 3)).collect();
    let ids: Vec<String> = (0..30).map(|i| format!("d{i}")).collect();
    for profile in Profile::ALL {
        let own = Similarity::Cosine;
        let what = |task: &str| format!("{task} under {profile}");
        is_main(
            &what("sts"),
            &score_sts(a.view(), b.view(), &gold, own, profile).unwrap(),
            30,
        );
        let pairs = score_pair_classification(a.view(), b.view(), &labels, Similarity::Dot, profile).unwrap();
        is_main(&what("pair classification"), &pairs, 30);
        is_main(
            &what("bitext"),
            &score_bitext(a.view(), b.view(), own, profile).unwrap(),
            30,
        );
        let input = ClassificationInput {
            train: a.view(),
            train_labels: &names,
            test: b.view(),
            test_labels: &names,
            samples_per_label: 4,
            experiments: 3,
        };
        is_main(
            &what("classification"),
            &score_classification(&input, profile).unwrap(),
            30,
        );
        for (sets, legacy) in [(&[][..], false), (&[][..], true), (&[14, 16][..], false)] {
            let input = ClusteringInput {
                vectors: a.view(),
                labels: &names,
                sets,
                legacy,
                max_fraction: Some(0.8),
            };
            is_main(&what("clustering"), &score_clustering(&input, profile).unwrap(), 30);
        }
        let judgements: Vec<Vec<(usize, i32)>> = (0..7).map(|q| vec![(q, 2), (q * 3 % 30, 1), (29 - q, 1)]).collect();
        let query_ids: Vec<String> = (0..7).map(|i| format!("q{i}")).collect();
        let queries = vectors(7, 3);
        let input = RetrievalInput {
            queries: queries.view(),
            query_ids: &query_ids,
            documents: a.view(),
            document_ids: &ids,
            judgements: &judgements,
            ignore_identical_ids: false,
            search: SearchMode::Exact,
        };
        is_main(&what("retrieval"), &score_retrieval(&input, own, profile).unwrap(), 7);
        let items = [Candidates {
            queries: 1,
            positives: 2,
            negatives: 4,
        }; 5];
        let queries = vectors(5, 4);
        let input = RerankingInput {
            queries: queries.view(),
            documents: a.view(),
            items: &items,
            document_ids: &[],
        };
        is_main(&what("reranking"), &score_reranking(&input, own, profile).unwrap(), 5);
        let texts: Vec<SummarisedText> = (0..6)
            .map(|t| SummarisedText {
                human: 2,
                // The relevances of the last text are equal: mteb leaves it out.
                relevance: (0..5)
                    .map(|m| if t == 5 { 1.0 } else { f64::from((m * 3 + t) % 5) })
                    .collect(),
            })
            .collect();
        let human = vectors(12, 5);
        let input = SummarisationInput {
            human: human.view(),
            machine: b.view(),
            texts: &texts,
        };
        is_main(
            &what("summarisation"),
            &score_summarisation(&input, own, profile).unwrap(),
            6,
        );
        let counts = [3; 10];
        let ten = vectors(10, 6);
        let graded = score_graded_ranking(ten.view(), a.view(), &counts, own, profile).unwrap();
        is_main(&what("graded ranking"), &graded, 10);
        let targets = vectors(10, 7);
        let input = ClsdInput {
            sources: ten.view(),
            targets: targets.view(),
            distractors: a.view(),
            counts: &counts,
            same_as_target: &[false; 30],
            one_word: &[],
        };
        is_main(&what("clsd"), &score_clsd(&input, own, profile).unwrap(), 10);
    }
}

#[test]
fn a_mean_is_rounded_as_its_metric_rounds_it() {
    // nDCG of three queries: 1, 1, and 1 / log2(3) for the one whose relevant document is second.
    let judged = Judgements::from([("a", 1)]);
    let list = |score| {
        [
            RetrievedDocument { id: "a", score },
            RetrievedDocument { id: "b", score: 0.5 },
        ]
    };
    let values: Vec<f64> = [0.9, 0.8, 0.1]
        .map(|score| ranking::query_metrics(&judged, &list(score), &[10]).ndcg[0])
        .to_vec();
    let evidence = Evidence::mean(&values, Some(MTEB_DECIMALS));
    assert_eq!(evidence.whole(), Some(0.87698));
    assert_eq!(
        Evidence::mean(&values, None).whole(),
        Some((2.0 + 1.0 / 3f64.log2()) / 3.0)
    );
    assert_eq!(evidence.score(&[0.0, 1.0, 0.0]), Some(1.0));
}

#[test]
fn points_of_an_item_are_weighed_together() {
    let evidence = Evidence::Spearman {
        gold: vec![1.0, 2.0, 3.0, 9.0, 8.0],
        predicted: vec![0.1, 0.2, 0.3, 0.1, 0.2],
        points: vec![3, 2],
    };
    assert_eq!(evidence.items(), 2);
    assert!(near(evidence.score(&[1.0, 0.0]), Some(1.0)));
    assert!(near(evidence.score(&[0.0, 2.0]), Some(-1.0)));
    assert!(evidence.score(&[0.0, 0.0]).is_none());
}

#[test]
fn lists_of_different_lengths_or_unknown_items_do_not_fit_together() {
    let pairs = |similarities: Vec<Vec<f32>>| Evidence::AveragePrecision {
        labels: vec![true, false],
        similarities,
    };
    assert!(pairs(vec![vec![0.5, 0.1]]).is_consistent());
    assert!(!pairs(vec![vec![0.5]]).is_consistent() && !pairs(Vec::new()).is_consistent());
    let points = |points: Vec<u32>, predicted: Vec<f32>| Evidence::Spearman {
        gold: vec![1.0, 2.0, 3.0],
        predicted,
        points,
    };
    assert!(points(vec![2, 1], vec![0.0; 3]).is_consistent() && points(Vec::new(), vec![0.0; 3]).is_consistent());
    assert!(!points(vec![2, 2], vec![0.0; 3]).is_consistent() && !points(Vec::new(), vec![0.0; 2]).is_consistent());
    let nearest = |nearest: Vec<u32>| Evidence::Nearest { nearest };
    assert!(nearest(vec![1, 0]).is_consistent() && !nearest(vec![1, 2]).is_consistent());
    let clustered = |items: Vec<u32>, counts: Vec<u32>| Evidence::VMeasure {
        classes: vec![0, 1],
        clusterings: vec![Clustering {
            items,
            clusters: vec![0, 0],
            counts,
        }],
    };
    assert!(clustered(vec![0, 1], Vec::new()).is_consistent());
    assert!(!clustered(vec![0, 2], Vec::new()).is_consistent() && !clustered(vec![0, 1], vec![1]).is_consistent());
}
