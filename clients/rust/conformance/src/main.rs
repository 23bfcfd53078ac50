//! Runs the cases of `clients/conformance` with this client (`CASES RESULTS`), or encodes short
//! texts for `clients/rust/bench/run` (`bench client|stub ADDRESS COUNT`).

mod bench;
mod case;
mod steps;

use std::{collections::HashMap, error::Error as StdError, fs, sync::Arc, time::Duration};

use isomer_client::{Client, Error, Tls, Token};
use opentelemetry::{
    propagation::{Extractor, TextMapPropagator},
    trace::TracerProvider,
};
use opentelemetry_sdk::{propagation::TraceContextPropagator, trace::SdkTracerProvider};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tracing::Instrument;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::layer::SubscriberExt;

use case::{Case, Connect, Step, code_name};
use steps::Runner;

type BoxError = Box<dyn StdError + Send + Sync>;

const MOST_OF_A_CASE: Duration = Duration::from_secs(120);

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["bench", way, address, count] => bench::run(way, address, count.parse()?).await,
        [cases, results] => conformance(cases, results).await,
        _ => Err("usage: isomer-rust-conformance CASES RESULTS | bench client|stub ADDRESS COUNT".into()),
    }
}

async fn conformance(cases: &str, results: &str) -> Result<(), BoxError> {
    let traces = SdkTracerProvider::builder().build();
    let layer = tracing_opentelemetry::layer().with_tracer(traces.tracer("conformance"));
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer))?;
    let mut cases: Value = serde_json::from_str(&fs::read_to_string(cases)?)?;
    let cases: Vec<Case> = serde_json::from_value(cases["cases"].take())?;
    let mut found = HashMap::new();
    for case in cases {
        let span = tracing::info_span!("case");
        if let Some(traceparent) = &case.connect.traceparent {
            let parent = TraceContextPropagator::new().extract(&Traceparent(traceparent));
            span.set_parent(parent)?;
        }
        let id = case.id.clone();
        // A task, so that a defect of the client's does not end the others.
        let ran = tokio::spawn(run(case).instrument(span)).await;
        found.insert(id, ran.unwrap_or_else(|error| json!({ "failed": error.to_string() })));
    }
    let client = json!({ "name": "isomer-client-rust", "version": isomer_client::VERSION });
    fs::write(results, json!({ "client": client, "results": found }).to_string())?;
    Ok(())
}

struct Traceparent<'a>(&'a str);

impl Extractor for Traceparent<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        (key == "traceparent").then_some(self.0)
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent"]
    }
}

fn client(connect: &Connect, asked: &Arc<Mutex<usize>>) -> Result<Client, Error> {
    let mut builder = Client::builder(&connect.address);
    for (name, value) in &connect.metadata {
        builder = builder.metadata(name, value);
    }
    if let Some(key) = &connect.key {
        builder = builder.key(key);
    }
    if !connect.tokens.is_empty() {
        let (tokens, asked) = (connect.tokens.clone(), Arc::clone(asked));
        builder = builder.tokens(move || {
            let mut asked = asked.lock();
            *asked += 1;
            let token = tokens.get(*asked - 1).or(tokens.last()).cloned().unwrap_or_default();
            async { Ok(Token::new(token)) }
        });
    }
    if connect.ca_file.is_some() || connect.certificate_file.is_some() {
        builder = builder.tls(Tls {
            ca_file: connect.ca_file.clone(),
            certificate_file: connect.certificate_file.clone(),
            key_file: connect.key_file.clone(),
            server_name: None,
        });
    }
    if let Some(count) = connect.in_flight {
        builder = builder.in_flight(count);
    }
    if let Some(items) = connect.batch_items {
        builder = builder.batch_items(items);
    }
    if let Some(bytes) = connect.batch_bytes {
        builder = builder.batch_bytes(bytes);
    }
    if let Some(millis) = connect.timeout_ms {
        builder = builder.timeout(Duration::from_millis(millis));
    }
    builder.build()
}

async fn run(case: Case) -> Value {
    if case.steps.iter().any(|step| step.op == "fork") {
        return json!({ "skipped": "a Rust program with tokio does not fork: the runtime's threads would not be in the child" });
    }
    let asked = Arc::new(Mutex::new(0));
    let mut runner = None;
    let mut results = Vec::new();
    for step in &case.steps {
        let started = Instant::now();
        let done = async {
            if runner.is_none() {
                let made = client(&case.connect, &asked)?.within(MOST_OF_A_CASE);
                runner = Some(Runner::new(made, &case.connect.address));
            }
            match &runner {
                Some(runner) => bounded(runner, step).await,
                None => Err("there is no client".into()),
            }
        };
        let mut result = match done.await {
            Ok(Some(value)) => json!({ "ok": value }),
            // A dropped future returns no error, so this message is all there is to report.
            Ok(None) => json!({ "error": { "code": "CANCELLED", "message": "the future was dropped" } }),
            Err(error) => match error.downcast::<Error>() {
                Ok(error) => json!({ "error": described(&error) }),
                Err(other) => return json!({ "failed": other.to_string() }),
            },
        };
        result["elapsed_ms"] = json!(u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX));
        if !case.connect.tokens.is_empty() {
            result["tokens_asked"] = json!(*asked.lock());
        }
        results.push(result);
    }
    json!({ "steps": results })
}

/// The step, within its time; nothing where its future was dropped before.
async fn bounded(runner: &Runner, step: &Step) -> Result<Option<Value>, BoxError> {
    let runner = match step.timeout_ms {
        Some(millis) => &runner.within(Duration::from_millis(millis)),
        None => runner,
    };
    let work = runner.step(step);
    let Some(millis) = step.cancel_after_ms else {
        return work.await.map(Some);
    };
    tokio::select! {
        done = work => done.map(Some),
        () = sleep(Duration::from_millis(millis)) => Ok(None),
    }
}

fn described(error: &Error) -> Value {
    let failure = error.failure();
    json!({
        "code": code_name(failure.code()),
        "reason": failure.reason(),
        "field": failure.field(),
        "hint": failure.hint(),
        "message": failure.message(),
        "shown": error.to_string(),
        "metadata": failure.metadata(),
        "too_old": matches!(error, Error::ClientTooOld(_)),
        "retry_after_s": failure.retry_after().map(|after| after.as_secs_f64()),
    })
}
