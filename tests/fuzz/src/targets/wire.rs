//! Messages of gRPC and Connect, before their handlers receive them.

use isomer_proto::{
    encoder::v1::{EncodeRequest, RerankRequest, input},
    transform::v1::TransformRequest,
};
use isomer_service_kit::fuzz;
use prost::Message;

use crate::input::Input;

/// Largest message that is tried.
const MOST: usize = 1 << 20;

/// Messages by their full names, and the number of their elements that allocate memory.
const MESSAGES: &[(&str, fn(&[u8]) -> Option<usize>)] = &[
    ("isomer.encoder.v1.EncodeRequest", |wire| {
        let request = EncodeRequest::decode(wire).ok()?;
        let tokens = request.inputs.iter().map(|input| match &input.input {
            Some(input::Input::TokenIds(tokens)) => 1 + tokens.ids.len() * size_of::<u32>() / ELEMENT,
            _ => 1,
        });
        Some(tokens.sum())
    }),
    ("isomer.encoder.v1.RerankRequest", |wire| {
        Some(RerankRequest::decode(wire).ok()?.documents.len())
    }),
    ("isomer.transform.v1.TransformRequest", |wire| {
        Some(TransformRequest::decode(wire).ok()?.items.len())
    }),
];

/// The least that the count adds per element.
const ELEMENT: usize = 200;

/// The count of a message's elements is made before the message is decoded. It is at least the
/// number of elements of the decoded message.
pub(super) fn grpc_messages(data: &[u8]) {
    let mut input = Input(data);
    let Some((name, elements)) = input.choice(MESSAGES) else {
        return;
    };
    let counted = fuzz::decoded_size(name, input.0, usize::MAX);
    let Some(elements) = elements(input.0) else { return };
    let least = input.0.len() + elements * ELEMENT;
    assert!(
        counted.is_some_and(|counted| counted >= least),
        "{elements} elements of {name} are counted as {counted:?} bytes, expected {least} at least"
    );
}

/// Compressed messages. Nothing larger than the bound is unpacked, and a packed message is unpacked
/// to the same bytes.
pub(super) fn grpc_compression(data: &[u8]) {
    let mut input = Input(data);
    let zstd = input.byte() == b'b';
    if let Ok(plain) = fuzz::unpack(zstd, input.0, MOST) {
        assert!(plain.len() <= MOST);
    }
    if let Ok(packed) = fuzz::pack(zstd, input.0) {
        let again = fuzz::unpack(zstd, &packed, MOST).ok();
        assert_eq!(again.as_deref(), Some(input.0));
    }
}

/// Connect's envelopes. They are the same however the bytes are split, and no envelope is larger
/// than the bound.
pub(super) fn connect_frames(data: &[u8]) {
    const MOST: usize = 4096;
    let mut input = Input(data);
    let gzip = input.byte() == b'b';
    let at = usize::from(input.byte()).min(input.0.len());
    let whole = fuzz::connect_frames(&[input.0], gzip, MOST);
    let (first, second) = input.0.split_at(at);
    let pieces = fuzz::connect_frames(&[first, second], gzip, MOST);
    assert_eq!(whole.is_ok(), pieces.is_ok());
    if let (Ok(whole), Ok(pieces)) = (whole, pieces) {
        assert!(whole.0.iter().all(|(_, message)| message.len() <= MOST));
        assert_eq!(whole, pieces);
    }
}

/// Messages in JSON. A message that is read can be written and read again.
pub(super) fn connect_json(data: &[u8]) {
    const NAMES: &[&str] = &[
        "isomer.encoder.v1.EncodeRequest",
        "isomer.encoder.v1.RerankRequest",
        "isomer.transform.v1.TransformRequest",
        "isomer.eval.v1.CreateRunRequest",
        "isomer.gateway.v1.CreateProviderRequest",
        "isomer.eval.v1.ScoreRequest",
    ];
    let mut input = Input(data);
    let Some(name) = input.choice(NAMES) else { return };
    let Some(Ok(wire)) = fuzz::proto_of_json(name, input.0) else {
        return;
    };
    let json = match fuzz::json_of_proto(name, wire) {
        Some(Ok(json)) => json,
        other => unreachable!("what was read cannot be written: {other:?}"),
    };
    let again = fuzz::proto_of_json(name, &json);
    assert!(
        matches!(again, Some(Ok(_))),
        "what was written cannot be read: {again:?}"
    );
}
