//! The memory that an encoded protobuf message takes once it is decoded, estimated without decoding
//! it.
//!
//! Two bytes on the wire (`0a 00`, an empty element of a repeated field) become a struct of a
//! hundred bytes or more. So the elements are counted on the wire before the decoder sees them.

use std::collections::HashMap;

use prost_types::{FileDescriptorSet, field_descriptor_proto::Type};

/// Bytes for an element with its own length prefix (a string, bytes, a message), in addition to its
/// content.
const ELEMENT: usize = 256;
/// Bytes for a number.
const NUMBER: usize = 8;
/// Deepest nesting of messages. prost refuses more than 100.
const DEPTH: usize = 100;

/// The content of a field.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Message(usize),
    /// A repeated number that may be packed: the bytes of each, or 0 where that varies.
    Packed(usize),
}

/// The message types of a server's methods, as far as their size depends on them.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    by_name: HashMap<String, usize>,
    messages: Vec<HashMap<u32, Kind>>,
}

impl Shapes {
    pub(super) fn new(sets: &[FileDescriptorSet]) -> Self {
        let mut shapes = Self::default();
        let mut described = Vec::new();
        for file in sets.iter().flat_map(|set| &set.file) {
            let scope = format!(".{}", file.package());
            let mut open: Vec<_> = file
                .message_type
                .iter()
                .map(|message| (scope.clone(), message))
                .collect();
            while let Some((scope, message)) = open.pop() {
                let name = format!("{scope}.{}", message.name());
                open.extend(message.nested_type.iter().map(|nested| (name.clone(), nested)));
                shapes.by_name.insert(name, described.len());
                described.push(message);
            }
        }
        let kinds = described.iter().map(|message| {
            let fields = message.field.iter().filter_map(|field| {
                let number = u32::try_from(field.number()).ok()?;
                let kind = match field.r#type() {
                    Type::Message => Kind::Message(*shapes.by_name.get(field.type_name())?),
                    Type::String | Type::Bytes | Type::Group => return None,
                    Type::Double | Type::Fixed64 | Type::Sfixed64 => Kind::Packed(8),
                    Type::Float | Type::Fixed32 | Type::Sfixed32 => Kind::Packed(4),
                    _ => Kind::Packed(0),
                };
                Some((number, kind))
            });
            fields.collect()
        });
        shapes.messages = kinds.collect();
        shapes
    }

    /// The message type of this full name, which begins with a dot.
    pub(super) fn message(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Approximate size of the decoded message in bytes. Stops once the size exceeds `most`.
    pub(super) fn decoded_size(&self, message: usize, wire: &[u8], most: usize) -> usize {
        let mut size = wire.len();
        // The decoder refuses bytes that are not protobuf, and also stops here.
        self.walk(message, wire, DEPTH, most, &mut size);
        size
    }

    fn walk(&self, message: usize, mut wire: &[u8], depth: usize, most: usize, size: &mut usize) -> Option<()> {
        let fields = self.messages.get(message)?;
        while !wire.is_empty() && *size <= most {
            let tag = varint(&mut wire)?;
            let number = u32::try_from(tag >> 3).ok()?;
            match tag & 7 {
                0 => {
                    varint(&mut wire)?;
                    *size += NUMBER;
                }
                1 => {
                    wire = wire.get(8..)?;
                    *size += NUMBER;
                }
                5 => {
                    wire = wire.get(4..)?;
                    *size += NUMBER;
                }
                2 => {
                    let length = usize::try_from(varint(&mut wire)?).ok()?;
                    let (content, rest) = wire.split_at_checked(length)?;
                    wire = rest;
                    match fields.get(&number) {
                        Some(Kind::Packed(0)) => *size += NUMBER * content.iter().filter(|byte| **byte < 0x80).count(),
                        Some(Kind::Packed(_)) => {}
                        Some(Kind::Message(inner)) => {
                            *size += ELEMENT;
                            if depth > 0 {
                                self.walk(*inner, content, depth - 1, most, size)?;
                            }
                        }
                        None => *size += ELEMENT,
                    }
                }
                // No message here has a group: the decoder skips it and continues after it.
                3 => skip_group(number, &mut wire, depth)?,
                _ => return None,
            }
        }
        Some(())
    }
}

/// Skips the rest of an unknown group.
fn skip_group(number: u32, wire: &mut &[u8], depth: usize) -> Option<()> {
    loop {
        let tag = varint(wire)?;
        let inner = u32::try_from(tag >> 3).ok()?;
        match tag & 7 {
            0 => drop(varint(wire)?),
            1 => *wire = wire.get(8..)?,
            2 => {
                let length = usize::try_from(varint(wire)?).ok()?;
                *wire = wire.get(length..)?;
            }
            3 => skip_group(inner, wire, depth.checked_sub(1)?)?,
            4 => return (inner == number).then_some(()),
            5 => *wire = wire.get(4..)?,
            _ => return None,
        }
    }
}

fn varint(wire: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..70).step_by(7) {
        let (byte, rest) = wire.split_first()?;
        *wire = rest;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if *byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use isomer_proto::encoder::v1::{EncodeRequest, Input, TokenIds, input};
    use prost::Message;

    use super::*;

    fn size(request: &EncodeRequest, most: usize) -> (usize, usize) {
        let set = FileDescriptorSet::decode(isomer_proto::FILE_DESCRIPTOR_SET).unwrap();
        let shapes = Shapes::new(&[set]);
        let message = shapes.message(".isomer.encoder.v1.EncodeRequest").unwrap();
        let wire = request.encode_to_vec();
        (wire.len(), shapes.decoded_size(message, &wire, most))
    }

    #[test]
    fn empty_elements_are_counted_at_what_they_become() {
        let request = EncodeRequest {
            inputs: vec![Input { input: None }; 1000],
            ..EncodeRequest::default()
        };
        assert_eq!(size(&request, usize::MAX), (2000, 2000 + 1000 * ELEMENT));
        let (_, size) = size(&request, 10_000);
        assert!((10_000..11_000).contains(&size), "it stops early: {size}");
    }

    #[test]
    fn elements_within_elements_and_packed_numbers_count() {
        let tokens = TokenIds { ids: vec![1; 1000] };
        let request = EncodeRequest {
            inputs: vec![Input {
                input: Some(input::Input::TokenIds(tokens)),
            }],
            ..EncodeRequest::default()
        };
        let (wire, size) = size(&request, usize::MAX);
        assert_eq!(size, wire + 2 * ELEMENT + 1000 * NUMBER);
    }

    #[test]
    fn an_unknown_group_does_not_end_the_count() {
        let set = FileDescriptorSet::decode(isomer_proto::FILE_DESCRIPTOR_SET).unwrap();
        let shapes = Shapes::new(&[set]);
        let message = shapes.message(".isomer.encoder.v1.EncodeRequest").unwrap();
        let elements = EncodeRequest {
            inputs: vec![Input { input: None }; 1000],
            ..EncodeRequest::default()
        };
        // Field 1000 as a group that contains a number, a text and a group, then its end.
        let group = [0xc3, 0x3e, 0x08, 1, 0x12, 1, b'a', 0x1b, 0x1c, 0xc4, 0x3e];
        let wire = [&group[..], &elements.encode_to_vec()].concat();
        assert_eq!(
            EncodeRequest::decode(&wire[..]).unwrap(),
            elements,
            "the decoder skips the group"
        );
        assert_eq!(
            shapes.decoded_size(message, &wire, usize::MAX),
            wire.len() + 1000 * ELEMENT
        );
    }

    #[test]
    fn a_text_costs_little_more_than_itself() {
        let text = input::Input::Text("x".repeat(100_000));
        let request = EncodeRequest {
            inputs: vec![Input { input: Some(text) }],
            ..EncodeRequest::default()
        };
        let (wire, size) = size(&request, usize::MAX);
        assert_eq!(size, wire + 2 * ELEMENT);
    }

    #[test]
    fn what_is_no_protobuf_ends_the_count() {
        let shapes = Shapes::new(&[FileDescriptorSet::decode(isomer_proto::FILE_DESCRIPTOR_SET).unwrap()]);
        let message = shapes.message(".isomer.encoder.v1.EncodeRequest").unwrap();
        for wire in [&[0xff; 20][..], &[0x0a, 0x7f], &[0x0b], &[0x0a]] {
            assert!(shapes.decoded_size(message, wire, usize::MAX) <= 20 + ELEMENT);
        }
    }
}
