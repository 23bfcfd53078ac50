//! The vector space of pooled vectors: the encoder's space, marked as augmented.

use isomer_proto::common::v1::VectorSpace;
use sha2::{Digest, Sha256};

use super::{
    pool::{Pooling, Recipe},
    spec::Sources,
};

/// Changes when equal requests begin to give different vectors.
const SCHEME: &str = "gase/1";

/// The vector space of augmented vectors, derived from the encoder's. The digest covers everything
/// that a fully augmented vector depends on. It does not cover which variants were present for one
/// text: a client that pools the variants that arrive in time wants to compare the results.
pub(super) fn augmented(own: &VectorSpace, sources: &Sources, recipe: &Recipe) -> VectorSpace {
    let mut hasher = Sha256::new();
    let mut put = |part: &str| {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    };
    let pooling = match recipe.pooling {
        Pooling::Mean => "mean".to_owned(),
        Pooling::Max => "max".to_owned(),
        Pooling::Weighted(weight) => format!("weighted({weight})"),
    };
    let mut names = vec!["original".to_owned()];
    put(SCHEME);
    put(&own.digest);
    put(&pooling);
    put(if recipe.normalise_before { "unit" } else { "as is" });
    put(if recipe.normalise_after { "unit" } else { "as is" });
    for (name, identity) in &sources.each {
        put(identity);
        names.push(name.clone());
    }
    let mut description = format!("{SCHEME} {pooling}({})", names.join(", "));
    if recipe.normalise_before {
        description.push_str(" of unit vectors");
    }
    VectorSpace {
        digest: hex::encode(hasher.finalize()),
        augmentation: description,
        normalised: recipe.normalise_after,
        ..own.clone()
    }
}
