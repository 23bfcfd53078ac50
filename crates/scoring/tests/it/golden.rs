//! Scores of scikit-learn, scipy and pytrec_eval on the same vectors.

use std::collections::BTreeMap;

use isomer_scoring::{
    metric::{
        Similarity,
        matrix::Rows,
        pair_classification::average_precision,
        ranking::{Judgements, RetrievedDocument, query_metrics, series},
        rounding::round_decimals,
        similarity,
    },
    task::{
        Profile, SummarisationInput, SummarisedText, score_bitext, score_pair_classification, score_sts,
        score_summarisation,
    },
};
use isomer_stats::kendall_tau_b;
use serde_json::Value;

use crate::support::{close, floats, golden, matrix};

const TOLERANCE: f64 = 1e-6;

#[test]
fn golden_sts_and_pair_classification() {
    let golden = golden();
    let (a, b) = (matrix(&golden["sts"]["a"]), matrix(&golden["sts"]["b"]));
    let gold = floats(&golden["sts"]["gold"]);
    let found = score_sts(a.view(), b.view(), &gold, Similarity::Cosine, Profile::MtebV2).unwrap();
    let expected: BTreeMap<String, f64> = serde_json::from_value(golden["sts"]["expected"].clone()).unwrap();
    for (key, value) in &expected {
        close(found.all[key], *value, TOLERANCE, key);
    }
    let cosines: Vec<f64> = Rows::new(a.view())
        .iter()
        .zip(Rows::new(b.view()).iter())
        .map(|(x, y)| f64::from(similarity::cosine(x, y)))
        .collect();
    let tau = kendall_tau_b(&gold, &cosines).unwrap();
    close(
        tau,
        golden["sts"]["kendall_tau_b"].as_f64().unwrap(),
        TOLERANCE,
        "kendall_tau_b",
    );

    let pairs = &golden["pair_classification"];
    let labels: Vec<bool> = floats(&pairs["labels"]).iter().map(|l| *l == 1.0).collect();
    let expected: BTreeMap<String, f64> = serde_json::from_value(pairs["expected"].clone()).unwrap();
    for profile in Profile::ALL {
        let found = score_pair_classification(a.view(), b.view(), &labels, Similarity::Cosine, profile).unwrap();
        for (key, value) in &expected {
            close(found.all[key], *value, TOLERANCE, key);
        }
        if profile == Profile::Hteb {
            close(
                found.main,
                pairs["hteb_avg_precision"].as_f64().unwrap(),
                TOLERANCE,
                "hteb_avg_precision",
            );
        }
    }
    let ties = &golden["average_precision_ties"];
    let labels: Vec<bool> = floats(&ties["labels"]).iter().map(|l| *l == 1.0).collect();
    let ap = average_precision(&floats(&ties["scores"]), &labels);
    close(
        ap,
        ties["sklearn_ap"].as_f64().unwrap(),
        TOLERANCE,
        "average precision with ties",
    );
}

#[test]
fn golden_retrieval_metrics() {
    let golden = golden();
    let golden = &golden["retrieval"];
    let cutoffs = [1, 3, 5, 10, 20, 100, 1000];
    let mut metrics = Vec::new();
    let run: BTreeMap<String, BTreeMap<String, f64>> = serde_json::from_value(golden["run"].clone()).unwrap();
    for (query, documents) in &run {
        let qrels: BTreeMap<String, i32> = serde_json::from_value(golden["qrels"][query].clone()).unwrap();
        let judgements: Judgements<'_> = qrels.iter().map(|(d, g)| (d.as_str(), *g)).collect();
        let retrieved: Vec<RetrievedDocument<'_>> = documents
            .iter()
            .map(|(id, s)| RetrievedDocument { id, score: *s })
            .collect();
        let found = query_metrics(&judgements, &retrieved, &cutoffs);
        let columns = [
            ("ndcg_cut", &found.ndcg),
            ("map_cut", &found.map),
            ("recall", &found.recall),
            ("P", &found.precision),
            ("success", &found.hit),
        ];
        for (name, values) in columns {
            for (k, value) in cutoffs.iter().zip(values) {
                let key = format!("{name}_{k}");
                let expected = golden["per_query"][query][&key].as_f64().unwrap();
                close(*value, expected, TOLERANCE, &format!("{query} {key}"));
            }
        }
        metrics.push(found);
    }
    let series = series(&metrics, &cutoffs);
    let mean = |key: &str| series[key].iter().sum::<f64>() / metrics.len() as f64;
    let renamed = [
        ("ndcg_cut_10", "ndcg_at_10"),
        ("map_cut_1000", "map_at_1000"),
        ("recall_10", "recall_at_10"),
        ("P_10", "precision_at_10"),
        ("success_10", "hit_rate_at_10"),
    ];
    for (theirs, ours) in renamed {
        let expected = golden["mean_rounded_5dp"][theirs].as_f64().unwrap();
        assert_eq!(round_decimals(mean(ours), 5), expected, "{theirs}");
    }
    for (key, value) in golden["mrr"].as_object().unwrap() {
        close(mean(key), value.as_f64().unwrap(), TOLERANCE, key);
    }
}

#[test]
fn golden_summarisation_in_three_definitions() {
    let golden = golden();
    let golden = &golden["summarisation"];
    let rows = golden["rows"].as_array().unwrap();
    let stacked = |key: &str| {
        let all: Vec<Value> = rows
            .iter()
            .flat_map(|row| row[key].as_array().unwrap().clone())
            .collect();
        matrix(&Value::Array(all))
    };
    let texts: Vec<SummarisedText> = rows
        .iter()
        .map(|row| SummarisedText {
            human: row["human"].as_array().unwrap().len(),
            relevance: floats(&row["gold"]),
        })
        .collect();
    let (human, machine) = (stacked("human"), stacked("machine"));
    let input = SummarisationInput {
        human: human.view(),
        machine: machine.view(),
        texts: &texts,
    };
    for (profile, key) in [
        (Profile::MtebV2, "mteb_v2_cosine_spearman"),
        (Profile::MtebV1, "mteb_v1_bug_mean_of_stat_and_p"),
        (Profile::Hteb, "hteb_pooled_spearman"),
    ] {
        let found = score_summarisation(&input, Similarity::Cosine, profile).unwrap();
        close(found.main, golden[key].as_f64().unwrap(), TOLERANCE, key);
        for (row, value) in found.per_item["cosine_spearman"].iter().enumerate() {
            assert_eq!(value.is_nan(), golden["skipped"][0] == row, "row {row}");
        }
    }
}

#[test]
fn golden_bitext() {
    let golden = golden();
    let golden = &golden["bitext"];
    let (first, second) = (matrix(&golden["src"]), matrix(&golden["tgt"]));
    let found = score_bitext(first.view(), second.view(), Similarity::Cosine, Profile::MtebV2).unwrap();
    assert_eq!(found.per_item["nearest"], floats(&golden["pred"]));
    for key in ["f1", "precision", "accuracy"] {
        close(found.all[key], golden[key].as_f64().unwrap(), TOLERANCE, key);
    }
}
