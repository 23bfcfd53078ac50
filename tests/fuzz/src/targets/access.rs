//! Credentials.

use std::{
    cell::OnceCell,
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};

use ::http::{HeaderMap, HeaderName, HeaderValue, Request};
use isomer_access::{JwtConfig, fuzz};
use ring::signature::{Ed25519KeyPair, KeyPair};
use rustls_pki_types::{PrivatePkcs8KeyDer, pem::PemObject};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::input::{Input, file, folder, text};

const ISSUER: &str = "https://login.example.org/";
const AUDIENCE: &str = "isomer";
/// A key of the access tests, which protects nothing.
const KEY: &[u8] = include_bytes!("../../../../gateway/access/tests/it/attacks/ed.pem");

struct Reader {
    runtime: Runtime,
    tokens: fuzz::TokenReader,
    signer: Ed25519KeyPair,
    _folder: TempDir,
}

impl Reader {
    fn new() -> Option<Self> {
        let key = PrivatePkcs8KeyDer::from_pem_slice(KEY).ok()?;
        let signer = Ed25519KeyPair::from_pkcs8_maybe_unchecked(key.secret_pkcs8_der()).ok()?;
        let key = json!({ "kty": "OKP", "crv": "Ed25519", "x": base64(signer.public_key().as_ref()) });
        let folder = folder()?;
        let jwks: PathBuf = file(
            folder.path(),
            "jwks.json",
            json!({ "keys": [key] }).to_string().as_bytes(),
        )?;
        let config = JwtConfig {
            issuer: ISSUER.to_owned(),
            audiences: vec![AUDIENCE.to_owned()],
            jwks_file: Some(jwks),
            ..JwtConfig::default()
        };
        Some(Self {
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .ok()?,
            tokens: fuzz::TokenReader::new(config).ok()?,
            signer,
            _folder: folder,
        })
    }
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// A token. After the letter `a`, the token follows as it is sent. After `b` follow a header and
/// claims in JSON, on one line each; they are signed here, so that mutations reach the code behind
/// the signature check. `EXP` in the claims stands for a time in the future. A token is accepted
/// only if all required claims hold.
pub(super) fn jwt(data: &[u8]) {
    thread_local! {
        static READER: OnceCell<Option<Reader>> = const { OnceCell::new() };
    }
    let mut input = Input(data);
    let signed = input.byte() == b'b';
    READER.with(|reader| {
        let Some(reader) = reader.get_or_init(Reader::new) else {
            return;
        };
        if !signed {
            let sent = text(input.0);
            let held = reader.runtime.block_on(reader.tokens.verify(&sent));
            assert!(held.is_err(), "a token without a valid signature is accepted");
            return;
        }
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        let header = input.until(b'\n');
        let claims = text(input.0).replace("EXP", &(now + 600).to_string());
        let message = format!("{}.{}", base64(header), base64(claims.as_bytes()));
        let signature = base64(reader.signer.sign(message.as_bytes()).as_ref());
        let token = format!("{message}.{signature}");
        let Ok((name, _, expires)) = reader.runtime.block_on(reader.tokens.verify(&token)) else {
            return;
        };
        let header: Value = serde_json::from_slice(header).unwrap_or_default();
        let claims: Value = serde_json::from_str(&claims).unwrap_or_default();
        assert_eq!(header["alg"], "EdDSA");
        assert!(header.get("crit").is_none(), "critical headers are ignored");
        assert_eq!(claims["iss"], ISSUER);
        assert!(
            claims["aud"] == AUDIENCE
                || claims["aud"]
                    .as_array()
                    .is_some_and(|all| all.iter().any(|one| one == AUDIENCE))
        );
        assert_eq!(claims["sub"], json!(name));
        assert!(!name.is_empty() && name.len() <= 255 && !name.chars().any(char::is_control));
        assert!(
            expires / 1_000_000 >= i64::try_from(now).unwrap_or(i64::MAX),
            "an expired token is accepted"
        );
    });
}

/// A set of public keys.
pub(super) fn key_set(data: &[u8]) {
    if let Ok(keys) = fuzz::key_set(data) {
        assert!(keys > 0);
    }
}

/// Headers of a request, one per line. An API key in them is well formed, and no key is left in a
/// text from which keys were removed.
pub(super) fn credentials(data: &[u8]) {
    let all = text(data);
    let left = fuzz::without_keys(&all);
    let words = left.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    for word in words {
        assert!(fuzz::key_id(word).is_none(), "a key is left");
    }
    for word in all.split_ascii_whitespace() {
        if let Some(id) = fuzz::key_id(word) {
            let rest = word.strip_prefix("iso_").unwrap_or_default();
            assert!(rest.starts_with(id), "a key has the id that it contains");
        }
    }
    let mut headers = HeaderMap::new();
    for line in data.split(|byte| *byte == b'\n') {
        let mut line = Input(line);
        let name = HeaderName::from_bytes(line.until(b':'));
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(line.0.trim_ascii())) {
            headers.append(name, value);
        }
    }
    for basic in [false, true] {
        let _ = fuzz::credential(&headers, basic);
    }
    let mut request = Request::get("/");
    if let Some(all) = request.headers_mut() {
        all.clone_from(&headers);
    }
    let Ok((parts, ())) = request.body(()).map(Request::into_parts) else {
        return;
    };
    if fuzz::check_local(&parts, &[]).is_ok() {
        for host in headers.get_all("host") {
            let host = host.to_str().unwrap_or_default().to_ascii_lowercase();
            let is_own = ["localhost", "127.", "[::1]", "[::ffff:7f", "[::ffff:127.", "0:0:1]"];
            assert!(
                is_own.iter().any(|own| host.contains(own)),
                "{host} is not this machine"
            );
        }
    }
}
