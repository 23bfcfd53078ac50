//! Checks that keep vectors of different spaces apart.

use std::collections::HashMap;

use isomer_service_kit::Fault;
use parking_lot::Mutex;

use crate::{
    error::{Error, Failure, SpaceMismatch, reasons},
    space::VectorSpace,
};

/// The space of vectors that are kept together, e.g. in one index. The first vectors decide which
/// one it is, or the space that it is made with. Vectors that cannot be compared with it are
/// [`Error::SpaceMismatch`]. Queries and documents may have prompts of their own. Threads and
/// clients may share one.
#[derive(Debug, Default)]
pub struct Collection {
    name: String,
    space: Mutex<Option<VectorSpace>>,
}

impl Collection {
    /// Names a collection.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            space: Mutex::default(),
        }
    }

    /// A collection whose space is known.
    pub fn of(name: impl Into<String>, space: VectorSpace) -> Self {
        Self {
            name: name.into(),
            space: Mutex::new(Some(space)),
        }
    }

    /// The space of the first vectors, if there were any.
    pub fn space(&self) -> Option<VectorSpace> {
        self.space.lock().clone()
    }

    /// Says whether vectors of that space belong here.
    ///
    /// # Errors
    /// [`Error::SpaceMismatch`] where they do not.
    pub fn check(&self, found: &VectorSpace) -> Result<(), Error> {
        let mut space = self.space.lock();
        let expected = space.get_or_insert_with(|| found.clone());
        if expected.compares_with(found) {
            return Ok(());
        }
        Err(mismatch(expected, found, &format!("the collection `{}`", self.name)))
    }
}

pub(crate) fn mismatch(expected: &VectorSpace, found: &VectorSpace, whose: &str) -> Error {
    let said: Vec<_> = expected
        .compared(found)
        .into_iter()
        .map(|(name, ours, theirs)| format!("{name} {theirs} in place of {ours}"))
        .collect();
    let said = if said.is_empty() {
        format!("digest {}", found.digest)
    } else {
        said.join(", ")
    };
    let fault = Fault::precondition(
        reasons::SPACE_MISMATCH,
        format!("the vectors are not of the space of {whose}: {said}"),
    )
    .field("vector_space")
    .hint("encode everything again into a collection of its own, or ask the encoder that the first vectors came from");
    Error::SpaceMismatch(Box::new(SpaceMismatch {
        failure: Failure::of(fault),
        differing: expected.differing(found),
        expected: expected.clone(),
        found: found.clone(),
    }))
}

/// The spaces that a client has seen: the same question must not be answered in another space
/// later.
#[derive(Debug, Default)]
pub(crate) struct KnownSpaces(Mutex<HashMap<Vec<u8>, VectorSpace>>);

impl KnownSpaces {
    pub(crate) fn check(&self, encoder: &str, question: &[u8], found: &VectorSpace) -> Result<(), Error> {
        let mut spaces = self.0.lock();
        match spaces.get(question) {
            None => {
                spaces.insert(question.to_vec(), found.clone());
                Ok(())
            }
            Some(expected) if expected.digest == found.digest => Ok(()),
            Some(expected) => Err(mismatch(expected, found, &format!("`{encoder}` before"))),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn space(digest: &str, model: &str, prompt: &str) -> VectorSpace {
        VectorSpace {
            digest: digest.into(),
            model_id: model.into(),
            prompt: prompt.into(),
            ..VectorSpace::default()
        }
    }

    #[test]
    fn a_collection_takes_other_prompts_and_no_other_model() {
        let articles = Collection::new("articles");
        articles.check(&space("a", "m", "")).unwrap();
        articles.check(&space("b", "m", "query: ")).unwrap();
        let error = articles.check(&space("c", "n", "")).unwrap_err();
        assert!(error.to_string().contains("articles") && error.hint().is_some());
        let Error::SpaceMismatch(mismatch) = error else {
            panic!("{error:?}")
        };
        assert_eq!(mismatch.differing, ["model_id", "digest"]);
        assert_eq!(
            (mismatch.expected.digest.as_str(), mismatch.found.digest.as_str()),
            ("a", "c")
        );
        // The space that it is made with counts as the first vectors do.
        let known = Collection::of("known", articles.space().unwrap());
        assert!(known.check(&space("c", "n", "")).is_err());
    }

    #[test]
    fn one_question_has_one_space() {
        let known = KnownSpaces::default();
        known.check("e", b"asked", &space("a", "m", "")).unwrap();
        known.check("e", b"asked", &space("a", "m", "")).unwrap();
        known.check("e", b"another", &space("b", "m", "")).unwrap();
        assert_eq!(
            known.check("e", b"asked", &space("b", "m", "")).unwrap_err().reason(),
            reasons::SPACE_MISMATCH
        );
    }
}
