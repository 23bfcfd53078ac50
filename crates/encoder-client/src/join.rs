//! Joins the answers of a request that was sent in pieces.

use std::ops::Range;

use isomer_proto::{
    common::v1::{ItemError, Matrix, Timing, VectorSpace},
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
    inputs: usize,
    whole: Option<EncodeResponse>,
    embeddings: Rows,
    token_embeddings: Rows,
}

/// The rows of a matrix, copied to their final place.
#[derive(Debug, Default)]
struct Rows(Vec<u8>);

impl Rows {
    /// Begins with the rows of the first part. The content of a single answer is kept unchanged.
    fn begin(&mut self, matrix: Option<&mut Matrix>, inputs: usize) {
        if let Some(matrix) = matrix.filter(|matrix| matrix.rows as usize != inputs && !matrix.data.is_empty()) {
            let rows = matrix.rows.max(1) as usize;
            let expected = (matrix.data.len() / rows).saturating_mul(inputs);
            self.0.reserve_exact(expected.max(matrix.data.len()));
            self.0.extend_from_slice(&std::mem::take(&mut matrix.data));
        }
    }

    /// Adds the rows of another part; `false` if they have another width.
    fn add(&mut self, whole: &mut Option<Matrix>, next: Option<Matrix>) -> bool {
        let (Some(whole), Some(next)) = (whole.as_mut(), &next) else {
            return whole.is_none() && next.is_none();
        };
        if whole.cols != next.cols {
            return false;
        }
        if !whole.data.is_empty() {
            self.0.extend_from_slice(&std::mem::take(&mut whole.data));
        }
        whole.rows += next.rows;
        self.0.extend_from_slice(&next.data);
        true
    }

    fn finish(self, whole: Option<&mut Matrix>) {
        if let Some(matrix) = whole.filter(|_| !self.0.is_empty()) {
            matrix.data = self.0.into();
        }
    }
}

impl<'a> Joiner<'a> {
    /// A joiner for a request of this many inputs. `who` names the encoder in messages.
    pub fn new(who: &'a str, inputs: usize) -> Self {
        Self {
            who,
            inputs,
            whole: None,
            embeddings: Rows::default(),
            token_embeddings: Rows::default(),
        }
    }

    /// Adds the answer to the inputs from `start` on.
    ///
    /// # Errors
    /// `DATA_LOSS` if its vector space differs from the earlier ones: the encoder changed in
    /// between.
    pub fn add(&mut self, start: usize, mut next: EncodeResponse) -> Result<(), Fault> {
        let Some(whole) = &mut self.whole else {
            self.embeddings.begin(next.embeddings.as_mut(), self.inputs);
            self.token_embeddings.begin(next.token_embeddings.as_mut(), self.inputs);
            self.whole = Some(next);
            return Ok(());
        };
        let same = [
            (&whole.vector_space, &next.vector_space),
            (&whole.token_vector_space, &next.token_vector_space),
            (&whole.sparse_vector_space, &next.sparse_vector_space),
        ]
        .iter()
        .all(|(ours, theirs)| digest(ours.as_ref()) == digest(theirs.as_ref()));
        if !same
            || !self.embeddings.add(&mut whole.embeddings, next.embeddings)
            || !self
                .token_embeddings
                .add(&mut whole.token_embeddings, next.token_embeddings)
        {
            return Err(Fault::new(
                Code::DataLoss,
                "PROVIDER_CHANGED",
                format!("{} answered parts of one request in different vector spaces", self.who),
            )
            .hint("try again; if it stays so, servers with different weights answer at one address"));
        }
        whole.sparse_embeddings.extend(next.sparse_embeddings);
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

    pub fn finish(self) -> EncodeResponse {
        let Some(mut whole) = self.whole else {
            return EncodeResponse::default();
        };
        self.embeddings.finish(whole.embeddings.as_mut());
        self.token_embeddings.finish(whole.token_embeddings.as_mut());
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

fn digest(space: Option<&VectorSpace>) -> Option<&str> {
    space.map(|space| space.digest.as_str())
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
