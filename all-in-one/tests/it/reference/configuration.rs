//! `configuration.md`: the keys are the fields of the configuration structs, their descriptions are
//! the fields' documentation, and their defaults are serialised from the structs' `Default`.

use std::{collections::BTreeMap, fmt::Write, fs, path::Path};

use isomer_access::JwtConfig;
use isomer_all_in_one::IsomerConfig;
use isomer_gateway::{
    AugmentedModelConfig,
    config::{GatewayConfig, ServersConfig},
};
use isomer_transform::config::GeneratorConfig;
use serde_json::Value;

use super::{cell, compare, head, workspace};

const FOLDERS: &[&str] = &[
    "all-in-one/src",
    "crates/blobs/src",
    "extras/fleet/src",
    "crates/models/src",
    "crates/outbound/src",
    "crates/service-kit/src",
    "embed-svc/src",
    "eval-svc/src",
    "gateway/access/src",
    "gateway/registry/src",
    "gateway/src",
    "transform-svc/src",
];
const INTRODUCTION: &str = "
A TOML file (`--config`, `ISOMER_CONFIG`) holds the keys below, each in the table that its heading names. A variable overrides
the file, and a flag overrides the variable: `ISOMER_EMBED__THREADS=4` is `threads = 4` in `[embed]`. An unknown key is an error.

`isomer serve` and all other commands read the tables of the first part. The servers of single services
(`isomer-embed-svc`, `isomer-transform-svc`, `isomer-eval-svc`, `isomer-gateway`) read those that the last part lists.
";
/// Keys whose default depends on the machine or its environment.
const OF_THE_MACHINE: &[(&str, &str)] = &[
    ("models.home", "`isomer` in the user's cache folder"),
    ("models.catalogue", "none"),
    ("models.offline", "`false`"),
    ("models.hub_endpoint", "none"),
    ("models.hub_cache", "none"),
    ("models.python", "none"),
    ("eval.home", "`isomer` in the user's cache folder"),
];

struct Field {
    key: String,
    kind: String,
    meaning: String,
}

/// Configuration structs by name, those of services (`ServeConfig`) by the folder of their crate.
type Structs = BTreeMap<String, Vec<Field>>;

fn files(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Structs that refuse unknown fields: those of the configuration and of some files.
fn structs() -> Structs {
    let mut found = Structs::new();
    for folder in FOLDERS {
        let mut paths = Vec::new();
        files(&workspace().join(folder), &mut paths);
        for path in paths {
            for (name, fields) in parse(&fs::read_to_string(path).unwrap()) {
                let name = if name == "ServeConfig" {
                    format!("{folder} {name}")
                } else {
                    name
                };
                found.insert(name, fields);
            }
        }
    }
    found
}

fn parse(source: &str) -> Vec<(String, Vec<Field>)> {
    let mut found = Vec::new();
    let (mut strict, mut open, mut meaning) = (false, None::<(String, Vec<Field>)>, String::new());
    let mut skipped = false;
    for line in source.lines() {
        if let Some((_, fields)) = &mut open {
            let line = line.trim();
            if line == "}" {
                found.extend(open.take());
            } else if let Some(text) = line.strip_prefix("///") {
                meaning += text;
            } else if line == "#[serde(skip)]" {
                skipped = true;
            } else if let Some((key, kind)) = line.strip_prefix("pub ").and_then(|line| line.split_once(": ")) {
                let field = Field {
                    key: key.to_owned(),
                    kind: kind.trim_end_matches(',').to_owned(),
                    meaning: std::mem::take(&mut meaning),
                };
                if !std::mem::take(&mut skipped) {
                    fields.push(field);
                }
            }
        } else if line.starts_with("#[serde(") {
            strict = line.contains("deny_unknown_fields");
        } else if let Some(name) = line
            .strip_prefix("pub struct ")
            .and_then(|line| line.strip_suffix(" {"))
            && std::mem::take(&mut strict)
        {
            open = Some((name.to_owned(), Vec::new()));
            meaning.clear();
        }
    }
    found
}

/// Defaults of tables that are absent by default or have user-defined names.
fn defaults(kind: &str) -> Value {
    match kind {
        "AugmentedModelConfig" => serde_json::to_value(AugmentedModelConfig::default()).unwrap(),
        "GeneratorConfig" => serde_json::to_value(GeneratorConfig::default()).unwrap(),
        "JwtConfig" => serde_json::to_value(JwtConfig::default()).unwrap(),
        "ServersConfig" => serde_json::to_value(ServersConfig::default()).unwrap(),
        _ => Value::Null,
    }
}

fn default(path: &str, value: Option<&Value>) -> String {
    if let Some((_, text)) = OF_THE_MACHINE.iter().find(|(key, _)| *key == path) {
        return (*text).to_owned();
    }
    match value {
        None | Some(Value::Null) => "none".into(),
        Some(value) => {
            let value = value.to_string();
            let home = std::env::var("HOME").unwrap_or_default();
            let of_the_machine = home.len() > 1 && value.contains(&home);
            assert!(!of_the_machine, "{path} = {value}: name its default in OF_THE_MACHINE");
            format!("`{}`", cell(&value))
        }
    }
}

/// The struct in a type, and the name of its table below its parent.
fn table_of<'a>(structs: &Structs, kind: &'a str) -> Option<(&'a str, bool)> {
    let inner = kind
        .strip_prefix("Option<")
        .and_then(|kind| kind.strip_suffix('>'))
        .unwrap_or(kind);
    let in_map = inner
        .strip_prefix("BTreeMap<String, ")
        .and_then(|kind| kind.strip_suffix('>'));
    let name = in_map.unwrap_or(inner);
    structs.contains_key(name).then_some((name, in_map.is_some()))
}

fn table(out: &mut String, structs: &Structs, name: &str, path: &str, values: &Value) {
    let (tables, keys): (Vec<_>, Vec<_>) = structs[name]
        .iter()
        .partition(|field| table_of(structs, &field.kind).is_some());
    let below = |key: &str| {
        if path.is_empty() {
            key.to_owned()
        } else {
            format!("{path}.{key}")
        }
    };
    if !keys.is_empty() {
        let title = if path.is_empty() {
            "Outside of tables".to_owned()
        } else {
            format!("[{path}]")
        };
        write!(
            out,
            "\n### {title}\n\n| key | variable | default | meaning |\n|---|---|---|---|\n"
        )
        .unwrap();
    }
    for field in keys {
        let path = below(&field.key);
        let variable = match path.contains("NAME") {
            true => String::new(),
            false => format!("`ISOMER_{}`", path.to_uppercase().replace('.', "__")),
        };
        let (key, default, meaning) = (&field.key, default(&path, values.get(&field.key)), cell(&field.meaning));
        assert!(!meaning.is_empty(), "{path} says nothing of its meaning");
        writeln!(out, "| `{key}` | {variable} | {default} | {meaning} |").unwrap();
    }
    for field in tables {
        let (name, in_map) = table_of(structs, &field.kind).unwrap();
        let path = below(&field.key) + if in_map { ".NAME" } else { "" };
        let given = values
            .get(&field.key)
            .filter(|value| !in_map && !value.is_null())
            .cloned();
        table(out, structs, name, &path, &given.unwrap_or_else(|| defaults(name)));
    }
}

/// The tables that a single-service server reads.
fn tables_of(structs: &Structs, name: &str) -> String {
    let tables = structs[name].iter().map(|field| match table_of(structs, &field.kind) {
        Some(_) => format!("`[{}]`", field.key),
        None => format!("`{}`", field.key),
    });
    tables.collect::<Vec<_>>().join(", ")
}

#[test]
fn the_page_of_configuration_is_up_to_date() {
    let structs = structs();
    let mut page = head("Configuration") + INTRODUCTION + "\n## Keys\n";
    table(
        &mut page,
        &structs,
        "IsomerConfig",
        "",
        &serde_json::to_value(IsomerConfig::default()).unwrap(),
    );
    page += "\n## Servers of single services\n\nTables of the same name have the same keys as above.\n\n| server | reads |\n|---|---|\n";
    for (server, name) in [
        ("isomer-embed-svc", "embed-svc/src ServeConfig"),
        ("isomer-transform-svc", "transform-svc/src ServeConfig"),
        ("isomer-eval-svc", "eval-svc/src ServeConfig"),
        ("isomer-gateway", "GatewayConfig"),
    ] {
        writeln!(page, "| `{server}` | {} |", tables_of(&structs, name)).unwrap();
    }
    page += "\nIn `[encoder]` and `[transform]` of `isomer-eval-svc`, `[encoder]` of `isomer-transform-svc`, and `[embed]`, `[transform]`\n\
             and `[eval]` of `isomer-gateway`, NAME is the table's name:\n";
    table(&mut page, &structs, "ServersConfig", "NAME", &defaults("ServersConfig"));
    page += "\n`addresses` is understood by `isomer-gateway` only.\n";
    compare("configuration.md", &page);
}

/// Every default's key is a documented field. The reverse needs no check, because fields are keys.
#[test]
fn every_key_that_is_read_is_documented() {
    fn hold(structs: &Structs, name: &str, value: &Value, checked: &mut usize) {
        let fields = &structs[name];
        for (key, value) in value.as_object().unwrap() {
            let field = fields.iter().find(|field| field.key == *key);
            let field = field.unwrap_or_else(|| panic!("{name} serialises `{key}`, which the page does not have"));
            *checked += 1;
            if let (Some((name, false)), Value::Object(_)) = (table_of(structs, &field.kind), value) {
                hold(structs, name, value, checked);
            }
        }
    }
    let (structs, mut checked) = (structs(), 0);
    hold(
        &structs,
        "IsomerConfig",
        &serde_json::to_value(IsomerConfig::default()).unwrap(),
        &mut checked,
    );
    hold(
        &structs,
        "GatewayConfig",
        &serde_json::to_value(GatewayConfig::default()).unwrap(),
        &mut checked,
    );
    hold(&structs, "GeneratorConfig", &defaults("GeneratorConfig"), &mut checked);
    hold(&structs, "JwtConfig", &defaults("JwtConfig"), &mut checked);
    assert!(checked > 100, "{checked}");
}
