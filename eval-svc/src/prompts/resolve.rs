//! Chooses among several prompts for a text. Pure.

use isomer_config::spelling::nearest;

use super::{Layer, Layers, Part, PromptSelection, PromptSource, RequestPrompt};
use crate::{dataset::catalogue, task::TaskType};

/// Names of a document's prompt, in the order of sentence-transformers' `encode_document`.
const DOCUMENT: [&str; 3] = ["document", "passage", "corpus"];

/// Chooses a prompt for the texts of one part of a data set.
pub(crate) fn resolve(layers: &Layers, task: TaskType, name: &str, part: Part) -> Option<PromptSelection> {
    let chosen = layers.in_order().into_iter().find_map(|(source, layer)| {
        let (role, sent) = in_layer(layer, task, name, part)?;
        Some(PromptSelection {
            source,
            role: role.to_owned(),
            sent: sent.clone(),
        })
    });
    chosen.or_else(|| layers.fallback())
}

/// The prompt of one source: the most specific role first.
fn in_layer<'a>(layer: &'a Layer, task: TaskType, name: &str, part: Part) -> Option<(&'a str, &'a RequestPrompt)> {
    let tasks = task_names(task);
    let parts = part_names(part);
    let with_part = |before: &str| -> Vec<String> { parts.iter().map(|part| format!("{before}-{part}")).collect() };
    let roles = with_part(name)
        .into_iter()
        .chain([name.to_owned()])
        .chain(tasks.iter().flat_map(|task| with_part(task)))
        .chain(tasks.iter().map(|task| (*task).to_owned()))
        .chain(parts.iter().map(|part| (*part).to_owned()));
    roles.into_iter().find_map(|role| find(layer, &role))
}

/// The role with exactly this name, else one that differs only in letter case or punctuation.
fn find<'a>(layer: &'a Layer, role: &str) -> Option<(&'a str, &'a RequestPrompt)> {
    if let Some((own, sent)) = layer.get_key_value(role) {
        return Some((own, sent));
    }
    let wanted = folded(role);
    let found = layer.iter().find(|(own, _)| folded(own) == wanted);
    found.map(|(own, sent)| (own.as_str(), sent))
}

/// A role without letter case, hyphens, underscores and spaces.
fn folded(role: &str) -> String {
    let kept = role.chars().filter(|c| !matches!(c, '-' | '_' | ' '));
    kept.flat_map(char::to_lowercase).collect()
}

fn part_names(part: Part) -> &'static [&'static str] {
    match part {
        Part::Query => &["query"],
        Part::Document => &DOCUMENT,
        Part::Text => &[],
    }
}

/// mteb's name of a task type, then Isomer's if it differs.
fn task_names(task: TaskType) -> &'static [&'static str] {
    match task {
        TaskType::Sts => &["STS"],
        TaskType::PairClassification => &["PairClassification"],
        TaskType::Classification => &["Classification"],
        TaskType::Clustering => &["Clustering"],
        TaskType::Reranking => &["Reranking"],
        TaskType::Retrieval => &["Retrieval"],
        TaskType::Summarisation => &["Summarization", "summarisation"],
        TaskType::Bitext => &["BitextMining", "bitext"],
        TaskType::Clsd => &["clsd"],
        TaskType::GradedRanking => &["graded-ranking"],
    }
}

/// Whether a text can have this role: a part, or a task type or data set (of the catalogue or of
/// `datasets`), each of these also with a part.
pub fn is_role(role: &str, datasets: &[&str]) -> bool {
    let wanted = folded(role);
    let parts = || ["query"].into_iter().chain(DOCUMENT);
    let names = TaskType::ALL
        .into_iter()
        .flat_map(|task| task_names(task).iter().copied())
        .chain(catalogue::entries().iter().map(|entry| entry.name.as_str()))
        .chain(datasets.iter().copied())
        .map(folded);
    let with_part = |name: &String| parts().any(|part| wanted == format!("{name}{part}"));
    parts().any(|part| wanted == part) || names.into_iter().any(|name| wanted == name || with_part(&name))
}

/// The possible roles except data sets, for messages.
pub fn known_roles() -> Vec<&'static str> {
    let tasks = TaskType::ALL.map(TaskType::name);
    ["query"].into_iter().chain(DOCUMENT).chain(tasks).collect()
}

/// The prompts of an encoder that were chosen for no text. An encoder's own empty prompts, which
/// sentence-transformers writes into every folder, have no effect and are not listed.
pub(crate) fn unused(layers: &Layers, used: &[&PromptSelection]) -> Vec<(PromptSource, String)> {
    let is_used = |source: PromptSource, role: &str| {
        let mut used = used.iter();
        used.any(|chosen| chosen.source == source && chosen.role == role)
    };
    layers
        .in_order()
        .into_iter()
        .flat_map(|(source, layer)| {
            let told = layer
                .iter()
                .filter(move |(_, sent)| source != PromptSource::Encoder || sent.text() != Some(""));
            told.map(move |(role, _)| (source, role))
        })
        .filter(|(source, role)| !is_used(*source, role))
        .map(|(source, role)| (source, role.clone()))
        .collect()
}

/// Describes the problem with a role that no text can have, and how to fix it.
pub(crate) fn unknown_role(role: &str, datasets: &[&str]) -> Option<(String, String)> {
    if is_role(role, datasets) {
        return None;
    }
    let known = known_roles();
    let hint = match nearest(role, known.iter().copied().chain(datasets.iter().copied())) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!(
            "give one of {}, a data set's name, or one of these with -query or -document",
            known.join(", ")
        ),
    };
    Some((format!("`{role}` is not a role of a text"), hint))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use isomer_proto::encoder::v1::Encoder;

    use super::*;
    use crate::prompts::GivenPrompt;

    fn encoder(prompts: &[(&str, &str)]) -> Encoder {
        Encoder {
            id: "e".to_owned(),
            prompts: prompts
                .iter()
                .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
                .collect(),
            ..Encoder::default()
        }
    }

    fn own(prompts: &[(&str, &str)]) -> Layers {
        Layers::new(&encoder(prompts), &[], None)
    }

    /// Role and source of the prompt chosen for a text.
    fn chosen(layers: &Layers, task: TaskType, name: &str, part: Part) -> Option<String> {
        resolve(layers, task, name, part).map(|chosen| chosen.role)
    }

    /// The prompts of google/embeddinggemma-300m, names only; mteb's `get_prompt_name` was followed
    /// by hand for each row.
    const GEMMA: [(&str, &str); 14] = [
        ("query", "task: search result | query: "),
        ("document", "title: none | text: "),
        ("BitextMining", "task: search result | query: "),
        ("Clustering", "task: clustering | query: "),
        ("Classification", "task: classification | query: "),
        ("InstructionRetrieval", "task: code retrieval | query: "),
        ("MultilabelClassification", "task: classification | query: "),
        ("PairClassification", "task: sentence similarity | query: "),
        ("Reranking", "task: search result | query: "),
        ("Retrieval", "task: search result | query: "),
        ("Retrieval-query", "task: search result | query: "),
        ("Retrieval-document", "title: none | text: "),
        ("STS", "task: sentence similarity | query: "),
        ("Summarization", "task: summarization | query: "),
    ];

    #[test]
    fn roles_are_chosen_in_the_order_of_mteb() {
        use Part::{Document, Query, Text};
        use TaskType::{Bitext, PairClassification, Reranking, Retrieval, Sts, Summarisation};
        // Roles of the encoder; task, data set, part; the role that is chosen.
        let table = [
            // 1 data set and part, 2 data set, 3 task type and part, 4 task type, 5 part.
            (
                "N-query N Retrieval-query Retrieval query",
                Retrieval,
                "N",
                Query,
                Some("N-query"),
            ),
            ("N Retrieval-query Retrieval query", Retrieval, "N", Query, Some("N")),
            (
                "Retrieval-query Retrieval query",
                Retrieval,
                "N",
                Query,
                Some("Retrieval-query"),
            ),
            ("Retrieval query", Retrieval, "N", Query, Some("Retrieval")),
            ("query document", Retrieval, "N", Query, Some("query")),
            ("query document", Retrieval, "N", Document, Some("document")),
            ("N-query", Retrieval, "N", Document, None),
            ("query", Reranking, "N", Query, Some("query")),
            // A task without parts does not use the prompt of a part.
            ("query passage", Sts, "S", Text, None),
            ("query STS", Sts, "S", Text, Some("STS")),
            ("STS S", Sts, "S", Text, Some("S")),
            // encode_document's order of names.
            ("corpus passage document", Retrieval, "N", Document, Some("document")),
            ("corpus passage", Retrieval, "N", Document, Some("passage")),
            ("corpus", Retrieval, "N", Document, Some("corpus")),
            // Isomer's names and mteb's, with different spellings.
            ("bitext", Bitext, "N", Text, Some("bitext")),
            (
                "Summarization summarisation",
                Summarisation,
                "N",
                Text,
                Some("Summarization"),
            ),
            (
                "pair-classification",
                PairClassification,
                "N",
                Text,
                Some("pair-classification"),
            ),
            ("retrieval_QUERY", Retrieval, "N", Query, Some("retrieval_QUERY")),
            ("search_query", Retrieval, "N", Query, None),
            ("classification", PairClassification, "N", Text, None),
        ];
        for (i, (roles, task, name, part, expected)) in table.into_iter().enumerate() {
            let prompts: Vec<(&str, &str)> = roles.split(' ').map(|role| (role, "x")).collect();
            let found = chosen(&own(&prompts), task, name, part);
            assert_eq!(found.as_deref(), expected, "row {i}: {roles}");
        }
    }

    #[test]
    fn the_prompts_of_a_real_folder_go_where_mteb_puts_them() {
        let layers = own(&GEMMA);
        let found = |task, part| chosen(&layers, task, "SomeTask", part).unwrap_or_default();
        assert_eq!(found(TaskType::Retrieval, Part::Query), "Retrieval-query");
        assert_eq!(found(TaskType::Retrieval, Part::Document), "Retrieval-document");
        // mteb looks for the task type before the part, so queries and candidates get the same
        // prompt.
        assert_eq!(found(TaskType::Reranking, Part::Query), "Reranking");
        assert_eq!(found(TaskType::Reranking, Part::Document), "Reranking");
        assert_eq!(found(TaskType::Sts, Part::Text), "STS");
        assert_eq!(found(TaskType::Summarisation, Part::Text), "Summarization");
        assert_eq!(found(TaskType::Bitext, Part::Text), "BitextMining");
        assert_eq!(found(TaskType::GradedRanking, Part::Text), "");
    }

    #[test]
    fn the_request_goes_before_the_suite_and_the_suite_before_the_folder() {
        let given = |encoder: Option<&str>, role: &str, text: &str| GivenPrompt {
            encoder: encoder.map(str::to_owned),
            role: role.to_owned(),
            text: text.to_owned(),
        };
        let suite: BTreeMap<String, String> = [("query", "s "), ("document", "sd ")]
            .map(|(role, text)| (role.to_owned(), text.to_owned()))
            .into();
        let encoder = encoder(&[("Retrieval-query", "own "), ("STS", "own sts ")]);
        let layers = |request: &[GivenPrompt]| Layers::new(&encoder, request, Some(&suite));
        let text = |layers: &Layers, task, part| {
            let chosen = resolve(layers, task, "N", part).unwrap();
            (chosen.source, chosen.sent.text().unwrap().to_owned())
        };
        // A less specific role of an earlier source wins over a more specific one of a later
        // source.
        let all = layers(&[given(None, "query", "r ")]);
        assert_eq!(
            text(&all, TaskType::Retrieval, Part::Query),
            (PromptSource::Request, "r ".into())
        );
        assert_eq!(
            text(&all, TaskType::Retrieval, Part::Document),
            (PromptSource::Suite, "sd ".into())
        );
        assert_eq!(
            text(&all, TaskType::Sts, Part::Text),
            (PromptSource::Encoder, "own sts ".into())
        );
        // A prompt for this encoder takes precedence over one for all, whatever their order;
        // prompts of other encoders do not apply.
        let both = layers(&[
            given(Some("e"), "query", "mine "),
            given(None, "query", "all "),
            given(Some("f"), "document", "f "),
        ]);
        assert_eq!(
            text(&both, TaskType::Retrieval, Part::Query),
            (PromptSource::Request, "mine ".into())
        );
        assert_eq!(
            text(&both, TaskType::Retrieval, Part::Document),
            (PromptSource::Suite, "sd ".into())
        );
        // An empty prompt counts as a prompt: it requests no text.
        let none = layers(&[given(None, "sts", "")]);
        assert_eq!(
            text(&none, TaskType::Sts, Part::Text),
            (PromptSource::Request, String::new())
        );
    }

    #[test]
    fn a_misspelt_role_is_no_role() {
        for role in [
            "query",
            "passage",
            "sts",
            "STS",
            "Retrieval-document",
            "STSBenchmark",
            "NFCorpus-query",
            "mine",
            "mine-query",
        ] {
            assert!(is_role(role, &["mine"]), "{role}");
        }
        for role in ["qurey", "", "sts-qury", "mine-doc", "text"] {
            assert!(!is_role(role, &["mine"]), "{role}");
        }
        assert!(!is_role("mine", &[]));
    }

    #[test]
    fn what_nothing_gets_is_told() {
        let layers = own(&[("search_query", "a"), ("query", "b"), ("document", "")]);
        let used = resolve(&layers, TaskType::Retrieval, "N", Part::Query).unwrap();
        let left = unused(&layers, &[&used]);
        assert_eq!(left, [(PromptSource::Encoder, "search_query".to_owned())]);
    }
}
