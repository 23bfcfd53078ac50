//! The caller that a call is made for, as a gateway reports it to the server behind it.

/// Metadata that names the caller on whose behalf a gateway asks. Without it, access is not
/// divided: all runs are seen.
pub const CALLER: &str = "isomer-caller";
