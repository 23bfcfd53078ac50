//! OpenAI's list of embeddings. It is written by hand because nearly all of it is numbers, which
//! [`decimals`] writes.

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use isomer_proto::encoder::v1::SparseVector;
use isomer_service_kit::{Fault, vectors::floats};
use isomer_usage::sum;
use serde::{Deserialize, Serialize};

use super::{decimals, encoded_inputs::EncodedInputs};

/// The form of a dense vector.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum EncodingFormat {
    #[default]
    Float,
    Base64,
}

#[derive(Serialize)]
struct Tokens {
    prompt_tokens: u64,
    total_tokens: u64,
}

/// The results of one text.
struct Item<'a> {
    vector: Option<&'a Bytes>,
    sparse: Option<&'a SparseVector>,
    tokens: Option<&'a [Bytes]>,
}

/// The list as JSON.
///
/// # Errors
/// The error of the first text that failed; results that do not cover every text.
pub(super) fn written(model: &str, format: EncodingFormat, encoded: &EncodedInputs) -> Result<Vec<u8>, Fault> {
    encoded.whole()?;
    let vectors = match encoded.matrix {
        Some(_) => encoded.vectors()?,
        None => Vec::new(),
    };
    let token_vectors = encoded.token_vectors()?;
    let tokens = encoded.by_text(token_vectors.as_deref())?;
    let count = vectors.len().max(encoded.sparse.len()).max(tokens.len());
    let whole = |results: usize| results == 0 || results == count;
    if !(whole(vectors.len()) && whole(encoded.sparse.len()) && whole(tokens.len())) {
        return Err(Fault::internal(
            "the encoder's answer does not have every result of each text",
        ));
    }
    let items = (0..count).map(|index| Item {
        vector: vectors.get(index),
        sparse: encoded.sparse.get(index),
        tokens: tokens.get(index).copied(),
    });
    let mut out = Vec::with_capacity(encoded.json_size().saturating_add(1024));
    body(model, format, encoded, items, &mut out)
        .map_err(|error| Fault::internal(format!("the answer cannot be written: {error}")))?;
    Ok(out)
}

fn body<'a>(
    model: &str,
    format: EncodingFormat,
    encoded: &EncodedInputs,
    items: impl Iterator<Item = Item<'a>>,
    out: &mut Vec<u8>,
) -> serde_json::Result<()> {
    out.extend_from_slice(br#"{"object":"list","id":"#);
    serde_json::to_writer(&mut *out, &id("embd"))?;
    out.extend_from_slice(br#","created":"#);
    serde_json::to_writer(&mut *out, &jiff::Timestamp::now().as_second())?;
    out.extend_from_slice(br#","data":["#);
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(br#"{"object":"embedding","index":"#);
        serde_json::to_writer(&mut *out, &index)?;
        if let Some(vector) = item.vector {
            out.extend_from_slice(br#","embedding":"#);
            numbers(vector, format, out)?;
        }
        if let Some(SparseVector { indices, values }) = item.sparse {
            out.extend_from_slice(br#","sparse_embedding":{"indices":"#);
            serde_json::to_writer(&mut *out, indices)?;
            out.extend_from_slice(br#","values":"#);
            decimals::array(values.iter().copied(), out);
            out.push(b'}');
        }
        if let Some(vectors) = item.tokens {
            out.extend_from_slice(br#","token_embeddings":["#);
            for (row, vector) in vectors.iter().enumerate() {
                if row > 0 {
                    out.push(b',');
                }
                numbers(vector, format, out)?;
            }
            out.push(b']');
        }
        out.push(b'}');
    }
    out.extend_from_slice(br#"],"model":"#);
    serde_json::to_writer(&mut *out, model)?;
    out.extend_from_slice(br#","usage":"#);
    let usage = Tokens {
        prompt_tokens: encoded.usage.tokens,
        total_tokens: sum::charged_tokens(&encoded.usage),
    };
    serde_json::to_writer(&mut *out, &usage)?;
    if let Some(augment) = &encoded.augment {
        out.extend_from_slice(br#","augment":"#);
        serde_json::to_writer(&mut *out, augment)?;
    }
    out.push(b'}');
    Ok(())
}

/// The id of an answer. Mistral's clients require one; nothing can be looked up by it.
pub(super) fn id(kind: &str) -> String {
    format!("{kind}-{}", uuid::Uuid::new_v4().simple())
}

fn numbers(vector: &Bytes, format: EncodingFormat, out: &mut Vec<u8>) -> serde_json::Result<()> {
    match format {
        EncodingFormat::Float => decimals::array(floats(vector), out),
        EncodingFormat::Base64 => serde_json::to_writer(out, &BASE64_STANDARD.encode(vector))?,
    }
    Ok(())
}
