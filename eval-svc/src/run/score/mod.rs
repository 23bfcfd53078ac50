//! Stage: units (encoder, dataset, variant) are encoded and scored. Each is stored as soon as it is
//! complete.

pub(super) mod corpus;
pub(super) mod cuts;
pub(super) mod drift;
pub(super) mod lexical;
pub(super) mod measure;
pub(super) mod shared_vectors;
pub(super) mod text_set;

use std::{collections::HashSet, time::Instant};

use self::{cuts::Cuts, drift::DriftEntry, text_set::TextSet};
use crate::{
    run::{
        encode::{inputs::Inputs, vectors::Vectors},
        plan::{Encoders, Variant, rounds::Round, table::Key},
        progress::Meter,
        record::Stage,
    },
    work::ScoreRecord,
};

/// A score and the texts that it belongs to.
#[derive(Debug, Clone)]
pub(crate) struct ScoreEntry {
    /// Position of the encoder.
    pub encoder: usize,
    /// Position of the dataset.
    pub table: usize,
    /// The variant of the texts.
    pub variant: Variant,
    /// Digest of those texts.
    pub texts: String,
    /// Address in the store of scores.
    pub unit: String,
    /// The score; its evidence stays in the store.
    pub score: ScoreRecord,
    /// Whether it was found in the store rather than computed.
    pub cached: bool,
    /// Counts of truncated texts.
    pub cuts: Cuts,
}

/// The results of the stage.
#[derive(Debug, Default)]
pub(crate) struct Measurements {
    /// Every score.
    pub scores: Vec<ScoreEntry>,
    /// The distances by which texts moved.
    pub drifts: Vec<DriftEntry>,
}

/// State that encoding and scoring keep between rounds.
#[derive(Debug)]
pub(crate) struct EncodingState {
    pub(crate) meters: Meters,
    /// Vectors of the original texts, by encoder, if a later round may use them again; otherwise
    /// empty.
    vectors: Vec<Vectors>,
}

/// Progress of encoding and scoring.
#[derive(Debug)]
pub(crate) struct Meters {
    pub(crate) encode: Meter,
    pub(crate) score: Meter,
}

impl EncodingState {
    /// The state before the first round.
    pub(crate) fn new(encoders: &Encoders) -> Self {
        let now = Instant::now();
        Self {
            meters: Meters {
                encode: Meter::new(Stage::Encode, 0, now),
                score: Meter::new(Stage::Score, 0, now),
            },
            vectors: encoders.iter().map(|_| Vectors::default()).collect(),
        }
    }

    /// Takes the vectors that an encoder may use. Forms follow their encoder, and use its vectors.
    pub(crate) fn take_vectors(&mut self, encoders: &Encoders, encoder: usize) -> Vectors {
        std::mem::take(&mut self.vectors[encoders.source(encoder)])
    }

    /// Keeps the vectors of an encoder for its next form and, unless the round is the `last`, those
    /// of the originals for a later round.
    pub(crate) fn keep_vectors(&mut self, inputs: Inputs<'_>, encoder: usize, last: bool, mut vectors: Vectors) {
        let Inputs { layout, encoders, .. } = inputs;
        let source = encoders.source(encoder);
        let more_forms = encoders.source(encoder + 1) == source;
        if !last && !more_forms {
            let originals = layout.tables.iter().flat_map(|table| {
                let copies: Vec<Key> = table.copy_keys(encoder).collect();
                let own = table.keys(encoder, &table.texts);
                // Vectors of a large corpus are not available.
                let own = match table.sharded_documents(inputs.context.config.shard_documents) {
                    Some(documents) => own[..documents.start].to_vec(),
                    None => own,
                };
                own.into_iter().chain(copies)
            });
            vectors.retain(&originals.collect());
        }
        if !last || more_forms {
            self.vectors[source] = vectors;
        }
    }
}

/// The sets of texts that a round adds.
pub(crate) struct RoundSets {
    sets: Vec<TextSet>,
    /// Number of distinct vectors that the sets need, by encoder.
    distinct: Vec<usize>,
}

impl RoundSets {
    /// The sets that have no score yet; `meters` count them.
    pub(crate) fn new(inputs: Inputs<'_>, round: &Round, scores: &[ScoreEntry], meters: &mut Meters) -> Self {
        let (layout, encoders) = (inputs.layout, inputs.encoders);
        let known: HashSet<(usize, Variant)> = scores.iter().map(|one| (one.table, one.variant)).collect();
        let of_table = |table: usize| round.variants(layout).into_iter().map(move |variant| (table, variant));
        let added = round.tables.iter().flat_map(|table| of_table(*table));
        let sets: Vec<TextSet> = added
            .filter(|one| !known.contains(one))
            .map(|(table, variant)| TextSet::of(layout, inputs.text_results, table, variant))
            .collect();
        // A later round does not score the originals again, but needs their vectors to measure
        // drift.
        let distinct = |encoder: usize| -> usize {
            let all = sets
                .iter()
                .flat_map(|set| [set.score_keys(inputs, encoder), set.drift_keys(inputs, encoder)]);
            all.flatten().collect::<HashSet<Key>>().len()
        };
        let distinct: Vec<usize> = (0..encoders.len()).map(distinct).collect();
        meters.encode.grow(distinct.iter().sum::<usize>() as u64);
        meters.score.grow((sets.len() * encoders.len()) as u64);
        Self { sets, distinct }
    }
}
