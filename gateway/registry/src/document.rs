//! Providers as documents for people and programs: JSON, and the TOML of [`crate::file`].

use isomer_proto::{
    ProtoEnum,
    gateway::v1::{Provider, secret_ref::Source},
};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// A provider with the proto's names: the kind by its short name, durations in seconds, times in
/// RFC 3339. Unset fields are left out.
pub fn json(provider: &Provider) -> Value {
    let mut document = settings(provider);
    document.extend(ours(provider));
    Value::Object(document)
}

/// A provider as a `[[provider]]` table of a file. Fields that the gateway sets are comments above
/// it.
///
/// # Errors
/// If a value has no form in TOML.
pub fn toml(provider: &Provider) -> Result<String, toml::ser::Error> {
    let table = json!({ "provider": [settings(provider)] });
    let comments = ours(provider).into_iter().map(|(name, value)| match value {
        Value::String(text) => format!("# {name}: {}\n", text.replace(['\n', '\r'], " ")),
        value => format!("# {name}: {value}\n"),
    });
    Ok(comments.collect::<String>() + &toml::to_string(&table)?)
}

/// A time in RFC 3339; `None` if it is invalid.
pub fn time(at: &prost_types::Timestamp) -> Option<String> {
    Some(Timestamp::new(at.seconds, at.nanos).ok()?.to_string())
}

/// Fields that the provider's owner sets.
fn settings(provider: &Provider) -> Map<String, Value> {
    let mut document = Map::new();
    let mut put = |name: &str, value: Value| {
        let is_set = match &value {
            Value::Null => false,
            Value::String(text) => !text.is_empty(),
            Value::Object(entries) => !entries.is_empty(),
            _ => true,
        };
        if is_set {
            document.insert(name.to_owned(), value);
        }
    };
    put("id", json!(provider.id));
    put("kind", json!(provider.kind().dashed()));
    put("address", json!(provider.address));
    let price = provider.price_per_million_tokens;
    put(
        "price_per_million_tokens",
        if price == 0.0 { Value::Null } else { json!(price) },
    );
    put("lease", provider.lease.as_ref().map_or(Value::Null, seconds));
    let secret = provider.secret.as_ref().and_then(|secret| secret.source.as_ref());
    put(
        "secret",
        match secret {
            Some(Source::Environment(name)) => json!({ "environment": name }),
            Some(Source::File(path)) => json!({ "file": path }),
            None => Value::Null,
        },
    );
    put("encoders", sorted(&provider.encoders));
    put("input_types", sorted(&provider.input_types));
    put("headers", sorted(&provider.headers));
    if let Some(limits) = &provider.limits {
        let mut table = Map::new();
        let numbers = [
            ("max_batch_items", json!(limits.max_batch_items)),
            ("max_batch_tokens", json!(limits.max_batch_tokens)),
            ("requests_per_second", json!(limits.requests_per_second)),
            ("tokens_per_second", json!(limits.tokens_per_second)),
            ("max_concurrency", json!(limits.max_concurrency)),
        ];
        let known = numbers.into_iter().filter(|(_, number)| number.as_f64() != Some(0.0));
        table.extend(known.map(|(name, number)| (name.to_owned(), number)));
        if let Some(timeout) = &limits.timeout {
            table.insert("timeout".to_owned(), seconds(timeout));
        }
        put("limits", Value::Object(table));
    }
    if let Some(tls) = &provider.tls {
        let files = [
            ("ca_file", &tls.ca_file),
            ("certificate_file", &tls.certificate_file),
            ("key_file", &tls.key_file),
            ("server_name", &tls.server_name),
        ];
        let given = files.into_iter().filter(|(_, text)| !text.is_empty());
        put(
            "tls",
            given.map(|(name, text)| (name.to_owned(), json!(text))).collect(),
        );
    }
    document
}

/// Fields that the gateway sets.
fn ours(provider: &Provider) -> Map<String, Value> {
    let mut document = Map::new();
    let times = [
        ("create_time", &provider.create_time),
        ("update_time", &provider.update_time),
        ("expire_time", &provider.expire_time),
    ];
    document.insert("source".to_owned(), json!(provider.source().dashed()));
    document.insert("state".to_owned(), json!(provider.state().dashed()));
    if !provider.state_detail.is_empty() {
        document.insert("state_detail".to_owned(), json!(provider.state_detail));
    }
    for (name, at) in times {
        if let Some(at) = at.as_ref().and_then(time) {
            document.insert(name.to_owned(), json!(at));
        }
    }
    document.insert("etag".to_owned(), json!(provider.etag));
    document
}

fn sorted(names: &std::collections::HashMap<String, String>) -> Value {
    let mut entries: Vec<_> = names.iter().collect();
    entries.sort();
    entries
        .into_iter()
        .map(|(name, value)| (name.clone(), json!(value)))
        .collect()
}

/// A number of seconds, whole if possible.
fn seconds(duration: &prost_types::Duration) -> Value {
    match duration.nanos {
        0 => json!(duration.seconds),
        nanos => json!(duration.seconds as f64 + f64::from(nanos) / 1e9),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::file;

    #[test]
    fn what_is_written_as_toml_is_read_back_the_same() {
        let text = include_str!("../examples/providers.toml");
        let providers = file::read(text).unwrap();
        assert!(providers.len() > 4);
        for written in providers {
            let mut shown = written.provider.clone();
            shown.set_source(isomer_proto::gateway::v1::ProviderSource::Stored);
            shown.state_detail = "slow\nand [odd]".to_owned();
            let text = toml(&shown).unwrap();
            assert!(text.contains("# source: stored\n"), "{text}");
            let again = file::read(&text).unwrap();
            assert_eq!(again[0].provider, written.provider, "{text}");
        }
    }

    #[test]
    fn json_has_the_protos_names_and_leaves_out_what_is_not_set() {
        let provider = Provider {
            id: "a".to_owned(),
            kind: 1,
            address: "grpc://a:1".to_owned(),
            lease: Some(prost_types::Duration {
                seconds: 30,
                nanos: 500_000_000,
            }),
            expire_time: Some(prost_types::Timestamp {
                seconds: 1_700_000_000,
                nanos: 0,
            }),
            etag: "e".to_owned(),
            ..Provider::default()
        };
        let expected = json!({
            "id": "a", "kind": "isomer", "address": "grpc://a:1", "lease": 30.5, "source": "unknown", "state": "unknown",
            "expire_time": "2023-11-14T22:13:20Z", "etag": "e",
        });
        assert_eq!(json(&provider), expected);
    }
}
