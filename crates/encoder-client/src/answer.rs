//! Validates an encoder's answer. No part of it is trusted.

use isomer_proto::{
    common::v1::{Dtype, Matrix, VectorSpace},
    encoder::v1::{EncodeRequest, EncodeResponse, Output, SparseVector},
};
use isomer_service_kit::vectors::{floats, widened};

/// The properties of a request that its answer must match.
#[derive(Debug, Clone, Copy)]
pub struct ExpectedAnswer {
    pub inputs: usize,
    /// Requested element type.
    pub dtype: Dtype,
    /// Requested dimensions; `None`: any number.
    pub dimensions: Option<u32>,
    /// The results in `embeddings`.
    pub vectors: Option<Vectors>,
    /// Whether vectors of tokens were requested beside others.
    pub token_embeddings: bool,
    /// Whether sparse vectors were requested.
    pub sparse: bool,
}

/// The results in `embeddings`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vectors {
    /// One vector per text.
    Texts,
    /// One vector per token.
    Tokens,
}

/// Whether a request asks for a result, by `output` or by `outputs`.
pub fn asks(request: &EncodeRequest, output: Output) -> bool {
    let same = |asked: Output| match asked {
        Output::Unspecified => output == Output::TextVector,
        asked => asked == output,
    };
    match &request.outputs[..] {
        [] => same(request.output()),
        _ => request.outputs().any(same),
    }
}

impl ExpectedAnswer {
    /// The properties of a request. An unset element type means 32-bit floats.
    pub fn of(request: &EncodeRequest) -> Self {
        let tokens = asks(request, Output::TokenVectors);
        Self {
            inputs: request.inputs.len(),
            dtype: match request.output_dtype() {
                Dtype::Unspecified => Dtype::F32,
                dtype => dtype,
            },
            dimensions: request.dimensions,
            vectors: match (asks(request, Output::TextVector), tokens && request.outputs.is_empty()) {
                (true, _) => Some(Vectors::Texts),
                (false, true) => Some(Vectors::Tokens),
                (false, false) => None,
            },
            token_embeddings: tokens && !request.outputs.is_empty(),
            sparse: asks(request, Output::Sparse),
        }
    }

    /// Requests one vector of 32-bit floats for each of `inputs` texts.
    pub fn floats(inputs: usize) -> Self {
        Self {
            inputs,
            dtype: Dtype::F32,
            dimensions: None,
            vectors: Some(Vectors::Texts),
            token_embeddings: false,
            sparse: false,
        }
    }
}

/// Checks every result of an answer: shapes, element types, finite values, and a vector space of
/// each.
///
/// # Errors
/// A description of the mismatch.
pub fn check(answer: &EncodeResponse, asked: ExpectedAnswer) -> Result<(), String> {
    let finite = |matrix: &Matrix| match not_finite(matrix) {
        Some(row) => Err(format!("row {row} is not finite")),
        None => Ok(()),
    };
    if asked.vectors.is_some() {
        finite(matrix(answer, asked)?)?;
        named(answer.vector_space.as_ref())?;
    }
    if asked.token_embeddings {
        let tokens = ExpectedAnswer {
            dtype: Dtype::F32,
            dimensions: None,
            vectors: Some(Vectors::Tokens),
            ..asked
        };
        finite(fitting(answer, answer.token_embeddings.as_ref(), tokens)?)?;
        named(answer.token_vector_space.as_ref())?;
    }
    if asked.sparse {
        if answer.sparse_embeddings.len() != asked.inputs {
            return Err(format!(
                "answered {} sparse vectors to {} texts",
                answer.sparse_embeddings.len(),
                asked.inputs
            ));
        }
        if let Some(text) = answer.sparse_embeddings.iter().position(|vector| !is_sound(vector)) {
            return Err(format!(
                "the sparse vector of text {text} has not one finite weight above 0 for each of ascending indices"
            ));
        }
        let space = answer.sparse_vector_space.as_ref();
        named(space)?;
        // 0 columns: the server does not know the size of its vocabulary.
        let columns = space.map_or(0, |space| space.dimensions);
        let beyond = |vector: &SparseVector| columns > 0 && vector.indices.last().is_some_and(|last| *last >= columns);
        if let Some(text) = answer.sparse_embeddings.iter().position(beyond) {
            return Err(format!(
                "the sparse vector of text {text} has an index beyond the {columns} columns of its vector space"
            ));
        }
    }
    Ok(())
}

fn is_sound(vector: &SparseVector) -> bool {
    let SparseVector { indices, values } = vector;
    indices.len() == values.len()
        && indices.is_sorted_by(|a, b| a < b)
        && values.iter().all(|value| value.is_finite() && *value > 0.0)
}

fn named(space: Option<&VectorSpace>) -> Result<(), String> {
    match space {
        None => Err("the answer names no vector space".to_owned()),
        Some(space) if space.digest.is_empty() => Err("the answer's vector space has no digest".to_owned()),
        Some(_) => Ok(()),
    }
}

/// The matrix of an answer, if rows, columns, element type and bytes match the request and per-text
/// data covers every text.
///
/// # Errors
/// A description of the mismatch.
pub fn matrix(answer: &EncodeResponse, asked: ExpectedAnswer) -> Result<&Matrix, String> {
    fitting(answer, answer.embeddings.as_ref(), asked)
}

/// [`matrix`] for one of an answer's matrices.
fn fitting<'a>(
    answer: &EncodeResponse,
    matrix: Option<&'a Matrix>,
    asked: ExpectedAnswer,
) -> Result<&'a Matrix, String> {
    let tokens = asked.vectors == Some(Vectors::Tokens);
    let Some(matrix) = matrix else {
        return Err("answered without vectors".to_owned());
    };
    let (rows, cols) = (matrix.rows as usize, matrix.cols as usize);
    let expected = if tokens {
        let counts = answer.row_counts.iter().map(|count| *count as usize);
        counts.fold(0, usize::saturating_add)
    } else {
        asked.inputs
    };
    let counted = !tokens || answer.row_counts.len() == asked.inputs;
    let bytes = row_bytes(matrix).and_then(|row| row.checked_mul(rows));
    if rows != expected || !counted || matrix.dtype() != asked.dtype || cols == 0 || bytes != Some(matrix.data.len()) {
        return Err(format!(
            "answered {rows} x {cols} {} in {} bytes to {} texts; {} was asked for",
            matrix.dtype().as_str_name(),
            matrix.data.len(),
            asked.inputs,
            asked.dtype.as_str_name()
        ));
    }
    if asked.dimensions.is_some_and(|dimensions| dimensions != matrix.cols) {
        return Err(format!(
            "answered vectors of {cols} dimensions; {:?} were asked for",
            asked.dimensions.unwrap_or_default()
        ));
    }
    if !answer.truncated.is_empty() && answer.truncated.len() != asked.inputs {
        return Err(format!(
            "said of {} texts whether they were cut, {} were asked for",
            answer.truncated.len(),
            asked.inputs
        ));
    }
    Ok(matrix)
}

/// Bytes of a row; `None` for an unknown element type.
pub fn row_bytes(matrix: &Matrix) -> Option<usize> {
    let cols = matrix.cols as usize;
    match Dtype::try_from(matrix.dtype) {
        Ok(Dtype::F32) => cols.checked_mul(4),
        Ok(Dtype::F16) => cols.checked_mul(2),
        Ok(Dtype::Int8) => Some(cols),
        Ok(Dtype::Ubinary) => Some(cols.div_ceil(8)),
        _ => None,
    }
}

/// The first row with a value that is not finite.
pub fn not_finite(matrix: &Matrix) -> Option<usize> {
    let at = match matrix.dtype() {
        Dtype::F32 => floats(&matrix.data).position(|value| !value.is_finite()),
        Dtype::F16 => widened(&matrix.data).position(|value| !value.is_finite()),
        _ => None,
    }?;
    at.checked_div(matrix.cols as usize)
}

/// The rows of a validated matrix of 32-bit floats.
pub fn rows(matrix: &Matrix) -> impl Iterator<Item = impl Iterator<Item = f32> + '_> {
    let row = (matrix.cols as usize * size_of::<f32>()).max(1);
    matrix.data.chunks_exact(row).map(floats)
}

/// Requires answers to be in one vector space: `known`, or that of the first answer if none is
/// known.
///
/// # Errors
/// Names both vector spaces if they differ.
pub fn one_space(known: &mut Option<VectorSpace>, answered: Option<&VectorSpace>) -> Result<(), String> {
    match (&known, answered.map(|space| &space.digest)) {
        (Some(space), digest) if digest != Some(&space.digest) => Err(format!(
            "its vector space changed from `{}` to `{}`; vectors of two spaces cannot be compared",
            space.digest,
            digest.map_or("", String::as_str)
        )),
        (None, Some(_)) => {
            *known = answered.cloned();
            Ok(())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn answer(rows: u32, cols: u32, dtype: Dtype, bytes: usize) -> EncodeResponse {
        EncodeResponse {
            embeddings: Some(Matrix {
                rows,
                cols,
                dtype: dtype.into(),
                data: vec![0; bytes].into(),
            }),
            ..EncodeResponse::default()
        }
    }

    #[test]
    fn an_answer_that_fits_is_taken_and_each_that_does_not_is_refused() {
        let good = answer(2, 3, Dtype::F32, 24);
        let read: Vec<Vec<f32>> = rows(matrix(&good, ExpectedAnswer::floats(2)).unwrap())
            .map(Iterator::collect)
            .collect();
        assert_eq!(read, [[0.0; 3]; 2]);
        for (bad, why) in [
            (EncodeResponse::default(), "without vectors"),
            (answer(3, 3, Dtype::F32, 36), "3 x 3"),
            (answer(2, 3, Dtype::F16, 12), "DTYPE_F16"),
            (answer(2, 3, Dtype::F32, 23), "23 bytes"),
            (answer(2, 0, Dtype::F32, 0), "2 x 0"),
            (
                EncodeResponse {
                    truncated: vec![true],
                    ..good.clone()
                },
                "of 1 texts",
            ),
        ] {
            let error = matrix(&bad, ExpectedAnswer::floats(2)).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        let narrow = ExpectedAnswer {
            dimensions: Some(2),
            ..ExpectedAnswer::floats(2)
        };
        assert!(matrix(&good, narrow).unwrap_err().contains("3 dimensions"));
    }

    #[test]
    fn every_result_that_was_asked_for_is_checked() {
        let request = |outputs: &[Output]| EncodeRequest {
            inputs: vec![isomer_proto::encoder::v1::Input::default(); 2],
            outputs: outputs.iter().map(|output| i32::from(*output)).collect(),
            ..EncodeRequest::default()
        };
        let space = Some(VectorSpace {
            digest: "d".to_owned(),
            ..VectorSpace::default()
        });
        let sparse = |indices: &[u32], values: &[f32]| SparseVector {
            indices: indices.to_vec(),
            values: values.to_vec(),
        };
        let good = EncodeResponse {
            token_embeddings: answer(3, 2, Dtype::F32, 24).embeddings,
            row_counts: vec![1, 2],
            sparse_embeddings: vec![sparse(&[], &[]), sparse(&[3, 7], &[0.5, 2.0])],
            vector_space: space.clone(),
            token_vector_space: space.clone(),
            sparse_vector_space: space,
            ..answer(2, 3, Dtype::F32, 24)
        };
        let all = ExpectedAnswer::of(&request(&[Output::Sparse, Output::TokenVectors, Output::TextVector]));
        assert_eq!(check(&good, all), Ok(()));
        let mut wide = good.clone();
        wide.sparse_vector_space.as_mut().unwrap().dimensions = 8;
        assert_eq!(check(&wide, all), Ok(()));
        let only = |output| ExpectedAnswer::of(&request(&[output]));
        let sparse_only = EncodeResponse {
            embeddings: None,
            token_embeddings: None,
            vector_space: None,
            token_vector_space: None,
            ..good.clone()
        };
        assert_eq!(check(&sparse_only, only(Output::Sparse)), Ok(()));
        assert!(check(&sparse_only, only(Output::TextVector)).is_err());
        assert!(check(&sparse_only, only(Output::TokenVectors)).is_err());
        let with = |edit: &dyn Fn(&mut EncodeResponse)| {
            let mut changed = good.clone();
            edit(&mut changed);
            check(&changed, all)
        };
        let second = |vector: SparseVector| with(&|answer| answer.sparse_embeddings[1] = vector.clone());
        for (bad, why) in [
            (with(&|answer| answer.sparse_embeddings.truncate(1)), "1 sparse vectors"),
            (second(sparse(&[3, 7], &[0.5])), "of text 1"),
            (second(sparse(&[7, 3], &[0.5, 2.0])), "of text 1"),
            (second(sparse(&[3, 3], &[0.5, 2.0])), "of text 1"),
            (second(sparse(&[3, 7], &[0.5, f32::NAN])), "of text 1"),
            (second(sparse(&[3, 7], &[0.5, -2.0])), "of text 1"),
            (with(&|answer| answer.row_counts = vec![3]), "3 x 2"),
            (with(&|answer| answer.token_embeddings = None), "without vectors"),
            (with(&|answer| answer.sparse_vector_space = None), "no vector space"),
            (
                with(&|answer| answer.sparse_vector_space.as_mut().unwrap().dimensions = 7),
                "of text 1 has an index beyond",
            ),
            (with(&|answer| answer.token_vector_space = None), "no vector space"),
            (
                with(&|answer| answer.vector_space = Some(VectorSpace::default())),
                "no digest",
            ),
        ] {
            let error = bad.unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_row_with_a_value_that_is_not_finite_is_found() {
        let mut values = [0.0_f32; 6];
        values[4] = f32::NAN;
        let mut bad = answer(2, 3, Dtype::F32, 24).embeddings.unwrap();
        assert_eq!(not_finite(&bad), None);
        bad.data = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect::<Vec<u8>>()
            .into();
        assert_eq!(not_finite(&bad), Some(1));
    }

    #[test]
    fn all_answers_are_of_the_first_ones_space() {
        let space = |digest: &str| VectorSpace {
            digest: digest.to_owned(),
            ..VectorSpace::default()
        };
        let mut known = None;
        one_space(&mut known, None).unwrap();
        one_space(&mut known, Some(&space("a"))).unwrap();
        one_space(&mut known, Some(&space("a"))).unwrap();
        assert!(
            one_space(&mut known, Some(&space("b")))
                .unwrap_err()
                .contains("from `a` to `b`")
        );
        assert!(one_space(&mut known, None).is_err());
    }
}
