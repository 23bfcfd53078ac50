//! Words of requests, in the spellings of several servers.

use std::{fmt, marker::PhantomData};

use isomer_proto::{ProtoEnum, encoder::v1::Truncation};
use serde::{
    Deserialize, Deserializer,
    de::{self, IntoDeserializer, SeqAccess, Unexpected, Visitor, value::StrDeserializer},
};

/// The purpose of texts: words of Voyage, `passage` of NVIDIA, and `text` of Azure, which selects
/// no prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum InputType {
    Query,
    #[serde(alias = "passage")]
    Document,
    Text,
}

/// Handling of a text that is too long: our names, Voyage's booleans, or NVIDIA's `NONE`, `START`
/// and `END`.
#[derive(Debug, Clone, Copy)]
pub(super) struct TruncationName(pub(super) Truncation);

impl<'de> Deserialize<'de> for TruncationName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TruncationVisitor)
    }
}

struct TruncationVisitor;

impl Visitor<'_> for TruncationVisitor {
    type Value = TruncationName;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"error\", \"head\", \"tail\", true or false")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<TruncationName, E> {
        let named = match name {
            "NONE" => Some(Truncation::Error),
            "START" => Some(Truncation::Head),
            "END" => Some(Truncation::Tail),
            name => Truncation::named(name),
        };
        let unknown = || E::invalid_value(Unexpected::Other("another text"), &self);
        named.map(TruncationName).ok_or_else(unknown)
    }

    fn visit_bool<E: de::Error>(self, cut: bool) -> Result<TruncationName, E> {
        Ok(TruncationName(if cut { Truncation::Tail } else { Truncation::Error }))
    }
}

/// A name, a list of one name (Jina), or null. For a field that may be absent, combine it with
/// `#[serde(default)]`.
///
/// # Errors
/// If the name is unknown, or a list holds another number of names.
pub(super) fn one_name<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    deserializer.deserialize_any(OneName(PhantomData))
}

struct OneName<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OneName<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, or a list of one text")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Option<T>, E> {
        let name: StrDeserializer<'_, E> = name.into_deserializer();
        T::deserialize(name).map(Some)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Option<T>, A::Error> {
        let name = list.next_element()?;
        match name {
            None => Err(de::Error::invalid_length(0, &self)),
            Some(_) if list.next_element::<de::IgnoredAny>()?.is_some() => Err(de::Error::invalid_length(2, &self)),
            one => Ok(one),
        }
    }

    fn visit_unit<E: de::Error>(self) -> Result<Option<T>, E> {
        Ok(None)
    }
}
