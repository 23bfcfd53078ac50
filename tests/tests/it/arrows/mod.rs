//! Dependencies between our crates point one way: `cli → composition → services → extras → crates →
//! proto`. An extra is optional for all that use it.

mod circles;
mod source;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
};

use serde_json::Value;

/// Crates that must not be built into the gateway, because it runs no model and reads no data set.
const NOT_IN_THE_GATEWAY: &[&str] = &[
    "candle-core",
    "tokenizers",
    "parquet",
    "isomer-embed",
    "isomer-transform",
    "isomer-eval",
    "isomer-models",
];

/// Crates that must not be built into these libraries, as ARCHITECTURE.md states for each of them.
const NOT_BUILT_WITH: &[(&str, &[&str])] = &[
    (
        "isomer-scoring",
        &["isomer-datasets", "isomer-models", "isomer-proto", "tokio", "tonic"],
    ),
    (
        "isomer-datasets",
        &["isomer-encoder-client", "isomer-report", "isomer-eval"],
    ),
    ("isomer-report", &["isomer-encoder-client", "isomer-eval"]),
    (
        "isomer-models",
        &["isomer-service-kit", "isomer-proto", "opentelemetry"],
    ),
    ("isomer-database", &["isomer-service-kit", "isomer-proto"]),
];

/// Crates that these libraries must not use themselves, although one of their dependencies may.
const NOT_USED_BY: &[(&str, &[&str])] = &[
    (
        "isomer-datasets",
        &["isomer-proto", "isomer-service-kit", "tokio", "tonic"],
    ),
    (
        "isomer-report",
        &["isomer-models", "isomer-proto", "isomer-service-kit", "tokio", "tonic"],
    ),
];

/// The level of a crate. Crates of one level may depend on each other, and cargo prevents circles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Proto,
    Crates,
    Extras,
    Service(&'static str),
    Composition,
    Cli,
    Tests,
}

impl Level {
    fn of(folder: &str) -> Self {
        match folder.split('/').next().unwrap() {
            "proto" => Self::Proto,
            "all-in-one" => Self::Composition,
            "crates" => Self::Crates,
            "extras" => Self::Extras,
            // The command line is built on the client for users.
            "clients" => Self::Crates,
            "embed-svc" => Self::Service("embed"),
            "transform-svc" => Self::Service("transform"),
            "eval-svc" => Self::Service("eval"),
            "gateway" => Self::Service("gateway"),
            "cli" => Self::Cli,
            "tests" => Self::Tests,
            _ => panic!("{folder} has no level: add it to this test"),
        }
    }

    fn may_use(self, other: Self) -> bool {
        match (self, other) {
            (Self::Service(one), Self::Service(another)) => one == another,
            _ => self >= other,
        }
    }
}

struct Workspace {
    metadata: Value,
    /// Folder of each of our crates by its name.
    folders: BTreeMap<String, String>,
}

impl Workspace {
    fn read() -> Self {
        let root = Path::new("..").canonicalize().unwrap();
        // Packages for other platforms may be missing on this machine.
        let output = Command::new(env!("CARGO"))
            .args([
                "metadata",
                "--format-version",
                "1",
                "--locked",
                "--offline",
                "--filter-platform",
                &host(),
            ])
            .current_dir(&root)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
        let folder = |package: &Value| {
            let manifest = Path::new(package["manifest_path"].as_str().unwrap());
            let folder = manifest.parent().unwrap().strip_prefix(&root).ok()?;
            Some((name(package).to_owned(), folder.to_str().unwrap().to_owned()))
        };
        let folders = list(&metadata, "packages").filter(|package| package["source"].is_null());
        Self {
            folders: folders.filter_map(folder).collect(),
            metadata,
        }
    }

    /// Our crates that a crate depends on, with the entry of its manifest.
    fn arrows(&self) -> impl Iterator<Item = (&str, &str, &Value)> {
        let ours = list(&self.metadata, "packages").filter(|package| self.folders.contains_key(name(package)));
        ours.flat_map(|package| {
            let needed = list(package, "dependencies").filter(|needed| self.folders.contains_key(name(needed)));
            needed.map(|needed| (name(package), name(needed), needed))
        })
    }

    /// Names of all packages that a crate is built with.
    fn closure(&self, of: &str) -> BTreeSet<&str> {
        let packages = list(&self.metadata, "packages");
        let names: BTreeMap<&str, &str> = packages.map(|package| (id(package), name(package))).collect();
        let nodes = list(&self.metadata["resolve"], "nodes");
        let nodes: BTreeMap<&str, &Value> = nodes.map(|node| (id(node), node)).collect();
        let (start, _) = names.iter().find(|(_, name)| **name == of).unwrap();
        let (mut open, mut found) = (vec![*start], BTreeSet::new());
        while let Some(next) = open.pop() {
            if !found.insert(next) {
                continue;
            }
            for needed in list(nodes[next], "deps") {
                if list(needed, "dep_kinds").any(|kind| kind["kind"].is_null()) {
                    open.push(needed["pkg"].as_str().unwrap());
                }
            }
        }
        found.into_iter().map(|id| names[id]).collect()
    }
}

/// The platform that the compiler builds for.
fn host() -> String {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let told = Command::new(rustc).arg("-vV").output().unwrap().stdout;
    let told = String::from_utf8(told).unwrap();
    told.lines()
        .find_map(|line| line.strip_prefix("host: "))
        .unwrap()
        .to_owned()
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().unwrap().iter()
}

fn name(value: &Value) -> &str {
    value["name"].as_str().unwrap()
}

fn id(value: &Value) -> &str {
    value["id"].as_str().unwrap()
}

#[test]
fn arrows_between_crates_point_one_way() {
    let workspace = Workspace::read();
    let (mut wrong, mut followed) = (Vec::new(), 0);
    for (from, to, dependency) in workspace.arrows() {
        // Tests may use any crate.
        if dependency["kind"] == "dev" {
            continue;
        }
        followed += 1;
        let (from_folder, to_folder) = (&workspace.folders[from], &workspace.folders[to]);
        if !Level::of(from_folder).may_use(Level::of(to_folder)) {
            wrong.push(format!("{from_folder} → {to_folder}"));
        }
        let needs_extra = Level::of(to_folder) == Level::Extras && Level::of(from_folder) != Level::Tests;
        if needs_extra && Level::of(from_folder) != Level::Extras && dependency["optional"] == false {
            wrong.push(format!("{from_folder} → {to_folder}, which is not optional"));
        }
    }
    assert!(followed > 50, "the arrows are read: {followed}");
    assert!(wrong.is_empty(), "dependencies that point the wrong way: {wrong:#?}");
}

#[test]
fn an_arrow_between_services_or_upwards_would_be_found() {
    for (from, to) in [
        ("gateway", "embed-svc"),
        ("eval-svc", "transform-svc"),
        ("crates/stats", "eval-svc"),
        ("proto", "crates/usage"),
        ("crates/stats", "extras/fleet"),
        ("extras/index", "eval-svc"),
        ("gateway", "all-in-one"),
        ("all-in-one", "cli"),
    ] {
        assert!(!Level::of(from).may_use(Level::of(to)), "{from} → {to}");
        assert!(Level::of(from).may_use(Level::of(from)), "{from}");
    }
    assert!(Level::of("gateway").may_use(Level::of("gateway/access")));
    assert!(Level::of("cli").may_use(Level::of("proto")));
}

#[test]
fn the_gateway_is_built_without_models_and_data_sets() {
    let workspace = Workspace::read();
    let built = workspace.closure("isomer-gateway");
    let wrong: Vec<_> = NOT_IN_THE_GATEWAY.iter().filter(|name| built.contains(*name)).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    // The same traversal finds these crates where they are used.
    let built = workspace.closure("isomer-all-in-one");
    assert!(NOT_IN_THE_GATEWAY.iter().all(|name| built.contains(name)));
}

#[test]
fn the_libraries_of_the_evaluation_do_not_know_what_they_must_not() {
    let workspace = Workspace::read();
    for (of, names) in NOT_BUILT_WITH {
        let built = workspace.closure(of);
        let wrong: Vec<_> = names.iter().filter(|name| built.contains(*name)).collect();
        assert!(wrong.is_empty(), "{of}: {wrong:?}");
    }
    for (of, names) in NOT_USED_BY {
        let package = list(&workspace.metadata, "packages")
            .find(|package| name(package) == *of)
            .unwrap();
        let used: BTreeSet<&str> = list(package, "dependencies").map(name).collect();
        assert!(used.contains("isomer-scoring"), "the dependencies are read: {used:?}");
        let wrong: Vec<_> = names.iter().filter(|name| used.contains(*name)).collect();
        assert!(wrong.is_empty(), "{of}: {wrong:?}");
    }
    // The same traversal finds these crates where they are used.
    let built = workspace.closure("isomer-eval");
    let all = NOT_BUILT_WITH.iter().flat_map(|(_, names)| names.iter());
    assert!(
        all.clone().all(|name| built.contains(name)),
        "{:?}",
        all.collect::<Vec<_>>()
    );
}

/// Packages that `cargo tree` lists for a build of one crate by itself, each as `NAME vVERSION`.
fn tree(of: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--locked",
            "--offline",
            "-p",
            of,
            "-e",
            "normal,build",
            "--prefix",
            "none",
        ])
        .current_dir("..")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    lines
        .lines()
        .map(|line| line.trim_end_matches(" (*)").to_owned())
        .collect()
}

/// The number of packages decides how long a new user waits for the first build.
#[test]
fn a_crate_by_itself_is_built_from_few_packages() {
    for (of, maximum) in [("isomer", 460), ("isomer-report", 150)] {
        let built = tree(of);
        assert!(built.len() > maximum / 2, "the tree is read: {of}: {built:#?}");
        assert!(
            built.len() <= maximum,
            "{of}: {} packages, at most {maximum}",
            built.len()
        );
    }
    // Features of other members do not count here, unlike in the metadata of the workspace.
    let report = tree("isomer-report");
    for network in ["tokio", "tonic", "hyper", "reqwest"] {
        let found = report.iter().find(|line| line.split(' ').next() == Some(network));
        assert_eq!(found, None);
    }
}

#[test]
fn the_list_of_crates_is_whole() {
    let text = include_str!("../../../../crates/README.md");
    let workspace = Workspace::read();
    for (name, folder) in &workspace.folders {
        let row = format!("| `{folder}/` | `{name}` | ");
        assert!(text.contains(&row), "crates/README.md has no row `{row}…`");
    }
}
