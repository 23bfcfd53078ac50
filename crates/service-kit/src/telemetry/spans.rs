//! The OpenTelemetry layer, with less work per span.
//!
//! * Without an exporter, spans have no fields. Trace ids are created and propagated as usual, and
//!   the log layer keeps its own fields.
//! * The layer does not see when a span is entered or left, which happens at every poll of a
//!   future. It neither tracks inactivity nor activates contexts, so a span ends when it is closed.

use std::any::TypeId;

use tracing::{
    Subscriber,
    field::{Field, Value},
    span::{Attributes, Id, Record},
    subscriber::Interest,
};
use tracing_subscriber::{Layer, layer::Context, registry::LookupSpan};

/// A wrapper of the OpenTelemetry layer `otel`.
#[derive(Debug)]
pub(super) struct Spans<L> {
    pub(super) otel: L,
    /// Whether an exporter is configured.
    pub(super) are_sent: bool,
}

impl<S, L> Layer<S> for Spans<L>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    L: Layer<S>,
{
    fn on_layer(&mut self, subscriber: &mut S) {
        self.otel.on_layer(subscriber);
    }

    fn register_callsite(&self, metadata: &'static tracing::Metadata<'static>) -> Interest {
        self.otel.register_callsite(metadata)
    }

    fn on_new_span(&self, span: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if self.are_sent {
            return self.otel.on_new_span(span, id, context);
        }
        let metadata = span.metadata();
        let no_values: [(&Field, Option<&dyn Value>); 0] = [];
        let none = metadata.fields().value_set(&no_values);
        let bare = match span.parent() {
            Some(parent) => Attributes::child_of(parent.clone(), metadata, &none),
            None if span.is_root() => Attributes::new_root(metadata, &none),
            None => Attributes::new(metadata, &none),
        };
        self.otel.on_new_span(&bare, id, context);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if self.are_sent {
            self.otel.on_record(id, values, context);
        }
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, context: Context<'_, S>) {
        self.otel.on_follows_from(id, follows, context);
    }

    fn on_id_change(&self, old: &Id, new: &Id, context: Context<'_, S>) {
        self.otel.on_id_change(old, new, context);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        self.otel.on_close(id, context);
    }

    // OpenTelemetry's functions on spans find their layer by its type.
    unsafe fn downcast_raw(&self, id: TypeId) -> Option<*const ()> {
        // SAFETY: the caller upholds the contract of this function, which equals that of the inner
        // function; the inner function's pointee lives as long as `self`.
        unsafe { self.otel.downcast_raw(id) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use opentelemetry::trace::TracerProvider;
    use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
    use tracing_opentelemetry::OpenTelemetrySpanExt;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    /// A parent span and its child, as they would be exported.
    fn exported(are_sent: bool) -> [SpanData; 2] {
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder()
            .with_simple_exporter(exporter.clone())
            .build();
        let otel = tracing_opentelemetry::layer()
            .with_tracer(provider.tracer("test"))
            .with_tracked_inactivity(false)
            .with_context_activation(false);
        let subscriber = tracing_subscriber::registry().with(Spans { otel, are_sent });
        tracing::subscriber::with_default(subscriber, || {
            let parent = tracing::info_span!("parent", color = "red", size = tracing::field::Empty);
            parent.record("size", 3);
            parent.in_scope(|| {
                tracing::info_span!("child", color = "blue").in_scope(|| ());
            });
            // OpenTelemetry's functions find the layer through this.
            parent.set_attribute("late", true);
        });
        let mut spans = exporter.get_finished_spans().unwrap();
        spans.sort_by_key(|span| span.name == "child");
        spans.try_into().unwrap()
    }

    fn attributes(span: &SpanData) -> Vec<String> {
        let ours = |key: &str| ["color", "size", "late"].contains(&key);
        let ours = span.attributes.iter().filter(|attribute| ours(attribute.key.as_str()));
        let mut ours: Vec<String> = ours
            .map(|attribute| format!("{}={}", attribute.key, attribute.value))
            .collect();
        ours.sort();
        ours
    }

    #[test]
    fn spans_have_fields_only_where_they_are_sent() {
        let [parent, child] = exported(true);
        assert_eq!(attributes(&parent), ["color=red", "late=true", "size=3"]);
        assert_eq!(attributes(&child), ["color=blue"]);
        let [parent, child] = exported(false);
        assert_eq!(attributes(&parent), ["late=true"]);
        assert_eq!(attributes(&child), [""; 0]);
    }

    #[test]
    fn spans_are_of_one_trace_and_end_after_their_children_either_way() {
        for are_sent in [true, false] {
            let [parent, child] = exported(are_sent);
            assert_eq!((&*parent.name, &*child.name), ("parent", "child"));
            assert_eq!(child.parent_span_id, parent.span_context.span_id());
            assert_eq!(child.span_context.trace_id(), parent.span_context.trace_id());
            assert!(parent.start_time <= child.start_time && child.end_time <= parent.end_time);
        }
    }
}
