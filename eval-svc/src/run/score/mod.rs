//! Stage: units (encoder, dataset, variant) are encoded and scored. Each is stored as soon as it is
//! complete.

pub(super) mod corpus;
pub(super) mod cuts;
pub(super) mod drift;
pub(super) mod lexical;
pub(super) mod shared;
pub(super) mod text_set;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Instant,
};

use tokio_util::task::AbortOnDropHandle;

use self::{
    corpus::WithDocuments,
    cuts::Cuts,
    drift::DriftEntry,
    lexical::{LastIndex, WholeTexts},
    text_set::TextSet,
};
use crate::{
    encoding,
    run::{
        RunError,
        encode::{
            fill,
            inputs::Inputs,
            vectors::{StoredVectors, Vectors},
        },
        plan::{Plan, Variant, rounds::Round, table::Key},
        progress::Meter,
        record::Stage,
        units::{UnitKey, UnitScore},
    },
    search_form::SearchForm,
    work::{ScoreFailure, ScoreRecord, ScoreTask},
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
    pub score: UnitScore,
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
    score: Meter,
}

impl EncodingState {
    /// The state before the first round.
    pub(crate) fn new(plan: &Plan) -> Self {
        let now = Instant::now();
        Self {
            meters: Meters {
                encode: Meter::new(Stage::Encode, 0, now),
                score: Meter::new(Stage::Score, 0, now),
            },
            vectors: plan.encoders.iter().map(|_| Vectors::default()).collect(),
        }
    }

    /// Takes the vectors that an encoder may use. Forms follow their encoder, and use its vectors.
    pub(crate) fn take_vectors(&mut self, plan: &Plan, encoder: usize) -> Vectors {
        std::mem::take(&mut self.vectors[plan.source(encoder)])
    }

    /// Keeps the vectors of an encoder for its next form and, unless the round is the `last`, those
    /// of the originals for a later round.
    pub(crate) fn keep_vectors(&mut self, inputs: Inputs<'_>, encoder: usize, last: bool, mut vectors: Vectors) {
        let plan = inputs.plan;
        let source = plan.source(encoder);
        let more_forms = plan.source(encoder + 1) == source;
        if !last && !more_forms {
            let originals = plan.tables.iter().flat_map(|table| {
                let copies: Vec<Key> = table.copy_keys(encoder).collect();
                let own = table.keys(encoder, &table.texts);
                // Vectors of a large corpus are not available.
                let own = match table.sharded_documents(inputs.context.config.shard_documents) {
                    Some(documents) => own[..documents.start].to_vec(),
                    None => own,
                };
                own.into_iter().chain(copies)
            });
            vectors.keep(&originals.collect());
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
        let Inputs { plan, text_results, .. } = inputs;
        let known: HashSet<(usize, Variant)> = scores.iter().map(|one| (one.table, one.variant)).collect();
        let of_table = |table: usize| round.variants(plan).into_iter().map(move |variant| (table, variant));
        let added = round.tables.iter().flat_map(|table| of_table(*table));
        let sets: Vec<TextSet> = added
            .filter(|one| !known.contains(one))
            .map(|(table, variant)| TextSet::of(plan, text_results, table, variant))
            .collect();
        // A later round does not score the originals again, but needs their vectors to measure
        // drift.
        let distinct = |encoder: usize| -> usize {
            let all = sets
                .iter()
                .flat_map(|set| [set.score_keys(inputs, encoder), set.drift_keys(plan, encoder)]);
            all.flatten().collect::<HashSet<Key>>().len()
        };
        let distinct: Vec<usize> = (0..plan.encoders.len()).map(distinct).collect();
        meters.encode.grow(distinct.iter().sum::<usize>() as u64);
        meters.score.grow((sets.len() * plan.encoders.len()) as u64);
        Self { sets, distinct }
    }
}

/// Encodes and scores the texts that a round adds under one encoder.
pub(crate) async fn measure(
    inputs: Inputs<'_>,
    RoundSets { sets, distinct }: &RoundSets,
    position: usize,
    vectors: &mut Vectors,
    meters: &mut Meters,
) -> Result<Measurements, RunError> {
    let (context, plan, progress) = (inputs.context, inputs.plan, inputs.progress);
    let encoder = &plan.encoders[position];
    let keys: Vec<UnitKey> = sets.iter().map(|set| set.unit_key(plan, position)).collect();
    let space_of = |set: &TextSet| plan.tables[set.table].prompts[position].varied_space.as_str();
    let drifts: Vec<(&str, &str)> = sets
        .iter()
        .filter(|set| set.variant != Variant::Original)
        .map(|set| (space_of(set), set.pairs_digest.as_str()))
        .collect();
    context.units.fetch(&keys, &drifts).await;
    let mut known: HashMap<String, UnitScore> = HashMap::new();
    for key in &keys {
        if let Some(score) = context.units.get(key) {
            known.insert(key.address(), score);
        }
    }
    let missing = |key: &UnitKey, known: &HashMap<String, UnitScore>| !known.contains_key(&key.address());
    let mut moved: HashMap<(&str, &str), Vec<Option<f32>>> = HashMap::new();
    for set in sets {
        let space = space_of(set);
        if let Some(drift) = context.units.drift(space, &set.pairs_digest, set.pairs.len()) {
            moved.insert((space, &set.pairs_digest), drift);
        }
    }
    let to_score = sets.iter().zip(&keys).filter(|(_, key)| missing(key, &known));
    let to_move = sets.iter().filter(|set| {
        let space = space_of(set);
        !moved.contains_key(&(space, set.pairs_digest.as_str()))
    });
    let needed: HashSet<Key> = to_score
        .flat_map(|(set, _)| set.score_keys(inputs, position))
        .chain(to_move.flat_map(|set| set.drift_keys(plan, position)))
        .filter(|text| !vectors.contains(*text))
        .collect();
    let spared = (distinct[position] - needed.len()) as u64;
    meters.encode.detail(format!("texts with {}", encoder.id));
    meters.encode.add(spared, spared, Instant::now());
    progress.tell(&mut meters.encode);

    let search = plan.search(position);
    let mut last_index = LastIndex::default();
    let mut large = LargeScores::default();
    let mut pending: VecDeque<Pending<'_>> = VecDeque::new();
    let mut measurements = Measurements::default();
    for (number, (set, key)) in sets.iter().zip(&keys).enumerate() {
        let address = key.address();
        let table = &plan.tables[set.table];
        let dataset = &table.dataset;
        meters.score.detail(format!(
            "{} on {}, {}",
            encoder.id,
            dataset.name(),
            plan.describe(set.variant)
        ));
        let texts = set.keys(plan, position);
        if pending.iter().any(|one| one.address == address) {
            // An equal set has the same score.
            settle(inputs, position, &mut pending, 0, &mut known, meters, &mut measurements).await?;
        }
        let ready = match known.get(&address) {
            Some(score) => Some((score.clone(), true)),
            None if table.sharded_documents(context.config.shard_documents).is_some() => {
                if !large.contains_key(&address) {
                    let rest = sets.iter().zip(&keys).skip(number);
                    let rest: Vec<(&TextSet, &UnitKey)> = rest
                        .filter(|(other, key)| other.table == set.table && missing(key, &known))
                        .collect();
                    large = score_corpus(inputs, position, &rest, vectors, &mut meters.encode).await?;
                }
                let score = large
                    .remove(&address)
                    .ok_or_else(|| RunError::Internal("a search of a large corpus has left a score out".to_owned()))?;
                known.insert(address.clone(), score.clone());
                Some((score, false))
            }
            None => {
                let needed = set.score_keys(inputs, position);
                fill(inputs, position, set.table, &needed, vectors, &mut meters.encode).await?;
                let stored = StoredVectors::new(plan, position, set.table, vectors);
                let cuts = match search {
                    Some(SearchForm::Lexical) => Cuts::of(plan, table, set.variant, &texts, &WholeTexts(plan)),
                    _ => Cuts::of(plan, table, set.variant, &texts, &stored),
                };
                // Stored before the score, so that a score found later has its counts.
                if let Some(cuts) = cuts {
                    context.units.put_cuts(key, cuts).map_err(RunError::Units)?;
                }
                let score = match search {
                    None => {
                        let task = ScoreTask {
                            dataset: Arc::clone(dataset),
                            vectors: stored.matrix(&texts)?,
                            profile: plan.suite.profile,
                            similarity: encoding::similarity(encoder),
                        };
                        tokio::spawn(context.work.score(task))
                    }
                    Some(form) => {
                        let task = last_index.task(inputs, set, position, form, &stored).await?;
                        tokio::spawn(task.score(context.compute.clone()))
                    }
                };
                let score = AbortOnDropHandle::new(score);
                pending.push_back(Pending {
                    set,
                    key,
                    address: address.clone(),
                    score,
                });
                None
            }
        };
        if let Some((score, cached)) = ready {
            let cuts = context.units.cuts(key);
            let cuts = cuts.or_else(|| {
                let stored = StoredVectors::new(plan, position, set.table, vectors);
                Cuts::of(plan, table, set.variant, &texts, &stored)
            });
            let cuts = cuts.unwrap_or_else(|| Cuts::unknown(table, &texts));
            count_score(inputs, meters, cached);
            measurements.scores.push(ScoreEntry {
                encoder: position,
                table: set.table,
                variant: set.variant,
                texts: set.digest.clone(),
                unit: address,
                score,
                cached,
                cuts,
            });
        }
        let most = context.work.scores_in_flight().saturating_sub(1);
        settle(
            inputs,
            position,
            &mut pending,
            most,
            &mut known,
            meters,
            &mut measurements,
        )
        .await?;
        let Variant::Transformed { transformation, seed } = set.variant else {
            continue;
        };
        // The drift of vectors is that of the encoder itself, and terms have none.
        if search.is_some() {
            continue;
        }
        let prompts = &table.prompts[position];
        let space = prompts.varied_space.as_str();
        let drift = match moved.get(&(space, set.pairs_digest.as_str())) {
            Some(drift) => drift.clone(),
            None => {
                let moving = set.drift_keys(plan, position);
                fill(inputs, position, set.table, &moving, vectors, &mut meters.encode).await?;
                let stored = StoredVectors::new(plan, position, set.table, vectors);
                let drift = drift::measure(&set.pairs, prompts.varied(), &stored)?;
                let stored = context.units.put_drift(space, &set.pairs_digest, &drift);
                stored.map_err(RunError::Units)?;
                moved.insert((space, &set.pairs_digest), drift.clone());
                drift
            }
        };
        measurements.drifts.push(DriftEntry {
            encoder: position,
            table: set.table,
            transformation,
            seed,
            drift,
        });
    }
    settle(inputs, position, &mut pending, 0, &mut known, meters, &mut measurements).await?;
    Ok(measurements)
}

/// A score that is being computed.
struct Pending<'a> {
    set: &'a TextSet,
    key: &'a UnitKey,
    address: String,
    score: AbortOnDropHandle<Result<ScoreRecord, ScoreFailure>>,
}

/// Waits for scores in order, until at most `most` are pending, and stores them.
async fn settle(
    inputs: Inputs<'_>,
    position: usize,
    pending: &mut VecDeque<Pending<'_>>,
    most: usize,
    known: &mut HashMap<String, UnitScore>,
    meters: &mut Meters,
    measurements: &mut Measurements,
) -> Result<(), RunError> {
    let Inputs { context, plan, .. } = inputs;
    while pending.len() > most {
        let Some(Pending {
            set,
            key,
            address,
            score,
        }) = pending.pop_front()
        else {
            break;
        };
        let score = score.await?;
        let record = score.map_err(|failure| failed(plan, position, set, failure))?;
        let score = UnitScore::from(record);
        context.units.put(key, &score).map_err(RunError::Units)?;
        let score = score.alone();
        known.insert(address.clone(), score.clone());
        // The counts were stored when the texts had their vectors.
        let table = &plan.tables[set.table];
        let cuts = context.units.cuts(key);
        let cuts = cuts.unwrap_or_else(|| Cuts::unknown(table, &set.keys(plan, position)));
        count_score(inputs, meters, false);
        measurements.scores.push(ScoreEntry {
            encoder: position,
            table: set.table,
            variant: set.variant,
            texts: set.digest.clone(),
            unit: address,
            score,
            cached: false,
            cuts,
        });
    }
    Ok(())
}

fn count_score(inputs: Inputs<'_>, meters: &mut Meters, cached: bool) {
    inputs.progress.count(|counters| {
        if cached {
            counters.scores_cached += 1
        } else {
            counters.scores_computed += 1
        }
    });
    meters.score.add(1, u64::from(cached), Instant::now());
    inputs.progress.tell(&mut meters.score);
}

fn failed(plan: &Plan, position: usize, set: &TextSet, failure: ScoreFailure) -> RunError {
    match failure {
        ScoreFailure::Undefined(source) => RunError::Score {
            encoder: plan.encoders[position].id.clone(),
            dataset: plan.tables[set.table].dataset.name().to_owned(),
            variant: plan.describe(set.variant),
            source,
        },
        ScoreFailure::Refused(fault) => RunError::Fleet(fault),
        ScoreFailure::Stopped(message) => RunError::Internal(message),
    }
}

/// Scores by the address of their key.
type LargeScores = HashMap<String, UnitScore>;

/// Scores sets of one table with a large corpus: as many of the first sets as are searched
/// together. Stores the scores, and returns them without their evidence.
async fn score_corpus(
    inputs: Inputs<'_>,
    position: usize,
    sets: &[(&TextSet, &UnitKey)],
    vectors: &mut Vectors,
    meter: &mut Meter,
) -> Result<LargeScores, RunError> {
    let Inputs { context, plan, .. } = inputs;
    // Equal texts have one score.
    let mut seen = HashSet::new();
    let sets: Vec<(&TextSet, &UnitKey)> = sets
        .iter()
        .filter(|(_, key)| seen.insert(key.address()))
        .copied()
        .collect();
    let only: Vec<&TextSet> = sets.iter().map(|(set, _)| *set).collect();
    let group = corpus::first_group(plan, &only, position, context.config.shard_documents);
    let corpus_scores = corpus::score(inputs, position, group, vectors, meter).await?;
    let mut scores = LargeScores::new();
    for ((set, key), score) in sets.iter().zip(corpus_scores.scores) {
        let table = &plan.tables[set.table];
        let first = table
            .sharded_documents(context.config.shard_documents)
            .map_or(0, |corpus| corpus.start);
        let known = WithDocuments {
            vectors: StoredVectors::new(plan, position, set.table, vectors),
            first,
            facts: &corpus_scores.facts,
        };
        if let Some(cuts) = Cuts::of(plan, table, set.variant, &set.keys(plan, position), &known) {
            context.units.put_cuts(key, cuts).map_err(RunError::Units)?;
        }
        context.units.put(key, &score).map_err(RunError::Units)?;
        scores.insert(key.address(), score.alone());
    }
    Ok(scores)
}
