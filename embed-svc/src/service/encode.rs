//! Answers `Encode`.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use isomer_proto::{
    common::v1::{Dtype, Timing, Usage},
    encoder::v1::{EncodeRequest, EncodeResponse, Truncation, encode_request},
};
use isomer_service_kit::{Tenant, telemetry::gen_ai::Operation};
use rayon::prelude::*;

use super::{
    Inner, Load, calibrate,
    describe::{number, vector_space},
    finish::{Delivery, matrix},
    request::{
        Item, Marks, Prompt, check_ids, check_prompt, dimensions, dtype, items, priority, prompt, refuse_long, served,
        truncation, want,
    },
    traced::work,
};
use crate::{
    batch::{Sequence, Want},
    cache::{self, Key},
    engine::{Encoded, Priority},
    error::EmbedError,
    model::Model,
    registry::Loaded,
    tokenise::{Cut, Tokens},
};

/// Bytes reserved for the parts of an answer other than vectors.
const ANSWER_OVERHEAD: usize = 4096;
/// Maximum bytes of text, including prompts, that are tokenised on the current thread.
const LIGHT_TEXT: usize = 512;
/// Maximum number of vector values that are combined or packed on the current thread.
const LIGHT_VALUES: usize = 4096;

/// Answers an `Encode` request.
pub(super) async fn encode(
    inner: &Inner,
    request: EncodeRequest,
    tenant: &Tenant,
    arrived: Instant,
    deadline: Option<Instant>,
) -> Result<EncodeResponse, EmbedError> {
    let dtype = dtype(request.output_dtype)?;
    let truncation = truncation(request.truncation)?;
    let priority = priority(request.priority)?;
    let want = want(request.output)?;
    let items = items(request.inputs, inner)?;
    let count = items.len();
    let encoder = named(inner, &request.encoder_id).await?;
    served(&encoder, want)?;
    let asked = request.prompt.map(|prompt| match prompt {
        encode_request::Prompt::PromptName(name) => Prompt::Named(name),
        encode_request::Prompt::LiteralPrompt(text) => Prompt::Literal(text),
    });
    let prompt: Arc<str> = prompt(&encoder.model.folder().prompts, asked)?.into();
    check_prompt(&prompt, count, inner)?;
    let delivery = Delivery {
        width: match want {
            Want::TextVector => encoder.model.dimensions(),
            Want::TokenVectors => encoder.model.token_dimensions(),
        },
        dimensions: dimensions(&encoder, want, request.dimensions)?,
        normalise: request
            .normalise
            .unwrap_or(want == Want::TextVector && encoder.model.normalises()),
        dtype,
    };
    if dtype == Dtype::Int8 && want == Want::TokenVectors {
        let what = "DTYPE_INT8 of token vectors is not served; DTYPE_F32, DTYPE_F16 and DTYPE_UBINARY are";
        return Err(EmbedError::unserved("output_dtype", what));
    }
    if want == Want::TextVector {
        check_size(inner, count, count, delivery)?;
    }

    let tokenising = Instant::now();
    let cut = if truncation == Truncation::Head {
        Cut::Head
    } else {
        Cut::Tail
    };
    let tokens = tokenise(inner, &encoder, items, prompt.clone(), cut, |index| {
        format!("inputs[{index}].text")
    })
    .await?;
    let tokenise = tokenising.elapsed();
    if truncation == Truncation::Error {
        refuse_long(&tokens, encoder.model.max_tokens())?;
    }
    let token_counts = tokens.iter().map(|tokens| number(tokens.count)).collect();
    let truncated = tokens.iter().map(Tokens::truncated).collect();
    let lengths: Vec<usize> = tokens.iter().map(|tokens| tokens.ids.len()).collect();
    if want == Want::TokenVectors {
        check_size(inner, count, lengths.iter().sum(), delivery)?;
    }

    let sequences: Vec<Sequence> = tokens
        .into_iter()
        .map(|tokens| Sequence { want, ..tokens.into() })
        .collect();
    let run = run(inner, &encoder, (sequences, tenant), priority, deadline).await?;
    let ranges = if dtype == Dtype::Int8 {
        Some(calibrate::ranges(inner, &encoder, delivery, &run.vectors, deadline).await?)
    } else {
        None
    };
    let id = encoder.source.id.clone();
    let (vectors, scale) = (run.vectors, ranges.clone());
    let owners = (want == Want::TokenVectors).then(|| lengths.clone());
    let embeddings = inner
        .worked(Load::of(vectors.len(), LIGHT_VALUES), move |_| {
            matrix(&id, &vectors, delivery, scale.as_deref(), owners.as_deref())
        })
        .await?;

    Ok(EncodeResponse {
        embeddings: Some(embeddings),
        token_counts,
        truncated,
        errors: Vec::new(),
        vector_space: Some(vector_space(&encoder, &prompt, delivery, want, ranges.as_deref())),
        usage: Some(Usage {
            texts: count as u64,
            tokens: run.tokens,
            cached_texts: run.cached,
            ..Usage::default()
        }),
        timing: Some(Timing {
            queue: prost_types::Duration::try_from(run.queued).ok(),
            tokenise: prost_types::Duration::try_from(tokenise).ok(),
            compute: prost_types::Duration::try_from(run.computed).ok(),
            total: prost_types::Duration::try_from(arrived.elapsed()).ok(),
        }),
        row_counts: match want {
            Want::TextVector => Vec::new(),
            Want::TokenVectors => lengths.into_iter().map(number).collect(),
        },
    })
}

/// Vectors before delivery, and their usage.
pub(super) struct Run {
    pub(super) vectors: Vec<f32>,
    /// Tokens that the model saw.
    tokens: u64,
    /// Texts that came from a cache.
    cached: u64,
    queued: Duration,
    computed: Duration,
}

/// Takes vectors from the caches if they are there, else from the model. The texts belong to a
/// tenant, which finds only its own vectors in the caches.
pub(super) async fn run(
    inner: &Inner,
    encoder: &Arc<Loaded>,
    (sequences, tenant): (Vec<Sequence>, &Tenant),
    priority: Priority,
    deadline: Option<Instant>,
) -> Result<Run, EmbedError> {
    let used = |sequences: &[Sequence]| sequences.iter().map(|text| text.ids.len() as u64).sum::<u64>();
    let of_texts = sequences.iter().all(|text| text.want == Want::TextVector);
    // Encoding is faster than a store for an interactive request.
    let shared = priority == Priority::Batch && encoder.shared.is_some();
    if !of_texts || (encoder.cache.is_none() && !shared) {
        let tokens = used(&sequences);
        let Encoded {
            vectors,
            queued,
            computed,
        } = work(Operation::Embeddings, encoder, sequences, priority, deadline).await?;
        return Ok(Run {
            vectors,
            tokens,
            cached: 0,
            queued,
            computed,
        });
    }
    let (looked, scope) = (encoder.clone(), tenant.scope());
    let tokens: usize = sequences.iter().map(|text| text.ids.len()).sum();
    let light = tokens.max(sequences.len() * encoder.model.dimensions());
    let (keys, known, sequences) = inner
        .worked(Load::of(light, LIGHT_VALUES), move |load| {
            let keys: Vec<_> = sequences
                .iter()
                .map(|text| cache::key(text.view(), scope.as_deref()))
                .collect();
            let known = match (&looked.cache, load) {
                (Some(cache), Load::Light) => cache.known(&keys),
                (Some(cache), Load::Heavy) => Some(cache.get(&keys)),
                (None, _) => Some(vec![None; keys.len()]),
            };
            Ok((keys, known, sequences))
        })
        .await?;
    let mut found = match known {
        Some(known) => known,
        None => {
            let (looked, keys) = (encoder.clone(), keys.clone());
            let found = move || Ok(looked.cache.as_ref().map_or_else(Vec::new, |cache| cache.get(&keys)));
            inner.helped(found).await?
        }
    };
    let mut fetched = Vec::new();
    if let Some(space) = encoder.shared.as_ref().filter(|_| shared) {
        let lacking: Vec<usize> = (0..keys.len()).filter(|i| found[*i].is_none()).collect();
        let wanted: Vec<Key> = lacking.iter().map(|i| keys[*i]).collect();
        for (i, vector) in lacking.into_iter().zip(space.get(&wanted).await) {
            if vector.is_some() {
                fetched.push(i);
                found[i] = vector;
            }
        }
    }
    let missing: Vec<Sequence> = sequences
        .into_iter()
        .zip(&found)
        .filter(|(_, found)| found.is_none())
        .map(|(text, _)| text)
        .collect();
    let (tokens, cached) = (used(&missing), (keys.len() - missing.len()) as u64);
    let made = if missing.is_empty() {
        Encoded::default()
    } else {
        work(Operation::Embeddings, encoder, missing, priority, deadline).await?
    };
    let (queued, computed) = (made.queued, made.computed);
    let filled = encoder.clone();
    // If vectors were found and need not be written, they are only combined.
    let load = match cached == keys.len() as u64 && fetched.is_empty() {
        true => Load::of(keys.len() * encoder.model.dimensions(), LIGHT_VALUES),
        false => Load::Heavy,
    };
    let vectors = inner
        .worked(load, move |load| {
            let width = filled.model.dimensions().max(1);
            let mut fresh = made.vectors.chunks_exact(width);
            let mut vectors = Vec::with_capacity(keys.len() * width);
            let mut new = Vec::new();
            for (key, found) in keys.iter().zip(&found) {
                match found {
                    Some(vector) => vectors.extend_from_slice(vector),
                    None => {
                        let vector = fresh.next().unwrap_or_default();
                        vectors.extend_from_slice(vector);
                        new.push((*key, vector));
                    }
                }
            }
            if let Some(space) = filled.shared.as_ref().filter(|_| shared && load == Load::Heavy) {
                space.put(new.iter().map(|(key, vector)| (*key, vector.to_vec())).collect());
            }
            let from_store = fetched.iter().filter_map(|i| Some((keys[*i], found[*i].as_deref()?)));
            let kept = new.into_iter().chain(from_store);
            // A failed cache write costs time, but not the answer.
            let cache = filled.cache.as_ref().filter(|_| load == Load::Heavy);
            if let Some(Err(error)) = cache.map(|cache| cache.put(kept)) {
                tracing::warn!(%error, "the vector cache cannot be written");
            }
            Ok(vectors)
        })
        .await?;
    Ok(Run {
        vectors,
        tokens,
        cached,
        queued,
        computed,
    })
}

fn check_size(inner: &Inner, items: usize, rows: usize, delivery: Delivery) -> Result<(), EmbedError> {
    let bytes = items * 12 + rows * delivery.row_bytes() + ANSWER_OVERHEAD;
    if bytes <= inner.config.max_message_bytes {
        return Ok(());
    }
    Err(EmbedError::invalid(
        "inputs",
        format!(
            "the answer would take {bytes} bytes, the limit is {}",
            inner.config.max_message_bytes
        ),
        "send fewer texts at once",
    ))
}

pub(super) async fn named(inner: &Inner, id: &str) -> Result<Arc<Loaded>, EmbedError> {
    if id.is_empty() {
        return Err(EmbedError::invalid(
            "encoder_id",
            "is empty",
            "name an encoder; ListEncoders lists them",
        ));
    }
    inner.registry.get(id).await
}

/// Token ids of the texts. In errors, `field` gives the path of a text from its index.
pub(super) async fn tokenise(
    inner: &Inner,
    encoder: &Arc<Loaded>,
    items: Vec<Item>,
    prompt: Arc<str>,
    cut: Cut,
    field: fn(usize) -> String,
) -> Result<Vec<Tokens>, EmbedError> {
    let encoder = encoder.clone();
    let bytes = items.iter().map(Item::bytes).sum::<usize>() + items.len() * prompt.len();
    inner
        .worked(Load::of(bytes, LIGHT_TEXT), move |load| {
            let model: &Model = &encoder.model;
            let unpooled = model
                .unpooled(&prompt)
                .map_err(|message| EmbedError::tokenise(field(0), message))?;
            let marks = match items.iter().position(|item| matches!(item, Item::Ids(_))) {
                Some(index) => Marks::of(model).map_err(|message| EmbedError::tokenise(field(index), message))?,
                None => Marks::default(),
            };
            let one = |(index, item): (usize, Item)| {
                let mut tokens = match item {
                    Item::Text(text) => model
                        .tokenise(&prompt, &text, cut)
                        .map_err(|message| EmbedError::tokenise(field(index), message))?,
                    Item::Ids(ids) => {
                        check_ids(&encoder, &marks, index, &ids)?;
                        Tokens {
                            count: ids.len(),
                            ids,
                            prompt: 0,
                            second: None,
                        }
                    }
                };
                tokens.prompt = unpooled;
                Ok(tokens)
            };
            match load {
                Load::Light => items.into_iter().enumerate().map(one).collect(),
                Load::Heavy => items.into_par_iter().enumerate().map(one).collect(),
            }
        })
        .await
}
