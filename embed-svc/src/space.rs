//! The identity of a vector space.

use isomer_proto::common::v1::VectorSpace;
use prost::Message;
use sha2::{Digest, Sha256};

/// SHA-256 (hex) over every other field of the message: its Protocol Buffers encoding in field order with `digest` empty,
/// which any language can repeat.
pub fn digest(space: &VectorSpace) -> String {
    let rest = VectorSpace {
        digest: String::new(),
        ..space.clone()
    };
    hex::encode(Sha256::digest(rest.encode_to_vec()))
}

/// The space with its digest filled in.
#[must_use]
pub fn sealed(mut space: VectorSpace) -> VectorSpace {
    space.digest = digest(&space);
    space
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_but_the_digest_counts() {
        let space = sealed(VectorSpace {
            model_id: "a".into(),
            dimensions: 3,
            ..VectorSpace::default()
        });
        assert_eq!(space.digest.len(), 64);
        assert_eq!(digest(&space), space.digest, "the digest does not count itself");
        let others = [
            VectorSpace {
                model_id: "b".into(),
                ..space.clone()
            },
            VectorSpace {
                weights_digest: "x".into(),
                ..space.clone()
            },
            VectorSpace {
                prompt: "query: ".into(),
                ..space.clone()
            },
            VectorSpace {
                pooling: "cls".into(),
                ..space.clone()
            },
            VectorSpace {
                normalised: true,
                ..space.clone()
            },
            VectorSpace {
                dimensions: 2,
                ..space.clone()
            },
            VectorSpace {
                dtype: 1,
                ..space.clone()
            },
            VectorSpace {
                augmentation: "gase".into(),
                ..space.clone()
            },
            VectorSpace {
                quantisation: "y".into(),
                ..space.clone()
            },
        ];
        for other in others {
            assert_ne!(digest(&other), space.digest, "{other:?}");
        }
    }
}
