use std::io::Write;

use axum::{Router, extract::Request, routing::post};
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use futures::{StreamExt, stream};
use isomer_proto::encoder::v1::encoder_service_server::EncoderServiceServer;
use isomer_service_kit::{LimitsConfig, Services, server::ServerConfig};
use tonic::codec::CompressionEncoding;

use super::resident;
use crate::support::{ScriptedEncoder, TestServer, get, http};

pub(crate) const MOST: usize = 1 << 20;
const PATH: &str = "/isomer.encoder.v1.EncoderService/GetEncoder";

pub(crate) async fn start() -> TestServer {
    let server = EncoderServiceServer::new(ScriptedEncoder::default())
        .max_decoding_message_size(MOST)
        .accept_compressed(CompressionEncoding::Gzip)
        .accept_compressed(CompressionEncoding::Zstd);
    // One route reads with axum's extractor; the handler of the other reads the body to its end.
    let routes = Router::new()
        .route("/extracts", post(|body: Bytes| async move { body.len().to_string() }))
        .route(
            "/reads",
            post(|request: Request| async move {
                let mut frames = request.into_body().into_data_stream();
                let mut bytes = 0;
                while let Some(frame) = frames.next().await {
                    match frame {
                        Ok(frame) => bytes += frame.len(),
                        Err(error) => return format!("{bytes}, then {error}"),
                    }
                }
                format!("{bytes}")
            }),
        );
    let limits = LimitsConfig {
        max_message_bytes: MOST,
        ..LimitsConfig::default()
    };
    let config = ServerConfig {
        limits,
        ..ServerConfig::default()
    };
    TestServer::start(Services::new().add(server).http(routes), config).await
}

/// A body of 64 MB that does not declare its length.
fn endless() -> reqwest::Body {
    let chunk = Bytes::from(vec![b'x'; 1 << 16]);
    reqwest::Body::wrap_stream(stream::iter(
        (0..1 << 10).map(move |_| Ok::<_, std::io::Error>(chunk.clone())),
    ))
}

pub(crate) fn grpc() -> reqwest::Client {
    isomer_service_kit::tls::install_crypto();
    reqwest::Client::builder().http2_prior_knowledge().build().unwrap()
}

#[tokio::test]
async fn sixty_four_megabytes_are_refused_on_every_route() {
    let running = start().await;
    for path in ["/extracts", "/reads"] {
        let told = http().post(running.url(path)).body(vec![b'x'; 64 << 20]).send().await;
        // The server responds before it has read everything; a client that is still sending may see
        // the connection close instead.
        if let Ok(answer) = told {
            assert_eq!(answer.status(), 413, "{path}");
        }
        if let Ok(answer) = http().post(running.url(path)).body(endless()).send().await {
            let status = answer.status();
            let text = answer.text().await.unwrap_or_default();
            assert!(status == 413 || text.contains("larger than"), "{path}: {status} {text}");
        }
        let fits = http()
            .post(running.url(path))
            .body(vec![b'x'; MOST])
            .send()
            .await
            .unwrap();
        assert_eq!(fits.text().await.unwrap(), MOST.to_string(), "{path}");
    }
    let channel = running.connect().await;
    let status = get(&channel, "x".repeat(64 << 20)).await.unwrap_err();
    assert!(
        matches!(
            status.code(),
            tonic::Code::OutOfRange | tonic::Code::ResourceExhausted | tonic::Code::Cancelled | tonic::Code::Unknown
        ),
        "{status}"
    );
    assert_eq!(get(&channel, "x").await.unwrap(), "x", "the same connection goes on");
}

/// A gRPC message with the flag for compression set.
pub(crate) fn bomb(compressed: &[u8]) -> Vec<u8> {
    let mut frame = vec![1];
    frame.extend_from_slice(&u32::try_from(compressed.len()).unwrap().to_be_bytes());
    frame.extend_from_slice(compressed);
    frame
}

pub(crate) fn gzip_of_zeros(megabytes: usize) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let zeros = vec![0; 1 << 20];
    (0..megabytes).for_each(|_| encoder.write_all(&zeros).unwrap());
    encoder.finish().unwrap()
}

#[tokio::test]
async fn a_gzip_bomb_goes_off_at_the_message_limit() {
    let running = start().await;
    let compressed = gzip_of_zeros(512);
    assert!(compressed.len() < MOST, "what travels is small: {}", compressed.len());
    let before = resident();
    for _ in 0..4 {
        let request = grpc()
            .post(running.url(PATH))
            .header("content-type", "application/grpc")
            .header("grpc-encoding", "gzip")
            .header("te", "trailers")
            .body(bomb(&compressed));
        let answer = request.send().await.unwrap();
        let status = answer
            .headers()
            .get("grpc-status")
            .expect("a refusal without a message")
            .to_str()
            .unwrap();
        assert!(
            status == "8" || status == "11",
            "RESOURCE_EXHAUSTED or OUT_OF_RANGE, not {status}"
        );
    }
    let grown = resident().saturating_sub(before);
    assert!(
        grown < 128 << 20,
        "512 MB each were sent, and memory grew by {grown} bytes"
    );
    // A message that only claims to be compressed, and one in a coding that is not supported.
    for (coding, body) in [("gzip", bomb(b"not gzip at all")), ("snappy", bomb(b"whatever"))] {
        let request = grpc()
            .post(running.url(PATH))
            .header("content-type", "application/grpc");
        let request = request.header("grpc-encoding", coding).body(body);
        let answer = request.send().await.unwrap();
        assert_ne!(answer.headers().get("grpc-status").unwrap(), "0", "{coding}");
    }
}

#[tokio::test]
async fn compressed_http_is_refused_and_not_undone() {
    let running = start().await;
    for coding in ["gzip", "br", "deflate, gzip", "x"] {
        let request = http().post(running.url("/extracts")).header("content-encoding", coding);
        let answer = request.body(gzip_of_zeros(1)).send().await.unwrap();
        assert_eq!(answer.status(), 415, "{coding}");
        assert!(answer.text().await.unwrap().contains("content-encoding"));
    }
    let plain = http()
        .post(running.url("/extracts"))
        .header("content-encoding", "identity");
    assert_eq!(plain.body("abc").send().await.unwrap().text().await.unwrap(), "3");
}
