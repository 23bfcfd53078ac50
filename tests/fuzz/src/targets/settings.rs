//! Files that configure servers.

use std::collections::BTreeMap;

use isomer_all_in_one::IsomerConfig;
use isomer_registry::{document, file};
use isomer_service_kit::config::{self, ConfigError, Validate};
use isomer_transform::prompt::{Prompt, Purpose};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::input::{Input, folder, text};

/// A file of providers. A file that is read can be written, and reads the same again.
pub(super) fn provider_file(data: &[u8]) {
    let all = text(data);
    let Ok(read) = file::read(&all) else { return };
    let lines = all.lines().count().max(1);
    for one in read {
        assert!((1..=lines + 1).contains(&one.line("provider.address")));
        let _ = document::json(&one.provider);
        let Ok(written) = document::toml(&one.provider) else {
            continue;
        };
        match file::read(&written) {
            Ok(again) => {
                assert!(again.len() == 1 && document::json(&again[0].provider) == document::json(&one.provider))
            }
            Err(fault) => unreachable!("what was written cannot be read: {fault}\n{written}"),
        }
    }
}

/// A configuration file; after a line `===`, environment variables, one `NAME=VALUE` per line.
/// Every error names a field.
pub(super) fn configuration(data: &[u8]) {
    let Some(folder) = folder() else { return };
    let path = folder.path().join("isomer.toml");
    let all = text(data);
    let (written, variables) = all.split_once("\n===\n").unwrap_or((&all, ""));
    if std::fs::write(&path, written).is_err() {
        return;
    }
    let variables = variables.lines().filter_map(|line| line.split_once('='));
    let environment = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let environment: Vec<_> = environment.collect();
    let file = Some(path.as_path());
    for error in [
        config::load_from::<IsomerConfig>(file, environment.clone(), &json!({})).err(),
        config::load_from::<Shapes>(file, environment, &json!({})).err(),
    ] {
        assert!(error.is_none_or(|error| error.to_string().len() < 64 << 10));
    }
}

/// A configuration with a key of every shape. It does not refuse unknown keys itself.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Shapes {
    maybe: Option<Entry>,
    list: Vec<Entry>,
    named: BTreeMap<String, Entry>,
    newtype: Wrapped,
    pair: (u8, u8),
    text: String,
}

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
struct Entry {
    size: u32,
}

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
struct Wrapped(Entry);

impl Validate for Shapes {
    fn validate(&self) -> Result<(), ConfigError> {
        if self.newtype.0.size > 10 {
            return Err(ConfigError::new("newtype.size", "is above 10", "give at most 10"));
        }
        Ok(())
    }
}

/// A prompt file; the first letter selects the purpose. A prompt that is read can be rendered, and
/// then contains the text.
pub(super) fn prompt_file(data: &[u8]) {
    let mut input = Input(data);
    let Some(purpose) = input.choice(Purpose::all()) else {
        return;
    };
    let Ok(prompt) = Prompt::parse(purpose.name(), &text(input.0)) else {
        return;
    };
    const ORIGINAL: &str = "a {text} with {marks}";
    let messages = if purpose.judges() {
        prompt.render_pair(ORIGINAL, "another", "rewrite")
    } else {
        prompt.render(ORIGINAL, None, 3)
    };
    assert!(!messages.is_empty());
    if purpose != Purpose::JudgeFluency {
        // A space breaks up a sequence that could end the text's quotation.
        let bare = |text: &str| text.replace(' ', "");
        assert!(
            messages
                .iter()
                .any(|message| bare(&message.content).contains(&bare(ORIGINAL))),
            "the text is not in the prompt"
        );
    }
}
