//! Generatively augmented sentence encoding (GASE): variants of a text are generated, encoded
//! together with the text and pooled.
//!
//! * `spec`: the validated request; `mode`: which texts get variants, and whether a generator may
//!   be called.
//! * `generate`: runs all sources at once; each variant is passed on as it arrives, until the
//!   budget is spent.
//! * `encode`: encodes the originals immediately and variants as they arrive, with any encoder
//!   service.
//! * `kept`: vectors of variants, cached in memory for queries.
//! * [`pool`]: the maths. `space`: the identity of the result's vector space.
//!
//! Generation and encoding overlap, so a call takes about as long as the longer of the two.

mod cached_vectors;
mod encode;
mod generate;
mod mode;
pub mod pool;
mod space;
pub(crate) mod spec;

use std::{sync::Arc, time::Duration};

use isomer_proto::{
    common::v1::{Dtype, ItemError, Matrix, Usage, VectorSpace},
    encoder::v1::{Encoder, Priority, encode_request::Prompt},
    transform::v1::{
        AugmentationPooling, AugmentationSpec, EncodeAugmentedRequest, EncodeAugmentedResponse, MissingReason,
        MissingVariant, TextItem, Variants,
    },
};
use isomer_service_kit::{Fault, GrpcChannel, choice};
use isomer_usage::sum;
use tokio::sync::mpsc;
use tonic::Code;

use crate::{
    engine::{Caller, Engine},
    error::TransformError,
    service::Totals,
};
pub(crate) use cached_vectors::VariantVectors;
use cached_vectors::VectorKeyContext;
use encode::{EncodeParameters, Vectors};
pub use pool::{Pooling, Recipe};
use spec::Augmentation;
pub use spec::MAX_SOURCES;

/// Default weight of the original: the best share in the paper.
const ORIGINAL_WEIGHT: f64 = 0.75;

/// Variants of a request, and the cost of generating them.
#[derive(Debug, Default)]
pub(crate) struct GeneratedVariants {
    /// One entry per item, in the order of the request.
    pub(crate) items: Vec<Variants>,
    pub(crate) totals: Totals,
    pub(crate) took: Duration,
}

/// Generates variants only.
pub(crate) async fn augment(
    engine: &Arc<Engine>,
    caller: Caller,
    spec: Option<AugmentationSpec>,
    items: &[TextItem],
) -> Result<GeneratedVariants, Fault> {
    let wanted = spec::read(spec, items.len())?;
    if wanted.is_cascade() {
        return Err(invalid(
            "spec.mode",
            "a cascade goes by the plain search of a query, and nothing is encoded here",
            "call EncodeAugmented, or choose another mode",
        ));
    }
    let augmentation = wanted.plan(engine, &caller, items, &[]).await?;
    generate::run(engine, augmentation, items, |_| {}).await
}

/// The checked vector options of a request.
#[derive(Debug)]
struct Vectorial {
    pooling: Pooling,
    normalise_before: bool,
    normalise_after: Option<bool>,
    prompt: Option<Prompt>,
}

fn invalid(field: &str, message: impl Into<String>, hint: &str) -> Fault {
    TransformError::invalid(field, message, hint).into()
}

fn read_vectorial(request: &EncodeAugmentedRequest) -> Result<Vectorial, Fault> {
    if request.encoder_id.is_empty() {
        return Err(invalid(
            "encoder_id",
            "no encoder is named",
            "give the id of one, e.g. all-MiniLM-L6-v2",
        ));
    }
    let weight = request.original_weight;
    if let Some(weight) = weight
        && !(0.0..=1.0).contains(&weight)
    {
        return Err(invalid(
            "original_weight",
            format!("{weight} is not a weight"),
            "give 0 to 1",
        ));
    }
    let pooling = match choice("pooling", request.pooling)? {
        Some(AugmentationPooling::Max) => Pooling::Max,
        Some(AugmentationPooling::Weighted) => Pooling::Weighted(weight.unwrap_or(ORIGINAL_WEIGHT)),
        _ => Pooling::Mean,
    };
    if weight.is_some() && !matches!(pooling, Pooling::Weighted(_)) {
        return Err(invalid(
            "original_weight",
            "a weight goes with weighted pooling only",
            "set pooling to AUGMENTATION_POOLING_WEIGHTED, or leave the weight out",
        ));
    }
    let prompt = match (&request.literal_prompt, request.prompt_name.as_str()) {
        (Some(_), name) if !name.is_empty() => {
            return Err(invalid(
                "literal_prompt",
                "there is a prompt name too",
                "give prompt_name or literal_prompt, not both",
            ));
        }
        (Some(literal), _) => Some(Prompt::LiteralPrompt(literal.clone())),
        (None, "") => None,
        (None, name) => Some(Prompt::PromptName(name.to_owned())),
    };
    Ok(Vectorial {
        pooling,
        normalise_before: request.normalise_before.unwrap_or(false),
        normalise_after: request.normalise_after,
        prompt,
    })
}

/// Generates variants, encodes them and pools the vectors.
pub(crate) async fn encode_augmented(
    engine: &Arc<Engine>,
    channel: GrpcChannel,
    stored: Option<&VariantVectors>,
    caller: Caller,
    request: EncodeAugmentedRequest,
) -> Result<(EncodeAugmentedResponse, GeneratedVariants), Fault> {
    let vectorial = read_vectorial(&request)?;
    let items = request.items;
    let wanted = spec::read(request.spec, items.len())?;
    let evidence = request.evidence;
    let parameters = EncodeParameters {
        channel,
        encoder_id: request.encoder_id,
        prompt: vectorial.prompt,
        dimensions: request.dimensions,
        priority: wanted.priority(),
    };
    // Vectors of bulk requests are not useful to queries.
    let memory = stored.filter(|_| wanted.uses_caches() && wanted.priority() == Priority::Interactive);
    let memory = memory.map(|kept| {
        kept.of(&VectorKeyContext {
            address: &request.encoder_address,
            encoder: &parameters.encoder_id,
            prompt: parameters.prompt.as_ref(),
            dimensions: parameters.dimensions,
            scope: caller.scope(),
        })
    });
    let originals: Vec<Arc<str>> = items.iter().map(|item| Arc::from(item.text.as_str())).collect();
    let (to_encoder, variants) = mpsc::unbounded_channel();
    let generating = async {
        let augmentation = wanted.plan(engine, &caller, &items, &evidence).await?;
        let identity = augmentation.identity();
        let generated = generate::run(engine, augmentation, &items, move |text| {
            // The receiver is dropped only if the whole request fails.
            let _ = to_encoder.send(Arc::from(text));
        })
        .await?;
        Ok::<_, Fault>((identity, generated))
    };
    let encoding = async {
        let encoder = encode::describe(&parameters).await?;
        let vectors = encode::encode(&parameters, &encoder, originals.clone(), variants, memory.as_ref()).await?;
        Ok::<_, Fault>((encoder, vectors))
    };
    // The first failure ends both.
    let ((identity, mut generated), (encoder, vectors)) = tokio::try_join!(generating, encoding)?;
    let recipe = Recipe {
        pooling: vectorial.pooling,
        normalise_before: vectorial.normalise_before,
        normalise_after: vectorial.normalise_after.unwrap_or(encoder.normalises),
    };
    let plain = identity.is_empty() && !recipe.normalise_before && vectorial.normalise_after.is_none();
    let recipe = if plain {
        // The vectors are not rounded a second time, so that the result equals the response of
        // Encode.
        Recipe {
            normalise_after: false,
            ..recipe
        }
    } else {
        recipe
    };
    let (embeddings, errors) = pooled(&recipe, &originals, &vectors, &mut generated, identity.fail)?;
    let own = space_of(&encoder, &vectors);
    let vector_space = if plain {
        own
    } else {
        space::augmented(&own, &identity, &recipe)
    };
    let spent = generated.totals.usage();
    let response = EncodeAugmentedResponse {
        embeddings: Some(embeddings),
        used: std::mem::take(&mut generated.items),
        vector_space: Some(vector_space),
        usage: Some(Usage {
            // Only the originals are counted, not the texts that were generated or encoded for
            // them.
            texts: originals.len() as u64,
            ..sum::total([&spent, &vectors.usage])
        }),
        timing: None,
        errors,
        similarity: encoder.similarity,
        truncated: vectors.truncated(&originals),
    };
    Ok((response, generated))
}

/// The vector space of the vectors that were pooled.
fn space_of(encoder: &Encoder, vectors: &Vectors) -> VectorSpace {
    vectors
        .space
        .clone()
        .or_else(|| encoder.vector_space.clone())
        .unwrap_or_else(|| VectorSpace {
            model_id: encoder.id.clone(),
            ..VectorSpace::default()
        })
}

/// One row per item. Variants that the encoder refused are reported as missing.
fn pooled(
    recipe: &Recipe,
    originals: &[Arc<str>],
    vectors: &Vectors,
    generated: &mut GeneratedVariants,
    fail: bool,
) -> Result<(Matrix, Vec<ItemError>), Fault> {
    let cols = vectors.cols();
    let mut data = Vec::with_capacity(originals.len() * cols * 4);
    let mut errors = Vec::new();
    for (index, (original, item)) in originals.iter().zip(&mut generated.items).enumerate() {
        refuse_unencoded(item, vectors);
        if fail && let Some(missing) = needed(item) {
            return Err(incomplete(index, &item.id, missing));
        }
        let row = match vectors.get(original) {
            Ok(own) => {
                let variants: Vec<&[f32]> = item
                    .variants
                    .iter()
                    .filter_map(|variant| vectors.get(&variant.text).ok())
                    .collect();
                recipe.pool(own, &variants)
            }
            Err(why) => {
                errors.push(ItemError {
                    index: index as u32,
                    code: Code::InvalidArgument as i32,
                    message: why.to_owned(),
                });
                vec![0.0; cols]
            }
        };
        data.extend(row.iter().flat_map(|value| value.to_le_bytes()));
    }
    let matrix = Matrix {
        rows: originals.len() as u32,
        cols: cols as u32,
        dtype: Dtype::F32.into(),
        data: data.into(),
    };
    Ok((matrix, errors))
}

fn refuse_unencoded(item: &mut Variants, vectors: &Vectors) {
    let mut at = 0;
    while let Some(variant) = item.variants.get(at) {
        match vectors.get(&variant.text) {
            Ok(_) => at += 1,
            Err(why) => {
                let message = why.to_owned();
                item.variants.remove(at);
                item.missing.push(MissingVariant {
                    source: item.sources.remove(at),
                    reason: MissingReason::Encoder.into(),
                    message,
                });
            }
        }
    }
    item.missing.sort_unstable_by_key(|missing| missing.source);
}

/// The first missing variant of an item that should have all of them.
fn needed(item: &Variants) -> Option<&MissingVariant> {
    item.missing
        .iter()
        .find(|missing| missing.reason() != MissingReason::NotNeeded)
}

/// The error for a missing variant if the request requires all variants.
fn incomplete(index: usize, id: &str, missing: &MissingVariant) -> Fault {
    let message = format!(
        "text {index} (id `{id}`) has no variant of source {}: {}",
        missing.source, missing.message
    );
    Fault::new(Code::Aborted, "VARIANT_MISSING", message)
        .field(format!("items[{index}]"))
        .hint("choose PARTIAL_FAILURE_POLICY_USE_ARRIVED, more attempts, a longer budget or a stronger generator")
        .with("source", missing.source.to_string())
}
