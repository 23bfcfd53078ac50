//! The spans that a process exports, written as text so that a test can compare all of their
//! content.

use std::{
    collections::HashMap,
    fmt::Write,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use isomer_service_kit::telemetry::{self, TelemetryConfig, TelemetryGuard};
use opentelemetry::{
    Context, Value,
    trace::{SpanId, SpanKind, Status},
};
use opentelemetry_sdk::{
    error::OTelSdkResult,
    trace::{InMemorySpanExporter, SdkTracerProvider, Span, SpanData, SpanProcessor},
};

/// Minimum time without open or exported spans, after which all spans count as received.
const QUIET: Duration = Duration::from_millis(150);
const PATIENCE: Duration = Duration::from_secs(60);

/// The spans that this process exports. Install it once.
pub struct Spans {
    exporter: InMemorySpanExporter,
    open: OpenSpans,
    _guard: TelemetryGuard,
}

/// Counts spans that have started and not ended.
#[derive(Debug, Clone, Default)]
struct OpenSpans(Arc<AtomicUsize>);

impl SpanProcessor for OpenSpans {
    fn on_start(&self, _: &mut Span, _: &Context) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    // The exporter has already been called, because processors are called in order.
    fn on_end(&self, _: SpanData) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

impl Spans {
    pub fn install() -> Self {
        let exporter = InMemorySpanExporter::default();
        let open = OpenSpans::default();
        let provider = SdkTracerProvider::builder()
            .with_simple_exporter(exporter.clone())
            .with_span_processor(open.clone());
        // Traces do not depend on the log filter.
        let config = TelemetryConfig {
            filter: "off".to_owned(),
            ..TelemetryConfig::default()
        };
        let guard = telemetry::init_with("test", &config, provider).unwrap();
        Self {
            exporter,
            open,
            _guard: guard,
        }
    }

    /// The spans that are exported during some work: one block of lines for each span, sorted by
    /// name and kind.
    pub async fn of<T>(&self, work: impl Future<Output = T>) -> (T, String) {
        self.exporter.reset();
        let done = work.await;
        let begun = tokio::time::Instant::now();
        let exported = || self.exporter.get_finished_spans().unwrap().len();
        let mut count = exported();
        while begun.elapsed() < PATIENCE {
            tokio::time::sleep(QUIET).await;
            let now = exported();
            // All work produces at least one span, except work that has none by design.
            if now == count && self.open.0.load(Ordering::SeqCst) == 0 {
                break;
            }
            count = now;
        }
        (done, written(&self.exporter.get_finished_spans().unwrap()))
    }
}

fn written(spans: &[SpanData]) -> String {
    let by_id: HashMap<SpanId, &SpanData> = spans.iter().map(|span| (span.span_context.span_id(), span)).collect();
    let traces: std::collections::HashSet<_> = spans.iter().map(|span| span.span_context.trace_id()).collect();
    let mut blocks: Vec<String> = spans.iter().map(|span| block(span, &by_id)).collect();
    blocks.sort();
    let mut text = blocks.concat();
    if traces.len() > 1 {
        let _ = writeln!(text, "({} traces)", traces.len());
    }
    text
}

fn block(span: &SpanData, by_id: &HashMap<SpanId, &SpanData>) -> String {
    let parent = match by_id.get(&span.parent_span_id) {
        Some(parent) => format!(" in {} {}", kind(parent), parent.name),
        None if span.parent_span_id == SpanId::INVALID => String::new(),
        None => " in another process".to_owned(),
    };
    let mut text = format!("{} {}{parent}", kind(span), span.name);
    match &span.status {
        Status::Unset => {}
        Status::Ok => text.push_str(" OK"),
        Status::Error { description } => {
            let _ = write!(text, " ERROR{description}");
        }
    }
    text.push('\n');
    let mut attributes: Vec<String> = span
        .attributes
        .iter()
        .map(|attribute| {
            format!(
                "  {} = {}\n",
                attribute.key,
                value(attribute.key.as_str(), &attribute.value)
            )
        })
        .collect();
    attributes.sort();
    text.push_str(&attributes.concat());
    for event in span.events.iter() {
        let _ = writeln!(text, "  event {}", event.name);
    }
    for link in span.links.iter() {
        let _ = writeln!(text, "  link {}", link.span_context.span_id());
    }
    text
}

fn kind(span: &SpanData) -> &'static str {
    match span.span_kind {
        SpanKind::Client => "CLIENT",
        SpanKind::Server => "SERVER",
        SpanKind::Producer => "PRODUCER",
        SpanKind::Consumer => "CONSUMER",
        SpanKind::Internal => "INTERNAL",
    }
}

/// A value in the notation of its type: text in quotation marks, numbers without. A port that the
/// test did not choose is `PORT`.
fn value(key: &str, value: &Value) -> String {
    match value {
        Value::I64(port) if key == "server.port" && *port > 1024 => "PORT".to_owned(),
        Value::I64(number) => number.to_string(),
        Value::F64(number) => format!("{number:?}"),
        Value::Bool(truth) => truth.to_string(),
        Value::String(text) => match text.as_str().split_once("127.0.0.1:") {
            Some((before, after)) => {
                let path = after.trim_start_matches(|digit: char| digit.is_ascii_digit());
                format!("\"{before}127.0.0.1:PORT{path}\"")
            }
            None => format!("\"{text}\""),
        },
        other => format!("{other:?}"),
    }
}

/// Blocks as written in a test, in the form and order of exported ones.
pub fn lines(text: &str) -> String {
    let mut blocks: Vec<(String, Vec<String>)> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match blocks.last_mut() {
            Some((_, attributes)) if line.contains(" = ") => attributes.push(format!("  {line}\n")),
            _ => blocks.push((format!("{line}\n"), Vec::new())),
        }
    }
    for (_, attributes) in &mut blocks {
        attributes.sort();
    }
    // The number of traces comes after all spans.
    let mut blocks: Vec<String> = blocks
        .into_iter()
        .map(|(head, attributes)| head + &attributes.concat())
        .collect();
    blocks.sort_by_key(|block| (block.starts_with('('), block.clone()));
    blocks.concat()
}

/// The address of a server of the test.
pub const ADDRESS: &str = "
    server.address = \"127.0.0.1\"
    server.port = PORT";

/// The span of a request over HTTP/1.1 that the router answers: its head, and its attributes in
/// addition to those that all such spans have.
pub fn http_span(head: &str, attributes: &str) -> String {
    format!("SERVER {head}\n{attributes}\nnetwork.protocol.version = \"1.1\"\nurl.scheme = \"http\"\n{ADDRESS}\n")
}

/// The span of an rpc over HTTP/1.1: the name of the rpc, the rest of the head, and its attributes
/// in addition to those that all such spans have.
pub fn web_span(rpc: &str, state: &str, attributes: &str) -> String {
    format!(
        "SERVER {rpc}{state}
        network.protocol.name = \"http\"
        network.protocol.version = \"1.1\"
        {attributes}
        {ADDRESS}\n"
    )
}
