//! Encodes texts with the workers of a fleet outside of any run, to fill a search index.
//!
//! The rows of the collection record the progress, so nothing of these units is kept: the process
//! that has the answer removes request and answer ([`Dispatcher::request_once`]), and a process
//! that waits for an equal unit writes the request again. Their addresses are never those of a
//! run's units. The leading process learns the vector space from one text that it encodes itself; a
//! worker with a different space refuses the unit.

use std::sync::Arc;

use isomer_fleet::{Dispatcher, Kind, Unit};
use isomer_proto::{
    common::v1::VectorSpace,
    encoder::v1::{EncodeRequest, EncodeResponse},
    transform::v1::{EncodeAugmentedRequest, EncodeAugmentedResponse},
};
use isomer_service_kit::{Fault, Tenant};
use prost::Message;

use super::{
    engine::{encode_unit, encoder_lane, unreadable, workers_in_words},
    wire::{AugmentUnit, GenerationUnit, GenerationWork},
};

/// Part of the addresses of these units, so that none is a unit of a run, which may rely on its
/// answer.
const BULK: &str = "bulk";

/// Has workers encode texts. Vectors of any worker are bit for bit those of this process: a worker
/// of another class of arithmetic takes none of its requests, and a worker with another encoder,
/// generator or prompt refuses them. A request's data is removed from the store once it is
/// answered. Cheap to clone.
#[derive(Debug, Clone)]
pub struct BulkEncoder {
    dispatcher: Dispatcher,
    class: Arc<str>,
}

impl BulkEncoder {
    /// Creates an encoder for a process of this class of arithmetic.
    pub fn new(dispatcher: Dispatcher, class: &str) -> Self {
        Self {
            dispatcher,
            class: class.into(),
        }
    }

    /// Encodes texts, whose vectors are of `space`.
    ///
    /// # Errors
    /// If the encoder of a worker refuses the texts; if no worker takes the request within
    /// `fleet.worker_wait_seconds`; if the request was started too often; if the store fails.
    pub async fn encode(&self, space: &VectorSpace, request: EncodeRequest) -> Result<EncodeResponse, Fault> {
        let lane = encoder_lane(Kind::Encode, &request.encoder_id, space, &self.class);
        let unit = encode_unit(lane, &[BULK], space.clone(), request, &Tenant::default());
        let answer = self.dispatcher.request_once(unit).await?;
        EncodeResponse::decode(answer).map_err(|error| unreadable(&error))
    }

    /// Encodes texts with variants, whose vectors are of `space`.
    ///
    /// # Errors
    /// As for [`BulkEncoder::encode`].
    pub async fn encode_augmented(
        &self,
        space: &VectorSpace,
        request: EncodeAugmentedRequest,
    ) -> Result<EncodeAugmentedResponse, Fault> {
        // The vectors are those of an encoder, whichever generator makes the variants.
        let lane = encoder_lane(Kind::Transform, &request.encoder_id, space, &self.class);
        let unit = GenerationUnit {
            work: Some(GenerationWork::Augment(AugmentUnit {
                space: space.digest.clone(),
                request,
                tenant: None,
            })),
        };
        let unit = Unit::new(lane, &[BULK], unit.encode_to_vec().into());
        let answer = self.dispatcher.request_once(unit).await?;
        EncodeAugmentedResponse::decode(answer).map_err(|error| unreadable(&error))
    }

    /// A description of the available workers.
    ///
    /// # Errors
    /// If the broker does not respond.
    pub async fn describe_workers(&self) -> Result<String, Fault> {
        let workers = self.dispatcher.queue().workers().await?;
        Ok(workers_in_words(&workers, &self.class))
    }

    /// Useful number of requests in flight.
    pub fn in_flight(&self) -> usize {
        self.dispatcher.queue().config().units_in_flight
    }

    /// Waits until abandoned requests have left the queue, for at most some seconds. Call it before
    /// the process ends.
    pub async fn wait_for_cancellations(&self) {
        self.dispatcher.wait_for_cancellations().await;
    }
}
