//! The inputs of a stored row, as one short digest. Pure.
//!
//! `SPACE-CONTENT`: the first 16 hex digits of the BLAKE3 of the vector space's digest, and the
//! first 32 of the BLAKE3 of everything on which the row depends. So rows of another space can be
//! distinguished from rows of another text. The digest of a row that lacks variants of its text
//! (augmentation) ends in `-partial`: the next run computes it again.

use serde_json::{Map, Value};

use crate::mark::Mark;

/// The version of the digested content; with another version, every row is computed again.
const VERSION: &str = "isomer-index-1";
const PARTIAL: &str = "-partial";

/// The part of a digest that identifies the space.
pub fn space_part(space_digest: &str) -> String {
    blake3::hash(space_digest.as_bytes()).to_hex()[..16].to_owned()
}

/// The digest of a row with all its variants.
pub fn of_row(mark: &Mark, text: &str, payload: &Map<String, Value>) -> String {
    let mut hash = blake3::Hasher::new();
    let kept = if mark.with_text { "with text" } else { "without text" };
    for part in [VERSION, &mark.space.digest, &mark.chunking, kept, text] {
        put(&mut hash, part.as_bytes());
    }
    put_object(&mut hash, payload);
    // Rows with dense vectors alone keep their digests.
    for (name, space) in [("sparse", &mark.sparse), ("tokens", &mark.tokens)] {
        if let Some(space) = space {
            put(&mut hash, name.as_bytes());
            put(&mut hash, space.digest.as_bytes());
        }
    }
    format!("{}-{}", space_part(&mark.space.digest), &hash.finalize().to_hex()[..32])
}

/// The digest of the same row with some variants missing.
pub fn partial(digest: &str) -> String {
    format!("{digest}{PARTIAL}")
}

/// Whether a digest is that of a row with missing variants.
pub fn is_partial(digest: &str) -> bool {
    digest.ends_with(PARTIAL)
}

/// Whether a text has the form of a digest, of any space.
pub fn is_digest(digest: &str) -> bool {
    let whole = digest.strip_suffix(PARTIAL).unwrap_or(digest);
    whole.len() == 49
        && whole.bytes().enumerate().all(|(at, byte)| match at {
            16 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// The number by which a key is remembered and drawn.
pub(crate) fn key_hash(key: &str) -> u128 {
    let hash = blake3::hash(key.as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.as_bytes()[..16]);
    u128::from_le_bytes(bytes)
}

/// Whether a key is drawn: a fixed share of all keys for each seed, whatever their order.
pub fn is_drawn(key: &str, share: f64, seed: u64) -> bool {
    let mut hash = blake3::Hasher::new();
    hash.update(&seed.to_le_bytes());
    hash.update(key.as_bytes());
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hash.finalize().as_bytes()[..8]);
    // 53 bits, which a double holds exactly.
    let number = u64::from_le_bytes(bytes) >> 11;
    #[allow(clippy::cast_precision_loss)]
    let place = number as f64 / (1_u64 << 53) as f64;
    place < share
}

fn put(hash: &mut blake3::Hasher, bytes: &[u8]) {
    hash.update(&(bytes.len() as u64).to_le_bytes());
    hash.update(bytes);
}

/// The order of an object's keys comes from its source and has no meaning.
fn put_object(hash: &mut blake3::Hasher, object: &Map<String, Value>) {
    let mut keys: Vec<&String> = object.keys().collect();
    keys.sort();
    put(hash, &(keys.len() as u64).to_le_bytes());
    for key in keys {
        put(hash, key.as_bytes());
        match &object[key] {
            Value::Object(inner) => put_object(hash, inner),
            value => put(hash, value.to_string().as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::HashSet;

    use serde_json::json;

    use super::*;
    use crate::mark::test_mark;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn everything_a_row_depends_on_changes_its_digest_and_nothing_else_does() {
        let mark = test_mark("s");
        let payload = object(json!({"a": 1, "b": {"c": 2, "d": 3}}));
        let own = of_row(&mark, "text", &payload);
        assert!(is_digest(&own) && !is_partial(&own), "{own}");
        let turned = object(json!({"b": {"d": 3, "c": 2}, "a": 1}));
        assert_eq!(of_row(&mark, "text", &turned), own);
        let mut chunked = mark.clone();
        chunked.chunking = "tokens=8,overlap=0".to_owned();
        let mut kept = mark.clone();
        kept.with_text = true;
        let others = [
            of_row(&test_mark("other"), "text", &payload),
            of_row(&chunked, "text", &payload),
            of_row(&kept, "text", &payload),
            of_row(&mark, "text ", &payload),
            of_row(&mark, "text", &object(json!({"a": 2, "b": {"c": 2, "d": 3}}))),
            of_row(&mark, "text", &object(json!({"a": 1, "b": 2}))),
            of_row(&mark, "text", &Map::new()),
            partial(&own),
        ];
        let different: HashSet<&String> = others.iter().chain([&own]).collect();
        assert_eq!(different.len(), others.len() + 1);
        assert_eq!(own[..16], space_part("s"));
        assert!(is_digest(&partial(&own)) && is_partial(&partial(&own)));
        assert!(!is_digest("") && !is_digest(&own[1..]));
    }

    #[test]
    fn a_draw_has_its_share_and_is_the_same_again() {
        let keys: Vec<String> = (0..20_000).map(|n| format!("k{n}")).collect();
        let drawn = |seed| keys.iter().filter(|key| is_drawn(key, 0.1, seed)).collect::<Vec<_>>();
        // 2000 expected, standard deviation 42.
        assert!((1800..2200).contains(&drawn(1).len()), "{}", drawn(1).len());
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        assert!(keys.iter().all(|key| is_drawn(key, 1.0, 3)) && !keys.iter().any(|key| is_drawn(key, 0.0, 3)));
    }
}
