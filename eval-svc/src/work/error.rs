//! Why texts could not be encoded.

use isomer_service_kit::Fault;

/// An encoder could not be used.
#[derive(Debug)]
pub(crate) enum EncodingError {
    /// The encoder refused, failed or could not be reached.
    Refused(Box<Fault>),
    /// The encoder's answer cannot be used.
    Unusable(String),
    /// The encoder could not encode the text at this index.
    Text {
        /// Index among the texts given.
        index: usize,
        /// Why.
        message: String,
    },
}
