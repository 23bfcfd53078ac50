//! Digests of models, which Ollama names before it is asked for a text.

use std::path::Path;

use isomer_proto::transform::v1::TransformResponse;
use isomer_stubs::openai::{Answer, Stub};
use serde_json::json;

use super::TEXT;
use crate::support::{client, config, paraphrase, transform, try_transform};

/// Transforms the text in a new process.
async fn run(stub: &Stub, home: &Path) -> TransformResponse {
    let mut client = client(config(stub, home), home).await;
    transform(&mut client, paraphrase(), &[TEXT]).await
}

#[tokio::test]
async fn texts_of_a_model_that_was_replaced_under_its_name_are_made_again() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    // The digest, and the calls so far. Texts of a digest that comes back are still there.
    for (digest, calls) in [("aa", 1), ("aa", 1), ("bb", 2), ("bb", 2), ("aa", 2)] {
        stub.set_digest(digest);
        let response = run(&stub, home.path()).await;
        assert_eq!(stub.calls(), calls, "{digest}");
        assert_eq!(response.results[0].provenance.as_ref().unwrap().generator_digest, "");
    }
}

#[tokio::test]
async fn servers_that_name_no_digest_keep_their_texts() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    run(&stub, home.path()).await;
    for tags in [
        json!({"models": []}),
        json!({"models": [{"name": "another", "digest": "aa"}]}),
        json!({"object": "list"}),
        json!(null),
    ] {
        stub.set_tags(tags.clone());
        run(&stub, home.path()).await;
        assert_eq!(stub.calls(), 1, "{tags}");
    }
}

#[tokio::test]
async fn stored_texts_are_found_without_the_server() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    stub.set_digest("aa");
    let made = run(&stub, home.path()).await;
    let config = config(&stub, home.path());
    drop(stub);
    let mut client = client(config, home.path()).await;
    let found = transform(&mut client, paraphrase(), &[TEXT]).await;
    assert_eq!(found.results[0].text, made.results[0].text);
    let fault = try_transform(&mut client, paraphrase(), &["Another text that nobody has seen."]).await;
    assert_eq!(fault.unwrap_err().reason, "GENERATOR_UNREACHABLE");
}
