//! Stage: rewrites held against changes of meaning, under each encoder. What the words mean: [`crate::separation`].
//!
//! Changed copies are made before anything is generated, as part of the plan. They are encoded after the texts of each encoder
//! are scored, while the vectors of originals and rewrites are at hand; what was measured is kept like drift, so that a second run
//! encodes nothing.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use super::{
    RunContext, RunError,
    drift::pairs_of,
    live::Live,
    measure::fill,
    plan::{Plan, PlannedTransformation, Table, Variant},
    progress::Meter,
    prompting::{Key, Slot, TablePrompts},
    rounds::Round,
    transform::Transformed,
    units::digest_of_texts,
    vectors::Vectors,
};
use crate::{
    gate::{Bound, Separations},
    metric::discrimination::parallel_gap,
    profile::Axis,
    report::{EncoderSeparation, SeparationCoverage, SeparationReport, SeparationRow},
    separation::{
        Changed, Comparison, Cosines, Kind, MOST_WORDS, RESOLUTION, Source, Stratum, Tally, Triple, collect, differs,
        tally,
    },
};

/// Folder and version of what is kept.
const KEPT: &str = "separation";
const VERSION: &str = "isomer.separation/1";
/// Bounds in the report are those of a two-sided interval at 95 %.
const ALPHA: f64 = 0.025;

/// Triples of a data set under one transformation and seed; the same for every encoder.
#[derive(Debug)]
pub(super) struct Set {
    table: usize,
    transformation: usize,
    seed: usize,
    triples: Arc<Vec<Triple>>,
    digest: String,
}

/// A set under an encoder.
#[derive(Debug, Clone)]
pub(super) struct Separated {
    /// Position of the encoder.
    pub encoder: usize,
    /// Position of the data set.
    pub table: usize,
    transformation: usize,
    seed: usize,
    triples: Arc<Vec<Triple>>,
    kept: Kept,
}

/// What is kept of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Kept {
    /// One a triple.
    cosines: Vec<Cosines>,
    /// Mean cosine of texts with their rewrites less that of texts with the rewrites of others.
    gap: f64,
}

impl Separated {
    /// Where it stands among others.
    pub(super) fn place(&self) -> (usize, usize, usize, usize) {
        (self.encoder, self.table, self.transformation, self.seed)
    }

    /// Position of the transformation.
    pub(super) fn transformation(&self) -> usize {
        self.transformation
    }

    /// The parallel gap of its texts; none of fewer than two, since there is no unrelated one then.
    pub(super) fn gap(&self) -> Option<f64> {
        let texts: HashSet<u32> = self.triples.iter().map(|one| one.text).collect();
        (texts.len() > 1).then_some(self.kept.gap)
    }

    fn comparisons(&self) -> impl Iterator<Item = Comparison> {
        let gap = Some(self.kept.gap).filter(|gap| *gap > RESOLUTION);
        let both = self.triples.iter().zip(&self.kept.cosines);
        both.map(move |(triple, cosines)| Comparison {
            triple: *triple,
            table: self.table,
            transformation: self.transformation,
            seed: self.seed,
            cosines: *cosines,
            gap,
        })
    }
}

/// Makes the changed copies of the texts, where separation is not left out; on a thread of its own, since texts are tagged.
pub(super) async fn prepare(plan: &mut Plan) -> Result<(), RunError> {
    let Some(settings) = plan.suite.separation.settled() else {
        return Ok(());
    };
    let seed = first_seed(plan);
    let sources: Vec<Vec<Source>> = plan.tables.iter().map(|table| sources(plan, table)).collect();
    let made = tokio::task::spawn_blocking(move || {
        let of_table = |sources: &Vec<Source>| collect(sources, &settings, seed);
        sources.iter().map(of_table).collect::<Vec<_>>()
    });
    let made = made.await.map_err(|error| RunError::Internal(error.to_string()))?;
    for (table, made) in plan.tables.iter_mut().zip(made) {
        let interned = made.into_iter().map(|one| Changed {
            text: one.text,
            copies: one
                .copies
                .into_iter()
                .map(|(kind, copy)| (kind, plan.corpus.intern(&copy)))
                .collect(),
        });
        table.changes = interned.collect();
    }
    Ok(())
}

fn first_seed(plan: &Plan) -> u64 {
    plan.suite.seeds.first().copied().unwrap_or_default()
}

/// The distinct texts of a data set that are transformed.
fn sources(plan: &Plan, table: &Table) -> Vec<Source> {
    let mut seen = HashSet::new();
    let requests = table.requests.distinct.iter().flatten();
    let texts = requests.filter_map(|request| plan.requests.distinct.get(*request));
    texts
        .filter(|request| seen.insert(request.text))
        .map(|request| Source {
            text: request.text,
            content: plan.corpus.get(request.text).to_owned(),
            language: request.language.clone(),
        })
        .collect()
}

/// The vectors of the changed copies of a data set's texts.
pub(super) fn copies(table: &Table, encoder: usize) -> impl Iterator<Item = Key> {
    let slot = slot(table, encoder);
    let all = table.changes.iter().flat_map(|one| &one.copies);
    all.map(move |(_, copy)| (slot, *copy))
}

/// The prompt under which texts, rewrites and changed copies are encoded: that of the texts that are transformed.
fn slot(table: &Table, encoder: usize) -> Slot {
    table.prompts.get(encoder).map_or(0, TablePrompts::varied)
}

/// Whether what the transformation makes keeps the meaning: all but the controls and augmentations.
fn rewrites(planned: &PlannedTransformation) -> bool {
    planned.axis.in_total()
}

/// Whether the transformation's rewrites count in the separation of an encoder as a whole: those in the text's own language. A
/// translation asks whether the encoder knows the other language too; it is shown by itself.
pub(super) fn counts(planned: &PlannedTransformation) -> bool {
    matches!(planned.axis, Axis::Lexical | Axis::Length)
}

/// The sets that a round adds.
pub(super) fn sets(plan: &Plan, transformed: &Transformed, round: &Round, known: &[Separated]) -> Vec<Set> {
    let known: HashSet<(usize, usize, usize)> = known
        .iter()
        .map(|one| (one.table, one.transformation, one.seed))
        .collect();
    let mut sets = Vec::new();
    for &table in &round.tables {
        let Some(changes) = plan.tables.get(table).map(|table| &table.changes) else {
            continue;
        };
        for variant in round.variants(plan) {
            let Variant::Transformed { transformation, seed } = variant else {
                continue;
            };
            let wanted = plan.transformations.get(transformation).is_some_and(rewrites);
            if !wanted || changes.is_empty() || known.contains(&(table, transformation, seed)) {
                continue;
            }
            let mut made: HashMap<u32, Vec<u32>> = HashMap::new();
            for (original, rewrite) in pairs_of(plan, transformed, table, variant) {
                made.entry(original).or_default().push(rewrite);
            }
            let triples = triples(plan, changes, &made);
            if triples.is_empty() {
                continue;
            }
            let digest = digest(plan, &triples);
            sets.push(Set {
                table,
                transformation,
                seed,
                triples: Arc::new(triples),
                digest,
            });
        }
    }
    sets
}

/// Every changed copy with every rewrite of its text. A rewrite that is the text itself but for case and marks proves nothing, and
/// one that is the changed copy is no rewrite: both are left out.
fn triples(plan: &Plan, changes: &[Changed<u32>], made: &HashMap<u32, Vec<u32>>) -> Vec<Triple> {
    let mut triples = Vec::new();
    for one in changes {
        let text = plan.corpus.get(one.text);
        for &rewrite in made.get(&one.text).into_iter().flatten() {
            let rewritten = plan.corpus.get(rewrite);
            if !differs(text, rewritten) {
                continue;
            }
            for &(kind, change) in &one.copies {
                let changed = plan.corpus.get(change);
                if differs(changed, rewritten) {
                    triples.push(Triple {
                        text: one.text,
                        rewrite,
                        change,
                        kind,
                        stratum: Stratum::of(text, rewritten, changed),
                    });
                }
            }
        }
    }
    triples
}

fn digest(plan: &Plan, triples: &[Triple]) -> String {
    let texts = triples.iter().flat_map(|one| [one.text, one.rewrite, one.change]);
    digest_of_texts(texts.map(|text| plan.corpus.get(text)))
}

/// Measures the sets under an encoder; what is kept is found, the rest is encoded as far as `vectors` lacks it.
pub(super) async fn measure(
    context: &RunContext,
    plan: &Plan,
    sets: &[Set],
    position: usize,
    vectors: &mut Vectors,
    live: &Live,
    meter: &mut Meter,
) -> Result<Vec<Separated>, RunError> {
    let mut all = Vec::with_capacity(sets.len());
    for set in sets {
        let table = &plan.tables[set.table];
        let slot = slot(table, position);
        let parts = [VERSION, table.prompts[position].varied_space.as_str(), &set.digest];
        let found: Option<Kept> = context.units.aside(KEPT, &parts);
        let kept = match found.filter(|kept| kept.cosines.len() == set.triples.len()) {
            Some(kept) => kept,
            None => {
                let texts = set.triples.iter().flat_map(|one| [one.text, one.rewrite, one.change]);
                let texts: Vec<Key> = texts.map(|text| (slot, text)).collect();
                let lacking: HashSet<&Key> = texts.iter().filter(|key| !vectors.contains(**key)).collect();
                meter.grow(lacking.len() as u64);
                fill(context, plan, position, &texts, vectors, live, meter).await?;
                let kept = compare(&set.triples, slot, vectors);
                context.units.put_aside(KEPT, &parts, &kept).map_err(RunError::Units)?;
                kept
            }
        };
        all.push(Separated {
            encoder: position,
            table: set.table,
            transformation: set.transformation,
            seed: set.seed,
            triples: Arc::clone(&set.triples),
            kept,
        });
    }
    Ok(all)
}

/// Cosines of the triples, and the parallel gap of their texts and rewrites, each pair once.
fn compare(triples: &[Triple], slot: Slot, vectors: &Vectors) -> Kept {
    let row = |text: u32| vectors.row((slot, text)).unwrap_or_default();
    let cosines = triples
        .iter()
        .map(|one| Cosines::of(row(one.text), row(one.rewrite), row(one.change)))
        .collect();
    let mut seen = HashSet::new();
    let pairs: Vec<(&[f32], &[f32])> = triples
        .iter()
        .filter(|one| seen.insert((one.text, one.rewrite)))
        .map(|one| (row(one.text), row(one.rewrite)))
        .collect();
    Kept {
        cosines,
        gap: parallel_gap(
            pairs.iter().map(|(text, _)| *text),
            pairs.iter().map(|(_, rewrite)| *rewrite),
        ),
    }
}

/// What separation comes to for each judged encoder and each rule about it, over the data sets and seeds that are in.
pub(super) fn of_rules(plan: &Plan, gate: &Bound, separated: &[Separated], round: &Round) -> Separations {
    let mut all = Separations::new();
    for &encoder in &gate.judged {
        let own = of_encoder(separated, encoder);
        for (rule, kind, datasets) in gate.separations() {
            let looked_at = own.iter().filter(|one| {
                let counted = plan.transformations.get(one.transformation).is_some_and(counts);
                let within =
                    datasets.contains(&one.table) && round.tables.contains(&one.table) && one.seed < round.seeds;
                counted && within && kind.is_none_or(|kind| one.triple.kind == kind)
            });
            let sum = tally(looked_at, first_seed(plan), |text| plan.corpus.get(text));
            all.insert((encoder, rule), sum);
        }
    }
    all
}

fn of_encoder(separated: &[Separated], encoder: usize) -> Vec<Comparison> {
    let own = separated.iter().filter(|one| one.encoder == encoder);
    own.flat_map(Separated::comparisons).collect()
}

/// What the report says; nothing where separation is left out.
pub(super) fn report(plan: &Plan, separated: &[Separated]) -> Option<SeparationReport> {
    let settings = plan.suite.separation.settled()?;
    let counted: Vec<String> = plan
        .transformations
        .iter()
        .filter(|planned| counts(planned))
        .map(|planned| planned.label.clone())
        .collect();
    let coverage = plan.tables.iter().flat_map(|table| {
        settings.kinds.iter().map(|kind| SeparationCoverage {
            dataset: table.dataset.name().to_owned(),
            kind: *kind,
            texts: table
                .changes
                .iter()
                .filter(|one| one.copies.iter().any(|(own, _)| own == kind))
                .count() as u64,
        })
    });
    Some(SeparationReport {
        kinds: settings.kinds.clone(),
        seed: first_seed(plan),
        texts_per_dataset: settings.texts as u64,
        most_words: MOST_WORDS as u64,
        resolution: RESOLUTION,
        transformations: counted,
        coverage: coverage.collect(),
        encoders: (0..plan.encoders.len())
            .map(|encoder| of_one(plan, &of_encoder(separated, encoder), encoder, &settings.kinds))
            .collect(),
    })
}

fn of_one(plan: &Plan, all: &[Comparison], encoder: usize, kinds: &[Kind]) -> EncoderSeparation {
    let row = |of: &dyn Fn(&Comparison) -> bool| {
        let sum = tally(all.iter().filter(|one| of(one)), first_seed(plan), |text| {
            plan.corpus.get(text)
        });
        row(&sum)
    };
    let counted = |one: &Comparison| plan.transformations.get(one.transformation).is_some_and(counts);
    let mut cells = Vec::new();
    let mut transformations = Vec::new();
    for (t, planned) in plan
        .transformations
        .iter()
        .enumerate()
        .filter(|(_, planned)| rewrites(planned))
    {
        let label = Some(planned.label.clone());
        transformations.push(SeparationRow {
            transformation: label.clone(),
            ..row(&|one| one.transformation == t)
        });
        cells.extend(kinds.iter().map(|kind| SeparationRow {
            kind: Some(*kind),
            transformation: label.clone(),
            ..row(&|one| one.transformation == t && one.triple.kind == *kind)
        }));
    }
    EncoderSeparation {
        encoder: plan.encoders[encoder].id.clone(),
        overall: row(&counted),
        kinds: kinds
            .iter()
            .map(|kind| SeparationRow {
                kind: Some(*kind),
                ..row(&|one| counted(one) && one.triple.kind == *kind)
            })
            .collect(),
        strata: Stratum::ALL
            .iter()
            .map(|stratum| SeparationRow {
                stratum: Some(*stratum),
                ..row(&|one| counted(one) && one.triple.stratum == *stratum)
            })
            .collect(),
        datasets: plan
            .tables
            .iter()
            .enumerate()
            .map(|(d, table)| SeparationRow {
                dataset: Some(table.dataset.name().to_owned()),
                ..row(&|one| counted(one) && one.table == d)
            })
            .collect(),
        transformations,
        cells,
    }
}

fn row(sum: &Tally) -> SeparationRow {
    let (low, high) = sum.bounds(ALPHA);
    let known = sum.texts > 0;
    SeparationRow {
        kind: None,
        transformation: None,
        dataset: None,
        stratum: None,
        texts: sum.texts,
        comparisons: sum.comparisons,
        separation: sum.separation,
        drawn_separated: sum.drawn_separated,
        low: known.then_some(low),
        high: known.then_some(high),
        tied: sum.tied,
        undefined: sum.undefined,
        margin: sum.margin,
        overlap_alone: sum.overlap_alone,
        nearer_than_change: sum.nearer_than_change,
    }
}
