//! `isomer stats` on a user's own table.

use isomer_tests::{
    home::Home,
    process::{finish, isomer},
};
use serde_json::Value;

/// PTEB, table 6: scores of five encoders on paraphrased texts of nine data sets.
const PTEB_6: &str =
    "dataset,all-mpnet-base-v2,embeddinggemma-300m,mxbai-embed-large-v1,e5-mistral-7b-instruct,qwen3-embedding-8b
BIOSSES,77.22,64.67,84.06,77.68,81.44
SICK-R,77.45,70.28,78.24,79.01,81.88
STS12,61.85,54.95,67.91,68.23,67.21
STS13,78.91,73.7,84.19,84.35,82.9
STS14,72.14,65.03,78.41,78.12,77.1
STS15,81.58,74.47,85.05,86.2,86.5
STS17,85.06,75.28,85.0,85.61,88.6
STS22,69.39,63.21,68.97,67.49,68.61
STSB,74.9,66.97,82.2,82.02,84.56
";

/// `scipy.stats.friedmanchisquare` of the table's columns: statistic, p.
const FRIEDMAN: (f64, f64) = (23.46666666666667, 0.0001021457231008799);
/// `scipy.stats.pearsonr`, `spearmanr` and `kendalltau` of the table's first and last columns:
/// coefficient, p.
const CORRELATIONS: [(f64, f64); 3] = [
    (0.9351841748697752, 0.0002141563676831352),
    (0.9, 0.0009430623223403288),
    (0.8333333333333334, 0.0008542768959435626),
];

struct Tables {
    home: Home,
}

impl Tables {
    fn new() -> Self {
        Self { home: Home::empty() }
    }

    fn write(&self, name: &str, content: &str) -> String {
        let path = self.home.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let (code, stdout, stderr) = finish(isomer(&self.home).args(["stats", "--format", "json"]).args(arguments));
        assert_eq!(code, 0, "isomer stats {arguments:?}: {stderr}");
        serde_json::from_str(&stdout).unwrap()
    }

    fn refused(&self, arguments: &[&str], code: i32, words: &[&str]) {
        let (got, stdout, stderr) = finish(isomer(&self.home).arg("stats").args(arguments));
        assert_eq!(
            got, code,
            "isomer stats {arguments:?}\nstdout: {stdout}\nstderr: {stderr}"
        );
        for word in words {
            assert!(
                stderr.contains(word),
                "isomer stats {arguments:?}: `{word}` is not in: {stderr}"
            );
        }
    }
}

fn near(found: &Value, expected: f64, tolerance: f64) {
    let found = found.as_f64().unwrap();
    assert!((found - expected).abs() <= tolerance, "{found} is not {expected}");
}

#[test]
fn table_14_of_pteb_comes_out_of_its_table_6() {
    let tables = Tables::new();
    let input = tables.write("scores.csv", PTEB_6);
    let found = tables.json(&["compare", "--input", &input, "--reference", "all-mpnet-base-v2"]);
    let comparisons = found["comparisons"].as_array().unwrap();
    // The paper subtracts in the other direction.
    let published = [
        ("embeddinggemma-300m", 7.17, 0.02),
        ("mxbai-embed-large-v1", -3.62, 0.04),
        ("e5-mistral-7b-instruct", -3.42, 0.04),
        ("qwen3-embedding-8b", -4.46, 0.02),
    ];
    assert_eq!(comparisons.len(), published.len());
    for (comparison, (name, shift, p)) in comparisons.iter().zip(published) {
        assert_eq!(comparison["name"], name);
        near(&comparison["hodges_lehmann"], -shift, 0.0051);
        near(&comparison["p_holm"], p, 0.005);
        assert_eq!(comparison["n"], 9);
        assert!(["exact", "conditional"].contains(&comparison["method"].as_str().unwrap()));
        let interval = &comparison["signed_rank_interval"];
        assert!(
            interval["low"].as_f64() < Some(-shift) && interval["high"].as_f64() > Some(-shift),
            "{interval}"
        );
    }
}

#[test]
fn every_test_reads_a_table_and_answers_for_programs_and_people() {
    let tables = Tables::new();
    let scores = tables.write("scores.csv", PTEB_6);
    let ranks = tables.json(&["ranks", "--input", &scores]);
    near(&ranks["friedman"]["statistic"], FRIEDMAN.0, 1e-9);
    near(&ranks["friedman"]["p_value"], FRIEDMAN.1, 1e-9);
    assert_eq!(ranks["systems"][1]["average_rank"], 5.0);

    let pairs = tables.json(&["pairs", "--input", &scores, "--test", "signed-rank"]);
    assert_eq!(pairs["pairs"].as_array().unwrap().len(), 10);
    assert_ne!(pairs["systems"][1]["letters"], pairs["systems"][4]["letters"]);

    let holm = tables.json(&["holm", "0.01", "0.04", "0.03"]);
    let adjusted: Vec<f64> = holm
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["holm"].as_f64().unwrap())
        .collect();
    for (found, expected) in adjusted.iter().zip([0.03, 0.06, 0.06]) {
        assert!((found - expected).abs() < 1e-12, "{adjusted:?}");
    }

    // scipy.stats.pearsonr, spearmanr and kendalltau of the same two columns.
    let columns = "all-mpnet-base-v2,qwen3-embedding-8b";
    let correlation = tables.json(&["correlation", "--input", &scores, "--column", columns]);
    for (key, (value, p)) in ["pearson", "spearman", "kendall_tau_b"].iter().zip(CORRELATIONS) {
        near(&correlation[key]["value"], value, 1e-9);
        near(&correlation[key]["p_value"], p, 1e-9);
    }
    let interval = tables.json(&[
        "bootstrap",
        "--input",
        &scores,
        "--column",
        columns,
        "--statistic",
        "spearman",
    ]);
    near(&interval[0]["estimate"], CORRELATIONS[1].0, 1e-12);

    let stability = tables.json(&["stability", "--input", &scores, "--transformed", &scores]);
    near(&stability["mean"], 1.0, 1e-12);
    assert_eq!(stability["data_sets"][8]["name"], "STSB");
    let reliability = tables.json(&["reliability", "--input", &scores]);
    assert!(reliability["median"].as_f64() > Some(0.5), "{reliability}");

    // Gwet (2014), table 2.8: AC1 0.77544, standard error 0.14295; empty cells are missing ratings.
    let ratings = tables.write(
        "ratings.csv",
        "a,b,c,d\n1,1,,1\n2,2,3,2\n3,3,3,3\n3,3,3,3\n2,2,2,2\n1,2,3,4\n4,4,4,4\n1,1,2,1\n2,2,2,2\n,5,5,5\n,,1,1\n,3,,\n",
    );
    let agreement = tables.json(&["agreement", "--input", &ratings, "--weights", "identity"]);
    near(&agreement["value"], 0.775_44, 5e-6);
    near(&agreement["standard_error"], 0.142_95, 5e-6);

    let design = tables.json(&[
        "design",
        "--sd-between",
        "1.5",
        "--sd-seeds",
        "0.4",
        "--datasets",
        "6",
        "--seeds",
        "3",
        "--effect",
        "2",
    ]);
    assert!(design["minimal_detectable_effect"].as_f64() > Some(1.5), "{design}");
    assert!(design["datasets_needed"].as_u64() > Some(3));

    let (code, stdout, _) = finish(isomer(&tables.home).args(["stats", "ranks", "--input", &scores]));
    assert_eq!(code, 0);
    assert!(
        stdout.contains("Nemenyi: ranks further apart than") && stdout.contains("qwen3-embedding-8b"),
        "{stdout}"
    );
}

#[test]
fn tables_that_do_not_fit_are_refused_by_name() {
    let tables = Tables::new();
    let scores = tables.write("scores.csv", PTEB_6);
    tables.refused(
        &["compare", "--input", &scores, "--reference", "mpnet"],
        2,
        &["--reference", "mpnet", "qwen3-embedding-8b"],
    );
    tables.refused(
        &["compare", "--input", &scores, "--column", "all-mpnet-base-v3"],
        2,
        &["--column", "did you mean `all-mpnet-base-v2`?"],
    );
    tables.refused(&["compare", "--input", "absent.csv"], 3, &["absent.csv"]);
    let text = tables.write("text.csv", "a,b\n1,2\n3,high\n");
    tables.refused(
        &["compare", "--input", &text],
        3,
        &["text.csv", "row 2", "\"b\"", "high"],
    );
    let hole = tables.write("hole.csv", "a,b\n1,2\n,4\n");
    tables.refused(
        &["compare", "--input", &hole],
        3,
        &["hole.csv", "row 2", "\"a\"", "empty"],
    );
    let constant = tables.write("constant.csv", "a,b\n1,2\n1,3\n1,4\n");
    tables.refused(
        &["correlation", "--input", &constant],
        2,
        &["constant series is undefined"],
    );
    tables.refused(&["correlation", "--input", &scores], 2, &["two columns", "5 are given"]);
    tables.refused(&["holm", "0.5", "1.5"], 2, &["p_values[1]", "1.5"]);
    tables.refused(&["ranks", "--input", &constant], 2, &["Friedman", "3", "2 given"]);
    let one = tables.write("one.csv", "dataset,a,b\nx,0.5,0.6\n");
    let found = tables.json(&["compare", "--input", &one]);
    assert!(
        found["comparisons"][0]["note"]
            .as_str()
            .unwrap()
            .contains("no two-sided p-value below 1"),
        "{found}"
    );
    let same = tables.write("same.csv", "a,b\n1,1\n2,2\n3,3\n");
    let found = tables.json(&["compare", "--input", &same]);
    assert!(found["comparisons"][0]["p_value"].is_null(), "{found}");
    assert!(
        found["comparisons"][0]["note"]
            .as_str()
            .unwrap()
            .contains("all differences are zero"),
        "{found}"
    );
}
