//! The file of ratings: a row for each rewrite, and a column for each rater.

use super::{RatingsError, rewrites::Population};

/// Column of the ids.
pub(super) const ID: &str = "id";
/// Columns of a sheet that are not ratings.
const TEXTS: [&str; 4] = [ID, "transformation", "original", "rewrite"];

/// Ratings by people.
pub(super) struct RatingTable {
    /// Names of the raters, in the order of their columns.
    pub(super) raters: Vec<String>,
    /// For each rewrite of the population, a rating by each rater; NaN without one.
    pub(super) ratings: Vec<Vec<f64>>,
}

pub(super) fn read(csv: &[u8], population: &Population<'_>) -> Result<RatingTable, RatingsError> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(csv);
    let broken = |error: csv::Error| RatingsError::File(format!("this is not CSV: {error}"));
    let header = reader.headers().map_err(broken)?.clone();
    // Some spreadsheets put a byte order mark first.
    let names: Vec<&str> = header.iter().map(|name| name.trim_start_matches('\u{feff}')).collect();
    let id = names.iter().position(|name| *name == ID).ok_or_else(|| {
        RatingsError::File(format!(
            "the file has no column `{ID}`; make the sheet with `isomer ratings sheet`, and keep its column `{ID}`"
        ))
    })?;
    let columns: Vec<usize> = (0..names.len()).filter(|at| !TEXTS.contains(&names[*at])).collect();
    for (at, column) in columns.iter().enumerate() {
        if columns[..at].iter().any(|earlier| names[*earlier] == names[*column]) {
            return Err(RatingsError::File(format!(
                "two columns are called {:?}; each rater has one column",
                names[*column]
            )));
        }
    }
    let positions = population.positions();
    let mut ratings = vec![vec![f64::NAN; columns.len()]; population.rewrites.len()];
    let mut seen = vec![false; population.rewrites.len()];
    for record in reader.records() {
        let record = record.map_err(broken)?;
        let line = record.position().map_or(0, csv::Position::line);
        let refused = |why: String| RatingsError::Line { line, why };
        let own = record.get(id).unwrap_or_default();
        let position = *positions.get(own).ok_or_else(|| {
            refused(format!(
                "the run has no rewrite {own:?} that its judge was asked about; rate the sheet of this run"
            ))
        })?;
        if std::mem::replace(&mut seen[position], true) {
            return Err(refused(format!("{own} has a second row; give each rewrite one")));
        }
        for (place, column) in ratings[position].iter_mut().zip(&columns) {
            let cell = record.get(*column).unwrap_or_default();
            if !cell.is_empty() {
                *place = rating(cell, population).map_err(|why| refused(format!("{:?} {why}", names[*column])))?;
            }
        }
    }
    // A rater whose column stayed empty has not rated.
    let rated: Vec<usize> = (0..columns.len())
        .filter(|at| ratings.iter().any(|row| !row[*at].is_nan()))
        .collect();
    if rated.is_empty() {
        return Err(RatingsError::File(
            "no rewrite has a rating; every column besides the sheet's own holds the ratings of one person".to_owned(),
        ));
    }
    let chosen = |row: Vec<f64>| rated.iter().map(|at| row[*at]).collect();
    Ok(RatingTable {
        raters: rated.iter().map(|at| names[columns[*at]].to_owned()).collect(),
        ratings: ratings.into_iter().map(chosen).collect(),
    })
}

fn rating(cell: &str, population: &Population<'_>) -> Result<f64, String> {
    let (low, high) = population.scale.range();
    let rating: f64 = cell
        .parse()
        .map_err(|_| format!("has {cell:?}, which is not a number; a rating is from {low} to {high}"))?;
    if rating >= f64::from(low) && rating <= f64::from(high) {
        Ok(rating)
    } else {
        Err(format!("has {cell}; a rating is from {low} to {high}"))
    }
}
