//! The caller that a call is made for, as a gateway reports it to the server behind it.

/// Metadata that names the caller on whose behalf a gateway makes a call. Without it, access is not
/// restricted to one caller's runs: all runs are visible.
pub const CALLER: &str = "isomer-caller";
