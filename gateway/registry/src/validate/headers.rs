//! Extra headers: legal, nobody else's, and not secret, since they are stored and shown.

use std::collections::HashMap;

use http::{HeaderName, HeaderValue};
use isomer_service_kit::Fault;

use super::shown;

const MOST: usize = 32;
const LONGEST_VALUE: usize = 4096;

/// Headers that a protocol sets itself; two of them would be two opinions (request smuggling).
const RESERVED: &[&str] = &[
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
/// Beginnings of such headers.
const RESERVED_PREFIXES: &[&str] = &["grpc-", "proxy-", "x-forwarded-"];
/// Words of a header's name that speak of a secret.
const SECRET_WORDS: &[&str] = &[
    "apikey",
    "auth",
    "authorization",
    "bearer",
    "cookie",
    "credential",
    "credentials",
    "jwt",
    "key",
    "passwd",
    "password",
    "secret",
    "signature",
    "token",
];
/// Beginnings of values that are secrets whatever their header is called.
const SECRET_VALUES: &[&str] = &["bearer ", "basic "];
/// Beginnings of keys; short values may begin so and be a language (`sk-SK`).
const KEYS: &[&str] = &["sk-", "hf_", "pa-", "jina_"];
const SHORTEST_KEY: usize = 20;

pub(super) fn headers(headers: &HashMap<String, String>) -> Result<(), Fault> {
    if headers.len() > MOST {
        let told = format!("has {} entries", headers.len());
        return Err(Fault::invalid("provider.headers", told).mend(format!("give at most {MOST}")));
    }
    let mut sorted: Vec<_> = headers.iter().collect();
    sorted.sort();
    sorted.into_iter().try_for_each(|(name, value)| header(name, value))
}

fn header(name: &str, value: &str) -> Result<(), Fault> {
    let refuse =
        |told: &str, mend: &str| Err(Fault::invalid(format!("provider.headers[\"{}\"]", shown(name)), told).mend(mend));
    // from_static would take only lower case; from_bytes makes lower case of upper.
    if HeaderName::from_bytes(name.as_bytes()).map_or(true, |legal| legal.as_str() != name) {
        return refuse(
            "is no name of a header",
            "write it in lower case, with letters, digits and dashes",
        );
    }
    if RESERVED.contains(&name) || RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
        return refuse("is set by the protocol", "leave it out");
    }
    let secret = "put it into secret: headers are stored and shown";
    if name.split(['-', '_']).any(|word| SECRET_WORDS.contains(&word)) {
        return refuse("carries a secret, by its name", secret);
    }
    // A binary header of gRPC holds base64, which the transport makes of bytes.
    if name.ends_with("-bin") {
        return refuse("is a binary header", "give headers with text only");
    }
    let legal = HeaderValue::from_str(value).is_ok_and(|value| value.to_str().is_ok());
    if !legal || value.len() > LONGEST_VALUE || value.trim() != value {
        return refuse(
            "has a value that no header can have",
            "give at most 4096 visible ASCII characters and blanks between them",
        );
    }
    let lower = value.to_ascii_lowercase();
    let begins = |beginnings: &[&str]| beginnings.iter().any(|beginning| lower.starts_with(beginning));
    if begins(SECRET_VALUES) || (value.len() >= SHORTEST_KEY && begins(KEYS)) {
        // The value is not repeated.
        return refuse("has a value that looks like a secret", secret);
    }
    Ok(())
}
