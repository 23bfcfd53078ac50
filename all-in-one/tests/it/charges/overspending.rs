//! Calls whose usage is unknown before they start end when their caller's budget is spent.

use isomer_proto::eval::v1::{EncoderPrompt, TaskType};
use isomer_service_kit::Fault;
use isomer_stubs::request;
use prost::Message;
use serde_json::json;

use super::{
    calls,
    cases::{self, End},
};
use crate::{harness::Harness, models::ENCODER};

const BUDGET: u64 = 3_000;

/// Pairs whose texts are read with a long prompt. The last text is never answered.
fn score() -> Vec<u8> {
    let rows = (0..40).map(|number| {
        let second = if number == 39 { End::Gone } else { End::Answer };
        let pair = json!({ "sentence1": cases::text(End::Answer), "sentence2": cases::text(second), "score": number });
        format!("{pair}\n")
    });
    let file = ("test.jsonl", rows.collect::<String>());
    let mut request = request::score(TaskType::Sts, ENCODER, request::inline([file]));
    request::dataset(&mut request).prompts = vec![EncoderPrompt {
        role: "sts".to_owned(),
        text: "a number of words that are read with every text, ".repeat(100),
        ..EncoderPrompt::default()
    }];
    request.encode_to_vec()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_score_ends_once_it_has_used_more_than_was_reserved_and_the_budget() {
    let harness = Harness::new().await;
    let key = harness.key_for(BUDGET).await;
    let path = "/isomer.eval.v1.TaskService/Score";
    // The estimate for the message uses up the whole budget.
    let ended = calls::all(&harness, &key, path, vec![score()], End::Answer).await;
    let fault = Fault::from_status(&ended.unwrap_err());
    assert_eq!(fault.reason, "BUDGET_EXCEEDED", "{fault}");
    let charged = harness.settled(&key).await.finished.0;
    let whole = 80 * 1_250;
    assert!(charged > BUDGET && charged < whole / 2, "{charged} of {whole} tokens");
}
