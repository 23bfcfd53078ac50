//! Logs, traces, metrics.

use std::{io::IsTerminal, sync::OnceLock};

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::WithExportConfig;
use opentelemetry_sdk::{Resource, propagation::TraceContextPropagator, trace::SdkTracerProvider};
use serde::{Deserialize, Serialize};
use tracing_subscriber::{EnvFilter, Layer, layer::SubscriberExt, util::SubscriberInitExt};

use crate::{
    config::{ConfigError, Validate},
    error::Fault,
};

/// Upper bounds of latency histograms, in seconds.
const LATENCY_BUCKETS: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

static METRICS: OnceLock<PrometheusHandle> = OnceLock::new();

/// How logs look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    #[default]
    Auto,
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Logs and traces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TelemetryConfig {
    /// What to log, in `tracing`'s filter syntax: `info`, `isomer_transform=debug`.
    pub filter: String,
    /// How logs look.
    pub format: LogFormat,
    /// Where to send traces (OTLP over gRPC), e.g. `http://localhost:4317`; absent: nowhere.
    pub otlp_endpoint: Option<String>,
}

impl Default for TelemetryConfig {
    fn default() -> Self {
        Self { filter: "info".to_owned(), format: LogFormat::Auto, otlp_endpoint: None }
    }
}

impl Validate for TelemetryConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        filter(&self.filter).map(drop)
    }
}

fn filter(text: &str) -> Result<EnvFilter, ConfigError> {
    EnvFilter::builder()
        .parse(text)
        .map_err(|e| ConfigError::new("telemetry.filter", format!("`{text}`: {e}"), "e.g. `info` or `isomer_transform=debug`"))
}

/// Sends what is left when dropped.
#[derive(Debug)]
#[must_use = "traces are flushed when this is dropped"]
pub struct TelemetryGuard {
    traces: Option<SdkTracerProvider>,
}

impl Drop for TelemetryGuard {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.traces.take().map(|t| t.shutdown()) {
            eprintln!("some traces were not sent: {error}");
        }
    }
}

/// Installs logs (stderr), traces and metrics for the process. Call once, inside the runtime, first thing.
pub fn init(service: &'static str, config: &TelemetryConfig) -> Result<TelemetryGuard, Fault> {
    let told = |e: ConfigError| Fault::invalid(e.field(), e.to_string());
    opentelemetry::global::set_text_map_propagator(TraceContextPropagator::new());
    install_metrics()?;
    let json = match config.format {
        LogFormat::Auto => !std::io::stderr().is_terminal(),
        LogFormat::Text => false,
        LogFormat::Json => true,
    };
    let logs = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let logs = if json { logs.json().boxed() } else { logs.with_target(false).compact().boxed() };
    let traces = config.otlp_endpoint.as_deref().map(|endpoint| provider(service, endpoint)).transpose()?;
    let spans = traces.as_ref().map(|t| tracing_opentelemetry::layer().with_tracer(t.tracer(service)));
    tracing_subscriber::registry()
        .with(spans.with_filter(filter(&config.filter).map_err(told)?))
        .with(logs.with_filter(filter(&config.filter).map_err(told)?))
        .try_init()
        .map_err(|e| Fault::internal(format!("telemetry is installed twice: {e}")))?;
    Ok(TelemetryGuard { traces })
}

fn provider(service: &'static str, endpoint: &str) -> Result<SdkTracerProvider, Fault> {
    let exporter = opentelemetry_otlp::SpanExporter::builder().with_tonic().with_endpoint(endpoint).build().map_err(|e| {
        Fault::invalid("telemetry.otlp_endpoint", format!("`{endpoint}`: {e}")).mend("give a URL such as http://localhost:4317")
    })?;
    Ok(SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(Resource::builder().with_service_name(service).build())
        .build())
}

fn install_metrics() -> Result<(), Fault> {
    if METRICS.get().is_some() {
        return Ok(());
    }
    let told = |e: metrics_exporter_prometheus::BuildError| Fault::internal(format!("metrics cannot be installed: {e}"));
    let recorder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), LATENCY_BUCKETS)
        .map_err(told)?
        .build_recorder();
    let handle = recorder.handle();
    if metrics::set_global_recorder(recorder).is_ok() {
        // The cell is empty: only this branch fills it, and the recorder can be set once.
        let _ = METRICS.set(handle);
    }
    Ok(())
}

/// The metrics of this process in Prometheus' text form; empty before [`init`].
pub fn metrics_text() -> String {
    METRICS.get().map(PrometheusHandle::render).unwrap_or_default()
}
