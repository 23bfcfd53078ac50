//! Texts to be forgotten: finds the bytes that contain one, and removes the blobs that do.
//!
//! A text is searched in every spelling in which our files contain texts: unchanged, as a JSON
//! string, and in HTML. It is found anywhere, also inside a longer text. Texts derived from it are
//! learnt in the process ([`Texts::learn`]) and are searched in the same way. If a derived text is
//! so short that it occurs everywhere, only strings equal to it count.

use std::collections::{BTreeSet, HashSet};

use futures::TryStreamExt;
use isomer_blobs::BlobStore;
use serde::Serialize;
use serde_json::Value;

use crate::{Amount, RetentionError, digest::Digest, digest::Kind};

/// Replaces a forgotten text in a report.
pub const MARKER: &str = "[forgotten]";
/// Minimum length, in bytes, of a requested text that is searched inside others.
pub const SHORTEST: usize = 6;
/// Minimum length, in bytes, of a derived text that is searched inside others.
const SHORTEST_MADE: usize = 24;

/// A text that is indistinguishable from parts of other texts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the text `{0}` is shorter than {SHORTEST} bytes, so that it stands in texts that have nothing to do with it")]
pub struct TooShort(String);

/// Texts to forget.
#[derive(Debug, Clone, Default)]
pub struct Texts {
    /// Searched everywhere, in every spelling.
    spellings: BTreeSet<Vec<u8>>,
    /// The same texts unchanged, longest first.
    inside: Vec<String>,
    /// Texts that are too short for that; they are searched as whole strings.
    whole: HashSet<String>,
}

/// Whether matches are removed or only counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Matches are counted.
    Plan,
    /// Matches are removed.
    Remove,
}

impl Texts {
    /// The texts that someone requested to be forgotten.
    ///
    /// # Errors
    /// If one is shorter than [`SHORTEST`] bytes.
    pub fn new(texts: impl IntoIterator<Item = String>) -> Result<Self, TooShort> {
        let mut all = Self::default();
        for text in texts {
            let trimmed = text.trim();
            if trimmed.len() < SHORTEST {
                return Err(TooShort(trimmed.to_owned()));
            }
            all.add(trimmed);
        }
        Ok(all)
    }

    /// Adds a text that was derived from one of them; returns whether it is new.
    pub fn learn(&mut self, made: &str) -> bool {
        let made = made.trim();
        if made.is_empty() || self.is_held_by(made) {
            return false;
        }
        if made.len() < SHORTEST_MADE {
            return self.whole.insert(made.to_owned());
        }
        self.add(made);
        true
    }

    /// The number of texts, including learnt ones.
    pub fn count(&self) -> usize {
        self.inside.len() + self.whole.len()
    }

    /// Whether bytes contain one of the texts, in any spelling.
    pub fn stand_in(&self, bytes: &[u8]) -> bool {
        self.spellings.iter().any(|spelling| holds(bytes, spelling))
    }

    /// Whether a string equals or contains one of the texts.
    pub fn is_held_by(&self, text: &str) -> bool {
        self.whole.contains(text.trim()) || self.inside.iter().any(|one| text.contains(one.as_str()))
    }

    /// The string with [`MARKER`] in place of each of the texts; `None` if it contains none.
    pub fn without(&self, text: &str) -> Option<String> {
        if self.whole.contains(text.trim()) {
            return Some(MARKER.to_owned());
        }
        if !self.is_held_by(text) {
            return None;
        }
        let cleaned = self
            .inside
            .iter()
            .fold(text.to_owned(), |text, one| text.replace(one.as_str(), MARKER));
        Some(cleaned)
    }

    /// Replaces the texts in every string of a document, including field names; returns the number
    /// of changed strings.
    pub fn clean(&self, value: &mut Value) -> u64 {
        match value {
            Value::String(text) => match self.without(text) {
                Some(cleaned) => {
                    *text = cleaned;
                    1
                }
                None => 0,
            },
            Value::Array(all) => all.iter_mut().map(|one| self.clean(one)).sum(),
            Value::Object(fields) => {
                let named: Vec<(String, String)> = fields
                    .keys()
                    .filter_map(|name| Some((name.clone(), self.without(name)?)))
                    .collect();
                let mut changed = named.len() as u64;
                for (name, cleaned) in named {
                    if let Some(own) = fields.remove(&name) {
                        fields.insert(cleaned, own);
                    }
                }
                changed += fields.values_mut().map(|one| self.clean(one)).sum::<u64>();
                changed
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
    }

    fn add(&mut self, text: &str) {
        self.inside.push(text.to_owned());
        self.inside.sort_by_key(|one| std::cmp::Reverse(one.len()));
        let json = Value::from(text).to_string();
        let json = json.trim_matches('"').to_owned();
        let html = |quotes: [&str; 2]| {
            let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            text.replace('"', quotes[0]).replace('\'', quotes[1])
        };
        let all = [
            text.to_owned(),
            json,
            html(["\"", "'"]),
            html(["&quot;", "'"]),
            html(["&quot;", "&#39;"]),
            html(["&quot;", "&#x27;"]),
        ];
        self.spellings.extend(all.map(String::into_bytes));
    }
}

fn holds(bytes: &[u8], part: &[u8]) -> bool {
    let Some(first) = part.first() else { return false };
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| byte == first) {
        rest = &rest[at..];
        if rest.starts_with(part) {
            return true;
        }
        rest = &rest[1..];
    }
    false
}

/// The blobs that were removed from a store, or would be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Removal {
    /// Generated texts.
    pub texts: Amount,
    /// Requests of workers, with their answers and inputs.
    pub units: Amount,
    /// All vectors, because they do not identify their texts.
    pub vectors: Amount,
    /// Scores and other measurements that contain a text.
    pub scores: Amount,
    /// Addresses of the units, 64 hexadecimal digits each. Their queue entries must be removed.
    #[serde(skip)]
    pub addresses: Vec<String>,
}

/// Calls `call` with each blob of a kind.
///
/// # Errors
/// If the store fails.
pub async fn each_blob(blobs: &BlobStore, kind: Kind, mut call: impl FnMut(&str, &[u8])) -> Result<(), RetentionError> {
    let mut listed = std::pin::pin!(blobs.list(kind.name()));
    while let Some(one) = listed.try_next().await? {
        // The blob may have been removed since.
        if let Some(bytes) = blobs.get(&one.name).await? {
            call(&one.name, &bytes);
        }
    }
    Ok(())
}

/// Removes every blob that contains one of the texts: generated texts, requests of workers with
/// everything under their addresses, and scores. Also removes all vectors.
///
/// # Errors
/// If the store fails. Some blobs may then have been removed; another call removes the rest.
pub async fn erase(blobs: &BlobStore, texts: &Texts, mode: Mode) -> Result<Removal, RetentionError> {
    let mut removed = Removal::default();
    let mut names: Vec<String> = Vec::new();
    for (kind, amount) in [(Kind::Texts, &mut removed.texts), (Kind::Scores, &mut removed.scores)] {
        each_blob(blobs, kind, |name, bytes| {
            if texts.stand_in(bytes) || is_whole(texts, bytes) {
                amount.add(bytes.len() as u64);
                names.push(name.to_owned());
            }
        })
        .await?;
    }
    // Inputs of units come first, because a request refers to them by digest.
    let (mut inputs, mut addresses): (HashSet<Digest>, HashSet<Digest>) = Default::default();
    each_blob(blobs, Kind::Inputs, |name, bytes| {
        if texts.stand_in(bytes)
            && let Some((_, digest)) = Kind::of(name)
        {
            inputs.insert(digest);
        }
    })
    .await?;
    for kind in [Kind::Units, Kind::Answers, Kind::Partial] {
        each_blob(blobs, kind, |name, bytes| {
            let about = || inputs.iter().any(|digest| holds(bytes, digest.bytes()));
            if (texts.stand_in(bytes) || about())
                && let Some((_, digest)) = Kind::of(name)
            {
                addresses.insert(digest);
            }
        })
        .await?;
    }
    for kind in [
        Kind::Inputs,
        Kind::Units,
        Kind::Answers,
        Kind::Partial,
        Kind::Claims,
        Kind::Held,
    ] {
        let wanted = if kind == Kind::Inputs { &inputs } else { &addresses };
        let mut listed = std::pin::pin!(blobs.list(kind.name()));
        while let Some(one) = listed.try_next().await? {
            if Kind::of(&one.name).is_some_and(|(_, digest)| wanted.contains(&digest)) {
                removed.units.add(one.bytes);
                names.push(one.name);
            }
        }
    }
    let mut listed = std::pin::pin!(blobs.list(Kind::Vectors.name()));
    while let Some(one) = listed.try_next().await? {
        removed.vectors.add(one.bytes);
        names.push(one.name);
    }
    removed.addresses = addresses.iter().map(ToString::to_string).collect();
    removed.addresses.sort_unstable();
    if mode == Mode::Remove {
        blobs.remove_all(names).await?;
    }
    Ok(removed)
}

/// Whether a document has one of the short texts as a whole string.
fn is_whole(texts: &Texts, bytes: &[u8]) -> bool {
    !texts.whole.is_empty()
        && serde_json::from_slice::<Value>(bytes).is_ok_and(|mut document| texts.clean(&mut document) > 0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_is_found_in_every_spelling_and_nothing_else_is() {
        let text = "Anna \"Red\" O'Neil lives at <5> & owes\tme";
        let texts = Texts::new([format!("{text}\n")]).unwrap();
        let spelt = [
            text.to_owned(),
            format!("before {text} after"),
            json!({ "a": text }).to_string(),
            "Anna &quot;Red&quot; O&#x27;Neil lives at &lt;5&gt; &amp; owes\tme".to_owned(),
        ];
        assert!(spelt.iter().all(|spelt| texts.stand_in(spelt.as_bytes())));
        for other in ["Anna", "anna \"Red\" O'Neil lives at <5> & owes\tme", ""] {
            assert!(!texts.stand_in(other.as_bytes()), "{other}");
        }
        assert_eq!(Texts::new(["ab".to_owned()]).unwrap_err(), TooShort("ab".to_owned()));
    }

    #[test]
    fn what_was_made_is_learnt_once_and_short_texts_count_as_whole_strings_alone() {
        let mut texts = Texts::new(["the secret text".to_owned()]).unwrap();
        assert!(
            !texts.learn("again the secret text, longer"),
            "it holds the text already"
        );
        assert!(texts.learn("Yes."));
        assert!(!texts.learn("Yes."));
        assert!(texts.learn("a variant that is long enough"));
        assert_eq!(texts.count(), 3);
        let mut document = json!({
            "short": "Yes.", "longer": "Yes. It is.", "all": ["x the secret text y", 1, null],
            "a variant that is long enough": { "n": 1 },
        });
        assert_eq!(texts.clean(&mut document), 3);
        assert_eq!(
            document,
            json!({
                "short": MARKER, "longer": "Yes. It is.", "all": [format!("x {MARKER} y"), 1, null],
                MARKER: { "n": 1 },
            })
        );
        assert_eq!(texts.clean(&mut document), 0);
    }
}
