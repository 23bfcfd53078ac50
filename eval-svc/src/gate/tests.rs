#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use isomer_proto::eval::v1::GateSequential;
use isomer_scoring::chance::{Chance, ChanceLevel};

use super::*;
use crate::{
    profile::{Axis, Column, Grid},
    report::{GateReport, GateVerdict, RuleVerdict},
    task::TaskType,
};

const RUN: [(&str, &str, Axis); 3] = [
    ("paraphrase", "paraphrase", Axis::Lexical),
    ("expansion", "expansion", Axis::Length),
    ("translation(fr)", "translation", Axis::Language),
];

fn rule(limit: RuleLimit) -> Rule {
    Rule {
        name: None,
        limit,
        fail_at: None,
        of: "total".to_owned(),
        task: None,
        dataset: None,
        form: None,
        // The numbers of these tests are those of signed-rank bounds; other tests cover the default
        // basis.
        basis: matches!(limit.kind, RuleKind::MaxDrop | RuleKind::MaxDropPercent).then_some(Basis::SignedRank),
        unit: None,
        texts: Texts::All,
        when: When::Always,
        limits: Limits::default(),
        place: RuleLocation {
            origin: "n.toml:7".to_owned(),
            field: "gate.rule[0]".to_owned(),
        },
    }
}

fn gate(rules: Vec<Rule>) -> Gate {
    Gate {
        rules,
        ..Gate::default()
    }
}

/// Data sets d0, d1, … of which every third is a retrieval set; the original score is 80, and the
/// total drops by `drops`.
fn grid(encoders: &[&str], drops: &[f64]) -> Grid {
    let columns = RUN.map(|(label, _, axis)| Column::new(label, axis));
    let names = (0..drops.len()).map(|d| format!("d{d}")).collect();
    let ids = encoders.iter().map(|id| (*id).to_owned()).collect();
    let mut grid = Grid::new(ids, names, columns.to_vec(), vec![1, 2]);
    for e in 0..encoders.len() {
        for (d, drop) in drops.iter().enumerate() {
            grid.original[e][d] = 80.0;
            // The three shares of the drop have a mean of 1, so the total drops by the whole drop.
            for (c, share) in [0.0, 2.0, 1.0].iter().enumerate() {
                grid.transformed[e][d][c] = vec![80.0 - drop * share + 0.25, 80.0 - drop * share - 0.25];
            }
        }
    }
    grid
}

fn bound(gate: &Gate, grid: &Grid, baseline: Option<usize>) -> Result<BoundGate, GateError> {
    let named = RUN.map(|(label, name, axis)| RunTransformation {
        label: label.to_owned(),
        name,
        axis,
    });
    let datasets: Vec<DatasetTask> = grid
        .datasets
        .iter()
        .enumerate()
        .map(|(d, name)| {
            let task = if d % 3 == 2 { TaskType::Retrieval } else { TaskType::Sts };
            DatasetTask {
                name: name.clone(),
                task,
            }
        })
        .collect();
    let subjects = RunSubjects {
        encoders: &grid.encoders,
        forms: &[],
        baseline,
        transformations: &named,
        datasets: Some(&datasets),
        groups: &grid.groups,
        rated: false,
    };
    bind(gate, &subjects).map(Option::unwrap)
}

fn complaint(rule: Rule) -> GateError {
    let grid = grid(&["a", "b"], &[1.0, 2.0]);
    bound(&gate(vec![rule]), &grid, None).unwrap_err()
}

/// Asserts the field of an error, and parts of its message: numbers, names and keys.
#[track_caller]
fn refused(error: &GateError, field: &str, parts: &[&str]) {
    assert_eq!(error.field, field, "{error}");
    for part in parts {
        assert!(error.message.contains(part), "{part}: {error}");
    }
}

fn facts(rewrites: &RewriteCounts) -> Facts<'_> {
    Facts {
        rewrites,
        cuts: const { &Vec::new() },
        ratings: None,
        levels: const { &ChanceLevels::new() },
        leaks: &[],
        providers: &[],
        items: &[],
    }
}

/// Every text of every data set was rewritten.
fn rewritten(grid: &Grid) -> RewriteCounts {
    let one = Rewrites {
        texts: 10,
        ..Rewrites::default()
    };
    vec![vec![vec![one; grid.seeds.len()]; grid.columns.len()]; grid.datasets.len()]
}

static NO_SUBSETS: SubsetScores = SubsetScores::new();
static NO_ITEMS: ItemStrata = ItemStrata::new();
static NO_SEQUENCES: ItemSequences = ItemSequences::new();
static NO_SEPARATION: Separations = Separations::new();

/// One look at these data sets, at an error probability of 0.05, for rules over groups of whole
/// data sets.
fn whole<'a>(facts: Facts<'a>, datasets: &'a [usize], seeds: usize) -> Look<'a> {
    Look {
        datasets,
        seeds,
        alpha: 0.05,
        round: 1,
        facts,
        subsets: &NO_SUBSETS,
        separation: &NO_SEPARATION,
        items: &NO_ITEMS,
        sequences: &NO_SEQUENCES,
        shared_by: 1,
    }
}

fn all(gate: &Gate, grid: &Grid, baseline: Option<usize>) -> GateReport {
    let bound = bound(gate, grid, baseline).unwrap();
    let datasets: Vec<usize> = (0..grid.datasets.len()).collect();
    let rewrites = rewritten(grid);
    let everything = Look {
        alpha: bound.alpha,
        ..whole(facts(&rewrites), &datasets, grid.seeds.len())
    };
    look(&bound, grid, &everything, None)
}

/// The verdict of one rule on the first data sets, as in an early look.
fn said_early(rule: Rule, drops: &[f64], datasets: usize) -> RuleVerdict {
    let grid = grid(&["a"], drops);
    let rewrites = rewritten(&grid);
    let datasets: Vec<usize> = (0..datasets).collect();
    let early = whole(facts(&rewrites), &datasets, 2);
    look(&bound(&gate(vec![rule]), &grid, None).unwrap(), &grid, &early, None).encoders[0].rules[0].clone()
}

/// The verdict of one rule on one encoder.
fn said(rule: Rule, drops: &[f64]) -> RuleVerdict {
    all(&gate(vec![rule]), &grid(&["a"], drops), None).encoders[0].rules[0].clone()
}

const SIX: [f64; 6] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];

#[test]
fn six_drops_pass_fail_or_stay_undecided_by_their_signed_rank_bounds() {
    // P(W <= 2) = 3/64 <= 0.05 < 5/64: the third of the ordered Walsh averages 1, 1.5, 2, 2, … from
    // either end.
    let undecided = said(rule(RuleLimit::new(RuleKind::MaxDrop, 3.5)), &SIX);
    assert_eq!(
        (undecided.estimate, undecided.low, undecided.high),
        (Some(3.5), Some(2.0), Some(5.0))
    );
    assert_eq!(
        (undecided.verdict, undecided.units, undecided.seeds),
        (GateVerdict::Undecided, 6, 2)
    );
    assert_eq!(
        said(rule(RuleLimit::new(RuleKind::MaxDrop, 5.0)), &SIX).verdict,
        GateVerdict::Pass
    );
    assert_eq!(
        said(rule(RuleLimit::new(RuleKind::MaxDrop, 1.9)), &SIX).verdict,
        GateVerdict::Fail
    );
    let close = said(rule(RuleLimit::new(RuleKind::MaxDrop, 4.0)), &SIX);
    assert!(
        close.units_needed.unwrap() > 6 && close.remark().contains("data sets (now 6)"),
        "{close:?}"
    );
}

#[test]
fn student_bounds_are_the_means_and_points_have_none() {
    let with = |basis, limit| Rule {
        basis: Some(basis),
        ..rule(RuleLimit::new(RuleKind::MaxDrop, limit))
    };
    // 3.5 ± 2.0150 · 1.8708 / √6
    let student = said(with(Basis::Student, 5.1), &SIX);
    assert!((student.low.unwrap() - 1.961).abs() < 1e-3 && (student.high.unwrap() - 5.039).abs() < 1e-3);
    assert_eq!(student.verdict, GateVerdict::Pass);
    let point = said(with(Basis::Point, 3.5), &SIX);
    assert_eq!((point.verdict, point.low, point.high), (GateVerdict::Pass, None, None));
    let narrow = said(with(Basis::Bootstrap, 30.0), &SIX);
    assert!(narrow.note.unwrap().contains("too narrow"));
}

#[test]
fn a_quantity_a_task_and_a_data_set_narrow_a_rule() {
    let point = |rule: Rule| {
        let rule = Rule {
            basis: Some(Basis::Point),
            ..rule
        };
        said(rule, &SIX).estimate.unwrap()
    };
    let of = |of: &str| Rule {
        of: of.to_owned(),
        ..rule(RuleLimit::new(RuleKind::MaxDrop, 9.0))
    };
    assert!((point(of("total")) - 3.5).abs() < 1e-12);
    assert!((point(of("length")) - 7.0).abs() < 1e-12);
    assert!((point(of("expansion")) - 7.0).abs() < 1e-12);
    assert!(
        (point(of("translation")) - 3.5).abs() < 1e-12,
        "by its name without parameters"
    );
    // d2 and d5 are retrieval sets: drops 3 and 6.
    let retrieval = Rule {
        task: Some(TaskType::Retrieval),
        ..of("total")
    };
    assert!((point(retrieval) - 4.5).abs() < 1e-12);
    let one = Rule {
        dataset: Some("d4".to_owned()),
        ..of("total")
    };
    assert!((point(one) - 5.0).abs() < 1e-12);
    let percent = rule(RuleLimit::new(RuleKind::MaxDropPercent, 9.0));
    assert!((point(percent) - 3.5 / 80.0 * 100.0).abs() < 1e-12);
}

#[test]
fn a_floor_is_held_against_the_point_unless_bounds_are_asked_for() {
    let floor = said(rule(RuleLimit::new(RuleKind::MinScore, 76.0)), &SIX);
    assert_eq!((floor.verdict, floor.low), (GateVerdict::Pass, None));
    assert!((floor.estimate.unwrap() - 76.5).abs() < 1e-12);
    let original = Rule {
        of: "original".to_owned(),
        basis: Some(Basis::SignedRank),
        ..rule(RuleLimit::new(RuleKind::MinScore, 80.5))
    };
    let original = said(original, &SIX);
    assert_eq!((original.verdict, original.seeds), (GateVerdict::Fail, 1));
}

#[test]
fn one_data_set_is_undecided_on_bounds_and_says_that_no_test_is_possible() {
    let alone = said_early(rule(RuleLimit::new(RuleKind::MaxDrop, 5.0)), &[1.0; 6], 1);
    assert_eq!(alone.verdict, GateVerdict::Undecided);
    assert_eq!(alone.estimate, Some(1.0));
    assert!(alone.note.is_some(), "{alone:?}");
    assert_eq!(alone.units_needed, Some(5));
    assert!(alone.remark().contains("(now 1)"), "{}", alone.remark());
    let four = said_early(
        rule(RuleLimit::new(RuleKind::MaxDrop, 50.0)),
        &[1.0, 1.0, 2.0, 2.0, 1.0, 1.0],
        4,
    );
    assert_eq!((four.verdict, four.units_needed), (GateVerdict::Undecided, Some(5)));
    assert!(four.note.unwrap().contains("4 data sets allow no signed-rank bound"));
}

#[test]
fn drops_of_zero_everywhere_keep_a_limit_of_zero_and_a_missing_number_is_invalid() {
    let none = said(rule(RuleLimit::new(RuleKind::MaxDrop, 0.0)), &[0.0; 6]);
    assert_eq!((none.verdict, none.estimate), (GateVerdict::Pass, Some(0.0)));
    assert_eq!((none.low, none.high), (Some(0.0), Some(0.0)));
    let missing = said(
        rule(RuleLimit::new(RuleKind::MaxDrop, 50.0)),
        &[1.0, f64::NAN, 1.0, 1.0, 1.0, 1.0],
    );
    assert_eq!((missing.verdict, missing.estimate), (GateVerdict::Invalid, None));
    assert!(missing.note.unwrap().contains("d1 is not a number"));
    let mut grid = grid(&["a"], &SIX);
    grid.original[0][3] = -4.0;
    let said = all(
        &gate(vec![rule(RuleLimit::new(RuleKind::MaxDropPercent, 5.0))]),
        &grid,
        None,
    );
    assert!(said.encoders[0].rules[0].note.as_ref().unwrap().contains("d3 is -4.0"));
    assert_eq!((said.verdict, said.blocked), (GateVerdict::Invalid, true));
    assert!(
        said.sentence()
            .contains("Gate invalid: a. a is invalid: rule \"total drops by at most 5 %\": the original score on d3")
    );
}

/// Encoder 1 differs from encoder 0 by these points, on the originals and under transformation.
fn beside(differences: &[f64]) -> Grid {
    let mut grid = grid(&["old", "new"], &vec![2.0; differences.len()]);
    for (d, difference) in differences.iter().enumerate() {
        grid.original[1][d] += difference;
        for cell in grid.transformed[1][d].iter_mut().flatten() {
            *cell += difference;
        }
    }
    grid
}

#[test]
fn a_margin_is_tested_against_the_baseline_which_is_not_judged_itself() {
    let margin = gate(vec![rule(RuleLimit::new(RuleKind::Margin, 1.0))]);
    let judged = |differences: &[f64]| all(&margin, &beside(differences), Some(0));
    let near = [0.1, -0.1, 0.2, -0.2, 0.3, -0.3, 0.0, 0.05];
    let report = judged(&near);
    assert_eq!(report.encoders.len(), 1);
    assert_eq!(
        (report.encoders[0].encoder.as_str(), report.verdict),
        ("new", GateVerdict::Pass)
    );
    let said = &report.encoders[0].rules[0];
    // All eight are above -1: 1/256, one comparison.
    assert!((said.p_value.unwrap() - 1.0 / 256.0).abs() < 1e-12);
    assert_eq!(said.p_holm, said.p_value);
    assert_eq!(judged(&near.map(|d| d - 3.0)).verdict, GateVerdict::Fail);
    assert_eq!(judged(&near.map(|d| d - 1.0)).verdict, GateVerdict::Undecided);
}

#[test]
fn margins_are_adjusted_for_all_rules_and_encoders() {
    let rules = [Some("original"), Some("total"), Some("lexical")].map(|of| Rule {
        of: of.unwrap().to_owned(),
        unit: Some(Unit::Group),
        ..rule(RuleLimit::new(RuleKind::Margin, 1.0))
    });
    // Six data sets; only the one with the smallest distance is below the margin: 2/64 alone, 6/64
    // for three rules.
    let six = [0.1, -0.1, 0.2, -0.2, 0.3, -1.1];
    let one = all(&gate(rules[..1].to_vec()), &beside(&six), Some(0));
    assert_eq!(one.verdict, GateVerdict::Pass);
    let three = all(&gate(rules.to_vec()), &beside(&six), Some(0));
    assert_eq!(three.verdict, GateVerdict::Undecided);
    let said = &three.encoders[0].rules[0];
    assert!((said.p_holm.unwrap() - 6.0 / 64.0).abs() < 1e-12);
    // With five data sets no result could decide three rules, although it could decide one.
    let error = bound(&gate(rules.to_vec()), &beside(&six[..5]), Some(0)).unwrap_err();
    refused(&error, "gate.rule[0]", &["5", "6"]);
    assert!(bound(&gate(rules[..1].to_vec()), &beside(&six[..5]), Some(0)).is_ok());
}

#[test]
fn the_worst_rule_of_the_worst_encoder_is_the_verdict_and_undecided_blocks_unless_it_warns() {
    let mut rules = gate(vec![
        rule(RuleLimit::new(RuleKind::MaxDrop, 5.0)),
        rule(RuleLimit::new(RuleKind::MaxDrop, 3.5)),
    ]);
    let grid = grid(&["a", "b"], &SIX);
    let report = all(&rules, &grid, None);
    assert_eq!((report.verdict, report.blocked), (GateVerdict::Undecided, true));
    for (undecided, blocked) in [
        (OnUndecided::Warn, false),
        (OnUndecided::Block, true),
        (OnUndecided::Fail, true),
    ] {
        rules.undecided = Some(undecided);
        assert_eq!(all(&rules, &grid, None).blocked, blocked, "{undecided:?}");
    }
    rules.rules.push(rule(RuleLimit::new(RuleKind::MaxDrop, 1.0)));
    let failed = all(&rules, &grid, None);
    assert_eq!((failed.verdict, failed.blocked), (GateVerdict::Fail, true));
    assert!(failed.sentence().contains("Gate failed: a, b"), "{}", failed.sentence());
}

#[test]
fn what_an_earlier_look_decided_stays_and_counts_its_own_data_sets() {
    let rules = gate(vec![
        rule(RuleLimit::new(RuleKind::MaxDrop, 50.0)),
        rule(RuleLimit::new(RuleKind::MaxDrop, 3.5)),
    ]);
    let mut scores = grid(&["a"], &SIX);
    let bound = bound(&rules, &scores, None).unwrap();
    let rewrites = rewritten(&scores);
    let first = Look {
        alpha: 0.02,
        ..whole(facts(&rewrites), &[0, 1, 2, 3, 4, 5], 1)
    };
    let report = look(&bound, &scores, &first, None);
    assert_eq!(report.encoders[0].rules[0].verdict, GateVerdict::Pass);
    // Later results would violate the limit, but the decision does not change.
    for cell in scores.transformed[0].iter_mut().flatten() {
        cell[1] = -900.0;
    }
    let later = Look {
        seeds: 2,
        alpha: 0.03,
        round: 2,
        ..first
    };
    let report = look(&bound, &scores, &later, Some(report));
    let rules = &report.encoders[0].rules;
    assert_eq!(
        (rules[0].verdict, rules[0].round, rules[0].seeds),
        (GateVerdict::Pass, 1, 1)
    );
    assert_eq!(
        (rules[1].verdict, rules[1].round, rules[1].seeds),
        (GateVerdict::Fail, 2, 2)
    );
}

#[test]
fn names_the_run_does_not_have_are_refused_with_their_place_and_the_nearest() {
    let of = |of: &str| Rule {
        of: of.to_owned(),
        ..rule(RuleLimit::new(RuleKind::MaxDrop, 3.0))
    };
    assert_eq!(
        complaint(of("lenght")).to_string(),
        "n.toml:7: `gate.rule[0].of`: unknown quantity `lenght`; did you mean `length`?"
    );
    for (name, part) in [
        ("summarisation", "paraphrase, expansion"),
        ("augmentation", "augmentation axis"),
        ("original", "itself"),
        ("quantum", "total, original, lexical"),
    ] {
        refused(&complaint(of(name)), "gate.rule[0].of", &[part]);
    }
    let dataset = |name: &str| Rule {
        dataset: Some(name.to_owned()),
        ..rule(RuleLimit::new(RuleKind::MaxDrop, 3.0))
    };
    refused(&complaint(dataset("D1")), "gate.rule[0].dataset", &["`D1`", "`d1`"]);
    let task = Rule {
        task: Some(TaskType::Bitext),
        ..rule(RuleLimit::new(RuleKind::MaxDrop, 3.0))
    };
    refused(&complaint(task), "gate.rule[0].task", &["bitext", "sts"]);
}

#[test]
fn a_margin_without_a_baseline_or_with_other_bounds_is_refused_with_the_hint() {
    let margin = rule(RuleLimit::new(RuleKind::Margin, 1.0));
    refused(
        &complaint(margin.clone()),
        "gate.rule[0].margin",
        &["--baseline", "baseline = "],
    );
    let student = Rule {
        basis: Some(Basis::Student),
        ..margin.clone()
    };
    refused(
        &complaint(student),
        "gate.rule[0].basis",
        &["\"signed-rank\"", "\"point\""],
    );
    let alone = grid(&["old"], &SIX);
    let error = bound(&gate(vec![margin]), &alone, Some(0)).unwrap_err();
    refused(&error, "gate.rule[0].margin", &["only encoder"]);
}

#[test]
fn limits_and_chances_that_cannot_be_meant_are_refused() {
    for (kind, value, allowed) in [
        (RuleKind::MaxDrop, -1.0, "0 to 200"),
        (RuleKind::MaxDropPercent, 120.0, "0 to 100"),
        (RuleKind::MinScore, f64::NAN, "-100 to 100"),
    ] {
        let field = format!("gate.rule[0].{}", kind.name());
        refused(&complaint(rule(RuleLimit::new(kind, value))), &field, &[allowed]);
    }
    for alpha in [0.0, 0.5, 1.0, f64::NAN] {
        let odd = Gate {
            alpha: Some(alpha),
            ..gate(vec![rule(RuleLimit::new(RuleKind::MaxDrop, 3.0))])
        };
        refused(
            &bound(&odd, &grid(&["a"], &SIX), None).unwrap_err(),
            "gate.alpha",
            &["0.5"],
        );
    }
}

#[test]
fn points_and_rounds_do_not_go_together() {
    let sequential = Gate {
        basis: Some(Basis::Point),
        sequential: Some(GateSequential::Pocock),
        ..gate(vec![Rule {
            basis: None,
            ..rule(RuleLimit::new(RuleKind::MaxDrop, 3.0))
        }])
    };
    let error = bound(&sequential, &grid(&["a"], &SIX), None).unwrap_err();
    refused(&error, "gate.rule[0].basis", &["points"]);
    let bootstrap = Gate {
        basis: Some(Basis::Bootstrap),
        ..sequential.clone()
    };
    let error = bound(&bootstrap, &grid(&["a"], &SIX), None).unwrap_err();
    refused(&error, "gate.rule[0].basis", &["percentiles"]);
    let nothing = Gate {
        rules: Vec::new(),
        ..sequential
    };
    let grid = grid(&["a"], &SIX);
    let subjects = RunSubjects {
        encoders: &grid.encoders,
        forms: &[],
        baseline: None,
        transformations: &[],
        datasets: None,
        groups: &[],
        rated: false,
    };
    refused(&bind(&nothing, &subjects).unwrap_err(), "gate.sequential", &[]);
}

#[test]
fn rules_that_no_score_can_decide_are_refused_with_what_would_help() {
    let lone = Rule {
        dataset: Some("d1".to_owned()),
        ..rule(RuleLimit::new(RuleKind::MaxDrop, 3.0))
    };
    let fine = rule(RuleLimit::new(RuleKind::MaxDrop, 3.0));
    let error = bound(&gate(vec![fine, lone.clone()]), &grid(&["a"], &SIX), None).unwrap_err();
    assert_eq!(error.origin, "n.toml:7");
    refused(
        &error,
        "gate.rule[0]",
        &[
            "on d1\"",
            "1 data set",
            "signed-rank",
            "0.05",
            "at least 5",
            "basis = \"point\"",
        ],
    );
    let on_points = Rule {
        basis: Some(Basis::Point),
        ..lone
    };
    assert!(bound(&gate(vec![on_points]), &grid(&["a"], &SIX), None).is_ok());
}

#[test]
fn unchanged_texts_make_a_rule_invalid_whether_it_would_pass_or_fail() {
    let grid = grid(&["a"], &SIX);
    let mut rewrites = rewritten(&grid);
    let datasets: Vec<usize> = (0..6).collect();
    let mut said = |limit: f64, unchanged: u64| {
        for cell in rewrites.iter_mut().flatten().flatten() {
            cell.unchanged = unchanged;
        }
        let bound = bound(&gate(vec![rule(RuleLimit::new(RuleKind::MaxDrop, limit))]), &grid, None).unwrap();
        let everything = whole(facts(&rewrites), &datasets, 2);
        look(&bound, &grid, &everything, None)
    };
    assert_eq!(said(5.0, 1).verdict, GateVerdict::Pass);
    assert_eq!(said(1.9, 1).verdict, GateVerdict::Fail);
    for limit in [5.0, 1.9] {
        let report = said(limit, 2);
        assert_eq!((report.verdict, report.blocked), (GateVerdict::Invalid, true));
        let told = &report.encoders[0].rules[0];
        // The estimate remains visible.
        assert_eq!((told.estimate, told.low), (Some(3.5), Some(2.0)));
        assert!((told.rewrites.unwrap().unchanged - 0.2).abs() < 1e-12);
        assert!(
            report.sentence().contains("20 %") && report.sentence().contains("max_unchanged is 10 %"),
            "{}",
            report.sentence()
        );
    }
}

#[test]
fn a_bound_without_an_end_decides_nothing() {
    let scores = grid(&["a"], &SIX);
    let student = Rule {
        basis: Some(Basis::Student),
        ..rule(RuleLimit::new(RuleKind::MaxDrop, 3.0))
    };
    let bound = bound(&gate(vec![student]), &scores, None).unwrap();
    let rewrites = rewritten(&scores);
    let early = Look {
        alpha: 1e-30,
        ..whole(facts(&rewrites), &[0, 1, 2, 3, 4, 5], 1)
    };
    let said = look(&bound, &scores, &early, None);
    assert_eq!(said.verdict, GateVerdict::Undecided, "{said:?}");
    // A value that cannot be written as a number could not be read back.
    let read: GateReport = serde_json::from_str(&serde_json::to_string(&said).unwrap()).unwrap();
    assert_eq!(read, said);
}

#[test]
fn a_request_lays_its_settings_over_and_takes_the_place_of_rules_on_the_same_subject() {
    let own = Gate {
        alpha: Some(0.01),
        undecided: Some(OnUndecided::Fail),
        ..gate(vec![
            rule(RuleLimit::new(RuleKind::MaxDrop, 3.0)),
            rule(RuleLimit::new(RuleKind::MinScore, 60.0)),
        ])
    };
    let over = Gate {
        alpha: Some(0.1),
        ..gate(vec![
            rule(RuleLimit::new(RuleKind::MaxDrop, 5.0)),
            rule(RuleLimit::new(RuleKind::Margin, 1.0)),
        ])
    };
    let both = own.overlaid(&over);
    let limits: Vec<RuleLimit> = both.rules.iter().map(|rule| rule.limit).collect();
    assert_eq!(
        limits,
        [
            RuleLimit::new(RuleKind::MaxDrop, 5.0),
            RuleLimit::new(RuleKind::MinScore, 60.0),
            RuleLimit::new(RuleKind::Margin, 1.0)
        ]
    );
    assert_eq!((both.alpha, both.undecided), (Some(0.1), Some(OnUndecided::Fail)));
}

#[test]
fn a_request_may_leave_the_suites_rules_out() {
    let suite = gate(vec![rule(RuleLimit::new(RuleKind::MaxDrop, 3.0))]);
    let request = Gate {
        without_suite_rules: true,
        ..gate(vec![rule(RuleLimit::new(RuleKind::MinScore, 60.0))])
    };
    let limits: Vec<RuleLimit> = suite.overlaid(&request).rules.iter().map(|rule| rule.limit).collect();
    assert_eq!(limits, [RuleLimit::new(RuleKind::MinScore, 60.0)]);
}

#[test]
fn languages_of_a_data_set_are_one_observation() {
    // Twelve data sets in two groups: eleven languages that drop by 9, and one other data set that
    // does not drop.
    let mut grid = grid(&["a"], &[9.0; 12]);
    grid.groups = (0..12)
        .map(|d| {
            if d == 0 {
                "alone".to_owned()
            } else {
                "languages".to_owned()
            }
        })
        .collect();
    for column in &mut grid.transformed[0][0] {
        *column = vec![80.0; 2];
    }
    let found = bound(&gate(vec![rule(RuleLimit::new(RuleKind::MaxDrop, 5.0))]), &grid, None).map(|_| ());
    // Signed-rank bounds need five groups; the number of data sets would have been sufficient.
    refused(&found.unwrap_err(), "gate.rule[0]", &["2 groups", "12 data sets", "5"]);
    let mut point = rule(RuleLimit::new(RuleKind::MaxDrop, 5.0));
    point.basis = Some(Basis::Point);
    let report = all(&gate(vec![point]), &grid, None);
    let said = &report.encoders[0].rules[0];
    // (0 + 9) / 2; averaged by data set it would be 8.25, beyond the limit.
    assert_eq!((said.units, said.verdict), (2, GateVerdict::Pass));
    assert!((said.estimate.unwrap() - 4.5).abs() < 1e-9);
    assert!(report.unit.contains("group"));
}

/// The default basis and unit of a rule, by the number of groups.
fn by_default(limit: RuleLimit, groups: usize) -> Result<(Basis, Unit, bool), String> {
    let plain = Rule {
        basis: None,
        ..rule(limit)
    };
    let grid = grid(&["a", "b"], &vec![1.0; groups]);
    match bound(&gate(vec![plain]), &grid, Some(0)) {
        Ok(bound) => Ok((
            bound.rules[0].basis,
            bound.rules[0].unit,
            bound.rules[0].unit_by_default,
        )),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn few_groups_leave_a_rule_to_the_items_and_too_few_for_their_limit_are_refused() {
    assert_eq!(
        by_default(RuleLimit::new(RuleKind::MaxDrop, 3.0), 5),
        Ok((Basis::Bounded, Unit::Item, true))
    );
    assert_eq!(
        by_default(RuleLimit::new(RuleKind::MaxDrop, 3.0), 1),
        Ok((Basis::Bounded, Unit::Item, true))
    );
    // Six groups are counted as groups, and so few cannot prove 3 points: ln 0.05 / ln 0.97 = 98.4.
    let told = by_default(RuleLimit::new(RuleKind::MaxDrop, 3.0), 6).unwrap_err();
    for part in [
        "there are 6 data sets",
        "need at least 99",
        "unit = \"item\"",
        "basis = \"student\"",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert_eq!(
        by_default(RuleLimit::new(RuleKind::MaxDrop, 3.0), 99),
        Ok((Basis::Bounded, Unit::Group, true))
    );
    // A limit of half the scale needs ln 0.05 / ln 0.5 = 4.3.
    assert_eq!(
        by_default(RuleLimit::new(RuleKind::MaxDrop, 50.0), 6),
        Ok((Basis::Bounded, Unit::Group, true))
    );
    assert_eq!(
        by_default(RuleLimit::new(RuleKind::MinScore, 3.0), 1),
        Ok((Basis::Point, Unit::Group, true))
    );
    assert_eq!(
        by_default(RuleLimit::new(RuleKind::Margin, 3.0), 6),
        Ok((Basis::SignedRank, Unit::Group, true))
    );
}

#[test]
fn a_unit_that_a_rule_cannot_have_is_refused() {
    let told = |limit: RuleLimit, basis: Option<Basis>, sequential: Option<GateSequential>| {
        let by_items = Rule {
            basis,
            unit: Some(Unit::Item),
            ..rule(limit)
        };
        let one = Gate {
            sequential,
            ..gate(vec![by_items])
        };
        bound(&one, &grid(&["a", "b"], &SIX), Some(0)).map(|_| ())
    };
    assert_eq!(told(RuleLimit::new(RuleKind::MaxDrop, 3.0), None, None), Ok(()));
    assert_eq!(
        told(RuleLimit::new(RuleKind::MinScore, 3.0), Some(Basis::Bounded), None),
        Ok(())
    );
    let student = told(RuleLimit::new(RuleKind::MaxDrop, 3.0), Some(Basis::Student), None).unwrap_err();
    refused(&student, "gate.rule[0].unit", &["student"]);
    let percent = told(RuleLimit::new(RuleKind::MaxDropPercent, 3.0), None, None).unwrap_err();
    refused(&percent, "gate.rule[0].unit", &["max_drop_percent"]);
    let rounds = told(
        RuleLimit::new(RuleKind::MaxDrop, 3.0),
        None,
        Some(GateSequential::Pocock),
    )
    .unwrap_err();
    refused(&rounds, "gate.rule[0].unit", &["early look"]);
}

#[test]
fn items_decide_where_groups_are_too_few_and_without_them_nothing_is_decided() {
    use crate::stats::gate::{bounded::Range, items::Stratum};
    let grid = grid(&["a"], &[1.0, 2.0]);
    let plain = Rule {
        basis: None,
        ..rule(RuleLimit::new(RuleKind::MaxDrop, 3.0))
    };
    let bound = bound(&gate(vec![plain]), &grid, None).unwrap();
    let rewrites = rewritten(&grid);
    let said = |items: ItemStrata| {
        let everything = Look {
            items: &items,
            ..whole(facts(&rewrites), &[0, 1], 2)
        };
        look(&bound, &grid, &everything, None).encoders[0].rules[0].clone()
    };
    let strata = |drop: f64| {
        let range = Range {
            low: -100.0,
            high: 100.0,
        };
        let one = || Stratum::of_items(&vec![drop; 400], range);
        ItemStrata::from([((0, 0), Ok(vec![one(), one()]))])
    };
    let passed = said(strata(0.0));
    assert_eq!(
        (passed.verdict, passed.units, passed.over),
        (GateVerdict::Pass, 800, Some(Unit::Item))
    );
    assert!(
        passed.note.unwrap().contains("fewer than 6 groups of data sets"),
        "says why"
    );
    assert_eq!(said(strata(9.0)).verdict, GateVerdict::Fail);
    let close = said(strata(2.9));
    assert_eq!(close.verdict, GateVerdict::Undecided);
    assert!(close.remark().contains(" items (now 800)"), "{}", close.remark());
    assert_eq!(said(ItemStrata::new()).verdict, GateVerdict::Undecided);
    let missing = said(ItemStrata::from([((0, 0), Err("d1: no items are kept".to_owned()))]));
    assert_eq!(missing.verdict, GateVerdict::Undecided);
    assert!(missing.note.unwrap().contains("d1: no items are kept"));
}

#[test]
fn a_margin_with_a_value_of_a_fail_has_three_verdicts_over_items() {
    use crate::stats::gate::{bounded::Range, items::Stratum};
    let grid = grid(&["a", "b"], &[1.0, 2.0]);
    let level = Rule {
        fail_at: Some(2.0),
        of: "original".to_owned(),
        ..rule(RuleLimit::new(RuleKind::Margin, 10.0))
    };
    let bound = bound(&gate(vec![level]), &grid, Some(1)).unwrap();
    let rewrites = rewritten(&grid);
    let said = |difference: f64, items: usize| {
        let range = Range {
            low: -100.0,
            high: 100.0,
        };
        let one = || Stratum::of_items(&vec![difference; items], range);
        let items = ItemStrata::from([((0, 0), Ok(vec![one(), one()]))]);
        let everything = Look {
            items: &items,
            ..whole(facts(&rewrites), &[0, 1], 2)
        };
        let report = look(&bound, &grid, &everything, None);
        assert_eq!(report.rules[0].fail_at, Some(2.0));
        report.encoders[0].rules[0].verdict
    };
    assert_eq!(said(0.0, 400), GateVerdict::Pass);
    assert_eq!(said(-1.9, 400), GateVerdict::Pass);
    assert_eq!(said(-4.0, 400), GateVerdict::Fail, "certainly worse by more than 2");
    assert_eq!(said(-4.0, 20), GateVerdict::Undecided);
    assert_eq!(said(40.0, 400), GateVerdict::Pass);
}

#[test]
fn a_value_of_a_fail_is_refused_beyond_the_limit_and_without_bounds_over_items() {
    let with = |fail_at: f64, rule: Rule| Rule {
        fail_at: Some(fail_at),
        ..rule
    };
    let drop = |limit| Rule {
        basis: None,
        ..rule(RuleLimit::new(RuleKind::MaxDrop, limit))
    };
    let beyond = complaint(with(4.0, drop(3.0)));
    refused(&beyond, "gate.rule[0].fail_at", &["4", "0 to 3"]);
    let points = Rule {
        basis: Some(Basis::Point),
        ..drop(3.0)
    };
    for rule in [points, rule(RuleLimit::new(RuleKind::MinSeparation, 0.6))] {
        let value = rule.limit.value;
        refused(&complaint(with(value, rule)), "gate.rule[0].fail_at", &["items"]);
    }
    let grid = grid(&["a", "b"], &[1.0; 8]);
    let margin = with(1.0, rule(RuleLimit::new(RuleKind::Margin, 3.0)));
    let by_group = bound(&gate(vec![margin]), &grid, Some(1)).unwrap_err();
    refused(&by_group, "gate.rule[0].fail_at", &["--no-suite-rules"]);
}

#[test]
fn the_worst_data_set_is_held_against_the_limit_by_itself() {
    let on_points = |limit: f64| Rule {
        basis: Some(Basis::Point),
        ..rule(RuleLimit::new(RuleKind::Worst, limit))
    };
    // The mean drop is 2, one data set drops by 7.
    let drops = [1.0, 1.0, 7.0, 1.0, 1.0, 1.0];
    let told = said(on_points(5.0), &drops);
    assert_eq!((told.verdict, told.estimate), (GateVerdict::Fail, Some(7.0)));
    assert!(told.note.unwrap().starts_with("d2 drops most"));
    assert_eq!(said(on_points(7.0), &drops).verdict, GateVerdict::Pass);
    assert_eq!(
        said(rule(RuleLimit::new(RuleKind::MaxDrop, 5.0)), &drops).estimate,
        Some(1.0),
        "a mean hides it"
    );
    // Members of a group count as one.
    let mut grid = grid(&["a"], &drops);
    grid.groups = ["x", "x", "x", "y", "y", "y"].map(str::to_owned).to_vec();
    let report = all(&gate(vec![on_points(5.0)]), &grid, None);
    let told = &report.encoders[0].rules[0];
    assert_eq!(
        (told.verdict, told.estimate, told.units),
        (GateVerdict::Pass, Some(3.0), 2)
    );
    assert!(told.note.as_ref().unwrap().starts_with("x drops most"), "{told:?}");
}

#[test]
fn the_worst_data_set_has_bounds_over_its_own_items() {
    use crate::stats::gate::items::Stratum;
    let range = crate::stats::gate::bounded::Range {
        low: -100.0,
        high: 100.0,
    };
    let items = |lost: usize| {
        let values: Vec<f64> = (0..200).map(|i| if i < lost { 100.0 } else { 0.0 }).collect();
        Stratum::of_items(&values, range)
    };
    let grid = grid(&["a"], &[0.0; 3]);
    let decide = |lost: [usize; 3]| {
        let bound = bound(&gate(vec![rule(RuleLimit::new(RuleKind::Worst, 10.0))]), &grid, None).unwrap();
        assert_eq!(
            (bound.rules[0].unit, bound.rules[0].basis),
            (Unit::Item, Basis::Bounded)
        );
        let strata = ItemStrata::from([((0, 0), Ok(lost.map(items).to_vec()))]);
        let rewrites = rewritten(&grid);
        let everything = Look {
            items: &strata,
            ..whole(facts(&rewrites), &[0, 1, 2], 2)
        };
        look(&bound, &grid, &everything, None).encoders[0].rules[0].clone()
    };
    assert_eq!(decide([2, 2, 2]).verdict, GateVerdict::Pass);
    let one = decide([2, 60, 2]);
    assert_eq!((one.verdict, one.estimate), (GateVerdict::Fail, Some(30.0)));
    let close = decide([2, 2, 20]);
    assert_eq!(close.verdict, GateVerdict::Undecided);
    assert!(close.note.unwrap().contains("undecided on d2"));
}

#[test]
fn a_worst_rule_takes_no_bounds_over_data_sets() {
    let worst = rule(RuleLimit::new(RuleKind::Worst, 5.0));
    let student = Rule {
        basis: Some(Basis::Student),
        ..worst.clone()
    };
    refused(&complaint(student), "gate.rule[0].basis", &["worst", "items"]);
    let by_group = Rule {
        unit: Some(Unit::Group),
        ..worst.clone()
    };
    refused(&complaint(by_group), "gate.rule[0].unit", &["one group"]);
    // The gate's basis for all rules does not apply to it, except for points.
    let grid = grid(&["a"], &[1.0; 8]);
    let general = |basis| Gate {
        basis: Some(basis),
        unit: Some(Unit::Group),
        ..gate(vec![worst.clone()])
    };
    let of = |basis| {
        let bound = bound(&general(basis), &grid, None).unwrap();
        (bound.rules[0].basis, bound.rules[0].unit)
    };
    assert_eq!(of(Basis::Student), (Basis::Bounded, Unit::Item));
    assert_eq!(of(Basis::Point), (Basis::Point, Unit::Group));
}

#[test]
fn some_of_the_rewrites_are_asked_only_where_that_means_something() {
    let of = |texts, limit| Rule { texts, ..rule(limit) };
    let accepted = complaint(of(Texts::Accepted, RuleLimit::new(RuleKind::MaxDrop, 3.0)));
    refused(&accepted, "gate.rule[0].texts", &["--judge"]);
    let separation = Rule {
        of: "separation".to_owned(),
        basis: None,
        ..of(Texts::Changed, RuleLimit::new(RuleKind::MinSeparation, 0.8))
    };
    refused(&complaint(separation), "gate.rule[0].texts", &["unchanged"]);
    let percent = complaint(of(Texts::Changed, RuleLimit::new(RuleKind::MaxDropPercent, 3.0)));
    refused(&percent, "gate.rule[0].texts", &["use max_drop"]);
    let original = Rule {
        of: "original".to_owned(),
        ..of(Texts::Changed, RuleLimit::new(RuleKind::MinScore, 3.0))
    };
    refused(&complaint(original), "gate.rule[0].texts", &["original"]);
    let rounds = Gate {
        sequential: Some(GateSequential::Pocock),
        ..gate(vec![of(Texts::Changed, RuleLimit::new(RuleKind::MaxDrop, 3.0))])
    };
    let error = bound(&rounds, &grid(&["a"], &[1.0; 8]), None).unwrap_err();
    refused(&error, "gate.rule[0].texts", &["`sequential`"]);
}

#[test]
fn a_rule_on_changed_texts_looks_at_their_scores_and_at_nothing_else() {
    let changed = Rule {
        texts: Texts::Changed,
        ..rule(RuleLimit::new(RuleKind::MaxDrop, 3.0))
    };
    let grid = grid(&["a"], &[0.0; 6]);
    let bound = bound(&gate(vec![changed]), &grid, None).unwrap();
    let rewrites = rewritten(&grid);
    let decide = |subsets: &SubsetScores| {
        let everything = Look {
            subsets,
            ..whole(facts(&rewrites), &[0, 1, 2, 3, 4, 5], 2)
        };
        look(&bound, &grid, &everything, None).encoders[0].rules[0].clone()
    };
    let of = |drop: f64| SubsetScores::from([((0, 0), Ok(vec![vec![drop; 2]; 6]))]);
    assert_eq!(decide(&of(1.0)).verdict, GateVerdict::Pass);
    // All texts together do not drop; the changed texts drop by 9.
    let told = decide(&of(9.0));
    assert_eq!((told.verdict, told.estimate), (GateVerdict::Fail, Some(9.0)));
    let unknown = SubsetScores::from([((0, 0), Err("0 of 9 items have changed texts".to_owned()))]);
    let told = decide(&unknown);
    assert_eq!(told.verdict, GateVerdict::Invalid);
    assert!(told.note.unwrap().contains("0 of 9 items"));
    assert_eq!(decide(&SubsetScores::new()).verdict, GateVerdict::Invalid);
}

#[test]
fn holm_over_encoders_takes_back_passes_that_do_not_hold_together() {
    // Eight data sets: the smallest p-value of the signed-rank test is 1/256 = 0.0039.
    let keeps = [0.0, 0.5, 0.25, 0.75, 0.1, 0.3, 0.6, 0.2];
    // Alone it passes at 0.05, but not at a quarter of it.
    let barely = [3.2, 3.4, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6];
    let names = ["a", "b", "c", "d"];
    let mut scores = grid(&names, &keeps);
    let close = grid(&names, &barely);
    for e in [1, 2, 3] {
        scores.transformed[e].clone_from(&close.transformed[e]);
    }
    let with = |adjust| Gate {
        adjust: Some(adjust),
        ..gate(vec![rule(RuleLimit::new(RuleKind::MaxDrop, 3.0))])
    };
    let verdicts =
        |report: &GateReport| -> Vec<GateVerdict> { report.encoders.iter().map(|one| one.verdict).collect() };
    let alone = all(&with(Adjust::None), &scores, None);
    assert_eq!(verdicts(&alone), [GateVerdict::Pass; 4]);
    let together = all(&with(Adjust::Holm), &scores, None);
    assert_eq!(
        verdicts(&together),
        [
            GateVerdict::Pass,
            GateVerdict::Undecided,
            GateVerdict::Undecided,
            GateVerdict::Undecided
        ]
    );
    assert_eq!(together.encoders[0].rules[0].alpha, 0.05 / 4.0);
    let note = together.encoders[1].rules[0].note.clone().unwrap();
    assert!(
        note.contains("not when 4 encoders are judged together (Holm)"),
        "{note}"
    );
    // A single encoder is not adjusted; a rule that fails by itself fails.
    let single = all(&with(Adjust::Holm), &grid(&["a"], &barely), None);
    assert_eq!(verdicts(&single), [GateVerdict::Pass]);
    let failing = all(&with(Adjust::Holm), &grid(&["a", "b"], &[9.0; 8]), None);
    assert_eq!(verdicts(&failing), [GateVerdict::Fail; 2]);
    let rounds = Gate {
        sequential: Some(GateSequential::Pocock),
        ..with(Adjust::Holm)
    };
    refused(
        &bound(&rounds, &grid(&["a"], &keeps), None).unwrap_err(),
        "gate.adjust",
        &[],
    );
}

#[test]
fn ratings_after_the_rounds_take_decisions_back() {
    let grid = grid(&["a"], &[0.0; 8]);
    let keeps = gate(vec![rule(RuleLimit::new(RuleKind::MaxDrop, 3.0))]);
    let bound = bound(&keeps, &grid, None).unwrap();
    let rewrites = rewritten(&grid);
    let rated = |accepted: u64| vec![vec![vec![RatingCounts { rated: 10, accepted }; 2]; 3]; 8];
    let after = |ratings: &RatedCounts| {
        let mut report = all(&keeps, &grid, None);
        assert_eq!(report.verdict, GateVerdict::Pass);
        let facts = Facts {
            ratings: Some(ratings),
            ..facts(&rewrites)
        };
        let run = RatedRun {
            grid: &grid,
            facts: &facts,
            datasets: &(0..8).map(Some).collect::<Vec<_>>(),
            seeds: 2,
        };
        apply_ratings(&bound, &mut report, &run);
        (report.verdict, report.blocked)
    };
    assert_eq!(after(&rated(10)), (GateVerdict::Pass, false));
    assert_eq!(after(&rated(2)), (GateVerdict::Invalid, true));
}

#[test]
fn a_rule_that_cannot_be_decided_is_invalid_where_nothing_was_rewritten() {
    let by_items = Rule {
        basis: Some(Basis::Bounded),
        unit: Some(Unit::Item),
        ..rule(RuleLimit::new(RuleKind::MaxDrop, 3.0))
    };
    let warned = Gate {
        undecided: Some(OnUndecided::Warn),
        ..gate(vec![by_items])
    };
    let grid = grid(&["a"], &[0.0; 2]);
    let bound = bound(&warned, &grid, None).unwrap();
    let items = ItemStrata::from([((0, 0), Err("its score is undefined".to_owned()))]);
    let decide = |rewrites: &RewriteCounts| {
        let everything = Look {
            items: &items,
            ..whole(facts(rewrites), &[0, 1], 2)
        };
        let report = look(&bound, &grid, &everything, None);
        (report.verdict, report.blocked)
    };
    let mut rewrites = rewritten(&grid);
    assert_eq!(decide(&rewrites), (GateVerdict::Undecided, false));
    for cell in rewrites.iter_mut().flatten().flatten() {
        cell.unchanged = 5;
    }
    assert_eq!(decide(&rewrites), (GateVerdict::Invalid, true));
}

#[test]
fn a_drop_from_a_score_at_chance_level_is_invalid_and_a_floor_is_not() {
    let grid = grid(&["a"], &[1.0, 2.0, 1.5, 1.0, 2.0, 1.5]);
    let chance = |at_least, at_most| Chance {
        permutations: 999,
        at_least,
        at_most,
    };
    let floor = rule(RuleLimit::new(RuleKind::MinScore, 50.0));
    let gate = gate(vec![rule(RuleLimit::new(RuleKind::MaxDrop, 10.0)), floor]);
    let bound = bound(&gate, &grid, None).unwrap();
    let rewrites = rewritten(&grid);
    let said = |of_d1: Chance| {
        let level = |chance: Chance| chance.level(bound.alpha);
        let levels = ChanceLevels::from([((0, 0), level(chance(0, 999))), ((0, 1), level(of_d1))]);
        let facts = Facts {
            levels: &levels,
            ..facts(&rewrites)
        };
        let report = look(&bound, &grid, &whole(facts, &[0, 1, 2, 3, 4, 5], 2), None);
        let [drop, floor] = report.encoders[0].rules.as_slice() else {
            panic!("{report:?}")
        };
        assert_eq!(floor.verdict, GateVerdict::Pass);
        (drop.verdict, drop.note.clone().unwrap_or_default())
    };
    let (verdict, note) = said(chance(49, 950));
    assert_ne!(verdict, GateVerdict::Invalid, "p = 0.05 is above chance: {note}");
    let (verdict, note) = said(chance(50, 950));
    assert_eq!(verdict, GateVerdict::Invalid);
    assert!(note.contains("at chance level") && note.contains("d1 (80.0)"), "{note}");
    let (verdict, note) = said(chance(999, 3));
    assert_eq!(verdict, GateVerdict::Invalid);
    assert!(note.contains("inverted") && note.contains("d1 (80.0)"), "{note}");
}

#[test]
fn a_rule_for_runs_with_a_baseline_is_left_out_of_others() {
    let level = Rule {
        when: When::Baseline,
        of: "original".to_owned(),
        ..rule(RuleLimit::new(RuleKind::Margin, 5.0))
    };
    let rules = |gate: &Gate, encoders: &[&str], baseline| {
        let grid = grid(encoders, &[1.0, 2.0, 1.5]);
        let subjects = RunSubjects {
            encoders: &grid.encoders,
            forms: &[],
            baseline,
            transformations: &RUN.map(|(label, name, axis)| RunTransformation {
                label: label.to_owned(),
                name,
                axis,
            }),
            datasets: Some(
                &grid
                    .datasets
                    .iter()
                    .map(|name| DatasetTask {
                        name: name.clone(),
                        task: TaskType::Sts,
                    })
                    .collect::<Vec<_>>(),
            ),
            groups: &grid.groups,
            rated: false,
        };
        bind(gate, &subjects).unwrap().map_or(0, |bound| bound.rules.len())
    };
    let both = gate(vec![rule(RuleLimit::new(RuleKind::MinScore, 50.0)), level.clone()]);
    assert_eq!(rules(&both, &["a", "b"], Some(1)), 2);
    assert_eq!(rules(&both, &["a", "b"], None), 1);
    assert_eq!(rules(&both, &["a"], Some(0)), 1, "the baseline alone");
    assert_eq!(
        rules(&gate(vec![level]), &["a"], None),
        0,
        "without rules there is no gate"
    );
}

#[test]
fn a_margin_counts_items_if_asked_or_if_groups_are_few() {
    let units = |margin: Rule, drops: usize, general: Option<Unit>| {
        let grid = grid(&["a", "b"], &vec![1.0; drops]);
        let gate = Gate {
            unit: general,
            ..gate(vec![margin])
        };
        let bound = bound(&gate, &grid, Some(1)).unwrap();
        (bound.rules[0].unit, bound.rules[0].basis)
    };
    let margin = rule(RuleLimit::new(RuleKind::Margin, 5.0));
    let (items, groups) = ((Unit::Item, Basis::Bounded), (Unit::Group, Basis::SignedRank));
    assert_eq!(units(margin.clone(), 3, None), items);
    assert_eq!(units(margin.clone(), 8, None), groups);
    assert_eq!(units(margin.clone(), 8, Some(Unit::Item)), items);
    let own = |unit| Rule {
        unit: Some(unit),
        ..margin.clone()
    };
    assert_eq!(units(own(Unit::Item), 8, None), items);
    assert_eq!(units(own(Unit::Group), 8, Some(Unit::Item)), groups);
    let points = Rule {
        basis: Some(Basis::Point),
        ..margin.clone()
    };
    assert_eq!(units(points, 3, None), (Unit::Group, Basis::Point));
}

#[test]
fn an_encoder_at_chance_level_may_fail_a_margin_but_not_pass_it() {
    let grid = beside(&[-20.0; 6]);
    let rewrites = rewritten(&grid);
    let levels: ChanceLevels = (0..6).map(|dataset| ((1, dataset), ChanceLevel::At)).collect();
    let said = |margin: f64| {
        let rule = Rule {
            of: "original".to_owned(),
            ..rule(RuleLimit::new(RuleKind::Margin, margin))
        };
        let bound = bound(&gate(vec![rule]), &grid, Some(0)).unwrap();
        let facts = Facts {
            levels: &levels,
            ..facts(&rewrites)
        };
        look(&bound, &grid, &whole(facts, &[0, 1, 2, 3, 4, 5], 2), None).encoders[0].rules[0].verdict
    };
    assert_eq!(said(5.0), GateVerdict::Fail);
    assert_eq!(said(50.0), GateVerdict::Invalid);
}
