//! Whether an error names a field that the request has.

use prost_types::field_descriptor_proto::Type;

use super::comments;

/// Whether `path`, for example `spec.gate.rules[0].quantity`, is a valid path in the rpc's request.
/// A `oneof` may be named if none of its fields is set.
pub fn names(rpc: &str, path: &str) -> bool {
    let Some((_, request)) = comments::rpcs().into_iter().find(|(known, _)| known == rpc) else {
        return false;
    };
    let mut message = comments::message(&request);
    let mut parts = path.split('.').peekable();
    while let Some(part) = parts.next() {
        let name = part.split('[').next().unwrap_or_default();
        let Some(within) = message.take() else { return false };
        if let Some(field) = within.field.iter().find(|field| field.name() == name) {
            if field.r#type() == Type::Message {
                // The names in a struct are the caller's.
                if field.type_name() == ".google.protobuf.Struct" {
                    return true;
                }
                message = comments::message(field.type_name().trim_start_matches('.'));
            }
            continue;
        }
        return parts.peek().is_none() && within.oneof_decl.iter().any(|oneof| oneof.name() == name);
    }
    true
}

#[test]
fn a_path_is_followed_through_lists_and_messages() {
    let create = "/isomer.eval.v1.RunService/CreateRun";
    for path in [
        "spec.gate.rules[0].quantity",
        "request_id",
        "spec.gate.rules[0].limit",
        "spec.suite.toml",
    ] {
        assert!(names(create, path), "{path}");
    }
    let transform = "/isomer.transform.v1.TransformService/Transform";
    assert!(names(transform, "spec.transformation.parameters.count"));
    assert!(!names(transform, "spec.transformation.parameter.count"));
    for path in [
        "spec.gate.rules[0].of",
        "spec.gate.rules[0].quantity.x",
        "suite",
        "limit.quantity",
    ] {
        assert!(!names(create, path), "{path}");
    }
}
