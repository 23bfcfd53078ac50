//! Usage read from the messages of an answer, where the server does not report it during the call.
//!
//! Servers of this version report it ([`isomer_usage::report`]); other servers may be older
//! versions or other implementations.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use isomer_proto::{
    common::v1::Usage,
    eval::v1::ScoreResponse,
    transform::v1::{
        AugmentResponse, EncodeAugmentedResponse, JudgeResponse, TransformResponse, TransformStreamResponse,
        transform_stream_response::Event,
    },
};
use isomer_usage::{report::CallBound, sum};
use prost::{DecodeError, Message};
use tonic::{Code, Status, body::Body};

/// Bytes of a gRPC frame before its message: the compression flag and the length.
const HEAD: usize = 5;
/// Bytes of text that count as one token where no usage was reported.
const BYTES_PER_TOKEN: u64 = 4;

pub(crate) type UsageReader = fn(&[u8]) -> Result<Option<Usage>, DecodeError>;

/// The function that reads the usage of a method's answers; `None` for methods that use no model.
pub(crate) fn reader(path: &str) -> Option<UsageReader> {
    Some(match path {
        "/isomer.transform.v1.TransformService/Transform" => |bytes| Ok(TransformResponse::decode(bytes)?.usage),
        "/isomer.transform.v1.TransformService/TransformStream" => {
            |bytes| match TransformStreamResponse::decode(bytes)?.event {
                Some(Event::End(end)) => Ok(end.usage),
                _ => Ok(None),
            }
        }
        "/isomer.transform.v1.TransformService/Judge" => |bytes| Ok(JudgeResponse::decode(bytes)?.usage),
        "/isomer.transform.v1.AugmentationService/Augment" => |bytes| Ok(AugmentResponse::decode(bytes)?.usage),
        "/isomer.transform.v1.AugmentationService/EncodeAugmented" => {
            |bytes| Ok(EncodeAugmentedResponse::decode(bytes)?.usage)
        }
        // RunService is not listed: a run is charged while it is running (`runs`).
        "/isomer.eval.v1.TaskService/Score" => |bytes| Ok(ScoreResponse::decode(bytes)?.usage),
        _ => return None,
    })
}

/// Estimates what a call may use from the size of its message.
pub(crate) fn estimate(message: &[u8]) -> Usage {
    Usage {
        tokens: (message.len() as u64).div_ceil(BYTES_PER_TOKEN),
        tokens_estimated: true,
        ..Usage::default()
    }
}

/// Reads an answer's usage while passing the answer on.
pub(crate) fn counted(body: Body, read: UsageReader, call: CallBound) -> Body {
    Body::new(MeteredBody {
        body,
        call,
        ledger: Ledger {
            read,
            waiting: Vec::new(),
            passed: 0,
            used: None,
        },
    })
}

struct MeteredBody {
    body: Body,
    call: CallBound,
    ledger: Ledger,
}

/// The usage of one answer.
struct Ledger {
    read: UsageReader,
    /// Bytes of a frame that is not complete yet.
    waiting: Vec<u8>,
    passed: u64,
    used: Option<Usage>,
}

impl Ledger {
    /// Adds received bytes.
    fn take(&mut self, bytes: &[u8]) {
        self.passed = self.passed.saturating_add(bytes.len() as u64);
        self.waiting.extend_from_slice(bytes);
        let mut begin = 0;
        while let Some(frame) = frame(&self.waiting[begin..]) {
            begin += HEAD + frame.len();
            // A message that cannot be decoded is charged by its size at the end.
            if let Ok(Some(usage)) = (self.read)(frame) {
                sum::add(self.used.get_or_insert_default(), &usage);
            }
        }
        self.waiting.drain(..begin);
    }

    /// The usage of the answer: the reported usage, or else an estimate from the bytes that were
    /// passed on.
    fn total(&self) -> Usage {
        self.used.unwrap_or_else(|| Usage {
            tokens: self.passed.div_ceil(BYTES_PER_TOKEN),
            tokens_estimated: true,
            ..Usage::default()
        })
    }
}

/// The message of the first frame, if the frame is complete.
pub(crate) fn frame(bytes: &[u8]) -> Option<&[u8]> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    rest.get(..length)
}

impl Drop for MeteredBody {
    fn drop(&mut self) {
        // A caller that disconnects before the usage arrives has still caused the work. If nothing
        // has arrived, the call's estimate stands.
        if self.ledger.passed > 0 {
            self.call.end(&self.ledger.total());
        }
    }
}

impl http_body::Body for MeteredBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        let next = Pin::new(&mut this.body).poll_frame(cx);
        match &next {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref() {
                    this.ledger.take(data);
                }
                let status = frame.trailers_ref().and_then(Status::from_header_map);
                if status.is_some_and(|status| status.code() != Code::DeadlineExceeded) {
                    this.call.end(&this.ledger.total());
                }
            }
            Poll::Ready(None) => this.call.end(&this.ledger.total()),
            _ => {}
        }
        next
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::HashMap;

    use isomer_proto::transform::v1::{TransformResult, TransformStreamEnd};
    use prost_types::{DescriptorProto, FileDescriptorSet};

    use super::*;

    const USAGE: &str = ".isomer.common.v1.Usage";

    /// Whether a message, or a message inside it, has a usage.
    fn has_usage(name: &str, messages: &HashMap<String, DescriptorProto>, depth: usize) -> bool {
        let fields = messages
            .get(name)
            .map(|message| message.field.as_slice())
            .unwrap_or_default();
        fields
            .iter()
            .any(|field| field.type_name() == USAGE || depth > 0 && has_usage(field.type_name(), messages, depth - 1))
    }

    #[test]
    fn every_proxied_method_whose_answer_has_a_usage_is_charged() {
        let set = FileDescriptorSet::decode(isomer_proto::FILE_DESCRIPTOR_SET).unwrap();
        let messages = set.file.iter().flat_map(|file| {
            let named =
                |message: &DescriptorProto| (format!(".{}.{}", file.package(), message.name()), message.clone());
            file.message_type.iter().map(named).collect::<Vec<_>>()
        });
        let messages: HashMap<String, DescriptorProto> = messages.collect();
        let mut charged = 0;
        for file in &set.file {
            for service in &file.service {
                let full = format!("{}.{}", file.package(), service.name());
                if !crate::front::is_passed_on(&full) {
                    continue;
                }
                for method in &service.method {
                    let path = format!("/{full}/{}", method.name());
                    let expected = has_usage(method.output_type(), &messages, 2);
                    assert_eq!(reader(&path).is_some(), expected, "{path}");
                    charged += usize::from(expected);
                }
            }
        }
        assert_eq!(charged, 6);
    }

    fn framed(message: &impl Message) -> Vec<u8> {
        let body = message.encode_to_vec();
        let mut bytes = vec![0];
        bytes.extend((body.len() as u32).to_be_bytes());
        bytes.extend(body);
        bytes
    }

    fn stream() -> Vec<u8> {
        let result = Event::Result(TransformResult {
            text: "x".repeat(300),
            ..TransformResult::default()
        });
        let end = Event::End(TransformStreamEnd {
            usage: Some(Usage {
                tokens: 70,
                generated_tokens: 30,
                cost_nano_usd: 7,
                ..Usage::default()
            }),
            ..TransformStreamEnd::default()
        });
        [result, end]
            .map(|event| framed(&TransformStreamResponse { event: Some(event) }))
            .concat()
    }

    fn ledger() -> Ledger {
        Ledger {
            read: reader("/isomer.transform.v1.TransformService/TransformStream").unwrap(),
            waiting: Vec::new(),
            passed: 0,
            used: None,
        }
    }

    #[test]
    fn usage_is_read_however_the_frames_are_cut() {
        let bytes = stream();
        for size in [1, 2, 5, 7, 64, bytes.len()] {
            let mut ledger = ledger();
            bytes.chunks(size).for_each(|chunk| ledger.take(chunk));
            assert!(ledger.used.is_some() && ledger.waiting.is_empty(), "{size}");
            let used = ledger.total();
            assert_eq!((sum::charged_tokens(&used), used.cost_nano_usd), (100, 7), "{size}");
        }
    }

    #[test]
    fn what_ends_before_its_count_is_charged_by_its_size() {
        let mut ledger = ledger();
        ledger.take(&stream()[..290]);
        assert!(ledger.used.is_none());
        assert_eq!(ledger.total().tokens, 73);
    }
}
