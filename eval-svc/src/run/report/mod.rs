//! Builds the report of a run. Its only inputs besides the results are the current time and the
//! evidence in the store of scores.

pub(super) mod drift;
pub(super) mod examples;
pub(super) mod items_file;
pub(super) mod ratings;
pub(super) mod scale;
pub(super) mod truncation;

use isomer_proto::{
    ProtoEnum,
    transform::v1::{Measures, OnFingerprintChange},
};
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::{
    change::Change,
    form::Form,
    metric::overlap::PERSISTENCE,
    prompts::{self, PromptSelection},
    report::{
        CheckRow, DatasetInfo, DrawnTarget, EncoderInfo, GATE_K, GeneratorInfo, LanguageReport, PromptUse, Report,
        RunInfo, SCHEMA, ScoreRow, SuiteInfo, TransformationInfo, UnusedPrompt, VariantInfo, complete, diff::overlaps,
    },
    run::{
        RunRecord,
        decide::{items::ItemEvidence, results::RunResults},
        plan::{Encoders, Layout, Variant, encoders::EncoderVariant, table::Table},
        score::ScoreEntry,
        separate,
        transform::{
            Outcome, TextResult, TextResults,
            pairs::{requests, results_of},
        },
        units::UnitStore,
    },
    search_form::SearchForm,
    stats::mean,
};

pub(crate) fn build_report(
    results: &RunResults,
    units: &UnitStore,
    record: &RunRecord,
    durations: BTreeMap<String, f64>,
    examples: usize,
) -> Report {
    let RunResults {
        layout,
        encoders,
        text_results,
        ..
    } = results;
    let scores = results.scores.as_slice();
    let items = ItemEvidence::new(results, units);
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
        suite: suite(results),
        encoders: encoder_infos(results, units),
        generators: text_results
            .generators
            .iter()
            .map(|(id, digest)| GeneratorInfo {
                id: id.clone(),
                digest: digest.clone(),
                versions: match layout.suite.on_fingerprint_change {
                    OnFingerprintChange::Ignore => BTreeMap::new(),
                    _ => text_results.versions(id),
                },
            })
            .collect(),
        datasets: layout
            .tables
            .iter()
            .map(|table| dataset(layout, table, scores))
            .collect(),
        drop_shares: items.drop_shares(),
        profile: items.profile(),
        subsets: items.subset_reports(),
        gate: results.verdicts.clone(),
        judge: results
            .ratings
            .as_ref()
            .map(|ratings| ratings::report(results, ratings)),
        separation: separate::report(layout, encoders, &results.separations),
        checks: checks(layout, text_results),
        languages: LanguageReport {
            draws: draws(layout, text_results),
            targets: Vec::new(),
        },
        error_rates: Vec::new(),
        drift: drift::rows(layout, encoders, &results.drifts, &results.separations),
        truncation: truncation::rows(layout, encoders, scores),
        scores: scores.iter().map(|scored| score(layout, encoders, scored)).collect(),
        examples: examples::pick(results, examples),
        tables: Vec::new(),
        counters: record.counters,
        durations,
        notes: layout
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

fn suite(results: &RunResults) -> SuiteInfo {
    let RunResults { layout, manifest, .. } = results;
    let suite = &layout.suite;
    SuiteInfo {
        name: suite.name.clone(),
        description: suite.description.clone(),
        digest: manifest.suite_digest.clone(),
        seeds: suite.seeds.clone(),
        generator: manifest.generator.clone(),
        temperature: suite.temperature,
        top_p: suite.top_p,
        top_k: suite.top_k,
        attempts: suite.attempts,
        retry_identical: suite.retry_identical,
        retry_temperature: suite.retry_temperature,
        guards: suite.guards.name().to_owned(),
        on_failure: suite.on_failure.name().to_owned(),
        metrics: suite.profile.stamp().to_owned(),
        transformations: layout
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
fn overlap(results: &RunResults, units: &UnitStore, encoder: usize) -> Option<f64> {
    let lists = |encoder: usize, table: usize| {
        let own = |one: &&ScoreEntry| (one.encoder, one.table, one.variant) == (encoder, table, Variant::Original);
        units.lists(&results.scores.iter().find(own)?.unit)
    };
    let of_table = |table: usize| {
        let (full, form) = (lists(results.encoders.served(encoder), table), lists(encoder, table));
        let (shares, _, _) = overlaps(&[full.as_ref()], &[form.as_ref()], GATE_K, PERSISTENCE).ok()?;
        mean(&shares)
    };
    mean(
        &(0..results.layout.tables.len())
            .filter_map(of_table)
            .collect::<Vec<f64>>(),
    )
}

fn variant(results: &RunResults, units: &UnitStore, position: usize) -> Option<VariantInfo> {
    let encoders = &results.encoders;
    let planned = &encoders[position];
    let dimensions = planned.encoder.dimensions;
    let (form, prompts, bytes) = match &planned.variant {
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
        encoder: encoders.id(encoders.served(position)).to_owned(),
        form,
        prompts,
        bytes,
        overlap: overlap(results, units, position),
    })
}

fn encoder_infos(results: &RunResults, units: &UnitStore) -> Vec<EncoderInfo> {
    results
        .encoders
        .iter()
        .enumerate()
        .map(|(position, planned)| {
            let encoder = &planned.encoder;
            let space = encoder.vector_space.clone().unwrap_or_default();
            let (prompts, unused_prompts) = prompt_uses(&results.layout, &results.encoders, position);
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
                baseline: results.manifest.baseline == Some(position),
                variant: variant(results, units, position),
            }
        })
        .collect()
}

/// The prompts that were used for an encoder's texts, with the data sets of each, and the prompts
/// that were not used.
fn prompt_uses(layout: &Layout, encoders: &Encoders, encoder: usize) -> (Vec<PromptUse>, Vec<UnusedPrompt>) {
    if encoders.search(encoder) == Some(SearchForm::Lexical) {
        return Default::default();
    }
    let mut uses: Vec<PromptUse> = Vec::new();
    let mut all: Vec<&PromptSelection> = Vec::new();
    for table in &layout.tables {
        let Some(own) = table.prompts.get(encoder) else {
            continue;
        };
        for (part, chosen) in own.prompts.parts() {
            let Some(chosen) = chosen else { continue };
            all.push(chosen);
            let dataset = table.dataset.name().to_owned();
            let known = uses
                .iter_mut()
                .find(|one| one.part == part && one.source == chosen.source && one.role == chosen.role);
            match known {
                Some(known) => known.datasets.push(dataset),
                None => uses.push(PromptUse {
                    part,
                    source: chosen.source,
                    role: chosen.role.clone(),
                    text: chosen.sent.text().map(str::to_owned),
                    datasets: vec![dataset],
                }),
            }
        }
    }
    let unused = encoders
        .get(encoder)
        .map(|own| prompts::unused(&own.prompts.layers, &all));
    let unused = unused
        .into_iter()
        .flatten()
        .map(|(source, role)| UnusedPrompt { source, role });
    (uses, unused.collect())
}

fn dataset(layout: &Layout, table: &Table, scores: &[ScoreEntry]) -> DatasetInfo {
    let own = |score: &&ScoreEntry| layout.tables[score.table].dataset.name() == table.dataset.name();
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
        main_score: scores
            .iter()
            .find(own)
            .map(|scored| scored.score.main_key.clone())
            .unwrap_or_default(),
    }
}

fn score(layout: &Layout, encoders: &Encoders, scored: &ScoreEntry) -> ScoreRow {
    ScoreRow {
        encoder: encoders.id(scored.encoder).to_owned(),
        dataset: layout.tables[scored.table].dataset.name().to_owned(),
        transformation: layout.label(scored.variant).map(str::to_owned),
        seed: layout.seed(scored.variant),
        texts_digest: scored.texts.clone(),
        unit: scored.unit.clone(),
        main_score_key: scored.score.main_key.clone(),
        main_score: scored.score.main,
        scores: scored.score.all.clone(),
        items: scored.score.items,
        cached: scored.cached,
    }
}

fn checks(layout: &Layout, text_results: &TextResults) -> Vec<CheckRow> {
    let mut rows = Vec::new();
    for (t, planned) in layout.transformations.iter().enumerate() {
        for (s, seed) in layout.suite.seeds.iter().enumerate() {
            for table in &layout.tables {
                let results = results_of(layout, text_results, table, t, s);
                let results: Vec<&TextResult> = results.map(|(_, result)| result).collect();
                rows.push(check_row(&planned.label, *seed, table.dataset.name(), &results));
            }
        }
    }
    rows
}

/// The target languages of translations, with the number of texts of each data set and source
/// language.
fn draws(layout: &Layout, text_results: &TextResults) -> Vec<DrawnTarget> {
    let mut rows = Vec::new();
    for (t, planned) in layout.transformations.iter().enumerate() {
        let requested = layout.requests.of(planned);
        for (s, seed) in layout.suite.seeds.iter().enumerate() {
            for table in &layout.tables {
                let mut texts: BTreeMap<(Option<&str>, &str), u64> = BTreeMap::new();
                for request in requests(table, planned) {
                    let target = text_results
                        .get(t, s, request)
                        .and_then(|result| result.target.as_deref());
                    if let (Some(target), Some(own)) = (target, requested.get(request)) {
                        *texts.entry((own.language.as_deref(), target)).or_default() += 1;
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

fn check_row(transformation: &str, seed: u64, dataset: &str, results: &[&TextResult]) -> CheckRow {
    let ended = |outcome: Outcome| results.iter().filter(|one| one.outcome == outcome).count() as u64;
    let changed_by = |change: Change| results.iter().filter(|one| one.change == change).count() as u64;
    let measured: Vec<Measures> = results
        .iter()
        .filter(|one| is_transformed(one))
        .filter_map(|one| one.measures)
        .collect();
    let mean = |part: fn(&Measures) -> f64| {
        (!measured.is_empty()).then(|| measured.iter().map(part).sum::<f64>() / measured.len() as f64)
    };
    CheckRow {
        transformation: transformation.to_owned(),
        seed,
        dataset: dataset.to_owned(),
        texts: results.len() as u64,
        ok: ended(Outcome::Ok),
        recovered: ended(Outcome::Recovered),
        kept_original: ended(Outcome::KeptOriginal),
        failed: ended(Outcome::Failed),
        unchanged: Some(changed_by(Change::Unchanged)),
        near_copies: Some(changed_by(Change::NearCopy) + changed_by(Change::Contained)),
        failed_checks: count(results.iter().flat_map(|one| one.failed_checks.iter())),
        retried_checks: count(results.iter().flat_map(|one| one.retried_checks.iter())),
        first_checks: count(results.iter().flat_map(|one| one.first_checks.iter())),
        guards: count(results.iter().flat_map(|one| one.guards.iter())),
        guards_untold: count(results.iter().flat_map(|one| one.undecided_guards.iter())),
        edit_distance: mean(|m| m.edit_distance),
        jaccard: mean(|m| m.jaccard),
        length_ratio: mean(|m| m.length_ratio),
    }
}

fn count<'a>(names: impl Iterator<Item = &'a &'static str>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for name in names {
        *counts.entry((*name).to_owned()).or_default() += 1;
    }
    counts
}

fn is_transformed(result: &TextResult) -> bool {
    matches!(result.outcome, Outcome::Ok | Outcome::Recovered)
}
