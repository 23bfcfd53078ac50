//! Page tokens: where a page begins, and a checksum, so that one which was cut or made up is refused rather than misread.

use isomer_service_kit::Fault;
use sha2::{Digest, Sha256};

const PAGE: usize = 100;
const LARGEST_PAGE: usize = 1000;
const CHECK_BYTES: usize = 4;

/// The page size asked for.
pub(crate) fn size(asked: u32) -> usize {
    match usize::try_from(asked).unwrap_or(LARGEST_PAGE) {
        0 => PAGE,
        size => size.min(LARGEST_PAGE),
    }
}

/// The token of the page after the one that ends with `last`.
pub(crate) fn token(last: &str) -> String {
    hex::encode([&check(last.as_bytes())[..], last.as_bytes()].concat())
}

/// The id after which a page begins; empty for the first.
pub(crate) fn after(token: &str) -> Result<String, Fault> {
    if token.is_empty() {
        return Ok(String::new());
    }
    let id = || {
        let bytes = hex::decode(token).ok()?;
        let (sum, id) = bytes.split_at_checked(CHECK_BYTES)?;
        (!id.is_empty() && sum == check(id)).then(|| String::from_utf8(id.to_vec()).ok())?
    };
    id().ok_or_else(|| {
        Fault::invalid("page_token", "was not made by this service, or is damaged")
            .mend("give next_page_token of the page before, or nothing")
    })
}

fn check(id: &[u8]) -> [u8; CHECK_BYTES] {
    let digest = Sha256::new()
        .chain_update("isomer.providers.page/1")
        .chain_update(id)
        .finalize();
    [digest[0], digest[1], digest[2], digest[3]]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_token_leads_on_and_any_other_text_is_refused() {
        let token = token("voyage-3");
        assert_eq!(after(&token).unwrap(), "voyage-3");
        assert_eq!(after("").unwrap(), "");
        for position in 0..token.len() {
            let mut damaged = token.clone().into_bytes();
            damaged[position] = if damaged[position] == b'0' { b'1' } else { b'0' };
            let damaged = String::from_utf8(damaged).unwrap();
            assert!(after(&damaged).is_err(), "{damaged}");
        }
        for short in (1..token.len()).map(|length| &token[..length]) {
            assert!(after(short).is_err(), "{short}");
        }
        assert_eq!(after("zz").unwrap_err().field.unwrap(), "page_token");
    }

    #[test]
    fn a_page_has_a_hundred_entries_unless_asked_and_a_thousand_at_most() {
        assert_eq!([size(0), size(7), size(u32::MAX)], [100, 7, 1000]);
    }
}
