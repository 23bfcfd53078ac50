//! The fuzz targets on their committed corpus, and inputs that once failed.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod long_names;
mod replay;
