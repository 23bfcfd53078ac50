//! `isomer eval --augment` over several encoders, data sets and settings: the gain of augmentation
//! (GASE), its cost, and the texts that gain. The tables are those of the paper.
//!
//! Every score of an encoder on a data set, plain and augmented, is resampled over the same items,
//! so that each gain has its own interval. Averages are computed as in the profile: members of a
//! group of data sets first, then groups.
//!
//! * `model`: input and result. `measure`: differences and intervals, and the texts that gain.
//! * `averages`: by task, with fronts of gain against cost. `headline`: the findings.
//! * `chart`: gain against cost. `tables`: the result as tables, which `markdown`, `html` and the
//!   command line use.

mod averages;
mod chart;
mod headline;
mod html;
mod markdown;
mod measure;
mod model;
mod tables;

pub use model::{
    AverageGain, CosineRow, GAINS_SCHEMA, Gain, GainCell, GainDataset, GainInput, GainRow, GainSetting, GainStrata,
    GainTiming, GainWork, Gains, MeanCosine, Stratum, TaskGains, TimeInterval, TimeRow,
};
pub use tables::tables;

use crate::{
    profile::{LEVEL, Replicates},
    stats::{mean, sample_sd, special::student_quantile},
};

/// The reason why gains cannot be computed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GainsError {
    /// A score is missing.
    #[error("there is no score of {encoder} on {dataset}, {setting}")]
    Missing {
        encoder: String,
        /// The data set.
        dataset: String,
        /// The setting, or `plain`.
        setting: String,
    },
}

/// Computes gains from scores.
///
/// # Errors
/// If an encoder has no plain score on a data set.
pub fn gains(input: &GainInput) -> Result<Gains, GainsError> {
    let mut datasets = input.datasets.clone();
    let (mut rows, mut cosines, mut strata) = (Vec::new(), Vec::new(), Vec::new());
    for encoder in &input.encoders {
        for dataset in &mut datasets {
            let cells = on(input, encoder, &dataset.name)?;
            dataset.items = cells.own[0]
                .evidence
                .as_ref()
                .map_or(0, crate::evidence::Evidence::items);
            let distinct: std::collections::HashSet<u32> = cells.own[0].clusters.iter().copied().collect();
            dataset.clusters = distinct.len();
            for (at, cell) in cells.own.iter().enumerate() {
                let gained = cell.setting.is_some().then(|| {
                    let sum = measure::less_first(at, cells.own.len());
                    let value = (cell.score - cells.own[0].score) * 100.0;
                    measure::gain(value, cells.replicates.as_ref().ok(), &sum)
                });
                rows.push(GainRow {
                    encoder: encoder.clone(),
                    dataset: dataset.name.clone(),
                    setting: cell.setting.clone(),
                    score: cell.score * 100.0,
                    no_interval: match (&gained, &cells.replicates) {
                        (Some(_), Err(why)) => Some(why.clone()),
                        (Some(gained), Ok(_)) if gained.intervals.items.is_none() => {
                            Some("its items are of one cluster".to_owned())
                        }
                        _ => None,
                    },
                    gain: gained,
                    work: cell.work.clone(),
                });
                if cell.setting.is_some() {
                    cosines.extend(measure::cosines(cell));
                    strata.extend(measure::strata(cells.own[0], cell));
                }
            }
        }
    }
    let mut found = Gains {
        schema: GAINS_SCHEMA.to_owned(),
        headline: Vec::new(),
        encoders: input.encoders.clone(),
        tasks: averages::tasks(input, &datasets)?,
        datasets,
        settings: input.settings.clone(),
        rows,
        cosines,
        times: input.timings.iter().filter_map(time).collect(),
        strata,
        profile: input.profile.clone(),
        notes: input.notes.clone(),
        isomer_version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    found.headline = headline::sentences(&found);
    Ok(found)
}

/// All files, with name and content.
///
/// # Errors
/// If a format cannot be rendered, which is an internal error; the message gives the reason.
pub fn files(gains: &Gains) -> Result<Vec<(&'static str, Vec<u8>)>, String> {
    let mut json = serde_json::to_vec_pretty(gains).map_err(|error| format!("gains.json: {error}"))?;
    json.push(b'\n');
    Ok(vec![
        ("gains.json", json),
        ("gains.md", markdown::render(gains).into_bytes()),
        ("gains.html", html::render(gains)?.into_bytes()),
    ])
}

/// JSON Schema (draft 2020-12) of `gains.json`; `eval-svc/schema/gains-1.json` is a copy of it.
pub fn json_schema() -> serde_json::Value {
    crate::schema::of::<Gains>("Isomer gains by augmentation", "urn:isomer:gains:1", GAINS_SCHEMA)
}

/// The scores of an encoder on a data set, the plain one first, then those of the settings in
/// order.
struct Cells<'a> {
    own: Vec<&'a GainCell>,
    replicates: Result<Replicates, String>,
}

fn on<'a>(input: &'a GainInput, encoder: &str, dataset: &str) -> Result<Cells<'a>, GainsError> {
    let plain = measure::cell(input, encoder, dataset, None).ok_or_else(|| GainsError::Missing {
        encoder: encoder.to_owned(),
        dataset: dataset.to_owned(),
        setting: "plain".to_owned(),
    })?;
    let augmented = input
        .settings
        .iter()
        .filter_map(|setting| measure::cell(input, encoder, dataset, Some(&setting.name)));
    let own: Vec<&GainCell> = std::iter::once(plain).chain(augmented).collect();
    Ok(Cells {
        replicates: measure::replicates(&own),
        own,
    })
}

/// The row of a timing; `None` without runs.
fn time(timing: &GainTiming) -> Option<TimeRow> {
    let seconds = mean(&timing.seconds)?;
    let runs = timing.seconds.len();
    let sd = sample_sd(&timing.seconds);
    let texts: Vec<f64> = timing.texts.iter().map(|texts| *texts as f64).collect();
    let texts = mean(&texts)?;
    let half = sd.map(|sd| {
        let n = runs as f64;
        student_quantile(f64::midpoint(1.0, LEVEL), n - 1.0) * sd / n.sqrt()
    });
    Some(TimeRow {
        encoder: timing.encoder.clone(),
        dataset: timing.dataset.clone(),
        setting: timing.setting.clone(),
        runs,
        seconds,
        sd,
        interval: half.map(|half| TimeInterval {
            low: seconds - half,
            high: seconds + half,
        }),
        milliseconds_per_text: if texts > 0.0 { seconds * 1e3 / texts } else { 0.0 },
        texts,
        cached: timing.cached,
    })
}
