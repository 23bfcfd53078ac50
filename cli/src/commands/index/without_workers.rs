//! A build without the feature `fleet`: this process encodes the texts of a collection.

use std::sync::Arc;

use isomer_index::encode::Workers;

use super::ALONE;
use crate::{connect::Connection, exit::Failure, progress::Display};

pub(super) fn of(_: &Connection) -> Option<Arc<dyn Workers>> {
    None
}

pub(super) fn in_flight(_: &Connection) -> usize {
    ALONE
}

#[allow(clippy::unused_async, reason = "the function of a build with workers asks them")]
pub(super) async fn announce(_: &Connection, _: &Display) -> Result<(), Failure> {
    Ok(())
}
