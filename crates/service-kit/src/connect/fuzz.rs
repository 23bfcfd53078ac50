//! Entry points for the fuzz targets of `tests/fuzz`. Not part of the crate's interface.

use bytes::{Bytes, BytesMut};

use super::{
    POOL,
    codec::{Encoding, Frame, from_json, to_json},
};
use isomer_fault::Fault;

/// Reads the frames in these pieces and decompresses their messages. Returns the flags and messages
/// of the whole frames, and the number of remaining bytes.
///
/// # Errors
/// The reader's errors.
pub fn connect_frames(pieces: &[&[u8]], gzip: bool, most: usize) -> Result<(Vec<(u8, Bytes)>, usize), Fault> {
    let encoding = if gzip { Encoding::Gzip } else { Encoding::Identity };
    let mut buffer = BytesMut::new();
    let mut frames = Vec::new();
    for piece in pieces {
        buffer.extend_from_slice(piece);
        while let Some(frame) = Frame::take(&mut buffer, most)? {
            frames.push((frame.flags, frame.opened(encoding, most, None)?));
        }
    }
    Ok((frames, buffer.len()))
}

/// The wire form of a message in JSON; `None` if no message has this full name.
pub fn proto_of_json(message: &str, json: &[u8]) -> Option<Result<Bytes, Fault>> {
    Some(from_json(POOL.get_message_by_name(message)?, json))
}

/// A message in JSON; `None` if no message has this full name.
pub fn json_of_proto(message: &str, wire: Bytes) -> Option<Result<Bytes, Fault>> {
    Some(to_json(POOL.get_message_by_name(message)?, wire))
}
