//! The common properties of a collection's vectors, stored in the collection. Pure.

use std::time::Duration;

use isomer_proto::{
    ProtoEnum,
    common::v1::{Similarity, VectorSpace},
};
use serde::{Deserialize, Serialize};

use crate::{
    chunk::Chunking,
    error::{IndexError, Result},
    recipe::{AdditionalVectors, KeptRecipe, Recipe},
};

const VERSION: u32 = 1;

/// The mark of a collection. If two marks are equal, rows of both may be in one collection.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Mark {
    /// Version of this format.
    pub version: u32,
    /// The vector space.
    pub space: Space,
    /// The similarity of its vectors: cosine, dot, euclidean or manhattan.
    pub similarity: String,
    /// The division of texts, in the notation of `--chunk`.
    pub chunking: String,
    /// Whether rows contain their texts.
    pub with_text: bool,
    /// The space of its sparse vectors, if it keeps any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sparse: Option<Space>,
    /// The space of its vectors of tokens, if it keeps any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Space>,
    /// How its vectors can be computed again. Two recipes may lead to the same space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipe: Option<KeptRecipe>,
}

impl PartialEq for Mark {
    fn eq(&self, other: &Self) -> bool {
        let of = |mark: &Self| (mark.version, mark.with_text);
        of(self) == of(other)
            && self.space.unnamed() == other.space.unnamed()
            && self.additional_spaces() == other.additional_spaces()
            && self.similarity == other.similarity
            && self.chunking == other.chunking
    }
}

/// A vector space, as [`VectorSpace`] describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    /// Equal digests mean equal spaces.
    pub digest: String,
    /// The encoder.
    pub model: String,
    /// SHA-256 of its weights.
    pub weights: String,
    /// SHA-256 of the other settings that affect vectors; empty if the mark is older than this
    /// field, or the server does not report it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub settings: String,
    /// The text put in front of each text.
    pub prompt: String,
    /// The stages after the transformer.
    pub pooling: String,
    /// Whether vectors have unit length.
    pub normalised: bool,
    pub dimensions: u32,
    /// The augmentation of vectors; empty for plain ones.
    pub augmentation: String,
}

impl Space {
    /// The space of a message.
    pub(crate) fn of(space: &VectorSpace) -> Self {
        Self {
            digest: space.digest.clone(),
            model: space.model_id.clone(),
            weights: space.weights_digest.clone(),
            settings: space.settings_digest.clone(),
            prompt: space.prompt.clone(),
            pooling: space.pooling.clone(),
            normalised: space.normalised,
            dimensions: space.dimensions,
            augmentation: space.augmentation.clone(),
        }
    }

    /// The space without the encoder's name if its digests identify the encoder. The same files may
    /// have another name in another process.
    fn unnamed(&self) -> Self {
        let is_identified = !self.weights.is_empty() && !self.settings.is_empty();
        Self {
            model: match is_identified {
                true => String::new(),
                false => self.model.clone(),
            },
            ..self.clone()
        }
    }
}

impl Mark {
    /// The mark of vectors of this space.
    pub fn new(space: &VectorSpace, similarity: Similarity, chunking: Chunking, with_text: bool) -> Self {
        Self {
            version: VERSION,
            space: Space::of(space),
            similarity: if similarity == Similarity::Unspecified {
                Similarity::Cosine
            } else {
                similarity
            }
            .name()
            .to_owned(),
            chunking: chunking.to_string(),
            with_text,
            sparse: None,
            tokens: None,
            recipe: None,
        }
    }

    /// The spaces of vectors beside the dense ones.
    fn additional_spaces(&self) -> [Option<Space>; 2] {
        [&self.sparse, &self.tokens].map(|space| space.as_ref().map(Space::unnamed))
    }

    /// Vectors that rows have beside the dense ones.
    pub fn additional(&self) -> AdditionalVectors {
        AdditionalVectors {
            sparse: self.sparse.is_some(),
            tokens: self.tokens.is_some(),
        }
    }

    /// The division of texts.
    ///
    /// # Errors
    /// If it was written by a version with other divisions.
    pub fn chunking(&self) -> Result<Chunking> {
        self.chunking.parse().map_err(|message| IndexError::Setting {
            field: "chunk",
            message,
            hint: "the collection was filled by a newer isomer; use that one",
        })
    }

    /// How the vectors of the collection can be computed again.
    ///
    /// # Errors
    /// If the mark does not contain it, or a newer version wrote the mark.
    pub fn recipe(&self, collection: &str, patience: Duration) -> Result<Recipe> {
        let foreign = |message: String| IndexError::Foreign {
            collection: collection.to_owned(),
            message,
        };
        let kept = self.recipe.as_ref();
        let kept = kept.ok_or_else(|| foreign("its mark does not say how its vectors are made".to_owned()))?;
        kept.recipe(patience)
            .map_err(|error| foreign(format!("its mark does not say how its vectors are made: {error}")))
    }

    /// The stored form.
    pub fn to_text(&self) -> String {
        // A structure of texts and numbers has no value that JSON lacks.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Parses the mark of a collection.
    ///
    /// # Errors
    /// If it is not a mark, or is one of a newer version.
    pub fn from_text(collection: &str, text: &str) -> Result<Self> {
        let foreign = |message: String| IndexError::Foreign {
            collection: collection.to_owned(),
            message,
        };
        let mark: Self =
            serde_json::from_str(text).map_err(|error| foreign(format!("its mark cannot be read: {error}")))?;
        if mark.version != VERSION {
            return Err(foreign(format!(
                "its mark has version {}, this isomer knows {VERSION}",
                mark.version
            )));
        }
        Ok(mark)
    }

    /// Requires that rows of `given` may be added to this collection.
    ///
    /// # Errors
    /// [`IndexError::OtherSpace`] with all differences.
    pub fn check(&self, collection: &str, given: &Self) -> Result<()> {
        if self == given {
            return Ok(());
        }
        Err(self.refusal(collection, given, self.differences(given)))
    }

    /// The refusal of a space with this difference.
    fn refusal(&self, collection: &str, given: &Self, differences: Vec<String>) -> IndexError {
        let recorded = |mark: &Self| !mark.space.settings.is_empty();
        if differences.len() == 1 && recorded(given) && !recorded(self) {
            return IndexError::OlderSpace {
                collection: collection.to_owned(),
            };
        }
        IndexError::OtherSpace {
            collection: collection.to_owned(),
            difference: differences.join("; "),
        }
    }

    /// Requires that a query's vector may be compared with this collection's. The spaces may differ
    /// in their prompts, and in whether one side is augmented.
    ///
    /// # Errors
    /// [`IndexError::OtherSpace`] with all differences.
    pub fn check_query(&self, collection: &str, query: &Self) -> Result<()> {
        let bare = |space: &Space| Space {
            digest: String::new(),
            prompt: String::new(),
            augmentation: String::new(),
            // The scaling of a pooled vector is a separate setting. Similarities other than the
            // cosine then depend on the lengths, so the flag must not differ.
            ..space.unnamed()
        };
        if bare(&self.space) == bare(&query.space) {
            return Ok(());
        }
        let differences: Vec<String> = self
            .differences(query)
            .into_iter()
            .filter(|line| {
                ![
                    "digest",
                    "prompt",
                    "augmentation",
                    "chunk",
                    "with-text",
                    "sparse",
                    "token",
                ]
                .iter()
                .any(|name| line.starts_with(name))
            })
            .collect();
        Err(self.refusal(collection, query, differences))
    }

    fn differences(&self, given: &Self) -> Vec<String> {
        let (ours, theirs) = (&self.space, &given.space);
        let number = |n: u32| n.to_string();
        let additional = |space: &Option<Space>| match space {
            None => "none".to_owned(),
            Some(space) => space.unnamed().digest,
        };
        let settings = |space: &Space| match space.settings.as_str() {
            "" => "not recorded".to_owned(),
            digest => digest.to_owned(),
        };
        let are_identified = [ours, theirs].iter().all(|space| space.unnamed().model.is_empty());
        let model = |space: &Space| match are_identified {
            true => String::new(),
            false => space.model.clone(),
        };
        let rows = [
            ("settings", settings(ours), settings(theirs)),
            ("model", model(ours), model(theirs)),
            ("weights", ours.weights.clone(), theirs.weights.clone()),
            ("prompt", ours.prompt.clone(), theirs.prompt.clone()),
            ("pooling", ours.pooling.clone(), theirs.pooling.clone()),
            ("normalised", ours.normalised.to_string(), theirs.normalised.to_string()),
            ("dimensions", number(ours.dimensions), number(theirs.dimensions)),
            ("augmentation", ours.augmentation.clone(), theirs.augmentation.clone()),
            ("similarity", self.similarity.clone(), given.similarity.clone()),
            ("chunk", self.chunking.clone(), given.chunking.clone()),
            ("with-text", self.with_text.to_string(), given.with_text.to_string()),
            ("sparse vectors", additional(&self.sparse), additional(&given.sparse)),
            ("token vectors", additional(&self.tokens), additional(&given.tokens)),
        ];
        let told: Vec<String> = rows
            .into_iter()
            .filter(|(_, stored, given)| stored != given)
            .map(|(name, stored, given)| format!("{name}: stored `{stored}`, now `{given}`"))
            .collect();
        match told.is_empty() {
            false => told,
            true => vec![format!("digest: stored `{}`, now `{}`", ours.digest, theirs.digest)],
        }
    }
}

/// A mark of three-dimensional vectors in a space with this digest.
#[cfg(test)]
pub(crate) fn test_mark(digest: &str) -> Mark {
    let space = VectorSpace {
        digest: digest.to_owned(),
        model_id: "stub".to_owned(),
        dimensions: 3,
        ..VectorSpace::default()
    };
    Mark::new(&space, Similarity::Cosine, Chunking::Whole, false)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_mark_is_read_as_it_was_written_and_nothing_else_is_one() {
        let mark = test_mark("a");
        assert_eq!(Mark::from_text("c", &mark.to_text()).unwrap(), mark);
        assert!(Mark::from_text("c", "a table of documents").is_err());
        let newer = mark.to_text().replace("\"version\":1", "\"version\":2");
        assert!(
            Mark::from_text("c", &newer)
                .unwrap_err()
                .to_string()
                .contains("version 2")
        );
    }

    #[test]
    fn another_space_is_refused_with_what_differs() {
        let mark = test_mark("a");
        mark.check("c", &mark.clone()).unwrap();
        let mut other = test_mark("b");
        other.space.prompt = "query: ".to_owned();
        let refusal = mark.check("c", &other).unwrap_err().to_string();
        assert!(refusal.contains("prompt: stored ``, now `query: `"), "{refusal}");
        let refusal = mark.check("c", &test_mark("b")).unwrap_err().to_string();
        assert!(refusal.contains("digest: stored `a`, now `b`"), "{refusal}");
        let mut sparse = mark.clone();
        sparse.sparse = Some(test_mark("s").space);
        assert_eq!(Mark::from_text("c", &sparse.to_text()).unwrap(), sparse);
        let refusal = mark.check("c", &sparse).unwrap_err().to_string();
        assert!(refusal.contains("sparse vectors: stored `none`, now `s`"), "{refusal}");
        mark.check_query("c", &sparse).unwrap();
        let mut chunked = mark.clone();
        chunked.chunking = "tokens=8,overlap=0".to_owned();
        assert!(mark.check("c", &chunked).is_err());
    }

    #[test]
    fn the_same_files_may_have_another_name() {
        let named = |model: &str, settings: &str| {
            let mut mark = test_mark("a");
            (mark.space.model, mark.space.weights) = (model.to_owned(), "w".to_owned());
            settings.clone_into(&mut mark.space.settings);
            mark
        };
        let mark = named("candidate", "s");
        assert_eq!(mark, named("prod", "s"));
        mark.check_query("c", &named("prod", "s")).unwrap();
        let other = mark.check("c", &named("prod", "t")).unwrap_err().to_string();
        assert!(other.contains("settings") && !other.contains("model"), "{other}");
        // Without its settings an encoder is known by its name.
        assert!(named("candidate", "").check("c", &named("prod", "")).is_err());
    }

    #[test]
    fn a_query_may_have_another_prompt_and_augmentation_but_no_other_weights() {
        let mark = test_mark("a");
        let mut query = test_mark("b");
        query.space.prompt = "query: ".to_owned();
        query.space.augmentation = "mean of 2".to_owned();
        query.chunking = "tokens=8,overlap=0".to_owned();
        mark.check_query("c", &query).unwrap();
        query.space.weights = "w".to_owned();
        let refusal = mark.check_query("c", &query).unwrap_err().to_string();
        assert!(refusal.contains("weights") && !refusal.contains("prompt"), "{refusal}");
    }
}
