//! The encoder of a run: a text's vector counts its letters, hashed into sixteen places with a salt
//! per encoder.

use std::{collections::HashMap, sync::Arc};

use isomer_proto::{
    common::v1::VectorSpace,
    encoder::v1::{EncodeRequest, EncodeResponse, Encoder, encode_request::Prompt},
};
use isomer_service_kit::Fault;
use isomer_stubs::encoder::{StubEncoder, answer, named, texts, unknown};
use parking_lot::Mutex;
use tonic::Status;

/// Dimensions of the stub's vectors.
pub const DIMENSIONS: usize = 16;

pub type Vectoriser = fn(&str, &str) -> [f32; DIMENSIONS];

/// The behaviour of the encoder. A test may change it while the encoder serves.
#[derive(Debug, Default)]
pub struct Behaviour {
    /// Id of an encoder that returns only errors.
    pub broken: Option<String>,
    /// Computes the vectors instead of [`vector`].
    pub vectors: Option<Vectoriser>,
    /// Its own prompts, by name.
    pub prompts: HashMap<String, String>,
    /// Ignores prompts.
    pub deaf: bool,
    /// Every second text of a request gets the vector of the one before it.
    pub doubled: bool,
    /// A vector depends on the first text of its request.
    pub sociable: bool,
    /// Does not report its settings, like providers of other kinds.
    pub foreign: bool,
    /// Reports which texts are longer than this many bytes, prompt included; `None`: reports
    /// nothing about truncation.
    pub limit: Option<usize>,
}

pub fn vector(encoder: &str, text: &str) -> [f32; DIMENSIONS] {
    match encoder {
        // All texts are mapped to one point.
        "stub-blind" => return [0.25; DIMENSIONS],
        // Vectors without a direction.
        "stub-zero" => return [0.0; DIMENSIONS],
        // Word vectors that are nearly one point: (1, epsilon x noise).
        "stub-near" => {
            let mut vector = words(text).map(|noise| noise * 1e-4);
            vector[0] = 1.0;
            return vector;
        }
        // A bag of words without `indeed`.
        "stub-keen" | "stub-keen-again" => return words(text),
        // The same with noise that any change of words changes: equally robust, and less accurate.
        "stub-worse" => {
            let mut own = own_words(text);
            own.sort_unstable();
            let noise = words(&own.concat());
            let mut vector = words(text);
            vector
                .iter_mut()
                .zip(noise)
                .for_each(|(value, noise)| *value += 0.4 * noise);
            return vector;
        }
        _ => {}
    }
    let salt: u32 = encoder.bytes().map(u32::from).sum();
    let mut vector = [0.01f32; DIMENSIONS];
    for (i, byte) in text.to_lowercase().bytes().enumerate() {
        let place = (u32::from(byte).wrapping_mul(31).wrapping_add(salt)) as usize % DIMENSIONS;
        vector[place] += 1.0 + (i % 3) as f32 * 0.1;
    }
    vector
}

fn own_words(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty() && *word != "indeed")
        .map(str::to_lowercase)
        .collect()
}

/// Mean of a pseudo-random vector for each word except `indeed`.
fn words(text: &str) -> [f32; DIMENSIONS] {
    let words = own_words(text);
    let mut mean = [0.0f32; DIMENSIONS];
    for word in &words {
        let mut state = word
            .bytes()
            .fold(7_u64, |sum, byte| sum.wrapping_mul(1_099_511_628_211) ^ u64::from(byte));
        for value in &mut mean {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            *value += ((state >> 40) as f32 / (1 << 24) as f32 - 0.5) / words.len() as f32;
        }
    }
    mean
}

fn space(encoder: &str, prompt: &str, foreign: bool) -> VectorSpace {
    VectorSpace {
        settings_digest: if foreign { String::new() } else { "settings".to_owned() },
        digest: format!("space-of-{encoder}{prompt}"),
        prompt: prompt.to_owned(),
        model_id: encoder.to_owned(),
        dimensions: DIMENSIONS as u32,
        ..VectorSpace::default()
    }
}

/// Serves every id that begins with `stub`.
pub fn encoder(manner: &Arc<Mutex<Behaviour>>) -> StubEncoder {
    let (described, answered) = (Arc::clone(manner), Arc::clone(manner));
    StubEncoder::default()
        .on_get(move |request| {
            let id = request.into_inner().id;
            let (prompts, foreign) = {
                let manner = described.lock();
                (manner.prompts.clone(), manner.foreign)
            };
            async move {
                if !id.starts_with("stub") && id != "all-MiniLM-L6-v2" {
                    return Err(unknown(&id));
                }
                Ok(Encoder {
                    vector_space: Some(space(&id, "", foreign)),
                    weights_digest: format!("weights-of-{id}"),
                    dimensions: DIMENSIONS as u32,
                    max_batch_items: 16,
                    prompts,
                    ..named(&id)
                })
            }
        })
        .on_encode(move |request| {
            let answer = encode(&answered.lock(), &request.into_inner());
            async { answer }
        })
}

fn encode(manner: &Behaviour, request: &EncodeRequest) -> Result<EncodeResponse, Status> {
    let encoder = &request.encoder_id;
    if manner.broken.as_ref() == Some(encoder) {
        return Err(Fault::precondition("BROKEN_MODEL", "the weights are truncated").into());
    }
    assert!(request.inputs.len() <= 16, "more inputs than the encoder permits");
    let prompt = match &request.prompt {
        Some(Prompt::LiteralPrompt(text)) if !manner.deaf => text.as_str(),
        Some(Prompt::PromptName(name)) if !manner.deaf => &manner.prompts[name],
        _ => "",
    };
    let mut texts: Vec<String> = texts(request).map(|text| format!("{prompt}{text}")).collect();
    if manner.doubled {
        texts = (0..texts.len()).map(|i| texts[i - i % 2].clone()).collect();
    }
    let vectoriser = manner.vectors.unwrap_or(vector);
    let company = texts.first().filter(|_| manner.sociable).map_or(0, String::len);
    let cut = manner
        .limit
        .map(|limit| texts.iter().map(|text| text.len() > limit).collect());
    Ok(EncodeResponse {
        vector_space: Some(space(encoder, prompt, manner.foreign)),
        truncated: cut.unwrap_or_default(),
        ..answer(
            texts.iter().map(|text| {
                let mut vector = vectoriser(encoder, text);
                vector[0] += 0.01 * company as f32;
                vector
            }),
            3,
        )
    })
}
