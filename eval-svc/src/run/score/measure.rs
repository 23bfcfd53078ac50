//! Scores the sets of texts of a round under one encoder.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Instant,
};

use tokio_util::task::AbortOnDropHandle;

use super::{
    Measurements, RoundSets, ScoreEntry,
    corpus::{self, CorpusEncodings},
    cuts::Cuts,
    drift::{self, DriftEntry},
    lexical::{LastIndex, LexicalEncodings},
    text_set::TextSet,
};
use crate::{
    encoding,
    run::{
        RunError,
        encode::{EncoderVectors, inputs::Inputs},
        plan::{Variant, table::Key},
        progress::Meter,
        units::{DriftKey, UnitKey},
    },
    search_form::SearchForm,
    work::{ScoreFailure, ScoreRecord, ScoreTask},
};

/// A set of texts with the key of its score under the encoder.
struct KeyedSet<'s> {
    set: &'s TextSet,
    key: UnitKey,
    /// Address of the key.
    address: String,
}

/// A score that is being computed.
struct PendingScore<'s> {
    set: &'s KeyedSet<'s>,
    score: AbortOnDropHandle<Result<ScoreRecord, ScoreFailure>>,
}

/// The scores and drifts of an encoder so far.
struct Scoring<'s, 'v> {
    encoder: &'s mut EncoderVectors<'v>,
    /// Progress of scoring.
    meter: &'s mut Meter,
    /// Scores by the address of their key.
    scores: HashMap<String, ScoreRecord>,
    /// Scores of sets with a large corpus that were searched together, by the address of their key.
    corpus_scores: HashMap<String, ScoreRecord>,
    drifts: HashMap<DriftKey<'s>, Vec<Option<f32>>>,
    pending: VecDeque<PendingScore<'s>>,
    last_index: LastIndex,
    measurements: Measurements,
}

/// Encodes and scores the texts that a round adds under one encoder; `meter` counts the scores.
pub(crate) async fn measure(
    encoder: &mut EncoderVectors<'_>,
    sets: &RoundSets,
    meter: &mut Meter,
) -> Result<Measurements, RunError> {
    let (inputs, position) = (encoder.inputs, encoder.position);
    let keys = sets.sets.iter().map(|set| (set, set.unit_key(inputs, position)));
    let all: Vec<KeyedSet<'_>> = keys
        .map(|(set, key)| KeyedSet {
            set,
            address: key.address(),
            key,
        })
        .collect();
    let mut scoring = Scoring {
        encoder,
        meter,
        scores: HashMap::new(),
        corpus_scores: HashMap::new(),
        drifts: HashMap::new(),
        pending: VecDeque::new(),
        last_index: LastIndex::default(),
        measurements: Measurements::default(),
    };
    scoring.read_stored(&all).await;
    scoring.count_stored(&all, sets.distinct[position]);
    for number in 0..all.len() {
        scoring.score(&all[number..]).await?;
        scoring.drift(all[number].set).await?;
    }
    scoring.finish(0).await?;
    Ok(scoring.measurements)
}

impl<'s> Scoring<'s, '_> {
    /// Reads the stored scores and drifts.
    async fn read_stored(&mut self, all: &[KeyedSet<'s>]) {
        let units = &self.encoder.inputs.context.units;
        let keys: Vec<&UnitKey> = all.iter().map(|one| &one.key).collect();
        let transformed = all.iter().filter(|one| one.set.variant != Variant::Original);
        let drifts: Vec<DriftKey<'_>> = transformed.map(|one| self.drift_key(one.set)).collect();
        units.fetch(&keys, &drifts).await;
        for one in all {
            if let Some(score) = units.get(&one.key) {
                self.scores.insert(one.address.clone(), score);
            }
            let key = self.drift_key(one.set);
            if let Some(drift) = units.drift(key, one.set.pairs.len()) {
                self.drifts.insert(key, drift);
            }
        }
    }

    fn drift_key(&self, set: &'s TextSet) -> DriftKey<'s> {
        set.drift_key(self.encoder.inputs.layout, self.encoder.position)
    }

    /// Counts the texts that stored scores and drifts save; `distinct`: number of all texts.
    fn count_stored(&mut self, all: &[KeyedSet<'s>], distinct: usize) {
        let (inputs, position) = (self.encoder.inputs, self.encoder.position);
        let mut needed: HashSet<Key> = HashSet::new();
        for one in all {
            if !self.scores.contains_key(&one.address) {
                needed.extend(one.set.score_keys(inputs, position));
            }
            if !self.drifts.contains_key(&self.drift_key(one.set)) {
                needed.extend(one.set.drift_keys(inputs, position));
            }
        }
        needed.retain(|key| !self.encoder.vectors.contains(*key));
        let spared = (distinct - needed.len()) as u64;
        let meter = &mut *self.encoder.meter;
        meter.detail(format!("texts with {}", inputs.encoders.id(position)));
        meter.add(spared, spared, Instant::now());
        inputs.progress.report(meter);
    }

    /// Scores the first of the sets that are left, or starts to.
    async fn score(&mut self, left: &'s [KeyedSet<'s>]) -> Result<(), RunError> {
        let Some(own) = left.first() else { return Ok(()) };
        let Inputs {
            context,
            layout,
            encoders,
            ..
        } = self.encoder.inputs;
        let table = &layout.tables[own.set.table];
        self.meter.detail(format!(
            "{} on {}, {}",
            encoders.id(self.encoder.position),
            table.dataset.name(),
            layout.describe(own.set.variant)
        ));
        if self.pending.iter().any(|one| one.set.address == own.address) {
            // An equal set has the same score.
            self.finish(0).await?;
        }
        if let Some(score) = self.scores.get(&own.address).cloned() {
            self.record(own, score, true);
        } else if table.sharded_documents(context.config.shard_documents).is_some() {
            if !self.corpus_scores.contains_key(&own.address) {
                self.score_corpus(left, own.set.table).await?;
            }
            let score = self
                .corpus_scores
                .remove(&own.address)
                .ok_or_else(|| RunError::Internal("a search of a large corpus has left a score out".to_owned()))?;
            self.scores.insert(own.address.clone(), score.clone());
            self.record(own, score, false);
        } else {
            self.start(own).await?;
        }
        self.finish(context.work.scores_in_flight().saturating_sub(1)).await
    }

    /// Encodes the texts of a set and starts to score them.
    async fn start(&mut self, own: &'s KeyedSet<'s>) -> Result<(), RunError> {
        let inputs = self.encoder.inputs;
        let Inputs {
            context,
            layout,
            encoders,
            ..
        } = inputs;
        let (set, position) = (own.set, self.encoder.position);
        self.encoder.fill(set.table, &set.score_keys(inputs, position)).await?;
        let (table, texts) = (&layout.tables[set.table], set.keys(layout, position));
        let stored = self.encoder.stored(set.table);
        let search = encoders.search(position);
        let cuts = match search {
            Some(SearchForm::Lexical) => {
                Cuts::of(layout, table, set.variant, &texts, &LexicalEncodings(&layout.corpus))
            }
            _ => Cuts::of(layout, table, set.variant, &texts, &stored),
        };
        // Stored before the score, so that a score found later has its counts.
        if let Some(cuts) = cuts {
            context.units.put_cuts(&own.key, cuts).map_err(RunError::Units)?;
        }
        let score = match search {
            None => {
                let task = ScoreTask {
                    dataset: Arc::clone(&table.dataset),
                    vectors: stored.matrix(&texts)?,
                    profile: layout.suite.profile,
                    similarity: encoding::similarity(&encoders[position].encoder),
                };
                tokio::spawn(context.work.score(task))
            }
            Some(form) => {
                let task = self.last_index.task(self.encoder, set, form).await?;
                tokio::spawn(task.score(context.compute.clone()))
            }
        };
        let score = AbortOnDropHandle::new(score);
        self.pending.push_back(PendingScore { set: own, score });
        Ok(())
    }

    /// Waits for scores in order, until at most `most` are pending, and stores them.
    async fn finish(&mut self, most: usize) -> Result<(), RunError> {
        while self.pending.len() > most {
            let Some(PendingScore { set: own, score }) = self.pending.pop_front() else {
                break;
            };
            let score = score.await?.map_err(|failure| self.failed(own.set, failure))?;
            let stored = self.encoder.inputs.context.units.put(&own.key, &score);
            stored.map_err(RunError::Units)?;
            let score = score.alone();
            self.scores.insert(own.address.clone(), score.clone());
            self.record(own, score, false);
        }
        Ok(())
    }

    fn failed(&self, set: &TextSet, failure: ScoreFailure) -> RunError {
        let Inputs { layout, encoders, .. } = self.encoder.inputs;
        match failure {
            ScoreFailure::Undefined(source) => RunError::Score {
                encoder: encoders.id(self.encoder.position).to_owned(),
                dataset: layout.tables[set.table].dataset.name().to_owned(),
                variant: layout.describe(set.variant),
                source,
            },
            ScoreFailure::Refused(fault) => RunError::Fleet(fault),
            ScoreFailure::Stopped(message) => RunError::Internal(message),
        }
    }

    /// Records a score with the counts of its truncated texts. They were stored when the texts had
    /// their vectors; an older version may have stored none.
    fn record(&mut self, own: &KeyedSet<'_>, score: ScoreRecord, cached: bool) {
        let Inputs {
            context,
            layout,
            progress,
            ..
        } = self.encoder.inputs;
        let (set, position) = (own.set, self.encoder.position);
        let cuts = context.units.cuts(&own.key).unwrap_or_else(|| {
            let (table, texts) = (&layout.tables[set.table], set.keys(layout, position));
            let cuts = Cuts::of(layout, table, set.variant, &texts, &self.encoder.stored(set.table));
            cuts.unwrap_or_else(|| Cuts::unknown(table, &texts))
        });
        progress.count(|counters| {
            if cached {
                counters.scores_cached += 1
            } else {
                counters.scores_computed += 1
            }
        });
        self.meter.add(1, u64::from(cached), Instant::now());
        progress.report(self.meter);
        self.measurements.scores.push(ScoreEntry {
            encoder: position,
            table: set.table,
            variant: set.variant,
            texts: set.digest.clone(),
            unit: own.address.clone(),
            score,
            cached,
            cuts,
        });
    }

    /// Scores sets of one table with a large corpus: as many of the first sets as are searched
    /// together. Stores the scores, and keeps them without their evidence.
    async fn score_corpus(&mut self, left: &[KeyedSet<'_>], number: usize) -> Result<(), RunError> {
        let Inputs { context, layout, .. } = self.encoder.inputs;
        let (position, shard) = (self.encoder.position, context.config.shard_documents);
        // Equal texts have one score.
        let mut seen = HashSet::new();
        let sets: Vec<&KeyedSet<'_>> = left
            .iter()
            .filter(|one| one.set.table == number && !self.scores.contains_key(&one.address))
            .filter(|one| seen.insert(one.address.as_str()))
            .collect();
        let only: Vec<&TextSet> = sets.iter().map(|one| one.set).collect();
        let group = corpus::first_group(layout, &only, position, shard);
        let found = corpus::score(self.encoder, group).await?;
        let table = &layout.tables[number];
        let known = CorpusEncodings {
            vectors: self.encoder.stored(number),
            first: table.sharded_documents(shard).map_or(0, |documents| documents.start),
            facts: &found.facts,
        };
        self.corpus_scores.clear();
        for (one, score) in sets.into_iter().zip(found.scores) {
            let texts = one.set.keys(layout, position);
            if let Some(cuts) = Cuts::of(layout, table, one.set.variant, &texts, &known) {
                context.units.put_cuts(&one.key, cuts).map_err(RunError::Units)?;
            }
            context.units.put(&one.key, &score).map_err(RunError::Units)?;
            self.corpus_scores.insert(one.address.clone(), score.alone());
        }
        Ok(())
    }

    /// Measures by how much the texts of a set moved, unless that is stored.
    async fn drift(&mut self, set: &'s TextSet) -> Result<(), RunError> {
        let (inputs, position) = (self.encoder.inputs, self.encoder.position);
        let Inputs {
            context,
            layout,
            encoders,
            ..
        } = inputs;
        let Variant::Transformed { transformation, seed } = set.variant else {
            return Ok(());
        };
        // The drift of vectors is that of the encoder itself, and terms have none.
        if encoders.search(position).is_some() {
            return Ok(());
        }
        let key = self.drift_key(set);
        let drift = match self.drifts.get(&key).cloned() {
            Some(drift) => drift,
            None => {
                let texts = set.drift_keys(inputs, position);
                self.encoder.fill(set.table, &texts).await?;
                let slot = layout.tables[set.table].varied_slot(position);
                let drift = drift::measure(&set.pairs, slot, &self.encoder.stored(set.table))?;
                let stored = context.units.put_drift(key, &drift);
                stored.map_err(RunError::Units)?;
                self.drifts.insert(key, drift.clone());
                drift
            }
        };
        self.measurements.drifts.push(DriftEntry {
            encoder: position,
            table: set.table,
            transformation,
            seed,
            drift,
        });
        Ok(())
    }
}
