#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use super::*;
use crate::{
    dataset::catalogue,
    gate::{Rule, RuleKind, ValidityLimit},
    judging::Scale,
};

const GOOD: &str = r#"name = "nightly"
seeds = [1, 2]
transformations = ["paraphrase", { name = "translation", target_language = "pt-BR" }]
temperature = 0.7

[[dataset]]
task = "sts"
path = "data/sts"
limit = 200
"#;

fn parse(text: &str) -> Result<Suite, SuiteError> {
    Suite::parse(text, "nightly.toml", Some(Path::new("/suites")))
}

/// The error after a change to the valid suite.
fn broken(from: &str, to: &str) -> SuiteError {
    assert!(GOOD.contains(from));
    parse(&GOOD.replace(from, to)).unwrap_err()
}

/// The message of that error.
fn complaint(from: &str, to: &str) -> String {
    broken(from, to).to_string()
}

/// Kind, field and nearest name of an error: `UnknownField gate.undecide undecided`.
fn key(error: &SuiteError) -> String {
    match error {
        SuiteError::Syntax { .. } => "Syntax".to_owned(),
        SuiteError::UnknownField { field, nearest, .. } => {
            format!("UnknownField {field} {}", nearest.as_deref().unwrap_or("-"))
        }
        SuiteError::UnknownName { field, nearest, .. } => {
            format!("UnknownName {field} {}", nearest.as_deref().unwrap_or("-"))
        }
        SuiteError::Invalid { field, .. } => format!("Invalid {field}"),
        SuiteError::NoSuchSuite { nearest, .. } => format!("NoSuchSuite {}", nearest.as_deref().unwrap_or("-")),
    }
}

/// Asserts kind and field of an error, and a part of its message: a number, a name or a key.
#[track_caller]
fn refused(error: &SuiteError, expected: &str, part: &str) {
    assert_eq!(key(error), expected, "{error}");
    assert!(error.to_string().contains(part), "{part}: {error}");
}

#[test]
fn a_good_suite_is_read_with_its_defaults_and_paths_relative_to_the_file() {
    let suite = parse(GOOD).unwrap();
    assert_eq!(suite.seeds, [1, 2]);
    assert_eq!(suite.transformations[1].label(), "translation(pt-BR)");
    assert_eq!(
        (suite.attempts, suite.on_failure, suite.top_p),
        (3, OnFailure::KeepOriginal, 1.0)
    );
    assert_eq!(suite.datasets[0].source, DatasetSource::Path("/suites/data/sts".into()));
    assert_eq!(
        (suite.datasets[0].limit, suite.datasets[0].split.as_deref()),
        (Some(200), None)
    );
    assert_eq!(suite.datasets[0].origin, "nightly.toml:6");
}

#[test]
fn the_suites_that_ship_are_valid() {
    for (name, _) in BUILTIN {
        assert_eq!(Suite::builtin(name).unwrap().name, name);
    }
}

#[test]
fn the_example_is_valid() {
    let text = std::fs::read_to_string("../examples/suite.toml").unwrap();
    let suite = Suite::parse(&text, "suite.toml", None).unwrap();
    assert_eq!((suite.name.as_str(), suite.gate.rules.len()), ("example", 1));
}

#[test]
fn an_unknown_suite_is_refused_with_the_nearest() {
    assert_eq!(
        Suite::builtin("quik").unwrap_err().to_string(),
        "no suite named `quik` ships with Isomer; did you mean `quick`?"
    );
}

#[test]
fn a_typo_in_a_field_names_its_line_and_the_nearest_field() {
    assert_eq!(
        complaint("seeds", "sedes"),
        "nightly.toml:2: unknown field `sedes`; did you mean `seeds`?"
    );
    assert_eq!(
        complaint("limit", "limt"),
        "nightly.toml:9: unknown field `dataset[0].limt`; did you mean `limit`?"
    );
    let error = broken("target_language", "target");
    refused(&error, "UnknownField transformations[1].target -", "nightly.toml:3:");
}

#[test]
fn a_typo_in_a_name_names_its_line_and_the_nearest_name() {
    assert_eq!(
        complaint("\"paraphrase\"", "\"paraphase\""),
        "nightly.toml:3: `transformations[0]`: unknown transformation `paraphase`; did you mean `paraphrase`?"
    );
    assert_eq!(
        complaint("\"sts\"", "\"stss\""),
        "nightly.toml:7: `dataset[0].task`: unknown task type `stss`; did you mean `sts`?"
    );
    let message = complaint("temperature = 0.7", "profile = \"mteb-v3\"");
    assert_eq!(
        message,
        "nightly.toml:4: `profile`: unknown metric profile `mteb-v3`; did you mean `mteb-v2`?"
    );
}

#[test]
fn a_judge_is_read_and_what_is_wrong_with_it_names_its_line() {
    let with = |judge: &str| parse(&format!("{GOOD}\n[judge]\n{judge}"));
    let judge = with("generator = \"local:a\"\nsample = 0\nscales = [\"fluency\", \"similarity\"]")
        .unwrap()
        .judge;
    assert_eq!((judge.generator.as_deref(), judge.sample), (Some("local:a"), Some(0)));
    assert_eq!(judge.scales, [Scale::Fluency, Scale::Similarity]);
    assert_eq!(parse(GOOD).unwrap().judge, Judge::default());
    let line = GOOD.lines().count() + 3;
    let place = format!(":{line}:");
    let place = place.as_str();
    for (judge, expected, part) in [
        ("sampel = 3", "UnknownField judge.sampel sample", place),
        ("generator = \"\"", "Invalid judge.generator", place),
        ("sample = 20", "Invalid judge.generator", "missing"),
        (
            "scales = [\"fluent\"]\ngenerator = \"x\"",
            "UnknownName judge.scales[0] fluency",
            place,
        ),
        (
            "scales = [\"quality\", \"quality\"]\ngenerator = \"x\"",
            "Invalid judge.scales[1]",
            "`quality`",
        ),
        (
            "generator = \"x\"\nsample = 5000000000",
            "Invalid judge.sample",
            "5000000000",
        ),
    ] {
        refused(&with(judge).unwrap_err(), expected, part);
    }
}

#[test]
fn values_out_of_bounds_say_what_is_allowed() {
    for (from, to, field, part) in [
        ("0.7", "3", "temperature", "0 to 2"),
        ("0.7", "\"warm\"", "temperature", "`warm`"),
        ("[1, 2]", "[1, 1]", "seeds[1]", "twice"),
        ("[1, 2]", "[1, -2]", "seeds[1]", "0 or more"),
        ("[1, 2]", "[]", "seeds", "0 seeds"),
        ("limit = 200", "limit = 0", "dataset[0].limit", "is 0"),
        ("pt-BR", "Portuguese!", "transformations[1].target_language", "BCP-47"),
        ("temperature = 0.7", "attempts = 11", "attempts", "1 to 10"),
        ("temperature = 0.7", "on_failure = \"drop\"", "on_failure", "labels"),
        (
            "limit = 200",
            "ignore_identical_ids = true",
            "dataset[0].ignore_identical_ids",
            "retrieval",
        ),
    ] {
        refused(&broken(from, to), &format!("Invalid {field}"), part);
    }
    assert!(complaint("0.7", "3").starts_with("nightly.toml:4: "));
}

#[test]
fn every_data_set_of_every_shipped_suite_has_a_language() {
    for (name, _) in BUILTIN {
        for spec in Suite::builtin(name).unwrap().datasets {
            let what = format!("{name}: {}", spec.called());
            match &spec.source {
                DatasetSource::Catalogue(catalogued) => {
                    let entry = crate::dataset::catalogue::find(catalogued).unwrap();
                    let codes = entry.languages_of(spec.language.as_deref());
                    assert!(codes.is_some_and(|codes| matches!(codes.len(), 1 | 2)), "{what}");
                }
                DatasetSource::Builtin(builtin) => {
                    let source = crate::dataset::Source::Builtin(builtin.clone());
                    let options = crate::dataset::LoadOptions::default();
                    let dataset = crate::dataset::load(spec.task, &source, &options).unwrap();
                    assert_eq!(dataset.sides(), Some(("en", "en")), "{what}");
                }
                _ => assert!(!spec.languages.is_empty(), "{what}"),
            }
        }
    }
}

#[test]
fn every_shipped_suite_has_a_gate_on_drop_sensitivity_and_level() {
    use crate::gate::{RuleKind, RuleLimit, Unit};
    for (name, _) in BUILTIN {
        let suite = Suite::builtin(name).unwrap();
        let rewrites = suite
            .transformations
            .iter()
            .any(|one| one.declaration().needs_generator());
        let gate = suite.gate;
        let (limit, margin, floor) = match name {
            "quick" => (10.0, 10.0, Some(40.0)),
            "noise" => (20.0, 10.0, Some(40.0)),
            "minimal" => (4.0, 4.0, None),
            _ => (5.0, 5.0, None),
        };
        let limits: Vec<RuleLimit> = gate.rules.iter().map(|rule| rule.limit).collect();
        let wanted = [
            Some(RuleLimit::new(RuleKind::MaxDrop, limit)),
            rewrites.then(|| RuleLimit::new(RuleKind::MinSeparation, 0.7)),
            floor.map(|floor| RuleLimit::new(RuleKind::MinScore, floor)),
            Some(RuleLimit::new(RuleKind::Margin, margin)),
        ];
        let wanted: Vec<RuleLimit> = wanted.into_iter().flatten().collect();
        assert_eq!(limits, wanted, "{name}");
        let fails: Vec<Option<f64>> = gate.rules.iter().map(|rule| rule.fail_at).collect();
        assert_eq!(fails.iter().flatten().collect::<Vec<_>>(), [&1.0], "{name}");
        assert_eq!(fails.last(), Some(&Some(1.0)), "{name}: the margin");
        assert_eq!(gate.unit, Some(Unit::Item), "{name}");
        assert_eq!(suite.separation.settled().is_some(), rewrites, "{name}");
    }
}

/// Each list of a suite is bounded, including lists added later, because the bound is in the
/// reader.
#[test]
fn a_suite_is_bounded_in_length_and_in_every_list() {
    let long = format!("{GOOD}\n# {}", "x".repeat(256 << 10));
    assert!(parse(&long).unwrap_err().to_string().contains("at most 262144"));
    let numbers = |count: usize| (0..count).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    let names = |count: usize| {
        let names: Vec<_> = (0..count).map(|n| format!("\"e{n}\"")).collect();
        names.join(", ")
    };
    let tables = |head: &str, body: &str| format!("[[{head}]]\n{body}\n").repeat(1001);
    for (field, text) in [
        ("seeds", GOOD.replace("[1, 2]", &format!("[{}]", numbers(1001)))),
        (
            "encoders",
            GOOD.replacen("seeds", &format!("encoders = [{}]\nseeds", names(1001)), 1),
        ),
        ("transformations", GOOD.replace("\"paraphrase\"", &names(1001))),
        ("target_languages", {
            let wanted = format!(
                "{{ name = \"cross_translation\", target_languages = [{}] }}",
                names(1001)
            );
            GOOD.replace("\"paraphrase\"", &wanted)
        }),
        (
            "dataset",
            GOOD.to_owned() + &tables("dataset", "task = \"sts\"\npath = \"a\""),
        ),
        ("gate.rule", GOOD.to_owned() + &tables("gate.rule", "max_drop = 3")),
        (
            "judge.scales",
            format!("{GOOD}\n[judge]\ngenerator = \"local:x\"\nscales = [{}]", names(1001)),
        ),
        (
            "separation.kinds",
            format!("{GOOD}\n[separation]\nkinds = [{}]", names(1001)),
        ),
    ] {
        let refused = parse(&text).unwrap_err().to_string();
        assert!(
            refused.contains(field) && refused.contains("entries, at most 1000"),
            "{field}: {refused}"
        );
    }
    let most = GOOD.replacen("seeds", &format!("encoders = [{}]\nseeds", names(1000)), 1);
    assert_eq!(parse(&most).unwrap().encoders.len(), 1000);
}

#[test]
fn all_targets_takes_no_target_beside_it() {
    let all = |parameters: &str| {
        parse(&GOOD.replace("\"paraphrase\"", &format!("{{ name = \"translation\", {parameters} }}")))
    };
    let suite = all("all_targets = true").unwrap();
    assert!(
        suite
            .transformations
            .iter()
            .any(|one| one.label() == "translation(all targets)")
    );
    let error = all("all_targets = true, target_language = \"fr\"").unwrap_err();
    refused(&error, "Invalid transformations[0].all_targets", "target_language");
}

#[test]
fn a_name_of_the_catalogue_brings_its_task_along_and_refuses_another() {
    let suite = parse(&GOOD.replace("task = \"sts\"\npath = \"data/sts\"", "catalogue = \"stsbenchmark\"")).unwrap();
    assert_eq!(suite.datasets[0].task, TaskType::Sts);
    assert_eq!(
        suite.datasets[0].source,
        DatasetSource::Catalogue("STSBenchmark".into())
    );
    let path = "path = \"data/sts\"";
    refused(
        &broken(path, "catalogue = \"SciFact\""),
        "Invalid dataset[0].task",
        "retrieval",
    );
    let typo = broken(path, "catalogue = \"STSBenchmrk\"");
    refused(&typo, "UnknownName dataset[0].catalogue STSBenchmark", "`STSBenchmrk`");
    refused(&broken(path, "hub = \"sts\""), "Invalid dataset[0].hub", "`sts`");
}

#[test]
fn columns_samples_and_options_of_tasks_are_read() {
    let text = GOOD.replace(
        "limit = 200",
        "limit = 200\nsample_seed = 7\nfields = { sentence1 = \"text_a\" }",
    );
    let dataset = &parse(&text).unwrap().datasets[0];
    assert_eq!(
        (dataset.sample_seed, dataset.fields.as_slice()),
        (Some(7), &[("sentence1".into(), "text_a".into())][..])
    );
    let odd = broken("limit = 200", "samples_per_label = 16");
    refused(&odd, "Invalid dataset[0].samples_per_label", "classification");
    refused(
        &broken("limit = 200", "fields = \"a=b\""),
        "Invalid dataset[0].fields",
        "table",
    );
}

#[test]
fn a_leak_is_declared_with_its_reason_for_the_data_set_that_leaks() {
    let declared = |keys: &str| parse(&GOOD.replace("limit = 200", keys));
    let suite = declared("max_leak = 0.35\nleak = \"published so\"").unwrap();
    assert!(suite.datasets[0].allows_leak(0.35) && !suite.datasets[0].allows_leak(0.36));
    assert!(!parse(GOOD).unwrap().datasets[0].allows_leak(0.0));
    for (keys, field) in [
        ("max_leak = 0.35", "dataset[0].leak"),
        ("leak = \"published so\"", "dataset[0].max_leak"),
        ("max_leak = 1.1\nleak = \"published so\"", "dataset[0].max_leak"),
        ("sets = 5", "dataset[0].sets"),
    ] {
        assert_eq!(declared(keys).unwrap_err().field(), Some(field), "{keys}");
    }
    let shipped = Suite::builtin("pteb").unwrap();
    let leaky: Vec<String> = shipped
        .datasets
        .iter()
        .filter(|one| one.allows_leak(0.31))
        .map(|one| one.called())
        .collect();
    assert_eq!(leaky, ["AmazonCounterfactualClassification (ja)"]);
}

#[test]
fn shipped_suites_name_no_superseded_data_set() {
    for (name, _) in super::BUILTIN {
        for dataset in Suite::builtin(name).unwrap().datasets {
            if let DatasetSource::Catalogue(own) = dataset.source {
                let entry = catalogue::find(&own).unwrap();
                assert_eq!(entry.superseded_by, None, "{name}: {own}");
            }
        }
    }
}

#[test]
fn what_is_missing_is_named() {
    for (from, field) in [
        ("name = \"nightly\"", "name"),
        ("task = \"sts\"", "dataset[0].task"),
        ("path = \"data/sts\"", "dataset[0].path"),
    ] {
        refused(&broken(from, ""), &format!("Invalid {field}"), "missing");
    }
    let empty = parse("name = \"x\"\ntransformations = [\"paraphrase\"]").unwrap_err();
    refused(&empty, "Invalid dataset", "missing");
    let second = broken("path = \"data/sts\"", "path = \"a\"\nbuiltin = \"quick/sts\"");
    refused(&second, "Invalid dataset[0].path", "second source");
}

#[test]
fn transformations_that_change_the_meaning_or_repeat_are_refused() {
    let swapped = broken("\"paraphrase\"", "\"multi_swap\"");
    refused(&swapped, "Invalid transformations[0]", "labels");
    let twice = broken("\"paraphrase\"", "\"paraphrase\", \"paraphrase\"");
    refused(&twice, "Invalid transformations[1]", "`paraphrase`");
}

#[test]
fn broken_toml_names_the_line() {
    let error = broken("seeds = [1, 2]", "seeds = [1, 2");
    assert!(matches!(error, SuiteError::Syntax { line: 2 | 3, .. }), "{error}");
}

#[test]
fn a_relative_path_without_a_folder_is_refused() {
    let error = Suite::parse(GOOD, "sent.toml", None).unwrap_err();
    refused(&error, "Invalid dataset[0].path", "sent.toml:8:");
}

const GATED: &str = r#"
[gate]
alpha = 0.01
basis = "student"
undecided = "fail"
sequential = true

[[gate.rule]]
max_drop = 3

[[gate.rule]]
name = "floor"
min_score = 70.5
of = "original"
task = "sts"
dataset = "STSBenchmark"
basis = "point"
"#;

#[test]
fn a_gate_is_read_with_its_rules_and_their_lines() {
    use isomer_proto::eval::v1::GateSequential;

    use crate::gate::{Basis, OnUndecided, RuleKind, RuleLimit};
    let gate = parse(&format!("{GOOD}{GATED}")).unwrap().gate;
    assert_eq!((gate.alpha, gate.basis), (Some(0.01), Some(Basis::Student)));
    assert_eq!(
        (gate.undecided, gate.sequential),
        (Some(OnUndecided::Fail), Some(GateSequential::Pocock))
    );
    let [drop, floor] = gate.rules.as_slice() else {
        panic!("{:?}", gate.rules)
    };
    assert_eq!(
        (drop.limit, drop.of.as_str()),
        (RuleLimit::new(RuleKind::MaxDrop, 3.0), "total")
    );
    assert_eq!(drop.place.origin, "nightly.toml:17");
    assert_eq!(
        (floor.limit, floor.basis),
        (RuleLimit::new(RuleKind::MinScore, 70.5), Some(Basis::Point))
    );
    assert_eq!(floor.dataset.as_deref(), Some("STSBenchmark"));
    assert_eq!(parse(GOOD).unwrap().gate, crate::gate::Gate::default());
}

#[test]
fn a_typo_in_a_gate_names_its_line_and_the_nearest_name() {
    let broken = |from: &str, to: &str| {
        assert!(GATED.contains(from));
        parse(&format!("{GOOD}{}", GATED.replacen(from, to, 1))).unwrap_err()
    };
    for (from, to, expected, part) in [
        (
            "max_drop",
            "max_dorp",
            "UnknownField gate.rule[0].max_dorp max_drop",
            ":18:",
        ),
        ("undecided", "undecide", "UnknownField gate.undecide undecided", ":14:"),
        ("\"point\"", "\"pint\"", "UnknownName gate.rule[1].basis point", ":26:"),
        ("\"sts\"", "\"stss\"", "UnknownName gate.rule[1].task sts", ":24:"),
        ("0.01", "0.5", "Invalid gate.alpha", ":12:"),
        ("max_drop = 3", "max_drop = -3", "Invalid gate.rule[0].max_drop", ":18:"),
        (
            "max_drop = 3",
            "of = \"total\"",
            "Invalid gate.rule[0].max_drop",
            "needs a limit",
        ),
        (
            "max_drop = 3",
            "max_drop = 3\nmargin = 1",
            "Invalid gate.rule[0].margin",
            "max_drop",
        ),
        (
            "sequential = true",
            "sequential = \"pocok\"",
            "UnknownName gate.sequential pocock",
            "pocok",
        ),
    ] {
        refused(&broken(from, to), expected, part);
    }
}

#[test]
fn languages_of_a_data_set_are_one_group() {
    let groups = |name: &str| -> Vec<String> {
        let suite = Suite::builtin(name).unwrap();
        let mut groups: Vec<String> = suite.datasets.iter().map(|own| own.group_of(&own.called())).collect();
        assert!(groups.len() >= suite.datasets.len());
        groups.sort();
        groups.dedup();
        groups
    };
    // HTEB, tables 9 and 10; PTEB, table 13: the papers' numbers of data sets.
    assert_eq!(groups("hteb-english").len(), 19);
    assert_eq!(groups("hteb-multilingual").len(), 13);
    assert_eq!(groups("pteb").len(), 20);
    assert_eq!(Suite::builtin("hteb-multilingual").unwrap().datasets.len(), 63);
}

#[test]
fn a_group_can_be_named_and_is_else_the_data_set_itself() {
    let suite = parse(&GOOD.replace("limit = 200", "group = \"pairs\"")).unwrap();
    assert_eq!(suite.datasets[0].group_of("sts"), "pairs");
    assert_eq!(parse(GOOD).unwrap().datasets[0].group_of("sts (de)"), "sts (de)");
    refused(
        &broken("limit = 200", "group = \"\""),
        "Invalid dataset[0].group",
        "empty",
    );
}

#[test]
fn noise_is_read_with_its_channel_and_dose() {
    let with = |parameters: &str| {
        let text = GOOD.replace("\"paraphrase\"", &format!("{{ name = \"noise\"{parameters} }}"));
        parse(&text).map(|suite| suite.transformations[0].label())
    };
    assert_eq!(with("").unwrap(), "noise");
    assert_eq!(with(", channel = \"ocr\"").unwrap(), "noise(ocr)");
    assert_eq!(with(", channel = \"ocr\", dose = 0.05").unwrap(), "noise(ocr 5 %)");
    for (parameters, field) in [
        (", dose = 0", "transformations[0].dose"),
        (", dose = 1.5", "transformations[0].dose"),
        (", channel = 3", "transformations[0].channel"),
        (", level = 3", "transformations[0].level"),
    ] {
        assert_eq!(with(parameters).unwrap_err().field(), Some(field));
    }
}

#[test]
fn the_file_of_keys_is_a_suite_with_every_key() {
    let suite = Suite::parse(super::KEYS, "keys.toml", Some(Path::new("/suites"))).unwrap();
    assert_eq!((suite.datasets.len(), suite.gate.rules.len()), (2, 8));
    let limits = RuleKind::ALL.map(RuleKind::name);
    let rule = Rule::keys();
    let shares = ValidityLimit::ALL.map(ValidityLimit::name);
    let all = [
        &super::parse::FIELDS[..],
        &super::dataset::FIELDS,
        &super::gate::FIELDS,
        &super::judge::FIELDS,
        &super::separation::FIELDS,
        &super::limits::FIELDS,
        &super::encoder::FIELDS,
        &limits,
        &rule,
        &["when"],
    ];
    // A commented key counts: it excludes another one.
    let has = |key: &str| {
        let mut lines = super::KEYS.lines().map(|line| line.trim_start_matches("# "));
        lines.any(|line| {
            let table = line.trim_matches(['[', ']']);
            line.starts_with(&format!("{key} = ")) || (table != line && table.split('.').any(|part| part == key))
        })
    };
    let missing: Vec<&&str> = all
        .iter()
        .copied()
        .flatten()
        .filter(|key| !has(key) && !shares.contains(key))
        .collect();
    assert!(missing.is_empty(), "not in keys.toml: {missing:?}");
}
