//! The file that raters fill in.

use super::{JudgedRun, RatingsError, import::ID, rewrites::Population};
use crate::{stats::prediction_powered::allocation, terms::Scale};

/// A sheet's size and scale.
#[derive(Debug, Clone, PartialEq)]
pub struct SheetOptions {
    pub scale: Scale,
    /// Lowest mean rating of a faithful rewrite; absent: the run's.
    pub accept: Option<f64>,
    pub rewrites: u32,
    /// Number of columns for raters.
    pub raters: u32,
}

/// A file for raters.
#[derive(Debug, Clone, PartialEq)]
pub struct Sheet {
    /// The file.
    pub csv: Vec<u8>,
    /// Rewrites in it that the judge accepts, and others.
    pub drawn: [u64; 2],
    /// Rewrites of the run that the judge accepts, and others.
    pub rewrites: [u64; 2],
    /// Lowest rating of a faithful rewrite.
    pub accept: f64,
}

/// Draws rewrites at random, at least five of those that the judge accepts and of the others, and
/// writes them as CSV. The raters do not see the judge's ratings.
///
/// # Errors
/// If the run has no judge or no texts, or the threshold is out of range.
pub fn sheet(run: JudgedRun<'_>, options: &SheetOptions) -> Result<Sheet, RatingsError> {
    let population = Population::of(run, options.scale, options.accept)?;
    let strata = population.strata();
    let units = [0, 1].map(|s| strata[s].len() as u64);
    let drawn = allocation(units, u64::from(options.rewrites));
    let mut chosen: Vec<usize> = strata
        .iter()
        .zip(drawn)
        .flat_map(|(own, drawn)| own.iter().take(usize::try_from(drawn).unwrap_or(usize::MAX)))
        .copied()
        .collect();
    // In the order of the draw, a sheet that is rated in part is still a random draw.
    chosen.sort_unstable();
    let failed = |error: csv::Error| RatingsError::File(format!("the sheet cannot be written: {error}"));
    let mut writer = csv::Writer::from_writer(Vec::new());
    // Quality is rated against the purpose of the transformation.
    let purpose = options.scale == Scale::Quality;
    let mut header = vec![ID.to_owned()];
    header.extend(purpose.then(|| "transformation".to_owned()));
    header.extend(["original".to_owned(), "rewrite".to_owned()]);
    header.extend((1..=options.raters).map(|rater| format!("rater_{rater}")));
    writer.write_record(&header).map_err(failed)?;
    for position in chosen {
        let one = &population.rewrites[position];
        let mut row = vec![one.id.clone()];
        row.extend(purpose.then(|| cell(&one.judged.transformation)));
        row.extend([cell(one.original), cell(one.text)]);
        row.resize(header.len(), String::new());
        writer.write_record(&row).map_err(failed)?;
    }
    let csv = writer
        .into_inner()
        .map_err(|error| RatingsError::File(format!("the sheet cannot be written: {error}")))?;
    Ok(Sheet {
        csv,
        drawn,
        rewrites: units,
        accept: population.accept,
    })
}

/// A text that no spreadsheet takes for a formula.
fn cell(text: &str) -> String {
    if text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        format!("'{text}")
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_looks_like_a_formula_is_quoted() {
        assert_eq!(cell("=1+1"), "'=1+1");
        assert_eq!(cell("1 = 1"), "1 = 1");
    }
}
