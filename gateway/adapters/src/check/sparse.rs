//! The checks of an encoder that returns sparse vectors alone.

use isomer_encoder_client::answer::{self, ExpectedAnswer};
use isomer_proto::encoder::v1::{EncodeRequest, Output, SparseVector};
use isomer_service_kit::Fault;
use tonic::Code;

use super::{Probe, fault_text, texts};

/// Maximum difference of a weight between two calls. Batches with other calls in 16-bit arithmetic
/// cause it.
const SAME: f32 = 1e-2;

pub(super) async fn look(probe: &mut Probe<'_>) {
    match probe.backend.healthy().await {
        Ok(()) => probe.note("health", true, "reports that it is healthy"),
        Err(fault) => probe.note("health", false, fault_text(&fault)),
    }
    let first = match vectors(probe, texts::SAMPLES).await {
        Ok(vectors) => vectors,
        Err(fault) => {
            probe.essential("sparse_vectors", false, fault_text(&fault));
            return;
        }
    };
    let most = first.iter().map(|vector| vector.indices.len()).max().unwrap_or(0);
    probe.essential(
        "sparse_vectors",
        most > 0,
        format!("{} texts, at most {most} weights each", first.len()),
    );
    let distinct = first.iter().skip(1).any(|vector| *vector != first[0]);
    probe.essential("distinct", distinct, "different texts have different vectors");
    let backwards: Vec<&str> = texts::SAMPLES.iter().rev().copied().collect();
    for (name, texts, detail) in [
        ("determinism", texts::SAMPLES, "the same call twice"),
        ("order_preserved", &backwards, "the texts backwards"),
    ] {
        match vectors(probe, texts).await {
            Ok(mut again) => {
                if name == "order_preserved" {
                    again.reverse();
                }
                let apart = first.iter().zip(&again).map(|(a, b)| apart(a, b)).fold(0.0, f32::max);
                probe.essential(name, apart <= SAME, format!("{detail}: weights {apart:.1e} apart"));
            }
            Err(fault) => {
                probe.essential(name, false, fault_text(&fault));
            }
        }
    }
}

/// The largest difference of weights at the same index.
fn apart(a: &SparseVector, b: &SparseVector) -> f32 {
    let beyond = |a: &SparseVector, b: &SparseVector| {
        let weight = |index| b.indices.binary_search(index).map_or(0.0, |place| b.values[place]);
        let pairs = a.indices.iter().zip(&a.values);
        pairs
            .map(|(index, value)| (value - weight(index)).abs())
            .fold(0.0, f32::max)
    };
    beyond(a, b).max(beyond(b, a))
}

async fn vectors(probe: &Probe<'_>, texts: &[&str]) -> Result<Vec<SparseVector>, Fault> {
    let request = EncodeRequest {
        output: Output::Sparse.into(),
        ..probe.request(texts)
    };
    let asked = ExpectedAnswer::of(&request);
    let answer = probe.backend.encode(request, probe.deadline()).await?;
    answer::check(&answer, asked).map_err(|what| Fault::new(Code::DataLoss, "PROVIDER_ANSWER", what))?;
    Ok(answer.sparse_embeddings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_differ_by_their_largest_weight_at_one_index() {
        let vector = |indices: &[u32], values: &[f32]| SparseVector {
            indices: indices.to_vec(),
            values: values.to_vec(),
        };
        let one = vector(&[1, 5], &[0.5, 2.0]);
        for (other, expected) in [
            (one.clone(), 0.0),
            (vector(&[1, 5], &[0.25, 2.0]), 0.25),
            (vector(&[1], &[0.5]), 2.0),
            (vector(&[1, 5, 9], &[0.5, 2.0, 0.75]), 0.75),
        ] {
            assert_eq!((apart(&one, &other), apart(&other, &one)), (expected, expected));
        }
    }
}
