//! The fields of an `EncodeRequest` that name its results.

use isomer_proto::{
    ProtoEnum,
    common::v1::Dtype,
    encoder::v1::{EncodeRequest, Output},
};

use crate::{Fault, choice};

/// The results that a request asks for: `output` alone, or all of `outputs`. Without either, one
/// vector per text.
///
/// # Errors
/// `INVALID_ARGUMENT` for both fields together, a number that this version does not know, and a
/// repeated result.
pub fn outputs(output: i32, outputs: &[i32]) -> Result<Vec<Output>, Fault> {
    let named = choice::<Output>("output", output)?;
    if named.is_some() && !outputs.is_empty() {
        return Err(Fault::invalid("outputs", "is given beside `output`").hint("give one of the two"));
    }
    if outputs.is_empty() {
        return Ok(vec![named.unwrap_or(Output::TextVector)]);
    }
    let mut all = Vec::with_capacity(outputs.len().min(Output::all().count()));
    for (index, number) in outputs.iter().enumerate() {
        let field = format!("outputs[{index}]");
        let output = choice(&field, *number)?.unwrap_or(Output::TextVector);
        if all.contains(&output) {
            return Err(Fault::invalid(field, "is repeated").hint("name each result once"));
        }
        all.push(output);
    }
    Ok(all)
}

/// Maximum number of entries of each sparse vector.
///
/// # Errors
/// `INVALID_ARGUMENT` for 0, and for a request without sparse vectors.
pub fn max_active_dimensions(value: Option<u32>, outputs: &[Output]) -> Result<usize, Fault> {
    let invalid = |message| Fault::invalid("max_active_dimensions", message);
    match value {
        Some(_) if !outputs.contains(&Output::Sparse) => {
            Err(invalid("applies to sparse vectors only").hint("ask for OUTPUT_SPARSE, or omit it"))
        }
        Some(0) => Err(invalid("is 0").hint("give at least 1, or omit it")),
        Some(most) => Ok(usize::try_from(most).unwrap_or(usize::MAX)),
        None => Ok(usize::MAX),
    }
}

/// Refuses settings of dense vectors in a request for others.
///
/// # Errors
/// `INVALID_ARGUMENT` with the field of the setting.
pub fn without_dense(request: &EncodeRequest) -> Result<(), Fault> {
    let given = [
        ("dimensions", request.dimensions.is_some()),
        ("normalise", request.normalise.is_some()),
        (
            "output_dtype",
            !matches!(request.output_dtype(), Dtype::Unspecified | Dtype::F32),
        ),
    ];
    match given.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((field, _)) => Err(
            Fault::invalid(*field, "applies to vectors of texts, and none are asked for")
                .hint("omit it, or add OUTPUT_TEXT_VECTOR to `outputs`"),
        ),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn outputs_are_read_from_either_field() {
        let [text, tokens, sparse] = [Output::TextVector, Output::TokenVectors, Output::Sparse];
        for (one, several, expected) in [
            (0, vec![], vec![text]),
            (3, vec![], vec![sparse]),
            (0, vec![3, 0], vec![sparse, text]),
            (0, vec![2, 3, 1], vec![tokens, sparse, text]),
        ] {
            assert_eq!(outputs(one, &several).unwrap(), expected);
        }
    }

    #[test]
    fn each_refusal_of_outputs_names_its_field() {
        for (one, several, field) in [
            (9, vec![], "output"),
            (1, vec![3], "outputs"),
            (0, vec![3, 9], "outputs[1]"),
            (0, vec![3, 2, 3], "outputs[2]"),
            // The default repeats the result that it stands for.
            (0, vec![1, 0], "outputs[1]"),
        ] {
            let fault = outputs(one, &several).unwrap_err();
            assert_eq!(fault.field.as_deref(), Some(field), "{fault}");
            assert!(fault.hint.is_some());
        }
    }

    #[test]
    fn entries_are_limited_for_sparse_vectors_only() {
        let sparse = [Output::TextVector, Output::Sparse];
        assert_eq!(max_active_dimensions(None, &[Output::TextVector]).unwrap(), usize::MAX);
        assert_eq!(max_active_dimensions(Some(2), &sparse).unwrap(), 2);
        for (value, outputs) in [(0, &sparse[..]), (2, &sparse[..1])] {
            let fault = max_active_dimensions(Some(value), outputs).unwrap_err();
            assert_eq!(fault.field.as_deref(), Some("max_active_dimensions"), "{fault}");
        }
    }

    #[test]
    fn settings_of_dense_vectors_need_dense_vectors() {
        let plain = EncodeRequest {
            output_dtype: Dtype::F32.into(),
            ..EncodeRequest::default()
        };
        without_dense(&plain).unwrap();
        let (dimensions, normalise) = (Some(2), Some(false));
        for (request, field) in [
            (
                EncodeRequest {
                    dimensions,
                    ..plain.clone()
                },
                "dimensions",
            ),
            (
                EncodeRequest {
                    normalise,
                    ..plain.clone()
                },
                "normalise",
            ),
            (
                EncodeRequest {
                    output_dtype: Dtype::F16.into(),
                    ..plain.clone()
                },
                "output_dtype",
            ),
        ] {
            let fault = without_dense(&request).unwrap_err();
            assert_eq!(fault.field.as_deref(), Some(field), "{fault}");
        }
    }
}
