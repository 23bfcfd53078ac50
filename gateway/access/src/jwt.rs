//! Tokens of an identity provider: signed claims (JWT, RFC 7519), verified with the provider's
//! public keys.

use std::{collections::HashSet, path::PathBuf, sync::Arc, time::Duration};

use isomer_proto::{ProtoEnum, gateway::v1::AccessScope};
use isomer_service_kit::{
    Fault,
    config::{ConfigError, Validate},
};
use jsonwebtoken::{Algorithm, Validation, decode, decode_header, errors::ErrorKind};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::{
    access::micros_now, faults, jwks::KeySet, limits::Limits, scope::Scopes, signature, token_cache::TokenCache,
};

/// Tokens that are accepted in addition to keys: the section `access.jwt`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JwtConfig {
    /// The claim `iss` that every token must have, exactly.
    pub issuer: String,
    /// The claim `aud` must name one of these.
    pub audiences: Vec<String>,
    /// Address (`https`) of the provider's public keys (JWKS, RFC 7517). Either this or
    /// `jwks_file`.
    pub jwks_url: Option<String>,
    /// A file with these keys instead, read again as often as an address would be fetched.
    pub jwks_file: Option<PathBuf>,
    /// PEM file with the authorities to trust for `jwks_url`; absent: the platform's.
    pub ca_file: Option<PathBuf>,
    /// Whether `jwks_url` may be plain `http` on a loopback address.
    pub allow_loopback: bool,
    /// Permitted signature algorithms: RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384,
    /// EdDSA. Shared secrets (HS…) and unsigned tokens are never accepted.
    pub algorithms: Vec<String>,
    /// Largest difference between clocks that is tolerated, in seconds.
    pub leeway_seconds: u64,
    /// Least number of seconds between two fetches of the keys because of an unknown key id.
    pub refresh_seconds: u64,
    /// Keys are always fetched again after this number of seconds, so that a withdrawn key stops
    /// working.
    pub max_age_seconds: u64,
    /// The claim that holds the scopes: words separated by spaces, or a list. Dots lead into
    /// objects: `realm_access.roles`.
    pub scopes_claim: String,
    /// Prefix of our scopes in that claim, e.g. `isomer:` for `isomer:encode`. Other words are
    /// ignored.
    pub scope_prefix: String,
    /// Limits of each subject.
    pub limits: Limits,
}

impl Default for JwtConfig {
    fn default() -> Self {
        Self {
            issuer: String::new(),
            audiences: Vec::new(),
            jwks_url: None,
            jwks_file: None,
            ca_file: None,
            allow_loopback: false,
            algorithms: ["RS256", "ES256", "EdDSA"].map(ToOwned::to_owned).to_vec(),
            leeway_seconds: 30,
            refresh_seconds: 30,
            max_age_seconds: 3600,
            scopes_claim: "scope".to_owned(),
            scope_prefix: String::new(),
            limits: Limits::default(),
        }
    }
}

impl JwtConfig {
    fn algorithms(&self) -> Result<Vec<Algorithm>, ConfigError> {
        let known = "give some of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, EdDSA";
        let refuse = |message: String| ConfigError::new("algorithms", message, known);
        if self.algorithms.is_empty() {
            return Err(refuse("is empty".to_owned()));
        }
        let parsed = self.algorithms.iter().map(|name| match name.parse() {
            // Anyone who knows a public key could sign with it as if it were a shared secret.
            Ok(Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512) => {
                Err(refuse(format!("`{name}` signs with a shared secret")))
            }
            Ok(algorithm) => Ok(algorithm),
            Err(_) => Err(refuse(format!("`{name}` is not a supported algorithm"))),
        });
        parsed.collect()
    }
}

impl Validate for JwtConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        if self.issuer.is_empty() {
            return Err(ConfigError::new(
                "issuer",
                "is empty",
                "give the `iss` of the provider's tokens",
            ));
        }
        if self.audiences.is_empty() || self.audiences.iter().any(String::is_empty) {
            let hint = "give the `aud` that the provider puts into tokens for this gateway";
            return Err(ConfigError::new("audiences", "is empty", hint));
        }
        self.algorithms()?;
        if self.leeway_seconds > 600 {
            return Err(ConfigError::new(
                "leeway_seconds",
                "is over 600",
                "set the clocks; give at most 600",
            ));
        }
        if self.scopes_claim.is_empty() {
            return Err(ConfigError::new(
                "scopes_claim",
                "is empty",
                "name a claim, e.g. `scope`",
            ));
        }
        if self.refresh_seconds == 0 || self.max_age_seconds == 0 {
            let field = if self.refresh_seconds == 0 {
                "refresh_seconds"
            } else {
                "max_age_seconds"
            };
            return Err(ConfigError::new(field, "is 0", "give at least 1"));
        }
        self.limits.check().map_err(|fault| {
            let field = fault.field.unwrap_or_default();
            ConfigError::new(field, fault.message, fault.hint.unwrap_or_default())
        })?;
        match (&self.jwks_url, &self.jwks_file) {
            (Some(url), None) => check_url(url, self.allow_loopback),
            (None, Some(_)) => Ok(()),
            _ => Err(ConfigError::new(
                "jwks_url",
                "is missing, and so is jwks_file",
                "give either jwks_url or jwks_file",
            )),
        }
    }
}

fn check_url(url: &str, allow_loopback: bool) -> Result<(), ConfigError> {
    let refuse = |message: &str, hint: &str| Err(ConfigError::new("jwks_url", format!("`{url}` {message}"), hint));
    let Ok(url) = reqwest::Url::parse(url) else {
        return refuse("is not a URL", "give an https address");
    };
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let loopback = host == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    match url.scheme() {
        "https" => Ok(()),
        "http" if loopback && allow_loopback => Ok(()),
        "http" if loopback => refuse("is plain text", "give an https address, or set allow_loopback = true"),
        _ => refuse(
            "is not https: anyone on the network path could replace the keys",
            "give an https address",
        ),
    }
}

/// The identity of a token.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    /// `jwt:` and a digest of issuer and subject.
    pub(crate) principal: String,
    /// The claim `sub`.
    pub(crate) name: String,
    pub(crate) scopes: Scopes,
    /// Microseconds since 1970, leeway included.
    pub(crate) expires: i64,
}

/// Verifies tokens.
#[derive(Debug)]
pub(crate) struct Tokens {
    config: JwtConfig,
    allowed: Vec<Algorithm>,
    keys: KeySet,
    verified: TokenCache,
}

impl Tokens {
    pub(crate) fn new(config: JwtConfig) -> Result<Self, Fault> {
        signature::install()?;
        Ok(Self {
            allowed: config.algorithms().map_err(|error| error.within("access.jwt"))?,
            keys: KeySet::new(&config)?,
            verified: TokenCache::default(),
            config,
        })
    }

    /// The subject of a valid token.
    pub(crate) async fn verify(&self, text: &str) -> Result<Arc<Subject>, Fault> {
        self.keys.keep_fresh().await;
        let generation = self.keys.generation();
        let digest = Sha256::digest(text.as_bytes()).into();
        if let Some(subject) = self.verified.get(&digest, generation) {
            return match subject.expires > micros_now() {
                true => Ok(subject),
                false => Err(faults::expired_token()),
            };
        }
        let header = decode_header(text).map_err(|error| refused(error.kind()))?;
        if !self.allowed.contains(&header.alg) {
            return Err(faults::bad_token(format!(
                "its algorithm {:?} is not among those allowed",
                header.alg
            )));
        }
        // RFC 7515: an unknown critical header makes a token invalid.
        if header.crit.is_some() || header.extras.inner().contains_key("crit") {
            return Err(faults::bad_token("it has unknown critical headers"));
        }
        let kind = header.typ.as_deref().unwrap_or("JWT");
        if !kind.eq_ignore_ascii_case("jwt") && !kind.eq_ignore_ascii_case("at+jwt") {
            return Err(faults::bad_token(format!("its type is {kind:?}")));
        }
        let key = self.keys.find(header.kid.as_deref(), header.alg).await?;
        let mut validation = Validation::new(header.alg);
        validation.leeway = self.config.leeway_seconds;
        validation.validate_nbf = true;
        validation.set_issuer(&[&self.config.issuer]);
        validation.set_audience(&self.config.audiences);
        validation.required_spec_claims = ["exp", "iss", "aud", "sub"]
            .map(ToOwned::to_owned)
            .into_iter()
            .collect::<HashSet<_>>();
        let claims = decode::<Map<String, Value>>(text, &key, &validation)
            .map_err(|error| refused(error.kind()))?
            .claims;
        let subject = Arc::new(self.subject(&claims)?);
        self.verified.put(digest, generation, Arc::clone(&subject));
        Ok(subject)
    }

    fn subject(&self, claims: &Map<String, Value>) -> Result<Subject, Fault> {
        let name = claims.get("sub").and_then(Value::as_str).unwrap_or_default();
        if name.is_empty() || name.len() > 255 || name.chars().any(char::is_control) {
            return Err(faults::bad_token(
                "its claim `sub` is empty, too long, or has control characters",
            ));
        }
        // An issuer that is a list could be read as any of its elements.
        if claims.get("iss").and_then(Value::as_str) != Some(self.config.issuer.as_str()) {
            return Err(faults::bad_token("its issuer is not the configured one"));
        }
        let expires = claims.get("exp").and_then(Value::as_f64).unwrap_or_default() + self.config.leeway_seconds as f64;
        let digest = Sha256::digest(format!("{}\0{name}", self.config.issuer).as_bytes());
        Ok(Subject {
            principal: format!("jwt:{}", hex::encode(&digest[..16])),
            name: name.to_owned(),
            scopes: self.scopes(claims),
            expires: (expires * 1e6) as i64,
        })
    }

    fn scopes(&self, claims: &Map<String, Value>) -> Scopes {
        // A claim may have dots in its name (`https://example.org/scope`), or be nested in another
        // claim.
        let whole = claims.get(&self.config.scopes_claim);
        let claim = whole.or_else(|| {
            let mut path = self.config.scopes_claim.split('.');
            let first = claims.get(path.next()?)?;
            path.try_fold(first, |value, key| value.get(key))
        });
        let words: Vec<&str> = match claim {
            Some(Value::String(words)) => words.split(' ').collect(),
            Some(Value::Array(words)) => words.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let ours = words
            .into_iter()
            .filter_map(|word| word.strip_prefix(self.config.scope_prefix.as_str()));
        ours.filter_map(AccessScope::named).collect()
    }
}

fn refused(kind: &ErrorKind) -> Fault {
    match kind {
        ErrorKind::ExpiredSignature => faults::expired_token(),
        ErrorKind::ImmatureSignature => faults::bad_token("it is not valid yet (`nbf`)"),
        ErrorKind::InvalidIssuer => faults::bad_token("its issuer is not the configured one"),
        ErrorKind::InvalidAudience => faults::bad_token("it is meant for another audience"),
        ErrorKind::MissingRequiredClaim(claim) => faults::bad_token(format!("the claim `{claim}` is missing")),
        ErrorKind::InvalidClaimFormat(claim) => faults::bad_token(format!("the claim `{claim}` has an invalid form")),
        ErrorKind::InvalidSignature => faults::bad_token("its signature is wrong"),
        ErrorKind::InvalidAlgorithm => faults::bad_token("its algorithm does not match its key"),
        // The message does not repeat parts of the token.
        _ => faults::bad_token("it cannot be read, or its algorithm is not among those allowed"),
    }
}

/// Timeout of one fetch of keys.
pub(crate) const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
