//! Rows, packed once so that both products of the classifier read them sequentially.

use super::{
    block::{BLOCK, Block, GROUP},
    dispatched,
};
use crate::vectors::Vectors;

/// Rows in blocks of [`BLOCK`], a block in groups of [`GROUP`] dimensions:
/// `[block][group][row][dimension]`. Missing rows and dimensions are zero.
pub(crate) struct RowBlocks {
    data: Vec<f32>,
    rows: usize,
    cols: usize,
}

impl RowBlocks {
    /// Packs every row.
    pub(crate) fn new(vectors: Vectors<'_>) -> Self {
        Self::pack(vectors, vectors.rows(), |i| i)
    }

    /// Packs the rows at `positions`, in that order.
    pub(crate) fn gather(vectors: Vectors<'_>, positions: &[usize]) -> Self {
        Self::pack(vectors, positions.len(), |i| positions[i])
    }

    fn pack(vectors: Vectors<'_>, rows: usize, at: impl Fn(usize) -> usize + Sync) -> Self {
        use rayon::prelude::*;
        let cols = vectors.cols();
        let size = cols.div_ceil(GROUP) * GROUP * BLOCK;
        let mut data = vec![0.0; rows.div_ceil(BLOCK) * size];
        data.par_chunks_mut(size).enumerate().for_each(|(block, out)| {
            for row in 0..BLOCK.min(rows - block * BLOCK) {
                for (group, values) in vectors.row(at(block * BLOCK + row)).chunks(GROUP).enumerate() {
                    let start = (group * BLOCK + row) * GROUP;
                    out[start..start + values.len()].copy_from_slice(values);
                }
            }
        });
        Self { data, rows, cols }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Groups of dimensions.
    pub(crate) fn groups(&self) -> usize {
        self.cols.div_ceil(GROUP)
    }

    pub(crate) fn blocks(&self) -> usize {
        self.rows.div_ceil(BLOCK)
    }

    /// Rows of a block that contain data.
    pub(crate) fn rows_in(&self, block: usize) -> usize {
        BLOCK.min(self.rows - block * BLOCK)
    }

    pub(crate) fn block(&self, block: usize) -> Block<'_, f32> {
        let size = self.groups() * GROUP * BLOCK;
        Block {
            values: &self.data[block * size..(block + 1) * size],
            rows: self.rows_in(block),
            groups: self.groups(),
        }
    }

    /// A block in f64, stored in `room`. Widening it each time costs less than reading a copy of
    /// all rows in f64 from memory.
    pub(crate) fn widened<'a>(&self, block: usize, room: &'a mut Vec<f64>) -> Block<'a, f64> {
        let Block { values, rows, groups } = self.block(block);
        room.resize(values.len(), 0.0);
        widen(values, room);
        Block {
            values: room,
            rows,
            groups,
        }
    }
}

dispatched! {
    /// `to = from`.
    fn widen(from: &[f32], to: &mut [f64]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = f64::from(*from);
        }
    }
}
