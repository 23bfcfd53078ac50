//! A call of a service by its Rust methods has the same layers as a call over a channel.

use std::{future::pending, time::Duration};

use isomer_service_kit::{Fault, LimitsConfig, memory::DirectCalls, telemetry};
use tokio::time::Instant;
use tonic::{Code, Status};

use crate::support::{ScriptedEncoder, in_memory};

const SERVICE: &str = "isomer.encoder.v1.EncoderService";

/// Calls with a request timeout in seconds; 0: none.
fn calls(request_timeout_seconds: u64) -> DirectCalls {
    let limits = LimitsConfig {
        request_timeout_seconds,
        ..LimitsConfig::default()
    };
    DirectCalls::new(SERVICE, &limits)
}

/// The value of a counter; 0 if it was never incremented.
fn counter(name_and_labels: &str) -> u64 {
    let text = telemetry::metrics_text();
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(name_and_labels)?.strip_prefix(' '));
    value.map_or(0, |value| value.parse().unwrap())
}

async fn panics() -> Result<(), Status> {
    panic!("the secret ingredient")
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_at_its_deadline_or_at_the_request_timeout() {
    for (timeout, deadline, expected) in [(0, Some(3), 3), (5, Some(3), 3), (5, Some(8), 5), (5, None, 5)] {
        let began = Instant::now();
        let until = deadline.map(|seconds| began + Duration::from_secs(seconds));
        let calls = calls(timeout);
        let call = calls.call("GetEncoder", until, pending::<Result<(), Status>>());
        let fault = call.await.unwrap_err();
        assert_eq!(
            (fault.code, fault.reason.as_str()),
            (Code::DeadlineExceeded, "DEADLINE_EXCEEDED")
        );
        assert_eq!(began.elapsed().as_secs(), expected);
    }
}

#[tokio::test]
async fn a_panic_is_internal_and_counted_and_its_words_stay_in_the_log() {
    // Installs the recorder of metrics.
    in_memory(&ScriptedEncoder::default(), &LimitsConfig::default()).await;
    let panicked = format!("isomer_server_panics_total{{service=\"{SERVICE}\"}}");
    let before = counter(&panicked);
    let calls = calls(0);
    let fault = calls.call("Tokenize", None, panics()).await.unwrap_err();
    assert_eq!(fault.code, Code::Internal);
    assert!(!fault.message.contains("ingredient"), "{fault}");
    assert_eq!(counter(&panicked), before + 1);
    let answer = calls.call("Tokenize", None, async { Ok::<_, Status>(7) });
    assert_eq!(answer.await.unwrap(), 7);
}

#[tokio::test]
async fn every_direct_call_is_counted_once_by_how_it_ended() {
    in_memory(&ScriptedEncoder::default(), &LimitsConfig::default()).await;
    let count = |code: &str| {
        counter(&format!(
            "isomer_server_requests_total{{service=\"{SERVICE}\",method=\"Rerank\",code=\"{code}\",via=\"memory\"}}"
        ))
    };
    let counts = || ["OK", "NOT_FOUND", "CANCELLED"].map(count);
    let before = counts();
    let calls = calls(0);
    calls.call("Rerank", None, async { Ok::<_, Status>(()) }).await.unwrap();
    let refusal = Fault::not_found("NO_SUCH", "not here").hint("look elsewhere");
    let refused = calls.call("Rerank", None, async { Err::<(), _>(refusal.clone().into()) });
    assert_eq!(refused.await.unwrap_err(), refusal);
    let mut dropped = Box::pin(calls.call("Rerank", None, pending::<Result<(), Status>>()));
    assert!(futures::poll!(&mut dropped).is_pending());
    drop(dropped);
    assert_eq!(counts(), before.map(|count| count + 1));
}
