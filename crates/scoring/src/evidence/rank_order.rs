//! Values in order, with their ties: weighted ranks, correlation and average precision in one pass.

/// Indices of values in order, with the end of each group of equal values.
#[derive(Debug, Clone)]
pub(super) struct RankOrder {
    order: Vec<u32>,
    ends: Vec<u32>,
}

impl RankOrder {
    pub(super) fn ascending(values: &[f64]) -> Self {
        Self::by(values, false)
    }

    pub(super) fn descending(values: &[f64]) -> Self {
        Self::by(values, true)
    }

    fn by(values: &[f64], descending: bool) -> Self {
        // −0 and 0 are tied, as everywhere else.
        let keys: Vec<f64> = values.iter().map(|v| v + 0.0).collect();
        let mut order: Vec<u32> = (0..u32::try_from(keys.len()).unwrap_or(u32::MAX)).collect();
        order.sort_by(|&a, &b| {
            let (a, b) = (keys[a as usize], keys[b as usize]);
            if descending { b.total_cmp(&a) } else { a.total_cmp(&b) }
        });
        let mut ends = Vec::new();
        let mut end = 0;
        for group in order.chunk_by(|&a, &b| keys[a as usize] == keys[b as usize]) {
            end += u32::try_from(group.len()).unwrap_or(u32::MAX);
            ends.push(end);
        }
        Self { order, ends }
    }

    fn groups(&self) -> impl Iterator<Item = &[u32]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .map(|(start, end)| &self.order[start as usize..*end as usize])
    }

    /// The average rank of each value if each value occurs as often as its weight.
    pub(super) fn average_ranks(&self, weights: &[f64]) -> Vec<f64> {
        let mut ranks = vec![0.0; self.order.len()];
        let mut before = 0.0;
        for group in self.groups() {
            let own: f64 = group.iter().map(|i| weights[*i as usize]).sum();
            let rank = before + (own + 1.0) / 2.0;
            for i in group {
                ranks[*i as usize] = rank;
            }
            before += own;
        }
        ranks
    }

    /// Average precision with ties grouped (scikit-learn); `None` if either class has no weight.
    pub(super) fn average_precision(&self, labels: &[bool], weights: &[f64]) -> Option<f64> {
        let (mut positives, mut total) = (0.0, 0.0);
        for (label, weight) in labels.iter().zip(weights) {
            total += weight;
            positives += if *label { *weight } else { 0.0 };
        }
        if positives <= 0.0 || positives >= total {
            return None;
        }
        let (mut seen, mut found, mut recall, mut sum) = (0.0, 0.0, 0.0, 0.0);
        for group in self.groups() {
            for i in group {
                let weight = weights[*i as usize];
                seen += weight;
                found += if labels[*i as usize] { weight } else { 0.0 };
            }
            if seen > 0.0 {
                let here = found / positives;
                sum += (here - recall) * (found / seen);
                recall = here;
            }
        }
        Some(sum)
    }
}

/// The item of each point.
#[derive(Debug, Clone)]
pub(super) struct Points {
    /// Empty: each point is an item.
    items: Vec<u32>,
}

impl Points {
    /// From the number of points of each item; empty: each point is an item.
    pub(super) fn new(points: &[u32], total: usize) -> Self {
        let mut items = Vec::new();
        if !points.is_empty() {
            items.reserve(total);
            for (item, count) in (0_u32..).zip(points) {
                items.extend(std::iter::repeat_n(item, *count as usize));
            }
        }
        Self { items }
    }

    /// The weight of each point, from the weights of the items.
    pub(super) fn weights<'a>(&self, weights: &'a [f64]) -> std::borrow::Cow<'a, [f64]> {
        if self.items.is_empty() {
            weights.into()
        } else {
            self.items.iter().map(|item| weights[*item as usize]).collect()
        }
    }
}

/// Pearson's correlation of weighted points; `None` if a series does not vary.
pub(super) fn weighted_pearson(x: &[f64], y: &[f64], weights: &[f64]) -> Option<f64> {
    let points = || x.iter().zip(y).zip(weights).filter(|(_, w)| **w > 0.0);
    let (mut total, mut sum_x, mut sum_y) = (0.0, 0.0, 0.0);
    for ((x, y), w) in points() {
        total += w;
        sum_x += w * x;
        sum_y += w * y;
    }
    if total <= 0.0 {
        return None;
    }
    let (mean_x, mean_y) = (sum_x / total, sum_y / total);
    let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
    for ((x, y), w) in points() {
        let (dx, dy) = (x - mean_x, y - mean_y);
        xx += w * dx * dx;
        yy += w * dy * dy;
        xy += w * dx * dy;
    }
    // Ranks of equal values are equal, and their mean is so exact that a constant series leaves
    // only rounding errors.
    let varies = |squares: f64, mean: f64| squares > total * (1.0 + mean * mean) * 1e-24;
    (varies(xx, mean_x) && varies(yy, mean_y)).then(|| (xy / (xx.sqrt() * yy.sqrt())).clamp(-1.0, 1.0))
}
