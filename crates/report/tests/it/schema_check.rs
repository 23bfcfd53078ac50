//! Validates a value against a JSON Schema, for the keywords that ours use. An unknown keyword ends
//! the check with an error, so that nothing passes by being overlooked; so does a property that the
//! schema does not name.

use serde_json::{Map, Value};

/// Errors of `value`, each with its path; empty if it is valid.
pub fn faults(schema: &Value, value: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    check(schema, schema, value, "$", true, &mut faults);
    faults
}

const SILENT: [&str; 9] = [
    "$schema",
    "$id",
    "$defs",
    "title",
    "description",
    "default",
    "format",
    "properties",
    "required",
];

fn check(root: &Value, schema: &Value, value: &Value, path: &str, strict: bool, faults: &mut Vec<String>) {
    let schema = match schema {
        Value::Bool(true) => return,
        Value::Object(schema) => schema,
        other => return faults.push(format!("{path}: {other} is not a schema")),
    };
    for (keyword, rule) in schema {
        match keyword.as_str() {
            "$ref" => check(root, target(root, rule), value, path, strict, faults),
            "type" if !types(rule).iter().any(|name| is(value, name)) => {
                faults.push(format!("{path}: {value} is no {rule}"));
            }
            "type" => {}
            "const" if value != rule => faults.push(format!("{path}: {value} is not {rule}")),
            "const" => {}
            "enum" if !rule.as_array().unwrap().contains(value) => {
                faults.push(format!("{path}: {value} is none of {rule}"))
            }
            "enum" => {}
            "minimum" if value.as_f64().is_some_and(|number| number < rule.as_f64().unwrap()) => {
                faults.push(format!("{path}: {value} is less than {rule}"));
            }
            "maximum" if value.as_f64().is_some_and(|number| number > rule.as_f64().unwrap()) => {
                faults.push(format!("{path}: {value} is more than {rule}"));
            }
            "minimum" | "maximum" => {}
            "items" => {
                for (i, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(root, rule, item, &format!("{path}[{i}]"), true, faults);
                }
            }
            "oneOf" | "anyOf" => {
                let passed = rule.as_array().unwrap().iter().filter(|branch| {
                    let mut inner = Vec::new();
                    check(root, branch, value, path, false, &mut inner);
                    inner.is_empty()
                });
                let n = passed.count();
                if n == 0 || (keyword == "oneOf" && n != 1) {
                    faults.push(format!("{path}: {n} branches of {keyword} hold"));
                }
            }
            "additionalProperties" => {}
            known if SILENT.contains(&known) => {}
            // Our own notes in addition to the rules.
            note if note.starts_with("x-") => {}
            unknown => faults.push(format!("{path}: the keyword {unknown} is not known to this check")),
        }
    }
    if let Value::Object(object) = value {
        properties(root, schema, object, path, strict, faults);
    }
}

fn properties(
    root: &Value,
    schema: &Map<String, Value>,
    object: &Map<String, Value>,
    path: &str,
    strict: bool,
    faults: &mut Vec<String>,
) {
    let required = schema.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        if !object.contains_key(name) {
            faults.push(format!("{path}: {name} is missing"));
        }
    }
    let own = schema.get("properties").and_then(Value::as_object);
    let branches = ["oneOf", "anyOf"]
        .into_iter()
        .filter_map(|keyword| schema.get(keyword)?.as_array());
    let in_branches: Vec<&Map<String, Value>> = branches
        .flatten()
        .filter_map(|branch| branch.get("properties")?.as_object())
        .collect();
    for (name, value) in object {
        let path = format!("{path}.{name}");
        match (own.and_then(|own| own.get(name)), schema.get("additionalProperties")) {
            (Some(rule), _) | (None, Some(rule)) => check(root, rule, value, &path, true, faults),
            (None, None) if strict && own.is_some() && !in_branches.iter().any(|branch| branch.contains_key(name)) => {
                faults.push(format!("{path}: the schema names no such property"));
            }
            (None, None) => {}
        }
    }
}

fn target<'a>(root: &'a Value, reference: &Value) -> &'a Value {
    let pointer = reference
        .as_str()
        .unwrap()
        .strip_prefix('#')
        .expect("a reference within the file");
    root.pointer(pointer).expect("a definition")
}

fn types(rule: &Value) -> Vec<&str> {
    match rule {
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    }
}

fn is(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        _ => false,
    }
}
