//! Entry points for the fuzz targets of `tests/fuzz` into readers that are private to this crate.
//! Not part of the crate's interface.

use http::{HeaderMap, StatusCode};
use isomer_service_kit::{Fault, config::Secret};

use crate::rest::failure;

/// The caller's fault for an unsuccessful answer.
pub fn failure(status: StatusCode, headers: &HeaderMap, body: &[u8], secret: &str) -> Fault {
    failure::of_status("provider", status, headers, body, &Secret::new(secret))
}
