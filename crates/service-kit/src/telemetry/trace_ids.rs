//! The trace id of a span in the logs.
//!
//! The id is already part of each exported span, so it must not also be one of its attributes. It
//! is written directly into the log formats' fields of the span.

use std::fmt::Write;

use opentelemetry::trace::TraceId;
use tracing::Span;
use tracing_subscriber::{
    Registry,
    fmt::{FormattedFields, format::DefaultFields},
    registry::LookupSpan,
};

use super::fields::Json;

/// Adds the id to the span's log fields as `trace_id`, in either format.
pub(crate) fn show(span: &Span, id: TraceId) {
    span.with_subscriber(|(span, dispatch)| {
        let Some(span) = dispatch.downcast_ref::<Registry>().and_then(|spans| spans.span(span)) else {
            return;
        };
        let mut extensions = span.extensions_mut();
        if let Some(known) = extensions.get_mut::<FormattedFields<Json>>() {
            let text = &mut known.fields;
            if text.pop() == Some('}') {
                let comma = if text == "{" { "" } else { "," };
                // Writing to a string does not fail.
                let _ = write!(text, "{comma}\"trace_id\":\"{id}\"}}");
            }
        }
        if let Some(known) = extensions.get_mut::<FormattedFields<DefaultFields>>() {
            let text = &mut known.fields;
            let space = if text.is_empty() { "" } else { " " };
            let _ = write!(text, "{space}trace_id={id}");
        }
    });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{io, sync::Arc};

    use parking_lot::Mutex;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn log_within(subscriber: impl tracing::Subscriber + Send + Sync, lines: &Lines) -> String {
        tracing::subscriber::with_default(subscriber, || {
            let span = tracing::info_span!("request", code = tracing::field::Empty);
            show(&span, TraceId::from_bytes([0xab; 16]));
            span.record("code", 200);
            span.in_scope(|| tracing::info!("here"));
        });
        String::from_utf8(lines.0.lock().clone()).unwrap()
    }

    #[test]
    fn a_line_of_json_has_the_trace_id_of_its_span() {
        let lines = Lines::default();
        let writer = lines.clone();
        let logs = tracing_subscriber::fmt::layer().with_writer(move || writer.clone());
        let logs = logs.json().flatten_event(true).fmt_fields(Json);
        let line = log_within(tracing_subscriber::registry().with(logs), &lines);
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["span"]["trace_id"], "ab".repeat(16));
        assert_eq!(line["span"]["code"], 200);
    }

    #[test]
    fn a_line_of_text_has_the_trace_id_of_its_span() {
        let lines = Lines::default();
        let writer = lines.clone();
        let logs = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .compact();
        let line = log_within(tracing_subscriber::registry().with(logs), &lines);
        assert!(
            line.contains(&format!("trace_id={} code=200", "ab".repeat(16))),
            "{line}"
        );
    }
}
