//! An encoder's score between known ones, as a strip from 0 to 100 points.

use super::{circle, drawing, line, rectangle, scale::Scale};
use crate::format::points;

const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 30.0;
const MIDDLE: f64 = HEIGHT / 2.0;
/// Space for a mark at either end.
const EDGE: f64 = 8.0;

pub(crate) struct Scores<'a> {
    /// Of the original texts.
    pub original: f64,
    /// Of the transformed texts.
    pub transformed: Option<f64>,
    /// Of the baseline's original texts.
    pub baseline: Option<f64>,
    /// Of known encoders.
    pub known: &'a [(&'static str, f64)],
}

/// A ring is the original score, a disc the transformed one, a tall line the baseline, and each
/// short line a known encoder.
pub(crate) fn strip(scores: &Scores<'_>, id: &str) -> String {
    let scale = Scale::between(0.0, 100.0, 25.0, EDGE, WIDTH - EDGE);
    let at = |value: f64| scale.at(value.clamp(0.0, 100.0));
    let title = "Score between known encoders, 0 to 100 points";
    let mut chart = drawing(id, WIDTH, HEIGHT, title, &description(scores))
        .set("class", "chart strip")
        .add(rectangle(EDGE, MIDDLE - 5.0, WIDTH - 2.0 * EDGE, 10.0, "box"));
    for (_, score) in scores.known {
        chart = chart.add(line(at(*score), MIDDLE - 5.0, at(*score), MIDDLE + 5.0, "known"));
    }
    if let Some(baseline) = scores.baseline {
        chart = chart.add(line(at(baseline), 2.0, at(baseline), HEIGHT - 2.0, "base"));
    }
    let original = at(scores.original);
    if let Some(transformed) = scores.transformed {
        let now = at(transformed);
        chart = chart
            .add(line(original, MIDDLE, now, MIDDLE, "moved"))
            .add(circle(now, MIDDLE, 5.0, "now"));
    }
    chart.add(circle(original, MIDDLE, 5.0, "was")).to_string()
}

fn description(scores: &Scores<'_>) -> String {
    let own = std::iter::once(format!("original {}", points(scores.original)));
    let transformed = scores.transformed.map(|score| format!("transformed {}", points(score)));
    let baseline = scores.baseline.map(|score| format!("baseline {}", points(score)));
    let known = scores
        .known
        .iter()
        .map(|(name, score)| format!("{name} {}", points(*score)));
    let all: Vec<String> = own.chain(transformed).chain(baseline).chain(known).collect();
    all.join(", ")
}
