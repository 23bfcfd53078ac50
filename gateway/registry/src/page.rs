//! Page tokens: where a page begins, and a checksum, so that one which was cut or made up is refused rather than misread.

use isomer_service_kit::Fault;
use prost::Message;
use sha2::{Digest, Sha256};

const PAGE: usize = 100;
const LARGEST_PAGE: usize = 1000;
const CHECK_BYTES: usize = 4;
/// Most bytes of a page: gRPC clients take 4 MiB unless told otherwise. One provider has less than half of that.
const PAGE_BYTES: usize = 3 << 20;

/// Cuts a list after the first page; true when something was cut off.
pub(crate) fn cut<M: Message>(list: &mut Vec<M>, size: usize) -> bool {
    let mut bytes = 0_usize;
    let fits = |message: &M| {
        bytes += message.encoded_len();
        bytes <= PAGE_BYTES
    };
    let fitting = list.iter().map(fits).take_while(|fits| *fits).count().max(1);
    let whole = list.len();
    list.truncate(size.min(fitting));
    list.len() < whole
}

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

    #[test]
    fn a_page_ends_before_it_grows_too_large_and_always_goes_on() {
        let mut texts: Vec<String> = (0..5).map(|_| "x".repeat(1 << 20)).collect();
        assert!(cut(&mut texts, 100));
        assert_eq!(texts.len(), 2);
        assert!(!cut(&mut texts, 2));
        let mut huge = vec!["x".repeat(5 << 20), String::new()];
        assert!(cut(&mut huge, 100));
        assert_eq!(huge.len(), 1);
        assert!(!cut(&mut Vec::<String>::new(), 1));
    }
}
