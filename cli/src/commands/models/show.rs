//! `isomer models show`: one model, from the catalogue, the cache or a folder.

use std::path::{Path, PathBuf};

use indicatif::HumanBytes;
use isomer_all_in_one::{EmbedConfig, Summary};
use isomer_models::{ModelError, ModelKind, Resolver, progress::NoProgress};
use serde::Serialize;

use super::failure;
use crate::exit::Failure;

/// Facts about a model. `None`: unknown.
#[derive(Debug, Serialize)]
pub(super) struct Card {
    id: String,
    kind: ModelKind,
    /// `present`, `absent` or `damaged`.
    state: String,
    source: String,
    revision: Option<String>,
    weights_sha256: Option<String>,
    licence: Option<String>,
    bytes: Option<u64>,
    path: Option<PathBuf>,
    /// The encoder's own fields, once its files are present.
    encoder: Option<Summary>,
}

/// Describes a model. Fetches nothing.
///
/// # Errors
/// If the name is unknown, or the model cannot be loaded as configured: the error is that of
/// loading it.
pub(super) async fn card(id: &str, resolver: &Resolver, config: &EmbedConfig) -> Result<Card, Failure> {
    let mut card = described(id, resolver).await?;
    if let Some(path) = card.path.as_ref().filter(|_| card.kind == ModelKind::Encoder) {
        let summary = Summary::of(path, &card.source, config);
        let summary = summary.map_err(isomer_service_kit::Fault::from)?;
        // A folder's size is that of its files; for a catalogue model, the catalogue states the
        // size.
        card.bytes = card.bytes.or(Some(summary.weight_bytes));
        card.encoder = Some(summary);
    }
    Ok(card)
}

/// All fields except the encoder's own.
async fn described(name: &str, resolver: &Resolver) -> Result<Card, Failure> {
    let (repository, revision) = name.split_once('@').map_or((name, None), |(name, at)| (name, Some(at)));
    // A repository that the catalogue names is treated as that entry, as in every other command.
    let mut entries = resolver.catalogue().iter().filter(|_| revision.is_none());
    let of_repository = entries.find(|entry| {
        let hub = entry.hub.as_ref();
        hub.is_some_and(|hub| hub.repo.eq_ignore_ascii_case(repository))
    });
    let id = of_repository.map_or(name, |entry| &entry.id);
    let listed = resolver.list().into_iter().find(|model| model.id == id);
    if let Some(model) = listed {
        let present = resolver.present(id);
        let pinned = resolver
            .entry(id)
            .and_then(|entry| entry.hub.as_ref()?.revision.clone());
        return Ok(Card {
            id: model.id,
            kind: model.kind,
            state: model.state.to_string(),
            source: model.source,
            revision: present.as_ref().map(|model| model.revision.clone()).or(pinned),
            weights_sha256: present.map(|model| model.weights_digest),
            licence: Some(model.licence).filter(|licence| !licence.is_empty()),
            bytes: Some(model.bytes).filter(|bytes| *bytes > 0),
            path: model.path,
            encoder: None,
        });
    }
    // The same rule as in `models pull`.
    let kind = if id.to_lowercase().contains("gguf") {
        ModelKind::Generator
    } else {
        ModelKind::Encoder
    };
    let mut card = Card {
        id: id.to_owned(),
        kind,
        state: "absent".into(),
        source: format!("hub:{repository}"),
        revision: revision.map(str::to_owned),
        weights_sha256: None,
        licence: None,
        bytes: None,
        path: None,
        encoder: None,
    };
    let exists = Path::new(id).exists();
    if !exists && !id.contains(['/', '\\']) {
        return Err(failure(ModelError::UnknownModel {
            id: id.to_owned(),
            nearest: resolver.catalogue().nearest(id),
        }));
    }
    // Only a path is resolved: a repository of the hub would be fetched.
    if exists || id.starts_with(['.', '/', '~']) || id.matches('/').count() != 1 {
        let found = resolver.resolve(id, kind, &NoProgress).await.map_err(failure)?;
        card.state = "present".into();
        card.source = found.source;
        card.revision = Some(found.revision);
        card.weights_sha256 = Some(found.weights_digest);
        card.path = Some(found.path);
    }
    Ok(card)
}

impl Card {
    /// One line per field.
    pub(super) fn text(&self) -> String {
        let unknown = || match self.state.as_str() {
            "present" => "unknown".to_owned(),
            _ => format!("unknown until `isomer models pull {}`", self.id),
        };
        let or_unknown = |value: Option<String>| value.unwrap_or_else(unknown);
        let mut lines = vec![
            ("id", self.id.clone()),
            ("kind", self.kind.to_string()),
            ("state", self.state.clone()),
            ("source", self.source.clone()),
            ("revision", or_unknown(self.revision.clone())),
            ("sha256", or_unknown(self.weights_sha256.clone())),
            ("licence", self.licence.clone().unwrap_or_else(|| "unknown".to_owned())),
            (
                "size",
                or_unknown(self.bytes.map(|bytes| HumanBytes(bytes).to_string())),
            ),
        ];
        if let Some(path) = &self.path {
            lines.push(("path", path.display().to_string()));
        }
        if self.kind == ModelKind::Encoder {
            let encoder = self.encoder.as_ref();
            let number =
                |value: fn(&Summary) -> Option<usize>| or_unknown(encoder.and_then(value).map(|n| n.to_string()));
            let word = |value: fn(&Summary) -> String| or_unknown(encoder.map(value));
            lines.extend([
                ("family", word(|encoder| encoder.family.clone())),
                ("dimensions", number(|encoder| encoder.dimensions)),
                ("max tokens", number(|encoder| encoder.max_tokens)),
                ("pooling", word(pooling)),
                ("backend", word(|encoder| encoder.backend.to_owned())),
                ("precision", word(|encoder| encoder.precision.to_owned())),
                ("device", word(|encoder| encoder.device.clone())),
            ]);
            if let Some(instructions) = encoder.and_then(|encoder| encoder.instructions) {
                lines.push(("instructions", instructions.to_owned()));
            }
            for (name, values) in encoder.into_iter().flat_map(|encoder| {
                [
                    ("prompts", &encoder.prompts),
                    ("labels", &encoder.labels),
                    ("warning", &encoder.warnings),
                ]
            }) {
                if !values.is_empty() {
                    lines.push((name, values.join(", ")));
                }
            }
        }
        let lines = lines.into_iter().map(|(name, value)| format!("{name:<11} {value}"));
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// The pooling and the stages behind it, in words.
fn pooling(encoder: &Summary) -> String {
    let mut words = match encoder.pooling.as_slice() {
        [] => "none".to_owned(),
        modes => modes.join(" and "),
    };
    if !encoder.include_prompt {
        words += ", without the prompt";
    }
    for stage in &encoder.stages {
        words += ", ";
        words += stage;
    }
    words
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use isomer_all_in_one::IsomerConfig;
    use isomer_service_kit::config::Validate;
    use serde_json::{Value, json};

    use super::*;

    fn fixture(name: &str) -> String {
        let fixtures = Path::new(".").join("../embed-svc/tests/fixtures");
        fixtures.join(name).display().to_string()
    }

    /// The card of a model in an empty home, with settings of `[embed]`.
    async fn shown(id: &str, embed: Value) -> Result<Card, Failure> {
        let home = tempfile::tempdir().unwrap();
        let config = json!({ "models": { "home": home.path(), "offline": true }, "embed": embed });
        let config: IsomerConfig = serde_json::from_value(config).unwrap();
        config.validate().map_err(|error| Failure::usage(error.to_string()))?;
        card(id, &Resolver::new(config.models).unwrap(), &config.embed).await
    }

    fn line<'a>(text: &'a str, name: &str) -> &'a str {
        let mut lines = text.lines();
        let line = lines.find(|line| line.starts_with(&format!("{name:<11} ")));
        line.unwrap_or_else(|| panic!("no {name} in {text}"))[12..].trim_end()
    }

    #[tokio::test]
    async fn a_folder_is_described_with_what_computes_it() {
        let card = shown(&fixture("labse"), json!({})).await.unwrap();
        let text = card.text();
        for (name, value) in [
            ("state", "present"),
            ("source", "folder"),
            ("revision", "local"),
            ("licence", "unknown"),
            ("family", "bert"),
            ("dimensions", "32"),
            ("max tokens", "96"),
            ("pooling", "cls, dense, normalize"),
            ("backend", "kernels"),
            ("precision", "f32"),
        ] {
            assert_eq!(line(&text, name), value, "{name}");
        }
        let json = serde_json::to_value(&card).unwrap();
        assert_eq!(json["encoder"]["pooling"], json!(["cls"]));
        assert_eq!(json["encoder"]["backend"], json!("kernels"));
        assert_eq!(json["licence"], Value::Null);
        assert_eq!(json["bytes"], json!(155_792));
    }

    #[tokio::test]
    async fn the_configuration_decides_the_backend_and_the_precision() {
        for (embed, backend, precision) in [
            (json!({ "device": "cpu", "precision": "int8" }), "kernels", "int8"),
            (
                json!({ "device": "cpu", "backend": "candle", "precision": "bf16" }),
                "candle",
                "bf16",
            ),
        ] {
            let text = shown(&fixture("labse"), embed).await.unwrap().text();
            assert_eq!((line(&text, "backend"), line(&text, "precision")), (backend, precision));
            assert_eq!(line(&text, "device"), "cpu");
        }
        let refused = shown(&fixture("labse"), json!({ "backend": "candle", "precision": "int8" })).await;
        assert!(format!("{:?}", refused.unwrap_err()).contains("embed.backend"));
    }

    #[tokio::test]
    async fn a_model_that_was_not_pulled_says_what_is_unknown() {
        let card = shown("all-MiniLM-L6-v2", json!({})).await.unwrap();
        let text = card.text();
        assert_eq!((line(&text, "state"), line(&text, "licence")), ("absent", "Apache-2.0"));
        for name in ["sha256", "family", "dimensions", "backend"] {
            assert_eq!(
                line(&text, name),
                "unknown until `isomer models pull all-MiniLM-L6-v2`",
                "{name}"
            );
        }
        let json = serde_json::to_value(&card).unwrap();
        assert_eq!((&json["encoder"], &json["state"]), (&Value::Null, &json!("absent")));
        let by_repository = shown("sentence-transformers/all-MiniLM-L6-v2", json!({}))
            .await
            .unwrap();
        assert_eq!(by_repository.id, "all-MiniLM-L6-v2");
        let of_hub = shown("someone/encoder@v1", json!({})).await.unwrap().text();
        assert_eq!(line(&of_hub, "source"), "hub:someone/encoder");
        assert_eq!(line(&of_hub, "revision"), "v1");
        let unknown = shown("all-MiniLM-L6-v3", json!({})).await.unwrap_err();
        assert!(format!("{unknown:?}").contains("all-MiniLM-L6-v2"), "{unknown:?}");
        let missing = shown("./no-such-folder", json!({})).await.unwrap_err();
        assert!(format!("{missing:?}").contains("no-such-folder"), "{missing:?}");
    }
}
