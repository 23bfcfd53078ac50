//! Refusals of text-embeddings-inference's rpcs.

use isomer_proto::tei::v1::{EmbedAllRequest, EmbedRequest, EmbedSparseRequest, PredictRequest};
use prost::Message;

use super::table::{Call, Row, row};
use crate::models::{DENSE, ENCODER};

const TEXT: &str = "The small grey cat slept on the old bench near the station.";

/// Metadata that names the encoder: no message of these rpcs does.
pub const NAMED: &[(&str, &str)] = &[("isomer-encoder", ENCODER)];

fn call(rpc: &str, message: impl Message) -> Call {
    Call {
        path: format!("/tei.v1.{rpc}"),
        message: message.encode_to_vec(),
        field: None,
    }
}

fn embed(text: &str) -> EmbedRequest {
    EmbedRequest {
        inputs: text.to_owned(),
        ..EmbedRequest::default()
    }
}

fn sparse(rpc: &str) -> Vec<Call> {
    let request = EmbedSparseRequest {
        inputs: DENSE.to_owned(),
        ..EmbedSparseRequest::default()
    };
    vec![call(rpc, request)]
}

fn predict(rpc: &str) -> Vec<Call> {
    let request = PredictRequest {
        inputs: TEXT.to_owned(),
        ..PredictRequest::default()
    };
    vec![call(rpc, request)]
}

/// Valid requests.
pub fn honest() -> Vec<Call> {
    let all = EmbedAllRequest {
        inputs: TEXT.to_owned(),
        ..EmbedAllRequest::default()
    };
    vec![call("Embed/Embed", embed(TEXT)), call("Embed/EmbedAll", all)]
}

pub fn rows() -> Vec<Row> {
    vec![
        row(
            "tei.Embed.EmbedSparse UNIMPLEMENTED NOT_SERVED_YET",
            sparse("Embed/EmbedSparse"),
        ),
        row(
            "tei.Embed.EmbedSparseStream UNIMPLEMENTED NOT_SERVED_YET",
            sparse("Embed/EmbedSparseStream"),
        ),
        row(
            "tei.Predict.Predict UNIMPLEMENTED NOT_SERVED_YET",
            predict("Predict/Predict"),
        ),
        row(
            "tei.Predict.PredictStream UNIMPLEMENTED NOT_SERVED_YET",
            predict("Predict/PredictStream"),
        ),
    ]
}
