//! Rules and gates as specified by a suite or a request.

use std::collections::BTreeMap;

use isomer_proto::{ProtoEnum, eval::v1::GateSequential};
use serde::{Deserialize, Serialize, Serializer};

pub use isomer_report::terms::{Adjust, Basis, Measure, OnUndecided, RuleKind, Side, Texts, Unit, ValidityLimit};

use super::limits::Limits;
use crate::{
    report::{PairedQuantity, terms::RuleScope},
    stats::{
        StatsError,
        gate::{Limit, bounded::Range, rule, spending::Spending},
    },
    task::TaskType,
};

/// The quantity that covers all kinds of change.
pub(crate) const SEPARATION: &str = "separation";

/// Rules and how they are decided. A missing setting is taken from the next source: request, suite,
/// default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gate {
    /// The rules; empty: no gate.
    pub rules: Vec<Rule>,
    /// Error probability of each rule on each side; default [`Gate::ALPHA`].
    pub alpha: Option<f64>,
    /// The basis of rules that do not name one.
    pub basis: Option<Basis>,
    /// The unit of rules that do not name one.
    pub unit: Option<Unit>,
    /// The effect of an undecided gate; default: it blocks.
    pub undecided: Option<OnUndecided>,
    /// The conditions under which a rule without its own limits is invalid.
    #[serde(flatten)]
    pub limits: Limits,
    /// Whether the run stops as soon as all rules are decided; default: no.
    #[serde(serialize_with = "hyphenated")]
    pub sequential: Option<GateSequential>,
    /// How the error probability is adjusted for several encoders; default: it holds for each.
    pub adjust: Option<Adjust>,
    /// The effect of earlier attempts on the same data; default: they are reported.
    pub attempts: Option<AttemptPolicy>,
    /// In a request: whether the suite's rules are ignored.
    pub without_suite_rules: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// The rule's name; absent: a description of the rule.
    pub name: Option<String>,
    /// The limited quantity, and the value of the limit.
    pub limit: RuleLimit,
    /// The value beyond which the rule fails; absent: that of the limit.
    #[serde(default)]
    pub fail_at: Option<f64>,
    /// `total`, an axis, a transformation, or `original`.
    pub of: String,
    /// Only data sets of this task type.
    pub task: Option<TaskType>,
    /// Only this data set.
    pub dataset: Option<String>,
    /// Only encoders in this form; `dense`: in none.
    #[serde(default)]
    pub form: Option<String>,
    /// The value that is compared with the limit.
    pub basis: Option<Basis>,
    /// The unit of observation.
    pub unit: Option<Unit>,
    /// The rewrites that the rule covers.
    #[serde(default)]
    pub texts: Texts,
    /// Whether it applies to runs without a baseline.
    #[serde(default)]
    pub when: When,
    /// The conditions under which the rule is invalid.
    #[serde(flatten)]
    pub limits: Limits,
    /// The place where the rule was written.
    pub place: RuleLocation,
}

/// The effect of earlier attempts on the same data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptPolicy {
    /// The report gives their number.
    #[default]
    Report,
    /// The error probability is divided over all attempts, as over the releases of a history.
    Spend,
}

isomer_names::names!(AttemptPolicy { Report = "report", Spend = "spend" });

/// The runs that a rule applies to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// Every run; a rule that needs a baseline is refused without one.
    #[default]
    Always,
    /// Runs with a baseline encoder and another one to compare with it.
    Baseline,
}

isomer_names::names!(When { Always = "always", Baseline = "baseline" });

/// Kind and value of the limit that a rule sets.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(into = "BTreeMap<RuleKind, f64>", try_from = "BTreeMap<RuleKind, f64>")]
pub struct RuleLimit {
    /// The kind of limit, which determines the compared value.
    pub kind: RuleKind,
    /// The value of the limit, in the unit of the kind.
    pub value: f64,
}

impl From<RuleLimit> for BTreeMap<RuleKind, f64> {
    fn from(limit: RuleLimit) -> Self {
        Self::from([(limit.kind, limit.value)])
    }
}

impl TryFrom<BTreeMap<RuleKind, f64>> for RuleLimit {
    type Error = String;

    fn try_from(limits: BTreeMap<RuleKind, f64>) -> Result<Self, String> {
        let mut limits = limits.into_iter();
        match (limits.next(), limits.next()) {
            (Some((kind, value)), None) => Ok(Self { kind, value }),
            _ => Err(format!("a rule has one limit: {}", RuleKind::one_of())),
        }
    }
}

/// The place where a gate or rule was written, for error messages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleLocation {
    /// For example `nightly.toml:12`; empty: in the request.
    pub origin: String,
    /// Path of the field, for example `gate.rule[0]`.
    pub field: String,
}

/// A rule that is invalid for the run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}`{field}`: {message}", if origin.is_empty() { String::new() } else { format!("{origin}: ") })]
pub struct GateError {
    /// For example `nightly.toml:12`; empty: in the request.
    pub origin: String,
    /// Path of the field.
    pub field: String,
    /// The problem and how to fix it.
    pub message: String,
}

impl RuleLocation {
    /// An error about a field of the gate or rule at this place; an empty `key` means the whole
    /// gate or rule.
    pub(super) fn wrong(&self, key: &str, message: impl Into<String>) -> GateError {
        // A request's fields have the proto's names, and a suite's have the names of its keys.
        let key = match key {
            "of" if self.origin.is_empty() => "quantity",
            "task" if self.origin.is_empty() => "task_type",
            key => key,
        };
        GateError {
            origin: self.origin.clone(),
            field: match (self.field.as_str(), key) {
                (field, "") => field.to_owned(),
                ("", key) => key.to_owned(),
                (field, key) => format!("{field}.{key}"),
            },
            message: message.into(),
        }
    }
}

impl Gate {
    /// The default error probability.
    pub const ALPHA: f64 = 0.05;

    /// This gate, overridden by another's settings and rules. A rule of the same kind, quantity,
    /// task, data set and form replaces the existing one.
    #[must_use]
    pub fn overlaid(mut self, over: &Self) -> Self {
        if over.without_suite_rules {
            self.rules.clear();
        }
        for rule in &over.rules {
            match self.rules.iter_mut().find(|own| own.same_subject(rule)) {
                Some(own) => *own = rule.clone(),
                None => self.rules.push(rule.clone()),
            }
        }
        self.alpha = over.alpha.or(self.alpha);
        self.basis = over.basis.or(self.basis);
        self.unit = over.unit.or(self.unit);
        self.undecided = over.undecided.or(self.undecided);
        self.sequential = over.sequential.or(self.sequential);
        self.adjust = over.adjust.or(self.adjust);
        self.limits = over.limits.or(self.limits);
        self.attempts = over.attempts.or(self.attempts);
        self
    }
}

impl Rule {
    /// The keys of a rule, as spelled in a suite and on the command line.
    pub fn keys() -> Vec<&'static str> {
        let kinds = RuleKind::ALL.map(RuleKind::name);
        let others = ["fail_at", "of", "task", "dataset", "form", "basis", "unit", "texts"];
        [
            &["name"],
            &kinds[..],
            &others,
            &ValidityLimit::ALL.map(ValidityLimit::name),
        ]
        .concat()
    }

    /// The limit in the form that [`crate::stats`] takes.
    pub(crate) fn held(&self) -> Limit {
        let limit = self.limit.held();
        let fail_at = self.fail_at.map(|value| RuleLimit { value, ..self.limit }.held());
        Limit {
            fail_at: fail_at.unwrap_or(limit).value,
            ..limit
        }
    }

    /// Whether both limit the same quantity of the same data sets.
    pub(crate) fn same_subject(&self, other: &Self) -> bool {
        self.limit.kind == other.limit.kind
            && self.of == other.of
            && self.task == other.task
            && self.dataset == other.dataset
            && self.form == other.form
            && self.texts == other.texts
    }

    /// The basis of the rule if the gate names `general`.
    pub(crate) fn basis_with(&self, general: Option<Basis>) -> Basis {
        let measure = self.limit.measure();
        let margin = measure == Measure::Difference;
        match (self.basis, general) {
            _ if measure == Measure::Separation => Basis::ClopperPearson,
            (Some(own), _) => own,
            // Items of two encoders have no other bounds.
            _ if self.limit.paired().is_some() => Basis::Bounded,
            // Each data set has bounds over its own items, whatever the basis of the other rules.
            (None, Some(general)) if self.limit.kind.row().each_dataset && general != Basis::Point => Basis::Bounded,
            // The margin's test is the signed-rank test, whatever the basis of the other rules.
            (None, Some(Basis::Student | Basis::Bootstrap | Basis::StudentisedBootstrap | Basis::Bounded))
                if margin =>
            {
                Basis::SignedRank
            }
            (None, Some(general)) => general,
            (None, None) => measure.row().basis,
        }
    }

    /// The rule's name, or a description of the rule.
    pub(crate) fn title(&self) -> String {
        if let Some(name) = &self.name {
            return name.clone();
        }
        let scope = RuleScope {
            of: &self.of,
            texts: self.texts,
            task: self.task,
            dataset: self.dataset.as_deref(),
            form: self.form.as_deref(),
        };
        scope.title(self.limit.kind, self.limit.value)
    }
}

impl RuleLimit {
    pub fn new(kind: RuleKind, value: f64) -> Self {
        Self { kind, value }
    }

    /// The value that is compared with the limit.
    pub fn measure(self) -> Measure {
        self.kind.measure()
    }

    /// The value compared for each item of the encoder and the baseline; `None` for rules on scores
    /// and separation.
    pub(crate) fn paired(self) -> Option<PairedQuantity> {
        match self.measure() {
            Measure::NegativeFlips => Some(PairedQuantity::NegativeFlips),
            Measure::Overlap => Some(PairedQuantity::Overlap),
            Measure::Drop | Measure::DropPercent | Measure::Score | Measure::Difference | Measure::Separation => None,
        }
    }

    /// The form that [`crate::stats`] takes.
    pub(super) fn held(self) -> Limit {
        match self.kind.row().side {
            Side::AtMost => Limit::at_most(self.value),
            Side::AtLeast => Limit::at_least(self.value),
            Side::AtLeastMinus => Limit::at_least(-self.value),
        }
    }

    /// Checks that the limit is valid.
    ///
    /// # Errors
    /// The accepted values.
    pub fn check(self) -> Result<(), String> {
        let (low, high) = self.measure().row().limits;
        if (low..=high).contains(&self.value) {
            return Ok(());
        }
        let unit = self.kind.row().limit_unit;
        Err(format!("is {}, should be {low} to {high} ({unit})", self.value))
    }

    /// Checks that the value beyond which the rule fails keeps the limit. A value that breaks the
    /// limit could not fail before the limit does.
    ///
    /// # Errors
    /// The accepted values.
    pub fn check_fail_at(self, fail_at: Option<f64>) -> Result<(), String> {
        let (low, high) = self.measure().row().limits;
        let (low, high) = match self.kind.row().side {
            Side::AtMost | Side::AtLeastMinus => (low, self.value),
            Side::AtLeast => (self.value, high),
        };
        match fail_at {
            Some(value) if !(low..=high).contains(&value) => Err(format!(
                "is {value}, should be {low} to {high}, on the permitted side of the limit"
            )),
            _ => Ok(()),
        }
    }
}

/// Checks that an error probability is valid.
///
/// # Errors
/// The accepted values.
pub fn check_alpha(alpha: f64) -> Result<(), String> {
    if alpha > 0.0 && alpha < 0.5 {
        Ok(())
    } else {
        Err(format!(
            "is {alpha}, should be above 0 and below 0.5: the chance of error of each rule on each side"
        ))
    }
}

/// The message for a failed computation of a decision.
pub(super) fn refused(error: &StatsError) -> String {
    format!("no decision is possible: {error}")
}

/// A basis in the form that [`crate::stats`] takes; `range`: the possible values.
pub(super) fn bounds(basis: Basis, range: Range) -> rule::Basis {
    match basis {
        Basis::Point => rule::Basis::Point,
        Basis::Bounded => rule::Basis::Bounded(range),
        Basis::SignedRank => rule::Basis::SignedRank,
        Basis::Student => rule::Basis::StudentMean,
        Basis::Bootstrap => rule::Basis::BootstrapMean,
        Basis::StudentisedBootstrap => rule::Basis::StudentisedBootstrap,
        // Separation and bets are decided by other modules.
        Basis::ClopperPearson | Basis::Betting => rule::Basis::Point,
    }
}

/// How the error probability is spent; `None` with a single look, and with bets, whose looks spend
/// nothing.
pub(crate) fn spending(sequential: GateSequential) -> Option<Spending> {
    match sequential {
        GateSequential::Unspecified | GateSequential::Off | GateSequential::Betting => None,
        GateSequential::Pocock => Some(Spending::Pocock),
        GateSequential::ObrienFleming => Some(Spending::OBrienFleming),
    }
}

/// Records of runs spell a value as a suite does, with hyphens.
fn hyphenated<S: Serializer>(sequential: &Option<GateSequential>, serializer: S) -> Result<S::Ok, S::Error> {
    sequential.map(ProtoEnum::dashed).serialize(serializer)
}
