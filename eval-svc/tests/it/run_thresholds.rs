//! Thresholds of an encoder's scores: the test recomputes every number from the encoders' vectors
//! and the texts; errors that would falsify a number are refused or reported.

use std::path::Path;

use isomer_eval::{
    evidence::Evidence,
    report::{
        DatasetInfo, PromptUse, Report, RunItems,
        diff::{DiffError, Side},
        read, read_items,
        terms::{Part, PromptSource},
        thresholds::{
            Rates, TargetMet, ThresholdError, ThresholdOptions, ThresholdSet, ThresholdTarget, Thresholds, files,
            json_schema, thresholds,
        },
    },
};
use isomer_proto::eval::v1::{ReportFormat, RunState, SuiteRef, suite_ref};
use serde_json::json;

use crate::{
    run_diff::{cosine, document},
    run_stubs::{self, Harness, report, run_to_end, spec},
    schema_check::faults,
};

const DOCUMENTS: usize = 60;
const QUERIES: usize = 24;
const PAIRS: usize = 60;
const K: usize = 5;

type RunFiles = (Report, RunItems);

/// Searches, two data sets of pairs, and graded pairs.
fn suite(folder: &Path) -> SuiteRef {
    let data = folder.join("find");
    std::fs::create_dir_all(data.join("qrels")).unwrap();
    let lines = |rows: Vec<serde_json::Value>| rows.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    let corpus = (0..DOCUMENTS).map(|n| json!({"_id": format!("d{n:02}"), "title": "", "text": document(n)}));
    std::fs::write(data.join("corpus.jsonl"), lines(corpus.collect())).unwrap();
    let queries = (0..QUERIES).map(|n| {
        let words: Vec<String> = document(n * 2)
            .split(' ')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect();
        json!({"_id": format!("q{n:02}"), "text": words.join(" ")})
    });
    std::fs::write(data.join("queries.jsonl"), lines(queries.collect())).unwrap();
    let qrels: Vec<String> = (0..QUERIES)
        .map(|n| format!("q{n:02}\td{:02}\t1\nq{n:02}\td{:02}\t1", n * 2, n * 2 + 7))
        .collect();
    std::fs::write(
        data.join("qrels/test.tsv"),
        format!("query-id\tcorpus-id\tscore\n{}", qrels.join("\n")),
    )
    .unwrap();
    for (name, step) in [("pairs", 5), ("more", 7)] {
        let pairs = (0..PAIRS).map(|n| {
            let second = if n % 2 == 0 { n } else { n * step + 3 };
            json!({
                "sentence1": format!("{name}: {}", document(n)),
                "sentence2": format!("Look there: {}", document(second)),
                "label": (n + 1) % 2,
            })
        });
        std::fs::write(folder.join(format!("{name}.jsonl")), lines(pairs.collect())).unwrap();
    }
    std::fs::write(folder.join("graded.jsonl"), run_stubs::STS).unwrap();
    let text = "name = \"versions\"\nseeds = [1, 2]\ntransformations = [\"paraphrase\", \"expansion\"]\n\n\
         [[dataset]]\ntask = \"retrieval\"\nname = \"find\"\npath = \"find\"\n\n\
         [[dataset]]\ntask = \"pair-classification\"\nname = \"pairs\"\npath = \"pairs.jsonl\"\n\n\
         [[dataset]]\ntask = \"pair-classification\"\nname = \"more\"\npath = \"more.jsonl\"\n\n\
         [[dataset]]\ntask = \"sts\"\nname = \"graded\"\npath = \"graded.jsonl\"\n";
    SuiteRef {
        source: Some(suite_ref::Source::Toml(text.to_owned())),
        base_dir: folder.display().to_string(),
        file_name: "versions.toml".to_owned(),
    }
}

/// A check of two encoders, with the stored items.
async fn check() -> RunFiles {
    let harness = Harness::new();
    *harness.transform.sampled.lock() = true;
    let (_service, mut client) = harness.open_with(isomer_eval::Shared::default(), |_| {}).await;
    let folder = harness.home.path().join("data");
    std::fs::create_dir_all(&folder).unwrap();
    let run = run_to_end(&mut client, spec(suite(&folder), &["stub-a", "stub-keen"])).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    let json = report(&mut client, &run.id, ReportFormat::Json).await;
    let items = report(&mut client, &run.id, ReportFormat::Items).await;
    (read(&json).unwrap(), read_items(&items).unwrap())
}

fn side<'a>((report, items): &'a RunFiles, encoder: &'a str) -> Side<'a> {
    Side { report, items, encoder }
}

fn options(target: ThresholdTarget) -> ThresholdOptions {
    ThresholdOptions {
        target,
        k: K,
        ..ThresholdOptions::default()
    }
}

fn of(made: &RunFiles, options: ThresholdOptions) -> Thresholds {
    thresholds(side(made, "stub-a"), None, options).unwrap()
}

fn refused(made: &RunFiles, options: ThresholdOptions) -> String {
    thresholds(side(made, "stub-a"), None, options).unwrap_err().to_string()
}

fn set<'a>(found: &'a Thresholds, name: &str) -> &'a ThresholdSet {
    found.sets.iter().find(|own| own.name == name).unwrap()
}

fn why<'a>(found: &'a Thresholds, name: &str) -> &'a str {
    &found.without.iter().find(|own| own.name == name).unwrap().why
}

/// Texts of a data set's items under a variant.
fn texts(items: &RunItems, dataset: &str, variant: Option<(&str, u64)>) -> Vec<Vec<String>> {
    let own = items.datasets.iter().find(|own| own.name == dataset).unwrap();
    let found = own.variants.iter().find(|one| match variant {
        None => one.transformation.is_none() && one.seed.is_none(),
        Some((label, seed)) => one.transformation.as_deref() == Some(label) && one.seed == Some(seed),
    });
    let text = |number: &u32| items.texts[*number as usize].clone();
    let rows = found.unwrap().texts.iter();
    rows.map(|own| own.iter().map(text).collect()).collect()
}

fn variants(label: Option<&String>) -> Vec<Option<(&str, u64)>> {
    match label {
        None => vec![None],
        Some(label) => vec![Some((label.as_str(), 1)), Some((label.as_str(), 2))],
    }
}

/// Cosine and label of every pair under some variants, and whether both texts changed.
fn pairs(made: &RunFiles, dataset: &str, label: Option<&String>) -> Vec<(f64, bool, bool)> {
    let before = texts(&made.1, dataset, None);
    let mut all = Vec::new();
    for variant in variants(label) {
        for (item, own) in texts(&made.1, dataset, variant).iter().enumerate() {
            let changed = own.iter().zip(&before[item]).all(|(after, before)| after != before);
            // Runs store cosines in single precision.
            let score = f64::from(cosine("stub-a", &own[0], &own[1]) as f32);
            all.push((score, item % 2 == 0, changed));
        }
    }
    all
}

/// True positives, false positives, false negatives, true negatives.
fn counted(all: &[(f64, bool, bool)], threshold: f64) -> [u64; 4] {
    let mut counts = [0; 4];
    for (score, positive, _) in all {
        counts[match (*score >= threshold, positive) {
            (true, true) => 0,
            (true, false) => 1,
            (false, true) => 2,
            (false, false) => 3,
        }] += 1;
    }
    counts
}

/// The lowest threshold between two scores with this precision.
fn lowest(all: &[(f64, bool, bool)], precision: f64) -> Option<f64> {
    let mut scores: Vec<f64> = all.iter().map(|one| one.0).collect();
    scores.sort_by(f64::total_cmp);
    scores.dedup();
    let between = scores.windows(2).map(|two| f64::midpoint(two[0], two[1]));
    std::iter::once(scores[0]).chain(between).find(|threshold| {
        let [tp, fp, ..] = counted(all, *threshold);
        tp > 0 && tp as f64 / (tp + fp) as f64 >= precision
    })
}

fn value(rates: &Rates) -> (Option<f64>, Option<f64>) {
    (rates.precision.value, rates.recall.value)
}

#[tokio::test]
async fn a_threshold_of_pairs_and_what_it_does_are_those_that_counting_gives() {
    let made = check().await;
    let mut restored = 0;
    for at in [0.6, 0.75, 0.9] {
        let originals = pairs(&made, "pairs", None);
        let found = thresholds(side(&made, "stub-a"), None, options(ThresholdTarget::Precision { at }));
        let Some(threshold) = lowest(&originals, at) else {
            continue;
        };
        let found = found.unwrap();
        let own = set(&found, "pairs");
        assert!(
            (own.threshold - threshold).abs() < 1e-6,
            "{} {threshold}",
            own.threshold
        );
        assert_eq!((own.rows.len(), own.items, own.prevalence), (3, PAIRS, 0.5));
        for row in &own.rows {
            let all = pairs(&made, "pairs", row.transformation.as_ref());
            let [tp, fp, fn_, tn] = counted(&all, own.threshold);
            let c = row.counts;
            assert_eq!(
                [c.true_positives, c.false_positives, c.false_negatives, c.true_negatives],
                [tp, fp, fn_, tn],
                "{row:?}"
            );
            let share = |part: u64, rest: u64| (part + rest > 0).then(|| part as f64 / (part + rest) as f64);
            assert_eq!(value(&row.rates), (share(tp, fp), share(tp, fn_)));
            assert_eq!(row.rates.fpr.as_ref().unwrap().value, share(fp, tn));
            let precision = &row.rates.precision;
            if let (Some(value), Some(low), Some(high)) = (precision.value, precision.low, precision.high) {
                assert!(low <= value && value <= high && low < high);
            }
            if row.transformation.is_none() {
                continue;
            }
            let changed: Vec<_> = all.iter().copied().filter(|one| one.2).collect();
            assert_eq!(row.unchanged, Some(1.0 - changed.len() as f64 / all.len() as f64));
            let [tp, fp, fn_, _] = counted(&changed, own.threshold);
            assert_eq!(value(row.changed.as_ref().unwrap()), (share(tp, fp), share(tp, fn_)));
            match (lowest(&all, at), &row.restored) {
                (Some(wanted), Some(found)) => {
                    assert!((found.threshold - wanted).abs() < 1e-6);
                    assert!((found.change - (found.threshold - own.threshold)).abs() < 1e-12);
                    assert!(found.rates.precision.value.unwrap() >= at);
                    restored += 1;
                }
                (None, None) => assert!(row.not_restored.as_ref().unwrap().contains("no threshold")),
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(restored > 1, "the test would see a threshold");
}

#[tokio::test]
async fn a_threshold_of_searches_counts_documents_that_are_not_returned_as_missed() {
    let made = check().await;
    let found = of(&made, options(ThresholdTarget::F1));
    let own = set(&found, "find");
    let search = |query: &str| -> Vec<(usize, f64)> {
        let mut all: Vec<(usize, f64)> = (0..DOCUMENTS)
            .map(|n| (n, f64::from(cosine("stub-a", query, &document(n)) as f32)))
            .collect();
        // Ties are won by the id that sorts last.
        all.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)));
        all.truncate(K);
        all
    };
    let mut beyond = 0;
    for row in &own.rows {
        let (mut tp, mut fp, mut relevant) = (0, 0, 0);
        for variant in variants(row.transformation.as_ref()) {
            for (query, own_texts) in texts(&made.1, "find", variant).iter().enumerate() {
                let wanted = [query * 2, query * 2 + 7];
                let returned = search(&own_texts[0]);
                relevant += 2;
                beyond += wanted.iter().filter(|n| !returned.iter().any(|(d, _)| d == *n)).count();
                for (document, score) in returned {
                    let accepted = score >= own.threshold;
                    tp += u64::from(accepted && wanted.contains(&document));
                    fp += u64::from(accepted && !wanted.contains(&document));
                }
            }
        }
        assert_eq!(
            (row.counts.true_positives, row.counts.false_positives),
            (tp, fp),
            "{row:?}"
        );
        assert_eq!(row.counts.true_positives + row.counts.false_negatives, relevant);
        assert!(row.rates.fpr.is_none());
    }
    assert!(beyond > 0, "some relevant documents are not returned");
    assert!(
        own.notes
            .iter()
            .any(|note| note.starts_with("60 documents are searched"))
    );
    let rate = options(ThresholdTarget::Fpr { at: 0.1 });
    assert!(why(&of(&made, rate), "find").contains("no false-positive rate"));
}

/// Every score of a data set of pairs replaced by these, for the originals and all transformations.
fn replaced(made: &RunFiles, scores: &[f32], labels: &[bool], clusters: &[u32]) -> RunFiles {
    let (report, mut items) = made.clone();
    for one in items.scores.iter_mut().filter(|one| one.dataset == "pairs") {
        one.evidence = Some(Evidence::AveragePrecision {
            labels: labels.to_vec(),
            similarities: vec![scores.to_vec()],
        });
    }
    let own = items.datasets.iter_mut().find(|own| own.name == "pairs").unwrap();
    own.clusters = clusters.to_vec();
    own.variants.clear();
    (report, items)
}

/// Pairs whose scores do not depend on their labels.
fn noise(n: u32) -> (Vec<f32>, Vec<bool>, Vec<u32>) {
    let mix = |i: u32, salt: u32| {
        let mut x = i.wrapping_mul(0x9E37_79B9) ^ salt;
        x = (x ^ (x >> 16)).wrapping_mul(0x85EB_CA6B);
        x = (x ^ (x >> 13)).wrapping_mul(0xC2B2_AE35);
        x ^ (x >> 16)
    };
    let scores = (0..n).map(|i| (mix(i, 1) % 10_000) as f32 / 10_000.0).collect();
    let labels = (0..n).map(|i| mix(i, 2).is_multiple_of(2)).collect();
    (scores, labels, (0..n).collect())
}

fn only(name: &str, target: ThresholdTarget) -> ThresholdOptions {
    ThresholdOptions {
        datasets: vec![name.to_owned()],
        ..options(target)
    }
}

#[tokio::test]
async fn a_precision_that_only_the_choice_made_is_not_said_to_be_met() {
    let made = check().await;
    let target = ThresholdTarget::Precision { at: 0.7 };
    let (scores, labels, clusters) = noise(400);
    let found = of(&replaced(&made, &scores, &labels, &clusters), only("pairs", target));
    let original = &set(&found, "pairs").rows[0];
    assert!(original.rates.precision.value.unwrap() >= 0.7, "chosen so");
    assert_ne!(original.target, TargetMet::Met);
    if let Some(held_out) = &original.held_out {
        assert!(held_out.precision.value.unwrap_or(0.0) < 0.7, "{held_out:?}");
    }
    // The positive control: if all negatives have one score, lower than any positive's, the lowest
    // threshold accepts none of them, and the number of pairs suffices as proof.
    let good: Vec<f32> = scores
        .iter()
        .zip(&labels)
        .map(|(score, label)| if *label { 0.4 + score * 0.5 } else { 0.2 })
        .collect();
    let found = of(&replaced(&made, &good, &labels, &clusters), only("pairs", target));
    let original = &set(&found, "pairs").rows[0];
    assert_eq!(original.target, TargetMet::Met, "{original:?}");
    // The same pairs in two clusters prove nothing, and neither do thirty pairs.
    let two: Vec<u32> = clusters.iter().map(|cluster| cluster % 2).collect();
    let found = of(&replaced(&made, &good, &labels, &two), only("pairs", target));
    assert_eq!(set(&found, "pairs").rows[0].target, TargetMet::NotShown);
    let few = replaced(&made, &good[..30], &labels[..30], &clusters[..30]);
    let found = of(&few, only("pairs", ThresholdTarget::Precision { at: 0.99 }));
    let original = &set(&found, "pairs").rows[0];
    assert_eq!(original.target, TargetMet::NotShown);
    assert!(
        original.target_note.as_ref().unwrap().contains("cannot show it"),
        "{original:?}"
    );
}

#[tokio::test]
async fn what_has_no_threshold_says_why() {
    let made = check().await;
    let f1 = ThresholdTarget::F1;
    let found = of(&made, options(f1));
    assert!(why(&found, "graded").contains("--sts-cut"));
    let (scores, mut labels, clusters) = noise(60);
    let told = |made: &RunFiles, target| refused(made, only("pairs", target));
    // Too few positives, none at all, an unreachable target, equal scores, a score that is not a
    // number.
    labels.fill(false);
    labels[..9].fill(true);
    let few = replaced(&made, &scores, &labels, &clusters);
    assert!(
        told(&few, f1).contains("9 positives and 51 negatives"),
        "{}",
        told(&few, f1)
    );
    labels[9] = true;
    assert!(
        thresholds(
            side(&replaced(&made, &scores, &labels, &clusters), "stub-a"),
            None,
            only("pairs", f1)
        )
        .is_ok()
    );
    labels.fill(false);
    assert!(told(&replaced(&made, &scores, &labels, &clusters), f1).contains("0 positives"));
    let (_, labels, _) = noise(60);
    let equal = replaced(&made, &[0.5; 60], &labels, &clusters);
    let precision = ThresholdTarget::Precision { at: 0.95 };
    assert!(told(&equal, precision).contains("no threshold has a precision of 0.95"));
    let all = of(&equal, only("pairs", f1));
    assert!(set(&all, "pairs").notes[0].contains("accepts every original decision"));
    let mut broken = scores.clone();
    broken[3] = f32::NAN;
    assert!(told(&replaced(&made, &broken, &labels, &clusters), f1).contains("not a number"));
    // Invalid options.
    for (k, at) in [(0, 0.5), (21, 0.5), (5, 0.0), (5, 1.0), (5, f64::NAN)] {
        let options = ThresholdOptions {
            k,
            ..options(ThresholdTarget::Precision { at })
        };
        assert!(refused(&made, options).contains("give "), "{k} {at}");
    }
    assert!(refused(&made, only("nothing", f1)).contains("no data set `nothing`; it has find, pairs, more, graded"));
    // Ownership of the scores: the encoder, its run, its vector space.
    let error = thresholds(side(&made, "stub-b"), None, options(f1)).unwrap_err();
    assert!(
        matches!(&error, ThresholdError::Runs(DiffError::NoEncoder { side: "RUN", encoder, .. }) if encoder == "stub-b"),
        "{error}"
    );
    let mut other = made.clone();
    other.1.run = "another".to_owned();
    assert!(refused(&other, options(f1)).contains("they are those of run another"));
    let mut unnamed = made.clone();
    unnamed.0.encoders[0].vector_space = String::new();
    assert!(refused(&unnamed, options(f1)).contains("names no vector space of `stub-a`"));
    assert_eq!(
        of(&made, options(f1)).encoder.vector_space,
        made.0.encoders[0].vector_space
    );
}

#[tokio::test]
async fn graded_pairs_have_a_threshold_with_a_stated_cut_alone() {
    let (report, mut items) = check().await;
    let n = 40;
    for one in items.scores.iter_mut().filter(|one| one.dataset == "graded") {
        one.evidence = Some(Evidence::Spearman {
            gold: (0..n).map(|i| f64::from(i) / 8.0).collect(),
            predicted: (0..n).map(|i| i as f32 / 40.0).collect(),
            points: Vec::new(),
        });
    }
    let own = items.datasets.iter_mut().find(|own| own.name == "graded").unwrap();
    own.clusters = (0..n as u32).collect();
    own.variants.clear();
    let cut = ThresholdOptions {
        sts_cut: Some(3.0),
        ..only("graded", ThresholdTarget::F1)
    };
    let found = of(&(report, items), cut);
    let own = set(&found, "graded");
    // Gold 3.0 is pair 24; its cosine is 0.6, that of the pair below 0.575.
    assert!((own.threshold - 0.5875).abs() < 1e-6, "{}", own.threshold);
    assert_eq!(own.rows[0].counts.true_positives, 16);
    assert_eq!(found.options.sts_cut, Some(3.0));
}

#[tokio::test]
async fn data_sets_are_pooled_with_equal_prompts_only_and_languages_stand_apart() {
    let mut made = check().await;
    let target = ThresholdTarget::Precision { at: 0.6 };
    let language = |dataset: &mut DatasetInfo, language: &str| dataset.languages = vec![language.to_owned()];
    language(&mut made.0.datasets[1], "en");
    language(&mut made.0.datasets[2], "de");
    let found = of(&made, options(target));
    let all = set(&found, "all pairs");
    assert_eq!((all.items, all.languages.len()), (2 * PAIRS, 2));
    for (row, of_all) in all.rows.iter().enumerate() {
        let parts = all.languages.iter().map(|own| own.rows[row].counts);
        let sum: u64 = parts.map(|counts| counts.true_positives).sum();
        assert_eq!(sum, of_all.counts.true_positives);
    }
    let german = &all.languages[0];
    assert_eq!(
        (german.language.as_str(), german.datasets.as_slice()),
        ("de", &["more".to_owned()][..])
    );
    let counts = counted(&pairs(&made, "more", None), all.threshold);
    assert_eq!(german.rows[0].counts.true_positives, counts[0]);
    made.0.encoders[0].prompts.push(PromptUse {
        part: Part::Text,
        source: PromptSource::Suite,
        role: "sts".to_owned(),
        text: Some("Judge: ".to_owned()),
        datasets: vec!["more".to_owned()],
    });
    let found = of(&made, options(target));
    assert!(why(&found, "all pairs").contains("pairs and more have other prompts"));
    assert_eq!(set(&found, "more").prompts[0].text.as_deref(), Some("Judge: "));
}

#[tokio::test]
async fn texts_that_stayed_as_they_were_are_said_and_counted_apart() {
    let made = check().await;
    let target = ThresholdTarget::Precision { at: 0.6 };
    let noted = |made: &RunFiles| {
        let found = of(made, only("pairs", target));
        let own = set(&found, "pairs").clone();
        (own.notes.iter().any(|note| note.contains("stayed as they were")), own)
    };
    let (said, own) = noted(&made);
    assert!(
        !said && own.rows[1].unchanged.unwrap() <= 0.1,
        "{:?}",
        own.rows[1].unchanged
    );
    // Half of the pairs contain an unchanged text.
    let mut same = made.clone();
    let dataset = same.1.datasets.iter_mut().find(|own| own.name == "pairs").unwrap();
    let originals = dataset.variants[0].texts.clone();
    for variant in &mut dataset.variants[1..] {
        for (item, own) in variant.texts.iter_mut().enumerate().filter(|(item, _)| item % 4 < 2) {
            own[0] = originals[item][0];
        }
    }
    let (said, own) = noted(&same);
    assert!(
        said && own.rows[1].unchanged == Some(0.5),
        "{:?}",
        own.rows[1].unchanged
    );
    let changed = own.rows[1].changed.as_ref().unwrap();
    assert_eq!(changed.recall.of, PAIRS as u64 / 2, "half of the positives, two seeds");
    // If texts are not stored, the report's counts are used.
    let mut bare = made.clone();
    bare.1.datasets.iter_mut().for_each(|own| own.variants.clear());
    for row in &mut bare.0.checks {
        row.unchanged = Some(row.texts / 2);
    }
    let (said, own) = noted(&bare);
    assert!(said && own.rows[1].changed.is_none());
}

fn mapped(made: &RunFiles, from: (&RunFiles, &str), options: ThresholdOptions) -> Thresholds {
    thresholds(side(made, "stub-keen"), Some(side(from.0, from.1)), options).unwrap()
}

#[tokio::test]
async fn a_map_between_two_encoders_has_the_error_that_counting_gives() {
    let made = check().await;
    let options = only("pairs", ThresholdTarget::F1);
    let found = mapped(&made, (&made, "stub-a"), options.clone());
    let map = &found.maps[0];
    let scores = |encoder: &str| -> Vec<f64> {
        let own = texts(&made.1, "pairs", None);
        own.iter().map(|own| cosine(encoder, &own[0], &own[1])).collect()
    };
    let (old, new) = (scores("stub-a"), scores("stub-keen"));
    let at = |x: f64| {
        let after = map.knots.partition_point(|knot| knot.old <= x);
        match (after.checked_sub(1), map.knots.get(after)) {
            (None, _) => map.knots[0].new,
            (Some(before), None) => map.knots[before].new,
            (Some(before), Some(next)) => {
                let own = map.knots[before];
                own.new + (x - own.old) / (next.old - own.old) * (next.new - own.new)
            }
        }
    };
    let rmse = |told: &dyn Fn(f64) -> f64| {
        let squares = old.iter().zip(&new).map(|(x, y)| (told(*x) - y).powi(2)).sum::<f64>();
        (squares / old.len() as f64).sqrt()
    };
    // A service that reads the knots has the stated error; stored cosines are in single precision.
    assert!((rmse(&at) - map.in_sample.rmse).abs() < 1e-5);
    assert!((rmse(&|x| x) - map.of_no_map.rmse).abs() < 1e-5);
    assert!(map.in_sample.rmse < map.cross_validated.rmse && map.in_sample.rmse < map.of_the_mean.rmse);
    assert!(
        map.knots
            .windows(2)
            .all(|two| two[0].old < two[1].old && two[0].new <= two[1].new)
    );
    assert_eq!((map.pairs, map.transformations.len()), (PAIRS, 2));
    let one = &map.thresholds[0];
    assert!((at(one.old) - one.mapped).abs() < 1e-9);
    assert_eq!(one.own, Some(set(&found, "pairs").threshold));
    assert_ne!(map.from.encoder, found.encoder.encoder);
    // Searches are not mapped, and the report says so.
    let all = ThresholdOptions {
        datasets: Vec::new(),
        ..options.clone()
    };
    let found = mapped(&made, (&made, "stub-a"), all);
    let told = found.not_mapped.iter().find(|one| one.name == "find").unwrap();
    assert!(told.why.contains("different documents"));
}

#[tokio::test]
async fn an_encoder_maps_to_itself_without_error_and_scores_that_fall_are_refused() {
    let made = check().await;
    let options = only("pairs", ThresholdTarget::F1);
    let map = &mapped(&made, (&made, "stub-keen"), options.clone()).maps[0];
    assert!(map.in_sample.rmse < 1e-12 && map.spearman > 0.999_999);
    assert!((map.thresholds[0].mapped - map.thresholds[0].old).abs() < 1e-9);
    let (scores, labels, clusters) = noise(60);
    let old = replaced(&made, &scores, &labels, &clusters);
    let falling: Vec<f32> = scores.iter().map(|score| 1.0 - score).collect();
    let new = replaced(&made, &falling, &labels, &clusters);
    let found = mapped(&new, (&old, "stub-keen"), options.clone());
    assert!(found.maps.is_empty());
    assert!(
        found.not_mapped[0].why.contains("do not rise"),
        "{:?}",
        found.not_mapped
    );
    // Other texts give no map.
    let mut other = made.clone();
    other.0.datasets[1].digest = "another".to_owned();
    let error = thresholds(side(&made, "stub-keen"), Some(side(&other, "stub-a")), options).unwrap_err();
    assert!(
        matches!(&error, ThresholdError::Runs(DiffError::Nothing { differences } | DiffError::Differ { differences, .. }) if differences.iter().any(|one| one.contains("pairs"))),
        "{error}"
    );
}

#[tokio::test]
async fn the_published_schema_is_that_of_the_types_and_the_files_are_valid() {
    let derived = json_schema();
    let path = Path::new(".").join("schema/thresholds-1.json");
    if std::env::var_os("ISOMER_BLESS").is_some() {
        std::fs::write(&path, serde_json::to_string_pretty(&derived).unwrap() + "\n").unwrap();
    }
    let published: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(published, derived, "write it anew with ISOMER_BLESS=1");
    assert_eq!(published["properties"]["schema"]["const"], "isomer.thresholds/1");
    let made = check().await;
    let found = mapped(&made, (&made, "stub-a"), options(ThresholdTarget::F1));
    let forms = files(&found).unwrap();
    let text = |name: &str| {
        let form = forms.iter().find(|(own, _)| *own == name).unwrap();
        String::from_utf8(form.1.clone()).unwrap()
    };
    let mut value: serde_json::Value = serde_json::from_str(&text("thresholds.json")).unwrap();
    assert_eq!(serde_json::from_value::<Thresholds>(value.clone()).unwrap(), found);
    assert_eq!(faults(&derived, &value), Vec::<String>::new());
    value["sets"][0]["threshold"] = "high".into();
    assert!(!faults(&derived, &value).is_empty(), "the check can fail");
    let markdown = text("thresholds.md");
    for heading in [
        "## all pairs",
        "Held out",
        "Restored",
        "From scores of stub-a",
        "Without a threshold",
        "Not mapped",
    ] {
        assert!(markdown.contains(heading), "{heading} in {markdown}");
    }
    assert!(!markdown.contains("NaN"));
    if let Ok(folder) = std::env::var("ISOMER_KEEP_REPORTS") {
        for (name, content) in &forms {
            std::fs::write(format!("{folder}/{name}"), content).unwrap();
        }
    }
}
