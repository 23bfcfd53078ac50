//! Sparse vectors of providers, checked.

use isomer_proto::encoder::v1::{EncodeResponse, SparseVector};
use isomer_service_kit::{Fault, vectors};
use tokio::time::Instant;

use super::{Call, Cost, Entries, Foreign, Shape, finish::answer};
use crate::{params::Items, rest::bad_answer};

/// Protocols do not report the size of the vocabulary, and no length is declared.
pub(super) const SHAPE: Shape = Shape {
    dimensions: 0,
    unit: false,
};

impl Foreign {
    /// Sparse vectors of all items, in their order, with their cost.
    pub(super) async fn entries(&self, call: Call<'_>, items: &Items) -> Result<(Vec<Entries>, Cost), Fault> {
        let Call { params, deadline, .. } = call;
        let (mut vectors, cost) = self
            .gathered(call, items, |piece| self.protocol.embed_sparse(params, piece, deadline))
            .await?;
        for (text, entries) in vectors.iter_mut().enumerate() {
            entries.sort_unstable_by_key(|(index, _)| *index);
            if let Some(what) = unsound(entries) {
                return Err(bad_answer(
                    &self.id,
                    format!("the sparse vector of text {text} has {what}"),
                ));
            }
        }
        Ok((vectors, cost))
    }

    pub(super) fn finish_sparse(
        &self,
        call: Call<'_>,
        (vectors, cost): (Vec<Entries>, Cost),
        arrived: Instant,
    ) -> EncodeResponse {
        let Call { params, facts, .. } = call;
        let most = params.sparse.unwrap_or(usize::MAX);
        let count = vectors.len();
        let kept = vectors.into_iter().map(|entries| {
            let (indices, values) = vectors::largest(entries, most).into_iter().unzip();
            SparseVector { indices, values }
        });
        EncodeResponse {
            sparse_embeddings: kept.collect(),
            sparse_vector_space: Some(self.space(params, facts, SHAPE, false)),
            ..answer(params, count, cost, arrived)
        }
    }
}

/// The defect of a sparse vector whose entries are sorted.
fn unsound(entries: &Entries) -> Option<String> {
    let wrong = |(_, weight): &&(u32, f32)| !weight.is_finite() || *weight <= 0.0;
    if let Some((index, weight)) = entries.iter().find(wrong) {
        return Some(format!(
            "the weight {weight} at index {index}; weights are finite and above 0"
        ));
    }
    let repeated = entries.windows(2).find(|pair| pair[0].0 == pair[1].0);
    repeated.map(|pair| format!("two weights at index {}", pair[0].0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_finite_and_above_0_and_indices_differ() {
        assert_eq!(unsound(&vec![]), None);
        assert_eq!(unsound(&vec![(0, 0.5), (9, f32::MIN_POSITIVE)]), None);
        for entries in [
            vec![(0, 0.5), (1, 0.0)],
            vec![(0, -0.5)],
            vec![(0, f32::NAN)],
            vec![(0, f32::INFINITY)],
            vec![(3, 0.5), (3, 0.25)],
        ] {
            assert!(unsound(&entries).is_some(), "{entries:?}");
        }
    }
}
