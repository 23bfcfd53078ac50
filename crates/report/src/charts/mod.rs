//! Charts as inline SVG: marks and classes only; colours come from the page. Data is written to
//! text nodes, which the `svg` crate escapes, never to attributes.

mod doses;
mod dumbbell;
mod flips;
mod forest;
mod gain;
mod heat_map;
mod history;
mod judged;
mod labels;
mod plane;
mod rank_flow;
mod scale;
mod strip;

pub(super) use flips::{FlipBlock, FlipRow, flips};
pub(super) use gain::{GainDot, gain};
pub(super) use heat_map::{heat_class, largest_change};
pub(super) use history::releases;
pub(super) use judged::drift_against_ratings;
pub(super) use strip::{Scores, strip};

use svg::node::element::{Circle, Description, Line, Rectangle, SVG, Text, Title};

use crate::noise_view::Pages;

/// A chart of the page with its caption.
pub(super) struct Figure {
    /// First words of the caption.
    pub title: String,
    /// The rest of the caption.
    pub caption: String,
    /// Marks of the chart: class and meaning.
    pub marks: &'static [(&'static str, &'static str)],
    /// Whether it takes the whole width.
    pub wide: bool,
    pub svg: String,
}

/// A chart of the page of a report. A new one is a file with its `CHART`, and a line of
/// [`CHARTS`].
pub struct Chart {
    /// The ids of its elements begin with it.
    pub id: &'static str,
    /// First words of its caption.
    pub title: &'static str,
    /// Its content, for the documentation.
    pub shows: &'static str,
    /// Whether the page opens with it; the other charts are folded.
    pub first: bool,
    figures: fn(&Pages<'_>) -> Vec<Figure>,
}

/// The charts in their order on the page.
pub const CHARTS: &[Chart] = &[
    dumbbell::CHART,
    doses::CHART,
    plane::CHART,
    heat_map::CHART,
    forest::CHART,
    judged::CHART,
    rank_flow::CHART,
];

/// The charts that the page opens with, or the folded ones.
pub(super) fn figures(first: bool, pages: &Pages<'_>) -> impl Iterator<Item = Figure> {
    let charts = CHARTS.iter().filter(move |chart| chart.first == first);
    charts.flat_map(|chart| (chart.figures)(pages))
}

/// An empty drawing of this size, with a title and a description for screen readers.
fn drawing(id: &str, width: f64, height: f64, title: &str, description: &str) -> SVG {
    SVG::new()
        .set("viewBox", format!("0 0 {} {}", short(width), short(height)))
        .set("width", short(width))
        .set("height", short(height))
        .set("role", "img")
        .set("class", "chart")
        .set("aria-labelledby", format!("{id}-title {id}-desc"))
        .add(Title::new(title).set("id", format!("{id}-title")))
        .add(
            Description::new()
                .set("id", format!("{id}-desc"))
                .add(svg::node::Text::new(description)),
        )
}

/// A piece of text.
fn label(x: f64, y: f64, class: &str, text: impl Into<String>) -> Text {
    Text::new(text)
        .set("x", short(x))
        .set("y", short(y))
        .set("class", class)
}

fn rectangle(x: f64, y: f64, width: f64, height: f64, class: &str) -> Rectangle {
    Rectangle::new()
        .set("x", short(x))
        .set("y", short(y))
        .set("width", short(width))
        .set("height", short(height))
        .set("class", class)
}

fn line(x1: f64, y1: f64, x2: f64, y2: f64, class: &str) -> Line {
    Line::new()
        .set("x1", short(x1))
        .set("y1", short(y1))
        .set("x2", short(x2))
        .set("y2", short(y2))
        .set("class", class)
}

fn circle(x: f64, y: f64, radius: f64, class: &str) -> Circle {
    Circle::new()
        .set("cx", short(x))
        .set("cy", short(y))
        .set("r", short(radius))
        .set("class", class)
}

/// A coordinate with at most two decimals.
fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Splits a name into lines of at most `most` characters, after punctuation; a part that is still
/// too long is split anywhere.
fn wrapped(name: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    let length = |text: &str| text.chars().count();
    let parts = name.split_inclusive([' ', '-', '/', '_', ',', '=', ':', '@']);
    // A bracket starts a part.
    let parts = parts.flat_map(|part| match part.find('(') {
        Some(at) if at > 0 => [&part[..at], &part[at..]],
        _ => [part, ""],
    });
    for part in parts {
        if !line.is_empty() && length(&line) + length(part.trim_end()) > most {
            lines.push(std::mem::take(&mut line));
        }
        for c in part.chars() {
            if length(&line) == most {
                lines.push(std::mem::take(&mut line));
            }
            line.push(c);
        }
    }
    lines.push(line);
    lines.iter().map(|line| line.trim().to_owned()).collect()
}

/// The longest line of several names, in characters.
fn longest<'a>(lines: impl Iterator<Item = &'a String>) -> f64 {
    lines.map(|line| line.chars().count()).max().unwrap_or(0) as f64
}

/// A name that fits a column; a longer one ends in an ellipsis. Widths are estimated, because fonts
/// differ.
pub(super) fn fitted(name: &str, most: usize) -> String {
    if name.chars().count() <= most {
        return name.to_owned();
    }
    let kept: String = name.chars().take(most.saturating_sub(1)).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_broken_and_nothing_of_them_is_lost() {
        assert_eq!(wrapped("paraphrase", 20), ["paraphrase"]);
        assert_eq!(
            wrapped("cross_translation(target_languages=de,fr)", 20),
            ["cross_translation", "(target_languages=", "de,fr)"]
        );
        // A part that is too long by itself is split at the limit.
        assert_eq!(wrapped("abcdefgh-ij", 5), ["abcde", "fgh-", "ij"]);
        assert_eq!(wrapped("", 5), [""]);
    }
}
