#![allow(clippy::unwrap_used)]
use std::path::PathBuf;

use isomer_proto::gateway::v1::{ProviderKind, SecretRef, TlsSettings, secret_ref::Source};
use prost_types::Duration as Lease;

use super::*;

/// A valid provider of an HTTP kind that uses every field.
fn sound() -> Provider {
    let names = |pairs: &[(&str, &str)]| pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    Provider {
        id: "cohere-1".to_owned(),
        kind: ProviderKind::CohereV2.into(),
        address: "https://api.cohere.com:8443/v2".to_owned(),
        encoders: names(&[("embed-v4", "embed-v4.0"), ("org/größe:1", "embed-v3")]),
        limits: Some(ProviderLimits {
            max_batch_items: 96,
            requests_per_second: 0.5,
            timeout: Some(Lease {
                seconds: 3600,
                nanos: 0,
            }),
            ..ProviderLimits::default()
        }),
        secret: Some(SecretRef {
            source: Some(Source::Environment("COHERE_API_KEY".to_owned())),
        }),
        tls: Some(TlsSettings {
            ca_file: "/etc/providers/ca.pem".to_owned(),
            certificate_file: "/etc/providers/c.pem".to_owned(),
            key_file: "/etc/providers/sub/k.pem".to_owned(),
            server_name: "api.cohere.com".to_owned(),
        }),
        headers: names(&[("x-client-name", "isomer"), ("accept-language", "sk-SK")]),
        price_per_million_tokens: 0.12,
        lease: Some(Lease { seconds: 1, nanos: 0 }),
        input_types: names(&[("query", "search_query"), ("", "search_document")]),
        ..Provider::default()
    }
}

fn config() -> ProvidersConfig {
    ProvidersConfig {
        file_dirs: vec![PathBuf::from("/etc/providers")],
        secret_environment: vec!["*_API_KEY".to_owned(), "*_TOKEN".to_owned()],
        ..ProvidersConfig::default()
    }
}

fn judged(change: impl FnOnce(&mut Provider)) -> Result<(), Fault> {
    let mut candidate = sound();
    change(&mut candidate);
    provider(&candidate, Author::Caller, &config())
}

/// Asserts that a change is refused with this field, these words in the error, and a hint.
fn refused(field: &str, words: &str, change: impl FnOnce(&mut Provider)) {
    let fault = judged(change).expect_err(&format!("{field} {words}"));
    assert_eq!(fault.field.as_deref(), Some(field), "{fault}");
    assert!(fault.to_string().contains(words), "{words}: {fault}");
    assert!(fault.hint.is_some_and(|hint| !hint.is_empty()), "{field} {words}");
}

fn addressed(kind: ProviderKind, address: &str) -> Result<(), Fault> {
    judged(|p| {
        p.set_kind(kind);
        p.address = address.to_owned();
        p.tls = None;
        p.input_types.clear();
    })
}

#[test]
fn a_provider_that_uses_every_field_is_sound() {
    judged(|_| ()).unwrap();
}

#[test]
fn ids_are_dns_labels() {
    for id in ["a", "7b", "tei-berlin-1", &"x".repeat(63)] {
        judged(|p| p.id = id.to_owned()).unwrap();
    }
    for id in ["Tei", "a_b", "a.b", "-a", "a-", "ä", "a b", "a/b", &"x".repeat(64)] {
        refused("provider.id", "is not an id", |p| p.id = id.to_owned());
    }
    refused("provider.id", "is missing", |p| p.id.clear());
}

#[test]
fn a_kind_is_one_of_those_known() {
    refused("provider.kind", "is missing", |p| p.kind = 0);
    refused("provider.kind", "99 is not a kind", |p| p.kind = 99);
    refused("provider.kind", "tei-grpc", |p| p.kind = -1);
}

#[test]
fn addresses_have_the_scheme_of_their_kind_a_host_and_nothing_secret() {
    let (grpc, http) = (ProviderKind::Isomer, ProviderKind::Openai);
    for address in [
        "grpc://a:1",
        "grpcs://a.b-c.d:65535",
        "grpc://[::1]:50051",
        "grpc://10.0.0.1:7/",
    ] {
        addressed(grpc, address).unwrap();
    }
    for address in [
        "http://a",
        "https://a/v1",
        "http://a:8080/x/y/",
        "http://[2001:db8::1]",
        "https://a_b.c.",
    ] {
        addressed(http, address).unwrap();
    }
    let wrong = [
        (grpc, "http://a:1", "does not go with a provider of kind isomer"),
        (http, "grpc://a:1", "does not go with a provider of kind openai"),
        (http, "file:///etc/passwd", "provider.address"),
        (http, "a:8080", "provider.address"),
        (http, "a", "has no scheme"),
        (http, "", "is missing"),
        (grpc, "grpc://a", "has no port"),
        (grpc, "grpc://a:1/path", "has a path"),
        (grpc, "grpc://a:0", "is not a port"),
        (http, "http://a:99999", "is not a port"),
        (http, "http://a:x", "provider.address"),
        (http, "http://a?key=1", "has a query"),
        (http, "http://a/#x", "has a query or a fragment"),
        (http, "http://", "provider.address"),
        (http, "http:///v1", "provider.address"),
        (http, "http://[::1", "provider.address"),
        (http, "http://a b/", "is not an address"),
        (http, "http://a\r\nhost: b/", "is not an address"),
        (http, "http://-a/", "names no host"),
    ];
    for (kind, address, words) in wrong {
        let fault = addressed(kind, address).expect_err(address);
        assert_eq!(fault.field.as_deref(), Some("provider.address"), "{address}: {fault}");
        assert!(fault.to_string().contains(words), "{address}: {fault}");
    }
    for address in ["http://me:geheim@a/", "https://geheim@a", "http://a:b@c:geheim@d/x?y"] {
        let fault = addressed(http, address).unwrap_err().to_string();
        assert!(
            fault.contains("user or a password") && !fault.contains("geheim"),
            "{fault}"
        );
    }
}

#[test]
fn encoders_are_named_where_the_provider_cannot_list_them() {
    refused("provider.encoders", "cannot list its encoders", |p| p.encoders.clear());
    judged(|p| {
        p.set_kind(ProviderKind::Isomer);
        p.address = "grpcs://a:1".to_owned();
        p.encoders.clear();
        p.input_types.clear();
    })
    .unwrap();
    refused("provider.encoders[\" x\"]", "is not an encoder id", |p| {
        p.encoders.insert(" x".to_owned(), "m".to_owned());
    });
    refused("provider.encoders[\"x\"]", "is not a model name", |p| {
        p.encoders.insert("x".to_owned(), "m\n".to_owned());
    });
    refused("provider.encoders", "1001 entries", |p| {
        p.encoders = (0..1001).map(|i| (i.to_string(), "m".to_owned())).collect();
    });
}

#[test]
fn limits_are_finite_and_not_negative() {
    for number in [f64::NAN, f64::INFINITY, -0.1, 1e7] {
        refused("provider.limits.requests_per_second", "out of range", |p| {
            p.limits.as_mut().unwrap().requests_per_second = number;
        });
    }
    refused("provider.limits.tokens_per_second", "out of range", |p| {
        p.limits.as_mut().unwrap().tokens_per_second = -1.0;
    });
    let timeouts = [
        (0, 0, "is 0"),
        (3600, 1, "over an hour"),
        (-1, 0, "no"),
        (i64::MIN, -1, "length of time"),
    ];
    for (seconds, nanos, words) in timeouts {
        refused("provider.limits.timeout", words, |p| {
            p.limits.as_mut().unwrap().timeout = Some(Lease { seconds, nanos });
        });
    }
    refused("provider.price_per_million_tokens", "US dollars", |p| {
        p.price_per_million_tokens = f64::NAN
    });
}

#[test]
fn a_caller_names_only_secrets_and_files_set_aside_for_providers() {
    let secret = |source| move |p: &mut Provider| p.secret = Some(SecretRef { source });
    let variable = |name: &str| Some(Source::Environment(name.to_owned()));
    let file = |path: &str| Some(Source::File(path.to_owned()));
    judged(secret(variable("HF_TOKEN"))).unwrap();
    judged(secret(file("/etc/providers/key"))).unwrap();
    refused("provider.secret", "says nothing", secret(None));
    for name in ["AWS_SECRET_ACCESS_KEY", "PATH", "COHERE_API_KEYS"] {
        refused(
            "provider.secret.environment",
            "is not for providers",
            secret(variable(name)),
        );
    }
    // By default no variable is permitted, whatever its name.
    let mut candidate = sound();
    candidate.secret = Some(SecretRef {
        source: variable("OPENAI_API_KEY"),
    });
    let fault = provider(&candidate, Author::Caller, &ProvidersConfig::default()).unwrap_err();
    assert_eq!(fault.field.as_deref(), Some("provider.secret.environment"), "{fault}");
    // A secret that was pasted in place of its name does not appear in the error.
    let fault = judged(secret(variable("sk-geheim"))).unwrap_err().to_string();
    assert!(fault.contains("not the secret") && !fault.contains("geheim"), "{fault}");
    for path in ["key", "/etc/providers/../shadow", ""] {
        refused("provider.secret.file", "absolute path", secret(file(path)));
    }
    for path in ["/etc/shadow", "/etc/providers", "/etc/providers-of-others/key"] {
        refused(
            "provider.secret.file",
            "is not in a folder for providers",
            secret(file(path)),
        );
    }
    // The operator's own file may name any variable and file.
    let mut declared = sound();
    declared.lease = None;
    for source in [variable("MY_SECRET"), file("/run/secrets/key")] {
        declared.secret = Some(SecretRef { source });
        provider(&declared, Author::Operator, &config()).unwrap();
    }
}

#[test]
fn tls_comes_in_pairs_and_never_with_plain_text() {
    let tls = |change: fn(&mut TlsSettings)| move |p: &mut Provider| change(p.tls.as_mut().unwrap());
    refused("provider.tls.key_file", "go together", tls(|t| t.key_file.clear()));
    refused(
        "provider.tls.certificate_file",
        "go together",
        tls(|t| t.certificate_file.clear()),
    );
    refused(
        "provider.tls.ca_file",
        "folder for providers",
        tls(|t| t.ca_file = "/etc/ssl/ca.pem".to_owned()),
    );
    refused(
        "provider.tls.server_name",
        "not the name of a host",
        tls(|t| t.server_name = "a b".to_owned()),
    );
    refused("provider.tls", "plain-text", |p| {
        p.address = "http://api.cohere.com".to_owned()
    });
    judged(|p| p.tls = Some(TlsSettings::default())).unwrap();
}

#[test]
fn headers_are_legal_nobody_elses_and_not_secret() {
    let header = |name: &str, value: &str| {
        let (name, value) = (name.to_owned(), value.to_owned());
        move |p: &mut Provider| p.headers = HashMap::from([(name, value)])
    };
    for (name, words) in [
        ("X-Client", "lower case"),
        ("a b", "is not a valid header name"),
        ("", "is not a valid header name"),
        (":path", "is not a valid header name"),
        ("x\r\ny", "is not a valid header name"),
        ("host", "set by the protocol"),
        ("transfer-encoding", "set by the protocol"),
        ("content-length", "set by the protocol"),
        ("grpc-timeout", "set by the protocol"),
        ("proxy-authorization", "set by the protocol"),
        ("authorization", "carries a secret"),
        ("x-api-key", "carries a secret"),
        ("my_token", "carries a secret"),
        ("cookie", "carries a secret"),
        ("trace-bin", "binary header"),
    ] {
        refused(&format!("provider.headers[\"{name}\"]"), words, header(name, "v"));
    }
    for value in ["a\r\nhost: b", "ü", " a", "\0", &"x".repeat(4097)] {
        refused("provider.headers[\"x-a\"]", "no header can have", header("x-a", value));
    }
    for value in ["Bearer geheim", "sk-proj-geheimgeheimgeheim", "Basic geheim"] {
        let fault = judged(header("x-a", value)).unwrap_err().to_string();
        assert!(
            fault.contains("looks like a secret") && !fault.contains("geheim"),
            "{fault}"
        );
    }
    refused("provider.headers", "33 entries", |p| {
        p.headers = (0..33).map(|i| (format!("x-{i}"), String::new())).collect();
    });
}

#[test]
fn input_types_are_for_kinds_that_have_them() {
    refused("provider.input_types", "hugging-face have them", |p| {
        p.set_kind(ProviderKind::Openai)
    });
    refused("provider.input_types", "takes no text without one", |p| {
        p.input_types.clear()
    });
    refused("provider.input_types[\"query\"]", "is not an input type", |p| {
        p.input_types.insert("query".to_owned(), String::new());
    });
}

#[test]
fn leases_are_bounded_and_not_for_declared_providers() {
    let lease = |seconds, nanos| move |p: &mut Provider| p.lease = Some(Lease { seconds, nanos });
    judged(lease(86_400, 0)).unwrap();
    refused("provider.lease", "under a second", lease(0, 999_999_999));
    refused("provider.lease", "longer than this gateway grants", lease(86_400, 1));
    refused("provider.lease", "length of time", lease(-5, 0));
    let fault = provider(&sound(), Author::Operator, &config()).unwrap_err();
    assert_eq!(fault.field.as_deref(), Some("provider.lease"));
}
