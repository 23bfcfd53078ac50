//! Verdict of the gate; the `gate` section of `report.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::format::{fine, p_value, percent};
use crate::{
    stats::gate::Verdict,
    task::TaskType,
    terms::{Adjust, Basis, OnUndecided, RuleKind, Side, Texts, Unit},
};

/// Verdict of a rule, of an encoder's rules, or of the gate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateVerdict {
    /// Kept.
    Pass,
    /// The data allow neither.
    #[default]
    Undecided,
    /// The scores cannot answer the question: the texts were not rewritten, or a score is not a
    /// number.
    Invalid,
    /// Broken.
    Fail,
}

/// Rules, settings and verdicts of the gate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct GateReport {
    /// Fail where one encoder breaks one rule; else invalid where one rule is; else undecided where
    /// one is; else pass.
    pub verdict: GateVerdict,
    /// Whether that blocks: always for fail and invalid, for undecided unless `undecided` is
    /// `warn`.
    pub blocked: bool,
    /// Handling of an undecided gate.
    pub undecided: OnUndecided,
    /// Chance of error of each rule on each side, over all looks.
    pub alpha: f64,
    /// Correction of that chance when several encoders are judged.
    #[serde(default)]
    pub adjust: Adjust,
    /// Largest share of unchanged texts that any rule allows; absent in reports of versions that
    /// had no such limit.
    #[serde(default)]
    pub max_unchanged: Option<f64>,
    /// Whether a judge rated the rewrites; absent where no generator made any, and in reports of
    /// versions that did not say.
    #[serde(default)]
    pub rewrites_rated: Option<bool>,
    /// Reason why the judge's ratings are ignored; absent if they count, and if there are none.
    #[serde(default)]
    pub ratings_refused: Option<String>,
    /// Unit of observation.
    pub unit: String,
    /// Encoder that others are compared with; it is not judged itself where there are others.
    pub baseline: Option<String>,
    /// Rules as the suite or the command states them.
    pub rules: Vec<GateRule>,
    /// Per encoder, in the order of the request.
    pub encoders: Vec<EncoderVerdict>,
    /// How the run went in rounds; absent where everything was run and looked at once.
    pub sequential: Option<SequentialReport>,
}

/// One rule with its limit and scope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct GateRule {
    /// Its name, or the rule in words.
    pub title: String,
    /// The kind of its limit.
    // The schema of version 1 says a string.
    #[schemars(with = "String", description = RuleKind::in_code(), extend("x-values" = RuleKind::values()))]
    pub kind: RuleKind,
    /// Where the limit lies.
    pub limit: f64,
    /// The value beyond which it fails; absent: that of the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fail_at: Option<f64>,
    /// `points`, `percent` or, for `min_separation`, `share`.
    pub unit: String,
    /// `original`, `total`, an axis or a transformation.
    pub of: String,
    /// Only data sets of this kind.
    pub task: Option<TaskType>,
    /// Only this data set.
    pub dataset: Option<String>,
    /// Only encoders in this form, e.g. `hybrid:rrf`; `dense`: in none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<String>,
    /// The data sets it looks at.
    pub datasets: Vec<String>,
    /// Quantity compared with the limit.
    pub basis: Basis,
    /// Unit of sampling; absent in reports of versions that knew groups only.
    #[serde(default)]
    pub over: Option<Unit>,
    /// Rewrites that the rule covers.
    #[serde(default)]
    pub texts: Texts,
    /// Share of unchanged texts beyond which it is invalid; absent in reports of versions that had
    /// no such limit.
    #[serde(default)]
    pub max_unchanged: Option<f64>,
    /// Share of near-copies beyond which it is invalid; absent likewise.
    #[serde(default)]
    pub max_near_copies: Option<f64>,
    /// Share of texts cut by the encoder beyond which it is invalid; absent likewise.
    #[serde(default)]
    pub max_cut: Option<f64>,
    /// Share of original texts with another text's vector beyond which it is invalid; absent
    /// likewise.
    #[serde(default)]
    pub max_shared: Option<f64>,
    /// Share of accepted rewrites below which it is invalid; absent likewise.
    #[serde(default)]
    pub min_accepted: Option<f64>,
    /// Every share, and the number of items, beyond which it is invalid, by name, those above among
    /// them; empty in reports of versions that named each in a field of its own.
    #[serde(default)]
    pub validity: BTreeMap<String, f64>,
    /// Where it was written, e.g. `nightly.toml:12`; empty: in the request.
    pub origin: String,
}

/// Outcome of the texts that a rule covers. Each share is the worse of two: pooled over all texts,
/// and averaged over seeds, transformations, axes and data sets as the scores are.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RewriteShare {
    /// Texts x transformations x seeds.
    pub texts: u64,
    /// Share that stayed as it was: equal after NFKC, without case, punctuation and white space.
    pub unchanged: f64,
    /// Share of near copies: at most 15 % of the words differ, or the rewrite contains the
    /// original.
    pub near_copies: f64,
    /// Share of the rewrites that the encoder cut; absent if it does not report cuts.
    #[serde(default)]
    pub cut: Option<f64>,
    /// Rewrites that have a rating.
    #[serde(default)]
    pub rated: u64,
    /// Share of these that the judge accepts; absent where none is rated, or the judge does not
    /// distinguish pairs of known rating.
    #[serde(default)]
    pub accepted: Option<f64>,
}

/// Verdict of all rules on one encoder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct EncoderVerdict {
    /// Encoder id.
    pub encoder: String,
    /// Of all rules.
    pub verdict: GateVerdict,
    /// One per rule, in the rules' order.
    pub rules: Vec<RuleVerdict>,
    /// Runs with the same rules on the same data; absent in reports of versions that did not count
    /// them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<Attempts>,
}

/// The place of a run among those that decided the same rules on the same data.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Attempts {
    /// Number of the attempt, from 1. Runs with equal scores are one attempt.
    pub number: u64,
    /// The first run of each earlier attempt, oldest first.
    pub earlier: Vec<String>,
}

/// Verdict of one rule on one encoder.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RuleVerdict {
    /// Pass, fail, invalid or undecided.
    pub verdict: GateVerdict,
    /// Drop, score, or difference from the baseline: the Hodges-Lehmann shift for `signed-rank`,
    /// the mean otherwise.
    pub estimate: Option<f64>,
    /// Lower one-sided bound; absent on points and where there is none.
    pub low: Option<f64>,
    /// Upper one-sided bound.
    pub high: Option<f64>,
    /// `margin` by the signed-rank test: one-sided p-value against "worse by the margin or more".
    pub p_value: Option<f64>,
    /// Holm-adjusted over all such rules and encoders.
    pub p_holm: Option<f64>,
    /// Units of observation that it was decided on: groups of data sets, items (those that share a
    /// text count once), or texts for `min_separation`.
    pub units: usize,
    /// Unit of sampling; absent for `min_separation`, and in reports of versions that knew groups
    /// only.
    #[serde(default)]
    pub over: Option<Unit>,
    /// Seeds averaged in each of them.
    pub seeds: usize,
    /// Chance of error that the look it was decided at could spend.
    pub alpha: f64,
    /// Number of that look.
    pub round: usize,
    /// How many of its texts were not rewritten; absent for rules on the original texts.
    #[serde(default)]
    pub rewrites: Option<RewriteShare>,
    /// The shares, and the number of items, that `validity` of the rule limits, as far as they are
    /// known, by name.
    #[serde(default)]
    pub shares: BTreeMap<String, f64>,
    /// Undecided: data sets in all that would decide, if the estimate and the spread stayed.
    pub units_needed: Option<usize>,
    /// Undecided: seeds in all that would decide, with the data sets there are.
    pub seeds_needed: Option<usize>,
    /// The rule is not about the encoder: it names another form, or limits separation, which a
    /// search does not have. The verdict is then `pass` and says nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_applicable: bool,
    /// Reason why it is undecided or invalid, and other remarks that a reader needs.
    pub note: Option<String>,
}

/// A run in rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SequentialReport {
    /// How the chance of error is spent, `pocock` or `obrien-fleming`; or `betting`, whose looks
    /// spend nothing.
    pub spending: String,
    /// The looks that were planned.
    pub rounds: Vec<RoundReport>,
    /// How many were taken.
    pub taken: usize,
    /// Texts that the full run would have transformed, and that this one did: texts x
    /// transformations x seeds.
    pub texts_planned: u64,
    /// See `texts_planned`.
    pub texts_asked: u64,
    /// Scores of the full run, and of this one.
    pub scores_planned: u64,
    /// See `scores_planned`.
    pub scores_made: u64,
}

/// A look.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RoundReport {
    /// Number of data sets included so far.
    pub datasets: usize,
    /// Number of seeds of each data set.
    pub seeds: usize,
    /// `betting`: most items of each data set that are in; absent otherwise.
    #[serde(default)]
    pub items: Option<u64>,
    /// Share of the full run's data sets x seeds, or of its items.
    pub fraction: f64,
    /// Chance of error that it may spend; all together `alpha`. `betting`: the chance of error of
    /// all looks together.
    pub alpha: f64,
}

isomer_names::names!(GateVerdict { Pass = "pass", Undecided = "undecided", Invalid = "invalid", Fail = "fail" });

impl GateVerdict {
    /// The verdict as a sign, beside the word.
    pub(super) fn mark(self) -> &'static str {
        match self {
            Self::Pass => "✓",
            Self::Undecided => "?",
            Self::Invalid => "!",
            Self::Fail => "✗",
        }
    }

    /// Whether the verdict is final, so that more data would not change it: pass or fail.
    pub fn is_decided(self) -> bool {
        matches!(self, Self::Pass | Self::Fail)
    }

    /// The verdict of several rules or encoders: the worst of theirs.
    pub fn of_all(verdicts: impl IntoIterator<Item = Self>) -> Self {
        verdicts.into_iter().max().unwrap_or(Self::Pass)
    }
}

impl From<Verdict> for GateVerdict {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Pass => Self::Pass,
            Verdict::Undecided => Self::Undecided,
            Verdict::Fail => Self::Fail,
        }
    }
}

impl SequentialReport {
    /// Share of the full run's texts that were not requested.
    pub fn texts_saved(&self) -> f64 {
        saved(self.texts_asked, self.texts_planned)
    }

    /// Rounds over items: items of the last round that was taken, and of the last that was planned.
    pub fn items(&self) -> Option<(u64, u64)> {
        let last = self.rounds.get(self.taken.checked_sub(1)?)?;
        Some((last.items?, self.rounds.last()?.items?))
    }

    /// Share of the full run's scores that were not made.
    pub fn scores_saved(&self) -> f64 {
        saved(self.scores_made, self.scores_planned)
    }
}

fn saved(made: u64, planned: u64) -> f64 {
    if planned == 0 {
        0.0
    } else {
        1.0 - made as f64 / planned as f64
    }
}

impl GateReport {
    /// A sentence on how many rounds were run and what they saved.
    pub fn rounds(&self) -> Option<String> {
        let sequential = self.sequential.as_ref()?;
        if let Some((last, all)) = sequential.items() {
            return Some(format!(
                "{} of {} rounds over items were run (betting test): {last} of at most {all} items of each data set, and {} of the full run's texts \
                 were not needed.",
                sequential.taken,
                sequential.rounds.len(),
                percent(sequential.texts_saved()),
            ));
        }
        Some(format!(
            "{} of {} rounds were run ({} spending): {} of the full run's texts and {} of its scores were not needed.",
            sequential.taken,
            sequential.rounds.len(),
            sequential.spending,
            percent(sequential.texts_saved()),
            percent(sequential.scores_saved()),
        ))
    }
}

impl GateRule {
    /// The limit, e.g. `≤ 3.00 points`.
    pub fn limit_text(&self) -> String {
        let sign = match self.kind.row().side {
            Side::AtLeast => "≥ ",
            Side::AtLeastMinus => "≥ −",
            Side::AtMost => "≤ ",
        };
        let unit = if self.unit == "percent" { " %" } else { "" };
        format!("{sign}{}{unit}{}", fine(self.limit), self.failing())
    }

    /// Measured quantity, e.g. `drop of total`.
    pub fn measured(&self) -> String {
        let texts = match self.texts {
            Texts::All => "",
            Texts::Changed => ", changed texts",
            Texts::Accepted => ", accepted texts",
        };
        let value = self.kind.row().value;
        let of = match self.of.as_str() {
            of if of == value => value.to_owned(),
            of => format!("{value}, {of}"),
        };
        format!("{of}{texts}")
    }
}

impl RuleVerdict {
    /// The bounds, e.g. `[1.20, 3.40]`; `–` where there are none.
    pub fn bounds_text(&self) -> String {
        match (self.low, self.high) {
            (Some(low), Some(high)) => format!("[{}, {}]", fine(low), fine(high)),
            _ => "–".to_owned(),
        }
    }

    /// The estimate; `–` where there is none.
    pub fn estimate_text(&self) -> String {
        self.estimate.map_or("–".to_owned(), fine)
    }

    /// The note, and what a decision would take; empty where there is nothing to say.
    pub fn remark(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        if let Some(p) = self.p_holm {
            parts.push(format!("p (Holm) {}", p_value(p)));
        }
        parts.extend(self.note.clone());
        parts.extend(self.needed());
        parts.join("; ")
    }

    /// The data that a decision would need; absent if the rule is decided, or if they are unknown.
    pub(super) fn needed(&self) -> Option<String> {
        if self.verdict != GateVerdict::Undecided {
            return None;
        }
        let what = if self.over == Some(Unit::Item) {
            "items"
        } else {
            "data sets"
        };
        let more = |needed: Option<usize>, now: usize, what: &str| {
            let needed = needed.filter(|needed| *needed > now)?;
            Some(format!("{needed} {what} (now {now})"))
        };
        let units = more(self.units_needed, self.units, what);
        let seeds = more(self.seeds_needed, self.seeds, "seeds");
        let either: Vec<String> = units.into_iter().chain(seeds).collect();
        (!either.is_empty()).then(|| format!("about {} would decide, if the estimate stays", either.join(" or ")))
    }
}
