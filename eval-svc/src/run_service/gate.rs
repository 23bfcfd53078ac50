//! Conversions between protos and the domain's gate.

use isomer_config::spelling::suggest;
use isomer_proto::{ProtoEnum, eval::v1 as proto};
use isomer_service_kit::{Fault, choice};

use crate::{
    gate::{
        Adjust, Basis, Gate, LimitsMessage, OnUndecided, Rule, RuleKind, RuleLimit, RuleLocation, Texts, Unit, When,
        check_alpha,
    },
    report::GateVerdict,
    task::TaskType,
};

/// Reads a request's gate.
pub(super) fn gate(gate: Option<proto::Gate>) -> Result<Gate, Fault> {
    let Some(mut gate) = gate else {
        return Ok(Gate::default());
    };
    if let Some(alpha) = gate.alpha {
        check_alpha(alpha).map_err(|message| Fault::invalid("spec.gate.alpha", message))?;
    }
    let limits = gate
        .read_limits()
        .map_err(|(key, message)| Fault::invalid(format!("spec.gate.{key}"), message))?;
    Ok(Gate {
        limits,
        attempts: None,
        without_suite_rules: gate.without_suite_rules,
        adjust: read::<proto::GateAdjust, _>("spec.gate.adjust", gate.adjust, &Adjust::ALL, Adjust::name)?,
        basis: read::<proto::GateBasis, _>("spec.gate.basis", gate.basis, &Basis::ALL, Basis::name)?,
        unit: read::<proto::GateUnit, _>("spec.gate.unit", gate.unit, &Unit::ALL, Unit::name)?,
        undecided: read::<proto::GateUndecided, _>(
            "spec.gate.undecided",
            gate.undecided,
            &OnUndecided::ALL,
            OnUndecided::name,
        )?,
        sequential: choice("spec.gate.sequential", gate.sequential)?,
        alpha: gate.alpha,
        rules: gate
            .rules
            .into_iter()
            .enumerate()
            .map(|(i, one)| rule(i, one))
            .collect::<Result<_, _>>()?,
    })
}

/// The domain's value with the name of a field's value.
fn read<P: ProtoEnum, T: Copy>(
    field: &str,
    number: i32,
    all: &[T],
    name: fn(T) -> &'static str,
) -> Result<Option<T>, Fault> {
    let given: Option<P> = choice(field, number)?;
    Ok(given.and_then(|given| given.among(all.iter().copied(), name)))
}

/// The number of the proto value with the same name as the domain's; 0 for none.
fn written<P: ProtoEnum>(name: Option<&str>) -> i32 {
    name.and_then(P::named).unwrap_or_default().into()
}

fn filled(text: String) -> Option<String> {
    Some(text).filter(|text| !text.trim().is_empty())
}

fn rule(position: usize, mut rule: proto::GateRule) -> Result<Rule, Fault> {
    let field = format!("gate.rules[{position}]");
    let path = |key: &str| format!("spec.{field}.{key}");
    let place = RuleLocation {
        origin: String::new(),
        field: field.clone(),
    };
    let text = std::mem::take(&mut rule.text);
    if !text.is_empty() {
        if rule != proto::GateRule::default() {
            return Err(Fault::invalid(path("text"), "stands beside other fields").hint("give one or the other"));
        }
        let rule: Rule = text
            .parse()
            .map_err(|message: String| Fault::invalid(path("text"), message))?;
        return Ok(Rule { place, ..rule });
    }
    let limit = rule.limit.as_ref().and_then(proto::gate_rule::Limit::parts);
    let limit = limit.and_then(|(name, value)| Some(RuleLimit::new(RuleKind::named(name)?, value)));
    let limit = limit.ok_or_else(|| {
        Fault::invalid(
            path("limit"),
            format!("names no limit; set {}, or `text`", RuleKind::one_of()),
        )
    })?;
    limit
        .check()
        .map_err(|message| Fault::invalid(path(limit.kind.name()), message))?;
    limit
        .check_fail_at(rule.fail_at)
        .map_err(|message| Fault::invalid(path("fail_at"), message))?;
    let limits = rule
        .read_limits()
        .map_err(|(key, message)| Fault::invalid(path(&key), message))?;
    let task = match filled(rule.task_type) {
        None => None,
        Some(name) => Some(name.parse::<TaskType>().map_err(|_| {
            let message = format!("`{name}` is not a task type");
            Fault::invalid(path("task_type"), message).hint(suggest(&name, &TaskType::ALL.map(TaskType::name)))
        })?),
    };
    Ok(Rule {
        limits,
        texts: read::<proto::GateTexts, _>(&path("texts"), rule.texts, &Texts::ALL, Texts::name)?.unwrap_or_default(),
        when: When::Always,
        name: filled(rule.name),
        limit,
        fail_at: rule.fail_at,
        of: filled(rule.quantity).unwrap_or_else(|| limit.measure().row().quantity.to_owned()),
        task,
        dataset: filled(rule.dataset),
        form: None,
        basis: read::<proto::GateBasis, _>(&path("basis"), rule.basis, &Basis::ALL, Basis::name)?,
        unit: read::<proto::GateUnit, _>(&path("unit"), rule.unit, &Unit::ALL, Unit::name)?,
        place,
    })
}

/// A request's gate as a message; `None` if the gate is empty.
pub(super) fn proto(gate: &Gate) -> Option<proto::Gate> {
    if *gate == Gate::default() {
        return None;
    }
    let mut message = proto::Gate {
        rules: gate.rules.iter().map(proto_rule).collect(),
        alpha: gate.alpha,
        without_suite_rules: gate.without_suite_rules,
        adjust: written::<proto::GateAdjust>(gate.adjust.map(Adjust::name)),
        basis: written::<proto::GateBasis>(gate.basis.map(Basis::name)),
        unit: written::<proto::GateUnit>(gate.unit.map(Unit::name)),
        undecided: written::<proto::GateUndecided>(gate.undecided.map(OnUndecided::name)),
        sequential: gate.sequential.unwrap_or_default().into(),
        ..proto::Gate::default()
    };
    message.write_limits(gate.limits);
    Some(message)
}

fn proto_rule(rule: &Rule) -> proto::GateRule {
    let limit = proto::gate_rule::Limit::named(rule.limit.kind.name(), rule.limit.value);
    if limit.is_none() || rule.form.is_some() {
        // A kind or a key that is newer than the message's fields.
        return proto::GateRule {
            text: rule.to_string(),
            ..proto::GateRule::default()
        };
    }
    let mut message = proto::GateRule {
        name: rule.name.clone().unwrap_or_default(),
        quantity: rule.of.clone(),
        task_type: rule.task.map(|task| task.name().to_owned()).unwrap_or_default(),
        dataset: rule.dataset.clone().unwrap_or_default(),
        basis: written::<proto::GateBasis>(rule.basis.map(Basis::name)),
        unit: written::<proto::GateUnit>(rule.unit.map(Unit::name)),
        texts: written::<proto::GateTexts>(Some(rule.texts.name()).filter(|_| rule.texts != Texts::All)),
        limit,
        fail_at: rule.fail_at,
        ..proto::GateRule::default()
    };
    message.write_limits(rule.limits);
    message
}

/// The effect of an undecided gate, as a proto.
pub(super) fn on_undecided(undecided: OnUndecided) -> proto::GateUndecided {
    proto::GateUndecided::named(undecided.name()).unwrap_or_default()
}

pub(super) fn verdict(verdict: GateVerdict) -> proto::Verdict {
    match verdict {
        GateVerdict::Pass => proto::Verdict::Pass,
        GateVerdict::Undecided => proto::Verdict::Undecided,
        GateVerdict::Invalid => proto::Verdict::Invalid,
        GateVerdict::Fail => proto::Verdict::Fail,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use prost::Message;
    use prost_types::FileDescriptorSet;

    use super::*;

    fn text(text: &str) -> proto::GateRule {
        proto::GateRule {
            text: text.to_owned(),
            ..proto::GateRule::default()
        }
    }

    #[test]
    fn every_limit_of_the_protocol_is_a_kind_of_rule() {
        let set = FileDescriptorSet::decode(isomer_proto::FILE_DESCRIPTOR_SET).unwrap();
        let mut messages = set.file.iter().flat_map(|file| &file.message_type);
        let message = messages.find(|message| message.name() == "GateRule").unwrap();
        let limits = message.oneof_decl.iter().position(|one| one.name() == "limit").unwrap();
        // An optional field is a oneof of its own, so the numbers are compared.
        let limits = message
            .field
            .iter()
            .filter(|field| field.oneof_index == i32::try_from(limits).ok());
        for field in limits {
            assert!(RuleKind::named(field.name()).is_some(), "{}", field.name());
        }
        assert_eq!(proto::gate_rule::Limit::named("max_unchanged", 0.5), None);
        assert_eq!(proto::gate_rule::Limit::named("nonsense", 0.5), None);
    }

    /// A kind without a field of the message is written as text.
    #[test]
    fn every_kind_of_rule_is_written_and_read_back() {
        for kind in RuleKind::ALL {
            let (low, high) = kind.measure().row().limits;
            let value = (low + high) / 2.0;
            let given: Rule = format!("{}={value},fail_at={value},name=n", kind.name())
                .parse()
                .unwrap();
            let place = rule(0, text("max_drop=1")).unwrap().place;
            let given = Rule { place, ..given };
            let message = proto_rule(&given);
            assert_ne!(message.limit.is_some(), !message.text.is_empty(), "{}", kind.name());
            assert_eq!(rule(0, message).unwrap(), given);
        }
    }

    #[test]
    fn every_value_of_the_protocol_is_a_value_of_the_gate() {
        fn same<P: ProtoEnum>(ours: &[&str]) {
            let protocol: BTreeSet<_> = P::all().map(ProtoEnum::dashed).collect();
            assert_eq!(protocol, ours.iter().copied().collect());
        }
        same::<proto::GateAdjust>(&Adjust::ALL.map(Adjust::name));
        same::<proto::GateBasis>(&Basis::ALL.map(Basis::name));
        same::<proto::GateUnit>(&Unit::ALL.map(Unit::name));
        same::<proto::GateUndecided>(&OnUndecided::ALL.map(OnUndecided::name));
        same::<proto::GateTexts>(&Texts::ALL.map(Texts::name));
    }

    #[test]
    fn a_rule_as_text_is_the_rule_in_fields() {
        let fields = proto::GateRule {
            limit: Some(proto::gate_rule::Limit::MaxDrop(3.0)),
            quantity: "length".to_owned(),
            task_type: "sts".to_owned(),
            basis: proto::GateBasis::SignedRank.into(),
            max_cut: Some(0.5),
            validity: [("max_leak".to_owned(), 0.25)].into(),
            ..proto::GateRule::default()
        };
        let written = text("max_drop=3,of=length,task=sts,basis=signed-rank,max_cut=0.5,max_leak=0.25");
        assert_eq!(rule(0, written).unwrap(), rule(0, fields.clone()).unwrap());
        assert_eq!(proto_rule(&rule(0, fields.clone()).unwrap()), fields);
    }

    #[test]
    fn text_that_is_no_rule_or_stands_beside_fields_is_refused() {
        let refused = |one: proto::GateRule| rule(2, one).unwrap_err();
        let unread = refused(text("max_dorp=3"));
        assert_eq!(unread.field.as_deref(), Some("spec.gate.rules[2].text"));
        let beside = proto::GateRule {
            dataset: "STSBenchmark".to_owned(),
            ..text("max_drop=3")
        };
        assert_eq!(refused(beside).field.as_deref(), Some("spec.gate.rules[2].text"));
        assert_eq!(
            refused(proto::GateRule::default()).field.as_deref(),
            Some("spec.gate.rules[2].limit")
        );
    }
}
