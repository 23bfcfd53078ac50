//! Makes an answer from a provider's vectors.

use isomer_proto::{
    common::v1::{Dtype, Matrix, Timing, VectorSpace},
    encoder::v1::EncodeResponse,
};
use isomer_service_kit::{Fault, vectors};
use tokio::time::Instant;
use tonic::Code;

use super::{Cost, Facts, Foreign, Shape, number};
use crate::{
    params::{Cut, Params},
    rest::bad_answer,
};

/// Maximum difference from 1 of the length of a vector that counts as normalised. It is the error
/// of vectors that were scaled or sent in 16 bits (bfloat16 keeps 8 bits of each value).
const UNIT_TOLERANCE: f64 = 1e-2;

/// Maximum number of entries in the list of ignored dimensions.
const IGNORED_DIMENSIONS: usize = 1024;

/// Puts vectors into the order of their texts.
///
/// # Errors
/// `DATA_LOSS`: a number of vectors other than that of texts, a repeated index, or an index without
/// a text.
pub(crate) fn in_order<V>(
    id: &str,
    count: usize,
    answered: impl IntoIterator<Item = (usize, V)>,
) -> Result<Vec<V>, Fault> {
    let mut places: Vec<Option<V>> = std::iter::repeat_with(|| None).take(count).collect();
    for (index, vector) in answered {
        match places.get_mut(index) {
            Some(place @ None) => *place = Some(vector),
            Some(_) => return Err(bad_answer(id, format!("two vectors for text {index}"))),
            None => return Err(bad_answer(id, format!("a vector for text {index} of {count}"))),
        }
    }
    let missing = |index| bad_answer(id, format!("no vector for text {index} of {count}"));
    let places = places.into_iter().enumerate();
    places
        .map(|(index, place)| place.ok_or_else(|| missing(index)))
        .collect()
}

/// Euclidean length.
fn length(vector: &[f32]) -> f64 {
    vector.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt()
}

/// Whether the vectors are of unit length; `None` if all are zero.
fn of_unit_length(vectors: &[Vec<f32>]) -> Option<bool> {
    let mut lengths = vectors
        .iter()
        .map(|vector| length(vector))
        .filter(|length| *length > 0.0)
        .peekable();
    lengths.peek()?;
    Some(lengths.all(|length| (length - 1.0).abs() <= UNIT_TOLERANCE))
}

impl Foreign {
    /// Refuses requests that are known to be impossible, before they cost anything.
    pub(super) fn check_known(&self, params: &Params, facts: &Facts) -> Result<(), Fault> {
        match (facts.sparse, params.sparse) {
            (Some(true), None) => return Err(self.without(&params.model, "dense", "ask for OUTPUT_SPARSE")),
            (Some(false), Some(_)) => return Err(self.without(&params.model, "sparse", "ask for OUTPUT_TEXT_VECTOR")),
            _ => {}
        }
        let identity = self.identity(&params.model, facts);
        if let Some(asked) = params.dimensions {
            let ignored = self.ignored_dimensions.lock();
            if let Some(given) = ignored.get(&(identity.clone(), asked)) {
                return Err(self.other_dimensions(&params.model, asked, *given));
            }
        }
        let known = self.shape(&identity, params.dimensions);
        match known.filter(|_| !facts.normalises_as_asked) {
            Some(shape) => self.check_raw(params, shape),
            None => Ok(()),
        }
    }

    fn without(&self, model: &str, form: &str, hint: &str) -> Fault {
        let message = format!("`{model}` of provider `{}` gives no {form} vectors", self.id);
        Fault::new(Code::Unimplemented, "NOT_IN_MODEL", message)
            .field("outputs")
            .hint(hint)
    }

    fn other_dimensions(&self, model: &str, asked: u32, given: u32) -> Fault {
        let message = format!(
            "provider `{}` was asked for {asked} dimensions of `{model}` and gave {given}",
            self.id
        );
        Fault::new(Code::Unimplemented, "PROVIDER_REFUSED", message)
            .field("dimensions")
            .hint("leave it out: this model has no fewer")
    }

    fn check_raw(&self, params: &Params, shape: Shape) -> Result<(), Fault> {
        if params.normalise == Some(false) && shape.unit {
            let kind = self.protocol.abilities().kind;
            return Err(Fault::new(
                Code::Unimplemented,
                "NOT_IN_PROTOCOL",
                format!(
                    "`{}` returns vectors of unit length, and {kind} does not report their original length",
                    params.model
                ),
            )
            .field("normalise")
            .hint("leave it out"));
        }
        Ok(())
    }

    /// The model's name in vector spaces: the protocol, the model, and the revision if the server
    /// reports one.
    pub(super) fn identity(&self, model: &str, facts: &Facts) -> String {
        let kind = self.protocol.abilities().kind;
        match facts.revision.as_str() {
            "" => format!("{kind}/{model}"),
            revision => format!("{kind}/{model}@{revision}"),
        }
    }

    /// Checks vectors and records their properties. Properties that are already known must still
    /// hold.
    pub(super) fn learn(&self, params: &Params, facts: &Facts, rows: &[Vec<f32>]) -> Result<Shape, Fault> {
        let bad = |what: String| Err(bad_answer(&self.id, what));
        let cols = rows.first().map_or(0, Vec::len);
        if cols == 0 {
            return bad("vectors without dimensions".into());
        }
        if let Some(index) = rows.iter().position(|row| row.len() != cols) {
            return bad(format!("vectors of {cols} and of {} dimensions", rows[index].len()));
        }
        if let Some(index) = rows.iter().position(|row| row.iter().any(|value| !value.is_finite())) {
            return bad(format!("the vector of text {index} is not finite"));
        }
        let dimensions = number(cols as u64);
        if let Some(asked) = params.dimensions.filter(|asked| *asked != dimensions) {
            let mut ignored = self.ignored_dimensions.lock();
            // The caller chooses the number, so the list is bounded.
            if ignored.len() >= IGNORED_DIMENSIONS {
                ignored.clear();
            }
            ignored.insert((self.identity(&params.model, facts), asked), dimensions);
            return Err(self.other_dimensions(&params.model, asked, dimensions));
        }
        let measured = of_unit_length(rows);
        let declared = facts.normalises_as_asked.then(|| params.normalise.unwrap_or(true));
        if declared == Some(true) && measured == Some(false) {
            return bad("vectors that should be of unit length are not".into());
        }
        if let Some(unit) = declared {
            return Ok(Shape { dimensions, unit });
        }
        let key = (self.identity(&params.model, facts), params.dimensions);
        let mut shapes = self.shapes.lock();
        let Some(known) = shapes.get(&key).copied() else {
            let shape = Shape {
                dimensions,
                unit: measured.unwrap_or(false),
            };
            // A zero vector gives no information about others.
            if measured.is_some() {
                shapes.insert(key, shape);
            }
            return Ok(shape);
        };
        if known.dimensions != dimensions || (known.unit && measured == Some(false)) {
            return Err(Fault::new(
                Code::DataLoss,
                "PROVIDER_CHANGED",
                format!(
                    "provider `{}` gave vectors of `{}` with {} dimensions{} before, and gives others now",
                    self.id,
                    params.model,
                    known.dimensions,
                    if known.unit { " and unit length" } else { "" }
                ),
            )
            .hint("if the model was changed on purpose, register the provider again under another encoder id")
            .with("provider", &self.id));
        }
        Ok(known)
    }

    pub(super) fn finish(
        &self,
        params: &Params,
        facts: &Facts,
        mut rows: Vec<Vec<f32>>,
        cost: Cost,
        arrived: Instant,
    ) -> Result<EncodeResponse, Fault> {
        let shape = self.learn(params, facts, &rows)?;
        if !facts.normalises_as_asked {
            self.check_raw(params, shape)?;
        }
        let scaled = params.normalise == Some(true) && !shape.unit;
        if scaled {
            rows.iter_mut().for_each(|row| scale(row));
        }
        Ok(EncodeResponse {
            embeddings: Some(self.packed(&rows, shape, params.dtype)?),
            vector_space: Some(self.space(params, facts, shape, scaled)),
            ..answer(params, rows.len(), cost, arrived)
        })
    }

    pub(super) fn space(&self, params: &Params, facts: &Facts, shape: Shape, scaled: bool) -> VectorSpace {
        let mut pooling = "provider".to_owned();
        if !facts.arithmetic.is_empty() {
            pooling = format!("{}>{pooling}", facts.arithmetic);
        }
        if params.sparse.is_some() {
            pooling.push_str(">sparse");
        }
        if scaled {
            pooling.push_str(">normalize");
        }
        let space = VectorSpace {
            model_id: self.identity(&params.model, facts),
            prompt: params.prompt(),
            pooling,
            normalised: shape.unit || scaled,
            dimensions: shape.dimensions,
            dtype: params.dtype.into(),
            ..VectorSpace::default()
        };
        let mut last = self.last_space.lock();
        let digest = std::mem::take(&mut last.digest);
        *last = if *last == space {
            VectorSpace { digest, ..space }
        } else {
            vectors::sealed(space)
        };
        last.clone()
    }

    fn packed(&self, rows: &[Vec<f32>], shape: Shape, dtype: Dtype) -> Result<Matrix, Fault> {
        let mut data = Vec::with_capacity(rows.len() * shape.dimensions as usize * 4);
        for (index, row) in rows.iter().enumerate() {
            match dtype {
                Dtype::F16 => vectors::halves(row, &mut data).map_err(|value| {
                    Fault::invalid(
                        "output_dtype",
                        format!("inputs[{index}] has the value {value}, beyond what F16 can hold"),
                    )
                    .hint("ask for DTYPE_F32, or for unit length")
                })?,
                Dtype::Ubinary => vectors::bits(row, &mut data),
                _ => data.extend(row.iter().flat_map(|value| value.to_le_bytes())),
            }
        }
        Ok(Matrix {
            rows: number(rows.len() as u64),
            cols: shape.dimensions,
            dtype: dtype.into(),
            data: data.into(),
        })
    }
}

/// The parts of an answer other than its vectors.
pub(super) fn answer(params: &Params, count: usize, cost: Cost, arrived: Instant) -> EncodeResponse {
    EncodeResponse {
        token_counts: cost.each,
        truncated: match params.cut {
            Cut::Refuse => vec![false; count],
            // Other protocols do not report it.
            _ => Vec::new(),
        },
        usage: Some(cost.usage),
        timing: Some(Timing {
            total: prost_types::Duration::try_from(arrived.elapsed()).ok(),
            ..Timing::default()
        }),
        ..EncodeResponse::default()
    }
}

/// Scales a row to unit length; a zero vector is unchanged.
fn scale(row: &mut [f32]) {
    let length = length(row);
    if length > 0.0 {
        #[allow(clippy::cast_possible_truncation)]
        row.iter_mut()
            .for_each(|value| *value = (f64::from(*value) / length) as f32);
    }
}
