//! Manifests that refer to another one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    error::{OciError, Result},
    registry::{INDEX, MANIFEST, Manifest, Repository, digest, unreadable},
};

/// The configuration of an artifact without one: `{}`.
const EMPTY: &str = "application/vnd.oci.empty.v1+json";
/// How often the index at a tag is written again because another process wrote it in the meantime.
const ROUNDS: usize = 5;

/// An object named in a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    pub media_type: String,
    pub digest: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    /// Further facts about it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// The layers of an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Layers {
    /// The layers, starting with the first.
    #[serde(default)]
    pub layers: Vec<Descriptor>,
}

impl Descriptor {
    pub fn of(manifest: &Manifest) -> Self {
        Self {
            media_type: manifest.media_type.clone(),
            digest: manifest.digest.clone(),
            size: manifest.bytes.len() as u64,
            artifact_type: None,
            annotations: BTreeMap::new(),
        }
    }
}

/// The content to attach to an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// Its type, both of the manifest and of its only layer.
    pub artifact_type: String,
    pub content: Vec<u8>,
    /// Annotations of the manifest.
    pub annotations: BTreeMap<String, String>,
}

/// The way in which evidence is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundBy {
    Api,
    /// By the index at this tag, because the registry has no referrers API.
    Tag(String),
}

/// Evidence beside an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushedEvidence {
    /// Digest of its manifest.
    pub digest: String,
    /// How it is found.
    pub found_by: FoundBy,
}

/// Attaches evidence to the artifact `subject`. Attaching the same evidence again changes nothing.
///
/// # Errors
/// If the registry fails or refuses.
pub async fn push(repository: &Repository, subject: &Descriptor, evidence: &Evidence) -> Result<PushedEvidence> {
    let config = Descriptor {
        media_type: EMPTY.to_owned(),
        digest: repository.put_blob(b"{}").await?,
        size: 2,
        artifact_type: None,
        annotations: BTreeMap::new(),
    };
    let layer = Descriptor {
        media_type: evidence.artifact_type.clone(),
        digest: repository.put_blob(&evidence.content).await?,
        size: evidence.content.len() as u64,
        artifact_type: None,
        annotations: BTreeMap::new(),
    };
    let manifest = serde_json::json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "artifactType": evidence.artifact_type,
        "config": config,
        "layers": [layer],
        "subject": subject,
        "annotations": evidence.annotations,
    });
    let bytes = manifest.to_string().into_bytes();
    let own = Descriptor {
        media_type: MANIFEST.to_owned(),
        digest: digest(&bytes),
        size: bytes.len() as u64,
        artifact_type: Some(evidence.artifact_type.clone()),
        annotations: evidence.annotations.clone(),
    };
    let noted = repository.put_manifest(&own.digest, MANIFEST, &bytes).await?;
    let found_by = match noted {
        Some(noted) if noted == subject.digest => FoundBy::Api,
        // Some registries have the API but do not announce it.
        _ if listed(repository, subject).await?.is_some_and(|all| has(&all, &own)) => FoundBy::Api,
        _ => FoundBy::Tag(note(repository, subject, &own).await?),
    };
    Ok(PushedEvidence {
        digest: own.digest,
        found_by,
    })
}

/// The descriptors of all referrers of an artifact, by the API or the tag.
///
/// # Errors
/// If the registry fails or refuses.
pub async fn referrers(repository: &Repository, subject: &Descriptor) -> Result<Vec<Descriptor>> {
    let index = match listed(repository, subject).await? {
        Some(index) => Some(index),
        None => at_tag(repository, &tag(subject)).await?,
    };
    Ok(index.map_or(Vec::new(), |index| descriptors(&index)))
}

/// The tag of the index of an artifact's referrers.
fn tag(subject: &Descriptor) -> String {
    subject.digest.replace(':', "-")
}

async fn listed(repository: &Repository, subject: &Descriptor) -> Result<Option<Value>> {
    let doing = "asking for referrers";
    let Some(bytes) = repository.referrers(&subject.digest).await? else {
        return Ok(None);
    };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| unreadable(doing, format!("the answer is not an index: {error}")))
}

async fn at_tag(repository: &Repository, tag: &str) -> Result<Option<Value>> {
    let Some(found) = repository.manifest(tag).await? else {
        return Ok(None);
    };
    let index: Value = serde_json::from_slice(&found.bytes).unwrap_or_default();
    if !index["manifests"].is_array() {
        return Err(unreadable(
            &format!("reading the index at the tag {tag}"),
            "it is not an index, and is left as it is".to_owned(),
        ));
    }
    Ok(Some(index))
}

fn descriptors(index: &Value) -> Vec<Descriptor> {
    let all = index["manifests"].as_array().into_iter().flatten();
    all.filter_map(|one| serde_json::from_value(one.clone()).ok()).collect()
}

fn has(index: &Value, own: &Descriptor) -> bool {
    let mut all = index["manifests"].as_array().into_iter().flatten();
    all.any(|one| one["digest"] == own.digest.as_str())
}

/// Adds a referrer to the index at the tag. Registries have no conditional writes, so the result is
/// checked afterwards; the entries of others are kept.
async fn note(repository: &Repository, subject: &Descriptor, own: &Descriptor) -> Result<String> {
    let tag = tag(subject);
    for _ in 0..ROUNDS {
        let mut index = at_tag(repository, &tag)
            .await?
            .unwrap_or_else(|| serde_json::json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [] }));
        if has(&index, own) {
            return Ok(tag);
        }
        if let Some(all) = index["manifests"].as_array_mut() {
            let own = serde_json::to_value(own).map_err(|error| unreadable("writing the index", error.to_string()))?;
            all.push(own);
        }
        repository
            .put_manifest(&tag, INDEX, index.to_string().as_bytes())
            .await?;
        if at_tag(repository, &tag).await?.is_some_and(|now| has(&now, own)) {
            return Ok(tag);
        }
    }
    Err(OciError::Unavailable {
        doing: format!("adding to the index at the tag {tag}"),
        message: format!("another program wrote it each of {ROUNDS} times"),
    })
}
