//! Conversions from and to the messages of the protocol. A transformation of the `oneof` and one by
//! name are read alike; one with a message of its own is written as that message, so that servers
//! of older versions know it.

use std::sync::LazyLock;

use isomer_proto::transform::v1 as proto;
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, SerializeOptions};
use prost_types::{ListValue, Struct, Value as ProtoValue, value::Kind};
use serde_json::{Map, Number, Value as Json};

use crate::Transformation;

static DESCRIPTOR: LazyLock<Option<MessageDescriptor>> = LazyLock::new(|| {
    let pool = DescriptorPool::decode(isomer_proto::FILE_DESCRIPTOR_SET).ok()?;
    pool.get_message_by_name("isomer.transform.v1.Transformation")
});

/// A transformation as a message gives it.
#[derive(Debug, Clone)]
pub struct NamedTransformation {
    /// Its name; empty if the message has none.
    pub name: String,
    /// Parameters that are given.
    pub given: Map<String, Json>,
    /// Path of the parameters within the message, e.g. `noise`.
    pub path: String,
}

/// Name and parameters of a message. A message with both forms is read as its `oneof`.
pub fn read(message: &proto::Transformation) -> NamedTransformation {
    if message.kind.is_none() {
        let parameters = message.parameters.as_ref();
        return NamedTransformation {
            name: message.name.clone(),
            given: parameters.map(object).unwrap_or_default(),
            path: "parameters".to_owned(),
        };
    }
    let (name, given) = of_kind(message).unwrap_or_default();
    NamedTransformation {
        path: name.clone(),
        name,
        given,
    }
}

/// Name and fields of the message in the `oneof`.
fn of_kind(message: &proto::Transformation) -> Option<(String, Map<String, Json>)> {
    let dynamic = DynamicMessage::decode(DESCRIPTOR.clone()?, &*message.encode_to_vec()).ok()?;
    let mut set = dynamic.fields().filter(|(field, _)| field.containing_oneof().is_some());
    let (field, value) = set.next()?;
    let options = SerializeOptions::new().use_proto_field_name(true);
    let fields = value
        .as_message()?
        .serialize_with_options(serde_json::value::Serializer, &options);
    let Json::Object(given) = fields.ok()? else { return None };
    Some((field.name().to_owned(), given))
}

/// The message of a transformation. Parameters that only suites have are left out.
pub fn message(transformation: &Transformation) -> proto::Transformation {
    let row = transformation.declaration();
    let mut given = transformation.given().clone();
    given.retain(|name, _| row.parameter(name).is_none_or(|parameter| parameter.in_requests()));
    kind(row.name, &given).unwrap_or_else(|| proto::Transformation {
        kind: None,
        name: row.name.to_owned(),
        parameters: Some(Struct {
            fields: given
                .iter()
                .map(|(name, value)| (name.clone(), to_proto(value)))
                .collect(),
        }),
    })
}

/// The form by `oneof`, if it has a message for the name and a field for each parameter.
fn kind(name: &str, given: &Map<String, Json>) -> Option<proto::Transformation> {
    let descriptor = DESCRIPTOR.clone()?;
    descriptor
        .get_field_by_name(name)
        .filter(|field| field.containing_oneof().is_some())?;
    let form = Map::from_iter([(name.to_owned(), Json::Object(given.clone()))]);
    let dynamic = DynamicMessage::deserialize(descriptor, Json::Object(form)).ok()?;
    proto::Transformation::decode(&*dynamic.encode_to_vec()).ok()
}

fn object(fields: &Struct) -> Map<String, Json> {
    fields
        .fields
        .iter()
        .map(|(name, value)| (name.clone(), from_proto(value)))
        .collect()
}

pub fn from_proto(value: &ProtoValue) -> Json {
    match &value.kind {
        None | Some(Kind::NullValue(_)) => Json::Null,
        Some(Kind::BoolValue(flag)) => Json::Bool(*flag),
        Some(Kind::NumberValue(number)) => Number::from_f64(*number).map_or(Json::Null, Json::Number),
        Some(Kind::StringValue(text)) => Json::String(text.clone()),
        Some(Kind::ListValue(list)) => list.values.iter().map(from_proto).collect(),
        Some(Kind::StructValue(fields)) => Json::Object(object(fields)),
    }
}

/// A value as a message holds it; null for an object, which no parameter is.
pub fn to_proto(value: &Json) -> ProtoValue {
    let kind = match value {
        Json::Null | Json::Object(_) => Kind::NullValue(0),
        Json::Bool(flag) => Kind::BoolValue(*flag),
        Json::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        Json::String(text) => Kind::StringValue(text.clone()),
        Json::Array(all) => Kind::ListValue(ListValue {
            values: all.iter().map(to_proto).collect(),
        }),
    };
    ProtoValue { kind: Some(kind) }
}
