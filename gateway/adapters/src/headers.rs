//! A provider's extra headers, which are shown to whoever lists providers: no place for secrets.

use std::collections::HashMap;

use http::{HeaderMap, HeaderName, HeaderValue};
use isomer_service_kit::Fault;

/// Parts of names of headers that carry secrets.
const SECRET_NAMES: [&str; 10] = [
    "authorization",
    "authentication",
    "api-key",
    "apikey",
    "api_key",
    "cookie",
    "credential",
    "password",
    "secret",
    "token",
];
/// How values begin that are secrets: schemes of `Authorization`, and the marks that providers put before their keys.
const SECRET_VALUES: [&str; 8] = ["bearer ", "basic ", "sk-", "hf_", "jina_", "pa-", "co_", "ghp_"];
/// Headers that belong to the connection or the protocol: another value would break or smuggle requests.
const OURS: [&str; 13] = [
    "host",
    "connection",
    "content-length",
    "content-type",
    "content-encoding",
    "accept-encoding",
    "transfer-encoding",
    "expect",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "user-agent",
];

/// Reads and checks them.
///
/// # Errors
/// A name or value that is no header, one that is set by us, one that looks like a secret.
pub(crate) fn read(headers: &HashMap<String, String>) -> Result<HeaderMap, Fault> {
    let mut map = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        let field = format!("provider.headers[{name:?}]");
        let lower = name.to_ascii_lowercase();
        let begins = value.trim_start().to_ascii_lowercase();
        if SECRET_NAMES.iter().any(|part| lower.contains(part))
            || SECRET_VALUES.iter().any(|begin| begins.starts_with(begin))
        {
            return Err(Fault::invalid(
                field,
                "looks like a secret, and headers are shown to whoever lists providers",
            )
            .mend("use provider.secret: it is sent as `Authorization: Bearer`"));
        }
        if OURS.contains(&lower.as_str()) || lower.starts_with("grpc-") || lower.starts_with("proxy-") {
            return Err(Fault::invalid(field, "is set by the connection").mend("leave it out"));
        }
        let name = HeaderName::try_from(name)
            .map_err(|_| Fault::invalid(&field, "is no header name").mend("letters, digits and dashes"))?;
        if name.as_str().ends_with("-bin") {
            return Err(Fault::invalid(field, "names binary metadata").mend("leave it out"));
        }
        let value = HeaderValue::try_from(value)
            .ok()
            .filter(|value| value.to_str().is_ok())
            .ok_or_else(|| {
                Fault::invalid(&field, "has a value that is no header value").mend("visible ASCII, one line")
            })?;
        map.insert(name, value);
    }
    Ok(map)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn of(name: &str, value: &str) -> Result<HeaderMap, Fault> {
        read(&HashMap::from([(name.to_owned(), value.to_owned())]))
    }

    #[test]
    fn headers_that_look_like_secrets_are_refused_with_the_mend() {
        for (name, value) in [
            ("Authorization", "x"),
            ("x-api-key", "x"),
            ("X-Auth-Token", "x"),
            ("Cookie", "a=b"),
            ("x-client", "Bearer abc"),
            ("x-client", "sk-abcdef"),
        ] {
            let fault = of(name, value).unwrap_err();
            assert!(fault.mend.as_deref().unwrap().contains("provider.secret"), "{fault}");
            assert!(!fault.to_string().contains("abc"), "{fault}");
        }
    }

    #[test]
    fn headers_of_the_connection_and_smuggled_lines_are_refused() {
        for (name, value) in [
            ("Host", "internal"),
            ("Transfer-Encoding", "chunked"),
            ("grpc-timeout", "1S"),
            ("x-a", "1\r\nx-b: 2"),
            ("x a", "1"),
            ("", "1"),
        ] {
            assert!(of(name, value).is_err(), "{name}: {value}");
        }
        assert_eq!(of("X-Project", "search").unwrap()["x-project"], "search");
    }
}
