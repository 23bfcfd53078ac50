//! The findings in sentences.

use super::{AverageGain, Gain, Gains, TaskGains};
use crate::format::{ends, fine, signed};

pub(super) fn sentences(gains: &Gains) -> Vec<String> {
    let mut all = Vec::new();
    for task in &gains.tasks {
        for encoder in &gains.encoders {
            all.extend(of_encoder(task, encoder));
        }
    }
    for strata in &gains.strata {
        let Some(contrast) = &strata.upper_less_lower else {
            continue;
        };
        let Some(interval) = &contrast.intervals.items else {
            continue;
        };
        if interval.low > 0.0 || interval.high < 0.0 {
            let which = match (strata.by.as_str(), contrast.value > 0.0) {
                ("words", true) => "longer texts",
                ("words", false) => "shorter texts",
                ("gap", true) => "queries whose first result stands out",
                ("gap", false) => "queries whose first results are close together",
                (_, true) => "more similar pairs",
                (_, false) => "less similar pairs",
            };
            all.push(format!(
                "{} on {}, {}: {which} gain more (upper less lower half by {}: {} points {}).",
                strata.encoder,
                strata.dataset,
                strata.setting,
                strata.by,
                signed(contrast.value),
                ends(interval)
            ));
        }
    }
    all
}

fn of_encoder(task: &TaskGains, encoder: &str) -> Option<String> {
    let own: Vec<&AverageGain> = task.rows.iter().filter(|row| row.encoder == encoder).collect();
    let plain = own.iter().find(|row| row.setting.is_none())?;
    let augmented: Vec<(&AverageGain, &Gain)> = own.iter().filter_map(|row| Some((*row, row.gain.as_ref()?))).collect();
    let (best, gain) = augmented.iter().max_by(|(_, a), (_, b)| a.value.total_cmp(&b.value))?;
    let data = match task.datasets.as_slice() {
        [one] => one.clone(),
        many => format!("{} data sets of {}", many.len(), task.task),
    };
    let name = best.setting.as_deref().unwrap_or_default();
    let found = gain.intervals.items.as_ref();
    let sentence = match found {
        Some(found) if found.low > 0.0 => "it gains",
        Some(found) if found.high < 0.0 => "it loses",
        Some(_) => "neither a gain nor a loss is shown",
        None => "there is no interval",
    };
    let found = found.map_or_else(String::new, |found| format!(" {}", ends(found)));
    let first = match augmented.len() {
        1 => format!("with {name}"),
        many => format!("best of {many} settings is {name}, with"),
    };
    Some(format!(
        "{encoder} on {data}: {first} {} points{found} over {}; {sentence}{}.",
        signed(gain.value),
        fine(plain.score),
        if augmented.len() > 1 {
            ", and the best of several looks better than it is"
        } else {
            ""
        }
    ))
}
