//! The papers' tables, in the papers' form, from the numbers of a report.
//!
//! PTEB compares original texts with their paraphrases; HTEB takes the mean of its axes. A table of
//! English data holds data sets that are known to be English and no others, and likewise one of
//! multilingual data. A table whose transformation, baseline, task or language is not in the run is
//! left out, and the report says so ([`Tables::missing`]).

mod analysis;
mod hteb;
mod pteb;
mod targets;
mod wordings;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    DatasetInfo, Report,
    format::{fine, signed_fine},
};
use crate::{
    profile::{Column, Grid, LanguageGroup, NotComputed},
    terms::ChannelDose,
};

/// A table as shown in reports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Table {
    /// Short name, e.g. `hteb-14`.
    pub id: String,
    /// The table it corresponds to, e.g. `HTEB, table 14`.
    pub paper: String,
    /// Content of the table, and how it differs from the paper's.
    pub caption: String,
    /// Columns, the rows' names first.
    pub columns: Vec<TableColumn>,
    /// Rows, each with one cell per column.
    pub rows: Vec<TableRow>,
}

/// Heading of a column, and how it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TableColumn {
    /// Common property of several neighbours, e.g. their encoder; empty if the column stands alone.
    pub group: String,
    /// Its own heading.
    pub name: String,
}

/// Role of a row in its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RowKind {
    /// A row of its own.
    Plain,
    /// Goes with the row above it.
    Continued,
    /// An average or a total.
    Sum,
}

/// One line of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TableRow {
    /// Role in the table.
    pub kind: RowKind,
    /// One cell per column.
    pub cells: Vec<Cell>,
}

/// Text or number at one place of a table.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// As it is shown.
    pub text: String,
    /// Its first number, not rounded.
    pub value: Option<f64>,
}

impl Cell {
    fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            value: None,
        }
    }

    fn shown(text: String, value: f64) -> Self {
        Self {
            text,
            value: value.is_finite().then_some(value),
        }
    }

    /// Two decimals, as both papers have it.
    fn score(value: f64) -> Self {
        Self::shown(fine(value), value)
    }

    /// A difference with its sign.
    fn change(value: f64) -> Self {
        Self::shown(signed_fine(value), value)
    }

    /// A score with its difference in brackets, as in HTEB's tables 14 and 15.
    fn with_change(value: f64, original: f64) -> Self {
        Self::shown(format!("{} ({})", fine(value), signed_fine(value - original)), value)
    }

    /// A mean with its deviation; a mean alone where there is none.
    fn with_sd(mean: f64, sd: Option<f64>) -> Self {
        match sd {
            Some(sd) => Self::shown(format!("{} ± {}", fine(mean), fine(sd)), mean),
            None => Self::score(mean),
        }
    }
}

fn column(group: &str, name: &str) -> TableColumn {
    TableColumn {
        group: group.to_owned(),
        name: name.to_owned(),
    }
}

fn plain(cells: Vec<Cell>) -> TableRow {
    TableRow {
        kind: RowKind::Plain,
        cells,
    }
}

fn continued(cells: Vec<Cell>) -> TableRow {
    TableRow {
        kind: RowKind::Continued,
        cells,
    }
}

fn sum(cells: Vec<Cell>) -> TableRow {
    TableRow {
        kind: RowKind::Sum,
        cells,
    }
}

#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) tables: Vec<Table>,
    /// Tables that cannot be made from this run, and why.
    pub(super) missing: Vec<NotComputed>,
}

impl Tables {
    fn add(&mut self, id: &str, paper: &str, caption: String, columns: Vec<TableColumn>, rows: Vec<TableRow>) {
        self.tables.push(Table {
            id: id.to_owned(),
            paper: paper.to_owned(),
            caption,
            columns,
            rows,
        });
    }

    fn lacks(&mut self, what: &str, why: &str) {
        self.missing.push(NotComputed {
            what: what.to_owned(),
            why: why.to_owned(),
        });
    }
}

/// Every table that this report's numbers allow.
pub(super) fn tables(report: &Report) -> Tables {
    let mut tables = Tables::default();
    let grid = grid(report);
    pteb::add(&mut tables, &grid, report);
    wordings::add(&mut tables, &grid, report);
    hteb::add(&mut tables, &grid, report);
    analysis::add(&mut tables, &grid, report);
    targets::add(&mut tables, report);
    unknown(&mut tables, &grid);
    tables.tables.sort_by_key(|table| place(&table.id));
    tables
}

/// Sort key: PTEB's tables first, each paper's by their numbers.
fn place(id: &str) -> (bool, u32) {
    let number = id.split('-').nth(1).and_then(|number| number.parse().ok());
    (!id.starts_with("pteb"), number.unwrap_or(u32::MAX))
}

/// The grid of a report's scores, without variants of encoders.
fn grid(report: &Report) -> Grid {
    let position = |names: &[String], name: &str| names.iter().position(|one| one == name);
    let encoders: Vec<String> = report.profile.encoders.iter().map(|one| one.encoder.clone()).collect();
    let datasets: Vec<String> = report.datasets.iter().map(|one| one.name.clone()).collect();
    let columns: Vec<Column> = report
        .suite
        .transformations
        .iter()
        .map(|one| Column {
            noise: ChannelDose::of(&one.transformation),
            ..Column::new(&one.label, one.axis)
        })
        .collect();
    let mut grid = Grid::new(encoders, datasets, columns, report.suite.seeds.clone());
    for row in &report.scores {
        let (Some(e), Some(d)) = (
            position(&grid.encoders, &row.encoder),
            position(&grid.datasets, &row.dataset),
        ) else {
            continue;
        };
        let points = row.main_score * 100.0;
        match (&row.transformation, row.seed) {
            (None, _) => grid.original[e][d] = points,
            (Some(label), Some(seed)) => {
                let t = grid.columns.iter().position(|column| column.label == *label);
                let s = grid.seeds.iter().position(|one| *one == seed);
                if let (Some(t), Some(s)) = (t, s) {
                    grid.transformed[e][d][t][s] = points;
                }
            }
            (Some(_), None) => {}
        }
    }
    for (group, own) in grid.groups.iter_mut().zip(&report.datasets) {
        if !own.group.is_empty() {
            group.clone_from(&own.group);
        }
    }
    grid.variants = report.encoders.iter().map(|one| one.variant.is_some()).collect();
    grid.tasks = report.datasets.iter().map(|one| one.task.name().to_owned()).collect();
    grid.languages = report.datasets.iter().map(DatasetInfo::language_group).collect();
    grid.without_variants()
}

/// Names the data sets that are in no table of a language group, since their language is unknown.
fn unknown(tables: &mut Tables, grid: &Grid) {
    let names: Vec<&str> = grid
        .of_language(LanguageGroup::Unknown)
        .into_iter()
        .map(|d| grid.datasets[d].as_str())
        .collect();
    if !names.is_empty() {
        tables.lacks(
            "Data sets of unknown language in the tables of English and of multilingual data",
            &format!(
                "the language of {} is unknown; set it in the suite with languages = [\"…\"] of the data set",
                names.join(", ")
            ),
        );
    }
}

fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    crate::stats::mean(&values.into_iter().collect::<Vec<f64>>()).unwrap_or(f64::NAN)
}
