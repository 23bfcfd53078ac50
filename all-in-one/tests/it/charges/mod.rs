//! A caller that uses a model through the gateway pays for it, by every route and however the call
//! ends.
//!
//! The rows of the table are all rpcs of the descriptor set and all paths of the HTTP router. A row
//! without a case fails the test. For each case and each end, the usage counted by the models is
//! compared with the key's charge.

mod calls;
pub(crate) mod cases;
mod missing_variants;
mod overspending;
mod quiet;
mod tenants;
mod timing;

use std::collections::BTreeSet;

use cases::{Case, End};
use futures::future::join_all;
use prost::Message;
use prost_types::FileDescriptorSet;

use crate::{
    harness::Harness,
    models::{self, ModelUsage},
};

/// Every rpc of ours: `/service/method`.
fn rpcs() -> BTreeSet<String> {
    let set = FileDescriptorSet::decode(isomer_proto::FILE_DESCRIPTOR_SET).unwrap();
    let of = |file: prost_types::FileDescriptorProto| {
        let package = file.package().to_owned();
        let services = file.service.into_iter();
        let paths = services.flat_map(move |service| {
            let name = format!("/{package}.{}", service.name());
            let methods = service.method.into_iter();
            methods
                .map(move |method| format!("{name}/{}", method.name()))
                .collect::<Vec<_>>()
        });
        paths.collect::<Vec<_>>()
    };
    set.file.into_iter().flat_map(of).collect()
}

#[test]
fn every_rpc_and_every_route_has_a_case() {
    let mut rows = rpcs();
    rows.extend(isomer_gateway::http_paths().into_iter().map(str::to_owned));
    let cases: BTreeSet<String> = cases::all().into_iter().map(|case| case.row.to_owned()).collect();
    assert_eq!(rows, cases, "left: rows that are served; right: rows with a case");
}

/// Number of harnesses used concurrently, because most of a case is waiting.
const HARNESSES: usize = 10;
/// Number of harnesses for calls that end at the server's deadline.
const WITH_DEADLINE: usize = 6;
/// The server's deadline for them, in seconds.
const DEADLINE: u64 = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_models_counted_is_what_the_key_was_charged() {
    let (paid, free): (Vec<_>, Vec<_>) = cases::all().into_iter().partition(|case| case.uses);
    let calls = paid
        .iter()
        .flat_map(|case| case.ends.iter().map(move |end| (case, *end)));
    let (bounded, others): (Vec<_>, Vec<_>) = calls.partition(|(_, end)| *end == End::Deadline);
    // All start before the first call: starting takes the processors from calls with a deadline.
    let harnesses = join_all((0..HARNESSES).map(|_| Harness::new())).await;
    let with_deadline =
        (0..WITH_DEADLINE).map(|_| Harness::with(|config| config.server.limits.request_timeout_seconds = DEADLINE));
    let with_deadline = join_all(with_deadline).await;
    let wrong = tokio::join!(
        in_vain(&free),
        shared(&harnesses, &others),
        shared(&with_deadline, &bounded)
    );
    let wrong: Vec<String> = [wrong.0, wrong.1, wrong.2].concat();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Number of times that charges are read before they count as wrong.
const LOOKS: usize = 5;

/// Errors of calls that use nothing.
async fn in_vain(cases: &[Case]) -> Vec<String> {
    let harness = Harness::new().await;
    let mut wrong = Vec::new();
    let (key, before) = (harness.key().await, harness.models.counted());
    for case in cases {
        if let Err(why) = case.call(&harness, &key, End::Answer).await {
            wrong.push(format!("{}: {why}", case.row));
        }
    }
    let (charged, counted) = (harness.settled(&key).await, harness.models.counted().since(&before));
    if (charged, counted) != Default::default() {
        wrong.push(format!(
            "calls that use nothing: counted {counted:?}, charged {charged:?}"
        ));
    }
    wrong
}

/// Errors of calls that use models, divided among harnesses.
async fn shared(harnesses: &[Harness], calls: &[(&Case, End)]) -> Vec<String> {
    let shares = harnesses.iter().enumerate().map(|(place, harness)| {
        let share = calls.iter().copied().skip(place).step_by(harnesses.len());
        in_turn(harness, share)
    });
    join_all(shares).await.concat()
}

/// Errors of calls that use models, made one after the other in one harness.
async fn in_turn<'a>(harness: &Harness, calls: impl Iterator<Item = (&'a Case, End)>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (case, end) in calls {
        let name = format!("{} ({}): {end:?}", case.row, case.name);
        let key = harness.key().await;
        let before = harness.models.counted();
        if let Err(why) = case.call(harness, &key, end).await {
            wrong.push(format!("{name}: {why}"));
            continue;
        }
        // On a busy machine a charge may be written later than it should.
        let mut problem = None;
        for _ in 0..LOOKS {
            let charged = harness.settled(&key).await;
            let counted = harness.models.counted().since(&before);
            problem = compare(end, counted, charged);
            if problem.is_none() {
                break;
            }
        }
        wrong.extend(problem.map(|problem| format!("{name}: {problem}")));
    }
    wrong
}

/// Charges must equal the counted usage; for generator calls that were cut off, they may add at
/// most the possible usage of these calls.
fn compare(end: End, counted: ModelUsage, charged: ModelUsage) -> Option<String> {
    let least = counted.finished;
    let most = (
        least.0 + counted.cut * models::MOST_OF_A_CALL,
        // A token costs a dollar, and generators have no price.
        least.1,
    );
    let told = format!(
        "counted {least:?} and {} calls cut off, charged {:?}",
        counted.cut, charged.finished
    );
    let got = charged.finished;
    if got.0 < least.0 || got.0 > most.0 || got.1 != least.1 {
        return Some(told);
    }
    // A provider that refuses a text has used nothing.
    let idle = got == (0, 0) && end != End::Error;
    idle.then(|| format!("{told}: a case that uses nothing shows nothing"))
}
