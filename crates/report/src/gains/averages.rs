//! Averages over the data sets of a task, and the front of score against cost.

use super::{
    Cells, GainsError,
    measure::{less_first, mean_gain},
    model::{AverageGain, GainDataset, GainInput, GainTiming, TaskGains},
    on, time,
};
use crate::{profile::Replicates, task::TaskType};

pub(super) fn tasks(input: &GainInput, datasets: &[GainDataset]) -> Result<Vec<TaskGains>, GainsError> {
    let mut kinds: Vec<(TaskType, &str)> = Vec::new();
    for dataset in datasets {
        let kind = (dataset.task, dataset.main_score.as_str());
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds
        .into_iter()
        .map(|(task, main_score)| {
            let own: Vec<&GainDataset> = datasets
                .iter()
                .filter(|dataset| (dataset.task, dataset.main_score.as_str()) == (task, main_score))
                .collect();
            let groups = members(&own);
            let mut rows = Vec::new();
            for encoder in &input.encoders {
                rows.extend(of_encoder(input, encoder, &own, &groups)?);
            }
            fronts(&mut rows);
            Ok(TaskGains {
                task,
                main_score: main_score.to_owned(),
                datasets: own.iter().map(|dataset| dataset.name.clone()).collect(),
                groups: groups.len(),
                rows,
            })
        })
        .collect()
}

/// The positions of the members of each group.
fn members(datasets: &[&GainDataset]) -> Vec<Vec<usize>> {
    let mut members: Vec<Vec<usize>> = Vec::new();
    for (d, own) in datasets.iter().enumerate() {
        match members.iter_mut().find(|known| datasets[known[0]].group == own.group) {
            Some(known) => known.push(d),
            None => members.push(vec![d]),
        }
    }
    members
}

fn of_encoder(
    input: &GainInput,
    encoder: &str,
    datasets: &[&GainDataset],
    groups: &[Vec<usize>],
) -> Result<Vec<AverageGain>, GainsError> {
    let all: Vec<Cells<'_>> = datasets
        .iter()
        .map(|dataset| on(input, encoder, &dataset.name))
        .collect::<Result<_, _>>()?;
    let Some(first) = all.first() else {
        return Ok(Vec::new());
    };
    let settings: Vec<Option<&str>> = first.own.iter().map(|cell| cell.setting.as_deref()).collect();
    let over = |of: &dyn Fn(usize) -> f64| -> f64 {
        let means = groups
            .iter()
            .map(|own| own.iter().map(|d| of(*d)).sum::<f64>() / own.len() as f64);
        means.sum::<f64>() / groups.len() as f64
    };
    let mut rows = Vec::new();
    for (at, setting) in settings.iter().enumerate() {
        for (dataset, cells) in datasets.iter().zip(&all) {
            if cells.own.get(at).map(|cell| cell.setting.as_deref()) != Some(*setting) {
                return Err(GainsError::Missing {
                    encoder: encoder.to_owned(),
                    dataset: dataset.name.clone(),
                    setting: setting.unwrap_or("plain").to_owned(),
                });
            }
        }
        let score = over(&|d| all[d].own[at].score * 100.0);
        let gain = setting.is_some().then(|| {
            let gains: Vec<f64> = all
                .iter()
                .map(|cells| (cells.own[at].score - cells.own[0].score) * 100.0)
                .collect();
            let replicates: Option<Vec<&Replicates>> = all.iter().map(|cells| cells.replicates.as_ref().ok()).collect();
            mean_gain(groups, &gains, replicates.as_deref(), &less_first(at, settings.len()))
        });
        let tokens = |d: usize| {
            let work = all[d].own[at].work.as_ref();
            work.map_or(0.0, |work| {
                let texts = work.texts + work.plain_texts;
                work.generated_tokens as f64 / texts.max(1) as f64
            })
        };
        let times: Option<Vec<f64>> = datasets
            .iter()
            .map(|dataset| per_text(&input.timings, encoder, &dataset.name, *setting))
            .collect();
        rows.push(AverageGain {
            encoder: encoder.to_owned(),
            setting: setting.map(str::to_owned),
            k: setting
                .and_then(|name| input.settings.iter().find(|one| one.name == name))
                .map_or(0, |one| one.k),
            score,
            gain,
            best: false,
            tokens_per_text: over(&tokens),
            milliseconds_per_text: times.map(|times| over(&|d| times[d])),
            on_token_front: false,
            on_time_front: None,
        });
    }
    let highest = rows.iter().map(|row| row.score).fold(f64::NEG_INFINITY, f64::max);
    for row in &mut rows {
        row.best = row.score >= highest;
    }
    Ok(rows)
}

/// Milliseconds per text, without cache hits.
fn per_text(timings: &[GainTiming], encoder: &str, dataset: &str, setting: Option<&str>) -> Option<f64> {
    let own = timings.iter().find(|timing| {
        timing.encoder == encoder && timing.dataset == dataset && timing.setting.as_deref() == setting
    })?;
    (own.cached == 0)
        .then(|| time(own))
        .flatten()
        .map(|row| row.milliseconds_per_text)
}

/// Marks the rows that no other row beats, that is, has at least the score at no higher cost, with
/// one of the two better.
fn fronts(rows: &mut [AverageGain]) {
    let tokens: Vec<(f64, f64)> = rows.iter().map(|row| (row.score, row.tokens_per_text)).collect();
    let times: Option<Vec<(f64, f64)>> = rows
        .iter()
        .map(|row| Some((row.score, row.milliseconds_per_text?)))
        .collect();
    for (at, row) in rows.iter_mut().enumerate() {
        row.on_token_front = on_front(&tokens, at);
        row.on_time_front = times.as_ref().map(|times| on_front(times, at));
    }
}

fn on_front(all: &[(f64, f64)], at: usize) -> bool {
    let (score, cost) = all[at];
    !all.iter()
        .any(|(other, price)| *other >= score && *price <= cost && (*other > score || *price < cost))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_on_the_front_unless_another_is_as_good_for_no_more() {
        let all = [
            (50.0, 0.0),
            (60.0, 10.0),
            (55.0, 20.0),
            (60.0, 10.0),
            (61.0, 30.0),
            (50.0, 1.0),
        ];
        let found: Vec<bool> = (0..all.len()).map(|at| on_front(&all, at)).collect();
        assert_eq!(found, [true, true, false, true, true, false]);
    }
}
