//! Two runs compared item by item: the test recomputes every number from the encoders' vectors and
//! the texts.

use std::path::Path;

use isomer_eval::{
    evidence::Evidence,
    report::{
        Report, RunItems,
        diff::{Diff, DiffError, DiffOptions, Right, Side, ThresholdOf, WorstItem, diff, files, json_schema},
        read, read_items,
    },
};
use isomer_proto::eval::v1::{ReportFormat, RunState, SuiteRef, suite_ref};
use serde_json::json;

use crate::{
    run_stubs::{self, Harness, encoder::vector, report, run_to_end, spec},
    schema_check::faults,
};

const DOCUMENTS: usize = 60;
const QUERIES: usize = 24;
const PAIRS: usize = 30;

pub(crate) fn document(number: usize) -> String {
    let places = ["harbour", "bridge", "market", "garden", "station", "quarry", "mill"];
    let things = [
        "boats", "lamps", "stalls", "roses", "clocks", "stones", "wheels", "crates", "ropes", "bells", "doors",
    ];
    format!(
        "Behind the {} there are {} of row {number}.",
        places[number % 7],
        things[number * 3 % 11]
    )
}

/// Searches, pairs and graded pairs.
fn suite(folder: &Path, head: &str) -> SuiteRef {
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
    let qrels: Vec<String> = (0..QUERIES).map(|n| format!("q{n:02}\td{:02}\t1", n * 2)).collect();
    std::fs::write(
        data.join("qrels/test.tsv"),
        format!("query-id\tcorpus-id\tscore\n{}", qrels.join("\n")),
    )
    .unwrap();
    let pairs = (0..PAIRS).map(|n| {
        let second = if n % 2 == 0 { n } else { n * 5 + 3 };
        json!({"sentence1": document(n), "sentence2": format!("Look there: {}", document(second)), "label": (n + 1) % 2})
    });
    std::fs::write(folder.join("pairs.jsonl"), lines(pairs.collect())).unwrap();
    std::fs::write(folder.join("graded.jsonl"), run_stubs::STS).unwrap();
    let text = format!(
        "name = \"versions\"\n{head}\n\
         [[dataset]]\ntask = \"retrieval\"\nname = \"find\"\npath = \"find\"\n\n\
         [[dataset]]\ntask = \"pair-classification\"\nname = \"pairs\"\npath = \"pairs.jsonl\"\n\n\
         [[dataset]]\ntask = \"sts\"\nname = \"graded\"\npath = \"graded.jsonl\"\n"
    );
    SuiteRef {
        source: Some(suite_ref::Source::Toml(text)),
        base_dir: folder.display().to_string(),
        file_name: "versions.toml".to_owned(),
    }
}

const HEAD: &str = "seeds = [1, 2]\ntransformations = [\"paraphrase\", \"expansion\"]";

/// A check of some encoders, with the stored items.
async fn check(harness: &Harness, head: &str, encoders: &[&str], shard: usize) -> (Report, RunItems) {
    let (_service, mut client) = harness
        .open_with(isomer_eval::Shared::default(), |config| config.shard_documents = shard)
        .await;
    let folder = harness.home.path().join("data");
    std::fs::create_dir_all(&folder).unwrap();
    let run = run_to_end(&mut client, spec(suite(&folder, head), encoders)).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    let json = report(&mut client, &run.id, ReportFormat::Json).await;
    let items = report(&mut client, &run.id, ReportFormat::Items).await;
    (read(&json).unwrap(), read_items(&items).unwrap())
}

fn harness() -> Harness {
    let harness = Harness::new();
    *harness.transform.sampled.lock() = true;
    harness
}

fn side<'a>((report, items): &'a (Report, RunItems), encoder: &'a str) -> Side<'a> {
    Side { report, items, encoder }
}

pub(crate) fn cosine(encoder: &str, first: &str, second: &str) -> f64 {
    let (x, y) = (vector(encoder, first), vector(encoder, second));
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    dot(&x, &y) / (dot(&x, &x) * dot(&y, &y)).sqrt()
}

/// Texts of a data set's items under a variant.
fn texts(items: &RunItems, dataset: &str, variant: Option<(&str, u64)>) -> Vec<Vec<String>> {
    let own = items.datasets.iter().find(|own| own.name == dataset).unwrap();
    let found = own.variants.iter().find(|one| match variant {
        None => one.transformation.is_none() && one.seed.is_none(),
        Some((label, seed)) => one.transformation.as_deref() == Some(label) && one.seed == Some(seed),
    });
    let text = |number: &u32| items.texts[*number as usize].clone();
    found
        .unwrap()
        .texts
        .iter()
        .map(|own| own.iter().map(text).collect())
        .collect()
}

fn of<'a>(diff: &'a Diff, dataset: &str) -> &'a isomer_eval::report::diff::DatasetDiff {
    diff.datasets.iter().find(|own| own.dataset == dataset).unwrap()
}

#[tokio::test]
async fn flips_of_pairs_are_those_that_counting_gives() {
    let made = check(&harness(), HEAD, &["stub-a", "stub-keen"], 1000).await;
    let found = diff(side(&made, "stub-a"), side(&made, "stub-keen"), DiffOptions::default()).unwrap();
    let pairs = of(&found, "pairs");
    let label = |item: usize| item.is_multiple_of(2);
    let threshold = match (pairs.right_old, pairs.right_new) {
        (Some(Right::Threshold { threshold, .. }), same) if same == pairs.right_old => threshold,
        other => panic!("{other:?}"),
    };
    let right = |encoder: &str, threshold: f64, own: &[String], item: usize| {
        (cosine(encoder, &own[0], &own[1]) >= threshold) == label(item)
    };
    let originals = texts(&made.1, "pairs", None);
    let count = |threshold: f64| {
        let all = originals.iter().enumerate();
        all.filter(|(item, own)| right("stub-a", threshold, own, *item)).count()
    };
    // No threshold between two cosines classifies more pairs correctly.
    let mut cosines: Vec<f64> = originals.iter().map(|own| cosine("stub-a", &own[0], &own[1])).collect();
    cosines.sort_by(f64::total_cmp);
    let best = cosines
        .windows(2)
        .map(|two| count(f64::midpoint(two[0], two[1])))
        .max()
        .unwrap();
    assert_eq!(count(threshold), best);
    let mut several = 0;
    for row in &pairs.rows {
        let variants = match &row.transformation {
            None => vec![None],
            Some(label) => vec![Some((label.as_str(), 1)), Some((label.as_str(), 2))],
        };
        let (mut negative, mut positive, mut old_right) = (0, 0, 0);
        for variant in &variants {
            for (item, own) in texts(&made.1, "pairs", *variant).iter().enumerate() {
                let old = right("stub-a", threshold, own, item);
                let new = right("stub-keen", threshold, own, item);
                old_right += u64::from(old);
                negative += u64::from(old && !new);
                positive += u64::from(new && !old);
            }
        }
        let flips = row.flips.as_ref().unwrap();
        assert_eq!(
            (flips.negative, flips.positive, flips.old_right),
            (negative, positive, old_right),
            "{row:?}"
        );
        assert_eq!(flips.decisions, (PAIRS * variants.len()) as u64);
        several += negative;
    }
    assert!(several > 0, "a comparison without a flip shows nothing");
    // At the new encoder's own threshold, the old encoder has other right pairs.
    let each = DiffOptions {
        threshold: ThresholdOf::Each,
        ..DiffOptions::default()
    };
    let each = diff(side(&made, "stub-a"), side(&made, "stub-keen"), each).unwrap();
    assert_ne!(of(&each, "pairs").right_new, pairs.right_new);
    assert_eq!(of(&each, "pairs").right_old, pairs.right_old);
}

#[tokio::test]
async fn flips_and_overlap_of_searches_are_those_that_counting_gives() {
    let made = check(&harness(), HEAD, &["stub-a", "stub-keen"], 1000).await;
    let options = DiffOptions {
        k: 3,
        ..DiffOptions::default()
    };
    let found = diff(side(&made, "stub-a"), side(&made, "stub-keen"), options).unwrap();
    let row = &of(&found, "find").rows[0];
    let search = |encoder: &str, query: &str| -> Vec<usize> {
        let mut all: Vec<usize> = (0..DOCUMENTS).collect();
        let scores: Vec<f64> = all.iter().map(|n| cosine(encoder, query, &document(*n))).collect();
        // Ties are won by the id that sorts last.
        all.sort_by(|a, b| (scores[*b] as f32).total_cmp(&(scores[*a] as f32)).then(b.cmp(a)));
        all.truncate(3);
        all
    };
    let (mut negative, mut positive, mut common) = (0, 0, 0);
    for (query, own) in texts(&made.1, "find", None).iter().enumerate() {
        let (old, new) = (search("stub-a", &own[0]), search("stub-keen", &own[0]));
        let (hit, now) = (old.contains(&(query * 2)), new.contains(&(query * 2)));
        negative += u64::from(hit && !now);
        positive += u64::from(now && !hit);
        common += old.iter().filter(|one| new.contains(one)).count();
    }
    let flips = row.flips.as_ref().unwrap();
    assert!(negative + positive > 0);
    assert_eq!(
        (flips.negative, flips.positive, flips.decisions),
        (negative, positive, QUERIES as u64)
    );
    let overlap = row.lists.as_ref().unwrap().overlap.value;
    assert!(
        (overlap - 100.0 * common as f64 / (3 * QUERIES) as f64).abs() < 1e-9,
        "{overlap}"
    );
    // In a corpus of three, every two lists share the first three, so no overlap is reported.
    let mut small = made.clone();
    for lists in small.1.scores.iter_mut().filter_map(|one| one.lists.as_mut()) {
        lists.corpus = 3;
    }
    let told = diff(side(&small, "stub-a"), side(&small, "stub-keen"), options).unwrap();
    let find = of(&told, "find");
    for why in [&find.no_flips, &find.no_lists] {
        assert!(why.as_ref().unwrap().contains("corpus has 3 documents"), "{why:?}");
    }
    assert!(find.rows.iter().all(|row| row.flips.is_none() && row.lists.is_none()));
    // Flipped items come first, with the texts of the query.
    let worst = &of(&found, "find").worst;
    assert!(
        worst
            .iter()
            .all(|one| one.original.len() == 1 && !one.old.is_empty() && one.of == 5)
    );
    assert!(worst[0].flipped && worst.iter().any(|one| one.transformed.len() == 1));
}

#[tokio::test]
async fn an_encoder_against_itself_has_no_flips_no_change_and_equal_lists() {
    let harness = harness();
    let first = check(&harness, HEAD, &["stub-a"], 1000).await;
    let second = check(&harness, HEAD, &["stub-a"], 1000).await;
    assert_ne!(first.0.run.id, second.0.run.id);
    let found = diff(side(&first, "stub-a"), side(&second, "stub-a"), DiffOptions::default()).unwrap();
    for row in found.rows.iter().chain(found.datasets.iter().flat_map(|own| &own.rows)) {
        assert_eq!(row.change.value, 0.0);
        if let Some(change) = &row.drop_change {
            assert_eq!(change.value, 0.0);
        }
        if let Some(flips) = &row.flips {
            assert_eq!((flips.negative, flips.positive, flips.p), (0, 0, 1.0));
            assert!(flips.decisions > 0 && flips.old_right == flips.new_right);
        }
        if let Some(lists) = &row.lists {
            assert_eq!((lists.overlap.value, lists.same_first), (100.0, 1.0));
            assert!((lists.rank_biased_overlap.value - 100.0).abs() < 1e-9);
        }
    }
    assert!(found.datasets.iter().all(|own| own.worst.is_empty()));
    // The third data set has no flips, and states the reason.
    assert!(of(&found, "graded").no_flips.as_ref().unwrap().contains("graded"));
    assert_eq!(found.rows[0].flips.as_ref().unwrap().datasets, 2);
}

#[tokio::test]
async fn changes_are_those_of_the_reports_and_lie_within_their_intervals() {
    let made = check(&harness(), HEAD, &["stub-a", "stub-keen"], 1000).await;
    let found = diff(side(&made, "stub-a"), side(&made, "stub-keen"), DiffOptions::default()).unwrap();
    let profiles = &made.0.profile.encoders;
    let (old, new) = (&profiles[0], &profiles[1]);
    assert!((found.rows[0].change.value - (new.original - old.original)).abs() < 1e-9);
    for (row, (old, new)) in found.rows[1..]
        .iter()
        .zip(old.transformations.iter().zip(&new.transformations))
    {
        let drop = row.drop_change.as_ref().unwrap();
        assert!(
            (drop.value - (old.moved.delta - new.moved.delta)).abs() < 1e-9,
            "{row:?}"
        );
        assert!((row.new - new.moved.mean).abs() < 1e-9);
        let interval = drop.interval.as_ref().expect("an interval");
        assert!(interval.low <= drop.value && drop.value <= interval.high && interval.low < interval.high);
    }
}

#[tokio::test]
async fn items_of_a_corpus_in_shards_are_those_of_the_corpus_in_one_piece() {
    let whole = check(&harness(), HEAD, &["stub-a"], 1000).await;
    let shards = check(&harness(), HEAD, &["stub-a"], 7).await;
    assert_eq!(whole.1.scores.len(), shards.1.scores.len());
    for (one, other) in whole.1.scores.iter().zip(&shards.1.scores) {
        assert_eq!(
            (&one.lists, &one.evidence),
            (&other.lists, &other.evidence),
            "{} {:?}",
            one.dataset,
            one.seed
        );
        assert_eq!(one.lists.is_some(), one.dataset == "find");
    }
}

#[tokio::test]
async fn runs_with_other_items_are_refused_by_name_and_compared_where_they_are_the_same() {
    let harness = harness();
    let old = check(&harness, HEAD, &["stub-a"], 1000).await;
    let new = check(
        &harness,
        "seeds = [1, 2]\ntransformations = [\"paraphrase\", \"summarisation\"]",
        &["stub-keen"],
        1000,
    )
    .await;
    let compare = |old: &(Report, RunItems), new: &(Report, RunItems), shared: bool| {
        let options = DiffOptions {
            shared,
            ..DiffOptions::default()
        };
        diff(side(old, "stub-a"), side(new, "stub-keen"), options)
    };
    let Err(DiffError::Differ { differences, remains }) = compare(&old, &new, false) else {
        panic!("the runs differ");
    };
    assert_eq!(
        differences,
        [
            "transformation expansion: only OLD has it",
            "transformation summarisation: only NEW has it"
        ]
    );
    assert_eq!(remains, "the original texts and paraphrase on find, pairs, graded");
    let found = compare(&old, &new, true).unwrap();
    assert_eq!((found.rows.len(), found.left_out), (2, differences));

    // A different text for one rewrite, a different data set with the same name, a different seed.
    let mut other = new.clone();
    for row in &mut other.0.scores {
        if row.dataset == "find" && row.transformation.as_deref() == Some("paraphrase") && row.seed == Some(2) {
            row.texts_digest = "another".to_owned();
        }
    }
    other.0.datasets[1].digest = "another".to_owned();
    other.0.datasets[2].name = "renamed".to_owned();
    other.0.suite.seeds = vec![1, 2, 3];
    let told = compare(&old, &other, false).unwrap_err().to_string();
    for difference in [
        "seeds: OLD has 1, 2, NEW has 1, 2, 3",
        "data set pairs: its content differs",
        "data set graded: only OLD has it",
        "data set renamed: only NEW has it",
        "transformation paraphrase: its texts differ on find (seed 2)",
        "They share the original texts alone on find. Compare that alone with --shared",
    ] {
        assert!(told.contains(difference), "{difference} in {told}");
    }
    let found = compare(&old, &other, true).unwrap();
    assert_eq!((found.rows.len(), found.datasets.len()), (1, 1));

    other.0.datasets[0].digest = "another".to_owned();
    assert!(matches!(compare(&old, &other, true), Err(DiffError::Nothing { .. })));
    other.0.suite.metrics = "other metrics".to_owned();
    assert!(matches!(compare(&old, &other, true), Err(DiffError::Metrics { .. })));
}

#[tokio::test]
async fn other_rewrites_of_the_same_texts_are_compared_if_asked() {
    let harness = harness();
    let old = check(&harness, HEAD, &["stub-a"], 1000).await;
    let same = check(&harness, HEAD, &["stub-keen"], 1000).await;
    // The stub's rewrites then do not depend on the seed.
    *harness.transform.sampled.lock() = false;
    let new = check(&harness, HEAD, &["stub-keen"], 1000).await;
    let with = |new: &(Report, RunItems), other_rewrites: bool| {
        let options = DiffOptions {
            other_rewrites,
            ..DiffOptions::default()
        };
        diff(side(&old, "stub-a"), side(new, "stub-keen"), options)
    };
    let message = with(&new, false).unwrap_err().to_string();
    assert!(
        message.contains("transformation paraphrase: its texts differ on find (seed 1)")
            && message.contains("(--other-rewrites compares them)"),
        "{message}"
    );
    let found = with(&new, true).unwrap();
    assert_eq!((found.rows.len(), found.left_out.len()), (3, 0));
    assert!(
        found.other_rewrites[0].starts_with("paraphrase on find (seed 1)"),
        "{found:?}"
    );
    let sentence = found
        .headline
        .iter()
        .find(|one| one.contains("different rewrites of the same texts"));
    assert!(
        sentence.is_some_and(|one| !one.contains("OLD has")),
        "one generator: {:?}",
        found.headline
    );
    let worst = found.datasets.iter().flat_map(|own| &own.worst);
    let moved: Vec<_> = worst.filter(|one| one.transformation.is_some()).collect();
    assert!(moved.iter().any(|one| !one.transformed_old.is_empty()), "{moved:?}");
    let texts = |run: &(Report, RunItems), one: &WorstItem| {
        let own = run.1.datasets.iter().flat_map(|own| &own.variants);
        let all: Vec<&Vec<u32>> = own
            .filter(|variant| variant.transformation == one.transformation && variant.seed == one.seed)
            .filter_map(|variant| variant.texts.get(one.item))
            .collect();
        let text = |numbers: &Vec<u32>| {
            numbers
                .iter()
                .map(|n| run.1.texts[*n as usize].clone())
                .collect::<Vec<String>>()
        };
        all.into_iter().map(text).collect::<Vec<_>>()
    };
    for one in moved.iter().filter(|one| !one.transformed_old.is_empty()) {
        assert!(texts(&old, one).contains(&one.transformed_old), "{one:?}");
        assert!(texts(&new, one).contains(&one.transformed), "{one:?}");
    }
    for (name, content) in files(&found).unwrap() {
        let content = String::from_utf8(content).unwrap();
        assert!(
            content.to_lowercase().contains("other rewrites") || name == "diff.json",
            "{name}"
        );
    }
    // Originals are never others, and equal rewrites are not listed.
    assert!(with(&same, true).unwrap().other_rewrites.is_empty());
    let mut other = new.clone();
    for row in other.0.scores.iter_mut().filter(|row| row.transformation.is_none()) {
        row.texts_digest = "another".to_owned();
    }
    assert!(with(&other, true).is_err());
}

#[tokio::test]
async fn items_of_another_run_or_of_other_scores_are_refused() {
    let harness = harness();
    let old = check(&harness, HEAD, &["stub-a"], 1000).await;
    let new = check(&harness, HEAD, &["stub-keen"], 1000).await;
    let options = DiffOptions::default();
    let refused = |new: &(Report, RunItems)| {
        diff(side(&old, "stub-a"), side(new, "stub-keen"), options)
            .unwrap_err()
            .to_string()
    };
    assert!(diff(side(&old, "stub-a"), side(&new, "stub-keen"), options).is_ok());
    let mixed = (new.0.clone(), old.1.clone());
    assert!(refused(&mixed).contains(&old.1.run), "{}", refused(&mixed));
    let mut lacking = new.clone();
    lacking.1.scores.pop();
    assert!(
        refused(&lacking).contains("they lack those of stub-keen on graded"),
        "{}",
        refused(&lacking)
    );
    let mut large = new.clone();
    large.1.left_out = Some("the items of the run take more than 32 MiB".to_owned());
    assert!(refused(&large).contains("more than 32 MiB"));
    let error = diff(side(&old, "stub-b"), side(&new, "stub-keen"), options).unwrap_err();
    assert_eq!(error.to_string(), "OLD has no encoder `stub-b`; it has stub-a");
    for (k, persistence) in [(0, 0.9), (21, 0.9), (10, 0.0), (10, 1.0), (10, f64::NAN)] {
        let options = DiffOptions {
            k,
            persistence,
            ..options
        };
        let error = diff(side(&old, "stub-a"), side(&new, "stub-keen"), options).unwrap_err();
        assert!(matches!(error, DiffError::Option { .. }), "{error}");
    }

    // A file with inconsistent parts, for example one that was edited.
    let mut far = new.clone();
    far.1.datasets[0].clusters[0] = u32::MAX;
    assert!(
        refused(&far).contains("those of find do not fit together"),
        "{}",
        refused(&far)
    );
    let mut short = new.clone();
    for one in &mut short.1.scores {
        if let Some(Evidence::AveragePrecision { similarities, .. }) = &mut one.evidence {
            similarities[0].pop();
        }
    }
    assert!(
        refused(&short).contains("on pairs do not fit together"),
        "{}",
        refused(&short)
    );

    // Items that do not reproduce their score have no interval, and the report says so.
    let mut other = new.clone();
    for one in &mut other.1.scores {
        if let Some(Evidence::Mean { values, .. }) = &mut one.evidence {
            values[0] = values[0].map(|value| 1.0 - value + 0.25);
        }
    }
    let found = diff(side(&old, "stub-a"), side(&other, "stub-keen"), options).unwrap();
    assert!(
        of(&found, "find")
            .no_intervals
            .as_ref()
            .unwrap()
            .contains("its items give")
    );
    assert!(
        found.rows[0].change.interval.is_none(),
        "nor is there one over all data sets"
    );
    // A run of a version without lists has no flips of searches, and the message explains the
    // remedy.
    let mut bare = new.clone();
    bare.1.scores.iter_mut().for_each(|one| one.lists = None);
    let error = diff(side(&old, "stub-a"), side(&bare, "stub-keen"), options).unwrap_err();
    assert!(
        matches!(&error, DiffError::Items { side: "NEW", why } if why.contains("lists of find")),
        "{error}"
    );
}

#[tokio::test]
async fn every_form_escapes_texts_and_has_the_numbers() {
    let made = check(&harness(), HEAD, &["stub-<i>a</i>", "stub-keen"], 1000).await;
    let found = diff(
        side(&made, "stub-<i>a</i>"),
        side(&made, "stub-keen"),
        DiffOptions::default(),
    )
    .unwrap();
    let forms = files(&found).unwrap();
    let text = |name: &str| {
        let form = forms.iter().find(|(own, _)| *own == name).unwrap();
        String::from_utf8(form.1.clone()).unwrap()
    };
    if let Ok(folder) = std::env::var("ISOMER_KEEP_REPORTS") {
        for (name, content) in &forms {
            std::fs::write(format!("{folder}/{name}"), content).unwrap();
        }
    }
    let again: Diff = serde_json::from_str(&text("diff.json")).unwrap();
    assert_eq!(again, found);
    let page = text("diff.html");
    assert!(!page.contains("<i>a") && page.contains("stub-&lt;i&gt;a"), "escaped");
    assert!(
        !page.contains("<script") && !page.contains("src=") && !page.contains("href=\"h"),
        "it fetches nothing"
    );
    let markdown = text("diff.md");
    for sentence in [
        "## Over all data sets",
        "Became wrong",
        "Rank-biased overlap",
        "Items that lose most",
        "No flips: ",
    ] {
        assert!(markdown.contains(sentence), "{sentence}");
    }
    for heading in [
        "Became wrong",
        "Rank-biased overlap (%)",
        "Change of drop",
        "Items that lose most",
    ] {
        assert!(page.contains(heading), "{heading}");
    }
    let bars = page.matches("class=\"wrong\"").count();
    let flipped = found.rows.iter().filter(|row| row.flips.is_some()).count();
    assert!(
        flipped > 0 && bars >= flipped,
        "a bar for each kind of texts: {bars} of {flipped}"
    );
    assert!(page.contains("id=\"flips-title\""));
    assert!(!markdown.contains("NaN") && !page.contains("NaN"));
}

#[tokio::test]
async fn the_published_schema_is_that_of_the_types_and_a_comparison_is_valid() {
    let derived = json_schema();
    let path = Path::new(".").join("schema/diff-1.json");
    if std::env::var_os("ISOMER_BLESS").is_some() {
        std::fs::write(&path, serde_json::to_string_pretty(&derived).unwrap() + "\n").unwrap();
    }
    let published: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(published, derived, "write it anew with ISOMER_BLESS=1");
    assert_eq!(published["properties"]["schema"]["const"], "isomer.diff/1");
    let made = check(&harness(), HEAD, &["stub-a", "stub-keen"], 1000).await;
    let found = diff(side(&made, "stub-a"), side(&made, "stub-keen"), DiffOptions::default()).unwrap();
    let mut value = serde_json::to_value(&found).unwrap();
    assert_eq!(faults(&derived, &value), Vec::<String>::new());
    value["options"]["k"] = "ten".into();
    assert!(!faults(&derived, &value).is_empty(), "the check can fail");
}
