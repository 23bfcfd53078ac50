//! An encoder's own prompt for what texts are.

use std::collections::HashMap;

use isomer_proto::encoder::v1::Encoder;

/// The last part of a role, and other names of the part `document`, as the server has them.
fn others(part: &str) -> Option<&'static [&'static str]> {
    match part.to_lowercase().as_str() {
        "query" => Some(&[]),
        "document" => Some(&["passage", "corpus"]),
        "passage" => Some(&["document", "corpus"]),
        "corpus" => Some(&["document", "passage"]),
        _ => None,
    }
}

/// The encoder's own prompt for a role; none where it has none. The whole role goes before its
/// task, and the task before its part; letter case, hyphens and underscores do not matter. These
/// are the rules of `isomer.eval.v1.EncoderPrompt`.
pub(crate) fn prompt_name(encoder: &Encoder, role: &str) -> Option<String> {
    let names = encoder.prompt_names.iter().chain(encoder.prompts.keys());
    let names: HashMap<String, &String> = names.map(|name| (plain(name), name)).collect();
    let mut wanted = vec![role];
    if let Some((task, part)) = role.rsplit_once('-')
        && !task.is_empty()
        && others(part).is_some()
    {
        wanted.extend([task, part]);
    }
    wanted.into_iter().find_map(|one| {
        let (task, part) = one.rfind('-').map_or(("", one), |dash| one.split_at(dash + 1));
        let parts = std::iter::once(part).chain(others(part).unwrap_or_default().iter().copied());
        let mut found = parts.filter_map(|part| names.get(&plain(&format!("{task}{part}"))));
        found.next().map(|name| (*name).clone())
    })
}

fn plain(name: &str) -> String {
    name.to_lowercase().replace(['-', '_'], "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_role_goes_before_its_task_and_the_task_before_its_part() {
        let with = |names: &[&str]| Encoder {
            prompt_names: names.iter().map(|name| (*name).to_owned()).collect(),
            ..Encoder::default()
        };
        for (names, role, due) in [
            (&["query", "passage"][..], "query", Some("query")),
            (&["query", "passage"], "document", Some("passage")),
            (&["query", "passage"], "Retrieval-query", Some("query")),
            (&["query", "Retrieval"], "Retrieval-query", Some("Retrieval")),
            (
                &["retrieval_query", "Retrieval"],
                "Retrieval-query",
                Some("retrieval_query"),
            ),
            (&["retrieval-corpus"], "Retrieval-document", Some("retrieval-corpus")),
            (&["query"], "sts", None),
            (&["STS"], "sts", Some("STS")),
            (&[], "query", None),
        ] {
            assert_eq!(prompt_name(&with(names), role).as_deref(), due, "{names:?} {role}");
        }
    }
}
