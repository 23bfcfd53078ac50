//! Conversions between protos and the domain's limits.

use isomer_proto::eval::v1 as proto;
use isomer_service_kit::Fault;

use crate::limits::{Limits, check_cost};

/// Reads the limits of a request.
pub(super) fn limits(limits: Option<proto::RunLimits>) -> Result<Limits, Fault> {
    let limits = limits.unwrap_or_default();
    if let Some(Err(message)) = limits.cost.map(check_cost) {
        return Err(Fault::invalid("spec.limits.cost", message));
    }
    Ok(Limits {
        generator_calls: limits.generator_calls,
        cost: limits.cost,
    })
}

pub(super) fn proto(limits: &Limits) -> Option<proto::RunLimits> {
    limits.any().then_some(proto::RunLimits {
        generator_calls: limits.generator_calls,
        cost: limits.cost,
    })
}
