//! Fetches models by id into the cache: `cargo run -p isomer-models --example pull -- ID…`. With
//! `verify` as the first argument it verifies the cached models instead.

#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::time::{Duration, Instant};

use isomer_models::{ModelError, ModelsConfig, Progress, Resolver};
use parking_lot::Mutex;

struct Lines(Mutex<(String, Instant)>);

impl Progress for Lines {
    fn update(&self, what: &str, done: u64, total: Option<u64>) {
        let mut last = self.0.lock();
        if last.0 == what && last.1.elapsed() < Duration::from_secs(2) {
            return;
        }
        *last = (what.to_owned(), Instant::now());
        match total {
            Some(total) => eprintln!("  {what}: {} of {} MB", done / 1_000_000, total / 1_000_000),
            None => eprintln!("  {what}"),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), ModelError> {
    let resolver = Resolver::new(ModelsConfig::default())?;
    let progress = Lines(Mutex::new((String::new(), Instant::now())));
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "verify") {
        for report in resolver.verify_with(words.get(1).map(String::as_str), &progress).await {
            println!("{:<30} {:?}", report.id, report.state);
        }
        return Ok(());
    }
    for id in &words {
        let started = Instant::now();
        let model = resolver.pull(id, None, &progress).await?;
        println!(
            "{id}: {} ({}, {:.1?})\n  sha256 {}",
            model.path.display(),
            model.source,
            started.elapsed(),
            model.weights_digest
        );
    }
    for status in resolver.list() {
        println!(
            "{:<30} {:<10} {:>5} MB  {:<20} {:<8} {}",
            status.id,
            status.kind,
            status.bytes / 1_000_000,
            status.licence,
            status.state,
            status.source
        );
    }
    Ok(())
}
