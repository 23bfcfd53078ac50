//! Responses report their timing: `server-timing`.

use std::time::{Duration, Instant};

use futures::stream;
use isomer_service_kit::client::{self, ClientConfig};
use isomer_stubs::{raw::Raw, request};
use prost::Message;
use serde_json::json;
use tonic::{Request, client::Grpc};

use super::cases::{self, End};
use crate::{
    harness::{Harness, Key},
    models::ENCODER,
};

const ENCODE: &str = "/isomer.encoder.v1.EncoderService/Encode";

/// Milliseconds upstream and overhead.
fn read(value: &str) -> (f64, f64) {
    let of = |name: &str| {
        let part = value.split(", ").find_map(|part| part.strip_prefix(name)).unwrap();
        part.strip_prefix(";dur=").unwrap().parse().unwrap()
    };
    (of("upstream"), of("overhead"))
}

/// The status of an HTTP response and its reported timing, which is consistent with the client's
/// measurement.
async fn post(harness: &Harness, key: &Key, text: &str) -> (u16, (f64, f64)) {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let body = json!({ "model": ENCODER, "input": text }).to_string();
    let request = client
        .post(format!("http://{}/v1/embeddings", harness.address))
        .body(body);
    let request = request
        .header("content-type", "application/json")
        .bearer_auth(key.text.expose().unwrap());
    let began = Instant::now();
    let answer = request.send().await.unwrap();
    let whole = began.elapsed();
    let told = read(answer.headers()["server-timing"].to_str().unwrap());
    assert!(
        Duration::from_secs_f64((told.0 + told.1) / 1e3) <= whole,
        "{told:?} of {whole:?}"
    );
    (answer.status().as_u16(), told)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_tells_how_long_others_took_and_how_long_the_gateway_did() {
    let harness = Harness::new().await;
    let key = harness.key().await;
    let text = cases::text(End::Answer);
    let (status, (upstream, overhead)) = post(&harness, &key, &text).await;
    assert!(
        status == 200 && upstream > 0.0 && overhead > 0.0,
        "{upstream} {overhead}"
    );
    // The encoder refuses this one after 100 ms.
    let (status, (upstream, _)) = post(&harness, &key, &cases::text(End::Error)).await;
    assert!(status == 400 && upstream >= 99.0, "{status} {upstream}");
    // The gateway's own cache answers.
    let (status, (upstream, overhead)) = post(&harness, &key, &text).await;
    assert!(
        status == 200 && upstream == 0.0 && overhead > 0.0,
        "{upstream} {overhead}"
    );
    // gRPC reports it in the initial metadata; a server without upstream servers reports nothing.
    let channel = |address: String, api_key| {
        let config = ClientConfig {
            address,
            api_key,
            ..ClientConfig::default()
        };
        Grpc::new(client::connect_lazy(&config).unwrap())
    };
    let gateway = channel(format!("http://{}", harness.address), key.text.clone());
    let encoder = channel(harness.models.encoder.replace("grpc://", "http://"), key.text.clone());
    for (mut grpc, tells) in [(gateway, true), (encoder, false)] {
        grpc.ready().await.unwrap();
        let message = request::encode(ENCODER, [cases::text(End::Answer)]).encode_to_vec();
        let asked = Request::new(stream::iter([message]));
        let answers = grpc.streaming(asked, ENCODE.parse().unwrap(), Raw).await.unwrap();
        let told = answers
            .metadata()
            .get("server-timing")
            .map(|value| read(value.to_str().unwrap()));
        assert_eq!(told.is_some_and(|(upstream, _)| upstream > 0.0), tells, "{told:?}");
    }
}
