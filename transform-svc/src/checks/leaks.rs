//! Statements of a model about its task, in place of the result.
//!
//! HTEB names markers ("Here are my reasoning", "Let me think", "I'll", "Step N:") and prefixes
//! ("Translated text:", "Summary:", …). We adopt them with two restrictions. A marker that the
//! original also has is not a leak. "I'll" is a leak only before a word about the task, because
//! "I'll go" is a good paraphrase of "I will go".

use isomer_transformations::{CATALOGUE, Declaration};

/// Markers at any position in the text.
const REASONING: &[&str] = &[
    "<think>",
    "</think>",
    "<thinking>",
    "</thinking>",
    "<reasoning>",
    "<|channel|>",
    "[begin final response]",
    "let me think",
    "let's think",
    "let me break",
    "let me analy",
    "my reasoning",
    "here is the reasoning",
    "here's the reasoning",
    "thought process",
    "chain of thought",
    "the user wants",
    "the user is asking",
    "the user asks",
    "okay, so i need to",
    "i need to rephrase",
    "i need to paraphrase",
    "i need to translate",
    "i need to summari",
    "i need to expand",
];

/// Markers at the start of the text, before a word about the task.
const PROMISES: &[&str] = &["i'll", "i will", "i am going to", "i'm going to", "let me"];
const TASK_WORDS: &[&str] = &[
    "rephrase",
    "paraphrase",
    "translate",
    "summari",
    "expand",
    "rewrite",
    "reword",
    "start by",
    "begin by",
    "provide",
    "help you",
    "elaborate",
    "shorten",
    "try to",
];

/// Opening words of a lead-in that require only a colon after the announced result.
const OPENINGS: &[&str] = &[
    "here is",
    "here's",
    "here are",
    "sure",
    "certainly",
    "of course",
    "absolutely",
    "the following is",
    "below is",
];

/// Results that a lead-in announces beside the names of prompts, also in the target languages of
/// translations.
const LABELS: &[&str] = &[
    "paraphrase",
    "paraphrased text",
    "paraphrased sentence",
    "paraphrased version",
    "paraphrased",
    "rephrased text",
    "rephrased sentence",
    "rephrased version",
    "rephrased",
    "rephrase",
    "reworded text",
    "reworded",
    "rewritten text",
    "rewritten sentence",
    "rewritten version",
    "rewritten",
    "summary",
    "summarised text",
    "summarized text",
    "summarised",
    "summarized",
    "short version",
    "shortened text",
    "shortened version",
    "translation",
    "translated text",
    "translated sentence",
    "translated",
    "expansion",
    "expanded text",
    "expanded sentence",
    "expanded version",
    "expanded",
    "longer version",
    "output",
    "answer",
    "response",
    "result",
    "text",
    "keywords",
    "spanish translation",
    "french translation",
    "german translation",
    "turkish translation",
    "arabic translation",
    "english translation",
    "spanish",
    "french",
    "german",
    "turkish",
    "arabic",
    "traducción",
    "texto traducido",
    "resumen",
    "paráfrasis",
    "traduction",
    "texte traduit",
    "résumé",
    "paraphrase en français",
    "übersetzung",
    "übersetzter text",
    "zusammenfassung",
    "umschreibung",
    "çeviri",
    "çevrilmiş metin",
    "özet",
    "الترجمة",
    "النص المترجم",
    "ترجمة",
    "الملخص",
    "ملخص",
];

/// Maximum number of characters of a lead-in: a later colon belongs to the text.
const LEAD_IN_CHARS: usize = 100;

/// Whether a text contains reasoning that its original lacks.
pub(super) fn shows_reasoning(original: &str, text: &str) -> bool {
    let (original, text) = (plain(original), plain(text));
    REASONING
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
    PROMISES
        .iter()
        .filter_map(|promise| text.strip_prefix(promise))
        .any(|rest| {
            let rest = rest.trim_start();
            TASK_WORDS.iter().any(|word| rest.starts_with(word))
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
    if LABELS.contains(&head) || prompts.any(|prompt| prompt.name.replace('_', " ") == head) {
        return Some(head.to_owned());
    }
    let announces = OPENINGS.iter().any(|opening| {
        head.strip_prefix(opening)
            .is_some_and(|rest| !rest.starts_with(char::is_alphabetic))
    }) && LABELS
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
