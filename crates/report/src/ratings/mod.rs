//! `isomer ratings`: people rate a few rewrites of a check, and the judge's ratings of all rewrites
//! do the rest.
//!
//! * `input`: a run with its options. `rewrites`: the rewrites that the judge was asked about, in
//!   the order in which people rate them. `sheet`: the file that they fill in. `import`: the file
//!   that comes back.
//! * `measure`: shares, agreement and drift. `headline`, `tables`, `markdown`, `html`: the output
//!   formats.
//!
//! A rewrite is *faithful* if the mean of its raters reaches the threshold. The share of faithful
//! rewrites among all of them has an exact lower bound whatever the judge's ratings are worth
//! (`isomer_stats::prediction_powered`). Its only condition is that the rated rewrites were drawn
//! at random. The order is therefore a function of the run's seed and the texts, and a rewrite that
//! was passed over counts as not faithful.

mod headline;
mod html;
mod import;
mod input;
mod markdown;
mod measure;
mod model;
mod rewrites;
mod sheet;
mod tables;

pub use input::{JudgedRun, RatingOptions, RatingsError};
pub use model::{Agreement, FaithfulShare, HumanRatings, JudgeThreshold, RATINGS_SCHEMA, RaterTable, VerdictCounts};
pub use sheet::{Sheet, SheetOptions, sheet};

/// Reads the ratings of people from CSV and measures them beside the judge's.
///
/// # Errors
/// If the run has no judge or no texts, an option is out of range, or the file is broken, names
/// rewrites that the run lacks, or has no rating.
pub fn ratings(run: JudgedRun<'_>, csv: &[u8], options: &RatingOptions) -> Result<HumanRatings, RatingsError> {
    if !(options.confidence > 0.0 && options.confidence < 1.0) {
        return Err(RatingsError::Option {
            option: "confidence",
            given: options.confidence.to_string(),
            accepted: "a level between 0 and 1, both exclusive".to_owned(),
        });
    }
    let population = rewrites::Population::of(run, options.scale, options.accept)?;
    let imported = import::read(csv, &population)?;
    measure::ratings(run, &population, &imported, options)
}

/// All files, with name and content.
///
/// # Errors
/// If a format cannot be rendered, which is an internal error; the message gives the reason.
pub fn files(ratings: &HumanRatings) -> Result<Vec<(&'static str, Vec<u8>)>, String> {
    let mut json = serde_json::to_vec_pretty(ratings).map_err(|error| format!("ratings.json: {error}"))?;
    json.push(b'\n');
    Ok(vec![
        ("ratings.json", json),
        ("ratings.md", markdown::render(ratings).into_bytes()),
        ("ratings.html", html::render(ratings)?.into_bytes()),
    ])
}

/// JSON Schema (draft 2020-12) of `ratings.json`; `eval-svc/schema/ratings-1.json` is a copy of it.
pub fn json_schema() -> serde_json::Value {
    crate::schema::of::<HumanRatings>("Ratings of rewrites by people", "urn:isomer:ratings:1", RATINGS_SCHEMA)
}
