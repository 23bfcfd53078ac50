//! A rule as text: `max_drop=3,of=length`.

use std::{fmt, str::FromStr};

use isomer_config::key_values::KeyValues;

use super::{Basis, Limits, Rule, RuleKind, RuleLimit, RuleLocation, Texts, Unit, ValidityLimit, When};
use crate::task::TaskType;

/// An example for messages about a rule.
const EXAMPLE: &str = "max_drop=3";

impl FromStr for Rule {
    type Err = String;

    /// Reads the keys of [`Rule::keys`]. Names and numbers are validated for a run when the rule is
    /// bound to it.
    fn from_str(text: &str) -> Result<Self, String> {
        let given = KeyValues::read(text, &Self::keys(), EXAMPLE)?;
        let (kind, value) = given.limit(&RuleKind::ALL.map(|kind| (kind.name(), kind)), EXAMPLE)?;
        let limit = RuleLimit::new(kind, value);
        limit
            .check()
            .map_err(|message| format!("`{}` {message}", kind.name()))?;
        let fail_at = given.number("fail_at")?;
        limit
            .check_fail_at(fail_at)
            .map_err(|message| format!("`fail_at` {message}"))?;
        let mut limits = Limits::default();
        for one in ValidityLimit::ALL {
            limits.set(one, given.number(one.name())?);
        }
        limits.check().map_err(|(key, message)| format!("`{key}` {message}"))?;
        Ok(Self {
            limit,
            fail_at,
            limits,
            name: given.get("name").map(str::to_owned),
            of: given.get("of").unwrap_or(limit.measure().row().quantity).to_owned(),
            task: given.choice("task", "task type", TaskType::ALL, TaskType::name)?,
            dataset: given.get("dataset").map(str::to_owned),
            form: given.get("form").map(str::to_owned),
            basis: given.choice("basis", "basis", Basis::ALL, Basis::name)?,
            unit: given.choice("unit", "unit", Unit::ALL, Unit::name)?,
            texts: given
                .choice("texts", "choice of texts", Texts::ALL, Texts::name)?
                .unwrap_or_default(),
            when: When::Always,
            place: RuleLocation::default(),
        })
    }
}

impl fmt::Display for Rule {
    /// The form that [`Rule::from_str`] reads. A name that contains a comma cannot be read back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={},of={}", self.limit.kind.name(), self.limit.value, self.of)?;
        let texts = Some(self.texts).filter(|texts| *texts != Texts::All);
        let choices = [
            ("task", self.task.map(TaskType::name)),
            ("dataset", self.dataset.as_deref()),
            ("form", self.form.as_deref()),
            ("basis", self.basis.map(Basis::name)),
            ("unit", self.unit.map(Unit::name)),
            ("texts", texts.map(Texts::name)),
            ("name", self.name.as_deref()),
        ];
        for (key, value) in choices {
            if let Some(value) = value {
                write!(f, ",{key}={value}")?;
            }
        }
        if let Some(value) = self.fail_at {
            write!(f, ",fail_at={value}")?;
        }
        for (limit, share) in self.limits.given() {
            write!(f, ",{}={share}", limit.name())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_rule_is_read_key_by_key() {
        let text =
            "max_drop_percent=5, of=translation(fr), dataset=STSBenchmark, basis=signed-rank, task=sts, max_cut=0.5";
        let read: Rule = text.parse().unwrap();
        assert_eq!(read.limit, RuleLimit::new(RuleKind::MaxDropPercent, 5.0));
        assert_eq!(
            (read.of.as_str(), read.dataset.as_deref()),
            ("translation(fr)", Some("STSBenchmark"))
        );
        assert_eq!((read.basis, read.task), (Some(Basis::SignedRank), Some(TaskType::Sts)));
        assert_eq!((read.texts, read.unit, read.name), (Texts::All, None, None));
        let mut limits = Limits::default();
        limits.set(ValidityLimit::MaxCut, Some(0.5));
        assert_eq!(read.limits, limits);
    }

    #[test]
    fn a_quantity_follows_from_the_kind() {
        let of = |text: &str| text.parse::<Rule>().unwrap().of;
        assert_eq!(of("min_separation=0.6"), "separation");
        assert_eq!(of("worst=6"), "total");
    }

    #[test]
    fn every_kind_and_share_is_a_key() {
        for kind in RuleKind::ALL {
            let (low, high) = kind.measure().row().limits;
            let value = (low + high) / 2.0;
            let read: Rule = format!("{}={value}", kind.name()).parse().unwrap();
            assert_eq!(read.limit, RuleLimit::new(kind, value));
        }
        for limit in ValidityLimit::ALL {
            let value = if limit.is_count() { 25.0 } else { 0.25 };
            let read: Rule = format!("max_drop=3,{}={value}", limit.name()).parse().unwrap();
            let mut wanted = Limits::default();
            wanted.set(limit, Some(value));
            assert_eq!(read.limits, wanted);
        }
    }

    #[test]
    fn a_rule_is_written_as_it_is_read() {
        for text in [
            "max_drop=3,of=total",
            "min_score=-2.5,of=original,dataset=STSBenchmark,basis=studentised-bootstrap,unit=group",
            "max_drop=3,of=total,form=hybrid:rsf:0.7",
            "margin=10,of=original,fail_at=2",
            "margin=1,of=length,task=pair-classification,texts=changed,name=short texts,max_zero=0.5,min_accepted=0.25",
        ] {
            let read: Rule = text.parse().unwrap();
            assert_eq!(read.to_string().parse::<Rule>().unwrap(), read);
            assert_eq!(read.to_string().len(), text.len(), "{read}");
        }
    }

    #[test]
    fn an_error_names_the_key_and_the_nearest_name() {
        let refused = |text: &str| text.parse::<Rule>().unwrap_err();
        assert_eq!(refused("maxdrop=3"), "unknown key `maxdrop`; did you mean `max_drop`?");
        assert_eq!(refused("max_drop=three"), "`max_drop` should be a number, is `three`");
        assert_eq!(refused("max_drop=nan"), "`max_drop` should be a number, is `nan`");
        for (text, part) in [
            ("of=length", "names no limit"),
            ("", "names no limit"),
            ("max_drop=3,margin=1", "`margin` is a second limit"),
            ("max_drop=3,max_drop=4", "twice"),
            ("max_drop=3,basis=pont", "did you mean `point`?"),
            ("max_drop=3,basis=betting", "unknown basis `betting`"),
            ("max_drop=3,task=stss", "did you mean `sts`?"),
            ("max_drop=3,unit=row", "unknown unit `row`"),
            ("max_drop=3,texts=some", "unknown choice of texts `some`"),
            ("max_drop=3,when=baseline", "unknown key `when`"),
            ("max_drop 3", "KEY=VALUE"),
            ("max_drop=3,of=", "`of` has no value"),
            ("max_drop=-1", "`max_drop` is -1, should be 0 to 200"),
            ("max_drop=3,max_cut=2", "`max_cut`"),
            ("margin=3,fail_at=4", "`fail_at` is 4, should be 0 to 3"),
            ("min_score=70,fail_at=60", "`fail_at` is 60, should be 70 to 100"),
        ] {
            assert!(refused(text).contains(part), "{text}: {}", refused(text));
        }
    }
}
