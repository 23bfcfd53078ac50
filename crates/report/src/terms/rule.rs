//! The kinds of gate rules, all declared here.
//!
//! Suites, the command line, the protocol, decisions, reports and their schema read a kind's row. A
//! new kind is a row here. If it compares a value that no kind compares yet, that value is a new
//! [`Measure`], computed in `eval-svc/src/gate/observe.rs`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Basis, Texts};
use crate::{
    format::{beside, percent, percent_beside},
    task::TaskType,
};

/// The value that a rule compares with its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Original score minus transformed score, in points.
    Drop,
    /// The same in percent of the original score.
    DropPercent,
    /// The score, in points.
    Score,
    /// The score minus the baseline encoder's, in points.
    Difference,
    /// The share of texts whose rewrites are separated from a change of meaning.
    Separation,
    /// The share of items that the baseline has right and the encoder wrong, in percent.
    NegativeFlips,
    /// The share of their first documents that the baseline and the encoder both find, in percent.
    Overlap,
}

/// The declaration of a measure.
#[derive(Debug, Clone, Copy)]
pub struct MeasureRow {
    /// Unit of the value and of the limit.
    pub unit: MeasureUnit,
    /// Minimum and maximum limit.
    pub limits: (f64, f64),
    /// The quantity of a rule that names none.
    pub quantity: &'static str,
    /// The basis if neither the rule nor the gate names one.
    pub basis: Basis,
    /// Whether the encoder is compared with the baseline.
    pub needs_baseline: bool,
    /// Whether scores are compared with each other, so that one at chance level gives no
    /// information.
    pub compares_scores: bool,
    /// The reason why a rule is about all rewrites; `None` if it may be about some of them.
    pub all_texts: Option<&'static str>,
}

/// How values, limits and bounds are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeasureUnit {
    /// Hundredths of a score.
    Points,
    /// Hundredths, with a percent sign.
    Percent,
    /// From 0 to 1; shown in percent.
    Share,
}

/// The side of the limit on which a rule is satisfied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Values up to the limit.
    AtMost,
    /// Values from the limit.
    AtLeast,
    /// Values from the negated limit.
    AtLeastMinus,
}

/// The declaration of a kind.
#[derive(Debug, Clone, Copy)]
pub struct RuleRow {
    /// The spelling in suites, on the command line and in the protocol.
    pub name: &'static str,
    /// The value that is compared with the limit.
    pub measure: Measure,
    /// Values that satisfy the rule.
    pub side: Side,
    /// Whether each data set, or group, is compared separately, instead of their mean.
    pub each_dataset: bool,
    /// Whether bounds over the items of the data sets exist.
    pub item_bounds: bool,
    /// Whether `sequential = "betting"` can decide it.
    pub bets: bool,
    /// The comment above the rule in the suite that `isomer init` writes; `None` if a limit depends
    /// on the data.
    pub starter: Option<&'static str>,
    /// The limit in a sentence, for help.
    pub help: &'static str,
    /// Unit of the limit, for the message about a value out of range.
    pub limit_unit: &'static str,
    /// The rule in words; `{limit}` and `{of}` are replaced by its limit and quantity.
    pub title: &'static str,
    /// The compared value in words, before the quantity.
    pub value: &'static str,
    /// A value in a sentence: from 0, and below 0. `{value}` is replaced by its absolute value with
    /// its unit, and `{of}` by the quantity.
    pub found: [&'static str; 2],
}

/// The scores that a rule looks at.
#[derive(Debug, Clone, Copy)]
pub struct RuleScope<'a> {
    pub of: &'a str,
    pub texts: Texts,
    /// Only data sets of this kind.
    pub task: Option<TaskType>,
    /// Only this data set.
    pub dataset: Option<&'a str>,
    /// Only encoders in this form.
    pub form: Option<&'a str>,
}

impl RuleScope<'_> {
    /// A sentence of a rule's declaration, about what the rule looks at.
    pub fn sentence(&self, kind: RuleKind, words: &str) -> String {
        let measure = kind.measure();
        let of = match measure {
            Measure::Separation if self.of != measure.row().quantity => format!("separation of {}", self.of),
            _ => self.of.to_owned(),
        };
        let mut sentence = words.replace("{of}", &of);
        match self.texts {
            Texts::All => {}
            Texts::Changed => sentence.push_str(", changed texts"),
            Texts::Accepted => sentence.push_str(", accepted texts"),
        }
        if let Some(task) = self.task {
            sentence.push_str(&format!(", {task} only"));
        }
        if let Some(dataset) = self.dataset {
            sentence.push_str(&format!(", on {dataset}"));
        }
        if let Some(form) = self.form {
            sentence.push_str(&format!(", by {form}"));
        }
        sentence
    }

    /// The rule in words, for a limit.
    pub fn title(&self, kind: RuleKind, limit: f64) -> String {
        self.sentence(kind, &kind.row().title.replace("{limit}", &limit.to_string()))
    }
}

/// Declares the kinds: an enum, the list of its values, and their rows.
macro_rules! rule_kinds {
    ($($(#[$doc:meta])* $kind:ident: $row:expr;)+) => {
        /// The limits that a rule may set. [`RuleKind::row`] declares each.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum RuleKind {
            $($(#[$doc])* $kind,)+
        }

        impl RuleKind {
            /// Every kind.
            pub const ALL: [Self; [$(stringify!($kind)),+].len()] = [$(Self::$kind),+];

            /// The kind's declaration.
            pub const fn row(self) -> RuleRow {
                match self {
                    $(Self::$kind => $row,)+
                }
            }
        }
    };
}

rule_kinds! {
    /// Maximum drop.
    MaxDrop: RuleRow {
        name: "max_drop",
        measure: Measure::Drop,
        side: Side::AtMost,
        each_dataset: false,
        item_bounds: true,
        bets: true,
        starter: Some("Points that the score may drop when texts are rewritten."),
        help: "largest drop against the original, in points (score x 100)",
        limit_unit: "points, score x 100",
        title: "{of} drops by at most {limit} points",
        value: "drop",
        found: ["{of} drops by {value}", "{of} rises by {value}"],
    };
    /// Maximum drop in percent.
    MaxDropPercent: RuleRow {
        name: "max_drop_percent",
        measure: Measure::DropPercent,
        side: Side::AtMost,
        each_dataset: false,
        item_bounds: false,
        bets: false,
        starter: None,
        help: "largest drop in percent of the original score",
        limit_unit: "percent of the original score",
        title: "{of} drops by at most {limit} %",
        value: "drop",
        found: ["{of} drops by {value}", "{of} rises by {value}"],
    };
    /// Minimum score.
    MinScore: RuleRow {
        name: "min_score",
        measure: Measure::Score,
        side: Side::AtLeast,
        each_dataset: false,
        item_bounds: true,
        bets: true,
        starter: None,
        help: "least score, in points",
        limit_unit: "points, score x 100",
        title: "{of} scores at least {limit}",
        value: "score",
        found: ["{of} scores {value}", "{of} scores minus {value}"],
    };
    /// Non-inferiority to the baseline.
    Margin: RuleRow {
        name: "margin",
        measure: Measure::Difference,
        side: Side::AtLeastMinus,
        each_dataset: false,
        item_bounds: true,
        bets: false,
        starter: Some("Points below the baseline, in checks with --baseline."),
        help: "most points below the baseline encoder (non-inferiority)",
        limit_unit: "points below the baseline, score x 100",
        title: "{of} is at most {limit} points below the baseline",
        value: "difference from the baseline",
        found: [
            "{of} is {value} above the baseline",
            "{of} is {value} below the baseline",
        ],
    };
    /// Minimum separation of rewrites from changes of meaning.
    MinSeparation: RuleRow {
        name: "min_separation",
        measure: Measure::Separation,
        side: Side::AtLeast,
        each_dataset: false,
        item_bounds: false,
        bets: true,
        starter: Some("Share of rewrites that are nearer to their text than a copy with another meaning is."),
        help: "least share of texts whose rewrites are separated from a change of meaning, 0 to 1",
        limit_unit: "share of texts; chance is 0.5",
        title: "{of} is at least {limit}",
        value: "separation",
        found: ["{of} is {value}"; 2],
    };
    /// Maximum drop of any data set.
    Worst: RuleRow {
        name: "worst",
        measure: Measure::Drop,
        side: Side::AtMost,
        each_dataset: true,
        item_bounds: false,
        bets: false,
        starter: None,
        help: "largest drop of any data set, or group of data sets, in points",
        limit_unit: "points, score x 100",
        title: "no data set drops by more than {limit} points, {of}",
        value: "drop of the worst data set",
        found: [
            "the worst data set drops by {value}, {of}",
            "every data set rises, the least by {value}, {of}",
        ],
    };
    /// Maximum share of items that became wrong.
    MaxNegativeFlips: RuleRow {
        name: "max_negative_flips",
        measure: Measure::NegativeFlips,
        side: Side::AtMost,
        each_dataset: false,
        item_bounds: false,
        bets: false,
        starter: None,
        help: "most items, in percent, that the baseline has right and the encoder has wrong",
        limit_unit: "percent of the items",
        title: "at most {limit} % of the items become wrong against the baseline, {of}",
        value: "negative flips against the baseline",
        found: ["{value} of the items become wrong against the baseline, {of}"; 2],
    };
    /// Minimum overlap of result lists.
    MinOverlap: RuleRow {
        name: "min_overlap",
        measure: Measure::Overlap,
        side: Side::AtLeast,
        each_dataset: false,
        item_bounds: false,
        bets: false,
        starter: None,
        help: "least share, in percent, of the first 10 documents that both the baseline and the encoder find",
        limit_unit: "percent of a query's first documents",
        title: "at least {limit} % of the first 10 documents are the baseline's, {of}",
        value: "overlap with the baseline's first 10",
        found: ["{value} of the first 10 documents are the baseline's, {of}"; 2],
    };
}

impl RuleKind {
    /// The spelling in suites, on the command line and in the protocol.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// The value that is compared with the limit.
    pub const fn measure(self) -> Measure {
        self.row().measure
    }

    /// The names in a sentence, for error messages.
    pub fn one_of() -> String {
        Self::among(|_| true)
    }

    /// The names of some kinds in a sentence.
    pub fn among(has: impl Fn(&RuleRow) -> bool) -> String {
        let rows = Self::ALL.map(Self::row);
        let names: Vec<&str> = rows.iter().filter(|row| has(row)).map(|row| row.name).collect();
        match names.split_last() {
            Some((last, [])) => (*last).to_owned(),
            Some((last, others)) => format!("{} or {last}", others.join(", ")),
            None => String::new(),
        }
    }

    /// The names as code, for the schema of reports.
    pub(crate) fn in_code() -> String {
        format!("`{}`.", Self::ALL.map(Self::name).join("`, `"))
    }

    /// The compared value in words, by the kind's name.
    pub(crate) fn values() -> BTreeMap<&'static str, &'static str> {
        BTreeMap::from(Self::ALL.map(|kind| (kind.name(), kind.row().value)))
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A value computed from scores, in points.
const OF_SCORES: MeasureRow = MeasureRow {
    unit: MeasureUnit::Points,
    // From one end of a score's scale to the other.
    limits: (0.0, 200.0),
    quantity: "total",
    basis: Basis::Bounded,
    needs_baseline: false,
    compares_scores: true,
    all_texts: None,
};

/// A value of each item of the encoder and the baseline, in percent.
const OF_ITEMS: MeasureRow = MeasureRow {
    unit: MeasureUnit::Percent,
    limits: (0.0, 100.0),
    needs_baseline: true,
    compares_scores: false,
    all_texts: Some("which rules on items do not support: leave `texts` out"),
    ..OF_SCORES
};

impl Measure {
    /// The measure's declaration.
    pub const fn row(self) -> MeasureRow {
        match self {
            Self::Drop => OF_SCORES,
            Self::DropPercent => MeasureRow {
                unit: MeasureUnit::Percent,
                limits: (0.0, 100.0),
                all_texts: Some(
                    "and each transformation then has an original score of its own; use max_drop, in points",
                ),
                ..OF_SCORES
            },
            // Absolute scores of different tasks are not a sample of any population.
            Self::Score => MeasureRow {
                limits: (-100.0, 100.0),
                basis: Basis::Point,
                compares_scores: false,
                ..OF_SCORES
            },
            Self::Difference => MeasureRow {
                basis: Basis::SignedRank,
                needs_baseline: true,
                ..OF_SCORES
            },
            Self::Separation => MeasureRow {
                unit: MeasureUnit::Share,
                limits: (0.0, 1.0),
                quantity: "separation",
                basis: Basis::ClopperPearson,
                compares_scores: false,
                all_texts: Some("which is for rules on scores; separation leaves unchanged texts out by itself"),
                ..OF_SCORES
            },
            Self::NegativeFlips | Self::Overlap => OF_ITEMS,
        }
    }

    /// Whether the original texts have a separate value.
    pub fn has_original(self) -> bool {
        self == Self::Score || self.row().needs_baseline
    }
}

isomer_names::names!(MeasureUnit { Points = "points", Percent = "percent", Share = "share" });

impl MeasureUnit {
    /// A value beside its limit, with a percent sign but without the word `points`.
    pub(crate) fn number(self, value: f64, limit: f64) -> String {
        match self {
            Self::Points => beside(value, limit, 1),
            Self::Percent => format!("{} %", beside(value, limit, 1)),
            Self::Share => percent_beside(value, limit),
        }
    }

    /// A value beside its limit, with its unit.
    pub(crate) fn value(self, value: f64, limit: f64) -> String {
        let number = self.number(value, limit);
        match self {
            Self::Points => format!("{number} points"),
            Self::Percent | Self::Share => number,
        }
    }

    /// A limit as its author wrote it, with a percent sign but without the word `points`.
    pub(crate) fn limit(self, limit: f64) -> String {
        match self {
            Self::Points => limit.to_string(),
            Self::Percent => format!("{limit} %"),
            Self::Share => percent(limit),
        }
    }
}
