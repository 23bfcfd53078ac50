//! The same rows in every supported file format, and the error messages for each.

use std::{fs, path::Path};

use isomer_datasets::{Dataset, DatasetError, FieldMap, InlineFile, LoadOptions, Source, load};
use isomer_scoring::{
    metric::vector_matrix,
    task::{Profile, TaskType},
};

use crate::{key::key, support::fixtures};

fn data(name: &str) -> Source {
    Source::Path(fixtures().join("data").join(name))
}

fn fields(pairs: &[(&str, &str)]) -> FieldMap {
    pairs
        .iter()
        .map(|(ours, theirs)| ((*ours).to_owned(), (*theirs).to_owned()))
        .collect()
}

fn mapped() -> LoadOptions {
    LoadOptions {
        fields: fields(&[("sentence1", "text_a"), ("sentence2", "text_b"), ("score", "gold")]),
        ..LoadOptions::default()
    }
}

fn inline(name: &str, content: impl Into<Vec<u8>>) -> Source {
    Source::Inline(vec![InlineFile {
        path: name.into(),
        content: content.into(),
    }])
}

fn fault(task: TaskType, source: &Source, options: &LoadOptions) -> DatasetError {
    load(task, source, options).unwrap_err()
}

#[track_caller]
fn has_the_four_pairs(dataset: &Dataset) {
    let texts: Vec<&str> = dataset.texts().iter().map(|text| text.text.as_str()).collect();
    let expected = [
        "A man plays a guitar.",
        "A man is playing a guitar.",
        "She said \"no\", twice.",
        "Two lines\nin one cell",
        "1984",
        "A novel",
        "Zwölf Boxkämpfer",
        "十二人のボクサー",
    ];
    assert_eq!(texts, expected);
    assert_eq!(dataset.gold().unwrap(), [4.8, 0.5, 2.25, 3.0]);
}

#[test]
fn csv_tsv_parquet_and_packed_lines_hold_the_same_rows() {
    let plain = load(TaskType::Sts, &data("pairs.jsonl.gz"), &LoadOptions::default()).unwrap();
    has_the_four_pairs(&plain);
    assert_eq!(plain.name(), "pairs");
    for file in ["pairs.csv", "pairs.tsv", "pairs.parquet", "bytes.parquet"] {
        let dataset = load(TaskType::Sts, &data(file), &mapped()).unwrap_or_else(|error| panic!("{error}"));
        has_the_four_pairs(&dataset);
        assert_eq!(dataset.digest(), plain.digest(), "{file}");
    }
    let bytes = fs::read(fixtures().join("data/pairs.parquet")).unwrap();
    has_the_four_pairs(&load(TaskType::Sts, &inline("pairs.parquet", bytes), &mapped()).unwrap());
}

#[test]
fn shards_of_a_folder_follow_each_other_and_a_missing_one_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let take = |name: &str| {
        fs::copy(fixtures().join("data").join(name), folder.path().join(name)).unwrap();
    };
    let source = Source::Path(folder.path().to_owned());
    take("test-00001-of-00002.parquet");
    let error = fault(TaskType::Sts, &source, &LoadOptions::default());
    let said = error.to_string();
    assert!(
        said.contains("says there are 2 shards, and 1 files are there"),
        "{said}"
    );
    take("test-00000-of-00002.parquet");
    has_the_four_pairs(&load(TaskType::Sts, &source, &LoadOptions::default()).unwrap());
    take("pairs.csv");
    fs::rename(folder.path().join("pairs.csv"), folder.path().join("test.csv")).unwrap();
    let error = fault(TaskType::Sts, &source, &LoadOptions::default()).to_string();
    assert!(error.contains("are both it") || error.contains("shards"), "{error}");
}

#[test]
fn lists_are_read_from_parquet_and_from_cells_of_json() {
    let from_parquet = load(TaskType::Reranking, &data("reranking.parquet"), &LoadOptions::default()).unwrap();
    let tsv = "query\tpositive\tnegative\nq one\t[\"a\", \"b\"]\t[\"d\"]\nq two\t[\"c\"]\t[\"e\", \"f\", \"g\"]\n";
    let from_cells = load(TaskType::Reranking, &inline("test.tsv", tsv), &LoadOptions::default());
    // Quotes inside a cell that does not start with a quote are kept.
    assert_eq!(from_cells.unwrap().digest(), from_parquet.digest());
    assert_eq!(from_parquet.items(), 2);
    let python = "query\tpositive\tnegative\nq\t['a']\t['b']\n";
    let error = fault(
        TaskType::Reranking,
        &inline("test.tsv", python),
        &LoadOptions::default(),
    );
    assert_eq!(key(&error), "Row line 2 positive");
    assert!(error.to_string().contains("JSON"), "{error}");
}

#[test]
fn pairs_that_mteb_keeps_as_one_row_of_lists_are_pairs() {
    let lists = load(
        TaskType::PairClassification,
        &data("pair_lists.parquet"),
        &LoadOptions::default(),
    )
    .unwrap();
    let rows = "{\"sentence1\":\"a\",\"sentence2\":\"x\",\"label\":1}\n{\"sentence1\":\"b\",\"sentence2\":\"y\",\"label\":0}\n\
                {\"sentence1\":\"c\",\"sentence2\":\"z\",\"labels\":1}\n";
    let single = load(
        TaskType::PairClassification,
        &inline("test.jsonl", rows),
        &LoadOptions::default(),
    )
    .unwrap();
    assert_eq!((lists.items(), lists.digest()), (3, single.digest()));
    let odd = "{\"sentence1\":[\"a\",\"b\"],\"sentence2\":[\"x\",3],\"labels\":[1,0]}\n";
    let error = fault(
        TaskType::PairClassification,
        &inline("test.jsonl", odd),
        &LoadOptions::default(),
    );
    assert_eq!(key(&error), "Row line 1 sentence2[1]");
}

#[test]
fn a_column_that_is_not_there_is_named_with_those_that_are() {
    let options = LoadOptions {
        fields: fields(&[("sentence1", "text_c"), ("sentence2", "text_b"), ("score", "gold")]),
        ..LoadOptions::default()
    };
    let error = fault(TaskType::Sts, &data("pairs.csv"), &options);
    assert_eq!(key(&error), "Row line 2 sentence1");
    let said = error.to_string();
    assert!(said.contains("`text_c`") && said.contains("text_a"), "{said}");
    let error = fault(TaskType::Sts, &data("pairs.parquet"), &options);
    assert_eq!(key(&error), "Row row 1 sentence1");
    assert!(error.to_string().contains("pairs.parquet"), "{error}");
}

#[test]
fn columns_may_change_places() {
    let csv = "sentence1,sentence2,score\nb,a,1\nd,c,2\n";
    let options = LoadOptions {
        fields: fields(&[("sentence1", "sentence2"), ("sentence2", "sentence1")]),
        ..LoadOptions::default()
    };
    let dataset = load(TaskType::Sts, &inline("test.csv", csv), &options).unwrap();
    let texts: Vec<&str> = dataset.texts().iter().map(|text| text.text.as_str()).collect();
    assert_eq!(texts, ["a", "b", "c", "d"]);
}

#[test]
fn faults_in_cells_are_named_by_line_and_field() {
    let options = LoadOptions::default();
    let said = |csv: &str| fault(TaskType::Sts, &inline("test.csv", csv), &options);
    let head = "sentence1,sentence2,score\n";
    for (rows, expected) in [
        (format!("{head}a,b,1\nc,\"d\nd\",2\ne,f,high\n"), "Row line 5 score"),
        (format!("{head}a,b,1\nc,d\n"), "Row line 3 -"),
        ("a,a\n1,2\n".to_owned(), "Row line 1 a"),
        (format!("{head}a,b,NaN\n"), "Row line 2 score"),
        (head.to_owned(), "Empty"),
    ] {
        assert_eq!(key(&said(&rows)), expected, "{rows}");
    }
    let latin = inline("test.csv", [head.as_bytes(), b"caf\xe9,b,1\n"].concat());
    let error = fault(TaskType::Sts, &latin, &options);
    assert_eq!(key(&error), "Row line 2 -");
    assert!(error.to_string().contains("UTF-8"), "{error}");
    let labels = "sentence1,sentence2,label\na,b,True\nc,d,0\ne,f,maybe\n";
    let error = fault(TaskType::PairClassification, &inline("test.csv", labels), &options);
    assert_eq!(key(&error), "Row line 4 label");
}

#[test]
fn a_byte_order_mark_before_a_header_is_no_part_of_it() {
    let csv = "\u{feff}sentence1,sentence2,score\na,b,1\nc,d,2\n";
    assert_eq!(
        load(TaskType::Sts, &inline("test.csv", csv), &LoadOptions::default())
            .unwrap()
            .items(),
        2
    );
}

#[test]
fn a_file_that_is_not_what_it_is_called_is_said_to_be_so() {
    let said =
        |name: &str, bytes: &[u8]| fault(TaskType::Sts, &inline(name, bytes), &LoadOptions::default()).to_string();
    assert!(said("x.parquet", b"PAR1").contains("x.parquet: not a sound Parquet file"));
    let packed = said("x.jsonl.gz", b"{\"sentence1\"");
    assert!(packed.contains("x.jsonl.gz"), "{packed}");
}

#[test]
fn labels_in_cells_stay_as_they_are_written() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("train.csv"), "text,label\na,001\nb,1\nc,yes\n").unwrap();
    fs::write(folder.path().join("test.csv"), "text,label\nd,001\n7,yes\n").unwrap();
    let source = Source::Path(folder.path().to_owned());
    let dataset = load(TaskType::Classification, &source, &LoadOptions::default()).unwrap();
    assert_eq!((dataset.items(), dataset.texts().len()), (2, 5));
    assert_eq!(dataset.texts()[4].text, "7");
    fs::write(folder.path().join("test.csv"), "text,label\nd,01\n").unwrap();
    let error = fault(TaskType::Classification, &source, &LoadOptions::default());
    assert!(
        error.to_string().contains("has the label `01`, which no row of"),
        "{error}"
    );
}

fn retrieval(folder: &Path, qrels: (&str, &str)) {
    fs::create_dir_all(folder.join("qrels")).unwrap();
    fs::write(folder.join("corpus.csv"), "id,title,text\n1,T,one\n2,,two\n3,U,three\n").unwrap();
    fs::write(
        folder.join("queries.jsonl"),
        "{\"id\":\"q\",\"text\":\"first\"}\n{\"id\":\"r\",\"text\":\"second\"}\n",
    )
    .unwrap();
    fs::write(folder.join("qrels").join(qrels.0), qrels.1).unwrap();
}

#[test]
fn judgements_may_be_rows_of_any_form() {
    let jsonl =
        "{\"query-id\":\"q\",\"corpus-id\":1,\"score\":1.0}\n{\"query-id\":\"r\",\"corpus-id\":\"3\",\"score\":2}\n";
    let csv = "query-id,corpus-id,score\nq,1,1\nr,3,2.0\n";
    let tsv = "q\t1\t1\nr\t3\t2\n";
    let digests = [("test.jsonl", jsonl), ("test.csv", csv), ("test.tsv", tsv)].map(|qrels| {
        let folder = tempfile::tempdir().unwrap();
        retrieval(folder.path(), qrels);
        let source = Source::Path(folder.path().to_owned());
        let dataset = load(TaskType::Retrieval, &source, &LoadOptions::default()).unwrap();
        assert_eq!((dataset.items(), dataset.texts().len()), (2, 5));
        dataset.digest().to_owned()
    });
    assert!(digests.windows(2).all(|pair| pair[0] == pair[1]));
    let folder = tempfile::tempdir().unwrap();
    retrieval(folder.path(), ("test.csv", "query-id,corpus-id,score\nq,1,0.5\n"));
    let source = Source::Path(folder.path().to_owned());
    let error = fault(TaskType::Retrieval, &source, &LoadOptions::default());
    assert_eq!(key(&error), "Row line 2 score");
}

#[test]
fn reranking_laid_out_as_retrieval_ranks_the_candidates_named_by_id() {
    let folder = tempfile::tempdir().unwrap();
    retrieval(folder.path(), ("test.tsv", "q\t1\t1\nr\t3\t1\n"));
    fs::create_dir(folder.path().join("top_ranked")).unwrap();
    let ranked = |text: &str| fs::write(folder.path().join("top_ranked/test.jsonl"), text).unwrap();
    ranked("{\"query-id\":\"q\",\"corpus-ids\":[\"2\",\"1\",\"3\"]}\n{\"query-id\":\"r\",\"corpus-ids\":[\"3\"]}\n");
    let source = Source::Path(folder.path().to_owned());
    let dataset = load(TaskType::Reranking, &source, &LoadOptions::default()).unwrap();
    let texts: Vec<&str> = dataset.texts().iter().map(|text| text.text.as_str()).collect();
    assert_eq!(texts, ["first", "T one", "two", "U three"]);
    let dropped = "1 queries without a relevant candidate or without another one are left out";
    assert_eq!((dataset.items(), dataset.notes()), (1, &[dropped.to_owned()][..]));
    ranked("{\"query-id\":\"q\",\"corpus-ids\":[\"2\",\"9\"]}\n");
    let error = fault(TaskType::Reranking, &source, &LoadOptions::default());
    assert_eq!(key(&error), "Row line 1 corpus-ids");
    assert!(error.to_string().contains("`9`"), "{error}");
}

#[test]
fn candidates_named_by_id_tie_by_their_ids() {
    let map = |relevant: &str, other: &str| {
        let lines = |lines: &[String]| lines.join("\n").into_bytes();
        let document = |id: &str| format!("{{\"_id\": \"{id}\", \"text\": \"{id} text\"}}");
        let file = |path: &str, content: Vec<u8>| InlineFile {
            path: path.to_owned(),
            content,
        };
        let source = Source::Inline(vec![
            file("corpus.jsonl", lines(&[document(relevant), document(other)])),
            file("queries.jsonl", lines(&[document("q")])),
            file("qrels/test.tsv", format!("q\t{relevant}\t1\n").into_bytes()),
            file(
                "top_ranked/test.jsonl",
                format!("{{\"query-id\": \"q\", \"corpus-ids\": [\"{other}\", \"{relevant}\"]}}").into_bytes(),
            ),
        ]);
        let dataset = load(TaskType::Reranking, &source, &LoadOptions::default()).unwrap();
        let vectors = vector_matrix(3, 2, vec![1.0; 6]).unwrap();
        dataset.score(vectors.view(), Profile::MtebV2).unwrap().main
    };
    assert_eq!((map("d2", "d1"), map("d1", "d2")), (1.0, 0.5));
}

#[test]
fn relevant_documents_that_are_no_candidates_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    retrieval(folder.path(), ("test.tsv", "q\t1\t1\nq\t3\t1\n"));
    fs::create_dir(folder.path().join("top_ranked")).unwrap();
    fs::write(
        folder.path().join("top_ranked/test.jsonl"),
        "{\"query-id\":\"q\",\"corpus-ids\":[\"2\",\"1\"]}\n",
    )
    .unwrap();
    let source = Source::Path(folder.path().to_owned());
    let error = load(TaskType::Reranking, &source, &LoadOptions::default()).unwrap_err();
    assert!(
        matches!(error, DatasetError::Undefined { .. }) && error.to_string().contains("of query `q` lack"),
        "{error}"
    );
}

/// Rows are read one at a time: a file of many rows needs no more memory than its texts.
#[test]
fn a_sample_of_many_rows_keeps_only_the_sample() {
    let rows: String = (0..20_000).map(|i| format!("a{i},b{i},{}\n", i % 5)).collect();
    let csv = format!("sentence1,sentence2,score\n{rows}");
    let options = LoadOptions {
        limit: Some(50),
        ..LoadOptions::default()
    };
    let dataset = load(TaskType::Sts, &inline("test.csv", csv), &options).unwrap();
    assert_eq!((dataset.items(), dataset.texts().len()), (50, 100));
    for gold in 0..5 {
        let count = dataset
            .gold()
            .unwrap()
            .iter()
            .filter(|score| **score == f64::from(gold))
            .count();
        assert_eq!(count, 10, "gold {gold}");
    }
    let note = "a sample of 50 of 20000 rows, seed 42, in proportion to score (5 bins of equal width)";
    assert_eq!(dataset.notes(), [note]);
}

#[test]
fn bytes_that_are_not_a_text_are_named() {
    let options = LoadOptions {
        fields: fields(&[("sentence1", "text_a"), ("sentence2", "picture"), ("score", "gold")]),
        ..LoadOptions::default()
    };
    let error = fault(TaskType::Sts, &data("bytes.parquet"), &options);
    assert_eq!(key(&error), "Row row 1 sentence2");
}

/// Texts of a table of pairs.
fn texts_of(source: &Source) -> Result<Vec<String>, DatasetError> {
    let dataset = load(TaskType::Sts, source, &LoadOptions::default())?;
    Ok(dataset
        .texts()
        .iter()
        .map(|text| text.text.as_str().to_owned())
        .collect())
}

#[test]
fn quotes_of_a_tsv_are_characters_unless_they_enclose_a_cell() {
    let rows = "sentence1\tsentence2\tscore\n\
                \"So he left\tHe left\t1\n\
                a 5\" pipe\tThe pipe is 5\" wide\t2\n\
                \"He said \"\"no\"\"\"\t\"\"\t3\n\
                \"Go\" he said\t\"Go\"\t4\n\
                then\"\tend\t5\n";
    let texts = texts_of(&inline("quotes.tsv", rows)).unwrap();
    let expected = [
        "\"So he left",
        "He left",
        "a 5\" pipe",
        "The pipe is 5\" wide",
        "He said \"no\"",
        "",
        "\"Go\" he said",
        "Go",
        "then\"",
        "end",
    ];
    assert_eq!(texts, expected);
    // The same in one column, and next to a cell that does continue on another line.
    let both = "sentence1\tsentence2\tscore\n\"Two\nlines\"\tb\t1\n\"So he left\tHe left\t2\nc\td\t3\ne\"\tf\t4\n";
    let error = fault(TaskType::Sts, &inline("both.tsv", both), &LoadOptions::default());
    assert_eq!(key(&error), "Row line 4 sentence1");
    let two_lines = "sentence1\tsentence2\tscore\n\"Two\nlines\"\t\"a\ttab\"\t1\nc\td\t3\n";
    assert_eq!(
        texts_of(&inline("lines.tsv", two_lines)).unwrap()[..2],
        ["Two\nlines", "a\ttab"]
    );
}

#[test]
fn judgements_of_documents_that_the_corpus_lacks_count_as_relevant_and_not_found() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    write(
        "corpus.jsonl",
        "{\"_id\": \"a\", \"text\": \"a\"}\n{\"_id\": \"b\", \"text\": \"b\"}\n{\"_id\": \"c\", \"text\": \"c\"}\n",
    );
    write(
        "queries.jsonl",
        "{\"_id\": \"q\", \"text\": \"q\"}\n{\"_id\": \"r\", \"text\": \"r\"}\n",
    );
    write(
        "qrels/test.tsv",
        "query-id\tcorpus-id\tscore\nq\ta\t1\nq\tgone\t1\nr\tb\t1\nr\tgone\t0\nr\taway\t2\n",
    );
    let source = Source::Path(folder.path().to_owned());
    let dataset = load(TaskType::Retrieval, &source, &LoadOptions::default()).unwrap();
    let note = dataset
        .notes()
        .iter()
        .find(|note| note.contains("not in the corpus"))
        .unwrap();
    assert!(
        note.starts_with("3 judgements in qrels/test.tsv") && note.contains("2 documents"),
        "{note}"
    );
    let basis = |place: usize| {
        let mut vector = [0.0_f32; 3];
        vector[place] = 1.0;
        vector
    };
    // Each query is nearest to its document of the corpus.
    let rows = [basis(0), basis(1), basis(0), basis(1), basis(2)].concat();
    let vectors = vector_matrix(5, 3, rows).unwrap();
    let scores = dataset.score(vectors.view(), Profile::MtebV2).unwrap();
    // pytrec_eval 0.5: q has a relevant document at rank 1 and one that is not found; r has one of
    // grade 1 at rank 1 and one of grade 2 that is not found.
    let q = 1.0 / (1.0 + 1.0 / 3_f64.log2());
    let r = 1.0 / (2.0 + 1.0 / 3_f64.log2());
    assert!(
        (scores.all["ndcg_at_10"] - (q + r) / 2.0).abs() < 1e-5,
        "{:?}",
        scores.all["ndcg_at_10"]
    );
    assert!((scores.all["recall_at_10"] - 0.5).abs() < 1e-9);
    write("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq\tgone\t1\n");
    let error = fault(TaskType::Retrieval, &source, &LoadOptions::default());
    assert_eq!(key(&error), "Broken");
    assert!(error.to_string().contains("qrels/test.tsv"), "{error}");
}
