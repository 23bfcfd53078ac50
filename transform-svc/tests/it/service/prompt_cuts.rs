//! Prompts that a server cuts to its context without an error.

use isomer_proto::transform::v1::{Check, Outcome, TransformResult};
use isomer_stubs::openai::{Answer, Stub};

use super::TEXT;
use crate::support::{client, config, paraphrase, transform};

/// A text of so many sentences of 12 words.
fn text(sentences: usize) -> String {
    vec![TEXT; sentences].join(" ")
}

/// Results for texts of so many sentences, one after the other, and the number of calls.
async fn results(answer: Answer, sentences: &[usize]) -> (Vec<TransformResult>, usize) {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(answer).await;
    let mut client = client(config(&stub, home.path()), home.path()).await;
    let mut results = Vec::new();
    for sentences in sentences {
        let response = transform(&mut client, paraphrase(), &[&text(*sentences)]).await;
        results.extend(response.results);
    }
    (results, stub.calls())
}

fn is_cut(result: &TransformResult) -> bool {
    result.failed_checks().eq([Check::PromptCut])
}

#[tokio::test]
async fn a_text_of_which_the_server_read_a_part_is_named_and_not_kept() {
    // Ollama and llama.cpp's server: all prompts are longer than the context.
    let (cut, calls) = results(Answer::Counted(|words| words.min(2048)), &[240, 280, 300]).await;
    for result in &cut {
        assert_eq!(result.outcome(), Outcome::KeptOriginal, "{:?}", result.failed_checks);
        assert!(is_cut(result), "{:?}", result.failed_checks);
        let names = ["num_ctx", "--ctx-size", "--max-model-len"];
        assert!(names.iter().all(|name| result.error.contains(name)), "{}", result.error);
    }
    // The first one is confirmed by a second call.
    assert_eq!(calls, 4);
}

#[tokio::test]
async fn only_prompts_that_are_longer_than_the_context_are_cut() {
    for context in [|words: u64| (words + 20).min(512), |words: u64| (words + 20).min(1000)] {
        let (found, _) = results(Answer::Counted(context), &[1, 10, 200, 2, 300, 20]).await;
        let cut: Vec<bool> = found.iter().map(is_cut).collect();
        // A context that is not a multiple of 256 shows when a second prompt fills it.
        assert_eq!([cut[0], cut[1], cut[3], cut[5]], [false; 4], "{cut:?}");
        assert!(cut[4], "{cut:?}");
    }
}

#[tokio::test]
async fn servers_that_count_otherwise_cut_nothing() {
    for tokens in [
        |words: u64| words * 14 / 10 + 40,
        |words: u64| words,
        |_: u64| 0,
        |_: u64| 11,
    ] {
        let (found, _) = results(Answer::Counted(tokens), &[1, 10, 200, 300]).await;
        assert!(found.iter().all(|result| !is_cut(result)));
    }
}
