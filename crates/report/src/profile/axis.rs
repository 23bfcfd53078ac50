//! The property that a transformation varies.

pub use isomer_transformations::Axis;
