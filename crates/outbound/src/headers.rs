//! Extra headers of a provider. They must be valid and not set by the protocol. They must not be
//! secret, because they are stored and shown.
//!
//! These are the only rules: registration and sending both use them.

use std::collections::HashMap;

use http::{HeaderMap, HeaderName, HeaderValue};
use isomer_service_kit::Fault;

const MOST: usize = 32;
const LONGEST_VALUE: usize = 4096;
/// Maximum number of characters of a name that a message repeats.
const SHOWN: usize = 80;

/// Headers that a protocol sets itself; a second value would be ambiguous (request smuggling).
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
    "user-agent",
];
const RESERVED_PREFIXES: &[&str] = &["grpc-", "proxy-", "x-forwarded-"];
/// Words in a header's name that suggest a secret.
const SECRET_WORDS: &[&str] = &[
    "apikey",
    "auth",
    "authentication",
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
/// Prefixes of values that are secrets whatever their header is called.
const SECRET_VALUES: &[&str] = &["bearer ", "basic "];
/// Prefixes of keys. A short value with such a prefix may be a language (`sk-SK`).
const KEYS: &[&str] = &["sk-", "hf_", "pa-", "jina_", "co_", "ghp_"];
const SHORTEST_KEY: usize = 20;

/// Parses and checks the extra headers of a provider.
///
/// # Errors
/// `INVALID_ARGUMENT` for the first invalid header, in order of names. The message repeats no
/// value.
pub fn read(headers: &HashMap<String, String>) -> Result<HeaderMap, Fault> {
    if headers.len() > MOST {
        let problem = format!("has {} entries", headers.len());
        return Err(Fault::invalid("provider.headers", problem).hint(format!("give at most {MOST}")));
    }
    let mut sorted: Vec<_> = headers.iter().collect();
    sorted.sort();
    sorted.into_iter().map(|(name, value)| header(name, value)).collect()
}

fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), Fault> {
    let refuse =
        |why: &str, hint: &str| Err(Fault::invalid(format!("provider.headers[\"{}\"]", shown(name)), why).hint(hint));
    // from_static accepts only lower case; from_bytes converts upper case.
    let Some(legal) = HeaderName::from_bytes(name.as_bytes())
        .ok()
        .filter(|legal| legal.as_str() == name)
    else {
        return refuse(
            "is not a valid header name",
            "write it in lower case, with letters, digits and dashes",
        );
    };
    if RESERVED.contains(&name) || RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
        return refuse("is set by the protocol", "leave it out");
    }
    let secret = "put it into secret: headers are stored and shown";
    if name.split(['-', '_']).any(|word| SECRET_WORDS.contains(&word)) {
        return refuse("carries a secret, by its name", secret);
    }
    // A binary gRPC header is given as base64, which the transport decodes.
    if name.ends_with("-bin") {
        return refuse("is a binary header", "give headers with text only");
    }
    let content = HeaderValue::from_str(value).ok().filter(|value| value.to_str().is_ok());
    let Some(content) = content.filter(|_| value.len() <= LONGEST_VALUE && value.trim() == value) else {
        return refuse(
            "has a value that no header can have",
            "give at most 4096 visible ASCII characters and blanks between them",
        );
    };
    let lower = value.to_ascii_lowercase();
    let begins = |beginnings: &[&str]| beginnings.iter().any(|beginning| lower.starts_with(beginning));
    if begins(SECRET_VALUES) || (value.len() >= SHORTEST_KEY && begins(KEYS)) {
        // The message does not repeat the value.
        return refuse("has a value that looks like a secret", secret);
    }
    Ok((legal, content))
}

/// The beginning of a name, for a message.
fn shown(name: &str) -> String {
    match name.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn of(name: &str, value: &str) -> Result<HeaderMap, Fault> {
        read(&HashMap::from([(name.to_owned(), value.to_owned())]))
    }

    #[test]
    fn headers_that_look_like_secrets_are_refused_with_a_hint_and_without_their_value() {
        for (name, value) in [
            ("authorization", "x"),
            ("x-api-key", "x"),
            ("x-auth-token", "x"),
            ("cookie", "a=b"),
            ("x-client", "Bearer abc"),
            ("x-client", "sk-abcdefghijklmnopqrstuvwxyz"),
            ("x-client", "ghp_abcdefghijklmnopqrstuvwxyz"),
        ] {
            let fault = of(name, value).unwrap_err();
            assert!(fault.hint.as_deref().unwrap().contains("secret"), "{fault}");
            assert!(!fault.to_string().contains("abc"), "{fault}");
        }
    }

    #[test]
    fn headers_of_the_connection_and_smuggled_lines_are_refused() {
        for (name, value) in [
            ("host", "internal"),
            ("Host", "internal"),
            ("transfer-encoding", "chunked"),
            ("grpc-timeout", "1S"),
            ("forwarded", "for=10.0.0.1"),
            ("x-forwarded-for", "10.0.0.1"),
            ("http2-settings", "AAMAAABkAAQAAP__"),
            ("user-agent", "curl"),
            ("x-trace-bin", "AAAA"),
            ("x-a", "1\r\nx-b: 2"),
            ("x a", "1"),
            ("", "1"),
        ] {
            assert!(of(name, value).is_err(), "{name}: {value}");
        }
    }

    #[test]
    fn a_language_and_a_tokenizer_are_no_secrets() {
        for (name, value) in [
            ("accept-language", "sk-SK"),
            ("x-tokenizer", "cl100k"),
            ("x-client-name", "isomer"),
        ] {
            assert_eq!(of(name, value).unwrap()[name], value);
        }
    }
}
