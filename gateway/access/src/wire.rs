//! Conversions of keys and events between our types and the protocol's.

use isomer_proto::{
    ProtoEnum,
    gateway::v1::{AccessScope, ApiKey, AuditEvent as WireEvent, BudgetPeriod, KeyBudget, KeyLimits, KeyUsage},
};
use isomer_service_kit::Fault;
use prost_types::Timestamp;

use crate::{
    audit::AuditEvent,
    limits::{Budget, Limits},
    scope::Scopes,
    store::{KeyRecord, Usage, UsageTotals},
};

/// The fault for a required field that is absent.
pub(crate) fn missing(field: &str) -> Fault {
    Fault::invalid(field, "is missing").hint("give it")
}

/// Renames a fault's field of a key to its path in the request that contains the key.
pub(crate) fn within_key(mut fault: Fault) -> Fault {
    fault.field = fault.field.map(|field| match field.as_str() {
        "expires" => "key.expire_time".to_owned(),
        field => format!("key.{field}"),
    });
    fault
}

/// Refuses fields that only the gateway writes, because a caller that sends them would expect an
/// effect.
pub(crate) fn only_settable(key: &ApiKey, with_id: bool) -> Result<(), Fault> {
    let written = [
        (!with_id && !key.id.is_empty(), "key.id"),
        (key.create_time.is_some(), "key.create_time"),
        (!key.created_by.is_empty(), "key.created_by"),
        (key.revoke_time.is_some(), "key.revoke_time"),
        (key.last_used_time.is_some(), "key.last_used_time"),
        (key.used_today.is_some(), "key.used_today"),
        (key.used_this_month.is_some(), "key.used_this_month"),
        (key.used_in_total.is_some(), "key.used_in_total"),
    ];
    match written.into_iter().find(|(is_set, _)| *is_set) {
        Some((_, field)) => Err(Fault::invalid(field, "is written by the gateway only").hint("leave it out")),
        None => Ok(()),
    }
}

pub(crate) fn scopes(key: &ApiKey) -> Result<Scopes, Fault> {
    let scope = |(index, number): (usize, &i32)| {
        AccessScope::given(*number).ok().flatten().ok_or_else(|| {
            Fault::invalid(format!("key.scopes[{index}]"), format!("{number} is not a scope"))
                .hint("give ENCODE, TRANSFORM, EVALUATE or ADMIN")
        })
    };
    key.scopes.iter().enumerate().map(scope).collect()
}

pub(crate) fn limits(limits: KeyLimits) -> Result<Limits, Fault> {
    let budget = |(index, budget): (usize, KeyBudget)| {
        let per = BudgetPeriod::given(budget.per).ok().flatten().ok_or_else(|| {
            Fault::invalid(format!("key.limits.budgets[{index}].per"), "is not a period")
                .hint("give DAY, MONTH or TOTAL")
        })?;
        Ok::<_, Fault>(Budget {
            per,
            tokens: budget.tokens,
            cost_usd: budget.cost_usd,
        })
    };
    Ok(Limits {
        requests_per_second: limits.requests_per_second,
        max_concurrency: limits.max_concurrency,
        budgets: limits
            .budgets
            .into_iter()
            .enumerate()
            .map(budget)
            .collect::<Result<_, _>>()?,
    })
}

/// Microseconds since 1970.
pub(crate) fn micros(field: &str, time: Timestamp) -> Result<i64, Fault> {
    let refuse = || Fault::invalid(field, "is not a time").hint("give seconds and nanos since 1970");
    if !(0..1_000_000_000).contains(&time.nanos) {
        return Err(refuse());
    }
    let seconds = time.seconds.checked_mul(1_000_000).ok_or_else(refuse)?;
    seconds.checked_add(i64::from(time.nanos / 1000)).ok_or_else(refuse)
}

/// The wire form of a time in microseconds since 1970.
pub fn time(micros: i64) -> Timestamp {
    Timestamp {
        seconds: micros.div_euclid(1_000_000),
        nanos: (micros.rem_euclid(1_000_000) * 1000) as i32,
    }
}

/// The wire form of a key.
pub fn key(record: &KeyRecord, usage: Option<&Usage>) -> ApiKey {
    let used = |used: UsageTotals| KeyUsage {
        requests: used.requests,
        tokens: used.tokens,
        cost_usd: used.cost_usd,
    };
    ApiKey {
        id: record.id.clone(),
        name: record.name.clone(),
        scopes: record.scopes.iter().map(Into::into).collect(),
        limits: Some(key_limits(&record.limits)),
        create_time: Some(time(record.created)),
        created_by: record.created_by.clone(),
        expire_time: record.expires.map(time),
        revoke_time: record.revoked.map(time),
        last_used_time: usage.and_then(|usage| usage.last_used).map(time),
        used_today: usage.map(|usage| used(usage.day)),
        used_this_month: usage.map(|usage| used(usage.month)),
        used_in_total: usage.map(|usage| used(usage.total)),
    }
}

/// The wire form of limits.
pub fn key_limits(limits: &Limits) -> KeyLimits {
    let budget = |budget: &Budget| KeyBudget {
        per: budget.per.into(),
        tokens: budget.tokens,
        cost_usd: budget.cost_usd,
    };
    KeyLimits {
        requests_per_second: limits.requests_per_second,
        max_concurrency: limits.max_concurrency,
        budgets: limits.budgets.iter().map(budget).collect(),
    }
}

/// The wire form of an event.
pub(crate) fn event(event: &AuditEvent) -> WireEvent {
    WireEvent {
        seq: event.seq,
        time: Some(time(event.at)),
        who: event.who.clone(),
        act: event.act.clone(),
        target: event.target.clone(),
        outcome: event.outcome.clone(),
        hash: event.hash.clone(),
    }
}

impl TryFrom<WireEvent> for AuditEvent {
    type Error = Fault;

    /// An event received over the wire, for verifying a chain without its database.
    fn try_from(event: WireEvent) -> Result<Self, Fault> {
        Ok(Self {
            at: micros("time", event.time.unwrap_or_default())?,
            seq: event.seq,
            who: event.who,
            act: event.act,
            target: event.target,
            outcome: event.outcome,
            hash: event.hash,
        })
    }
}
