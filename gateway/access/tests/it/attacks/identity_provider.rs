//! A stub identity provider: keys of three kinds, a JWKS served on a port, tokens of any form.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use isomer_access::{Access, AccessConfig, Caller, JwtConfig, Mode};
use isomer_database::Database;
use isomer_service_kit::Fault;
use jsonwebtoken::{Algorithm, Header};
use parking_lot::Mutex;
use ring::{
    hmac,
    rand::SystemRandom,
    rsa,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair},
};
use rustls_pki_types::{PrivatePkcs8KeyDer, pem::PemObject};
use serde_json::{Value, json};

pub(crate) const ISSUER: &str = "https://login.example.org/";
pub(crate) const AUDIENCE: &str = "isomer";
pub(crate) const ENCODE: &str = "/isomer.encoder.v1.EncoderService/Encode";

/// Test keys generated for this file with `openssl genpkey`; they protect nothing.
pub(crate) const RSA: &str = include_str!("rsa.pem");
pub(crate) const EC: &str = include_str!("ec.pem");
pub(crate) const ED: &str = include_str!("ed.pem");

pub(crate) enum Signer {
    Rsa(RsaKeyPair),
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
    Secret(hmac::Key),
}

impl Signer {
    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).unwrap();
                signature
            }
            Self::Ec(pair) => pair.sign(&random, message).unwrap().as_ref().to_vec(),
            Self::Ed(pair) => pair.sign(message).as_ref().to_vec(),
            Self::Secret(key) => hmac::sign(key, message).as_ref().to_vec(),
        }
    }
}

pub(crate) fn signer(algorithm: Algorithm) -> Signer {
    let der = |pem: &str| PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).unwrap();
    match algorithm {
        Algorithm::ES256 => {
            let (scheme, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
            Signer::Ec(EcdsaKeyPair::from_pkcs8(scheme, der(EC).secret_pkcs8_der(), &random).unwrap())
        }
        Algorithm::EdDSA => Signer::Ed(Ed25519KeyPair::from_pkcs8_maybe_unchecked(der(ED).secret_pkcs8_der()).unwrap()),
        Algorithm::RS256 => Signer::Rsa(RsaKeyPair::from_pkcs8(der(RSA).secret_pkcs8_der()).unwrap()),
        other => panic!("no test key signs with {other:?}"),
    }
}

/// A token with any header, signed by any key.
pub(crate) fn encode(header: &Header, claims: &Value, signer: &Signer) -> String {
    let part = |json: String| BASE64_URL_SAFE_NO_PAD.encode(json);
    let header = part(serde_json::to_string(header).unwrap());
    let message = format!("{header}.{}", part(claims.to_string()));
    let signature = BASE64_URL_SAFE_NO_PAD.encode(signer.sign(message.as_bytes()));
    format!("{message}.{signature}")
}

/// The public key as the provider publishes it.
pub(crate) fn public(algorithm: Algorithm, id: &str) -> Value {
    let number = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
    let mut jwk = match signer(algorithm) {
        Signer::Rsa(pair) => {
            let rsa::PublicKeyComponents { n, e } = rsa::PublicKeyComponents::<Vec<u8>>::from(pair.public());
            json!({ "kty": "RSA", "n": number(&n), "e": number(&e) })
        }
        Signer::Ec(pair) => {
            let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
            json!({ "kty": "EC", "crv": "P-256", "x": number(x), "y": number(y) })
        }
        Signer::Ed(pair) => json!({ "kty": "OKP", "crv": "Ed25519", "x": number(pair.public_key().as_ref()) }),
        Signer::Secret(_) => panic!("a shared secret is not published"),
    };
    jwk["kid"] = json!(id);
    jwk["use"] = json!("sig");
    jwk["alg"] = json!(algorithm);
    jwk
}

pub(crate) fn now() -> i64 {
    isomer_access::micros_now() / 1_000_000
}

/// The claims of a token that is accepted.
pub(crate) fn claims() -> Value {
    json!({ "iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": now() + 600, "scope": "openid encode evaluate" })
}

pub(crate) fn header(algorithm: Algorithm, id: &str) -> Header {
    Header {
        kid: Some(id.to_owned()),
        ..Header::new(algorithm)
    }
}

pub(crate) fn token(algorithm: Algorithm, id: &str, claims: &Value) -> String {
    encode(&header(algorithm, id), claims, &signer(algorithm))
}

/// A token assembled by hand, with any header and any signature.
pub(crate) fn by_hand(header: &Value, claims: &Value, signature: &[u8]) -> String {
    let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    format!(
        "{}.{}.{}",
        part(header),
        part(claims),
        BASE64_URL_SAFE_NO_PAD.encode(signature)
    )
}

/// A provider on its own port, which counts the requests for its keys.
#[derive(Clone)]
pub(crate) struct Provider {
    pub(crate) address: SocketAddr,
    pub(crate) document: Arc<Mutex<String>>,
    pub(crate) asked: Arc<AtomicUsize>,
}

impl Provider {
    pub(crate) async fn start(keys: &[Value]) -> Self {
        let listener = tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))
            .await
            .unwrap();
        let provider = Self {
            address: listener.local_addr().unwrap(),
            document: Arc::new(Mutex::new(json!({ "keys": keys }).to_string())),
            asked: Arc::default(),
        };
        let state = provider.clone();
        let answer = move || {
            let state = state.clone();
            async move {
                state.asked.fetch_add(1, Ordering::SeqCst);
                state.document.lock().clone()
            }
        };
        let away = axum::response::Redirect::temporary("/jwks.json");
        let app = axum::Router::new()
            .route("/jwks.json", axum::routing::get(answer))
            .route("/redirects", axum::routing::get(async move || away));
        tokio::spawn(async move { axum::serve(listener, app).await });
        provider
    }

    pub(crate) fn publish(&self, keys: &[Value]) {
        *self.document.lock() = json!({ "keys": keys }).to_string();
    }

    pub(crate) fn config(&self) -> JwtConfig {
        JwtConfig {
            issuer: ISSUER.to_owned(),
            audiences: vec![AUDIENCE.to_owned()],
            jwks_url: Some(format!("http://{}/jwks.json", self.address)),
            allow_loopback: true,
            leeway_seconds: 5,
            refresh_seconds: 1,
            ..JwtConfig::default()
        }
    }
}

pub(crate) async fn door(jwt: JwtConfig) -> Access {
    let config = AccessConfig {
        mode: Mode::Required,
        jwt: Some(jwt),
        ..AccessConfig::default()
    };
    Access::open(config, Database::open("sqlite::memory:").await.unwrap())
        .await
        .unwrap()
}

pub(crate) async fn ask(access: &Access, path: &str, token: &str) -> Result<Caller, Fault> {
    let request = http::Request::builder()
        .method("POST")
        .uri(path)
        .header("authorization", format!("Bearer {token}"));
    let mut parts = request.body(()).unwrap().into_parts().0;
    access.admit(&mut parts).await?;
    Ok(parts.extensions.get::<Caller>().unwrap().clone())
}
