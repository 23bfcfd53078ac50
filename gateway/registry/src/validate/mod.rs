//! Validates providers. The first invalid field is reported by its path (`provider.limits.timeout`)
//! with a hint.

mod address;
mod files;

use std::{collections::HashMap, time::Duration};

use isomer_adapters::{Kind, kind_of, kinds};
use isomer_outbound::headers;
use isomer_proto::{
    ProtoEnum,
    gateway::v1::{Provider, ProviderLimits},
};
use isomer_service_kit::Fault;

use crate::{config::ProvidersConfig, time::length};

/// Maximum number of entries of `encoders` and `input_types`.
const MOST_ENTRIES: usize = 1000;
/// Longest name of an encoder or a model, in bytes.
const LONGEST_NAME: usize = 256;
const LONGEST_TIMEOUT: Duration = Duration::from_secs(3600);

/// The author of a provider's record. An operator may name any file of the machine; a caller may
/// not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Author {
    /// A caller of the rpc.
    Caller,
    /// The file of providers.
    Operator,
}

/// Validates a provider's fields, as far as that is possible without a call.
pub(crate) fn provider(provider: &Provider, author: Author, config: &ProvidersConfig) -> Result<(), Fault> {
    id(&provider.id)?;
    let kind = kind_of(provider)?;
    let encrypted = address::address(&provider.address, kind)?;
    encoders(&provider.encoders, kind)?;
    if let Some(limits) = &provider.limits {
        self::limits(limits)?;
    }
    let rules = files::FileRules { author, config };
    if let Some(secret) = &provider.secret {
        rules.secret(secret)?;
    }
    if let Some(tls) = &provider.tls {
        if !encrypted {
            let problem = format!("`{}` is a plain-text address", provider.address);
            return Err(Fault::invalid("provider.tls", problem)
                .hint("begin the address with grpcs:// or https://, or leave tls out"));
        }
        rules.tls(tls)?;
    }
    headers::read(&provider.headers)?;
    within(
        "provider.price_per_million_tokens",
        provider.price_per_million_tokens,
        1e6,
        "US dollars",
    )?;
    input_types(&provider.input_types, kind)?;
    if let Some(lease) = &provider.lease {
        if author == Author::Operator {
            return Err(
                Fault::invalid("provider.lease", "what a file declares stays as long as it is there")
                    .hint("leave lease out"),
            );
        }
        self::lease(lease, config)?;
    }
    Ok(())
}

pub(crate) fn id(id: &str) -> Result<(), Fault> {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let legal = (1..=63).contains(&id.len()) && id.bytes().all(inner) && !id.starts_with('-') && !id.ends_with('-');
    if legal {
        return Ok(());
    }
    let problem = if id.is_empty() {
        "is missing".to_owned()
    } else {
        format!("`{}` is not an id", shown(id))
    };
    Err(Fault::invalid("provider.id", problem)
        .hint("give 1 to 63 of a-z, 0-9 and -, with a letter or a digit at both ends, e.g. tei-berlin-1"))
}

fn encoders(encoders: &HashMap<String, String>, kind: &Kind) -> Result<(), Fault> {
    if encoders.is_empty() && !kind.lists_encoders {
        let problem = format!(
            "is empty, and a provider of kind {} cannot list its encoders",
            kind.value.dashed()
        );
        return Err(Fault::invalid("provider.encoders", problem)
            .hint("name encoder ids and the provider's names for the models"));
    }
    entries("provider.encoders", ["an encoder id", "a model name"], 1, encoders)
}

fn input_types(types: &HashMap<String, String>, kind: &Kind) -> Result<(), Fault> {
    if !types.is_empty() && !kind.has_input_types() {
        let able = kinds().filter(|kind| kind.has_input_types());
        let able: Vec<_> = able.map(|kind| kind.value.dashed()).collect();
        let problem = format!("a provider of kind {} has no input types", kind.value.dashed());
        return Err(Fault::invalid("provider.input_types", problem)
            .hint(format!("leave input_types out; {} have them", able.join(", "))));
    }
    if types.is_empty() && kind.needs_input_types() {
        let problem = format!(
            "is empty, and a provider of kind {} takes no text without one",
            kind.value.dashed()
        );
        return Err(Fault::invalid("provider.input_types", problem)
            .hint("give an input type for each prompt name, and for \"\" where requests name none"));
    }
    // The empty name is for requests that name no prompt.
    entries("provider.input_types", ["a prompt name", "an input type"], 0, types)
}

/// Validates a map of names: bounded, without control characters or surrounding blanks. `shortest`:
/// minimum bytes of a key.
fn entries(field: &str, what: [&str; 2], shortest: usize, entries: &HashMap<String, String>) -> Result<(), Fault> {
    if entries.len() > MOST_ENTRIES {
        let problem = format!("has {} entries", entries.len());
        return Err(Fault::invalid(field, problem).hint(format!("give at most {MOST_ENTRIES}")));
    }
    let legal = |name: &str, shortest: usize| {
        let fits = (shortest..=LONGEST_NAME).contains(&name.len());
        fits && name.trim() == name && !name.chars().any(char::is_control)
    };
    let [key, value] = what;
    let mut sorted: Vec<_> = entries.iter().collect();
    sorted.sort();
    for (name, model) in sorted {
        let place = format!("{field}[\"{}\"]", shown(name));
        let hint = format!("give 1 to {LONGEST_NAME} bytes without control characters and blanks at the ends");
        if !legal(name, shortest) {
            return Err(Fault::invalid(place, format!("is not {key}")).hint(hint));
        }
        if !legal(model, 1) {
            return Err(Fault::invalid(place, format!("`{}` is not {value}", shown(model))).hint(hint));
        }
    }
    Ok(())
}

fn limits(limits: &ProviderLimits) -> Result<(), Fault> {
    within(
        "provider.limits.requests_per_second",
        limits.requests_per_second,
        1e6,
        "requests a second",
    )?;
    within(
        "provider.limits.tokens_per_second",
        limits.tokens_per_second,
        1e12,
        "tokens a second",
    )?;
    if let Some(timeout) = &limits.timeout {
        let problem = |problem: &str| {
            Fault::invalid("provider.limits.timeout", problem)
                .hint("give more than 0 and at most 3600 seconds, or leave it out")
        };
        let timeout = length(timeout).ok_or_else(|| problem("is not a length of time"))?;
        if timeout.is_zero() {
            return Err(problem("is 0: every request would fail"));
        }
        if timeout > LONGEST_TIMEOUT {
            return Err(problem("is over an hour"));
        }
    }
    Ok(())
}

/// The requested lease, if it is within bounds.
pub(crate) fn lease(lease: &prost_types::Duration, config: &ProvidersConfig) -> Result<Duration, Fault> {
    let most = config.max_lease_seconds;
    let problem = |problem: &str| {
        Fault::invalid("provider.lease", problem).hint(format!(
            "give 1 to {most} seconds, or leave it out for a provider that stays"
        ))
    };
    let lease = length(lease).ok_or_else(|| problem("is not a length of time"))?;
    if lease < Duration::from_secs(1) {
        return Err(problem("is under a second"));
    }
    if lease > Duration::from_secs(most) {
        return Err(problem("is longer than this gateway grants"));
    }
    Ok(lease)
}

fn within(field: &str, value: f64, most: f64, unit: &str) -> Result<(), Fault> {
    // NaN is outside every range.
    if (0.0..=most).contains(&value) {
        return Ok(());
    }
    Err(Fault::invalid(field, format!("{value} is out of range")).hint(format!("give 0 (none known) to {most} {unit}")))
}

/// A value shortened for an error message.
fn shown(value: &str) -> String {
    const SHOWN: usize = 80;
    match value.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.to_owned(),
    }
}

#[cfg(test)]
mod tests;
