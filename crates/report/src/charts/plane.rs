//! Robustness and sensitivity on one plane: the drop of the total against separation.

use super::{Figure, circle, drawing, fitted, label, line, rectangle, scale::Scale};
use crate::{
    Report,
    format::{percent, signed},
    noise_view::Pages,
};

const WIDTH: f64 = 540.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 520.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 312.0;
/// Width of a character; estimated, since fonts differ.
const CHARACTER: f64 = 6.8;
/// Separation by pure chance.
const CHANCE: f64 = 0.5;

struct Dot<'a> {
    encoder: &'a str,
    drop: f64,
    separation: f64,
    low: f64,
    high: f64,
}

/// The chart with its caption; none where separation was not measured.
pub(super) fn figures(pages: &Pages<'_>) -> Vec<Figure> {
    let figure = |svg| {
        Figure {
        title: "Robust, or blind?".to_owned(),
        caption: "Drop of the total against separation, with its 95 % interval over texts. Encoders further left are more robust, encoders \
                  further up see more changes of meaning; in the shaded half an encoder is not better than chance."
            .to_owned(),
        marks: &[],
        wide: false,
        svg,
    }
    };
    plane(pages.full).map(figure).into_iter().collect()
}

/// One dot per encoder: robust encoders are on the left, sensitive ones at the top. Below the line
/// of chance an encoder is blind, however robust it looks. `None` if no encoder has both values.
fn plane(report: &Report) -> Option<String> {
    let dots = report.profile.encoders.iter().filter_map(|encoder| {
        let total = encoder.total.as_ref()?;
        let row = &report.separation_of(&encoder.encoder)?.overall;
        let separation = row.separation?;
        total.delta.is_finite().then_some(Dot {
            encoder: &encoder.encoder,
            drop: -total.delta,
            separation,
            low: row.low.unwrap_or(separation),
            high: row.high.unwrap_or(separation),
        })
    });
    let dots: Vec<Dot<'_>> = dots.collect();
    if dots.is_empty() {
        return None;
    }
    let drops: Vec<f64> = dots.iter().map(|dot| dot.drop).chain([0.0]).collect();
    let across = Scale::new(&drops, LEFT, RIGHT);
    let up = Scale::between(0.0, 1.0, 0.25, BOTTOM, TOP);
    let mut chart = drawing(
        "plane",
        WIDTH,
        HEIGHT,
        "Drop of the total against separation",
        &description(&dots),
    )
    .add(rectangle(
        LEFT,
        up.at(CHANCE),
        RIGHT - LEFT,
        BOTTOM - up.at(CHANCE),
        "box",
    ))
    .add(label(LEFT, TOP - 9.0, "tick", "separation"))
    .add(label(RIGHT, HEIGHT - 8.0, "tick end", "drop of the total, in points"));
    for tick in up.ticks() {
        let y = up.at(tick);
        let class = if (tick - CHANCE).abs() < 1e-9 { "zero" } else { "grid" };
        chart = chart
            .add(line(LEFT, y, RIGHT, y, class))
            .add(label(LEFT - 7.0, y + 4.0, "tick end", percent(tick)));
    }
    for tick in across.ticks() {
        let x = across.at(tick);
        let class = if tick.abs() < 1e-9 { "zero" } else { "grid" };
        chart =
            chart
                .add(line(x, TOP, x, BOTTOM, class))
                .add(label(x, BOTTOM + 17.0, "tick middle", across.tick(tick)));
    }
    chart = chart.add(label(
        RIGHT - 6.0,
        up.at(CHANCE) + 15.0,
        "tick end",
        "chance and below: blind",
    ));
    let spots: Vec<Spot> = dots
        .iter()
        .map(|dot| Spot {
            x: across.at(dot.drop),
            y: up.at(dot.separation),
            range: [up.at(dot.high), up.at(dot.low)],
        })
        .collect();
    let names: Vec<String> = dots.iter().map(|dot| fitted(dot.encoder, 36)).collect();
    let places = places(&spots, &names);
    for (((dot, spot), name), place) in dots.iter().zip(&spots).zip(names).zip(places) {
        let class = if dot.high <= CHANCE {
            "bell loss"
        } else if dot.low > CHANCE {
            "bell gain"
        } else {
            "bell same"
        };
        let mut group = svg::node::element::Group::new().set("class", class);
        if place.leads {
            group = group.add(line(spot.x, spot.y, place.x, place.y - 4.5, "leader"));
        }
        let group = group
            .add(line(spot.x, spot.range[0], spot.x, spot.range[1], "range"))
            .add(circle(spot.x, spot.y, 5.5, "now"));
        let class = if place.end { "row end" } else { "row" };
        chart = chart.add(group).add(label(place.x, place.y, class, name));
    }
    Some(chart.to_string())
}

/// A dot with the ends of its interval.
struct Spot {
    x: f64,
    y: f64,
    range: [f64; 2],
}

/// The place of a name.
#[derive(Debug, Clone, Copy)]
struct Place {
    x: f64,
    y: f64,
    /// Whether the name ends here instead of starting.
    end: bool,
    /// Whether a line leads from the dot to the name.
    leads: bool,
}

/// A rectangle: left, top, right, bottom.
type Area = [f64; 4];

fn overlap(one: Area, other: Area) -> bool {
    one[0] < other[2] && other[0] < one[2] && one[1] < other[3] && other[1] < one[3]
}

impl Place {
    fn area(self, name: &str) -> Area {
        let width = name.chars().count() as f64 * CHARACTER;
        let left = if self.end { self.x - width } else { self.x };
        [left, self.y - 11.0, left + width, self.y + 3.0]
    }
}

/// A place for each name where it covers no dot, no interval and no other name: next to its dot, or
/// further away with a line.
fn places(spots: &[Spot], names: &[String]) -> Vec<Place> {
    let dots = spots.iter().map(|spot| {
        [
            spot.x - 6.0,
            spot.range[0].min(spot.y - 6.0),
            spot.x + 6.0,
            spot.range[1].max(spot.y + 6.0),
        ]
    });
    let mut taken: Vec<Area> = dots.collect();
    let mut places = Vec::new();
    for (spot, name) in spots.iter().zip(names) {
        let beside = |side: f64, down: f64, leads: bool| Place {
            x: spot.x + side,
            y: spot.y + 4.5 + down,
            end: side < 0.0,
            leads,
        };
        let near = [0.0, -11.0, 11.0]
            .into_iter()
            .flat_map(|down| [10.0, -10.0].map(|side| beside(side, down, false)));
        let steps = (2..=18).flat_map(|step| [-15.0, 15.0].map(|height| f64::from(step) * height));
        let far = steps.flat_map(|down| [22.0, -22.0].map(|side| beside(side, down, true)));
        let is_free = |place: &Place| {
            let area = place.area(name);
            let inside = area[0] >= LEFT && area[2] <= RIGHT && area[1] >= TOP && area[3] <= BOTTOM;
            inside && !taken.iter().any(|other| overlap(area, *other))
        };
        let place = near
            .chain(far)
            .find(is_free)
            .unwrap_or_else(|| beside(10.0, 0.0, false));
        taken.push(place.area(name));
        places.push(place);
    }
    places
}

/// A description of the chart.
fn description(dots: &[Dot<'_>]) -> String {
    let told = dots.iter().map(|dot| {
        format!(
            "{}: drop {}, separation {} ({} to {})",
            dot.encoder,
            signed(dot.drop),
            percent(dot.separation),
            percent(dot.low),
            percent(dot.high)
        )
    });
    told.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_touch_their_dots_or_have_a_line_and_cover_nothing() {
        // Six dots in a heap, and one at the edge.
        let spot = |x: f64, y: f64| Spot {
            x,
            y,
            range: [y - 12.0, y + 12.0],
        };
        let heap = [
            (240.0, 60.0),
            (246.0, 64.0),
            (252.0, 58.0),
            (260.0, 66.0),
            (270.0, 61.0),
            (280.0, 63.0),
            (515.0, 60.0),
        ];
        let spots = heap.map(|(x, y)| spot(x, y));
        let names: Vec<String> = (0..spots.len()).map(|n| format!("organisation/encoder-{n}")).collect();
        let places = places(&spots, &names);
        let areas: Vec<Area> = places
            .iter()
            .zip(&names)
            .map(|(place, name)| place.area(name))
            .collect();
        for (at, (place, area)) in places.iter().zip(&areas).enumerate() {
            let near = (place.x - spots[at].x).abs() <= 10.0 && (place.y - spots[at].y).abs() <= 16.0;
            assert!(near || place.leads, "{at}: {place:?}");
            assert!(area[0] >= LEFT && area[2] <= RIGHT, "{at}: {area:?}");
            assert!(
                areas[..at].iter().all(|other| !overlap(*area, *other)),
                "{at}: {area:?}"
            );
            assert!(
                spots
                    .iter()
                    .all(|one| !overlap(*area, [one.x - 5.0, one.range[0], one.x + 5.0, one.range[1]])),
                "{at}"
            );
        }
        assert!(places.iter().any(|place| place.leads) && !places[0].leads && places[6].end);
    }
}
