//! The display of keys.

use isomer_access::{micros_now, rfc3339};
use isomer_proto::{
    ProtoEnum,
    gateway::v1::{ApiKey, BudgetPeriod, KeyUsage},
};
use prost_types::Timestamp;
use serde_json::{Value, json};

use crate::{
    args::Format,
    table::{Table, TextTable},
};

pub(super) fn one(format: Format, key: &ApiKey) -> String {
    match format {
        Format::Json => document(key).to_string(),
        Format::Text => table(std::slice::from_ref(key)).to_string(),
    }
}

fn micros(time: &Timestamp) -> i64 {
    time.seconds
        .saturating_mul(1_000_000)
        .saturating_add(i64::from(time.nanos / 1000))
}

fn moment(time: Option<&Timestamp>) -> Option<String> {
    time.map(|time| rfc3339(micros(time)))
}

fn scopes(key: &ApiKey) -> Vec<&'static str> {
    key.scopes().map(ProtoEnum::name).collect()
}

fn state(key: &ApiKey) -> &'static str {
    match (&key.revoke_time, &key.expire_time) {
        (Some(_), _) => "revoked",
        (None, Some(at)) if micros(at) <= micros_now() => "expired",
        _ => "active",
    }
}

/// A key as JSON.
pub(super) fn document(key: &ApiKey) -> Value {
    let used = |usage: &Option<KeyUsage>| {
        let usage_json = |usage: &KeyUsage| json!({ "requests": usage.requests, "tokens": usage.tokens, "cost_usd": usage.cost_usd });
        usage.as_ref().map(usage_json)
    };
    let limits = key.limits.clone().unwrap_or_default();
    let budgets = limits
        .budgets
        .iter()
        .map(|budget| json!({ "per": budget.per().dashed(), "tokens": budget.tokens, "cost_usd": budget.cost_usd }));
    json!({
        "id": key.id,
        "name": key.name,
        "state": state(key),
        "scopes": scopes(key),
        "limits": {
            "requests_per_second": limits.requests_per_second,
            "max_concurrency": limits.max_concurrency,
            "budgets": budgets.collect::<Vec<_>>(),
        },
        "created": moment(key.create_time.as_ref()),
        "created_by": key.created_by,
        "expires": moment(key.expire_time.as_ref()),
        "revoked": moment(key.revoke_time.as_ref()),
        "last_used": moment(key.last_used_time.as_ref()),
        "used": {
            "day": used(&key.used_today),
            "month": used(&key.used_this_month),
            "total": used(&key.used_in_total),
        },
    })
}

pub(super) fn table(keys: &[ApiKey]) -> Table {
    let used = |key: &ApiKey| {
        let used = key.used_this_month.unwrap_or_default();
        format!(
            "{} requests, {} tokens, ${:.4}",
            used.requests, used.tokens, used.cost_usd
        )
    };
    let expires = |key: &ApiKey| moment(key.expire_time.as_ref());
    TextTable::of(keys)
        .words("id", |key| format!("iso_{}", key.id))
        .words("name", |key| key.name.clone())
        .words("state", |key| state(key).to_owned())
        .words("scopes", |key| scopes(key).join(" "))
        .words("limits", limits)
        .words("used this month", used)
        .words("last used", |key| {
            moment(key.last_used_time.as_ref()).unwrap_or_default()
        })
        .words("expires", |key| expires(key).unwrap_or_else(|| "never".to_owned()))
        .into()
}

fn limits(key: &ApiKey) -> String {
    let limits = key.limits.clone().unwrap_or_default();
    let rate = limits.requests_per_second.map(|rate| format!("{rate}/s"));
    let at_once = limits.max_concurrency.map(|most| format!("{most} at once"));
    let budgets = limits.budgets.iter().flat_map(|budget| {
        let per = match budget.per() {
            BudgetPeriod::Total => " in total".to_owned(),
            per => format!("/{}", per.dashed()),
        };
        let tokens = budget.tokens.map(|tokens| format!("{tokens} tokens{per}"));
        let dollars = budget.cost_usd.map(|dollars| format!("${dollars}{per}"));
        [tokens, dollars]
    });
    let all: Vec<String> = [rate, at_once].into_iter().chain(budgets).flatten().collect();
    if all.is_empty() {
        "none".to_owned()
    } else {
        all.join(", ")
    }
}
