//! The content address of a generation.

use serde::{Deserialize, Serialize};

/// BLAKE3 digest of everything that a generated text depends on.
pub type Key = [u8; 32];

/// Change this value when the hashed parts or the method change: old entries are then no longer
/// found.
const SCHEME: &str = "isomer-transform/1";

/// Everything that the text of one attempt depends on.
#[derive(Debug, Clone, Copy)]
pub struct KeyParts<'a> {
    pub text: &'a str,
    /// Name of the transformation.
    pub transformation: &'a str,
    /// Code of the language requested by the prompt; empty if unknown.
    pub language: &'a str,
    /// Digest of the prompt.
    pub prompt: &'a str,
    /// The generator and its weights.
    pub generator: &'a str,
    /// Sampling temperature.
    pub temperature: f64,
    /// Nucleus sampling.
    pub top_p: f64,
    pub max_tokens: u32,
    /// The seed; `None` if the generator is deterministic without one (greedy and local).
    pub seed: Option<u64>,
    /// Scope of the tenant to which the entry is visible ([`isomer_service_kit::Tenant::scope`]).
    pub tenant: Option<&'a str>,
}

/// The parts of a key that the other fields of an entry lack, so that the key can be computed again
/// and verified.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GenerationKey {
    pub prompt_digest: String,
    /// The generator and its weights.
    pub generator_key: String,
    /// Sampling temperature.
    pub temperature: f64,
    /// Nucleus sampling.
    pub top_p: f64,
    pub max_tokens: u32,
    /// Whether the seed is part of the key.
    pub seeded: bool,
    /// Scope of the tenant to which the entry is visible; if absent, the entry is visible to all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

impl KeyParts<'_> {
    /// The parts that an entry stores.
    pub fn made(&self) -> GenerationKey {
        GenerationKey {
            prompt_digest: self.prompt.to_owned(),
            generator_key: self.generator.to_owned(),
            temperature: self.temperature,
            top_p: self.top_p,
            max_tokens: self.max_tokens,
            seeded: self.seed.is_some(),
            tenant: self.tenant.map(str::to_owned),
        }
    }

    /// The key. Each part is preceded by its name and length, so that no two sets of parts have the
    /// same encoding.
    pub fn key(&self) -> Key {
        let mut hasher = blake3::Hasher::new();
        let mut put = |name: &str, value: &[u8]| {
            for bytes in [name.as_bytes(), value] {
                hasher.update(&(bytes.len() as u64).to_le_bytes());
                hasher.update(bytes);
            }
        };
        put("scheme", SCHEME.as_bytes());
        put("text", self.text.as_bytes());
        put("transformation", self.transformation.as_bytes());
        put("language", self.language.as_bytes());
        put("prompt", self.prompt.as_bytes());
        put("generator", self.generator.as_bytes());
        // Adding zero turns -0.0 into 0.0.
        put("temperature", &(self.temperature + 0.0).to_le_bytes());
        put("top_p", &(self.top_p + 0.0).to_le_bytes());
        put("max_tokens", &self.max_tokens.to_le_bytes());
        match self.seed {
            Some(seed) => put("seed", &seed.to_le_bytes()),
            None => put("seed", b""),
        }
        if let Some(tenant) = self.tenant {
            put("tenant", tenant.as_bytes());
        }
        *hasher.finalize().as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const PARTS: KeyParts<'static> = KeyParts {
        text: "a text",
        transformation: "paraphrase",
        language: "en",
        prompt: "d1",
        generator: "local:x",
        temperature: 0.0,
        top_p: 1.0,
        max_tokens: 64,
        seed: Some(1337),
        tenant: None,
    };

    #[test]
    fn every_part_counts() {
        let variants = [
            PARTS,
            KeyParts {
                text: "a texu",
                ..PARTS
            },
            KeyParts {
                transformation: "expansion",
                ..PARTS
            },
            KeyParts { language: "", ..PARTS },
            KeyParts { prompt: "d2", ..PARTS },
            KeyParts {
                generator: "local:y",
                ..PARTS
            },
            KeyParts {
                temperature: 0.7,
                ..PARTS
            },
            KeyParts { top_p: 0.9, ..PARTS },
            KeyParts {
                max_tokens: 65,
                ..PARTS
            },
            KeyParts {
                seed: Some(1338),
                ..PARTS
            },
            KeyParts { seed: None, ..PARTS },
            KeyParts {
                tenant: Some("one"),
                ..PARTS
            },
            KeyParts {
                tenant: Some("two"),
                ..PARTS
            },
        ];
        let keys: HashSet<Key> = variants.iter().map(KeyParts::key).collect();
        assert_eq!(keys.len(), variants.len());
        assert_eq!(
            KeyParts {
                temperature: -0.0,
                ..PARTS
            }
            .key(),
            PARTS.key()
        );
    }

    #[test]
    fn the_key_of_known_parts_does_not_change_between_releases() {
        assert_eq!(
            hex::encode(PARTS.key()),
            "4acb93c0084dce40dd94616f44ba3d1b6c27cb1a2b3a87f4fccb45c9f3c494bc"
        );
    }
}
