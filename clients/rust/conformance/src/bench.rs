//! Short texts through this client or the bare stub. See `clients/rust/bench/run`.

use std::fs;

use futures::{StreamExt, TryStreamExt, stream};
use isomer_client::{
    Client,
    proto::encoder::v1::{EncodeRequest, Input, encoder_service_client::EncoderServiceClient, input},
};
use serde_json::json;
use tokio::time::Instant;
use tonic::transport::{Channel, Endpoint};

use crate::BoxError;

const BATCH_ITEMS: usize = 256;
const IN_FLIGHT: usize = 4;
const COLUMNS: usize = 384;
/// Clock ticks of `/proc/self/stat` in a second, on every Linux.
const TICKS: f64 = 100.0;

/// The texts of clients/python/bench/speed.py.
fn texts(count: usize) -> Vec<String> {
    let words: Vec<&str> =
        "gardener watered roses before breakfast train lisbon cancelled storm cello evening river kitchen paint"
            .split(' ')
            .collect();
    let text = |number: usize| {
        let parts = [1, 3, 5, 7].map(|step| words[number * step % words.len()]);
        format!("{} {number}", parts.join(" "))
    };
    (0..count).map(text).collect()
}

enum Target {
    Client(Client),
    Stub(EncoderServiceClient<Channel>),
}

impl Target {
    async fn encode(&self, texts: &[String]) -> Result<Vec<u8>, BoxError> {
        match self {
            Self::Client(client) => Ok(client.encode(texts, "wide").await?.bytes().to_vec()),
            Self::Stub(stub) => {
                let answers = stream::iter(texts.chunks(BATCH_ITEMS)).map(|texts| {
                    let mut stub = stub.clone();
                    let inputs = texts.iter().map(|text| Input {
                        input: Some(input::Input::Text(text.clone())),
                    });
                    let request = EncodeRequest {
                        encoder_id: "wide".to_owned(),
                        inputs: inputs.collect(),
                        ..EncodeRequest::default()
                    };
                    async move { stub.encode(request).await }
                });
                let mut answers = answers.buffered(IN_FLIGHT);
                let mut joined = Vec::with_capacity(size_of::<f32>() * COLUMNS * texts.len());
                while let Some(answer) = answers.try_next().await? {
                    joined.extend_from_slice(&answer.into_inner().embeddings.unwrap_or_default().data);
                }
                // The client's copy out of its answer, here as well.
                Ok(joined.clone())
            }
        }
    }
}

/// CPU seconds and the most memory of this process.
fn used() -> Result<(f64, u64), BoxError> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // After the name, which may hold anything: utime and stime are the 12th and 13th.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
    let status = fs::read_to_string("/proc/self/status")?;
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap_or_default();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse()?;
    Ok((ticks / TICKS, peak * 1024))
}

pub(crate) async fn run(way: &str, address: &str, count: usize) -> Result<(), BoxError> {
    let way = match way {
        "client" => {
            let builder = Client::builder(address).batch_items(BATCH_ITEMS).in_flight(IN_FLIGHT);
            Target::Client(builder.build()?)
        }
        _ => {
            let channel = Endpoint::from_shared(format!("http://{address}"))?.connect().await?;
            Target::Stub(EncoderServiceClient::new(channel).max_decoding_message_size(usize::MAX))
        }
    };
    let texts = texts(count);
    way.encode(&texts[..BATCH_ITEMS.min(count)]).await?;
    // CPU time is counted in hundredths of a second: several times through the texts.
    const TIMES: u32 = 10;
    let (before, _) = used()?;
    let started = Instant::now();
    let mut vectors = Vec::new();
    for _ in 0..TIMES {
        vectors = way.encode(&texts).await?;
    }
    let took = started.elapsed().as_secs_f64() / f64::from(TIMES);
    let (after, peak) = used()?;
    let floats = vectors
        .as_chunks()
        .0
        .iter()
        .map(|number| f64::from(f32::from_le_bytes(*number)));
    let sum: f64 = floats.sum();
    let measurements = json!({ "seconds": took, "cpu": (after - before) / f64::from(TIMES), "peak": peak, "sum": sum });
    #[allow(clippy::print_stdout)] // what the harness reads
    {
        println!("{measurements}");
    }
    Ok(())
}
