//! Reads a credential from a request's headers: one credential, in one form. Everything else is
//! refused, because two readers of one request (a proxy and this server) must never take it for two
//! different callers.

use base64::{Engine, prelude::BASE64_STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use isomer_service_kit::{Fault, config::Secret};

use crate::{faults, key};

/// The headers that carry only a key; the second is Azure's.
const KEY_HEADERS: [HeaderName; 2] = [HeaderName::from_static("x-api-key"), HeaderName::from_static("api-key")];
/// Maximum length of a token.
const MOST_BYTES: usize = 16 << 10;

/// A request's credential, not checked yet.
#[derive(Debug)]
pub(crate) enum Credential {
    None,
    /// A text that begins like a key of this gateway.
    Key(Secret),
    /// A text in the format of a JWT.
    Token(Secret),
    /// Any other text.
    Other,
}

/// All headers that may carry a credential.
pub(crate) fn headers() -> impl Iterator<Item = HeaderName> {
    [header::AUTHORIZATION].into_iter().chain(KEY_HEADERS)
}

/// Reads the headers. `basic`: whether the format of a browser's password dialog is accepted (for
/// pages, read only).
///
/// Each header may occur once. Some clients send the key in both their own header and Azure's;
/// equal keys count as one.
pub(crate) fn read(headers: &HeaderMap, basic: bool) -> Result<Credential, Fault> {
    let mut found: Option<(HeaderName, String)> = None;
    for name in self::headers() {
        let mut values = headers.get_all(&name).iter();
        let Some(value) = values.next() else { continue };
        if values.next().is_some() {
            return Err(faults::twice(name.as_str()));
        }
        // Azure's clients send an empty `authorization` beside their own header.
        if name == header::AUTHORIZATION && value.is_empty() {
            continue;
        }
        let text = key_in(&name, value, basic)?;
        match &found {
            Some((before, key)) if *key != text => return Err(faults::several(before.as_str(), name.as_str())),
            Some(_) => {}
            None => found = Some((name, text)),
        }
    }
    match found {
        None => Ok(Credential::None),
        Some((name, text)) => of_token(&name, &text),
    }
}

/// The content of a header without its scheme.
fn key_in(name: &HeaderName, value: &HeaderValue, basic: bool) -> Result<String, Fault> {
    let text = visible(name, value)?;
    if *name != header::AUTHORIZATION {
        return Ok(text.to_owned());
    }
    // RFC 9110: one or more spaces. RFC 6750: no comma, no parameters.
    let refuse = || faults::bad_header("authorization", "is not of the form `Bearer KEY`");
    let (scheme, rest) = text.split_once(' ').ok_or_else(refuse)?;
    let rest = rest.trim_start_matches(' ');
    if scheme.eq_ignore_ascii_case("bearer") {
        return Ok(rest.to_owned());
    }
    if basic && scheme.eq_ignore_ascii_case("basic") {
        let decoded = BASE64_STANDARD.decode(rest).map_err(|_| refuse())?;
        let decoded = String::from_utf8(decoded).map_err(|_| refuse())?;
        // The user name is ignored; the password is the key.
        let (_, password) = decoded.split_once(':').ok_or_else(refuse)?;
        return Ok(password.to_owned());
    }
    Err(refuse())
}

/// Removes the headers that carry credentials, so that no upstream, log or trace sees them.
pub(crate) fn remove(headers: &mut HeaderMap) {
    for name in self::headers().chain([header::PROXY_AUTHORIZATION]) {
        headers.remove(name);
    }
}

fn visible<'a>(name: &HeaderName, value: &'a HeaderValue) -> Result<&'a str, Fault> {
    if value.len() > MOST_BYTES {
        return Err(faults::bad_header(name.as_str(), "is too long"));
    }
    value
        .to_str()
        .map_err(|_| faults::bad_header(name.as_str(), "holds characters other than visible ASCII"))
}

fn of_token(name: &HeaderName, text: &str) -> Result<Credential, Fault> {
    let b64token = |b: u8| b.is_ascii_alphanumeric() || b"-._~+/=".contains(&b);
    if text.is_empty() || !text.bytes().all(b64token) {
        return Err(faults::bad_header(name.as_str(), "holds no single key"));
    }
    Ok(if text.starts_with(key::PREFIX) {
        Credential::Key(Secret::new(text))
    } else if text.split('.').count() == 3 {
        Credential::Token(Secret::new(text))
    } else {
        Credential::Other
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn headers(pairs: &[(&'static str, &[u8])]) -> HeaderMap {
        let pairs = pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_bytes(value).unwrap()));
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, value);
        }
        headers
    }

    fn key(pairs: &[(&'static str, &[u8])], basic: bool) -> Option<String> {
        match read(&headers(pairs), basic).unwrap() {
            Credential::Key(key) | Credential::Token(key) => key.expose().map(ToOwned::to_owned),
            Credential::None | Credential::Other => None,
        }
    }

    #[test]
    fn a_key_is_read_from_any_of_its_headers() {
        for (name, value) in [
            ("authorization", "Bearer iso_abc"),
            ("authorization", "bearer iso_abc"),
            ("authorization", "Bearer   iso_abc"),
            ("x-api-key", "iso_abc"),
            ("api-key", "iso_abc"),
        ] {
            assert_eq!(key(&[(name, value.as_bytes())], false).as_deref(), Some("iso_abc"));
        }
        assert_eq!(
            key(&[("authorization", b"Bearer a.b.c")], false).as_deref(),
            Some("a.b.c")
        );
        assert_eq!(key(&[("authorization", b"Bearer sk-other")], false), None);
        assert_eq!(key(&[], false), None);
    }

    #[test]
    fn one_key_in_two_headers_is_one_key() {
        let bearer: (&'static str, &[u8]) = ("authorization", b"Bearer iso_abc");
        for other in [("x-api-key", &b"iso_abc"[..]), ("api-key", b"iso_abc")] {
            assert_eq!(key(&[bearer, other], false).as_deref(), Some("iso_abc"));
        }
    }

    #[test]
    fn an_empty_authorization_beside_a_key_is_no_credential() {
        let empty: (&'static str, &[u8]) = ("authorization", b"");
        for name in ["x-api-key", "api-key"] {
            assert_eq!(key(&[empty, (name, b"iso_abc")], false).as_deref(), Some("iso_abc"));
        }
        assert!(matches!(read(&headers(&[empty]), false).unwrap(), Credential::None));
        assert_eq!(
            read(&headers(&[empty, empty]), false).unwrap_err().reason,
            "SEVERAL_CREDENTIALS"
        );
    }

    #[test]
    fn two_credentials_are_none() {
        let bearer: (&'static str, &[u8]) = ("authorization", b"Bearer iso_abc");
        let plain: (&'static str, &[u8]) = ("x-api-key", b"iso_abc");
        for (pairs, names) in [
            (&[bearer, bearer][..], &["authorization"][..]),
            (&[plain, plain], &["x-api-key"]),
            (&[bearer, ("x-api-key", b"iso_def")], &["authorization", "x-api-key"]),
            (&[bearer, ("api-key", b"iso_def")], &["authorization", "api-key"]),
            (&[plain, ("api-key", b"iso_def")], &["x-api-key", "api-key"]),
            (&[bearer, ("api-key", b"sk-of-another")], &["authorization", "api-key"]),
        ] {
            let fault = read(&headers(pairs), false).unwrap_err();
            assert_eq!(fault.reason, "SEVERAL_CREDENTIALS");
            let rendered = fault.to_string();
            assert!(
                names.iter().all(|name| rendered.contains(&format!("`{name}`"))),
                "{rendered}"
            );
            assert!(!rendered.contains("iso_") && !rendered.contains("sk-"), "{rendered}");
        }
    }

    #[test]
    fn odd_forms_are_refused_and_not_repeated() {
        let long = format!("Bearer {}", "a".repeat(MOST_BYTES));
        for value in [
            &b"Bearer"[..],
            b"Bearer ",
            b"Bearer iso_abc ",
            b"Bearer iso_abc, Bearer iso_def",
            b"Bearer iso_abc,iso_def",
            b"Bearer\tiso_abc",
            b"iso_abc",
            b"Basic aXNvOmlzb19hYmM=",
            b"Bearer iso_\xff",
            long.as_bytes(),
        ] {
            let fault = read(&headers(&[("authorization", value)]), false).unwrap_err();
            assert_eq!(fault.reason, "BAD_HEADER", "{value:?}");
            assert!(!fault.to_string().contains("iso_"), "{fault}");
        }
    }

    #[test]
    fn a_password_box_is_understood_on_pages_only() {
        let value = format!("Basic {}", BASE64_STANDARD.encode("anyone:iso_abc"));
        let pairs: [(&'static str, &[u8]); 1] = [("authorization", value.as_bytes())];
        assert_eq!(key(&pairs, true).as_deref(), Some("iso_abc"));
        assert_eq!(read(&headers(&pairs), false).unwrap_err().reason, "BAD_HEADER");
    }
}
