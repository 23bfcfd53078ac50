//! Estimates the work of a run: it reads the source, queries the store and encodes a sample of the
//! texts, but writes nothing.

use std::time::Instant;

use futures::TryStreamExt;
use isomer_proto::common::v1::Usage;

use crate::{
    digest,
    encode::Encoder,
    error::Result,
    run::{Settings, SourceKeys, difference},
    source::Source,
    store::VectorStore,
};

/// Number of texts in the sample, and in an augmented one.
const SAMPLE: usize = 256;
const AUGMENTED_SAMPLE: usize = 8;

/// The estimated work of a run.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// Number of documents in the source.
    pub documents: u64,
    /// Documents without a text.
    pub empty: u64,
    /// Rows that are up to date.
    pub unchanged: u64,
    /// Rows that would be written.
    pub rows: u64,
    /// Rows that would be removed because their documents no longer have them.
    pub replaced: u64,
    /// Rows of documents that are gone from the source, which `--delete` would remove; `None` if
    /// the collection does not exist yet.
    pub deletable: Option<u64>,
    /// Bytes of the texts to encode.
    pub bytes: u64,
    /// The encoded sample of these texts.
    pub sample: SampleOfTexts,
}

/// Texts that were encoded for the plan.
#[derive(Debug, Clone, Default)]
pub struct SampleOfTexts {
    pub texts: u64,
    pub bytes: u64,
    /// The usage of encoding them.
    pub usage: Usage,
    /// Their time in seconds.
    pub seconds: f64,
}

impl Plan {
    /// The value for all texts, extrapolated by bytes from a value of the sample; `None` without a
    /// sample.
    pub fn by_bytes(&self, of_sample: f64) -> Option<f64> {
        #[allow(clippy::cast_precision_loss)]
        (self.sample.bytes > 0).then(|| of_sample * self.bytes as f64 / self.sample.bytes as f64)
    }
}

/// Makes the plan.
///
/// # Errors
/// Those of a run.
pub async fn plan(source: &Source, store: &dyn VectorStore, encoder: &Encoder, settings: &Settings) -> Result<Plan> {
    let mark = encoder.mark(settings.chunking, settings.with_text);
    let stored = store.mark().await?;
    if let Some(stored) = &stored {
        stored.check(store.name(), &mark)?;
    }
    let there = stored.is_some().then_some(store);
    let mut plan = Plan::default();
    let mut source_keys = SourceKeys::default();
    let most = if encoder.augments() { AUGMENTED_SAMPLE } else { SAMPLE };
    let mut sample = Sample::new(most);
    let mut batches = source.batches(settings.batch);
    while let Some(documents) = batches.try_next().await? {
        source_keys.add(&documents)?;
        plan.documents += documents.len() as u64;
        let found = difference(there, encoder, &mark, settings.chunking, documents).await?;
        plan.empty += found.empty;
        plan.unchanged += found.unchanged.len() as u64;
        plan.rows += found.rows.len() as u64;
        plan.replaced += found.gone.len() as u64;
        for (row, text) in found.rows.iter().zip(found.texts) {
            plan.bytes += text.len() as u64;
            sample.offer(&row.key, text);
        }
    }
    if stored.is_some() {
        let (mut gone, mut from) = (0, None);
        loop {
            let page = store.scan(from.as_deref()).await?;
            gone += page.rows.iter().filter(|row| !source_keys.has(&row.document)).count() as u64;
            match page.next {
                Some(next) => from = Some(next),
                None => break,
            }
        }
        plan.deletable = Some(gone);
    }
    let texts = sample.texts();
    if !texts.is_empty() {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let begun = Instant::now();
        let encoded = encoder.encode(&texts).await?.complete()?;
        plan.sample = SampleOfTexts {
            texts: texts.len() as u64,
            bytes: texts.iter().map(|text| text.len() as u64).sum(),
            usage: encoded.usage,
            seconds: begun.elapsed().as_secs_f64(),
        };
    }
    Ok(plan)
}

/// The texts whose keys have the smallest hashes: a sample that does not depend on the order.
struct Sample {
    most: usize,
    kept: std::collections::BTreeMap<u128, String>,
}

impl Sample {
    fn new(most: usize) -> Self {
        Self {
            most,
            kept: std::collections::BTreeMap::new(),
        }
    }

    fn offer(&mut self, key: &str, text: String) {
        let place = digest::key_hash(key);
        if self.kept.len() == self.most && self.kept.last_key_value().is_some_and(|(last, _)| *last < place) {
            return;
        }
        self.kept.insert(place, text);
        if self.kept.len() > self.most {
            self.kept.pop_last();
        }
    }

    fn texts(self) -> Vec<String> {
        self.kept.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_the_same_in_any_order() {
        let keys: Vec<String> = (0..500).map(|n| format!("k{n}")).collect();
        let sample = |keys: &mut dyn Iterator<Item = &String>| {
            let mut sample = Sample::new(20);
            for key in keys {
                sample.offer(key, key.clone());
            }
            sample.texts()
        };
        let forward = sample(&mut keys.iter());
        assert_eq!(forward.len(), 20);
        assert_eq!(sample(&mut keys.iter().rev()), forward);
    }
}
