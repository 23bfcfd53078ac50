//! Validates answers of other encoder services.

use isomer_encoder_client::answer::{self, ExpectedAnswer};
use isomer_proto::encoder::v1::EncodeResponse;
use isomer_service_kit::Fault;
use tonic::Code;

/// Returns the answer if it is valid for the request.
///
/// # Errors
/// `DATA_LOSS`: mismatched rows, columns, element type or bytes; values that are not finite; no
/// vector space.
pub(super) fn sound(id: &str, answer: EncodeResponse, expected: ExpectedAnswer) -> Result<EncodeResponse, Fault> {
    let bad = |what: String| {
        Fault::new(Code::DataLoss, "PROVIDER_ANSWER", format!("provider `{id}`: {what}"))
            .hint("check the provider with CheckProvider")
            .with("provider", id)
    };
    answer::check(&answer, expected).map_err(bad)?;
    Ok(answer)
}
