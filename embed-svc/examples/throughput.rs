//! Sentences a second of a model folder on a file of texts, tokenisation included, through the
//! service: `cargo run --release -p isomer-embed --example throughput -- FOLDER FILE [ROUNDS
//! [f32|bf16|int8]]`.
#![allow(clippy::print_stdout)]

use std::{error::Error, time::Instant};

use isomer_embed::{EmbedConfig, EmbedService, device::Precision, services};
use isomer_models::{ModelsConfig, Resolver};
use isomer_proto::encoder::v1::{EncodeRequest, Input, encoder_service_client::EncoderServiceClient, input};
use isomer_service_kit::{limits::LimitsConfig, memory};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("give a model folder")?;
    let file = arguments.next().ok_or("give a file with a text on each line")?;
    let rounds: usize = arguments.next().map_or(Ok(5), |rounds| rounds.parse())?;
    let precision = match arguments.next().as_deref() {
        None | Some("f32") => Precision::F32,
        Some("bf16") => Precision::Bf16,
        Some("int8") => Precision::Int8,
        Some(other) => return Err(format!("precision `{other}`: give f32, bf16 or int8").into()),
    };
    let texts = std::fs::read_to_string(&file)?;
    let inputs: Vec<Input> = texts
        .lines()
        .map(|line| Input {
            input: Some(input::Input::Text(line.to_owned())),
        })
        .collect();

    let config = EmbedConfig {
        allow_paths: true,
        precision,
        ..EmbedConfig::default()
    };
    let service = EmbedService::new(
        config,
        Resolver::new(ModelsConfig {
            offline: true,
            ..ModelsConfig::default()
        })?,
    )?;
    let channel = memory::channel(services(service), &LimitsConfig::default()).await?;
    let mut client = EncoderServiceClient::new(channel).max_decoding_message_size(256 << 20);
    let mut request = EncodeRequest {
        encoder_id: folder,
        inputs: inputs[..1].to_vec(),
        ..EncodeRequest::default()
    };
    let started = Instant::now();
    client.encode(request.clone()).await?;
    println!("cold start {:.3} s", started.elapsed().as_secs_f64());

    request.inputs = inputs;
    let mut rates = Vec::new();
    for _ in 0..rounds {
        let started = Instant::now();
        let response = client.encode(request.clone()).await?.into_inner();
        let seconds = started.elapsed().as_secs_f64();
        let tokens = response.usage.map_or(0, |usage| usage.tokens);
        #[allow(clippy::cast_precision_loss)]
        let (texts, tokens) = (request.inputs.len() as f64, tokens as f64);
        println!("{:.1} texts/s, {:.0} tokens/s", texts / seconds, tokens / seconds);
        rates.push(texts / seconds);
    }
    rates.sort_by(f64::total_cmp);
    println!("median {:.1} texts/s", rates[rates.len() / 2]);
    if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
        status
            .lines()
            .filter(|line| line.starts_with("VmHWM") || line.starts_with("VmRSS"))
            .for_each(|line| println!("{line}"));
    }
    Ok(())
}
