//! Names of dots: beside them, or further away with a line.

/// Width of a character; estimated, since fonts differ.
const CHARACTER: f64 = 6.8;

/// The area of a chart that names may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

impl Frame {
    fn contains(self, area: Area) -> bool {
        area[0] >= self.left && area[2] <= self.right && area[1] >= self.top && area[3] <= self.bottom
    }
}

/// A dot with the ends of its interval.
pub(super) struct LabelAnchor {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) range: [f64; 2],
}

/// The place of a name.
#[derive(Debug, Clone, Copy)]
pub(super) struct LabelPosition {
    pub(super) x: f64,
    pub(super) y: f64,
    /// Whether the name ends here instead of starting.
    pub(super) end: bool,
    /// Whether a line leads from the dot to the name.
    pub(super) leads: bool,
}

/// A rectangle: left, top, right, bottom.
type Area = [f64; 4];

fn overlap(one: Area, other: Area) -> bool {
    one[0] < other[2] && other[0] < one[2] && one[1] < other[3] && other[1] < one[3]
}

impl LabelPosition {
    fn area(self, name: &str) -> Area {
        let width = name.chars().count() as f64 * CHARACTER;
        let left = if self.end { self.x - width } else { self.x };
        [left, self.y - 11.0, left + width, self.y + 3.0]
    }
}

/// A place for each name where it covers no dot, no interval and no other name: next to its dot, or
/// further away with a line.
pub(super) fn positions(frame: Frame, spots: &[LabelAnchor], names: &[String]) -> Vec<LabelPosition> {
    let dots = spots.iter().map(|spot| {
        [
            spot.x - 6.0,
            spot.range[0].min(spot.y - 6.0),
            spot.x + 6.0,
            spot.range[1].max(spot.y + 6.0),
        ]
    });
    let mut taken: Vec<Area> = dots.collect();
    let mut positions = Vec::new();
    for (spot, name) in spots.iter().zip(names) {
        let beside = |side: f64, down: f64, leads: bool| LabelPosition {
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
        let is_free = |position: &LabelPosition| {
            let area = position.area(name);
            let inside = frame.contains(area);
            inside && !taken.iter().any(|other| overlap(area, *other))
        };
        let position = near
            .chain(far)
            .find(is_free)
            .unwrap_or_else(|| beside(10.0, 0.0, false));
        taken.push(position.area(name));
        positions.push(position);
    }
    positions
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Frame = Frame {
        left: 52.0,
        top: 24.0,
        right: 520.0,
        bottom: 312.0,
    };

    #[test]
    fn names_touch_their_dots_or_have_a_line_and_cover_nothing() {
        // Six dots in a heap, and one at the edge.
        let spot = |x: f64, y: f64| LabelAnchor {
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
        let positions = positions(FRAME, &spots, &names);
        let areas: Vec<Area> = positions
            .iter()
            .zip(&names)
            .map(|(position, name)| position.area(name))
            .collect();
        for (at, (position, area)) in positions.iter().zip(&areas).enumerate() {
            let near = (position.x - spots[at].x).abs() <= 10.0 && (position.y - spots[at].y).abs() <= 16.0;
            assert!(near || position.leads, "{at}: {position:?}");
            assert!(FRAME.contains(*area), "{at}: {area:?}");
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
        assert!(positions.iter().any(|position| position.leads) && !positions[0].leads && positions[6].end);
    }
}
