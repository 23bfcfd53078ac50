//! The gate of a suite file.

use isomer_proto::{ProtoEnum, eval::v1::GateSequential};
use toml::Spanned;
use toml::de::DeValue;

use super::{
    SuiteError,
    fields::{filled, table},
    reader::{Document, Section, SpannedValue},
};
use crate::{
    gate::{
        Adjust, AttemptPolicy, Basis, Gate, Limits, OnUndecided, Rule, RuleKind, RuleLimit, RuleLocation, Texts, Unit,
        ValidityLimit, When, check_alpha,
    },
    task::TaskType,
};

/// Fields of the gate other than its limits on shares of texts.
pub(super) const FIELDS: [&str; 8] = [
    "alpha",
    "basis",
    "unit",
    "undecided",
    "sequential",
    "adjust",
    "attempts",
    "rule",
];

pub(super) fn gate(top: &Section<'_>) -> Result<Gate, SuiteError> {
    let document = top.document;
    let Some(item) = top.get("gate") else {
        return Ok(Gate::default());
    };
    let section = table(document, "gate", item, "a table: [gate], with [[gate.rule]] below it")?;
    section.only(&[&FIELDS[..], &ValidityLimit::ALL.map(ValidityLimit::name)].concat())?;
    Ok(Gate {
        alpha: match section.number("alpha")? {
            None => None,
            Some(found) => {
                let complain = |message: String| document.invalid(&found.span, found.field.as_str(), message);
                check_alpha(found.value).map_err(complain)?;
                Some(found.value)
            }
        },
        basis: basis(&section)?,
        unit: choice(&section, "unit", "unit", &Unit::ALL, Unit::name)?,
        undecided: choice(&section, "undecided", "choice", &OnUndecided::ALL, OnUndecided::name)?,
        sequential: sequential(&section)?,
        adjust: choice(&section, "adjust", "adjustment", &Adjust::ALL, Adjust::name)?,
        limits: limits(&section)?,
        attempts: choice(&section, "attempts", "choice", &AttemptPolicy::ALL, AttemptPolicy::name)?,
        without_suite_rules: false,
        rules: rules(&section)?,
    })
}

/// One of a few names.
fn choice<T: Copy>(
    section: &Section<'_>,
    key: &str,
    what: &'static str,
    all: &[T],
    name: fn(T) -> &'static str,
) -> Result<Option<T>, SuiteError> {
    let Some(found) = section.string(key)? else {
        return Ok(None);
    };
    match all.iter().find(|one| name(**one) == found.value) {
        Some(one) => Ok(Some(*one)),
        None => {
            let known: Vec<&str> = all.iter().map(|one| name(*one)).collect();
            Err(section.document.unknown_name(found, what, &known))
        }
    }
}

fn basis(section: &Section<'_>) -> Result<Option<Basis>, SuiteError> {
    choice(section, "basis", "basis", &Basis::ALL, Basis::name)
}

/// The value of a limit on validity.
fn validity(section: &Section<'_>, limit: ValidityLimit) -> Result<Option<f64>, SuiteError> {
    let Some(found) = section.number(limit.name())? else {
        return Ok(None);
    };
    match limit.check(found.value) {
        Ok(()) => Ok(Some(found.value)),
        Err(message) => Err(section.document.invalid(&found.span, found.field, message)),
    }
}

/// The conditions under which a rule is invalid.
fn limits(section: &Section<'_>) -> Result<Limits, SuiteError> {
    let mut limits = Limits::default();
    for limit in ValidityLimit::ALL {
        limits.set(limit, validity(section, limit)?);
    }
    Ok(limits)
}

/// `true`, `false`, or the name of a kind of rounds.
fn sequential(section: &Section<'_>) -> Result<Option<GateSequential>, SuiteError> {
    match section.get("sequential").map(|value| value.get_ref().as_bool()) {
        None => Ok(None),
        Some(Some(true)) => Ok(Some(GateSequential::Pocock)),
        Some(Some(false)) => Ok(Some(GateSequential::Off)),
        Some(None) => {
            let all: Vec<_> = GateSequential::all().collect();
            choice(section, "sequential", "spending", &all, ProtoEnum::dashed)
        }
    }
}

fn rules(section: &Section<'_>) -> Result<Vec<Rule>, SuiteError> {
    let items = section.list("rule")?.unwrap_or_default();
    items
        .into_iter()
        .map(|(field, item)| rule(section.document, &field, item))
        .collect()
}

fn rule(document: &Document<'_>, field: &str, item: &Spanned<DeValue<'_>>) -> Result<Rule, SuiteError> {
    let section = table(document, field, item, "a table: [[gate.rule]]")?;
    // The key is for suites only: on the command line and in a request it is known whether there is
    // a baseline.
    section.only(&[&Rule::keys()[..], &["when"]].concat())?;
    let limit = limit(&section)?;
    let fail_at = section.number("fail_at")?;
    if let Some(found) = &fail_at {
        let complain = |message: String| document.invalid(&found.span, found.field.as_str(), message);
        limit.check_fail_at(Some(found.value)).map_err(complain)?;
    }
    Ok(Rule {
        limit,
        fail_at: fail_at.map(|found| found.value),
        name: filled(document, section.string("name")?)?,
        of: filled(document, section.string("of")?)?.unwrap_or_else(|| limit.measure().row().quantity.to_owned()),
        task: choice(&section, "task", "task type", &TaskType::ALL, TaskType::name)?,
        dataset: filled(document, section.string("dataset")?)?,
        form: filled(document, section.string("form")?)?,
        basis: basis(&section)?,
        unit: choice(&section, "unit", "unit", &Unit::ALL, Unit::name)?,
        texts: choice(&section, "texts", "choice of texts", &Texts::ALL, Texts::name)?.unwrap_or_default(),
        when: choice(&section, "when", "choice of runs", &When::ALL, When::name)?.unwrap_or_default(),
        limits: limits(&section)?,
        place: RuleLocation {
            origin: format!("{}:{}", document.file, document.line(item.span().start)),
            field: field.to_owned(),
        },
    })
}

fn limit(section: &Section<'_>) -> Result<RuleLimit, SuiteError> {
    let mut only: Option<(RuleLimit, SpannedValue<f64>)> = None;
    for kind in RuleKind::ALL {
        let Some(found) = section.number(kind.name())? else {
            continue;
        };
        if let Some((first, _)) = &only {
            let name = first.kind.name();
            let message = format!("the rule has {name} already; write a rule for each limit");
            return Err(section.document.invalid(&found.span, found.field, message));
        }
        only = Some((RuleLimit::new(kind, found.value), found));
    }
    let Some((limit, found)) = only else {
        return Err(section.missing(
            "max_drop",
            &format!("a rule needs a limit: {}, e.g. max_drop = 3", RuleKind::one_of()),
        ));
    };
    match limit.check() {
        Ok(()) => Ok(limit),
        Err(message) => Err(section.document.invalid(&found.span, found.field, message)),
    }
}
