//! What an answer that passes by undecoded has cost its caller: the `Usage` in its messages.
//!
//! The body holds its [`Caller`] until its end, so that a stream keeps its place among the caller's requests.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::{BoxError, body::Body, body::Bytes};
use http_body::{Frame, SizeHint};
use isomer_access::Caller;
use isomer_proto::{
    common::v1::Usage,
    eval::v1::ScoreResponse,
    transform::v1::{
        AugmentResponse, EncodeAugmentedResponse, JudgeResponse, TransformResponse, TransformStreamResponse,
        transform_stream_response::Event,
    },
};
use prost::{DecodeError, Message};

/// Bytes of a gRPC frame before its message: whether it is compressed, and its length.
const HEAD: usize = 5;
/// Bytes of text that a token is taken for where nothing was counted.
const BYTES_PER_TOKEN: u64 = 4;

pub(crate) type Read = fn(&[u8]) -> Result<Option<Usage>, DecodeError>;

/// How the usage of a method's answers is read; none for methods that use up nothing.
pub(crate) fn reader(path: &str) -> Option<Read> {
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
        // What a run uses is charged as it goes on (`runs`).
        "/isomer.eval.v1.TaskService/Score" => |bytes| Ok(ScoreResponse::decode(bytes)?.usage),
        _ => return None,
    })
}

/// An answer, charged to `caller` as it passes, by what `read` finds in it.
pub(crate) fn charged<B>(body: B, read: Option<Read>, caller: Caller) -> Body
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let ledger = read.map(|read| Ledger {
        read,
        waiting: Vec::new(),
        passed: 0,
        settled: false,
    });
    Body::new(Charged {
        body: Body::new(body),
        caller,
        ledger,
    })
}

struct Charged {
    body: Body,
    caller: Caller,
    ledger: Option<Ledger>,
}

/// The count of one answer.
struct Ledger {
    read: Read,
    /// The part of a frame that has come so far.
    waiting: Vec<u8>,
    passed: u64,
    settled: bool,
}

impl Ledger {
    /// Takes over what has come; gives back tokens and billionths of a dollar to charge.
    fn take(&mut self, bytes: &[u8]) -> (u64, u64) {
        self.passed += bytes.len() as u64;
        self.waiting.extend_from_slice(bytes);
        let (mut begin, mut tokens, mut cost) = (0, 0, 0);
        while let Some(frame) = frame(&self.waiting[begin..]) {
            begin += HEAD + frame.len();
            // What cannot be read is charged by its size at the end.
            if let Ok(Some(usage)) = (self.read)(frame) {
                tokens += usage.tokens + usage.generated_tokens;
                cost += usage.cost_nano_usd;
                self.settled = true;
            }
        }
        self.waiting.drain(..begin);
        (tokens, cost)
    }
}

/// The message of the first frame, if it is there whole.
pub(crate) fn frame(bytes: &[u8]) -> Option<&[u8]> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    rest.get(..length)
}

impl Drop for Charged {
    fn drop(&mut self) {
        // A caller who leaves before the count comes has still had the work done.
        if let Some(ledger) = self.ledger.as_ref().filter(|ledger| !ledger.settled) {
            self.caller.charge(ledger.passed.div_ceil(BYTES_PER_TOKEN), 0.0);
        }
    }
}

impl http_body::Body for Charged {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        let next = Pin::new(&mut this.body).poll_frame(cx);
        if let (Poll::Ready(Some(Ok(frame))), Some(ledger)) = (&next, &mut this.ledger)
            && let Some(data) = frame.data_ref()
        {
            let (tokens, cost) = ledger.take(data);
            if tokens > 0 || cost > 0 {
                this.caller.charge(tokens, cost as f64 / 1e9);
            }
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

    /// Whether a message, or one that it holds, has a usage.
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
            settled: false,
        }
    }

    #[test]
    fn usage_is_read_however_the_frames_are_cut() {
        let bytes = stream();
        for size in [1, 2, 5, 7, 64, bytes.len()] {
            let mut ledger = ledger();
            let taken = bytes.chunks(size).map(|chunk| ledger.take(chunk));
            let taken = taken.fold((0, 0), |sum, more| (sum.0 + more.0, sum.1 + more.1));
            assert!(ledger.settled && ledger.waiting.is_empty(), "{size}");
            assert_eq!(taken, (100, 7), "{size}");
        }
    }

    #[test]
    fn what_ends_before_its_count_is_charged_by_its_size() {
        let mut ledger = ledger();
        assert_eq!(ledger.take(&stream()[..290]), (0, 0));
        assert!(!ledger.settled);
        assert_eq!(ledger.passed.div_ceil(BYTES_PER_TOKEN), 73);
    }
}
