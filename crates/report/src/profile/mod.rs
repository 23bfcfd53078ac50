//! The robustness profile of an encoder, as HTEB defines it.
//!
//! Scores x 100. Mean over seeds → mean over the transformations of an axis → total = mean of the
//! axes with equal weight (lexical, length, language; those that were run) → mean over the datasets
//! of a group (the languages of one dataset) → mean over groups. A group is the unit of every test
//! and interval over datasets. The original is shown beside the total and is not part of it. A
//! standard deviation is the sample SD, over seeds, of the number that it is shown beside.

mod build;
mod critical;
mod dose;
mod drop_share;
mod grid;
mod items;
mod quantity;
mod ranks;
mod reliability;
mod scope;
mod sequence;
mod shift;
mod strata;
mod subsets;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::evidence::{
    interval::{DeltaInterval, DeltaIntervals},
    subset::SubsetDelta,
};

pub use build::profile;
pub use build::{axis_series, encoders, total_series};
pub use critical::{EncoderGroup, FriedmanTest};
pub use dose::{DoseCurve, DosePoint, HalfDose};
pub use drop_share::{DropShare, drop_share, drops};
pub use grid::{Column, Grid};
pub use isomer_datasets::{LanguageGroup, is_english};
pub use isomer_transformations::Axis;
pub(crate) use items::shares;
pub use items::{DatasetItems, UnitItems, add_intervals, difference, shares_of};
pub(crate) use items::{LEVEL, Replicates, Sum, over_datasets, resamples};
pub use quantity::{Level, Quantity};
pub use ranks::{DatasetTau, RankShift, RankStability, RankUnder};
pub use reliability::SplitHalf;
pub use scope::{AxisChange, NotComputed, Scope, ScopeProfile};
pub use sequence::sequence;
pub use shift::{Shift, ShiftInterval, adjust, shift};
pub(crate) use strata::clusters;
pub use strata::{EncoderPair, Figure, group_weights, margin_strata, range, strata};
pub use subsets::SubsetRow;
pub use subsets::{rows as subset_rows, series as subset_series};

/// A score under transformation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Moved {
    /// Mean over seeds, x 100.
    pub mean: f64,
    /// Sample standard deviation over seeds; absent with one seed.
    pub sd: Option<f64>,
    /// Mean less original, in points.
    pub delta: f64,
    /// Why the SD is absent, or what it does not mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sd_note: Option<String>,
    /// Intervals of the delta.
    #[serde(default, skip_serializing_if = "DeltaIntervals::is_empty")]
    pub intervals: DeltaIntervals,
}

/// An axis of one encoder (or of one encoder on one dataset).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AxisScore {
    /// Axis of variation.
    pub axis: Axis,
    /// Names of the transformations on this axis.
    pub transformations: Vec<String>,
    /// The numbers.
    #[serde(flatten)]
    pub moved: Moved,
}

/// A transformation of one encoder (or of one encoder on one dataset).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TransformationScore {
    /// Name with parameters.
    pub transformation: String,
    /// Axis of variation.
    pub axis: Axis,
    /// The numbers.
    #[serde(flatten)]
    pub moved: Moved,
    /// Over datasets; absent within one dataset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shift: Option<Shift>,
    /// The delta over those items alone all of whose transformed texts changed; within one dataset
    /// only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta_changed: Option<SubsetDelta>,
}

/// One encoder on one dataset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DatasetProfile {
    /// Dataset name.
    pub dataset: String,
    /// Original score x 100.
    pub original: f64,
    /// Interval of the original score, were other items drawn: for a data set that is a sample, its
    /// sampling error. It takes no account of how large a part of all rows the sample is, so that
    /// it is too wide rather than too narrow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_interval: Option<DeltaInterval>,
    /// Mean of the axes; absent where none of them counts.
    pub total: Option<Moved>,
    /// Per axis.
    pub axes: Vec<AxisScore>,
    /// Per transformation.
    pub transformations: Vec<TransformationScore>,
}

/// One encoder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EncoderProfile {
    /// Encoder id.
    pub encoder: String,
    /// Mean over groups of datasets of the original scores x 100.
    pub original: f64,
    /// Mean of the axes; absent where none of them counts.
    pub total: Option<Moved>,
    /// Per axis.
    pub axes: Vec<AxisScore>,
    /// Per transformation, with its shift over datasets; Holm over the transformations of the
    /// encoder.
    pub transformations: Vec<TransformationScore>,
    /// Per dataset.
    pub datasets: Vec<DatasetProfile>,
    /// Per channel of noise; empty if none was run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doses: Vec<DoseCurve>,
}

/// Does a transformation shift scores, whatever the encoder? One pair a group of datasets: mean
/// over encoders and seeds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TransformationShift {
    /// Name with parameters.
    pub transformation: String,
    /// Axis of variation.
    pub axis: Axis,
    /// The test; Holm over transformations.
    #[serde(flatten)]
    pub shift: Shift,
}

/// An encoder against the baseline, paired over groups of datasets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// The encoder compared.
    pub encoder: String,
    /// `original`, `total` or an axis.
    pub quantity: String,
    /// Encoder less baseline; Holm over the encoders of the same quantity.
    #[serde(flatten)]
    pub shift: Shift,
}

/// All encoders against one of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Baseline {
    /// The baseline's id.
    pub encoder: String,
    /// Per quantity and encoder.
    pub comparisons: Vec<Comparison>,
}

/// The profile of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RobustnessProfile {
    /// Unit of the numbers.
    pub unit: String,
    /// How they were averaged.
    pub aggregation: String,
    /// Number of data sets.
    pub n_datasets: usize,
    /// Groups of datasets: the unit of observation. As many as datasets where no two are of one
    /// group; 0 in reports of versions that knew no groups.
    #[serde(default)]
    pub n_groups: usize,
    /// Seeds of the transformations.
    pub seeds: Vec<u64>,
    /// Axes run, in order.
    pub axes: Vec<Axis>,
    /// Per encoder, in the order of the request.
    pub encoders: Vec<EncoderProfile>,
    /// Per transformation, over encoders.
    pub shifts: Vec<TransformationShift>,
    /// Stability of rankings and what else compares encoders: over all data sets, then over those
    /// in English, those in other languages and those of unknown language, where there are several
    /// kinds.
    #[serde(default)]
    pub scopes: Vec<ScopeProfile>,
    /// Where a baseline was named.
    pub baseline: Option<Baseline>,
}

/// Groups and data sets in words: `13 groups of 63 data sets`, or `6 data sets` where each is a
/// group of its own.
pub fn counted(groups: usize, datasets: usize) -> String {
    let count = |n: usize, one: &str| format!("{n} {one}{}", if n == 1 { "" } else { "s" });
    if groups == datasets {
        count(datasets, "data set")
    } else {
        format!("{} of {}", count(groups, "group"), count(datasets, "data set"))
    }
}

impl RobustnessProfile {
    /// The doses of noise, ascending; empty without noise.
    pub fn doses(&self) -> Vec<f64> {
        let curves = self.encoders.iter().flat_map(|encoder| &encoder.doses);
        let mut doses: Vec<f64> = curves.flat_map(|curve| &curve.points).map(|point| point.dose).collect();
        doses.sort_by(f64::total_cmp);
        doses.dedup();
        doses
    }

    /// Groups of datasets, which tests count.
    pub fn n(&self) -> usize {
        if self.n_groups == 0 {
            self.n_datasets
        } else {
            self.n_groups
        }
    }

    /// The same in words, with the number of datasets.
    pub fn counted(&self) -> String {
        counted(self.n(), self.n_datasets)
    }
}
