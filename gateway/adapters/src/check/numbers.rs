//! The vectors of an answer, and their comparison.

use isomer_proto::{common::v1::Dtype, encoder::v1::EncodeResponse};
use isomer_service_kit::Fault;
use tonic::Code;

/// Rows of 32-bit floats.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Vectors(pub(super) Vec<Vec<f32>>);

impl Vectors {
    /// # Errors
    /// `DATA_LOSS`: the matrix does not fit, or has values that are not finite.
    pub(super) fn read(answer: &EncodeResponse, count: usize) -> Result<Self, Fault> {
        let bad = |what: String| Err(Fault::new(Code::DataLoss, "PROVIDER_ANSWER", what));
        if let Some(error) = answer.errors.first() {
            return bad(format!("text {} failed: {}", error.index, error.message));
        }
        let Some(matrix) = &answer.embeddings else {
            return bad("no matrix".into());
        };
        let (rows, cols) = (matrix.rows as usize, matrix.cols as usize);
        if rows != count || cols == 0 {
            return bad(format!("a matrix of {rows} × {cols} for {count} texts"));
        }
        if matrix.dtype != i32::from(Dtype::F32) || matrix.data.len() != rows * cols * 4 {
            return bad(format!(
                "{} bytes of type {} for {rows} × {cols} floats",
                matrix.data.len(),
                matrix.dtype
            ));
        }
        let values: Vec<f32> = isomer_service_kit::vectors::floats(&matrix.data).collect();
        if let Some(at) = values.iter().position(|value| !value.is_finite()) {
            return bad(format!("the vector of text {} is not finite", at / cols));
        }
        Ok(Self(values.chunks_exact(cols).map(<[f32]>::to_vec).collect()))
    }

    pub(super) fn cols(&self) -> usize {
        self.0.first().map_or(0, Vec::len)
    }

    /// The minimum cosine and the maximum absolute difference of corresponding rows.
    pub(super) fn apart(&self, other: &Self) -> VectorDifference {
        let pairs = self.0.iter().zip(&other.0);
        let least = pairs.clone().map(|(a, b)| cosine(a, b)).fold(1.0, f64::min);
        let most = pairs
            .flat_map(|(a, b)| a.iter().zip(b))
            .map(|(a, b)| f64::from((a - b).abs()))
            .fold(0.0, f64::max);
        VectorDifference {
            cosine: if self.0.len() == other.0.len() { least } else { -1.0 },
            difference: most,
        }
    }
}

/// The difference of two sets of vectors.
#[derive(Debug, Clone, Copy)]
pub(super) struct VectorDifference {
    pub(super) cosine: f64,
    pub(super) difference: f64,
}

impl std::fmt::Display for VectorDifference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { cosine, difference } = self;
        match *difference == 0.0 {
            true => f.write_str("equal, bit for bit"),
            false => write!(f, "least cosine {cosine:.7}, largest difference {difference:.1e}"),
        }
    }
}

/// Euclidean length.
pub(super) fn length(vector: &[f32]) -> f64 {
    vector.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt()
}

/// Cosine; 1 for two zero vectors, 0 if one is zero.
pub(super) fn cosine(a: &[f32], b: &[f32]) -> f64 {
    if a.len() != b.len() {
        return -1.0;
    }
    let lengths = (length(a), length(b));
    match lengths {
        (0.0, 0.0) => 1.0,
        (0.0, _) | (_, 0.0) => 0.0,
        (first, second) => {
            let product: f64 = a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            product / (first * second)
        }
    }
}
