//! Parses a prompt file into a [`Prompt`], or describes the problem.

use isomer_config::spelling::nearest;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::{Delimiters, Message, Placeholder, Prompt, Purpose, Role};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    id: String,
    version: toml::Value,
    #[serde(default)]
    generators: Vec<String>,
}

impl Prompt {
    /// Parses the prompt file of an id. The error describes the problem with the file.
    pub fn parse(id: &str, file: &str) -> Result<Self, String> {
        let purpose = Purpose::of_id(id).ok_or_else(|| format!("`{id}` is not the id of a prompt"))?;
        let file = file.replace("\r\n", "\n");
        let (header, body) = file
            .strip_prefix("+++\n")
            .and_then(|rest| rest.split_once("\n+++\n"))
            .ok_or("it must start with a header between two lines of +++ (id and version)")?;
        let header: Header =
            toml::from_str(header).map_err(|error| format!("its header is not valid: {}", error.message()))?;
        let version = match header.version {
            toml::Value::String(text) => text,
            toml::Value::Integer(number) => number.to_string(),
            _ => return Err("its version must be a string or a whole number".into()),
        };
        if header.id != id {
            return Err(format!("its id is `{}` but the file is for `{id}`", header.id));
        }
        if id == purpose.name() && !header.generators.is_empty() {
            return Err(format!(
                "the default prompt is for every generator; put one for {} into a file `{id}-NAME.txt`",
                header.generators.join(", ")
            ));
        }
        if header.generators.iter().any(|pattern| pattern.trim().is_empty()) {
            return Err(
                "one of its `generators` is empty; write a generator's id, or a pattern such as *gemma-3*".into(),
            );
        }
        let body = body.trim();
        let messages = split_messages(body)?;
        check_placeholders(purpose, body, &messages)?;
        let names: Vec<_> = purpose.material().iter().map(|material| material.name()).collect();
        let last = messages.last().map_or("", |message| message.content.as_str());
        let delimiters = Delimiters::around(&names, last)?;
        Ok(Self {
            purpose,
            id: header.id,
            version,
            digest: hex::encode(Sha256::digest(body)),
            generators: header.generators,
            delimiters,
            messages,
        })
    }
}

fn check_placeholders(purpose: Purpose, body: &str, messages: &[Message]) -> Result<(), String> {
    let (last, earlier) = messages.split_last().ok_or("it has no body")?;
    for material in purpose.material() {
        let name = material.name();
        if last.role != Role::User || last.content.matches(name).count() != 1 {
            return Err(format!(
                "its last message must be the user's and hold the placeholder {name} exactly once"
            ));
        }
        if earlier.iter().any(|message| message.content.contains(name)) {
            return Err(format!("only its last message may hold the placeholder {name}"));
        }
    }
    let held: Vec<_> = placeholders(body);
    for required in purpose.required() {
        if !held
            .iter()
            .any(|held| Placeholder::at_start(held).is_some_and(|(found, _)| found == *required))
        {
            return Err(format!(
                "a prompt for {} must hold the placeholder {}",
                purpose.name(),
                required.name()
            ));
        }
    }
    let permitted: Vec<Placeholder> = [purpose.material(), purpose.required(), purpose.optional()].concat();
    for held in held {
        if Placeholder::at_start(held).is_none_or(|(found, _)| !permitted.contains(&found)) {
            let names: Vec<_> = permitted.iter().map(|placeholder| placeholder.name()).collect();
            let meant =
                nearest(held, names.iter().copied()).map_or_else(String::new, |name| format!("; did you mean {name}?"));
            return Err(format!(
                "a prompt for {} has no placeholder {held} (it has {}){meant}",
                purpose.name(),
                names.join(", ")
            ));
        }
    }
    Ok(())
}

/// Everything of the form `{name}`, with `name` of lower-case letters and underscores.
fn placeholders(body: &str) -> Vec<&str> {
    body.match_indices('{')
        .filter_map(|(at, _)| {
            let end = at + body[at..].find('}')?;
            let name = &body[at + 1..end];
            (!name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_')).then(|| &body[at..=end])
        })
        .collect()
}

fn split_messages(body: &str) -> Result<Vec<Message>, String> {
    let mut messages: Vec<Message> = Vec::new();
    for line in body.lines() {
        let role = match line.trim_end() {
            "[system]" => Some(Role::System),
            "[user]" => Some(Role::User),
            "[assistant]" => Some(Role::Assistant),
            _ => None,
        };
        match (role, messages.last_mut()) {
            (Some(role), _) => messages.push(Message {
                role,
                content: String::new(),
            }),
            (None, Some(message)) => {
                message.content.push_str(line);
                message.content.push('\n');
            }
            (None, None) => messages.push(Message {
                role: Role::User,
                content: format!("{line}\n"),
            }),
        }
    }
    for message in &mut messages {
        message.content = message.content.trim().to_owned();
        if message.content.is_empty() {
            return Err("one of its messages is empty".into());
        }
    }
    Ok(messages)
}
