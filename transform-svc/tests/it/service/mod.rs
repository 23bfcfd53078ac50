//! The service over gRPC, with a stub as the remote generator. All tests are in one program,
//! because each program takes long to link.

mod adversarial;
mod answers;
mod augmentation;
mod caching;
mod checks;
mod concurrency;
mod digests;
mod dispatch;
mod endings;
mod estimate;
mod faults;
mod guards;
mod injection;
mod judge;
mod named;
mod noise;
mod parameters;
mod prompt_cuts;
mod secrets;
mod transformations;
mod versions;
mod wordings;

use isomer_proto::transform::v1::{TransformResponse, TransformSpec};
use isomer_stubs::openai::{Answer, Stub};

use crate::support::{client, config, transform};

/// A text that passes every check.
const TEXT: &str = "A man is playing the guitar on a busy street in town.";

fn status(code: u16) -> Answer {
    Answer::Status(code, None)
}

/// Sends one text to a stub that answers by the script, then correctly.
async fn one(script: impl IntoIterator<Item = Answer>, spec: TransformSpec) -> (TransformResponse, Stub) {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    stub.script(script);
    let mut client = client(config(&stub, home.path()), home.path()).await;
    (transform(&mut client, spec, &[TEXT]).await, stub)
}

fn counts(response: &TransformResponse) -> Vec<(String, u64)> {
    let mut counts: Vec<_> = response.summary.clone().unwrap().check_counts.into_iter().collect();
    counts.sort();
    counts
}
