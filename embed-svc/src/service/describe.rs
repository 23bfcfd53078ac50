//! Descriptions of encoders for clients.

use isomer_proto::{
    common::v1::{Dtype, VectorSpace},
    encoder::v1::{Capability, Encoder, ListEncodersRequest, ListEncodersResponse},
};
use isomer_service_kit::vectors::Ranges;

use sha2::{Digest, Sha256};

use super::{Inner, finish::Delivery};
use crate::{
    config::EmbedConfig,
    error::EmbedError,
    registry::{AvailableEncoder, LoadedEncoder},
    space,
};

/// Supported element types.
pub(super) const DTYPES: [Dtype; 4] = [Dtype::F32, Dtype::F16, Dtype::Int8, Dtype::Ubinary];

const PAGE: usize = 100;
const LARGEST_PAGE: usize = 1000;

/// A page of the encoders in order of id. The page token is the last id of the previous page.
pub(super) fn list(inner: &Inner, request: &ListEncodersRequest) -> Result<ListEncodersResponse, EmbedError> {
    let size = match usize::try_from(request.page_size).unwrap_or(LARGEST_PAGE) {
        0 => PAGE,
        size => size.min(LARGEST_PAGE),
    };
    let after = hex::decode(&request.page_token)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok());
    let after = after.ok_or_else(|| {
        EmbedError::invalid(
            "page_token",
            "was not made by this server",
            "give next_page_token of the page before, or nothing",
        )
    })?;
    let mut known = inner.registry.known();
    known.retain(|known| after.is_empty() || known.id > after);
    let more = known.len() > size;
    known.truncate(size);
    let next = known
        .last()
        .filter(|_| more)
        .map(|last| hex::encode(&last.id))
        .unwrap_or_default();
    let encoders = known.iter().map(|known| describe(known, inner)).collect();
    Ok(ListEncodersResponse {
        encoders,
        next_page_token: next,
    })
}

fn describe(known: &AvailableEncoder, inner: &Inner) -> Encoder {
    match &known.loaded {
        Some(encoder) => loaded(&known.id, encoder, &inner.config),
        // Fields that depend on the files are omitted until the files are read.
        None => Encoder {
            id: known.id.clone(),
            max_batch_items: number(inner.config.max_batch_items),
            max_batch_tokens: number(inner.config.max_batch_tokens),
            not_installed: !inner.registry.resolver().is_installed(&known.id),
            ..Encoder::default()
        },
    }
}

/// An encoder in memory.
pub(super) fn loaded(id: &str, encoder: &LoadedEncoder, config: &EmbedConfig) -> Encoder {
    let model = &encoder.model;
    let folder = model.folder();
    let default_prompt = folder
        .prompts
        .default
        .as_ref()
        .and_then(|name| folder.prompts.by_name.get(name));
    let delivery = Delivery {
        width: model.dimensions(),
        dimensions: model.dimensions(),
        normalise: model.normalises(),
        dtype: Dtype::F32,
    };
    let prompt = default_prompt.map_or("", String::as_str);
    let vector_space = model
        .has_text_vectors()
        .then(|| vector_space(encoder, prompt, delivery, model.pipeline(), None));
    let capabilities = [
        (model.has_text_vectors(), Capability::Dense),
        (model.has_sparse_vectors(), Capability::Sparse),
        (model.has_token_vectors(), Capability::MultiVector),
        (model.is_cross_encoder(), Capability::Rerank),
    ];
    let capabilities = capabilities.into_iter().filter(|(has, _)| *has);
    Encoder {
        id: id.to_owned(),
        revision: encoder.source.revision.clone(),
        weights_digest: encoder.source.weights_digest.clone(),
        vector_space,
        dimensions: number(match (model.is_cross_encoder(), model.has_text_vectors()) {
            (true, _) => 0,
            (false, true) => model.dimensions(),
            (false, false) if folder.is_splade() => model.vocabulary(),
            (false, false) => model.token_dimensions(),
        }),
        matryoshka_dimensions: folder.matryoshka.iter().copied().map(number).collect(),
        max_tokens: number(model.max_tokens()),
        max_batch_items: number(config.max_batch_items),
        max_batch_tokens: number(config.max_batch_tokens),
        prompts: folder.prompts.by_name.clone().into_iter().collect(),
        similarity: folder.similarity.into(),
        normalises: model.normalises(),
        dtypes: if model.is_cross_encoder() {
            Vec::new()
        } else {
            DTYPES.map(i32::from).to_vec()
        },
        capabilities: capabilities.map(|(_, capability)| capability.into()).collect(),
        architecture: model.architecture().to_owned(),
        loaded: true,
        default_prompt_name: folder.prompts.default.clone().unwrap_or_default(),
        labels: model.labels().to_vec(),
        prompt_names: Vec::new(),
        not_installed: false,
    }
}

/// The space of vectors made by a pipeline with these settings.
pub(super) fn vector_space(
    encoder: &LoadedEncoder,
    prompt: &str,
    delivery: Delivery,
    pipeline: String,
    ranges: Option<&Ranges>,
) -> VectorSpace {
    space::sealed(VectorSpace {
        digest: String::new(),
        model_id: encoder.source.id.clone(),
        weights_digest: encoder.source.weights_digest.clone(),
        settings_digest: encoder.model.settings_digest().to_owned(),
        prompt: prompt.to_owned(),
        pooling: if delivery.normalise {
            format!("{pipeline}>normalize")
        } else {
            pipeline
        },
        normalised: delivery.normalise,
        dimensions: number(delivery.dimensions),
        dtype: delivery.dtype.into(),
        augmentation: String::new(),
        quantisation: ranges
            .map(|ranges| hex::encode(Sha256::digest(ranges.bytes())))
            .unwrap_or_default(),
    })
}

pub(super) fn number(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
