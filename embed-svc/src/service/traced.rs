//! A model's work within its span.

use std::time::Instant;

use isomer_service_kit::telemetry::gen_ai::{ModelCall, Operation, Provider};
use tracing::Instrument;

use crate::{
    batch::Sequence,
    engine::{Priority, TimedOutputs},
    error::EmbedError,
    registry::LoadedEncoder,
};

/// Encodes sequences in the encoder's engine.
pub(super) async fn work(
    operation: Operation,
    encoder: &LoadedEncoder,
    sequences: Vec<Sequence>,
    priority: Priority,
    deadline: Option<Instant>,
) -> Result<TimedOutputs, EmbedError> {
    let call = ModelCall::start(operation, &Provider::HERE, &encoder.source.id);
    call.input_tokens(sequences.iter().map(|text| text.ids.len() as u64).sum());
    let work = encoder.engine.encode(sequences, priority, deadline);
    let outcome = work.instrument(call.span()).await;
    if let Err(error) = &outcome {
        call.failed(kind(error));
    }
    outcome
}

/// The gRPC name of the failure.
fn kind(error: &EmbedError) -> &'static str {
    match error {
        EmbedError::Overloaded { .. } | EmbedError::NoRoom { .. } => "RESOURCE_EXHAUSTED",
        EmbedError::DeadlineExceeded => "DEADLINE_EXCEEDED",
        EmbedError::NotFinite { .. } => "FAILED_PRECONDITION",
        _ => "INTERNAL",
    }
}
