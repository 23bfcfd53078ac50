//! Circles inside a crate: modules, or files, that use each other.
//!
//! `circles.txt` lists the known circles, each with its reason. A circle that is not listed fails
//! the test, and so does a listed one that no longer exists: the list can only become shorter.
//!
//! [`ORDERS`] lists modules that form a pipeline: none uses a later one.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use super::{
    Workspace,
    source::{Source, Use},
};

const LISTED: &str = include_str!("circles.txt");

/// Modules in the order in which data passes through them. A module uses no later one.
struct Order {
    folder: &'static str,
    parent: &'static str,
    modules: &'static [&'static str],
}

const ORDERS: &[Order] = &[Order {
    folder: "eval-svc",
    parent: "run",
    modules: &[
        "plan",
        "transform",
        "encode",
        "score",
        "separate",
        "judge",
        "decide",
        "report",
        "lifecycle",
    ],
}];

impl Order {
    /// Position of the module of a file; `None` if the file is in none of them.
    fn position(&self, file: &str) -> Option<usize> {
        let path = file.strip_prefix(self.parent)?.strip_prefix('/')?;
        let name = path.split('/').next()?.trim_end_matches(".rs");
        self.modules.iter().position(|module| *module == name)
    }

    /// The uses of a later module.
    fn upward<'a>(&'a self, uses: &'a BTreeSet<Use>) -> impl Iterator<Item = &'a Use> {
        let upward = |one: &&Use| self.position(&one.from) < self.position(&one.to);
        uses.iter()
            .filter(|one| self.position(&one.from).is_some())
            .filter(upward)
    }
}

type Arrows = BTreeMap<String, BTreeSet<String>>;

/// All names reachable from a name; the name itself only through another one.
fn reached(arrows: &Arrows, from: &str) -> BTreeSet<String> {
    let mut open = vec![from.to_owned()];
    let mut found = BTreeSet::new();
    while let Some(next) = open.pop() {
        for to in arrows.get(&next).into_iter().flatten() {
            if found.insert(to.clone()) {
                open.push(to.clone());
            }
        }
    }
    found
}

/// The maximal sets of names that are mutually reachable.
fn circles(arrows: &Arrows) -> BTreeSet<Vec<String>> {
    let reach: BTreeMap<&String, BTreeSet<String>> = arrows.keys().map(|from| (from, reached(arrows, from))).collect();
    let mut all = BTreeSet::new();
    for (from, own) in &reach {
        if own.contains(*from) {
            let back = |to: &&String| reach.get(to).is_some_and(|theirs| theirs.contains(*from));
            all.insert(own.iter().filter(back).cloned().collect());
        }
    }
    all
}

fn arrows(uses: &BTreeSet<Use>, of: impl Fn(&Use) -> (String, String)) -> Arrows {
    let mut arrows = Arrows::new();
    for (from, to) in uses.iter().map(of).filter(|(from, to)| from != to) {
        arrows.entry(from).or_default().insert(to);
    }
    arrows
}

fn between_modules(uses: &BTreeSet<Use>) -> BTreeSet<Vec<String>> {
    circles(&arrows(uses, |one| one.modules.clone()))
}

/// Circles between files, excluding those whose modules already form the same circle.
fn between_files(uses: &BTreeSet<Use>) -> BTreeSet<Vec<String>> {
    let mut top = BTreeMap::new();
    for one in uses {
        top.insert(&one.from, &one.modules.0);
        top.insert(&one.to, &one.modules.1);
    }
    let modules = between_modules(uses);
    let mut all = circles(&arrows(uses, |one| (one.from.clone(), one.to.clone())));
    all.retain(|files| {
        let mut own: Vec<String> = files.iter().map(|file| top[file].clone()).collect();
        own.sort();
        !modules.contains(&own)
    });
    all
}

/// The root file of the crate in a folder.
fn root(folder: &Path) -> Option<PathBuf> {
    let files = ["src/lib.rs", "src/main.rs"].map(|file| folder.join(file));
    files.into_iter().find(|file| file.is_file())
}

/// Every circle in the form of the list, with the uses that close it.
fn found() -> BTreeMap<String, Vec<String>> {
    let top = Path::new(".").join("..");
    let mut all = BTreeMap::new();
    for folder in Workspace::read().folders.values() {
        let Some(root) = root(&top.join(folder)) else {
            continue;
        };
        let uses = Source::read(&root).uses();
        for (kind, circles) in [("modules", between_modules(&uses)), ("files", between_files(&uses))] {
            for circle in circles {
                let ends = |one: &Use| match kind {
                    "modules" => [one.modules.0.clone(), one.modules.1.clone()],
                    _ => [one.from.clone(), one.to.clone()],
                };
                let inside =
                    |one: &&Use| ends(one).iter().all(|end| circle.contains(end)) && ends(one)[0] != ends(one)[1];
                let shown = |one: &Use| format!("    {} → {}: {}", one.from, one.to, one.path);
                let uses = uses.iter().filter(inside).map(shown).collect();
                all.insert(format!("{folder} | {kind} | {}", circle.join(", ")), uses);
            }
        }
    }
    all
}

#[test]
fn every_circle_inside_a_crate_is_listed_with_its_reason_and_every_listed_one_is_there() {
    let mut listed = BTreeSet::new();
    for line in LISTED.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (circle, reason) = line.rsplit_once(" | ").unwrap();
        assert_eq!(
            circle.split(" | ").count(),
            3,
            "`CRATE | KIND | MEMBERS | REASON` is expected: {line}"
        );
        assert!(reason.len() > 10, "has no reason: {line}");
        assert!(listed.insert(circle.to_owned()), "listed twice: {line}");
    }
    let found = found();
    let new = found.iter().filter(|(circle, _)| !listed.contains(*circle));
    let new: Vec<String> = new
        .map(|(circle, uses)| format!("{circle}\n{}", uses.join("\n")))
        .collect();
    let gone: Vec<&String> = listed.iter().filter(|circle| !found.contains_key(*circle)).collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "new circles; break them (move what both sides need to a module of its own):\n{}\n\n\
         no longer circles; remove them from tests/tests/it/arrows/circles.txt: {gone:#?}",
        new.join("\n")
    );
}

#[test]
fn no_stage_uses_a_later_one() {
    for order in ORDERS {
        let folder = Path::new(".").join("..").join(order.folder);
        let uses = Source::read(&root(&folder).unwrap()).uses();
        for (position, module) in order.modules.iter().enumerate() {
            let is_own = |one: &Use| order.position(&one.from) == Some(position);
            assert!(
                uses.iter().any(is_own),
                "{} has no {}/{module}",
                order.folder,
                order.parent
            );
        }
        let upward = order.upward(&uses);
        let upward: Vec<String> = upward
            .map(|one| format!("{} → {}: {}", one.from, one.to, one.path))
            .collect();
        assert!(
            upward.is_empty(),
            "{}: a stage uses a later one; return it as a result, or move it to the earlier stage:\n{}",
            order.folder,
            upward.join("\n")
        );
    }
}

#[test]
fn a_use_of_a_later_module_is_upward_and_one_of_an_earlier_or_unlisted_module_is_not() {
    let order = Order {
        folder: "",
        parent: "run",
        modules: &["first", "second"],
    };
    let uses = uses_of(&[
        ("lib.rs", "mod run; mod other;"),
        ("other.rs", "pub struct Other;"),
        ("run/mod.rs", "mod first; mod second; mod third;"),
        (
            "run/first/mod.rs",
            "mod part; pub struct First; use crate::other::Other;",
        ),
        ("run/first/part.rs", "use crate::run::{second::Second, third::Third};"),
        ("run/second.rs", "pub struct Second; use super::first::First;"),
        ("run/third.rs", "pub struct Third;"),
    ]);
    let upward: Vec<(&str, &str)> = order
        .upward(&uses)
        .map(|one| (one.from.as_str(), one.to.as_str()))
        .collect();
    assert_eq!(upward, [("run/first/part.rs", "run/second.rs")]);
}

/// The uses in a crate of these files.
fn uses_of(files: &[(&str, &str)]) -> BTreeSet<Use> {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join("src").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    Source::read(&root(folder.path()).unwrap()).uses()
}

fn names(circles: &BTreeSet<Vec<String>>) -> Vec<String> {
    circles.iter().map(|circle| circle.join(" ")).collect()
}

#[test]
fn two_modules_that_need_each_other_are_a_circle_and_one_that_needs_another_is_none() {
    let root = ("lib.rs", "mod a;\nmod b;\npub mod c;");
    let one_way = uses_of(&[
        root,
        ("a.rs", "use crate::b::B;"),
        ("b.rs", "pub struct B;"),
        ("c/mod.rs", "use crate::{a, b};"),
    ]);
    assert_eq!(names(&between_modules(&one_way)), [""; 0]);
    assert_eq!(one_way.len(), 3, "{one_way:?}");
    // A circle back through a path in a macro, over a third module.
    let round = uses_of(&[
        root,
        ("a.rs", "use crate::b::B;"),
        ("b.rs", "fn f() { println!(\"{}\", crate::c::d::SOME) }"),
        ("c/mod.rs", "pub mod d;"),
        ("c/d.rs", "pub const SOME: u8 = 1; fn g() -> super::super::a::A {}"),
    ]);
    assert_eq!(names(&between_modules(&round)), ["a b c"]);
    assert_eq!(
        names(&between_files(&round)),
        [""; 0],
        "the same circle is reported once"
    );
    // Two files of one module.
    let inside = uses_of(&[
        ("lib.rs", "mod c;"),
        ("c/mod.rs", "mod d;\nmod e;"),
        ("c/d.rs", "pub struct D; use super::e::E;"),
        ("c/e.rs", "pub struct E; use crate::c::d::D;"),
    ]);
    assert_eq!(names(&between_modules(&inside)), [""; 0]);
    assert_eq!(names(&between_files(&inside)), ["c/d.rs c/e.rs"]);
}

#[test]
fn a_name_that_is_passed_on_leads_to_the_file_that_has_it() {
    let made = |seen: &str| {
        uses_of(&[
            ("lib.rs", "mod room;"),
            (
                "room/mod.rs",
                "mod first;\nmod second;\npub use second::Second as Renamed;\npub use second::*;",
            ),
            ("room/first.rs", seen),
            (
                "room/second.rs",
                "pub struct Second; pub struct Third; use super::first::First;",
            ),
        ])
    };
    for seen in [
        "use super::Renamed;",
        "use super::{Third};",
        "fn f(_: crate::room::Renamed) {}",
    ] {
        assert_eq!(
            names(&between_files(&made(seen))),
            ["room/first.rs room/second.rs"],
            "{seen}"
        );
    }
    // A module and its child modules count as one.
    for seen in [
        "use super::Fourth;",
        "use std::fmt::Debug;",
        "use super::{first::First};",
    ] {
        assert_eq!(names(&between_files(&made(seen))), [""; 0], "{seen}");
    }
}

#[test]
fn what_is_for_tests_only_closes_no_circle() {
    let made = |test: &str| {
        let a = format!("pub struct A; {test} fn helper() {{ crate::b::B; }}");
        let a = format!("{a} {test} mod tests {{ use crate::b::B; }}");
        uses_of(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", &a),
            ("b.rs", "pub struct B; use crate::a::A;"),
        ])
    };
    assert_eq!(names(&between_modules(&made("#[cfg(test)]"))), [""; 0]);
    assert_eq!(names(&between_modules(&made("#[allow(missing_docs)]"))), ["a b"]);
}
