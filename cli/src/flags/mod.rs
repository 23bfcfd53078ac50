//! The flags that set the fields of requests.
//!
//! An error of a service names the field of a request. The user typed a flag, so the command names
//! that flag instead.

mod table;
#[cfg(test)]
mod tests;

use isomer_eval::gate::ValidityLimit;

#[cfg(feature = "registry")]
pub(crate) use table::REGISTRY_RUN;
pub(crate) use table::{
    AUGMENT, CREATE_RUN, ENCODE, ENCODE_AUGMENTED, ESTIMATE, JUDGE, PLAN_RUN, RERANK, SCORE, TRANSFORM,
};

/// A field of a request, and everything below it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    /// Path without positions of list items.
    path: &'static str,
    /// The flag; `None` if no flag of the command sets the field.
    flag: Option<&'static str>,
    /// Noun for an item of the list, if its position helps to find it.
    item: Option<&'static str>,
}

/// A request that a command builds of its flags.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestFlags {
    /// Full name of the message.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests compare the fields with the message's"))]
    message: &'static str,
    fields: &'static [&'static [Field]],
}

/// The flag that sets a field of the requests, e.g. `--rule` for `spec.gate.rules[0].quantity`.
/// `None` if no flag does.
pub(crate) fn flag_of(requests: &[RequestFlags], field: &str) -> Option<String> {
    requests.iter().find_map(|request| request.flag_of(field))
}

impl RequestFlags {
    fn flag_of(&self, field: &str) -> Option<String> {
        // The limits of the gate are fields, or keys of a map.
        if let Some(key) = field.strip_prefix("spec.gate.validity[")
            && let Some(limit) = ValidityLimit::named(key.trim_end_matches(']'))
        {
            return Some(format!("--{}", limit.name().replace('_', "-")));
        }
        if let Some((own, field)) = self.declared(field) {
            let mut parts = vec![own.flag?.to_owned()];
            if let (Some(item), Some(position)) = (own.item, field.position) {
                parts.push(format!("{item} {}", position + 1));
                parts.extend(key(&field.rest).map(str::to_owned));
            }
            return Some(parts.join(": "));
        }
        // A message whose fields have flags of their own.
        let below = format!("{}.", without_positions(field));
        let flags = self.all().filter(|own| own.path.starts_with(&below));
        let flags: Vec<&str> = flags.filter_map(|own| own.flag).collect();
        (!flags.is_empty()).then(|| flags.join(", "))
    }

    fn all(&self) -> impl Iterator<Item = &'static Field> {
        self.fields.iter().flat_map(|fields| fields.iter())
    }

    /// The declaration of a field: the longest path that the field's begins with; of equal paths
    /// the first.
    fn declared(&self, field: &str) -> Option<(&'static Field, FieldPosition)> {
        let path = without_positions(field);
        let is_at = |own: &&Field| {
            let rest = path.strip_prefix(own.path);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let longest = self.all().filter(is_at).map(|own| own.path.len()).max()?;
        let own = self.all().filter(is_at).find(|own| own.path.len() == longest)?;
        let depth = own.path.split('.').count();
        let last = field.split('.').nth(depth - 1)?;
        let position = last.split_once('[').and_then(|(_, at)| at.strip_suffix(']'));
        let place = FieldPosition {
            position: position.and_then(|at| at.parse().ok()),
            rest: path[longest..].trim_start_matches('.').to_owned(),
        };
        Some((own, place))
    }
}

/// The place of a field within the declared one.
struct FieldPosition {
    /// Position in the list, from 0.
    position: Option<usize>,
    /// The path below.
    rest: String,
}

fn without_positions(field: &str) -> String {
    let names = field.split('.').map(|part| part.split('[').next().unwrap_or_default());
    names.collect::<Vec<_>>().join(".")
}

/// The key in a rule or a row for a field of its message; `None` for the whole of it.
fn key(field: &str) -> Option<&str> {
    match field {
        "" | "text" | "limit" => None,
        "quantity" => Some("of"),
        "task_type" => Some("task"),
        other => Some(other),
    }
}
