//! The service in this process, from text to vector.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use clap::Args;
use isomer_embed::{EmbedConfig, EmbedService, device::Precision, services};
use isomer_models::{ModelsConfig, Resolver};
use isomer_proto::encoder::v1::{EncodeRequest, Input, encoder_service_client::EncoderServiceClient, input};
use isomer_service_kit::{GrpcChannel, limits::LimitsConfig, memory};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::{
    inputs::{Rng, compare, equal_bits},
    session::{Outcome, Session, Subject, round},
};

type Client = EncoderServiceClient<GrpcChannel>;
type VectorResult = Result<Vec<f32>, tonic::Status>;

/// A client of a service on the device. Candle's CPU device cannot be configured; our CPU engine
/// stands in for it.
async fn client(subject: &Subject<'_>, batch_tokens: usize) -> Result<Client, Box<dyn std::error::Error>> {
    let (device, precision) = if subject.on_candle_cpu() {
        ("cpu", Precision::F32)
    } else {
        (subject.device(), subject.precision)
    };
    let mut config = EmbedConfig {
        allow_paths: true,
        device: device.into(),
        precision,
        max_batch_tokens: batch_tokens,
        ..EmbedConfig::default()
    };
    config.max_queued_tokens = config.max_queued_tokens.max(batch_tokens * 8);
    let models = ModelsConfig {
        offline: true,
        ..ModelsConfig::default()
    };
    let service = EmbedService::new(config, Resolver::new(models)?)?;
    let channel = memory::channel(services(service), &LimitsConfig::default()).await?;
    Ok(EncoderServiceClient::new(channel)
        .max_decoding_message_size(256 << 20)
        .max_encoding_message_size(256 << 20))
}

async fn encode(mut client: Client, request: EncodeRequest) -> VectorResult {
    let matrix = client
        .encode(request)
        .await?
        .into_inner()
        .embeddings
        .unwrap_or_default();
    let values = matrix.data.as_chunks::<4>().0.iter();
    Ok(values.map(|bytes| f32::from_le_bytes(*bytes)).collect())
}

fn requests(subject: &Subject<'_>, tokens: usize, texts: usize, each: usize) -> Vec<EncodeRequest> {
    let mut rng = Rng(11);
    let inputs: Vec<Input> = (0..texts)
        .map(|_| {
            let words = if tokens == 15 {
                8 + rng.below(10)
            } else {
                tokens.saturating_sub(2)
            };
            Input {
                input: Some(input::Input::Text(rng.text(words))),
            }
        })
        .collect();
    let request = |inputs: &[Input]| EncodeRequest {
        encoder_id: subject.folder.display().to_string(),
        inputs: inputs.to_vec(),
        ..EncodeRequest::default()
    };
    inputs.chunks(each.max(1)).map(request).collect()
}

#[derive(Args)]
pub(crate) struct Throughput {
    /// Tokens of a text, about; 15 stands for 10 to 19.
    #[arg(long, default_value_t = 250)]
    tokens: usize,
    #[arg(long, default_value_t = 20_000)]
    texts: usize,
    /// Texts of a request.
    #[arg(long, default_value_t = 256)]
    each: usize,
    /// Requests in flight.
    #[arg(long, default_value_t = 16)]
    flight: usize,
    /// `embed.max_batch_tokens`.
    #[arg(long, default_value_t = 65_536)]
    batch_tokens: usize,
    /// Model folders.
    #[arg(required = true)]
    folders: Vec<PathBuf>,
}

impl Throughput {
    pub(crate) fn run(&self, session: &Session) -> bool {
        session.each(&self.folders, |subject| Runtime::new()?.block_on(self.measure(subject)))
    }

    async fn measure(&self, subject: &Subject<'_>) -> Outcome {
        let client = client(subject, self.batch_tokens).await?;
        let requests = Arc::new(requests(subject, self.tokens, self.texts, self.each));
        let started = Instant::now();
        encode(client.clone(), requests[0].clone()).await?;
        let cold = started.elapsed().as_secs_f64();
        let mut rates = Vec::new();
        for _ in 0..4 {
            let started = Instant::now();
            let next = Arc::new(AtomicUsize::new(0));
            let mut senders = tokio::task::JoinSet::new();
            for _ in 0..self.flight {
                let (client, requests, next) = (client.clone(), requests.clone(), next.clone());
                senders.spawn(async move {
                    while let Some(request) = requests.get(next.fetch_add(1, Ordering::Relaxed)) {
                        encode(client.clone(), request.clone()).await?;
                    }
                    Ok::<(), tonic::Status>(())
                });
            }
            while let Some(sent) = senders.join_next().await {
                sent??;
            }
            rates.push(self.texts as f64 / started.elapsed().as_secs_f64());
        }
        // The first round warms up.
        rates.remove(0);
        rates.sort_by(f64::total_cmp);
        subject.row(&json!({
            "tokens": self.tokens, "texts": self.texts, "each": self.each, "flight": self.flight,
            "batch_tokens": self.batch_tokens, "texts_s": round(rates[1], 1), "low": round(rates[0], 1),
            "high": round(rates[2], 1), "cold_s": round(cold, 2),
        }));
        Ok(())
    }
}

#[derive(Args)]
pub(crate) struct Cancel {
    /// Requests that are dropped.
    #[arg(long, default_value_t = 32)]
    requests: usize,
    /// Texts of each.
    #[arg(long, default_value_t = 1024)]
    each: usize,
    /// Milliseconds from the requests to their end.
    #[arg(long, default_value_t = 50)]
    after_ms: u64,
    /// Model folders.
    #[arg(required = true)]
    folders: Vec<PathBuf>,
}

impl Cancel {
    pub(crate) fn run(&self, session: &Session) -> bool {
        session.each(&self.folders, |subject| Runtime::new()?.block_on(self.measure(subject)))
    }

    async fn measure(&self, subject: &Subject<'_>) -> Outcome {
        let client = client(subject, 65_536).await?;
        let long = requests(subject, 250, self.requests * self.each, self.each);
        let short = requests(subject, 15, 4, 4).remove(0);
        // The first answer loads the model, the second is timed.
        encode(client.clone(), short.clone()).await?;
        let started = Instant::now();
        let expected = encode(client.clone(), short.clone()).await?;
        let idle = started.elapsed().as_secs_f64() * 1e3;
        let tasks: Vec<_> = long
            .into_iter()
            .map(|request| tokio::spawn(encode(client.clone(), request)))
            .collect();
        tokio::time::sleep(Duration::from_millis(self.after_ms)).await;
        let finished = tasks.iter().filter(|task| task.is_finished()).count();
        for task in &tasks {
            task.abort();
        }
        let started = Instant::now();
        let found = encode(client, short).await?;
        let next = started.elapsed().as_secs_f64() * 1e3;
        let (cosine, _) = compare(&found, &expected, found.len() / 4);
        let mut row = json!({
            "requests": self.requests, "finished": finished, "idle_ms": round(idle, 3), "next_ms": round(next, 3),
            "next_equal": equal_bits(&found, &expected),
        });
        if cosine.is_nan() || cosine < 0.9999 {
            row["error"] = json!(format!("the answer after dropped requests has cosine {cosine}"));
        }
        subject.row(&row);
        Ok(())
    }
}
