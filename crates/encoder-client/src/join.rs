//! Joins the answers of a request that was sent in pieces.

use std::ops::Range;

use isomer_proto::{
    common::v1::{ItemError, Timing},
    encoder::v1::EncodeResponse,
};
use isomer_service_kit::Fault;
use isomer_usage::sum;
use prost_types::Duration;
use tonic::Code;

/// Joins the answers to the pieces of a request, in order.
///
/// # Errors
/// `DATA_LOSS` if the pieces are in different vector spaces: the encoder changed in between. `who`
/// names it in messages.
pub fn joined(who: &str, pieces: &[Range<usize>], answers: Vec<EncodeResponse>) -> Result<EncodeResponse, Fault> {
    let mut answers = pieces.iter().zip(answers);
    let Some((_, mut whole)) = answers.next() else {
        return Ok(EncodeResponse::default());
    };
    let mut matrix = whole.embeddings.take().unwrap_or_default();
    let mut data = Vec::from(std::mem::take(&mut matrix.data));
    for (piece, next) in answers {
        let (ours, theirs) = (&whole.vector_space, &next.vector_space);
        let more = next.embeddings.unwrap_or_default();
        if ours.as_ref().map(|space| &space.digest) != theirs.as_ref().map(|space| &space.digest)
            || matrix.cols != more.cols
        {
            return Err(Fault::new(
                Code::DataLoss,
                "PROVIDER_CHANGED",
                format!("{who} answered parts of one request in different vector spaces"),
            )
            .hint("try again; if it stays so, servers with different weights answer at one address"));
        }
        matrix.rows += more.rows;
        data.extend_from_slice(&more.data);
        whole.token_counts.extend(next.token_counts);
        whole.truncated.extend(next.truncated);
        whole.row_counts.extend(next.row_counts);
        let start = u32::try_from(piece.start).unwrap_or(u32::MAX);
        whole.errors.extend(next.errors.into_iter().map(|error| ItemError {
            index: error.index + start,
            ..error
        }));
        sum::add(whole.usage.get_or_insert_default(), &next.usage.unwrap_or_default());
        whole.timing = longest(whole.timing.take(), next.timing);
    }
    matrix.data = data.into();
    whole.embeddings = Some(matrix);
    Ok(whole)
}

/// Pieces run concurrently, so the longest time counts.
fn longest(a: Option<Timing>, b: Option<Timing>) -> Option<Timing> {
    let (Some(a), Some(b)) = (a, b) else { return a.or(b) };
    let nanos = |duration: &Duration| (duration.seconds, duration.nanos);
    let longer = |a: Option<Duration>, b: Option<Duration>| match (a, b) {
        (Some(a), Some(b)) => Some(if nanos(&a) >= nanos(&b) { a } else { b }),
        (a, b) => a.or(b),
    };
    Some(Timing {
        queue: longer(a.queue, b.queue),
        tokenise: longer(a.tokenise, b.tokenise),
        compute: longer(a.compute, b.compute),
        total: longer(a.total, b.total),
    })
}
