//! The effect of noise, dose by dose: for each channel an isotonic curve of the drop, and the dose
//! at half of the effect ([`isomer_stats::dose_response`]).
//!
//! The replicates of the interval are resamples of the items of all data sets. One resample gives
//! the drop at every dose, so that doses stay paired.

use isomer_stats::dose_response::{DoseResponse, NoHalfDose};
use ndarray::Array2;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Grid;

/// Fewest doses that a dose at half of the effect is read from.
const FEWEST_DOSES: usize = 3;

/// The effect of one channel on an encoder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DoseCurve {
    /// The channel's name.
    pub channel: String,
    /// By dose, ascending.
    pub points: Vec<DosePoint>,
    /// The dose at half of the effect that the highest dose has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half: Option<HalfDose>,
    /// The reason why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_half: Option<String>,
}

/// The effect of one dose.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DosePoint {
    /// Share of the units that change.
    pub dose: f64,
    /// Original less transformed score, in points: mean over seeds and data sets.
    pub drop: f64,
    /// The same on the isotonic curve, which never falls and is nowhere below 0.
    pub fitted: f64,
}

/// The dose at half of the effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HalfDose {
    /// A share, as those of the points.
    pub dose: f64,
    /// Lower end of its 95 % interval over items; absent without evidence of the items.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Upper end; absent likewise, or if it lies above the highest dose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
}

/// The drop of an encoder under a column of a grid, over its data sets.
pub(super) struct ColumnDrop {
    pub(super) drop: f64,
    /// The same on each resample of the items; absent without evidence of them.
    pub(super) resampled: Option<Vec<f64>>,
}

/// The curves of an encoder, in the order of the grid's columns. Intervals have the level.
pub(super) fn curves(grid: &Grid, drop_of: impl Fn(usize) -> ColumnDrop, level: f64) -> Vec<DoseCurve> {
    let noises = || {
        let columns = grid.columns.iter().enumerate();
        columns.filter_map(|(c, column)| Some((c, column.noise.as_ref()?)))
    };
    let mut channels: Vec<&str> = Vec::new();
    for (_, noise) in noises() {
        if !channels.contains(&noise.channel.as_str()) {
            channels.push(&noise.channel);
        }
    }
    let of_channel = |channel: &str| {
        let own = noises().filter(|(_, noise)| noise.channel == channel);
        let mut own: Vec<(usize, f64)> = own.map(|(c, noise)| (c, noise.dose)).collect();
        own.sort_by(|one, other| one.1.total_cmp(&other.1));
        let doses: Vec<f64> = own.iter().map(|(_, dose)| *dose).collect();
        let found: Vec<ColumnDrop> = own.iter().map(|(column, _)| drop_of(*column)).collect();
        let drops: Vec<f64> = found.iter().map(|one| one.drop).collect();
        let replicates: Option<Vec<Vec<f64>>> = found.into_iter().map(|one| one.resampled).collect();
        curve(channel, &doses, &drops, replicates.as_deref(), level)
    };
    channels.into_iter().map(of_channel).collect()
}

/// A curve; `replicates` has the resampled drops of each dose.
fn curve(channel: &str, doses: &[f64], drops: &[f64], replicates: Option<&[Vec<f64>]>, level: f64) -> DoseCurve {
    let response = DoseResponse::new(doses, &vec![1.0; doses.len()], None);
    let fitted = response.as_ref().ok().and_then(|response| response.curve(drops).ok());
    let fitted = fitted.iter().flatten().skip(1).map(|(_, effect)| *effect);
    let points = doses
        .iter()
        .zip(drops)
        .zip(fitted)
        .map(|((dose, drop), fitted)| DosePoint {
            dose: *dose,
            drop: *drop,
            fitted,
        });
    let found = match response {
        Ok(_) if doses.len() < FEWEST_DOSES => Err(format!("needs at least {FEWEST_DOSES} doses")),
        Ok(response) => half(&response, drops, replicates, level).map_err(|reason| reason.to_string()),
        Err(error) => Err(error.to_string()),
    };
    DoseCurve {
        channel: channel.to_owned(),
        points: points.collect(),
        no_half: found.as_ref().err().cloned(),
        half: found.ok(),
    }
}

fn half(
    response: &DoseResponse,
    drops: &[f64],
    replicates: Option<&[Vec<f64>]>,
    level: f64,
) -> Result<HalfDose, NoHalfDose> {
    let dose = response.half(drops)?.dose;
    let Some(replicates) = replicates else {
        return Ok(HalfDose {
            dose,
            low: None,
            high: None,
        });
    };
    let rows = replicates.first().map_or(0, Vec::len);
    let rows = Array2::from_shape_fn((rows, replicates.len()), |(row, dose)| replicates[dose][row]);
    let interval = response.interval(rows.view(), level)?;
    Ok(HalfDose {
        dose,
        low: Some(interval.low),
        high: interval.high,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const DOSES: [f64; 4] = [0.05, 0.1, 0.2, 0.4];

    #[test]
    fn half_of_the_effect_lies_where_the_curve_crosses_it() {
        let made = curve("keyboard", &DOSES, &[1.0, 3.0, 6.0, 8.0], None, 0.95);
        // Half of 8 lies between 3 at 0.1 and 6 at 0.2.
        let half = made.half.unwrap();
        assert!((half.dose - (0.1 + 0.1 / 3.0)).abs() < 1e-12, "{half:?}");
        assert_eq!((half.low, half.high, made.no_half), (None, None, None));
    }

    #[test]
    fn a_curve_never_falls_and_no_dose_helps() {
        let made = curve("case", &DOSES, &[-1.0, 2.0, 1.0, 5.0], None, 0.95);
        let fitted: Vec<f64> = made.points.iter().map(|point| point.fitted).collect();
        assert_eq!(fitted, [0.0, 1.5, 1.5, 5.0]);
        let drops: Vec<f64> = made.points.iter().map(|point| point.drop).collect();
        assert_eq!(drops, [-1.0, 2.0, 1.0, 5.0]);
    }

    #[test]
    fn without_an_effect_there_is_no_half_of_it() {
        let drops = [0.1, -0.1, 0.2, 0.3];
        // The effect of the highest dose is below 0 in a tenth of the resamples.
        let replicates: Vec<Vec<f64>> = (0..4)
            .map(|_| (0..100).map(|i| if i < 10 { -0.2 } else { 0.3 }).collect())
            .collect();
        let made = curve("ocr", &DOSES, &drops, Some(&replicates), 0.95);
        assert!(made.half.is_none());
        assert!(made.no_half.unwrap().contains("no clear effect"));
        let few = curve("ocr", &DOSES[..2], &drops[..2], None, 0.95);
        assert_eq!(few.no_half.as_deref(), Some("needs at least 3 doses"));
    }
}
