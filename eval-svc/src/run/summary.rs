//! Builds the report of a run. Its only inputs besides the results are the current time and the
//! evidence in the store of scores.

use isomer_proto::ProtoEnum;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::{
    RunRecord, cuts, drift, examples,
    items::KnownItems,
    measure::{Measured, Scored},
    plan::{EncoderVariant, Plan, PlannedTransformation, Table, Variant},
    prompting, ratings, separation,
    transform::{Made, Outcome, Transformed},
    units::UnitStore,
};
use crate::{
    change::{Change, same_rewrites},
    form::Form,
    gate::{RewriteCounts, Rewrites},
    metric::overlap::PERSISTENCE,
    profile::Axis,
    report::{
        CheckRow, DatasetInfo, DrawnTarget, EncoderInfo, GATE_K, GateReport, GeneratorInfo, LanguageReport, Report,
        RunInfo, SCHEMA, ScoreRow, SuiteInfo, TransformationInfo, VariantInfo, complete, diff::overlaps,
    },
    stats::mean,
};

/// The results of a run.
#[derive(Clone, Copy)]
pub(super) struct Results<'a> {
    /// The plan, reduced to the data sets and seeds that were run.
    pub plan: &'a Plan,
    /// The results of its texts.
    pub transformed: &'a Transformed,
    /// Its scores.
    pub measured: &'a Measured,
    /// The store of the scores' evidence.
    pub units: &'a UnitStore,
}

/// Builds the report.
pub(super) fn report(
    results: Results<'_>,
    record: &RunRecord,
    durations: BTreeMap<String, f64>,
    gate: Option<GateReport>,
    examples: usize,
) -> Report {
    let Results {
        plan,
        transformed,
        measured,
        units,
    } = results;
    let scored = measured.scored.as_slice();
    let items = KnownItems::new(plan, transformed, measured, units);
    let finished = Timestamp::now();
    let started = record.started.unwrap_or(record.created);
    let mut report = Report {
        schema: SCHEMA.to_owned(),
        headline: Vec::new(),
        run: RunInfo {
            id: record.id.clone(),
            created: record.created,
            started,
            finished,
            seconds: finished.duration_since(started).as_secs_f64(),
        },
        suite: suite(plan),
        encoders: encoders(plan, scored, units),
        generators: transformed
            .generators
            .iter()
            .map(|(id, digest)| GeneratorInfo {
                id: id.clone(),
                digest: digest.clone(),
            })
            .collect(),
        datasets: plan.tables.iter().map(|table| dataset(plan, table, scored)).collect(),
        drop_shares: items.drop_shares(),
        profile: items.profile(),
        subsets: items.subset_reports(),
        gate,
        judge: plan
            .judge
            .as_ref()
            .zip(measured.judged.as_ref())
            .map(|(judge, judged)| ratings::report(plan, transformed, judge, judged, &measured.drifted)),
        separation: separation::report(plan, &measured.separated),
        checks: checks(plan, transformed),
        languages: LanguageReport {
            draws: draws(plan, transformed),
            targets: Vec::new(),
        },
        error_rates: Vec::new(),
        drift: drift::rows(plan, &measured.drifted, &measured.separated),
        truncation: cuts::rows(plan, scored),
        scores: scored.iter().map(|scored| score(plan, scored)).collect(),
        examples: examples::pick(plan, transformed, &measured.drifted, examples),
        tables: Vec::new(),
        counters: record.counters,
        durations,
        notes: plan
            .tables
            .iter()
            .flat_map(|table| {
                table
                    .dataset
                    .notes()
                    .iter()
                    .map(|note| format!("{}: {note}", table.dataset.name()))
            })
            .collect(),
        not_computed: Vec::new(),
        isomer_version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    complete(&mut report);
    report
}

fn suite(plan: &Plan) -> SuiteInfo {
    let suite = &plan.suite;
    SuiteInfo {
        name: suite.name.clone(),
        description: suite.description.clone(),
        digest: plan.suite_digest.clone(),
        seeds: suite.seeds.clone(),
        generator: plan.generator.clone(),
        temperature: suite.temperature,
        top_p: suite.top_p,
        top_k: suite.top_k,
        attempts: suite.attempts,
        retry_identical: suite.retry_identical,
        retry_temperature: suite.retry_temperature,
        guards: suite.guards.name().to_owned(),
        on_failure: suite.on_failure.name().to_owned(),
        metrics: suite.profile.stamp().to_owned(),
        transformations: plan
            .transformations
            .iter()
            .map(|planned| TransformationInfo {
                label: planned.label.clone(),
                axis: planned.axis,
                transformation: planned.transformation.clone(),
                needs_generator: planned.needs_generator,
                prompt_version: planned.prompt_version.clone(),
                prompt_digest: planned.prompt_digest.clone(),
            })
            .collect(),
    }
}

/// Mean share of the first documents that a variant has in common with its encoder, on the
/// original queries of each data set of retrieval; absent without one.
fn overlap(plan: &Plan, scored: &[Scored], units: &UnitStore, encoder: usize) -> Option<f64> {
    let lists = |encoder: usize, table: usize| {
        let own = |one: &&Scored| (one.encoder, one.table, one.variant) == (encoder, table, Variant::Original);
        units.lists(&scored.iter().find(own)?.unit)
    };
    let of_table = |table: usize| {
        let (full, form) = (lists(plan.served(encoder), table), lists(encoder, table));
        let (shares, _, _) = overlaps(&[full.as_ref()], &[form.as_ref()], (GATE_K, PERSISTENCE)).ok()?;
        mean(&shares)
    };
    mean(&(0..plan.tables.len()).filter_map(of_table).collect::<Vec<f64>>())
}

fn variant(plan: &Plan, scored: &[Scored], units: &UnitStore, position: usize) -> Option<VariantInfo> {
    let dimensions = plan.encoders[position].dimensions;
    let (form, prompts, bytes) = match &plan.variants[position] {
        EncoderVariant::Plain => return None,
        EncoderVariant::Form(form) => {
            let bytes = match form {
                Form::Stored(form) => form.bytes(dimensions),
                Form::Search(_) => dimensions.saturating_mul(4),
            };
            (Some(form.to_string()), None, bytes)
        }
        EncoderVariant::Prompts(variant) => (None, Some(variant.name.clone()), dimensions.saturating_mul(4)),
    };
    Some(VariantInfo {
        encoder: plan.encoders[plan.served(position)].id.clone(),
        form,
        prompts,
        bytes,
        overlap: overlap(plan, scored, units, position),
    })
}

fn encoders(plan: &Plan, scored: &[Scored], units: &UnitStore) -> Vec<EncoderInfo> {
    plan.encoders
        .iter()
        .enumerate()
        .map(|(position, encoder)| {
            let space = encoder.vector_space.clone().unwrap_or_default();
            let (prompts, unused_prompts) = prompting::told(plan, position);
            EncoderInfo {
                id: encoder.id.clone(),
                revision: encoder.revision.clone(),
                weights_digest: encoder.weights_digest.clone(),
                vector_space: space.digest,
                architecture: encoder.architecture.clone(),
                dimensions: encoder.dimensions,
                max_tokens: encoder.max_tokens,
                pooling: space.pooling,
                normalised: space.normalised,
                prompt: space.prompt,
                prompts,
                unused_prompts,
                baseline: plan.baseline == Some(position),
                variant: variant(plan, scored, units, position),
            }
        })
        .collect()
}

fn dataset(plan: &Plan, table: &Table, scored: &[Scored]) -> DatasetInfo {
    let own = |scored: &&Scored| plan.tables[scored.table].dataset.name() == table.dataset.name();
    DatasetInfo {
        name: table.dataset.name().to_owned(),
        group: table.group(),
        task: table.dataset.task(),
        source: table.spec.source.display(),
        split: table.dataset.split().to_owned(),
        language: match (table.dataset.language(), table.dataset.text_languages().as_slice()) {
            (Some(subset), _) => Some(subset.to_owned()),
            (None, [one]) => Some((*one).to_owned()),
            _ => None,
        },
        languages: table.dataset.text_languages().into_iter().map(str::to_owned).collect(),
        items: table.dataset.items(),
        texts: table.texts.len(),
        transformed_texts: table.requests.distinct.iter().flatten().collect::<BTreeSet<_>>().len(),
        digest: table.dataset.digest().to_owned(),
        revision: table.dataset.revision().map(str::to_owned),
        sample: table.dataset.sample().cloned(),
        main_score: scored
            .iter()
            .find(own)
            .map(|scored| scored.score.main_key.clone())
            .unwrap_or_default(),
    }
}

/// The requests of a dataset for a transformation.
fn requests(table: &Table, planned: &PlannedTransformation) -> BTreeSet<usize> {
    table.requests.of(planned).iter().flatten().copied().collect()
}

fn score(plan: &Plan, scored: &Scored) -> ScoreRow {
    let (transformation, seed) = match scored.variant {
        Variant::Original => (None, None),
        Variant::Transformed { transformation, seed } => (
            Some(plan.transformations[transformation].label.clone()),
            Some(plan.suite.seeds[seed]),
        ),
    };
    ScoreRow {
        encoder: plan.encoders[scored.encoder].id.clone(),
        dataset: plan.tables[scored.table].dataset.name().to_owned(),
        transformation,
        seed,
        texts_digest: scored.texts.clone(),
        unit: scored.unit.clone(),
        main_score_key: scored.score.main_key.clone(),
        main_score: scored.score.main,
        scores: scored.score.all.clone(),
        items: scored.score.items,
        cached: scored.cached,
    }
}

/// A dataset's texts, by their numbers, with their results under a transformation and seed, as far
/// as they have been requested.
fn made<'a>(plan: &Plan, transformed: &'a Transformed, table: &Table, t: usize, s: usize) -> Vec<(u32, &'a Made)> {
    let Some(planned) = plan.transformations.get(t) else {
        return Vec::new();
    };
    let asked = plan.requests.of(planned);
    let requests = requests(table, planned).into_iter();
    requests
        .filter_map(|request| Some((asked.get(request)?.text, transformed.get(t, s, request)?)))
        .collect()
}

/// Counts of rewritten texts, for the gate.
pub(super) fn rewrites(plan: &Plan, transformed: &Transformed) -> RewriteCounts {
    let of_table = |table: &Table| {
        let of_transformation = |t: usize| {
            let axis = plan.transformations.get(t).map(|planned| planned.axis);
            let lengthened = matches!(axis, Some(Axis::Length | Axis::Augmentation));
            let by_dose = axis == Some(Axis::Noise);
            let of_seed = |s: usize| {
                let mut counted = Rewrites::default();
                let mut pairs = Vec::new();
                for (original, made) in made(plan, transformed, table, t, s) {
                    counted.add(made.change, lengthened, !made.guards.is_empty());
                    if !by_dose && made.change != Change::Unchanged {
                        pairs.push((plan.corpus.get(original), plan.corpus.get(made.text)));
                    }
                }
                counted.same = same_rewrites(pairs);
                counted
            };
            (0..plan.suite.seeds.len()).map(of_seed).collect()
        };
        (0..plan.transformations.len()).map(of_transformation).collect()
    };
    plan.tables.iter().map(of_table).collect()
}

fn checks(plan: &Plan, transformed: &Transformed) -> Vec<CheckRow> {
    let mut rows = Vec::new();
    for (t, planned) in plan.transformations.iter().enumerate() {
        for (s, seed) in plan.suite.seeds.iter().enumerate() {
            for table in &plan.tables {
                let made = made(plan, transformed, table, t, s);
                let made: Vec<&Made> = made.into_iter().map(|(_, made)| made).collect();
                rows.push(check_row(&planned.label, *seed, table.dataset.name(), &made));
            }
        }
    }
    rows
}

/// The target languages of translations, with the number of texts of each data set and source
/// language.
fn draws(plan: &Plan, transformed: &Transformed) -> Vec<DrawnTarget> {
    let mut rows = Vec::new();
    for (t, planned) in plan.transformations.iter().enumerate() {
        let asked = plan.requests.of(planned);
        for (s, seed) in plan.suite.seeds.iter().enumerate() {
            for table in &plan.tables {
                let mut texts: BTreeMap<(Option<&str>, &str), u64> = BTreeMap::new();
                for request in requests(table, planned) {
                    let target = transformed.get(t, s, request).and_then(|made| made.target.as_deref());
                    if let (Some(target), Some(asked)) = (target, asked.get(request)) {
                        *texts.entry((asked.language.as_deref(), target)).or_default() += 1;
                    }
                }
                rows.extend(texts.into_iter().map(|((source, target), texts)| DrawnTarget {
                    transformation: planned.label.clone(),
                    seed: *seed,
                    dataset: table.dataset.name().to_owned(),
                    source: source.map(str::to_owned),
                    target: target.to_owned(),
                    texts,
                }));
            }
        }
    }
    rows
}

fn check_row(transformation: &str, seed: u64, dataset: &str, made: &[&Made]) -> CheckRow {
    let ended = |outcome: Outcome| made.iter().filter(|one| one.outcome == outcome).count() as u64;
    let changed_by = |change: Change| made.iter().filter(|one| one.change == change).count() as u64;
    let measured: Vec<(f64, f64, f64)> = made
        .iter()
        .filter(|one| is_transformed(one))
        .filter_map(|one| one.measures)
        .collect();
    let mean = |part: fn(&(f64, f64, f64)) -> f64| {
        (!measured.is_empty()).then(|| measured.iter().map(part).sum::<f64>() / measured.len() as f64)
    };
    CheckRow {
        transformation: transformation.to_owned(),
        seed,
        dataset: dataset.to_owned(),
        texts: made.len() as u64,
        ok: ended(Outcome::Ok),
        recovered: ended(Outcome::Recovered),
        kept_original: ended(Outcome::KeptOriginal),
        failed: ended(Outcome::Failed),
        unchanged: Some(changed_by(Change::Unchanged)),
        near_copies: Some(changed_by(Change::NearCopy) + changed_by(Change::Contained)),
        failed_checks: count(made.iter().flat_map(|one| one.failed_checks.iter())),
        retried_checks: count(made.iter().flat_map(|one| one.retried_checks.iter())),
        first_checks: count(made.iter().flat_map(|one| one.first_checks.iter())),
        guards: count(made.iter().flat_map(|one| one.guards.iter())),
        guards_untold: count(made.iter().flat_map(|one| one.guards_untold.iter())),
        edit_distance: mean(|m| m.0),
        jaccard: mean(|m| m.1),
        length_ratio: mean(|m| m.2),
    }
}

fn count<'a>(names: impl Iterator<Item = &'a &'static str>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for name in names {
        *counts.entry((*name).to_owned()).or_default() += 1;
    }
    counts
}

fn is_transformed(made: &Made) -> bool {
    matches!(made.outcome, Outcome::Ok | Outcome::Recovered)
}
