//! Puts a load on a server over a given number of connections.

use std::{
    collections::BTreeMap,
    thread,
    time::{Duration, Instant},
};

use axum::body::{Body, Bytes, to_bytes};
use base64::{Engine, prelude::BASE64_STANDARD};
use clap::Args;
use http::{Request, Uri, header};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use isomer_proto::encoder::v1::{EncodeRequest, Input, encoder_service_client::EncoderServiceClient, input};
use serde_json::{Value, json};
use tokio::{
    net::TcpStream,
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
};
use tonic::transport::{Channel, Endpoint};

use crate::vectors;

/// Distinct texts to choose from. More texts than the measured caches keep would measure something
/// else.
const TEXTS: u64 = 4096;
const LARGEST_ANSWER: usize = 1 << 20;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Address of `/v1/embeddings`.
    #[arg(long, required_unless_present = "grpc", conflicts_with = "grpc")]
    http: Option<Uri>,
    /// Address of an `EncoderService`.
    #[arg(long)]
    grpc: Option<Uri>,
    #[arg(long)]
    model: String,
    /// Sent as `authorization: Bearer KEY`.
    #[arg(long)]
    key: Option<String>,
    #[arg(long, default_value_t = 64)]
    connections: u64,
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Seconds of load before the measurement.
    #[arg(long, default_value_t = 1.0)]
    warm_up: f64,
    /// Requests per second over all connections; absent: as many as are answered.
    #[arg(long)]
    rate: Option<f64>,
    /// `float` or `base64`; over HTTP only.
    #[arg(long, default_value = "float")]
    encoding_format: String,
    /// The vectors come from a model rather than from `upstream`: only their number is checked.
    #[arg(long)]
    any_vectors: bool,
}

/// Measurements of one connection.
#[derive(Default)]
struct Measurements {
    /// In microseconds.
    latencies: Vec<u32>,
    failures: BTreeMap<String, u64>,
    wrong: u64,
}

enum Asker {
    Http(SendRequest<Body>, Uri),
    Grpc(EncoderServiceClient<Channel>),
}

pub(crate) async fn run(options: Box<Options>) -> Value {
    let options: &'static Options = Box::leak(options);
    let start = Instant::now() + Duration::from_millis(200);
    let begin = start + Duration::from_secs_f64(options.warm_up);
    let end = begin + Duration::from_secs_f64(options.seconds);
    let starts: Vec<_> = match options.rate {
        Some(rate) => paced(options.connections, rate, start, end)
            .into_iter()
            .map(Some)
            .collect(),
        None => (0..options.connections).map(|_| None).collect(),
    };
    let tasks: Vec<_> = (0_u64..)
        .zip(starts)
        .map(|(connection, starts)| tokio::spawn(one(options, connection, starts, begin, end)))
        .collect();
    let mut all = Measurements::default();
    for task in tasks {
        let seen = task.await.expect("a connection's task ends");
        all.latencies.extend(seen.latencies);
        all.wrong += seen.wrong;
        for (what, count) in seen.failures {
            *all.failures.entry(what).or_default() += count;
        }
    }
    all.latencies.sort_unstable();
    let at = |share: f64| {
        let place = (share * all.latencies.len() as f64) as usize;
        let found = all.latencies.get(place.min(all.latencies.len().saturating_sub(1)));
        found.map(|micros| f64::from(*micros) / 1000.0)
    };
    json!({
        "requests_per_second": all.latencies.len() as f64 / options.seconds,
        "requests": all.latencies.len(),
        "p50_ms": at(0.5), "p90_ms": at(0.9), "p99_ms": at(0.99), "p999_ms": at(0.999),
        "failures": all.failures,
        "wrong": all.wrong,
    })
}

/// The times at which each connection's requests are due: connections take turns, evenly spaced. A
/// separate thread keeps the time, because Tokio's timers round up to milliseconds, which would
/// send requests in bursts.
fn paced(connections: u64, rate: f64, start: Instant, end: Instant) -> Vec<UnboundedReceiver<Instant>> {
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..connections).map(|_| unbounded_channel()).unzip();
    thread::spawn(move || {
        for (number, sender) in (0_u64..).zip(senders.iter().cycle()) {
            let due = start + Duration::from_secs_f64(number as f64 / rate);
            if due >= end {
                break;
            }
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let _ = sender.send(due);
        }
    });
    receivers
}

async fn one(
    options: &Options,
    connection: u64,
    mut starts: Option<UnboundedReceiver<Instant>>,
    begin: Instant,
    end: Instant,
) -> Measurements {
    let mut asker = Asker::connect(options).await;
    let mut seen = Measurements::default();
    for number in 0_u64.. {
        let due = match &mut starts {
            None => Instant::now(),
            Some(starts) => match starts.recv().await {
                Some(due) => due,
                None => break,
            },
        };
        if due >= end {
            break;
        }
        let text = format!(
            "The committee met in room {}.",
            (number * 131 + connection * 61) % TEXTS
        );
        let outcome = asker.ask(options, &text).await;
        if due < begin {
            if matches!(outcome, Ok(false)) {
                seen.wrong += 1;
            }
            continue;
        }
        match outcome {
            Ok(right) => {
                seen.latencies.push(due.elapsed().as_micros() as u32);
                seen.wrong += u64::from(!right);
            }
            Err(what) => {
                *seen.failures.entry(what).or_default() += 1;
                asker = Asker::connect(options).await;
            }
        }
    }
    seen
}

impl Asker {
    async fn connect(options: &Options) -> Self {
        if let Some(address) = &options.grpc {
            let channel = Endpoint::from(address.clone())
                .connect()
                .await
                .expect("the server is there");
            return Self::Grpc(EncoderServiceClient::new(channel));
        }
        let address = options.http.clone().expect("clap asks for it");
        let authority = address.authority().expect("an address with a host").as_str();
        let stream = TcpStream::connect(authority).await.expect("the server is there");
        stream.set_nodelay(true).expect("a socket");
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("HTTP/1.1");
        tokio::spawn(connection);
        Self::Http(sender, address)
    }

    /// Whether the vector is right, or a word for the failure.
    async fn ask(&mut self, options: &Options, text: &str) -> Result<bool, String> {
        match self {
            Self::Grpc(client) => {
                let request = EncodeRequest {
                    encoder_id: options.model.clone(),
                    inputs: vec![Input {
                        input: Some(input::Input::Text(text.to_owned())),
                    }],
                    ..EncodeRequest::default()
                };
                let answer = client
                    .encode(request)
                    .await
                    .map_err(|status| format!("{:?}", status.code()))?;
                let matrix = answer.into_inner().embeddings.unwrap_or_default();
                Ok(if options.any_vectors {
                    matrix.rows == 1
                } else {
                    matrix.data == vectors::bytes(text)
                })
            }
            Self::Http(sender, address) => {
                let body = json!({"model": options.model, "input": text, "encoding_format": options.encoding_format});
                let mut request = Request::post(address.path())
                    .header(
                        header::HOST,
                        address.authority().map_or("", |authority| authority.as_str()),
                    )
                    .header(header::CONTENT_TYPE, "application/json");
                if let Some(key) = &options.key {
                    request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
                }
                let request = request.body(Body::from(body.to_string())).expect("a request");
                sender.ready().await.map_err(|_| "closed".to_owned())?;
                let answer = sender.send_request(request).await.map_err(|_| "no answer".to_owned())?;
                let status = answer.status();
                let body = to_bytes(Body::new(answer.into_body()), LARGEST_ANSWER).await;
                let body = body.map_err(|_| "cut short".to_owned())?;
                if !status.is_success() {
                    return Err(status.as_u16().to_string());
                }
                Ok(is_right(options, &body, text))
            }
        }
    }
}

/// Only the first element is compared, which shows whose vector it is: parsing every answer in full
/// would measure the client.
fn is_right(options: &Options, body: &Bytes, text: &str) -> bool {
    let Ok(body) = std::str::from_utf8(body) else {
        return false;
    };
    if options.any_vectors {
        return body.contains("\"embedding\"");
    }
    if options.encoding_format == "base64" {
        return body.contains(&BASE64_STANDARD.encode(vectors::bytes(text)));
    }
    let first = body
        .split_once("\"embedding\":")
        .and_then(|(_, rest)| rest.trim_start_matches([' ', '[', '\n']).split(',').next())
        .and_then(|first| first.trim().parse::<f32>().ok());
    first == vectors::of(text).first().copied()
}
