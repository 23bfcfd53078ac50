//! Prompt variants: the prompts of an encoder in other words or with errors. They show how much a
//! score depends on the wording of the prompt.

use std::collections::BTreeMap;

use isomer_config::spelling::suggest;
use isomer_noise::{Channel, Dose, Language, apply};

/// A prompt variant of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptVariant {
    /// The name by which requests and reports know it.
    pub name: String,
    /// The change of the prompts.
    pub wording: Wording,
}

/// How a variant changes prompts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wording {
    Rule(Rule),
    /// Prompts by role, which take precedence over all others.
    Given(BTreeMap<String, String>),
}

/// A rule that changes a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    None,
    Synonyms,
    LowerCase,
    UpperCase,
    NoPunctuation,
    Typos,
}

/// The rules: name in requests, rule, and prompts after it, for readers.
pub const RULES: [(&str, Rule, &str); 6] = [
    ("none", Rule::None, "no prompt"),
    (
        "synonyms",
        Rule::Synonyms,
        "words of published prompts by others of the same meaning",
    ),
    ("lower_case", Rule::LowerCase, "every letter in lower case"),
    ("upper_case", Rule::UpperCase, "every letter in upper case"),
    ("no_punctuation", Rule::NoPunctuation, "without punctuation"),
    (
        "typos",
        Rule::Typos,
        "[keyboard errors](transformations.md#noise) at the dose 0.1, the same in every run",
    ),
];
/// Name of all rules together.
const ALL: &str = "all";
/// Seed of the errors, so that every run has the same ones.
const SEED: u64 = 1337;

/// Words of published prompts, and words of the same meaning.
const SYNONYMS: [(&str, &str); 20] = [
    ("query", "question"),
    ("passage", "document"),
    ("document", "text"),
    ("instruct", "task"),
    ("task", "instruction"),
    ("given", "for"),
    ("retrieve", "find"),
    ("retrieval", "lookup"),
    ("search", "lookup"),
    ("searching", "looking for"),
    ("represent", "embed"),
    ("relevant", "matching"),
    ("passages", "documents"),
    ("documents", "texts"),
    ("answer", "address"),
    ("sentence", "text"),
    ("text", "sentence"),
    ("similarity", "closeness"),
    ("classification", "categorisation"),
    ("clustering", "grouping"),
];

/// Reads names of rules and of a suite's `own` variants; `all` names every rule.
///
/// # Errors
/// The position of the first unknown or repeated name, and the problem.
pub(crate) fn parse_all(names: &[String], own: &[PromptVariant]) -> Result<Vec<PromptVariant>, (usize, String)> {
    let mut variants: Vec<PromptVariant> = Vec::new();
    for (position, name) in names.iter().enumerate() {
        let rules = RULES.into_iter().filter(|row| name == ALL || row.0 == name);
        let rules = rules.map(|(name, rule, _)| PromptVariant {
            name: name.to_owned(),
            wording: Wording::Rule(rule),
        });
        let own_ones = own.iter().filter(|variant| variant.name == *name);
        let chosen: Vec<PromptVariant> = rules.chain(own_ones.cloned()).collect();
        if chosen.is_empty() {
            let rules = RULES.iter().map(|row| row.0).chain([ALL]);
            let known = rules.chain(own.iter().map(|variant| variant.name.as_str()));
            let hint = suggest(name, &known.collect::<Vec<_>>());
            return Err((position, format!("`{name}` is an unknown prompt variant; {hint}")));
        }
        for one in chosen {
            if variants.contains(&one) {
                return Err((position, format!("`{}` is named twice", one.name)));
            }
            variants.push(one);
        }
    }
    Ok(variants)
}

pub(crate) fn is_rule(name: &str) -> bool {
    name == ALL || RULES.iter().any(|row| row.0 == name)
}

impl PromptVariant {
    /// Whether a suite gives its prompts.
    pub(crate) fn is_given(&self) -> bool {
        matches!(self.wording, Wording::Given(_))
    }

    /// Name of the variant of an encoder in a run.
    pub(crate) fn name_of(&self, encoder: &str) -> String {
        format!("{encoder}+prompt:{}", self.name)
    }
}

impl Rule {
    /// A prompt after the rule.
    pub fn reworded(self, prompt: &str) -> String {
        match self {
            Self::None => String::new(),
            Self::Synonyms => by_words(prompt, synonym),
            Self::LowerCase => prompt.to_lowercase(),
            Self::UpperCase => prompt.to_uppercase(),
            Self::NoPunctuation => prompt.chars().filter(|c| !c.is_ascii_punctuation()).collect(),
            Self::Typos => {
                let english = Language::parse("en");
                let noised = english.map(|english| apply(Channel::Keyboard, prompt, english, Dose::Moderate, SEED));
                match noised {
                    Some(Ok(noised)) => noised.text,
                    // A prompt without letters has no typing errors.
                    _ => prompt.to_owned(),
                }
            }
        }
    }
}

/// A text whose words were replaced; everything between words stays.
fn by_words(text: &str, replace: impl Fn(&str) -> String) -> String {
    let (mut out, mut word) = (String::with_capacity(text.len()), String::new());
    for c in text.chars() {
        if c.is_alphanumeric() {
            word.push(c);
        } else {
            out.push_str(&replace(&word));
            word.clear();
            out.push(c);
        }
    }
    out + &replace(&word)
}

/// A word of the same meaning, with the capital of the word.
fn synonym(word: &str) -> String {
    let Some((_, other)) = SYNONYMS.iter().find(|(one, _)| word.eq_ignore_ascii_case(one)) else {
        return word.to_owned();
    };
    match word.starts_with(|first: char| first.is_uppercase()) {
        true => other[..1].to_uppercase() + &other[1..],
        false => (*other).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_rule_changes_a_prompt_as_it_says() {
        let instruct = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: ";
        for (rule, short, long) in [
            (Rule::None, "", ""),
            (
                Rule::Synonyms,
                "question: ",
                "Task: For a web lookup question, find matching documents that address the question\nQuestion: ",
            ),
            (
                Rule::LowerCase,
                "query: ",
                "instruct: given a web search query, retrieve relevant passages that answer the query\nquery: ",
            ),
            (
                Rule::UpperCase,
                "QUERY: ",
                "INSTRUCT: GIVEN A WEB SEARCH QUERY, RETRIEVE RELEVANT PASSAGES THAT ANSWER THE QUERY\nQUERY: ",
            ),
            (
                Rule::NoPunctuation,
                "query ",
                "Instruct Given a web search query retrieve relevant passages that answer the query\nQuery ",
            ),
        ] {
            assert_eq!(rule.reworded("query: "), short, "{rule:?}");
            assert_eq!(rule.reworded(instruct), long, "{rule:?}");
        }
        let typos = Rule::Typos.reworded(instruct);
        assert_ne!(typos, instruct);
        assert_eq!(typos, Rule::Typos.reworded(instruct), "every run has the same errors");
        assert_eq!(Rule::Typos.reworded(""), "");
    }

    #[test]
    fn names_are_read_and_others_name_what_is_allowed() {
        let read = |names: &[&str]| parse_all(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(), &[]);
        assert_eq!(read(&["all"]).unwrap().len(), RULES.len());
        assert_eq!(read(&["typos", "none"]).unwrap()[1].name_of("e"), "e+prompt:none");
        let (position, message) = read(&["none", "typo"]).unwrap_err();
        assert_eq!(position, 1);
        assert!(message.contains("did you mean `typos`?"), "{message}");
        assert!(read(&["xyz"]).unwrap_err().1.contains("use one of none, "));
        assert_eq!(
            read(&["none", "all"]).unwrap_err(),
            (1, "`none` is named twice".to_owned())
        );
    }
}
