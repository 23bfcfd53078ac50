#![allow(clippy::unwrap_used)]
use super::*;

const EXAMPLE: &str = include_str!("../../examples/providers.toml");

fn judged(text: &str) -> Result<Vec<Provider>, Fault> {
    judge(
        Path::new("/etc/isomer/providers.toml"),
        &Ok(text.to_owned()),
        &ProvidersConfig::default(),
    )
}

#[test]
fn the_example_is_sound_and_its_paths_are_seen_from_its_folder() {
    let providers = judged(EXAMPLE).unwrap();
    let of = |id: &str| providers.iter().find(|p| p.id == id).unwrap();
    assert_eq!(
        of("embed-2").tls.as_ref().unwrap().key_file,
        "/etc/isomer/tls/gateway.key"
    );
    let secret = of("cohere").secret.clone().unwrap().source;
    assert_eq!(secret, Some(Source::File("/etc/isomer/secrets/cohere".to_owned())));
    assert!(
        providers
            .iter()
            .all(|p| p.source() == ProviderSource::Declared && !p.etag.is_empty())
    );
}

#[test]
fn what_cannot_be_used_is_told_with_file_line_and_field() {
    let sound = "[[provider]]\nid = \"a\"\nkind = \"isomer\"\naddress = \"grpc://a:1\"\n";
    for (text, field, words) in [
        (
            "limits = { timeout = 0 }",
            "provider[0].limits.timeout",
            "/etc/isomer/providers.toml: line 5: is 0",
        ),
        ("lease = 30", "provider[0].lease", "line 5: what a file declares stays"),
        ("[[provider]]\nid = \"b\"", "provider[1].kind", "line 5: is missing"),
        (sound, "provider[1].id", "line 6: `a` is declared twice"),
        ("tls = { ca_file = \"../up.pem\" }", "provider[0].tls", "plain-text"),
    ] {
        let fault = judged(&format!("{sound}{text}")).expect_err(text);
        assert_eq!(fault.field.as_deref(), Some(field), "{fault}");
        assert!(fault.to_string().contains(words), "{fault}");
    }
    let fault = judge(
        Path::new("/x"),
        &Err("cannot be read: gone".to_owned()),
        &ProvidersConfig::default(),
    )
    .unwrap_err();
    assert_eq!(fault.field.as_deref(), Some("providers.file"));
}
