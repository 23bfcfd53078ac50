//! Vectors pooled of texts and their variants (GASE).

use std::{ops::Deref, sync::Arc, time::Duration};

use futures::{TryStreamExt, stream};
use isomer_encoder_client::{answer::ExpectedAnswer, join::Joiner};
use isomer_proto::{
    encoder::v1::EncodeResponse,
    transform::v1::{
        AugmentRequest, AugmentationPooling, AugmentationSpec, EncodeAugmentedRequest, PartialFailurePolicy, TextItem,
        VariantSource, Variants, augmentation_service_client::AugmentationServiceClient,
    },
};
use prost::Message;

use crate::{
    Client, Collection, Embeddings, Error,
    call::unary,
    encode::{Checker, ordered},
    failed::all_well,
    results::embeddings,
    transform::{named, place, size},
};

/// A source of variants of a text: a transformation, and the generator that makes it where it needs
/// one.
#[derive(Debug, Clone)]
pub struct Source {
    name: String,
    generator: String,
}

impl Source {
    /// A transformation by its name, by the server's generator.
    pub fn new(transformation: impl Into<String>) -> Self {
        Self {
            name: transformation.into(),
            generator: String::new(),
        }
    }

    /// By this generator.
    #[must_use]
    pub fn generator(mut self, id: impl Into<String>) -> Self {
        self.generator = id.into();
        self
    }
}

/// How vectors are made of texts and their variants.
#[derive(Debug, Clone, Default)]
pub struct AugmentOptions {
    sources: Vec<Source>,
    spec: AugmentationSpec,
    request: EncodeAugmentedRequest,
    collection: Option<Arc<Collection>>,
    partial: bool,
}

impl AugmentOptions {
    /// Of the encoder with this id.
    pub fn new(encoder: impl Into<String>) -> Self {
        Self {
            request: EncodeAugmentedRequest {
                encoder_id: encoder.into(),
                ..EncodeAugmentedRequest::default()
            },
            ..Self::default()
        }
    }

    /// One more source of variants, 8 at most.
    #[must_use]
    pub fn source(mut self, source: Source) -> Self {
        self.sources.push(source);
        self
    }

    /// How vectors are pooled; the mean unless it is given.
    #[must_use]
    pub fn pooling(mut self, pooling: AugmentationPooling) -> Self {
        self.request.pooling = pooling.into();
        self
    }

    /// The weight of the text itself, for [`AugmentationPooling::Weighted`].
    #[must_use]
    pub fn original_weight(mut self, weight: f64) -> Self {
        self.request.original_weight = Some(weight);
        self
    }

    /// Columns to keep (Matryoshka).
    #[must_use]
    pub fn dimensions(mut self, dimensions: u32) -> Self {
        self.request.dimensions = Some(dimensions);
        self
    }

    /// One of the encoder's prompts, by its name.
    #[must_use]
    pub fn prompt_name(mut self, name: impl Into<String>) -> Self {
        self.request.prompt_name = name.into();
        self
    }

    /// Time for generation; what has come by then is pooled.
    #[must_use]
    pub fn budget(mut self, budget: Duration) -> Self {
        self.spec.generation_budget = prost_types::Duration::try_from(budget).ok();
        self
    }

    /// Makes a missing variant fail the call.
    #[must_use]
    pub fn all_variants(mut self) -> Self {
        self.spec.partial_failure = PartialFailurePolicy::Fail.into();
        self
    }

    /// Where the vectors are kept, as in [`EncodeOptions`](crate::EncodeOptions::collection).
    #[must_use]
    pub fn collection(mut self, collection: &Arc<Collection>) -> Self {
        self.collection = Some(Arc::clone(collection));
        self
    }

    /// Lets texts that fail leave rows of zeros.
    #[must_use]
    pub fn partial(mut self) -> Self {
        self.partial = true;
        self
    }

    /// Changes everything else, as the protos have it.
    #[must_use]
    pub fn request(mut self, change: impl FnOnce(&mut EncodeAugmentedRequest, &mut AugmentationSpec)) -> Self {
        change(&mut self.request, &mut self.spec);
        self
    }

    fn made(&self) -> Result<AugmentationSpec, Error> {
        let mut spec = self.spec.clone();
        for source in &self.sources {
            spec.sources.push(VariantSource {
                generator_id: source.generator.clone(),
                transformation: Some(named(&source.name, "spec.sources")?),
            });
        }
        Ok(spec)
    }
}

/// Vectors pooled of texts and their variants. It derefs to its [`Embeddings`].
#[derive(Debug, Clone, PartialEq)]
pub struct AugmentedEmbeddings {
    /// The vectors.
    pub embeddings: Embeddings,
    /// Variants that went into each row, and missing ones.
    pub used: Vec<Variants>,
}

impl Deref for AugmentedEmbeddings {
    type Target = Embeddings;

    fn deref(&self) -> &Embeddings {
        &self.embeddings
    }
}

impl Client {
    /// Variants of texts, without vectors.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn augment(&self, items: Vec<TextItem>, options: AugmentOptions) -> Result<Vec<Variants>, Error> {
        let request = AugmentRequest {
            spec: Some(options.made()?),
            items,
        };
        let answer = unary!(
            self.calls,
            AugmentationServiceClient.augment,
            "/isomer.transform.v1.AugmentationService/Augment",
            request
        );
        Ok(answer?.items)
    }

    /// Vectors pooled of texts and their variants (GASE), in the order of the texts.
    ///
    /// # Errors
    /// As [`Client::encode`].
    pub async fn encode_augmented(
        &self,
        items: Vec<TextItem>,
        options: AugmentOptions,
    ) -> Result<AugmentedEmbeddings, Error> {
        if items.is_empty() {
            return Err(Error::invalid("items", "is empty", "give at least one text"));
        }
        let base = EncodeAugmentedRequest {
            spec: Some(options.made()?),
            ..options.request
        };
        let encoder = base.encoder_id.clone();
        // Everything but the texts: what the space depends on.
        let question = [b"augmented ", base.encode_to_vec().as_slice()].concat();
        let mut checker = Checker {
            encoder: encoder.clone(),
            collection: options.collection,
            known: self.batching.check_spaces.then(|| (Arc::clone(&self.spaces), question)),
            expected: ExpectedAnswer {
                dimensions: base.dimensions,
                ..ExpectedAnswer::floats(0)
            },
            first: None,
        };
        let (calls, count) = (self.calls.clone(), items.len());
        let work = move |items| {
            let calls = calls.clone();
            let request = EncodeAugmentedRequest { items, ..base.clone() };
            async move {
                unary!(
                    calls,
                    AugmentationServiceClient.encode_augmented,
                    "/isomer.transform.v1.AugmentationService/EncodeAugmented",
                    request
                )
            }
        };
        let mut answers = ordered(stream::iter(items), size, self.batching, work);
        let name = format!("encoder `{encoder}`");
        let mut joiner = Joiner::new(&name, count);
        let mut used = Vec::new();
        while let Some(part) = answers.try_next().await? {
            let moved = part.answer.used.into_iter().map(|mut variants| {
                variants.index = place(variants.index, part.start);
                variants
            });
            used.extend(moved);
            let answer = EncodeResponse {
                embeddings: part.answer.embeddings,
                truncated: part.answer.truncated,
                errors: part.answer.errors,
                vector_space: part.answer.vector_space,
                usage: part.answer.usage,
                timing: part.answer.timing,
                ..EncodeResponse::default()
            };
            checker.check(&answer, part.count)?;
            joiner.add(part.start, answer)?;
        }
        let embeddings = embeddings(joiner.finish(), 0, count);
        if !options.partial {
            all_well(&embeddings.errors, Some(&embeddings))?;
        }
        Ok(AugmentedEmbeddings { embeddings, used })
    }
}
