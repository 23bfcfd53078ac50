//! The format of an API key: `iso_<id>_<secret><checksum>`.
//!
//! * id: 12 characters of `0-9a-z`, public; logs and lists show it;
//! * secret: 43 characters of `0-9A-Za-z`, 256 bits from the system's random numbers;
//! * checksum: 6 characters of `0-9A-Za-z`, from the first four bytes of SHA-256 over everything
//!   before it. It distinguishes a mistyped key from an unknown one without a database lookup, and
//!   lets a scanner for leaked secrets confirm a match: `iso_[0-9a-z]{12}_[0-9A-Za-z]{49}`.

use isomer_service_kit::{Fault, config::Secret};
use rand::{TryRngCore, rngs::OsRng};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

pub(crate) const PREFIX: &str = "iso_";
const ID_LENGTH: usize = 12;
/// 62^43 is a little over 2^256.
const SECRET_LENGTH: usize = 43;
const CHECKSUM_LENGTH: usize = 6;
const LENGTH: usize = PREFIX.len() + ID_LENGTH + 1 + SECRET_LENGTH + CHECKSUM_LENGTH;
const DIGITS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// SHA-256 of a key's text. Nothing else of the text is stored. 256 random bits need no slow hash.
#[derive(Clone, Copy)]
pub(crate) struct KeyDigest([u8; 32]);

impl KeyDigest {
    pub(crate) fn of(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }

    pub(crate) fn from_hex(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        Some(Self(bytes))
    }

    pub(crate) fn to_hex(self) -> String {
        hex::encode(self.0)
    }

    /// Constant-time equality.
    pub(crate) fn matches(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl std::fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyDigest(…)")
    }
}

/// A new key: its public id, and its text, which is shown only once.
#[derive(Debug)]
pub(crate) struct FreshKey {
    pub(crate) id: String,
    pub(crate) text: Secret,
    pub(crate) digest: KeyDigest,
}

/// Creates a key.
///
/// # Errors
/// If the system returns no random numbers.
pub(crate) fn fresh() -> Result<FreshKey, Fault> {
    let id = random(ID_LENGTH, &DIGITS[..36])?;
    let mut text = format!("{PREFIX}{id}_{}", random(SECRET_LENGTH, DIGITS)?);
    let sum = checksum(&text);
    text.push_str(&sum);
    let digest = KeyDigest::of(&text);
    Ok(FreshKey {
        id,
        digest,
        text: Secret::new(text),
    })
}

/// A key as received: well formed, but not looked up yet.
#[derive(Debug)]
pub(crate) struct PresentedKey<'a> {
    pub(crate) id: &'a str,
    pub(crate) digest: KeyDigest,
}

/// Parses a key; `None` if it is mistyped or truncated.
pub(crate) fn read(text: &str) -> Option<PresentedKey<'_>> {
    if text.len() != LENGTH || !text.is_ascii() {
        return None;
    }
    let (body, sum) = text.split_at(LENGTH - CHECKSUM_LENGTH);
    let id = &body.strip_prefix(PREFIX)?[..ID_LENGTH];
    let well_formed = id.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_lowercase())
        && body.as_bytes()[PREFIX.len() + ID_LENGTH] == b'_'
        && body[LENGTH - CHECKSUM_LENGTH - SECRET_LENGTH..]
            .bytes()
            .all(|b| b.is_ascii_alphanumeric());
    (well_formed && checksum(body) == sum).then(|| PresentedKey {
        id,
        digest: KeyDigest::of(text),
    })
}

/// Removes everything from `text` that looks like a key's secret part. It is a safeguard for names
/// that people type.
pub(crate) fn without_keys(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(PREFIX) {
        let (before, found) = rest.split_at(at);
        let end = found
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(found.len());
        kept.push_str(before);
        // An id alone is public, so it stays.
        if end > PREFIX.len() + ID_LENGTH + 1 {
            kept.push_str("iso_(removed)");
        } else {
            kept.push_str(&found[..end]);
        }
        rest = &found[end..];
    }
    kept.push_str(rest);
    kept
}

fn checksum(body: &str) -> String {
    let hash = Sha256::digest(body.as_bytes());
    let mut number = u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]]);
    let mut sum = [b'0'; CHECKSUM_LENGTH];
    for place in sum.iter_mut().rev() {
        *place = DIGITS[(number % 62) as usize];
        number /= 62;
    }
    sum.iter().map(|b| char::from(*b)).collect()
}

/// A secret that is not a key: 256 random bits as characters of `DIGITS`.
///
/// # Errors
/// If the system returns no random numbers.
pub(crate) fn secret() -> Result<String, Fault> {
    random(SECRET_LENGTH, DIGITS)
}

fn random(length: usize, digits: &[u8]) -> Result<String, Fault> {
    // Bytes from the last, incomplete round of the alphabet would make its first characters more
    // likely.
    let fair = 256 / digits.len() * digits.len();
    let mut text = String::with_capacity(length);
    let mut bytes = [0_u8; 64];
    while text.len() < length {
        OsRng
            .try_fill_bytes(&mut bytes)
            .map_err(|error| Fault::internal(format!("the system gives no random numbers: {error}")))?;
        let drawn = bytes.iter().map(|b| usize::from(*b)).filter(|b| *b < fair);
        text.extend(
            drawn
                .take(length - text.len())
                .map(|b| char::from(digits[b % digits.len()])),
        );
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_fresh_key_reads_back_with_its_id_and_digest() {
        let key = fresh().unwrap();
        let text = key.text.expose().unwrap();
        let read = read(text).unwrap();
        assert_eq!(read.id, key.id);
        assert!(read.digest.matches(&key.digest));
        assert!(!read.digest.matches(&KeyDigest::of("something else")));
    }

    #[test]
    fn every_mistyped_character_shows() {
        let key = fresh().unwrap();
        let text = key.text.expose().unwrap().to_owned();
        for at in 0..text.len() {
            let mut wrong = text.clone().into_bytes();
            wrong[at] = if wrong[at] == b'x' { b'y' } else { b'x' };
            let wrong = String::from_utf8(wrong).unwrap();
            assert!(read(&wrong).is_none(), "position {at}");
        }
        assert!(read(&text[..text.len() - 1]).is_none());
        assert!(read(&format!("{text}0")).is_none());
        assert!(read("").is_none());
    }

    #[test]
    fn keys_use_the_whole_alphabet_and_never_repeat() {
        let keys: Vec<String> = (0..200)
            .map(|_| fresh().unwrap().text.expose().unwrap().to_owned())
            .collect();
        let distinct: std::collections::HashSet<&String> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len());
        let seen: std::collections::HashSet<char> = keys.iter().flat_map(|key| key[17..].chars()).collect();
        assert_eq!(seen.len(), 62);
    }

    #[test]
    fn keys_are_taken_out_of_texts_and_ids_stay() {
        let key = fresh().unwrap();
        let text = format!("key {} of iso_{} (old)", key.text.expose().unwrap(), key.id);
        assert_eq!(
            without_keys(&text),
            format!("key iso_(removed) of iso_{} (old)", key.id)
        );
        assert_eq!(without_keys("isolated"), "isolated");
    }
}
