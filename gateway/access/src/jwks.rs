//! An identity provider's public keys, from a file or an address. They are cached, and fetched
//! again at a bounded rate.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use isomer_outbound::{body, client, said::cause};
use isomer_service_kit::Fault;
use jsonwebtoken::{
    Algorithm, AlgorithmFamily, DecodingKey,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse},
};
use parking_lot::RwLock;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    faults,
    jwt::{FETCH_TIMEOUT, JwtConfig},
};

/// Maximum size of a set of keys in bytes; a typical set has a few kilobytes.
const MOST_BYTES: usize = 1 << 20;
const MOST_KEYS: usize = 256;
/// Permitted sizes of a modulus. A shorter one (below 2048 bits) is not secure; a longer one is too
/// slow.
const MODULUS_BYTES: std::ops::RangeInclusive<usize> = 256..=512;

/// The keys and their source.
#[derive(Debug)]
pub(crate) struct KeySet {
    source: Source,
    refresh: Duration,
    max_age: Duration,
    keys: RwLock<Arc<Vec<PublicKey>>>,
    /// Incremented whenever the keys change.
    generation: AtomicU64,
    state: tokio::sync::Mutex<State>,
}

#[derive(Debug)]
enum Source {
    Url(reqwest::Url, reqwest::Client),
    File(PathBuf),
}

#[derive(Debug, Default)]
struct State {
    tried: Option<Instant>,
    fetched: Option<Instant>,
}

#[derive(Clone)]
pub(crate) struct PublicKey {
    id: Option<String>,
    algorithms: Vec<Algorithm>,
    key: Arc<DecodingKey>,
}

impl std::fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PublicKey({:?}, {:?})", self.id, self.algorithms)
    }
}

impl KeySet {
    pub(crate) fn new(config: &JwtConfig) -> Result<Self, Fault> {
        let source = match (&config.jwks_url, &config.jwks_file) {
            (Some(url), _) => {
                let bad = |why: String| Fault::invalid("access.jwt.jwks_url", why).hint("give an https address");
                let url = url.parse().map_err(|error| bad(format!("is not a URL: {error}")))?;
                Source::Url(url, http_client(config)?)
            }
            (None, Some(path)) => Source::File(path.clone()),
            (None, None) => return Err(Fault::invalid("access.jwt.jwks_url", "is missing")),
        };
        Ok(Self {
            source,
            refresh: Duration::from_secs(config.refresh_seconds),
            max_age: Duration::from_secs(config.max_age_seconds),
            keys: RwLock::default(),
            generation: AtomicU64::new(0),
            state: tokio::sync::Mutex::default(),
        })
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Fetches keys that are missing or too old. If that fails, the existing keys stay in use.
    pub(crate) async fn keep_fresh(&self) {
        // The caller that fetches holds the lock. Others use the existing keys, and wait only if
        // there are none.
        let Ok(mut state) = self.state.try_lock() else {
            if self.snapshot().is_empty() {
                drop(self.state.lock().await);
            }
            return;
        };
        if state.fetched.is_none_or(|at| at.elapsed() >= self.max_age) {
            self.fetch(&mut state).await;
        }
    }

    /// The key for a token with this key id and algorithm. An unknown id triggers another fetch of
    /// the keys.
    pub(crate) async fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Result<Arc<DecodingKey>, Fault> {
        if let Some(found) = self.pick(id, algorithm)? {
            return Ok(found);
        }
        let mut state = self.state.lock().await;
        self.fetch(&mut state).await;
        if let Some(found) = self.pick(id, algorithm)? {
            return Ok(found);
        }
        if state.fetched.is_none() {
            return Err(
                Fault::unavailable("IDENTITY_PROVIDER", "the identity provider's keys cannot be fetched")
                    .hint("see the gateway's log; check access.jwt")
                    .retry_after(self.refresh),
            );
        }
        Err(faults::bad_token("no key of the identity provider fits it"))
    }

    fn snapshot(&self) -> Arc<Vec<PublicKey>> {
        Arc::clone(&self.keys.read())
    }

    fn pick(&self, id: Option<&str>, algorithm: Algorithm) -> Result<Option<Arc<DecodingKey>>, Fault> {
        let keys = self.snapshot();
        let mut fitting = keys
            .iter()
            .filter(|key| key.algorithms.contains(&algorithm) && (id.is_none() || key.id.as_deref() == id));
        let first = fitting.next();
        if fitting.next().is_some() {
            return Err(faults::bad_token("several keys of the identity provider fit it"));
        }
        Ok(first.map(|key| Arc::clone(&key.key)))
    }

    /// Fetches the keys, unless a fetch was tried a moment ago.
    async fn fetch(&self, state: &mut State) {
        if state.tried.is_some_and(|at| at.elapsed() < self.refresh) {
            return;
        }
        state.tried = Some(Instant::now());
        let keys = match self.read().await {
            Ok(text) => parse(&text),
            Err(error) => Err(error),
        };
        match keys {
            Ok(keys) => {
                tracing::info!(keys = keys.len(), "keys of the identity provider read");
                *self.keys.write() = Arc::new(keys);
                self.generation.fetch_add(1, Ordering::AcqRel);
                state.fetched = Some(Instant::now());
            }
            Err(error) => tracing::error!(%error, "keys of the identity provider cannot be fetched"),
        }
    }

    async fn read(&self) -> Result<Vec<u8>, String> {
        let (url, client) = match &self.source {
            Source::Url(url, client) => (url, client),
            Source::File(path) => {
                let read_error = |error: std::io::Error| format!("{}: {error}", path.display());
                let length = tokio::fs::metadata(path).await.map_err(read_error)?.len();
                if length > MOST_BYTES as u64 {
                    return Err(format!("{} is larger than {MOST_BYTES} bytes", path.display()));
                }
                return tokio::fs::read(path).await.map_err(read_error);
            }
        };
        let mut answer = client
            .get(url.clone())
            .send()
            .await
            .map_err(|error| error.to_string())?;
        if answer.status() != reqwest::StatusCode::OK {
            return Err(format!("{url} answers {}", answer.status()));
        }
        let text = body::read(&mut answer, MOST_BYTES).await;
        text.map_err(|error| format!("{url}: {}", cause(&error)))
    }
}

fn http_client(config: &JwtConfig) -> Result<reqwest::Client, Fault> {
    let mut builder = client::builder().timeout(FETCH_TIMEOUT);
    if let Some(file) = &config.ca_file {
        builder = client::trusting(builder, file).map_err(|error| {
            Fault::invalid("access.jwt.ca_file", error.to_string()).hint("give a PEM file with certificates")
        })?;
    }
    builder
        .build()
        .map_err(|error| Fault::internal(format!("no HTTP client can be created: {error}")))
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<Value>,
}

/// The keys of a set that can verify signatures. Other keys in it (encryption, unknown kinds) are
/// skipped, as RFC 7517 requires.
pub(crate) fn parse(text: &[u8]) -> Result<Vec<PublicKey>, String> {
    let document: Document = serde_json::from_slice(text).map_err(|error| format!("not a set of keys: {error}"))?;
    if document.keys.len() > MOST_KEYS {
        return Err(format!("the set has more than {MOST_KEYS} keys"));
    }
    let keys: Vec<PublicKey> = document.keys.into_iter().filter_map(public_key).collect();
    if keys.is_empty() {
        return Err("the set has no key that signatures can be verified with".to_owned());
    }
    Ok(keys)
}

fn public_key(value: Value) -> Option<PublicKey> {
    let jwk: Jwk = serde_json::from_value(value).ok()?;
    let common = &jwk.common;
    let for_signatures = common
        .public_key_use
        .as_ref()
        .is_none_or(|to| *to == PublicKeyUse::Signature)
        && common
            .key_operations
            .as_ref()
            .is_none_or(|all| all.contains(&KeyOperations::Verify));
    if !for_signatures {
        return None;
    }
    let possible: &[Algorithm] = match &jwk.algorithm {
        AlgorithmParameters::RSA(rsa) => {
            let modulus = base64::Engine::decode(&base64::prelude::BASE64_URL_SAFE_NO_PAD, &rsa.n).ok()?;
            if !MODULUS_BYTES.contains(&modulus.len()) {
                tracing::warn!(key = ?common.key_id, bytes = modulus.len(), "an RSA key outside 2048 to 4096 bits is ignored");
                return None;
            }
            AlgorithmFamily::Rsa.algorithms()
        }
        AlgorithmParameters::EllipticCurve(curve) => match curve.curve {
            EllipticCurve::P256 => &[Algorithm::ES256],
            EllipticCurve::P384 => &[Algorithm::ES384],
            _ => return None,
        },
        AlgorithmParameters::OctetKeyPair(pair) if pair.curve == EllipticCurve::Ed25519 => &[Algorithm::EdDSA],
        // A shared secret must not be in a public set.
        _ => return None,
    };
    let algorithms: Vec<Algorithm> = match common.key_algorithm {
        None => possible.to_vec(),
        Some(only) => {
            let only = Algorithm::try_from(only).ok()?;
            possible
                .iter()
                .copied()
                .filter(|algorithm| *algorithm == only)
                .collect()
        }
    };
    if algorithms.is_empty() {
        return None;
    }
    Some(PublicKey {
        id: common.key_id.clone(),
        algorithms,
        key: Arc::new(DecodingKey::from_jwk(&jwk).ok()?),
    })
}
