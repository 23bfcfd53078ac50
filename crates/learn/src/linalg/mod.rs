//! The arithmetic of the classifier: rows packed once, and products fused with the following
//! operations.
//!
//! All sums run in an order that depends only on the data's shape, never on the number of threads.

mod block;
mod blocks;
mod dispatch;
mod exp;
mod tile;
mod vector;

pub(crate) use block::{BLOCK, Block, GROUP};
pub(crate) use blocks::RowBlocks;
pub(crate) use dispatch::{dispatched, fma};
pub(crate) use exp::exp;
pub(crate) use tile::{Element, PANEL, backward, forward};
pub(crate) use vector::{CHUNK, add_f32, axpy, dot, dot_f32, dot_f32_by_four, largest, norm};
