//! Levels of optimisation. A user may choose any profile, or set the level of a whole profile
//! (`CARGO_PROFILE_RELEASE_OPT_LEVEL=2`); crates with inner loops keep level 3, because at level 2
//! the encoder is 2.7 times slower.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use toml::{Table, Value};

/// Crates that compute, in addition to those that [`vectorised`] finds.
const COMPUTE: [&str; 4] = ["isomer-embed", "isomer-scoring", "isomer-stats", "isomer-tagger"];
/// Of these, crates whose tests are fast enough without it; they are compiled sooner.
const NOT_IN_DEV: [&str; 2] = ["isomer-embed", "isomer-scoring"];

fn root() -> PathBuf {
    Path::new(".").join("..")
}

fn manifest(folder: &Path) -> Table {
    fs::read_to_string(folder.join("Cargo.toml")).unwrap().parse().unwrap()
}

/// Folders of our crates by their names.
fn members() -> BTreeMap<String, PathBuf> {
    let workspace = manifest(&root());
    let folders = workspace["workspace"]["members"].as_array().unwrap();
    let member = |folder: &Value| {
        let folder = root().join(folder.as_str().unwrap());
        let name = manifest(&folder)["package"]["name"].as_str().unwrap().to_owned();
        (name, folder)
    };
    folders.iter().map(member).collect()
}

/// Whether sources below a folder name instructions of the CPU.
fn vectorised(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else {
        return false;
    };
    entries.map(|entry| entry.unwrap().path()).any(|path| {
        let is_source = path.extension().is_some_and(|extension| extension == "rs");
        vectorised(&path) || is_source && fs::read_to_string(&path).unwrap().contains("target_feature(")
    })
}

fn profiles() -> Table {
    manifest(&root())["profile"].as_table().unwrap().clone()
}

/// The profile whose settings apply if `name` has none.
fn parent(profiles: &Table, name: &str) -> Option<String> {
    let inherits = profiles.get(name).and_then(|profile| profile.get("inherits"));
    match (inherits, name) {
        (Some(parent), _) => Some(parent.as_str().unwrap().to_owned()),
        (None, "test") => Some("dev".to_owned()),
        (None, "bench") => Some("release".to_owned()),
        (None, _) => None,
    }
}

/// The level that a profile, or one that it inherits from, sets for this package alone.
fn level(profiles: &Table, profile: &str, package: &str) -> Option<Value> {
    let own = profiles
        .get(profile)
        .and_then(|settings| settings.get("package")?.get(package)?.get("opt-level"));
    match own {
        Some(level) => Some(level.clone()),
        None => level(profiles, &parent(profiles, profile)?, package),
    }
}

#[test]
fn crates_with_inner_loops_keep_level_3_in_every_profile() {
    let members = members();
    let vectorised = members.iter().filter(|(_, folder)| vectorised(&folder.join("src")));
    let found: BTreeSet<&str> = vectorised.map(|(name, _)| name.as_str()).collect();
    assert!(found.contains("isomer-kernels"), "{found:?}");
    let profiles = profiles();
    let names: BTreeSet<&str> = profiles
        .keys()
        .map(String::as_str)
        .chain(["dev", "release", "test", "bench"])
        .collect();
    for profile in names {
        let chain = std::iter::successors(Some(profile.to_owned()), |name| parent(&profiles, name));
        let for_tests = chain.last().as_deref() == Some("dev");
        for package in found.iter().copied().chain(COMPUTE) {
            if for_tests && NOT_IN_DEV.contains(&package) {
                continue;
            }
            assert_eq!(
                level(&profiles, profile, package),
                Some(Value::Integer(3)),
                "profile {profile}: add [profile.{profile}.package.{package}] with opt-level = 3, or inherit it"
            );
        }
    }
}

#[test]
fn overrides_name_crates_that_exist() {
    let members = members();
    for (profile, settings) in &profiles() {
        let overrides = settings.get("package").and_then(Value::as_table);
        for name in overrides.into_iter().flat_map(Table::keys) {
            let ours = name.starts_with("isomer");
            assert!(
                !ours || members.contains_key(name),
                "profile {profile}: {name} is not a crate of this workspace"
            );
        }
    }
    for name in COMPUTE {
        assert!(members.contains_key(name), "{name}");
    }
}

/// Cargo forgets the profile's `strip` for a package with an override of its own.
#[test]
fn programs_of_packages_with_a_level_of_their_own_are_stripped() {
    let release = &profiles()["release"];
    assert_eq!(release["strip"].as_str(), Some("symbols"));
    let own = release["package"].as_table().unwrap();
    let mut programs = 0;
    for (name, folder) in members().iter().filter(|(name, _)| own.contains_key(*name)) {
        let has_program = folder.join("src/main.rs").exists() || manifest(folder).contains_key("bin");
        if has_program {
            programs += 1;
            let script = fs::read_to_string(folder.join("build.rs")).unwrap_or_default();
            assert!(script.contains("--strip-all"), "{name}");
        }
    }
    assert!(programs >= 2, "{programs}");
}
