//! The promises that the comments of the `.proto` files make about errors hold.
//!
//! The rows of the table are all sentences of the comments that name a gRPC code, read from the
//! descriptor set: a sentence without a row fails the test, and so does a row without its sentence.
//! A row is a call that provokes the code, or the name of a test that does.

mod ask;
pub(crate) mod comments;
mod counters;
mod every;
mod fields;
mod held;
mod services;
mod stated;
mod statistics;
mod table;
mod tei;

use std::collections::BTreeSet;

use isomer_service_kit::{Fault, code_name};
use table::Proof;

use crate::harness::Harness;

#[test]
fn every_promise_of_a_code_has_a_row() {
    let promised: BTreeSet<(String, String)> = comments::promises().into_iter().collect();
    assert!(promised.len() > 100, "the comments are read: {}", promised.len());
    let rows: BTreeSet<(String, String)> = table::rows()
        .into_iter()
        .map(|row| (row.element.to_owned(), row.promise.to_owned()))
        .collect();
    let missing: Vec<_> = promised.difference(&rows).collect();
    let gone: Vec<_> = rows.difference(&promised).collect();
    assert!(
        missing.is_empty() && gone.is_empty(),
        "promised without a row: {missing:#?}\nrows without a promise: {gone:#?}"
    );
}

#[test]
fn tests_that_hold_a_promise_elsewhere_are_there() {
    let root = std::path::Path::new(".").join("..");
    let named = table::rows().into_iter().flat_map(|row| match row.proof {
        Proof::Held(tests) => tests.to_vec(),
        Proof::Calls(_) => Vec::new(),
    });
    for (file, test) in named.chain(stated::ALL.iter().map(|row| row.test)) {
        let text = std::fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(text.contains(&format!("fn {test}(")), "{file} has no test `{test}`");
    }
}

#[test]
fn what_is_stated_stands_in_the_comments() {
    let comments = comments::all();
    for row in stated::ALL {
        let comment = comments.get(row.element).map_or("", String::as_str);
        assert!(
            comment.contains(row.quote),
            "{} says nothing of `{}`: {comment}",
            row.element,
            row.quote
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_refused_as_the_comments_say() {
    let harness = Harness::new().await;
    let key = harness.key().await;
    let mut wrong = Vec::new();
    for row in table::rows() {
        let Proof::Calls(calls) = row.proof else { continue };
        for (number, call) in calls.into_iter().enumerate() {
            let name = format!("{}: {} ({number})", row.element, row.promise);
            let status = match ask::ask(&harness, &key, &call.path, vec![call.message], tei::NAMED).await {
                Ok(_) => {
                    wrong.push(format!("{name}: it was answered"));
                    continue;
                }
                Err(status) => status,
            };
            let fault = Fault::from_status(&status);
            let code = code_name(fault.code);
            if !comments::codes(row.promise).contains(&code) {
                wrong.push(format!("{name}: {code} {fault}"));
            }
            if fault.reason.is_empty() {
                wrong.push(format!("{name}: no ErrorInfo: {fault}"));
            }
            if let Some(reason) = comments::reason(row.promise)
                && reason != fault.reason
            {
                wrong.push(format!("{name}: {} {fault}", fault.reason));
            }
            match &fault.field {
                Some(field) if !fields::names(&call.path, field) && !tei::NAMED.iter().any(|(key, _)| key == field) => {
                    wrong.push(format!("{name}: `{field}` is not a field of the request: {fault}"));
                }
                None if code == "INVALID_ARGUMENT" => wrong.push(format!("{name}: no field is named: {fault}")),
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
    let refused = table::rows().into_iter().flat_map(|row| match row.proof {
        // An unserved rpc has no valid request.
        Proof::Calls(calls) if !row.promise.starts_with("UNIMPLEMENTED") => calls,
        _ => Vec::new(),
    });
    let refused: BTreeSet<String> = refused.map(|call| call.path).collect();
    let alone: Vec<_> = refused.difference(&asked).collect();
    assert!(alone.is_empty(), "refused and never served: {alone:?}");
}
