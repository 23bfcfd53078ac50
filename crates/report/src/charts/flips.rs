//! Decisions that became wrong and right from one encoder to the next.

use svg::node::element::Group;

use super::{drawing, label, line, rectangle, scale::Scale, wrapped};
use crate::format::count;

const WIDTH: f64 = 640.0;
/// Left and right end of the bars' scale.
const LEFT: f64 = 250.0;
const RIGHT: f64 = 550.0;
const TOP: f64 = 26.0;
const FOOT: f64 = 30.0;
const HEAD: f64 = 28.0;
const ROW: f64 = 24.0;
/// Height of each further line of a name.
const LINE: f64 = 14.0;
const BAR: f64 = 13.0;
/// Maximum number of characters in a line of a name.
const MOST: usize = 24;

/// Rows under a heading.
pub(crate) struct FlipBlock {
    pub(crate) heading: &'static str,
    pub(crate) rows: Vec<FlipRow>,
}

/// The decisions of a kind of texts, or of a data set.
pub(crate) struct FlipRow {
    pub(crate) name: String,
    pub(crate) decisions: u64,
    pub(crate) wrong: u64,
    pub(crate) right: u64,
}

impl FlipRow {
    fn lines(&self) -> Vec<String> {
        wrapped(&self.name, MOST)
    }

    fn height(&self) -> f64 {
        ROW + (self.lines().len() - 1) as f64 * LINE
    }

    /// Shares of the decisions in percent: became wrong, became right.
    fn shares(&self) -> [f64; 2] {
        [self.wrong, self.right].map(|number| number as f64 * 100.0 / self.decisions.max(1) as f64)
    }
}

/// A bar to the left for decisions that became wrong, and one to the right for those that became
/// right.
pub(crate) fn flips(blocks: &[FlipBlock]) -> String {
    let rows = || blocks.iter().flat_map(|block| &block.rows);
    let height = TOP + blocks.len() as f64 * HEAD + rows().map(FlipRow::height).sum::<f64>() + FOOT;
    let largest = rows().flat_map(FlipRow::shares).fold(1.0, f64::max);
    let scale = Scale::new(&[-largest, largest], LEFT, RIGHT);
    let mut chart = drawing("flips", WIDTH, height, "Decisions that flipped", &description(blocks))
        .add(label(scale.at(0.0) - 8.0, TOP - 10.0, "tick end", "became wrong"))
        .add(label(scale.at(0.0) + 8.0, TOP - 10.0, "tick", "became right"));
    for tick in scale.ticks() {
        let (x, end) = (scale.at(tick), height - FOOT);
        let class = if tick.abs() < 1e-9 { "zero" } else { "grid" };
        let text = format!("{} %", scale.tick(tick.abs()));
        chart = chart
            .add(line(x, TOP, x, end, class))
            .add(label(x, end + 17.0, "tick middle", text));
    }
    let mut y = TOP;
    for block in blocks {
        chart = chart.add(label(0.0, y + 19.0, "name", block.heading));
        y += HEAD;
        for row in &block.rows {
            chart = chart.add(bars(&scale, y, row));
            y += row.height();
        }
    }
    chart.to_string()
}

/// The name of a row, and a bar with its number on each side of zero.
fn bars(scale: &Scale, top: f64, row: &FlipRow) -> Group {
    let mut group = Group::new();
    for (n, part) in (0_u8..).zip(row.lines()) {
        group = group.add(label(0.0, top + 12.0 + f64::from(n) * LINE, "row", part));
    }
    let [wrong, right] = row.shares();
    let number = |number: u64| count(usize::try_from(number).unwrap_or(usize::MAX));
    let zero = scale.at(0.0);
    let (low, high) = (scale.at(-wrong), scale.at(right));
    let text = top + 12.0;
    group
        .add(rectangle(low, top + 1.0, zero - low, BAR, "wrong"))
        .add(rectangle(zero, top + 1.0, high - zero, BAR, "right"))
        .add(label(low - 5.0, text, "tick end", number(row.wrong)))
        .add(label(high + 5.0, text, "tick", number(row.right)))
}

fn description(blocks: &[FlipBlock]) -> String {
    let rows = blocks.iter().flat_map(|block| &block.rows);
    let parts = rows.map(|row| {
        format!(
            "{}: of {} decisions {} became wrong, {} became right",
            row.name, row.decisions, row.wrong, row.right
        )
    });
    parts.collect::<Vec<_>>().join("; ")
}
