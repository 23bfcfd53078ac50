//! Functions that are compiled for each number of rows.

/// Calls a function with a tile and, as its first constant, the tile's number of rows: one of those
/// listed, or 1. The other constants of the function are in brackets.
macro_rules! for_rows {
    ($tile:ident, $function:ident $constants:tt; $($rows:literal)+) => {
        match $tile.rows {
            $($rows => crate::dispatch::for_rows!(@call $tile, $function, $rows, $constants),)+
            _ => crate::dispatch::for_rows!(@call $tile, $function, 1, $constants),
        }
    };
    (@call $tile:ident, $function:ident, $rows:literal, [$($constant:ident),*]) => {
        $function::<$rows $(, $constant)*>($tile)
    };
}

pub(crate) use for_rows;
