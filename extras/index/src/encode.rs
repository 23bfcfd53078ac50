//! Encodes texts, plain or augmented, with the priority of bulk work.

use std::{collections::BTreeMap, fmt::Debug, ops::Range, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use isomer_client::Channel;
use isomer_encoder_client::{
    answer::{self, ExpectedAnswer},
    batches, halving, retry as inner,
};
use isomer_proto::{
    common::v1::{Dtype, ItemError, Matrix, Similarity, Usage, VectorSpace},
    encoder::v1::{
        EncodeRequest, EncodeResponse, Encoder as Description, GetEncoderRequest, Input, Priority, SparseVector,
        TokenizeRequest, encode_request::Prompt, encoder_service_client::EncoderServiceClient, input, tokenize_request,
    },
    transform::v1::{
        AugmentationSpec, EncodeAugmentedRequest, EncodeAugmentedResponse, TextItem,
        augmentation_service_client::AugmentationServiceClient,
    },
};
use isomer_service_kit::{Fault, limits::INNER_MESSAGE, vectors};

use crate::{
    chunk::{Chunking, by_sentences, by_spans},
    error::{IndexError, Result},
    mark::{Mark, Space},
    retry,
};

pub use crate::recipe::{AdditionalVectors, Augmentation, KeptRecipe, PromptChoice, Recipe};

/// The text whose vector shows the space.
const PROBE: &str = "The weather is fine today.";
/// Maximum number of texts per request; an encoder may permit fewer.
const MOST_TEXTS: usize = 256;
/// Maximum number of texts per augmented request, because generation is slow.
const MOST_AUGMENTED: usize = 64;
/// Maximum bytes of text that are tokenised in one request: an answer has at most 200,000 tokens,
/// and a token takes at least one byte.
const MOST_TOKENISED: usize = 150_000;
/// Names of a document's prompt, in the order of sentence-transformers' `encode_document`.
const DOCUMENT: [&str; 3] = ["document", "passage", "corpus"];
const QUERY: [&str; 1] = ["query"];

/// Encodes the texts of a collection in place of the services behind the encoder's channel. Its
/// vectors equal those of the services, or it fails.
pub trait Workers: Debug + Send + Sync {
    /// Encodes texts. Their vectors are of `space`.
    fn encode<'a>(
        &'a self,
        space: &'a VectorSpace,
        request: EncodeRequest,
    ) -> BoxFuture<'a, Result<EncodeResponse, Fault>>;

    /// Encodes texts with variants. Their vectors are of `space`.
    fn encode_augmented<'a>(
        &'a self,
        space: &'a VectorSpace,
        request: EncodeAugmentedRequest,
    ) -> BoxFuture<'a, Result<EncodeAugmentedResponse, Fault>>;
}

/// An encoder with a known space.
#[derive(Debug, Clone)]
pub struct Encoder {
    rpc: EncoderServiceClient<Channel>,
    augmenting: AugmentationServiceClient<Channel>,
    workers: Option<Arc<dyn Workers>>,
    recipe: Recipe,
    description: Description,
    space: VectorSpace,
    /// The space in marks, if it is not `space`.
    marked: Option<VectorSpace>,
    /// Spaces of the vectors beside the dense ones.
    additional: Box<AdditionalSpaces>,
    similarity: Similarity,
}

/// The spaces of vectors beside the dense ones.
#[derive(Debug, Clone, Default, PartialEq)]
struct AdditionalSpaces {
    sparse: Option<VectorSpace>,
    tokens: Option<VectorSpace>,
}

/// The vectors of one text beside the dense one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Additional {
    /// Weights of tokens of the vocabulary.
    pub sparse: Option<SparseVector>,
    /// One vector per token.
    pub tokens: Option<Vec<Vec<f32>>>,
}

/// Vectors of texts, in order.
#[derive(Debug, Clone, Default)]
pub struct EncodedTexts {
    /// One vector per text.
    pub vectors: Vec<Vec<f32>>,
    /// The vectors beside it.
    pub additional: Vec<Additional>,
    /// Whether variants of the text are missing.
    pub partial: Vec<bool>,
    /// Number of truncated texts.
    pub truncated: u64,
    /// Positions of the texts that the encoder could not encode, each with the reason. They have no
    /// vector.
    pub failed: BTreeMap<usize, String>,
    pub usage: Usage,
}

impl EncodedTexts {
    /// The vectors of all texts.
    ///
    /// # Errors
    /// If a text could not be encoded.
    pub(crate) fn complete(self) -> Result<Self> {
        match self.failed.first_key_value() {
            None => Ok(self),
            Some((position, reason)) => {
                let message = format!("text {position} could not be encoded: {reason}");
                Err(Fault::precondition("NOT_ENCODED", message).into())
            }
        }
    }

    /// Takes over the answer to the texts at these positions.
    fn take(&mut self, part: &[usize], mut answer: BatchAnswer) {
        isomer_usage::sum::add(&mut self.usage, &answer.usage);
        self.truncated += answer.truncated.iter().filter(|cut| **cut).count() as u64;
        for error in answer.errors {
            if let Some(index) = part.get(error.index as usize) {
                self.failed.insert(*index, error.message);
            }
        }
        for (row, (vector, index)) in answer::rows(&answer.matrix).zip(part).enumerate() {
            let vector: Vec<f32> = vector.collect();
            if !vector.iter().all(|value| value.is_finite()) {
                self.failed
                    .insert(*index, "its vector has a value that is not a number".to_owned());
            }
            if self.failed.contains_key(index) {
                continue;
            }
            self.vectors[*index] = vector;
            self.partial[*index] = answer.partial.get(row).copied().unwrap_or_default();
            if let Some(additional) = answer.additional.get_mut(row) {
                self.additional[*index] = std::mem::take(additional);
            }
        }
    }
}

#[derive(Default)]
struct BatchAnswer {
    matrix: Matrix,
    /// One per text; empty without additional vectors.
    additional: Vec<Additional>,
    spaces: Box<AdditionalSpaces>,
    errors: Vec<ItemError>,
    partial: Vec<bool>,
    truncated: Vec<bool>,
    space: VectorSpace,
    usage: Usage,
}

impl Encoder {
    /// Fetches the encoder's description, and encodes one text to learn the space.
    ///
    /// # Errors
    /// If the encoder cannot be used, or reports no space.
    pub async fn connect(channel: impl Into<Channel>, recipe: Recipe) -> Result<Self> {
        let channel = channel.into();
        let rpc = EncoderServiceClient::new(channel.clone()).max_decoding_message_size(INNER_MESSAGE);
        let described = inner::calls(|| {
            let (mut rpc, id) = (rpc.clone(), recipe.encoder.clone());
            async move { rpc.get_encoder(GetEncoderRequest { id }).await }
        });
        let description = described.await?.into_inner().encoder.ok_or_else(|| {
            Fault::not_found("UNKNOWN_ENCODER", format!("there is no encoder `{}`", recipe.encoder)).field("model")
        })?;
        if let PromptChoice::Named(name) = &recipe.prompt
            && !description.prompts.contains_key(name)
            && !description.prompt_names.contains(name)
        {
            let mut known: Vec<&String> = description.prompts.keys().chain(&description.prompt_names).collect();
            known.sort();
            let message = format!("the encoder has no prompt `{name}`, it has {known:?}");
            return Err(Fault::invalid("prompt-name", message).into());
        }
        let mut encoder = Self {
            rpc,
            augmenting: AugmentationServiceClient::new(channel).max_decoding_message_size(INNER_MESSAGE),
            workers: None,
            recipe,
            similarity: description.similarity(),
            description,
            space: VectorSpace::default(),
            marked: None,
            additional: Box::default(),
        };
        // Boxed for the same reason as in `encode`.
        let probed = Box::pin(encoder.ask(&[PROBE])).await?;
        if probed.space.digest.is_empty() {
            return Err(Fault::precondition(
                "NO_SPACE",
                format!(
                    "the encoder `{}` does not say which vector space its vectors are in",
                    encoder.recipe.encoder
                ),
            )
            .into());
        }
        encoder.space = VectorSpace {
            dimensions: probed.matrix.cols,
            ..probed.space
        };
        encoder.additional = probed.spaces;
        Ok(encoder)
    }

    /// The encoder of queries of a collection, with the prompt for queries.
    ///
    /// # Errors
    /// Those of [`Encoder::connect`].
    pub async fn for_queries(
        channel: impl Into<Channel>,
        mark: &Mark,
        augmentation: Option<Augmentation>,
        patience: Duration,
    ) -> Result<Self> {
        let channel = channel.into();
        let recipe = Recipe {
            encoder: mark.space.model.clone(),
            prompt: PromptChoice::Query,
            dimensions: None,
            normalise: None,
            augmentation,
            additional: AdditionalVectors::default(),
            patience,
        };
        // A collection of fewer dimensions was created by requesting them. The encoder's own number
        // may not be requestable.
        let own = Self::connect(channel.clone(), recipe.clone()).await?;
        let (dimensions, normalised) = (mark.space.dimensions, mark.space.normalised);
        if own.dimensions() == dimensions && own.normalises() == normalised {
            return Ok(own);
        }
        let recipe = Recipe {
            dimensions: (own.dimensions() != dimensions).then_some(dimensions),
            normalise: Some(normalised),
            ..recipe
        };
        Self::connect(channel, recipe).await
    }

    /// The same encoder, with texts encoded by these workers. The description and the tokenizer
    /// still come from its channel.
    #[must_use]
    pub fn by(self, workers: Option<Arc<dyn Workers>>) -> Self {
        Self { workers, ..self }
    }

    /// The same encoder, for collections that an older isomer filled. Their marks do not record the
    /// encoder's settings, which are assumed to equal the current ones. The older digest of
    /// augmented vectors is unknown, so such a collection can be searched, but not written to.
    #[must_use]
    pub fn with_unrecorded_settings(self) -> Self {
        let older = VectorSpace {
            settings_digest: String::new(),
            ..self.space.clone()
        };
        let is_sealed = vectors::digest(&self.space) == self.space.digest;
        Self {
            marked: Some(if is_sealed { vectors::sealed(older) } else { older }),
            ..self
        }
    }

    /// The mark of a collection of this encoder's vectors.
    pub fn mark(&self, chunking: Chunking, with_text: bool) -> Mark {
        Mark {
            recipe: Some(self.recipe.kept()),
            sparse: self.additional.sparse.as_ref().map(Space::of),
            tokens: self.additional.tokens.as_ref().map(Space::of),
            ..Mark::new(
                self.marked.as_ref().unwrap_or(&self.space),
                self.similarity,
                chunking,
                with_text,
            )
        }
    }

    /// Number of dimensions.
    pub fn dimensions(&self) -> u32 {
        self.space.dimensions
    }

    /// Whether vectors have unit length.
    pub fn normalises(&self) -> bool {
        self.space.normalised
    }

    /// Whether texts are augmented.
    pub fn augments(&self) -> bool {
        self.recipe.augmentation.is_some()
    }

    /// The pieces of each text, in order; empty for a text of white space.
    ///
    /// # Errors
    /// If the encoder's tokenizer is unavailable.
    pub async fn chunks(&self, texts: &[&str], chunking: Chunking) -> Result<Vec<Vec<String>>> {
        match chunking {
            Chunking::Whole => Ok(texts
                .iter()
                .map(|text| {
                    if text.trim().is_empty() {
                        Vec::new()
                    } else {
                        vec![(*text).to_owned()]
                    }
                })
                .collect()),
            Chunking::Sentences(window) => Ok(texts.iter().map(|text| by_sentences(text, window)).collect()),
            Chunking::Tokens(window) => {
                let spans = self.spans(texts).await?;
                Ok(texts
                    .iter()
                    .zip(spans)
                    .map(|(text, spans)| by_spans(text, &spans, window))
                    .collect())
            }
        }
    }

    /// Encodes texts. A text that the encoder cannot encode is named in the result.
    ///
    /// # Errors
    /// If the encoder refuses all texts, fails for longer than the patience, or answers in a
    /// different space from before.
    pub async fn encode(&self, texts: &[&str]) -> Result<EncodedTexts> {
        let ours = if self.augments() { MOST_AUGMENTED } else { MOST_TEXTS };
        let most = batches::most_items(self.description.max_batch_items, ours);
        let mut done = EncodedTexts {
            vectors: vec![Vec::new(); texts.len()],
            additional: vec![Additional::default(); texts.len()],
            partial: vec![false; texts.len()],
            ..EncodedTexts::default()
        };
        for batch in batches::batches(texts, most) {
            let send = |part: Vec<usize>| async move {
                let those: Vec<&str> = part.iter().map(|index| texts[*index]).collect();
                // Boxed because the future is large and would otherwise be part of each caller's
                // future.
                retry::calls(self.recipe.patience, || Box::pin(self.ask(&those))).await
            };
            let of_texts = |error: &IndexError| match error {
                IndexError::Encoder(fault) => halving::concerns_texts(fault.code),
                _ => false,
            };
            let halved = halving::send(batch, send, of_texts).await?;
            for (part, answer) in halved.answers {
                self.check_space(&answer)?;
                done.take(&part, answer);
            }
            let refused = halved.refused.into_iter();
            done.failed
                .extend(refused.map(|(index, error)| (index, error.to_string())));
        }
        Ok(done)
    }

    /// Refuses an answer in another space.
    fn check_space(&self, answer: &BatchAnswer) -> Result<()> {
        let changed = self.additional.differing(&answer.spaces);
        let dense = (answer.space.digest != self.space.digest).then_some((&self.space.digest, &answer.space.digest));
        if let Some((known, found)) = dense.or(changed) {
            return Err(Fault::new(
                tonic::Code::DataLoss,
                "PROVIDER_CHANGED",
                format!(
                    "the encoder's vector space changed from `{known}` to `{found}` while it worked; nothing of the second was stored"
                ),
            )
            .hint("replicas with different weights answer at one address, or the model was changed; run again when one answers")
            .into());
        }
        Ok(())
    }

    async fn ask(&self, texts: &[&str]) -> Result<BatchAnswer> {
        match &self.recipe.augmentation {
            Some(_) if !self.recipe.additional.is_none() => Err(IndexError::Setting {
                field: "outputs",
                message: "variants are pooled into dense vectors alone".to_owned(),
                hint: "leave --augment out, or leave --outputs out",
            }),
            None => self.ask_plain(texts).await,
            Some(augmentation) => self.ask_augmented(texts, augmentation).await,
        }
    }

    async fn ask_plain(&self, texts: &[&str]) -> Result<BatchAnswer> {
        let input = |text: &&str| Input {
            input: Some(input::Input::Text((*text).to_owned())),
        };
        let request = EncodeRequest {
            encoder_id: self.recipe.encoder.clone(),
            inputs: texts.iter().map(input).collect(),
            prompt: self.prompt(),
            dimensions: self.recipe.dimensions,
            normalise: self.recipe.normalise,
            output_dtype: Dtype::F32.into(),
            priority: Priority::Batch.into(),
            outputs: self.recipe.additional.outputs().into_iter().map(i32::from).collect(),
            ..EncodeRequest::default()
        };
        let expected = ExpectedAnswer::of(&request);
        let additional = !self.recipe.additional.is_none();
        let answer = match &self.workers {
            Some(_) if additional => {
                return Err(IndexError::Setting {
                    field: "outputs",
                    message: "the workers of a fleet compute dense vectors alone".to_owned(),
                    hint: "leave --engine out, or leave --outputs out",
                });
            }
            Some(workers) => workers.encode(&self.space, request).await?,
            None => {
                let answer = inner::calls(|| {
                    let (mut rpc, request) = (self.rpc.clone(), request.clone());
                    async move { rpc.encode(request).await }
                });
                answer.await?.into_inner()
            }
        };
        let matrix = checked(answer::matrix(&answer, expected))?.clone();
        if additional && answer.errors.is_empty() {
            checked(answer::check(&answer, expected))?;
        }
        Ok(BatchAnswer {
            matrix,
            additional: additional_vectors(&answer),
            spaces: Box::new(AdditionalSpaces {
                sparse: answer.sparse_vector_space,
                tokens: answer.token_vector_space,
            }),
            errors: answer.errors,
            partial: Vec::new(),
            truncated: answer.truncated,
            space: answer.vector_space.unwrap_or_default(),
            usage: answer.usage.unwrap_or_default(),
        })
    }

    async fn ask_augmented(&self, texts: &[&str], wanted: &Augmentation) -> Result<BatchAnswer> {
        let item = |text: &&str| TextItem {
            text: (*text).to_owned(),
            ..TextItem::default()
        };
        let (prompt_name, literal_prompt) = match self.prompt() {
            None => (String::new(), None),
            Some(Prompt::PromptName(name)) => (name, None),
            Some(Prompt::LiteralPrompt(text)) => (String::new(), Some(text)),
        };
        let request = EncodeAugmentedRequest {
            spec: Some(AugmentationSpec {
                // Queries have precedence.
                priority: Priority::Batch.into(),
                ..wanted.spec.clone()
            }),
            items: texts.iter().map(item).collect(),
            encoder_id: self.recipe.encoder.clone(),
            pooling: wanted.pooling.into(),
            original_weight: wanted.original_weight,
            normalise_before: Some(wanted.normalise_before),
            normalise_after: self.recipe.normalise,
            prompt_name,
            literal_prompt,
            dimensions: self.recipe.dimensions,
            ..EncodeAugmentedRequest::default()
        };
        let answer = match &self.workers {
            Some(workers) => workers.encode_augmented(&self.space, request).await?,
            None => self.augmenting.clone().encode_augmented(request).await?.into_inner(),
        };
        let matrix = answer.embeddings.unwrap_or_default();
        let row = answer::row_bytes(&matrix).unwrap_or_default();
        let whole = row > 0 && matrix.rows as usize == texts.len() && row * texts.len() == matrix.data.len();
        if !whole || matrix.dtype() != Dtype::F32 || answer.used.len() != texts.len() {
            let message = format!(
                "{} vectors and {} sets of variants to {} texts",
                matrix.rows,
                answer.used.len(),
                texts.len()
            );
            return checked(Err(format!("answered {message}")));
        }
        Ok(BatchAnswer {
            matrix,
            errors: answer.errors,
            partial: answer.used.iter().map(|used| !used.missing.is_empty()).collect(),
            truncated: answer.truncated,
            space: answer.vector_space.unwrap_or_default(),
            usage: answer.usage.unwrap_or_default(),
            ..BatchAnswer::default()
        })
    }

    /// The prompt of a request; `None` for the encoder's default.
    fn prompt(&self) -> Option<Prompt> {
        let by_role = |names: &[&str]| {
            let has = |name: &&&str| {
                let own = |known: &String| known == **name;
                self.description.prompts.keys().any(own) || self.description.prompt_names.iter().any(own)
            };
            names
                .iter()
                .find(has)
                .map(|name| Prompt::PromptName((*name).to_owned()))
        };
        match &self.recipe.prompt {
            PromptChoice::Document => by_role(&DOCUMENT),
            PromptChoice::Query => by_role(&QUERY),
            PromptChoice::Named(name) => Some(Prompt::PromptName(name.clone())),
            PromptChoice::Literal(text) => Some(Prompt::LiteralPrompt(text.clone())),
        }
    }

    /// The span of each token of each text, without special tokens.
    async fn spans(&self, texts: &[&str]) -> Result<Vec<Vec<Range<usize>>>> {
        let mut spans = vec![Vec::new(); texts.len()];
        // A text that is too long for one request is split at white space.
        let parts: Vec<(usize, usize, &str)> = texts
            .iter()
            .enumerate()
            .flat_map(|(index, text)| parts(text).map(move |(at, part)| (index, at, part)))
            .collect();
        let most = batches::most_items(self.description.max_batch_items, MOST_TEXTS);
        let mut rest = parts.as_slice();
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |(_, _, part): &&(usize, usize, &str)| {
                bytes += part.len();
                bytes <= MOST_TOKENISED
            };
            let count = rest.iter().take(most).take_while(fits).count().max(1);
            let (now, later) = rest.split_at(count);
            let request = TokenizeRequest {
                encoder_id: self.recipe.encoder.clone(),
                texts: now.iter().map(|(_, _, part)| (*part).to_owned()).collect(),
                prompt: Some(tokenize_request::Prompt::LiteralPrompt(String::new())),
                special_tokens: Some(false),
            };
            let answer = retry::calls(self.recipe.patience, || {
                let (mut client, request) = (self.rpc.clone(), request.clone());
                async move { Ok(client.tokenize(request).await?.into_inner()) }
            })
            .await?;
            if answer.texts.len() != now.len() {
                return checked(Err(format!("tokenised {} of {} texts", answer.texts.len(), now.len())));
            }
            for ((index, at, part), tokens) in now.iter().zip(answer.texts) {
                for token in tokens.tokens.iter().filter(|token| !token.special) {
                    let (Some(start), Some(end)) = (token.start, token.end) else {
                        continue;
                    };
                    if end as usize > part.len() || start > end {
                        return checked(Err("gave a token a place outside its text".to_owned()));
                    }
                    spans[*index].push(at + start as usize..at + end as usize);
                }
            }
            rest = later;
        }
        Ok(spans)
    }
}

impl AdditionalSpaces {
    /// The digests of the first spaces that differ.
    fn differing<'a>(&'a self, found: &'a Self) -> Option<(&'a String, &'a String)> {
        let pairs = [(&self.sparse, &found.sparse), (&self.tokens, &found.tokens)];
        let digests = pairs.into_iter().filter_map(|(known, found)| {
            let pair = known.as_ref().zip(found.as_ref())?;
            Some((&pair.0.digest, &pair.1.digest))
        });
        digests.into_iter().find(|(known, found)| known != found)
    }
}

/// The additional vectors of each text of a checked answer.
fn additional_vectors(answer: &EncodeResponse) -> Vec<Additional> {
    let mut tokens = answer.token_embeddings.as_ref().map(|matrix| {
        let rows = answer::rows(matrix).map(Iterator::collect::<Vec<f32>>);
        rows.collect::<Vec<_>>().into_iter()
    });
    let count = answer.sparse_embeddings.len().max(answer.row_counts.len());
    let text = |index: usize| Additional {
        sparse: answer.sparse_embeddings.get(index).cloned(),
        tokens: tokens.as_mut().zip(answer.row_counts.get(index)).map(|(rows, count)| {
            let rows = rows.by_ref().take(*count as usize);
            rows.collect()
        }),
    };
    (0..count).map(text).collect()
}

/// The parts of a text that fit one request, with their offsets.
fn parts(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = text.get(at..).filter(|rest| !rest.is_empty())?;
        let part = if rest.len() <= MOST_TOKENISED {
            rest
        } else {
            let most = &rest[..rest.floor_char_boundary(MOST_TOKENISED)];
            match most.rfind(char::is_whitespace) {
                Some(cut) if cut > 0 => &most[..cut],
                _ => most,
            }
        };
        let found = (at, part);
        at += part.len();
        Some(found)
    })
}

fn checked<T>(answer: Result<T, String>) -> Result<T> {
    answer.map_err(|message| {
        IndexError::Encoder(Fault::new(
            tonic::Code::DataLoss,
            "BAD_ANSWER",
            format!("the encoder {message}"),
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_tokenised_in_parts_that_make_it_up() {
        let text = "wörter und mehr ".repeat(40_000);
        let mut whole = String::new();
        for (at, part) in parts(&text) {
            assert_eq!(at, whole.len());
            assert!(part.len() <= MOST_TOKENISED && !part.is_empty());
            whole.push_str(part);
        }
        assert!(whole == text);
        let unbroken = "ö".repeat(MOST_TOKENISED);
        assert_eq!(
            parts(&unbroken).map(|(_, part)| part.len()).sum::<usize>(),
            unbroken.len()
        );
        assert_eq!(parts("").count(), 0);
    }
}
