//! Tests requests for the encoder of the process itself.

use std::path::PathBuf;

use futures::future::join_all;
use isomer_all_in_one::{App, Caller, IsomerConfig, compose};
use isomer_embed::EmbedConfig;
use isomer_proto::encoder::v1::{
    EncodeRequest, EncodeResponse, Input, encoder_service_client::EncoderServiceClient, input,
};
use isomer_service_kit::{Fault, telemetry};
use tempfile::TempDir;
use tonic::Code;

/// A process with the encoder `here`.
async fn start(home: &TempDir, configure: impl FnOnce(&mut EmbedConfig)) -> App {
    let mut config = IsomerConfig::default();
    config.models.home = home.path().to_owned();
    let model = PathBuf::from(".").join("../embed-svc/tests/fixtures/bert_poolings");
    config.embed.encoders = [("here".to_owned(), model)].into();
    configure(&mut config.embed);
    compose(config, Caller::Owner).await.unwrap()
}

async fn encode(app: &App, texts: impl IntoIterator<Item = String>) -> Result<EncodeResponse, Fault> {
    let inputs = texts.into_iter().map(|text| Input {
        input: Some(input::Input::Text(text)),
    });
    let request = EncodeRequest {
        encoder_id: "here".to_owned(),
        inputs: inputs.collect(),
        ..EncodeRequest::default()
    };
    let answer = EncoderServiceClient::new(app.channel()).encode(request).await;
    answer.map(tonic::Response::into_inner).map_err(Fault::from)
}

fn metric(name_and_labels: &str) -> f64 {
    let text = telemetry::metrics_text();
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(name_and_labels)?.strip_prefix(' '));
    value.map_or(0.0, |value| value.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_of_the_encoder_refuses_with_reason_encoder_and_wait() {
    let home = TempDir::new().unwrap();
    let app = start(&home, |embed| embed.max_queued_tokens = 1).await;
    let words = "one two three four five six seven eight nine ten";
    let texts = |request: usize| (0..400).map(move |text| format!("{request} {text} {words}"));
    let answers = join_all((0..24).map(|request| encode(&app, texts(request)))).await;
    let (answered, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert!(!answered.is_empty(), "a request is taken while nothing waits");
    assert!(!refused.is_empty(), "the queue has no room for all");
    for fault in refused.into_iter().map(Result::unwrap_err) {
        assert_eq!(
            (fault.code, fault.reason.as_str()),
            (Code::ResourceExhausted, "OVERLOADED")
        );
        assert_eq!(fault.metadata["encoder_id"], "here");
        assert!(fault.retry_after.is_some(), "{fault}");
    }
}

#[tokio::test]
async fn a_request_counts_at_the_gateway_at_the_encoder_service_and_at_its_engine() {
    let home = TempDir::new().unwrap();
    let app = start(&home, |_| ()).await;
    let encodes = || {
        metric(
            "isomer_server_requests_total{service=\"isomer.encoder.v1.EncoderService\",method=\"Encode\",code=\"OK\",via=\"memory\"}",
        )
    };
    let texts = || metric("isomer_embed_texts_total{encoder=\"here\"}");
    let before = (encodes(), texts());
    let answer = encode(&app, ["a text".to_owned(), "another".to_owned()]).await.unwrap();
    assert_eq!(answer.embeddings.unwrap().rows, 2);
    assert_eq!((encodes(), texts()), (before.0 + 2.0, before.1 + 2.0));
}

#[tokio::test]
async fn a_request_downloads_for_the_owner_of_the_process_and_for_others_where_allowed() {
    let home = TempDir::new().unwrap();
    let refusal = async |caller: Caller, allowed: bool| {
        let mut config = IsomerConfig::default();
        config.models.home = home.path().to_owned();
        config.models.hub_cache = Some(home.path().join("hub"));
        config.models.hub = false;
        // The download fails, because this program is missing.
        config.models.python = Some(home.path().join("python"));
        config.models.download_on_request = allowed;
        let app = compose(config, caller).await.unwrap();
        let request = EncodeRequest {
            encoder_id: "all-MiniLM-L6-v2".to_owned(),
            inputs: vec![Input {
                input: Some(input::Input::Text("a".to_owned())),
            }],
            ..EncodeRequest::default()
        };
        let answer = EncoderServiceClient::new(app.channel()).encode(request).await;
        Fault::from_status(&answer.unwrap_err())
    };
    let fault = refusal(Caller::Anyone, false).await;
    assert_eq!(
        (fault.code, fault.reason.as_str()),
        (Code::FailedPrecondition, "MODEL_NOT_CACHED")
    );
    let message = fault.to_string();
    assert!(
        message.contains("isomer models pull all-MiniLM-L6-v2") && message.contains("models.download_on_request"),
        "{message}"
    );
    for (caller, allowed) in [(Caller::Owner, false), (Caller::Anyone, true)] {
        assert_eq!(refusal(caller, allowed).await.reason, "PIP_FAILED");
    }
}
