//! `errors.md` is written by hand: the one list of error reasons.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use super::{read, rust_files, workspace};

/// Folders of crates that make faults.
const FOLDERS: &[&str] = &[
    "all-in-one",
    "cli",
    "clients/rust",
    "crates",
    "embed-svc",
    "eval-svc",
    "extras",
    "gateway",
    "transform-svc",
];
/// Calls whose first argument is the reason.
const CALLS: [&str; 4] = ["::not_found(", "::precondition(", "::unavailable(", "unauthenticated("];

/// The sources below a folder without their tests, by path.
fn sources(folder: &Path) -> Vec<(String, String)> {
    let is_source = |file: &PathBuf| {
        let mut parts = file.strip_prefix(folder).unwrap().iter();
        !parts.any(|part| {
            ["tests", "benches", "examples", "tests.rs"]
                .iter()
                .any(|own| part == *own)
        })
    };
    let files = rust_files(folder).into_iter().filter(is_source);
    files
        .map(|file| {
            let text = fs::read_to_string(&file).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            (file.display().to_string(), code.to_owned())
        })
        .collect()
}

/// The reasons that the page lists, in its order.
fn listed() -> Vec<String> {
    let page = read("docs/reference/errors.md");
    let rows = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    rows.map(|(reason, _)| reason.to_owned()).collect()
}

/// The reasons that the page lists.
pub(crate) fn reasons() -> BTreeSet<String> {
    listed().into_iter().collect()
}

/// The literals in upper case, each with the code before it.
fn literals(code: &str) -> impl Iterator<Item = (&str, &str)> {
    let quotes = code.match_indices('"').map(|(at, _)| at);
    quotes.filter_map(|at| {
        let (literal, _) = code[at + 1..].split_once('"')?;
        let upper = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        let is_reason = literal.starts_with(|c: char| c.is_ascii_uppercase()) && literal.chars().all(upper);
        is_reason.then(|| (literal, code[..at].trim_end()))
    })
}

/// Whether a literal after this code is the reason of an error: the argument after a code, the
/// first argument of a call that has its code in its name, a constant, or an arm of an error enum.
fn is_reason(file: &str, code: &str, before: &str) -> bool {
    let argument = before.strip_suffix(',').and_then(|rest| rest.split_whitespace().last());
    argument.is_some_and(|argument| argument.contains("Code::") || argument.ends_with("code"))
        || CALLS.iter().any(|call| before.ends_with(call))
        || code.contains("Fault") && before.ends_with(": &str =")
        || file.ends_with("error.rs") && before.ends_with("=>")
}

#[test]
fn the_page_of_errors_has_every_reason_of_the_code_and_no_other() {
    let files: Vec<_> = FOLDERS
        .iter()
        .flat_map(|folder| sources(&workspace().join(folder)))
        .collect();
    let (mut reasons, mut all) = (BTreeMap::new(), BTreeSet::new());
    for (file, code) in &files {
        for (literal, before) in literals(code) {
            all.insert(literal);
            if is_reason(file, code, before) {
                reasons.insert(literal, file);
            }
        }
    }
    let listed = listed();
    let once: BTreeSet<&str> = listed.iter().map(String::as_str).collect();
    assert_eq!(once.len(), listed.len(), "docs/reference/errors.md has a reason twice");
    let missing: Vec<_> = reasons.iter().filter(|(reason, _)| !once.contains(*reason)).collect();
    assert!(missing.is_empty(), "not in docs/reference/errors.md: {missing:?}");
    let gone: Vec<_> = once.difference(&all).collect();
    assert!(
        gone.is_empty(),
        "in docs/reference/errors.md, and not in the code: {gone:?}"
    );
    assert!(reasons.len() > 150, "{}", reasons.len());
}
