//! Accuracy of the meaning guards on rewrites labelled by hand before the guards were written
//! (`tests/fixtures/guards/README.md`).
//!
//! `cargo test -p isomer-transform --test it guards:: -- --nocapture` prints the table of
//! docs/reference/guards.md, and the pairs of the development half that a guard gets wrong.

use isomer_proto::ProtoEnum;
use std::collections::BTreeMap;

use isomer_transform::{
    guards::{self, Guard},
    language::Language,
};
use isomer_transformations::declaration;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::language_data::published;

#[derive(Deserialize)]
struct Rewrite {
    id: String,
    transformation: String,
    language: String,
    target: Option<String>,
    original: String,
    rewrite: String,
    labels: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Half {
    Development,
    HeldOut,
}

impl Rewrite {
    fn half(&self) -> Half {
        match Sha256::digest(self.id.as_bytes())[0] % 2 {
            0 => Half::Development,
            _ => Half::HeldOut,
        }
    }

    fn guarded(&self) -> guards::GuardFindings {
        let kind = declaration(&self.transformation).unwrap();
        let source = Language::parse(&self.language).unwrap();
        let target = self
            .target
            .as_deref()
            .map_or(source, |tag| Language::parse(tag).unwrap());
        guards::run(kind, &self.original, &self.rewrite, Some(source), Some(target))
    }
}

/// Findings against labels.
#[derive(Default, Clone, Copy)]
struct Tally {
    right: u32,
    alarms: u32,
    violations: u32,
    untold: u32,
}

impl Tally {
    fn precision(self) -> f64 {
        f64::from(self.right) / f64::from(self.alarms.max(1))
    }

    fn recall(self) -> f64 {
        f64::from(self.right) / f64::from(self.violations.max(1))
    }
}

fn rewrites() -> Vec<Rewrite> {
    include_str!("../fixtures/guards/rewrites.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn tallies() -> BTreeMap<(Half, Guard), Tally> {
    let mut tallies: BTreeMap<(Half, Guard), Tally> = BTreeMap::new();
    for one in rewrites() {
        let guarded = one.guarded();
        for guard in Guard::all() {
            let tally = tallies.entry((one.half(), guard)).or_default();
            let (fired, broken) = (
                guarded.fired.contains(&guard),
                one.labels.iter().any(|label| label == guard.name()),
            );
            tally.alarms += u32::from(fired);
            tally.violations += u32::from(broken);
            tally.right += u32::from(fired && broken);
            tally.untold += u32::from(guarded.unknown.contains(&guard));
            if fired != broken && one.half() == Half::Development {
                let what = if fired { "false alarm" } else { "missed" };
                println!("{} {} {what}: {} / {}", one.id, guard.name(), one.original, one.rewrite);
            }
        }
    }
    tallies
}

#[test]
fn guards_are_right_as_often_as_the_readme_says() {
    let tallies = tallies();
    println!("| guard | half | violations | alarms | right | precision | recall | cannot tell |");
    for ((half, guard), tally) in &tallies {
        println!(
            "| {} | {half:?} | {} | {} | {} | {:.2} | {:.2} | {} |",
            guard.name(),
            tally.violations,
            tally.alarms,
            tally.right,
            tally.precision(),
            tally.recall(),
            tally.untold
        );
    }
    let least = [
        (Guard::Numbers, 0.9, 0.9),
        (Guard::Negation, 0.8, 0.7),
        (Guard::Names, 0.9, 0.9),
    ];
    assert!(
        Guard::all().eq(least.map(|(guard, ..)| guard)),
        "every guard has its figures"
    );
    for (guard, precision, recall) in least {
        let tally = tallies[&(Half::HeldOut, guard)];
        assert!(tally.violations > 0, "no labelled rewrite violates {}", guard.name());
        assert!(
            tally.precision() >= precision,
            "{} precision {}",
            guard.name(),
            tally.precision()
        );
        assert!(tally.recall() >= recall, "{} recall {}", guard.name(), tally.recall());
    }
}

/// Rewrites from another source: PAWS-X pairs that people call paraphrases, so that nearly every
/// alarm is a false one.
#[test]
fn paraphrases_by_people_seldom_raise_an_alarm() {
    for (language, most) in [
        ("en", [0.02, 0.04, 0.05]),
        ("de", [0.03, 0.09, 0.02]),
        ("fr", [0.04, 0.07, 0.08]),
        ("es", [0.04, 0.08, 0.11]),
    ] {
        let rows = published(&format!("PawsXPairClassification/validation.{language}.jsonl"));
        let code = Language::parse(language);
        let (mut pairs, mut fired, mut untold) = (0_u32, [0_u32; 3], [0_u32; 3]);
        for row in rows.iter().filter(|row| row["label"] == 1) {
            let (original, rewrite) = (row["sentence1"].as_str().unwrap(), row["sentence2"].as_str().unwrap());
            let guarded = guards::run(declaration("paraphrase").unwrap(), original, rewrite, code, code);
            pairs += 1;
            for (place, guard) in Guard::all().enumerate() {
                fired[place] += u32::from(guarded.fired.contains(&guard));
                untold[place] += u32::from(guarded.unknown.contains(&guard));
            }
        }
        for (place, guard) in Guard::all().enumerate() {
            let share = f64::from(fired[place]) / f64::from(pairs);
            println!(
                "{language}: {pairs} pairs, {} {:.1} %, cannot tell {}",
                guard.name(),
                share * 100.0,
                untold[place]
            );
            assert!(share <= most[place], "{language} {}: {share}", guard.name());
        }
    }
}

#[test]
fn the_labelled_rewrites_are_enough_of_each_kind() {
    let rewrites = rewrites();
    assert!(rewrites.len() >= 200);
    for guard in Guard::all() {
        let of_kind = rewrites
            .iter()
            .filter(|one| one.labels.iter().any(|label| label == guard.name()));
        assert!(of_kind.count() >= 25, "{}", guard.name());
    }
    assert!(rewrites.iter().filter(|one| one.labels.is_empty()).count() >= 100);
}
