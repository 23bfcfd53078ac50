//! The cosines of texts, rewrites and copies under an encoder.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet, hash_map::Entry},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use super::sets::TripleSet;
use crate::{
    metric::discrimination::parallel_gap,
    run::{
        RunError,
        encode::{
            EncoderVectors,
            inputs::Inputs,
            vectors::{StoredVectors, calibration},
        },
        plan::{
            Variant,
            table::{Key, Slot},
        },
    },
    separation::{Comparison, Cosines, RESOLUTION, Triple},
};

/// Folder and version of the stored measurements. 2: they record which texts were truncated.
const FOLDER: &str = "separation";
const VERSION: &str = "isomer.separation/2";

/// Measurements of a set under an encoder.
#[derive(Debug, Clone)]
pub(crate) struct SeparationEntry {
    /// Position of the encoder.
    pub(crate) encoder: usize,
    /// Position of the data set.
    pub(crate) table: usize,
    transformation: usize,
    seed: usize,
    triples: Arc<Vec<Triple>>,
    stored: StoredMeasurements,
}

/// The stored part of the measurements.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct StoredMeasurements {
    /// One per triple.
    cosines: Vec<Cosines>,
    /// Whether the encoder truncated one of the texts of each triple.
    cut: Vec<bool>,
    /// Mean cosine of texts with their own rewrites minus that of texts with the rewrites of
    /// others.
    gap: f64,
}

impl StoredMeasurements {
    fn fits(&self, set: &TripleSet) -> bool {
        let n = set.triples.len();
        (self.cosines.len(), self.cut.len()) == (n, n)
    }
}

impl SeparationEntry {
    /// Its position among others: encoder, data set, transformation, seed.
    pub(crate) fn position(&self) -> (usize, usize, usize, usize) {
        (self.encoder, self.table, self.transformation, self.seed)
    }

    /// Position of the transformation.
    pub(crate) fn transformation(&self) -> usize {
        self.transformation
    }

    /// The parallel gap of its texts; `None` for fewer than two texts, which leave no unrelated
    /// text.
    pub(crate) fn gap(&self) -> Option<f64> {
        let texts: HashSet<u32> = self.triples.iter().map(|one| one.text).collect();
        (texts.len() > 1).then_some(self.stored.gap)
    }

    /// The set: data set and variant.
    pub(crate) fn set(&self) -> (usize, Variant) {
        let (transformation, seed) = (self.transformation, self.seed);
        (self.table, Variant::Transformed { transformation, seed })
    }

    pub(crate) fn comparisons(&self) -> impl Iterator<Item = Comparison> {
        let gap = Some(self.stored.gap).filter(|gap| *gap > RESOLUTION);
        let all = self.triples.iter().zip(&self.stored.cosines).zip(&self.stored.cut);
        all.map(move |((triple, cosines), cut)| Comparison {
            triple: *triple,
            table: self.table,
            transformation: self.transformation,
            seed: self.seed,
            cosines: *cosines,
            cut: *cut,
            gap,
        })
    }
}

/// Measures the sets under an encoder. Stored measurements are read; for the others, the texts
/// missing from `vectors` are encoded.
pub(crate) async fn measure(
    encoder: &mut EncoderVectors<'_>,
    sets: &[TripleSet],
) -> Result<Vec<SeparationEntry>, RunError> {
    let Inputs {
        context,
        layout,
        encoders,
        ..
    } = encoder.inputs;
    let position = encoder.position;
    let mut all = Vec::with_capacity(sets.len());
    for set in sets {
        let table = &layout.tables[set.table];
        let slot = table.varied_slot(position);
        let parts = [VERSION, table.prompts[position].varied_space.as_str(), &set.digest];
        context.units.fetch_aside(FOLDER, &parts).await;
        let found: Option<StoredMeasurements> = context.units.aside(FOLDER, &parts);
        let stored = match found.filter(|stored| stored.fits(set)) {
            Some(stored) => stored,
            None => {
                let texts = set.triples.iter().flat_map(|one| [one.text, one.rewrite, one.change]);
                let texts: Vec<Key> = texts.map(|text| (slot, text)).collect();
                let calibrating = calibration(layout, encoders, position, set.table);
                let missing = texts.iter().chain(&calibrating);
                let missing: HashSet<&Key> = missing.filter(|key| !encoder.vectors.contains(**key)).collect();
                encoder.meter.grow(missing.len() as u64);
                encoder.fill(set.table, &texts).await?;
                let stored = compare(&set.triples, slot, &encoder.stored(set.table))?;
                context
                    .units
                    .put_aside(FOLDER, &parts, &stored)
                    .map_err(RunError::Units)?;
                stored
            }
        };
        all.push(SeparationEntry {
            encoder: position,
            table: set.table,
            transformation: set.transformation,
            seed: set.seed,
            triples: Arc::clone(&set.triples),
            stored,
        });
    }
    Ok(all)
}

/// Cosines of the triples, and the parallel gap of their texts and rewrites, each pair once.
fn compare(triples: &[Triple], slot: Slot, vectors: &StoredVectors<'_>) -> Result<StoredMeasurements, RunError> {
    let mut rows: HashMap<u32, Cow<'_, [f32]>> = HashMap::new();
    for text in triples.iter().flat_map(|one| [one.text, one.rewrite, one.change]) {
        if let Entry::Vacant(entry) = rows.entry(text) {
            entry.insert(vectors.row((slot, text))?.unwrap_or_default());
        }
    }
    let row = |text: u32| rows.get(&text).map(AsRef::as_ref).unwrap_or_default();
    let cosines = triples
        .iter()
        .map(|one| Cosines::of(row(one.text), row(one.rewrite), row(one.change)))
        .collect();
    let is_cut = |text: u32| vectors.cut((slot, text)) == Some(true);
    let cut = triples
        .iter()
        .map(|one| [one.text, one.rewrite, one.change].into_iter().any(is_cut))
        .collect();
    let mut seen = HashSet::new();
    let pairs: Vec<(&[f32], &[f32])> = triples
        .iter()
        .filter(|one| seen.insert((one.text, one.rewrite)))
        .map(|one| (row(one.text), row(one.rewrite)))
        .collect();
    Ok(StoredMeasurements {
        cosines,
        cut,
        gap: parallel_gap(
            pairs.iter().map(|(text, _)| *text),
            pairs.iter().map(|(_, rewrite)| *rewrite),
        ),
    })
}
