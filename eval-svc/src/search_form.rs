//! The search of an encoder's retrieval: by the terms of texts, or by vectors and terms together.

use std::{fmt, str::FromStr};

use isomer_config::spelling::nearest;
use isomer_proto::{common::v1::VectorSpace, encoder::v1::Encoder};
use ndarray::{ArrayView2, s};

use crate::{
    dataset::{Dataset, Text},
    lexical::{Analysis, LexicalIndex},
    metric::{Similarity, fusion::Fusion},
    stored_form::form_name,
    task::{DenseInput, HybridSearch, LexicalInput, Profile, ScoreError, Scores, score_hybrid, score_lexical},
};

const LEXICAL: &str = "bm25";
const HYBRID: &str = "hybrid";
const SHAPE: &str = "write bm25, or hybrid with a fusion (rrf, dbsf, rsf) and, if vectors and terms have unequal weights, \
                     the weight of vectors: hybrid:rrf, hybrid:rsf:0.7";
/// Weight of vectors, in hundredths, if none is given.
const EVEN: u8 = 50;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SearchForm {
    /// BM25 over the terms of the texts, without the encoder: `bm25`.
    Lexical,
    /// The hits of the encoder's vectors and of BM25 as one list: `hybrid:rrf`, `hybrid:rsf:0.7`.
    Hybrid {
        /// How scores become comparable.
        fusion: Fusion,
        /// Weight of vectors in hundredths, 1 to 99.
        dense_weight: u8,
    },
}

impl fmt::Display for SearchForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lexical => f.write_str(LEXICAL),
            Self::Hybrid { fusion, dense_weight } => {
                write!(f, "{HYBRID}:{}", fusion.name())?;
                match *dense_weight {
                    EVEN => Ok(()),
                    hundredths => write!(f, ":{}", weight(hundredths)),
                }
            }
        }
    }
}

impl FromStr for SearchForm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(':');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(LEXICAL), None, ..) => Ok(Self::Lexical),
            (Some(HYBRID), Some(name), given, None) => {
                let fusion = Fusion::named(name).ok_or_else(|| {
                    let close = nearest(name, Fusion::ALL.map(Fusion::name));
                    let hint = close.map_or_else(|| SHAPE.to_owned(), |close| format!("did you mean `{close}`?"));
                    format!("`{name}` is an unknown fusion; {hint}")
                })?;
                let dense_weight = given.map_or(Some(EVEN), hundredths).ok_or_else(|| {
                    format!("`{text}` has no valid weight of vectors; write 0.01 to 0.99 with at most two decimals")
                })?;
                Ok(Self::Hybrid { fusion, dense_weight })
            }
            _ => Err(format!("`{text}` is an unknown search; {SHAPE}")),
        }
    }
}

fn weight(hundredths: u8) -> f64 {
    f64::from(hundredths) / 100.0
}

/// A weight in hundredths; `None` if it has more decimals or leaves nothing to one side.
fn hundredths(text: &str) -> Option<u8> {
    let given: f64 = text.parse().ok()?;
    (1..=99).find(|one| weight(*one) == given)
}

/// A data set of retrieval, and what its documents are found by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SearchInput<'a> {
    /// The data set.
    pub(crate) dataset: &'a Dataset,
    /// Its documents' terms.
    pub(crate) documents: &'a LexicalIndex,
    pub(crate) queries: &'a [Text],
    /// One vector per text of the data set; without rows if vectors are not used.
    pub(crate) vectors: ArrayView2<'a, f32>,
    /// The encoder's similarity.
    pub(crate) similarity: Similarity,
    /// The definition of the scores.
    pub(crate) profile: Profile,
}

/// How the texts of a data set become terms. Texts in two languages count as English, as in mteb.
pub(crate) fn analysis(dataset: &Dataset) -> Analysis {
    let languages = dataset.text_languages();
    Analysis::of_language(match languages.as_slice() {
        [one] => Some(one),
        _ => None,
    })
}

impl SearchForm {
    /// Scores retrieval.
    ///
    /// # Errors
    /// If the task is another one, or a similarity is not a number.
    pub(crate) fn score(self, input: SearchInput<'_>) -> Result<Scores, ScoreError> {
        let lexical = LexicalInput {
            documents: input.documents,
            queries: input.queries,
        };
        input.dataset.score_labels(input.profile, |labels| match self.hybrid() {
            None => score_lexical(labels, lexical, input.profile),
            Some(hybrid) => {
                let (queries, documents) = (s![..input.queries.len(), ..], s![input.queries.len().., ..]);
                let dense = DenseInput {
                    queries: input.vectors.slice_move(queries),
                    documents: input.vectors.slice_move(documents),
                    similarity: input.similarity,
                };
                score_hybrid(labels, dense, lexical, hybrid, input.profile)
            }
        })
    }

    /// Scores retrieval on the data set's own texts; vectors as in [`SearchInput`].
    ///
    /// # Errors
    /// Those of [`SearchForm::score`].
    pub(crate) fn score_dataset(
        self,
        dataset: &Dataset,
        vectors: ArrayView2<'_, f32>,
        profile: Profile,
        similarity: Similarity,
    ) -> Result<Scores, ScoreError> {
        let queries = dataset.retrieval().map_or(0, |labels| labels.query_ids.len());
        let texts: Vec<Text> = dataset.texts().iter().map(|one| one.text.clone()).collect();
        let (queries, documents) = texts.split_at(queries.min(texts.len()));
        self.score(SearchInput {
            dataset,
            documents: &LexicalIndex::new(documents, analysis(dataset)),
            queries,
            vectors,
            similarity,
            profile,
        })
    }

    /// First parts of the spellings.
    pub(crate) const NAMES: [&str; 2] = [LEXICAL, HYBRID];

    /// How vectors and terms are fused; `None` if vectors are not used.
    pub(crate) fn hybrid(self) -> Option<HybridSearch> {
        match self {
            Self::Lexical => None,
            Self::Hybrid { fusion, dense_weight } => Some(HybridSearch {
                fusion,
                dense_weight: weight(dense_weight),
            }),
        }
    }

    /// The encoder that is searched so, as a run names and describes it.
    pub(crate) fn encoder(self, source: &Encoder) -> Encoder {
        Encoder {
            id: form_name(&source.id, self),
            dimensions: self.hybrid().map_or(0, |_| source.dimensions),
            vector_space: source.vector_space.as_ref().map(|space| self.space(space, None)),
            ..source.clone()
        }
    }

    /// The vector space in the keys of scores: everything on which a search depends, except the
    /// texts. BM25 depends on no encoder.
    pub(crate) fn space(self, source: &VectorSpace, analysis: Option<&Analysis>) -> VectorSpace {
        let terms = analysis.map(LexicalIndex::stamp).unwrap_or_default();
        let source = match self {
            Self::Lexical => VectorSpace::default(),
            Self::Hybrid { .. } => source.clone(),
        };
        let mut hasher = blake3::Hasher::new();
        // No part contains a zero byte.
        for part in [source.digest.as_str(), "\0", &self.to_string(), "\0", &terms] {
            hasher.update(part.as_bytes());
        }
        VectorSpace {
            digest: hasher.finalize().to_hex().to_string(),
            ..source
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::HashSet;

    use super::*;

    fn form(text: &str) -> SearchForm {
        text.parse().unwrap()
    }

    #[test]
    fn weights_have_two_decimals_and_leave_something_to_both_sides() {
        assert_eq!(form("hybrid:rrf").hybrid().unwrap().dense_weight, 0.5);
        assert_eq!(form("hybrid:rsf:0.30").to_string(), "hybrid:rsf:0.3");
        for text in [
            "hybrid:rrf:0",
            "hybrid:rrf:1",
            "hybrid:rrf:0.333",
            "hybrid:rrf:",
            "hybrid:rrf:x",
            "hybrid:rrf:-0.5",
        ] {
            let refused = text.parse::<SearchForm>().unwrap_err();
            assert!(refused.contains("0.01 to 0.99"), "{text}: {refused}");
        }
        for (text, part) in [
            ("hybrid", "hybrid:rrf"),
            ("bm25:0.5", "hybrid:rrf"),
            ("hybrid:rrf:0.5:0.5", "hybrid:rrf"),
            ("hybrid:dbfs", "did you mean `dbsf`?"),
        ] {
            let refused = text.parse::<SearchForm>().unwrap_err();
            assert!(refused.contains(part), "{text}: {refused}");
        }
    }

    #[test]
    fn a_search_has_a_key_of_its_own_and_that_of_bm25_is_the_same_for_every_encoder() {
        let space = |digest: &str| VectorSpace {
            digest: digest.into(),
            prompt: "query: ".into(),
            ..VectorSpace::default()
        };
        let (english, german) = (Analysis::of_language(None), Analysis::of_language(Some("de")));
        let forms = ["bm25", "hybrid:rrf", "hybrid:rrf:0.7", "hybrid:dbsf", "hybrid:rsf"].map(form);
        let mut digests: HashSet<String> = HashSet::from(["a".to_owned()]);
        for one in forms {
            for analysis in [&english, &german] {
                assert!(digests.insert(one.space(&space("a"), Some(analysis)).digest), "{one}");
            }
            let other = one.space(&space("b"), Some(&english));
            assert_eq!(digests.contains(&other.digest), one == SearchForm::Lexical, "{one}");
        }
        let lexical = form("bm25").space(&space("a"), Some(&english));
        assert!(lexical.prompt.is_empty());
    }
}
