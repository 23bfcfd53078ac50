//! Answers `Encode`.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use isomer_proto::{
    common::v1::{Dtype, Timing, Usage},
    encoder::v1::{EncodeRequest, EncodeResponse, Truncation, encode_request},
};
use isomer_service_kit::{Tenant, telemetry::gen_ai::Operation, without_dense};
use rayon::prelude::*;

use super::{
    Inner, WorkSize, calibrate,
    describe::{number, vector_space},
    finish::{Delivery, matrix, sparse},
    request::{
        Item, Marks, Prompt, check_ids, check_prompt, dimensions, dtype, invalid, items, most_active, priority, prompt,
        refuse_long, results, served, truncation, want,
    },
    traced::work,
};
use crate::{
    batch::{Outputs, RequestedOutputs, Sequence},
    cache::{self, Key},
    engine::{Priority, TimedOutputs},
    error::EmbedError,
    model::Model,
    registry::LoadedEncoder,
    tokenise::{Cut, Tokens},
};

/// Bytes reserved for the parts of an answer other than vectors.
const ANSWER_OVERHEAD: usize = 4096;
/// Maximum bytes of an entry of a sparse vector.
const SPARSE_ENTRY: usize = 9;
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
    let results = results(request.output, &request.outputs)?;
    let want = want(&results);
    // The vectors that `dimensions`, `normalise` and `output_dtype` apply to.
    let dense = match (want.text_vector, request.outputs.is_empty()) {
        (true, _) => Some(Dense::Texts),
        (false, true) if want.token_vectors => Some(Dense::Tokens),
        _ => None,
    };
    if dense.is_none() {
        without_dense(&request).map_err(invalid)?;
    }
    let most_active = most_active(request.max_active_dimensions, &results)?;
    let items = items(request.inputs, inner)?;
    let count = items.len();
    let encoder = named(inner, &request.encoder_id).await?;
    let field = if request.outputs.is_empty() {
        "output"
    } else {
        "outputs"
    };
    served(&encoder, want, field)?;
    let asked = request.prompt.map(|prompt| match prompt {
        encode_request::Prompt::PromptName(name) => Prompt::Named(name),
        encode_request::Prompt::LiteralPrompt(text) => Prompt::Literal(text),
    });
    let prompt: Arc<str> = prompt(&encoder.model.folder().prompts, asked)?.into();
    check_prompt(&prompt, count, inner)?;
    let model = &encoder.model;
    let delivery = match dense {
        None => None,
        Some(dense) => {
            let (width, normalise) = match dense {
                Dense::Texts => (model.dimensions(), model.normalises()),
                Dense::Tokens => (model.token_dimensions(), false),
            };
            Some(Delivery {
                width,
                dimensions: dimensions(&encoder, width, request.dimensions)?,
                normalise: request.normalise.unwrap_or(normalise),
                dtype,
            })
        }
    };
    if dtype == Dtype::Int8 && dense == Some(Dense::Tokens) {
        let what = "DTYPE_INT8 of token vectors is not served; DTYPE_F32, DTYPE_F16 and DTYPE_UBINARY are";
        return Err(EmbedError::unserved("output_dtype", what));
    }
    let whole_tokens = Delivery::whole(model.token_dimensions());
    let text_bytes = match (dense, delivery) {
        (Some(Dense::Texts), Some(delivery)) => count * delivery.row_bytes(),
        _ => 0,
    };
    check_size(inner, count, text_bytes)?;

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
    let token_rows = |tokens: &Tokens| encoder.model.token_rows(tokens.ids.len());
    let lengths: Option<Vec<usize>> = want.token_vectors.then(|| tokens.iter().map(token_rows).collect());
    let dense_tokens = delivery.filter(|_| dense == Some(Dense::Tokens));
    let token_bytes = dense_tokens.unwrap_or(whole_tokens).row_bytes();
    let token_bytes = lengths
        .as_ref()
        .map_or(0, |lengths| lengths.iter().sum::<usize>() * token_bytes);
    check_size(inner, count, text_bytes + token_bytes)?;

    let sequences: Vec<Sequence> = tokens
        .into_iter()
        .map(|tokens| Sequence { want, ..tokens.into() })
        .collect();
    let run = run(inner, &encoder, (sequences, tenant), priority, deadline).await?;
    let outputs = run.outputs;
    let ranges = match delivery {
        Some(delivery) if dtype == Dtype::Int8 => {
            Some(calibrate::ranges(inner, &encoder, delivery, &outputs.text_vectors, deadline).await?)
        }
        _ => None,
    };
    let active: usize = outputs
        .sparse
        .iter()
        .map(|vector| vector.ids.len().min(most_active))
        .sum();
    check_size(inner, count, text_bytes + token_bytes + active * SPARSE_ENTRY)?;
    let id = encoder.source.id.clone();
    let (scale, rows) = (ranges.clone(), lengths.clone());
    let values = outputs.text_vectors.len() + outputs.token_vectors.len() + active;
    let packed = move |_| {
        let lengths = rows.as_deref();
        let pack = |delivery, vectors: &[f32], lengths| matrix(&id, vectors, delivery, scale.as_deref(), lengths);
        let embeddings = match (dense, delivery) {
            (Some(Dense::Texts), Some(delivery)) => Some(pack(delivery, &outputs.text_vectors, None)?),
            (Some(Dense::Tokens), Some(delivery)) => Some(pack(delivery, &outputs.token_vectors, lengths)?),
            _ => None,
        };
        let beside = want.token_vectors && dense != Some(Dense::Tokens);
        let token_embeddings = beside.then(|| pack(whole_tokens, &outputs.token_vectors, lengths));
        Ok((
            embeddings,
            token_embeddings.transpose()?,
            sparse(&id, outputs.sparse, most_active)?,
        ))
    };
    let (embeddings, token_embeddings, sparse_embeddings) =
        inner.worked(WorkSize::of(values, LIGHT_VALUES), packed).await?;

    let model = &encoder.model;
    let space = |delivery, pipeline| vector_space(&encoder, &prompt, delivery, pipeline, None);
    let vocabulary = Delivery::whole(model.vocabulary());
    Ok(EncodeResponse {
        vector_space: dense.zip(delivery).map(|(dense, delivery)| match dense {
            Dense::Texts => vector_space(&encoder, &prompt, delivery, model.pipeline(), ranges.as_deref()),
            Dense::Tokens => space(delivery, model.token_pipeline()),
        }),
        token_vector_space: token_embeddings
            .as_ref()
            .map(|_| space(whole_tokens, model.token_pipeline())),
        sparse_vector_space: want.sparse.then(|| space(vocabulary, model.sparse_pipeline())),
        embeddings,
        token_embeddings,
        sparse_embeddings,
        token_counts,
        truncated,
        errors: Vec::new(),
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
        row_counts: lengths.unwrap_or_default().into_iter().map(number).collect(),
    })
}

/// The vectors of an answer that are delivered as the request says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dense {
    Texts,
    Tokens,
}

/// Vectors before delivery, and their usage.
pub(super) struct Run {
    pub(super) outputs: Outputs,
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
    encoder: &Arc<LoadedEncoder>,
    (sequences, tenant): (Vec<Sequence>, &Tenant),
    priority: Priority,
    deadline: Option<Instant>,
) -> Result<Run, EmbedError> {
    let used = |sequences: &[Sequence]| sequences.iter().map(|text| text.ids.len() as u64).sum::<u64>();
    let of_texts = sequences.iter().all(|text| text.want == RequestedOutputs::TEXT_VECTOR);
    // Encoding is faster than a store for an interactive request.
    let shared = priority == Priority::Batch && encoder.shared.is_some();
    if !of_texts || (encoder.cache.is_none() && !shared) {
        let tokens = used(&sequences);
        let TimedOutputs {
            outputs,
            queued,
            computed,
        } = work(Operation::Embeddings, encoder, sequences, priority, deadline).await?;
        return Ok(Run {
            outputs,
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
        .worked(WorkSize::of(light, LIGHT_VALUES), move |load| {
            let keys: Vec<_> = sequences
                .iter()
                .map(|text| cache::key(text.view(), scope.as_deref()))
                .collect();
            let known = match (&looked.cache, load) {
                (Some(cache), WorkSize::Light) => cache.known(&keys),
                (Some(cache), WorkSize::Heavy) => Some(cache.get(&keys)),
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
        TimedOutputs::default()
    } else {
        work(Operation::Embeddings, encoder, missing, priority, deadline).await?
    };
    let (queued, computed) = (made.queued, made.computed);
    let filled = encoder.clone();
    // If vectors were found and need not be written, they are only combined.
    let load = match cached == keys.len() as u64 && fetched.is_empty() {
        true => WorkSize::of(keys.len() * encoder.model.dimensions(), LIGHT_VALUES),
        false => WorkSize::Heavy,
    };
    let vectors = inner
        .worked(load, move |load| {
            let width = filled.model.dimensions().max(1);
            let mut fresh = made.outputs.text_vectors.chunks_exact(width);
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
            if let Some(space) = filled.shared.as_ref().filter(|_| shared && load == WorkSize::Heavy) {
                space.put(new.iter().map(|(key, vector)| (*key, vector.to_vec())).collect());
            }
            let from_store = fetched.iter().filter_map(|i| Some((keys[*i], found[*i].as_deref()?)));
            let kept = new.into_iter().chain(from_store);
            // A failed cache write costs time, but not the answer.
            let cache = filled.cache.as_ref().filter(|_| load == WorkSize::Heavy);
            if let Some(Err(error)) = cache.map(|cache| cache.put(kept)) {
                tracing::warn!(%error, "the vector cache cannot be written");
            }
            Ok(vectors)
        })
        .await?;
    Ok(Run {
        outputs: Outputs {
            text_vectors: vectors,
            ..Outputs::default()
        },
        tokens,
        cached,
        queued,
        computed,
    })
}

fn check_size(inner: &Inner, items: usize, vectors: usize) -> Result<(), EmbedError> {
    let bytes = items * 12 + vectors + ANSWER_OVERHEAD;
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

pub(super) async fn named(inner: &Inner, id: &str) -> Result<Arc<LoadedEncoder>, EmbedError> {
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
    encoder: &Arc<LoadedEncoder>,
    items: Vec<Item>,
    prompt: Arc<str>,
    cut: Cut,
    field: fn(usize) -> String,
) -> Result<Vec<Tokens>, EmbedError> {
    let encoder = encoder.clone();
    let bytes = items.iter().map(Item::bytes).sum::<usize>() + items.len() * prompt.len();
    inner
        .worked(WorkSize::of(bytes, LIGHT_TEXT), move |load| {
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
                WorkSize::Light => items.into_iter().enumerate().map(one).collect(),
                WorkSize::Heavy => items.into_par_iter().enumerate().map(one).collect(),
            }
        })
        .await
}
