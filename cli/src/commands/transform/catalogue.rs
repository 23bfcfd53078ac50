//! The transformation service and its catalogue.

use isomer_proto::transform::v1::{
    ListTransformationsRequest, TransformationInfo, transform_service_client::TransformServiceClient,
    transformation::Kind,
};
use isomer_transform::catalogue::{ENTRIES, with_defaults};

use crate::{
    connect::{Connection, MAX_MESSAGE_BYTES},
    exit::Failure,
};

/// A client of the service.
pub(crate) fn client(connection: &Connection) -> TransformServiceClient<isomer_client::Channel> {
    TransformServiceClient::new(connection.channel.clone())
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES)
}

/// The transformation with this name, with default parameters.
pub(crate) fn kind_named(flag: &str, name: &str) -> Result<Kind, Failure> {
    with_defaults(name).map_err(|nearest| {
        Failure::usage(format!(
            "{flag}: unknown transformation `{name}`{}; `isomer transform --transformation list` prints the catalogue",
            nearest.map_or_else(String::new, |nearest| format!(", did you mean `{nearest}`?"))
        ))
    })
}

/// The name of a transformation with its default parameters; empty for any other.
pub(crate) fn kind_name(kind: &Kind) -> &'static str {
    let of_kind = |name: &&str| with_defaults(name).is_ok_and(|named| named == *kind);
    ENTRIES.iter().map(|entry| entry.name).find(of_kind).unwrap_or_default()
}

/// Every transformation.
pub(crate) async fn catalogue(connection: &Connection) -> Result<Vec<TransformationInfo>, Failure> {
    let request = ListTransformationsRequest {
        page_size: 1000,
        page_token: String::new(),
    };
    Ok(client(connection)
        .list_transformations(request)
        .await?
        .into_inner()
        .transformations)
}
