//! Conversions between protos and the domain's gate.

use isomer_config::spelling::nearest;
use isomer_proto::eval::v1 as proto;
use isomer_service_kit::Fault;

use crate::{
    gate::{
        Adjust, Basis, Gate, LimitsMessage, OnUndecided, Place, Rule, RuleKind, RuleLimit, Sequential, Texts, Unit,
        When, check_alpha,
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
        without_suite_rules: gate.without_suite_rules,
        adjust: match known(proto::GateAdjust::try_from(gate.adjust), "spec.gate.adjust")? {
            proto::GateAdjust::Unspecified => None,
            proto::GateAdjust::None => Some(Adjust::None),
            proto::GateAdjust::Holm => Some(Adjust::Holm),
        },
        basis: basis("spec.gate.basis", gate.basis)?,
        unit: unit("spec.gate.unit", gate.unit)?,
        undecided: match known(proto::GateUndecided::try_from(gate.undecided), "spec.gate.undecided")? {
            proto::GateUndecided::Unspecified => None,
            proto::GateUndecided::Block => Some(OnUndecided::Block),
            proto::GateUndecided::Warn => Some(OnUndecided::Warn),
            proto::GateUndecided::Fail => Some(OnUndecided::Fail),
        },
        sequential: match known(proto::GateSequential::try_from(gate.sequential), "spec.gate.sequential")? {
            proto::GateSequential::Unspecified => None,
            proto::GateSequential::Off => Some(Sequential::Off),
            proto::GateSequential::Pocock => Some(Sequential::Pocock),
            proto::GateSequential::ObrienFleming => Some(Sequential::ObrienFleming),
            proto::GateSequential::Betting => Some(Sequential::Betting),
        },
        alpha: gate.alpha,
        rules: gate
            .rules
            .into_iter()
            .enumerate()
            .map(|(i, one)| rule(i, one))
            .collect::<Result<_, _>>()?,
    })
}

fn known<T, E>(value: Result<T, E>, field: &str) -> Result<T, Fault> {
    value.map_err(|_| Fault::invalid(field, "is not a value that this version knows"))
}

fn basis(field: &str, basis: i32) -> Result<Option<Basis>, Fault> {
    Ok(match known(proto::GateBasis::try_from(basis), field)? {
        proto::GateBasis::Unspecified => None,
        proto::GateBasis::Point => Some(Basis::Point),
        proto::GateBasis::SignedRank => Some(Basis::SignedRank),
        proto::GateBasis::Student => Some(Basis::Student),
        proto::GateBasis::Bootstrap => Some(Basis::Bootstrap),
        proto::GateBasis::Bounded => Some(Basis::Bounded),
        proto::GateBasis::StudentisedBootstrap => Some(Basis::StudentisedBootstrap),
    })
}

fn unit(field: &str, unit: i32) -> Result<Option<Unit>, Fault> {
    Ok(match known(proto::GateUnit::try_from(unit), field)? {
        proto::GateUnit::Unspecified => None,
        proto::GateUnit::Item => Some(Unit::Item),
        proto::GateUnit::Group => Some(Unit::Group),
    })
}

fn proto_unit(unit: Option<Unit>) -> i32 {
    match unit {
        None => proto::GateUnit::Unspecified,
        Some(Unit::Item) => proto::GateUnit::Item,
        Some(Unit::Group) => proto::GateUnit::Group,
    }
    .into()
}

fn filled(text: String) -> Option<String> {
    Some(text).filter(|text| !text.trim().is_empty())
}

fn rule(position: usize, mut rule: proto::GateRule) -> Result<Rule, Fault> {
    use proto::gate_rule::Limit;
    let field = format!("gate.rules[{position}]");
    let path = |key: &str| format!("spec.{field}.{key}");
    let limit = match rule.limit {
        None => {
            let message = format!("names no limit; set {}", RuleKind::one_of());
            return Err(Fault::invalid(path("limit"), message));
        }
        Some(Limit::MaxDrop(points)) => RuleLimit::MaxDrop(points),
        Some(Limit::MaxDropPercent(percent)) => RuleLimit::MaxDropPercent(percent),
        Some(Limit::MinScore(points)) => RuleLimit::MinScore(points),
        Some(Limit::Margin(points)) => RuleLimit::Margin(points),
        Some(Limit::MinSeparation(share)) => RuleLimit::MinSeparation(share),
        Some(Limit::Worst(points)) => RuleLimit::Worst(points),
        Some(Limit::MaxNegativeFlips(percent)) => RuleLimit::MaxNegativeFlips(percent),
        Some(Limit::MinOverlap(percent)) => RuleLimit::MinOverlap(percent),
    };
    limit
        .check()
        .map_err(|message| Fault::invalid(path(limit.kind().name()), message))?;
    let limits = rule
        .read_limits()
        .map_err(|(key, message)| Fault::invalid(path(&key), message))?;
    let task = match filled(rule.task_type) {
        None => None,
        Some(name) => Some(name.parse::<TaskType>().map_err(|error| {
            let message = match nearest(&name, TaskType::ALL.map(TaskType::name)) {
                Some(near) => format!("unknown task type `{name}`; did you mean `{near}`?"),
                None => error.to_string(),
            };
            Fault::invalid(path("task_type"), message)
        })?),
    };
    Ok(Rule {
        limits,
        texts: match known(proto::GateTexts::try_from(rule.texts), &path("texts"))? {
            proto::GateTexts::Unspecified | proto::GateTexts::All => Texts::All,
            proto::GateTexts::Changed => Texts::Changed,
            proto::GateTexts::Accepted => Texts::Accepted,
        },
        when: When::Always,
        name: filled(rule.name),
        limit,
        of: filled(rule.quantity).unwrap_or_else(|| limit.default_quantity().to_owned()),
        task,
        dataset: filled(rule.dataset),
        basis: basis(&path("basis"), rule.basis)?,
        unit: unit(&path("unit"), rule.unit)?,
        place: Place {
            origin: String::new(),
            field,
        },
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
        adjust: match gate.adjust {
            None => proto::GateAdjust::Unspecified,
            Some(Adjust::None) => proto::GateAdjust::None,
            Some(Adjust::Holm) => proto::GateAdjust::Holm,
        }
        .into(),
        basis: proto_basis(gate.basis),
        unit: proto_unit(gate.unit),
        undecided: gate
            .undecided
            .map_or(proto::GateUndecided::Unspecified, on_undecided)
            .into(),
        sequential: match gate.sequential {
            None => proto::GateSequential::Unspecified,
            Some(Sequential::Off) => proto::GateSequential::Off,
            Some(Sequential::Pocock) => proto::GateSequential::Pocock,
            Some(Sequential::ObrienFleming) => proto::GateSequential::ObrienFleming,
            Some(Sequential::Betting) => proto::GateSequential::Betting,
        }
        .into(),
        ..proto::Gate::default()
    };
    message.write_limits(gate.limits);
    Some(message)
}

fn proto_basis(basis: Option<Basis>) -> i32 {
    match basis {
        None | Some(Basis::ClopperPearson | Basis::Betting) => proto::GateBasis::Unspecified,
        Some(Basis::Point) => proto::GateBasis::Point,
        Some(Basis::SignedRank) => proto::GateBasis::SignedRank,
        Some(Basis::Student) => proto::GateBasis::Student,
        Some(Basis::Bootstrap) => proto::GateBasis::Bootstrap,
        Some(Basis::Bounded) => proto::GateBasis::Bounded,
        Some(Basis::StudentisedBootstrap) => proto::GateBasis::StudentisedBootstrap,
    }
    .into()
}

fn proto_rule(rule: &Rule) -> proto::GateRule {
    use proto::gate_rule::Limit;
    let mut message = proto::GateRule {
        name: rule.name.clone().unwrap_or_default(),
        quantity: rule.of.clone(),
        task_type: rule.task.map(|task| task.name().to_owned()).unwrap_or_default(),
        dataset: rule.dataset.clone().unwrap_or_default(),
        basis: proto_basis(rule.basis),
        unit: proto_unit(rule.unit),
        texts: match rule.texts {
            Texts::All => proto::GateTexts::Unspecified,
            Texts::Changed => proto::GateTexts::Changed,
            Texts::Accepted => proto::GateTexts::Accepted,
        }
        .into(),
        limit: Some(match rule.limit {
            RuleLimit::MaxDrop(points) => Limit::MaxDrop(points),
            RuleLimit::MaxDropPercent(percent) => Limit::MaxDropPercent(percent),
            RuleLimit::MinScore(points) => Limit::MinScore(points),
            RuleLimit::Margin(points) => Limit::Margin(points),
            RuleLimit::MinSeparation(share) => Limit::MinSeparation(share),
            RuleLimit::Worst(points) => Limit::Worst(points),
            RuleLimit::MaxNegativeFlips(percent) => Limit::MaxNegativeFlips(percent),
            RuleLimit::MinOverlap(percent) => Limit::MinOverlap(percent),
        }),
        ..proto::GateRule::default()
    };
    message.write_limits(rule.limits);
    message
}

/// What an undecided gate means, as a proto.
pub(super) fn on_undecided(undecided: OnUndecided) -> proto::GateUndecided {
    match undecided {
        OnUndecided::Block => proto::GateUndecided::Block,
        OnUndecided::Warn => proto::GateUndecided::Warn,
        OnUndecided::Fail => proto::GateUndecided::Fail,
    }
}

/// A verdict as a proto.
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
    use prost::Message;
    use prost_types::FileDescriptorSet;

    use super::*;

    #[test]
    fn the_limits_of_the_protocol_are_the_kinds_of_rules() {
        let set = FileDescriptorSet::decode(isomer_proto::FILE_DESCRIPTOR_SET).unwrap();
        let mut messages = set.file.iter().flat_map(|file| &file.message_type);
        let message = messages.find(|message| message.name() == "GateRule").unwrap();
        let limits = message.oneof_decl.iter().position(|one| one.name() == "limit").unwrap();
        // An optional field is a oneof of its own, so the number is compared, not whether there is
        // one.
        let limits = message
            .field
            .iter()
            .filter(|field| field.oneof_index == i32::try_from(limits).ok())
            .map(|field| field.name());
        assert_eq!(limits.collect::<Vec<_>>(), RuleKind::ALL.map(RuleKind::name));
        for kind in RuleKind::ALL {
            assert_eq!(RuleLimit::new(kind, 0.5).kind(), kind);
        }
    }
}
