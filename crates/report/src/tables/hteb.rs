//! HTEB: original texts against the mean of the axes.

use std::collections::BTreeSet;

use super::{Cell, TableColumn, TableRow, Tables, column, mean, plain, sum};
use crate::{
    Report,
    format::fine3,
    profile::{Axis, Grid, LanguageGroup, Level, RankStability, Scope, ScopeProfile, encoders},
    stats,
};

pub(super) fn add(tables: &mut Tables, grid: &Grid, report: &Report) {
    tables.lacks(
        "HTEB, table 2",
        "it shows human ratings of transformations: `isomer ratings` makes it from a run with a judge and a CSV of ratings",
    );
    rankings(tables, grid, report);
    if !grid.columns.iter().any(|column| column.axis.in_total()) {
        tables.lacks(
            "HTEB, tables 14 to 21",
            "only controls or noise were run; a total needs a transformation of words and style, length or language",
        );
        return;
    }
    for (other, axes, datasets) in [(false, 14, "17 to 19"), (true, 15, "20 and 21")] {
        let own = grid.of_language(if other {
            LanguageGroup::Other
        } else {
            LanguageGroup::English
        });
        if own.is_empty() {
            let why = match other {
                false => "no data set that is known to be in English is in the run",
                true => "no data set is known to be in a language other than English",
            };
            tables.lacks(&format!("HTEB, tables {axes} and {datasets}"), why);
            continue;
        }
        let part = grid.select(&own);
        by_axis(tables, &part, other);
        by_dataset(tables, &part, other);
    }
    languages(tables, grid, report);
}

/// A table's columns: one for each language group of the run's data sets, with the group's name.
fn sides<'a>(grid: &Grid, report: &'a Report) -> Vec<(&'static str, &'a ScopeProfile)> {
    let scopes = &report.profile.scopes;
    if scopes.len() > 1 {
        let parts = scopes.iter().filter(|one| one.scope != Scope::All);
        return parts.map(|own| (own.scope.title(), own)).collect();
    }
    // With one language group only, the scope of all data sets gets the group's name.
    let name = grid.languages.first().map_or(Scope::All, |group| Scope::from(*group));
    scopes.first().map(|all| (name.title(), all)).into_iter().collect()
}

/// Tables 3 and 4.
fn rankings(tables: &mut Tables, grid: &Grid, report: &Report) {
    let sides = sides(grid, report);
    let Some((_, first)) = sides.first() else { return };
    let heads = |first: &str| -> Vec<TableColumn> {
        let sides = sides
            .iter()
            .map(|(name, own)| column("", &format!("{name} (n = {})", own.n())));
        std::iter::once(column("", first)).chain(sides).collect()
    };
    if first.reliability.is_empty() {
        tables.lacks("HTEB, table 3", "takes three encoders and two data sets");
    } else {
        let axes = first.reliability.iter().filter(|one| one.quantity.level == Level::Axis);
        let rows = axes.map(|axis| {
            let cell = |own: &ScopeProfile| {
                let found = own.reliability.iter().find(|one| one.quantity == axis.quantity);
                found
                    .and_then(|one| one.median)
                    .map_or_else(|| Cell::text("–"), Cell::change)
            };
            let mut cells = vec![Cell::text(title(&axis.quantity.name))];
            cells.extend(sides.iter().map(|(_, own)| cell(own)));
            plain(cells)
        });
        tables.add(
            "hteb-3",
            "HTEB, table 3",
            "Split-half reliability of the axes: Spearman's correlation between the rankings of encoders on two \
             task-stratified halves of the data sets, median of 1000 splits."
                .to_owned(),
            heads("Axis"),
            rows.collect(),
        );
    }
    if first.rank_stability.is_empty() {
        tables.lacks("HTEB, table 4", "one encoder: there is no ranking");
        return;
    }
    let mut columns = heads("Transformation");
    columns.extend(sides.iter().map(|(name, _)| column("Order changes", name)));
    let rows = first.rank_stability.iter().map(|one| {
        let found = |own: &'_ ScopeProfile| -> Option<RankStability> {
            let mut all = own.rank_stability.iter();
            all.find(|other| other.quantity == one.quantity).cloned()
        };
        let cell = |own: &ScopeProfile| match found(own).and_then(|found| Some((found.tau?, found.sd))) {
            Some((tau, Some(sd))) => Cell::shown(format!("{} ± {}", fine3(tau), fine3(sd)), tau),
            Some((tau, None)) => Cell::shown(fine3(tau), tau),
            None => Cell::text("–"),
        };
        let changed = |own: &ScopeProfile| match found(own).and_then(|found| Some((found.reordered?, found.n))) {
            Some((reordered, n)) if n > 0 => Cell::shown(format!("{reordered} of {n}"), reordered as f64 / n as f64),
            _ => Cell::text("–"),
        };
        let name = match one.quantity.level {
            Level::Axis => title(&one.quantity.name),
            Level::Total => "Overall".to_owned(),
            _ => format!("\u{2003}{}", one.quantity.name),
        };
        let mut cells = vec![Cell::text(name)];
        cells.extend(sides.iter().map(|(_, own)| cell(own)));
        cells.extend(sides.iter().map(|(_, own)| changed(own)));
        match one.quantity.level {
            Level::Axis | Level::Total => sum(cells),
            _ => plain(cells),
        }
    });
    tables.add(
        "hteb-4",
        "HTEB, table 4",
        format!(
            "Kendall's τ-b between original and transformed rankings of {} encoders, per axis and transformation: mean{} over data \
             sets. Order changes: data sets on which at least two encoders change order. Data sets on which all encoders score alike \
             have no τ and are left out.",
            grid.encoders.len(),
            if first.rank_stability.iter().any(|one| one.sd.is_some()) {
                " ± sample standard deviation"
            } else {
                ""
            }
        ),
        columns,
        rows.collect(),
    );
}

fn title(axis: &str) -> String {
    let known = Axis::SCORED.into_iter().find(|one| one.name() == axis);
    known.map_or_else(|| axis.to_owned(), |axis| short_title(axis).to_owned())
}

/// The papers' headings.
fn short_title(axis: Axis) -> &'static str {
    match axis {
        Axis::Lexical => "Lexical/Stylistic",
        Axis::Length => "Length",
        Axis::Language => "Language",
        Axis::Augmentation | Axis::Noise | Axis::Adversarial => axis.title(),
    }
}

/// Tables 14 and 15.
fn by_axis(tables: &mut Tables, part: &Grid, other: bool) {
    let found = encoders(part);
    let axes: Vec<Axis> = part.axes().into_iter().filter(|axis| axis.in_total()).collect();
    let mut columns = vec![column("", "Model"), column("", "Original")];
    columns.extend(axes.iter().map(|axis| column("HTEB", short_title(*axis))));
    columns.push(column("HTEB", "Total"));
    let mut sums = vec![Vec::new(); axes.len() + 2];
    let mut rows: Vec<TableRow> = Vec::new();
    for encoder in &found {
        let moved = axes
            .iter()
            .filter_map(|axis| encoder.axes.iter().find(|one| one.axis == *axis));
        let mut values: Vec<f64> = moved.map(|one| one.moved.mean).collect();
        values.push(encoder.total.as_ref().map_or(f64::NAN, |total| total.mean));
        sums[0].push(encoder.original);
        for (sum, value) in sums[1..].iter_mut().zip(&values) {
            sum.push(*value);
        }
        let mut cells = vec![Cell::text(&encoder.encoder), Cell::score(encoder.original)];
        cells.extend(values.iter().map(|value| Cell::with_change(*value, encoder.original)));
        rows.push(plain(cells));
    }
    let means: Vec<f64> = sums.into_iter().map(mean).collect();
    let mut cells = vec![Cell::text("Average"), Cell::score(means[0])];
    cells.extend(means[1..].iter().map(|value| Cell::with_change(*value, means[0])));
    rows.push(sum(cells));
    let (id, paper, which) = match other {
        false => ("hteb-14", "HTEB, table 14", "English data"),
        true => ("hteb-15", "HTEB, table 15", "multilingual data"),
    };
    let all = if axes.len() == 3 {
        String::new()
    } else {
        format!(
            " This run has {} of the three axes: totals are not comparable with the paper's.",
            axes.len()
        )
    };
    tables.add(
        id,
        paper,
        format!(
            "Scores by robustness axis, {which} ({}, {} runs). HTEB's total is the mean of the axes; in brackets the \
             difference to the original.{all}",
            crate::profile::counted(part.members().len(), part.datasets.len()),
            part.seeds.len()
        ),
        columns,
        rows,
    );
}

/// Tables 17 to 21.
fn by_dataset(tables: &mut Tables, part: &Grid, other: bool) {
    let found = encoders(part);
    let mut columns = vec![column("", "Task"), column("", "Dataset")];
    for encoder in &part.encoders {
        columns.extend([column(encoder, "Orig."), column(encoder, "HTEB")]);
    }
    let mut rows = Vec::new();
    for (d, name) in part.datasets.iter().enumerate() {
        let mut cells = vec![Cell::text(abbreviation(&part.tasks[d])), Cell::text(name)];
        for own in found.iter().filter_map(|encoder| encoder.datasets.get(d)) {
            cells.push(Cell::score(own.original));
            cells.push(
                own.total
                    .as_ref()
                    .map_or_else(Cell::default, |total| Cell::with_sd(total.mean, total.sd)),
            );
        }
        rows.push(plain(cells));
    }
    let mut cells = vec![Cell::default(), Cell::text("Average")];
    for encoder in &found {
        cells.push(Cell::score(encoder.original));
        // The paper's ± of an average is the mean of the rows' deviations.
        let deviations: Option<Vec<f64>> = encoder.datasets.iter().map(|own| own.total.as_ref()?.sd).collect();
        let sd = deviations.and_then(|all| stats::mean(&all));
        cells.push(
            encoder
                .total
                .as_ref()
                .map_or_else(Cell::default, |total| Cell::with_sd(total.mean, sd)),
        );
    }
    rows.push(sum(cells));
    let (id, paper, which) = match other {
        false => ("hteb-17", "HTEB, tables 17 to 19", "English"),
        true => ("hteb-20", "HTEB, tables 20 and 21", "Multilingual"),
    };
    tables.add(
        id,
        paper,
        format!(
            "{which} data sets: original and axis-balanced HTEB scores, {} runs, ± the sample standard deviation over runs. \
             The average's ± is the mean of the rows', as in the paper. CLS classification, CLU clustering, PC pair \
             classification, RR reranking, RT retrieval, STS semantic textual similarity, Sum summarisation, BT bitext, \
             CLSD cross-lingual semantic discrimination, GR graded ranking.",
            part.seeds.len()
        ),
        columns,
        rows,
    );
}

fn abbreviation(task: &str) -> &str {
    match task {
        "classification" => "CLS",
        "clustering" => "CLU",
        "pair-classification" => "PC",
        "reranking" => "RR",
        "retrieval" => "RT",
        "sts" => "STS",
        "summarisation" => "Sum",
        "bitext" => "BT",
        "clsd" => "CLSD",
        "graded-ranking" => "GR",
        other => other,
    }
}

/// Table 16: a dataset in several languages, side by side. Datasets of unknown language are
/// skipped.
fn languages(tables: &mut Tables, grid: &Grid, report: &Report) {
    let mut families: Vec<(&str, Vec<usize>)> = Vec::new();
    let spoken = |d: usize| {
        report
            .datasets
            .get(d)
            .map(|one| one.languages.as_slice())
            .unwrap_or_default()
    };
    for (d, name) in grid.datasets.iter().enumerate().filter(|(d, _)| !spoken(*d).is_empty()) {
        let stem = stem(name);
        match families.iter_mut().find(|(other, _)| *other == stem) {
            Some((_, own)) => own.push(d),
            None => families.push((stem, vec![d])),
        }
    }
    // Parts of a data set in the same language do not count as languages.
    families
        .retain(|(_, own)| own.iter().map(|d| spoken(*d)).collect::<BTreeSet<_>>().len() == own.len() && own.len() > 1);
    if families.is_empty() {
        tables.lacks("HTEB, table 16", "no data set is in the run in more than one language");
    }
    for (stem, own) in families {
        let found = encoders(&grid.select(&own));
        let mut columns = vec![column("", "Model")];
        for d in &own {
            let name = &grid.datasets[*d];
            columns.extend(["Original", "HTEB", "Δ"].map(|heading| column(name, heading)));
        }
        let mut sums = vec![Vec::new(); 3 * own.len()];
        let mut rows = Vec::new();
        for encoder in &found {
            let values: Vec<f64> = encoder
                .datasets
                .iter()
                .flat_map(|one| {
                    let now = one.total.as_ref().map_or(f64::NAN, |total| total.mean);
                    [one.original, now, now - one.original]
                })
                .collect();
            for (sum, value) in sums.iter_mut().zip(&values) {
                sum.push(*value);
            }
            rows.push(plain(cells(&encoder.encoder, &values)));
        }
        let averages: Vec<f64> = sums.into_iter().map(mean).collect();
        rows.push(sum(cells("Total (avg)", &averages)));
        tables.add(
            &format!("hteb-16-{}", stem.to_lowercase()),
            "HTEB, table 16",
            format!(
                "{stem} in {} languages: original and axis-balanced HTEB score, Δ = HTEB − original. The paper groups \
                 models by the languages they were made for; that is not known of the encoders here.",
                own.len()
            ),
            columns,
            rows,
        );
    }
}

fn cells(name: &str, values: &[f64]) -> Vec<Cell> {
    let mut cells = vec![Cell::text(name)];
    cells.extend(
        values
            .chunks(3)
            .flat_map(|three| [Cell::score(three[0]), Cell::score(three[1]), Cell::change(three[2])]),
    );
    cells
}

/// A dataset's name without its language: `STSBenchmark` of `STSBenchmark (deu)`.
fn stem(name: &str) -> &str {
    match name.rsplit_once(" (") {
        Some((stem, rest)) if rest.ends_with(')') => stem,
        _ => name,
    }
}
