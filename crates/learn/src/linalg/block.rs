//! The layout of a block of rows, which is packed once and multiplied in tiles.

/// Rows of a block. Its values and scores stay in the second-level cache between the two products.
pub(crate) const BLOCK: usize = 96;
/// Dimensions of a group, which a block stores side by side.
pub(crate) const GROUP: usize = 6;

/// A block of rows, `[group][row][dimension]`, with the numbers of rows and groups that contain
/// data.
#[derive(Clone, Copy)]
pub(crate) struct Block<'a, E> {
    pub(crate) values: &'a [E],
    pub(crate) rows: usize,
    pub(crate) groups: usize,
}

impl<E> Block<'_, E> {
    /// # Panics
    /// If it has more rows than a block, or fewer values than its groups.
    pub(crate) fn check(&self) {
        assert!(self.rows <= BLOCK && self.values.len() >= self.groups * GROUP * BLOCK);
    }
}
