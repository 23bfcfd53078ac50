//! The reasons why texts could not be encoded.

use isomer_service_kit::Fault;

/// An encoder could not be used.
#[derive(Debug)]
pub(crate) enum EncodingError {
    /// The encoder refused, failed or was unreachable.
    Refused(Box<Fault>),
    /// The encoder's response is unusable.
    Unusable(String),
    /// The encoder could not encode the text at this index.
    Text {
        /// Index among the texts given.
        index: usize,
        message: String,
    },
}
