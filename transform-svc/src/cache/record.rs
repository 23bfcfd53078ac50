//! An entry together with all parts of its key, as a flat record of an export file.

use serde::{Deserialize, Serialize};

use super::{Entry, GenerationKey, Key, is_false};

/// One entry, flat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The content address, hex.
    pub key: String,
    /// The source text.
    pub source: String,
    /// The text as the generator returned it.
    pub output: String,
    /// Name of the transformation.
    pub transformation: String,
    /// Code of the language requested by the prompt; empty if unknown.
    pub language: String,
    /// Id of the generator.
    pub generator: String,
    /// The part of the key that identifies the generator and its weights.
    pub generator_key: String,
    /// Id and version of the prompt.
    pub prompt: String,
    pub prompt_digest: String,
    /// Sampling temperature.
    pub temperature: f64,
    /// Nucleus sampling.
    pub top_p: f64,
    /// Maximum number of tokens.
    pub max_tokens: u32,
    /// Seed of the attempt.
    pub seed: u64,
    /// Whether the seed is part of the key.
    pub seeded: bool,
    pub prompt_tokens: u64,
    pub generated_tokens: u64,
    /// Whether the tokens are estimated.
    pub tokens_estimated: bool,
    /// Whether the text is incomplete ([`Entry::cut`]). Parquet tables omit such entries.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cut: bool,
    /// The version of the model ([`Entry::fingerprint`]). Parquet tables omit it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fingerprint: String,
    /// BLAKE3 (hex) of key and output.
    pub digest: String,
    /// The dispatch for which a worker generated the entry, if any; absent in exports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatch: Option<String>,
    /// Scope of the tenant to which the entry is visible; absent in exports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

impl Record {
    /// The record of an entry; `None` if the entry's parts do not hash to this key.
    pub fn of(key: &Key, entry: Entry) -> Option<Self> {
        if entry.key().as_ref() != Some(key) {
            return None;
        }
        let made = entry.made?;
        Some(Self {
            key: hex::encode(key),
            digest: digest(key, &entry.output),
            source: entry.source,
            output: entry.output,
            transformation: entry.transformation,
            language: entry.language,
            generator: entry.generator,
            generator_key: made.generator_key,
            prompt: entry.prompt,
            prompt_digest: made.prompt_digest,
            temperature: made.temperature,
            top_p: made.top_p,
            max_tokens: made.max_tokens,
            seed: entry.seed,
            seeded: made.seeded,
            prompt_tokens: entry.prompt_tokens,
            generated_tokens: entry.generated_tokens,
            tokens_estimated: entry.tokens_estimated,
            cut: entry.cut,
            fingerprint: entry.fingerprint,
            dispatch: None,
            tenant: made.tenant,
        })
    }

    /// The entry, if key and digest match the record.
    ///
    /// # Errors
    /// The name of the part that does not match.
    pub fn verified(self) -> Result<(Key, Entry), String> {
        let entry = Entry {
            output: self.output,
            seed: self.seed,
            prompt_tokens: self.prompt_tokens,
            generated_tokens: self.generated_tokens,
            tokens_estimated: self.tokens_estimated,
            cut: self.cut,
            fingerprint: self.fingerprint,
            source: self.source,
            transformation: self.transformation,
            generator: self.generator,
            prompt: self.prompt,
            language: self.language,
            made: Some(GenerationKey {
                prompt_digest: self.prompt_digest,
                generator_key: self.generator_key,
                temperature: self.temperature,
                top_p: self.top_p,
                max_tokens: self.max_tokens,
                seeded: self.seeded,
                tenant: self.tenant,
            }),
            dispatch: self.dispatch,
        };
        let key = entry.key().filter(|key| hex::encode(key) == self.key).ok_or(
            "its key is not that of its parts (text, transformation, language, prompt, generator, sampling, seed): it was \
             changed, or made by another version",
        )?;
        if digest(&key, &entry.output) != self.digest {
            return Err("its digest is not that of its output: it was changed".into());
        }
        Ok((key, entry))
    }
}

fn digest(key: &Key, output: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(key);
    hasher.update(output.as_bytes());
    hasher.finalize().to_hex().to_string()
}
