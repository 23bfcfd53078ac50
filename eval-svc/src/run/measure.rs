//! Stage: units (encoder, dataset, variant) are encoded and scored. Each is stored as soon as it is
//! complete.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Instant,
};

use isomer_proto::encoder::v1::Encoder;
use tokio_util::task::AbortOnDropHandle;

use super::{
    RunError, corpus,
    corpus::WithDocuments,
    cuts::Cuts,
    drift::{self, Drifted, Pair, pairs_of},
    inputs::Inputs,
    judge::Judged,
    lexical::{LastIndex, WholeTexts},
    plan::{Plan, Variant},
    progress::Meter,
    prompting::{Key, Slot, keys},
    record::Stage,
    rounds::Round,
    separation::{self, Separated},
    transform::Transformed,
    units::{UnitKey, UnitScore, digest_of_texts},
    vectors::{StoredVectors, Vectors, calibration},
};
use crate::{
    encoding,
    search_form::SearchForm,
    work::{Batching, ScoreFailure, ScoreRecord, ScoreTask},
};

/// A score and the texts that it belongs to.
#[derive(Debug, Clone)]
pub(super) struct Scored {
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
pub(super) struct Measured {
    /// Every score.
    pub scored: Vec<Scored>,
    /// The distances by which texts moved.
    pub drifted: Vec<Drifted>,
    /// The comparison of rewrites with changes of meaning.
    pub separated: Vec<Separated>,
    /// The judge's ratings; absent without a judge.
    pub judged: Option<Judged>,
}

/// A dataset's texts under one variant.
pub(super) struct TextSet {
    pub(super) table: usize,
    pub(super) variant: Variant,
    pub(super) texts: Vec<u32>,
    digest: String,
    /// Texts with their transformed texts; empty for the originals.
    pairs: Vec<Pair>,
    /// Digest of the pairs' texts.
    pairs_digest: String,
}

/// Numbers of a dataset's texts under a variant.
pub(super) fn texts_of(plan: &Plan, transformed: &Transformed, table: usize, variant: Variant) -> Vec<u32> {
    let Some(table) = plan.tables.get(table) else {
        return Vec::new();
    };
    let Variant::Transformed { transformation, seed } = variant else {
        return table.texts.clone();
    };
    let requests = match plan.transformations.get(transformation) {
        Some(planned) => table.requests.of(planned).as_slice(),
        None => &[],
    };
    let made = |request: &Option<usize>| transformed.get(transformation, seed, (*request)?);
    table
        .texts
        .iter()
        .zip(requests)
        .map(|(original, request)| made(request).map_or(*original, |m| m.text))
        .collect()
}

/// State that the stage keeps between rounds.
#[derive(Debug)]
pub(super) struct Carried {
    meters: Meters,
    /// Vectors of the original texts, by encoder, if a later round may use them again; otherwise
    /// empty.
    vectors: Vec<Vectors>,
}

impl Carried {
    /// The state before the first round.
    pub(super) fn new(plan: &Plan) -> Self {
        let now = Instant::now();
        Self {
            meters: Meters {
                encode: Meter::new(Stage::Encode, 0, now),
                score: Meter::new(Stage::Score, 0, now),
            },
            vectors: plan.encoders.iter().map(|_| Vectors::default()).collect(),
        }
    }
}

/// Runs the stage for the texts that a round adds. In the `last` round no vectors are kept.
pub(super) async fn measure(
    inputs: Inputs<'_>,
    round: &Round,
    last: bool,
    carried: &mut Carried,
    measured: &mut Measured,
) -> Result<(), RunError> {
    let Inputs { plan, transformed, .. } = inputs;
    let known: HashSet<(usize, Variant)> = measured.scored.iter().map(|one| (one.table, one.variant)).collect();
    let mut sets = Vec::new();
    for &table in &round.tables {
        for variant in round.variants(plan) {
            if known.contains(&(table, variant)) {
                continue;
            }
            let texts = texts_of(plan, transformed, table, variant);
            let digest = digest_of_texts(texts.iter().map(|text| plan.corpus.get(*text)));
            let pairs = pairs_of(plan, transformed, table, variant);
            let both = pairs.iter().flat_map(|(original, made)| [original, made]);
            let pairs_digest = digest_of_texts(both.map(|text| plan.corpus.get(*text)));
            sets.push(TextSet {
                table,
                variant,
                texts,
                digest,
                pairs,
                pairs_digest,
            });
        }
    }
    // A later round does not score the originals again, but needs their vectors to measure drift.
    let distinct = |encoder: usize| -> usize {
        let all = sets
            .iter()
            .flat_map(|set| [set.kept(inputs, encoder), set.moving(plan, encoder)]);
        all.flatten().collect::<HashSet<Key>>().len()
    };
    let distinct: Vec<usize> = (0..plan.encoders.len()).map(distinct).collect();
    let meters = &mut carried.meters;
    meters.encode.grow(distinct.iter().sum::<usize>() as u64);
    meters.score.grow((sets.len() * plan.encoders.len()) as u64);
    let separations = separation::sets(plan, transformed, round, &measured.separated);
    for (encoder, distinct) in distinct.into_iter().enumerate() {
        // Forms follow their encoder, and use its vectors.
        let source = plan.source(encoder);
        let mut vectors = std::mem::take(&mut carried.vectors[source]);
        let own = one_encoder(inputs, &sets, distinct, encoder, &mut vectors, meters).await?;
        measured.scored.extend(own.scored);
        measured.drifted.extend(own.drifted);
        if plan.search(encoder).is_none() {
            let meter = &mut meters.encode;
            let separated = separation::measure(inputs, &separations, encoder, &mut vectors, meter).await?;
            measured.separated.extend(separated);
        }
        let more_forms = plan.source(encoder + 1) == source;
        if !last && !more_forms {
            let originals = plan.tables.iter().flat_map(|table| {
                let copies: Vec<Key> = separation::keys(table, encoder).collect();
                let own = keys(table, encoder, &table.texts);
                // Vectors of a large corpus are not available.
                let own = match corpus::documents(table, inputs.context.config.shard_documents) {
                    Some(documents) => own[..documents.start].to_vec(),
                    None => own,
                };
                own.into_iter().chain(copies)
            });
            vectors.keep(&originals.collect());
        }
        if !last || more_forms {
            carried.vectors[source] = vectors;
        }
    }
    // The same order as after a single round.
    measured.scored.sort_by_key(|one| (one.encoder, one.table, one.variant));
    measured
        .drifted
        .sort_by_key(|one| (one.encoder, one.table, one.transformation, one.seed));
    measured.separated.sort_by_key(Separated::place);
    Ok(())
}

#[derive(Debug)]
struct Meters {
    encode: Meter,
    score: Meter,
}

async fn one_encoder(
    inputs: Inputs<'_>,
    sets: &[TextSet],
    distinct: usize,
    position: usize,
    vectors: &mut Vectors,
    meters: &mut Meters,
) -> Result<Measured, RunError> {
    let Inputs {
        context, plan, live, ..
    } = inputs;
    let encoder = &plan.encoders[position];
    let keys: Vec<UnitKey> = sets.iter().map(|set| key(plan, position, set)).collect();
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
        let space = plan.tables[set.table].prompts[position].varied_space.as_str();
        if let Some(drift) = context.units.drift(space, &set.pairs_digest, set.pairs.len()) {
            moved.insert((space, &set.pairs_digest), drift);
        }
    }
    let to_score = sets.iter().zip(&keys).filter(|(_, key)| missing(key, &known));
    let to_move = sets.iter().filter(|set| {
        let space = plan.tables[set.table].prompts[position].varied_space.as_str();
        !moved.contains_key(&(space, set.pairs_digest.as_str()))
    });
    let needed: HashSet<Key> = to_score
        .flat_map(|(set, _)| set.kept(inputs, position))
        .chain(to_move.flat_map(|set| set.moving(plan, position)))
        .filter(|text| !vectors.contains(*text))
        .collect();
    let spared = (distinct - needed.len()) as u64;
    meters.encode.detail(format!("texts with {}", encoder.id));
    meters.encode.add(spared, spared, Instant::now());
    live.tell(&mut meters.encode);

    let search = plan.search(position);
    let mut last_index = LastIndex::default();
    let mut large = LargeScores::default();
    let mut pending: VecDeque<Pending<'_>> = VecDeque::new();
    let mut measured = Measured::default();
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
            settle(inputs, position, &mut pending, 0, &mut known, meters, &mut measured).await?;
        }
        let ready = match known.get(&address) {
            Some(score) => Some((score.clone(), true)),
            None if corpus::documents(table, context.config.shard_documents).is_some() => {
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
                let kept = set.kept(inputs, position);
                fill(inputs, position, set.table, &kept, vectors, &mut meters.encode).await?;
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
                    None => tokio::spawn(context.work.score(score_task(inputs, encoder, set, &texts, &stored)?)),
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
            told(inputs, meters, cached);
            measured
                .scored
                .push(scored(position, set, address, (score, cached), cuts));
        }
        let most = context.work.scores_in_flight().saturating_sub(1);
        settle(inputs, position, &mut pending, most, &mut known, meters, &mut measured).await?;
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
                let moving = set.moving(plan, position);
                fill(inputs, position, set.table, &moving, vectors, &mut meters.encode).await?;
                let stored = StoredVectors::new(plan, position, set.table, vectors);
                let drift = drift::measure(&set.pairs, prompts.varied(), &stored)?;
                let stored = context.units.put_drift(space, &set.pairs_digest, &drift);
                stored.map_err(RunError::Units)?;
                moved.insert((space, &set.pairs_digest), drift.clone());
                drift
            }
        };
        measured.drifted.push(Drifted {
            encoder: position,
            table: set.table,
            transformation,
            seed,
            drift,
        });
    }
    settle(inputs, position, &mut pending, 0, &mut known, meters, &mut measured).await?;
    Ok(measured)
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
    measured: &mut Measured,
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
        let score = score.await.map_err(|error| RunError::Internal(error.to_string()))?;
        let record = score.map_err(|failure| failed(plan, position, set, failure))?;
        let score = UnitScore::from(record);
        context.units.put(key, &score).map_err(RunError::Units)?;
        let score = score.alone();
        known.insert(address.clone(), score.clone());
        // The counts were stored when the texts had their vectors.
        let table = &plan.tables[set.table];
        let cuts = context.units.cuts(key);
        let cuts = cuts.unwrap_or_else(|| Cuts::unknown(table, &set.keys(plan, position)));
        told(inputs, meters, false);
        measured
            .scored
            .push(scored(position, set, address, (score, false), cuts));
    }
    Ok(())
}

/// Counts a score.
fn told(inputs: Inputs<'_>, meters: &mut Meters, cached: bool) {
    inputs.live.count(|counters| {
        if cached {
            counters.scores_cached += 1
        } else {
            counters.scores_computed += 1
        }
    });
    meters.score.add(1, u64::from(cached), Instant::now());
    inputs.live.tell(&mut meters.score);
}

fn scored(encoder: usize, set: &TextSet, unit: String, (score, cached): (UnitScore, bool), cuts: Cuts) -> Scored {
    Scored {
        encoder,
        table: set.table,
        variant: set.variant,
        texts: set.digest.clone(),
        unit,
        score,
        cached,
        cuts,
    }
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

impl TextSet {
    /// The vectors of its texts under an encoder, in their order.
    pub(super) fn keys(&self, plan: &Plan, encoder: usize) -> Vec<Key> {
        keys(&plan.tables[self.table], encoder, &self.texts)
    }

    /// The vectors that its score needs and that are kept: all except the documents of a large
    /// corpus, and those on which a stored form is calibrated. A search by terms needs none.
    fn kept(&self, inputs: Inputs<'_>, encoder: usize) -> Vec<Key> {
        if inputs.plan.search(encoder) == Some(SearchForm::Lexical) {
            return Vec::new();
        }
        let mut keys = self.keys(inputs.plan, encoder);
        let table = &inputs.plan.tables[self.table];
        if let Some(documents) = corpus::documents(table, inputs.context.config.shard_documents) {
            keys.truncate(documents.start);
        }
        keys.extend(calibration(inputs.plan, encoder, self.table));
        keys
    }

    /// The vectors that its drift needs: both sides of every pair, and those on which a stored form
    /// is calibrated. Searches have no drift of their own.
    fn moving(&self, plan: &Plan, encoder: usize) -> Vec<Key> {
        if plan.search(encoder).is_some() {
            return Vec::new();
        }
        let slot = plan.tables[self.table].prompts[encoder].varied();
        let both = self.pairs.iter().flat_map(|(original, made)| [*original, *made]);
        let calibrating = calibration(plan, encoder, self.table);
        both.map(|text| (slot, text)).chain(calibrating).collect()
    }
}

/// The key of a score: everything that it depends on.
fn key(plan: &Plan, position: usize, set: &TextSet) -> UnitKey {
    let (encoder, table) = (&plan.encoders[position], &plan.tables[set.table]);
    let dataset = &table.dataset;
    UnitKey {
        vector_space: table.prompts[position].space.clone(),
        dataset: dataset.digest().to_owned(),
        texts: set.digest.clone(),
        task: match dataset.own_main_score(plan.suite.profile) {
            Some(main) => format!("{}, main score {main}", dataset.task()),
            None => dataset.task().name().to_owned(),
        },
        // The similarity belongs to the encoder's description rather than to its vectors.
        profile: format!("{}, {:?}", plan.suite.profile.stamp(), encoding::similarity(encoder)),
    }
}

/// Encodes the texts of a table that do not have a vector yet, prompt by prompt, and the texts on
/// which a stored form is calibrated.
pub(super) async fn fill(
    inputs: Inputs<'_>,
    position: usize,
    table: usize,
    texts: &[Key],
    vectors: &mut Vectors,
    meter: &mut Meter,
) -> Result<(), RunError> {
    let Inputs {
        context, plan, live, ..
    } = inputs;
    let (encoder, prompting) = (&plan.encoders[plan.served(position)], &plan.prompting[position]);
    let calibrating = calibration(plan, position, table);
    let mut lacking: BTreeMap<Slot, Vec<u32>> = BTreeMap::new();
    let mut seen = HashSet::new();
    for key in texts.iter().chain(&calibrating).filter(|key| !vectors.contains(**key)) {
        if seen.insert(*key) {
            lacking.entry(key.0).or_default().push(key.1);
        }
    }
    for (slot, lacking) in lacking {
        let texts: Vec<&str> = lacking.iter().map(|text| plan.corpus.get(*text)).collect();
        let encoded = encoding::encode(
            &*context.work,
            Batching::of_encoders(&context.config),
            encoder,
            prompting.sent(slot),
            &texts,
            |texts, usage| {
                live.count(|counters| {
                    counters.texts_encoded += texts;
                    counters.tokens_encoded = counters.tokens_encoded.saturating_add(usage.tokens);
                    counters.cost_nano_usd = counters.cost_nano_usd.saturating_add(usage.cost_nano_usd);
                });
                meter.add(texts, 0, Instant::now());
                live.tell(meter);
            },
        )
        .await
        .map_err(|error| {
            RunError::encoding(&encoder.id, error, |index| {
                format!("the text \"{}\"", excerpt(texts[index]))
            })
        })?;
        vectors.insert(&encoder.id, slot, &lacking, encoded)?;
    }
    vectors.calibrate(plan, position, table, &calibrating)
}

pub(super) fn excerpt(text: &str) -> String {
    if text.trim().is_empty() {
        return "(an empty text)".to_owned();
    }
    let mut excerpt: String = text.chars().take(60).collect();
    if excerpt.len() < text.len() {
        excerpt.push('…');
    }
    excerpt
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
    let searched = corpus::score(inputs, position, group, vectors, meter).await?;
    let mut scores = LargeScores::new();
    for ((set, key), score) in sets.iter().zip(searched.scores) {
        let table = &plan.tables[set.table];
        let first = corpus::documents(table, context.config.shard_documents).map_or(0, |corpus| corpus.start);
        let known = WithDocuments {
            vectors: StoredVectors::new(plan, position, set.table, vectors),
            first,
            facts: &searched.facts,
        };
        if let Some(cuts) = Cuts::of(plan, table, set.variant, &set.keys(plan, position), &known) {
            context.units.put_cuts(key, cuts).map_err(RunError::Units)?;
        }
        context.units.put(key, &score).map_err(RunError::Units)?;
        scores.insert(key.address(), score.alone());
    }
    Ok(scores)
}

/// The remaining work for a score.
fn score_task(
    inputs: Inputs<'_>,
    encoder: &Encoder,
    set: &TextSet,
    texts: &[Key],
    vectors: &StoredVectors<'_>,
) -> Result<ScoreTask, RunError> {
    Ok(ScoreTask {
        dataset: Arc::clone(&inputs.plan.tables[set.table].dataset),
        vectors: vectors.matrix(texts)?,
        profile: inputs.plan.suite.profile,
        similarity: encoding::similarity(encoder),
    })
}
