//! Sends texts to the transform service in requests of bounded size and reads the responses as they
//! arrive.

use std::sync::Arc;

use futures::{StreamExt, stream::BoxStream};
use isomer_proto::{
    common::v1::Usage,
    transform::v1::{
        Outcome, TextItem, TransformResult, TransformSpec, TransformStreamEnd, transform_stream_response::Event,
    },
};
use isomer_service_kit::Fault;
use isomer_usage::sum;

use crate::{
    run::{
        RunError,
        plan::{ceiling::Ceiling, requests::Chunk},
        record::Counters,
    },
    work::{Producer, WorkEngine},
};

/// A message of a response.
pub(crate) enum ResponseEvent {
    /// Position of the request, and its result.
    Text(usize, Box<TransformResult>),
    /// Usage of the texts beyond what their results reported.
    End(Usage),
}

/// The responses to one request, as they arrive.
pub(crate) fn responses(
    work: &Arc<dyn WorkEngine>,
    producer: &Producer,
    spec: TransformSpec,
    chunk: Chunk,
    what: String,
) -> BoxStream<'static, Result<ResponseEvent, RunError>> {
    let (positions, items): (Vec<usize>, Vec<TextItem>) = chunk.into_iter().unzip();
    let failed = move |fault: Fault| RunError::Transform {
        what: what.clone(),
        fault: Box::new(fault),
    };
    let mut reported = Usage::default();
    let read = move |event: Result<Event, Fault>| match event {
        Err(fault) => Err(failed(fault)),
        Ok(Event::End(end)) => Ok(ResponseEvent::End(rest(&end, &reported))),
        Ok(Event::Result(result)) => match positions.get(result.index as usize) {
            Some(position) => {
                if let Some(usage) = &result.usage {
                    sum::add(&mut reported, usage);
                }
                Ok(ResponseEvent::Text(*position, Box::new(result)))
            }
            None => Err(failed(Fault::internal(format!(
                "the transform service answered text {} of {}",
                result.index,
                positions.len()
            )))),
        },
    };
    work.transform(producer, spec, items).map(read).boxed()
}

/// A request to the transform service, with its description and the counting of its results.
pub(crate) struct TransformOrder {
    /// The transformation with its parameters.
    pub spec: TransformSpec,
    /// The generator and prompt that produce the texts.
    pub producer: Producer,
    /// The request's description.
    pub what: String,
    /// Whether it needs a generator.
    pub needs_generator: bool,
    /// Counts the outcome of a text.
    pub count: fn(&mut Counters, &TransformResult),
    /// The run's limits.
    pub ceiling: Ceiling,
}

/// Whether no attempt at a text was accepted.
pub(crate) fn gives_no_text(result: &TransformResult) -> bool {
    !matches!(result.outcome(), Outcome::Ok | Outcome::Recovered)
}

/// Usage of a request beyond the usage `reported` with its texts: all of it if the service
/// reports usage only at the end.
fn rest(end: &TransformStreamEnd, reported: &Usage) -> Usage {
    let usage = end.usage.unwrap_or_default();
    let attempts = end.summary.as_ref().map_or(0, |summary| summary.generator_calls);
    let whole = Usage {
        generator_calls: usage.generator_calls.max(attempts),
        ..usage
    };
    sum::beyond(&whole, reported)
}

#[cfg(test)]
mod tests {
    use isomer_proto::transform::v1::TransformSummary;

    use super::*;

    #[test]
    fn usage_reported_with_the_texts_is_not_repeated_at_the_end() {
        let usage = |calls, read, written| Usage {
            generator_calls: calls,
            tokens: read,
            generated_tokens: written,
            ..Usage::default()
        };
        let end = TransformStreamEnd {
            usage: Some(usage(5, 500, 70)),
            ..TransformStreamEnd::default()
        };
        assert_eq!(rest(&end, &usage(3, 300, 70)), usage(2, 200, 0));
        assert_eq!(rest(&end, &Usage::default()), usage(5, 500, 70));
        // The results reported more than the total: nothing is subtracted.
        assert_eq!(rest(&end, &usage(9, 900, 90)), usage(0, 0, 0));
        // A service that reports calls only in its summary.
        let end = TransformStreamEnd {
            summary: Some(TransformSummary {
                generator_calls: 4,
                ..TransformSummary::default()
            }),
            ..TransformStreamEnd::default()
        };
        assert_eq!(rest(&end, &Usage::default()), usage(4, 0, 0));
    }
}
