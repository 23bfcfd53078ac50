//! Logs, traces, metrics.

mod fields;
pub mod gen_ai;
mod prometheus;
mod spans;
mod trace_ids;

use std::{
    io::{IsTerminal, stderr},
    time::Duration,
};

use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::{
    Resource,
    trace::{SdkTracerProvider, TracerProviderBuilder},
};
use serde::{Deserialize, Serialize};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{EnvFilter, Layer, filter::filter_fn, layer::SubscriberExt, util::SubscriberInitExt};

use self::spans::Spans;
use crate::{
    Fault,
    config::{ConfigError, Validate},
};

pub use crate::trace_context::unsampled;
pub(crate) use prometheus::install as install_metrics;
pub use prometheus::metrics_text;
pub(crate) use trace_ids::show as show_trace_id;

/// Longest wait for the collector when the process ends.
const FLUSH: Duration = Duration::from_secs(5);

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
    /// Log filter in `tracing`'s syntax: `info`, `isomer_transform=debug`. Traces do not depend on
    /// it.
    pub filter: String,
    /// How logs look.
    pub format: LogFormat,
    /// Where to send traces (OTLP over gRPC, plain text), e.g. `http://localhost:4317`; absent:
    /// where `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` or `OTEL_EXPORTER_OTLP_ENDPOINT` says, else
    /// nowhere. Trace ids are made and handed on either way, so logs of several processes can be
    /// joined. `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SDK_DISABLED` hold too.
    pub otlp_endpoint: Option<String>,
}

impl Default for TelemetryConfig {
    fn default() -> Self {
        Self {
            filter: "info".to_owned(),
            format: LogFormat::Auto,
            otlp_endpoint: None,
        }
    }
}

impl Validate for TelemetryConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        filter(&self.filter)?;
        match &self.otlp_endpoint {
            Some(url) if !is_plain_url(url) => Err(ConfigError::new(
                "telemetry.otlp_endpoint",
                format!("`{url}` is not a plain-text URL"),
                "give the collector's OTLP/gRPC port, e.g. http://localhost:4317",
            )),
            _ => Ok(()),
        }
    }
}

fn is_plain_url(text: &str) -> bool {
    text.parse::<http::Uri>()
        .is_ok_and(|uri| uri.scheme_str() == Some("http") && uri.authority().is_some())
}

fn filter(text: &str) -> Result<EnvFilter, ConfigError> {
    EnvFilter::builder().parse(text).map_err(|error| {
        ConfigError::new(
            "telemetry.filter",
            format!("`{text}`: {error}"),
            "e.g. `info` or `isomer_transform=debug`",
        )
    })
}

/// Sends the remaining traces when dropped. Keep it inside the runtime until the process ends.
#[derive(Debug)]
#[must_use = "traces are flushed when this is dropped"]
pub struct TelemetryGuard {
    traces: SdkTracerProvider,
}

impl Drop for TelemetryGuard {
    fn drop(&mut self) {
        if let Err(error) = self.traces.shutdown_with_timeout(FLUSH) {
            tracing::warn!(%error, "some traces were not sent");
        }
    }
}

/// Installs logs (stderr), traces and metrics for the process. Call it once, inside the runtime,
/// before anything else.
///
/// # Errors
/// When the configuration is not valid or telemetry is installed already.
pub fn init(service: &'static str, config: &TelemetryConfig) -> Result<TelemetryGuard, Fault> {
    config.validate()?;
    let endpoint = config.otlp_endpoint.clone().or_else(endpoint_of_environment);
    let Some(endpoint) = endpoint.filter(|_| !is_disabled()) else {
        return install(service, config, SdkTracerProvider::builder(), false);
    };
    let exporter = SpanExporter::builder()
        .with_tonic()
        .with_endpoint(&endpoint)
        .build()
        .map_err(|error| {
            Fault::invalid("telemetry.otlp_endpoint", format!("`{endpoint}`: {error}"))
                .hint("give a URL such as http://localhost:4317")
        })?;
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter);
    init_with(service, config, provider)
}

/// A variable of OpenTelemetry, if it is set and not empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The trace endpoint from the environment.
fn endpoint_of_environment() -> Option<String> {
    variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").or_else(|| variable("OTEL_EXPORTER_OTLP_ENDPOINT"))
}

/// Whether the environment switches telemetry off.
fn is_disabled() -> bool {
    variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// Like [`init`], but spans go to `provider`, e.g. to an in-memory exporter in a test.
/// `otlp_endpoint` is not used.
///
/// # Errors
/// Those of [`init`].
pub fn init_with(
    service: &'static str,
    config: &TelemetryConfig,
    provider: TracerProviderBuilder,
) -> Result<TelemetryGuard, Fault> {
    install(service, config, provider, true)
}

/// `are_sent`: whether `provider` exports spans.
fn install(
    service: &'static str,
    config: &TelemetryConfig,
    provider: TracerProviderBuilder,
    are_sent: bool,
) -> Result<TelemetryGuard, Fault> {
    install_metrics()?;
    // The builder reads OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES itself; a name given here
    // would replace theirs.
    let resource = match variable("OTEL_SERVICE_NAME") {
        Some(_) => Resource::builder(),
        None => Resource::builder().with_service_name(service),
    };
    let traces = provider.with_resource(resource.build()).build();
    let tracer = tracing_opentelemetry::layer()
        .with_tracer(traces.tracer(service))
        .with_threads(false);
    // The idle time of a span says little about a future, and nothing here asks OpenTelemetry for
    // the current span.
    let tracer = tracer.with_tracked_inactivity(false).with_context_activation(false);
    // Traces do not use the log filter: a filter that logs little must not break the traces of
    // other processes. Log lines stay out of traces, because their details (a name, an error's
    // text) may be the caller's own words.
    let exported = filter_fn(|of| of.is_span() && *of.level() <= tracing::Level::INFO);
    let otel = tracer.with_location(false).with_target(false);
    let spans = Spans { otel, are_sent }.with_filter(exported.with_max_level_hint(LevelFilter::INFO));
    let json = match config.format {
        LogFormat::Auto => !stderr().is_terminal(),
        LogFormat::Text => false,
        LogFormat::Json => true,
    };
    let logs = tracing_subscriber::fmt::layer().with_writer(stderr);
    let logs = if json {
        logs.json().flatten_event(true).fmt_fields(fields::Json).boxed()
    } else {
        logs.with_ansi(stderr().is_terminal())
            .with_target(false)
            .compact()
            .boxed()
    };
    tracing_subscriber::registry()
        .with(spans)
        .with(logs.with_filter(filter(&config.filter)?))
        .try_init()
        .map_err(|error| Fault::internal(format!("telemetry is installed twice: {error}")))?;
    Ok(TelemetryGuard { traces })
}
