//! Page tokens (AIP-158). A token holds the start of a page and a checksum, so that a truncated or
//! forged token is refused rather than misread.

use sha2::{Digest, Sha256};

use isomer_fault::Fault;

const CHECK_BYTES: usize = 4;
/// Maximum length of a token. Ids are much shorter.
const LONGEST: usize = 16 << 10;

/// The token of the page that follows the page ending with `last`. `list` is the name of the rpc: a
/// token of another list is refused.
pub fn token(list: &str, last: &str) -> String {
    hex::encode([&check(list, last.as_bytes())[..], last.as_bytes()].concat())
}

/// The id after which a page begins; empty for the first page.
///
/// # Errors
/// `INVALID_ARGUMENT` on `page_token` for a text that [`token`] did not produce for this list.
pub fn after(list: &str, token: &str) -> Result<String, Fault> {
    if token.is_empty() {
        return Ok(String::new());
    }
    let id = || {
        if token.len() > LONGEST {
            return None;
        }
        let bytes = hex::decode(token).ok()?;
        let (sum, id) = bytes.split_at_checked(CHECK_BYTES)?;
        (!id.is_empty() && sum == check(list, id)).then(|| String::from_utf8(id.to_vec()).ok())?
    };
    id().ok_or_else(|| {
        Fault::invalid("page_token", "was not made by this service, or is damaged")
            .hint("give next_page_token of the page before, or leave page_token empty")
    })
}

/// The index at which a page of an unchanging list begins, if [`token`] got it as digits. 0 for the
/// first page.
///
/// # Errors
/// Those of [`after`].
pub fn place(list: &str, token: &str) -> Result<usize, Fault> {
    let place = after(list, token)?;
    // Only a token of another list has a `last` without digits, and its checksum differs.
    Ok(place.parse().unwrap_or_default())
}

fn check(list: &str, id: &[u8]) -> [u8; CHECK_BYTES] {
    let digest = Sha256::new()
        .chain_update("isomer.page/1 ")
        .chain_update(list)
        .chain_update([0])
        .chain_update(id)
        .finalize();
    [digest[0], digest[1], digest[2], digest[3]]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const LIST: &str = "ListProviders";

    #[test]
    fn a_token_leads_on_and_any_other_text_is_refused() {
        let token = token(LIST, "voyage-3");
        assert_eq!(after(LIST, &token).unwrap(), "voyage-3");
        assert_eq!(after(LIST, "").unwrap(), "");
        for position in 0..token.len() {
            let mut damaged = token.clone().into_bytes();
            damaged[position] = if damaged[position] == b'0' { b'1' } else { b'0' };
            let damaged = String::from_utf8(damaged).unwrap();
            assert!(after(LIST, &damaged).is_err(), "{damaged}");
        }
        for short in (1..token.len()).map(|length| &token[..length]) {
            assert!(after(LIST, short).is_err(), "{short}");
        }
        assert_eq!(after(LIST, "zz").unwrap_err().field.unwrap(), "page_token");
    }

    #[test]
    fn a_place_is_found_again_and_a_bare_number_is_no_token() {
        assert_eq!(place(LIST, &token(LIST, "17")).unwrap(), 17);
        assert_eq!(place(LIST, "").unwrap(), 0);
        assert!(place(LIST, "17").is_err());
    }

    #[test]
    fn a_token_is_good_for_its_own_list_only() {
        let token = token(LIST, "voyage-3");
        assert!(after("ListEncoders", &token).is_err());
    }
}
