//! The conversion of texts into vectors, and its stored form in a collection. Pure.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use isomer_proto::{
    encoder::v1::Output,
    transform::v1::{AugmentationPooling, AugmentationSpec},
};
use prost::Message;
use serde::{Deserialize, Serialize};

/// Selects the encoder's prompt for texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptChoice {
    /// The prompt for documents, if the encoder has one; else its default.
    Document,
    /// The prompt for queries, if the encoder has one; else its default.
    Query,
    Named(String),
    /// This text; empty for no prompt.
    Literal(String),
}

/// Vectors of the same pass that are stored beside the dense ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdditionalVectors {
    /// One sparse vector per text.
    #[serde(default)]
    pub sparse: bool,
    /// One vector per token.
    #[serde(default)]
    pub tokens: bool,
}

impl AdditionalVectors {
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The results of a request, dense vectors included; empty for dense vectors alone.
    pub(crate) fn outputs(self) -> Vec<Output> {
        let all = [
            (!self.is_none(), Output::TextVector),
            (self.sparse, Output::Sparse),
            (self.tokens, Output::TokenVectors),
        ];
        all.into_iter()
            .filter_map(|(wanted, output)| wanted.then_some(output))
            .collect()
    }
}

/// The conversion of texts into vectors.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// Id of the encoder.
    pub encoder: String,
    pub prompt: PromptChoice,
    /// Number of dimensions to keep of each vector (Matryoshka).
    pub dimensions: Option<u32>,
    /// Whether vectors are scaled to unit length; `None`: the encoder's default.
    pub normalise: Option<bool>,
    /// Variants to pool with.
    pub augmentation: Option<Augmentation>,
    /// Vectors beside the dense ones.
    pub additional: AdditionalVectors,
    /// How long transient failures are retried.
    pub patience: Duration,
}

/// Variants of each text, and the pooling of vectors.
#[derive(Debug, Clone)]
pub struct Augmentation {
    /// The source of the variants.
    pub spec: AugmentationSpec,
    /// The pooling of vectors into one.
    pub pooling: AugmentationPooling,
    /// Weight of the original, with weighted pooling.
    pub original_weight: Option<f64>,
    /// Whether vectors are scaled to unit length before pooling.
    pub normalise_before: bool,
}

/// A recipe in its stored form, so that the collection's vectors can be computed again without the
/// flags of the run that filled it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptRecipe {
    encoder: String,
    prompt: PromptChoice,
    dimensions: Option<u32>,
    normalise: Option<bool>,
    augmentation: Option<KeptAugmentation>,
    #[serde(default, skip_serializing_if = "AdditionalVectors::is_none")]
    additional: AdditionalVectors,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct KeptAugmentation {
    /// The message [`AugmentationSpec`] in base64.
    spec: String,
    pooling: i32,
    original_weight: Option<f64>,
    normalise_before: bool,
}

impl Recipe {
    /// The stored form.
    pub fn kept(&self) -> KeptRecipe {
        let augmentation = self.augmentation.as_ref().map(|own| KeptAugmentation {
            spec: STANDARD.encode(own.spec.encode_to_vec()),
            pooling: own.pooling.into(),
            original_weight: own.original_weight,
            normalise_before: own.normalise_before,
        });
        KeptRecipe {
            encoder: self.encoder.clone(),
            prompt: self.prompt.clone(),
            dimensions: self.dimensions,
            normalise: self.normalise,
            augmentation,
            additional: self.additional,
        }
    }
}

impl KeptRecipe {
    /// The recipe.
    ///
    /// # Errors
    /// If a newer version wrote it, the part that cannot be read.
    pub fn recipe(&self, patience: Duration) -> Result<Recipe, String> {
        let augmentation = self.augmentation.as_ref().map(KeptAugmentation::read).transpose()?;
        Ok(Recipe {
            encoder: self.encoder.clone(),
            prompt: self.prompt.clone(),
            dimensions: self.dimensions,
            normalise: self.normalise,
            augmentation,
            additional: self.additional,
            patience,
        })
    }
}

impl KeptAugmentation {
    fn read(&self) -> Result<Augmentation, String> {
        let bytes = STANDARD.decode(&self.spec).map_err(|error| error.to_string())?;
        Ok(Augmentation {
            spec: AugmentationSpec::decode(bytes.as_slice()).map_err(|error| error.to_string())?,
            pooling: AugmentationPooling::try_from(self.pooling)
                .map_err(|_| format!("pooling {} is not known", self.pooling))?,
            original_weight: self.original_weight,
            normalise_before: self.normalise_before,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use isomer_proto::transform::v1::VariantSource;

    use super::*;

    #[test]
    fn a_recipe_is_read_as_it_was_kept() {
        let recipe = Recipe {
            encoder: "e".to_owned(),
            prompt: PromptChoice::Named("passage".to_owned()),
            dimensions: Some(64),
            normalise: None,
            augmentation: Some(Augmentation {
                spec: AugmentationSpec {
                    seed: Some(7),
                    sources: vec![VariantSource {
                        generator_id: "local:g".to_owned(),
                        transformation: None,
                    }],
                    ..AugmentationSpec::default()
                },
                pooling: AugmentationPooling::Weighted,
                original_weight: Some(0.5),
                normalise_before: true,
            }),
            additional: AdditionalVectors {
                sparse: true,
                tokens: false,
            },
            patience: Duration::from_secs(1),
        };
        let text = serde_json::to_string(&recipe.kept()).unwrap();
        let kept: KeptRecipe = serde_json::from_str(&text).unwrap();
        let read = kept.recipe(Duration::from_secs(2)).unwrap();
        assert_eq!(read.kept(), recipe.kept());
        assert_eq!(
            read.augmentation.unwrap().spec,
            recipe.augmentation.as_ref().unwrap().spec
        );
        assert_eq!(read.patience, Duration::from_secs(2));
        let newer = text.replace(&format!("\"pooling\":{}", 3), "\"pooling\":99");
        let kept: KeptRecipe = serde_json::from_str(&newer).unwrap();
        assert!(kept.recipe(Duration::ZERO).unwrap_err().contains("99"));
    }
}
