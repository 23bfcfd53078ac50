//! Encodes the texts of a collection with the workers of a fleet.

use std::sync::Arc;

use futures::{FutureExt, future::BoxFuture};
use isomer_all_in_one::BulkEncoder;
use isomer_index::encode::Workers;
use isomer_proto::{
    common::v1::VectorSpace,
    encoder::v1::{EncodeRequest, EncodeResponse},
    transform::v1::{EncodeAugmentedRequest, EncodeAugmentedResponse},
};
use isomer_service_kit::Fault;

use super::ALONE;
use crate::{connect::Connection, exit::Failure, progress::Display};

/// The workers that encode for a connection; `None` without a fleet.
pub(super) fn of(connection: &Connection) -> Option<Arc<dyn Workers>> {
    Some(Arc::new(Fleet(connection.bulk_encoder()?.clone())))
}

/// Useful number of concurrent batches.
pub(super) fn in_flight(connection: &Connection) -> usize {
    connection.bulk_encoder().map_or(ALONE, |bulk| bulk.in_flight())
}

/// Reports the workers that encode, if there are any.
pub(super) async fn announce(connection: &Connection, display: &Display) -> Result<(), Failure> {
    if let Some(bulk) = connection.bulk_encoder() {
        let workers = bulk.describe_workers().await?;
        display.message(&format!("encoded by workers: {workers}"));
    }
    Ok(())
}

#[derive(Debug)]
struct Fleet(BulkEncoder);

impl Workers for Fleet {
    fn encode<'a>(
        &'a self,
        space: &'a VectorSpace,
        request: EncodeRequest,
    ) -> BoxFuture<'a, Result<EncodeResponse, Fault>> {
        self.0.encode(space, request).boxed()
    }

    fn encode_augmented<'a>(
        &'a self,
        space: &'a VectorSpace,
        request: EncodeAugmentedRequest,
    ) -> BoxFuture<'a, Result<EncodeAugmentedResponse, Fault>> {
        self.0.encode_augmented(space, request).boxed()
    }
}
