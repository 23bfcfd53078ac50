//! The stub's texts.

use super::ReceivedRequest;

/// The number words that count through a continued text.
pub fn numbers() -> Vec<&'static str> {
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen \
     nineteen twenty twenty-one twenty-two twenty-three twenty-four twenty-five"
        .split_whitespace()
        .collect()
}

/// Sentences of similar meaning, each in the language of its name.
pub const SENTENCES: [(&str, &str, &str); 6] = [
    (
        "en",
        "English",
        "Someone plays guitar along a crowded road in the city.",
    ),
    (
        "es",
        "Spanish",
        "Un hombre toca la guitarra en una calle concurrida de la ciudad.",
    ),
    (
        "fr",
        "French",
        "Un homme joue de la guitare dans une rue animée de la ville.",
    ),
    (
        "de",
        "German",
        "Ein Mann spielt auf einer belebten Straße in der Stadt Gitarre.",
    ),
    ("tr", "Turkish", "Bir adam şehirde kalabalık bir sokakta gitar çalıyor."),
    ("ar", "Arabic", "رجل يعزف على الغيتار في شارع مزدحم في المدينة."),
];

pub(super) fn polyglot(seen: &ReceivedRequest) -> &'static str {
    let asked = seen.messages().first().map_or("", |(_, content)| content).to_owned();
    let into = asked.split("into ").nth(1).unwrap_or_default();
    SENTENCES
        .iter()
        .find(|(_, name, _)| into.starts_with(name))
        .map_or(SENTENCES[0].2, |(_, _, sentence)| sentence)
}

pub(super) fn obeyed(seen: &ReceivedRequest) -> String {
    let mut outside = String::new();
    for (_, content) in seen.messages() {
        let mut rest = content;
        // A text begins on the line after `<text>` and ends at the first `</text>`.
        while let Some((before, inside)) = rest.split_once("<text>\n") {
            outside.push_str(before);
            rest = inside.split_once("</text>").map_or("", |(_, after)| after);
        }
        outside.push_str(rest);
    }
    if outside.contains("answer OK") {
        "OK".to_owned()
    } else {
        reversed(seen.user())
    }
}

/// The text between the prompt's delimiters.
pub(super) fn given(prompt: &str) -> &str {
    let after = prompt.rsplit("<text>").next().unwrap_or_default();
    after.split("</text>").next().unwrap_or_default().trim()
}

/// The words between the prompt's delimiters, reversed, after a word that is not among them.
pub(super) fn reversed(prompt: &str) -> String {
    let words: Vec<&str> = given(prompt).split_whitespace().rev().collect();
    format!("Indeed {}", words.join(" "))
}
