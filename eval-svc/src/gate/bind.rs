//! Binds rules to the encoders, transformations and data sets of a run.

use std::collections::{BTreeSet, HashSet};

use isomer_config::spelling::{nearest, suggest};
use isomer_proto::eval::v1::GateSequential;
use isomer_transformations::declaration;

use super::{
    Adjust, Basis, Gate, GateError, Measure, Rule, RuleKind, Texts, Unit, When, bets,
    bound::{BoundGate, BoundRule, DatasetTask, Quantity, RuleBounds, best},
    paired, sensitivity,
    spec::check_alpha,
};
use crate::{
    form::Form,
    profile::Axis,
    stats::gate::bounded::{Range, least_units},
    task::TaskType,
};

#[derive(Debug, Clone)]
pub(crate) struct RunTransformation {
    /// The transformation's name with parameters.
    pub label: String,
    /// The transformation's name without parameters.
    pub name: &'static str,
    /// The transformation's axis.
    pub axis: Axis,
}

/// The form of an encoder of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EncoderForm {
    /// As it is spelt; [`EncoderForm::NONE`] for vectors as the encoder returns them.
    pub name: String,
    /// Whether documents are not found by vectors alone, so that the vectors say nothing about it.
    pub is_search: bool,
}

impl EncoderForm {
    /// The name of no form.
    pub(crate) const NONE: &str = "dense";
}

/// The encoders, transformations and data sets of a run.
#[derive(Debug, Clone)]
pub(crate) struct RunSubjects<'a> {
    /// Encoders, in order.
    pub encoders: &'a [String],
    /// The form of each encoder; empty: none has one.
    pub forms: &'a [EncoderForm],
    /// Position of the encoder that others are compared with.
    pub baseline: Option<usize>,
    /// Transformations, in order.
    pub transformations: &'a [RunTransformation],
    /// Names and kinds of the data sets; `None` before they are loaded: then the data sets of rules
    /// are not checked.
    pub datasets: Option<&'a [DatasetTask]>,
    /// The group of each data set; empty: each is a group of its own.
    pub groups: &'a [String],
    /// Whether a judge rates how similar the rewrites are.
    pub rated: bool,
}

/// Binds a gate; `None` if it has no rules.
///
/// # Errors
/// The first invalid rule, with its place and the nearest valid name.
pub(crate) fn bind(gate: &Gate, subjects: &RunSubjects<'_>) -> Result<Option<BoundGate>, GateError> {
    let alpha = gate.alpha.unwrap_or(Gate::ALPHA);
    let general = super::RuleLocation {
        origin: String::new(),
        field: "gate".to_owned(),
    };
    check_alpha(alpha).map_err(|message| general.wrong("alpha", message))?;
    gate.limits
        .check()
        .map_err(|(key, message)| general.wrong(key, message))?;
    let sequential = gate.sequential.unwrap_or(GateSequential::Off);
    if gate.rules.is_empty() {
        return if sequential == GateSequential::Off {
            Ok(None)
        } else {
            Err(general.wrong(
                "sequential",
                "there is no rule to decide, so nothing would end the run early; add a rule, e.g. max_drop = 3",
            ))
        };
    }
    let adjust = gate.adjust.unwrap_or_default();
    if adjust == Adjust::Holm && sequential != GateSequential::Off {
        let message = "needs a single look at all results, and an early look does not have them; leave `adjust` or `sequential` out";
        return Err(general.wrong("adjust", message));
    }
    let compared = subjects.baseline.is_some() && subjects.encoders.len() > 1;
    let rules: Vec<BoundRule> = gate
        .rules
        .iter()
        .filter(|rule| compared || rule.when == When::Always)
        .map(|rule| bound(rule, gate, subjects))
        .collect::<Result<_, _>>()?;
    if rules.is_empty() {
        return Ok(None);
    }
    let judged = judged(subjects).filter(|e| rules.iter().any(|rule| rule.encoders.contains(e)));
    let judged = judged.collect();
    for (i, one) in rules.iter().enumerate() {
        if rules[..i].iter().any(|earlier| earlier.title == one.title) {
            let message = format!(
                "another rule is called \"{}\" too; give each rule its own name",
                one.title
            );
            return Err(one.rule.place.wrong("", message));
        }
        let why = match one.basis {
            // Rules with bets were validated individually above.
            _ if matches!(sequential, GateSequential::Off | GateSequential::Betting) => continue,
            _ if one.rule.texts != Texts::All => {
                let message = format!(
                    "is \"{}\", which needs all results, and an early look does not have them; leave `sequential` out",
                    one.rule.texts.name()
                );
                return Err(one.rule.place.wrong("texts", message));
            }
            _ if one.is_worst() => {
                let message = "is about each data set by itself, and an early look does not have all of them; leave `sequential` out";
                return Err(one.rule.place.wrong("worst", message));
            }
            _ if one.unit == Unit::Item => {
                let message = "is \"item\": it is about these data sets, and an early look does not have all of them; name basis = \"signed-rank\" (or \
                               \"student\") for bounds over groups, leave `sequential` out, or leave the suite's rules out with --no-suite-rules";
                return Err(one.rule.place.wrong("unit", message));
            }
            Basis::Bounded | Basis::SignedRank | Basis::Student | Basis::ClopperPearson | Basis::Betting => continue,
            Basis::StudentisedBootstrap => "resamples do not reach the small share of alpha that an early look has",
            Basis::Point => "points say nothing about chance, so no early look can decide this rule",
            Basis::Bootstrap => "percentiles of resamples do not reach the small share of alpha that an early look has",
        };
        let message = format!("{why}: use basis = \"signed-rank\" (or \"student\"), or leave `sequential` out");
        return Err(one.rule.place.wrong("basis", message));
    }
    let bound = BoundGate {
        rules,
        alpha,
        undecided: gate.undecided.unwrap_or_default(),
        sequential,
        adjust,
        judged,
        baseline: subjects.baseline,
    };
    match subjects.datasets.and_then(|_| undecidable(&bound)) {
        Some(error) => Err(error),
        None => Ok(Some(bound)),
    }
}

/// Positions of the encoders that are judged.
fn judged(subjects: &RunSubjects<'_>) -> impl Iterator<Item = usize> {
    let all = 0..subjects.encoders.len();
    all.filter(|e| subjects.baseline != Some(*e) || subjects.encoders.len() == 1)
}

/// The judged encoders to which a rule applies.
fn encoders_of(rule: &Rule, subjects: &RunSubjects<'_>) -> Result<Vec<usize>, GateError> {
    let separation = rule.limit.measure() == Measure::Separation;
    let named = rule.form.as_ref().map(|form| canonical(form));
    let applies = |e: &usize| {
        let form = subjects.forms.get(*e);
        let name = form.map_or(EncoderForm::NONE, |form| &form.name);
        let searched = form.is_some_and(|form| form.is_search);
        named.as_ref().is_none_or(|named| name == named) && !(separation && searched)
    };
    let encoders: Vec<usize> = judged(subjects).filter(applies).collect();
    match &rule.form {
        Some(form) if encoders.is_empty() => {
            let known: BTreeSet<&str> = subjects.forms.iter().map(|form| form.name.as_str()).collect();
            let known: Vec<&str> = known.into_iter().collect();
            let message = format!(
                "no judged encoder is in the form `{form}`, or the rule cannot be about it; forms of the run: {}; add one with \
                 --form",
                known.join(", ")
            );
            Err(rule.place.wrong("form", message))
        }
        _ => Ok(encoders),
    }
}

/// The spelling of a form in a run.
fn canonical(form: &str) -> String {
    form.parse::<Form>()
        .map_or_else(|_| form.to_owned(), |form| form.to_string())
}

fn bound(rule: &Rule, gate: &Gate, subjects: &RunSubjects<'_>) -> Result<BoundRule, GateError> {
    let wrong = |key: &str, message: String| rule.place.wrong(key, message);
    rule.limit
        .check()
        .map_err(|message| wrong(rule.limit.kind.name(), message))?;
    rule.limit
        .check_fail_at(rule.fail_at)
        .map_err(|message| wrong("fail_at", message))?;
    rule.limits.check().map_err(|(key, message)| wrong(key, message))?;
    let basis = rule.basis_with(gate.basis);
    if rule.limit.measure() == Measure::Separation && rule.basis.is_some() {
        let message = "is for rules on scores; min_separation has Clopper-Pearson bounds over texts: leave `basis` out";
        return Err(wrong("basis", message.to_owned()));
    }
    if rule.limit.kind.row().each_dataset && !matches!(basis, Basis::Bounded | Basis::Point) {
        let message = format!(
            "is {}; worst has bounds over the items of each data set: leave `basis` out, or use \"point\"",
            basis.name()
        );
        return Err(wrong("basis", message));
    }
    check_texts(rule, subjects)?;
    if let Some(what) = rule.limit.paired() {
        paired::check(rule, what, basis)?;
    }
    if rule.limit.measure() == Measure::Difference && matches!(basis, Basis::Student | Basis::Bootstrap) {
        let message = format!(
            "is {}; a margin is tested by the signed-rank test, Holm-adjusted over rules and encoders: use \
             \"signed-rank\", or \"point\"",
            basis.name()
        );
        return Err(wrong("basis", message));
    }
    if rule.limit.measure().row().needs_baseline {
        let key = rule.limit.kind.name();
        if subjects.baseline.is_none() {
            let message = "compares with a baseline encoder and none is named: add --baseline ID, or baseline = \"ID\" to \
                           the suite";
            return Err(wrong(key, message.to_owned()));
        }
        if subjects.encoders.len() < 2 {
            let message = "the baseline is the only encoder of the run; name the encoders to compare with it";
            return Err(wrong(key, message.to_owned()));
        }
    }
    let datasets = match subjects.datasets {
        Some(datasets) => select(rule, datasets)?,
        None => Vec::new(),
    };
    if let (Some(what), Some(all)) = (rule.limit.paired(), subjects.datasets) {
        paired::check_tasks(rule, what, datasets.iter().map(|d| &all[*d]))?;
    }
    let groups: HashSet<&str> = datasets
        .iter()
        .filter_map(|d| subjects.groups.get(*d))
        .map(String::as_str)
        .collect();
    let units = if subjects.groups.is_empty() {
        datasets.len()
    } else {
        groups.len()
    };
    let named = rule.unit.or(gate.unit);
    let basis = match rule.basis {
        None if has_items(
            rule,
            gate,
            basis,
            subjects.datasets.is_some() && units < Unit::FEWEST_GROUPS,
        ) =>
        {
            Basis::Bounded
        }
        _ => basis,
    };
    let unit = unit(rule, basis, named, units, subjects.datasets.is_some())?;
    let bounds = RuleBounds { basis, unit };
    let RuleBounds { basis, unit } = if gate.sequential == Some(GateSequential::Betting) {
        let tasks = subjects
            .datasets
            .map(|all| datasets.iter().map(|d| all[*d].task).collect::<Vec<_>>());
        bets::bound(rule, bounds, tasks.as_deref())?
    } else {
        bounds
    };
    if rule.fail_at.is_some() && (basis, unit) != (Basis::Bounded, Unit::Item) {
        let message = "needs bounds over the items of one look: use unit = \"item\" on the basis \"bounded\" and leave \
                       `sequential` out, leave `fail_at` out, or leave the suite's rules out with --no-suite-rules";
        return Err(wrong("fail_at", message.to_owned()));
    }
    Ok(BoundRule {
        quantity: quantity(rule, subjects.transformations)?,
        encoders: encoders_of(rule, subjects)?,
        units,
        unit,
        unit_by_default: named.is_none() && rule.limit.paired().is_none(),
        datasets,
        title: rule.title(),
        basis,
        limits: rule.limits.or(gate.limits).settled(),
        rule: rule.clone(),
    })
}

/// Whether a margin without a basis is decided over items, because the signed-rank test needs
/// groups.
fn has_items(rule: &Rule, gate: &Gate, basis: Basis, few_groups: bool) -> bool {
    let one_look = gate.sequential.unwrap_or(GateSequential::Off) == GateSequential::Off;
    rule.limit.measure() == Measure::Difference
        && basis == Basis::SignedRank
        && rule.texts == Texts::All
        && match rule.unit.or(gate.unit) {
            Some(unit) => unit == Unit::Item,
            None => few_groups && one_look,
        }
}

/// Checks whether the rule supports a subset of the rewrites.
fn check_texts(rule: &Rule, subjects: &RunSubjects<'_>) -> Result<(), GateError> {
    let wrong = |message: String| Err(rule.place.wrong("texts", message));
    let name = rule.texts.name();
    if rule.texts == Texts::All {
        return Ok(());
    }
    if let Some(reason) = rule.limit.measure().row().all_texts {
        return wrong(format!("is \"{name}\", {reason}"));
    }
    if rule.of == "original" {
        return wrong(format!("is \"{name}\", and the original texts are not rewrites"));
    }
    if rule.texts == Texts::Accepted && !subjects.rated {
        return wrong(
            "is \"accepted\", and no judge rates how similar the rewrites are; name one with --judge, or as [judge] generator in the suite, with \
             the scale similarity"
                .to_owned(),
        );
    }
    Ok(())
}

/// The unit of a rule. By default groups, or items if there are few groups and the rule has bounds
/// over items.
fn unit(rule: &Rule, basis: Basis, named: Option<Unit>, groups: usize, loaded: bool) -> Result<Unit, GateError> {
    let worst = rule.limit.kind.row().each_dataset;
    let item_bounds = rule.limit.kind.row().item_bounds;
    let of_items = (worst || item_bounds) && basis == Basis::Bounded;
    if worst && of_items {
        return match rule.unit {
            Some(Unit::Group) => {
                let message =
                    "is \"group\", and one group has no bounds over groups; take \"item\", or basis = \"point\"";
                Err(rule.place.wrong("unit", message))
            }
            _ => Ok(Unit::Item),
        };
    }
    if rule.limit.paired().is_some() {
        return Ok(Unit::Item);
    }
    match named {
        Some(Unit::Item) if rule.unit.is_some() && !of_items => {
            let message = match rule.limit.kind {
                kind if kind.measure() == Measure::Difference && rule.texts != Texts::All => format!(
                    "is \"item\", and texts is \"{}\": a margin over items is about all texts; leave `texts` out, or take \"group\"",
                    rule.texts.name()
                ),
                _ if item_bounds => format!(
                    "is \"item\", which has bounds of its own, and the basis is {}: leave `basis` out, or take \"group\"",
                    basis.name()
                ),
                kind => format!(
                    "is \"item\", which {} does not support: use {}, or take \"group\"",
                    kind.name(),
                    RuleKind::among(|row| row.item_bounds || row.each_dataset)
                ),
            };
            Err(rule.place.wrong("unit", message))
        }
        Some(Unit::Item) if of_items => Ok(Unit::Item),
        Some(_) => Ok(Unit::Group),
        None if of_items && loaded && groups < Unit::FEWEST_GROUPS => Ok(Unit::Item),
        None => Ok(Unit::Group),
    }
}

fn quantity(rule: &Rule, run: &[RunTransformation]) -> Result<Quantity, GateError> {
    let wrong = |message: String| Err(rule.place.wrong("of", message));
    let of = rule.of.as_str();
    if rule.limit.measure() == Measure::Separation {
        return match sensitivity::kind(of) {
            Ok(kind) => Ok(Quantity::Separation(kind)),
            Err(message) => wrong(message),
        };
    }
    if of == "original" {
        return if rule.limit.measure().has_original() {
            Ok(Quantity::Original)
        } else {
            wrong("the original has no drop against itself; name `total`, an axis or a transformation".to_owned())
        };
    }
    if of == "total" {
        let axes = Axis::SCORED
            .into_iter()
            .filter(|axis| run.iter().any(|t| t.axis == *axis));
        let axes: Vec<Axis> = axes.collect();
        return if axes.iter().any(|axis| axis.in_total()) {
            Ok(Quantity::Total)
        } else {
            let axes: Vec<&str> = axes.iter().map(|axis| axis.name()).collect();
            wrong(format!(
                "no axis of the run counts towards a total; name {} or a transformation",
                axes.join(", ")
            ))
        };
    }
    if let Some(axis) = Axis::SCORED.into_iter().find(|axis| axis.name() == of) {
        return if run.iter().any(|t| t.axis == axis) {
            Ok(Quantity::Axis(axis))
        } else {
            wrong(format!(
                "no transformation of the run is on the {of} axis; it runs {}",
                labels(run)
            ))
        };
    }
    if let Some(found) = run.iter().position(|t| t.label == of) {
        return Ok(Quantity::Transformation(found));
    }
    let of_name: Vec<usize> = (0..run.len()).filter(|t| run[*t].name == of).collect();
    match of_name.as_slice() {
        [one] => Ok(Quantity::Transformation(*one)),
        [] => {
            let mut known = vec!["total", "original"];
            known.extend(Axis::SCORED.map(Axis::name));
            known.extend(run.iter().flat_map(|t| [t.label.as_str(), t.name]));
            if declaration(of).is_some_and(|row| !row.gives_several) {
                return wrong(format!("the run has no transformation `{of}`; it runs {}", labels(run)));
            }
            match nearest(of, known) {
                Some(name) => wrong(format!("unknown quantity `{of}`; did you mean `{name}`?")),
                None => wrong(format!(
                    "unknown quantity `{of}`; allowed: total, original, {}, {}",
                    Axis::SCORED.map(Axis::name).join(", "),
                    labels(run)
                )),
            }
        }
        several => {
            let own: Vec<&str> = several.iter().map(|t| run[*t].label.as_str()).collect();
            wrong(format!("the run has several of `{of}`; name one: {}", own.join(", ")))
        }
    }
}

fn labels(run: &[RunTransformation]) -> String {
    let labels: Vec<&str> = run.iter().map(|t| t.label.as_str()).collect();
    labels.join(", ")
}

/// Positions of the rule's data sets.
fn select(rule: &Rule, datasets: &[DatasetTask]) -> Result<Vec<usize>, GateError> {
    let wrong = |key, message: String| Err(rule.place.wrong(key, message));
    let names: Vec<&str> = datasets.iter().map(|one| one.name.as_str()).collect();
    if let Some(name) = &rule.dataset
        && !names.contains(&name.as_str())
    {
        let hint = suggest(name, &names);
        return wrong("dataset", format!("the suite has no data set `{name}`; {hint}"));
    }
    let chosen: Vec<usize> = (0..datasets.len())
        .filter(|d| {
            let DatasetTask { name, task } = &datasets[*d];
            rule.dataset.as_ref().is_none_or(|wanted| wanted == name) && rule.task.is_none_or(|wanted| wanted == *task)
        })
        .collect();
    if chosen.is_empty() {
        let mut tasks: Vec<&str> = datasets.iter().map(|one| one.task.name()).collect();
        tasks.sort_unstable();
        tasks.dedup();
        let task = rule.task.map_or("", TaskType::name);
        return wrong(
            "task",
            match &rule.dataset {
                Some(name) => format!("`{name}` is not a data set of task type {task}"),
                None => format!(
                    "no data set of the suite is of task type {task}; it has {}",
                    tasks.join(", ")
                ),
            },
        );
    }
    Ok(chosen)
}

/// Refuses the first rule that would stay undecided for any scores, and describes how to make it
/// decidable.
fn undecidable(gate: &BoundGate) -> Option<GateError> {
    let tests = gate.judged.len() * gate.rules.iter().filter(|rule| rule.is_test()).count();
    gate.rules.iter().find_map(|rule| {
        let n = rule.units;
        let needed = match rule.basis {
            Basis::Point | Basis::ClopperPearson | Basis::Betting => 1,
            // The smallest p-value of a one-sided signed-rank test of n pairs is 2^-n, which Holm's
            // adjustment may multiply.
            Basis::SignedRank => {
                let family = if rule.is_test() { tests.max(1) } else { 1 };
                (family as f64 / gate.alpha).log2().ceil() as usize
            }
            Basis::Student | Basis::Bootstrap | Basis::StudentisedBootstrap => 2,
            // The number of items is known only when the items are scored.
            Basis::Bounded if rule.unit == Unit::Item => 1,
            // The best case: no drop in any unit.
            Basis::Bounded => {
                let limit = rule.rule.limit.held();
                least_units(limit, WIDTH, best(rule.rule.limit), gate.alpha).unwrap_or(usize::MAX)
            }
        };
        let (looks_at, sets) = match (n, rule.datasets.len()) {
            (1, 1) => ("is", "data set".to_owned()),
            (1, sets) => ("is", format!("group of data sets ({sets} of one group count once)")),
            (n, sets) if n == sets => ("are", "data sets".to_owned()),
            (_, sets) => ("are", format!("groups of data sets ({sets} data sets; those of a group count once)")),
        };
        (n < needed).then(|| {
            rule.rule.place.wrong(
                "",
                format!(
                    "\"{}\" can never be decided: there {looks_at} {n} {sets}, and bounds on the basis {} at a chance of error of {} need at least {}; {}",
                    rule.title,
                    rule.basis.name(),
                    gate.alpha,
                    if needed == usize::MAX { "more than 100000".to_owned() } else { needed.to_string() },
                    remedy(rule),
                ),
            )
        })
    })
}

/// A range of values no wider than that of any data, which shows the rules that no data could
/// decide.
const WIDTH: Range = Range {
    low: -100.0,
    high: 100.0,
};

fn remedy(rule: &BoundRule) -> &'static str {
    let by_items = rule.rule.limit.kind.row().item_bounds;
    match rule.basis {
        Basis::Bounded if by_items => {
            "so few may all miss a collapse. Use unit = \"item\" (these data sets, other items), or name basis = \"student\" and accept its \
             condition: values about normal over groups"
        }
        Basis::Bounded => {
            "so few may all miss a collapse. Name basis = \"student\" and accept its condition: values about normal over groups"
        }
        _ => "add data sets, or decide on the estimate alone with basis = \"point\"",
    }
}
