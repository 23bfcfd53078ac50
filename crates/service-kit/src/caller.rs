//! The caller of a call, as a gateway reports it to the server behind it.

/// Metadata that names the caller for whom a gateway makes a call. Without it, all runs are
/// visible; with it, only the caller's own runs are.
pub const CALLER: &str = "isomer-caller";
