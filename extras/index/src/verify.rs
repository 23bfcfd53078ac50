//! Checks a collection: a sample of its vectors is computed again, and its rows are compared with
//! their digests and their source.

use std::collections::HashMap;

use futures::TryStreamExt;
use isomer_proto::encoder::v1::SparseVector;

use crate::{
    digest,
    encode::{Additional, Encoder},
    error::{IndexError, Result},
    mark::Mark,
    run::{SourceKeys, difference},
    source::Source,
    store::{StoredVector, VectorStore},
};

/// Number of rows that are named per kind of problem.
const NAMED: usize = 5;
/// Number of documents in a batch.
const BATCH: usize = 256;

/// Settings of a check.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Share of the rows whose vectors are computed again.
    pub share: f64,
    /// Seed of the draw.
    pub seed: u64,
    /// Maximum length of the difference of two equal vectors, relative to the length of the vector.
    pub tolerance: f64,
}

/// Rows with the same problem.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProblemRows {
    pub rows: u64,
    pub keys: Vec<String>,
}

impl ProblemRows {
    fn add(&mut self, key: &str) {
        self.rows += 1;
        if self.keys.len() < NAMED {
            self.keys.push(key.to_owned());
        }
    }
}

/// The result of a check.
#[derive(Debug, Clone)]
pub struct IndexReport {
    /// The mark of the collection.
    pub mark: Mark,
    /// Rows stored.
    pub rows: u64,
    /// Rows whose key occurs more than once.
    pub twice: ProblemRows,
    /// Rows of another vector space than the collection's.
    pub other_space: ProblemRows,
    /// Rows with an invalid digest.
    pub no_digest: ProblemRows,
    /// Rows that lack variants. This is not a fault: the next run computes them again.
    pub partial: ProblemRows,
    /// The comparison with the source; `None` if none was given.
    pub source: Option<AgainstSource>,
    /// Number of vectors that were computed again.
    pub sampled: u64,
    /// Those among them that differ.
    pub differing: ProblemRows,
    /// Largest difference among the vectors within tolerance.
    pub largest_difference: f64,
}

/// The rows of a collection compared with its source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgainstSource {
    pub documents: u64,
    /// Missing rows.
    pub missing: ProblemRows,
    /// Rows computed from another text, payload or setting.
    pub outdated: ProblemRows,
    /// Rows without a document in the source.
    pub extra: ProblemRows,
}

impl IndexReport {
    /// Whether the collection is in the state in which a run leaves it.
    pub fn is_sound(&self) -> bool {
        let mut problems = vec![&self.twice, &self.other_space, &self.no_digest, &self.differing];
        if let Some(source) = &self.source {
            problems.extend([&source.missing, &source.outdated, &source.extra]);
        }
        problems.iter().all(|rows| rows.rows == 0)
    }
}

/// Checks a collection, against its source if one is given, else with the texts that it keeps.
///
/// # Errors
/// If the collection does not exist, its vectors are not this encoder's, or no texts are available
/// from which to compute vectors.
pub async fn verify(
    source: Option<&Source>,
    store: &dyn VectorStore,
    encoder: &Encoder,
    settings: Settings,
) -> Result<IndexReport> {
    let mark = store.mark().await?.ok_or_else(|| IndexError::NoCollection {
        collection: store.name().to_owned(),
    })?;
    let chunking = mark.chunking()?;
    mark.check(store.name(), &encoder.mark(chunking, mark.with_text))?;
    if source.is_none() && !mark.with_text {
        return Err(IndexError::Setting {
            field: "source",
            message: format!("{} does not keep texts, and no source is named", store.name()),
            hint: "name the source, whose texts the vectors were made of",
        });
    }
    let mut report = IndexReport {
        rows: 0,
        twice: ProblemRows::default(),
        other_space: ProblemRows::default(),
        no_digest: ProblemRows::default(),
        partial: ProblemRows::default(),
        source: None,
        sampled: 0,
        differing: ProblemRows::default(),
        largest_difference: 0.0,
        mark,
    };
    let check = Check {
        store,
        encoder,
        settings,
    };
    let mut of_source = SourceKeys::default();
    if let Some(source) = source {
        let mut against = AgainstSource::default();
        let mut batches = source.batches(BATCH);
        while let Some(documents) = batches.try_next().await? {
            of_source.add(&documents)?;
            against.documents += documents.len() as u64;
            let keys: Vec<String> = documents.iter().map(|document| document.key.clone()).collect();
            let stored = store.rows_of(&keys).await?;
            let stored = |key: &str| stored.iter().find(|row| row.key == key);
            let now = difference(Some(store), encoder, &report.mark, chunking, documents).await?;
            for row in &now.rows {
                match stored(&row.key) {
                    None => against.missing.add(&row.key),
                    Some(there) if there.digest == digest::partial(&row.digest) => {}
                    Some(_) => against.outdated.add(&row.key),
                }
            }
            for key in &now.gone {
                against.extra.add(key);
            }
            let texts: Vec<(&str, &str)> = now
                .unchanged
                .iter()
                .map(|(row, text)| (row.key.as_str(), text.as_str()))
                .collect();
            check.vectors(&texts, &mut report).await?;
        }
        report.source = Some(against);
    }
    let (mut seen, mut from) = (std::collections::HashSet::new(), None);
    let space = digest::space_part(&report.mark.space.digest);
    loop {
        let page = store.scan(from.as_deref()).await?;
        let mut whole = Vec::new();
        for row in &page.rows {
            report.rows += 1;
            if !seen.insert(digest::key_hash(&row.key)) {
                report.twice.add(&row.key);
            }
            if !digest::is_digest(&row.digest) {
                report.no_digest.add(&row.key);
            } else if !row.digest.starts_with(&space) {
                report.other_space.add(&row.key);
            } else if digest::is_partial(&row.digest) {
                report.partial.add(&row.key);
            } else {
                whole.push(row.key.as_str());
            }
            if let Some(against) = report.source.as_mut().filter(|_| !of_source.has(&row.document)) {
                against.extra.add(&row.key);
            }
        }
        if source.is_none() {
            check.kept_texts(&whole, &mut report).await?;
        }
        match page.next {
            Some(next) => from = Some(next),
            None => break,
        }
    }
    Ok(report)
}

struct Check<'a> {
    store: &'a dyn VectorStore,
    encoder: &'a Encoder,
    settings: Settings,
}

impl Check<'_> {
    fn drawn<'k>(&self, keys: impl Iterator<Item = &'k str>) -> Vec<String> {
        let Settings { share, seed, .. } = self.settings;
        keys.filter(|key| digest::is_drawn(key, share, seed))
            .map(str::to_owned)
            .collect()
    }

    /// Computes drawn rows again, from texts by key.
    async fn vectors(&self, texts: &[(&str, &str)], report: &mut IndexReport) -> Result<()> {
        let drawn = self.drawn(texts.iter().map(|(key, _)| *key));
        if drawn.is_empty() {
            return Ok(());
        }
        let stored = self.store.vectors(&drawn).await?;
        let with_texts: Vec<(StoredVector, String)> = stored
            .into_iter()
            .filter_map(|row| {
                let (_, text) = texts.iter().find(|(key, _)| *key == row.key)?;
                Some((row, (*text).to_owned()))
            })
            .collect();
        self.hold(with_texts, report).await
    }

    /// Computes drawn rows again, from the texts that the collection keeps.
    async fn kept_texts(&self, keys: &[&str], report: &mut IndexReport) -> Result<()> {
        let drawn = self.drawn(keys.iter().copied());
        for keys in drawn.chunks(BATCH) {
            let stored = self.store.vectors(keys).await?;
            let mut with_texts = Vec::with_capacity(stored.len());
            for mut row in stored {
                match row.text.take() {
                    Some(text) => with_texts.push((row, text)),
                    // Each row has a text if the collection keeps texts.
                    None => report.differing.add(&row.key),
                }
            }
            self.hold(with_texts, report).await?;
        }
        Ok(())
    }

    async fn hold(&self, rows: Vec<(StoredVector, String)>, report: &mut IndexReport) -> Result<()> {
        let texts: Vec<&str> = rows.iter().map(|(_, text)| text.as_str()).collect();
        let encoded = self.encoder.encode(&texts).await?.complete()?;
        let lengths = self.store.keeps_lengths(&report.mark);
        let vectors = encoded.vectors.iter().zip(&encoded.additional);
        for (((row, _), (vector, additional)), partial) in rows.iter().zip(vectors).zip(encoded.partial) {
            if partial {
                // Variants that existed are now missing, so no statement is possible.
                continue;
            }
            report.sampled += 1;
            let difference = difference_of(&row.vector, vector, lengths)
                .max(difference_of_sparse(&row.additional, additional))
                .max(difference_of_tokens(&row.additional, additional, lengths));
            if difference <= self.settings.tolerance {
                report.largest_difference = report.largest_difference.max(difference);
            } else {
                report.differing.add(&row.key);
            }
        }
        Ok(())
    }
}

/// The length of the difference of two vectors relative to the length of the second; infinite if
/// they cannot be compared. If lengths are not kept, the vectors are first scaled to unit length.
fn difference_of(stored: &[f32], computed: &[f32], lengths: bool) -> f64 {
    if stored.len() != computed.len() {
        return f64::INFINITY;
    }
    let norm = |vector: &[f32]| vector.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
    let (own, theirs) = (norm(stored), norm(computed));
    if theirs == 0.0 {
        return if own == 0.0 { 0.0 } else { f64::INFINITY };
    }
    let (scale_own, scale) = if lengths || own == 0.0 {
        (1.0, 1.0)
    } else {
        (1.0 / own, 1.0 / theirs)
    };
    let pairs = stored.iter().zip(computed);
    let squares = pairs.map(|(own, computed)| (f64::from(*own) * scale_own - f64::from(*computed) * scale).powi(2));
    let length = squares.sum::<f64>().sqrt() / (theirs * scale);
    if length.is_nan() { f64::INFINITY } else { length }
}

/// [`difference_of`] for sparse vectors, whose lengths every store keeps.
fn difference_of_sparse(stored: &Additional, computed: &Additional) -> f64 {
    match (&stored.sparse, &computed.sparse) {
        (None, None) => 0.0,
        (Some(stored), Some(computed)) => {
            let mut ids: Vec<u32> = stored.indices.iter().chain(&computed.indices).copied().collect();
            ids.sort_unstable();
            ids.dedup();
            let dense = |vector: &SparseVector| -> Vec<f32> {
                let weights: HashMap<u32, f32> = vector
                    .indices
                    .iter()
                    .copied()
                    .zip(vector.values.iter().copied())
                    .collect();
                ids.iter()
                    .map(|id| weights.get(id).copied().unwrap_or_default())
                    .collect()
            };
            difference_of(&dense(stored), &dense(computed), true)
        }
        _ => f64::INFINITY,
    }
}

/// The largest [`difference_of`] the vectors of tokens.
fn difference_of_tokens(stored: &Additional, computed: &Additional, lengths: bool) -> f64 {
    match (&stored.tokens, &computed.tokens) {
        (None, None) => 0.0,
        (Some(stored), Some(computed)) if stored.len() == computed.len() => {
            let pairs = stored.iter().zip(computed);
            let differences = pairs.map(|(stored, computed)| difference_of(stored, computed, lengths));
            differences.fold(0.0, f64::max)
        }
        _ => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn additional_vectors_differ_by_their_entries_and_rows() {
        let of = |indices: &[u32], values: &[f32], tokens: &[[f32; 2]]| Additional {
            sparse: Some(SparseVector {
                indices: indices.to_vec(),
                values: values.to_vec(),
            }),
            tokens: Some(tokens.iter().map(|row| row.to_vec()).collect()),
        };
        let own = of(&[1, 5], &[3.0, 4.0], &[[1.0, 0.0], [0.0, 1.0]]);
        let both = |other: &Additional| {
            (
                difference_of_sparse(&own, other),
                difference_of_tokens(&own, other, true),
            )
        };
        assert_eq!(both(&own), (0.0, 0.0));
        let (sparse, tokens) = both(&of(&[1, 7], &[3.0, 4.0], &[[1.0, 0.0], [0.0, 2.0]]));
        assert!((sparse - 32.0_f64.sqrt() / 5.0).abs() < 1e-12 && (tokens - 0.5).abs() < 1e-12);
        let (sparse, tokens) = both(&of(&[], &[], &[[1.0, 0.0]]));
        assert!(sparse.is_infinite() && tokens.is_infinite());
        assert_eq!(both(&Additional::default()), (f64::INFINITY, f64::INFINITY));
    }

    #[test]
    fn vectors_differ_by_length_unless_lengths_are_not_kept() {
        assert_eq!(difference_of(&[3.0, 4.0], &[3.0, 4.0], true), 0.0);
        assert!((difference_of(&[3.0, 4.0], &[6.0, 8.0], true) - 0.5).abs() < 1e-12);
        assert!(difference_of(&[3.0, 4.0], &[6.0, 8.0], false) < 1e-12);
        assert!((difference_of(&[1.0, 0.0], &[0.0, 2.0], false) - 2.0_f64.sqrt()).abs() < 1e-12);
        for bad in [vec![1.0], vec![f32::NAN, 0.0], vec![f32::INFINITY, 0.0]] {
            assert!(difference_of(&bad, &[1.0, 0.0], true).is_infinite());
        }
        assert_eq!(difference_of(&[0.0, 0.0], &[0.0, 0.0], true), 0.0);
        assert!(difference_of(&[0.0, 1.0], &[0.0, 0.0], true).is_infinite());
    }
}
