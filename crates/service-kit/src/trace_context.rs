//! W3C trace context (`traceparent`, `tracestate`) in the headers of a call.
//!
//! The propagator is our own constant rather than OpenTelemetry's global one. So a call carries its
//! trace however the process's telemetry was set up.

use std::sync::LazyLock;

use http::{HeaderMap, HeaderName, HeaderValue};
#[cfg(feature = "server")]
use opentelemetry::trace::{SpanContext, TraceFlags, TraceState};
use opentelemetry::{
    Context,
    propagation::{Extractor, Injector, TextMapPropagator},
    trace::TraceContextExt,
};
use opentelemetry_sdk::propagation::TraceContextPropagator;
#[cfg(feature = "server")]
use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

#[cfg(feature = "server")]
use crate::telemetry;

static PROPAGATOR: LazyLock<TraceContextPropagator> = LazyLock::new(TraceContextPropagator::new);

/// Makes `span` a child of the span in the headers, and shows its trace id in the logs. Does
/// nothing if no trace is kept.
pub fn join(span: &Span, headers: &HeaderMap) {
    let parent = PROPAGATOR.extract_with_context(&Context::new(), &HeaderExtractor(headers));
    if parent.span().span_context().is_valid() {
        // This fails only if no OpenTelemetry layer is installed, and then no trace exists to join.
        let _ = span.set_parent(parent);
    }
    #[cfg(feature = "server")]
    {
        let context = span.context();
        let context = context.span().span_context().clone();
        if context.is_valid() {
            telemetry::show_trace_id(span, context.trace_id());
        }
    }
}

/// Writes the span's trace context into the headers. If no trace is kept, existing headers stay, so
/// a proxy forwards them.
pub fn carry(span: &Span, headers: &mut HeaderMap) {
    let context = span.context();
    if context.span().span_context().is_valid() {
        PROPAGATOR.inject_context(&context, &mut Write(headers));
    }
}

#[cfg(feature = "server")]
/// A span for a server's own activity, such as checking the health of other servers. Neither the
/// span nor the calls within it are exported, here or by the called servers, unless
/// `OTEL_TRACES_SAMPLER` says otherwise.
pub fn unsampled() -> Span {
    let span = tracing::info_span!(parent: None, "upkeep");
    let ids = RandomIdGenerator::default();
    let parent = SpanContext::new(
        ids.new_trace_id(),
        ids.new_span_id(),
        TraceFlags::NOT_SAMPLED,
        true,
        TraceState::NONE,
    );
    // This fails only if no OpenTelemetry layer is installed, and then nothing is exported.
    let _ = span.set_parent(Context::new().with_remote_span_context(parent));
    span
}

struct HeaderExtractor<'a>(&'a HeaderMap);

impl Extractor for HeaderExtractor<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(|value| value.to_str().ok())
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(HeaderName::as_str).collect()
    }
}

struct Write<'a>(&'a mut HeaderMap);

impl Injector for Write<'_> {
    fn set(&mut self, key: &str, value: String) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(key), HeaderValue::try_from(value)) {
            self.0.insert(name, value);
        }
    }
}
