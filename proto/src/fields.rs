//! Values of a `oneof` by the names of their fields.

use std::sync::LazyLock;

use prost::{
    Message as _,
    encoding::{self, WireType},
};
use prost_types::FileDescriptorSet;

use crate::{
    eval::v1::{GateRule, gate_rule::Limit},
    transform::v1::{Transformation, transformation::Kind},
};

type Fields = Vec<(String, u32)>;

/// Names and numbers of the fields of a message.
fn fields(package: &str, message: &str) -> Fields {
    let set = FileDescriptorSet::decode(crate::FILE_DESCRIPTOR_SET).unwrap_or_default();
    let ours = set.file.into_iter().filter(|file| file.package() == package);
    let mut messages = ours.flat_map(|file| file.message_type);
    let message = messages.find(|one| one.name() == message);
    let fields = message.into_iter().flat_map(|message| message.field);
    fields
        .filter_map(|field| Some((field.name().to_owned(), u32::try_from(field.number()).ok()?)))
        .collect()
}

fn number_of(fields: &Fields, name: &str) -> Option<u32> {
    fields.iter().find(|(own, _)| own == name).map(|(_, number)| *number)
}

static TRANSFORMATIONS: LazyLock<Fields> = LazyLock::new(|| fields("isomer.transform.v1", "Transformation"));
static LIMITS: LazyLock<Fields> = LazyLock::new(|| fields("isomer.eval.v1", "GateRule"));

impl Transformation {
    /// The transformation of this name (`paraphrase`) with default parameters: as the message that
    /// older servers know if there is one, else by name.
    pub fn named(name: &str) -> Self {
        let of_number = |number| {
            let mut wire = Vec::new();
            encoding::encode_key(number, WireType::LengthDelimited, &mut wire);
            encoding::encode_varint(0, &mut wire);
            Self::decode(&*wire).ok().filter(|message| message.kind.is_some())
        };
        let message = number_of(&TRANSFORMATIONS, name).and_then(of_number);
        message.unwrap_or_else(|| Self {
            name: name.to_owned(),
            ..Self::default()
        })
    }
}

impl From<Kind> for Transformation {
    fn from(kind: Kind) -> Self {
        Self {
            kind: Some(kind),
            ..Self::default()
        }
    }
}

impl Limit {
    /// The limit of this name, e.g. `max_drop`; `None` if the message has no such limit.
    pub fn named(name: &str, value: f64) -> Option<Self> {
        let mut wire = Vec::new();
        encoding::double::encode(number_of(&LIMITS, name)?, &value, &mut wire);
        GateRule::decode(&*wire).ok()?.limit
    }

    /// Name and value.
    pub fn parts(&self) -> Option<(&'static str, f64)> {
        let mut wire = Vec::new();
        self.encode(&mut wire);
        let mut wire = &*wire;
        let (number, _) = encoding::decode_key(&mut wire).ok()?;
        let (name, _) = LIMITS.iter().find(|(_, own)| *own == number)?;
        Some((name, f64::from_le_bytes(wire.try_into().ok()?)))
    }
}
