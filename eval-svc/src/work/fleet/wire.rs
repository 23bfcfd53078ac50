//! The encoding of units as bytes. Both sides are of the same version, because a unit's address
//! depends on the version.

use isomer_proto::{
    common::v1::{Usage, VectorSpace},
    encoder::v1::{EncodeRequest, Encoder},
    transform::v1::{EncodeAugmentedRequest, JudgeRequest, TextItem, TransformResult, TransformSpec},
};
use isomer_service_kit::Tenant;
use prost::Message;

use crate::work::{
    Producer,
    error::EncodingError,
    shard::{DocumentFacts, ShardHits, ShardSearch},
};
use crate::{
    metric::search::{Hit, Ties},
    prompts::RequestPrompt,
    task::SearchTerms,
};

/// The tenant that a unit is for; absent if there is none. It is part of the unit's address, so
/// that equal units of two tenants are separate.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ForTenant {
    #[prost(string, tag = "1")]
    name: String,
}

impl ForTenant {
    pub(super) fn of(tenant: &Tenant) -> Option<Self> {
        let name: Option<String> = tenant.clone().into();
        name.map(|name| Self { name })
    }

    pub(super) fn tenant(unit: Option<Self>) -> Tenant {
        unit.map(|unit| unit.name).into()
    }
}

/// The generator and prompt that must produce the answer.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ExpectedGeneration {
    #[prost(string, tag = "1")]
    pub(super) generator: String,
    #[prost(string, tag = "2")]
    pub(super) key: String,
    #[prost(string, tag = "3")]
    pub(super) prompt: String,
}

impl From<&Producer> for ExpectedGeneration {
    fn from(producer: &Producer) -> Self {
        Self {
            generator: producer.generator.clone(),
            key: producer.key.clone(),
            prompt: producer.prompt.clone(),
        }
    }
}

/// Texts to transform.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TransformUnit {
    #[prost(message, required, tag = "1")]
    pub(super) expected: ExpectedGeneration,
    #[prost(message, required, tag = "2")]
    pub(super) spec: TransformSpec,
    #[prost(message, repeated, tag = "3")]
    pub(super) items: Vec<TextItem>,
    #[prost(message, optional, tag = "4")]
    pub(super) tenant: Option<ForTenant>,
}

/// Texts to encode with variants that a generator makes. The answer is an
/// `EncodeAugmentedResponse`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct AugmentUnit {
    /// Digest of the space of the vectors, which covers the encoder, the generators and their
    /// prompts.
    #[prost(string, tag = "1")]
    pub(super) space: String,
    #[prost(message, required, tag = "2")]
    pub(super) request: EncodeAugmentedRequest,
    #[prost(message, optional, tag = "3")]
    pub(super) tenant: Option<ForTenant>,
}

/// A unit of the lane `transform`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct GenerationUnit {
    #[prost(oneof = "GenerationWork", tags = "1, 2")]
    pub(super) work: Option<GenerationWork>,
}

/// The work of the unit.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum GenerationWork {
    #[prost(message, tag = "1")]
    Transform(TransformUnit),
    #[prost(message, tag = "2")]
    Augment(AugmentUnit),
}

/// The results of a `TransformUnit`, in the order of its items.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TransformAnswer {
    #[prost(message, repeated, tag = "1")]
    pub(super) results: Vec<TransformResult>,
    /// Usage of the whole unit, which includes the usage of each result.
    #[prost(message, required, tag = "2")]
    pub(super) usage: Usage,
}

/// Pairs to rate. The answer is a `JudgeResponse`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct JudgeUnit {
    #[prost(message, required, tag = "1")]
    pub(super) expected: ExpectedGeneration,
    #[prost(message, required, tag = "2")]
    pub(super) request: JudgeRequest,
    #[prost(message, optional, tag = "3")]
    pub(super) tenant: Option<ForTenant>,
}

/// Texts to encode. The answer is an `EncodeResponse`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct EncodeUnit {
    /// The encoder's vector space as it was described when the run was planned.
    #[prost(message, required, tag = "1")]
    pub(super) space: VectorSpace,
    #[prost(message, required, tag = "2")]
    pub(super) request: EncodeRequest,
    #[prost(message, optional, tag = "3")]
    pub(super) tenant: Option<ForTenant>,
}

/// A prompt of an encoder.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Prompt {
    /// The encoder's name of the prompt; absent: the text itself is sent.
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(super) text: Option<String>,
}

impl From<&RequestPrompt> for Prompt {
    fn from(sent: &RequestPrompt) -> Self {
        match sent {
            RequestPrompt::Literal(text) => Self {
                name: None,
                text: Some(text.clone()),
            },
            RequestPrompt::Named { name, text } => Self {
                name: Some(name.clone()),
                text: text.clone(),
            },
        }
    }
}

impl From<Prompt> for RequestPrompt {
    fn from(prompt: Prompt) -> Self {
        match prompt.name {
            Some(name) => Self::Named {
                name,
                text: prompt.text,
            },
            None => Self::Literal(prompt.text.unwrap_or_default()),
        }
    }
}

/// A unit of the lane `score`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ScoreUnit {
    #[prost(oneof = "ScoreWork", tags = "1, 2")]
    pub(super) work: Option<ScoreWork>,
    #[prost(message, optional, tag = "3")]
    pub(super) tenant: Option<ForTenant>,
}

/// The work of the unit.
#[derive(Clone, PartialEq, prost::Oneof)]
#[expect(clippy::large_enum_variant, reason = "there is one of them at a time")]
pub(super) enum ScoreWork {
    #[prost(message, tag = "1")]
    Shard(ShardUnit),
    #[prost(message, tag = "2")]
    Vectors(VectorsUnit),
}

/// Vectors to score. The answer is a [`VectorsAnswer`].
#[derive(Clone, PartialEq, Message)]
pub(super) struct VectorsUnit {
    /// Digest of the data set's `Scoring` in JSON.
    #[prost(bytes = "vec", tag = "1")]
    pub(super) scoring: Vec<u8>,
    /// Digest of the [`VectorRows`](crate::work::shard::VectorRows).
    #[prost(bytes = "vec", tag = "2")]
    pub(super) vectors: Vec<u8>,
    /// Name of the profile.
    #[prost(string, tag = "3")]
    pub(super) profile: String,
    /// Place of the similarity in [`Similarity::ALL`](crate::metric::Similarity::ALL).
    #[prost(uint32, tag = "4")]
    pub(super) similarity: u32,
}

/// A score, or the reason why it is undefined.
#[derive(Clone, PartialEq, Message)]
pub(super) struct VectorsAnswer {
    /// A `ScoreRecord` in JSON.
    #[prost(bytes = "vec", optional, tag = "1")]
    pub(super) record: Option<Vec<u8>>,
    #[prost(string, tag = "2")]
    pub(super) problem: String,
}

/// A shard of a corpus to encode and to search. The answer is a [`ShardAnswer`].
#[derive(Clone, PartialEq, Message)]
pub(super) struct ShardUnit {
    /// The encoder as it was described when the run was planned.
    #[prost(message, required, tag = "1")]
    pub(super) encoder: Encoder,
    #[prost(message, optional, tag = "2")]
    pub(super) prompt: Option<Prompt>,
    /// Digest of the [`Documents`].
    #[prost(bytes = "vec", tag = "3")]
    pub(super) documents: Vec<u8>,
    /// Digest of the [`QueryVectors`].
    #[prost(bytes = "vec", tag = "4")]
    pub(super) queries: Vec<u8>,
    /// Number of documents to find for each query.
    #[prost(uint32, tag = "5")]
    pub(super) k: u32,
    /// Whether documents with equal scores are sorted in the order of the corpus; else by id,
    /// descending.
    #[prost(bool, tag = "6")]
    pub(super) corpus_order: bool,
}

impl ShardUnit {
    pub(super) fn new(wanted: &ShardSearch, documents: &[u8], queries: &[u8]) -> Self {
        Self {
            // The inputs that the answer depends on, and the batching of requests.
            encoder: Encoder {
                id: wanted.encoder.id.clone(),
                vector_space: wanted.encoder.vector_space.clone(),
                similarity: wanted.encoder.similarity,
                max_batch_items: wanted.encoder.max_batch_items,
                ..Encoder::default()
            },
            prompt: wanted.prompt.as_ref().map(Prompt::from),
            documents: documents.to_vec(),
            queries: queries.to_vec(),
            k: u32::try_from(wanted.terms.k).unwrap_or(u32::MAX),
            corpus_order: wanted.terms.ties == Ties::CorpusOrder,
        }
    }

    pub(super) fn terms(&self) -> SearchTerms {
        SearchTerms {
            k: self.k as usize,
            ties: match self.corpus_order {
                true => Ties::CorpusOrder,
                false => Ties::IdDescending,
            },
        }
    }
}

/// The hits of a search in a shard, or the reason why its documents could not be encoded.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ShardAnswer {
    /// Documents found for each query.
    #[prost(uint32, repeated, tag = "1")]
    pub(super) counts: Vec<u32>,
    /// Their rows in the shard, query by query, best first.
    #[prost(uint32, repeated, tag = "2")]
    pub(super) rows: Vec<u32>,
    /// The scores of the documents.
    #[prost(float, repeated, tag = "3")]
    pub(super) scores: Vec<f32>,
    /// Whether each document was truncated: 0 unknown, 1 no, 2 yes.
    #[prost(bytes = "vec", tag = "4")]
    pub(super) cut: Vec<u8>,
    /// BLAKE3 of each document's vector, concatenated.
    #[prost(bytes = "vec", tag = "5")]
    pub(super) vectors: Vec<u8>,
    /// Texts encoded.
    #[prost(uint64, tag = "6")]
    pub(super) encoded: u64,
    #[prost(message, required, tag = "7")]
    pub(super) usage: Usage,
    /// The reason for a missing answer: the problem with the encoder's response,
    #[prost(string, optional, tag = "8")]
    pub(super) unusable: Option<String>,
    /// or the row of the document that could not be encoded.
    #[prost(uint32, optional, tag = "9")]
    pub(super) document: Option<u32>,
}

impl From<&ShardHits> for ShardAnswer {
    fn from(found: &ShardHits) -> Self {
        let hits = || found.hits.iter().flatten();
        Self {
            counts: found.hits.iter().map(|hits| hits.len() as u32).collect(),
            rows: hits().map(|hit| hit.document as u32).collect(),
            scores: hits().map(|hit| hit.score).collect(),
            cut: found
                .facts
                .iter()
                .map(|one| one.cut.map_or(0, |cut| 1 + u8::from(cut)))
                .collect(),
            vectors: found.facts.iter().flat_map(|one| one.vector).collect(),
            encoded: found.encoded,
            usage: found.usage,
            unusable: None,
            document: None,
        }
    }
}

impl ShardAnswer {
    /// An answer with the reason for a missing result. A refusal of the encoder is a fault of the
    /// unit and not an answer.
    ///
    /// # Errors
    /// The refusal.
    pub(super) fn failed(error: EncodingError) -> Result<Self, Box<isomer_service_kit::Fault>> {
        let (unusable, document) = match error {
            EncodingError::Refused(fault) => return Err(fault),
            EncodingError::Unusable(message) => (message, None),
            EncodingError::Text { index, message } => (message, Some(index as u32)),
        };
        Ok(Self {
            unusable: Some(unusable),
            document,
            ..Self::default()
        })
    }

    /// The result of the search.
    ///
    /// # Errors
    /// The reason why the documents could not be encoded, or an inconsistency of the answer.
    pub(super) fn found(self) -> Result<ShardHits, EncodingError> {
        if let Some(message) = self.unusable {
            return Err(match self.document {
                Some(index) => EncodingError::Text {
                    index: index as usize,
                    message,
                },
                None => EncodingError::Unusable(message),
            });
        }
        let total: usize = self.counts.iter().map(|count| *count as usize).sum();
        let (vectors, rest) = self.vectors.as_chunks::<{ blake3::OUT_LEN }>();
        let fits = self.rows.len() == total && self.scores.len() == total;
        if !fits || !rest.is_empty() || vectors.len() != self.cut.len() {
            return Err(EncodingError::Unusable(
                "a worker's answer to a shard of a corpus does not fit together".to_owned(),
            ));
        }
        let mut hits = self.rows.iter().zip(&self.scores).map(|(row, score)| Hit {
            document: *row as usize,
            score: *score,
        });
        let of_query = |count: &u32| hits.by_ref().take(*count as usize).collect();
        let fact = |(cut, vector): (&u8, &[u8; blake3::OUT_LEN])| DocumentFacts {
            cut: (*cut > 0).then_some(*cut > 1),
            vector: *vector,
        };
        Ok(ShardHits {
            hits: self.counts.iter().map(of_query).collect(),
            facts: self.cut.iter().zip(vectors).map(fact).collect(),
            encoded: self.encoded,
            usage: self.usage,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(tenant: &Tenant) -> Vec<u8> {
        let unit = TransformUnit {
            items: vec![TextItem::default()],
            tenant: ForTenant::of(tenant),
            ..TransformUnit::default()
        };
        unit.encode_to_vec()
    }

    #[test]
    fn equal_units_of_two_tenants_are_two_units_and_a_worker_reads_whose_they_are() {
        let tenants = ["key:one", "key:two"].map(|key| Tenant::of_account(b"secret", key));
        let units = [unit(&tenants[0]), unit(&tenants[1]), unit(&Tenant::default())];
        assert_ne!(units[0], units[1]);
        assert_ne!(units[0], units[2]);
        for (bytes, tenant) in units.iter().zip(tenants.iter().chain([&Tenant::default()])) {
            let read = TransformUnit::decode(bytes.as_slice()).map(|unit| ForTenant::tenant(unit.tenant));
            assert_eq!(read.as_ref(), Ok(tenant));
        }
        // The encoding of a version without tenants.
        let before = TransformUnit {
            items: vec![TextItem::default()],
            ..TransformUnit::default()
        };
        assert_eq!(units[2], before.encode_to_vec());
    }
}
