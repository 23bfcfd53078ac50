//! Results of separation for the gate and the report.

use super::measure::SeparationEntry;
use crate::{
    gate::{BoundGate, Separations},
    report::{EncoderSeparation, SeparationCoverage, SeparationReport, SeparationRow},
    run::plan::{Encoders, Layout, rounds::Round, transformations::PlannedTransformation},
    separation::{Comparison, Kind, MOST_WORDS, RESOLUTION, Stratum, Tally, tally},
};

/// Bounds in the report are those of a two-sided interval at 95 %.
const ALPHA: f64 = 0.025;

/// Separation for each judged encoder and each rule on it, over the data sets and seeds of the
/// round.
pub(crate) fn of_rules(
    layout: &Layout,
    gate: &BoundGate,
    separations: &[SeparationEntry],
    round: &Round,
) -> Separations {
    let mut all = Separations::new();
    for &encoder in &gate.judged {
        let own = of_encoder(separations, encoder);
        for (rule, kind, datasets) in gate.separations() {
            let compared = own.iter().filter(|one| {
                let counted = layout
                    .transformations
                    .get(one.transformation)
                    .is_some_and(PlannedTransformation::keeps_language);
                let within =
                    datasets.contains(&one.table) && round.tables.contains(&one.table) && one.seed < round.seeds;
                counted && within && kind.is_none_or(|kind| one.triple.kind == kind)
            });
            let sum = tally(compared, layout.first_seed(), |text| layout.corpus.get(text));
            all.insert((encoder, rule), sum);
        }
    }
    all
}

fn of_encoder(separations: &[SeparationEntry], encoder: usize) -> Vec<Comparison> {
    let own = separations.iter().filter(|one| one.encoder == encoder);
    own.flat_map(SeparationEntry::comparisons).collect()
}

/// The report on separation; `None` if separation is not measured.
pub(crate) fn report(
    layout: &Layout,
    encoders: &Encoders,
    separations: &[SeparationEntry],
) -> Option<SeparationReport> {
    let settings = layout.suite.separation.settled()?;
    let counted: Vec<String> = layout
        .transformations
        .iter()
        .filter(|planned| planned.keeps_language())
        .map(|planned| planned.label.clone())
        .collect();
    let coverage = layout.tables.iter().flat_map(|table| {
        settings.kinds.iter().map(|kind| SeparationCoverage {
            dataset: table.dataset.name().to_owned(),
            kind: *kind,
            texts: table
                .copies
                .chosen
                .iter()
                .filter(|one| one.copies.iter().any(|(own, _)| own == kind))
                .count() as u64,
            asked: table.copies.counts.get(kind).cloned(),
        })
    });
    Some(SeparationReport {
        kinds: settings.kinds.clone(),
        seed: layout.first_seed(),
        texts_per_dataset: settings.texts as u64,
        most_words: MOST_WORDS as u64,
        resolution: RESOLUTION,
        transformations: counted,
        coverage: coverage.collect(),
        encoders: (0..encoders.len())
            .filter(|encoder| encoders.search(*encoder).is_none())
            .map(|encoder| {
                let own = of_encoder(separations, encoder);
                of_one(layout, encoders.id(encoder), &own, &settings.kinds)
            })
            .collect(),
    })
}

fn of_one(layout: &Layout, encoder: &str, all: &[Comparison], kinds: &[Kind]) -> EncoderSeparation {
    let row = |of: &dyn Fn(&Comparison) -> bool| {
        let sum = tally(all.iter().filter(|one| of(one)), layout.first_seed(), |text| {
            layout.corpus.get(text)
        });
        row(&sum)
    };
    let counted = |one: &Comparison| {
        layout
            .transformations
            .get(one.transformation)
            .is_some_and(PlannedTransformation::keeps_language)
    };
    let mut cells = Vec::new();
    let mut transformations = Vec::new();
    for (t, planned) in layout
        .transformations
        .iter()
        .enumerate()
        .filter(|(_, planned)| planned.keeps_meaning())
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
        encoder: encoder.to_owned(),
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
        datasets: layout
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
        cut: sum.cut,
        margin: sum.margin,
        overlap_alone: sum.overlap_alone,
        nearer_than_change: sum.nearer_than_change,
    }
}
