//! A report in the formats of other tools: a bill of materials (CycloneDX), the section of a model
//! card and the scores of a model's page (Hugging Face).

mod cyclonedx;
mod eval_results;
mod model_card;

use crate::{
    evidence::interval::DeltaInterval,
    profile::{EncoderProfile, Moved},
};

pub use cyclonedx::bom;
pub use eval_results::{EvalResults, eval_results};
pub use model_card::model_card;

/// A number of an encoder over all data sets.
struct EncoderFigure<'a> {
    /// The variant of the texts: `original`, `total`, an axis or a transformation.
    of: String,
    /// The score, or the change in points.
    value: f64,
    /// Whether it is a difference.
    moved: bool,
    /// Its interval for a draw of other data sets or other items.
    interval: Option<(&'a DeltaInterval, &'static str)>,
}

/// The intervals of a difference, each with the unit that was drawn.
fn intervals(moved: &Moved) -> impl Iterator<Item = (&DeltaInterval, &'static str)> {
    let datasets = moved.intervals.datasets.as_ref().map(|one| (one, "data sets"));
    let items = moved.intervals.items.as_ref().map(|one| (one, "items"));
    datasets.into_iter().chain(items)
}

/// The numbers of an encoder: its score on the original texts, then its changes.
fn measured(profile: &EncoderProfile) -> Vec<EncoderFigure<'_>> {
    let mut all = vec![EncoderFigure {
        of: "original".to_owned(),
        value: profile.original,
        moved: false,
        interval: None,
    }];
    let total = profile.total.iter().map(|moved| ("total".to_owned(), moved));
    let axes = profile
        .axes
        .iter()
        .map(|axis| (axis.axis.name().to_owned(), &axis.moved));
    let transformations = profile
        .transformations
        .iter()
        .map(|one| (one.transformation.clone(), &one.moved));
    for (of, moved) in total.chain(axes).chain(transformations) {
        let mut said = intervals(moved).map(Some).collect::<Vec<_>>();
        if said.is_empty() {
            said.push(None);
        }
        all.extend(said.into_iter().map(|interval| EncoderFigure {
            of: of.clone(),
            value: moved.delta,
            moved: true,
            interval,
        }));
    }
    all
}
