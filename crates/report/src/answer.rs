//! The gate's verdict on each encoder in a sentence: what was found, and the limit.
//!
//! A rule is stated in its own direction, as its title is: a drop is a positive number after "drops
//! by", also in the bounds.

use std::cmp::Reverse;

use super::{EncoderVerdict, GateReport, GateRule, GateVerdict, RuleVerdict, format::counted};
use crate::terms::{COUNTS_TEXTS, Measure, MeasureUnit, OnUndecided, RuleScope, Side, Unit};

/// Maximum number of rules that an answer names.
const NAMED: usize = 2;

/// The verdict on an encoder with its reasons.
#[derive(Debug, Clone, PartialEq)]
pub struct VerdictSummary<'a> {
    /// The verdict on all rules.
    pub own: &'a EncoderVerdict,
    /// The findings of the rules that decide the verdict, each with its limit.
    pub reasons: String,
}

/// Rules with their verdicts, the worst first.
pub(super) fn worst_first<'a>(mut said: Vec<(&'a GateRule, &'a RuleVerdict)>) -> Vec<(&'a GateRule, &'a RuleVerdict)> {
    said.sort_by_key(|(_, said)| Reverse(said.verdict));
    said
}

impl VerdictSummary<'_> {
    pub fn sentence(&self) -> String {
        format!("{} {}: {}.", self.own.encoder, self.own.verdict.verb(), self.reasons)
    }
}

impl GateVerdict {
    /// The verdict as a verb, after an encoder's name.
    pub fn verb(self) -> &'static str {
        match self {
            Self::Pass => "passes",
            Self::Undecided => "is undecided",
            Self::Invalid => "is invalid",
            Self::Fail => "fails",
        }
    }
}

/// A number with its ending: `4th`.
fn ordinal(number: u64) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

impl GateReport {
    /// The rules that apply to an encoder, with their verdicts.
    pub fn rules_of<'a>(&'a self, own: &'a EncoderVerdict) -> impl Iterator<Item = (&'a GateRule, &'a RuleVerdict)> {
        let said = self.rules.iter().zip(&own.rules);
        said.filter(|(_, said)| !said.not_applicable)
    }

    /// One answer for each judged encoder, worst verdict first.
    pub fn answers(&self) -> Vec<VerdictSummary<'_>> {
        let answer = |own| VerdictSummary {
            own,
            reasons: self.reasons(own),
        };
        let mut answers: Vec<VerdictSummary<'_>> = self.encoders.iter().map(answer).collect();
        answers.sort_by_key(|one| Reverse(one.own.verdict));
        answers
    }

    /// The findings that decide the verdict on an encoder. Comparisons with the baseline come
    /// first.
    fn reasons(&self, own: &EncoderVerdict) -> String {
        let said = self.rules_of(own);
        let mut same: Vec<(&GateRule, &RuleVerdict)> = said.filter(|(_, said)| said.verdict == own.verdict).collect();
        same.sort_by_key(|(rule, _)| !rule.kind.measure().row().needs_baseline);
        let mut reasons: Vec<String> = same.iter().map(|(rule, said)| rule.reason(said)).collect();
        reasons.dedup();
        let more = reasons.len().saturating_sub(NAMED);
        reasons.truncate(NAMED);
        if more > 0 {
            reasons.push(format!("and {}", counted(more, "more rule")));
        }
        reasons.join("; ")
    }

    /// Further sentences that a reader of the verdict must know.
    pub fn caveats(&self) -> Vec<String> {
        let mut caveats = Vec::new();
        if self.verdict == GateVerdict::Undecided {
            caveats.push(match self.undecided {
                OnUndecided::Warn => "The data allow neither pass nor fail; nothing is blocked.".to_owned(),
                OnUndecided::Block | OnUndecided::Fail => {
                    "The data allow neither pass nor fail, which blocks here.".to_owned()
                }
            });
        }
        if self.verdict == GateVerdict::Pass && !self.compares_level() {
            caveats.push("Level not compared: no baseline.".to_owned());
        }
        for own in &self.encoders {
            if let Some(attempts) = own.attempts.as_ref().filter(|attempts| attempts.number > 1) {
                let earlier = counted(attempts.earlier.len(), "earlier one");
                let number = ordinal(attempts.number);
                caveats.push(format!(
                    "{}: {number} attempt on these data; {earlier} had other seeds, rows or texts.",
                    own.encoder
                ));
            }
        }
        if let Some(why) = &self.ratings_refused {
            caveats.push(format!("Ratings do not count: {why}."));
        } else if self.rewrites_rated == Some(false) {
            caveats.push("Rewrites not rated: whether they keep the meaning of the texts is not known.".to_owned());
        }
        caveats
    }

    /// Whether any rule compares scores of the encoders with those of a baseline.
    fn compares_level(&self) -> bool {
        self.rules.iter().any(|rule| rule.kind.measure() == Measure::Difference)
    }

    /// The verdict, and the encoders that it is about.
    pub(super) fn summary(&self) -> String {
        let same = self.encoders.iter().filter(|own| own.verdict == self.verdict);
        let names: Vec<&str> = same.map(|own| own.encoder.as_str()).collect();
        let keeps = if names.len() == 1 { "keeps" } else { "keep" };
        let rules = if self.rules.len() == 1 {
            "the rule"
        } else {
            "every rule"
        };
        let names = names.join(", ");
        match self.verdict {
            GateVerdict::Pass => format!("Gate passed: {names} {keeps} {rules}."),
            GateVerdict::Fail => format!("Gate failed: {names}."),
            GateVerdict::Undecided => format!("Gate undecided: {names}."),
            GateVerdict::Invalid => format!("Gate invalid: {names}."),
        }
    }

    /// The verdict and its reasons in one line.
    pub fn sentence(&self) -> String {
        let answers = self.answers().into_iter();
        let same = answers.filter(|one| one.own.verdict == self.verdict && self.verdict != GateVerdict::Pass);
        let reasons = same.map(|one| one.sentence());
        let parts: Vec<String> = std::iter::once(self.summary())
            .chain(reasons)
            .chain(self.caveats())
            .collect();
        parts.join(" ")
    }
}

impl GateRule {
    /// The finding with the limit: `total drops by 9.1 points (limit 15)`.
    pub fn finding(&self, said: &RuleVerdict) -> Option<String> {
        let (found, limit) = (self.found(said)?, self.limit_value());
        Some(format!("{found} (limit {limit}{})", self.failing()))
    }

    /// Where it fails: `, fails beyond 2`; empty if that is at the limit.
    pub(super) fn failing(&self) -> String {
        let Some(fail_at) = self.fail_at else {
            return String::new();
        };
        let side = match self.kind.row().side {
            Side::AtLeast => "below",
            Side::AtMost | Side::AtLeastMinus => "beyond",
        };
        format!(", fails {side} {}", self.unit().limit(fail_at))
    }

    /// The finding, the limit, the bounds and the remarks.
    pub(super) fn sentence(&self, said: &RuleVerdict) -> String {
        let mut sentence = self.finding(said).unwrap_or_else(|| self.title.clone());
        if let Some(name) = self.name() {
            sentence = format!("{name}: {sentence}");
        }
        if let Some(bounds) = self.bounds(said) {
            sentence.push_str(&format!(", one-sided bounds {bounds}"));
        }
        sentence.push_str(&format!(", over {}", self.units_text(said)));
        let remark = self.remark(said);
        if !remark.is_empty() {
            sentence.push_str(&format!("; {remark}"));
        }
        sentence
    }

    /// The remark on a verdict, without the notes that [`Self::units_text`] makes redundant.
    pub(super) fn remark(&self, said: &RuleVerdict) -> String {
        let remark = said.remark();
        let known = [Unit::Item.words(), COUNTS_TEXTS];
        let parts: Vec<&str> = remark.split("; ").filter(|part| !known.contains(part)).collect();
        parts.join("; ")
    }

    /// The finding without the limit.
    pub(super) fn found(&self, said: &RuleVerdict) -> Option<String> {
        let estimate = said.estimate.filter(|estimate| estimate.is_finite())?;
        let [up, down] = self.kind.row().found;
        let words = if estimate < 0.0 { down } else { up };
        let words = words.replace("{value}", &self.unit().value(estimate.abs(), self.limit));
        Some(self.scope().sentence(self.kind, &words))
    }

    fn scope(&self) -> RuleScope<'_> {
        RuleScope {
            of: &self.of,
            texts: self.texts,
            task: self.task,
            dataset: self.dataset.as_deref(),
            form: self.form.as_deref(),
        }
    }

    /// The name that the rule's author gave it.
    pub(super) fn name(&self) -> Option<&str> {
        let title = self.scope().title(self.kind, self.limit);
        (self.title != title).then_some(self.title.as_str())
    }

    /// The limit with its side: `at most 15`.
    pub(super) fn limit_words(&self) -> String {
        let side = match self.kind.row().side {
            Side::AtLeast => "at least",
            Side::AtMost | Side::AtLeastMinus => "at most",
        };
        format!("{side} {}{}", self.limit_value(), self.failing())
    }

    /// The bounds in the direction of [`Self::found`]: `4.0 to 13.8`.
    pub(super) fn bounds(&self, said: &RuleVerdict) -> Option<String> {
        let (low, high) = (said.low?, said.high?);
        let [up, down] = self.kind.row().found;
        let turned = up != down && said.estimate.is_some_and(|estimate| estimate < 0.0);
        let (low, high) = if turned { (-high, -low) } else { (low, high) };
        let [low, high] = [low, high].map(|bound| self.unit().number(bound, self.limit));
        Some(format!("{low} to {high}"))
    }

    /// The limit as its author wrote it, with the unit of a share or a percentage.
    pub(super) fn limit_value(&self) -> String {
        self.unit().limit(self.limit)
    }

    /// Unit of the compared value and of the limit.
    fn unit(&self) -> MeasureUnit {
        self.kind.measure().row().unit
    }

    fn reason(&self, said: &RuleVerdict) -> String {
        let note = || said.note.as_deref().unwrap_or("no reason was given");
        match (said.verdict, self.finding(said)) {
            (GateVerdict::Invalid, _) | (_, None) => format!("rule \"{}\": {}", self.title, note()),
            (GateVerdict::Undecided, Some(finding)) => match self.bounds(said) {
                Some(bounds) => finding.replace("(limit", &format!("(bounds {bounds}, limit")),
                None => finding,
            },
            (_, Some(finding)) => finding,
        }
    }

    /// The units that a verdict rests on, e.g. `114 items`.
    pub fn units_text(&self, said: &RuleVerdict) -> String {
        let unit = match (self.kind.measure(), said.over) {
            (Measure::Separation, _) => "text",
            (_, Some(Unit::Item)) => "item",
            (_, Some(Unit::Group) | None) => "data set",
        };
        counted(said.units, unit)
    }
}

#[cfg(test)]
mod tests {
    use super::ordinal;

    #[test]
    fn numbers_have_their_endings() {
        let numbers = [1, 2, 3, 4, 11, 12, 13, 21, 112].map(ordinal);
        assert_eq!(
            numbers,
            ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "112th"]
        );
    }
}
