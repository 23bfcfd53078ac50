//! Renders messages to a prompt, with the chat template in the file.

use std::collections::HashSet;

use minijinja::{Environment, Error, ErrorKind, Value, context, syntax::SyntaxConfig};

use crate::{ChatMessage, LocalError, vocabulary::Vocabulary};

const NAME: &str = "chat";

pub(crate) struct ChatTemplate {
    environment: Environment<'static>,
    /// First and last characters of control tokens.
    edges: (HashSet<char>, HashSet<char>),
    bos: String,
    eos: String,
}

/// A rendered prompt. `guard` is inserted into every text in the messages that could be taken for a
/// control token.
#[derive(Debug, PartialEq)]
pub(crate) struct Prompt {
    pub(crate) text: String,
    pub(crate) guard: char,
}

impl ChatTemplate {
    pub(crate) fn parse(source: &str, vocabulary: &Vocabulary) -> Result<Self, LocalError> {
        let mut environment = Environment::new();
        // Rendered like Hugging Face does: Jinja with these two options, and Python's methods on
        // strings and dictionaries.
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()
            .map_err(template_error)?;
        environment.set_syntax(syntax);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |message: String| -> Result<String, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, message))
        });
        environment.add_function("strftime_now", strftime_now);
        environment
            .add_template_owned(NAME, source.to_owned())
            .map_err(template_error)?;
        Ok(Self {
            environment,
            edges: vocabulary.control_edges(),
            bos: vocabulary.bos_text().to_owned(),
            eos: vocabulary.eos_text().to_owned(),
        })
    }

    /// The prompt, up to the start of the model's answer.
    pub(crate) fn render(&self, messages: &[ChatMessage]) -> Result<Prompt, LocalError> {
        let guard = unused_character(messages)?;
        let messages: Vec<Value> = messages
            .iter()
            .map(|message| {
                context! {
                    role => self.guarded(&message.role, guard),
                    content => self.guarded(&message.content, guard),
                }
            })
            .collect();
        let text = self
            .environment
            .get_template(NAME)
            .and_then(|template| {
                template.render(context! {
                    messages,
                    add_generation_prompt => true,
                    // Some models reason in their output unless instructed otherwise (Qwen 3). Only
                    // the answer is wanted.
                    enable_thinking => false,
                    bos_token => self.bos.as_str(),
                    eos_token => self.eos.as_str(),
                })
            })
            .map_err(template_error)?;
        Ok(Prompt { text, guard })
    }

    /// Inserts the guard after every character that begins a control token and before every one
    /// that ends one.
    fn guarded(&self, text: &str, guard: char) -> String {
        let (first, last) = &self.edges;
        let mut out = String::with_capacity(text.len() + 8);
        for c in text.chars() {
            if last.contains(&c) {
                out.push(guard);
            }
            out.push(c);
            if first.contains(&c) {
                out.push(guard);
            }
        }
        out
    }
}

/// The text that a model without a template continues.
pub(crate) fn plain_prompt(messages: &[ChatMessage]) -> String {
    let contents: Vec<&str> = messages.iter().map(|message| message.content.as_str()).collect();
    contents.join("\n\n")
}

/// A private-use character that occurs in none of the messages.
fn unused_character(messages: &[ChatMessage]) -> Result<char, LocalError> {
    let used: HashSet<char> = messages
        .iter()
        .flat_map(|m| m.role.chars().chain(m.content.chars()))
        .filter(|c| *c >= '\u{E000}')
        .collect();
    ('\u{E000}'..='\u{F8FF}')
        .chain('\u{F0000}'..='\u{FFFFD}')
        .chain('\u{100000}'..='\u{10FFFD}')
        .find(|c| !used.contains(c))
        .ok_or_else(|| LocalError::Invalid {
            field: "messages",
            message: "they use every private-use character of Unicode; leave one out".to_owned(),
        })
}

/// Some templates put today's date into the system message. The clock is not read, so that equal
/// requests always give equal prompts, and the generated text for one can be cached for the other.
fn strftime_now(format: String) -> Result<String, Error> {
    let date = jiff::civil::date(2025, 1, 1);
    jiff::fmt::strtime::format(format, date.at(0, 0, 0, 0))
        .map_err(|e| Error::new(ErrorKind::InvalidOperation, e.to_string()))
}

fn template_error(e: Error) -> LocalError {
    LocalError::Template(format!("{e:#}"))
}
