//! `errors.md` is written by hand: the one list of error reasons.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use super::{read, workspace};

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
fn sources(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            if !["tests", "benches", "examples"].contains(&name) {
                sources(&path, found);
            }
        } else if name.ends_with(".rs") && name != "tests.rs" {
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            found.push((path.display().to_string(), code.to_owned()));
        }
    }
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
    let mut files = Vec::new();
    for folder in FOLDERS {
        sources(&workspace().join(folder), &mut files);
    }
    let (mut reasons, mut all) = (BTreeMap::new(), BTreeSet::new());
    for (file, code) in &files {
        for (literal, before) in literals(code) {
            all.insert(literal);
            if is_reason(file, code, before) {
                reasons.insert(literal, file);
            }
        }
    }
    let page = read("docs/reference/errors.md");
    let rows = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let listed: Vec<&str> = rows.map(|(reason, _)| reason).collect();
    let once: BTreeSet<&str> = listed.iter().copied().collect();
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
