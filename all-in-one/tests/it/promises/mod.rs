//! The promises that the comments of the `.proto` files make about errors hold.
//!
//! A promise is a line `@error CODE REASON field: when`. A test that provokes it has it as a
//! literal, with the name of the element in front: the rows of [`table`], and in other crates the
//! arguments of [`isomer_stubs::promise::promised`]. A promise without a test fails, and so does a
//! test of a promise that no comment makes.

mod ask;
pub(crate) mod comments;
mod counters;
mod every;
mod fields;
mod services;
mod statistics;
mod table;
mod tei;

use std::collections::{BTreeMap, BTreeSet};

use isomer_service_kit::Fault;
use isomer_stubs::promise::{keeps, refusal};
use tonic::Code;

use crate::{
    harness::Harness,
    reference::{reasons, rust_files, workspace},
};

/// Folders of the tests that provoke promised errors.
const FOLDERS: [&str; 6] = [
    "all-in-one",
    "embed-svc",
    "eval-svc",
    "gateway",
    "tests/tests",
    "transform-svc",
];

/// The literals that are promises, each with a file that has it.
fn tested() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for file in FOLDERS.iter().flat_map(|folder| rust_files(&workspace().join(folder))) {
        let text = std::fs::read_to_string(&file).unwrap();
        // A quote may begin or end a literal: both are tried.
        for literal in text.split('"').filter(|literal| comments::is_promise(literal)) {
            found.insert(literal.to_owned(), file.display().to_string());
        }
    }
    found
}

#[test]
fn every_promised_error_is_provoked_by_a_test() {
    let (promised, wrong) = comments::promises();
    assert!(wrong.is_empty(), "a code outside of a tag, or a broken tag: {wrong:#?}");
    assert!(promised.len() > 100, "the comments are read: {}", promised.len());
    let tested = tested();
    let missing: Vec<_> = promised
        .iter()
        .filter(|promise| !tested.contains_key(*promise))
        .collect();
    assert!(missing.is_empty(), "promised without a test: {missing:#?}");
    let gone: Vec<_> = tested
        .iter()
        .filter(|(promise, _)| !promised.contains(*promise))
        .collect();
    assert!(gone.is_empty(), "tested without a promise: {gone:#?}");
}

#[test]
fn promised_reasons_are_on_the_page_of_errors() {
    let (promised, _) = comments::promises();
    let known = reasons();
    let unknown: Vec<_> = promised
        .iter()
        .filter(|promise| comments::reason(promise).is_some_and(|reason| !known.contains(reason)))
        .collect();
    assert!(unknown.is_empty(), "not in docs/reference/errors.md: {unknown:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_refused_as_the_comments_say() {
    let harness = Harness::new().await;
    let key = harness.key().await;
    let mut wrong = Vec::new();
    for row in table::rows() {
        for (number, call) in row.calls.into_iter().enumerate() {
            let name = format!("{} ({number})", row.promise);
            let status = match ask::ask(&harness, &key, &call.path, vec![call.message], tei::NAMED).await {
                Ok(_) => {
                    wrong.push(format!("{name}: it was answered"));
                    continue;
                }
                Err(status) => status,
            };
            let fault = Fault::from_status(&status);
            if !keeps(row.promise, &fault) {
                wrong.push(format!("{name}: {}: {fault}", refusal(&fault)));
            }
            if call.field.is_some() && fault.field.as_deref() != call.field {
                wrong.push(format!("{name}: another field than {:?} is named: {fault}", call.field));
            }
            match &fault.field {
                Some(field) if !fields::names(&call.path, field) && !tei::NAMED.iter().any(|(key, _)| key == field) => {
                    wrong.push(format!("{name}: `{field}` is not a field of the request: {fault}"));
                }
                None if fault.code == Code::InvalidArgument => {
                    wrong.push(format!("{name}: no field is named: {fault}"));
                }
                _ => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn honest_requests_to_the_same_rpcs_are_served() {
    let harness = Harness::new().await;
    let key = harness.key().await;
    let (mut asked, mut wrong) = (BTreeSet::new(), Vec::new());
    for call in table::honest() {
        asked.insert(call.path.clone());
        if let Err(status) = ask::ask(&harness, &key, &call.path, vec![call.message], tei::NAMED).await {
            wrong.push(format!("{}: {status}", call.path));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // An unserved rpc has no valid request.
    let served = table::rows()
        .into_iter()
        .filter(|row| !row.promise.contains(" UNIMPLEMENTED "));
    let refused: BTreeSet<String> = served.flat_map(|row| row.calls).map(|call| call.path).collect();
    let alone: Vec<_> = refused.difference(&asked).collect();
    assert!(alone.is_empty(), "refused and never served: {alone:?}");
}
