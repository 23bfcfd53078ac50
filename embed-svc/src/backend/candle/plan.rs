//! Groups the texts of a batch for attention. Texts of similar length form a group that is padded
//! to its longest text, so that a layer consists of a handful of large products instead of
//! thousands of small ones.
//!
//! A padding row is a copy of the text's own last row, so a value that is not finite in one text
//! cannot reach another.

use std::{
    cell::{OnceCell, RefCell},
    ops::Range,
};

use candle_core::{Device, Result, Tensor};

use super::{Span, launch::counted};
use crate::batch::{Sums, TokenBatch};

/// Elements of one head's scores that are in memory at once: with 12 heads in 32 bits 400 MB on a
/// GPU.
const GPU_CELLS: usize = 1 << 23;
/// The limit on the CPU.
const CPU_CELLS: usize = 1 << 20;
/// Cost of a group in addition to its scores, in elements of one head's scores: a dozen launches on
/// a GPU.
const GPU_GROUP: usize = 1 << 18;
/// The cost on the CPU.
const CPU_GROUP: usize = 1 << 10;

/// The costs that decide the grouping.
#[derive(Debug, Clone, Copy)]
struct Costs {
    cells: usize,
    group: usize,
}

impl Costs {
    fn of(device: &Device) -> Self {
        if device.is_cpu() {
            Self {
                cells: CPU_CELLS,
                group: CPU_GROUP,
            }
        } else {
            Self {
                cells: GPU_CELLS,
                group: GPU_GROUP,
            }
        }
    }

    /// Number of queries computed at once in a group of this many texts and rows.
    fn block(self, texts: usize, rows: usize) -> usize {
        (self.cells / (texts * rows)).clamp(1, rows)
    }
}

/// The text numbers of each group, the longest texts first. This is the grouping with the minimum
/// sum of scores and group costs. Groups with too many scores are then split. Empty texts are not
/// in any group.
fn groups(lengths: &[usize], costs: Costs) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..lengths.len()).filter(|&text| lengths[text] > 0).collect();
    // The sort is stable, so that texts of one length keep their order.
    order.sort_by_key(|&text| std::cmp::Reverse(lengths[text]));
    // A boundary between texts of equal length saves nothing, so only the first text of a length
    // may begin a group.
    let mut starts: Vec<usize> = (0..order.len())
        .filter(|&at| at == 0 || lengths[order[at]] != lengths[order[at - 1]])
        .collect();
    starts.push(order.len());
    // best[j]: minimum cost of the texts before starts[j], and the start of the last group among
    // them.
    let mut best = vec![(0usize, 0usize); starts.len()];
    for end in 1..starts.len() {
        let cost = |from: usize| {
            let longest = lengths[order[starts[from]]];
            let scores = (starts[end] - starts[from]).saturating_mul(longest.saturating_mul(longest));
            (best[from].0.saturating_add(scores).saturating_add(costs.group), from)
        };
        best[end] = (0..end).map(cost).min().unwrap_or_default();
    }
    let mut cuts = Vec::new();
    let mut end = starts.len() - 1;
    while end > 0 {
        let from = best[end].1;
        cuts.push(starts[from]..starts[end]);
        end = from;
    }
    let mut groups = Vec::new();
    for range in cuts.into_iter().rev() {
        let longest = lengths[order[range.start]];
        let most = (costs.cells / (longest * longest)).max(1);
        groups.extend(order[range].chunks(most).map(<[usize]>::to_vec));
    }
    groups
}

/// Texts that are computed together.
pub(super) struct Group {
    /// Their numbers in the batch.
    pub(super) texts: Vec<usize>,
    /// Rows per text, including padding.
    pub(super) rows: usize,
    /// Row indices in the batch, `texts · rows`; `None` if they are all rows of the batch in order.
    index: Option<Tensor>,
    /// `1 × texts × 1 × rows`: -∞ at padding; `None` without padding.
    pub(super) padding: Option<Tensor>,
    /// Queries computed at once.
    pub(super) block: usize,
    distances: OnceCell<Tensor>,
    masks: RefCell<Vec<(Span, Tensor)>>,
}

impl Group {
    /// The rows of this group from a tensor of all rows of the batch.
    pub(super) fn of(&self, all: &Tensor) -> Result<Tensor> {
        match &self.index {
            Some(index) => all.index_select(index, 0),
            None => Ok(all.clone()),
        }
    }

    /// `rows · rows`: `rows - 1 + key - query` for each query and key.
    pub(super) fn distances(&self, device: &Device) -> Result<Tensor> {
        if let Some(known) = self.distances.get() {
            return Ok(known.clone());
        }
        let n = self.rows;
        counted(&[n, n])?;
        let values: Vec<u32> = (0..n)
            .flat_map(|query| (0..n).filter_map(move |key| u32::try_from(n - 1 + key - query).ok()))
            .collect();
        let made = Tensor::from_vec(values, n * n, device)?;
        Ok(self.distances.get_or_init(|| made).clone())
    }

    /// `rows × rows`: 0 where a query sees a key, -∞ elsewhere; `None` if it sees all.
    pub(super) fn mask(&self, span: Span, device: &Device) -> Result<Option<Tensor>> {
        let n = self.rows;
        if span.before.min(span.after) >= n - 1 {
            return Ok(None);
        }
        let mut masks = self.masks.borrow_mut();
        if let Some((_, mask)) = masks.iter().find(|(own, _)| *own == span) {
            return Ok(Some(mask.clone()));
        }
        counted(&[n, n])?;
        let hidden = |query: usize, key: usize| {
            query.saturating_sub(key) > span.before || key.saturating_sub(query) > span.after
        };
        let values: Vec<f32> = (0..n * n)
            .map(|i| if hidden(i / n, i % n) { f32::NEG_INFINITY } else { 0.0 })
            .collect();
        let mask = Tensor::from_vec(values, (n, n), device)?;
        masks.push((span, mask.clone()));
        Ok(Some(mask))
    }
}

/// Tiles of a batch that one launch computes.
#[cfg(any(test, feature = "cuda"))]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Run {
    /// Warps of a block; each has 16 queries.
    pub(super) warps: usize,
    pub(super) tiles: Range<usize>,
}

/// The tiles of the attention kernels, three numbers each: first row of the text, rows of the text,
/// first query of the tile. With matrix units a block has as many warps as the text can use, so the
/// choice depends only on that text. Later queries come first: under causal attention they see more
/// keys.
#[cfg(any(test, feature = "cuda"))]
fn tiles(ranges: &[Range<usize>], matrix_units: bool) -> (Vec<u32>, Vec<Run>) {
    let sizes: &[usize] = if matrix_units { &[8, 4, 2, 1] } else { &[4] };
    let warps_of = |rows: usize| {
        let enough = sizes.iter().rev().find(|warps| rows <= 16 * **warps);
        *enough.unwrap_or(&sizes[0])
    };
    let (mut numbers, mut runs) = (Vec::new(), Vec::new());
    for &warps in sizes {
        let first = numbers.len() / 3;
        for range in ranges
            .iter()
            .filter(|range| !range.is_empty() && warps_of(range.len()) == warps)
        {
            for query in (0..range.len()).step_by(16 * warps).rev() {
                numbers
                    .extend([range.start, range.len(), query].map(|number| u32::try_from(number).unwrap_or(u32::MAX)));
            }
        }
        let tiles = first..numbers.len() / 3;
        if !tiles.is_empty() {
            runs.push(Run { warps, tiles });
        }
    }
    (numbers, runs)
}

/// The groups of a batch, the mapping back to its order, and data that layers share. Each part is
/// computed when it is first needed.
pub struct Plan {
    device: Device,
    ranges: Vec<Range<usize>>,
    tokens: usize,
    groups: OnceCell<Vec<Group>>,
    back: OnceCell<Option<Tensor>>,
    positions: OnceCell<Tensor>,
    /// Cosines, sines and row of each token for a rotation with special angles for long texts, by
    /// the rotation's address.
    pub(super) angles: RefCell<Vec<(usize, [Tensor; 3])>>,
    #[cfg(feature = "cuda")]
    offsets: OnceCell<Tensor>,
    #[cfg(feature = "cuda")]
    tiles: [OnceCell<(Tensor, Vec<Run>)>; 2],
}

impl Plan {
    pub(super) fn new(batch: &TokenBatch, device: &Device) -> Self {
        Self {
            device: device.clone(),
            ranges: batch.ranges().collect(),
            tokens: batch.tokens(),
            groups: OnceCell::new(),
            back: OnceCell::new(),
            positions: OnceCell::new(),
            angles: RefCell::default(),
            #[cfg(feature = "cuda")]
            offsets: OnceCell::new(),
            #[cfg(feature = "cuda")]
            tiles: Default::default(),
        }
    }

    /// Rows of each text.
    pub(super) fn ranges(&self) -> &[Range<usize>] {
        &self.ranges
    }

    pub(super) fn groups(&self) -> Result<&[Group]> {
        if let Some(known) = self.groups.get() {
            return Ok(known);
        }
        let lengths: Vec<usize> = self.ranges.iter().map(Range::len).collect();
        let costs = Costs::of(&self.device);
        let made = groups(&lengths, costs)
            .into_iter()
            .map(|texts| self.group(texts, costs))
            .collect::<Result<Vec<_>>>()?;
        Ok(self.groups.get_or_init(|| made))
    }

    fn group(&self, texts: Vec<usize>, costs: Costs) -> Result<Group> {
        let length = |text: usize| self.ranges[text].len();
        let rows = texts.iter().map(|&text| length(text)).max().unwrap_or(0);
        let index: Vec<u32> = texts
            .iter()
            .flat_map(|&text| (0..rows).map(move |row| (text, row)))
            .filter_map(|(text, row)| u32::try_from(self.ranges[text].start + row.min(length(text) - 1)).ok())
            .collect();
        let packed = index.len() == self.tokens && index.iter().zip(0..).all(|(row, place)| *row == place);
        let padding: Vec<f32> = texts
            .iter()
            .flat_map(|&text| (0..rows).map(move |row| if row < length(text) { 0.0 } else { f32::NEG_INFINITY }))
            .collect();
        let padded = padding.iter().any(|value| *value != 0.0);
        let count = texts.len();
        Ok(Group {
            texts,
            rows,
            index: (!packed)
                .then(|| Tensor::from_vec(index, count * rows, &self.device))
                .transpose()?,
            padding: padded
                .then(|| Tensor::from_vec(padding, (1, count, 1, rows), &self.device))
                .transpose()?,
            block: costs.block(count, rows),
            distances: OnceCell::new(),
            masks: RefCell::default(),
        })
    }

    /// The rows of all groups, given group by group, in the batch's order and without padding.
    pub(super) fn back(&self, grouped: &[Tensor]) -> Result<Tensor> {
        let all = Tensor::cat(grouped, 0)?;
        if self.back.get().is_none() {
            let mut rows = vec![0u32; self.tokens];
            let mut first = 0;
            for group in self.groups()? {
                for &text in &group.texts {
                    for (place, row) in self.ranges[text].clone().zip(first..) {
                        rows[place] = u32::try_from(row).unwrap_or(u32::MAX);
                    }
                    first += group.rows;
                }
            }
            let packed = first == self.tokens && rows.iter().zip(0..).all(|(row, place)| *row == place);
            let made = (!packed)
                .then(|| Tensor::from_vec(rows, self.tokens, &self.device))
                .transpose()?;
            let _ = self.back.set(made);
        }
        match self.back.get() {
            Some(Some(back)) => all.index_select(back, 0),
            _ => Ok(all),
        }
    }

    /// The position of each row in its text.
    pub(super) fn positions(&self) -> Result<Tensor> {
        if let Some(known) = self.positions.get() {
            return Ok(known.clone());
        }
        let values: Vec<u32> = self
            .ranges
            .iter()
            .flat_map(|range| (0u32..).take(range.len()))
            .collect();
        let made = Tensor::from_vec(values, self.tokens, &self.device)?;
        Ok(self.positions.get_or_init(|| made).clone())
    }

    /// The start of each text, and the end: `texts + 1`.
    #[cfg(feature = "cuda")]
    pub(super) fn offsets(&self) -> Result<Tensor> {
        if let Some(known) = self.offsets.get() {
            return Ok(known.clone());
        }
        let ends = self.ranges.iter().map(|range| range.end);
        let values: Vec<u32> = std::iter::once(0)
            .chain(ends)
            .filter_map(|end| u32::try_from(end).ok())
            .collect();
        let count = values.len();
        let made = Tensor::from_vec(values, count, &self.device)?;
        Ok(self.offsets.get_or_init(|| made).clone())
    }

    /// The tiles of the attention kernels and their launches.
    #[cfg(feature = "cuda")]
    pub(super) fn tiles(&self, matrix_units: bool) -> Result<(Tensor, Vec<Run>)> {
        let cell = &self.tiles[usize::from(matrix_units)];
        if let Some(known) = cell.get() {
            return Ok(known.clone());
        }
        let (numbers, runs) = tiles(&self.ranges, matrix_units);
        let made = Tensor::from_slice(&numbers, numbers.len(), &self.device)?;
        Ok(cell.get_or_init(|| (made, runs)).clone())
    }

    /// The weighted sums of each text's rows, `texts · sums × width` in the order of the groups,
    /// and their texts.
    pub(super) fn sums(&self, states: &Tensor, wanted: &Sums) -> Result<(Tensor, Vec<usize>)> {
        let width = states.dim(1)?;
        let (mut parts, mut order) = (Vec::new(), Vec::new());
        for group in self.groups()? {
            let (count, rows) = (group.texts.len(), group.rows);
            let mut weights = vec![0.0; count * wanted.count * rows];
            for (&text, weights) in group.texts.iter().zip(weights.chunks_exact_mut(wanted.count * rows)) {
                let own = wanted.of(&self.ranges[text]);
                let length = self.ranges[text].len();
                for (weights, own) in weights.chunks_exact_mut(rows).zip(own.chunks_exact(length)) {
                    weights[..length].copy_from_slice(own);
                }
            }
            let weights = Tensor::from_vec(weights, (count, wanted.count, rows), &self.device)?;
            let own = group.of(states)?.to_dtype(candle_core::DType::F32)?;
            let sums = weights.matmul(&own.reshape((count, rows, width))?)?;
            parts.push(sums.reshape((count * wanted.count, width))?);
            order.extend_from_slice(&group.texts);
        }
        Ok((Tensor::cat(&parts, 0)?, order))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    const COSTS: Costs = Costs { cells: 400, group: 100 };

    #[test]
    fn texts_of_like_length_are_together_and_far_ones_apart() {
        // The cost is 3 · 81, plus 3 · 4 and one more group; a single group would cost 6 · 81.
        assert_eq!(groups(&[2, 9, 2, 9, 2, 9], COSTS), [vec![1, 3, 5], vec![0, 2, 4]]);
        // Separate groups would save 2 · (81 - 64), which is less than the cost of a group.
        assert_eq!(groups(&[8, 9, 0, 8], COSTS), [vec![1, 0, 3]]);
    }

    #[test]
    fn a_group_is_cut_where_its_scores_are_too_many() {
        assert_eq!(groups(&[10; 9], COSTS), [vec![0, 1, 2, 3], vec![4, 5, 6, 7], vec![8]]);
        assert_eq!(groups(&[100, 100], COSTS), [vec![0], vec![1]]);
    }

    #[test]
    fn a_tile_depends_on_its_text_alone_and_each_query_is_in_one() {
        let lengths = [0usize, 5, 16, 17, 64, 65, 128, 129, 300];
        let mut end = 0;
        let ranges: Vec<_> = lengths
            .iter()
            .map(|length| {
                end += length;
                end - length..end
            })
            .collect();
        for matrix_units in [false, true] {
            let (numbers, runs) = tiles(&ranges, matrix_units);
            let mut rows = Vec::new();
            for Run { warps, tiles: run } in &runs {
                for tile in numbers[3 * run.start..3 * run.end].chunks(3) {
                    let [start, length, query] = [tile[0], tile[1], tile[2]].map(|number| number as usize);
                    assert!(ranges.contains(&(start..start + length)));
                    let alone = tiles(&[0..0, 0..length], matrix_units).1;
                    assert_eq!(alone.iter().map(|run| run.warps).collect::<Vec<_>>(), [*warps]);
                    rows.extend(start + query..start + length.min(query + 16 * warps));
                }
            }
            rows.sort_unstable();
            assert_eq!(rows, (0..end).collect::<Vec<_>>());
            assert_eq!(runs.last().unwrap().tiles.end, numbers.len() / 3);
        }
    }

    const GPU: Costs = Costs {
        cells: GPU_CELLS,
        group: GPU_GROUP,
    };

    /// No kernel here is our own, so no launch is configured here. Candle launches a thread per
    /// element (`LaunchConfig::for_num_elems`, which counts in 32 bits and wraps) and a block of 32
    /// threads per row of a softmax. This module chooses the number of elements and rows.
    #[test]
    fn a_gpu_is_given_launches_of_these_sizes() {
        // Columns: texts, tokens per text; then texts of the first group, queries at once, blocks
        // of queries.
        for (texts, tokens, first, block, blocks) in [
            (4096, 16, 4096, 16, 1),
            (64, 250, 64, 250, 1),
            (262, 250, 134, 250, 1),
            (2, 8192, 1, 1024, 8),
            (1, 32_768, 1, 256, 128),
        ] {
            let groups = groups(&vec![tokens; texts], GPU);
            assert_eq!(groups[0].len(), first, "{texts} x {tokens}");
            assert_eq!(GPU.block(first, tokens), block, "{texts} x {tokens}");
            assert_eq!(tokens.div_ceil(block), blocks, "{texts} x {tokens}");
            // 32 query heads and 8 key heads of 128 columns, and inner width 12,288: 7.6 billion
            // weights.
            let (softmax_rows, scores) = (32 * first * block, 32 * first * block * tokens);
            assert!(
                softmax_rows <= i32::MAX as usize,
                "{texts} x {tokens}: blocks of a grid"
            );
            assert!(scores <= 32 * GPU_CELLS, "{texts} x {tokens}: memory");
            for elements in [
                scores,
                (32 + 2 * 8) * 128 * first * tokens,
                12_288 * texts * tokens,
                tokens * tokens,
            ] {
                assert!(
                    i32::try_from(elements).is_ok(),
                    "{texts} x {tokens}: {elements} elements"
                );
            }
        }
    }

    #[test]
    fn a_block_has_a_query_at_least_and_all_at_most() {
        assert_eq!(GPU.block(1, 2 * GPU_CELLS), 1);
        assert_eq!(GPU.block(1, 1), 1);
        assert_eq!(GPU.block(1, 100), 100);
    }

    proptest! {
        #[test]
        fn every_text_that_is_not_empty_is_in_one_group(lengths in prop::collection::vec(0usize..30, 0..60)) {
            let groups = groups(&lengths, COSTS);
            let mut all: Vec<usize> = groups.concat();
            all.sort_unstable();
            prop_assert_eq!(all, (0..lengths.len()).filter(|&text| lengths[text] > 0).collect::<Vec<_>>());
            for group in groups {
                let longest = group.iter().map(|&text| lengths[text]).max().unwrap();
                prop_assert!(group.len() == 1 || group.len() * longest * longest <= COSTS.cells);
            }
        }
    }
}
