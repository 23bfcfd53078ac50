//! OpenTelemetry's layer, without the work whose result nobody sees.
//!
//! * Where spans are sent nowhere, they have no fields: ids of traces are made and handed on all the
//!   same, and logs have the fields from their own layer.
//! * A span is entered and left at every poll of its future. That costs nothing here: the layer is
//!   not told, because it neither measures idle time nor makes spans current
//!   (`with_tracked_inactivity`, `with_context_activation`).

use std::any::TypeId;

use tracing::{
    Subscriber,
    field::{Field, Value},
    span::{Attributes, Id, Record},
    subscriber::Interest,
};
use tracing_subscriber::{Layer, layer::Context, registry::LookupSpan};

/// OpenTelemetry's layer `otel`.
#[derive(Debug)]
pub(super) struct Spans<L> {
    pub(super) otel: L,
    /// Whether spans are sent anywhere.
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
        // SAFETY: the caller keeps to the contract of this function, which is that of the inner one;
        // what the inner one points to lives as long as `self`.
        unsafe { self.otel.downcast_raw(id) }
    }
}
