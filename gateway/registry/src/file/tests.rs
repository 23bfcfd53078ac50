#![allow(clippy::unwrap_used)]
use isomer_proto::gateway::v1::ProviderKind;

use super::*;

const EXAMPLE: &str = include_str!("../../examples/providers.toml");

#[test]
fn the_example_reads_as_it_says() {
    let written = read(EXAMPLE).unwrap();
    let of = |id: &str| &written.iter().find(|w| w.provider.id == id).unwrap().provider;
    assert_eq!(written[0].provider.id, "embed-1");
    assert_eq!(of("embed-2").tls.as_ref().unwrap().ca_file, "tls/ca.pem");
    let openai = of("openai");
    assert_eq!(openai.kind(), ProviderKind::Openai);
    assert_eq!(
        openai.secret.as_ref().unwrap().source,
        Some(Source::Environment("OPENAI_API_KEY".to_owned()))
    );
    let limits = openai.limits.unwrap();
    assert_eq!((limits.max_batch_items, limits.requests_per_second), (2048, 50.0));
    assert_eq!(limits.timeout, Some(Duration { seconds: 20, nanos: 0 }));
    assert_eq!(of("cohere").input_types["query"], "search_query");
    assert_eq!(of("ollama").encoders["nomic-embed-text"], "nomic-embed-text:v1.5");
}

#[test]
fn what_does_not_fit_is_told_with_its_line_and_the_nearest_name() {
    let head = "# one\n[[provider]]\nid = \"a\"\n";
    for (text, field, words) in [
        (
            "adress = \"x\"",
            "provider[0].adress",
            "line 4: unknown key `adress` (did you mean `address`?)",
        ),
        (
            "kind = \"opnai\"",
            "provider[0].kind",
            "line 4: `opnai` is not a kind of provider (did you mean `openai`?)",
        ),
        (
            "kind = 4",
            "provider[0].kind",
            "line 4: integer does not fit (give a text in quotes)",
        ),
        (
            "\n[provider.limits]\ntimout = 3",
            "provider[0].limits.timout",
            "line 6: unknown key `timout` (did you mean `timeout`?)",
        ),
        (
            "limits = { max_batch_items = -1 }",
            "provider[0].limits.max_batch_items",
            "line 4: -1 is out of range",
        ),
        (
            "limits = { max_batch_items = 1.5 }",
            "provider[0].limits.max_batch_items",
            "line 4: float does not fit",
        ),
        (
            "limits = { timeout = -1 }",
            "provider[0].limits.timeout",
            "line 4: -1 is not a valid duration",
        ),
        (
            "limits = { timeout = nan }",
            "provider[0].limits.timeout",
            "is not a valid duration",
        ),
        ("limits = 3", "provider[0].limits", "give a table"),
        (
            "secret = { environment = \"A\", file = \"b\" }",
            "provider[0].secret",
            "names two places",
        ),
        (
            "secret = \"sk-geheim\"",
            "provider[0].secret",
            "line 4: string does not fit",
        ),
        ("tls = { ca = \"x\" }", "provider[0].tls.ca", "unknown key `ca`"),
        (
            "encoders = { e5.large = \"x\" }",
            "provider[0].encoders.e5",
            "put a name with dots into quotes",
        ),
        ("\"x.id\" = \"b\"", "provider[0].x.id", "unknown key `x.id`"),
        ("[[provider]]\nid = 3", "provider[1].id", "line 5: integer does not fit"),
        ("[providers]", "providers", "did you mean `provider`?"),
    ] {
        let fault = read(&format!("{head}{text}")).expect_err(text);
        assert_eq!(fault.field.as_deref(), Some(field), "{fault}");
        assert!(fault.to_string().contains(words), "{text}: {fault}");
        assert!(!fault.to_string().contains("geheim"), "{fault}");
    }
    let fault = read("[[provider]]\nid = \"a\nkind = 3").unwrap_err().to_string();
    assert!(fault.contains("line 2: is not TOML"), "{fault}");
    let fault = read("provider = 3").unwrap_err().to_string();
    assert!(fault.contains("write [[provider]] above each provider"), "{fault}");
}

#[test]
fn a_field_is_found_again_by_its_path() {
    let text = "\n[[provider]]\nid = \"a\"\n\n[provider.limits]\nmax_batch_items = 3\ntimeout = 0\n[provider.encoders]\n\"a.b\" = \"c\"\n";
    let written = read(text).unwrap().remove(0);
    let lines = [
        "provider.limits.timeout",
        "provider.limits.tokens_per_second",
        "provider.encoders[\"a.b\"]",
        "provider.kind",
    ];
    assert_eq!(lines.map(|path| written.line(path)), [7, 5, 9, 2]);
}

#[test]
fn an_empty_file_declares_nothing() {
    assert_eq!(read("# nothing\n").unwrap(), []);
}
