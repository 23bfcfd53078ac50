#![allow(clippy::unwrap_used)]
use std::{collections::BTreeMap, path::Path};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::*;

#[derive(Debug, Serialize, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
struct Sample {
    port: u16,
    nested: Nested,
    /// Forgot `deny_unknown_fields`.
    lenient: Lenient,
    sources: BTreeMap<String, Lenient>,
    /// A section of a feature that this build lacks.
    extra: MissingFeature,
}

#[derive(Debug, Default, Serialize, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
struct Nested {
    max_items: u32,
    key: Option<String>,
    tags: Vec<String>,
}

#[derive(Debug, Default, Serialize, Deserialize, PartialEq)]
#[serde(default)]
struct Lenient {
    address: String,
}

impl Default for Sample {
    fn default() -> Self {
        let nested = Nested {
            max_items: 8,
            ..Nested::default()
        };
        Self {
            port: 1,
            nested,
            lenient: Lenient::default(),
            sources: BTreeMap::new(),
            extra: MissingFeature::default(),
        }
    }
}

impl Validate for Sample {
    fn validate(&self) -> Result<(), ConfigError> {
        self.extra.refuse("extra", "more")?;
        match self.nested.max_items {
            0 => Err(ConfigError::new("max_items", "is 0", "give at least 1").within("nested")),
            _ => Ok(()),
        }
    }
}

fn read(toml: &str, environment: &[(&str, &str)], flags: serde_json::Value) -> Result<Sample, ConfigError> {
    let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    std::fs::write(file.path(), toml).unwrap();
    let environment = environment
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    load_from(Some(file.path()), environment, &flags)
}

fn refused(toml: &str, environment: &[(&str, &str)]) -> ConfigError {
    read(toml, environment, json!({})).unwrap_err()
}

fn refusal(toml: &str, environment: &[(&str, &str)]) -> String {
    refused(toml, environment).to_string()
}

#[test]
fn each_layer_overrides_the_one_below() {
    let file = "port = 7\n[nested]\nmax_items = 9";
    let variable = [("ISOMER_NESTED__MAX_ITEMS", "10")];
    assert_eq!(read("", &[], json!({})).unwrap().nested.max_items, 8);
    assert_eq!(read(file, &[], json!({})).unwrap().nested.max_items, 9);
    assert_eq!(read(file, &variable, json!({})).unwrap().nested.max_items, 10);
    let value = read(file, &variable, json!({"nested": {"max_items": 11}})).unwrap();
    assert_eq!((value.port, value.nested.max_items), (7, 11));
}

#[test]
fn an_absent_flag_overrides_nothing() {
    let value = read("port = 7", &[], json!({"port": null, "nested": {"key": null}})).unwrap();
    assert_eq!(value.port, 7);
    let value: Sample = load_from(None, [], &()).unwrap();
    assert_eq!(value, Sample::default());
}

#[test]
fn a_number_in_the_environment_is_text_where_text_is_wanted() {
    let environment = [("ISOMER_NESTED__KEY", "0123"), ("ISOMER_LENIENT__ADDRESS", "true")];
    let value = read("", &environment, json!({})).unwrap();
    assert_eq!(value.nested.key.as_deref(), Some("0123"));
    assert_eq!(value.lenient.address, "true");
    assert_eq!(
        read("", &[("ISOMER_NESTED__TAGS", "[a, b]")], json!({}))
            .unwrap()
            .nested
            .tags,
        ["a", "b"]
    );
}

#[test]
fn a_variable_without_a_section_belongs_to_the_command_line() {
    assert_eq!(
        read("", &[("ISOMER_PORT", "9"), ("ISOMER_HOME", "/x")], json!({}))
            .unwrap()
            .port,
        1
    );
}

#[test]
fn a_typo_names_the_key_its_file_and_the_nearest_name() {
    let error = refusal("[nested]\nmax_itmes = 9", &[]);
    assert!(
        error.starts_with("configuration: nested.max_itmes: unknown key, in file "),
        "{error}"
    );
    assert!(error.contains(".toml; did you mean `max_items`?"), "{error}");
}

#[test]
fn a_typo_in_the_environment_names_the_variable_even_when_the_file_has_the_section() {
    let error = refused("[nested]\nmax_items = 9", &[("ISOMER_NESTED__MAX_ITMES", "3")]);
    assert_eq!(error.field(), "nested.max_itmes");
    assert!(error.origin().unwrap().contains("ISOMER_NESTED__MAX_ITMES"), "{error}");
    assert!(error.hint().contains("`max_items`"), "{error}");
}

#[test]
fn a_struct_that_would_ignore_unknown_keys_does_not() {
    for (file, field) in [
        ("[lenient]\nadress = 'x'", "lenient.adress"),
        ("[sources.first]\nadres = 'x'", "sources.first.adres"),
    ] {
        let error = refused(file, &[]);
        assert_eq!(error.field(), field);
        assert!(error.hint().contains("`address`"), "{error}");
    }
}

#[test]
fn an_unknown_section_lists_the_sections() {
    let error = refused("[bananas]\nx = 1", &[]);
    assert_eq!(error.field(), "bananas");
    assert!(error.hint().contains("port, nested, lenient, sources"), "{error}");
}

#[test]
fn a_wrong_type_names_the_key_its_place_and_what_is_wanted() {
    let error = refusal("port = \"high\"", &[]);
    assert!(
        error.contains("port: ") && error.contains("high") && error.contains("u16"),
        "{error}"
    );
    let error = refusal("port = 5", &[("ISOMER_NESTED__MAX_ITEMS", "many")]);
    assert!(
        error.contains("nested.max_items: ") && error.contains("ISOMER_NESTED__MAX_ITEMS"),
        "{error}"
    );
}

#[test]
fn validation_names_the_whole_path_and_where_the_value_was_written() {
    let error = read(
        "[nested]\nmax_items = 4",
        &[("ISOMER_NESTED__MAX_ITEMS", "0")],
        json!({}),
    )
    .unwrap_err();
    assert_eq!(error.field(), "nested.max_items");
    assert_eq!(error.origin(), Some("environment variable ISOMER_NESTED__MAX_ITEMS"));
    let error = read("", &[], json!({"nested": {"max_items": 0}})).unwrap_err();
    assert_eq!(error.origin(), Some("the command line"));
}

#[test]
fn a_missing_file_and_broken_toml_are_told() {
    let error = load::<Sample>(Some(Path::new("/no/such.toml")), &json!({}))
        .unwrap_err()
        .to_string();
    assert!(error.contains("/no/such.toml"), "{error}");
    let error = refusal("port = 1\nport = = 2", &[]);
    assert!(error.contains("line 2"), "{error}");
}

#[test]
fn a_section_without_its_feature_is_refused_with_the_feature_and_the_origin() {
    read("", &[], json!({})).unwrap();
    read("[extra]", &[], json!({ "extra": { "engine": null } })).unwrap();
    let in_file = read("[extra]\nengine = \"x\"\nlist = [{ a = 1 }]", &[], json!({})).unwrap_err();
    let in_environment = read("", &[("ISOMER_EXTRA__ENGINE", "x")], json!({})).unwrap_err();
    for (error, origin) in [
        (in_file, ".toml"),
        (in_environment, "environment variable ISOMER_EXTRA__ENGINE"),
    ] {
        assert_eq!(error.field(), "extra.engine");
        assert!(error.message().contains("`more`"), "{error}");
        assert!(error.hint().contains("--features more"), "{error}");
        assert!(error.origin().unwrap().contains(origin), "{error}");
    }
}
