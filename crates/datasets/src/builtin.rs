//! The datasets that ship with Isomer, compiled in.

type File = (&'static str, &'static [u8]);

/// Names of the shipped datasets.
pub const BUILTIN_NAMES: &[&str] = &["quick/sts", "quick/pair-classification", "quick/retrieval"];

const STS: &[File] = &[("test.jsonl", include_bytes!("../quick/sts/test.jsonl"))];
const PAIR_CLASSIFICATION: &[File] = &[("test.jsonl", include_bytes!("../quick/pair-classification/test.jsonl"))];
const RETRIEVAL: &[File] = &[
    ("corpus.jsonl", include_bytes!("../quick/retrieval/corpus.jsonl")),
    ("queries.jsonl", include_bytes!("../quick/retrieval/queries.jsonl")),
    ("qrels/test.tsv", include_bytes!("../quick/retrieval/qrels/test.tsv")),
];

/// Files of a shipped dataset.
pub(super) fn files(name: &str) -> Option<&'static [File]> {
    match name {
        "quick/sts" => Some(STS),
        "quick/pair-classification" => Some(PAIR_CLASSIFICATION),
        "quick/retrieval" => Some(RETRIEVAL),
        _ => None,
    }
}
