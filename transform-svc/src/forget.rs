//! Forgetting of texts: finds the texts derived from them, and removes the entries that contain
//! one.

use std::path::Path;

use isomer_blobs::BlobStore;
use isomer_retention::{
    Kind, RetentionError,
    erasure::{Texts, each_blob},
};
use isomer_segment_log::{Erasure, Mode, Segment, erase, paths};
use isomer_transformations::{AnswerForm, CATALOGUE, Parameter};

use crate::{
    cache::{
        CacheError, Entry,
        record::Record,
        segment::{self, FORMAT},
    },
    clean::clean,
    distractors,
    prompt::Purpose,
};

/// The delimiters of our own prompts.
const DELIMITERS: (&str, &str) = ("<text>", "</text>");

/// Adds to the known texts the outputs that the entries of a cache on disk derive from them;
/// returns whether any is new.
///
/// # Errors
/// If the directory or a segment cannot be read.
pub fn learn(directory: &Path, texts: &mut Texts) -> Result<bool, CacheError> {
    let mut new = false;
    for path in segments(directory)? {
        let failed = |error| CacheError::new("cannot read the cache segment", &path, error);
        let mut read = Segment::open(&path, &FORMAT).map_err(failed)?;
        read.read_on(|json| {
            if let Some((_, entry)) = segment::decode(json) {
                new |= learn_from(&entry, texts);
            }
            Some(())
        })
        .map_err(failed)?;
    }
    Ok(new)
}

/// [`learn`] from the entries in a store.
///
/// # Errors
/// If the store fails.
pub async fn learn_shared(blobs: &BlobStore, texts: &mut Texts) -> Result<bool, RetentionError> {
    let mut new = false;
    each_blob(blobs, Kind::Texts, |_, bytes| {
        let record = serde_json::from_slice::<Record>(bytes).ok();
        if let Some((_, entry)) = record.and_then(|record| record.verified().ok()) {
            new |= learn_from(&entry, texts);
        }
    })
    .await?;
    Ok(new)
}

/// Erases the entries of a cache on disk that contain one of the texts, even while another process
/// writes to the cache.
///
/// # Errors
/// If the directory or a segment cannot be used.
pub fn forget(directory: &Path, texts: &Texts, mode: Mode) -> Result<Erasure, CacheError> {
    let mut all = Erasure::default();
    for path in segments(directory)? {
        let holds = |json: &[u8]| {
            let whole = |(_, entry): (_, Entry)| texts.is_held_by(&entry.source) || texts.is_held_by(&entry.output);
            texts.stand_in(json) || segment::decode(json).is_some_and(whole)
        };
        let erased = erase(&path, &FORMAT, mode, holds)
            .map_err(|error| CacheError::new("cannot erase from the cache segment", &path, error))?;
        all.records += erased.records;
        all.bytes += erased.bytes;
    }
    Ok(all)
}

/// Adds an entry's output, if its source is known.
fn learn_from(entry: &Entry, texts: &mut Texts) -> bool {
    if !texts.is_held_by(&entry.source) {
        return false;
    }
    let id = entry.prompt.split('@').next().unwrap_or_default();
    let Some(purpose) = Purpose::of_id(id) else {
        return texts.learn(&entry.output);
    };
    // A rating is derived from a text but is not a text.
    if purpose.judges() {
        return false;
    }
    let cleaned = clean(purpose, &entry.source, &entry.output, DELIMITERS).text;
    let mut new = texts.learn(&entry.output) | texts.learn(&cleaned);
    if let Purpose::Write(kind) = purpose
        && kind.answer == AnswerForm::List
    {
        for row in CATALOGUE.iter().filter(|row| row.prompts().contains(&kind)) {
            let most = row.parameter("count").map_or(1, Parameter::most);
            for text in distractors::read(row, &entry.source, &entry.output, most, None).texts {
                new |= texts.learn(&text);
            }
        }
    }
    new
}

fn segments(directory: &Path) -> Result<Vec<std::path::PathBuf>, CacheError> {
    match paths(directory, &FORMAT) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed.map_err(|error| CacheError::new("cannot list the cache directory", directory, error)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::cache::{Cache, Key, KeyParts};

    fn put(cache: &Cache, source: &str, output: &str) -> Key {
        let parts = KeyParts {
            text: source,
            transformation: "paraphrase",
            language: "en",
            prompt: "d",
            generator: "g",
            temperature: 0.0,
            top_p: 1.0,
            max_tokens: 64,
            seed: None,
            tenant: None,
        };
        let entry = Entry {
            output: output.to_owned(),
            seed: 1,
            prompt_tokens: 1,
            generated_tokens: 1,
            tokens_estimated: false,
            cut: false,
            fingerprint: String::new(),
            source: source.to_owned(),
            transformation: "paraphrase".into(),
            generator: "g".into(),
            prompt: "paraphrase@2".into(),
            language: "en".into(),
            made: Some(parts.made()),
            dispatch: None,
        };
        cache.put(parts.key(), &entry).unwrap();
        parts.key()
    }

    #[test]
    fn a_text_goes_with_its_variants_in_both_directions_and_other_texts_are_still_found() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path()).unwrap();
        let text = "Anna Example of 5 Market Street owes 300 euros.";
        let chain = [
            put(&cache, text, "\"Three hundred euros are owed by Anna Example.\""),
            // Entries whose source is the variant or its output, and entries whose output is the
            // text.
            put(
                &cache,
                "Three hundred euros are owed by Anna Example.",
                "Somebody owes some money to nobody.",
            ),
            put(&cache, "Somebody owes some money to nobody.", "Debts."),
            put(&cache, "Debts.", "What is owed."),
            put(&cache, "Who owes 300 euros?", &format!("Here: {text}")),
        ];
        let other = put(
            &cache,
            "An entirely different text.",
            "A text that is entirely different.",
        );
        let mut texts = Texts::new([text.to_owned()]).unwrap();
        while learn(folder.path(), &mut texts).unwrap() {}
        let planned = forget(folder.path(), &texts, Mode::Count).unwrap();
        assert_eq!(planned.records, 5);
        assert!(
            chain.iter().all(|key| cache.get(key).unwrap().is_some()),
            "only planned"
        );
        assert_eq!(forget(folder.path(), &texts, Mode::Erase).unwrap(), planned);
        assert!(chain.iter().all(|key| cache.get(key).unwrap().is_none()));
        assert!(cache.get(&other).unwrap().is_some());
        let next = Cache::open(folder.path()).unwrap();
        assert_eq!((next.stats().entries, next.stats().corrupt_lines), (1, 0));
        // The entry can be generated again.
        let again = put(&cache, text, "new");
        assert!(next.get(&again).unwrap().is_some());
    }
}
