//! State that the calls of a client share beside the channel.

use isomer_encoder_client::batches::Bounds;

/// How texts are divided into requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchOptions {
    pub(crate) in_flight: usize,
    pub(crate) bounds: Bounds,
    pub(crate) check_spaces: bool,
}
