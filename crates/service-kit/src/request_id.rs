//! `x-request-id`: the name of a request in an answer, which clients show and log.

use http::{HeaderMap, HeaderName, HeaderValue};
use uuid::Uuid;

pub(crate) const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Maximum length of a caller's id, in bytes.
const LONGEST: usize = 128;

/// The caller's id, or a new one if the caller gives none that can be repeated.
pub(crate) fn of(headers: &HeaderMap) -> Option<HeaderValue> {
    let is_short_text = |id: &&HeaderValue| !id.is_empty() && id.len() <= LONGEST && id.to_str().is_ok();
    match headers.get(HEADER).filter(is_short_text) {
        Some(id) => Some(id.clone()),
        None => HeaderValue::try_from(Uuid::new_v4().simple().to_string()).ok(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_callers_id_is_kept_if_it_is_a_short_text() {
        let id = |given: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(HEADER, HeaderValue::from_bytes(given).unwrap());
            of(&headers).unwrap()
        };
        assert_eq!(id(b"req-1"), "req-1");
        for odd in [&b""[..], b"\xff", &[b'a'; LONGEST + 1]] {
            assert_eq!(id(odd).len(), 32, "{odd:?}");
        }
        assert_ne!(of(&HeaderMap::new()), of(&HeaderMap::new()));
    }
}
