//! The transformation service and its catalogue.

use isomer_config::spelling::nearest;
use isomer_proto::transform::v1::{
    ListTransformationsRequest, TransformationInfo, transform_service_client::TransformServiceClient,
};
use isomer_transformations::{CATALOGUE, Transformation};

use crate::{
    connect::{Connection, MAX_MESSAGE_BYTES},
    exit::Failure,
};

pub(crate) fn client(connection: &Connection) -> TransformServiceClient<isomer_client::Channel> {
    TransformServiceClient::new(connection.channel.clone())
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES)
}

/// The transformation with this name, with default parameters.
pub(crate) fn named(flag: &str, name: &str) -> Result<Transformation, Failure> {
    Transformation::named(name).ok_or_else(|| {
        let nearest = nearest(name, CATALOGUE.iter().map(|row| row.name));
        Failure::usage(format!(
            "{flag}: unknown transformation `{name}`{}; `isomer transform --transformation list` prints the catalogue",
            nearest.map_or_else(String::new, |nearest| format!(", did you mean `{nearest}`?"))
        ))
    })
}

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
