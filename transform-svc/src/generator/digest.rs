//! Digests of models, which Ollama names before it is asked for a text (`/api/tags`).
//!
//! The digest is part of the cache key, so that texts of a model that was replaced under its name
//! are not used. The last digest of each model is kept on disk: without the server, stored texts
//! are found under it.

use std::{
    collections::{BTreeMap, HashMap},
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use http::header;
use isomer_outbound::{body, secret::bearer};
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::time::Instant;

use super::endpoint::Endpoint;
use crate::error::TransformError;

/// Longest wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Time for which an answer counts.
const LIFETIME: Duration = Duration::from_secs(60);
/// Maximum size of an answer, in bytes.
const MAX_ANSWER: usize = 4 << 20;
/// Maximum number of models whose state is kept. Beyond it, all are asked again.
const MAX_MODELS: usize = 256;
/// The path that OpenAI's protocol has at an Ollama server.
const PROTOCOL: &str = "/v1";

/// The digests of the models of all servers.
#[derive(Debug)]
pub(super) struct ModelDigests {
    file: PathBuf,
    models: Mutex<HashMap<String, Arc<tokio::sync::Mutex<ModelState>>>>,
}

#[derive(Debug, Default)]
struct ModelState {
    client: Option<reqwest::Client>,
    asked: Option<Instant>,
    /// Whether the server does not name digests.
    is_silent: bool,
    digest: Option<String>,
}

/// The part of an answer that is read.
#[derive(Debug, Deserialize)]
struct Tags {
    models: Vec<Tag>,
}

#[derive(Debug, Deserialize)]
struct Tag {
    #[serde(default)]
    name: String,
    #[serde(default)]
    digest: String,
}

/// The answer to a question for a digest.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Digest(String),
    /// The server answers something else.
    Silent,
    /// The server does not answer, or lacks the model now.
    Unknown,
}

impl ModelDigests {
    /// Keeps the digests in this folder.
    pub(super) fn new(folder: &Path) -> Self {
        Self {
            file: folder.join("model-digests.json"),
            models: Mutex::default(),
        }
    }

    /// The current digest of an endpoint's model. The last known one if the server does not answer;
    /// `None` if it never named one.
    ///
    /// # Errors
    /// If the endpoint may not be called.
    pub(super) async fn current(&self, endpoint: &Endpoint) -> Result<Option<String>, TransformError> {
        let Some(root) = endpoint.base().strip_suffix(PROTOCOL) else {
            return Ok(None);
        };
        let name = endpoint.cache_key(None);
        let state = {
            let mut models = self.models.lock();
            if models.len() >= MAX_MODELS && !models.contains_key(&endpoint.id) {
                models.clear();
            }
            Arc::clone(models.entry(endpoint.id.clone()).or_default())
        };
        let mut state = state.lock().await;
        let is_fresh = state.asked.is_some_and(|asked| asked.elapsed() < LIFETIME);
        if state.is_silent || is_fresh {
            return Ok(state.digest.clone());
        }
        let client = match &state.client {
            Some(client) => client.clone(),
            None => state.client.insert(endpoint.client()?).clone(),
        };
        match ask(&client, endpoint, root).await {
            Found::Digest(digest) => {
                if state.digest.as_ref() != Some(&digest) {
                    self.remember(&name, &digest);
                }
                state.digest = Some(digest);
            }
            Found::Silent => state.is_silent = true,
            Found::Unknown if state.digest.is_none() => state.digest = self.stored().remove(&name),
            Found::Unknown => {}
        }
        state.asked = Some(Instant::now());
        Ok(state.digest.clone())
    }

    fn stored(&self) -> BTreeMap<String, String> {
        let content = fs::read(&self.file).unwrap_or_default();
        serde_json::from_slice(&content).unwrap_or_default()
    }

    fn remember(&self, name: &str, digest: &str) {
        let mut stored = self.stored();
        if stored.get(name).is_some_and(|known| known == digest) {
            return;
        }
        stored.insert(name.to_owned(), digest.to_owned());
        if let Err(error) = self.write(&stored) {
            tracing::debug!(file = %self.file.display(), %error, "the digest of a model is not stored");
        }
    }

    /// Replaces the file as a whole, because other processes read it.
    fn write(&self, stored: &BTreeMap<String, String>) -> io::Result<()> {
        let written = self.file.with_extension(uuid::Uuid::now_v7().to_string());
        fs::write(&written, serde_json::to_vec_pretty(stored)?)?;
        fs::rename(&written, &self.file)
    }
}

async fn ask(client: &reqwest::Client, endpoint: &Endpoint, root: &str) -> Found {
    let mut request = client.get(format!("{root}/api/tags")).timeout(TIMEOUT);
    if let Ok(key) = endpoint.config.key().read()
        && let Ok(Some(value)) = bearer(&key)
    {
        request = request.header(header::AUTHORIZATION, value);
    }
    let Ok(mut response) = request.send().await else {
        return Found::Unknown;
    };
    if response.status().is_server_error() {
        return Found::Unknown;
    }
    if !response.status().is_success() {
        return Found::Silent;
    }
    match body::read(&mut response, MAX_ANSWER).await {
        Ok(body) => found(&body, &endpoint.config.model),
        Err(_) => Found::Unknown,
    }
}

fn found(body: &[u8], model: &str) -> Found {
    let Ok(tags) = serde_json::from_slice::<Tags>(body) else {
        return Found::Silent;
    };
    let is_model = |tag: &&Tag| tag.name == model || tag.name.strip_suffix(":latest") == Some(model);
    let digest = tags
        .models
        .iter()
        .find(is_model)
        .map(|tag| tag.digest.trim_start_matches("sha256:"));
    match digest.filter(|digest| !digest.is_empty()) {
        Some(digest) => Found::Digest(digest.to_owned()),
        None => Found::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_that_of_the_models_own_name() {
        let body = br#"{"models": [
            {"name": "gemma3:27b", "model": "gemma3:27b", "digest": "aa"},
            {"name": "gemma3:latest", "digest": "sha256:bb"}, {"name": "empty"}
        ]}"#;
        for (model, expected) in [
            ("gemma3:27b", Found::Digest("aa".into())),
            ("gemma3", Found::Digest("bb".into())),
            ("gemma3:latest", Found::Digest("bb".into())),
            ("gemma3:4b", Found::Unknown),
            ("empty", Found::Unknown),
        ] {
            assert_eq!(found(body, model), expected, "{model}");
        }
        for other in [&b"{}"[..], b"[]", b"<html>", br#"{"models": {}}"#] {
            assert_eq!(found(other, "gemma3"), Found::Silent);
        }
    }
}
