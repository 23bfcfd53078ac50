//! Messages as JSON and protobuf, and their frames. A frame is one byte of flags, four of length,
//! then the message. gRPC and Connect use the same frames.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor};
use tonic::Code;

use super::{Call, Form};
use crate::{
    budget::{PEAK_FACTOR, Reservation},
    layers::coding::Coding,
};
use isomer_fault::Fault;

/// Flag: the frame's message is compressed.
const COMPRESSED: u8 = 1;
/// Flag: the frame ends a Connect stream.
pub(super) const END: u8 = 2;
const PREFIX: usize = 5;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) flags: u8,
    pub(super) message: Bytes,
}

impl Frame {
    /// Takes the next whole frame from the buffer; `None` if more bytes are needed.
    pub(super) fn take(buffer: &mut BytesMut, most: usize) -> Result<Option<Self>, Fault> {
        let Some((flags, length)) = buffer
            .first_chunk::<PREFIX>()
            .map(|[flags, length @ ..]| (*flags, *length))
        else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(length) as usize;
        if length > most {
            return Err(too_large(most));
        }
        if buffer.len() < PREFIX + length {
            return Ok(None);
        }
        buffer.advance(PREFIX);
        Ok(Some(Self {
            flags,
            message: buffer.split_to(length).freeze(),
        }))
    }

    /// The message, decompressed if necessary.
    pub(super) fn opened(self, encoding: Encoding, most: usize, memory: Option<&Reservation>) -> Result<Bytes, Fault> {
        if self.flags & COMPRESSED == 0 {
            return Ok(self.message);
        }
        match encoding {
            Encoding::Identity => Err(Fault::invalid(
                "body",
                "a message is marked as compressed, but no header names the compression",
            )),
            Encoding::Gzip => gunzip(&self.message, most, memory),
        }
    }
}

/// Puts a message into a frame.
pub(super) fn framed(flags: u8, message: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(PREFIX + message.len());
    frame.put_u8(flags);
    // A message is bounded well below four gigabytes.
    frame.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    frame.put_slice(message);
    frame.freeze()
}

pub(super) fn too_large(most: usize) -> Fault {
    Fault::new(
        Code::ResourceExhausted,
        "REQUEST_TOO_LARGE",
        format!("a message is larger than {most} bytes"),
    )
    .hint("send less at once")
}

/// How bodies are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Identity,
    Gzip,
}

impl Encoding {
    /// The compression that a header names.
    pub(super) fn of(header: Option<&http::HeaderValue>) -> Result<Self, Fault> {
        match header.map(http::HeaderValue::as_bytes) {
            None | Some(b"" | b"identity") => Ok(Self::Identity),
            Some(b"gzip") => Ok(Self::Gzip),
            Some(other) => Err(Fault::unimplemented(format!(
                "the body is compressed with {:?}",
                String::from_utf8_lossy(other)
            ))
            .hint("send gzip or identity")),
        }
    }

    /// Decompresses a body.
    pub(super) fn open(self, body: Bytes, most: usize, memory: Option<&Reservation>) -> Result<Bytes, Fault> {
        match self {
            Self::Identity => Ok(body),
            Self::Gzip => gunzip(&body, most, memory),
        }
    }
}

/// Decompresses a message of a Connect call.
fn gunzip(packed: &[u8], most: usize, memory: Option<&Reservation>) -> Result<Bytes, Fault> {
    let unpacked = Coding::Gzip.unpack(packed, most, memory);
    unpacked.map_err(|fault| match fault.code {
        Code::InvalidArgument => Fault::invalid("body", fault.message).hint("compress it as gzip"),
        _ => fault,
    })
}

impl Call {
    pub(super) fn to_proto(&self, message: Bytes) -> Result<Bytes, Fault> {
        match self.form {
            Form::Proto => Ok(message),
            Form::Json => from_json(self.method.input(), &message),
        }
    }

    /// Approximate memory for decoding a request's message, in bytes.
    pub(super) fn decoded_size(&self, message: &[u8]) -> usize {
        let fields = match self.form {
            Form::Proto => 0,
            Form::Json => values(message).min(MOST_VALUES).saturating_mul(VALUE),
        };
        message.len().saturating_mul(PEAK_FACTOR).saturating_add(fields)
    }

    /// An answer's message in the format of the call.
    pub(super) fn answered(&self, message: Bytes) -> Result<Bytes, Fault> {
        match self.form {
            Form::Proto => Ok(message),
            Form::Json => to_json(self.method.output(), message),
        }
    }
}

/// Limit on the values of a message in JSON.
const MOST_VALUES: usize = 1_000_000;
/// Maximum bytes of memory for one value, however short its text.
const VALUE: usize = 256;

/// Lower bound of the number of values in a JSON text: each but the first of a list or object has a
/// comma before it.
fn values(json: &[u8]) -> usize {
    let (mut count, mut quoted, mut escaped) = (1, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' | b'{' | b'[' if !quoted => count += 1,
            _ => {}
        }
    }
    count
}

pub(super) fn from_json(kind: MessageDescriptor, json: &[u8]) -> Result<Bytes, Fault> {
    if values(json) > MOST_VALUES {
        let message = format!("the message has more than {MOST_VALUES} values in JSON");
        let fault = Fault::new(Code::ResourceExhausted, "REQUEST_TOO_LARGE", message);
        return Err(fault.hint("send less at once, or send protobuf (application/proto)"));
    }
    let codec_error = |error: serde_json::Error| {
        Fault::new(
            Code::InvalidArgument,
            "INVALID_JSON",
            format!("the message cannot be read: {error}"),
        )
    };
    let mut reader = serde_json::Deserializer::from_slice(json);
    let message = DynamicMessage::deserialize(kind, &mut reader).map_err(codec_error)?;
    reader.end().map_err(codec_error)?;
    Ok(message.encode_to_vec().into())
}

pub(super) fn to_json(kind: MessageDescriptor, message: Bytes) -> Result<Bytes, Fault> {
    let broken =
        |error: &dyn std::fmt::Display| Fault::internal(format!("the answer cannot be written as JSON: {error}"));
    let message = DynamicMessage::decode(kind, message).map_err(|error| broken(&error))?;
    serde_json::to_vec(&message)
        .map(Bytes::from)
        .map_err(|error| broken(&error))
}
