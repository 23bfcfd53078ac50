//! Answers of somebody else's encoder service: looked at, and put together where a request went in pieces.

use std::ops::Range;

use isomer_proto::{
    common::v1::{Dtype, ItemError, Matrix, Timing, Usage},
    encoder::v1::{EncodeRequest, EncodeResponse, Output},
};
use isomer_service_kit::Fault;
use prost_types::Duration;
use tonic::Code;

/// What an answer must agree with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    inputs: usize,
    dtype: i32,
    dimensions: Option<u32>,
    tokens: bool,
}

impl Asked {
    pub(super) fn of(request: &EncodeRequest) -> Self {
        Self {
            inputs: request.inputs.len(),
            dtype: match Dtype::try_from(request.output_dtype) {
                Ok(Dtype::Unspecified) => Dtype::F32.into(),
                _ => request.output_dtype,
            },
            dimensions: request.dimensions,
            tokens: request.output == i32::from(Output::TokenVectors),
        }
    }
}

/// The answer, if it can be one to what was asked.
///
/// # Errors
/// `DATA_LOSS`: rows, columns, element type or bytes that do not fit, values that are no numbers, no vector space.
pub(super) fn sound(id: &str, answer: EncodeResponse, asked: Asked) -> Result<EncodeResponse, Fault> {
    let bad = |what: String| {
        Err(
            Fault::new(Code::DataLoss, "PROVIDER_ANSWER", format!("provider `{id}`: {what}"))
                .mend("check the provider with CheckProvider")
                .with("provider", id),
        )
    };
    let Some(matrix) = &answer.embeddings else {
        return bad("the answer has no matrix".into());
    };
    let rows = matrix.rows as usize;
    let expected = if asked.tokens {
        answer.row_counts.iter().map(|count| *count as usize).sum()
    } else {
        asked.inputs
    };
    if rows != expected || (asked.tokens && answer.row_counts.len() != asked.inputs) {
        return bad(format!("{rows} rows for {} inputs", asked.inputs));
    }
    if matrix.dtype != asked.dtype {
        return bad(format!(
            "vectors of type {} where {} was asked for",
            matrix.dtype, asked.dtype
        ));
    }
    let cols = matrix.cols as usize;
    if cols == 0 || asked.dimensions.is_some_and(|dimensions| dimensions != matrix.cols) {
        return bad(format!(
            "vectors of {cols} dimensions, {:?} asked for",
            asked.dimensions
        ));
    }
    let row = match Dtype::try_from(matrix.dtype) {
        Ok(Dtype::F16) => 2 * cols,
        Ok(Dtype::Int8) => cols,
        Ok(Dtype::Ubinary) => cols.div_ceil(8),
        _ => 4 * cols,
    };
    if matrix.data.len() != rows * row {
        return bad(format!("{} bytes for {rows} rows of {row}", matrix.data.len()));
    }
    if let Some(at) = not_finite(matrix) {
        return bad(format!("row {} is not finite", at / cols));
    }
    match &answer.vector_space {
        None => bad("the answer names no vector space".into()),
        Some(space) if space.digest.is_empty() => bad("the answer's vector space has no digest".into()),
        Some(_) => Ok(answer),
    }
}

/// The first value that is no number.
fn not_finite(matrix: &Matrix) -> Option<usize> {
    match Dtype::try_from(matrix.dtype) {
        Ok(Dtype::F32) => matrix
            .data
            .as_chunks::<4>()
            .0
            .iter()
            .position(|bytes| !f32::from_le_bytes(*bytes).is_finite()),
        Ok(Dtype::F16) => matrix
            .data
            .as_chunks::<2>()
            .0
            .iter()
            .position(|bytes| !half::f16::from_le_bytes(*bytes).is_finite()),
        _ => None,
    }
}

/// One answer out of those to the pieces of a request, in their order.
///
/// # Errors
/// `DATA_LOSS` when the pieces are of different vector spaces: the provider changed in between.
pub(super) fn joined(id: &str, pieces: &[Range<usize>], answers: Vec<EncodeResponse>) -> Result<EncodeResponse, Fault> {
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
                format!("provider `{id}` answered parts of one request in different vector spaces"),
            )
            .mend("try again; if it stays so, several servers with different weights are behind the provider's address")
            .with("provider", id));
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
        whole.usage = Some(sum(
            whole.usage.take().unwrap_or_default(),
            next.usage.unwrap_or_default(),
        ));
        whole.timing = longest(whole.timing.take(), next.timing);
    }
    matrix.data = data.into();
    whole.embeddings = Some(matrix);
    Ok(whole)
}

fn sum(a: Usage, b: Usage) -> Usage {
    Usage {
        texts: a.texts + b.texts,
        tokens: a.tokens + b.tokens,
        cached_texts: a.cached_texts + b.cached_texts,
        generated_tokens: a.generated_tokens + b.generated_tokens,
        generator_calls: a.generator_calls + b.generator_calls,
        tokens_estimated: a.tokens_estimated || b.tokens_estimated,
        cost_nano_usd: a.cost_nano_usd + b.cost_nano_usd,
    }
}

/// Pieces run side by side: the longest counts.
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
