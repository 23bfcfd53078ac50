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

/// Joins the answers to the pieces of a request as they arrive, in order. Vectors are copied at
/// once to their final place, so that no answer is kept.
#[derive(Debug)]
pub struct Joiner<'a> {
    who: &'a str,
    /// Inputs of the whole request.
    inputs: usize,
    whole: Option<EncodeResponse>,
    data: Vec<u8>,
}

impl<'a> Joiner<'a> {
    /// A joiner for a request of this many inputs. `who` names the encoder in messages.
    pub fn new(who: &'a str, inputs: usize) -> Self {
        Self {
            who,
            inputs,
            whole: None,
            data: Vec::new(),
        }
    }

    /// Adds the answer to the inputs from `start` on.
    ///
    /// # Errors
    /// `DATA_LOSS` if its vector space differs from the earlier ones: the encoder changed in
    /// between.
    pub fn add(&mut self, start: usize, mut next: EncodeResponse) -> Result<(), Fault> {
        let Some(whole) = &mut self.whole else {
            let matrix = next.embeddings.get_or_insert_default();
            // The content of a single answer is kept unchanged.
            if matrix.rows as usize != self.inputs && !matrix.data.is_empty() {
                let rows = matrix.rows.max(1) as usize;
                let expected = (matrix.data.len() / rows).saturating_mul(self.inputs);
                self.data.reserve_exact(expected.max(matrix.data.len()));
                self.data.extend_from_slice(&std::mem::take(&mut matrix.data));
            }
            self.whole = Some(next);
            return Ok(());
        };
        let (ours, theirs) = (&whole.vector_space, &next.vector_space);
        let same = ours.as_ref().map(|space| &space.digest) == theirs.as_ref().map(|space| &space.digest);
        let matrix = whole.embeddings.get_or_insert_default();
        let more = next.embeddings.unwrap_or_default();
        if !same || matrix.cols != more.cols {
            return Err(Fault::new(
                Code::DataLoss,
                "PROVIDER_CHANGED",
                format!("{} answered parts of one request in different vector spaces", self.who),
            )
            .hint("try again; if it stays so, servers with different weights answer at one address"));
        }
        if !matrix.data.is_empty() {
            self.data.extend_from_slice(&std::mem::take(&mut matrix.data));
        }
        matrix.rows += more.rows;
        self.data.extend_from_slice(&more.data);
        whole.token_counts.extend(next.token_counts);
        whole.truncated.extend(next.truncated);
        whole.row_counts.extend(next.row_counts);
        let start = u32::try_from(start).unwrap_or(u32::MAX);
        whole.errors.extend(next.errors.into_iter().map(|error| ItemError {
            index: error.index + start,
            ..error
        }));
        sum::add(whole.usage.get_or_insert_default(), &next.usage.unwrap_or_default());
        whole.timing = longest(whole.timing.take(), next.timing);
        Ok(())
    }

    /// The answer to the whole request.
    pub fn finish(self) -> EncodeResponse {
        let Some(mut whole) = self.whole else {
            return EncodeResponse::default();
        };
        if !self.data.is_empty() {
            whole.embeddings.get_or_insert_default().data = self.data.into();
        }
        whole
    }
}

/// Joins the answers to the pieces of a request, in order.
///
/// # Errors
/// `DATA_LOSS` if the pieces are in different vector spaces: the encoder changed in between. `who`
/// names it in messages.
pub fn joined(who: &str, pieces: &[Range<usize>], answers: Vec<EncodeResponse>) -> Result<EncodeResponse, Fault> {
    let inputs = pieces.iter().map(ExactSizeIterator::len).sum();
    let mut joiner = Joiner::new(who, inputs);
    for (piece, answer) in pieces.iter().zip(answers) {
        joiner.add(piece.start, answer)?;
    }
    Ok(joiner.finish())
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
