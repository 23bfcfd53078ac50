//! The charts of `gains.html`: gain against cost.

use super::{AverageGain, Gains, TaskGains};
use crate::charts::{Figure, GainDot, gain};

/// The cost of a setting: milliseconds if they were measured everywhere, else generated tokens.
#[derive(Debug, Clone, Copy)]
enum Cost {
    Tokens,
    Milliseconds,
}

impl Cost {
    fn of(rows: &[&AverageGain]) -> Self {
        if rows.iter().all(|row| row.milliseconds_per_text.is_some()) {
            Self::Milliseconds
        } else {
            Self::Tokens
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Tokens => "generated tokens per text",
            Self::Milliseconds => "milliseconds per text",
        }
    }

    fn value(self, row: &AverageGain) -> f64 {
        match self {
            Self::Tokens => row.tokens_per_text,
            Self::Milliseconds => row.milliseconds_per_text.unwrap_or(f64::NAN),
        }
    }

    fn is_front(self, row: &AverageGain) -> bool {
        match self {
            Self::Tokens => row.on_token_front,
            Self::Milliseconds => row.on_time_front.unwrap_or(false),
        }
    }
}

/// A chart for each task and encoder.
pub(super) fn figures(gains: &Gains) -> Vec<Figure> {
    let several = gains.tasks.len() * gains.encoders.len() > 1;
    let of_task = |task| gains.encoders.iter().map(move |encoder| (task, encoder));
    let charts = gains.tasks.iter().flat_map(of_task).enumerate();
    charts
        .filter_map(|(at, (task, encoder))| {
            let title = match several {
                true => format!("Gain against cost: {encoder}, {}.", task.task),
                false => "Gain against cost.".to_owned(),
            };
            figure(task, encoder, title, at)
        })
        .collect()
}

fn figure(task: &TaskGains, encoder: &str, title: String, at: usize) -> Option<Figure> {
    let rows: Vec<&AverageGain> = task.rows.iter().filter(|row| row.encoder == encoder).collect();
    let cost = Cost::of(&rows);
    let dots: Vec<GainDot> = rows.iter().filter_map(|row| dot(row, cost)).collect();
    (dots.len() > 1).then(|| Figure {
        title,
        caption: format!(
            "Points of {} over plain vectors, with the 95 % interval over items, against {}. Green: above 0; red: below 0; grey: neither \
             is shown. The line joins the settings that no cheaper one reaches.",
            task.main_score,
            cost.words()
        ),
        marks: &[],
        wide: false,
        svg: gain(&dots, cost.words(), &format!("gain-{at}")),
    })
}

fn dot(row: &AverageGain, cost: Cost) -> Option<GainDot> {
    let gain = row.gain.as_ref();
    let value = gain.map_or(0.0, |gain| gain.value);
    let interval = gain.and_then(|gain| gain.intervals.items.as_ref());
    let dot = GainDot {
        setting: row.setting.as_deref().unwrap_or("plain").to_owned(),
        cost: cost.value(row),
        gain: value,
        low: interval.map_or(value, |found| found.low),
        high: interval.map_or(value, |found| found.high),
        is_front: cost.is_front(row),
    };
    (dot.cost.is_finite() && dot.gain.is_finite()).then_some(dot)
}
