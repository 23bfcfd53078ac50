//! Texts a second, latency and memory of a model.

use std::{
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use clap::Args;
use isomer_embed::{EmbedError, batch::Sequence, model::Model};
use serde_json::{Value, json};

use crate::{
    inputs::{Rng, batch},
    session::{Session, Subject, first_line, round},
};

#[derive(Args)]
pub(crate) struct Speed {
    /// Tokens of a text, separated by commas; 15 stands for 9 to 20.
    #[arg(long, value_delimiter = ',', default_value = "15,250")]
    tokens: Vec<usize>,
    /// Tokens of a batch, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "65536")]
    batch_tokens: Vec<usize>,
    /// Least duration of a round; 0: one batch.
    #[arg(long, default_value_t = 0.5)]
    seconds: f64,
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Turns profiling on after two batches, for `ncu --profile-from-start off`.
    #[arg(long)]
    profile: bool,
    /// Model folders.
    #[arg(required = true)]
    folders: Vec<PathBuf>,
}

impl Speed {
    pub(crate) fn run(&self, session: &Session) -> bool {
        session.each(&self.folders, |subject| {
            let started = Instant::now();
            let model = subject.load()?;
            let load = started.elapsed().as_secs_f64();
            for &tokens in &self.tokens {
                for &batch_tokens in &self.batch_tokens {
                    let texts: Vec<Sequence> = batch(&model, tokens, batch_tokens)
                        .into_iter()
                        .map(Sequence::from)
                        .collect();
                    let mut row = json!({"tokens": tokens, "batch_tokens": batch_tokens, "texts": texts.len()});
                    match self.measure(&model, &texts) {
                        Ok(speed) => {
                            row["texts_s"] = json!(round(speed.rates[speed.rates.len() / 2], 1));
                            row["low"] = json!(round(speed.rates[0], 1));
                            row["high"] = json!(round(speed.rates[speed.rates.len() - 1], 1));
                            row["submit_ms"] = json!(round(speed.submit_ms, 2));
                            row["first_s"] = json!(round(speed.first, 3));
                            row["load_s"] = json!(round(load, 2));
                        }
                        // The next batch shows whether the device still works.
                        Err(error) => row["error"] = json!(first_line(&error.to_string())),
                    }
                    subject.row(&row);
                }
            }
            Ok(())
        })
    }

    fn measure(&self, model: &Model, texts: &[Sequence]) -> Result<Rates, EmbedError> {
        let started = Instant::now();
        model.encode_sequences(texts.iter())?;
        let first = started.elapsed().as_secs_f64();
        model.encode_sequences(texts.iter())?;
        if self.profile {
            start_profile();
        }
        let (mut rates, mut submit, mut batches) = (Vec::new(), 0.0, 0u32);
        for _ in 0..self.rounds.max(1) {
            let round = Instant::now();
            let mut done = 0;
            while done == 0 || round.elapsed().as_secs_f64() < self.seconds {
                let started = Instant::now();
                let mut launched = Duration::ZERO;
                model.encode_launching(texts.iter(), &mut || launched = started.elapsed(), &|| ())?;
                submit += launched.as_secs_f64() * 1e3;
                batches += 1;
                done += texts.len();
            }
            rates.push(done as f64 / round.elapsed().as_secs_f64());
        }
        rates.sort_by(f64::total_cmp);
        Ok(Rates {
            rates,
            first,
            submit_ms: submit / f64::from(batches),
        })
    }
}

fn start_profile() {
    #[cfg(feature = "cuda")]
    if let Err(error) = candle_core::cuda_backend::cudarc::driver::profiler_start() {
        eprintln!("profiling cannot start: {error:?}");
    }
}

/// Rates of the rounds of one kind of batch.
struct Rates {
    /// Texts a second of each round, ascending.
    rates: Vec<f64>,
    /// Seconds of the first batch.
    first: f64,
    /// Mean milliseconds until a batch was submitted.
    submit_ms: f64,
}

#[derive(Args)]
pub(crate) struct Latency {
    #[arg(long, default_value_t = 300)]
    calls: usize,
    /// Model folders.
    #[arg(required = true)]
    folders: Vec<PathBuf>,
}

impl Latency {
    pub(crate) fn run(&self, session: &Session) -> bool {
        session.each(&self.folders, |subject| {
            let model = subject.load()?;
            let text = [Rng(5).ids(&model, 15)];
            for _ in 0..20 {
                model.encode(&text)?;
            }
            let mut times = Vec::new();
            for _ in 0..self.calls.max(1) {
                let started = Instant::now();
                model.encode(&text)?;
                times.push(started.elapsed().as_secs_f64() * 1e3);
            }
            times.sort_by(f64::total_cmp);
            let percentile = |percent: usize| round(times[(times.len() - 1) * percent / 100], 3);
            subject.row(&json!({"tokens": 15, "p50_ms": percentile(50), "p99_ms": percentile(99)}));
            Ok(())
        })
    }
}

#[derive(Args)]
pub(crate) struct Memory {
    /// Batches of 64 texts of 1 to 250 tokens.
    #[arg(long, default_value_t = 240)]
    batches: usize,
    /// Model folders.
    #[arg(required = true)]
    folders: Vec<PathBuf>,
}

impl Memory {
    pub(crate) fn run(&self, session: &Session) -> bool {
        session.each(&self.folders, |subject| {
            let mut row = self.life(subject)?;
            std::thread::sleep(Duration::from_secs(1));
            row["closed_mib"] = json!(used_mib());
            subject.row(&row);
            Ok(())
        })
    }

    /// Opens the device, loads the model, runs batches, and drops both.
    fn life(&self, subject: &Subject<'_>) -> Result<Value, EmbedError> {
        let before = used_mib();
        let device = subject.open()?;
        let opened = used_mib();
        let model = Model::load(subject.folder, &device)?;
        let loaded = used_mib();
        let mut rng = Rng(5);
        let mut running = Vec::new();
        for number in 1..=self.batches {
            let texts: Vec<Vec<u32>> = (0..64)
                .map(|_| {
                    let length = (1 + rng.below(250)).min(model.max_tokens());
                    rng.ids(&model, length)
                })
                .collect();
            model.encode(&texts)?;
            if number % self.batches.div_ceil(4) == 0 {
                running.push(used_mib());
            }
        }
        drop(model);
        Ok(json!({
            "before_mib": before, "opened_mib": opened, "loaded_mib": loaded, "running_mib": running,
            "dropped_mib": used_mib(),
        }))
    }
}

/// Used memory of the first GPU by `nvidia-smi`; -1 where that is missing.
fn used_mib() -> i64 {
    let output = Command::new("nvidia-smi")
        .args(["--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"])
        .output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.ok().and_then(|text| text.parse().ok()).unwrap_or(-1)
}
