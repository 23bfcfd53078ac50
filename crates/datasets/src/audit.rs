//! Checks of a data set's rows against each other, for defects that make a score misleading.

use std::collections::{HashMap, HashSet};

use unicode_normalization::UnicodeNormalization;

use super::{DatasetText, Labels, retrieval};

/// A document is not compared if its size in bytes exceeds this multiple of the longest folded
/// query.
const FOLDING: usize = 4;

/// Counts of misleading rows. Texts count as equal if they are equal after NFKC, case folding and
/// removal of white space.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RowAudit {
    /// Rows that are scored: test rows or queries; 0 for tasks in which no row can leak.
    pub rows: u64,
    /// Test rows whose text also occurs in a train row, or queries whose text is a document that
    /// the search may find.
    pub leaked: u64,
    /// Distinct texts of test rows that have two labels.
    pub two_labels: u64,
    /// Texts that contain only white space.
    pub empty: u64,
    /// Queries for which every document of the corpus is relevant, so that no order is wrong.
    pub all_relevant: u64,
}

impl RowAudit {
    /// Audits the rows of a loaded data set.
    pub(super) fn of(texts: &[DatasetText], labels: &Labels) -> Self {
        let empty = texts.iter().filter(|one| one.text.trim().is_empty()).count() as u64;
        let mut audit = match labels {
            Labels::Classification {
                labels: [train, test], ..
            } => classification(texts, train.len(), test),
            Labels::Retrieval(labels) => retrieval(texts, labels),
            _ => Self::default(),
        };
        audit.empty = empty;
        audit
    }

    /// Share of the rows that leaked; `None` if none can.
    pub fn leak(&self) -> Option<f64> {
        (self.rows > 0).then(|| self.leaked as f64 / self.rows as f64)
    }

    /// Notes for users; empty if nothing was found.
    pub(super) fn notes(&self, labels: &Labels) -> Vec<String> {
        let Self {
            rows,
            leaked,
            two_labels,
            empty,
            all_relevant,
        } = self;
        let leak = match labels {
            Labels::Retrieval(_) => {
                format!("{leaked} of {rows} queries are documents of the corpus, which the search may find")
            }
            _ => format!("{leaked} of {rows} test rows have the text of a train row"),
        };
        let found = [
            (*leaked, leak),
            (*two_labels, format!("{two_labels} texts of test rows have two labels")),
            (*empty, format!("{empty} texts are empty, and are encoded as they are")),
            (
                *all_relevant,
                format!(
                    "every document of the corpus is relevant for {all_relevant} queries, whose score cannot differ"
                ),
            ),
        ];
        found
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(_, note)| note)
            .collect()
    }
}

/// A text with compatibility forms unified and case folded. Upper case comes first: it unifies
/// letters that have several lower-case forms (`ß` and `ss`, `ς` and `σ`).
pub fn case_folded(text: &str) -> String {
    let upper = text.nfkc().flat_map(char::to_uppercase);
    let lower: String = upper.flat_map(char::to_lowercase).collect();
    lower.nfkc().collect()
}

/// The form in which texts are compared.
fn folded(text: &str) -> String {
    case_folded(text).split_whitespace().collect()
}

fn classification(texts: &[DatasetText], train: usize, test_labels: &[String]) -> RowAudit {
    let (train, test) = texts.split_at(train.min(texts.len()));
    let train: HashSet<String> = train.iter().map(|one| folded(&one.text)).collect();
    let test: Vec<String> = test.iter().map(|one| folded(&one.text)).collect();
    let leaked = test.iter().filter(|text| !text.is_empty() && train.contains(*text));
    let mut labels: HashMap<&str, HashSet<&str>> = HashMap::new();
    for (text, label) in test.iter().zip(test_labels) {
        labels.entry(text).or_default().insert(label);
    }
    RowAudit {
        rows: test.len() as u64,
        leaked: leaked.count() as u64,
        two_labels: labels.values().filter(|own| own.len() > 1).count() as u64,
        ..RowAudit::default()
    }
}

fn retrieval(texts: &[DatasetText], labels: &retrieval::Labels) -> RowAudit {
    let (queries, documents) = texts.split_at(labels.query_ids.len().min(texts.len()));
    let mut by_text: HashMap<String, Vec<usize>> = HashMap::new();
    for (query, one) in queries.iter().enumerate() {
        by_text.entry(folded(&one.text)).or_default().push(query);
    }
    by_text.remove("");
    let longest = by_text.keys().map(String::len).max().unwrap_or(0);
    let mut leaked: HashSet<usize> = HashSet::new();
    for (document, id) in documents.iter().zip(&labels.document_ids) {
        if document.text.len() > longest * FOLDING {
            continue;
        }
        let equal = by_text.get(&folded(&document.text)).into_iter().flatten();
        leaked.extend(equal.filter(|query| !(labels.ignore_identical_ids && labels.query_ids[**query] == *id)));
    }
    let all_relevant = (0..queries.len()).filter(|query| every_document_is_relevant(labels, *query));
    RowAudit {
        rows: queries.len() as u64,
        leaked: leaked.len() as u64,
        all_relevant: all_relevant.count() as u64,
        ..RowAudit::default()
    }
}

/// Whether every document that the search may return for a query is relevant.
fn every_document_is_relevant(labels: &retrieval::Labels, query: usize) -> bool {
    let documents = labels.document_ids.len();
    let left_out = |document: usize| {
        labels.ignore_identical_ids && labels.document_ids.get(document) == labels.query_ids.get(query)
    };
    let judged = labels.judgements.get(query).map_or(&[][..], Vec::as_slice);
    let relevant = judged
        .iter()
        .filter(|(document, grade)| *grade > 0 && *document < documents && !left_out(*document));
    let relevant = relevant.count();
    relevant == documents || (relevant + 1 == documents && (0..documents).any(left_out))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::{InlineFile, LoadOptions, Source, load};
    use isomer_scoring::task::TaskType;

    fn loaded(task: TaskType, files: &[(&str, &str)], options: LoadOptions) -> crate::Dataset {
        let files = files.iter().map(|(name, content)| InlineFile {
            path: (*name).to_owned(),
            content: content.as_bytes().to_vec(),
        });
        load(task, &Source::Inline(files.collect()), &options).unwrap()
    }

    #[test]
    fn test_rows_that_were_fitted_on_are_counted_in_every_form() {
        let train = "{\"text\": \"Rain at noon\", \"label\": \"a\"}\n{\"text\": \"Sun\", \"label\": \"b\"}\n";
        let test = "{\"text\": \"RAIN  at noon\", \"label\": \"a\"}\n{\"text\": \"Ｓｕｎ\", \"label\": \"b\"}\n\
                    {\"text\": \"Wind\", \"label\": \"a\"}\n{\"text\": \"wind\", \"label\": \"b\"}\n{\"text\": \"Rain, at noon\", \"label\": \"a\"}\n";
        let files = [("train.jsonl", train), ("test.jsonl", test)];
        let dataset = loaded(TaskType::Classification, &files, LoadOptions::default());
        let audit = dataset.audit();
        assert_eq!((audit.rows, audit.leaked, audit.two_labels, audit.empty), (5, 2, 1, 0));
        assert_eq!(audit.leak(), Some(0.4));
        let notes = dataset.notes().join("\n");
        assert!(
            notes.contains("2 of 5 test rows") && notes.contains("1 texts of test rows have two labels"),
            "{notes}"
        );
    }

    #[test]
    fn a_query_in_the_corpus_leaks_unless_its_own_id_does_not_count() {
        let corpus = "{\"_id\": \"q1\", \"text\": \"Which way?\"}\n{\"_id\": \"d2\", \"text\": \"which WAY?\"}\n{\"_id\": \"d3\", \"text\": \"North.\"}\n";
        let queries = "{\"_id\": \"q1\", \"text\": \"Which way?\"}\n{\"_id\": \"q2\", \"text\": \"How far?\"}\n";
        let qrels = "query-id\tcorpus-id\tscore\nq1\td3\t1\nq2\td3\t1\n";
        let audit = |corpus: &str, ignore_identical_ids| {
            let files = [
                ("corpus.jsonl", corpus),
                ("queries.jsonl", queries),
                ("qrels/test.tsv", qrels),
            ];
            let options = LoadOptions {
                ignore_identical_ids,
                ..LoadOptions::default()
            };
            let audit = *loaded(TaskType::Retrieval, &files, options).audit();
            (audit.rows, audit.leaked)
        };
        assert_eq!(audit(corpus, false), (2, 1));
        assert_eq!(audit(corpus, true), (2, 1), "its copy has another id");
        let own = corpus.replace("which WAY?", "Far.");
        assert_eq!((audit(&own, false), audit(&own, true)), ((2, 1), (2, 0)));
    }

    #[test]
    fn a_query_for_which_every_document_is_relevant_is_counted() {
        let corpus = "{\"_id\": \"q1\", \"text\": \"North.\"}\n{\"_id\": \"d2\", \"text\": \"South.\"}\n";
        let queries = "{\"_id\": \"q1\", \"text\": \"Which way?\"}\n{\"_id\": \"q2\", \"text\": \"How far?\"}\n";
        let count = |rows: &str, ignore_identical_ids| {
            let qrels = format!("query-id\tcorpus-id\tscore\n{rows}");
            let files = [
                ("corpus.jsonl", corpus),
                ("queries.jsonl", queries),
                ("qrels/test.tsv", &qrels),
            ];
            let options = LoadOptions {
                ignore_identical_ids,
                ..LoadOptions::default()
            };
            loaded(TaskType::Retrieval, &files, options).audit().all_relevant
        };
        let all = "q1\tq1\t1\nq1\td2\t1\nq2\tq1\t1\nq2\td2\t2\n";
        assert_eq!(count(all, false), 2);
        assert_eq!(count("q1\td2\t1\nq2\tq1\t1\nq2\td2\t0\n", false), 0);
        // The search does not return the document with the query's id.
        assert_eq!(count("q1\td2\t1\nq2\tq1\t1\n", true), 1);
    }

    #[test]
    fn other_tasks_leak_nothing_and_empty_texts_are_counted() {
        let rows = "{\"sentence1\": \" \", \"sentence2\": \"b\", \"score\": 1}\n{\"sentence1\": \"c\", \"sentence2\": \"d\", \"score\": 2}\n";
        let dataset = loaded(TaskType::Sts, &[("test.jsonl", rows)], LoadOptions::default());
        assert_eq!(dataset.audit().leak(), None);
        assert_eq!(dataset.audit().empty, 1);
        assert!(dataset.notes().join("\n").contains("1 texts are empty"));
    }
}
