//! `google.protobuf.Struct` to JSON.

use prost_types::{Struct, value::Kind};
use serde_json::{Map, Number, Value};

pub(in crate::commands) fn from_struct(message: &Struct) -> Value {
    Value::Object(
        message
            .fields
            .iter()
            .map(|(key, value)| (key.clone(), from_value(value)))
            .collect::<Map<_, _>>(),
    )
}

fn from_value(message: &prost_types::Value) -> Value {
    match &message.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(b)) => Value::Bool(*b),
        Some(Kind::NumberValue(n)) if n.fract() == 0.0 && n.abs() < 9.0e15 => Value::Number(Number::from(*n as i64)),
        Some(Kind::NumberValue(n)) => Number::from_f64(*n).map_or(Value::Null, Value::Number),
        Some(Kind::StringValue(s)) => Value::String(s.clone()),
        Some(Kind::ListValue(list)) => Value::Array(list.values.iter().map(from_value).collect()),
        Some(Kind::StructValue(object)) => from_struct(object),
    }
}
