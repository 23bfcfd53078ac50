//! The encoder behind the tests of augmentation: vectors that a test can compute itself.

use std::time::Duration;

use isomer_proto::{
    common::v1::{Dtype, ItemError, Similarity, VectorSpace},
    encoder::v1::{EncodeResponse, Encoder},
};
use isomer_stubs::encoder::{StubEncoder, answer, named, texts};

/// The vector of a text: its bytes, words, its first byte and a constant.
pub(super) fn vector(text: &str) -> Vec<f32> {
    let first = text.bytes().next().unwrap_or_default();
    vec![
        text.len() as f32,
        text.split_whitespace().count() as f32,
        f32::from(first) - 96.0,
        -0.5,
    ]
}

pub(super) fn own_space() -> VectorSpace {
    VectorSpace {
        digest: "stub-space".into(),
        model_id: "stub".into(),
        pooling: "mean".into(),
        dimensions: 4,
        dtype: Dtype::F32.into(),
        ..VectorSpace::default()
    }
}

/// Texts containing `unencodable` fail as items. Texts longer than `limit` (in bytes) are reported
/// as truncated; without a limit the encoder reports nothing.
pub(super) fn encoder(normalises: bool, limit: Option<usize>) -> StubEncoder {
    let stub = Encoder {
        vector_space: Some(own_space()),
        dimensions: 4,
        max_batch_items: 3,
        similarity: Similarity::Dot.into(),
        normalises,
        ..named("stub")
    };
    StubEncoder::of([stub]).on_encode(move |request| async move {
        tokio::time::sleep(Duration::from_millis(5)).await;
        let request = request.into_inner();
        let errors = texts(&request)
            .zip(0..)
            .filter(|(text, _)| text.contains("unencodable"));
        let cut = limit.map(|limit| texts(&request).map(|text| text.len() > limit).collect());
        Ok(EncodeResponse {
            errors: errors
                .map(|(_, index)| ItemError {
                    index,
                    code: 3,
                    message: "the stub cannot encode this".into(),
                })
                .collect(),
            vector_space: Some(own_space()),
            truncated: cut.unwrap_or_default(),
            ..answer(texts(&request).map(vector), 5)
        })
    })
}
