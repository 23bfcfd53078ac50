//! Statements of a model about its task, in place of the result.
//!
//! HTEB names markers ("Here are my reasoning", "Let me think", "I'll", "Step N:") and prefixes
//! ("Translated text:", "Summary:", …). We adopt them with two restrictions. A marker that the
//! original also has is not a leak. "I'll" is a leak only before a word about the task, because
//! "I'll go" is a good paraphrase of "I will go".

use std::sync::LazyLock;

use isomer_transformations::{CATALOGUE, Declaration};

use crate::word_lists::WordLists;

static LEAKS: LazyLock<WordLists> = LazyLock::new(|| WordLists::read(include_str!("leaks.txt")));

/// Maximum number of characters of a lead-in: a later colon belongs to the text.
const LEAD_IN_CHARS: usize = 100;

/// Whether a text contains reasoning that its original lacks.
pub(super) fn shows_reasoning(original: &str, text: &str) -> bool {
    let (original, text) = (plain(original), plain(text));
    LEAKS
        .list("reasoning")
        .iter()
        .any(|marker| text.contains(marker) && !original.contains(marker))
        || (has_numbered_step(&text) && !has_numbered_step(&original))
        || (promises(&text) && !promises(&original))
}

/// "Step 3:" at the start of a line.
fn has_numbered_step(text: &str) -> bool {
    text.lines().any(|line| {
        let line = line.trim_start_matches(['*', '#', ' ', '-']);
        line.strip_prefix("step ").is_some_and(|rest| {
            let digits = rest.chars().take_while(char::is_ascii_digit).count();
            digits > 0 && rest[digits..].trim_start_matches('*').starts_with(':')
        })
    })
}

fn promises(text: &str) -> bool {
    LEAKS
        .list("promise")
        .iter()
        .filter_map(|promise| text.strip_prefix(promise))
        .any(|rest| {
            let rest = rest.trim_start();
            LEAKS.list("task").iter().any(|word| rest.starts_with(word))
        })
}

/// Whether a text begins with a lead-in but its original does not.
pub(super) fn has_lead_in(original: &str, text: &str) -> bool {
    match lead_in(&plain(text)) {
        None => false,
        Some(found) => lead_in(&plain(original)).as_ref() != Some(&found),
    }
}

/// The words before the first colon (or line break after an opening), if they announce a result.
fn lead_in(text: &str) -> Option<String> {
    let text = text.trim_start_matches(['*', '#', '_', '"', '`', ' ', '\n']);
    let end = text
        .char_indices()
        .take(LEAD_IN_CHARS)
        .find(|(_, c)| matches!(c, ':' | '：'))
        .map(|(at, _)| at)?;
    let head = text[..end].trim_matches(['*', '_', '"', '`', ' ']);
    let mut prompts = CATALOGUE.iter().flat_map(Declaration::prompts);
    if LEAKS.list("label").contains(&head) || prompts.any(|prompt| prompt.name.replace('_', " ") == head) {
        return Some(head.to_owned());
    }
    let announces = LEAKS.list("opening").iter().any(|opening| {
        head.strip_prefix(opening)
            .is_some_and(|rest| !rest.starts_with(char::is_alphabetic))
    }) && LEAKS
        .list("label")
        .iter()
        .chain(&["sentence", "version"])
        .any(|label| head.contains(label));
    announces.then(|| head.to_owned())
}

/// Lower case, with straight apostrophes.
fn plain(text: &str) -> String {
    text.trim().to_lowercase().replace('’', "'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_of_the_file_is_read() {
        LEAKS.assert_names(&["reasoning", "promise", "task", "opening", "label"]);
    }

    #[test]
    fn the_name_of_a_prompt_is_a_label() {
        assert!(has_lead_in("A man.", "Style change: the fellow."));
        assert!(has_lead_in("A man.", "**Summarisation:** man."));
    }

    #[test]
    fn labels_are_found_in_other_languages() {
        for text in [
            "Traducción: El hombre.",
            "Übersetzung: Der Mann.",
            "Çeviri: Adam.",
            "الترجمة: الرجل",
            "Résumé : L'homme.",
        ] {
            assert!(has_lead_in("A man.", text), "{text}");
        }
    }

    #[test]
    fn a_colon_in_ordinary_text_is_no_lead_in() {
        for text in [
            "There are two rules: be kind and be quick.",
            "Here is where he lived: a small house by the sea.",
            "Surely one thing matters: text quality.",
            "At 10:30 the train leaves.",
        ] {
            assert!(!has_lead_in("x", text), "{text}");
        }
    }

    #[test]
    fn a_far_colon_belongs_to_the_text() {
        let text = format!("Sure, {} the summary: yes", "word ".repeat(30));
        assert!(!has_lead_in("x", &text));
    }

    #[test]
    fn a_step_is_one_only_with_a_number_and_a_colon() {
        assert!(shows_reasoning("x", "**Step 2**: do it"));
        assert!(!shows_reasoning("x", "Step up and do it: now"));
        assert!(!shows_reasoning("Step 1: mix.", "Step 1: stir."));
    }
}
