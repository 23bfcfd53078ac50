//! One look: decides every rule of every encoder on the scores so far.

use super::{
    Adjust, Basis, Measure, OnUndecided, Unit, ValidityLimit,
    adjust::{self, Level},
    bets,
    bound::{BoundGate, BoundRule, Quantity},
    look::{Look, RuleCase},
    observe::{observations, range},
    sensitivity,
    spec::{bounds, refused},
    validity::{ChanceDatasets, CoveredTexts, Facts, Shares, shares},
    worst,
};
use crate::{
    profile::Grid,
    report::{EncoderVerdict, GateReport, GateRule, GateVerdict, RuleVerdict},
    stats::{
        self,
        gate::{
            items::decide_items,
            non_inferiority::{Comparison, NonInferiority, non_inferiority},
            rule::{Decision, Rule, decide},
        },
    },
};

/// Makes a look. It does not change decisions of an earlier look.
pub(crate) fn look(gate: &BoundGate, grid: &Grid, look: &Look<'_>, earlier: Option<GateReport>) -> GateReport {
    let tests = tests(gate, grid, look);
    let mut encoders: Vec<EncoderVerdict> = gate
        .judged
        .iter()
        .map(|&encoder| {
            let before = earlier.as_ref().and_then(|report| {
                let name = &grid.encoders[encoder];
                report.encoders.iter().find(|own| own.encoder == *name)
            });
            let rules = RuleCase::all(gate, grid, look, encoder).map(|case| {
                let decided = before.and_then(|own| own.rules.get(case.position));
                match decided.filter(|own| own.verdict.is_decided()) {
                    Some(decided) => decided.clone(),
                    None => decide_rule(case, Level(look.alpha), tests.get(&case.key())),
                }
            });
            EncoderVerdict {
                encoder: grid.encoders[encoder].clone(),
                verdict: GateVerdict::Undecided,
                rules: rules.collect(),
                attempts: None,
            }
        })
        .collect();
    if gate.adjust == Adjust::Holm {
        adjust::over_encoders(&mut encoders, look.alpha, |position, level| {
            let cases = RuleCase::all(gate, grid, look, gate.judged[position]);
            cases
                .map(|case| decide_rule(case, level, tests.get(&case.key())))
                .collect()
        });
    }
    let mut report = GateReport {
        verdict: GateVerdict::Undecided,
        blocked: true,
        undecided: gate.undecided,
        alpha: gate.alpha,
        adjust: gate.adjust,
        max_unchanged: gate
            .rules
            .iter()
            .map(|rule| rule.limits.of(ValidityLimit::MaxUnchanged))
            .reduce(f64::max),
        rewrites_rated: None,
        ratings_refused: None,
        unit: counted(gate, grid),
        baseline: gate.baseline.map(|baseline| grid.encoders[baseline].clone()),
        rules: gate.rules.iter().map(|rule| described(rule, grid)).collect(),
        encoders,
        sequential: None,
    };
    conclude(gate, &mut report);
    report
}

/// Describes the units of the rules on scores.
fn counted(gate: &BoundGate, grid: &Grid) -> String {
    let groups = if grid.members().len() == grid.datasets.len() {
        "data sets, seeds averaged first"
    } else {
        "groups of data sets, members and seeds averaged first"
    };
    let items = "items, seeds averaged first; those that share a text count once";
    let rules = gate.rules.iter();
    let mut units = rules
        .filter(|rule| !matches!(rule.quantity, Quantity::Separation(_)))
        .map(|rule| rule.unit);
    match (
        units.clone().any(|unit| unit == Unit::Item),
        units.any(|unit| unit == Unit::Group),
    ) {
        (true, true) => format!("{groups}, or, where a rule is about other items, {items}"),
        (true, false) => items.to_owned(),
        (false, _) => groups.to_owned(),
    }
}

fn described(rule: &BoundRule, grid: &Grid) -> GateRule {
    GateRule {
        title: rule.title.clone(),
        kind: rule.rule.limit.kind,
        limit: rule.rule.limit.value,
        fail_at: rule.rule.fail_at,
        unit: rule.rule.limit.measure().row().unit.name().to_owned(),
        of: rule.rule.of.clone(),
        task: rule.rule.task,
        dataset: rule.rule.dataset.clone(),
        form: rule.rule.form.clone(),
        datasets: rule.datasets.iter().map(|d| grid.datasets[*d].clone()).collect(),
        basis: rule.basis,
        over: Some(rule.unit),
        texts: rule.rule.texts,
        max_unchanged: Some(rule.limits.of(ValidityLimit::MaxUnchanged)),
        max_near_copies: Some(rule.limits.of(ValidityLimit::MaxNearCopies)),
        max_cut: Some(rule.limits.of(ValidityLimit::MaxCut)),
        max_shared: Some(rule.limits.of(ValidityLimit::MaxShared)),
        min_accepted: Some(rule.limits.of(ValidityLimit::MinAccepted)),
        validity: ValidityLimit::ALL
            .map(|limit| (limit.name().to_owned(), rule.limits.of(limit)))
            .into(),
        origin: rule.rule.place.origin.clone(),
    }
}

/// A test against the baseline, by encoder and rule.
type Tests = std::collections::BTreeMap<(usize, usize), NonInferiority>;

/// All tests against the baseline, which form one family for Holm's adjustment. Rules without
/// numbers are not members.
fn tests(gate: &BoundGate, grid: &Grid, look: &Look<'_>) -> Tests {
    let mut members = Vec::new();
    let mut comparisons = Vec::new();
    for &encoder in &gate.judged {
        let is_test = |case: &RuleCase<'_>| case.rule.is_test() && case.rule.encoders.contains(&encoder);
        for case in RuleCase::all(gate, grid, look, encoder).filter(is_test) {
            let Ok(series) = observations(case, &case.datasets()) else {
                continue;
            };
            let differences: Option<Vec<f64>> = series.iter().map(|seeds| stats::mean(seeds)).collect();
            if let Some(differences) = differences.filter(|differences| !differences.is_empty()) {
                members.push(case.key());
                comparisons.push(Comparison {
                    differences,
                    margin: case.rule.rule.limit.value,
                });
            }
        }
    }
    match non_inferiority(&comparisons, look.alpha) {
        Ok(found) => members.into_iter().zip(found).collect(),
        // Numbers, margins and alpha were validated above, so this does not happen. A rule without
        // its test is undecided.
        Err(error) => {
            tracing::error!(%error, "cannot test against the baseline; the rules are undecided");
            Tests::new()
        }
    }
}

fn decide_rule(case: RuleCase<'_>, Level(alpha): Level, test: Option<&NonInferiority>) -> RuleVerdict {
    let (look, encoder, rule) = (case.look, case.encoder, case.rule);
    if !rule.encoders.contains(&encoder) {
        return not_applicable(rule);
    }
    let own = case.datasets();
    let mut verdict = RuleVerdict {
        units: own.len(),
        seeds: look.seeds,
        alpha,
        round: look.round,
        ..RuleVerdict::default()
    };
    if own.is_empty() {
        verdict.note = Some("none of its data sets has results yet".to_owned());
        return verdict;
    }
    if matches!(rule.quantity, Quantity::Separation(_)) {
        verdict.alpha = alpha / look.shared_by.max(1) as f64;
        let verdict = sensitivity::decide(rule, look.separation.get(&case.key()), verdict);
        return valid(verdict, case, &own);
    }
    if rule.rule.limit.paired().is_some() {
        verdict.over = Some(rule.unit);
        match over_items(case, alpha) {
            Ok((decision, said)) => fill(&mut verdict, decision, said, rule),
            Err(why) => verdict.note = Some(why),
        }
        return valid(verdict, case, &own);
    }
    let series = match observations(case, &own) {
        Ok(series) => series,
        Err(why) => {
            (verdict.verdict, verdict.note) = (GateVerdict::Invalid, Some(why));
            return verdict;
        }
    };
    (verdict.units, verdict.seeds) = (series.len(), series.first().map_or(0, Vec::len));
    verdict.over = Some(rule.unit);
    if rule.is_worst() {
        let verdict = worst::decide(case, &series, verdict);
        return valid(verdict, case, &own);
    }
    let decision = match rule.unit {
        Unit::Group => {
            let held = Rule {
                limit: rule.rule.limit.held(),
                basis: bounds(rule.basis, range(rule, case.grid, encoder, &own)),
                alpha,
            };
            decide(&held, &series).map(plain).map_err(|error| refused(&error))
        }
        Unit::Item if rule.basis == Basis::Betting => {
            bets::decide(rule, alpha, look.sequences.get(&case.key())).map(|(decision, said)| (decision, Some(said)))
        }
        Unit::Item => over_items(case, alpha),
    };
    match decision {
        Ok((decision, said)) => fill(&mut verdict, decision, said, rule),
        Err(why) => {
            // The rule is undecided, but if its texts were not rewritten, it is invalid.
            verdict.note = Some(why);
            return valid(verdict, case, &own);
        }
    }
    if rule.is_test() {
        tested(&mut verdict, test, case.gate);
    }
    valid(verdict, case, &own)
}

/// The verdict of a rule on an encoder to which it does not apply: it does not fail the encoder.
fn not_applicable(rule: &BoundRule) -> RuleVerdict {
    let why = match &rule.rule.form {
        Some(form) => format!("the rule is about the form {form}"),
        None => "a search has no separation".to_owned(),
    };
    RuleVerdict {
        verdict: GateVerdict::Pass,
        not_applicable: true,
        note: Some(why),
        ..RuleVerdict::default()
    }
}

fn over_items(case: RuleCase<'_>, alpha: f64) -> Result<(Decision, Option<String>), String> {
    match case.look.items.get(&case.key()) {
        Some(Ok(strata)) => decide_items(case.rule.rule.held(), alpha, strata)
            .map(plain)
            .map_err(|error| refused(&error)),
        Some(Err(why)) => Err(format!("no decision over items is possible: {why}")),
        None => Err("no decision over items is possible: the items are not known".to_owned()),
    }
}

/// The verdict, or invalid if the texts or the original scores do not allow a decision.
fn valid(mut verdict: RuleVerdict, case: RuleCase<'_>, datasets: &[usize]) -> RuleVerdict {
    let covered = CoveredTexts {
        facts: &case.look.facts,
        datasets,
        seeds: case.look.seeds,
    };
    validate(&mut verdict, case.rule, case.encoder, case.grid, covered);
    verdict
}

/// Records the shares of the texts that a rule covers, and makes its verdict invalid if they or the
/// original scores do not allow a decision.
fn validate(verdict: &mut RuleVerdict, rule: &BoundRule, encoder: usize, grid: &Grid, covered: CoveredTexts<'_>) {
    let mut shares: Shares = shares(rule, encoder, &grid.columns, covered);
    let separation = matches!(rule.quantity, Quantity::Separation(_));
    let limits = covered.facts.limits(rule, encoder);
    // An encoder at chance level, or one that cuts its texts, may well be worse than its baseline.
    let worse = rule.rule.limit.measure() == Measure::Difference && verdict.verdict == GateVerdict::Fail;
    let why = shares.invalid(limits, separation, worse);
    let at_chance = ChanceDatasets::of(rule, encoder, grid, covered);
    verdict.rewrites = shares.report().filter(|_| !separation);
    shares
        .known
        .extend(at_chance.share().map(|share| (ValidityLimit::MaxAtChance, share)));
    let named = shares.known.iter();
    verdict.shares = named.map(|(limit, share)| (limit.name().to_owned(), *share)).collect();
    let at_chance = at_chance.invalid(limits).filter(|_| !worse);
    invalidate(verdict, why.or(at_chance));
}

/// Makes a verdict invalid if there is a reason. The estimate and its bounds remain visible, but
/// they decide nothing, not even a failure.
fn invalidate(verdict: &mut RuleVerdict, why: Option<String>) {
    let Some(why) = why else { return };
    (verdict.verdict, verdict.note) = (GateVerdict::Invalid, Some(why));
    (verdict.units_needed, verdict.seeds_needed) = (None, None);
}

/// The complete results of a run, with ratings that were made after the decisions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RatedRun<'a> {
    pub grid: &'a Grid,
    pub facts: &'a Facts<'a>,
    /// Position in the grid of each data set of the rules; `None` if the grid does not contain it.
    pub datasets: &'a [Option<usize>],
    /// Number of seeds with results.
    pub seeds: usize,
}

/// Checks decisions made in rounds against ratings that were made later.
pub(crate) fn apply_ratings(gate: &BoundGate, report: &mut GateReport, run: &RatedRun<'_>) {
    for (one, &encoder) in report.encoders.iter_mut().zip(&gate.judged) {
        for (verdict, rule) in one.rules.iter_mut().zip(&gate.rules) {
            let own = rule.datasets.iter();
            let own: Vec<usize> = own.filter_map(|d| run.datasets.get(*d).copied().flatten()).collect();
            if verdict.verdict != GateVerdict::Invalid && !verdict.not_applicable {
                let covered = CoveredTexts {
                    facts: run.facts,
                    datasets: &own,
                    seeds: run.seeds,
                };
                validate(verdict, rule, encoder, run.grid, covered);
            }
        }
    }
    conclude(gate, report);
}

/// Sets the verdicts of the encoders and of the gate.
fn conclude(gate: &BoundGate, report: &mut GateReport) {
    for one in &mut report.encoders {
        one.verdict = GateVerdict::of_all(one.rules.iter().map(|rule| rule.verdict));
    }
    report.verdict = GateVerdict::of_all(report.encoders.iter().map(|one| one.verdict));
    report.blocked = match report.verdict {
        GateVerdict::Pass => false,
        GateVerdict::Undecided => gate.undecided != OnUndecided::Warn,
        GateVerdict::Invalid | GateVerdict::Fail => true,
    };
}

/// A decision whose own note is used.
fn plain(decision: Decision) -> (Decision, Option<String>) {
    (decision, None)
}

/// Fills in a verdict. `said` is a note that replaces the decision's own.
fn fill(verdict: &mut RuleVerdict, decision: Decision, said: Option<String>, rule: &BoundRule) {
    verdict.verdict = decision.verdict.into();
    verdict.estimate = Some(decision.estimate);
    (verdict.low, verdict.high) = (decision.low, decision.high);
    let ends = [decision.low, decision.high];
    if ends.iter().flatten().any(|end| !end.is_finite()) {
        // At a very small share of alpha a bound may be infinite, which decides nothing.
        (verdict.low, verdict.high, verdict.verdict) = (None, None, GateVerdict::Undecided);
        verdict.note = Some(format!("there is no bound at a chance of error of {:e}", verdict.alpha));
        return;
    }
    if let Some(need) = decision.need {
        (verdict.units_needed, verdict.seeds_needed) = (need.units, need.seeds);
    }
    if rule.unit == Unit::Item {
        verdict.units = decision.units;
        let why = if rule.unit_by_default {
            format!(
                "fewer than {} groups of data sets, so the unit is the item: ",
                Unit::FEWEST_GROUPS
            )
        } else {
            String::new()
        };
        let note = said.or_else(|| Some(decision.note?.in_words("item", "items")));
        let note = note.map(|note| format!("; {note}")).unwrap_or_default();
        verdict.note = Some(format!("{why}{}{note}", Unit::Item.words()));
        return;
    }
    let basis = rule.basis;
    verdict.note = match (decision.units, verdict.verdict) {
        (1, GateVerdict::Undecided) => {
            let least = verdict.units_needed.unwrap_or(2);
            Some(format!(
                "one data set only: bounds over data sets are impossible; {least} or more are needed, or basis = \"point\""
            ))
        }
        _ => decision.note.map(|note| note.in_words("data set", "data sets")),
    };
    if basis == Basis::Bootstrap && decision.units < 20 && decision.units > 1 {
        let warning = "bootstrap bounds are too narrow with fewer than about 20 data sets";
        verdict.note = Some(match verdict.note.take() {
            Some(note) => format!("{note}; {warning}"),
            None => warning.to_owned(),
        });
    }
}

/// The Holm-adjusted test decides, not the bounds, which are those of this rule alone.
fn tested(verdict: &mut RuleVerdict, test: Option<&NonInferiority>, gate: &BoundGate) {
    let Some(test) = test else {
        verdict.verdict = GateVerdict::Undecided;
        verdict.note = Some("the test against the baseline could not be made".to_owned());
        return;
    };
    verdict.estimate = Some(test.shift);
    (verdict.p_value, verdict.p_holm) = (test.p_value, test.p_holm);
    let bounds = verdict.verdict;
    verdict.verdict = test.verdict.into();
    if verdict.verdict != GateVerdict::Undecided {
        (verdict.units_needed, verdict.seeds_needed, verdict.note) = (None, None, None);
        return;
    }
    verdict.note = Some(match (&test.note, bounds) {
        (Some(note), _) => note.clone(),
        (None, GateVerdict::Undecided) => "the bounds straddle the margin".to_owned(),
        (None, _) => {
            let tests = gate.rules.iter().filter(|rule| rule.is_test());
            let family: usize = tests.map(|rule| rule.encoders.len()).sum();
            format!("its own bounds would decide, but the test adjusted for all {family} comparisons (Holm) does not")
        }
    });
}
