//! Loading datasets: accepted files, and the message for every error.

use std::{
    fs,
    path::{Path, PathBuf},
};

use isomer_datasets::{BUILTIN_NAMES, DatasetError, InlineFile, LoadOptions, Role, Source, load};
use isomer_scoring::{
    metric::vector_matrix,
    task::{Profile, TaskType},
};

use crate::{
    key::key,
    published::{published, shared},
};

fn inline(files: &[(&str, &str)]) -> Source {
    Source::Inline(
        files
            .iter()
            .map(|(path, text)| InlineFile {
                path: (*path).into(),
                content: text.as_bytes().to_vec(),
            })
            .collect(),
    )
}

fn sts(text: &str) -> Result<isomer_datasets::Dataset, DatasetError> {
    load(TaskType::Sts, &inline(&[("test.jsonl", text)]), &LoadOptions::default())
}

/// The error of an sts file whose second line is the one given.
#[track_caller]
fn fault(line: &str) -> String {
    sts(&format!(
        "{{\"sentence1\":\"a\",\"sentence2\":\"b\",\"score\":1}}\n{line}\n"
    ))
    .unwrap_err()
    .to_string()
}

const GOOD: &str =
    "{\"sentence1\":\"a\",\"sentence2\":\"b\",\"score\":1}\n{\"sentence1\":\"c\",\"sentence2\":\"d\",\"score\":2.5}\n";

#[test]
fn the_card_of_a_folder_gives_the_language_where_nothing_else_does() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("README.md"), "---\nlanguage:\n- en\n---\n# Pairs\n").unwrap();
    let languages = |file: &str, options: &LoadOptions| {
        fs::write(folder.path().join(file), GOOD).unwrap();
        let dataset = load(TaskType::Sts, &Source::Path(folder.path().to_owned()), options).unwrap();
        fs::remove_file(folder.path().join(file)).unwrap();
        dataset
            .text_languages()
            .into_iter()
            .map(ToOwned::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(languages("test.jsonl", &LoadOptions::default()), ["en"]);
    assert_eq!(languages("test.de.jsonl", &LoadOptions::default()), ["de"]);
    let named = LoadOptions {
        languages: vec!["fr".to_owned()],
        ..LoadOptions::default()
    };
    assert_eq!(languages("test.jsonl", &named), ["fr"]);
    fs::write(folder.path().join("README.md"), "# Pairs\n").unwrap();
    assert!(languages("test.jsonl", &LoadOptions::default()).is_empty());
}

#[test]
fn a_pair_dataset_gives_texts_in_order_with_ids_and_roles() {
    let dataset = sts(GOOD).unwrap();
    let texts: Vec<(&str, &str, Role)> = dataset
        .texts()
        .iter()
        .map(|t| (t.id.as_str(), t.text.as_str(), t.role))
        .collect();
    assert_eq!(
        texts,
        [
            ("0:sentence1", "a", Role::First),
            ("0:sentence2", "b", Role::Second),
            ("1:sentence1", "c", Role::First),
            ("1:sentence2", "d", Role::Second),
        ]
    );
    assert!(dataset.texts().iter().all(|t| t.transformable));
    assert_eq!(
        (dataset.items(), dataset.name(), dataset.language()),
        (2, "inline", None)
    );
}

#[test]
fn a_broken_row_is_named_by_file_line_and_field() {
    assert_eq!(
        fault(r#"{"sentence1":"a","sentence2":"b","score":"2.5"}"#),
        "test.jsonl, line 2, field `score`: a string where a number is expected"
    );
    assert_eq!(
        fault(r#"{"sentence1":"a","sentence2":"b","score":NaN}"#),
        "test.jsonl, line 2, field `score`: NaN is not a number; JSON has no such value"
    );
    assert_eq!(
        fault(r#"{"sentence1":"a","score":1}"#),
        "test.jsonl, line 2, field `sentence2`: missing; a string is expected, the row has sentence1, score"
    );
    assert_eq!(
        fault(r#"{"sentence1":["a"],"sentence2":"b","score":1}"#),
        "test.jsonl, line 2, field `sentence1`: a list where a string is expected"
    );
    let broken = fault(r#"{"sentence1":"a","sentence2":"b","#);
    assert!(
        broken.starts_with("test.jsonl, line 2: broken JSON at column"),
        "{broken}"
    );
    assert_eq!(fault("[1]"), "test.jsonl, line 2: a list where an object is expected");
    assert!(fault(r#"{"sentence1":"a","sentence2":"b","score":1e999}"#).contains("line 2"));
}

#[test]
fn blank_lines_and_a_byte_order_mark_are_skipped_but_counted() {
    assert_eq!(sts(&format!("\u{feff}{GOOD}\n  \r\n")).unwrap().items(), 2);
    assert!(fault("\n{}").contains("line 3"));
}

#[test]
fn bytes_that_are_not_utf8_are_named_by_their_offset() {
    let mut content = GOOD.as_bytes().to_vec();
    content.extend(b"{\"sentence1\":\"\xe9\",\"sentence2\":\"b\",\"score\":1}\n");
    let source = Source::Inline(vec![InlineFile {
        path: "test.jsonl".into(),
        content,
    }]);
    let Err(DatasetError::NotUtf8 { line, offset, .. }) = load(TaskType::Sts, &source, &LoadOptions::default()) else {
        panic!("accepted")
    };
    assert_eq!((line, offset), (3, GOOD.len() as u64 + 14));
}

#[test]
fn an_empty_file_is_an_error() {
    for text in ["", "\n\n"] {
        assert!(matches!(sts(text), Err(DatasetError::Empty { .. })));
    }
}

#[test]
fn gold_scores_that_do_not_vary_are_an_error_rather_than_a_zero() {
    let row = "{\"sentence1\":\"a\",\"sentence2\":\"b\",\"score\":3}\n";
    for text in [row.repeat(3), row.to_owned()] {
        assert!(matches!(sts(&text), Err(DatasetError::Undefined { .. })));
    }
    let options = LoadOptions {
        limit: Some(1),
        ..LoadOptions::default()
    };
    assert!(matches!(
        load(TaskType::Sts, &inline(&[("test.jsonl", GOOD)]), &options),
        Err(DatasetError::Undefined { .. })
    ));
}

#[test]
fn labels_are_zero_or_one_and_of_both_classes() {
    let rows = |labels: &[&str]| {
        let lines = labels
            .iter()
            .map(|l| format!("{{\"sentence1\":\"a\",\"sentence2\":\"b\",\"label\":{l}}}\n"));
        load(
            TaskType::PairClassification,
            &inline(&[("test.jsonl", &lines.collect::<String>())]),
            &LoadOptions::default(),
        )
    };
    assert_eq!(rows(&["0", "1", "1"]).unwrap().items(), 3);
    for label in ["2", "0.5", "\"1\""] {
        assert_eq!(key(&rows(&["0", label]).unwrap_err()), "Row line 2 label", "{label}");
    }
    assert!(matches!(rows(&["1", "1"]), Err(DatasetError::Undefined { .. })));
}

#[test]
fn a_language_must_be_chosen_where_there_are_several() {
    let two = inline(&[
        ("test.de.jsonl", GOOD),
        ("test.en.jsonl", GOOD),
        ("train.fr.jsonl", GOOD),
    ]);
    let error = load(TaskType::Sts, &two, &LoadOptions::default()).unwrap_err();
    assert!(
        matches!(&error, DatasetError::Language { languages, .. } if *languages == ["de", "en"]),
        "{error}"
    );
    let choose = |language: &str| {
        load(
            TaskType::Sts,
            &two,
            &LoadOptions {
                language: Some(language.into()),
                ..LoadOptions::default()
            },
        )
    };
    assert_eq!(choose("en").unwrap().language(), Some("en"));
    assert!(matches!(choose("fr"), Err(DatasetError::Language { .. })));
    let one = inline(&[("test.de.jsonl", GOOD), ("dev.en.jsonl", GOOD)]);
    assert_eq!(
        load(TaskType::Sts, &one, &LoadOptions::default()).unwrap().language(),
        Some("de")
    );
    let plain = inline(&[("test.jsonl", GOOD), ("test.en.jsonl", GOOD)]);
    assert_eq!(
        load(TaskType::Sts, &plain, &LoadOptions::default()).unwrap().language(),
        None
    );
}

#[test]
fn a_split_that_is_missing_names_those_there_are() {
    let source = inline(&[("train.jsonl", GOOD), ("validation.jsonl", GOOD)]);
    let error = load(TaskType::Sts, &source, &LoadOptions::default()).unwrap_err();
    assert_eq!(key(&error), "MissingFile test.jsonl");
    assert!(error.to_string().contains("train.jsonl, validation.jsonl"), "{error}");
    let options = LoadOptions {
        split: "validation".into(),
        ..LoadOptions::default()
    };
    assert_eq!(load(TaskType::Sts, &source, &options).unwrap().split(), "validation");
}

#[test]
fn a_folder_or_one_file_will_do_and_names_the_dataset() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("MyPairs");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("test.jsonl"), GOOD).unwrap();
    fs::write(data.join("odd.jsonl"), GOOD).unwrap();
    let open = |path: &Path| load(TaskType::Sts, &Source::Path(path.into()), &LoadOptions::default());
    assert_eq!(open(&data).unwrap().name(), "MyPairs");
    assert_eq!(open(&data.join("test.jsonl")).unwrap().name(), "MyPairs");
    assert_eq!(open(&data.join("odd.jsonl")).unwrap().name(), "odd");
    assert!(matches!(open(&data.join("none")), Err(DatasetError::NotFound { .. })));
    let renamed = LoadOptions {
        name: Some("Mine".into()),
        ..LoadOptions::default()
    };
    assert_eq!(
        load(TaskType::Sts, &Source::Path(data), &renamed).unwrap().name(),
        "Mine"
    );
}

#[test]
fn the_digest_is_of_the_content_and_of_nothing_else() {
    let plain = sts(GOOD).unwrap();
    let reformatted = GOOD
        .replace("\",\"", "\" , \"")
        .replace("\"sentence1\"", "\"genre\":\"x\",\"sentence1\"");
    assert_eq!(plain.digest(), sts(&reformatted).unwrap().digest());
    assert_eq!(plain.digest().len(), 64);
    for changed in [
        GOOD.replace("\"d\"", "\"e\""),
        GOOD.replace("2.5", "2.6"),
        GOOD.repeat(2),
    ] {
        assert_ne!(plain.digest(), sts(&changed).unwrap().digest());
    }
    // Moving a letter from one text to the next is another dataset.
    let moved = GOOD.replace("\"a\"", "\"ab\"").replace("\"b\"", "\"\"");
    assert_ne!(plain.digest(), sts(&moved).unwrap().digest());
}

#[test]
fn a_limit_draws_rows_by_its_seed_and_checks_those_it_leaves_out_for_what_they_count_as() {
    let rows = |i: u32| format!("{{\"sentence1\":\"a{i}\",\"sentence2\":\"b\",\"score\":{i}}}\n");
    let source = inline(&[("test.jsonl", &(0..40).map(rows).collect::<String>())]);
    let drawn = |limit, sample_seed| {
        let options = LoadOptions {
            limit: Some(limit),
            sample_seed,
            ..LoadOptions::default()
        };
        load(TaskType::Sts, &source, &options).unwrap()
    };
    assert_eq!(drawn(10, 1).digest(), drawn(10, 1).digest());
    assert_ne!(drawn(10, 1).digest(), drawn(10, 2).digest());
    let sample = drawn(10, 7);
    let said = sample.sample().unwrap();
    assert_eq!((sample.items(), said.rows, said.of, said.seed), (10, 10, 40, 7));
    assert!(
        sample.gold().unwrap().windows(2).all(|pair| pair[0] < pair[1]),
        "rows keep their order"
    );
    assert_eq!(drawn(40, 1).sample(), None);

    let source = inline(&[("test.jsonl", &format!("{GOOD}not json\n"))]);
    let limited = |limit| {
        load(
            TaskType::Sts,
            &source,
            &LoadOptions {
                limit,
                ..LoadOptions::default()
            },
        )
    };
    assert!(limited(Some(2)).unwrap_err().to_string().contains("line 3"));
    assert!(matches!(limited(Some(0)), Err(DatasetError::ZeroLimit)));
}

const CORPUS: &str = "{\"_id\":\"d1\",\"title\":\"T\",\"text\":\" one \"}\n{\"_id\":\"d2\",\"title\":\"\",\"text\":\"two\"}\n{\"_id\":3,\"text\":\"three\"}\n";
const QUERIES: &str =
    "{\"_id\":\"q1\",\"text\":\"first\"}\n{\"_id\":\"q2\",\"text\":\"second\"}\n{\"_id\":\"q3\",\"text\":\"third\"}\n";

fn retrieval(
    corpus: &str,
    queries: &str,
    qrels: &str,
    limit: Option<usize>,
) -> Result<isomer_datasets::Dataset, DatasetError> {
    let source = inline(&[
        ("corpus.jsonl", corpus),
        ("queries.jsonl", queries),
        ("qrels/test.tsv", qrels),
    ]);
    load(
        TaskType::Retrieval,
        &source,
        &LoadOptions {
            limit,
            ..LoadOptions::default()
        },
    )
}

#[test]
fn retrieval_reads_corpus_queries_and_judgements_with_or_without_header() {
    for header in ["query-id\tcorpus-id\tscore\n", ""] {
        let dataset = retrieval(
            CORPUS,
            QUERIES,
            &format!("{header}q3\td1\t1\nq1\td2\t2\nq1\t3\t0\n"),
            None,
        )
        .unwrap();
        let texts: Vec<(&str, &str, bool)> = dataset
            .texts()
            .iter()
            .map(|t| (t.id.as_str(), t.text.as_str(), t.transformable))
            .collect();
        assert_eq!(
            texts,
            [
                ("query:q1", "first", true),
                ("query:q3", "third", true),
                ("document:d1", "T  one", false),
                ("document:d2", "two", false),
                ("document:3", "three", false),
            ]
        );
        assert_eq!(dataset.items(), 2);
        assert!(
            dataset.notes()[0].starts_with("1 of 3 queries have no judgement"),
            "{:?}",
            dataset.notes()
        );
    }
}

#[test]
fn a_limit_keeps_the_whole_corpus() {
    let dataset = retrieval(CORPUS, QUERIES, "q3\td1\t1\nq1\td2\t2\nq2\td2\t1\n", Some(2)).unwrap();
    assert_eq!((dataset.items(), dataset.texts().len()), (2, 5));
}

#[test]
fn faults_of_a_retrieval_folder_are_named() {
    let error = |corpus: &str, queries: &str, qrels: &str| retrieval(corpus, queries, qrels, None).unwrap_err();
    let qrels = "q1\td1\t1\n";
    let twice = error(&format!("{CORPUS}{CORPUS}"), QUERIES, qrels);
    assert_eq!(key(&twice), "Row line 4 _id");
    assert!(twice.to_string().contains("`d1`"), "{twice}");
    assert_eq!(key(&error(CORPUS, "", qrels)), "Empty");
    for (qrels, expected, part) in [
        ("q9\td1\t1\n", "Row line 1 query-id", "`q9`"),
        ("h\th\th\nq1\td9\t1\n", "Broken", "corpus"),
        ("q1\td1\t1\nq1\td1\t0\n", "Row line 2 corpus-id", "line 1"),
        ("q1\td1\thigh\n", "Row line 1 score", "`high`"),
        ("q1 d1 1\n", "Row line 1 -", "1 tab-separated"),
        ("query-id\tcorpus-id\tscore\n", "Empty", ""),
    ] {
        let error = error(CORPUS, QUERIES, qrels);
        assert_eq!(key(&error), expected, "{error}");
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
    let missing = load(
        TaskType::Retrieval,
        &inline(&[("corpus.jsonl", CORPUS), ("qrels/test.tsv", qrels)]),
        &LoadOptions::default(),
    );
    assert!(matches!(missing, Err(DatasetError::MissingFile { missing, .. }) if missing == "queries.jsonl"));
}

#[test]
fn a_retrieval_dataset_scores_its_own_vectors() {
    let dataset = retrieval(CORPUS, QUERIES, "q1\td1\t1\nq2\td2\t1\nq3\t3\t1\n", None).unwrap();
    let unit = |i: usize| (0..3).map(|j| if i == j { 1.0 } else { 0.0 }).collect::<Vec<f32>>();
    let perfect = vector_matrix(6, 3, [0, 1, 2, 0, 1, 2].into_iter().flat_map(unit).collect()).unwrap();
    for profile in Profile::ALL {
        let scores = dataset.score(perfect.view(), profile).unwrap();
        assert_eq!((scores.main_key, scores.main, scores.items), ("ndcg_at_10", 1.0, 3));
    }
    assert!(
        dataset
            .score(vector_matrix(5, 3, vec![1.0; 15]).unwrap().view(), Profile::MtebV2)
            .is_err()
    );
}

#[test]
fn inline_paths_stay_inside_their_folder() {
    for path in ["../test.jsonl", "/etc/passwd", "", "a/../b.jsonl"] {
        let source = Source::Inline(vec![
            InlineFile {
                path: path.into(),
                content: GOOD.into(),
            },
            InlineFile {
                path: "x.jsonl".into(),
                content: GOOD.into(),
            },
        ]);
        assert!(
            matches!(
                load(TaskType::Sts, &source, &LoadOptions::default()),
                Err(DatasetError::InlinePath { .. })
            ),
            "{path}"
        );
    }
}

#[test]
fn every_built_in_dataset_loads() {
    for name in BUILTIN_NAMES {
        let task: TaskType = name.rsplit('/').next().unwrap().parse().unwrap();
        let dataset = load(task, &Source::Builtin((*name).into()), &LoadOptions::default()).unwrap();
        assert_eq!(dataset.name(), *name);
        assert!(dataset.items() >= 30, "{name}: {}", dataset.items());
    }
    let unknown = load(
        TaskType::Sts,
        &Source::Builtin("quick/stss".into()),
        &LoadOptions::default(),
    );
    assert!(unknown.unwrap_err().to_string().contains("quick/sts"));
}

/// Task, name, split, language and number of items of a published data set.
type PublishedDataset = (TaskType, &'static str, &'static str, Option<&'static str>, usize);

fn loads(wanted: &[PublishedDataset], folder: impl Fn(&str) -> PathBuf) {
    for &(task, name, split, language, items) in wanted {
        let language = language.map(str::to_owned);
        let options = LoadOptions {
            split: split.into(),
            language: language.clone(),
            ..LoadOptions::default()
        };
        let dataset = load(task, &Source::Path(folder(name)), &options).unwrap_or_else(|e| panic!("{name}: {e}"));
        println!(
            "{name}: {} rows, {} texts, {:?}",
            dataset.items(),
            dataset.texts().len(),
            dataset.notes()
        );
        assert_eq!(
            (dataset.name(), dataset.language().map(str::to_owned)),
            (name, language)
        );
        assert_eq!(dataset.items(), items, "{name}");
    }
}

#[test]
fn published_data_sets_load() {
    let wanted = [
        (TaskType::Sts, "STS17", "test", Some("en-ar"), 250),
        (
            TaskType::PairClassification,
            "PawsXPairClassification",
            "test",
            Some("zh"),
            1000,
        ),
        (TaskType::Classification, "Banking77Classification", "test", None, 3080),
    ];
    loads(&wanted, published);
}

#[test]
#[ignore = "tests/more data: licences forbid a copy of the data sets"]
fn shared_data_sets_load() {
    let wanted = [
        (TaskType::Sts, "STSBenchmark", "test", None, 1379),
        (TaskType::Sts, "SICK-R", "test", None, 9927),
        (TaskType::Sts, "SemRel24STS", "test", Some("hau"), 603),
        (TaskType::PairClassification, "RTE3", "dev", Some("fr"), 500),
        (TaskType::Retrieval, "NFCorpus", "test", None, 323),
    ];
    loads(&wanted, shared);
}
