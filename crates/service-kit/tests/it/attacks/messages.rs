//! gRPC messages that are small on the wire and large once decoded.

use isomer_proto::encoder::v1::{GetEncoderRequest, GetEncoderResponse, encoder_service_client::EncoderServiceClient};
use isomer_service_kit::{LimitsConfig, server::ServerConfig};
use prost::Message;
use tonic::{Code, codec::CompressionEncoding};

use super::{
    bodies::{bomb, grpc, gzip_of_zeros},
    resident,
};
use crate::support::{ScriptedEncoder, TestServer, get, services};

async fn start(limits: LimitsConfig) -> TestServer {
    let config = ServerConfig {
        limits,
        ..ServerConfig::default()
    };
    TestServer::start(services(&ScriptedEncoder::default()), config).await
}

/// The gRPC status of an answer, whether in its headers or its trailers.
async fn status(running: &TestServer, method: &str, coding: Option<&str>, body: Vec<u8>) -> String {
    let request = grpc()
        .post(running.url(&format!("/isomer.encoder.v1.EncoderService/{method}")))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    let request = match coding {
        Some(coding) => request.header("grpc-encoding", coding),
        None => request,
    };
    let answer = request.body(body).send().await.unwrap();
    let status = answer
        .headers()
        .get("grpc-status")
        .map(|value| value.to_str().unwrap().to_owned());
    status.unwrap_or_else(|| "in the trailers".to_owned())
}

fn plain(message: &[u8]) -> Vec<u8> {
    let mut frame = vec![0];
    frame.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
    frame.extend_from_slice(message);
    frame
}

/// `inputs` of EncodeRequest (field 2), empty each: two bytes on the wire.
fn empty_inputs(count: usize) -> Vec<u8> {
    [0x12, 0x00].repeat(count)
}

#[tokio::test]
async fn empty_elements_are_counted_before_they_are_decoded() {
    let running = start(LimitsConfig::default()).await;
    let before = resident();
    let refused = status(&running, "Encode", None, plain(&empty_inputs(10 << 20))).await;
    let grown = resident().saturating_sub(before);
    println!("20 MiB of empty inputs: {} MiB", grown >> 20);
    assert_eq!(refused, "8", "RESOURCE_EXHAUSTED");
    assert!(grown < 128 << 20, "memory grew by {grown} bytes");
    // A thousand inputs are passed on to the handler, which decides.
    assert_eq!(status(&running, "Encode", None, plain(&empty_inputs(1000))).await, "12");
}

#[tokio::test]
async fn both_compressions_are_taken_and_bombs_refused() {
    let running = start(LimitsConfig::default()).await;
    let channel = running.connect().await;
    for coding in [CompressionEncoding::Gzip, CompressionEncoding::Zstd] {
        let mut client = EncoderServiceClient::new(channel.clone())
            .send_compressed(coding)
            .accept_compressed(coding)
            .max_decoding_message_size(8 << 20);
        let id = "a sentence that is long enough to be worth compressing ".repeat(500);
        let request = GetEncoderRequest { id: id.clone() };
        let answer = client.get_encoder(request).await.unwrap();
        assert_eq!(answer.get_ref().encoder.as_ref().unwrap().id, id, "{coding:?}");
    }
    let before = resident();
    assert_eq!(
        status(&running, "GetEncoder", Some("gzip"), bomb(&gzip_of_zeros(512))).await,
        "8"
    );
    let grown = resident().saturating_sub(before);
    println!(
        "512 MiB in {} KiB of gzip: {} MiB",
        gzip_of_zeros(512).len() >> 10,
        grown >> 20
    );
    assert!(grown < 128 << 20, "memory grew by {grown} bytes");
    for (coding, body, expected) in [
        (Some("gzip"), bomb(b"not gzip at all"), "3"),
        (Some("br"), bomb(b"whatever"), "12"),
        (None, bomb(b"whatever"), "13"),
    ] {
        assert_eq!(
            status(&running, "GetEncoder", coding, body).await,
            expected,
            "{coding:?}"
        );
    }
}

#[tokio::test]
async fn an_answer_is_compressed_only_for_a_caller_that_takes_it() {
    let running = start(LimitsConfig::default()).await;
    let request = GetEncoderRequest {
        id: "words ".repeat(10_000),
    };
    for (accepted, shown) in [
        (None, None),
        (Some("br"), None),
        (Some("gzip"), Some("gzip")),
        (Some("gzip,zstd"), Some("zstd")),
    ] {
        let mut call = grpc()
            .post(running.url("/isomer.encoder.v1.EncoderService/GetEncoder"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(plain(&request.encode_to_vec()));
        if let Some(accepted) = accepted {
            call = call.header("grpc-accept-encoding", accepted);
        }
        let answer = call.send().await.unwrap();
        let coding = answer
            .headers()
            .get("grpc-encoding")
            .map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(coding.as_deref(), shown, "{accepted:?}");
        let body = answer.bytes().await.unwrap();
        if shown.is_some() {
            assert!(body[0] == 1 && body.len() < 5000, "{} bytes", body.len());
        } else {
            assert_eq!(body[0], 0);
            assert!(GetEncoderResponse::decode(&body[5..]).is_ok());
        }
    }
}

#[tokio::test]
async fn requests_in_flight_share_the_servers_memory() {
    let limits = LimitsConfig {
        max_message_bytes: 1 << 20,
        max_bytes_in_flight: 5 << 20,
        ..LimitsConfig::default()
    };
    let obedient = ScriptedEncoder::default();
    let config = ServerConfig {
        limits,
        ..ServerConfig::default()
    };
    let running = TestServer::start(services(&obedient), config).await;
    let channel = running.connect().await;
    let held = {
        let channel = channel.clone();
        // It reserves four times its size while it is processed.
        tokio::spawn(async move { get(&channel, format!("held:{}", "0".repeat(1_000_000))).await })
    };
    obedient.seen.begun(1).await;
    let refused = get(&channel, "x".repeat(500_000)).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    assert_eq!(get(&channel, "x").await.unwrap(), "x", "there is room for a small one");
    obedient.seen.release.notify_waiters();
    held.await.unwrap().unwrap();
    assert_eq!(
        get(&channel, "x".repeat(500_000)).await.unwrap().len(),
        500_000,
        "what was reserved came back"
    );
}
